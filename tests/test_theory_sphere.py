"""Where free points end: against Graf et al.'s theorems, polyhedra, and NumPy code written from the definitions."""

import math
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq, minimize

from sincere import theory
from sincere.errors import OptionError
from sincere.theory.arrangement import arrangement

LOSSES = ("sincere", "supcon", "supcon_in", "eps_supinfonce", "decoupled", "set_nce", "cross_entropy")


def cosines_of(positions, labels):
    """Cosines of class means, and the least cosine of a point to its own, from the positions alone."""
    z, y = positions.numpy(), labels.numpy()
    means = np.stack([z[y == c].mean(axis=0) for c in np.unique(y)])
    means /= np.linalg.norm(means, axis=1, keepdims=True)
    off = (means @ means.T)[~np.eye(len(means), dtype=bool)]
    return off, np.einsum("ij,ij->i", z, means[y]).min()


def supcon_loop(z, y, temperature):
    total, anchors = 0.0, 0
    for t in range(len(y)):
        others = [a for a in range(len(y)) if a != t]
        positives = [p for p in others if y[p] == y[t]]
        if positives:
            log_bottom = math.log(sum(math.exp(z[t] @ z[a] / temperature) for a in others))
            total += sum(log_bottom - z[t] @ z[p] / temperature for p in positives) / len(positives)
            anchors += 1
    return total / anchors


@pytest.mark.parametrize("loss", LOSSES)
def test_four_hundred_points_end_at_the_tetrahedron(loss):
    found = theory.sphere_optimum(loss)
    off, own = cosines_of(found.positions, found.labels)
    assert len(found.labels) == 400
    assert found.positions.shape[1] == 3
    assert np.allclose(np.linalg.norm(found.positions.numpy(), axis=1), 1)
    assert np.abs(off + 1 / 3).max() < 1e-4
    assert own > 1 - 1e-6
    assert found.is_simplex()
    assert found.converged
    assert -1e-9 < found.excess < 1e-6
    assert found.simplex_deviation == pytest.approx(np.abs(off + 1 / 3).max(), abs=1e-12)


def test_bounds_at_the_tetrahedron_are_the_closed_forms():
    gap = math.exp(-4 / 3 / 0.5)
    assert theory.sphere_optimum("sincere", points=40).floor == pytest.approx(math.log1p(30 * gap))
    assert theory.sphere_optimum("supcon", points=40).floor == pytest.approx(math.log(9 + 30 * gap))
    assert theory.sphere_optimum("decoupled", points=40).floor == pytest.approx(math.log(30 * gap))


def test_reported_value_is_the_loss_of_the_reported_positions():
    found = theory.sphere_optimum("supcon", classes=3, dim=2, points=12, steps=3)
    assert found.value == pytest.approx(supcon_loop(found.positions.numpy(), found.labels.numpy(), 0.5), abs=1e-12)


def test_scipy_finds_nothing_lower():
    """Minimisation by other code, with numerical gradients of another implementation, from another start."""
    y = np.repeat([0, 1, 2], 2)

    def value(angles):
        return supcon_loop(np.stack([np.cos(angles), np.sin(angles)], axis=1), y, 0.5)

    rng = np.random.default_rng(5)
    starts = (rng.uniform(0, 2 * np.pi, size=6) for _ in range(5))
    lowest = min(minimize(value, start, method="BFGS", options={"gtol": 1e-4}).fun for start in starts)
    ours = theory.sphere_optimum("supcon", classes=3, dim=2, points=6)
    assert abs(lowest - ours.value) < 1e-6


@pytest.mark.parametrize("classes", [2, 3, 5, 8])
@pytest.mark.parametrize("loss", ["sincere", "supcon"])
def test_any_number_of_classes_that_fits(loss, classes):
    found = theory.sphere_optimum(loss, classes=classes, dim=7, points=6 * classes)
    off, own = cosines_of(found.positions, found.labels)
    assert np.abs(off + 1 / (classes - 1)).max() < 1e-3
    assert own > 1 - 1e-3
    assert abs(found.excess) < 1e-6


