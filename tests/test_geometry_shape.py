"""Simplex, neural collapse, spectrum, CKA, robustness and detection: against NumPy, SciPy and scikit-learn."""

import math
import subprocess
import sys

import numpy as np
import pytest
import torch
from scipy.spatial.distance import pdist
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score, roc_curve
from sklearn.neighbors import NearestNeighbors

from embedded import made, simplex, unit
from sincere.embeddings import EmbeddingSet
from sincere.errors import InputError, OptionError
from sincere.geometry import (
    head_robustness,
    linear_cka,
    neural_collapse,
    out_of_class,
    simplex_conditions,
    spectrum,
)


def means_of(found, rows):
    labels = found.labels.numpy()
    return np.stack([rows[labels == c].mean(axis=0) for c in sorted(set(labels.tolist()))])


@pytest.mark.parametrize("classes", [2, 3, 9])
def test_a_regular_simplex_meets_every_condition(classes):
    found = simplex(classes, dim=8)
    conditions, collapse = simplex_conditions(found), neural_collapse(found)
    for name in ("s1", "s2", "s3", "mean_deviation", "largest_deviation"):
        assert getattr(conditions, name) == pytest.approx(0, abs=1e-6)
    assert conditions.target == -1 / (classes - 1)
    assert conditions.mean_cosine == pytest.approx(conditions.target, abs=1e-6)
    assert conditions.within_collapse == pytest.approx(1, abs=1e-6)
    assert conditions.fits
    for name in ("nc1", "nc2_equinorm", "nc2_equiangular", "nc2_maximal", "nc2_etf"):
        assert getattr(collapse, name) == pytest.approx(0, abs=1e-6)
    used = spectrum(found)
    assert used.effective_rank == pytest.approx(classes - 1, rel=1e-5)
    assert used.participation_ratio == pytest.approx(classes - 1, rel=1e-5)
    assert used.dims_for[99] == classes - 1


def test_more_classes_than_a_simplex_has_room_for():
    found = made(n=60, classes=6, dim=4)
    assert not simplex_conditions(found).fits
    assert simplex_conditions(made(n=60, classes=5, dim=4)).fits


def test_simplex_conditions_from_their_definitions():
    found = made(n=120, noise=1.0)
    rows, labels = unit(found), found.labels.numpy()
    means, conditions = means_of(found, rows), simplex_conditions(found)
    norms = np.linalg.norm(means, axis=1)
    distances = pdist(means)
    across = 1 - pdist(means, "cosine")
    assert conditions.s1 == pytest.approx(np.linalg.norm(means.mean(axis=0)), abs=1e-7)
    assert conditions.s2 == pytest.approx(norms.std() / norms.mean(), abs=1e-7)
    assert conditions.s3 == pytest.approx(distances.std() / distances.mean(), abs=1e-7)
    assert conditions.mean_cosine == pytest.approx(across.mean(), abs=1e-7)
    assert conditions.mean_deviation == pytest.approx(np.abs(across + 1 / 4).mean(), abs=1e-7)
    assert conditions.largest_deviation == pytest.approx(np.abs(across + 1 / 4).max(), abs=1e-7)
    own = [row @ means[label] / norms[label] for row, label in zip(rows, labels, strict=True)]
    assert conditions.within_collapse == pytest.approx(np.mean(own), abs=1e-7)


