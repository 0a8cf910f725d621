"""Interleaved timing: every round runs every candidate once, so that a slow minute of the machine slows them all.

A figure in seconds belongs to one machine and one moment. A ratio of two candidates inside one round mostly does not,
so the ratio is what the benchmarks report: the median over rounds of (candidate / reference), with its spread.
"""

import csv
import json
import platform
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median, quantiles

import torch
from torch import Tensor

ROOT = Path(__file__).resolve().parent.parent

UNSTEADY = 1.5  # p80 over p20 from which a run says more about the machine than about the code

Candidate = Callable[[], object]
Samples = dict[str, list[float]]  # seconds of each candidate, one entry a round
Row = dict[str, object]


@dataclass(frozen=True)
class Problem:
    """The batch that every candidate gets."""

    n: int
    d: int = 128
    classes: int = 100
    seed: int = 0
    dtype: str = "float32"
    temperature: float = 0.1
    device: str = "cpu"

    def batch(self) -> tuple[Tensor, Tensor]:
        """Gaussian embeddings that require a gradient, and classes of nearly equal size in random order."""
        generator = torch.Generator().manual_seed(self.seed)
        embeddings = torch.randn(self.n, self.d, generator=generator, dtype=getattr(torch, self.dtype))
        labels = torch.arange(self.n)[torch.randperm(self.n, generator=generator)] % self.classes
        return embeddings.to(self.device).requires_grad_(), labels.to(self.device)


@dataclass(frozen=True)
class Spread:
    """The middle and the edges of what was seen over the rounds."""

    median: float
    p20: float
    p80: float

    @classmethod
    def of(cls, values: Sequence[float]) -> "Spread":
        if len(values) == 1:
            return cls(values[0], values[0], values[0])
        fifths = quantiles(values, n=5, method="inclusive")
        return cls(median(values), fifths[0], fifths[3])


@dataclass(frozen=True)
class Timing:
    """One candidate: its seconds, and its time over the reference's time in the same round."""

    name: str
    seconds: Spread
    ratio: Spread


def run_rounds(
    candidates: Mapping[str, Candidate],
    *,
    rounds: int,
    warm_up: int = 2,
    repeats: int = 1,
    device: str = "cpu",
) -> Samples:
    """Seconds per call of every candidate in every round; the `warm_up` rounds are run and dropped.

    The order turns by one place a round, so that nobody always runs behind the one that emptied the cache.
    """
    names = list(candidates)
    samples: Samples = {name: [] for name in names}
    for number in range(warm_up + rounds):
        first = number % len(names)
        for name in names[first:] + names[:first]:
            seconds = elapsed(candidates[name], repeats=repeats, device=device)
            if number >= warm_up:
                samples[name].append(seconds)
    return samples


def elapsed(candidate: Candidate, *, repeats: int, device: str) -> float:
    """Seconds per call; by events on a GPU, where a call returns before its work is done."""
    if torch.device(device).type == "cuda":
        start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        torch.cuda.synchronize(device)
        start.record()
        for _ in range(repeats):
            candidate()
        stop.record()
        torch.cuda.synchronize(device)
        return start.elapsed_time(stop) / 1000 / repeats
    begin = time.perf_counter()
    for _ in range(repeats):
        candidate()
    return (time.perf_counter() - begin) / repeats


def ratio(samples: Samples, name: str, reference: str) -> Spread:
    """Time of `name` over time of `reference`, round by round."""
    return Spread.of([mine / other for mine, other in zip(samples[name], samples[reference], strict=True)])


def timings(samples: Samples, reference: str) -> list[Timing]:
    """A summary of every candidate, in the order in which they were given."""
    return [Timing(name, Spread.of(samples[name]), ratio(samples, name, reference)) for name in samples]


def noise_in_words(samples: Samples) -> str:
    """Whether the rounds agreed well enough to be believed."""
    spreads = {name: Spread.of(values) for name, values in samples.items()}
    unsteady = [name for name, spread in spreads.items() if spread.p80 > UNSTEADY * spread.p20]
    if not unsteady:
        return f"steady: p80 is within {UNSTEADY:g} × p20 for every candidate"
    return f"UNSTEADY, run again on a quiet machine: p80 exceeds {UNSTEADY:g} × p20 for {', '.join(unsteady)}"


