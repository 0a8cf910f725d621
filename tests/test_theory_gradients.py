"""Coefficients of pairs against Eq. 13 and 14 in NumPy, repulsion, and what it does step by step."""

import math
from itertools import pairwise

import numpy as np
import pytest
import torch

import sincere.functional as SF
from sincere import theory
from sincere.errors import OptionError
from sincere.theory.gradients import noisy_classes, pair_coefficients


def coefficients(z, y, temperature, loss):
    """The scalar in front of z_p, Eq. 13 with its 1/|P| and Eq. 14, for every pair in order."""
    found = []
    e = np.exp(z @ z.T / temperature)
    for t in range(len(y)):
        members = [p for p in range(len(y)) if p != t and y[p] == y[t]]
        noise = sum(e[t, n] for n in range(len(y)) if y[n] != y[t])
        for p in members:
            if loss == "sincere":
                found.append((e[t, p] / (e[t, p] + noise) - 1) / len(members))
            else:
                found.append(e[t, p] / (sum(e[t, q] for q in members) + noise) - 1 / len(members))
    return np.array(found)


@pytest.mark.parametrize("loss", ["sincere", "supcon"])
@pytest.mark.parametrize("noise", [0.0, 0.5, 30.0])
def test_pair_coefficients_are_the_equations(loss, noise):
    y = torch.tensor([0, 0, 0, 0, 1, 1, 1, 2, 2])
    z = noisy_classes(y, 5, noise, 3)
    found = pair_coefficients(loss, z @ z.T, y, 0.2)
    assert np.allclose(found.numpy(), coefficients(z.numpy(), y.numpy(), 0.2, loss), atol=1e-12)


def test_ranges_of_the_paper():
    found = theory.gradient_ranges()
    sincere, supcon = found.of("sincere"), found.of("supcon")
    assert sincere.limits == (-1, 0)
    assert supcon.limits == (-1, 4)
    for one in found.ranges:
        assert one.within_limits
    # The whole range is used: batches reach from far positives to positives that are too near for SupCon.
    assert sincere.least < -0.99
    assert -0.01 < sincere.largest <= 0
    assert supcon.least < -0.99
    assert 3.5 < supcon.largest < 4
    assert supcon.positive_share > 0.05
    assert {one.loss for one in found.ranges if one.positive_share > 0} == {"supcon"}
    for one in (sincere, supcon):
        assert one.equation_difference < 1e-12
        assert one.vector_difference < 1e-12


def test_the_gradient_vector_is_equation_13():
    """∂L/∂z_t with everything else held still, by central differences of the library's loss."""
    y = torch.tensor([0, 0, 0, 1, 1, 2])
    z = noisy_classes(y, 4, 0.5, 1)
    e = np.exp(z.numpy() @ z[0].numpy() / 0.3)
    written = np.zeros(4)
    for p in (1, 2):
        bottom = e[p] + e[3:].sum()
        written += (z[p].numpy() * (e[p] / bottom - 1) + (e[3:, None] * z[3:].numpy()).sum(axis=0) / bottom) / (2 * 0.3)

    def value(anchor):
        return float(SF.sincere(anchor.unsqueeze(0), y[:1], z[1:], y[1:], similarity="dot", temperature=0.3))

    step = 1e-6 * torch.eye(4, dtype=torch.float64)
    numerical = [(value(z[0] + h) - value(z[0] - h)) / 2e-6 for h in step]
    assert np.allclose(numerical, written, atol=1e-8)


def test_with_one_positive_every_loss_is_infonce_but_the_decoupled_one():
    found = theory.single_positive()
    for loss in ("sincere", "supcon", "supcon_in", "set_nce"):
        assert found.value_difference[loss] < 1e-12
        assert found.gradient_difference[loss] < 1e-12
    assert found.value_difference["decoupled"] > 0.1


def test_repulsion_grows_with_the_positives_under_supcon_alone():
    found = theory.repulsion_by_positives(positives=(1, 2, 4, 8, 16), batches=16)
    supcon = found.of("supcon")
    assert supcon[0].push == 0
    assert supcon[0].share == 0
    for fewer, more in pairwise(supcon):
        assert more.push - fewer.push > 0
        assert more.limit > fewer.limit
        assert more.largest <= more.limit
    assert supcon[-1].push - supcon[1].push > 3 * math.hypot(supcon[-1].push_error, supcon[1].push_error)
    for loss in ("sincere", "set_nce"):
        assert all(point.push == 0 and point.share == 0 and point.largest <= 0 for point in found.of(loss))


