"""The linear probes, against scikit-learn's logistic regression and torch's SGD."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.special import logsumexp
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold
from sklearn.preprocessing import StandardScaler

from evaluated import EVERYTHING, made
from sincere.embeddings import EmbeddingSet
from sincere.errors import InputError, OptionError
from sincere.evaluate import Evaluation, EvaluationOptions, compare, evaluate, linear
from sincere.evaluate.classifiers import CLASSIFIERS, Task
from sincere.evaluate.lengths import lengths_of_classes, swallowed
from sincere.evaluate.linear import (
    choose_strength,
    fit_logistic,
    fit_with_folds,
    fit_with_validation,
    standardisation,
    stratified_folds,
)
from sincere.evaluate.paper_probe import PaperSchedule, fit_paper_probe
from sincere.nearest import neighbours


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


def test_of_two_classes_scikit_learn_keeps_one_row():
    """W of ours is (−w/2, w/2), whose square is half of w's: the same minimum has twice the C."""
    vectors, labels = samples(classes=2, dtype=torch.float64)
    fitted = fit_logistic(vectors, labels, classes=2, l2=0.05, tolerance=1e-9)
    rows = StandardScaler().fit_transform(vectors.numpy())
    theirs = LogisticRegression(C=2 / (0.05 * len(rows)), tol=1e-10, max_iter=10_000).fit(rows, labels.numpy())
    np.testing.assert_allclose(fitted.weight[1] - fitted.weight[0], theirs.coef_[0], atol=1e-5)
    np.testing.assert_allclose(fitted.scores(vectors).softmax(dim=1), theirs.predict_proba(rows), atol=1e-5)


def value_at(weight, bias, rows, labels, l2):
    """The objective by its definition, in float64."""
    logits = rows @ np.asarray(weight, dtype=np.float64).T + np.asarray(bias, dtype=np.float64)
    losses = logsumexp(logits, axis=1) - logits[np.arange(len(rows)), labels]
    return losses.mean() + l2 / 2 * np.square(np.asarray(weight, dtype=np.float64)).sum()


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_weak_strengths_are_fitted_to_the_end(dtype):
    """From strong to weak as in the search, on classes that can be separated: within 1e-6 of scikit-learn's minimum."""
    vectors, labels = samples(500, classes=5, dim=40, noise=0.7, dtype=dtype)
    rows = StandardScaler().fit_transform(vectors.double().numpy())
    fitted = None
    for l2 in linear.STRENGTHS:
        fitted = fit_logistic(vectors, labels, classes=5, l2=l2, start=fitted)
        theirs = LogisticRegression(C=1 / (l2 * len(rows)), tol=1e-10, max_iter=10_000).fit(rows, labels.numpy())
        least = value_at(theirs.coef_, theirs.intercept_, rows, labels.numpy(), l2)
        assert value_at(fitted.weight, fitted.bias, rows, labels.numpy(), l2) - least < 1e-6


def test_the_gradient_is_autograds():
    vectors, labels = samples(50, dtype=torch.float64)
    rows = (vectors - vectors.mean(0)) / vectors.std(0)
    parameters = torch.randn(4, 7, dtype=torch.float64, requires_grad=True)
    value = torch.nn.functional.cross_entropy(rows @ parameters[:, :-1].T + parameters[:, -1], labels)
    value = value + 0.05 * parameters[:, :-1].square().sum()
    (expected,) = torch.autograd.grad(value, parameters)
    ours, gradient = linear._objective(parameters.detach(), rows, labels, linear.cross_entropies, 0.1)
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


def test_the_surest_of_equals_is_chosen():
    """Every strength has all of them right; the weaker it is, the surer."""
    vectors, labels = samples(noise=0.01)
    assert fit_with_validation((vectors, labels), (vectors, labels), classes=4, strengths=(1e-3, 1.0, 0.1))[1] == 1e-3
    with pytest.raises(OptionError, match="at least one strength"):
        choose_strength([(vectors, labels, vectors, labels)], classes=4, strengths=())


