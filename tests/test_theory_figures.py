"""Every figure of the records of Gaussians and of repulsion, from the same draws, by NumPy loops."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import stats

from sincere import theory
from sincere.errors import OptionError
from sincere.theory.gradients import CoefficientRange, noisy_classes


def losses_of(name, positives, negatives):
    """Each row's loss, from scores: rows of positives and of negatives."""
    values = []
    for p, n in zip(positives, negatives, strict=True):
        if name == "supcon":
            values.append(np.log(np.exp(p).sum() + np.exp(n).sum()) - p.mean())
        else:
            counted = p[:1] if name == "infonce" else p
            values.append(np.mean([np.log(np.exp(a) + np.exp(n).sum()) - a for a in counted]))
    return np.array(values)


def draws(generator, samples, positives, negatives, dim, separation, scale):
    """Samples of the target, whose mean lies on the first axis, and of the noise."""
    target = scale * torch.randn(samples, positives, dim, dtype=torch.float64, generator=generator).numpy()
    target[..., 0] += separation
    return target, torch.randn(samples, negatives, dim, dtype=torch.float64, generator=generator).numpy()


def log_ratio(x, separation, scale):
    mean = np.zeros(x.shape[-1])
    mean[0] = separation
    return (stats.norm.logpdf(x, mean, scale) - stats.norm.logpdf(x)).sum(axis=-1)


def mean_and_error(values):
    return np.mean(values), np.std(values, ddof=1) / math.sqrt(len(values))


@pytest.mark.parametrize("loss", ["sincere", "infonce", "supcon"])
def test_the_bound_and_its_gains(loss):
    options = {"dim": 2, "separation": 1.3, "scale": 0.7, "positives": 3, "samples": 50, "seed": 4}
    found = theory.kl_bound_on_gaussians(losses=(loss,), temperatures=(1.0, 0.5), negatives=(8, 2, 4, 2), **options)
    target, noise = draws(torch.Generator().manual_seed(4), 50, 3, 8, 2, 1.3, 0.7)
    pos, neg = log_ratio(target, 1.3, 0.7), log_ratio(noise, 1.3, 0.7)
    for temperature in (1.0, 0.5):
        points, before = found.of(loss, temperature), None
        assert [point.negatives for point in points] == [2, 4, 8]
        for point in points:
            size = point.negatives
            values = math.log(size) - losses_of(loss, pos / temperature, neg[:, :size] / temperature)
            assert (point.bound, point.error) == pytest.approx(mean_and_error(values))
            if before is None:
                assert (point.gain, point.gain_error) == (None, None)
            else:
                assert (point.gain, point.gain_error) == pytest.approx(mean_and_error(values - before))
            before = values
        assert found.tightens(loss, temperature) == min(point.gain / point.gain_error for point in points[1:])
    assert found.worst == max((point.bound - found.divergence) / point.error for point in found.points)


@pytest.mark.parametrize(("difference", "errors"), [(0.5, math.inf), (-0.5, -math.inf), (0.0, 0.0)])
def test_a_difference_without_an_error(difference, errors):
    found = theory.kl_bound_on_gaussians(losses=("infonce",), negatives=(4,), samples=5)
    exact = replace(found.points[0], bound=found.divergence + difference, error=0.0)
    assert replace(found, points=(exact,)).worst == errors


