"""The model that a run leaves: its weights, and beside them how to build it, with the digest that knows them again.

model.json          the description, and `weights_digest`
model.safetensors   the weights; written last, as a sign of the run's end
"""

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from sincere.errors import InputError
from sincere.runs.files import read_json, write_atomically, write_json
from sincere.runs.folder import RunFolder
from sincere.runs.tensor_files import check_no_pickle, digest_of, file_content, tensor_bytes, tensors_from_bytes

DIGEST = "weights_digest"


def save_model(folder: RunFolder, description: Mapping[str, Any], weights: Mapping[str, Tensor]) -> None:
    """Write how to build the model, then its weights."""
    content = tensor_bytes(weights, metadata={"format": "pt"})
    write_json(folder.model, {**description, DIGEST: digest_of(content)})
    write_atomically(folder.weights, content)


def model_description(folder: RunFolder) -> dict[str, Any]:
    """What `save_model` was given to say about the model."""
    return {name: value for name, value in read_json(folder.model).items() if name != DIGEST}


def load_weights(folder: RunFolder) -> dict[str, Tensor]:
    """The weights of a finished run, as it left them."""
    return tensors_from_bytes(checked_weights(folder), folder.weights)


def checked_weights(folder: RunFolder) -> bytes:
    """The file of weights, if it is the one that model.json describes, where that still has a digest to go by."""
    content = file_content(folder.weights)
    check_no_pickle(content, folder.weights)
    known = read_json(folder.model).get(DIGEST) if folder.model.exists() else None
    if known is not None and known != digest_of(content):
        raise InputError(
            f"{folder.weights} is not what {folder.model.name} beside it describes: it was changed or copied "
            "incompletely. Copy it anew, or resume the run, which writes it again from its checkpoint. "
            f"If you replaced the weights on purpose: take {DIGEST} out of {folder.model.name}, and delete "
            f"embeddings/, {folder.evaluation.name} and {folder.geometry.name}, which are of the weights before."
        )
    return content
