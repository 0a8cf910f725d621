"""The scikit-learn estimators: scikit-learn's own checks, and what they do not ask."""

import importlib
import importlib.util
import pickle
import sys

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.datasets import load_digits, make_circles
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import NearestCentroid
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

from sincere.errors import InputError, OptionError
from sincere.estimators import ContrastiveClassifier, ContrastiveTransformer

SMALL = {"width": 32, "dim": 8, "batch_size": 64, "learning_rate": 0.01}
# scikit-learn skips these where its own requirements are missing; there is none that we fail.
NOT_HERE = {"check_array_api_input": "SCIPY_ARRAY_API", "check_classifier_data_not_an_array": "pandas"}


def circles(n=400, noise=0.08, seed=0):
    """Two circles with one centre, and three dimensions of noise."""
    x, y = make_circles(n, noise=noise, factor=0.5, random_state=seed)
    return np.hstack([x, np.random.default_rng(seed).normal(size=(n, 3))]), y


@pytest.mark.parametrize("estimator", [ContrastiveTransformer, ContrastiveClassifier])
def test_scikit_learns_checks(estimator):
    results = check_estimator(estimator(epochs=5, **SMALL), on_skip=None)  # a failure raises
    assert len(results) > 40
    for result in results:
        if result["status"] != "passed":
            assert NOT_HERE[result["check_name"]] in str(result["exception"])


def test_class_means_and_features_pass_as_well():
    for changes in ({"rule": "class_means"}, {"output": "features"}):
        x, y = circles(80)
        model = ContrastiveClassifier(epochs=2, random_state=0, **SMALL, **changes).fit(x, y)
        np.testing.assert_allclose(model.predict_proba(x).sum(axis=1), 1)
        alone = np.vstack([model.transform(row[None]) for row in x[:5]])
        np.testing.assert_allclose(alone, model.transform(x)[:5], atol=1e-12)


def test_it_learns_what_the_raw_rows_do_not_show():
    (x, y), (new, truth) = circles(), circles(seed=1)
    transformer = ContrastiveTransformer(epochs=20, random_state=0, **SMALL).fit(x, y)
    raw = NearestCentroid().fit(x, y).score(new, truth)
    learned = NearestCentroid().fit(transformer.transform(x), y).score(transformer.transform(new), truth)
    assert raw < 0.6
    assert learned > 0.9


@pytest.mark.parametrize(
    ("loss", "rule"),
    [
        ("sincere", "knn"),
        ("supcon", "class_means"),
        ("eps_supinfonce", "knn"),
        ("decoupled", "class_means"),
        ("set_nce", "knn"),
    ],
)
def test_every_loss_and_rule_classifies(loss, rule):
    (x, y), (new, truth) = circles(200), circles(200, seed=1)
    model = ContrastiveClassifier(loss=loss, rule=rule, epochs=20, random_state=0, **SMALL)
    names = np.array(["inner", "outer"])
    model.fit(x, names[1 - y])
    assert model.score(new, names[1 - truth]) > 0.85
    best = model.predict_proba(new).argmax(axis=1)
    np.testing.assert_array_equal(model.classes_[best], model.predict(new))


def test_digits():
    x, y = load_digits(return_X_y=True)
    # Ten, for which the bound was set: the 20 that vote by default make 91.8 % after these few epochs.
    model = ContrastiveClassifier(neighbours=10, epochs=5, width=128, random_state=0).fit(x[:1000], y[:1000])
    assert model.score(x[1000:], y[1000:]) > 0.92


def test_pipeline_grid_search_and_clone():
    x, y = circles(120)
    pipeline = make_pipeline(StandardScaler(), ContrastiveClassifier(epochs=2, random_state=0, **SMALL))
    search = GridSearchCV(pipeline, {"contrastiveclassifier__loss": ["sincere", "supcon"]}, cv=2).fit(x, y)
    assert set(search.cv_results_["param_contrastiveclassifier__loss"]) == {"sincere", "supcon"}
    model = search.best_estimator_[-1]
    assert clone(model).get_params() == model.get_params()
    assert model.set_params(temperature=0.3).temperature == 0.3


