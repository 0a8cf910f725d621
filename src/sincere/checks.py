"""Checks of what callers pass in. Each message says what must hold, what came, and what to do.

None of these reads a tensor's values except `check_finite`, so that no check makes a GPU wait.
"""

import importlib
import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from difflib import get_close_matches
from numbers import Integral, Real
from pathlib import Path
from typing import TypeGuard

import torch
from torch import Tensor

from sincere.errors import InputError, OptionError

MACHINE = "/proc/meminfo"
# Where Linux says how much memory a container may use, uses, and has lent to files that it could forget: in control
# groups of version 2, and of version 1.
CONTAINERS = (
    ("/sys/fs/cgroup", "memory.max", "memory.current", ("inactive_file", "active_file")),
    (
        "/sys/fs/cgroup/memory",
        "memory.limit_in_bytes",
        "memory.usage_in_bytes",
        ("total_inactive_file", "total_active_file"),
    ),
)
ROWS_AT_ONCE = 4096  # in the search for those that are not finite


def shape_of(tensor: Tensor) -> str:
    """The shape as a reader writes it: `(512, 128)`."""
    return str(tuple(tensor.shape))


def did_you_mean(word: object, known: Iterable[str], *, where: str = "", cutoff: float = 0.7) -> str:
    """A guess at what was meant, to be put behind a sentence; nothing where nothing is near.

    >>> did_you_mean("temprature", ["temperature", "reduction"])
    " Did you mean 'temperature'?"
    """
    close = get_close_matches(str(word), list(known), n=1, cutoff=cutoff)  # below 0.7, "width" would be "depth"
    return f" Did you mean {where + close[0]!r}?" if close else ""


def meant_beside(path: Path) -> str:
    """The same guess for a path at which nothing is: what lies beside it under a name that is nearly its own."""
    where = "" if path.parent == Path() else f"{path.parent}{os.sep}"
    with suppress(OSError, ValueError):  # no system takes a null character
        return did_you_mean(path.name, os.listdir(path.parent), where=where, cutoff=0.85)  # many end alike
    return ""


def check_choice(name: str, value: object, choices: Iterable[str]) -> None:
    """Refuse `value` unless it is one of `choices`."""
    allowed = list(choices)
    if not isinstance(value, str) or value not in allowed:
        hint = did_you_mean(value, allowed)
        raise OptionError(f"{name} must be one of {', '.join(map(repr, allowed))}: got {value!r}.{hint}")


def is_number(value: object) -> TypeGuard[float]:
    """Is it one of Python's own numbers, such as JSON can hold? True is none."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def is_whole(value: object) -> TypeGuard[int]:
    """Is it one of Python's own whole numbers, such as JSON can hold? True is none."""
    return isinstance(value, int) and not isinstance(value, bool)


def is_integral(value: object) -> TypeGuard[int]:
    """Is it a whole number of Python's or of NumPy's? True is none."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def check_whole(name: str, value: object, least: int = 1, most: int | None = None) -> None:
    """Refuse what is no whole number of Python's, or beyond its bounds."""
    if not is_whole(value) or value < least:
        raise OptionError(f"{name} must be a whole number of at least {least}: got {value!r}.")
    if most is not None and value > most:
        raise OptionError(f"{name} must be a whole number of at most {most:,}: got {value:,}.")


def check_flag(name: str, value: object) -> None:
    """Refuse what is neither True nor False: "no" would count as yes."""
    if not isinstance(value, bool):
        raise OptionError(f"{name} must be True or False: got {value!r}.")


def check_temperature(temperature: object, name: str = "temperature") -> None:
    """A temperature is a positive finite number, or a tensor with one element."""
    if isinstance(temperature, Tensor):
        if temperature.numel() != 1 or not temperature.is_floating_point():
            raise OptionError(
                f"{name} as a tensor must hold one floating-point number: "
                f"got shape {shape_of(temperature)}, {temperature.dtype}."
            )
        return
    if not is_number(temperature):
        advice = f" Use float({name})." if isinstance(temperature, Real) else ""  # such as a scalar of NumPy
        raise OptionError(f"{name} must be a number or a tensor: got {type(temperature).__name__}.{advice}")
    if not 0 < temperature < float("inf"):
        usual = "Usual values lie between 0.05 and 0.5; the papers use 0.1." if name == "temperature" else ""
        raise OptionError(f"{name} must be positive and finite: got {temperature}. {usual}".rstrip())


