"""Labels that are numbers: Rank-N-Contrast against loops written from its paper, its identities and its edges."""

import csv
import importlib.util
import math
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch._dynamo.testing import CompileCounterWithBackend

import oracles
import sincere
import sincere.functional as SF
from sincere.losses.backends import row_blocks
from sincere.losses.backends.cumulative import cumulative_logsumexp

TIES = pytest.mark.parametrize("ties", ["compete", "spared"])
BACKENDS = pytest.mark.parametrize("backend", ["dense", "tiled"])
NAN = math.nan
WITH_TIES = torch.tensor([0.0, 1, 1, 2.5, 2.5, 2.5, -4, 7, 7, 3, NAN])


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    """So that a few rows are several blocks."""
    monkeypatch.setattr(row_blocks, "LOGITS_PER_BLOCK", 64)
    monkeypatch.setattr(row_blocks, "FEWEST_ROWS", 3)


def rows(n=11, d=5, dtype=torch.float64):
    return torch.randn(n, d, dtype=dtype, requires_grad=True)


def numbers_of(labels):
    return labels.reshape(len(labels), -1).double().numpy()


def distances(own, other, distance="l1"):
    """By loops over pairs."""
    power = {"l1": 1, "l2": 2}[distance]
    return np.array([[(np.abs(a - b) ** power).sum() ** (1 / power) for b in other] for a in own])


def expected(s, own, other, *, offset=0, ties="compete", distance="l1"):
    """One value per anchor, None for those without; `offset` None where no anchor is among the contrasts."""
    known = [np.isfinite(row).all() for row in other]
    anchors = [np.isfinite(row).all() for row in own]
    others = [
        [k for k in range(len(other)) if known[k] and (offset is None or k != t + offset)] if anchors[t] else []
        for t in range(len(own))
    ]
    return oracles.rank_n_contrast(s, distances(own, other, distance), others, spared=ties == "spared")


def numbers(values):
    return torch.tensor([0.0 if value is None else value for value in values], dtype=torch.float64)


def mean(values):
    valid = [value for value in values if value is not None]
    return math.fsum(valid) / max(len(valid), 1)


@TIES
@BACKENDS
@pytest.mark.parametrize("similarity", ["cosine", "dot", "euclidean"])
def test_agrees_with_the_paper(ties, backend, similarity):
    z = rows()
    s = oracles.similarity_matrix(z.detach(), z.detach(), similarity) / 0.3
    values = expected(s, numbers_of(WITH_TIES), numbers_of(WITH_TIES), ties=ties)
    options = {"ties": ties, "backend": backend, "similarity": similarity, "temperature": 0.3}
    found = SF.rank_n_contrast(z, WITH_TIES, reduction="none", **options)
    torch.testing.assert_close(found, numbers(values), rtol=1e-11, atol=1e-12)
    assert values[-1] is None, "a label that is NaN is none"
    assert SF.rank_n_contrast(z, WITH_TIES, **options).item() == pytest.approx(mean(values), rel=1e-11)
    total = SF.rank_n_contrast(z, WITH_TIES, reduction="sum", **options)
    assert total.item() == pytest.approx(math.fsum(value for value in values if value), rel=1e-11)


@TIES
@BACKENDS
@pytest.mark.parametrize("distance", ["l1", "l2"])
@pytest.mark.parametrize("include_batch", [False, True])
def test_rows_of_numbers_views_weights_and_contrasts(ties, backend, distance, include_batch):
    z, c = torch.randn(5, 2, 4, dtype=torch.float64), torch.randn(7, 4, dtype=torch.float64)
    labels, contrast_labels = torch.randint(0, 3, (5, 2)), torch.randint(0, 3, (7, 2)).float()
    contrast_labels[2, 1] = NAN
    folded, repeated = z.flatten(0, 1), numbers_of(labels.repeat_interleave(2, dim=0))
    others, other_rows = numbers_of(contrast_labels), c
    if include_batch:
        others, other_rows = np.concatenate([repeated, others]), torch.cat([folded, c])
    s = oracles.similarity_matrix(folded, other_rows, "cosine") / 0.2
    how = {"ties": ties, "distance": distance}
    values = expected(s, repeated, others, offset=0 if include_batch else None, **how)
    weights = torch.rand(5, dtype=torch.float64)
    options = {**how, "backend": backend, "temperature": 0.2, "include_batch": include_batch}
    found = SF.rank_n_contrast(z, labels, c, contrast_labels.double(), reduction="none", **options)
    torch.testing.assert_close(found.flatten(), numbers(values), rtol=1e-11, atol=1e-12)
    each = weights.repeat_interleave(2)
    total = sum(float(w) * value for w, value in zip(each, values, strict=True) if value is not None)
    counted = sum(float(w) for w, value in zip(each, values, strict=True) if value is not None)
    weighed = SF.rank_n_contrast(z, labels, c, contrast_labels.double(), weights=weights, **options)
    assert weighed.item() == pytest.approx(total / counted, rel=1e-11)


