"""EmbeddingSet → how good it is: classifiers, retrieval, intervals, and whether a difference is real."""

from sincere.evaluate.comparison import Comparison, Difference, compare, corrected_together
from sincere.evaluate.evaluation import evaluate
from sincere.evaluate.multi_hot import LabelFigures, MultiHotEvaluation, evaluate_multi_hot
from sincere.evaluate.numbers import NumbersEvaluation, Predicted, Quantity, evaluate_numbers
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
    "LabelFigures",
    "MultiHotEvaluation",
    "NumbersEvaluation",
    "Predicted",
    "Quantity",
    "RetrievalResult",
    "compare",
    "corrected_together",
    "evaluate",
    "evaluate_multi_hot",
    "evaluate_numbers",
    "quick_figures",
]