@pytest.mark.parametrize("loss", ["sincere", "supcon"])
def test_the_figures_of_a_fit(loss):
    options = {"separation": 0.8, "scale": 0.7, "positives": 2, "negatives": 3, "samples": 60, "seed": 2}
    found = theory.density_ratio_fit(loss, **options)
    generator = torch.Generator().manual_seed(2)
    seen, fresh = (draws(generator, 60, 2, 3, 1, 0.8, 0.7) for _ in range(2))
    # log f = bx + cx² + what centring took away, which no loss sees.
    c, b, _ = np.polyfit(found.grid.numpy(), found.log_f.numpy(), 2)

    def of_fit(samples):
        return losses_of(loss, *((b * x + c * x**2).squeeze(-1) for x in samples))

    def of_truth(samples):
        return losses_of(loss, *(log_ratio(x, 0.8, 0.7) for x in samples))

    assert found.fitted_value == pytest.approx(of_fit(seen).mean())
    assert found.true_value == pytest.approx(of_truth(seen).mean())
    regret = mean_and_error(of_fit(fresh) - of_truth(fresh))
    assert (found.fresh_regret, found.fresh_regret_error) == pytest.approx(regret, abs=1e-9)

    x, weight = found.grid.numpy(), found.weight.numpy()
    assert (x[0], x[-1]) == (-2.5, 3.3)
    density = stats.norm.pdf(x, 0.8, 0.7) + stats.norm.pdf(x)
    np.testing.assert_allclose(weight, density / density.sum())
    fitted, ratio, posterior = (values.numpy() for values in (found.log_f, found.log_ratio, found.log_posterior))
    off = np.abs(fitted - ratio)
    assert found.error == pytest.approx(off[weight >= 0.01 * weight.max()].max())
    assert found.error < off.max()  # where next to no samples are it does not count
    assert found.rms_error == pytest.approx(math.sqrt((weight * off**2).sum()))
    assert found.posterior_rms_error == pytest.approx(math.sqrt((weight * (fitted - posterior) ** 2).sum()))
    assert found.slope == pytest.approx((weight * fitted * ratio).sum() / (weight * ratio**2).sum())
    sizes = math.sqrt((weight * fitted**2).sum() * (weight * ratio**2).sum())
    assert found.correlation == pytest.approx((weight * fitted * ratio).sum() / sizes)


def test_an_error_below_the_ratio_is_as_large_as_one_above():
    """Over several draws the fit is off by most on either side."""
    sides = set()
    for seed in range(6):
        found = theory.density_ratio_fit(samples=40, seed=seed)
        weight, off = found.weight.numpy(), (found.log_f - found.log_ratio).numpy()
        largest = max(off[weight >= 0.01 * weight.max()], key=abs)
        assert found.error == pytest.approx(abs(largest))
        sides.add(largest > 0)
    assert sides == {False, True}


def test_cells_of_the_tabular_family():
    found = theory.density_ratio_fit(family="tabular", separation=0.6, scale=0.9, samples=200, seed=1)
    edges = np.linspace(-1, 1.6, 9)
    p, q = (np.diff(np.r_[0, density.cdf(edges), 1]) for density in (stats.norm(0.6, 0.9), stats.norm()))
    weight = (p + q) / 2
    ratio = np.log(p / q)
    np.testing.assert_allclose(found.weight.numpy(), weight, rtol=1e-9)
    np.testing.assert_allclose(found.log_ratio.numpy(), ratio - (weight * ratio).sum(), rtol=1e-9)
    width = edges[1] - edges[0]
    np.testing.assert_allclose(found.grid.numpy(), np.r_[edges - width / 2, edges[-1] + width / 2])
    assert list(np.searchsorted(edges, found.grid.numpy())) == list(range(10))  # each place is in its own cell


def test_cells_that_the_noise_never_reaches_are_refused():
    with pytest.raises(OptionError, match="each cell of the tabular family must have some of either density"):
        theory.density_ratio_fit(family="tabular", separation=60.0, scale=60.0, samples=10)


def test_a_fit_that_did_not_leave_its_start_has_no_correlation():
    """Nor may it divide by zero."""
    found = theory.density_ratio_fit(samples=20, tolerance=10.0)
    assert found.slope == 0
    assert math.isnan(found.correlation)
    assert found.fitted_value == pytest.approx(math.log(9))  # one positive among eight negatives, all alike


def test_one_sample_has_no_error():
    with pytest.raises(OptionError, match="samples at least 2"):
        theory.density_ratio_fit(samples=1)


