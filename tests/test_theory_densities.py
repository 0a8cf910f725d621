"""The information bound, Lemma 2 and the fitted ratio, against quadrature, scikit-learn and loops."""

import math
from itertools import combinations, product

import numpy as np
import pytest
import torch
from scipy import integrate, stats

from sincere import theory
from sincere.errors import OptionError
from sincere.theory.critic import critic_loss
from sincere.theory.gaussians import Gaussians


@pytest.mark.parametrize(("separation", "scale"), [(2.0, 1.0), (1.0, 0.8), (0.0, 1.5)])
def test_divergence_and_ratio_by_quadrature(separation, scale):
    densities = Gaussians(1, separation, scale)
    p, q = stats.norm(separation, scale), stats.norm(0, 1)
    value, _ = integrate.quad(lambda x: p.pdf(x) * (p.logpdf(x) - q.logpdf(x)), -12, 14)
    assert densities.divergence == pytest.approx(value, abs=1e-7)
    x = np.linspace(-3, 4, 15)
    ratio = densities.log_ratio(torch.from_numpy(x).unsqueeze(1)).numpy()
    assert np.allclose(ratio, p.logpdf(x) - q.logpdf(x))
    assert Gaussians(3, separation, scale).divergence == pytest.approx(
        value + 2 * Gaussians(1, 0.0, scale).divergence, abs=1e-7
    )


def test_critic_loss_is_the_equation():
    generator = torch.Generator().manual_seed(0)
    pos, neg = torch.randn(5, 3, generator=generator).double(), torch.randn(5, 4, generator=generator).double()
    for name, form in (
        ("sincere", lambda p, n, i: np.mean([np.log(np.exp(a) + np.exp(n[i]).sum()) - a for a in p[i]])),
        ("infonce", lambda p, n, i: np.log(np.exp(p[i, 0]) + np.exp(n[i]).sum()) - p[i, 0]),
        ("supcon", lambda p, n, i: np.log(np.exp(p[i]).sum() + np.exp(n[i]).sum()) - p[i].mean()),
    ):
        expected = [form(pos.numpy() / 0.7, neg.numpy() / 0.7, i) for i in range(5)]
        assert np.allclose(critic_loss(name, pos, neg, temperature=0.7).numpy(), expected)


def test_bound_by_quadrature_with_one_negative():
    """E log(1 + r(x_n)/r(x_t)) over both normals, an integral over the plane: the estimate is within 4 errors."""
    found = theory.kl_bound_on_gaussians(dim=1, separation=1.5, negatives=(1,), samples=8000)
    t, n = stats.norm(1.5, 1), stats.norm(0, 1)

    def weighed(x_n, x_t):
        log_ratio = 1.5 * (x_n - x_t)
        return np.logaddexp(0, log_ratio) * t.pdf(x_t) * n.pdf(x_n)

    truth = -integrate.dblquad(weighed, -5, 8, -7, 7, epsabs=1e-6)[0]
    for loss in ("infonce", "sincere"):
        (point,) = found.of(loss)
        assert abs(point.bound - truth) < 4 * point.error < 0.05


def test_bound_holds_tightens_and_is_reached():
    found = theory.kl_bound_on_gaussians(samples=2000)
    assert found.divergence == pytest.approx(2.0)
    # Eighteen estimates: the largest of so many standard normals is above 3 once in 40 times.
    assert found.worst < 3
    for loss in ("infonce", "sincere", "supcon"):
        assert found.tightens(loss) > 3
        assert all(point.bound <= point.ceiling for point in found.of(loss))
    assert found.of("sincere")[-1].bound > 1.9
    assert found.of("sincere")[0].bound < 0
    # More positives: the same expectation with a smaller error, |P| = 8 against 1.
    for one, all_of_them in zip(found.of("infonce"), found.of("sincere"), strict=True):
        assert all_of_them.error < 0.75 * one.error
        assert abs(one.bound - all_of_them.bound) < 4 * math.hypot(one.error, all_of_them.error)
    # SupCon's denominator has the other positives too, so what it leaves of the bound is less.
    assert found.of("supcon")[2].bound < found.of("sincere")[2].bound - 1


