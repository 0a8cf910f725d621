"""Encoders by name."""

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import nn

from sincere.checks import check_choice, check_room, did_you_mean
from sincere.encoders.external import from_factory, from_sentence_transformers, from_timm, from_torchvision
from sincere.encoders.mlp import MLP
from sincere.encoders.resnet import LARGE, ResNet
from sincere.encoders.seeding import seeded
from sincere.encoders.shapes import IMAGE, check_shape
from sincere.encoders.short_cnn import ShortCNN
from sincere.encoders.short_resnet import ShortResNet
from sincere.encoders.small_cnn import SmallCNN
from sincere.encoders.sound import SoundEncoder
from sincere.encoders.text import TextEncoder
from sincere.encoders.wide_resnet import WideResNet
from sincere.errors import OptionError
from sincere.types import Kind

ENCODERS: dict[str, tuple[Kind, Callable[..., nn.Module]]] = {
    "resnet9": ("image", ShortResNet),
    "resnet18": ("image", partial(ResNet, 18)),
    "resnet34": ("image", partial(ResNet, 34)),
    "resnet50": ("image", partial(ResNet, 50)),
    "wide_resnet": ("image", WideResNet),
    "short_cnn": ("image", ShortCNN),
    "small_cnn": ("image", SmallCNN),
    "mlp": ("array", MLP),
    "text": ("text", TextEncoder),
    "sound": ("sound", SoundEncoder),
}
LIBRARIES: dict[str, tuple[Kind, Callable[..., nn.Module]]] = {
    "timm": ("image", from_timm),
    "torchvision": ("image", from_torchvision),
    "sentence-transformers": ("text", from_sentence_transformers),
}
TINY = 16  # pixels of the shorter side, up to which a small network is the default


def default_encoder(kind: Kind, shape: tuple[int, ...], *, gpu: bool = True) -> str:
    """The encoder for those who name none.

    Without a GPU, images below 96 pixels get a short network: a ResNet computes at their full size. From there on it
    begins by reducing them to a quarter, which makes it the cheaper one.
    """
    check_choice("kind", kind, ("image", "array", "text", "sound"))
    if kind == "image":
        check_shape("the default encoder of images", shape, IMAGE)
        side = min(shape[1:])
        return "small_cnn" if side <= TINY else "resnet18" if gpu or side >= LARGE else "short_cnn"
    return {"array": "mlp", "text": "text", "sound": "sound"}[kind]


def build_encoder(
    name: str, *, kind: Kind, shape: tuple[int, ...], generator: torch.Generator | None = None, **options: Any
) -> nn.Module:
    """An encoder with the attribute `feature_dim`; it takes a batch of views (b, …) and returns features.

    >>> build_encoder("resnet18", kind="image", shape=(3, 32, 32), width=0.25).feature_dim
    128

    Args:
        name: one of `ENCODERS`; "timm:NAME", "torchvision:NAME" or "sentence-transformers:NAME" where installed; or
            "package.module:factory" of your own, called as factory(shape, **options).
        kind: of the data.
        shape: of one view: (channels, height, width), (features,), (words, pieces), (samples,).
        generator: of the initial weights, see `seeded`; torch's global one without it.
        options: the encoder's own.
    """
    if name in ENCODERS:
        wanted, make = ENCODERS[name]
        _check_kind(name, wanted, kind)
        _check_options(name, make, options)
        _check_size(name, make, shape, options)
    with seeded(generator):
        if name in ENCODERS:
            return make(shape, **options)
        library, _, model = name.partition(":") if isinstance(name, str) else ("", "", "")
        if not library or not model:
            forms = [f"{prefix}:NAME" for prefix in LIBRARIES]
            check_choice("encoder", name, (*ENCODERS, *forms, "package.module:factory"))
        if library in LIBRARIES:
            wanted, make = LIBRARIES[library]
            _check_kind(name, wanted, kind)
            return make(model, shape, **options)
        return from_factory(name, shape, whole_numbers=kind == "text", **options)


def _check_kind(name: str, wanted: Kind, kind: Kind) -> None:
    if kind != wanted:
        raise OptionError(f"the encoder {name!r} is for data of kind {wanted!r}: got kind={kind!r}.")


def _check_size(name: str, make: Callable[..., nn.Module], shape: tuple[int, ...], options: dict[str, Any]) -> None:
    """Refuse an encoder that has no room: built without any first, on a device that only counts."""
    with torch.device("meta"):
        counted = make(shape, **options)
    tensors = (*counted.parameters(), *counted.buffers())
    weights = sum(tensor.numel() for tensor in tensors)
    size = sum(tensor.numel() * tensor.element_size() for tensor in tensors)
    check_room(size, f"the {weights:,} weights of the encoder {name!r}", "Choose a smaller one, or smaller options.")


def _check_options(name: str, make: Callable[..., nn.Module], options: dict[str, Any]) -> None:
    known = [p.name for p in inspect.signature(make).parameters.values() if p.kind is p.KEYWORD_ONLY]
    for option in options:
        if option not in known:
            takes = f"the encoder {name!r} takes {', '.join(map(repr, known))}"
            raise OptionError(f"{takes}: got {option!r}.{did_you_mean(option, known)}")