@pytest.mark.parametrize(
    ("classes", "dim", "cosines"),
    [
        (4, 2, {0: 4, -1: 2}),  # a square
        (5, 2, {math.cos(2 * math.pi / 5): 5, math.cos(4 * math.pi / 5): 5}),  # a pentagon
        (6, 3, {0: 12, -1: 3}),  # an octahedron
        (12, 3, {1 / math.sqrt(5): 30, -1 / math.sqrt(5): 30, -1: 6}),  # an icosahedron
        (8, 4, {0: 24, -1: 4}),  # a cross-polytope
    ],
)
def test_more_classes_than_corners_end_at_known_polytopes(classes, dim, cosines):
    found = theory.sphere_optimum("sincere", classes=classes, dim=dim, points=4 * classes, starts=2)
    off, own = cosines_of(found.positions, found.labels)
    expected = np.sort([cosine for cosine, pairs in cosines.items() for _ in range(2 * pairs)])
    assert np.abs(np.sort(off) - expected).max() < 1e-3
    assert own > 1 - 1e-3
    assert not found.fits
    assert not found.is_simplex()
    assert found.excess > 0.01
    assert "corners need" in found.summary


def test_a_low_temperature_reaches_the_tetrahedron_with_a_few_starts():
    found = theory.sphere_optimum("sincere", temperature=0.1, points=80, starts=3)
    off, _ = cosines_of(found.positions, found.labels)
    assert np.abs(off + 1 / 3).max() < 1e-3
    assert found.excess < 1e-8


def test_one_class_and_classes_of_one_point():
    alone = theory.sphere_optimum("sincere", classes=1, dim=2, points=5)
    assert alone.value == 0
    assert alone.floor == 0
    assert alone.simplex_deviation == 0
    singles = theory.sphere_optimum("supcon", counts=(1, 1, 1), dim=2)
    assert singles.value == 0
    assert singles.converged
    alone = theory.sphere_optimum("decoupled", counts=(5,), dim=2)  # no negative, so no loss
    assert (alone.value, alone.floor, alone.excess) == (0.0, 0.0, 0.0)


def test_same_seed_same_points_and_other_seed_a_rotation_of_them():
    first, again, other = (theory.sphere_optimum("supcon", points=40, seed=seed) for seed in (0, 0, 1))
    assert torch.equal(first.positions, again.positions)
    assert not torch.allclose(first.positions, other.positions, atol=0.1)
    assert first.value == pytest.approx(other.value, abs=1e-8)


@pytest.mark.parametrize(
    ("classes", "radius", "decay"), [(4, 1.0, 0.01), (10, 3.0, 0.001), (3, 0.5, 0.1), (2, 2.0, 0.02)]
)
def test_cross_entropy_has_the_radius_and_the_bound_of_the_theorem(classes, radius, decay):
    found = theory.cross_entropy_optimum(classes=classes, dim=9, points=10 * classes, radius=radius, weight_decay=decay)
    root = brentq(
        lambda r: 2 * decay * r * (math.exp(classes * radius * r / (classes - 1)) + classes - 1) - radius, 0, 50
    )
    assert found.predicted_radius == pytest.approx(root, rel=1e-9)
    w, z = found.weights.numpy(), found.features.numpy()
    assert np.allclose(np.linalg.norm(w, axis=1), root, rtol=1e-4)
    assert found.radius_error < 1e-4
    assert np.allclose(np.linalg.norm(z, axis=1), radius, rtol=1e-4)
    off, _ = cosines_of(found.features, torch.arange(classes).repeat_interleave(10))
    assert np.abs(off + 1 / (classes - 1)).max() < 1e-3
    logits = z @ w.T
    y = np.repeat(np.arange(classes), 10)
    cross_entropy = np.mean(np.log(np.exp(logits).sum(axis=1)) - logits[np.arange(len(y)), y])
    bound = math.log1p((classes - 1) * math.exp(-radius * math.sqrt(classes) * np.linalg.norm(w) / (classes - 1)))
    assert found.value == pytest.approx(cross_entropy, abs=1e-9)
    assert found.bound == pytest.approx(bound, abs=1e-12)
    assert 0 <= cross_entropy - bound + 1e-12 < 1e-6
    assert found.alignment > 1 - 1e-5
    assert found.converged


