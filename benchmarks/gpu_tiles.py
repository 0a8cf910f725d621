"""Which tiles are fastest: a sweep over shapes, warps and stages of the two kernels that look at every pair, on a GPU.

The results are written into `statistics_tile` and `gradient_tile` of backends/triton_launch.py, and for embeddings of
more than 256 dimensions into `pair_tile` of backends/triton_wide.py, by hand.

    python benchmarks/gpu_tiles.py --n 1024 4096 16384 65536 --d 128 --dtype bfloat16
"""

import argparse
import multiprocessing
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor

import torch
from triton.testing import do_bench

from sincere.losses.backends import triton_fused, triton_launch, triton_wide
from sincere.losses.backends.fused import Plan
from sincere.losses.statistics import Combination

TILES = [
    (16, 64, 4, 3), (16, 128, 4, 3), (32, 64, 4, 3), (32, 128, 4, 2), (32, 128, 4, 3), (64, 32, 4, 2), (64, 64, 4, 2),
    (64, 64, 4, 3), (64, 64, 4, 4), (64, 128, 4, 2), (64, 128, 4, 3), (128, 64, 8, 3), (128, 128, 8, 2),
    (128, 128, 8, 3), (128, 128, 8, 4),
]  # fmt: skip
Job = tuple[str, int, str, tuple[int, int, int, int]]


def launcher(
    n: int, dtype: str, d: int, classes: int, kernel: str, shape: tuple[int, int, int, int]
) -> Callable[[], None]:
    """One launch of a kernel with this tile, on a batch that the fused forward pass has prepared."""
    generator = torch.Generator(device="cuda").manual_seed(0)
    rows = torch.randn(n, d, device="cuda", generator=generator).to(getattr(torch, dtype))
    labels = torch.randint(0, classes, (n,), device="cuda", generator=generator)
    plan = Plan(Combination(mean_softplus=1), "mean", True, True, 1, -1, False)
    tile = triton_launch.Tile(*shape)
    chosen = triton_launch.statistics_tile, triton_launch.gradient_tile, triton_wide.pair_tile
    program, (result, workspace) = triton_fused.forward(rows, 0.1, labels, None, plan)
    try:
        triton_launch.statistics_tile = triton_launch.gradient_tile = triton_wide.pair_tile = lambda *_: tile
        candidate = triton_fused.Program(plan, n, d, rows.dtype, learned=False)
    finally:
        triton_launch.statistics_tile, triton_launch.gradient_tile, triton_wide.pair_tile = chosen
    ordered, places, numbers = program.pieces(workspace, False)
    size, gradient, one = program.size, torch.empty_like(rows), torch.ones((), device="cuda")
    if kernel == "statistics":
        return lambda: (
            places[4 * size + 1].zero_(),
            candidate.statistics(
                ordered, ordered, places, places, numbers, labels, labels, result, size, 4 * size, 0.0, 1, -1, n
            ),
        )
    if isinstance(candidate.gradient, triton_wide.WideGradient):
        out = torch.empty((size, program.width), device="cuda")
        return lambda: candidate.gradient(ordered, ordered, places, places, numbers, numbers, out, 4 * size)
    return lambda: candidate.gradient(
        ordered, ordered, places, places, numbers, numbers, gradient, rows, numbers[9 * size :], one, gradient, numbers,
        size, size, 4 * size, 0.1, d, n, d,
    )  # fmt: skip


def compiles(job: Job) -> str | None:
    """Compile in a process of its own, so that a sweep uses all cores; why not, where it does not."""
    dtype, d, kernel, shape = job
    try:
        launcher(256, dtype, d, 10, kernel, shape)()
        torch.cuda.synchronize()
    except Exception as error:  # out of registers or shared memory: a tile that does not fit is an answer too
        return str(error).splitlines()[0]
    return None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, nargs="+", default=[65536])
    parser.add_argument("--d", type=int, default=128)
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--dtype", default="bfloat16", choices=["bfloat16", "float16", "float32"])
    options = parser.parse_args()
    jobs: list[Job] = [
        (options.dtype, options.d, kernel, shape) for kernel in ("statistics", "gradient") for shape in TILES
    ]
    with ProcessPoolExecutor(12, mp_context=multiprocessing.get_context("spawn")) as pool:
        refusals = dict(zip(jobs, pool.map(compiles, jobs), strict=True))
    for n in options.n:
        for kernel, products in (("statistics", 2), ("gradient", 4)):
            times = []
            for job in jobs:
                if job[2] == kernel and refusals[job] is None:
                    step = launcher(n, options.dtype, options.d, options.classes, kernel, job[3])
                    times.append((do_bench(step, warmup=10, rep=40, return_mode="median"), job[3]))
            for milliseconds, shape in sorted(times)[:5]:
                rate = products * n * n * options.d / milliseconds / 1e9
                print(f"{n:>9} {kernel:<11}{milliseconds:9.4f} ms {rate:6.0f} TFLOP/s  {shape}", flush=True)
    for job, reason in refusals.items():
        if reason:
            print(f"does not fit: {job[2]} {job[3]}: {reason}")


if __name__ == "__main__":
    main()