def check_embeddings(name: str, embeddings: object, labels: object = None) -> None:
    """Embeddings are floating-point, (n, d) or (b, v, d); `labels`, where they came along, tell a swap of the two."""
    if not isinstance(embeddings, Tensor):
        raise InputError(f"{name} must be a torch.Tensor: got {type(embeddings).__name__}. Use torch.as_tensor(...).")
    if not embeddings.is_floating_point():
        if embeddings.ndim == 1 and _could_be_embeddings(labels):
            raise InputError(
                f"{name} come first, and labels second: got {embeddings.dtype} numbers {shape_of(embeddings)} first, "
                f"which look like labels, and {labels.dtype} {shape_of(labels)} second. Swap the two."
            )
        raise InputError(f"{name} must be floating-point: got {embeddings.dtype}. Call .float() on it.")
    if embeddings.ndim not in (2, 3):
        raise InputError(
            f"{name} must have shape (n, d), or (b, v, d) for v views of b samples: got {shape_of(embeddings)}."
        )
    if embeddings.shape[-1] == 0:
        raise InputError(f"{name} must have at least one dimension per embedding: got {shape_of(embeddings)}.")


def _could_be_embeddings(tensor: object) -> TypeGuard[Tensor]:
    return isinstance(tensor, Tensor) and tensor.is_floating_point() and tensor.ndim in (2, 3)


def check_finite(name: str, tensor: Tensor) -> None:
    """Refuse NaN and infinity; reads the tensor, so it runs only when the caller asks for it.

    One look for the smallest and the largest number, which NaN spoils, is all that good numbers cost: no array of
    their size is made.
    """
    if tensor.numel() == 0 or tensor.is_meta:  # tensors without values
        return
    if bool(torch.isfinite(torch.stack(torch.aminmax(tensor.detach()))).all()):
        return
    samples = tensor.detach().unsqueeze(-1) if tensor.ndim == 1 else tensor.detach()
    bad = torch.cat([~torch.isfinite(part).flatten(1).all(dim=1) for part in torch.split(samples, ROWS_AT_ONCE)])
    rows = bad.nonzero().flatten().tolist()
    shown = ", ".join(map(str, rows[:5])) + (", …" if len(rows) > 5 else "")
    raise InputError(
        f"{name} must be finite: {len(rows)} of {tensor.shape[0]} rows hold NaN or infinity (rows {shown}). "
        "Look for an overflow in the encoder (half precision, learning rate) or in the data."
    )


def check_labels(
    name: str, labels: object, samples: int, of: str, device: torch.device, *, views: int | None = None
) -> None:
    """Class labels are integers, (samples,) or multi-hot (samples, classes), on the embeddings' device.

    `views` of embeddings (b, v, d) is v: it tells what a wrong number of labels comes from.
    """
    if not isinstance(labels, Tensor):
        raise InputError(_no_tensor_of_labels(name, labels, of))
    if labels.ndim not in (1, 2) or labels.shape[0] != samples:
        is_column = labels.ndim == 2 and labels.shape[1] == 1
        hint = " Call .squeeze(1) on it." if is_column else hint_about_views(labels, samples, of, views)
        raise InputError(
            f"{name} must hold one class per sample of {of}: expected ({samples},), or ({samples}, classes) "
            f"for multi-hot labels, got {shape_of(labels)}.{hint}"
        )
    if labels.ndim == 2 and labels.shape[1] == 0:
        raise InputError(f"{name} must have at least one class: got {shape_of(labels)}.")
    if labels.ndim == 2 and labels.shape[1] == 1 and labels.dtype != torch.bool:
        raise InputError(
            f"{name} of shape {shape_of(labels)} could be a column of class numbers or one multi-hot class: "
            "call .squeeze(1) on class numbers, .bool() on a multi-hot column."
        )
    if labels.ndim == 2 and labels.shape[1] == views and labels.dtype != torch.bool:
        raise InputError(
            f"{name} of shape {shape_of(labels)} could be class numbers of views or multi-hot rows of {views} classes. "
            f"Views share their sample's class: pass {name}[:, 0] of class numbers, call .bool() on multi-hot rows."
        )
    if labels.is_floating_point() or labels.is_complex():
        fix = (
            "Call .long() on class numbers; numbers to be learned, as in regression, are for RankNContrastLoss."
            if labels.ndim == 1
            else "Call .bool() on a multi-hot matrix, or use soft_label / SoftLabelLoss for probabilities."
        )
        raise InputError(f"{name} must be integers or booleans: got {labels.dtype}. {fix}")
    check_device(name, labels, of, device)


