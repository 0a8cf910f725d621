"""Checks of what an encoder is built for and of what it is given."""

from torch import Tensor

from sincere.checks import shape_of
from sincere.errors import InputError, OptionError

IMAGE = ("channels", "height", "width")


def check_shape(encoder: str, shape: tuple[int, ...], dimensions: tuple[str, ...]) -> None:
    """The shape of one sample that an encoder is built for."""
    if len(shape) != len(dimensions) or min(shape) < 1:
        raise OptionError(
            f"{encoder} takes samples of shape ({', '.join(dimensions)}): got shape={tuple(shape)}. "
            "Give the shape of one sample, without the batch."
        )


def check_batch(encoder: str, inputs: Tensor, expected: tuple[int | str, ...], *, floating: bool = True) -> None:
    """A batch (b, …) of samples; a name in `expected` stands for any size."""
    fits = inputs.ndim == len(expected) + 1 and all(
        isinstance(wanted, str) or size == wanted for size, wanted in zip(inputs.shape[1:], expected, strict=False)
    )
    if not fits or inputs.is_floating_point() != floating:
        kind = "floating-point" if floating else "whole numbers"
        raise InputError(
            f"{encoder} takes a batch of shape (b, {', '.join(map(str, expected))}), {kind}: "
            f"got {shape_of(inputs)}, {inputs.dtype}. Views (b, count, …) go in as views.flatten(0, 1)."
        )


def check_whole(name: str, value: object, least: int = 1) -> None:
    """A whole number that is large enough."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise OptionError(f"{name} must be a whole number of at least {least}: got {value!r}.")
