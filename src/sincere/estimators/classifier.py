"""`ContrastiveClassifier`: arrays → classes by way of an embedding, as a scikit-learn classifier."""

import warnings
from typing import Any, Literal, TypeAlias

import numpy as np
import torch
from sklearn.base import ClassifierMixin  # type: ignore[import-untyped]
from torch import Tensor

from sincere.checks import check_choice, check_temperature, is_whole
from sincere.defaults import usual_defaults
from sincere.errors import OptionError
from sincere.estimators.fitting import LossName
from sincere.estimators.transformer import Array, ContrastiveTransformer, Output, as_python
from sincere.nearest.class_means import class_mean_scores, class_means
from sincere.nearest.default_k import default_k
from sincere.nearest.neighbours import nearest, vote

Rule: TypeAlias = Literal["knn", "class_means"]


class ContrastiveClassifier(ClassifierMixin, ContrastiveTransformer):  # type: ignore[misc]
    """A `ContrastiveTransformer` that also classifies, by the training samples that are nearest in its embedding.

    >>> from sklearn.datasets import load_iris
    >>> x, y = load_iris(return_X_y=True)
    >>> model = ContrastiveClassifier(epochs=30, random_state=0).fit(x[::2], y[::2])
    >>> model.score(x[1::2], y[1::2]) > 0.9
    True

    Args:
        rule: `"knn"`: the classes of the nearest training samples, each with weight e^(cosine/temperature).
            `"class_means"`: the nearest class mean; keeps one vector a class.
        neighbours: that vote, of `"knn"`. None lets the classes decide, as in `sincere.evaluate`: 20, or fewer where
            classes are small and further neighbours would outvote them. More than there are training samples are all
            of them, with a warning.

    All others are those of `ContrastiveTransformer`.

    Attributes:
        neighbours_: how many vote: as many as were given, or as the classes decided.
        rule_: that of the fit; another one needs another fit.
        output_: that of the fit, in which samples are near each other; `transform` alone follows another.
    """

    def __init__(
        self,
        *,
        rule: Rule = "knn",
        neighbours: int | None = None,
        loss: LossName = "sincere",
        temperature: float = 0.1,
        output: Output = "embeddings",
        dim: int = 64,
        width: int = 256,
        depth: int = 3,
        views: int = 2,
        noise: float = 0.1,
        mask: float = 0.05,
        epochs: int = 50,
        batch_size: int = 256,
        learning_rate: float = 0.003,
        weight_decay: float = 0.01,
        device: str = "auto",
        verbose: bool | int = False,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        super().__init__(
            loss=loss,
            temperature=temperature,
            output=output,
            dim=dim,
            width=width,
            depth=depth,
            views=views,
            noise=noise,
            mask=mask,
            epochs=epochs,
            batch_size=batch_size,
            learning_rate=learning_rate,
            weight_decay=weight_decay,
            device=device,
            verbose=verbose,
            random_state=random_state,
        )
        self.rule = rule
        self.neighbours = neighbours

    @usual_defaults()
    def fit(self, X: Any, y: Any) -> "ContrastiveClassifier":
        """Train on rows `X` (n, features) and their classes `y` (n,): at least two classes, two samples each."""
        check_choice("rule", self.rule, ("knn", "class_means"))
        neighbours = self._given_neighbours()
        self.known_, self.known_labels_ = self._fit(X, y)
        self.rule_ = self.rule  # which of the two `known_` was made for
        samples = len(self.known_labels_)
        self.neighbours_ = min(neighbours or default_k(torch.bincount(self.known_labels_)), samples)
        if self.rule == "knn" and neighbours is not None and neighbours > samples:
            warnings.warn(
                f"neighbours = {neighbours} is more than the training samples: all {samples} vote.", stacklevel=3
            )
        if self.rule == "class_means":
            self.known_ = class_means(self.known_, self.known_labels_, classes=len(self.classes_))
            self.known_labels_ = torch.arange(len(self.classes_))
        return self

    @usual_defaults()
    def predict_proba(self, X: Any) -> Array:
        """The share of each class, (n, classes), by the rule's weights e^(cosine/temperature)."""
        return self._shares(X).numpy()

    @usual_defaults()
    def predict(self, X: Any) -> Array:
        """The class with the largest share."""
        best = self._shares(X).argmax(dim=1).numpy()
        predicted: Array = self.classes_[best]
        return predicted

    def _shares(self, X: Any) -> Tensor:
        temperature = as_python(self.temperature)
        check_temperature(temperature)
        vectors = self._vectors(self._checked(X), self.output_)
        known = self.known_.to(vectors.dtype)
        if self.rule_ == "class_means":
            return (class_mean_scores(vectors, known) / float(temperature)).softmax(dim=1)
        # A number that was set since the fit needs no other fit.
        k = min(self._given_neighbours() or self.neighbours_, len(known))
        votes = vote(
            nearest(vectors, known, self.known_labels_, k=k),
            classes=len(self.classes_),
            k=k,
            voting="similarity",
            temperature=float(temperature),
        )
        return votes / votes.sum(dim=1, keepdim=True)

    def _given_neighbours(self) -> int | None:
        neighbours = as_python(self.neighbours)
        if neighbours is None or (is_whole(neighbours) and neighbours >= 1):
            return neighbours
        raise OptionError(f"neighbours must be a whole number from 1, or None: got {self.neighbours!r}.")
