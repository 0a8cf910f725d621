"""Theory at the ends of the numbers and on what means nothing: right, or refused in words."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
import torch

from sincere import theory
from sincere.errors import InputError, OptionError
from sincere.theory.gaussians import Gaussians


@pytest.mark.parametrize("radius", [1e-10, 1.0, 1e10])
@pytest.mark.parametrize("weight_decay", [1e-10, 0.01, 1e10, 1e60, 1e100])
@pytest.mark.parametrize("classes", [2, 4, 1000])
def test_the_radius_solves_its_equation_at_any_size(classes, radius, weight_decay):
    r = theory.weight_radius(classes=classes, radius=radius, weight_decay=weight_decay)

    def left(r):
        """log of 2λr(e^{Kρr/(K−1)} + K − 1)/ρ, exact but for two logarithms."""
        factor = Fraction(2) * Fraction(weight_decay) * Fraction(r) / Fraction(radius)
        logarithm = math.log(factor.numerator) - math.log(factor.denominator)
        return logarithm + np.logaddexp(classes * radius * r / (classes - 1), math.log(classes - 1))

    assert left(r * (1 - 1e-9)) < 0 < left(r * (1 + 1e-9))


@pytest.mark.parametrize(
    "arguments", [(1, 1.0, 1.0), (0, 1.0, 1.0), (2, -1.0, 1.0), (2, 1.0, -1.0), (2, 1.0, math.nan)]
)
def test_a_bound_without_meaning_is_refused(arguments):
    classes, radius, norm = arguments
    with pytest.raises(OptionError, match="the bound needs at least two classes"):
        theory.cross_entropy_bound(classes=classes, radius=radius, weight_norm=norm)


def test_a_bound_at_the_ends_of_its_range():
    assert theory.cross_entropy_bound(classes=5, radius=0.0, weight_norm=3.0) == pytest.approx(math.log(5))
    assert theory.cross_entropy_bound(classes=5, radius=1e300, weight_norm=1e300) == 0


def loop_over_batches(points, labels, batch, temperature):
    """Σ over all batches, over their anchors with a positive, of mean_p [log Σ_a e^{s_a} − s_p]: float64 loops."""
    total = 0.0
    for chosen in itertools.combinations(range(len(labels)), batch):
        for t in chosen:
            s = {a: float(points[t] @ points[a]) / temperature for a in chosen if a != t}
            positive = [s[a] for a in s if labels[a] == labels[t]]
            if positive:
                total += math.log(sum(map(math.exp, s.values()))) - sum(positive) / len(positive)
    return total


@pytest.mark.parametrize("counts", [(3, 3), (4, 1, 1), (6,), (5, 0, 1), (1, 1, 1, 1, 1, 1)])
@pytest.mark.parametrize("batch", [1, 2, 3, 6])
def test_the_sum_over_batches_by_loops(counts, batch):
    points = torch.randn(6, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    points[3] = points[0]  # a duplicate
    labels = [c for c, count in enumerate(counts) for _ in range(count)]
    expected = loop_over_batches(points.numpy(), labels, batch, 0.5)
    for given in (points, points.clone().requires_grad_(), points.T.contiguous().T):
        assert theory.supcon_sum(given, counts, batch, temperature=0.5) == pytest.approx(expected, rel=1e-12, abs=1e-12)


POINTS = torch.randn(6, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: theory.supcon_sum(torch.cat([POINTS, POINTS]), (3, 3), 2), InputError, r"points must be \(6, d\)"),
        (lambda: theory.supcon_sum(POINTS[:5], (3, 3), 2), InputError, r"points must be \(6, d\)"),
        (lambda: theory.supcon_sum(POINTS * math.nan, (3, 3), 2), InputError, "points must be finite"),
        (lambda: theory.supcon_sum(POINTS.long(), (3, 3), 2), InputError, "points must be floating-point"),
        (lambda: theory.supcon_sum(POINTS, (3, 3), 2, temperature=0.0), OptionError, "temperature must be positive"),
        (lambda: theory.supcon_sum(POINTS, (3, 3), 2, temperature=-1.0), OptionError, "temperature must be positive"),
        (lambda: theory.supcon_sum(POINTS, (3, 3), 0), OptionError, "a batch at least 1"),
        (lambda: theory.supcon_sum(POINTS, (7, -1), 2), OptionError, "counts must be at least 0"),
        (lambda: theory.supcon_bound_over_batches((7, -1), 2), OptionError, "of 0 points or more"),
        (lambda: theory.simplex(0, 3), OptionError, "at least one corner"),
        (lambda: theory.simplex(-1, 3), OptionError, "at least one corner"),
        (lambda: theory.arrangement(POINTS * math.nan, torch.arange(6) % 2, 2), InputError, "points must be finite"),
        (lambda: theory.arrangement(POINTS, torch.arange(6) % 2, 3), InputError, r"must have a point: got \[3, 3, 0\]"),
        (lambda: theory.arrangement(POINTS, torch.arange(6) % 3, 2), InputError, "and no other, must have a point"),
        (
            lambda: theory.kl_bound_ceiling(classes=3, negatives=5, temperature=math.nan),
            OptionError,
            "temperature must be positive",
        ),
        (lambda: theory.sphere_optimum(reduction="none", points=8), OptionError, "reduction must be one of 'mean'"),
        (lambda: theory.sphere_optimum(reduction="mean_all", points=8), OptionError, "reduction must be one of 'mean'"),
    ],
)
def test_what_means_nothing_is_refused(call, error, message):
    with pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize("scale", [1e-300, 1e-30, 1.0, 1e30, 1e300])
def test_an_arrangement_has_no_unit(scale):
    labels = torch.tensor([0, 1, 2, 0, 1, 2])
    found = theory.arrangement(POINTS * scale, labels, 3)
    points = POINTS.numpy()
    means = np.array([points[labels.numpy() == c].mean(axis=0) for c in range(3)])
    means /= np.linalg.norm(means, axis=1, keepdims=True)
    cosines = means @ means.T
    between = cosines[~np.eye(3, dtype=bool)]
    own = [x @ means[c] / np.linalg.norm(x) for x, c in zip(points, labels.tolist(), strict=True)]
    np.testing.assert_allclose(found.cosines.numpy(), cosines, atol=1e-12)
    assert found.collapse == pytest.approx(1 - min(own), abs=1e-12)
    assert found.simplex_deviation == pytest.approx(np.abs(between + 0.5).max(), abs=1e-12)
    assert found.largest_cosine == pytest.approx(between.max(), abs=1e-12)


def test_a_mean_of_zero_has_no_direction():
    points = torch.tensor([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, 2.0]], dtype=torch.float64)
    found = theory.arrangement(points.requires_grad_(), torch.tensor([0, 0, 1, 1]), 2)
    assert found.cosines.tolist() == [[0.0, 0.0], [0.0, 1.0]]
    assert (found.collapse, found.simplex_deviation, found.largest_cosine) == (1.0, 1.0, 0.0)
    assert not found.means.requires_grad
    nothing = theory.arrangement(torch.zeros(4, 2), torch.tensor([0, 0, 1, 1]), 2)
    assert not nothing.is_simplex()


@pytest.mark.parametrize("scale", [1e-170, 1e-20, 1e-3, 1.0, 3.0])
def test_the_divergence_of_very_narrow_densities(scale):
    found = Gaussians(3, 2.0, scale).divergence
    assert found == pytest.approx(0.5 * (3 * scale**2 + 4 - 3) - 3 * math.log(scale), rel=1e-12)


@pytest.mark.parametrize("temperature", [1e-4, 1e-3, 0.01, 100.0])
def test_the_equations_hold_at_any_temperature(temperature):
    found = theory.gradient_ranges(("sincere", "supcon"), temperature=temperature, batches=5)
    rounding = 1e-13 + 1e-15 / temperature  # logits of up to 1/τ are rounded by 1e-16 of that
    for row in found.ranges:
        assert row.within_limits
        assert row.equation_difference < rounding
        assert row.vector_difference < (1 + 1 / temperature) * rounding


@pytest.mark.parametrize("separation", [0.5, 8.0, 50.0])
def test_where_supcon_leads_is_known_however_far_the_densities(separation):
    found = theory.density_ratio_fit(separation=separation, positives=2, negatives=5, samples=50, steps=5)
    x, weight = found.grid.numpy(), found.weight.numpy()
    ratio = (x**2 - ((x - separation) / 0.8) ** 2) / 2 - math.log(0.8)
    posterior = ratio - np.logaddexp(math.log(5), math.log(2) + ratio)
    np.testing.assert_allclose(found.log_posterior.numpy(), posterior - (weight * posterior).sum(), atol=1e-8)
    assert math.isfinite(found.posterior_rms_error)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: theory.single_positive(batches=0), "two samples and a batch at least"),
        (lambda: theory.single_positive(samples=1), "two samples and a batch at least"),
        (lambda: theory.repulsion_by_positives(("x",)), "loss must be one of"),
        (lambda: theory.repulsion_by_positives(dim=0), "dim must be at least 1"),
        (lambda: theory.repulsion_by_positives(noise=math.nan), "noise from 0 and finite"),
        (lambda: theory.random_labels(every=0), "every must be at least 1: got classes=8, samples=256.* every=0"),
        (lambda: theory.random_labels(samples=0), "must be at least 1: got classes=8, samples=0"),
        (lambda: theory.random_labels(classes=0), "must be at least 1: got classes=0"),
        (lambda: theory.random_labels(hidden=0), "hidden=0"),
        (lambda: theory.random_labels(batch=-3), "batch=-3"),
        (lambda: theory.repulsion_dynamics(rate=math.nan), "rate must be positive and finite: got nan"),
        (lambda: theory.repulsion_dynamics(rate=-1.0), "rate must be positive and finite: got -1"),
        (lambda: theory.repulsion_dynamics(steps=3, every=10), "every no more than steps"),
        (lambda: theory.density_ratio_fit(steps=0), "steps must be at least 1"),
        (lambda: theory.density_ratio_fit(family="tabular", scale=1e-3), "each cell of the tabular family"),
        (lambda: theory.projection_optimum(hidden=0), "hidden must be at least 1"),
        (lambda: theory.projection_optimum(classes=0), "classes, feature_dim, dim and hidden must be at least 1"),
        (lambda: theory.cross_entropy_optimum(dim=0), "dim must be at least 1: got 0"),
        (lambda: theory.sphere_optimum(counts=(2.5, 3)), "in whole numbers"),
        (lambda: theory.sphere_optimum(points=10.5), "classes and points must be whole numbers"),
        (lambda: theory.imbalance_optimum(("supcon",), members=2, ratios=(1.25,)), "in whole numbers"),
        (lambda: theory.similarity_optimum(scales=(1.0, math.nan)), "scales must be positive and finite"),
    ],
)
def test_options_that_would_give_no_figure_are_refused(call, message):
    with pytest.raises(OptionError, match=message):
        call()


def test_samples_that_are_told_apart_have_no_best_ratio():
    """Any steeper f is better then; where densities overlap there is a best one."""
    for separation, apart in ((1.0, False), (10.0, True)):
        found = theory.density_ratio_fit(separation=separation, samples=200)
        assert found.told_apart == apart
        assert ("there is no best f" in str(found)) == apart
    with pytest.raises(OptionError, match=r"can be fitted in float64: got separation=300.*the loss became nan"):
        theory.density_ratio_fit(separation=300.0)


def test_one_class_has_no_others_to_be_across():
    assert "across" not in str(theory.sphere_optimum("supcon", classes=1, points=8))
    assert "across" in str(theory.sphere_optimum("supcon", classes=2, points=8))