def forward_backward(
    loss: Callable[..., Tensor], embeddings: Tensor, labels: Tensor, **options: object
) -> Callable[[], None]:
    """A candidate: the loss's value and ∂L/∂embeddings, as in a training step."""

    def step() -> None:
        embeddings.grad = None
        loss(embeddings, labels, **options).backward()

    return step


def print_table(rows: Sequence[Row]) -> None:
    """Aligned columns: text to the left, numbers to the right."""
    if not rows:
        return
    cells = [list(rows[0])] + [[_shown(value) for value in row.values()] for row in rows]
    widths = [max(len(line[column]) for line in cells) for column in range(len(cells[0]))]
    to_left = [isinstance(value, str) for value in rows[-1].values()]
    for line in cells:
        parts = zip(line, widths, to_left, strict=True)
        print("  ".join(text.ljust(width) if left else text.rjust(width) for text, width, left in parts).rstrip())


def _shown(value: object) -> str:
    if isinstance(value, float):
        return f"{value:,.3g}" if abs(value) < 100 else f"{value:,.0f}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def timing_rows(summary: Iterable[Timing], reference: str) -> list[Row]:
    """What the printed table shows, in milliseconds."""
    return [
        {
            "candidate": timing.name,
            "median ms": timing.seconds.median * 1000,
            "p20": timing.seconds.p20 * 1000,
            "p80": timing.seconds.p80 * 1000,
            f"× {reference}": timing.ratio.median,
        }
        for timing in summary
    ]


def timing_records(benchmark: str, samples: Samples, reference: str, problem: Problem) -> list[Row]:
    """What the files hold: a candidate's figures with everything needed to judge them."""
    return [
        {
            "benchmark": benchmark,
            "candidate": timing.name,
            "rounds": len(samples[timing.name]),
            "median_s": timing.seconds.median,
            "p20_s": timing.seconds.p20,
            "p80_s": timing.seconds.p80,
            "reference": reference,
            "ratio": timing.ratio.median,
            "ratio_p20": timing.ratio.p20,
            "ratio_p80": timing.ratio.p80,
            **provenance(problem),
        }
        for timing in timings(samples, reference)
    ]


def provenance(problem: Problem) -> Row:
    """The batch, the machine, the versions and the commit."""
    on_gpu = torch.device(problem.device).type == "cuda"
    return {
        **asdict(problem),
        "processor": torch.cuda.get_device_name(problem.device) if on_gpu else cpu_name(),
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "commit": git_commit(),
    }


def cpu_name() -> str:
    """The processor's name as the system gives it."""
    information = Path("/proc/cpuinfo")
    if information.exists():
        for line in information.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def git_commit() -> str:
    """The commit that is checked out, read from the files of the repository; "unknown" outside a plain checkout."""
    directory = ROOT / ".git"
    if not (directory / "HEAD").exists():
        return "unknown"
    head = (directory / "HEAD").read_text().strip()
    if not head.startswith("ref: "):
        return head
    reference = head.removeprefix("ref: ")
    if (directory / reference).exists():
        return (directory / reference).read_text().strip()
    packed = directory / "packed-refs"
    lines = packed.read_text().splitlines() if packed.exists() else []
    return next((line.split()[0] for line in lines if line.endswith(f" {reference}")), "unknown")


def options_parser(description: str | None, *, rounds: int | None, n: int | None = None) -> ArgumentParser:
    """The options that the benchmarks share."""
    parser = ArgumentParser(description=description)
    if n is not None:
        parser.add_argument("--n", type=int, default=n, help="embeddings in the batch (default %(default)s)")
    if rounds is not None:
        parser.add_argument("--rounds", type=int, default=rounds, help="rounds that count (default %(default)s)")
    parser.add_argument("--d", type=int, default=128, help="dimensions of an embedding (default %(default)s)")
    parser.add_argument("--classes", type=int, default=100, help="classes (default %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of the random batch (default %(default)s)")
    parser.add_argument("--threads", type=int, default=2, help="CPU threads (default %(default)s)")
    parser.add_argument("--csv", type=Path, help="write the figures here, one candidate a row")
    parser.add_argument("--json", type=Path, help="write the figures here, as a list of records")
    return parser


def write_records(records: Sequence[Row], options: Namespace) -> None:
    """Write the files that the command line asked for."""
    if options.csv is not None:
        with options.csv.open("w", newline="") as file:
            writer = csv.DictWriter(file, fieldnames=list(records[0]))
            writer.writeheader()
            writer.writerows(records)
    if options.json is not None:
        options.json.write_text(json.dumps(records, indent=2) + "\n")