def test_a_seed_repeats_a_fit_and_leaves_other_generators_alone():
    x, y = circles(120)
    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)
    first, same = (ContrastiveTransformer(epochs=2, random_state=3, **SMALL).fit(x, y).transform(x) for _ in range(2))
    assert torch.equal(torch.rand(3), expected)
    np.testing.assert_array_equal(first, same)
    other = ContrastiveTransformer(epochs=2, random_state=4, **SMALL).fit(x, y).transform(x)
    assert np.abs(first - other).max() > 0.1


def test_rows_have_length_one_and_the_precision_of_the_input():
    x, y = circles(80)
    model = ContrastiveTransformer(epochs=1, random_state=0, **SMALL).fit(x, y)
    double, single = model.transform(x), model.transform(x.astype(np.float32))
    np.testing.assert_allclose(np.linalg.norm(double, axis=1), 1)
    assert (double.dtype, single.dtype) == (np.float64, np.float32)
    np.testing.assert_allclose(single, double, atol=1e-4)
    assert model.get_feature_names_out()[-1] == "contrastivetransformer7"
    assert model.set_params(output="features").transform(x).shape == (80, 32)


def test_large_offsets_are_taken_off_before_anything_is_rounded():
    x, y = circles(120)
    plain = ContrastiveTransformer(epochs=2, random_state=0, **SMALL).fit(x, y).transform(x)
    moved = ContrastiveTransformer(epochs=2, random_state=0, **SMALL).fit(x + 1e9, y).transform(x + 1e9)
    np.testing.assert_allclose(moved, plain, atol=1e-3)


def test_a_pickled_model_predicts_the_same():
    x, y = circles(80)
    model = ContrastiveClassifier(epochs=1, random_state=0, **SMALL).fit(x, y)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict_proba(x), model.predict_proba(x))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"loss": "triplet"}, "loss must be one of"),
        ({"rule": "magic"}, "rule must be one of"),
        ({"output": "logits"}, "output must be one of"),
        ({"neighbours": 0}, "neighbours must be a whole number from 1"),
        ({"epochs": 0}, "epochs must be a whole number from 1"),
        ({"learning_rate": 0.0}, "learning_rate must be positive"),
        ({"learning_rate": "fast"}, "learning_rate must be a number: got 'fast'"),
        ({"device": "nowhere"}, "device must be 'auto', 'cpu', 'cuda' or 'cuda:N': got 'nowhere'"),
        ({"weight_decay": -1.0}, "weight_decay must be at least 0"),
        ({"temperature": 0.0}, "temperature must be positive"),
        ({"mask": 2.0}, "mask must lie between 0 and 1: got 2.0"),
        ({"noise": -1}, "noise must be at least 0 and finite: got -1"),
        ({"batch_size": 2}, "batch_size must be at least 4"),
    ],
)
def test_a_wrong_option_is_named_when_fitting(changes, message):
    x, y = circles(40)
    with pytest.raises(OptionError, match=message):
        ContrastiveClassifier(**{"epochs": 1, **SMALL, **changes}).fit(x, y)


def test_too_little_to_learn_from():
    x, _ = circles(20)
    with pytest.raises(InputError, match="two classes with at least two samples"):
        ContrastiveTransformer(epochs=1, **SMALL).fit(x, np.zeros(20))
    with pytest.raises(ValueError, match="Unknown label type: continuous"):
        ContrastiveTransformer(epochs=1, **SMALL).fit(x, np.linspace(0, 1, 20))


def test_every_class_alone_is_too_little():
    x, _ = circles(6)
    with pytest.raises(InputError, match=r"y must hold two classes with .* Got 6 classes of 6 samples"):
        ContrastiveTransformer(epochs=1, **SMALL).fit(x, list("abcdef"))


@pytest.mark.parametrize(("before", "after"), [("knn", "class_means"), ("class_means", "knn")])
def test_a_rule_that_is_set_after_the_fit_waits_for_the_next(before, after):
    x, y = circles(60)
    model = ContrastiveClassifier(epochs=1, random_state=0, rule=before, **SMALL).fit(x, y)
    told = model.predict_proba(x)
    np.testing.assert_array_equal(model.set_params(rule=after).predict_proba(x), told)
    assert model.fit(x, y).predict_proba(x).shape == (60, 2)
    assert model.rule_ == after


