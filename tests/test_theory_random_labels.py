"""Steps to fit random labels, and the trend tests against SciPy."""

import math

import numpy as np
import pytest
from scipy import stats

from sincere import theory
from sincere.errors import InputError, OptionError
from sincere.theory.regression import mean_estimate, polynomial


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


def test_what_cannot_be_is_refused():
    with pytest.raises(OptionError):
        theory.random_labels(shares=(0.0, 1.0))
    with pytest.raises(OptionError):
        theory.random_labels(shares=(0.0, 0.5, 1.0), seeds=1)
    with pytest.raises(OptionError):
        theory.random_labels(optimizer="lion")
    with pytest.raises(InputError):
        polynomial([0, 0], [1, 2], 1)
    with pytest.raises(InputError):
        mean_estimate([1.0])
