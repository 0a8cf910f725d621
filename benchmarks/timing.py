"""What the benchmarks share: options, summaries, tables, files; rounds are timed by `sincere.bench.rounds`."""

import csv
import json
import platform
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import Tensor

from sincere.bench.problem import Problem
from sincere.bench.rounds import UNSTEADY, Samples, Spread, ratio, unsteady
from sincere.runs.provenance import commit_around, cpu_name

ROOT = Path(__file__).resolve().parent.parent

Row = dict[str, object]


@dataclass(frozen=True)
class Timing:
    """One candidate: its seconds, and its time over the reference's time in the same round."""

    name: str
    seconds: Spread
    ratio: Spread


def timings(samples: Samples, reference: str) -> list[Timing]:
    """A summary of every candidate, in the order in which they were given."""
    return [Timing(name, Spread.of(samples[name]), ratio(samples, name, reference)) for name in samples]


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


def noise_in_words(samples: Samples) -> str:
    """Whether the rounds agreed well enough to be believed."""
    names = unsteady(samples)
    if not names:
        return f"steady: p80 is within {UNSTEADY:g} × p20 for every candidate"
    return f"UNSTEADY, run again on a quiet machine: p80 exceeds {UNSTEADY:g} × p20 for {', '.join(names)}"


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


def git_commit() -> str:
    """The commit that is checked out, with "+" where files differ from it; "unknown" outside of git."""
    return commit_around(ROOT) or "unknown"


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
