"""The set loss: exact sums over subsets, the saddle point's accuracy, and the path that chooses between them."""

import itertools
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import oracles
import sincere.functional as SF
from sincere.losses import subsets
from sincere.losses.backends import set_rows


def log_e_k(s, members, k, method):
    tilt = subsets.balancing_tilt(s, members, k)
    p = subsets.drawing_probabilities(s, members, tilt)
    base = torch.where(members, torch.nn.functional.softplus(s + tilt[:, None], threshold=40.0), 0).sum(1) - k * tilt
    if method == "exact":
        return base + subsets.exact_log_probability(p, k), subsets.exact_inclusion(p, k)
    return base + subsets.saddle_log_probability(p), subsets.saddle_inclusion(p)


@given(n=st.integers(2, 9), scale=st.floats(0, 300), seed=st.integers(0, 1000), data=st.data())
def test_exact_sum_and_inclusion_against_all_subsets(n, scale, seed, data):
    k = data.draw(st.integers(1, n - 1))
    s = torch.randn(1, n, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)) * scale
    everyone = torch.ones(1, n, dtype=torch.bool)
    log_e, inclusion = log_e_k(s, everyone, torch.tensor([k]), "exact")
    scores = s[0].tolist()
    combinations = list(itertools.combinations(range(n), k))
    logs = [math.fsum(scores[i] for i in c) for c in combinations]
    expected = oracles.logsumexp(logs)
    assert log_e.item() == pytest.approx(expected, rel=1e-12, abs=1e-11)
    for a in range(n):
        share = math.fsum(math.exp(x - expected) for x, c in zip(logs, combinations, strict=True) if a in c)
        assert inclusion[0, a].item() == pytest.approx(share, rel=1e-9, abs=1e-12)
    assert inclusion.sum().item() == pytest.approx(k, rel=1e-11)


def test_members_that_are_left_out_do_not_count():
    s = torch.randn(2, 7, dtype=torch.float64)
    members = torch.tensor([[1, 1, 0, 1, 1, 0, 1], [1] * 7], dtype=torch.bool)
    k = torch.tensor([2, 3])
    whole, inclusion = log_e_k(s, members, k, "exact")
    part, _ = log_e_k(s[:1, members[0]], torch.ones(1, 5, dtype=torch.bool), k[:1], "exact")
    assert whole[0].item() == pytest.approx(part.item(), rel=1e-13)
    assert not inclusion[0, ~members[0]].any()


@pytest.mark.parametrize("scale", [0.1, 1.0, 5.0, 20.0, 100.0, 1000.0])
@pytest.mark.parametrize(("n", "k"), [(20, 2), (20, 10), (100, 1), (100, 10), (100, 50), (400, 40), (400, 399)])
def test_saddle_point_error_is_bounded(n, k, scale):
    """docs/set-loss.md tables these errors; its search for the worst case found 0.0402 and 0.0242."""
    s = torch.randn(50, n, dtype=torch.float64) * scale
    everyone, sizes = torch.ones_like(s, dtype=torch.bool), torch.full((50,), k)
    exact, inclusion = log_e_k(s, everyone, sizes, "exact")
    saddle, approximate = log_e_k(s, everyone, sizes, "saddle")
    assert (exact - saddle).abs().max() < 0.041
    assert (inclusion - approximate).abs().max() < 0.025
    assert approximate.min() >= 0
    assert approximate.max() <= 1


def test_saddle_point_stays_finite_where_the_textbook_explodes():
    """Members and others fully apart, as after training: V = 0, and −½ log 2πV would be +∞."""
    s = torch.tensor([[500.0] * 5 + [-500.0] * 20])
    positive = s > 0
    values, _ = set_rows.values_of_block(s, positive, torch.ones_like(positive), torch.tensor([5]), "saddle")
    assert values.item() == pytest.approx(0, abs=1e-6)