def test_without_scikit_learn_the_import_says_what_to_install(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.delitem(sys.modules, "sincere.estimators")
    with pytest.raises(ImportError, match=r"pip install \"sincere\[lab\]\""):
        importlib.import_module("sincere.estimators")


def test_numbers_of_numpy_are_numbers():
    """As a grid of np.arange or a drawn float32 hands them on; the fit is that of Python's own."""
    x, y = circles(80)
    kinds = {"dim": np.int64, "width": np.int32, "depth": np.int64, "views": np.int16, "epochs": np.int64}
    kinds |= {"neighbours": np.int64, "temperature": np.float32, "noise": np.float32, "mask": np.float64}
    kinds |= {"batch_size": np.int64, "learning_rate": np.float32, "weight_decay": np.float32}
    values = {"dim": 4, "width": 16, "depth": 2, "views": 2, "epochs": 2, "neighbours": 3, "temperature": 0.25}
    values |= {"noise": 0.125, "mask": 0.0625, "batch_size": 32, "learning_rate": 2.0**-7, "weight_decay": 2.0**-7}
    for rule in ("knn", "class_means"):
        plain = ContrastiveClassifier(rule=rule, random_state=0, **values).fit(x, y)
        theirs = {name: kinds[name](value) for name, value in values.items()}
        model = ContrastiveClassifier(rule=rule, random_state=0, **theirs).fit(x, y)
        np.testing.assert_array_equal(model.predict_proba(x), plain.predict_proba(x))
    search = GridSearchCV(plain, {"neighbours": np.arange(1, 3)}, cv=2, error_score="raise").fit(x, y)
    assert search.best_params_["neighbours"] in (1, 2)


def test_columns_are_named_by_what_was_fitted():
    x, y = circles(80)
    model = ContrastiveTransformer(epochs=1, dim=3, width=8, random_state=0).fit(x, y)
    model.set_params(dim=7, width=9)  # for the next fit
    assert len(model.get_feature_names_out()) == model.transform(x).shape[1] == 3
    assert len(model.set_params(output="features").get_feature_names_out()) == model.transform(x).shape[1] == 8


def groups(sizes, seed=0):
    """Points around a centre for each class, as many as its size."""
    random = np.random.default_rng(seed)
    centres = 4 * np.random.default_rng(7).normal(size=(len(sizes), 5))
    classes = np.repeat(np.arange(len(sizes)), sizes)
    return centres[classes] + random.normal(size=(len(classes), 5)), classes


@pytest.mark.parametrize(
    ("sizes", "given", "neighbours"),
    [
        ([40, 30], None, 20),
        ([5] * 8, None, 5),
        ([60, 40, 7], None, 14),  # twice the smallest, which can then win
        ([60, 40, 3], None, 20),  # 6 for all would be too few
        ([5] * 8, 9, 9),
        ([5] * 8, np.int64(1), 1),
    ],
)
def test_as_many_vote_as_the_classes_allow_or_as_are_given(sizes, given, neighbours):
    (x, y), (new, _) = groups(sizes), groups([4] * len(sizes), seed=1)
    model = ContrastiveClassifier(neighbours=given, epochs=1, random_state=0, **SMALL).fit(x, y)
    assert (model.neighbours_, type(model.neighbours_)) == (neighbours, int)
    assert model.get_params()["neighbours"] is given
    cosines = model.transform(new) @ model.transform(x).T
    shares = np.zeros((len(new), len(sizes)))
    for row, cosine in enumerate(cosines):
        for nearest in np.argsort(-cosine)[:neighbours]:
            shares[row, y[nearest]] += np.exp(cosine[nearest] / 0.1)
    np.testing.assert_allclose(model.predict_proba(new), shares / shares.sum(axis=1, keepdims=True), atol=1e-9)


def test_more_neighbours_than_samples_are_all_of_them_and_said_to_be():
    x, y = groups([3, 4])
    model = ContrastiveClassifier(neighbours=99, epochs=1, random_state=0, **SMALL)
    with pytest.warns(UserWarning, match="neighbours = 99 is more than the training samples: all 7 vote") as warned:
        model.fit(x, y)
    assert warned[0].filename == __file__
    assert model.neighbours_ == 7
    every = ContrastiveClassifier(neighbours=7, epochs=1, random_state=0, **SMALL).fit(x, y)
    np.testing.assert_array_equal(model.predict_proba(x), every.predict_proba(x))


def test_another_number_of_neighbours_needs_no_other_fit():
    (x, y), (new, _) = groups([5] * 8), groups([4] * 8, seed=1)
    model = ContrastiveClassifier(epochs=1, random_state=0, **SMALL).fit(x, y)
    chosen = model.predict_proba(new)
    assert (model.set_params(neighbours=1).predict_proba(new).max(axis=1) == 1).all()
    np.testing.assert_array_equal(model.set_params(neighbours=None).predict_proba(new), chosen)
    assert clone(model).neighbours is None
    assert not hasattr(clone(model), "neighbours_")


@pytest.mark.parametrize("scale", [1e-300, 1e-40, 1e160, 1e300])
def test_a_unit_of_measurement_changes_nothing(scale):
    """Cross-sections in cm² are of 1e-40: no constants, though float32 would take them for zero."""
    x, y = circles(60)
    plain = ContrastiveTransformer(epochs=1, random_state=0, **SMALL).fit(x, y).transform(x)
    scaled = ContrastiveTransformer(epochs=1, random_state=0, **SMALL).fit(x * scale, y).transform(x * scale)
    np.testing.assert_allclose(scaled, plain, atol=1e-6)


@pytest.mark.parametrize("changes", [{"learning_rate": 1e30}, {"weight_decay": 1e30}, {"noise": 1e30}])
def test_a_training_that_runs_away_is_said_to(changes):
    x, y = circles(60)
    with pytest.raises(OptionError, match=r"must end with finite weights.*learning_rate .*weight_decay .*noise"):
        ContrastiveClassifier(epochs=2, random_state=0, **{**SMALL, **changes}).fit(x, y)


@pytest.mark.parametrize(("kind", "far"), [(np.float32, 1e30), (np.float64, 1e250)])
@pytest.mark.parametrize("output", ["embeddings", "features"])
def test_rows_far_away_have_length_one_too(output, kind, far):
    x, y = circles(60)
    model = ContrastiveTransformer(epochs=1, random_state=0, output=output, **SMALL).fit(x.astype(kind), y)
    away = (x[:5] * far).astype(kind)
    np.testing.assert_allclose(np.linalg.norm(model.transform(away), axis=1), 1, rtol=1e-5)
    # Far enough, a network of ReLUs is a cone: the direction no longer depends on how far.
    np.testing.assert_allclose(model.transform(away), model.transform(away / kind(1e6)), atol=1e-4)


def test_rows_beyond_all_numbers_are_refused():
    x, y = circles(60)
    model = ContrastiveTransformer(epochs=1, random_state=0, **SMALL).fit(x.astype(np.float32), y)
    model.statistics_ = type(model.statistics_)(model.statistics_.mean, (1e-30,) * 5)  # a unit that was very small
    with pytest.raises(InputError, match=r"60 of 60 rows lie so far from the training rows"):
        model.transform((x * 1e10).astype(np.float32))


@pytest.mark.parametrize("rule", ["knn", "class_means"])
def test_classes_follow_the_vectors_of_the_fit(rule):
    x, y = circles(60)
    model = ContrastiveClassifier(epochs=1, random_state=0, rule=rule, **SMALL).fit(x, y)
    told = model.predict_proba(x)
    model.set_params(output="features")
    assert model.output_ == "embeddings"
    assert model.transform(x).shape == (60, 32)
    np.testing.assert_array_equal(model.predict_proba(x), told)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"output": "logits"}, "output must be one of 'embeddings', 'features': got 'logits'"),
        ({"neighbours": 2.5}, "neighbours must be a whole number from 1, or None: got 2.5"),
        ({"neighbours": 0}, "neighbours must be a whole number from 1, or None: got 0"),
        ({"neighbours": "many"}, "neighbours must be a whole number from 1, or None: got 'many'"),
        ({"temperature": None}, "temperature must be a number"),
    ],
)
def test_what_is_set_after_the_fit_is_checked_as_well(changes, message):
    x, y = circles(40)
    model = ContrastiveClassifier(epochs=1, random_state=0, **SMALL).fit(x, y).set_params(**changes)
    with pytest.raises(OptionError, match=message):
        model.transform(x) if "output" in changes else model.predict(x)
    if "output" in changes:
        with pytest.raises(OptionError, match=message):
            model.get_feature_names_out()