def test_two_worse_in_a_row_end_the_search(monkeypatch):
    """Held-out samples right by strength, by decree: one worse does not end it, two do, equals count as no worse."""
    vectors, labels = torch.zeros(4, 1), torch.arange(4) % 2
    split = (vectors, labels, torch.zeros(10, 1), torch.zeros(10, dtype=torch.int64))
    right = {1e3: 5, 1e2: 4, 1e1: 6, 1.0: 6, 1e-1: 3, 1e-2: 6, 1e-3: 2, 1e-4: 5, 1e-5: 9}
    # Of the three with six right, how far their scores are apart: less is surer here, with four that are wrong.
    sureness = dict.fromkeys(right, 1.0) | {1e1: 3.0, 1.0: 0.3, 1e-2: 2.0}
    tried, starts = [], []

    class Decreed:
        def __init__(self, l2):
            self.l2 = l2

        def scores(self, vectors):
            return sureness[self.l2] * torch.nn.functional.one_hot((torch.arange(10) >= right[self.l2]).long(), 2)

    def fit(vectors, labels, *, classes, l2, start):
        tried.append(l2)
        starts.append(start and start.l2)
        return Decreed(l2)

    monkeypatch.setattr(linear, "fit_logistic", fit)
    chosen, fits = choose_strength([split], classes=2, strengths=sorted(right))
    assert chosen == 1.0  # of the three with six right the one with the lowest cross-entropy
    assert [one.l2 for one in fits] == [1.0]
    assert tried == [1e3, 1e2, 1e1, 1.0, 1e-1, 1e-2, 1e-3, 1e-4]  # never 1e-5, which would have been best
    assert starts == [None, *tried[:-1]]  # each from the one before


def test_cross_validation_sees_the_training_samples_only_and_repeats():
    vectors, labels = samples(noise=2.5)
    fitted, chosen = fit_with_folds(vectors, labels, classes=4, seed=3)
    again, same = fit_with_folds(vectors, labels, classes=4, seed=3)
    assert chosen == same
    assert torch.equal(fitted.weight, again.weight)
    alone = fit_logistic(vectors, labels, classes=4, l2=chosen)
    torch.testing.assert_close(fitted.scores(vectors), alone.scores(vectors))


def views_of(found, count, *, noise=1.0):
    """Noisy copies of every sample, all first ones before all second ones."""
    generator = torch.Generator().manual_seed(8)
    features = found.features.repeat(count, 1)
    features = features + noise * torch.randn(features.shape, generator=generator)
    return replace(
        found,
        embeddings=features[:, : found.embeddings.shape[1]].contiguous(),
        labels=found.labels.repeat(count),
        features=features,
    )


def theirs_on(vectors, labels, l2):
    """scikit-learn's fit of the same problem, as a function from vectors to probabilities."""
    scaler = StandardScaler().fit(vectors.double().numpy())
    rows = scaler.transform(vectors.double().numpy())
    fitted = LogisticRegression(C=1 / (l2 * len(rows)), tol=1e-10, max_iter=10_000).fit(rows, labels.numpy())
    return lambda new: fitted.predict_proba(scaler.transform(new.double().numpy()))


def test_the_fit_on_views_is_scikit_learns_on_all_of_them():
    train, test = made(70, 0), made(210, 1)
    views = views_of(train, 4)
    options = EvaluationOptions(methods=("linear",), l2=0.02, probe_views=4, draws=100)
    found = evaluate(train, test, views=views, options=options).classifier("linear")
    expected = theirs_on(views.features, views.labels, 0.02)(test.features)
    assert list(found.predicted) == expected.argmax(axis=1).tolist()
    scores = CLASSIFIERS["linear"](Task(train, test, None, options, views)).scores
    np.testing.assert_allclose(scores.double().softmax(dim=1), expected, atol=2e-3)
    plain = theirs_on(train.features, train.labels, 0.02)(test.features)
    assert np.abs(plain - expected).max() > 0.1, "the views make a difference here"
    assert found.settings == {
        "l2": 0.02,
        "l2_origin": "given",
        "on": "features",
        "fitted_on": "4 views of each training sample",
    }
    assert found.title == "linear probe on features (4 views)"


def test_a_given_strength_is_used_as_it_is():
    train, test, validation = made(70, 0, noise=2), made(210, 1, noise=2), made(70, 2, noise=2)
    for l2 in (0.5, 1e-3):
        options = EvaluationOptions(methods=("linear",), l2=l2, draws=100)
        found = evaluate(train, test, validation=validation, options=options)
        expected = theirs_on(train.features, train.labels, l2)(test.features)
        assert list(found.classifier("linear").predicted) == expected.argmax(axis=1).tolist()
        settings = found.classifier("linear").settings
        assert (settings["l2"], settings["l2_origin"]) == (l2, "given")
        assert settings["fitted_on"] == "the training samples"
    assert not any("L2" in note for note in evaluate(train, test, options=options).notes)
    assert any("L2" in note for note in evaluate(train, test, options=replace(options, l2=None)).notes)


