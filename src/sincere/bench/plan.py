"""What is to be measured, checked before anything runs."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import isfinite
from numbers import Integral, Real

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
    sizes = SIZES[kind] if sizes is None else _sizes(sizes)
    dtype = DTYPES[kind] if dtype is None else dtype
    seconds = SECONDS[kind] if seconds is None else seconds
    check_choice("dtype", dtype, ALLOWED)
    for name, value in (("d", d), ("classes", classes)):
        # One class, or cosines in one dimension, leave no gradient to compare.
        if not isinstance(value, Integral) or value < 2:
            raise OptionError(f"{name} must be an integer, at least 2: got {value!r}.")
    if not sizes or min(sizes) < 2 * classes:
        raise OptionError(
            f"sizes must hold at least two embeddings of each of the {classes} classes, {2 * classes} and more: "
            f"got {list(sizes)}. Ask for larger sizes or fewer classes."
        )
    if not isinstance(seconds, Real) or not seconds > 0 or not isfinite(seconds):
        raise OptionError(f"seconds must be a positive, finite number: got {seconds!r}.")
    return Plan(device, tuple(sorted(set(sizes))), d, classes, dtype, seconds)


def _sizes(sizes: object) -> tuple[int, ...]:
    given = tuple(sizes) if isinstance(sizes, Iterable) and not isinstance(sizes, str) else None
    if given is None or not all(isinstance(n, Integral) for n in given):
        raise OptionError(f"sizes must be a list of integers, such as [1024, 4096]: got {sizes!r}.")
    return tuple(int(n) for n in given)


def _device(device: str) -> str:
    """ "auto" is the GPU where there is one."""
    if device == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        found = torch.device(device)
    except (RuntimeError, TypeError):  # no name that torch knows
        found = None
    if found is None or found.type not in SIZES:
        raise OptionError(
            'device must be "auto", "cpu", "cuda" or one GPU such as "cuda:1", whose clocks we can read: '
            f"got {device!r}."
        )
    gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if found.type == "cuda" and not gpus:
        raise OptionError(f'device={device!r} needs a GPU that torch can use, and it finds none: use "auto" or "cpu".')
    if found.type == "cuda" and (found.index or 0) >= gpus:
        raise OptionError(f'device={device!r} is not there: torch finds {gpus} GPUs, "cuda:0" to "cuda:{gpus - 1}".')
    return str(found)
