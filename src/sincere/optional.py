"""Packages that only parts of this library need: imported where they are used, and missed in words."""

import importlib
from textwrap import shorten
from typing import Any

import torch

from sincere.errors import OptionError


def bring(module: str, *, extra: str, purpose: str) -> Any:
    """Import `module`, or say what needs its package, and which extra of ours brings that."""
    top = module.partition(".")[0]
    package, install = top.replace("_", "-"), f'pip install "sincere[{extra}]"'
    try:
        return importlib.import_module(module)
    except (ImportError, RuntimeError, OSError, AttributeError) as error:
        if isinstance(error, ModuleNotFoundError) and error.name in (top, module):
            raise OptionError(f"{purpose} needs {package}, which is not installed: {install}.") from error
        # Something that it imports is missing, or was built for another torch: torchvision fails like this, and all
        # that import it.
        reason = shorten(str(_first_cause(error)), 400, placeholder=" …").rstrip(".:")
        raise OptionError(
            f"{purpose} needs {package}, which is installed and does not import beside torch {torch.__version__}: "
            f"{reason}. Install what fits together: {install}; a torchvision must be built for the torch that is here."
        ) from error


def _first_cause(error: BaseException) -> BaseException:
    while error.__cause__ is not None:
        error = error.__cause__
    return error