def test_views_change_the_linear_probe_alone():
    train, test, validation = made(140, 0), made(140, 1), made(70, 2)
    options = EvaluationOptions(methods=EVERYTHING, draws=100)
    plain = evaluate(train, test, validation=validation, options=options)
    seen = evaluate(train, test, validation=validation, views=views_of(train, 3), options=options)
    for method in ("knn", "class_means", "linear_paper"):
        assert seen.classifier(method) == plain.classifier(method)
    assert seen.retrieval == plain.retrieval
    assert seen.train_samples == 140
    assert seen.classifier("linear").predicted != plain.classifier("linear").predicted
    assert seen.classifier("linear").settings["fitted_on"] == "3 views of each training sample"
    assert seen.classifier("linear").settings["l2_origin"] == "chosen on the validation set"
    assert Evaluation.from_json(seen.to_json()) == seen


def test_the_strength_for_views_is_chosen_on_the_validation_set():
    train, validation = made(42, 0, noise=2), made(700, 2, noise=2)
    views = views_of(train, 3)
    found = evaluate(train, made(70, 1), validation=validation, views=views, options=EvaluationOptions(("linear",)))
    right = {
        l2: (theirs_on(views.features, views.labels, l2)(validation.features).argmax(1) == validation.labels.numpy())
        for l2 in (10.0, 1.0, 0.1, 0.01, 1e-3)
    }
    shares = {l2: hits.mean() for l2, hits in right.items()}
    assert shares[found.classifier("linear").settings["l2"]] == pytest.approx(max(shares.values()), abs=0.003)
    assert len(set(shares.values())) > 2  # the choice matters here


def test_views_of_one_sample_are_on_one_side_of_a_fold(monkeypatch):
    samples_here, count = 30, 4
    vectors = torch.arange(samples_here).float().repeat(count).unsqueeze(1)  # a vector says whose view it is
    labels = (torch.arange(samples_here) % 3).repeat(count)
    splits = []

    def noted(given, *, classes):
        splits.extend(given)
        return 1.0, []

    monkeypatch.setattr(linear, "choose_strength", noted)
    fit_with_folds(vectors, labels, classes=3, views=count, seed=2)
    assert len(splits) == 3
    held_ever = []
    for fitted, fitted_labels, held, held_labels in splits:
        own, others = held.flatten().tolist(), fitted.flatten().tolist()
        assert not set(own) & set(others)
        assert sorted(own + others) == sorted(vectors.flatten().tolist())
        assert all(own.count(sample) == count for sample in own)
        assert torch.equal(held_labels, held.flatten().long() % 3)
        assert torch.equal(fitted_labels, fitted.flatten().long() % 3)
        held_ever += sorted(set(own))
    assert sorted(held_ever) == list(range(samples_here))
    with pytest.raises(InputError, match="4 views of each sample: got 119"):
        fit_with_folds(vectors[1:], labels[1:], classes=3, views=count)


def test_folds_by_sample_are_not_fooled_by_views():
    """Few samples in many dimensions: a held-out view with a brother among the fitted ones is easy at any strength."""
    centres = 0.35 * torch.randn(3, 40, generator=torch.Generator().manual_seed(99))
    train = made(60, 0, classes=3)
    rows = centres[train.labels] + torch.randn(60, 40, generator=torch.Generator().manual_seed(1))
    train = replace(train, features=rows)
    views = views_of(train, 3, noise=0.5)
    assert fit_with_folds(views.features, views.labels, classes=3)[1] <= 0.01, "fooled: the weaker the better"
    found = evaluate(train, train, views=views, options=EvaluationOptions(("linear",), draws=100)).classifier("linear")
    assert found.settings["l2_origin"] == "chosen by cross-validation within the training set"
    fold, right = stratified_folds(train.labels, 3, seed=0).repeat(3), {}
    for l2 in linear.STRENGTHS:
        held = [fold == number for number in range(3)]
        fits = [theirs_on(views.features[~part], views.labels[~part], l2) for part in held]
        predicted = [fit(views.features[part]).argmax(axis=1) for fit, part in zip(fits, held, strict=True)]
        right[l2] = int((np.concatenate(predicted) == np.concatenate([views.labels[part] for part in held])).sum())
    assert found.settings["l2"] == max(right, key=right.__getitem__) == 1.0
    assert sorted(right.values())[-1] > sorted(right.values())[-2] + 3, "no close call"