def _no_tensor_of_labels(name: str, labels: object, of: str) -> str:
    if labels is None:
        return (
            f"{name} must be given, one class per sample of {of}: got None. "
            "The loss that needs no labels is InfoNCELoss, of views (b, v, d)."
        )
    first = labels[0] if isinstance(labels, (list, tuple)) and labels else None
    kind = getattr(getattr(labels, "dtype", None), "kind", "")  # of NumPy and pandas: U and S are strings, O objects
    are_names = isinstance(first, (str, bytes)) or kind in ("U", "S", "O")
    number = "np.unique(labels, return_inverse=True)[1]"  # which torch.as_tensor takes, while it takes no strings
    advice = f"Number the classes: torch.as_tensor({number})." if are_names else "Use torch.as_tensor(...)."
    return f"{name} must be a torch.Tensor: got {type(labels).__name__}{' of names' if are_names else ''}. {advice}"


def hint_about_views(labels: Tensor, samples: int, of: str, views: int | None) -> str:
    """What to do where there are as many labels as only views explain; `views` is v of embeddings (b, v, d)."""
    rows = labels.shape[0] if labels.ndim in (1, 2) else 0
    if rows in (0, samples):
        return ""
    if views is None and samples == 2 * rows:
        return f" For 2 views pass {of} as ({rows}, 2, d)."
    if rows == views:
        return f" If {of} came as (v, b, d), {samples} views of {views} samples, call .transpose(0, 1) on them."
    if views is not None and rows == samples * views:
        return f" Pass one label a sample, not one a view: the {views} views of a sample share it."
    return ""


def check_class_range(name: str, least: int, largest: int, classes: int) -> None:
    """Class numbers, here the least and the largest of them, lie between 0 and classes − 1."""
    if not 0 <= least <= largest < classes:
        raise InputError(
            f"{name} must lie between 0 and {classes - 1}, as there are {classes} classes: got {least} to {largest}."
        )


def check_device(name: str, tensor: Tensor, of: str, device: torch.device) -> None:
    """Two tensors that meet in one loss live on one device."""
    if tensor.device != device:
        raise InputError(
            f"{name} must be on the device of {of}, {device}: got {tensor.device}. Call .to({str(device)!r})."
        )


def check_room(needed: int, what: str, advice: str) -> None:
    """Refuse what the machine has no memory for, before the system ends the process without a word.

    `what` needs so many bytes. Where the system does not say how much is free, nobody is refused; nor where new tensors
    are made on another device, whose memory is its own.
    """
    if torch.get_default_device().type != "cpu":
        return
    free = free_memory()
    if free is not None and needed > free:
        raise OptionError(
            f"{what} must fit into memory: {needed / 1e9:,.1f} GB are needed, and {free / 1e9:,.1f} GB are free. "
            f"{advice}"
        )


def free_memory(*, swap: bool = True) -> int | None:
    """Bytes that a process could still get: of the machine, or of the part of it that a container has.

    What was kept of files that were read is free: the system forgets it when somebody needs the room. `swap` counts the
    disk that the machine can use as memory.
    """
    found = []
    with suppress(OSError, ValueError, KeyError):
        machine = _figures(Path(MACHINE))
        found.append(1024 * (machine["MemAvailable:"] + (machine.get("SwapFree:", 0) if swap else 0)))
    for folder, limit, used, lent in CONTAINERS:
        with suppress(OSError, ValueError):  # "max" where there is no limit
            room = int(Path(folder, limit).read_text()) - int(Path(folder, used).read_text())
            kept = _figures(Path(folder, "memory.stat"))
            found.append(max(room + sum(kept.get(name, 0) for name in lent), 0))
    return min(found, default=None)


def _figures(path: Path) -> dict[str, int]:
    """A file of the system with a name and a number in each line."""
    return {words[0]: int(words[1]) for line in path.read_text().splitlines() if len(words := line.split()) > 1}


def imported_factory(name: str, what: str) -> Callable[..., object]:
    """What "package.module:factory" names; `what` it is for, an encoder or a loss, goes into the message."""
    module_name, _, attribute = name.partition(":")
    try:
        factory: Callable[..., object] = getattr(importlib.import_module(module_name), attribute)
    except ModuleNotFoundError as error:
        if error.name is None or not module_name.startswith(error.name):
            raise  # the module is there, and something that it imports is not
        raise OptionError(
            f"the {what} {name!r} names the module {module_name!r}, which Python does not find. "
            "Install it, or put its folder on PYTHONPATH."
        ) from error
    except AttributeError as error:
        raise OptionError(f"the {what} {name!r} names {attribute!r}, which {module_name!r} does not have.") from error
    return factory
