"""Every figure on odd sets against loops in float64: duplicates, points, zeros, one class, tiny and huge numbers."""

import itertools
import math

import numpy as np
import pytest
import torch

from embedded import pairs, unit
from sincere.embeddings import EmbeddingSet
from sincere.errors import InputError, OptionError
from sincere.geometry import (
    alignment,
    class_means,
    describe,
    kl_bounds,
    linear_cka,
    loss_readings,
    neural_collapse,
    out_of_class,
    repulsion,
    similarity_by_class_pair,
    similarity_histograms,
    simplex_conditions,
    spectrum,
    uniformity,
)
from sincere.geometry.margins import sample_margins

RANDOM = np.random.default_rng(0)
A, B, C = RANDOM.normal(size=(3, 5))
LOOSE = RANDOM.normal(size=(12, 4))
ODD = {
    "one point": (np.tile([0.3, 0.1, 0.7], (10, 1)), [0] * 3 + [1] * 7),
    "classes that are points": (np.repeat([A, B, C], [3, 7, 2], axis=0), [0] * 3 + [1] * 7 + [2] * 2),
    "points of many lengths": (np.outer(np.arange(1, 13), A), [0, 1] * 6),
    "a class around zero": (np.array([A, B, -A, -B, C, A, B]), [0] * 4 + [1] * 3),
    "zeros alone": (np.zeros((6, 3)), [0, 0, 0, 1, 1, 1]),
    "zeros among others": (np.vstack([np.zeros((2, 4)), LOOSE[:6]]), [0, 1] * 4),
    "one sample": (LOOSE[:1], [0]),
    "two samples": (LOOSE[:2], [0, 1]),
    "one class": (LOOSE[:7], [0] * 7),
    "classes of one": (LOOSE[:6], range(6)),
    "more classes than corners": (RANDOM.normal(size=(20, 2)), [0, 1, 2, 3, 4] * 4),
    "a line": (RANDOM.normal(size=(9, 1)), [0, 1, 1] * 3),
    "huge": (LOOSE * 1e30, [0, 1, 2] * 4),
    "tiny": (LOOSE * 1e-30, [0, 1, 2] * 4),
    "of many sizes": (LOOSE * np.logspace(-30, 30, 12)[:, None], [0, 1, 2] * 4),
}


@pytest.fixture(params=ODD)
def found(request):
    rows, labels = ODD[request.param]
    return EmbeddingSet.from_arrays(rows.astype(np.float32), list(labels))


def assert_same(ours, truth, **tolerance):
    """Equal, and None exactly where there is nothing to average."""
    if truth is None or ours is None:
        assert ours is truth
    else:
        assert ours == pytest.approx(truth, **(tolerance or {"rel": 2e-5, "abs": 2e-6}))


def mean(values):
    values = list(values)
    return math.fsum(values) / len(values) if values else None


def members(found):
    """Unit rows of each class."""
    rows, labels = unit(found), found.labels.numpy()
    return [rows[labels == c] for c in range(len(found.class_names))]


def test_means_over_pairs(found):
    similarity, classes = similarity_by_class_pair(found), members(found)
    for a, b in itertools.product(range(len(classes)), repeat=2):
        two = itertools.combinations(classes[a], 2) if a == b else itertools.product(classes[a], classes[b])
        assert_same(similarity.means[a][b], mean(float(x @ y) for x, y in two))
    assert_same(similarity.within, mean(cos for *_, cos, alike in pairs(found) if alike))
    assert_same(similarity.between, mean(cos for *_, cos, alike in pairs(found) if not alike))


@pytest.mark.parametrize("power", [0.1, 1, 2, 3.5])
def test_alignment(found, power):
    rows, labels = unit(found), found.labels.tolist()
    two = [(i, j) for i, j in itertools.combinations(range(len(labels)), 2) if labels[i] == labels[j]]
    truth = mean(float(np.linalg.norm(rows[i] - rows[j])) ** power for i, j in two)
    # Rows are rounded to float32: a distance below 1e-6 is rounding, of which a small power makes something.
    rounding = 1e-6**power if np.allclose(rows, rows[0], atol=1e-6) else 0.0
    assert_same(alignment(found, power=power), truth, rel=1e-5, abs=1e-5 + rounding)