def test_views_are_matched_by_class_name_and_used_if_given():
    train, test = made(70, 0), made(70, 1)
    views = views_of(train, 1)
    renumbered = replace(views, labels=6 - views.labels, class_names=tuple(reversed(views.class_names)))
    options = EvaluationOptions(("linear",), l2=0.1, draws=100)
    found = evaluate(train, test, views=views, options=options)
    assert evaluate(train, test, views=renumbered, options=options) == found
    assert found.classifier("linear").settings["fitted_on"] == "1 view of each training sample"


def test_views_that_do_not_fit():
    train, test = made(70, 0), made(70, 1)
    views, asked = views_of(train, 2), EvaluationOptions(("linear",), probe_views=2, draws=100)
    with pytest.raises(OptionError, match=r"probe_views=2 needs .* 2 views.*views=model.embed_views\(data, count=2\)"):
        evaluate(train, test, options=asked)
    evaluate(train, test, options=replace(asked, methods=("class_means",)))  # nobody needs them
    with pytest.raises(InputError, match="must hold 2 views of each sample, as probe_views says: got 3"):
        evaluate(train, test, views=views_of(train, 3), options=asked)
    with pytest.raises(InputError, match="each of the 70 training samples equally often: got 139 rows"):
        evaluate(train, test, views=views.subset(torch.arange(139)), options=asked)
    with pytest.raises(InputError, match="in the order of train"):
        evaluate(train, test, views=views.subset(torch.arange(140).roll(1)), options=asked)
    with pytest.raises(InputError, match="views must have the training set's dimension, 6: got 5"):
        evaluate(train, test, views=replace(views, embeddings=views.embeddings[:, :5].contiguous()), options=asked)
    with pytest.raises(InputError, match="must hold features"):
        evaluate(train, test, views=replace(views, features=None), options=asked)
    for wrong in (0.0, -1.0, float("nan"), float("inf"), "0.1", True, np.float32(0.1)):
        with pytest.raises(OptionError, match="l2 must be a positive number"):
            EvaluationOptions(l2=wrong)
    with pytest.raises(OptionError, match="probe_views must be at least 0"):
        EvaluationOptions(probe_views=-1)


def test_folds_spread_every_class():
    labels = torch.tensor([0] * 10 + [1] * 7 + [2] * 2)
    fold = stratified_folds(labels, 3, seed=0)
    for label in range(3):
        counts = torch.bincount(fold[labels == label], minlength=3)
        assert counts.max() - counts.min() <= 1
    sizes = [len(part) for _, part in StratifiedKFold(3).split(np.zeros(19), [0] * 10 + [1] * 7 + [0, 1])]
    assert sorted(torch.bincount(fold).tolist()) == sorted(sizes)
    assert not torch.equal(fold, stratified_folds(labels, 3, seed=1))
    with pytest.raises(InputError, match=r"training samples as its 3 folds: got 2\. Add some, or give the strength"):
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


@pytest.mark.parametrize("offset", [1e3, 1e5])
def test_scores_beside_a_large_mean_keep_their_digits(offset):
    vectors, labels = samples(dim=8, noise=2.0)
    vectors = ((vectors - vectors.mean(dim=0)) / vectors.std(dim=0) + offset).float()
    fitted = fit_logistic(vectors, labels, classes=4, l2=1e-4)
    away = (vectors.double() - fitted.mean.double()) / fitted.scale.double()
    exact = away @ fitted.weight.double().T + fitted.bias.double()
    # The vectors themselves are known to a part in 10⁷ of the offset; only the scores may not lose more.
    np.testing.assert_allclose(fitted.scores(vectors).double(), exact, atol=2e-6 * float(exact.abs().max()))


def of_unlike_lengths(n, seed, *, noise, shortest=0.2):
    """Five directions, each class with vectors of its own length, as a loss of cosines leaves them; the first is the
    shortest."""
    labels = torch.arange(n) % 5
    centres = torch.nn.functional.normalize(torch.randn(5, 32, generator=torch.Generator().manual_seed(7)), dim=1)
    rows = centres[labels] + noise * torch.randn(n, 32, generator=torch.Generator().manual_seed(seed)) / 32**0.5
    rows = torch.nn.functional.normalize(rows, dim=1) * torch.linspace(shortest, 1, 5)[labels].unsqueeze(1)
    return EmbeddingSet(rows, labels, tuple("abcde"), "lengths")