def coefficients_of_the_first_class(z, members, temperature):
    """∂ℓ_t/∂s_tp of SupCon, Eq. 14, for its first `members` rows, which are one class."""
    e = np.exp(z @ z.T / temperature)
    np.fill_diagonal(e, 0)
    shares = e / e.sum(axis=1, keepdims=True)
    return [[shares[t, p] - 1 / (members - 1) for p in range(members) if p != t] for t in range(members)]


def test_push_and_pull_are_sums_over_the_positives_of_an_anchor():
    found = theory.repulsion_by_positives(("supcon",), positives=(3,), negatives=9, batches=4, seed=5)
    (point,) = found.points
    labels = torch.tensor([0] * 4 + [1] * 3 + [2] * 2 + [3] * 2 + [4] * 2)
    rows = [
        np.array(coefficients_of_the_first_class(noisy_classes(labels, 16, 0.7, 5 + b).numpy(), 4, 0.1))
        for b in range(4)
    ]
    push = [np.where(found > 0, found, 0).sum(axis=1).mean() for found in rows]
    assert (point.push, point.push_error) == pytest.approx(mean_and_error(push))
    assert point.pull == pytest.approx(np.mean([-np.where(found < 0, found, 0).sum(axis=1).mean() for found in rows]))
    assert point.share == pytest.approx(np.mean([found > 0 for found in rows]))
    assert point.largest == pytest.approx(max(found.max() for found in rows))
    assert point.limit == pytest.approx(2 / 3)


def test_the_push_of_a_trajectory_is_that_of_an_anchor():
    found = theory.repulsion_dynamics(("supcon",), steps=1, every=1, members=3, classes=2)
    z = noisy_classes(torch.tensor([0, 0, 0, 1, 1, 1]), 8, 30.0, 0).numpy()
    classes = (coefficients_of_the_first_class(np.roll(z, shift, axis=0), 3, 0.1) for shift in (0, 3))
    rows = np.concatenate([np.array(found) for found in classes])
    assert found.trajectories[0].push[0] == pytest.approx(np.where(rows > 0, rows, 0).sum(axis=1).mean())
    assert found.trajectories[0].repelled[0] == pytest.approx((rows > 0).mean())
    assert (rows > 0).any()


def test_the_first_step_at_which_classes_are_close():
    found = theory.repulsion_dynamics(("supcon",), steps=4, every=2, members=3)
    rising = replace(found.trajectories[0], within=(0.1, 0.99, 1.0))
    found = replace(found, trajectories=(rising,))
    assert [found.steps_to("supcon", cosine) for cosine in (0.05, 0.99, 0.995)] == [0, 2, 4]
    assert math.isnan(found.steps_to("supcon", 1.1))


def test_noise_has_the_length_that_is_asked_for():
    """Against a direction of length one, whatever the dimension; one of its dimensions is along the direction."""
    for dim in (4, 64):
        z = noisy_classes(torch.zeros(4000, dtype=torch.int64), dim, 0.01, 0).numpy()
        off = np.sqrt(((z - z.mean(axis=0)) ** 2).sum(axis=1).mean())
        assert off == pytest.approx(0.01 * math.sqrt((dim - 1) / dim), rel=0.03)


@pytest.mark.parametrize(
    ("least", "largest", "within"), [(-1.0, 4.0, True), (-1.1, 3.0, False), (-0.5, 4.1, False), (-2.0, 5.0, False)]
)
def test_both_limits_count(least, largest, within):
    assert CoefficientRange("supcon", least, largest, (-1.0, 4.0), 0.5, None, None).within_limits == within


def test_pairs_are_counted():
    found = theory.gradient_ranges(("sincere",), classes=3, positives=2, batches=2)
    assert found.pairs == 2 * 9 * 2  # batches, anchors, positives of each


def test_samples_are_told_apart_by_the_fit():
    """Whatever the true ratio makes of them."""
    found = theory.density_ratio_fit(samples=20, steps=1)
    assert replace(found, fitted_value=1e-7, true_value=0.1).told_apart
    assert not replace(found, fitted_value=1e-5, true_value=1e-7).told_apart
