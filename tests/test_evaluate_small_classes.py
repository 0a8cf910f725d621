"""Classes with fewer samples than neighbours would vote: k follows them, and words say so."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_digits

from sincere.embeddings import EmbeddingSet
from sincere.evaluate import EvaluationOptions, evaluate
from sincere.nearest.default_k import default_k, k_notes

KNN = EvaluationOptions(("knn",), draws=100)


def islands(sizes, *, seed=0, dim=40, noise=0.5, names=None):
    """Tight clouds around random directions: whoever is near is of the class, and the next class is far off."""
    random = np.random.default_rng(seed)
    centres = np.random.default_rng(99).normal(size=(len(sizes), dim))
    centres /= np.linalg.norm(centres, axis=1, keepdims=True)
    labels = np.repeat(np.arange(len(sizes)), sizes)
    rows = centres[labels] + noise * random.normal(size=(len(labels), dim)) / dim**0.5
    names = names or tuple(f"class {c}" for c in range(len(sizes)))
    return EmbeddingSet.from_arrays(rows, labels, class_names=names, name="islands")


@pytest.mark.parametrize(
    ("counts", "k"),
    [
        ([5000] * 10, 20),  # CIFAR-10
        ([126] * 10, 20),  # digits
        ([600] * 26, 20),  # letter
        ([20] * 50, 20),
        ([6] * 1000, 6),
        ([5] * 1000 + [1] * 10, 5),
        ([900, 90, 10], 20),  # 2 · 10: all ten of the smallest class can still win
        ([899, 89, 9], 18),
        ([899, 89, 5], 10),
        ([900, 90, 4], 20),  # k = 8 for all would be too dear: less than half
        ([900, 90, 3], 20),
        ([900, 90, 1], 20),
        ([990, 3], 20),
        ([300] * 10 + [3] * 30, 3),
        ([30, 2, 1], 2),  # a class of one counts
        ([0, 0, 30], 20),
        ([12], 12),
        ([1, 1], 1),
        ([0, 0], 1),
        ([], 1),
    ],
)
def test_k_for_class_sizes(counts, k):
    assert default_k(torch.tensor(counts, dtype=torch.int64)) == k


@pytest.mark.parametrize(("size", "noted"), [(10, False), (9, True), (7, True), (6, True), (0, False)])
def test_classes_that_half_of_k_can_outvote_are_named(size, noted):
    notes = list(k_notes(20, "given", {"large": 90, "other": size}, one="training sample"))
    assert len(notes) == noted
    if noted:
        assert "1 class has fewer training samples than half of k = 20" in notes[0]
        assert notes[0].endswith(f"nearest: 'other' with {size}")


@given(st.lists(st.integers(0, 60), min_size=1, max_size=60))
@settings(deadline=None)
def test_k_is_reached_by_most_classes_and_is_never_halved_twice(counts):
    k = default_k(torch.tensor(counts))
    there = sorted(count for count in counts if count)
    assert 1 <= k <= 20
    if not there:
        return
    assert k <= max(there)
    reached = sum(count >= k for count in there)
    assert reached >= min(len(there) - 1, 3 * len(there) / 4)
    if there[0] >= 20:
        assert k == 20
    usual = min(20, there[min(len(there) - 1, max(1, len(there) // 4))])
    assert 2 * k >= usual


@pytest.mark.parametrize("sizes", [[6] * 60, [4] * 100, [900, 90, 10], [200, 200, 20, 5]], ids=str)
def test_islands_are_told_apart_whatever_their_size(sizes):
    found = evaluate(islands(sizes), islands([4] * len(sizes), seed=1), options=KNN)
    assert found.classifier("knn").balanced.value == 1


def test_twenty_neighbours_would_fail_small_classes():
    """What k = 20 makes of the same islands: the reason for all of this."""
    train, test = islands([4, 8] * 60, dim=16), islands([4] * 120, seed=1, dim=16)
    twenty = evaluate(train, test, options=EvaluationOptions(("knn",), k=20, draws=100)).classifier("knn")
    assert (twenty.settings["k"], twenty.settings["k_origin"], twenty.title) == (20, "given", "k-NN (k = 20)")
    assert twenty.balanced.value < 0.8
    assert evaluate(train, test, options=KNN).classifier("knn").balanced.value > 0.99


def test_a_lowered_k_says_why():
    found = evaluate(islands([6] * 40), islands([3] * 40, seed=1), options=KNN)
    result = found.classifier("knn")
    assert result.title == "k-NN (k = 6, small classes)"
    assert result.settings["k_origin"] == "default, lowered because classes are small"
    assert any("k = 6 instead of 20 because classes are small (6 training samples each)" in n for n in found.notes)
    large = evaluate(islands([30] * 4), islands([3] * 4, seed=1), options=KNN)
    assert (large.classifier("knn").title, large.notes) == ("k-NN (k = 20)", ())


def test_classes_that_k_is_too_large_for_are_named():
    found = evaluate(islands([90, 90, 3]), islands([5] * 3, seed=1), options=KNN)
    assert found.classifier("knn").title == "k-NN (k = 20)"
    (note,) = found.notes
    assert note.startswith("1 class has fewer training samples than half of k = 20, and can be outvoted")
    assert note.endswith("nearest: 'class 2' with 3")


@pytest.mark.parametrize("each", [3, 5, 10])
def test_few_digits_of_each_class(each):
    """Pixels: with k above the class size most of the votes came from elsewhere."""
    pixels, digits = load_digits(return_X_y=True)
    taken = np.concatenate([np.nonzero(digits == c)[0][:each] for c in range(10)])
    others = np.concatenate([np.nonzero(digits == c)[0][50:80] for c in range(10)])
    train, test = (EmbeddingSet.from_arrays(pixels[p], digits[p], name="digits") for p in (taken, others))
    found = evaluate(train, test, options=KNN).classifier("knn")
    twenty = evaluate(train, test, options=EvaluationOptions(("knn",), k=20, draws=100)).classifier("knn")
    assert found.settings["k"] == each
    assert found.top1.value > twenty.top1.value


def test_one_of_everything_is_singular():
    train = islands([30, 30, 1], names=("a", "b", "c"))
    test = islands([0, 1, 0], seed=1, names=("a", "b", "c"))
    found = evaluate(train, test, options=EvaluationOptions(("knn", "class_means"), draws=100))
    words = "\n".join([str(found), *found.summary])
    assert "61 training and 1 test sample, 3 classes" in words
    assert "right on the one test sample" in words
    assert "2 classes have no test sample to judge by, such as 'a'" in words
    assert not any(wrong in words for wrong in ("1 classes", "1 test samples", "1 samples"))
    alone = evaluate(islands([5]), islands([1], seed=1), options=KNN)
    assert "1 test sample, 1 class;" in str(alone)


def test_hardest_classes_of_few_samples_are_counted():
    names = ("a", "b", "c")
    train = islands([30, 30, 30], names=names)
    test = islands([12, 12, 3], seed=1, names=names)
    turned = EmbeddingSet(test.embeddings, test.labels.clone(), names, "turned")
    turned.labels[[0, 1, 2]] = 1  # three of a, called b
    turned.labels[-1] = 0  # one of c, called a
    (hardest,) = [s for s in evaluate(train, turned, options=KNN).summary if s.startswith("Hardest")]
    assert hardest == "Hardest classes for k-NN (k = 20): b (80.0 %), a (90.0 %)."
    turned.labels[-2] = 2
    turned.labels[0] = 2  # one of a, called c
    (hardest,) = [s for s in evaluate(train, turned, options=KNN).summary if s.startswith("Hardest")]
    assert "c (2 of 3)" in hardest


@pytest.mark.parametrize(("k", "has_one"), [(1, False), (4, False), (5, True)])
def test_fewer_than_five_neighbours_have_no_top5(k, has_one):
    """At most k classes have a vote, so that of one neighbour the first five classes would be the first one alone."""
    generator = np.random.default_rng(0)
    parts = [EmbeddingSet.from_arrays(generator.normal(size=(90, 4)), np.arange(90) % 9) for _ in range(2)]
    found = evaluate(*parts, options=EvaluationOptions(methods=("knn", "class_means"), k=k))
    by_method = {result.method: result for result in found.classifiers}
    assert (by_method["knn"].top5 is not None) == (by_method["knn"].in_top5 is not None) == has_one
    assert by_method["class_means"].top5 is not None
    assert str(found)
