"""How fast, and in how much memory, the losses run on a GPU, beside eager code, torch.compile and plain products.

First a gate: the kernels must agree with float64 on a small batch, or nothing is timed. Then forward + backward of each
candidate, by CUDA events. Rows are added to gpu_speed.csv in a folder named after the GPU, as soon as they are there;
`readme_table.py` makes tables and a chart of the newest run. Below four minutes on an H200.

    python benchmarks/gpu_speed.py                                # everything
    python benchmarks/gpu_speed.py --quick                        # the main table of ours, without peers
    python benchmarks/gpu_speed.py --only widths                  # one table, or every candidate with that in its name
    python benchmarks/gpu_speed.py --only sets                    # the set loss with and without kernels, and SINCERE
    python benchmarks/gpu_speed.py --only balanced                # class_balanced=True with and without kernels
    python benchmarks/gpu_speed.py --out $OUT --commit f1949cc    # on a machine that has no history
"""

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import partial
from itertools import pairwise
from pathlib import Path

import torch
import triton

import gpu_results
import sincere.functional as SF
from gpu_candidates import CASES, PEERS, SEED, TEMPERATURE, Candidate, Case, Loss, Step, chosen
from gpu_tables import FLOOR_TFLOPS
from timing import git_commit

SHOWN = ("n", "d", "classes", "dtype", "steps", "ms", "p20", "p80", "extra_MiB", "TFLOP/s", "share_of_floor")
RESULTS = Path(__file__).resolve().parent / "results"