@pytest.mark.parametrize(
    ("device", "words"),
    [
        ("meta", "device 'meta' must be one that torch can use here"),
        ("cuda:99", "device '?cuda:99'? (needs a GPU|does not exist)"),
        (None, "device must be 'auto', 'cpu', 'cuda' or 'cuda:N': got None"),
    ],
)
def test_a_device_that_is_not_there_is_named(device, words):
    x, y = circles(40)
    with pytest.raises(OptionError, match=words):
        ContrastiveTransformer(epochs=1, device=device, **SMALL).fit(x, y)


def test_a_batch_is_a_whole_number_of_samples():
    x, y = circles(40)
    with pytest.raises(OptionError, match=r"batch_size must be a whole number from 1: got 32\.5"):
        ContrastiveTransformer(epochs=1, **{**SMALL, "batch_size": 32.5}).fit(x, y)


LABELS = {
    "texts": np.array(["no", "yes"]),
    "objects": np.array(["no", "yes"], dtype=object),
    "booleans": np.array([False, True]),
    "floats": np.array([0.0, 1.0]),
    "negative numbers": np.array([-7, -2]),
}


@pytest.mark.parametrize("kind", LABELS)
def test_names_of_classes_change_nothing_else(kind):
    x, y = circles(60)
    plain = ContrastiveClassifier(epochs=2, random_state=0, **SMALL).fit(x, y)
    named = ContrastiveClassifier(epochs=2, random_state=0, **SMALL).fit(x, LABELS[kind][y])
    np.testing.assert_array_equal(named.predict_proba(x), plain.predict_proba(x))
    np.testing.assert_array_equal(named.predict(x), LABELS[kind][plain.predict(x)])
    assert named.score(x, LABELS[kind][y]) == plain.score(x, y)


