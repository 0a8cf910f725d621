"""Digests of data, by which it is seen to be what it was."""

import hashlib
from collections.abc import Iterable

import torch
from torch import Tensor

from sincere.data.labelled import LabelledData


def data_fingerprint(*parts: LabelledData) -> str:
    """A digest of every input and label."""
    return digest_of(tensor for data in parts for tensor in (data.inputs, data.labels))


def digest_of(tensors: Iterable[Tensor]) -> str:
    """A digest of tensors: of their numbers, types and shapes, in this order."""
    digest = hashlib.blake2b(digest_size=16)
    for tensor in tensors:
        digest.update(f"{tensor.dtype}{tuple(tensor.shape)}".encode())
        digest.update(tensor.cpu().contiguous().flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()