def batch(n: int, d: int, classes: int, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator(device="cuda").manual_seed(SEED)
    z = torch.randn(n, d, device="cuda", generator=generator).to(dtype).requires_grad_()
    labels = torch.randint(0, classes, (n,), device="cuda", generator=generator)
    return z, labels


def agreement(n: int = 3000) -> dict[str, float]:
    """Relative error of the gradient against float64, by precision; stops the program where it is too large."""
    errors = {}
    for dtype, matmul, allowed in (
        (torch.bfloat16, "highest", 6e-3),
        (torch.float16, "highest", 4e-3),
        (torch.float32, "highest", 5e-6),
        (torch.float32, "high", 4e-3),
    ):
        torch.set_float32_matmul_precision(matmul)
        z, labels = batch(n, 128, 10, dtype)
        exact = z.detach().double().requires_grad_()
        for name, loss, truth in checked(peers=dtype == torch.bfloat16):
            # Times 4,096, as a GradScaler would: float16 could not hold the embeddings' gradient itself.
            (found,) = torch.autograd.grad(4096 * loss(z, labels), z)
            (wanted,) = torch.autograd.grad(4096 * truth(exact, labels), exact)
            error = ((found.double() - wanted).norm() / wanted.norm()).item()
            what = f"{name} in {dtype}" + (", TF32 allowed" if matmul == "high" else "")
            errors[what] = error
            if not error <= allowed:
                sys.exit(f"{what} is off by {error:.1e}, more than {allowed:.0e}: nothing is timed")
    torch.set_float32_matmul_precision("highest")
    return errors


def checked(*, peers: bool) -> Iterator[tuple[str, Loss, Loss]]:
    """What must agree with what: kernels and peers with the dense backend, the set loss with itself without kernels,
    which float64 has none of."""
    dense = {"sincere": partial(SF.sincere, backend="dense"), "supcon": partial(SF.supcon, backend="dense")}
    for name, loss in (("sincere", SF.sincere), ("supcon", SF.supcon)):
        yield name, partial(loss, backend="triton"), dense[name]
    alike = partial(SF.sincere, class_balanced=True, reduction="class_mean")
    yield "sincere, classes alike", partial(alike, backend="triton"), partial(alike, backend="dense")
    saddle = partial(SF.set_nce, method="saddle")
    yield "set loss", partial(saddle, backend="triton"), partial(saddle, backend="tiled")
    if peers:
        for name, loss in PEERS.items():
            yield name, loss, dense["sincere" if "SINCERE" in name else "supcon"]


def milliseconds(step: Step, budget_ms: float = 400.0, *, fewest: int = 5, warm_up: int = 3) -> list[float]:
    """Sorted times of single steps after warming up, as many as fit the budget, at least the `fewest`.

    Steps follow one another without waiting, as in training: where the GPU has more to do than the CPU, the time is the
    GPU's alone, and the other way round.
    """
    first = time_of(step, warm_up)[-1]
    return sorted(time_of(step, int(min(300, max(fewest, budget_ms / max(first, 1e-3))))))


def time_of(step: Step, steps: int) -> list[float]:
    marks = [torch.cuda.Event(enable_timing=True) for _ in range(steps + 1)]
    torch.cuda.synchronize()
    marks[0].record()
    for mark in marks[1:]:
        step()
        mark.record()
    torch.cuda.synchronize()
    return [start.elapsed_time(end) for start, end in pairwise(marks)]


def peak_mib(step: Step) -> float:
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    step()
    torch.cuda.synchronize()
    return (torch.cuda.max_memory_allocated() - before) / 2**20


def graph_of(step: Step) -> Callable[[], None]:
    """The step as a CUDA graph: no Python, no launches one by one."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph.replay


def row_of(case: Case, candidate: Candidate) -> dict[str, object]:
    """One candidate on one batch. A graph's memory is that of the step it records."""
    torch.set_float32_matmul_precision(case.matmul)
    z, labels = batch(case.n, case.d, case.classes, getattr(torch, case.dtype))
    step = candidate.step(z, labels)
    memory = peak_mib(step)  # a run before the first that is timed
    pace = {"budget_ms": 0.0, "fewest": 3, "warm_up": 1} if case.slow else {}
    times = milliseconds(graph_of(step) if candidate.graph else step, **pace)
    fifth, middle = len(times) // 5, times[len(times) // 2]
    operations = 6.0 * case.n**2 * case.d
    return {
        "table": case.table, "candidate": candidate.name, "n": case.n, "d": case.d, "classes": case.classes,
        "dtype": case.dtype, "matmul_precision": case.matmul, "temperature": TEMPERATURE, "steps": len(times),
        "ms": round(middle, 4), "p20": round(times[fifth], 4), "p80": round(times[-1 - fifth], 4),
        "extra_MiB": round(memory, 1), "TFLOP/s": round(operations / middle / 1e9, 1),
        "share_of_floor": round(operations / middle / 1e9 / FLOOR_TFLOPS, 4),
    }  # fmt: skip


def measured(options: argparse.Namespace, begin: float) -> Iterator[dict[str, object]]:
    """One row a candidate and case; what does not fit the memory or the time is left out with a word."""
    plan = [(case, candidate) for case in CASES for candidate in chosen(case, options)]
    for case, candidate in sorted(plan, key=lambda pair: pair[1].compiled):  # minutes of compiling come last
        if time.perf_counter() - begin > options.limit:
            print(f"left out {candidate.name} at n = {case.n:,}: {options.limit} s are over", flush=True)
            continue
        try:
            yield row_of(case, candidate)
        except torch.cuda.OutOfMemoryError:
            print(f"left out {candidate.name} at n = {case.n:,}: out of memory", flush=True)
        torch.cuda.empty_cache()


def parsed_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="the main table of ours, without peers")
    parser.add_argument(
        "--only", metavar="NAME", help="a table (main, widths, classes, sets, balanced) or a part of a candidate"
    )
    parser.add_argument("--out", type=Path, help="folder of gpu_speed.csv (default benchmarks/results/<gpu>)")
    parser.add_argument("--commit", default=git_commit(), help="of the code, where it was copied without its history")
    parser.add_argument("--limit", type=float, default=225, help="seconds from which nothing new is started")
    parser.add_argument(
        "--compile-sizes", type=int, nargs="*", default=[16_384], help="of the compiled loss; each compiles anew"
    )
    return parser.parse_args()


def main() -> None:
    options = parsed_options()
    begin, now = time.perf_counter(), datetime.now(UTC)
    gpu = torch.cuda.get_device_name()
    file = (options.out or RESULTS / gpu.replace(" ", "-")) / "gpu_speed.csv"
    errors = agreement()
    print("agreement with float64:", ", ".join(f"{name} {error:.1e}" for name, error in errors.items()), flush=True)
    scope = f"only {options.only}" if options.only else "quick" if options.quick else gpu_results.FULL
    origin = {
        "run": now.strftime("%Y-%m-%dT%H:%M:%SZ"), "scope": scope, "gpu": gpu, "torch": torch.__version__,
        "triton": triton.__version__, "cuda": torch.version.cuda, "commit": options.commit,
        "date": now.strftime("%Y-%m-%d"), "seed": SEED,
    }  # fmt: skip
    print(f"{'':<40}", *(f"{name:>9}" for name in SHOWN))
    for row in measured(options, begin):
        gpu_results.append(file, [row | origin])
        cells = (f"{row[name]!s:>9}" for name in SHOWN)
        print(f"{time.perf_counter() - begin:4.0f} s  {row['candidate']:<32}", *cells, flush=True)
    print(f"{time.perf_counter() - begin:.0f} s; rows of run {origin['run']} are in {file}")


if __name__ == "__main__":
    main()
