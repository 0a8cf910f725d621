"""How fast, and in how much memory, the losses run on a GPU, beside eager code, torch.compile and a plain product.

First a gate: the kernels must agree with float64 on a small batch, or nothing is timed. Then forward + backward of each
candidate, by CUDA events: median, p20 and p80, the peak of memory beyond the inputs, TFLOP/s of 6n²d operations.

    python benchmarks/gpu_speed.py --csv benchmarks/results/gpu_speed.csv
"""

import argparse
import csv
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
import triton

import sincere.functional as SF
from plain_losses import plain_sincere
from timing import git_commit

TEMPERATURE = 0.1


def batch(n: int, d: int, classes: int, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator(device="cuda").manual_seed(0)
    z = torch.randn(n, d, device="cuda", generator=generator).to(dtype).requires_grad_()
    labels = torch.randint(0, classes, (n,), device="cuda", generator=generator)
    return z, labels


def agreement(n: int = 3000) -> dict[str, float]:
    """Relative error of the gradient against float64, by precision; stops the program where it is too large."""
    errors = {}
    for dtype, allowed in ((torch.bfloat16, 6e-3), (torch.float16, 4e-3), (torch.float32, 5e-6)):
        z, labels = batch(n, 128, 10, dtype)
        for name, loss in (("sincere", SF.sincere), ("supcon", SF.supcon)):
            # Times 4,096, as a GradScaler would: float16 could not hold the embeddings' gradient itself.
            (gradient,) = torch.autograd.grad(4096 * loss(z, labels, backend="triton"), z)
            exact = z.detach().double().requires_grad_()
            (truth,) = torch.autograd.grad(4096 * loss(exact, labels, backend="dense"), exact)
            error = ((gradient.double() - truth).norm() / truth.norm()).item()
            errors[f"{name} {dtype}"] = error
            if not error <= allowed:
                sys.exit(f"{name} in {dtype} is off by {error:.1e}, more than {allowed:.0e}: nothing is timed")
    return errors


def milliseconds(step: Callable[[], object], budget_ms: float = 400.0) -> list[float]:
    """Sorted times of single steps after warming up, as many as fit the budget, at least five.

    Steps follow one another without waiting, as in training: where the GPU has more to do than the CPU, the time is the
    GPU's alone, and the other way round.
    """
    first = time_of(step, 3)[-1]
    return sorted(time_of(step, int(min(300, max(5, budget_ms / max(first, 1e-3))))))


def time_of(step: Callable[[], object], steps: int) -> list[float]:
    marks = [torch.cuda.Event(enable_timing=True) for _ in range(steps + 1)]
    torch.cuda.synchronize()
    marks[0].record()
    for mark in marks[1:]:
        step()
        mark.record()
    torch.cuda.synchronize()
    return [start.elapsed_time(end) for start, end in zip(marks, marks[1:], strict=False)]


def peak_mib(step: Callable[[], object]) -> float:
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    step()
    torch.cuda.synchronize()
    return (torch.cuda.max_memory_allocated() - before) / 2**20


def graph_of(step: Callable[[], object]) -> Callable[[], None]:
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


def candidates(
    n: int, z: torch.Tensor, labels: torch.Tensor, options: argparse.Namespace
) -> Iterator[tuple[str, Callable[[], object]]]:
    def step_of(loss: Callable[..., torch.Tensor], **kw: object) -> Callable[[], object]:
        return lambda: torch.autograd.grad(loss(z, labels, temperature=TEMPERATURE, **kw), z)

    yield "ours SINCERE", step_of(SF.sincere)
    yield "ours SINCERE, triton", step_of(SF.sincere, backend="triton")
    yield "ours SupCon, triton", step_of(SF.supcon, backend="triton")
    if n <= 4096:
        yield "ours SINCERE, triton, CUDA graph", graph_of(step_of(SF.sincere, backend="triton"))
    if n <= options.dense_up_to:
        yield "eager SINCERE", lambda: torch.autograd.grad(plain_sincere(z.float(), labels, TEMPERATURE), z)
        if options.compile:
            torch._dynamo.reset()
            yield "compiled dense SINCERE", step_of(torch.compile(lambda *a, **k: SF.sincere(*a, backend="dense", **k)))


def measure(
    n: int, d: int, classes: int, dtype: torch.dtype, options: argparse.Namespace
) -> Iterator[dict[str, object]]:
    """One row a candidate."""
    z, labels = batch(n, d, classes, dtype)
    for name, step in candidates(n, z, labels, options):
        times = milliseconds(step)
        fifth = len(times) // 5
        middle = times[len(times) // 2]
        yield {
            "candidate": name, "n": n, "d": d, "classes": classes, "dtype": str(dtype).removeprefix("torch."),
            "ms": round(middle, 4), "p20": round(times[fifth], 4), "p80": round(times[-1 - fifth], 4),
            "extra_MiB": round(peak_mib(step), 1), "TFLOP/s": round(6.0 * n * n * d / middle / 1e9, 1),
        }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, nargs="+", default=[1024, 4096, 16384, 65536])
    parser.add_argument("--d", type=int, nargs="+", default=[128])
    parser.add_argument("--classes", type=int, nargs="+", default=[10])
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--dense-up-to", type=int, default=16384)
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--csv", type=Path)
    parser.add_argument("--commit", default=git_commit(), help="of the code, where it was copied without its history")
    options = parser.parse_args()
    errors = agreement()
    print("agreement with float64:", ", ".join(f"{name} {error:.1e}" for name, error in errors.items()))
    origin = {
        "gpu": torch.cuda.get_device_name(), "torch": torch.__version__, "triton": triton.__version__,
        "commit": options.commit, "seed": 0,
    }  # fmt: skip
    rows = []
    for d in options.d:
        for classes in options.classes:
            for n in options.n:
                for row in measure(n, d, classes, getattr(torch, options.dtype), options):
                    rows.append(row | origin)
                    print(f"{row['candidate']:<34}", *(f"{value!s:>9}" for value in list(row.values())[1:]), flush=True)
    if options.csv:
        options.csv.parent.mkdir(parents=True, exist_ok=True)
        with options.csv.open("w", newline="") as file:
            writer = csv.DictWriter(file, fieldnames=list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)


if __name__ == "__main__":
    main()
