"""Fused losses, from embeddings to the value and back: by Triton's interpreter, or compiled where there is a GPU."""

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
import torch

import sincere.functional as SF
from kernel_results import DEVICE, KERNEL_LOSSES, assert_close, needs_kernels
from sincere.losses.backends import fused, select
from sincere.losses.options import Settings

pytest.importorskip("triton")
from sincere.losses.backends import triton_fused

pytestmark = needs_kernels
CALLS = {case.name: case.call for case in KERNEL_LOSSES}
# Up to how many rows places are found by counting, and by chunks; beyond by sorting.
WAYS = {"counting": (2048, 32768), "chunks": (0, 32768), "sorting": (0, 0)}
HALF_PRECISION_SLACK = {torch.bfloat16: 1e-2, torch.float16: 4e-3}  # normalised rows are rounded; as in test_triton.py


@pytest.fixture(autouse=True)
def calls_of_fused(monkeypatch):
    """Counts them, so that no test passes on the general path unseen; programs of other tests are forgotten."""
    calls, loss = [], fused.loss
    monkeypatch.setattr(fused, "loss", lambda *arguments: calls.append(1) or loss(*arguments))
    fused._kept_plan.cache_clear()
    yield calls
    fused._kept_plan.cache_clear()


def few(n):
    return torch.randint(0, 4, (n,))


def with_unlabelled(n):
    return torch.randint(0, 3, (n,)).masked_fill(torch.rand(n) < 0.2, -1)


def skewed(n):
    """Ten classes, each about half of the next one's size."""
    return (1 + 1023 * torch.rand(n)).log2().long()


def one_class(n):
    return torch.full((n,), 3)


def far_apart(n):
    """The smallest label, and others that no int32 or float64 holds."""
    return torch.tensor([-(2**63), 2**62, 2**62 + 1, -1, 5])[torch.arange(n) % 5]


@dataclass(frozen=True)
class Case:
    loss: str
    shape: tuple[int, ...]
    labels: Callable[[int], torch.Tensor]
    options: dict = field(default_factory=dict)
    way: str = "counting"
    dtype: torch.dtype = torch.float32
    label_dtype: torch.dtype = torch.int64
    weighted: bool = False
    learned: bool = False


CASES = {
    "one row": Case("sincere", (1, 1), few),
    "two rows, one class": Case("supcon", (2, 3), one_class, {"reduction": "sum"}),
    "one class": Case("eps_supinfonce", (40, 4), one_class, way="sorting"),
    "singletons": Case("supcon_in", (40, 4), torch.arange, {"reduction": "mean_all"}),
    "uneven classes": Case("eps_supinfonce", (127, 16), skewed, {"reduction": "mean_all"}, weighted=True),
    "unlabelled, mean of all": Case(
        "sincere", (30, 3), with_unlabelled, {"reduction": "mean_all"}, label_dtype=torch.int8, weighted=True
    ),
    "a whole tile": Case("decoupled", (128, 20), with_unlabelled, {"ignored_as_negatives": True}, learned=True),
    "one more": Case("supcon_in", (129, 3), with_unlabelled, {"reduction": "none"}, "chunks", weighted=True),
    "chunks": Case("sincere", (300, 16), skewed, {"ignore_label": 9}, "chunks", label_dtype=torch.int16),
    "sorted": Case("supcon", (129, 16), far_apart, {"temperature": 0.02}, "sorting"),
    "views": Case("sincere", (44, 3, 8), with_unlabelled, {"reduction": "none"}, label_dtype=torch.int32),
    "views in chunks": Case("decoupled", (50, 2, 3), with_unlabelled, {"reduction": "sum"}, "chunks", weighted=True),
    "views sorted": Case("sincere", (14, 3, 9), with_unlabelled, {"ignored_as_negatives": True}, "sorting"),
    "dot": Case("supcon", (50, 1), few, {"similarity": "dot", "temperature": 0.8}, learned=True),
    "cold": Case("sincere", (50, 5), few, {"temperature": 0.01}),
    "wide": Case("sincere", (20, 129), few, learned=True),
    "wide, half precision": Case("supcon", (20, 129), few, dtype=torch.bfloat16),
    "three parts": Case("sincere", (20, 257), few, {"reduction": "none"}),
    "three parts, half precision": Case("supcon", (20, 300), few, dtype=torch.float16),
    "half precision": Case("sincere", (60, 24), skewed, way="chunks", dtype=torch.bfloat16),
}


def drawn(case):
    z = torch.randn(case.shape, device=DEVICE).to(case.dtype)
    labels = case.labels(case.shape[0]).to(case.label_dtype).to(DEVICE)
    options = {"temperature": 0.1, **case.options}
    if case.weighted:
        options["weights"] = torch.rand(labels.shape, device=DEVICE)
    return z, labels, options


