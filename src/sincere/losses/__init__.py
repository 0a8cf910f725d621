"""Embeddings and labels to a loss: pairs, statistics per anchor, one file a loss, reduction, modules."""
