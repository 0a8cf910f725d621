"""The linear probes, against scikit-learn's logistic regression and torch's SGD."""

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold
from sklearn.preprocessing import StandardScaler

from sincere.errors import InputError, OptionError
from sincere.evaluate import linear, neighbours
from sincere.evaluate.linear import (
    choose_strength,
    fit_logistic,
    fit_with_folds,
    fit_with_validation,
    standardisation,
    stratified_folds,
)
from sincere.evaluate.paper_probe import PaperSchedule, fit_paper_probe


def samples(n=200, classes=4, dim=6, noise=1.5, seed=0, dtype=torch.float32):
    generator = torch.Generator().manual_seed(seed)
    centres = torch.randn(classes, dim, generator=torch.Generator().manual_seed(99))
    labels = torch.arange(n) % classes
    vectors = centres[labels] + noise * torch.randn(n, dim, generator=generator)
    return (vectors * torch.logspace(-2, 3, dim) + 5).to(dtype), labels


@pytest.mark.parametrize("l2", [1.0, 1e-2, 1e-4])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_the_minimum_is_scikit_learns(l2, dtype, monkeypatch):
    monkeypatch.setitem(neighbours.TILE, "cpu", 200)  # four blocks of rows
    vectors, labels = samples(dtype=dtype)
    tolerance = 1e-9 if dtype == torch.float64 else 1e-5
    fitted = fit_logistic(vectors, labels, classes=4, l2=l2, tolerance=tolerance)
    rows = StandardScaler().fit_transform(vectors.double().numpy())
    theirs = LogisticRegression(C=1 / (l2 * len(rows)), tol=1e-10, max_iter=10_000).fit(rows, labels.numpy())
    atol = 1e-5 if dtype == torch.float64 else 2e-2 * np.abs(theirs.coef_).max()
    np.testing.assert_allclose(fitted.weight, theirs.coef_, atol=atol)
    probabilities = fitted.scores(vectors).double().softmax(dim=1)
    close = 1e-5 if dtype == torch.float64 else 2e-3
    np.testing.assert_allclose(probabilities, theirs.predict_proba(rows), atol=close)


def test_the_gradient_is_autograds():
    vectors, labels = samples(50, dtype=torch.float64)
    rows = (vectors - vectors.mean(0)) / vectors.std(0)
    parameters = torch.randn(4, 7, dtype=torch.float64, requires_grad=True)
    value = torch.nn.functional.cross_entropy(rows @ parameters[:, :-1].T + parameters[:, -1], labels)
    value = value + 0.05 * parameters[:, :-1].square().sum()
    (expected,) = torch.autograd.grad(value, parameters)
    ours, gradient = linear._objective(parameters.detach(), rows, labels, 0.1)
    assert ours == pytest.approx(value.item(), rel=1e-12)
    torch.testing.assert_close(gradient, expected)


def test_standardisation_is_scikit_learns_and_survives_constant_dimensions():
    vectors, _ = samples()
    vectors[:, 2] = 7.0
    mean, scale = standardisation(vectors)
    theirs = StandardScaler().fit(vectors.double().numpy())
    np.testing.assert_allclose(mean, theirs.mean_, rtol=1e-6)
    np.testing.assert_allclose(scale, theirs.scale_, rtol=1e-6)
    assert scale[2] == 1


def test_the_strength_is_chosen_on_the_samples_that_were_given():
    (vectors, labels), (held_out, truth) = samples(60, noise=3), samples(400, noise=3, seed=1)
    strengths = (10.0, 1.0, 0.1, 0.01, 1e-3)
    fitted, chosen = fit_with_validation((vectors, labels), (held_out, truth), classes=4, strengths=strengths)
    rows = StandardScaler().fit(vectors.double().numpy())
    right = {
        l2: LogisticRegression(C=1 / (l2 * 60), tol=1e-8, max_iter=5000)
        .fit(rows.transform(vectors.double().numpy()), labels)
        .score(rows.transform(held_out.double().numpy()), truth)
        for l2 in strengths
    }
    assert right[chosen] == pytest.approx(max(right.values()), abs=0.003)
    assert float((fitted.scores(held_out).argmax(1) == truth).double().mean()) == pytest.approx(
        right[chosen], abs=0.003
    )
    assert len(set(right.values())) > 2  # the choice matters here


