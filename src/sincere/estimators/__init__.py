"""scikit-learn estimators for arrays. Importing this package needs scikit-learn, so nothing else of ours imports it."""

from importlib.util import find_spec

if find_spec("sklearn") is None:
    raise ImportError('sincere.estimators needs scikit-learn, which is not installed: pip install "sincere[lab]".')

from sincere.estimators.classifier import ContrastiveClassifier
from sincere.estimators.transformer import ContrastiveTransformer

__all__ = ["ContrastiveClassifier", "ContrastiveTransformer"]
