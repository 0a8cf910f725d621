"""What was tried for the kernels' inner loops and did not pay, kept so that it can be tried again on another GPU.

The loop over negatives alone, at n rows of 128 dimensions: as it is; with half of every tile's exponentials by a
polynomial on the FMA units; with tensor descriptors (TMA) for the columns; and the symmetric half, where one tile of
e^s serves its rows and its columns, whose sums go to an array of n·(blocks/2) floats that another pass would add up.

    python benchmarks/gpu_variants.py --n 65536 --csv benchmarks/results/NVIDIA-H200/gpu_variants.csv
"""

import argparse
import csv
import multiprocessing
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import torch
import triton
import triton.language as tl
from triton.testing import do_bench
from triton.tools.tensor_descriptor import TensorDescriptor

from sincere.losses.backends.triton_tiles import halves
from timing import git_commit

D = 128
ROUND = tl.constexpr(12582912.0)  # 1.5·2^23: adding it leaves the nearest integer in the low bits
VARIANTS = [
    ("as it is", "loop", 0, 0),
    ("polynomial", "loop", 1, 0),
    ("descriptors", "loop", 0, 1),
    ("symmetric", "half", 0, 0),
]
TILES = [(64, 64, 4, 3), (128, 64, 8, 3), (128, 64, 4, 3), (256, 64, 4, 2)]


@triton.jit
def polynomial_exp2(x):
    """2^x to 3e-6, by a fourth-degree polynomial on the fraction and an addition to the exponent's bits."""
    whole = x + ROUND
    f = x - (whole - ROUND)
    p = 0.009570101834611502 * f + 0.055917860313376526
    p = p * f + 0.2402474482975394
    p = p * f + 0.6931218147378095
    p = p * f + 0.9999992614451424
    shifted = whole.to(tl.int32, bitcast=True) << 23
    return (p.to(tl.int32, bitcast=True) + shifted).to(tl.float32, bitcast=True)


@triton.jit
def columns_of(ptr, descriptor, j, BN: tl.constexpr, D: tl.constexpr, DESCRIPTORS: tl.constexpr):
    if DESCRIPTORS:
        c = descriptor.load([j, 0])
    else:
        c = tl.load(ptr + tl.cast(j, tl.int64) * D + tl.arange(0, BN)[:, None] * D + tl.arange(0, D)[None, :])
    return c


@triton.jit
def loop_kernel(
    ptr, descriptor, sum_ptr, part_ptr, n,
    D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, POLYNOMIAL: tl.constexpr, DESCRIPTORS: tl.constexpr,
):  # fmt: skip
    """Σ_j e^{s_ij} over all columns."""
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    a = tl.load(ptr + rows[:, None] * D + tl.arange(0, D)[None, :])
    total = tl.zeros([BM], tl.float32)
    for j in range(0, n, BN):
        t = tl.dot(a, tl.trans(columns_of(ptr, descriptor, j, BN, D, DESCRIPTORS)))
        if POLYNOMIAL:
            left, right = halves(t, BM, BN)
            total += tl.sum(tl.exp2(left) + polynomial_exp2(right), axis=1)
        else:
            total += tl.sum(tl.exp2(t), axis=1)
    tl.store(sum_ptr + rows, total)


@triton.jit
def half_kernel(
    ptr, descriptor, sum_ptr, part_ptr, n,
    D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, POLYNOMIAL: tl.constexpr, DESCRIPTORS: tl.constexpr,
):  # fmt: skip
    """The same from the half of the tiles that lie within n/2 columns behind the rows, around the end."""
    block = tl.program_id(0)
    rows = block * BM + tl.arange(0, BM)
    a = tl.load(ptr + rows[:, None] * D + tl.arange(0, D)[None, :])
    total = tl.zeros([BM], tl.float32)
    first = (block + 1) * BM
    for step in range(0, n // 2, BN):
        j = first + step
        j = tl.where(j < n, j, j - n)
        e = tl.exp2(tl.dot(a, tl.trans(columns_of(ptr, descriptor, j, BN, D, DESCRIPTORS))))
        total += tl.sum(e, axis=1)
        slot = part_ptr + tl.cast(step // BM, tl.int64) * n
        tl.store(slot + j + tl.arange(0, BN), tl.sum(e, axis=0))
    tl.store(sum_ptr + rows, total)


def launcher(n: int, variant: tuple[str, str, int, int], tile: tuple[int, int, int, int]) -> Callable[[], object]:
    _, kind, polynomial, descriptors = variant
    BM, BN, warps, stages = tile
    generator = torch.Generator(device="cuda").manual_seed(0)
    rows = torch.nn.functional.normalize(torch.randn(n, D, device="cuda", generator=generator), dim=1)
    rows = (rows * (10 * 1.4426950408889634) ** 0.5).bfloat16()
    descriptor = TensorDescriptor.from_tensor(rows, [BN, D]) if descriptors else None
    kernel = loop_kernel if kind == "loop" else half_kernel
    parts = torch.empty((n // BM // 2, n) if kind == "half" else 1, device="cuda")
    sums = torch.empty(n, device="cuda")
    return lambda: kernel[(n // BM,)](
        rows, descriptor, sums, parts, n, D=D, BM=BM, BN=BN, POLYNOMIAL=polynomial, DESCRIPTORS=descriptors,
        num_warps=warps, num_stages=stages,
    )  # fmt: skip


def compiles(job: tuple[tuple[str, str, int, int], tuple[int, int, int, int]]) -> bool:
    try:
        launcher(1024, *job)()
        torch.cuda.synchronize()
    except Exception:  # a tile that does not fit is left out
        return False
    return True


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, nargs="+", default=[16384, 65536])
    parser.add_argument("--csv", type=Path)
    parser.add_argument("--commit", default=git_commit())
    options = parser.parse_args()
    jobs = [(variant, tile) for variant in VARIANTS for tile in TILES]
    with ProcessPoolExecutor(12, mp_context=multiprocessing.get_context("spawn")) as pool:
        fits = list(pool.map(compiles, jobs))
    origin = {
        "gpu": torch.cuda.get_device_name(), "torch": torch.__version__, "triton": triton.__version__,
        "commit": options.commit, "date": datetime.now(UTC).isoformat(timespec="seconds"),
    }  # fmt: skip
    rows = []
    for n in options.n:
        for (variant, tile), fit in zip(jobs, fits, strict=True):
            if fit:
                milliseconds = do_bench(launcher(n, variant, tile), warmup=10, rep=40, return_mode="median")
                row = {"variant": variant[0], "n": n, "tile": "x".join(map(str, tile)), "ms": round(milliseconds, 4)}
                rows.append(row | origin)
                print(*row.values(), sep="\t", flush=True)
    if options.csv:
        options.csv.parent.mkdir(parents=True, exist_ok=True)
        with options.csv.open("w", newline="") as file:
            writer = csv.DictWriter(file, fieldnames=list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)


if __name__ == "__main__":
    main()