@TIES
@BACKENDS
def test_derivatives(ties, backend):
    z, c = rows(6, 3), rows(4, 3)
    labels, contrast_labels = torch.tensor([0.0, 1, 1, 3, NAN, 0]), torch.tensor([1.0, 2, 5, 5])

    def loss(z, c, temperature):
        return SF.rank_n_contrast(
            z, labels, c, contrast_labels, include_batch=True, ties=ties, backend=backend, temperature=temperature
        )

    given = (z, c, torch.tensor(0.4, dtype=torch.float64, requires_grad=True))
    assert torch.autograd.gradcheck(loss, given)
    assert torch.autograd.gradgradcheck(loss, given)
    by_func = torch.func.grad(loss, argnums=(0, 1, 2))(*given)
    for one, other in zip(by_func, torch.autograd.grad(loss(*given), given), strict=True):
        torch.testing.assert_close(one, other)


def plain_cumulative(s):
    """Straight from the formula: every sum by itself."""
    return torch.stack([s[..., : k + 1].logsumexp(dim=-1) for k in range(s.shape[-1])], dim=-1)


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated:DeprecationWarning")  # of forward mode
def test_cumulative_sums_have_derivatives_of_any_order():
    """Zeros flow back through three of the five, and both forward and reverse mode give what the formula gives."""
    s = torch.randn(2, 5, dtype=torch.float64) * 4
    some = torch.tensor([0.0, 1, 0, -2, 0], dtype=torch.float64)
    chains = {
        "reverse": lambda f: torch.func.jacrev(torch.func.jacrev(torch.func.jacrev(f))),
        "forward": lambda f: torch.func.jacfwd(torch.func.jacfwd(f)),
        "forward over reverse": lambda f: torch.func.hessian(f),
        "reverse over forward": lambda f: torch.func.jacrev(torch.func.jacfwd(f)),
    }
    for chain in chains.values():
        found, wanted = (
            chain(lambda s, of=of: (of(s).square() * some).sum())(s) for of in (cumulative_logsumexp, plain_cumulative)
        )
        torch.testing.assert_close(found, wanted)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_bounded_cumulative_sums_are_as_exact(dtype):
    """At the ends of what they are for, with the least first and with it last."""
    ends = torch.linspace(-32, 32, 2000, dtype=dtype)
    for row in (ends, ends.flip(0)):
        given = row.unsqueeze(0).requires_grad_()
        truth = row.detach().double().unsqueeze(0).requires_grad_()
        back = torch.rand(1, 2000, dtype=torch.float64)
        sums, true_sums = cumulative_logsumexp(given, bounded=True), plain_cumulative(truth)
        relative = 20 * torch.finfo(dtype).eps
        torch.testing.assert_close(sums.double(), true_sums, rtol=relative, atol=32 * relative)
        found, wanted = (
            torch.autograd.grad(y, s, back.to(y.dtype))[0].double() for y, s in ((sums, given), (true_sums, truth))
        )
        torch.testing.assert_close(found, wanted, rtol=32 * relative, atol=0)


def test_cumulative_sums_do_not_underflow():
    s = torch.tensor([[-4000.0, -2000, 0, 2000, 100]], dtype=torch.float64, requires_grad=True)
    sums = cumulative_logsumexp(s)
    assert sums.tolist() == [[-4000.0, -2000, 0, 2000, 2000]]
    (gradient,) = torch.autograd.grad(sums, s, torch.tensor([[1.0, 2, 0, -3, 5]], dtype=torch.float64))
    torch.testing.assert_close(gradient, torch.tensor([[1.0, 2, 0, 2, 0]], dtype=torch.float64), rtol=1e-11, atol=0)


