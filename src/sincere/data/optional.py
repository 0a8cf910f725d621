"""Packages that only some readers need."""

import importlib
from typing import Any

from sincere.errors import OptionError


def bring(module: str, *, extra: str, purpose: str) -> Any:
    """Import `module`, or say which extra of ours brings it."""
    package = module.split(".")[0]
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise OptionError(
            f"{purpose} needs {package}, which cannot be imported ({error}). "
            f'Install it: pip install "sincere[{extra}]".'
        ) from error
    except (RuntimeError, OSError, AttributeError) as error:  # parts that were built for another torch
        raise OptionError(
            f"{purpose} needs {package}, which is installed but fails to import: {error}. Install versions that fit "
            "each other; a torchvision must be built for the torch that is here."
        ) from error
