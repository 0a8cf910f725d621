"""The claims that need no data: they run, are kept, and their verdicts follow from the figures."""

import csv
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure

from sincere import theory
from sincere.claims import (
    CLAIMS,
    ClaimResult,
    Measured,
    batch_sums,
    class_sizes,
    cost,
    encoder_share,
    find_claim,
    gradients,
    identities,
    information,
    likelihood,
    long_tail,
    optimum,
    random_labels,
    reproduce,
)
from sincere.claims.trends import exponent
from sincere.errors import InputError
from sincere.theory.regression import Estimate

OURS = (1, 2, 3, 4, 5, 6, 7, 17, 18, 19, 20, 23, 25, 26, 27, 29)


def test_every_claim_is_listed_once_and_in_order():
    numbers = [claim.number for claim in CLAIMS]
    assert numbers == sorted(set(numbers))
    assert set(OURS) <= set(numbers)
    assert len({claim.name for claim in CLAIMS}) == len(CLAIMS)
    assert all(find_claim(str(number)).needs == () for number in OURS if number != 23)  # which may train on images


@pytest.mark.parametrize(
    ("name", "verdict"),
    [
        ("sincere-is-infonce", "reproduced"),
        ("lemma-2", "reproduced"),
        ("kl-bound", "reproduced"),
        ("supcon-bound", "reproduced"),
        ("batch-minimisers", "reproduced"),
        ("temperature-and-negatives", "answered"),
    ],
)
def test_a_claim_runs_and_is_kept(name, verdict, tmp_path):
    result = reproduce(name, out=tmp_path)
    assert result.verdict == verdict, result.reason
    kept = (tmp_path / name / "quick.json").read_text(encoding="utf-8")
    assert ClaimResult.from_json(kept) == result
    assert (tmp_path / name / "quick.png").read_bytes().startswith(b"\x89PNG")
    with (tmp_path / name / "quick.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) > 1
    assert all(None not in row for row in rows)  # no row has more cells than the header
    assert all(math.isfinite(figure.value) for figure in result.measured)


def drawn(draw, *arguments):
    """Draw it, as the command does; warnings are errors here."""
    figure = Figure(figsize=(7.2, 4.0), layout="constrained")
    draw(figure, *arguments)
    figure.canvas.draw()
    assert figure.axes
    return figure


def test_infonce_as_written_is_the_equation():
    views = torch.randn(5, 2, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    rows = [row / np.linalg.norm(row) for row in views.numpy().reshape(10, 3)]
    total = 0.0
    for t in range(10):
        other = t + 1 if t % 2 == 0 else t - 1
        scores = {i: math.exp(rows[t] @ rows[i] / 0.2) for i in range(10) if i != t}
        total -= math.log(scores[other] / sum(scores.values()))
    assert float(identities.infonce_as_written(views, 0.2)) == pytest.approx(total / 10, rel=1e-12)


def test_one_positive_is_judged_by_value_and_gradient():
    found = identities.one_positive(6, 4, 0.5, seed=0)
    assert identities.judge_one_positive(found)[0] == "reproduced"
    off = [replace(one, gradient_difference=1e-6) if one.loss == "sincere" else one for one in found]
    assert identities.judge_one_positive(off)[0] == "partly"
    off = [replace(one, value=one.value + 1e-6) if one.loss == "sincere" else one for one in off]
    assert identities.judge_one_positive(off)[0] == "not reproduced"
    blind = [replace(one, value=one.infonce) if one.loss == "decoupled" else one for one in found]
    assert "does not tell" in identities.judge_one_positive(blind)[1]


@pytest.mark.parametrize("loss", ["sincere", "supcon"])
def test_the_written_gradient_is_that_of_differences(loss):
    """Central differences of Eq. 12 and of SupCon, written out here."""
    labels = torch.tensor([0, 0, 0, 1, 1, 2])
    z = torch.randn(6, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1))

    def value(anchor):
        e = {i: math.exp(float(anchor @ z[i]) / 0.7) for i in range(1, 6)}
        noise = e[3] + e[4] + e[5]
        bottom = {p: noise + (e[1] + e[2] if loss == "supcon" else e[p]) for p in (1, 2)}
        return sum(-math.log(e[p] / bottom[p]) for p in (1, 2)) / 2

    steps = 1e-6 * torch.eye(3, dtype=torch.float64)
    differences = [(value(z[0] + step) - value(z[0] - step)) / 2e-6 for step in steps]
    written = gradients.gradient_as_written(loss, z, labels, 0, 0.7)
    np.testing.assert_allclose(written.numpy(), differences, rtol=1e-7, atol=1e-8)
    assert gradients.gradient_gap(loss, 2, 0.5, 2, seed=0) < 1e-13


def test_gradient_is_judged_by_range_and_growth():
    found = [theory.gradient_ranges(("sincere", "supcon"), positives=3, batches=5)]
    growth = theory.repulsion_by_positives(("supcon", "sincere"), positives=(1, 2, 8), batches=4)
    whole = {"sincere": 0.0, "supcon": 0.0}
    assert gradients.judge_gradient(found, growth, whole)[0] == "reproduced"
    drawn(gradients._draw_gradient, found, growth)
    repelling = [
        replace(one, ranges=tuple(replace(r, largest=r.largest + 9, positive_share=0.3) for r in one.ranges))
        for one in found
    ]
    verdict, reason = gradients.judge_gradient(repelling, growth, whole)
    assert verdict == "partly"
    assert "Not so: |P| times" in reason
    assert "Not so: SINCERE pushes" in reason
    level = replace(growth, points=tuple(replace(point, push=0.1) for point in growth.points))
    assert "Not so: SupCon's push" in gradients.judge_gradient(found, level, whole)[1]
    assert "Not so: autograd" in gradients.judge_gradient(found, growth, whole | {"supcon": 1e-6})[1]


def test_lemma_2_is_judged_by_formula_and_loss():
    found = [theory.lemma2_by_enumeration(symbols=2, samples=4, known=1)]
    assert likelihood.judge_lemma_2(found)[0] == "reproduced"
    assert likelihood.judge_lemma_2([replace(found[0], difference=0.01)])[0] == "partly"
    assert likelihood.judge_lemma_2([replace(found[0], difference=0.01, loss_difference=0.01)])[0] == "not reproduced"


def test_density_ratio_is_judged_by_slope_error_rate_and_regret():
    fit = theory.density_ratio_fit(samples=50, positives=2, steps=50)

    def fits(slope=1.0, error=0.5, regret=0.0, power=-0.5):
        made = [
            replace(fit, samples=n, seed=seed, slope=slope, rms_error=error * n**power, fresh_regret=regret)
            for n in (100, 400, 1600)
            for seed in (0, 1)
        ]
        return [likelihood.RatioFits("sincere", "quadratic", tuple(made))]

    assert likelihood.judge_density_ratio(fits())[0] == "reproduced"
    drawn(likelihood._draw_density_ratio, fits())
    for wrong in (fits(slope=0.75), fits(error=9.0), fits(regret=-1.0), fits(error=0.05, power=0.0)):
        verdict, reason = likelihood.judge_density_ratio(wrong)
        assert verdict == "partly"
        assert reason.count("Not so") == 1


def test_kl_bound_is_judged_by_truth_and_gain():
    curve = theory.kl_bound_on_gaussians(negatives=(1, 8, 64), samples=300)
    assert information.judge_kl_bound([curve])[0] == "reproduced"
    above = replace(curve, divergence=0.5)
    assert information.judge_kl_bound([curve, above])[0] == "partly"
    level = tuple(replace(p, gain=None if p.gain is None else 0.0) for p in above.points)
    assert information.judge_kl_bound([replace(above, points=level)])[0] == "not reproduced"


def test_an_exponent_of_what_never_varies_is_zero_for_sure():
    found = exponent("cost", [1, 2, 4], [3.0, 3.0, 3.0])
    assert (found.value, found.low, found.high) == (0.0, 0.0, 0.0)


def test_exponent_is_the_slope_of_logarithms():
    x, noise = np.array([1.0, 2.0, 4.0, 8.0]), np.array([1.0, 1.1, 0.95, 1.02])
    found = exponent("time", list(x), list(3 * x**1.5 * noise))
    assert found.value == pytest.approx(np.polyfit(np.log(x), np.log(3 * x**1.5 * noise), 1)[0], rel=1e-12)
    assert found.low < 1.5 < found.high
    assert found.n == "4 points"
    with pytest.raises(InputError, match="three or more"):
        exponent("time", [1, 2], [1, 2])


def exponents(**changes):
    values = {"n": 2.0, "d": 0.9, "supcon": 1.0, "memory": 1.0, "dense": 2.0} | changes
    return {name: Measured(name, value) for name, value in values.items() if value is not None}


@pytest.mark.parametrize(
    ("changes", "verdict"),
    [
        ({}, "reproduced"),
        ({"n": 1.6, "d": 0.3}, "reproduced"),  # below the ceiling
        ({"n": 2.4}, "partly"),
        ({"d": 1.5}, "partly"),
        ({"supcon": 2.0}, "partly"),
        ({"memory": 1.9}, "partly"),
        ({"dense": 1.2}, "partly"),
        ({"memory": None, "dense": None}, "reproduced"),
        ({"n": 3.0, "d": 2.0, "supcon": 3.0, "memory": 2.0, "dense": 2.0}, "not reproduced"),
    ],
)
def test_cost_is_judged_by_exponents(changes, verdict):
    assert cost.judge_exponents(exponents(**changes))[0] == verdict


def test_cost_of_known_laws():
    plan = cost.Plan("cpu", "float32", "tiled", (64, 128, 256), (64, 128, 256), (64, 128, 256), 64, 2)
    found = [cost.Cost("sincere", "tiled", n, 128, (n**2 / 1e6, n**2 / 9e5), n / 10) for n in plan.sizes]
    found += [cost.Cost("supcon", "tiled", n, 128, (n**2 / 1e6, n**2 / 9e5), n / 10) for n in plan.sizes[:-1]]
    found += [cost.Cost("sincere", "dense", n, 128, (n**2 / 1e5, n**2 / 9e4), n**2 / 1e3) for n in plan.sizes]
    found += [cost.Cost("sincere", "tiled", 64, d, (64**2 * d / 128e6, 64**2 * d / 128 / 9e5), 1.0) for d in (64, 256)]
    seen = {name: figure.value for name, figure in cost.exponents(plan, found).items()}
    assert seen == pytest.approx({"n": 2, "d": 1, "supcon": 1, "memory": 1, "dense": 2})
    assert cost.judge_cost(plan, found)[0] == "reproduced"
    assert len(drawn(cost._draw, plan, found).axes) == 2


def test_measured_costs_are_of_every_case(tmp_path):
    from sincere.claims.claim import Conditions
    from sincere.claims.laboratory import Laboratory

    plan = cost.Plan("cpu", "float32", "tiled", (32, 64, 96), (32, 64, 96), (4, 8), 32, 2)
    found = cost.measured_costs(plan, Conditions("quick", 0, Laboratory(tmp_path)))
    assert {(one.loss, one.backend, one.n, one.d) for one in found} == {
        *(("sincere", backend, n, 128) for backend in ("tiled", "dense") for n in (32, 64, 96)),
        *(("supcon", "tiled", n, 128) for n in (32, 64)),
        *(("sincere", "tiled", 32, d) for d in (4, 8)),
    }
    assert all(len(one.seconds) == 2 and min(one.seconds) > 0 for one in found)


def test_the_encoder_is_judged_by_its_worst_round():
    losses = {"SINCERE": (0.1, 0.1), "SupCon": (0.1, 0.1)}
    found = encoder_share.Shares((9.0, 8.0), (9.0, 8.0), losses, 16)
    assert encoder_share.judge_shares(found)[0] == "reproduced"
    assert encoder_share.judge_shares(replace(found, encoder=(9.0, 0.9)))[0] == "partly"
    assert encoder_share.judge_shares(replace(found, encoder=(0.05, 0.05)))[0] == "not reproduced"
    drawn(encoder_share._draw, found)


def test_the_encoder_is_scaled_to_a_whole_batch():
    found = encoder_share.measured_shares("small_cnn", "cpu", 4, 2, seed=0)
    assert len(found.encoder) == len(found.losses["SINCERE"]) == 2
    assert found.images == 4
    assert min(found.encoder) > 0


def test_toy_optimum_is_judged_by_both_losses():
    found = [theory.sphere_optimum(loss, points=400, steps=200) for loss in optimum.LOSSES]
    assert optimum.judge_toy(found)[0] == "reproduced"
    drawn(optimum._draw_toy, found)

    def off(*losses):
        bent = [replace(one, arrangement=replace(one.arrangement, simplex_deviation=0.1)) for one in found]
        return [b if one.loss in losses else one for one, b in zip(found, bent, strict=True)]

    assert optimum.judge_toy(off("supcon"))[0] == "partly"
    assert optimum.judge_toy(off("sincere"))[0] == "reproduced"  # no part of the paper's claim
    assert optimum.judge_toy(off("supcon", "cross_entropy"))[0] == "not reproduced"


def test_cross_entropy_is_judged_by_bound_and_radius():
    found = [theory.cross_entropy_optimum(points=20)]
    elsewhere = optimum.random_cross_entropies(3, 30, seed=0)
    assert optimum.judge_cross_entropy(found, elsewhere)[0] == "reproduced"
    drawn(optimum._draw_cross_entropy, found, elsewhere)
    wrong_radius = [replace(found[0], weight_radii=(1.0, 9.0))]
    assert optimum.judge_cross_entropy(wrong_radius, elsewhere)[0] == "partly"
    below = [replace(elsewhere[0], value=elsewhere[0].bound - 0.1)]
    assert "Not so: no other" in optimum.judge_cross_entropy(found, below)[1]
    bound = [math.log(1 + 2 * math.exp(-math.sqrt(3) * one.weight_norm / 2)) for one in elsewhere]
    assert [one.bound for one in elsewhere] == pytest.approx(bound)


def test_the_bound_over_batches_is_judged_at_the_simplex_and_elsewhere():
    found = batch_sums.batch_sums(3, 2, 3, "sets", 1.0, 0, 3)
    assert batch_sums.judge_bound(found)[0] == "reproduced"
    raised = [replace(one, value=one.value * 1.01) if one.kind == "simplex" else one for one in found]
    assert batch_sums.judge_bound(raised)[0] == "partly"
    assert batch_sums.judge_bound([*raised, replace(found[-1], value=0.0)])[0] == "not reproduced"


def test_batch_minimisers_are_judged_alone_and_together():
    found = [theory.batch_minimisers(classes=3, batch=4, members=2, starts=1)]
    assert batch_sums.judge_minimisers(found)[0] == "reproduced"
    bent = replace(found[0].arrangement, simplex_deviation=0.2)
    assert batch_sums.judge_minimisers([replace(found[0], arrangement=bent)])[0] == "partly"
    alike = tuple(replace(one, value=one.simplex_value) for one in found[0].configurations)
    assert batch_sums.judge_minimisers([replace(found[0], configurations=alike)])[0] == "partly"


def test_random_labels_are_judged_by_curvature():
    few = {"shares": (0.0, 0.5, 1.0), "seeds": 2, "samples": 16, "classes": 2, "max_steps": 10}
    run = theory.random_labels(random_labels.LOSSES, **few)
    up, level, down = Estimate(5, 1, 9), Estimate(0, -1, 1), Estimate(-5, -9, -1)

    def bent(of_cross_entropy, of_supcon, optimizer="sgd", slopes=(up, up), samples=16):
        curvatures = {"cross_entropy": of_cross_entropy, "supcon": of_supcon, "sincere": up}
        slope = {**dict(zip(("cross_entropy", "supcon"), slopes, strict=True)), "sincere": up}
        trends = tuple(
            replace(trend, slope=slope[trend.loss], curvature=curvatures[trend.loss]) for trend in run.trends
        )
        return replace(run, optimizer=optimizer, trends=trends, samples=samples)

    assert random_labels.judge_random_labels([bent(level, up)])[0] == "reproduced"
    assert random_labels.judge_random_labels([bent(down, up)])[0] == "partly"
    assert random_labels.judge_random_labels([bent(down, level)])[0] == "not reproduced"
    verdict, reason = random_labels.judge_random_labels([bent(level, up), bent(level, down, "adam")])
    assert verdict == "reproduced"  # the criterion is about SGD
    assert "growth slower than linear" in reason
    verdict, reason = random_labels.judge_random_labels([bent(level, up, slopes=(level, up))])
    assert verdict == "partly"  # as soon with random labels as with plain ones: that is no line upwards
    assert "Steps of cross-entropy are not shown to grow." in reason
    verdict, reason = random_labels.judge_random_labels([bent(level, up, slopes=(level, down))])
    assert verdict == "not reproduced"
    assert "Steps of SupCon are not shown to grow." in reason
    verdict, reason = random_labels.judge_random_labels([bent(down, up), bent(level, up, samples=1024)])
    assert verdict == "partly"
    told = (
        "slower than linear with 16 samples, no departure from a line with 1,024 samples; SupCon: faster than linear."
    )
    assert f"Cross-entropy: {told}" in reason  # not of the first alone
    drawn(random_labels._draw, [run, replace(run, optimizer="adam")])


def test_rare_digits_are_rare_in_training_alone():
    (data, order), (_, other) = long_tail.tailed_digits(0), long_tail.tailed_digits(1)
    counts = torch.bincount(data.train.labels)
    assert counts[order].tolist() == long_tail.class_sizes() == [100, 70, 49, 34, 24, 17, 12, 8, 6, 4]
    assert len(set(torch.bincount(data.test.labels).tolist())) == 1
    assert order.tolist() != other.tolist()


def test_the_best_packings_are_those_of_the_solids():
    """Octahedron and icosahedron by their corners; the square antiprism by the edge condition of its two squares."""
    golden = (1 + 5**0.5) / 2
    corners = np.array([(0, a, b * golden) for a in (1, -1) for b in (1, -1)])
    corners = np.concatenate([np.roll(corners, turn, axis=1) for turn in range(3)]) / math.hypot(1, golden)
    cosines = corners @ corners.T
    assert cosines[cosines < 0.999].max() == pytest.approx(class_sizes.TAMMES[12])
    heights = np.linspace(0.3, 0.8, 50_001)  # of the squares; their radius is √(1 − h²)
    within, across = heights**2, -(heights**2) + (1 - heights**2) * math.cos(math.pi / 4)
    assert np.maximum(within, across).min() == pytest.approx(class_sizes.TAMMES[8], abs=1e-4)
