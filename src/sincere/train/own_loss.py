"""A loss of the user's own, by the name of the function or class that makes it."""

from typing import Any

from torch import nn

from sincere.checks import imported_factory
from sincere.encoders.external import made_by
from sincere.errors import OptionError


def own_loss(name: str, *, temperature: float, gather: bool, **options: Any) -> nn.Module:
    """`package.module:factory`, called as factory(temperature=…, **options)."""
    factory = imported_factory(name, "loss")
    if gather:  # rows of other processes: only a loss that knows of them can be right
        options = {**options, "gather": True}
    made = made_by(name, factory, temperature=temperature, **options)
    if not isinstance(made, nn.Module):
        raise OptionError(f"{name} must return a torch.nn.Module: got {type(made).__name__}.")
    return made