@pytest.mark.parametrize("power", [0.05, 0.5, 1, 2])
def test_classes_that_are_points_are_aligned(power):
    rows, labels = ODD["classes that are points"]
    assert alignment(EmbeddingSet.from_arrays(rows, labels), power=power) == pytest.approx(0, abs=1e-12)


def test_a_class_that_is_nearly_a_point_keeps_its_size():
    """Distances of 1e-3 to four digits: what 2 − 2·cosine in float32 has one digit of."""
    random = np.random.default_rng(1)
    rows = (A + 5e-4 * random.normal(size=(20, 5))).astype(np.float32)
    found = EmbeddingSet.from_arrays(rows, [0] * 20)
    z = unit(found)
    truth = mean(float(np.linalg.norm(x - y)) for x, y in itertools.combinations(z, 2))
    assert truth < 2e-3
    assert alignment(found, power=1) == pytest.approx(truth, rel=2e-4)


def test_uniformity_is_never_above_zero(found):
    rows = unit(found)
    two = list(itertools.combinations(rows, 2))
    value = uniformity(found)
    assert_same(value, math.log(mean(math.exp(-2 * float((x - y) @ (x - y))) for x, y in two)) if two else None)
    assert value is None or value <= 0


def test_histograms_count_every_pair_once(found):
    histograms = similarity_histograms(found, bins=7)  # an odd number: cosine 0 lies within a bin
    edges = np.linspace(-1, 1, 8)
    for counts, wanted in ((histograms.within, True), (histograms.between, False)):
        cosines = np.clip([cos for *_, cos, alike in pairs(found) if alike is wanted], -1, 1)
        assert counts == tuple(np.histogram(cosines, edges)[0].tolist())


def test_margins(found):
    classes, labels = members(found), found.labels.tolist()
    seen = [0] * len(classes)
    for z, c, margin in zip(unit(found), labels, sample_margins(found).tolist(), strict=True):
        others = np.delete(classes[c], seen[c], axis=0)
        seen[c] += 1
        if not len(others) or len(classes) < 2:
            assert math.isnan(margin)
            continue
        cosines = [direction(rows) @ z for k, rows in enumerate(classes) if k != c]
        assert margin == pytest.approx(direction(others) @ z - max(cosines), abs=2e-5)


def direction(rows):
    """Of the mean; a mean of zero, to the rounding of float32 rows, has none."""
    total = rows.sum(axis=0)
    norm = np.linalg.norm(total)
    return total / norm if norm > 1e-6 else 0 * total


def test_simplex_conditions(found):
    conditions = simplex_conditions(found)
    means = np.array([rows.mean(axis=0) for rows in members(found)])
    k, norms = len(means), np.linalg.norm(means, axis=1)
    assert_same(conditions.s1, float(np.linalg.norm(means.mean(axis=0))))
    assert_same(conditions.s2, norms.std() / norms.mean() if norms.max() > 1e-6 else None)
    distances = [float(np.linalg.norm(a - b)) for a, b in itertools.combinations(means, 2)]
    if distances and max(distances) > 1e-6:
        assert_same(conditions.s3, np.std(distances) / np.mean(distances))
    cosines = [float(direction(a[None]) @ direction(b[None])) for a, b in itertools.combinations(means, 2)]
    assert_same(conditions.mean_cosine, mean(cosines))
    assert_same(conditions.largest_deviation, max((abs(cos + 1 / (k - 1)) for cos in cosines), default=None))
    z, labels = unit(found), found.labels.tolist()
    own = [float(direction(means[c][None]) @ x) for x, c in zip(z, labels, strict=True) if x.any()]
    assert_same(conditions.within_collapse, mean(own))
    assert conditions.fits == (k <= z.shape[1] + 1)