def test_the_stronger_of_equals_is_chosen():
    vectors, labels = samples(noise=0.01)
    assert fit_with_validation((vectors, labels), (vectors, labels), classes=4, strengths=(1e-3, 1.0, 0.1))[1] == 1.0
    with pytest.raises(OptionError, match="at least one strength"):
        choose_strength([(vectors, labels, vectors, labels)], classes=4, strengths=())


def test_cross_validation_sees_the_training_samples_only_and_repeats():
    vectors, labels = samples(noise=2.5)
    fitted, chosen = fit_with_folds(vectors, labels, classes=4, seed=3)
    again, same = fit_with_folds(vectors, labels, classes=4, seed=3)
    assert chosen == same
    assert torch.equal(fitted.weight, again.weight)
    alone = fit_logistic(vectors, labels, classes=4, l2=chosen)
    torch.testing.assert_close(fitted.scores(vectors), alone.scores(vectors))


def test_folds_spread_every_class():
    labels = torch.tensor([0] * 10 + [1] * 7 + [2] * 2)
    fold = stratified_folds(labels, 3, seed=0)
    for label in range(3):
        counts = torch.bincount(fold[labels == label], minlength=3)
        assert counts.max() - counts.min() <= 1
    sizes = [len(part) for _, part in StratifiedKFold(3).split(np.zeros(19), [0] * 10 + [1] * 7 + [0, 1])]
    assert sorted(torch.bincount(fold).tolist()) == sorted(sizes)
    assert not torch.equal(fold, stratified_folds(labels, 3, seed=1))
    with pytest.raises(InputError, match="as many samples as its 3 folds: got 2"):
        stratified_folds(labels[:2], 3, seed=0)


def test_l2_is_needed():
    vectors, labels = samples(20)
    with pytest.raises(OptionError, match="l2 must be positive"):
        fit_logistic(vectors, labels, classes=4, l2=0.0)


def test_the_papers_learning_rates():
    schedule = PaperSchedule()
    assert (schedule.epochs, schedule.batch, schedule.momentum) == (100, 512, 0.9)
    assert schedule.rate(0) == 0.05
    assert schedule.rate(5) == pytest.approx((0.05 + 5) / 2)
    assert schedule.rate(10) == 5
    assert schedule.rate(55) == pytest.approx((0.05 + 5) / 2)
    assert schedule.rate(100) == pytest.approx(0.05)
    with pytest.raises(OptionError, match="warmup_epochs < epochs"):
        PaperSchedule(epochs=10)


def test_the_papers_probe_is_torchs_sgd():
    vectors, labels = samples(100, noise=1.0)
    vectors = (vectors - vectors.mean(0)) / vectors.std(0)
    schedule = PaperSchedule(epochs=6, batch=32, warmup_epochs=2)
    fitted = fit_paper_probe(vectors, labels, classes=4, seed=5, schedule=schedule)
    layer = torch.nn.Linear(6, 4)
    torch.nn.init.zeros_(layer.weight)
    torch.nn.init.zeros_(layer.bias)
    optimizer = torch.optim.SGD(layer.parameters(), lr=1.0, momentum=0.9)
    generator = torch.Generator().manual_seed(5)
    for epoch in range(6):
        for step, chosen in enumerate(torch.randperm(100, generator=generator).split(32)):
            optimizer.param_groups[0]["lr"] = schedule.rate(epoch + step * 32 / 100)
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(layer(vectors[chosen]), labels[chosen]).backward()
            optimizer.step()
    torch.testing.assert_close(fitted.weight, layer.weight.detach(), rtol=1e-3, atol=1e-3)
    torch.testing.assert_close(fitted.scores(vectors), layer(vectors).detach(), rtol=1e-3, atol=1e-3)


def test_a_diverged_probe_says_so():
    vectors, labels = samples(50)
    with pytest.raises(InputError, match="diverged on these features"):
        fit_paper_probe(vectors * 1e30, labels, classes=4, schedule=PaperSchedule(epochs=3, warmup_epochs=1))
