"""Steps to fit random labels, and the trend tests against SciPy."""

import math
import sys

import numpy as np
import pytest
import torch
from scipy import stats

from sincere import theory
from sincere.errors import InputError, OptionError
from sincere.theory.fit_times import FitTime, FitTrend, fit_growth, fit_trend
from sincere.theory.random_labels import _clusters, _Training
from sincere.theory.regression import Estimate, mean_estimate, polynomial


@pytest.fixture(scope="module")
def found():
    return theory.random_labels(shares=(0.0, 0.5, 1.0), seeds=2, samples=128)


def test_random_labels_take_longer_and_supcon_the_longest(found):
    for loss in ("cross_entropy", "supcon"):
        means = [np.mean(found.steps(loss, share)) for share in (0.0, 0.5, 1.0)]
        assert means[0] < means[1]
        assert means[0] < means[2]
        assert found.trend(loss).slope.value > 0
    assert found.unfitted == 0
    assert found.growth["supcon"].value > 1


def test_runs_are_deterministic(found):
    again = theory.random_labels(("cross_entropy",), shares=(0.0, 0.5, 1.0), seeds=2, samples=128)
    assert [run.steps for run in again.runs] == [run.steps for run in found.runs if run.loss == "cross_entropy"]
    assert again.growth == {}


def test_a_run_that_never_fits_is_said_to():
    short = theory.random_labels(("supcon",), shares=(0.0, 0.5, 1.0), seeds=2, samples=64, max_steps=20)
    assert short.unfitted == 4
    assert "never fitted" in str(short)
    assert [run.steps for run in short.runs if not run.fitted] == [20] * 4


def test_lines_and_parabolas_are_those_of_numpy():
    rng = np.random.default_rng(0)
    x = np.repeat([0.0, 0.25, 0.5, 0.75, 1.0], 3)
    y = 3 + 2 * x + rng.normal(size=15)
    for degree in (1, 2):
        assert polynomial(x.tolist(), y.tolist(), degree) == pytest.approx(np.polyfit(x, y, degree)[::-1])
    # Exactly, so that two calls agree to the last digit and what has no curvature has none of 1e-14.
    assert polynomial([0.0, 0.25, 0.5, 0.75, 1.0], [10.0, 18.0, 10.0, 12.0, 15.0], 2) == (12.2, 1.6, 0.0)


def test_trend_is_that_of_the_runs(found):
    """Curvature of each seed by NumPy, and SciPy's t interval over the seeds."""
    curvatures = []
    for seed in (0, 1):
        steps = [run.steps for run in found.runs if (run.loss, run.seed) == ("supcon", seed)]
        curvatures.append(np.polyfit([0.0, 0.5, 1.0], steps, 2)[0])
    low, high = stats.t.interval(0.95, 1, loc=np.mean(curvatures), scale=stats.sem(curvatures))
    curvature = found.trend("supcon").curvature
    assert (curvature.value, curvature.low, curvature.high) == pytest.approx((np.mean(curvatures), low, high))
    grown = [
        math.log(
            found.steps("supcon", 1.0)[seed]
            / found.steps("supcon", 0.5)[seed]
            / found.steps("cross_entropy", 1.0)[seed]
            * found.steps("cross_entropy", 0.5)[seed]
        )
        for seed in (0, 1)
    ]
    assert found.growth["supcon"].value == pytest.approx(math.exp(np.mean(grown)))


def test_interval_covers_the_truth_as_often_as_it_says():
    rng = np.random.default_rng(1)
    found = [mean_estimate(rng.normal(4, 2, size=5).tolist()) for _ in range(400)]
    covered = np.mean([one.low < 4 < one.high for one in found])
    assert abs(covered - 0.95) < 3 * math.sqrt(0.95 * 0.05 / 400)  # three standard errors of a share


def test_mean_interval_is_that_of_scipy():
    values = [1.0, 2.5, 2.0, 4.0]
    found = mean_estimate(values)
    low, high = stats.t.interval(0.95, 3, loc=np.mean(values), scale=stats.sem(values))
    assert (found.value, found.low, found.high) == pytest.approx((np.mean(values), low, high))


def test_scipy_is_missed_before_anything_is_trained(monkeypatch):
    monkeypatch.setitem(sys.modules, "scipy.stats", None)
    monkeypatch.setattr(sys.modules["sincere.theory.random_labels"], "_steps_to_fit", None)
    with pytest.raises(OptionError, match=r'need scipy, .*pip install "sincere\[lab\]"'):
        theory.random_labels(shares=(0.0, 0.5, 1.0), seeds=2)


def test_what_cannot_be_is_refused():
    with pytest.raises(OptionError, match=r"at least three shares.*shares=\(0\.0, 1\.0\)"):
        theory.random_labels(shares=(0.0, 1.0))
    with pytest.raises(OptionError, match=r"its interval two seeds.*seeds=1"):
        theory.random_labels(shares=(0.0, 0.5, 1.0), seeds=1)
    with pytest.raises(OptionError, match="optimizer must be one of 'sgd', 'adam': got 'lion'"):
        theory.random_labels(optimizer="lion")
    with pytest.raises(InputError, match=r"degree 1 needs 2 places.*x=\[0, 0\]"):
        polynomial([0, 0], [1, 2], 1)
    with pytest.raises(InputError, match="all finite"):
        polynomial([0.0, 1.0], [1.0, math.nan], 1)
    with pytest.raises(InputError, match="at least two values: got 1"):
        mean_estimate([1.0])


