"""The numbers of the set loss's kernels: any scores, small losses, the functions that they are made of."""

from functools import partial

import pytest
import torch

import sincere.functional as SF
from kernel_results import DEVICE, losses_and_gradient, needs_kernels
from sincere.losses import subsets
from sincere.losses.backends import set_logits
from sincere.losses.relation import Relation

triton = pytest.importorskip("triton")
import triton.language as tl

from sincere.losses.backends import triton_set, triton_set_launch

pytestmark = [
    needs_kernels,
    pytest.mark.filterwarnings("ignore:(invalid value|divide by zero|overflow) encountered:RuntimeWarning"),  # numpy's
]
per_anchor = partial(losses_and_gradient, partial(SF.set_nce, method="saddle"))


def eye_problem(s, k):
    """Anchors, contrasts and relation with the rows of `s` as logits and their first k columns as positives."""
    rows, m = s.shape
    labels = (torch.arange(m, device=DEVICE) >= k).long()
    everyone = torch.ones(m, dtype=torch.bool, device=DEVICE)
    anchor = torch.zeros(rows, dtype=torch.int64, device=DEVICE)
    relation = Relation("classes", anchor, labels, everyone, torch.ones_like(anchor, dtype=torch.bool), None)
    return s, torch.eye(m, device=DEVICE), relation


def scores(kind, spread):
    s = spread * torch.randn(3, 60)
    if kind == "ties":
        s = spread * torch.randint(-1, 2, (3, 60)).float()
    if kind == "apart":  # the positives of each of the k below are on top, as after training
        s = s.sort(dim=1, descending=True).values
    return s.to(DEVICE)


@pytest.mark.parametrize("kind", ["normal", "ties", "apart"])
@pytest.mark.parametrize("spread", [0.1, 3.0, 30.0, 1000.0])
def test_any_scores_and_any_number_of_positives(kind, spread):
    for k in (1, 6, 59):
        anchors, contrasts, relation = eye_problem(scores(kind, spread), k)
        values, found_k, numbers = triton_set_launch.forward(anchors, contrasts, relation)
        gradient, _ = triton_set_launch.backward(anchors, contrasts, relation, numbers, torch.ones_like(values))
        s, positive, members = anchors.double(), relation.weights(), relation.others()
        assert found_k.tolist() == [k] * 3
        truth, tilt = set_logits.values_of_block(s, positive, members, found_k, "saddle")
        ones = torch.ones_like(truth)
        expected = set_logits.gradient_of_block(s, positive, members, found_k, tilt, ones, "saddle")
        rounding = 4 * torch.finfo(torch.float32).eps * (1 + s.abs().max().item())  # of λ and of s + λ
        torch.testing.assert_close(values.double(), truth, rtol=1e-6, atol=rounding / k)
        torch.testing.assert_close(gradient.double(), expected, rtol=0, atol=rounding / k)
        assert gradient[positive].max() <= 0 <= gradient[~positive].min()


@pytest.mark.parametrize("gap", [6.0, 12.0, 30.0])
def test_digits_where_the_first_order_cancels(gap):
    """Members far above all others: losses down to e^−30, right to float32's digits, which plain float32 loses."""
    s = torch.randn(4, 50) + gap / 2 * torch.where(torch.arange(50) < 8, 1.0, -1.0)
    anchors, contrasts, relation = eye_problem(s.to(DEVICE), 8)
    values, k, numbers = triton_set_launch.forward(anchors, contrasts, relation)
    gradient, _ = triton_set_launch.backward(anchors, contrasts, relation, numbers, torch.ones_like(values))
    s, positive, members = anchors.double(), relation.weights(), relation.others()
    # To second order in V → 0 the loss is Σ_p Σ_n e^(s_n − s_p) / k; at 30 float64 could not tell it from V's rounding.
    truth = torch.stack([(-row[:8]).exp().sum() * row[8:].exp().sum() / 8 for row in s])
    if gap < 30:
        truth, tilt = set_logits.values_of_block(s, positive, members, k, "saddle")
        expected = set_logits.gradient_of_block(s, positive, members, k, tilt, torch.ones_like(truth), "saddle")
        torch.testing.assert_close(gradient.double(), expected, rtol=1e-4, atol=1e-9 * expected.abs().max().item())
    torch.testing.assert_close(values.double(), truth, rtol=1e-4, atol=0)