class TestIdentities:
    @BACKENDS
    def test_on_one_hot_rows_sparing_ties_is_sincere(self, backend):
        """Classes with one member, too, and a batch of one class."""
        for labels in (torch.tensor([0, 0, 0, 1, 1, 2, 3, 3, 3, 3, 0]), torch.zeros(11, dtype=torch.long)):
            z = rows()
            hot = F.one_hot(labels).double()
            ours = SF.rank_n_contrast(z, hot, ties="spared", backend=backend, reduction="none")
            theirs = SF.sincere(z, labels, backend="dense", reduction="none")
            torch.testing.assert_close(ours, theirs)
            pair = [torch.autograd.grad(value.sum(), z)[0] for value in (ours, theirs)]
            torch.testing.assert_close(*pair)
        assert not ours.any()

    def test_on_one_hot_rows_the_paper_s_form_is_supcon_and_a_term_among_the_negatives(self):
        labels = torch.tensor([0, 0, 0, 1, 1, 2, 2, 3, 3, 3, 0])
        z = rows()
        values = SF.rank_n_contrast(z, F.one_hot(labels), reduction="none", temperature=0.5)
        supcon = SF.supcon(z, labels, reduction="none", temperature=0.5)
        unit = F.normalize(z, dim=1)
        s = unit @ unit.T / 0.5
        for t in range(11):
            negatives = s[t][labels != labels[t]]
            share = (labels == labels[t]).sum() - 1
            among = negatives.logsumexp(0) * len(negatives) - negatives.sum()
            torch.testing.assert_close(values[t], (share * supcon[t] + among) / 10)

    def test_without_ties_both_forms_are_one(self):
        """The farthest contrast has nobody to compete with: the paper counts its 0, the other form does not."""
        z, labels = rows(), torch.rand(11, dtype=torch.float64)
        compete, spared = (SF.rank_n_contrast(z, labels, ties=ties, reduction="none") for ties in ("compete", "spared"))
        torch.testing.assert_close(10 * compete, 9 * spared)

    @TIES
    @BACKENDS
    def test_order_scale_sign_and_place_of_the_labels(self, ties, backend):
        z, labels = rows(), WITH_TIES
        options = {"ties": ties, "backend": backend, "reduction": "none"}
        values = SF.rank_n_contrast(z, labels, **options)
        for other in (labels * 64, -labels, labels + 8, labels.half(), labels.unsqueeze(1)):
            torch.testing.assert_close(SF.rank_n_contrast(z, other, **options), values)
        order = torch.randperm(11)
        torch.testing.assert_close(SF.rank_n_contrast(z[order], labels[order], **options), values[order])

    def test_the_module_is_the_function(self):
        z, labels = rows(), WITH_TIES
        loss = sincere.RankNContrastLoss(ties="spared", temperature=0.3)
        torch.testing.assert_close(loss(z, labels), SF.rank_n_contrast(z, labels, ties="spared", temperature=0.3))
        assert "ties='spared'" in repr(loss)


def coefficients(labels, ties, spread):
    """∂ℓ/∂s of every pair, in tight groups of equal labels."""
    n = len(labels)
    s = (-torch.cdist(labels[:, None], labels[:, None]) + spread * torch.randn(n, n, dtype=torch.float64)) / 0.5
    s.requires_grad_()
    value = SF.rank_n_contrast(
        torch.zeros(n, 1, dtype=torch.float64), labels, similarity=lambda a, b: s, temperature=1.0, ties=ties
    )
    return torch.autograd.grad(value, s)[0]


def test_equal_labels_are_pushed_apart_by_the_paper_s_form_alone():
    labels = torch.arange(20, dtype=torch.float64) // 5
    same = (labels[:, None] == labels) & ~torch.eye(20, dtype=torch.bool)
    assert (coefficients(labels, "spared", 0.3)[same] <= 0).all()
    assert (coefficients(labels, "compete", 0.3)[same] > 0).double().mean() > 0.2


