"""Losses that take the calls of other libraries and give their numbers: change the import, keep the code.

supcontrast      the SupCon authors' repository: `loss(features, labels, mask)`
metric_learning  pytorch-metric-learning: `loss(embeddings, labels, indices_tuple, ref_emb, ref_labels)`

Neither library needs to be installed. What is computed is ours: safe without positives, and in memory linear in the
batch unless a mask or an indices_tuple lists the pairs.
"""

from sincere.compat import metric_learning, supcontrast

__all__ = ["metric_learning", "supcontrast"]