def test_kinds_of_rows_change_nothing_else():
    x, y = circles(60)
    whole = np.round(50 * x + 100).clip(0, 255)
    plain = ContrastiveTransformer(epochs=1, random_state=0, **SMALL).fit(whole, y).transform(whole)
    for kind in (np.uint8, np.int16, np.int64, object):
        other = whole.astype(kind)
        np.testing.assert_array_equal(
            ContrastiveTransformer(epochs=1, random_state=0, **SMALL).fit(other, y).transform(other), plain
        )
    strided, frozen = np.asfortranarray(np.repeat(whole, 2, axis=0))[::2], whole.copy()
    frozen.setflags(write=False)
    for other in (strided, frozen, whole.tolist(), torch.from_numpy(whole)):
        found = ContrastiveTransformer(epochs=1, random_state=0, **SMALL).fit(other, y).transform(other)
        np.testing.assert_allclose(found, plain, rtol=0, atol=1e-14)  # products of another layout round otherwise


def test_a_random_state_goes_on_and_a_seed_repeats():
    x, y = circles(60)
    model = ContrastiveTransformer(epochs=1, random_state=np.random.RandomState(0), **SMALL)
    first, second = (model.fit(x, y).transform(x) for _ in range(2))
    assert np.abs(first - second).max() > 0.1
    model.set_params(random_state=0)
    np.testing.assert_array_equal(model.fit(x, y).transform(x), first)
    np.testing.assert_array_equal(model.fit(x, y).transform(x), first)