def test_total_coefficient_of_supcon_never_pushes():
    """Σ_p (softmax_p − 1/|P|) = softmax mass of the positives − 1 ≤ 0: push and pull differ by that."""
    for point in theory.repulsion_by_positives(("supcon",), batches=4).points:
        assert point.push <= point.pull + 1e-12


def test_dynamics_from_one_start():
    found = theory.repulsion_dynamics(steps=60, members=6)
    supcon, sincere, of_sets = (found.of(loss) for loss in ("supcon", "sincere", "set_nce"))
    assert supcon.within[0] == sincere.within[0] == of_sets.within[0]
    assert supcon.between[0] == sincere.between[0] == of_sets.between[0]
    assert max(supcon.repelled) > 0.3
    assert max(sincere.repelled) == max(of_sets.repelled) == 0
    for one in (supcon, sincere, of_sets):
        assert one.within[-1] > one.within[0] + 0.3
        assert one.between[-1] < 0
        assert one.value[-1] < one.value[0]
    assert found.steps == tuple(range(0, 61, 5))
    assert len(supcon.value) == len(found.steps)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_sincere_ends_with_lower_cosines_within_and_between_classes(seed):
    """The direction of SINCERE's Figure 2 (0.06 lower within, 0.11 lower between), from three starts."""
    found = theory.repulsion_dynamics(("supcon", "sincere"), steps=100, every=50, seed=seed)
    supcon, sincere = found.trajectories
    assert sincere.within[-1] < supcon.within[-1] - 0.03
    assert sincere.between[-1] < supcon.between[-1]


def test_first_step_of_the_dynamics_is_gradient_descent():
    found = theory.repulsion_dynamics(("sincere",), steps=1, every=1, members=3, classes=3, rate=0.05)
    y = torch.arange(3).repeat_interleave(3)
    z = noisy_classes(y, 8, 30.0, 0).requires_grad_()
    SF.sincere(z, y, temperature=0.1).backward()  # cosine: its gradient is tangential
    moved = torch.nn.functional.normalize(z.detach() - 0.05 * 9 * z.grad, dim=1)
    assert found.trajectories[0].value[1] == pytest.approx(float(SF.sincere(moved, y, temperature=0.1)), rel=1e-10)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: theory.gradient_ranges(positives=0), r"at least one positive.*positives=0"),
        (lambda: theory.gradient_ranges().of("triplet"), r"one that was looked at.*: got 'triplet'"),
        (lambda: theory.repulsion_by_positives(positives=(0,)), r"one positive.*positives=\(0,\)"),
        (lambda: theory.repulsion_dynamics(steps=0), r"steps and every must be at least 1.*steps=0"),
        (lambda: theory.projection_optimum(heads=("attention",)), r"head must be one of .*: got 'attention'"),
        (lambda: theory.imbalance_optimum(ratios=(0,)), r"ratios of at least 1.*ratios=\(0,\)"),
        (lambda: theory.sphere_optimum("triplet"), r"loss must be one of .*: got 'triplet'"),
        (lambda: theory.sphere_optimum(counts=(3, 0)), r"every class at least one point.*: got \(3, 0\)"),
        (lambda: theory.sphere_optimum(temperature=0), "temperature must be positive and finite: got 0"),
        (lambda: theory.sphere_optimum(classes=5, points=4), "every one of 5 classes needs a point: got points=4"),
        (
            lambda: theory.weight_radius(classes=4, radius=1.0, weight_decay=0.0),
            r"weight_decay above 0 and finite.*weight_decay=0.0",
        ),
        (lambda: theory.simplex(5, 3), "5 corners needs at least 4 dimensions: got 3"),
    ],
)
def test_what_cannot_be_is_refused(call, words):
    with pytest.raises(OptionError, match=words):
        call()


def test_one_positive_is_infonce_at_every_temperature():
    """A loss and InfoNCE at two temperatures would differ, as they do for the decoupled loss."""
    for temperature in (0.05, 0.5, 2.0):
        found = theory.single_positive(("sincere", "supcon"), temperature=temperature, batches=2)
        assert max(*found.value_difference.values(), *found.gradient_difference.values()) < 1e-12
