"""Arrays out of .npy and .npz files that somebody else made: nothing in them is run."""

from pathlib import Path

import numpy as np

from sincere.data.conversion import Array
from sincere.errors import InputError


def is_numpy_file(path: Path) -> bool:
    """By its name: `.npy` or `.npz`, in any case."""
    return path.suffix.lower() in (".npy", ".npz")


def load_arrays(path: Path) -> Array | dict[str, Array]:
    """The array of an .npy, or those of an .npz by name; Python objects are refused, as they could run code."""
    if path.stat().st_size == 0:
        raise InputError(f"{path} is empty.")
    try:
        with path.open("rb") as file:  # ours to close: NumPy leaves a broken archive open
            found = np.load(file, allow_pickle=False)
            if isinstance(found, np.ndarray):
                return found
            members = {key: found[key] for key in found.files}
    except MemoryError:
        raise
    except Exception as error:  # NumPy passes on those of zipfile, zlib and tokenize, of which no list is complete
        reason = str(error).rstrip(".")
        if "Object arrays" in reason:  # such as pandas' texts are
            raise InputError(
                f"{path} must hold arrays of numbers or text: one holds Python objects, which are never loaded. Save "
                "texts of pandas as labels.astype(str), numbers as values.astype(float)."
            ) from error
        advice = "It may be incomplete: copy or save it again"
        if "allow_pickle" in reason:  # how to load it all the same, which is not what we want to tell
            reason = "it holds pickled objects, or is no such file at all"
            advice = "Save arrays of numbers or text"
        raise InputError(
            f"{path} cannot be read: {reason}. {advice}; pickled Python objects are never loaded."
        ) from error
    return {key: member for key, member in members.items() if isinstance(member, np.ndarray)}  # and no other files
