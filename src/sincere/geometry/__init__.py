"""EmbeddingSet → its shape: cosines within and between classes, simplex, collapse, spread, losses, robustness."""

from sincere.geometry.alignment_uniformity import alignment, uniformity
from sincere.geometry.cka import linear_cka
from sincere.geometry.collapse import neural_collapse
from sincere.geometry.description import describe
from sincere.geometry.detection import out_of_class
from sincere.geometry.directions import class_means
from sincere.geometry.eigenvalues import spectrum
from sincere.geometry.histograms import similarity_histograms
from sincere.geometry.loss_values import kl_bounds, loss_readings, repulsion
from sincere.geometry.margins import class_margins
from sincere.geometry.pair_similarity import similarity_by_class_pair
from sincere.geometry.record import (
    ClassMargins,
    Geometry,
    HeadRobustness,
    NeuralCollapse,
    OutOfClass,
    PairSimilarity,
    SimilarityHistograms,
    SimplexConditions,
    Spectrum,
)
from sincere.geometry.robustness import head_robustness
from sincere.geometry.simplex import simplex_conditions

__all__ = [
    "ClassMargins",
    "Geometry",
    "HeadRobustness",
    "NeuralCollapse",
    "OutOfClass",
    "PairSimilarity",
    "SimilarityHistograms",
    "SimplexConditions",
    "Spectrum",
    "alignment",
    "class_margins",
    "class_means",
    "describe",
    "head_robustness",
    "kl_bounds",
    "linear_cka",
    "loss_readings",
    "neural_collapse",
    "out_of_class",
    "repulsion",
    "similarity_by_class_pair",
    "similarity_histograms",
    "simplex_conditions",
    "spectrum",
    "uniformity",
]
