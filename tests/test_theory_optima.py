"""Every figure of the records of optima, from the points that they hold, by NumPy loops."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

import sincere.functional as SF
from sincere import theory
from sincere.errors import OptionError
from sincere.theory.arrangement import class_counts
from sincere.theory.minimise import sphere_residual
from sincere.theory.projection import _within_share


def supcon_by_anchor(z, y, temperature):
    """SupCon of each anchor that has a positive, with its class."""
    found = []
    for t in range(len(y)):
        others = [a for a in range(len(y)) if a != t]
        positives = [p for p in others if y[p] == y[t]]
        if positives:
            log_bottom = math.log(sum(math.exp(z[t] @ z[a] / temperature) for a in others))
            found.append((y[t], np.mean([log_bottom - z[t] @ z[p] / temperature for p in positives])))
    return found


def reduced(found, reduction):
    values = [value for _, value in found]
    if reduction == "class_mean":
        return np.mean([np.mean([value for c, value in found if c == k]) for k in sorted({c for c, _ in found})])
    return sum(values) if reduction == "sum" else np.mean(values)


@pytest.mark.parametrize("reduction", ["mean", "class_mean", "sum"])
def test_the_value_at_the_simplex_for_classes_of_any_size(reduction):
    """One of them of a single point, which is an anchor of nobody."""
    counts = (5, 3, 2, 1)
    found = theory.sphere_optimum("supcon", counts=counts, steps=1, reduction=reduction)
    y = np.repeat(np.arange(4), counts)
    corners = theory.simplex(4, 3).numpy()[y]
    assert found.simplex_value == pytest.approx(reduced(supcon_by_anchor(corners, y, 0.5), reduction), rel=1e-9)
    assert found.value == pytest.approx(reduced(supcon_by_anchor(found.positions.numpy(), y, 0.5), reduction), rel=1e-9)
    assert found.floor is None
    assert found.excess is None
    assert "no bound, classes differ in size" in str(found)


@pytest.mark.parametrize("reduction", ["class_mean", "sum"])
def test_the_set_loss_is_reported_by_its_own_reduction(reduction):
    """Counts without a bound, few steps: the value is that of the points, which the library's exact loss computes."""
    found = theory.sphere_optimum("set_nce", counts=(4, 3), dim=2, steps=1, reduction=reduction)
    exact = SF.set_nce(found.positions, found.labels, method="exact", temperature=0.5, reduction=reduction)
    assert found.value == pytest.approx(float(exact), rel=1e-12)


def test_of_several_starts_the_lowest_is_reported():
    """After too few steps to converge, so that each start ends somewhere else."""
    options = {"classes": 6, "points": 24, "temperature": 0.1, "steps": 1}
    single = [theory.sphere_optimum("supcon", seed=seed, **options) for seed in (4, 5, 6)]
    found = theory.sphere_optimum("supcon", seed=4, starts=3, **options)
    best = min(single, key=lambda one: one.value)
    assert len({one.value for one in single}) == 3
    assert best.seed != 4, "choose other seeds: the first one must not be the best"
    assert (found.value, found.seed) == (best.value, best.seed)
    assert torch.equal(found.positions, best.positions)
    assert found.steps == sum(one.steps for one in single)
    assert not found.converged
    assert found.residual > 1e-4
    with pytest.raises(OptionError, match="starts and dim must be at least 1"):
        theory.sphere_optimum(starts=0)


@pytest.mark.parametrize(("classes", "fits"), [(3, True), (4, True), (5, False)])
def test_corners_fit_into_one_dimension_less(classes, fits):
    found = theory.sphere_optimum("supcon", classes=classes, dim=3, points=2 * classes, steps=1)
    assert found.fits == fits


@pytest.mark.parametrize(("classes", "points", "counts"), [(4, 10, (3, 3, 2, 2)), (3, 3, (1, 1, 1)), (3, 6, (2, 2, 2))])
def test_points_are_spread_evenly(classes, points, counts):
    assert class_counts(classes, points, None) == counts
    with pytest.raises(OptionError, match=r"every one of .* classes needs a point"):
        class_counts(classes, classes - 1, None)


def test_a_simplex_needs_collapsed_classes_and_equal_angles():
    found = theory.sphere_optimum("supcon", classes=3, dim=2, points=9).arrangement
    assert found.is_simplex()
    assert not replace(found, collapse=0.5).is_simplex()
    assert not replace(found, simplex_deviation=0.5).is_simplex()


def test_cross_entropy_is_measured_by_its_points():
    """Classes of unequal size: no two figures are alike."""
    found = theory.cross_entropy_optimum(counts=(5, 3, 2), dim=4, radius=1.7, weight_decay=0.03, steps=1)
    w, z, y = found.weights.numpy(), found.features.numpy(), np.repeat([0, 1, 2], [5, 3, 2])
    radii, norms = np.linalg.norm(w, axis=1), np.linalg.norm(z, axis=1)
    assert found.weight_radii == pytest.approx((radii.min(), radii.max()))
    assert found.feature_norms == pytest.approx((norms.min(), norms.max()))
    means = np.stack([z[y == c].mean(axis=0) for c in range(3)])
    cosines = [w[c] @ means[c] / radii[c] / np.linalg.norm(means[c]) for c in range(3)]
    assert found.alignment == pytest.approx(min(cosines))
    assert max(cosines) - min(cosines) > 1e-3
    logits = z @ w.T
    value = np.mean(np.log(np.exp(logits).sum(axis=1)) - logits[np.arange(10), y])
    assert found.value == pytest.approx(value)
    assert found.regularised == pytest.approx(value + 0.03 * (w**2).sum())
    bound = math.log1p(2 * math.exp(-1.7 * math.sqrt(3) * np.linalg.norm(w) / 2))
    assert found.bound == pytest.approx(bound)
    assert found.excess == pytest.approx(value - bound)
    r = found.predicted_radius
    assert found.predicted_regularised == pytest.approx(math.log1p(2 * math.exp(-1.7 * 3 * r / 2)) + 0.03 * 3 * r**2)
    assert found.radius_error == pytest.approx(max(abs(radii - r)) / r)


