"""What evaluation and geometry take, and what they say to whoever brings something else."""

from sincere.embeddings.embedding_set import EmbeddingSet
from sincere.errors import InputError

FROM_ARRAYS = "sincere.embeddings.EmbeddingSet.from_arrays(embeddings, labels) makes one of tensors, arrays or lists."


def check_is_set(name: str, found: object) -> None:
    """Figures are of an EmbeddingSet; a training loop has tensors, and is told how to make one of them."""
    if not isinstance(found, EmbeddingSet):
        raise InputError(f"{name} must be an EmbeddingSet: got {type(found).__name__}. {FROM_ARRAYS}")
