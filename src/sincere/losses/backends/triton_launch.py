"""How the two kernels that look at every pair are launched: precision, tiles, constants."""

from collections.abc import Collection
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from math import log
from threading import local
from typing import Any

import torch
import triton
from torch import Tensor

from sincere.losses.backends import triton_kernels as kernels
from sincere.losses.statistics import Statistic
from sincere.losses.tf32 import allows_tf32

LN2 = log(2.0)
THREAD = local()
PAD = 128  # rows are padded to a multiple of every tile's height and width
WIDEST = 256  # embeddings up to this dimension stay in registers; wider ones are read DK at a time


@dataclass(frozen=True)
class Tile:
    """Shape and resources of a program."""

    BM: int
    BN: int
    num_warps: int
    num_stages: int


@dataclass(frozen=True)
class FusedLoss:
    """What the two kernels need to go from embeddings to a loss and back, beyond statistics and their gradient."""

    coefficients: tuple[float, ...]  # of lse_all, lse_neg, lse_pos, mean_pos, mean_softplus, log|P|, 1; needs negatives
    reduction: str
    weighted: bool
    cosine: bool
    learned: bool  # is the temperature a tensor


@dataclass(frozen=True)
class Precision:
    """How products are computed."""

    dtype: torch.dtype
    input_precision: str
    in_parts: bool = False  # three products at a time would not fit the registers whole

    @classmethod
    def named(cls, name: str, unit_rows: bool) -> "Precision":
        """That of the embeddings; for float32 torch's own setting decides between TF32 and all digits.

        Float16 keeps as many digits as TF32, at twice the speed; normalised rows cannot leave its range.
        """
        if name == "float32" and allows_tf32():
            name = "float16" if unit_rows else "tf32"
        return PRECISIONS[name]


PRECISIONS = {
    "bfloat16": Precision(torch.bfloat16, "ieee"),
    "float16": Precision(torch.float16, "ieee"),
    "tf32": Precision(torch.float32, "tf32"),
    # Three TF32 products that add up to float32's digits: plain float32 has no tensor cores, and spills.
    "float32": Precision(torch.float32, "tf32x3", in_parts=True),
}


def on_device_of(rows: Tensor) -> AbstractContextManager[None]:
    """Kernels are launched on the current device, which need not be the rows'."""
    if rows.is_cuda and rows.device.index != torch.cuda.current_device():
        return torch.cuda.device(rows.device)
    return nullcontext()


def use_before_cublas(device: torch.device) -> None:
    """Let a launch of torch's be the first thing that this thread does on a GPU.

    The thread of a backward pass is autograd's own. Where cuBLAS is the first to use the device in it, torch warns that
    there was no context, and then makes one.
    """
    if device.type == "cuda" and device not in THREAD.__dict__.setdefault("used", set()):
        torch.zeros((), device=device)
        THREAD.used.add(device)


class Launch:
    """A kernel with its grid and constants, for arguments that differ in nothing but addresses from call to call.

    What Triton looks at before every launch (types, sizes, alignments) is looked at once: on a slow CPU that is most of
    what a launch costs.
    """

    def __init__(
        self, kernel: Any, grid: tuple[int, int, int], constants: dict[str, Any], warps: int = 4, stages: int = 3
    ) -> None:
        self.kernel, self.grid, self.constants = kernel, grid, constants
        self.options = {"num_warps": warps, "num_stages": stages}
        self.values = tuple(constants.values())
        self.compiled: Any = None

    def __call__(self, *arguments: Any) -> None:
        if self.compiled is not None:
            self.compiled(*arguments, *self.values)
            return
        names = self.kernel.arg_names[len(arguments) :]
        assert names == list(self.constants), f"constants must come in the kernel's order, {names}"
        compiled = self.kernel[self.grid](*arguments, **self.constants, **self.options)
        if not interpreted():
            self.compiled = compiled[self.grid]


def padded_width(dim: int, how: Precision) -> tuple[int, int, int]:
    """Stored width; how much of it a product takes at a time; how much of it a program's gradient holds."""
    if dim > WIDEST:
        width = triton.cdiv(dim, 128) * 128
        return width, 32 if how.dtype == torch.float32 else 64, 128
    width = max(16, triton.next_power_of_2(dim))
    return width, min(width, 32) if how.in_parts else width, min(width, 128) if how.in_parts else width


