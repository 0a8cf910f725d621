"""Checks of what an encoder is built for and of what it is given."""

from numbers import Integral

from torch import Tensor, nn

from sincere.checks import check_whole, is_number, shape_of
from sincere.errors import InputError, OptionError

IMAGE = ("channels", "height", "width")
LARGEST = 1000  # times the usual channels: more is a slip
WIDEST = 10**8  # of anything: a layer with so many outputs has no room on any machine
DEEPEST = 2000  # layers; the deepest residual network of He et al., 2015, has 1,202


def check_shape(encoder: str, shape: tuple[int, ...], dimensions: tuple[str, ...]) -> None:
    """The shape of one sample that an encoder is built for."""
    is_shape = isinstance(shape, (tuple, list)) and len(shape) == len(dimensions)
    if not is_shape or not all(isinstance(size, Integral) and size >= 1 for size in shape):
        came = tuple(shape) if isinstance(shape, (tuple, list)) else repr(shape)
        raise OptionError(
            f"{encoder} takes samples of shape ({', '.join(dimensions)}): got shape={came}. "
            "Give the shape of one sample, without the batch."
        )


def check_batch(
    encoder: str, inputs: Tensor, expected: tuple[int | str, ...], *, floating: bool = True, least: int = 1
) -> None:
    """A batch (b, …) of samples; a name in `expected` stands for any size from `least` on."""
    if not isinstance(inputs, Tensor):  # an encoder of somebody else's may return anything
        raise InputError(f"{encoder} takes a tensor: got {type(inputs).__name__}. An encoder must return one.")
    fits = inputs.ndim == len(expected) + 1 and all(
        isinstance(wanted, str) or size == wanted for size, wanted in zip(inputs.shape[1:], expected, strict=False)
    )
    if not fits or inputs.is_floating_point() != floating:
        kind = "floating-point" if floating else "whole numbers"
        raise InputError(
            f"{encoder} takes a batch of shape (b, {', '.join(map(str, expected))}), {kind}: "
            f"got {shape_of(inputs)}, {inputs.dtype}. Views (b, count, …) go in as views.flatten(0, 1)."
        )
    named = [wanted for wanted in expected if isinstance(wanted, str)]
    if any(inputs.shape[1 + expected.index(name)] < least for name in named):
        raise InputError(
            f"{encoder} takes a batch of shape (b, {', '.join(map(str, expected))}), {' and '.join(named)} at least "
            f"{least}: got {shape_of(inputs)}."
        )


def check_state(encoder: str, network: nn.Module) -> None:
    """Tensors alone can be saved, and the first checkpoint, after hours of training, is late to hear of others."""
    for key, value in network.state_dict().items():
        if not isinstance(value, Tensor):
            raise OptionError(
                f"{encoder} must keep its state in tensors, as a run saves nothing else: {key!r} of its state_dict is "
                f"a {type(value).__name__}. Register it as a buffer, or leave get_extra_state out."
            )


def check_size(name: str, value: object, least: int = 1, most: int = WIDEST) -> None:
    """A whole number that is large enough, and not so large that it must be a slip."""
    check_whole(name, value, least, most)


def check_multiple(name: str, value: object, channels: int) -> None:
    """A factor that multiplies numbers of channels, the least of which is `channels`."""
    if not is_number(value) or not 0 < value <= LARGEST:
        raise OptionError(f"{name} must be a number above 0 and at most {LARGEST}: got {value!r}.")
    if round(channels * value) < 1:
        raise OptionError(f"{name} must leave at least one of {channels} channels: got {value!r}.")