def test_the_stronger_bound_with_one_more_sample_holds_too():
    """log(|N| + 1) − L ≤ KL, by Jensen's inequality for m log m: what the module's comment claims."""
    found = theory.kl_bound_on_gaussians(samples=4000, positives=4, losses=("sincere",), separation=1.0)
    for point in found.points:
        assert (
            point.bound - math.log(point.negatives) + math.log(point.negatives + 1) < found.divergence + 3 * point.error
        )


def test_a_critic_of_the_wrong_scale_is_looser_and_a_sharp_one_suffers_from_more_negatives():
    found = theory.kl_bound_on_gaussians(
        temperatures=(0.25, 1.0, 4.0), losses=("sincere",), negatives=(4, 64, 1024), samples=1500
    )
    exact = found.of("sincere", 1.0)
    for temperature in (0.25, 4.0):
        for right, wrong in zip(exact, found.of("sincere", temperature), strict=True):
            assert wrong.bound < right.bound - 3 * math.hypot(right.error, wrong.error)
    sharp = found.of("sincere", 0.25)
    assert sharp[2].bound < sharp[1].bound < sharp[0].bound
    assert found.tightens("sincere", 4.0) > 3


def test_ceiling_of_the_bound_on_the_sphere():
    for classes, negatives, temperature in ((10, 921, 0.1), (4, 30, 1.0), (2, 5, 0.05)):
        gap = classes / ((classes - 1) * temperature)
        expected = math.log(negatives) - math.log1p(negatives * math.exp(-gap))
        found = theory.kl_bound_ceiling(classes=classes, negatives=negatives, temperature=temperature)
        assert found == pytest.approx(expected, rel=1e-12)
        assert found <= min(gap, math.log(negatives))


@pytest.mark.parametrize(("symbols", "samples", "known"), [(3, 6, 2), (4, 5, 0), (2, 9, 4), (3, 3, 2), (1, 4, 1)])
def test_lemma_2(symbols, samples, known):
    found = theory.lemma2_by_enumeration(symbols=symbols, samples=samples, known=known)
    assert found.datasets == symbols**samples
    assert found.posteriors == found.datasets * (samples - known)
    assert found.difference < 1e-14
    assert found.loss_difference < 1e-13
    low, high = found.supcon_mass
    assert (low, high) == pytest.approx((1, 1)) if known == 0 else high < 1


def test_what_lemma_2_gains_is_a_mean_over_draws_of_the_model():
    """Every data set by its probability: the known ones from the target, one more of the others, the rest noise."""
    symbols, samples, known = 3, 4, 1
    random = torch.rand(2, symbols, dtype=torch.float64, generator=torch.Generator().manual_seed(5)).add(0.05).numpy()
    target, noise = random / random.sum(axis=1, keepdims=True)
    gain = whole = 0.0
    for data in product(range(symbols), repeat=samples):
        fixed = math.prod(target[x] for x in data[:known])
        joint = [
            fixed * math.prod((target if i == j else noise)[data[i]] for i in range(known, samples)) / (samples - known)
            for j in range(known, samples)
        ]
        whole += sum(joint)
        gain += sum(p * math.log(p / sum(joint) * (samples - known)) for p in joint)
    assert whole == pytest.approx(1)
    found = theory.lemma2_by_enumeration(symbols=symbols, samples=samples, known=known, seed=5)
    assert found.expected_gain == pytest.approx(gain, rel=1e-9)


