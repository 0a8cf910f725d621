"""What data is, in a few letters: to see that it is what it was."""

import hashlib
from collections.abc import Iterable

import torch
from torch import Tensor

from sincere.data.labelled import LabelledData


def data_fingerprint(*parts: LabelledData) -> str:
    """A digest of every input and label."""
    return digest_of(tensor for data in parts for tensor in (data.inputs, data.labels))


def digest_of(tensors: Iterable[Tensor]) -> str:
    """Of their numbers, types and shapes."""
    digest = hashlib.blake2b(digest_size=16)
    for tensor in tensors:
        digest.update(f"{tensor.dtype}{tuple(tensor.shape)}".encode())
        digest.update(tensor.cpu().contiguous().flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()
