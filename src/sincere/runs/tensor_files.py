"""Tensors on disk as safetensors: reading one never runs code, and a pickle is refused before it is opened."""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from sincere.errors import InputError
from sincere.runs.files import write_atomically

# How torch.save (zip, or the older pickle with protocol 2 and up) and pickle.dump begin.
PICKLES = (b"PK\x03\x04", b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05")


def save_tensors(path: Path, tensors: Mapping[str, Tensor], *, metadata: Mapping[str, str] | None = None) -> None:
    """Write named tensors, whole or not at all; `metadata` goes into the file's header."""
    write_atomically(path, tensor_bytes(tensors, metadata=metadata))


def tensor_bytes(tensors: Mapping[str, Tensor], *, metadata: Mapping[str, str] | None = None) -> bytes:
    """Named tensors in the safetensors format; tensors that share memory are written once each."""
    safetensors = needs_safetensors()
    plain = {name: tensor.detach().to("cpu").contiguous().clone() for name, tensor in tensors.items()}
    content: bytes = safetensors.save(plain, metadata=dict(metadata or {}))
    return content


def load_tensors(path: Path) -> dict[str, Tensor]:
    """The tensors of a safetensors file, on the CPU."""
    return tensors_from_bytes(file_content(path), path)


def file_content(path: Path) -> bytes:
    """The bytes of a file of tensors."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise InputError(
            f"{path} does not exist: is {path.parent} the folder of a run that has come this far?"
        ) from None


def tensors_from_bytes(content: bytes, path: Path) -> dict[str, Tensor]:
    """As `load_tensors`, of bytes that were read already; `path` names them in errors."""
    check_no_pickle(content, path)
    safetensors = needs_safetensors()
    try:
        tensors: dict[str, Tensor] = safetensors.load(content)
    except Exception as error:  # the library raises its own type, and others for headers that are not UTF-8
        raise InputError(f"{path} must be a whole safetensors file: {error}.") from error
    return tensors


def check_no_pickle(content: bytes, path: Path) -> None:
    """Refuse what torch.save has written, by its first bytes."""
    if content.startswith(PICKLES):
        raise InputError(
            f"{path} must be a safetensors file: it is a pickle (torch.save), and loading one can run any code in it. "
            "Convert it where you trust it: load with torch.load(..., weights_only=True), save with safetensors."
        )


def digest_of(content: bytes) -> str:
    """A digest, to see whether a file still holds these bytes."""
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def load_into(module: torch.nn.Module, tensors: Mapping[str, Tensor], path: Path | str) -> None:
    """Give a module its weights; every name and shape must match, and whole numbers are no fractions."""
    own = module.state_dict()
    missing, extra = sorted(own.keys() - tensors.keys()), sorted(tensors.keys() - own.keys())
    both = own.keys() & tensors.keys()
    shapes = [name for name in both if own[name].shape != tensors[name].shape]
    kinds = [name for name in both if own[name].is_floating_point() != tensors[name].is_floating_point()]
    if missing or extra or shapes or kinds:
        found = [
            f"{what}: {', '.join(names[:3])}" + (" …" if len(names) > 3 else "")
            for what, names in (
                ("missing", missing),
                ("not in the model", extra),
                ("of another shape", sorted(shapes)),
                ("whole numbers for fractions, or the reverse", sorted(kinds)),
            )
            if names
        ]
        raise InputError(
            f"{path} does not fit the model ({'; '.join(found)}): was it written by another configuration?"
        )
    module.load_state_dict(dict(tensors))


def needs_safetensors() -> Any:
    """The module that weights are stored with. Whoever will save asks first: an hour of training is late to hear it."""
    try:
        import safetensors.torch
    except ImportError as error:
        raise InputError(
            'weights are stored with safetensors, which is not installed: pip install "sincere[lab]".'
        ) from error
    return safetensors.torch
