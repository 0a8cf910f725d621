"""Theory without data: what the losses lead to, computed on free points and on densities that are known.

Each function is one experiment of some seconds on one core, deterministic by its seed, and returns a frozen record:
print it for a table, `to_json` and `from_json` keep it.
"""

from sincere.theory.arrangement import Arrangement, arrangement, simplex
from sincere.theory.batch_minimisers import BatchMinimiser, BatchMinimisers, batch_minimisers
from sincere.theory.batches import (
    all_batches,
    number_of_batches,
    pairs_with_members,
    supcon_bound_over_batches,
    supcon_over_batches,
    supcon_sum,
)
from sincere.theory.cross_entropy import (
    CrossEntropyOptimum,
    cross_entropy_bound,
    cross_entropy_optimum,
    weight_radius,
)
from sincere.theory.density_ratio import DensityRatioFit, density_ratio_fit
from sincere.theory.fit_times import FitTime, FitTimes, FitTrend
from sincere.theory.gradients import CoefficientRange, GradientRanges, SinglePositive, gradient_ranges, single_positive
from sincere.theory.imbalance import ImbalanceOptimum, ImbalanceRow, imbalance_optimum
from sincere.theory.kl_bound import KlBoundCurve, KlBoundPoint, kl_bound_ceiling, kl_bound_on_gaussians
from sincere.theory.lemma2 import Lemma2Check, lemma2_by_enumeration
from sincere.theory.projection import ProjectionOptimum, ProjectionRow, projection_optimum
from sincere.theory.random_labels import RandomLabels, random_labels
from sincere.theory.regression import Estimate
from sincere.theory.repulsion import (
    RepulsionByPositives,
    RepulsionDynamics,
    RepulsionPoint,
    Trajectory,
    repulsion_by_positives,
    repulsion_dynamics,
)
from sincere.theory.similarities import SimilarityOptimum, SimilarityRow, similarity_optimum
from sincere.theory.sphere import SphereOptimum, sphere_optimum

__all__ = [
    "Arrangement",
    "BatchMinimiser",
    "BatchMinimisers",
    "CoefficientRange",
    "CrossEntropyOptimum",
    "DensityRatioFit",
    "Estimate",
    "FitTime",
    "FitTimes",
    "FitTrend",
    "GradientRanges",
    "ImbalanceOptimum",
    "ImbalanceRow",
    "KlBoundCurve",
    "KlBoundPoint",
    "Lemma2Check",
    "ProjectionOptimum",
    "ProjectionRow",
    "RandomLabels",
    "RepulsionByPositives",
    "RepulsionDynamics",
    "RepulsionPoint",
    "SimilarityOptimum",
    "SimilarityRow",
    "SinglePositive",
    "SphereOptimum",
    "Trajectory",
    "all_batches",
    "arrangement",
    "batch_minimisers",
    "cross_entropy_bound",
    "cross_entropy_optimum",
    "density_ratio_fit",
    "gradient_ranges",
    "imbalance_optimum",
    "kl_bound_ceiling",
    "kl_bound_on_gaussians",
    "lemma2_by_enumeration",
    "number_of_batches",
    "pairs_with_members",
    "projection_optimum",
    "random_labels",
    "repulsion_by_positives",
    "repulsion_dynamics",
    "similarity_optimum",
    "simplex",
    "single_positive",
    "sphere_optimum",
    "supcon_bound_over_batches",
    "supcon_over_batches",
    "supcon_sum",
    "weight_radius",
]