def test_no_further_from_the_truth_than_torch_in_float32():
    """At a loss of 1e-7 torch's gradient in single precision is rounding (docs/set-loss.md); the kernels' is not."""
    labels = torch.arange(200, device=DEVICE) % 10
    corners = torch.eye(10, device=DEVICE) - 0.1
    for noise, temperature in ((0.3, 0.1), (0.1, 0.03)):
        z = corners[labels] + noise * torch.randn(200, 10, device=DEVICE)
        few = (z[:10], labels[:10], z[10:], labels[10:])
        truth = per_anchor(
            few[0].double(), labels[:10], few[2].double(), *few[3:], backend="tiled", temperature=temperature
        )
        plain = per_anchor(*few, backend="tiled", temperature=temperature)
        candidate = per_anchor(*few, backend="triton", temperature=temperature)
        for got, same_precision, want in zip(candidate, plain, truth, strict=True):
            error, of_torch = ((found.double() - want).norm() / want.norm() for found in (got, same_precision))
            assert error <= of_torch + 1e-6
            assert error < 2e-5


@pytest.mark.parametrize("k", [0, 9])
def test_a_row_with_nothing_to_choose_counts_0_whatever_it_holds(k):
    s = torch.tensor([[float("nan"), *range(8)]], device=DEVICE)
    anchors, contrasts, relation = eye_problem(s, k)
    values, _, numbers = triton_set_launch.forward(anchors, contrasts.new_zeros(9, 9), relation)
    anchors = torch.full_like(anchors, float("nan"))
    gradient, _ = triton_set_launch.backward(anchors, contrasts, relation, numbers, torch.ones_like(values))
    assert values.item() == 0
    assert not gradient.any()


@triton.jit
def bessel_kernel(total_ptr, log_ptr, ratio_ptr):
    """One number a program, as the loss has it."""
    log_bessel, ratio = triton_set.bessel(tl.load(total_ptr + tl.program_id(0)))
    tl.store(log_ptr + tl.program_id(0), log_bessel)
    tl.store(ratio_ptr + tl.program_id(0), ratio)


def test_bessel_functions():
    small = torch.logspace(-12, 0, 25)
    total = torch.cat([torch.zeros(1), small, torch.linspace(1, 8, 57), torch.logspace(1, 6, 21)]).to(DEVICE)
    logs, ratios = torch.empty_like(total), torch.empty_like(total)
    bessel_kernel[(total.shape[0],)](total, logs, ratios)
    v = total.double()
    # For small V the logarithm of torch's value has few digits, and V²/4 − V⁴/64 has them all.
    wanted = torch.where(v < 0.01, v.square() / 4 - v.pow(4) / 64, torch.special.i0e(v).log() + v)
    torch.testing.assert_close(logs.double(), wanted, rtol=3e-7, atol=0)
    torch.testing.assert_close(ratios.double(), torch.special.i1e(v) / torch.special.i0e(v), rtol=5e-7, atol=0)


def test_the_search_needs_few_rounds():
    """The kernel's rounds are bounded by the same number as torch's, which no scores may need: a quarter is enough."""
    assert subsets.NEWTON_STEPS == 60
    for kind in ("normal", "ties", "apart"):
        for spread in (0.1, 10.0, 1000.0):
            for k in (1, 6, 59):
                anchors, contrasts, relation = eye_problem(scores(kind, spread)[:1], k)
                few = settled_tilt(anchors, contrasts, relation, 15)
                torch.testing.assert_close(few, settled_tilt(anchors, contrasts, relation, 60), rtol=0, atol=0)


def settled_tilt(anchors, contrasts, relation, rounds):
    patched = pytest.MonkeyPatch()
    with patched.context() as patch:
        patch.setattr(triton_set_launch, "NEWTON_STEPS", rounds)
        return triton_set_launch.forward(anchors, contrasts, relation)[2][0]