@given(
    classes=st.integers(2, 6),
    radius=st.floats(0.1, 5),
    seed=st.integers(0, 1000),
)
@settings(max_examples=30, deadline=None)
def test_no_random_features_and_weights_are_below_the_bound(classes, radius, seed):
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(4 * classes, 4))
    z *= radius * rng.uniform(0, 1, size=(len(z), 1)) / np.linalg.norm(z, axis=1, keepdims=True)
    w, y = rng.normal(size=(classes, 4)) * rng.uniform(0, 3), np.repeat(np.arange(classes), 4)
    logits = z @ w.T
    value = np.mean(np.log(np.exp(logits).sum(axis=1)) - logits[np.arange(len(y)), y])
    bound = theory.cross_entropy_bound(classes=classes, radius=radius, weight_norm=float(np.linalg.norm(w)))
    assert value >= bound - 1e-12


def test_small_classes_move_together_and_the_optimum_is_below_the_simplex():
    found = theory.imbalance_optimum(("sincere", "supcon"), ratios=(1, 5, 25))
    for loss in ("sincere", "supcon"):
        rows = found.of(loss)
        assert rows[0].minority_cosine == pytest.approx(-1 / 3, abs=1e-3)
        assert all(a.minority_cosine < b.minority_cosine for a, b in pairwise(rows))
        assert all(a.majority_cosine > b.majority_cosine for a, b in pairwise(rows))
        assert all(row.value < row.simplex_value for row in rows[1:])
        assert all(row.converged and row.collapse < 1e-3 for row in rows)
    assert found.merging_ratio("sincere") == 25
    assert found.merging_ratio("supcon") is None
    assert found.of("sincere")[2].minority_angle < 8


def test_strong_weight_decay_merges_small_classes_under_cross_entropy():
    found = theory.imbalance_optimum(("cross_entropy",), ratios=(1, 5, 25), weight_decay=0.1)
    assert [row.merged for row in found.rows] == [False, False, True]


def test_similarities_are_one_on_the_sphere_and_differ_in_the_ball():
    found = theory.similarity_optimum("sincere", classes=8, dim=2, points=24, temperature=0.1, starts=2)
    assert found.sphere_difference < 1e-9
    values = [found.of(name, "sphere").value for name in ("cosine", "dot", "euclidean")]
    assert max(values) - min(values) < 1e-9
    # Eight classes are crowded on a circle; distances let one of them sit in the middle, inner products do not.
    assert found.of("euclidean", "ball").norms[0] < 0.01
    assert found.of("dot", "ball").norms[0] > 0.999
    assert found.of("euclidean", "ball").value < values[0] - 0.1


def test_similarities_are_one_on_the_sphere_where_many_optima_are_equally_good():
    """Six classes sit on the corners of an octahedron, in any order: rounding decides which start ends lowest."""
    found = theory.similarity_optimum("supcon", counts=(3,) * 6, dim=3, scales=(1,), starts=6)
    assert found.of("cosine", "sphere").largest_cosine == pytest.approx(0, abs=1e-4)
    assert found.sphere_difference < 1e-9


