"""EmbeddingSet → how good it is: classifiers, retrieval, intervals, and whether a difference is real."""

from sincere.evaluate.comparison import Comparison, Difference, compare, corrected_together
from sincere.evaluate.evaluation import evaluate
from sincere.evaluate.options import EvaluationOptions
from sincere.evaluate.quick import quick_figures
from sincere.evaluate.record import ClassifierResult, Estimate, Evaluation, RetrievalResult

__all__ = [
    "ClassifierResult",
    "Comparison",
    "Difference",
    "Estimate",
    "Evaluation",
    "EvaluationOptions",
    "RetrievalResult",
    "compare",
    "corrected_together",
    "evaluate",
    "quick_figures",
]
