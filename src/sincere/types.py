"""Names for the values that options can take; everybody may import this, it imports nothing of ours."""

from collections.abc import Callable
from typing import Literal, TypeAlias

from torch import Tensor

Reduction: TypeAlias = Literal["mean", "mean_all", "class_mean", "sum", "none"]
Backend: TypeAlias = Literal["auto", "dense", "tiled", "triton"]
Positives: TypeAlias = Literal["any", "jaccard", "per_label"]
SimilarityName: TypeAlias = Literal["cosine", "dot", "euclidean"]
SimilarityFunction: TypeAlias = Callable[[Tensor, Tensor], Tensor]
Similarity: TypeAlias = SimilarityName | SimilarityFunction
Kind: TypeAlias = Literal["image", "array", "text", "sound"]