def test_saddle_gradient_is_the_derivative_of_its_value():
    s = torch.randn(3, 30, dtype=torch.float64) * 2
    positive = torch.zeros_like(s, dtype=torch.bool)
    positive[:, :7] = True
    members, k = torch.ones_like(positive), torch.full((3,), 7)
    grad = torch.ones(3, dtype=torch.float64)

    def value(s):
        return set_rows.values_of_block(s, positive, members, k, "saddle")[0].sum()

    tilt = set_rows.values_of_block(s, positive, members, k, "saddle")[1]
    gradient = set_rows._gradient_of_block(s, positive, members, k, tilt, grad, "saddle")
    step = 1e-5
    for row, column in [(0, 0), (0, 20), (1, 3), (2, 29)]:
        e = torch.zeros_like(s)
        e[row, column] = step
        assert gradient[row, column].item() == pytest.approx(
            ((value(s + e) - value(s - e)) / (2 * step)).item(), rel=1e-5, abs=1e-9
        )


@pytest.mark.parametrize("backend", ["dense", "tiled", "auto"])
def test_saddle_loss_is_close_to_the_exact_one(backend):
    z, labels = torch.randn(120, 6, dtype=torch.float64, requires_grad=True), torch.arange(120) % 6
    losses = [SF.set_nce(z, labels, method=method, backend=backend) for method in ("exact", "saddle")]
    gradients = [torch.autograd.grad(loss, z)[0] for loss in losses]
    assert losses[1].item() == pytest.approx(losses[0].item(), abs=0.041 / 19)
    assert (gradients[1] - gradients[0]).norm() < 0.01 * gradients[0].norm()


def test_auto_is_exact_while_small_and_saddle_beyond(monkeypatch):
    z, labels = torch.randn(60, 4, dtype=torch.float64), torch.arange(60) % 3
    exact, saddle = (SF.set_nce(z, labels, method=m).item() for m in ("exact", "saddle"))
    assert exact != saddle
    assert SF.set_nce(z, labels).item() == exact
    monkeypatch.setattr(set_rows, "EXACT_UP_TO", 60 * 19 - 1)
    assert SF.set_nce(z, labels).item() == saddle


@pytest.mark.parametrize("method", ["exact", "saddle"])
@pytest.mark.parametrize("backend", ["dense", "tiled"])
def test_where_there_is_no_choice_there_is_no_gradient(method, backend):
    """One class: the only set of that size is everybody, whatever the similarities, so that nothing can be better."""
    z = torch.randn(7, 4, dtype=torch.float64, requires_grad=True)
    loss = SF.set_nce(z, torch.zeros(7, dtype=torch.int64), method=method, backend=backend, reduction="sum")
    (gradient,) = torch.autograd.grad(loss, z)
    assert loss.item() == pytest.approx(0, abs=1e-12)
    assert gradient.abs().max() < 1e-12


def test_exact_backward_in_blocks(monkeypatch):
    z, labels = torch.randn(30, 4, dtype=torch.float64, requires_grad=True), torch.arange(30) % 4
    (whole,) = torch.autograd.grad(SF.set_nce(z, labels, method="exact"), z)
    monkeypatch.setattr(set_rows, "CELLS_PER_BLOCK", 700)
    (blocks,) = torch.autograd.grad(SF.set_nce(z, labels, method="exact"), z)
    torch.testing.assert_close(blocks, whole, rtol=1e-12, atol=1e-14)


def test_against_brute_force_on_a_whole_batch():
    z, labels = torch.randn(9, 3, dtype=torch.float64), torch.tensor([0, 0, 0, 0, 1, 1, 1, 2, 2])
    values = oracles.set_nce(oracles.batch_from_labels(z.numpy(), labels.numpy(), 0.1))
    assert SF.set_nce(z, labels).item() == pytest.approx(sum(values) / 9, rel=1e-12)


def test_the_tilt_has_the_digits_of_the_scores():
    """All scores alike: σ(λ) = k/m. A bracket computed in float32 would not hold λ."""
    s = torch.zeros(1, 7, dtype=torch.float64)
    tilt = subsets.balancing_tilt(s, torch.ones_like(s, dtype=torch.bool), torch.tensor([3]))
    assert tilt.item() == pytest.approx(math.log(3 / 4), rel=1e-14)