def test_neural_collapse(found):
    collapse, classes = neural_collapse(found), members(found)
    means = np.array([rows.mean(axis=0) for rows in classes])
    centred = means - means.mean(axis=0)
    if len(classes) < 2 or np.abs(centred).max() < 1e-6:
        if np.abs(centred).max() == 0 or len(classes) < 2:
            assert (collapse.nc1, collapse.nc2_equiangular, collapse.nc2_etf) == (None, None, None)
        return
    within = sum((rows - m).T @ (rows - m) for rows, m in zip(classes, means, strict=True)) / len(found)
    between = centred.T @ centred / len(classes)
    assert_same(
        collapse.nc1, np.trace(within @ np.linalg.pinv(between, rcond=1e-10)) / len(classes), rel=1e-4, abs=1e-6
    )
    norms = np.linalg.norm(centred, axis=1)
    assert_same(collapse.nc2_equinorm, norms.std() / norms.mean())
    cosines = [float(direction(a[None]) @ direction(b[None])) for a, b in itertools.combinations(centred, 2)]
    assert_same(collapse.nc2_equiangular, float(np.std(cosines)))
    assert_same(collapse.nc2_maximal, float(np.mean([abs(cos + 1 / (len(classes) - 1)) for cos in cosines])))


def test_the_spectrum(found):
    z = unit(found)
    values = np.linalg.eigvalsh(np.cov(z.T, bias=True).reshape(z.shape[1], -1))[::-1].clip(0)
    ours = spectrum(found)
    np.testing.assert_allclose(ours.eigenvalues, values, atol=1e-6)
    if values.sum() < 1e-10:
        return
    shares = values[values > 0] / values.sum()
    assert_same(ours.effective_rank, float(np.exp(-(shares * np.log(shares)).sum())), rel=1e-4)
    assert_same(ours.participation_ratio, float(1 / (shares**2).sum()), rel=1e-4)


@pytest.mark.parametrize("temperature", [0.02, 0.1, 5.0])
def test_losses_bounds_and_repulsion(found, temperature):
    values = {name: [] for name in ("sincere", "supcon", "supcon_in", "eps_supinfonce", "decoupled", "set_nce")}
    bounds, pushed, margins = {}, [], []
    z, labels = unit(found), found.labels.numpy()
    for t in range(len(labels)):
        s = z @ z[t] / temperature
        pos, neg = s[(labels == labels[t]) & (np.arange(len(labels)) != t)], s[labels != labels[t]]
        if not len(pos):
            continue
        everyone = np.logaddexp.reduce(np.r_[pos, neg])
        lse_neg = np.logaddexp.reduce(neg) if len(neg) else -np.inf
        values["sincere"].append(np.mean(np.logaddexp(pos, lse_neg) - pos))
        values["supcon"].append(np.mean(everyone - pos))
        values["supcon_in"].append(everyone - np.logaddexp.reduce(pos) + math.log(len(pos)))
        values["eps_supinfonce"].append(np.mean(np.logaddexp(pos - 0.25, lse_neg) - pos))
        subsets = [sum(chosen) for chosen in itertools.combinations(np.r_[pos, neg], len(pos))]
        values["set_nce"].append((np.logaddexp.reduce(subsets) - pos.sum()) / len(pos))
        if len(neg):
            values["decoupled"].append(np.mean(lse_neg - pos))
            bounds.setdefault(str(labels[t]), []).append(math.log(len(neg)) - values["sincere"][-1])
        margins.append(np.exp(pos - everyone) - 1 / len(pos))
        pushed.append(margins[-1] > 0)
    readings = loss_readings(found, temperature=temperature)
    assert set(readings) == {name for name, each in values.items() if each}
    for name, reading in readings.items():
        assert_same(reading.value, mean(values[name]), rel=1e-4, abs=1e-4)
    ours = kl_bounds(found, temperature=temperature)
    assert set(ours) == set(bounds)
    for name, each in bounds.items():
        assert_same(ours[name], mean(each), rel=1e-4, abs=1e-4)
    shares = repulsion(found, temperature=temperature)
    if margins and np.abs(np.concatenate(margins)).min() > 1e-5:  # no tie, which rounding would decide
        assert_same(shares["supcon"], float(np.concatenate(pushed).mean()), abs=1e-12)
    assert all(share == 0 for name, share in shares.items() if name != "supcon")


