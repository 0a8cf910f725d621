"""Fingerprints of samples, by which two models are seen to have met the same ones, and of models."""

import hashlib

from torch import Tensor, nn

from sincere.data import LabelledData
from sincere.data.fingerprint import digest_of


def samples_fingerprint(data: LabelledData) -> str:
    """A digest of the samples, after a word on the form in which they were read.

    The same samples in another form (images of another size) have another word, so that they are not taken for others.
    Texts count as they were written, before any encoder's idea of words.
    """
    if data.kind == "text" and data.shown is not None:
        digest = hashlib.blake2b(repr(data.shown).encode(), digest_size=16)
        return f"text {digest.hexdigest()}"
    shape = "×".join(map(str, data.inputs.shape[1:]))
    return f"{data.kind}-{shape} {digest_of([data.inputs])}"


def other_samples(first: str | None, second: str | None) -> bool:
    """Do two fingerprints tell that samples differ? Not where one is unknown, or of another form.

    >>> other_samples("text abc", "text abd"), other_samples("image-3×32×32 abc", "image-3×64×64 abd")
    (True, False)
    """
    if first is None or second is None or first.partition(" ")[0] != second.partition(" ")[0]:
        return False
    return first != second


def model_fingerprint(model: nn.Module) -> str:
    """A digest of a model's weights, by which embeddings of two models are told apart where their widths agree."""
    return digest_of(value for value in model.state_dict().values() if isinstance(value, Tensor))


def other_model(first: str | None, second: str | None) -> bool:
    """Do two fingerprints tell that models differ? Not where one is unknown."""
    return first is not None and second is not None and first != second