@BACKENDS
class TestEdges:
    @TIES
    @pytest.mark.parametrize("n", [0, 1, 2])
    def test_few_samples(self, backend, ties, n):
        z = rows(n)
        value = SF.rank_n_contrast(z, torch.arange(n), ties=ties, backend=backend)
        value.backward()
        assert value == 0
        torch.testing.assert_close(z.grad, torch.zeros_like(z), rtol=0, atol=1e-14)

    def test_all_labels_alike(self, backend):
        """Nobody is farther: sparing ties there is nothing to learn; in the paper's form all compete with all."""
        z, labels = rows(), torch.full((11,), 3.0)
        assert SF.rank_n_contrast(z, labels, ties="spared", backend=backend) == 0
        s = oracles.similarity_matrix(z.detach(), z.detach(), "cosine") / 0.1
        truth = mean(expected(s, numbers_of(labels), numbers_of(labels)))
        assert SF.rank_n_contrast(z, labels, backend=backend).item() == pytest.approx(truth, rel=1e-11)

    @TIES
    @pytest.mark.parametrize("broken", [NAN, math.inf])
    def test_without_any_label(self, backend, ties, broken):
        z = rows()
        value = SF.rank_n_contrast(z, torch.full((11,), broken), ties=ties, backend=backend)
        value.backward()
        assert value == 0
        assert not z.grad.any()

    @TIES
    def test_no_contrasts(self, backend, ties):
        z = rows()
        value = SF.rank_n_contrast(z, torch.arange(11), rows(0), torch.zeros(0), ties=ties, backend=backend)
        value.backward()
        assert value == 0
        assert not z.grad.any()

    @TIES
    def test_rows_without_a_label_may_hold_anything(self, backend, ties):
        z = torch.randn(11, 5, dtype=torch.float64)
        z[-1] = NAN
        z.requires_grad_()
        value = SF.rank_n_contrast(z, WITH_TIES, ties=ties, backend=backend)
        (gradient,) = torch.autograd.grad(value, z)
        assert not gradient[-1].any()
        without = SF.rank_n_contrast(z[:-1], WITH_TIES[:-1], ties=ties, backend=backend)
        torch.testing.assert_close(value, without)
        torch.testing.assert_close(gradient[:-1], torch.autograd.grad(without, z)[0][:-1])

    @TIES
    @pytest.mark.parametrize("temperature", [1e-3, 1e-2, 1.0, 1e3])
    def test_no_further_from_the_truth_than_float32_is(self, backend, ties, temperature):
        """Values to float32's digits of the largest logit, gradients to those of the truth's largest."""
        torch.manual_seed(1)
        z = torch.randn(60, 8)
        labels = torch.randint(0, 9, (60,)).float()
        found = []
        for dtype in (torch.float64, torch.float32):
            given = z.to(dtype).requires_grad_()
            value = SF.rank_n_contrast(given, labels, ties=ties, backend=backend, temperature=temperature)
            found.append((value.item(), torch.autograd.grad(value, given)[0].double()))
        (true_value, true_gradient), (value, gradient) = found
        assert value == pytest.approx(true_value, rel=3e-6, abs=1e-6)
        # A cosine is known to 1e-7, so s to that over the temperature: by so much softmaxes move.
        slack = 3e-6 * (1 + 1 / temperature)
        assert (gradient - true_gradient).abs().max() <= slack * true_gradient.abs().max()

    @TIES
    @pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
    def test_half_precision_is_computed_in_float32(self, backend, ties, dtype):
        z = torch.randn(11, 5).to(dtype)
        found, wanted = (
            SF.rank_n_contrast(given, WITH_TIES, ties=ties, backend=backend, temperature=0.01)
            for given in (z, z.float())
        )
        assert found.dtype == torch.float32
        torch.testing.assert_close(found, wanted)


def test_blocks_keep_nothing_of_the_size_of_the_logits():
    z = rows(200, 4, torch.float32)
    labels, kept = torch.rand(200), []
    with torch.autograd.graph.saved_tensors_hooks(lambda tensor: kept.append(tensor.numel()) or tensor, lambda x: x):
        SF.rank_n_contrast(z, labels, backend="tiled").backward()
        of_tiled = max(kept)
        kept.clear()
        SF.rank_n_contrast(z, labels, backend="dense").backward()
    assert of_tiled == 200 * 4, "the embeddings themselves"
    assert max(kept) == 200 * 200


@TIES
@BACKENDS
def test_compiles_whole(ties, backend):
    torch.compiler.reset()
    z, labels = rows(12, 4, torch.float32), torch.arange(12) % 5

    def loss(z):
        return SF.rank_n_contrast(z, labels, ties=ties, backend=backend)

    value = torch.compile(loss, fullgraph=True, backend="aot_eager")(z)
    torch.testing.assert_close(value, loss(z))
    torch.testing.assert_close(torch.autograd.grad(value, z), torch.autograd.grad(loss(z), z))