def test_everything_is_described_without_nan(found):
    assert "NaN" not in describe(found, draws=100).to_json()


@pytest.mark.parametrize("value", [0.1, 0.3, 1 / 3, 1e30, 1e-300])
@pytest.mark.parametrize("n", [3, 7, 10, 11])
def test_rows_that_are_all_the_same_cannot_be_compared(value, n):
    varied = torch.randn(n, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    constant = torch.full((n, 3), value, dtype=torch.float64)
    for two in ((constant, varied), (varied, constant)):
        with pytest.raises(InputError, match="every row of one of the two is the same"):
            linear_cka(*two)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64])
def test_cka_takes_what_a_training_loop_has(dtype):
    generator = torch.Generator().manual_seed(0)
    x, y = (torch.randn(9, 4, generator=generator).to(dtype).requires_grad_() for _ in range(2))
    kernels = []
    for rows in (x, y):
        gram = rows.detach().double().numpy() @ rows.detach().double().numpy().T
        centring = np.eye(9) - 1 / 9
        kernels.append(centring @ gram @ centring)
    expected = (kernels[0] * kernels[1]).sum() / np.linalg.norm(kernels[0]) / np.linalg.norm(kernels[1])
    assert linear_cka(x, y) == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("size", [1e-300, 1e-30, 1.0, 1e30, 1e300])
def test_self_duality_has_no_unit(size):
    found = EmbeddingSet.from_arrays(LOOSE.astype(np.float32), [0, 1, 2] * 4)
    weights = torch.randn(3, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    means = np.array([rows.mean(axis=0) for rows in members(found)])
    centred, w = means - means.mean(axis=0), weights.numpy()
    expected = np.linalg.norm(w / np.linalg.norm(w) - centred / np.linalg.norm(centred))
    assert neural_collapse(found, weights=weights * size).nc3 == pytest.approx(expected, rel=1e-5)


GIVEN = EmbeddingSet.from_arrays(LOOSE.astype(np.float32), [0, 1, 2] * 4)
ROWS, LABELS = GIVEN.embeddings, GIVEN.labels


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: class_means(ROWS * math.nan, LABELS, classes=3), InputError, "embeddings must be finite"),
        (lambda: class_means(ROWS[:, 0], LABELS, classes=3), InputError, r"a tensor of shape \(n, d\): got \(12,\)"),
        (lambda: class_means(LOOSE, LABELS, classes=3), InputError, r"a tensor of shape \(n, d\): got ndarray"),
        (lambda: class_means(ROWS, LABELS > 0, classes=2), InputError, "one class number per embedding.*torch.bool"),
        (lambda: class_means(ROWS, torch.ones(12, 3).long(), classes=3), InputError, r"one class number.*\(12, 3\)"),
        (lambda: neural_collapse(GIVEN, weights=np.ones((3, 4))), InputError, "weights must be a torch.Tensor"),
        (lambda: similarity_histograms(GIVEN, bins=np.int64(5)), OptionError, r"a whole number: got np.int64\(5\)"),
        (lambda: similarity_histograms(GIVEN, sample=2.5), OptionError, r"a whole number, to have a pair: got 2.5"),
        (lambda: loss_readings(GIVEN, batch=2.5), OptionError, r"a whole number: got 2.5"),
        (lambda: out_of_class(GIVEN, GIVEN, k="3"), OptionError, r"got '3' and 50"),
    ],
)
def test_what_cannot_be_is_refused_in_words(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_class_means_of_short_labels_and_half_precision():
    expected = np.array([rows.mean(axis=0) for rows in members(GIVEN)])
    for labels in (LABELS, LABELS.to(torch.uint8), LABELS.int()):
        np.testing.assert_allclose(class_means(ROWS, labels, classes=3).numpy(), expected, atol=1e-6)
    for dtype, tolerance in ((torch.float16, 1e-3), (torch.bfloat16, 1e-2)):
        np.testing.assert_allclose(class_means(ROWS.to(dtype), LABELS, classes=3).numpy(), expected, atol=tolerance)
