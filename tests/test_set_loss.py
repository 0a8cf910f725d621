"""The set loss: exact sums over subsets, the saddle point's accuracy, and the path that chooses between them."""

import itertools
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import oracles
import sincere.functional as SF
from sincere.losses import subset_tree, subsets
from sincere.losses.backends import set_logits, set_rows


def log_e_k(s, members, k, method):
    tilt = subsets.balancing_tilt(s, members, k)
    p = subsets.drawing_probabilities(s, members, tilt)
    base = torch.where(members, torch.nn.functional.softplus(s + tilt[:, None], threshold=40.0), 0).sum(1) - k * tilt
    if method == "exact":
        return base + subset_tree.exact_log_probability(p, k), subset_tree.inclusion(p, k)
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


def recurrence(p):
    """Pr[j elements are drawn] for every j, one element after the other: (rows, m + 1)."""
    state = torch.zeros(p.shape[0], p.shape[1] + 1, dtype=p.dtype)
    state[:, 0] = 1
    for probability in p.T.unsqueeze(2):
        drawn = torch.nn.functional.pad(state[:, :-1], (1, 0))
        state = state * (1 - probability) + drawn * probability
    return state


@given(m=st.integers(1, 40), scale=st.floats(0, 30), seed=st.integers(0, 1000))
def test_the_tree_against_the_recurrence(m, scale, seed):
    """Every k at once, a row each, with elements that are certain and such that are never drawn: as the recurrence has
    it, relative to each number; and inclusion as by the recurrence without the element."""
    generator = torch.Generator().manual_seed(seed)
    s = torch.randn(m + 1, m, dtype=torch.float64, generator=generator) * scale
    k, members = torch.arange(m + 1), torch.rand(m + 1, m, generator=generator) > 0.1
    counts = members.sum(dim=1)
    some = (k > 0) & (k < counts)  # where there is no choice there is no tilt either, and probabilities underflow
    s, members, k = s[some], members[some], k[some]
    p = subsets.drawing_probabilities(s, members, subsets.balancing_tilt(s, members, k))

    def by_recurrence(p, k):
        return recurrence(p).gather(1, k.unsqueeze(1)).squeeze(1)

    of_size = by_recurrence(p, k)
    torch.testing.assert_close(subset_tree.exact_log_probability(p, k).exp(), of_size, rtol=1e-13, atol=0)
    torch.testing.assert_close(
        subset_tree.count_distribution(p, m + 2)[:, : m + 1], recurrence(p), rtol=1e-12, atol=1e-300
    )
    inclusion = subset_tree.inclusion(p, k)
    for a in range(m):
        others = torch.cat([p[:, :a], p[:, a + 1 :]], dim=1)
        expected = p[:, a] * by_recurrence(others, k - 1) / of_size
        torch.testing.assert_close(inclusion[:, a], expected.clamp(max=1), rtol=1e-12, atol=0)


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
    values, _ = set_logits.values_of_block(s, positive, torch.ones_like(positive), torch.tensor([5]), "saddle")
    assert values.item() == pytest.approx(0, abs=1e-6)


def test_saddle_gradient_is_the_derivative_of_its_value():
    s = torch.randn(3, 30, dtype=torch.float64) * 2
    positive = torch.zeros_like(s, dtype=torch.bool)
    positive[:, :7] = True
    members, k = torch.ones_like(positive), torch.full((3,), 7)
    grad = torch.ones(3, dtype=torch.float64)

    def value(s):
        return set_logits.values_of_block(s, positive, members, k, "saddle")[0].sum()

    tilt = set_logits.values_of_block(s, positive, members, k, "saddle")[1]
    gradient = set_logits.gradient_of_block(s, positive, members, k, tilt, grad, "saddle")
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


def test_the_exact_method_in_blocks(monkeypatch):
    z, labels = torch.randn(30, 4, dtype=torch.float64, requires_grad=True), torch.arange(30) % 4
    loss = SF.set_nce(z, labels, method="exact")
    (whole,) = torch.autograd.grad(loss, z)
    monkeypatch.setattr(set_logits, "HELD_AT_ONCE", 700)
    in_blocks = SF.set_nce(z, labels, method="exact")
    (blocks,) = torch.autograd.grad(in_blocks, z)
    assert in_blocks.item() == pytest.approx(loss.item(), rel=1e-13)
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