def results(call, z, labels, learned=False, backend="triton", **options):
    """Value and gradients, for an upstream gradient that is not 1."""
    z = z.detach().clone().requires_grad_()
    inputs = [z]
    if learned:
        dtype = torch.float64 if z.dtype == torch.float64 else torch.float32
        options["temperature"] = torch.tensor(options["temperature"], device=DEVICE, dtype=dtype, requires_grad=True)
        inputs.append(options["temperature"])
    loss = call(z, labels, backend=backend, **options)
    upstream = torch.full_like(loss, 3.7)
    if loss.ndim:
        upstream *= torch.linspace(-1, 1, loss.numel(), device=DEVICE, dtype=loss.dtype).view_as(loss)
    return [loss.detach(), *torch.autograd.grad(loss, inputs, upstream)]


@pytest.mark.parametrize("name", CASES)
def test_agrees_with_float64(name, monkeypatch, calls_of_fused):
    case = CASES[name]
    for limit, rows in zip(("COUNTING", "CHUNKS"), WAYS[case.way], strict=True):
        monkeypatch.setattr(triton_fused, limit, rows)
    z, labels, options = drawn(case)
    candidate = results(CALLS[case.loss], z, labels, case.learned, **options)
    assert calls_of_fused == [1]
    truth = results(CALLS[case.loss], z.double(), labels, case.learned, backend="dense", **options)
    assert candidate[0].shape == truth[0].shape
    assert candidate[1].dtype == case.dtype
    assert_close(candidate, truth, HALF_PRECISION_SLACK.get(case.dtype, 2e-6 / options["temperature"]))


def test_strided_input():
    """Embeddings by columns or cut out of wider ones, every second label and weight."""
    labels = torch.randint(0, 3, (80,), device=DEVICE)[::2]
    weights = torch.rand(80, device=DEVICE)[::2]
    by_columns = torch.randn(6, 40, device=DEVICE).T
    parts = torch.randn(40, 2, 9, device=DEVICE)[..., 2:8]
    for z in (by_columns, parts):
        truth = results(SF.sincere, z.double(), labels, weights=weights, backend="dense")
        assert_close(results(SF.sincere, z, labels, weights=weights), truth, 2e-5)


def test_rows_of_every_length():
    """Zeros, and norms that float32 cannot square; gradients grow as norms shrink, so they are compared times them."""
    lengths = torch.tensor([1e-30, 1e-3, 1.0, 1e30, 0.0], device=DEVICE)[torch.arange(30) % 5].unsqueeze(1)
    z, labels = torch.randn(30, 6, device=DEVICE) * lengths, torch.arange(30, device=DEVICE) // 5 % 3
    value, gradient = results(SF.supcon, z, labels)
    want, truth = results(SF.supcon, z.double(), labels, backend="dense")
    assert_close([value, gradient.double() * lengths], [want, truth * lengths], 2e-5)
    assert not gradient[4::5].any()


@pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")  # in a denominator, which is right
def test_antipodal_classes_and_heavy_weights():
    """e^(2/τ) times a weight would overflow float32 here, and inf/inf is no gradient."""
    z, labels = torch.tensor([[1.0, 0.0], [1, 1e-3], [-1, 0]], device=DEVICE), torch.tensor([0, 0, 1], device=DEVICE)
    for temperature in (1 / 32, 0.025):
        options = {"temperature": temperature, "weights": torch.full((3,), 1e6, device=DEVICE)}
        truth = results(SF.sincere, z.double(), labels, backend="dense", **options)
        assert_close(results(SF.sincere, z, labels, **options), truth, 2e-6 / temperature)