def test_cross_entropy_on_the_sphere_at_the_simplex():
    """K weights of the best radius, aligned with the corners: cross-entropy and λ‖W‖² by their definitions."""
    found = theory.sphere_optimum("cross_entropy", classes=3, dim=2, points=6, weight_decay=0.05, steps=1)
    r = theory.weight_radius(classes=3, radius=1.0, weight_decay=0.05)
    corners = theory.simplex(3, 2).numpy()
    logits = r * corners @ corners.T
    value = np.mean(np.log(np.exp(logits).sum(axis=1)) - np.diag(logits))
    assert found.simplex_value == pytest.approx(value + 0.05 * 3 * r**2)


def test_rows_of_imbalance_are_those_of_the_optimum():
    (row,) = theory.imbalance_optimum(("supcon",), ratios=(3,), majority=2, minority=3, members=2, dim=4, steps=1).rows
    found = theory.sphere_optimum("supcon", counts=(6, 6, 2, 2, 2), dim=4, steps=1)
    assert row.counts == found.counts
    cosines = found.cosines.numpy()
    assert row.majority_cosine == pytest.approx(cosines[0, 1])
    assert row.between_cosine == pytest.approx(np.mean([cosines[a, b] for a in (0, 1) for b in (2, 3, 4)]))
    assert row.minority_cosine == pytest.approx(np.mean([cosines[2, 3], cosines[2, 4], cosines[3, 4]]))
    assert row.minority_angle == pytest.approx(math.degrees(math.acos(row.minority_cosine)))
    assert (row.value, row.simplex_value, row.converged) == (found.value, found.simplex_value, False)
    assert [replace(row, minority_cosine=cosine).merged for cosine in (0.98, 0.995)] == [False, True]


def test_similarities_are_measured_by_their_points():
    options = {"dim": 2, "counts": (3,) * 8, "temperature": 0.1, "starts": 2, "seed": 1, "steps": 1}
    found = theory.similarity_optimum("supcon", **options)
    for name in ("cosine", "dot", "euclidean"):
        row = found.of(name, "sphere")
        alone = theory.sphere_optimum("supcon", similarity=name, **options)
        z, y = alone.positions.numpy(), alone.labels.numpy()
        means = np.stack([z[y == c].mean(axis=0) for c in range(8)])
        assert row.value == alone.value
        assert row.spread == pytest.approx(np.linalg.norm(z - means[y], axis=1).max())
        assert row.spread > 1e-6
    for name in ("dot", "euclidean"):
        row = found.of(name, "ball")
        assert 0 < row.norms[0] < row.norms[1] < 1 + 1e-12
        assert row.spread > 0
        # The sphere's own points are one of the starts.
        assert row.value <= found.of("cosine", "sphere").value


def test_ranks_and_shares_behind_a_head():
    """Four corners span three dimensions, however many there are."""
    found = theory.projection_optimum("supcon", heads=("none", "linear"), members=2, feature_dim=6, dim=4, starts=2)
    assert [row.rank for row in found.rows] == [3, 3]
    random = np.random.default_rng(0)
    points, labels = random.standard_normal((12, 3)) + 5, np.arange(12) % 3
    within = sum(((points[labels == c] - points[labels == c].mean(axis=0)) ** 2).sum() for c in range(3))
    total = ((points - points.mean(axis=0)) ** 2).sum()
    assert _within_share(torch.from_numpy(points), torch.from_numpy(labels), 3) == pytest.approx(within / total)


def test_of_several_starts_of_a_head_the_lowest_is_kept():
    options = {"heads": ("mlp",), "members": 2, "steps": 1}
    single = [theory.projection_optimum("supcon", seed=seed, starts=1, **options).rows[0].value for seed in (0, 1, 2)]
    assert len(set(single)) == 3
    found = theory.projection_optimum("supcon", starts=3, **options).rows[0]
    assert found.value == min(single)
    assert not found.converged


def test_the_residual_is_the_share_of_the_gradient_that_could_move_a_point():
    points = torch.nn.functional.normalize(torch.randn(5, 3, dtype=torch.float64), dim=1)
    pull = torch.randn(5, 3, dtype=torch.float64)
    z, g = points.numpy(), pull.numpy()
    tangential = [np.linalg.norm(g[i] - (g[i] @ z[i]) * z[i]) for i in range(5)]
    expected = max(tangential) / np.linalg.norm(g, axis=1).max()
    assert sphere_residual(lambda x: (x * pull).sum(), points) == pytest.approx(expected)
    assert sphere_residual(lambda x: (x * 0).sum(), points) == 0
    assert math.isnan(sphere_residual(lambda x: (x * math.nan).sum(), points))


def test_a_loss_that_is_no_number_has_not_converged():
    """The quotients of a temperature this low are infinite: NaN was reported, and as converged."""
    found = theory.sphere_optimum("supcon", points=8, temperature=5e-324)
    assert math.isnan(found.value)
    assert not found.converged
    assert "NOT converged" in str(found)
    several = theory.similarity_optimum("supcon", points=8, temperature=5e-324, starts=1)
    assert not any(row.converged for row in several.rows)
