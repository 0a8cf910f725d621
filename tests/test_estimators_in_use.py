"""Estimators in programs: threads, processes, searches, and inputs that are odd but right."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from joblib import parallel_backend
from sklearn.datasets import load_iris
from sklearn.inspection import permutation_importance

from sincere.errors import InputError, OptionError
from sincere.estimators import ContrastiveClassifier, ContrastiveTransformer

SMALL = {"width": 32, "dim": 8, "batch_size": 30, "epochs": 2, "random_state": 0}
X, Y = load_iris(return_X_y=True)


@pytest.mark.parametrize("output", ["embeddings", "features"])
def test_threads_share_a_fitted_estimator(output):
    """As in a server: each call had the shared network in its own precision for a while, whoever else was in it."""
    model = ContrastiveTransformer(output=output, **SMALL).fit(X, Y)
    rows = [X.astype(kind) for kind in (np.float32, np.float64)]
    alone = [model.transform(some) for some in rows]
    with ThreadPoolExecutor(4) as threads:
        together = list(threads.map(lambda turn: model.transform(rows[turn % 2]), range(60)))
    for turn, found in enumerate(together):
        np.testing.assert_array_equal(found, alone[turn % 2])
    assert {weights.dtype for weights in model.model_.parameters()} == {torch.float32}


def test_scikit_learns_tools_may_use_threads():
    model = ContrastiveClassifier(**SMALL).fit(X, Y)
    alone = permutation_importance(model, X, Y, n_repeats=2, random_state=0).importances
    with parallel_backend("threading", n_jobs=4):
        together = permutation_importance(model, X, Y, n_repeats=2, random_state=0, n_jobs=4).importances
    np.testing.assert_array_equal(together, alone)


def test_a_fit_that_fails_leaves_the_one_before_as_it_was():
    model = ContrastiveClassifier(**SMALL).fit(X, Y)
    before = model.predict_proba(X)
    with pytest.raises(OptionError, match="finite weights"):
        model.set_params(learning_rate=1e30).fit(100 * X, np.array(["a", "b", "c"])[Y])
    with pytest.raises(InputError, match="two classes"):  # of other columns, which scikit-learn notes first
        model.fit(X[:, :2], np.zeros(len(X)))
    np.testing.assert_array_equal(model.predict_proba(X), before)
    assert model.classes_.tolist() == [0, 1, 2]


def test_masked_values_are_refused():
    """scikit-learn would take whatever lies below the mask."""
    gaps = np.zeros_like(X, dtype=bool)
    gaps[3, 1] = True
    hidden, model = np.ma.array(X, mask=gaps), ContrastiveClassifier(**SMALL)
    with pytest.raises(InputError, match="X must have all their values: some are masked"):
        model.fit(hidden, Y)
    with pytest.raises(InputError, match="y must have all their values: some are masked"):
        model.fit(X, np.ma.array(Y, mask=gaps[:, 1]))
    model.fit(np.ma.array(X), Y)  # nothing is masked
    with pytest.raises(InputError, match="X must have all their values: some are masked"):
        model.predict(hidden)