def test_two_runs_are_identical():
    z, labels, options = drawn(CASES["views"])
    first, second = (results(SF.sincere, z, labels, learned=True, **options) for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


def test_backward_twice_and_no_second_derivative():
    z, labels = torch.randn(20, 5, device=DEVICE, requires_grad=True), torch.arange(20, device=DEVICE) % 3
    loss = SF.sincere(z, labels, backend="triton")
    (first,) = torch.autograd.grad(loss, z, retain_graph=True)
    (second,) = torch.autograd.grad(loss, z, create_graph=True)
    assert torch.equal(first, second)
    with pytest.raises(RuntimeError, match=r"differentiated once.*dense"):
        second.sum().backward()


def test_programs_are_not_mixed_up():
    """One plan serves many shapes, types and temperatures; each call gets what it would get alone."""
    z = torch.randn(9, 20, device=DEVICE)
    labels = torch.tensor([0, 1, 0, 2, 1, 0, 2, -1, 1], device=DEVICE)
    calls = [
        (z, labels, {"temperature": 0.1}),
        (z, labels, {"temperature": 0.7}),
        (z, labels, {"temperature": 0.3, "learned": True}),
        (z[:7, ::2], labels[1:8].int(), {"temperature": 0.1}),
        (z.bfloat16(), labels, {"temperature": 0.1}),
        (z, labels, {"temperature": 0.1, "weights": torch.rand(9, device=DEVICE)}),
    ]

    def one(rows, labels, options):
        return results(SF.sincere, rows, labels, **options)

    together = [one(*call) for call in calls]
    for call, earlier in zip(reversed(calls), reversed(together), strict=True):
        fused._kept_plan.cache_clear()
        assert all(torch.equal(a, b) for a, b in zip(one(*call), earlier, strict=True))


def test_memory_of_programs_is_bounded(monkeypatch):
    monkeypatch.setattr(triton_fused, "MOST_PROGRAMS", 2)
    plan = fused.plan_of(fused.Combination(mean_softplus=1), "mean", True, True, 1, -1, False)
    for number in range(5):
        triton_fused.remember(plan, (number,), None)
    assert list(plan.programs) == [(4,)]
    line = fused.Plan(fused.Combination(lse_all=1, margin=0.1 + 0.2), "sum", True, False, 3, -7, True, True).written()
    assert fused.Plan.read(line).written() == line


@pytest.mark.parametrize(
    ("name", "matmul"), [("views sorted", "highest"), ("dot", "high"), ("views in chunks", "high")]
)
def test_compiles_whole(name, matmul, calls_of_fused):
    case = CASES[name]
    z, labels, options = drawn(case)
    torch.compiler.reset()
    compiled = torch.compile(CALLS[case.loss], fullgraph=True, backend="aot_eager")
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(matmul)
    try:
        eager = results(CALLS[case.loss], z, labels, case.learned, **options)
        assert calls_of_fused == [1]
        assert_close(results(compiled, z, labels, case.learned, **options), eager, 1e-6)
    finally:
        torch.set_float32_matmul_precision(before)


Z, LABELS = torch.linspace(0, 40, 48, device=DEVICE).sin().view(12, 4), torch.arange(12, device=DEVICE) // 2 % 3
# What the fused kernels leave to others; "triton" where kernels compute that too, by way of the statistics.
NOT_TAKEN = {
    "class means": (Z, LABELS, {"reduction": "class_mean"}, "triton"),
    "distances": (Z, LABELS, {"similarity": "euclidean"}, "triton"),
    "float16 with weights": (Z.half(), LABELS, {"weights": 1 + LABELS.float()}, "triton"),
    "learned weights": (Z, LABELS, {"weights": (1 + LABELS.float()).requires_grad_()}, "triton"),
    "whole numbers as weights": (Z, LABELS, {"weights": 1 + LABELS}, "triton"),
    "classes that are booleans": (Z, LABELS > 0, {}, "triton"),
    "a similarity of one's own": (Z, LABELS, {"similarity": lambda a, c: a @ c.T}, "auto"),
    "label matrices": (Z, torch.eye(3, dtype=torch.int64, device=DEVICE)[LABELS], {}, "auto"),
    "float64": (Z.double(), LABELS, {}, "auto"),
    "too many dimensions": (Z.repeat(1, 257), LABELS, {}, "auto"),
    "tiles asked for": (Z, LABELS, {}, "tiled"),
}


@pytest.mark.parametrize("name", NOT_TAKEN)
def test_leaves_the_rest_to_the_general_path(name, calls_of_fused):
    z, labels, options, backend = NOT_TAKEN[name]
    assert not select.kernels_take_whole_loss(z, labels, Settings(backend=backend, **options))
    truth = results(SF.sincere, z.double(), labels, backend="dense", **options)
    candidate = results(SF.sincere, z, labels, backend=backend, **options)
    assert not calls_of_fused
    assert_close(candidate, truth, HALF_PRECISION_SLACK.get(z.dtype, 2e-5))


@pytest.mark.parametrize(
    ("z", "labels", "options"),
    [
        (Z, LABELS, {"gather": True}),
        (Z, LABELS, {"include_batch": True}),
        (Z, LABELS[:-1], {}),
        (Z, LABELS.float(), {}),
        (Z[:0], LABELS[:0], {}),
        (Z.tolist(), LABELS, {}),
        (Z, LABELS.tolist(), {}),
        (Z, LABELS, {"weights": torch.ones(5)}),
        (Z[0], LABELS, {}),
    ],
)
def test_leaves_mistakes_and_processes_to_the_general_path(z, labels, options):
    assert select.kernels_take_whole_loss(Z, LABELS, Settings(backend="triton"))
    assert not select.kernels_take_whole_loss(z, labels, Settings(backend="triton", **options))


def test_contrasts_take_the_general_path(calls_of_fused):
    truth, candidate = (
        SF.sincere(z, LABELS, z[:5] + 0.5, LABELS[:5], backend=backend)
        for z, backend in ((Z.double(), "dense"), (Z, "triton"))
    )
    assert not calls_of_fused
    assert_close([candidate], [truth], 2e-5)