def test_a_unit_probe_is_the_probe_on_unit_vectors():
    train, test, held_out = (of_unlike_lengths(n, seed, noise=1.0) for n, seed in ((200, 0), (300, 1), (100, 2)))
    options = EvaluationOptions(("linear",), unit_probe=True, draws=100)
    found = evaluate(train, test, validation=held_out, options=options).classifier("linear")
    units = [
        replace(one, embeddings=one.embeddings / one.embeddings.norm(dim=1, keepdim=True))
        for one in (train, test, held_out)
    ]
    expected = evaluate(*units[:2], validation=units[2], options=replace(options, unit_probe=False)).classifier(
        "linear"
    )
    assert (found.predicted, found.top1) == (expected.predicted, expected.top1)
    assert found.settings == {**expected.settings, "length": 1}
    assert (found.title, expected.title) == ("linear probe on unit embeddings", "linear probe on embeddings")
    for seen in ("1", 1, None):
        with pytest.raises(OptionError, match="unit_probe must be True or False"):
            EvaluationOptions(unit_probe=seen)


def test_a_class_of_short_vectors_that_swallows_others_is_named():
    """Tight classes to fit on, blurred ones to judge by, as an encoder makes of training and of new samples."""
    train, blurred = of_unlike_lengths(200, 0, noise=0.1), of_unlike_lengths(1000, 1, noise=2.0, shortest=1.0)
    shrunk = replace(blurred, embeddings=0.3 * blurred.embeddings)
    options = EvaluationOptions(("linear",), l2=1e-5, draws=100)
    raw = evaluate(train, shrunk, options=options)
    unit = evaluate(train, shrunk, options=replace(options, unit_probe=True))
    counts = torch.bincount(torch.tensor(raw.classifier("linear").predicted), minlength=5)
    (note,) = (note for note in raw.notes if "linear probe takes" in note)
    assert note.startswith(
        f"the linear probe takes {int(counts[0])} of 1,000 test samples for 'a', of which there are 200"
    )
    assert unit.classifier("linear").top1.value > raw.classifier("linear").top1.value + 0.1
    assert not any("linear probe takes" in note for note in unit.notes)
    alike = evaluate(of_unlike_lengths(200, 0, noise=0.1, shortest=1.0), shrunk, options=options)
    assert not any("linear probe takes" in note for note in alike.notes), "lengths are no reason here"
    few = evaluate(train, shrunk.subset(torch.arange(20)), options=options)
    assert not any("linear probe takes" in note for note in few.notes), "chance"
    notes = compare(replace(raw, name="raw"), replace(unit, name="unit"), method="linear").notes
    assert "raw: the embeddings of the training samples; unit: the unit embeddings of the training samples" in notes[0]


def test_lengths_of_classes_are_means():
    vectors, labels = torch.tensor([[3.0, 4.0], [0.0, 1.0], [6.0, 8.0]]), torch.tensor([0, 1, 0])
    found = lengths_of_classes(vectors, labels, classes=3).tolist()
    assert found == pytest.approx([7.5, 1.0, float("nan")], nan_ok=True)


SHORT = (1.0, 2.0, 1.2, 1.1)  # lengths of four classes, the first of which is the shortest


@pytest.mark.parametrize(
    ("own", "given", "lengths", "told"),
    [
        ((200, 300, 400, 100), (250, 250, 400, 100), SHORT, True),  # a twentieth more, if not the most
        ((200, 300, 400, 100), (249, 251, 400, 100), SHORT, False),
        ((20, 30, 40, 10), (40, 10, 40, 10), SHORT, True),  # of few samples at least twenty
        ((20, 30, 40, 10), (39, 11, 40, 10), SHORT, False),
        ((20, 30, 40, 10), (40, 10, 40, 10), (1.0, 1.5, 1.2, 1.1), True),
        ((20, 30, 40, 10), (40, 10, 40, 10), (1.0, 1.49, 1.2, 1.1), False),  # all about as long
        ((20, 30, 40, 10), (40, 10, 40, 10), (1.3, 2.0, 1.0, 1.1), False),  # most are shorter
        ((20, 30, 40, 10), (40, 10, 40, 10), (1.0, 2.0, float("nan"), 1.2), True),  # one had nothing to train on
    ],
)
def test_which_class_swallows_others(own, given, lengths, told):
    labels, predicted = (torch.arange(4).repeat_interleave(torch.tensor(counts)) for counts in (own, given))
    notes = list(swallowed(predicted, labels, torch.tensor(lengths, dtype=torch.float64), tuple("abcd"), "features"))
    assert len(notes) == told
    assert all(f"takes {given[0]} of {sum(own):,} test samples for 'a'" in note for note in notes)