@pytest.mark.skipif(sys.platform != "linux", reason="others count the memory of a process in other units")
def test_a_simplex_of_many_classes_takes_no_vector_for_every_pair():
    code = (
        "import resource, torch; from sincere.embeddings import EmbeddingSet; from sincere.geometry import *\n"
        "vectors = torch.randn(1400, 128, generator=torch.Generator().manual_seed(0))\n"
        "found = EmbeddingSet.from_arrays(vectors, torch.arange(1400) % 700)\n"
        "def peak(): return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "before = peak(); simplex_conditions(found); print((peak() - before) // 1024)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(run.stdout) < 120  # MB; a vector for every pair of means would be 250, and their differences as much


def test_classes_without_samples_are_left_out():
    found = made(n=60, classes=4)
    wider = EmbeddingSet(found.embeddings, found.labels + 1, tuple("abcdef"), "wider")
    one, two = simplex_conditions(found), simplex_conditions(wider)
    assert (one.s1, one.s2, one.s3, one.target) == (two.s1, two.s2, two.s3, two.target)
    assert two.cosines[0] == (None,) * 6
    assert neural_collapse(found) == neural_collapse(wider)
    alone = simplex_conditions(simplex(classes=1))
    assert (alone.target, alone.s3, alone.mean_deviation) == (None, None, None)
    assert neural_collapse(simplex(classes=1)).nc1 is None


@pytest.mark.parametrize("dim", [3, 12], ids=["fewer dimensions than classes", "more"])
def test_neural_collapse_from_its_definitions(dim):
    found = made(n=140, classes=6, dim=dim, noise=0.8)
    rows, labels = unit(found), found.labels.numpy()
    means = means_of(found, rows)
    centred = means - means.mean(axis=0)
    away = rows - means[labels]
    within, between = away.T @ away / len(rows), centred.T @ centred / 6
    truth = np.trace(within @ np.linalg.pinv(between, rcond=1e-10)) / 6
    collapse = neural_collapse(found)
    assert collapse.nc1 == pytest.approx(truth, rel=1e-5)
    norms = np.linalg.norm(centred, axis=1)
    angles = 1 - pdist(centred, "cosine")
    assert collapse.nc2_equinorm == pytest.approx(norms.std() / norms.mean(), abs=1e-6)
    assert collapse.nc2_equiangular == pytest.approx(angles.std(), abs=1e-6)
    assert collapse.nc2_maximal == pytest.approx(np.abs(angles + 1 / 5).mean(), abs=1e-6)
    gram, frame = centred @ centred.T, np.eye(6) - 1 / 6
    truth = np.linalg.norm(gram / np.linalg.norm(gram) - frame / np.linalg.norm(frame))
    assert collapse.nc2_etf == pytest.approx(truth, abs=1e-6)
    assert (collapse.nc3, collapse.nc4) == (None, None)


def test_a_head_that_is_the_class_means_has_collapsed_too():
    found = made(n=140, classes=6, dim=12, noise=1.5)
    means = torch.from_numpy(means_of(found, unit(found)))
    centred = means - means.mean(dim=0)
    head = neural_collapse(found, weights=7 * centred)
    assert head.nc3 == pytest.approx(0, abs=1e-6)
    # argmax μ·h − ‖μ‖²/2 is the nearest mean
    assert neural_collapse(found, weights=means, bias=-means.square().sum(dim=1) / 2).nc4 == 0
    weights, bias = torch.randn(6, 12), torch.randn(6)
    other = neural_collapse(found, weights=weights, bias=bias)
    ratio = weights.double() / weights.double().norm() - centred / centred.norm()
    assert other.nc3 == pytest.approx(float(ratio.norm()), abs=1e-6)
    rows = unit(found)
    nearest = np.linalg.norm(rows[:, None] - means.numpy(), axis=2).argmin(axis=1)
    answers = (rows @ weights.double().numpy().T + bias.double().numpy()).argmax(axis=1)
    assert other.nc4 == pytest.approx((nearest != answers).mean())
    with pytest.raises(InputError, match=r"weights must have shape \(6, 12\)"):
        neural_collapse(found, weights=weights.T)
    with pytest.raises(InputError, match="bias comes with weights"):
        neural_collapse(found, bias=bias)


def test_features_are_taken_as_they_are():
    found = made(n=50, dim=4)
    with_features = EmbeddingSet(found.embeddings, found.labels, found.class_names, "f", features=3 * found.embeddings)
    rows, labels = found.embeddings.double().numpy(), found.labels.numpy()
    means = means_of(found, rows)
    norms = np.linalg.norm(means - means.mean(axis=0), axis=1)
    collapse = neural_collapse(with_features, on="features")
    assert collapse.nc2_equinorm == pytest.approx(norms.std() / norms.mean(), abs=1e-6)
    assert collapse != neural_collapse(with_features)
    assert len(labels) == 50


def test_spectrum_is_that_of_scikit_learns_pca():
    found = made(n=200, dim=7, noise=1.0)
    used, pca = spectrum(found), PCA().fit(unit(found))
    values = pca.explained_variance_ * 199 / 200
    np.testing.assert_allclose(used.eigenvalues, values, atol=1e-8)
    shares = pca.explained_variance_ratio_
    assert used.effective_rank == pytest.approx(math.exp(-(shares * np.log(shares)).sum()), rel=1e-6)
    assert used.participation_ratio == pytest.approx(values.sum() ** 2 / (values**2).sum(), rel=1e-6)
    for percent in (90, 99):
        assert used.dims_for[percent] == int(np.searchsorted(shares.cumsum(), percent / 100) + 1)
    rows = torch.cat([torch.eye(10), -torch.eye(10)])
    even = spectrum(EmbeddingSet.from_arrays(rows, torch.arange(20) % 2))
    assert even.dims_for[90] == 9  # nine of ten equal ones, although nine times 0.1 is rounded to less than 0.9
    point = spectrum(simplex(classes=1))
    assert point.dims_for == {}  # no variance, and none made up of rounding
    assert point.effective_rank is None


def test_few_samples_in_many_dimensions():
    """A matrix of dimensions by dimensions would take 320 GB."""
    dim = 200_000
    rows = np.random.default_rng(0).normal(size=(5, dim)).astype(np.float32)
    found = EmbeddingSet.from_arrays(rows, [0, 1, 0, 1, 0])
    centred = [x - x.mean(axis=0) for x in (unit(found), rows[:, :70].astype(np.float64))]
    sizes = [np.linalg.svd(x, compute_uv=False) ** 2 for x in centred]
    used = spectrum(found)
    np.testing.assert_allclose(used.eigenvalues[:5], sizes[0] / 5, atol=1e-9)
    assert (len(used.eigenvalues), set(used.eigenvalues[5:])) == (dim, {0.0})
    truth = np.trace(centred[0] @ centred[0].T @ centred[1] @ centred[1].T) / math.prod(map(np.linalg.norm, sizes))
    few = torch.from_numpy(rows[:, :70])
    assert linear_cka(torch.from_numpy(unit(found)), few) == pytest.approx(truth, rel=1e-9)
    assert linear_cka(few, torch.from_numpy(unit(found))) == pytest.approx(truth, rel=1e-9)


def test_cka_of_what_nothing_connects_is_not_below_zero():
    random = np.random.default_rng(0)
    for _ in range(40):
        first, second = np.linalg.qr(np.column_stack([np.ones(6), random.normal(size=(6, 2))]))[0][:, 1:].T
        x, y = (torch.from_numpy(np.outer(one, random.normal(size=9))) for one in (first, second))
        assert 0 <= linear_cka(x, y) < 1e-12


def test_cka_is_that_of_gram_matrices():
    a, b = torch.randn(60, 5), torch.randn(60, 8)
    b[:, :3] += a[:, :3]
    centre = np.eye(60) - 1 / 60
    k, m = (centre @ (x.double() @ x.double().T).numpy() @ centre for x in (a, b))
    truth = np.trace(k @ m) / math.sqrt(np.trace(k @ k) * np.trace(m @ m))
    assert linear_cka(a, b) == pytest.approx(truth, abs=1e-10)
    assert linear_cka(b, a) == pytest.approx(truth, abs=1e-10)
    rotation = torch.linalg.qr(torch.randn(5, 5))[0]
    assert linear_cka(a, 3 * a @ rotation + 2) == pytest.approx(1, abs=1e-6)
    one, two = made(seed=1), made(seed=1, noise=0.9)
    on_the_sphere = linear_cka(*(torch.from_numpy(unit(x)) for x in (one, two)))
    assert linear_cka(one, two) == pytest.approx(on_the_sphere, abs=1e-7)
    assert linear_cka(one, two) != pytest.approx(linear_cka(one.embeddings, two.embeddings), abs=1e-4)
    with pytest.raises(InputError, match="same samples in the same order"):
        linear_cka(one, made(seed=2))
    with pytest.raises(InputError, match="same samples, at least two"):
        linear_cka(a, b[:50])
    with pytest.raises(InputError, match="same samples, at least two"):
        linear_cka(a[:1], b[:1])
    with pytest.raises(InputError, match="nothing varies"):
        linear_cka(a, torch.ones(60, 2))


def fitted(train, test, l2):
    """scikit-learn's head, on standardised unit embeddings as the library's: weights and bias on the vectors."""
    rows = unit(train)
    mean, scale = rows.mean(axis=0), rows.std(axis=0)
    model = LogisticRegression(C=1 / (l2 * len(rows)), tol=1e-6, max_iter=2000)
    model.fit((rows - mean) / scale, train.labels.numpy())
    weight = model.coef_ / scale
    return weight, model.intercept_ - weight @ mean


@pytest.mark.parametrize("norm", ["length", "coordinate"])
def test_robustness_is_that_of_a_search_over_steps(norm):
    train, test = made(n=200, noise=0.8, seed=1), made(n=80, noise=0.8, seed=2)
    steps = (0.0, 0.05, 0.15, 0.4)
    found = head_robustness(train, test, steps=steps, norm=norm, l2=0.01, draws=200)
    weight, bias = fitted(train, test, 0.01)
    rows, labels = unit(test), test.labels.numpy()
    for place, step in enumerate(steps):
        fgsm, worst = [], []
        for x, y in zip(rows, labels, strict=True):
            scores = weight @ x + bias
            p = np.exp(scores - scores.max())
            p /= p.sum()
            p[y] -= 1
            sign = np.sign(p @ weight)
            moved = x + step * (sign if norm == "coordinate" else sign / np.linalg.norm(sign))
            fgsm.append((weight @ moved + bias).argmax() == y)
            # towards every other class in turn, along the direction that gains most in this norm
            right = scores.argmax() == y
            for c in set(range(len(weight))) - {y}:
                towards = weight[c] - weight[y]
                best = np.sign(towards) if norm == "coordinate" else towards / np.linalg.norm(towards)
                attacked = weight @ (x + step * best) + bias
                right = right and (step == 0 or attacked[c] < attacked[y])
            worst.append(right)
        assert found.fgsm[place].value == pytest.approx(np.mean(fgsm), abs=1 / 80 + 1e-9)  # two fits, one sample
        assert found.worst[place].value == pytest.approx(np.mean(worst), abs=1 / 80 + 1e-9)
        assert found.worst[place].value <= found.fgsm[place].value
        assert found.worst[place].low <= found.worst[place].value <= found.worst[place].high
    assert found.fgsm[0] == found.worst[0]
    assert found.mean_norm == pytest.approx(1, abs=1e-6)


def test_the_radius_is_where_half_of_the_right_ones_are_lost():
    train, test = made(n=200, noise=0.5, seed=1), made(n=101, noise=0.5, seed=2)
    radius = head_robustness(train, test, draws=100).radius
    around = head_robustness(train, test, steps=(0, radius * 0.999, radius * 1.001), draws=100).worst
    right = round(around[0].value * 101)
    assert round(around[1].value * 101) >= right / 2 >= round(around[2].value * 101)
    with pytest.raises(OptionError, match="steps must hold finite sizes from 0"):
        head_robustness(train, test, steps=(-1.0,))
    with pytest.raises(InputError, match="share a dimension"):
        head_robustness(train, made(dim=9))


def class_scores(found, other, train):
    rows, labels = unit(train), train.labels.numpy()
    means = np.stack([rows[labels == c].sum(axis=0) for c in range(len(train.class_names))])
    means /= np.linalg.norm(means, axis=1, keepdims=True)
    return [(unit(one) @ means.T).max(axis=1) for one in (found, other)]


def neighbour_scores(found, other, train, k):
    search = NearestNeighbors(n_neighbors=k).fit(unit(train))
    return [1 - search.kneighbors(unit(one))[0][:, -1] ** 2 / 2 for one in (found, other)]


@pytest.mark.parametrize("score", ["nearest_mean", "knn"])
def test_detection_agrees_with_scikit_learn(score):
    train, found = made(n=150, seed=1), made(n=90, seed=2)
    other = made(n=70, classes=2, noise=2.0, seed=3, name="other")
    detected = out_of_class(found, other, train=train, score=score, k=5, draws=300)
    by_means = score == "nearest_mean"
    mine, others = class_scores(found, other, train) if by_means else neighbour_scores(found, other, train, 5)
    truth, scores = np.r_[np.ones(90), np.zeros(70)], np.r_[mine, others]
    assert detected.auroc.value == pytest.approx(roc_auc_score(truth, scores), abs=1e-9)
    false, true, thresholds = roc_curve(truth, scores, drop_intermediate=False)
    first = int(np.argmax(true >= 0.95))
    assert detected.fpr95.value == pytest.approx(false[first], abs=1e-9)
    assert detected.threshold == pytest.approx(thresholds[first], abs=1e-6)
    assert detected.auroc.low < detected.auroc.value < detected.auroc.high
    assert (sum(detected.counts), sum(detected.other_counts)) == (90, 70)


def test_ties_count_half_and_samples_are_no_part_of_their_own_score():
    rows, labels = torch.eye(3)[torch.tensor([0, 0, 1, 1, 2, 2])], torch.tensor([0, 0, 1, 1, 2, 2])
    known = EmbeddingSet(rows, labels, tuple("abc"), "known")
    same = out_of_class(known, known, train=known, draws=100)
    assert same.auroc.value == 0.5
    assert same.fpr95.value == 1
    mixed = EmbeddingSet(torch.cat([rows[:3], -torch.ones(3, 3)]), labels, tuple("abc"), "mixed")
    detected = out_of_class(known, mixed, train=known, draws=100)
    assert detected.auroc.value == roc_auc_score([1] * 6 + [0] * 6, [1] * 9 + [-1 / math.sqrt(3)] * 3)
    far_apart = EmbeddingSet(torch.eye(4), torch.arange(4), tuple("abcd"), "singles")
    # `found` may not find itself, the others may
    assert out_of_class(far_apart, far_apart, draws=100).auroc.value < 0.5
    for score in ("nearest_mean", "knn"):
        assert out_of_class(known, mixed, score=score, k=1, draws=100).auroc.value == 0.75
    with pytest.raises(InputError, match="all sets must have one dimension"):
        out_of_class(known, made(dim=9))
    with pytest.raises(OptionError, match="score must be one of"):
        out_of_class(known, mixed, score="energy")


def test_a_sample_is_left_out_of_the_mean_of_its_own_class():
    found, other = made(n=40, noise=1.0, seed=2), made(n=50, noise=1.5, seed=3, name="other")
    rows, labels = unit(found), found.labels.numpy()
    mine = []
    for i, row in enumerate(rows):
        sums = [rows[(labels == c) & (np.arange(40) != i)].sum(axis=0) for c in range(5)]
        mine.append(max(row @ total / np.linalg.norm(total) for total in sums))
    _, others = class_scores(found, other, found)
    expected = roc_auc_score([1] * 40 + [0] * 50, [*mine, *others])
    assert out_of_class(found, other, draws=100).auroc.value == pytest.approx(expected, abs=1e-9)


def test_a_class_without_samples_is_near_nobody():
    """Not even where all known classes are far: neither at cosine 0 nor anywhere else."""
    names = ("a", "b", "never seen")
    train = EmbeddingSet.from_arrays([[1.0, 0.0], [1.0, 0.1], [1.0, 0.2], [1.0, 0.3]], [0, 0, 1, 1], class_names=names)
    found = EmbeddingSet.from_arrays([[-1.0, 0.9], [-1.0, 0.8]], [0, 1], class_names=names)
    other = EmbeddingSet.from_arrays([[-1.0, 0.0], [-1.0, -0.1]], [0, 1])
    detected = out_of_class(found, other, train=train, draws=100)
    assert detected.auroc.value == 1
    assert detected.threshold < 0


def test_intervals_of_detection_are_the_bootstraps():
    train, found, other = made(n=150, seed=1), made(n=60, seed=2), made(n=50, noise=1.5, seed=3)
    detected = out_of_class(found, other, train=train, draws=2000)
    mine, others = class_scores(found, other, train)
    random = np.random.default_rng(0)
    draws = []
    for _ in range(2000):
        gaps = random.choice(mine, 60)[:, None] - random.choice(others, 50)
        draws.append((gaps > 0).mean() + (gaps == 0).mean() / 2)
    low, high = np.percentile(draws, [2.5, 97.5])
    assert detected.auroc.low == pytest.approx(low, abs=0.1 * (high - low))
    assert detected.auroc.high == pytest.approx(high, abs=0.1 * (high - low))


def test_means_at_one_point_have_no_angles():
    one = EmbeddingSet.from_arrays([[1.0, 2.0]] * 6, [0, 0, 1, 1, 2, 2])
    found = neural_collapse(one)
    assert found.nc1 is found.nc2_equinorm is found.nc2_equiangular is found.nc2_maximal is found.nc2_etf is None


def test_what_is_not_finite_is_refused():
    found, nan = made(), torch.nan
    with pytest.raises(InputError, match="weights must be finite"):
        neural_collapse(found, weights=torch.full((len(found.class_names), found.embeddings.shape[1]), nan))
    with pytest.raises(InputError, match="must be finite"):
        linear_cka(torch.tensor([[nan, 1.0], [1.0, 2.0]]), torch.eye(2))
    for steps in ((nan,), (torch.inf,), 0.5):
        with pytest.raises(OptionError, match="steps must hold finite sizes"):
            head_robustness(found, found, steps=steps)
    for l2 in (nan, 0, -1.0, torch.inf):
        with pytest.raises(OptionError, match="l2 must be positive"):
            head_robustness(found, found, l2=l2)
    with pytest.raises(OptionError, match="k and bins must be whole"):
        out_of_class(found, found, score="knn", k=2.5)


def test_cka_of_numbers_of_any_size():
    generator = torch.Generator().manual_seed(0)
    x, y = torch.randn(2, 9, 4, dtype=torch.float64, generator=generator)
    for size in (1e200, 1e-200, 3e-310):
        assert linear_cka(x * size, y) == pytest.approx(linear_cka(x, y), rel=1e-9)