def test_lemma_2_by_counting_draws_of_the_model():
    """Bayes' rule of our own: the joint of every placement and every data set, then conditioned, in plain Python."""
    target, noise, n, known = [0.7, 0.3], [0.2, 0.8], 4, 1
    for data in product((0, 1), repeat=n):
        weight = {}
        for places in combinations(range(n), known + 1):
            weight[places] = math.prod(target[x] if i in places else noise[x] for i, x in enumerate(data))
        with_known = {places: w for places, w in weight.items() if 0 in places}
        for places, w in with_known.items():
            (last,) = set(places) - {0}
            ratios = [target[x] / noise[x] for x in data]
            formula = ratios[last] / sum(ratios[i] for i in range(1, n))
            assert w / sum(with_known.values()) == pytest.approx(formula, rel=1e-12)


def test_fitted_function_is_the_density_ratio():
    found = theory.density_ratio_fit()
    p, q = stats.norm(1.0, 0.8), stats.norm(0, 1)
    x = found.grid.numpy()
    weight = p.pdf(x) + q.pdf(x)
    weight /= weight.sum()
    truth = p.logpdf(x) - q.logpdf(x)
    truth -= (weight * truth).sum()
    assert np.allclose(found.log_ratio.numpy(), truth)
    assert found.slope == pytest.approx(1, abs=0.05)
    assert found.correlation > 0.999
    assert found.rms_error < 0.05
    fitted = found.log_f.numpy()
    assert found.correlation == pytest.approx(
        np.cov(fitted, truth, aweights=weight)[0, 1]
        / math.sqrt(np.cov(fitted, aweights=weight) * np.cov(truth, aweights=weight)),
        abs=1e-9,
    )
    # A fit is at least as good as the truth on its own samples, and worse by next to nothing on others.
    assert found.fitted_value <= found.true_value
    assert -3 * found.fresh_regret_error < found.fresh_regret < 0.002
    assert found.converged


def test_more_samples_fit_better():
    errors = [
        np.mean([theory.density_ratio_fit(samples=samples, seed=seed).rms_error for seed in range(4)])
        for samples in (200, 3200)
    ]
    assert errors[1] < errors[0] / 2  # by the square root of 16 it would be 4


def test_supcon_fits_the_posterior_and_not_the_ratio():
    sincere = theory.density_ratio_fit("sincere", family="tabular", positives=8, samples=1500)
    supcon = theory.density_ratio_fit("supcon", family="tabular", positives=8, samples=1500)
    assert sincere.rms_error < 0.1 < 0.4 < supcon.rms_error
    assert supcon.posterior_rms_error < 0.1 < 0.4 < sincere.posterior_rms_error
    assert supcon.slope < 0.8
    assert abs(sincere.slope - 1) < 0.1


def test_infonce_fits_the_ratio_and_a_network_comes_near():
    assert theory.density_ratio_fit("infonce", samples=2000).slope == pytest.approx(1, abs=0.08)
    network = theory.density_ratio_fit(family="mlp", samples=800, steps=60)
    assert network.correlation > 0.95
    assert network.fresh_regret < 0.02


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: theory.kl_bound_on_gaussians(negatives=(0, 4)), r"at least 1.*negatives=\(0, 4\)"),
        (lambda: theory.kl_bound_on_gaussians(losses=("triplet",)), r"loss must be one of .*: got 'triplet'"),
        (lambda: theory.kl_bound_on_gaussians(scale=0), r"scale positive.*scale=0"),
        (lambda: theory.kl_bound_ceiling(classes=1, negatives=3, temperature=0.1), r"at least two classes.*classes=1"),
        (
            lambda: theory.lemma2_by_enumeration(samples=2, known=2),
            r"room for one more target than known.*samples=2, known=2",
        ),
        (
            lambda: theory.lemma2_by_enumeration(symbols=10, samples=9),
            r"at most 200,000 data sets.*symbols=10, samples=9",
        ),
        (lambda: theory.density_ratio_fit(family="spline"), r"family must be one of .*: got 'spline'"),
        (lambda: theory.density_ratio_fit(negatives=0), r"at least 1.*negatives=0"),
    ],
)
def test_what_cannot_be_is_refused(call, words):
    with pytest.raises(OptionError, match=words):
        call()
