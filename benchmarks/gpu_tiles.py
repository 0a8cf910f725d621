"""Which tiles are fastest: a sweep over shapes, warps and stages of the two kernels, on a GPU.

The results are written into `statistics_tile` and `gradient_tile` of the triton backend by hand.

    python benchmarks/gpu_tiles.py --n 65536 --d 128 --dtype bfloat16
"""

import argparse

import torch
import triton
from triton.testing import do_bench

from sincere.losses.backends import triton_backend as backend
from sincere.losses.backends import triton_kernels as kernels
from sincere.losses.backends.saved import Gradients, Problem
from sincere.losses.relation import Relation


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=65536)
    parser.add_argument("--d", type=int, default=128)
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--precision", default="bfloat16", choices=["bfloat16", "float16", "tf32", "float32"])
    parser.add_argument("--unbounded", action="store_true")
    parser.add_argument("--kernels", default="statistics,gradient")
    return parser.parse_args()


def batch(n: int, d: int, classes: int) -> tuple[torch.Tensor, Relation]:
    generator = torch.Generator(device="cuda").manual_seed(0)
    z = torch.randn(n, d, device="cuda", generator=generator)
    labels = torch.arange(n, device="cuda") % classes
    everyone = torch.ones(n, dtype=torch.bool, device="cuda")
    rows = torch.nn.functional.normalize(z, dim=1) / 0.1**0.5
    return rows, Relation("classes", labels, labels, everyone, everyone, 0)


def options_to_try():
    """Shapes that fit the registers, with the warps and stages that make sense for them."""
    for BM, BN in ((64, 32), (64, 64), (64, 128), (128, 64), (128, 128)):
        for warps in (4, 8) if BM == 128 else (4,):
            for stages in (2, 3, 4):
                yield BM, BN, warps, stages


def sweep(name: str, launch, flops: float) -> None:
    """Time every configuration that compiles, and print the ten best."""
    results = []
    for BM, BN, warps, stages in options_to_try():
        try:
            tile = backend.Tile(BM, BN, warps, stages)
            milliseconds = do_bench(lambda tile=tile: launch(tile), warmup=5, rep=25, return_mode="median")
        except (triton.runtime.errors.OutOfResources, RuntimeError):
            continue
        results.append((milliseconds, tile))
    for milliseconds, tile in sorted(results, key=lambda r: r[0])[:6]:
        print(f"{name:<12}{milliseconds:9.3f} ms {flops / milliseconds / 1e9:7.0f} TFLOP/s  {tile}", flush=True)


def main() -> None:
    options = arguments()
    z, relation = batch(options.n, options.d, options.classes)
    bounded = not options.unbounded
    how = backend.Precision.named(options.precision)
    side, _ = backend.sides(z, None, relation, how)
    width, dk, do = backend.padded_width(options.d, how)
    outputs = torch.empty(5, side.rows.shape[0], device="cuda")
    common = {"D": width, "DK": dk, "BOUNDED": bounded, "PRECISION": how.input_precision, "UPCAST": False}
    inputs = (side.rows, side.rows, side.label, side.label, side.self_place, side.start, side.end, side.count)

    def statistics(tile: backend.Tile) -> None:
        kernels.statistics_kernel[(side.rows.shape[0] // tile.BM,)](
            *inputs, *outputs, 0.0, POSITIVES=False, SOFTPLUS=True, BM=tile.BM, BN=tile.BN,
            num_warps=tile.num_warps, num_stages=tile.num_stages, **common,
        )  # fmt: skip

    if "statistics" in options.kernels:
        sweep("statistics", statistics, 2.0 * options.n**2 * options.d)
    problem = Problem(z, None, relation, 0.0, bounded, options.precision)
    saved = backend.forward(problem, ("mean_softplus",))
    grads = Gradients(None, None, None, None, torch.full((options.n,), 1 / options.n, device="cuda"))
    table = backend.coefficients(saved, grads, 0.0, bounded)
    table = backend.padded(table[:, side.order].T, 0.0).T.contiguous()
    out = torch.empty(side.rows.shape, dtype=torch.float32, device="cuda")

    def gradient(tile: backend.Tile) -> None:
        kernels.gradient_kernel[(side.rows.shape[0] // tile.BM, width // do)](
            *inputs, table, table, table.shape[1], table.shape[1], out,
            SIDES="both", PUSH=False, PULL=True, DO=do, BM=tile.BM, BN=tile.BN,
            num_warps=tile.num_warps, num_stages=tile.num_stages, **common,
        )  # fmt: skip

    if "gradient" in options.kernels:
        sweep("gradient", gradient, 4.0 * options.n**2 * options.d)


if __name__ == "__main__":
    main()
