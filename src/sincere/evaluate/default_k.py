"""How many neighbours vote, by its address among the methods of evaluation; see `sincere.nearest`."""

from sincere.nearest.default_k import default_k, k_notes, k_origin, k_words

__all__ = ["default_k", "k_notes", "k_origin", "k_words"]
