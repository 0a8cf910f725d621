"""What evaluation and geometry take, and what they say to whoever brings something else."""

from pathlib import Path

from sincere.embeddings.embedding_set import EmbeddingSet
from sincere.errors import InputError

FROM_FILE = "sincere.embeddings.EmbeddingSet.load(path) reads one, as runs keep them in embeddings/."
FROM_ARRAYS = "sincere.embeddings.EmbeddingSet.from_arrays(embeddings, labels) makes one of tensors, arrays or lists."


def check_is_set(name: str, found: object) -> None:
    """Figures are of an EmbeddingSet; a training loop has tensors, and is told how to make one of them."""
    if not isinstance(found, EmbeddingSet):
        makes = FROM_FILE if isinstance(found, (str, Path)) else FROM_ARRAYS
        raise InputError(f"{name} must be an EmbeddingSet: got {type(found).__name__}. {makes}")
