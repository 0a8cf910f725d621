"""The linear probe on digits and on 200 classes: scikit-learn's minimum, and its predictions."""

import numpy as np
import pytest
import torch
from scipy.special import logsumexp
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from sincere.evaluate import linear
from sincere.evaluate.linear import fit_logistic
from sincere.nearest import neighbours


def digits():
    pixels, labels = load_digits(return_X_y=True)
    return pixels.astype(np.float32), labels


def two_hundred_classes():
    random = np.random.default_rng(0)
    labels = np.arange(3000) % 200
    centres = np.random.default_rng(9).normal(size=(200, 24))
    return (0.8 * centres[labels] + random.normal(size=(3000, 24))).astype(np.float32), labels


def value_at(weight, bias, rows, labels, l2):
    """The objective by its definition, in float64."""
    weight, bias = np.asarray(weight, dtype=np.float64), np.asarray(bias, dtype=np.float64)
    logits = rows @ weight.T + bias
    return (logsumexp(logits, axis=1) - logits[np.arange(len(rows)), labels]).mean() + l2 / 2 * np.square(weight).sum()


@pytest.mark.parametrize("l2", [0.1, 1e-2, 1e-3])
@pytest.mark.parametrize("made", [digits, two_hundred_classes])
def test_the_minimum_and_the_predictions_are_scikit_learns(made, l2, monkeypatch):
    monkeypatch.setitem(neighbours.TILE, "cpu", 2**18)  # several blocks
    vectors, labels = made()
    fit, new = slice(0, None, 2), slice(1, None, 2)
    if made is two_hundred_classes:
        fit, new = slice(0, 2000), slice(2000, None)
    classes = int(labels.max()) + 1
    ours = fit_logistic(torch.from_numpy(vectors[fit]), torch.from_numpy(labels[fit]), classes=classes, l2=l2)
    scaler = StandardScaler().fit(vectors[fit].astype(np.float64))
    rows, held_out = (scaler.transform(vectors[part].astype(np.float64)) for part in (fit, new))
    theirs = LogisticRegression(C=1 / (l2 * len(rows)), tol=1e-7, max_iter=3000).fit(rows, labels[fit])
    least = value_at(theirs.coef_, theirs.intercept_, rows, labels[fit], l2)
    assert abs(value_at(ours.weight, ours.bias, rows, labels[fit], l2) - least) < 1e-6
    predicted = ours.scores(torch.from_numpy(vectors[new])).argmax(dim=1).numpy()
    assert (predicted == theirs.predict(held_out)).mean() > 0.998
    assert (predicted == labels[new]).mean() > 0.5


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_objective_of_sure_and_of_wrong_samples(dtype):
    """Logits 200 apart: e^−200 is no float32, and yet a wrong sample costs 200 and its gradient is whole."""
    rows, labels = torch.tensor([[1.0], [1.0], [-1.0]], dtype=dtype), torch.tensor([0, 1, 1])
    parameters = torch.tensor([[100.0, 0.0], [-100.0, 0.0], [0.0, 0.0]], dtype=torch.float64)
    value, gradient = linear._objective(parameters, rows, labels, linear.cross_entropies, 1e-3)
    assert value == pytest.approx(200 / 3 + 1e-3 / 2 * 2e4, rel=1e-6)
    expected = np.array([[1, 1], [-1, -1], [0, 0]]) / 3 + 1e-3 * np.array([[100, 0], [-100, 0], [0, 0]])
    np.testing.assert_allclose(gradient, expected, atol=1e-6)
