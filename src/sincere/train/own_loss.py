"""A loss of the user's own, by the name of the function or class that makes it."""

import importlib
from collections.abc import Callable
from typing import Any

from torch import nn

from sincere.errors import OptionError


def own_loss(name: str, *, temperature: float, gather: bool, **options: Any) -> nn.Module:
    """`package.module:factory`, called as factory(temperature=…, **options)."""
    module_name, _, attribute = name.partition(":")
    try:
        factory: Callable[..., object] = getattr(importlib.import_module(module_name), attribute)
    except ModuleNotFoundError as error:
        if error.name is None or not module_name.startswith(error.name):
            raise  # the module is there, and something that it imports is not
        raise OptionError(
            f"the loss {name!r} names the module {module_name!r}, which Python does not find. "
            "Install it, or put its folder on PYTHONPATH."
        ) from error
    except AttributeError as error:
        raise OptionError(f"the loss {name!r} names {attribute!r}, which {module_name!r} does not have.") from error
    if gather:  # rows of other processes: only a loss that knows of them can be right
        options = {**options, "gather": True}
    made = factory(temperature=temperature, **options)
    if not isinstance(made, nn.Module):
        raise OptionError(f"{name} must return a torch.nn.Module: got {type(made).__name__}.")
    return made
