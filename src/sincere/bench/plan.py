"""What is to be measured, checked before anything runs."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from sincere.bench.agreement import ALLOWED
from sincere.bench.problem import Problem
from sincere.checks import check_choice
from sincere.errors import OptionError

# Up to the size at which n×n code takes a second a step on two cores; on a GPU up to one where it does not fit.
SIZES = {"cpu": (1024, 4096), "cuda": (1024, 4096, 16_384, 65_536)}
DTYPES = {"cpu": "float32", "cuda": "bfloat16"}
SECONDS = {"cpu": 5.0, "cuda": 8.0}


@dataclass(frozen=True)
class Plan:
    """The batches, the device, and how long to time."""

    device: str
    sizes: tuple[int, ...]
    d: int
    classes: int
    dtype: str
    seconds: float  # of timing, shared by the sizes; every candidate gets three rounds whatever they take

    def problem(self, n: int) -> Problem:
        return Problem(n, self.d, self.classes, dtype=self.dtype, device=self.device)


def plan_of(
    device: str, sizes: Sequence[int] | None, *, d: int, classes: int, dtype: str | None, seconds: float | None
) -> Plan:
    """The plan with defaults of the device filled in; raises where it cannot be carried out."""
    device = _device(device)
    kind = torch.device(device).type
    sizes = SIZES[kind] if sizes is None else tuple(sizes)
    dtype = DTYPES[kind] if dtype is None else dtype
    seconds = SECONDS[kind] if seconds is None else seconds
    check_choice("dtype", dtype, ALLOWED)
    for name, value in (("d", d), ("classes", classes)):
        if value < 1:
            raise OptionError(f"{name} must be at least 1: got {value}.")
    if not sizes or min(sizes) < 2 * classes:
        raise OptionError(
            f"sizes must hold at least two embeddings of each of the {classes} classes, {2 * classes} and more: "
            f"got {list(sizes)}. Ask for larger sizes or fewer classes."
        )
    if not seconds > 0:
        raise OptionError(f"seconds must be positive: got {seconds}.")
    return Plan(device, tuple(sorted(set(sizes))), d, classes, dtype, seconds)


def _device(device: str) -> str:
    """ "auto" is the GPU where there is one."""
    if device == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    kind = torch.device(device).type
    if kind not in SIZES:
        raise OptionError(f'device must be "auto", "cpu" or "cuda", whose clocks we can read: got {device!r}.')
    if kind == "cuda" and not torch.cuda.is_available():
        raise OptionError(f'device={device!r} needs a GPU that torch can use, and it finds none: use "auto" or "cpu".')
    return device