SHARES = (0.0, 0.2, 0.6, 1.0)
STEPS = {  # by loss and seed, at the four shares
    ("cross_entropy", 0): (0, 40, 90, 130),
    ("cross_entropy", 1): (5, 30, 70, 150),
    ("cross_entropy", 2): (10, 50, 80, 160),
    ("supcon", 0): (0, 60, 200, 900),
    ("supcon", 1): (20, 90, 300, 700),
    ("supcon", 2): (5, 80, 250, 1200),
}
RUNS = [
    FitTime(loss, share, seed, steps, True)
    for (loss, seed), found in STEPS.items()
    for share, steps in zip(SHARES, found, strict=True)
]


@pytest.mark.parametrize("loss", ["cross_entropy", "supcon"])
def test_a_trend_of_given_steps(loss):
    """Slope and curvature with SciPy's intervals, and the share of each seed's variance that its line explains."""
    rows = [np.array(found, float) for (name, _), found in STEPS.items() if name == loss]
    slopes = [np.polyfit(SHARES, row, 1)[0] for row in rows]
    curvatures = [np.polyfit(SHARES, row, 2)[0] for row in rows]
    left = sum(((row - np.polyval(np.polyfit(SHARES, row, 1), SHARES)) ** 2).sum() for row in rows)
    total = sum(((row - row.mean()) ** 2).sum() for row in rows)
    found = fit_trend(loss, RUNS)
    assert found.linear_r2 == pytest.approx(1 - left / total)
    for ours, values in ((found.slope, slopes), (found.curvature, curvatures)):
        low, high = stats.t.interval(0.95, 2, loc=np.mean(values), scale=stats.sem(values))
        assert (ours.value, ours.low, ours.high) == pytest.approx((np.mean(values), low, high))
    flat = [FitTime("x", share, seed, 7, True) for share in SHARES for seed in (0, 1)]
    assert math.isnan(fit_trend("x", flat).linear_r2)


def test_growth_of_given_steps():
    """From the least share above 0 to the largest, as ratios of ratios, with their interval."""
    rows = [[np.array(STEPS[loss, seed]) for loss in ("supcon", "cross_entropy")] for seed in range(3)]
    logs = [math.log(ours[3] / ours[1] / (theirs[3] / theirs[1])) for ours, theirs in rows]
    low, high = stats.t.interval(0.95, 2, loc=np.mean(logs), scale=stats.sem(logs))
    found = fit_growth(("cross_entropy", "supcon"), RUNS)
    assert found.keys() == {"supcon"}
    grown = found["supcon"]
    assert (grown.value, grown.low, grown.high) == pytest.approx(tuple(np.exp((np.mean(logs), low, high))))


def test_steps_of_nothing_count_as_one():
    """A network that fits before its first step would make any growth from there infinite."""
    steps = {"cross_entropy": {0.5: 0, 1.0: 6}, "supcon": {0.5: 2, 1.0: 3}}
    runs = [
        FitTime(loss, share, seed, n, True) for loss, of in steps.items() for share, n in of.items() for seed in (0, 1)
    ]
    assert fit_growth(("cross_entropy", "supcon"), runs)["supcon"].value == pytest.approx((3 / 2) / (6 / 1))


@pytest.mark.parametrize(
    ("low", "high", "shape"),
    [
        (1.0, 9.0, "faster than linear"),
        (-9.0, -1.0, "slower than linear"),
        (-1.0, 9.0, "no departure from a line"),
        (-9.0, 1.0, "no departure from a line"),
        (0.0, 0.0, "no departure from a line"),
    ],
)
def test_the_interval_decides_what_a_trend_is(low, high, shape):
    curvature = Estimate((low + high) / 2, low, high)
    assert FitTrend("x", curvature, curvature, 1.0).shape == shape


def test_a_larger_share_is_more_of_the_same():
    """The same points, the same order, the same new labels: shares differ in nothing but how many are drawn anew."""
    (points, clean), *others = (_clusters(60, 4, 5, 2.0, share, 3) for share in (0.0, 0.25, 0.5, 1.0))
    assert torch.equal(clean, torch.arange(60) % 4)
    before = clean
    for (other, labels), share in zip(others, (0.25, 0.5, 1.0), strict=True):
        assert torch.equal(other, points)
        moved = labels != clean
        assert 0 < int(moved.sum()) <= share * 60
        kept = before != clean
        assert torch.equal(labels[kept], before[kept])
        before = labels


def test_options_reach_the_networks():
    small = {"shares": (0.0, 0.5, 1.0), "samples": 64, "seeds": 2}
    usual = theory.random_labels(("supcon",), **small)
    later = theory.random_labels(("supcon",), first_seed=1, **small)
    assert {run.seed for run in later.runs} == {1, 2}
    assert [run for run in later.runs if run.seed == 1] == [run for run in usual.runs if run.seed == 1]
    assert theory.random_labels(("supcon",), temperature=0.5, **small).runs != usual.runs
    weight = torch.zeros(2, requires_grad=True)
    training = {"rate": 0.3, "batch": 8, "temperature": 0.1, "threshold": 0.9, "max_steps": 5, "every": 1}
    sgd, adam = (_Training(name, **training).descend([weight]) for name in ("sgd", "adam"))
    assert (type(sgd), sgd.defaults["lr"], sgd.defaults["momentum"]) == (torch.optim.SGD, 0.3, 0.9)
    assert (type(adam), adam.defaults["lr"]) == (torch.optim.Adam, 0.3)


def test_the_last_step_and_the_last_sample_count():
    """A run that fits at the last step that it has is fitted, and all samples right is a threshold that can be met."""
    options = {"shares": (0.0, 0.5, 1.0), "samples": 64, "seeds": 2, "threshold": 1.0}
    found = theory.random_labels(("cross_entropy",), **options)
    assert found.unfitted == 0
    longest = max(run.steps for run in found.runs)
    assert theory.random_labels(("cross_entropy",), max_steps=longest, **options).runs == found.runs