@BACKENDS
def test_compiled_batches_of_any_size_share_a_few_graphs(backend):
    torch.compiler.reset()
    counter = CompileCounterWithBackend("aot_eager")
    loss = torch.compile(
        lambda z, labels: SF.rank_n_contrast(z, labels, backend=backend),
        fullgraph=True,
        dynamic=True,
        backend=counter,
    )
    for n in (9, 14, 23, 31, 40, 57):
        z, labels = rows(n, 4, torch.float32), torch.arange(n) % 5
        value, plain = loss(z, labels), SF.rank_n_contrast(z, labels, backend="dense")
        torch.testing.assert_close(torch.autograd.grad(value, z), torch.autograd.grad(plain, z))
    assert counter.frame_count <= 2


def test_blocks_leave_nothing_between_them():
    """What stays of a block among the large arrays that come and go would make a process grow with n²."""

    def nodes_of_graph(n):
        value = SF.rank_n_contrast(rows(n, 4, torch.float32), torch.rand(n), backend="tiled")
        nodes, seen = [value.grad_fn], set()
        while nodes:
            node = nodes.pop()
            seen.add(node)
            nodes += [after for after, _ in node.next_functions if after is not None]
        return len(seen)

    assert nodes_of_graph(60) == nodes_of_graph(3), "as many for twenty blocks as for one"


@pytest.mark.parametrize("temperature", [0.005, 0.2])
@TIES
def test_the_gradient_by_hand_is_autograd_s(ties, temperature):
    """At logits of any size and at bounded ones; of several gradients at once, and where contrasts alone have one."""
    labels, contrast_labels = WITH_TIES, torch.tensor([1.0, 2, 5, 5])
    z, c = rows(), rows(4)

    def values(z, c, backend):
        options = {"ties": ties, "temperature": temperature, "reduction": "none", "include_batch": True}
        return SF.rank_n_contrast(z, labels, c, contrast_labels, backend=backend, **options)

    some = torch.randn(3, 11, dtype=torch.float64)
    for given in ((z, c), (z, c.detach()), (z.detach(), c)):
        wanted = [tensor for tensor in given if tensor.requires_grad]
        ours, theirs = (
            torch.autograd.grad(values(*given, backend), wanted, some, is_grads_batched=True)
            for backend in ("tiled", "dense")
        )
        torch.testing.assert_close(ours, theirs)
        twice = [
            torch.autograd.grad(
                sum(
                    g.square().sum() for g in torch.autograd.grad(values(*given, b), wanted, some[0], create_graph=True)
                ),
                wanted,
            )
            for b in ("tiled", "dense")
        ]
        torch.testing.assert_close(*twice)


@TIES
def test_many_problems_at_once(ties):
    z, labels = torch.randn(3, 8, 4, dtype=torch.float64), torch.randint(0, 4, (3, 8))
    found = torch.vmap(lambda z, y: SF.rank_n_contrast(z, y, ties=ties))(z, labels)
    each = [SF.rank_n_contrast(one, y, ties=ties) for one, y in zip(z, labels, strict=True)]
    torch.testing.assert_close(found, torch.stack(each))


def test_the_page_shows_the_kept_errors():
    """The table, and what is said of it: better on digits, worse on diabetes, and spared ties not better on either."""
    root = Path(__file__).parent.parent
    spec = importlib.util.spec_from_file_location("regression", root / "benchmarks" / "regression.py")
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    with script.RESULTS.open(newline="", encoding="utf-8") as file:
        kept = list(csv.DictReader(file))
    assert len(kept) == len(script.DATA) * len(script.WAYS) * len(script.SEEDS)
    assert "\n".join(script.table(kept)) in script.PAGE.read_text(encoding="utf-8")
    by_way = {
        name: [[float(row["error"]) for row in kept if (row["data"], row["way"]) == (name, way)] for way in script.WAYS]
        for name in script.DATA
    }
    for name, sign in (("digits", 1), ("diabetes", -1)):
        plain, compete, spared = (np.mean(errors) for errors in by_way[name])
        assert sign * (plain - compete) > 0
        assert sign * (plain - spared) > 0
        assert spared >= compete


def test_labels_get_no_gradient():
    labels = torch.rand(11, dtype=torch.float64, requires_grad=True)
    z = rows()
    SF.rank_n_contrast(z, labels).backward()
    assert labels.grad is None
    assert z.grad.any()