@pytest.mark.parametrize("contrasts", [1_000, 20_000, 200_000])
@pytest.mark.parametrize("positives", [1, 10])
def test_few_positives_among_many_contrasts_in_single_precision(contrasts, positives):
    """Inclusion probabilities add up to k, and so the gradient of an anchor's logits to 0, whatever the number of
    contrasts: a queue of past embeddings has many."""
    scores = torch.randn(4, contrasts)
    is_positive = (torch.arange(contrasts) < positives).long()
    anchors, labels = torch.zeros(4, 1), torch.ones(4, dtype=torch.int64)

    def loss_and_gradient(dtype):
        free = scores.to(dtype).requires_grad_()
        options = {"similarity": lambda a, c: free, "temperature": 1.0, "method": "saddle", "reduction": "none"}
        loss = SF.set_nce(anchors, labels, torch.zeros(contrasts, 1), is_positive, **options)
        return loss.detach(), torch.autograd.grad(loss.sum(), free)[0]

    loss, gradient = loss_and_gradient(torch.float32)
    pull = gradient[:, :positives].double().sum(dim=1)
    push = gradient[:, positives:].double().sum(dim=1)
    torch.testing.assert_close(push, -pull, rtol=2e-5, atol=0)
    torch.testing.assert_close(loss.double(), loss_and_gradient(torch.float64)[0], rtol=2e-5, atol=0)


@pytest.mark.parametrize("spread", [0.1, 3.0, 100.0])
@pytest.mark.parametrize("k", [0, 1, 7, 29, 30])
def test_probability_of_a_count_without_a_step_per_element(spread, k):
    """As compiled graphs compute it, against the recurrence; a certain and an impossible element are among them."""
    torch.manual_seed(0)
    s, counts = spread * torch.randn(4, 30, dtype=torch.float64), torch.full((4,), k)
    tilt = subsets.balancing_tilt(s, torch.ones_like(s, dtype=torch.bool), counts)
    p = subsets.drawing_probabilities(s, torch.arange(30) > 0, tilt)
    p = torch.cat([p, p.new_ones(4, 1), p.new_full((4, 2), 0.5)], dim=1)
    every = torch.stack([subsets.count_probability(p, torch.full((4,), count)) for count in range(34)], dim=1)
    torch.testing.assert_close(every, recurrence(p), rtol=0, atol=1e-14)


@pytest.mark.filterwarnings("ignore::DeprecationWarning:torch")  # the compiler's own imports
@pytest.mark.parametrize(
    ("similarity", "backend"), [("cosine", "dense"), (lambda a, c: a @ c.T, "auto")], ids=["dense", "own similarity"]
)
@pytest.mark.parametrize("method", ["exact", "saddle"])
def test_compiles_whole(method, similarity, backend, monkeypatch):
    monkeypatch.setattr(subsets, "NEWTON_STEPS", 12)  # a graph has them one by one, and 60 take long to compile
    torch.compiler.reset()
    torch.manual_seed(0)

    def call(z, labels):
        return SF.set_nce(z, labels, method=method, similarity=similarity, backend=backend, temperature=0.5)

    compiled = torch.compile(call, fullgraph=True, dynamic=True, backend="eager")
    for size in (12, 31):
        z, labels = torch.randn(size, 5, dtype=torch.float64, requires_grad=True), torch.arange(size) % 5
        labels[0] = 9  # alone in its class: nothing to choose
        value, expected = compiled(z, labels), call(z, labels)
        torch.testing.assert_close(value, expected, rtol=1e-12, atol=1e-13)
        of_compiled, of_plain = (torch.autograd.grad(found, z)[0] for found in (value, expected))
        torch.testing.assert_close(of_compiled, of_plain, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("method", ["auto", "exact", "saddle"])
def test_an_empty_batch_with_a_similarity_of_ones_own(method):
    z = torch.randn(0, 4, requires_grad=True)
    labels = torch.zeros(0, dtype=torch.int64)
    for contrasts in ((), (torch.randn(3, 4), torch.arange(3))):
        loss = SF.set_nce(z, labels, *contrasts, similarity=lambda a, c: a @ c.T, method=method)
        assert loss.item() == 0
        (found,) = torch.autograd.grad(loss, z)
        assert found.shape == (0, 4)