def statistics_launch(
    size: int,
    dim: int,
    bounded: bool,
    wanted: Collection[Statistic],
    how: Precision,
    loss: FusedLoss | None = None,
    *,
    balanced: bool = False,
) -> Launch:
    """The statistics kernel for so many rows of a padded side, and the loss right behind it where one is given.

    balanced: negatives have a bias, as classes compete alike.
    """
    width, dk, _ = padded_width(dim, how)
    tile = statistics_tile(width, how.dtype, size)
    constants = {
        "D": width, "DK": dk, "BM": tile.BM, "BN": tile.BN, "BOUNDED": bounded, "BALANCED": balanced,
        "POSITIVES": bool({"lse_all", "lse_pos", "mean_pos"} & set(wanted)), "SOFTPLUS": "mean_softplus" in wanted,
        "PRECISION": how.input_precision, "UPCAST": interpreted(), "LOSS": None, "WEIGHTED": False, "REDUCTION": "none",
    }  # fmt: skip
    if loss is not None:
        constants |= {"LOSS": loss.coefficients, "WEIGHTED": loss.weighted, "REDUCTION": loss.reduction}
    return Launch(kernels.statistics_kernel, (size // tile.BM, 1, 1), constants, tile.num_warps, tile.num_stages)


@dataclass(frozen=True)
class Forces:
    """What decides ∂L/∂s of a pair, beside its logit and its anchors' numbers."""

    bounded: bool  # is |s| ≤ 32 known without looking at the rows
    anchors_on: str  # "row", "column" or "both"
    how: Precision
    pushes: bool  # of positives, where their log-sum-exp or mean is part of the loss
    pulls: bool
    balanced: bool = False  # have negatives a weight, as classes compete alike

    def constants(self, width: int, taken: int, tile: Tile) -> dict[str, Any]:
        """Of a kernel that computes it for rows of this width, so much of them at a time, in the kernel's order."""
        return {
            "D": width, "DK": taken, "BM": tile.BM, "BN": tile.BN, "BOUNDED": self.bounded,
            "BALANCED": self.balanced, "SIDES": self.anchors_on, "PUSH": self.pushes, "PULL": self.pulls,
            "PRECISION": self.how.input_precision, "UPCAST": interpreted(),
        }  # fmt: skip


def gradient_launch(size: int, dim: int, forces: Forces, back_to: FusedLoss | None = None) -> Launch:
    """The gradient kernel for so many rows of a padded side, back to the caller's rows where a fused loss is given."""
    width, taken, held = padded_width(dim, forces.how)
    assert held == width, "wider rows are triton_wide.py's"
    tile = gradient_tile(taken, forces.how.dtype, size)
    constants = forces.constants(width, taken, tile) | {"RETURN": False, "COSINE": False, "LEARNED": False}
    if back_to is not None:
        constants |= {"RETURN": True, "COSINE": back_to.cosine, "LEARNED": back_to.learned}
    return Launch(kernels.gradient_kernel, (size // tile.BM, 1, 1), constants, tile.num_warps, tile.num_stages)


def interpreted() -> bool:
    """Are the kernels run by Triton's interpreter, on the CPU?"""
    return not isinstance(kernels.statistics_kernel, triton.runtime.JITFunction)


def statistics_tile(width: int, dtype: torch.dtype, rows: int) -> Tile:
    """What a sweep on an H200 found best (benchmarks/gpu_tiles.py)."""
    if dtype == torch.float32 or 128 < width <= WIDEST:
        return Tile(64, 64, 4, 2)
    if rows <= 6144:
        return Tile(32, 128, 4, 3)
    if width > WIDEST:  # read part by part, as a product of matrices is, and best in tiles as large as theirs
        return Tile(128, 128, 8, 3)
    return Tile(128, 64, 8, 3) if rows > 32768 else Tile(64, 64, 4, 4)


def gradient_tile(width: int, dtype: torch.dtype, rows: int) -> Tile:
    if dtype == torch.float32:
        return Tile(64, 32, 4, 2)
    if width > 128:
        return Tile(64, 32, 4, 2)
    return Tile(32, 128, 4, 3) if rows <= 6144 else Tile(64, 128, 4, 2)
