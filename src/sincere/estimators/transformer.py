"""`ContrastiveTransformer`: arrays and their classes → embeddings, as a scikit-learn transformer."""

from copy import deepcopy
from dataclasses import fields
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt
import torch
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin  # type: ignore[import-untyped]
from sklearn.preprocessing import LabelEncoder  # type: ignore[import-untyped]
from sklearn.utils import check_random_state  # type: ignore[import-untyped]
from sklearn.utils.multiclass import check_classification_targets  # type: ignore[import-untyped]
from sklearn.utils.validation import check_is_fitted, validate_data  # type: ignore[import-untyped]
from torch import Tensor

from sincere.checks import check_choice
from sincere.data.conversion import check_unmasked
from sincere.defaults import usual_defaults
from sincere.errors import InputError
from sincere.estimators.fitting import FitOptions, LossName, fit_model
from sincere.estimators.telling import show_by
from sincere.losses.similarity import unit_rows
from sincere.tables import amount
from sincere.train.processes import device_for
from sincere.views import Statistics

Array: TypeAlias = npt.NDArray[Any]
Output: TypeAlias = Literal["embeddings", "features"]
OUTPUTS: tuple[str, ...] = get_args(Output)
ROWS = 8192  # through the model at once


def as_python(value: Any) -> Any:
    """A parameter as Python's own number where it is one of NumPy's, as a search over `np.arange` hands them on."""
    return value.item() if isinstance(value, np.generic) else value


def _standardised(rows: Array, statistics: Statistics) -> Tensor:
    mean, std = np.asarray(statistics.mean), np.asarray(statistics.std)
    return torch.from_numpy((rows - mean) / std)


class ContrastiveTransformer(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Learns from classes an embedding in which samples of a class are near each other, by cosine and by distance.

    >>> from sklearn.datasets import load_iris
    >>> x, y = load_iris(return_X_y=True)
    >>> ContrastiveTransformer(epochs=5, dim=8, random_state=0).fit(x, y).transform(x).shape
    (150, 8)

    An MLP with a projection head is trained by a supervised contrastive loss on random views of the standardised rows,
    in batches in which every sample has another of its class. Rows of the result have length 1, so that distances of
    any later step are cosines in disguise.

    Args:
        loss: `"sincere"`, `"supcon"`, `"eps_supinfonce"`, `"decoupled"` or `"set_nce"`.
        temperature: of the loss.
        output: `"embeddings"`, or the encoder's `"features"`.
        dim: of the embeddings.
        width: of the MLP's layers.
        depth: number of them.
        views: random variants of each sample in a batch.
        noise: of the views, in standard deviations of a feature.
        mask: share of features that a view hides.
        epochs: passes over the data.
        batch_size: samples of a batch.
        learning_rate: of AdamW, after a warm-up and before a cosine to zero.
        weight_decay: of AdamW.
        device: to train on; `"auto"` takes a GPU where there is one. The fitted estimator is on the CPU.
        verbose: 1 or True shows on stderr how far a fit is: a bar on a terminal, elsewhere a line every ten seconds;
            2 or more has lines on a terminal too, as several fits at once need them.
        random_state: of weights, batches and views: a whole number repeats a fit.
    """

    def __init__(
        self,
        *,
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
        self.loss = loss
        self.temperature = temperature
        self.output = output
        self.dim = dim
        self.width = width
        self.depth = depth
        self.views = views
        self.noise = noise
        self.mask = mask
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.device = device
        self.verbose = verbose
        self.random_state = random_state

    @usual_defaults()
    def fit(self, X: Any, y: Any) -> "ContrastiveTransformer":
        """Train on rows `X` (n, features) and their classes `y` (n,): at least two classes, two samples each."""
        self._fit(X, y)
        return self

    @usual_defaults()
    def transform(self, X: Any) -> Array:
        """Unit rows: embeddings (n, dim), or features (n, width). float32 for float32 rows, else float64."""
        check_choice("output", self.output, OUTPUTS)
        return self._vectors(self._checked(X), self.output).numpy()

    def _fit(self, X: Any, y: Any) -> tuple[Tensor, Tensor]:
        """Train; the training samples' unit vectors and class numbers. Where that fails, all is as it was before."""
        before = dict(vars(self))
        try:
            return self._train(X, y)
        except BaseException:  # Ctrl-C, too
            self.__dict__ = before  # scikit-learn notes the columns of X before anything can fail
            raise

    def _train(self, X: Any, y: Any) -> tuple[Tensor, Tensor]:
        device, show = device_for(self.device), show_by(as_python(self.verbose))
        options = FitOptions(**{field.name: as_python(getattr(self, field.name)) for field in fields(FitOptions)})
        check_choice("output", self.output, OUTPUTS)
        check_unmasked("X", X)
        check_unmasked("y", y)
        X, y = validate_data(self, X, y, dtype=[np.float64, np.float32])
        check_classification_targets(y)
        encoder = LabelEncoder().fit(y)
        if (np.bincount(encoder.transform(y)) > 1).sum() < 2:
            raise InputError(
                "y must hold two classes with at least two samples each: a loss needs a positive and a negative. "
                f"Got {amount(len(encoder.classes_), 'class', 'classes')} of {amount(len(y), 'sample')}."
            )
        # In float64 and before anything else: float32 cannot tell 1e9 from 1e9 + 1.
        statistics = Statistics.of(torch.from_numpy(np.array(X, dtype=np.float64)), kind="array")
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        labels = torch.from_numpy(encoder.transform(y).astype(np.int64))
        rows = _standardised(X, statistics).float().to(device)
        # What is kept is on the CPU, so that a pickled estimator opens on any machine.
        model = fit_model(rows, labels.to(device), options, seed=seed, show=show).cpu()
        # All at once: another thread must not meet new names of classes with the network of the fit before.
        self.classes_, self.statistics_, self.model_, self.output_ = encoder.classes_, statistics, model, self.output
        return self._vectors(X, self.output), labels

    @property
    def _n_features_out(self) -> int:
        check_choice("output", self.output, OUTPUTS)
        head = self.model_.head  # not `dim` or `width`, which may have been set anew since
        return int(head.dim if self.output == "embeddings" else head.feature_dim)

    def _checked(self, X: Any) -> Array:
        check_is_fitted(self)
        check_unmasked("X", X)
        checked: Array = validate_data(self, X, dtype=[np.float64, np.float32], reset=False)
        return checked

    @torch.no_grad()
    def _vectors(self, X: Array, output: Output) -> Tensor:
        """Unit rows in the precision of X: in float64 a sample's embedding does not depend on its company's number."""
        precision = torch.float32 if X.dtype == np.float32 else torch.float64
        network = self.model_ if output == "embeddings" else self.model_.encoder
        if precision != torch.float32:
            network = deepcopy(network).to(precision)  # never the fitted one itself: other threads may be using it
        parts = [network(rows.to(precision)) for rows in torch.split(_standardised(X, self.statistics_), ROWS)]
        vectors = torch.cat(parts)
        if lost := int((~vectors.isfinite().all(dim=1)).sum()):
            raise InputError(
                f"X must lie where its embedding is a number: {lost} of {len(X)} rows lie so far from the training "
                "rows that it overflows. Look at their units, or pass float64."
            )
        return unit_rows(vectors)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