def test_without_a_bound_on_the_norm_stretching_always_gains():
    found = theory.similarity_optimum("sincere", points=12, scales=(1, 2, 3), starts=1)
    gap = 4 / 3 / 0.5
    expected = [math.log1p(9 * math.exp(-gap * scale**2)) for scale in (1, 2, 3)]
    assert found.dot_by_scale == pytest.approx(expected, rel=1e-9)
    assert found.euclidean_by_scale == pytest.approx(expected, rel=1e-9)


def test_a_head_takes_the_simplex_upon_itself():
    found = theory.projection_optimum("sincere", members=5, starts=2)
    for row in found.rows:
        assert row.output.is_simplex()
        assert abs(row.excess) < 1e-6
    assert found.of("none").features.is_simplex()
    assert found.of("none").features_within < 1e-6
    for head in ("linear", "mlp"):
        assert found.of(head).features_within > 0.02
        assert not found.of(head).features.is_simplex(0.05)


def test_a_sphere_on_a_line_has_nothing_to_descend():
    """Its two points are each a "minimum": a start was returned as the optimum, and as converged."""
    with pytest.raises(OptionError, match="dim=2 or more"):
        theory.sphere_optimum("supcon", classes=2, dim=1, points=6)
    with pytest.raises(OptionError, match="dim=2 or more"):
        theory.batch_minimisers(classes=2, dim=1, batch=2, members=2)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: theory.weight_radius(classes=3, radius=math.nan, weight_decay=0.1), r"above 0 and finite.*radius=nan"),
        (lambda: theory.weight_radius(classes=3, radius=math.inf, weight_decay=0.1), r"above 0 and finite.*radius=inf"),
        (
            lambda: theory.weight_radius(classes=3, radius=1.0, weight_decay=math.nan),
            r"above 0 and finite.*weight_decay=nan",
        ),
        (lambda: theory.kl_bound_on_gaussians(separation=math.nan), r"separation finite.*separation=nan"),
        (lambda: theory.kl_bound_on_gaussians(scale=math.nan), r"finite.*scale=nan"),
        (lambda: theory.batch_minimisers(starts=0), r"and a start.*starts=0"),
        (lambda: theory.gradient_ranges(["sincer"]), r"got 'sincer'. Did you mean 'sincere'"),
        (lambda: theory.random_labels(losses=()), r"needs a loss.*losses=\(\)"),
    ],
)
def test_options_that_mean_nothing_are_refused(call, words):
    with pytest.raises(OptionError, match=words):
        call()


def test_flat_cross_entropy_is_followed_to_its_minimum():
    """Short weights and many classes make it so flat that steps below torch's own threshold must count too."""
    found = theory.cross_entropy_optimum(classes=16, dim=15, points=32, radius=0.5, weight_decay=0.2, tolerance=1e-6)
    assert found.converged
    assert found.steps < 1000
    assert max(found.of_features.simplex_deviation, found.of_weights.simplex_deviation) < 1e-4


def test_an_arrangement_is_measured_by_its_definition():
    """Points that are far from collapse, and means at unequal angles: each figure against a loop."""
    random = np.random.default_rng(3)
    points, labels = random.standard_normal((30, 3)) + np.eye(3)[np.arange(30) % 3], np.arange(30) % 3
    means = np.stack([points[labels == c].mean(axis=0) for c in range(3)])
    unit_means = means / np.linalg.norm(means, axis=1, keepdims=True)
    own = [z @ unit_means[c] / np.linalg.norm(z) for z, c in zip(points, labels, strict=True)]
    between = [unit_means[a] @ unit_means[b] for a in range(3) for b in range(a)]
    found = arrangement(torch.from_numpy(points), torch.from_numpy(labels), 3)
    assert found.collapse == pytest.approx(1 - min(own))
    assert found.largest_cosine == pytest.approx(max(between))
    assert found.simplex_deviation == pytest.approx(max(abs(cosine + 1 / 2) for cosine in between))
    assert found.collapse > 0.1
    assert max(between) - min(between) > 0.05
    np.testing.assert_allclose(found.means, means)
