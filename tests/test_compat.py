"""The losses of `sincere.compat` against the numbers of the libraries whose calls they take."""

import inspect
import subprocess
import sys
from collections.abc import Callable
from math import exp, log
from typing import Any

import pytest
import torch
from pytorch_metric_learning import losses as pml
from pytorch_metric_learning import miners, reducers
from torch import Tensor

import sincere.functional as SF
from sincere.compat import metric_learning, supcontrast
from sincere.errors import InputError, OptionError

F64 = torch.float64


def unit(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.nn.functional.normalize(torch.randn(*shape, dtype=F64, generator=generator), dim=-1)


def supcon_loop(z: Tensor, w: list[list[float]], temperature: float, anchor_views: int) -> float:
    """The paper's Eq. 2 with weights, one anchor after the other."""
    samples, views, _ = z.shape
    rows = [(i, k) for i in range(samples) for k in range(views)]
    total = 0.0
    for i, k in [(i, k) for i, k in rows if k < anchor_views]:
        s = {(j, q): float(z[i, k] @ z[j, q]) / temperature for j, q in rows if (j, q) != (i, k)}
        log_denominator = log(sum(exp(x) for x in s.values()))
        if weight_sum := sum(w[i][j] for j, _ in s):
            total += sum(w[i][j] * (log_denominator - x) for (j, _), x in s.items()) / weight_sum
    return total / (samples * anchor_views)


@pytest.mark.parametrize(("base_temperature", "expected"), [(0.07, 7.77658), (0.1, 5.44361)])
@pytest.mark.parametrize("shape", [(12, 1, 8), (6, 2, 8), (6, 2, 2, 4)])
def test_supcontrast_gives_the_known_numbers(shape: tuple[int, ...], base_temperature: float, expected: float) -> None:
    torch.manual_seed(0)
    z = torch.nn.functional.normalize(torch.randn(12, 8).double(), dim=-1)
    labels = torch.arange(shape[0]) * 3 // shape[0]
    loss = supcontrast.SupConLoss(temperature=0.1, base_temperature=base_temperature)
    assert float(loss(z.reshape(shape), labels)) == pytest.approx(expected, abs=5e-6)


@pytest.mark.parametrize("mode", ["all", "one"])
@pytest.mark.parametrize("views", [1, 2, 3])
@pytest.mark.parametrize("positives", ["labels", "simclr", "mask", "weights"])
def test_supcontrast_equals_the_loop(positives: str, views: int, mode: str) -> None:
    z = unit(6, views, 5) * torch.linspace(0.5, 2, 6, dtype=F64).view(6, 1, 1)  # nobody normalises it
    labels = torch.tensor([0, 2, 0, -1, -1, 7])
    weights = (torch.rand(6, 6, dtype=F64, generator=torch.Generator().manual_seed(1)) - 0.4).clamp(min=0)
    weights[3] = 0
    matrix, arguments = {
        "labels": ((labels.unsqueeze(1) == labels).double(), {"labels": labels}),
        "simclr": (torch.eye(6), {}),
        "mask": ((weights > 0).double(), {"mask": weights > 0}),
        "weights": (weights, {"mask": weights}),
    }[positives]
    loss = supcontrast.SupConLoss(temperature=0.2, contrast_mode=mode)
    expected = supcon_loop(z, matrix.tolist(), 0.2, 1 if mode == "one" else views) * 0.2 / 0.07
    assert float(loss(z, **arguments)) == pytest.approx(expected, rel=1e-12)


def test_supcontrast_gradient() -> None:
    z = unit(4, 2, 3).requires_grad_()
    mask = torch.tensor([[1, 1, 0, 0], [0, 0, 0.5, 2], [1, 1, 1, 1], [0, 0, 0, 0]])
    for mode in ("all", "one"):
        loss = supcontrast.SupConLoss(temperature=0.3, contrast_mode=mode)
        assert torch.autograd.gradcheck(lambda x, f=loss: f(x, mask=mask), z)
        assert torch.autograd.gradcheck(lambda x, f=loss: f(x, labels=torch.tensor([0, 0, 1, 2])), z)


def test_supcontrast_takes_labels_of_any_kind() -> None:
    z, y, loss = unit(6, 2, 5), torch.tensor([0, 1, 0, 1, 1, 0]), supcontrast.SupConLoss()
    for kind in (y.bool(), y.float() / 3, y.half(), y.to(torch.uint8), y - 1, y.unsqueeze(1)):
        assert torch.equal(loss(z, kind), loss(z, y))


def test_supcontrast_is_finite_without_positives_and_where_exponentials_overflow() -> None:
    z = (100 * unit(8, 2, 16)).float().requires_grad_()
    value = supcontrast.SupConLoss()(z, torch.arange(8) // 2)
    assert value.isfinite()
    assert torch.autograd.grad(value, z)[0].isfinite().all()
    assert supcontrast.SupConLoss()(z[:0]).item() == 0, "nobody"
    lonely = supcontrast.SupConLoss()(z[:, :1])
    assert lonely.item() == 0
    assert torch.autograd.grad(lonely, z)[0].norm() == 0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda f, z, y: f(z[:, 0], y), r"features must have shape \(b, v, …\).*got \(6, 5\).*unsqueeze\(1\)"),
        (lambda f, z, y: f(z.long(), y), r"features must be floating-point: got torch.int64"),
        (lambda f, z, y: f([1.0], y), r"features must be a torch.Tensor: got list"),
        (lambda f, z, y: f(z, y[:3]), r"labels must hold one class per sample.*expected \(6,\), got \(3,\)"),
        (lambda f, z, y: f(z, y.tolist()), r"labels must be a torch.Tensor: got list"),
        (lambda f, z, y: f(z, y, torch.eye(6)), r"labels and mask both say.*got both.*Pass mask alone"),
        (lambda f, z, y: f(z, mask=torch.eye(12)), r"mask must hold.*expected \(6, 6\), got \(12, 12\)"),
        (lambda f, z, y: f(z, mask=[[1]]), r"mask must hold.*got list"),
    ],
)
def test_supcontrast_refuses_wrong_input(call: Callable[..., Tensor], message: str) -> None:
    with pytest.raises(InputError, match=message):
        call(supcontrast.SupConLoss(), unit(6, 2, 5), torch.arange(6))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"temperature": 0}, "temperature must be positive"),
        ({"contrast_mode": "two"}, "contrast_mode must be one of 'all', 'one': got 'two'"),
        ({"base_temperature": -1}, "base_temperature must be a positive finite number: got -1.*equation's value"),
    ],
)
def test_supcontrast_refuses_wrong_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        supcontrast.SupConLoss(**options)


# pytorch-metric-learning: the library itself.

EACH_LOSS = pytest.mark.parametrize("name", ["SupConLoss", "NTXentLoss"])
BATCHES = {
    "balanced": [0, 0, 0, 1, 1, 1, 2, 2, 2],
    "uneven with singletons": [0, 0, 0, 0, 1, 1, 2, 3, -1],
    "minus one is a class": [-1, -1, -1, 5, 5, 5, 0, 0, 1],
    "one class": [4] * 9,
    "all singletons": list(range(9)),
}
T = torch.tensor


def embeddings(n: int, seed: int = 0) -> Tensor:
    return 3 * unit(n, 6, seed=seed) * torch.linspace(0.5, 2, n, dtype=F64).unsqueeze(1)


def value_and_gradients(
    loss: Any, z: Tensor, y: Any = None, mined: Any = None, ref: Any = None, ref_y: Any = None
) -> list[Tensor]:
    leaves = [x.clone().requires_grad_() for x in (z, ref) if x is not None]
    value = loss(leaves[0], y, mined, None if ref is None else leaves[1], ref_y)
    # The other library's constant zero does not depend on the references.
    return [value.detach(), *torch.autograd.grad(value, leaves, allow_unused=True, materialize_grads=True)]


def assert_same(ours: Any, theirs: Any, *arguments: Any) -> float:
    got, expected = (value_and_gradients(loss, *arguments) for loss in (ours, theirs))
    torch.testing.assert_close(got, expected, rtol=1e-9, atol=1e-12)
    return float(got[0])


def both(name: str, **options: float) -> tuple[Any, Any]:
    return getattr(metric_learning, name)(**options), getattr(pml, name)(**options)


@pytest.mark.parametrize("labels", BATCHES.values(), ids=BATCHES.keys())
@pytest.mark.parametrize("options", [{}, {"temperature": 0.5}, {"temperature": 0.02}])
@EACH_LOSS
def test_metric_learning_on_a_batch(name: str, options: dict[str, float], labels: list[int]) -> None:
    value = assert_same(*both(name, **options), embeddings(9), T(labels))
    assert (value > 0) == (2 <= len(set(labels)) < 9)


@EACH_LOSS
def test_metric_learning_with_the_tiled_backend(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sincere.losses.backends.select.SMALL_ON_CPU", 0)
    z, y = embeddings(40), torch.arange(40) % 13 - 1
    assert_same(*both(name), z, y)
    assert_same(*both(name), z, y.float() / 3)
    assert_same(*both(name), z, y, miners.MultiSimilarityMiner()(z, y))
    assert_same(*both(name), z[:9], y[:9], None, z, y)


@EACH_LOSS
@pytest.mark.parametrize("classes", ["00123:0112229", "001:0", "0:01", "01:0", "0:001", "012:34", "00:000"])
def test_metric_learning_with_references(name: str, classes: str) -> None:
    labels, ref_labels = (T([int(digit) for digit in side]) for side in classes.split(":"))
    z, ref = embeddings(len(labels)), embeddings(len(ref_labels), seed=1)
    assert_same(*both(name), z, labels, None, ref, ref_labels)


@EACH_LOSS
def test_metric_learning_leaves_out_row_i_where_the_references_share_the_labels(name: str) -> None:
    z, ref, y = embeddings(5), embeddings(5, seed=1), T([0, 0, 1, 1, 2])
    left_out = assert_same(*both(name), z, y, None, ref, y)
    assert left_out != assert_same(*both(name), z, y, None, ref, y.clone())


@EACH_LOSS
@pytest.mark.parametrize("miner", [miners.MultiSimilarityMiner(), miners.TripletMarginMiner()])
def test_metric_learning_with_a_miner(name: str, miner: Any) -> None:
    y = T([0] * 8 + [1] * 7 + [2] * 2 + [3])
    z, ref, ref_y = embeddings(18), embeddings(18, seed=1), y.flip(0)
    mined = miner(z, y)
    assert len(mined) == (4 if isinstance(miner, miners.MultiSimilarityMiner) else 3)
    assert_same(*both(name), z, y, mined)
    assert_same(*both(name), z, None, mined)
    mined = miner(z, y, ref, ref_y)
    assert_same(*both(name), z, y, mined, ref, ref_y)
    assert_same(*both(name), z, None, mined, ref)


# Nothing mined; one triplet; no negatives; no positives; few; anchors apart; an anchor that meets itself; repetitions.
FEW_PAIRS = ",, ,,, 0,1,2 00,12,, ,,01,23 00,12,0,3 01,12,33,01 001,011,013,231 0001,1120,3333"


@EACH_LOSS
@pytest.mark.parametrize("digits", FEW_PAIRS.split())
def test_metric_learning_with_few_pairs(name: str, digits: str) -> None:
    mined = tuple(T([int(digit) for digit in part], dtype=torch.int64) for part in digits.split(","))
    assert_same(*both(name), embeddings(4), None, mined)


@EACH_LOSS
def test_metric_learning_inside_the_wrappers_of_the_library(name: str) -> None:
    z, ref, y = embeddings(6), embeddings(6, seed=1), T([0, 0, 1, 1, 2, 3])
    for symmetric in (True, False):
        values = [pml.SelfSupervisedLoss(loss, symmetric=symmetric)(z, ref) for loss in both(name)]
        torch.testing.assert_close(*values)
    memories = [pml.CrossBatchMemory(loss, 6, memory_size=14) for loss in both(name)]
    for seed in range(4):
        torch.testing.assert_close(*(memory(embeddings(6, seed=seed), y) for memory in memories))


def test_sincere_with_the_same_call() -> None:
    ours = metric_learning.SINCERELoss(temperature=0.2)
    y, ref_y = T(BATCHES["uneven with singletons"]).abs(), torch.arange(12) % 5

    def function(z: Tensor, _: Any, __: Any, ref: Tensor | None, ref_labels: Tensor | None) -> Tensor:
        return SF.sincere(z, y, ref, ref_labels, temperature=0.2)

    assert_same(ours, function, embeddings(9), y)
    assert_same(ours, function, embeddings(9), y, None, embeddings(12), ref_y)
    same, other = (y.unsqueeze(1) == y) & ~torch.eye(9, dtype=torch.bool), y.unsqueeze(1) != y
    assert_same(ours, function, embeddings(9), None, (*same.nonzero().T, *other.nonzero().T))
    assert_same(ours, function, embeddings(9), None, tuple((same.unsqueeze(2) & other.unsqueeze(1)).nonzero().T))


def test_sincere_is_ntxent_per_anchor() -> None:
    theirs = pml.NTXentLoss(temperature=0.1, reducer=reducers.PerAnchorReducer())
    assert_same(metric_learning.SINCERELoss(), theirs, embeddings(9), T(BATCHES["balanced"]))


OURS = [metric_learning.SupConLoss(), metric_learning.NTXentLoss(), metric_learning.SINCERELoss()]


@pytest.mark.parametrize("loss", OURS, ids=repr)
def test_metric_learning_under_autocast_and_with_nan(loss: Callable[..., Tensor]) -> None:
    z, y = embeddings(9).bfloat16(), T(BATCHES["balanced"])
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(loss(z, y), loss(z.float(), y))
    assert loss(z.float(), y).dtype == torch.float32
    z[0, 0] = torch.nan
    assert loss(z, y).isnan()


def test_ntxent_grows_where_the_library_saturates() -> None:
    z, y = T([[1.0, 0.0], [-1.0, 0.1], [1.0, 0.1]]), T([0, 0, 1])
    ours, theirs = both("NTXentLoss", temperature=0.005)
    assert ours(z, y).item() == pytest.approx(theirs(z.double(), y).item(), rel=1e-5)
    assert theirs(z, y) < ours(z, y) / 2


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda f, z, y: f(z), "labels or an indices_tuple must say.*got neither"),
        (lambda f, z, y: f(z, y[:3]), r"labels must be a tensor with one class per row.*expected \(6,\), got \(3,\)"),
        (lambda f, z, y: f(z, y.tolist()), r"labels must be a tensor.*got list"),
        (lambda f, z, y: f(z[None], y), r"embeddings must have shape \(n, d\): got \(1, 6, 6\)"),
        (lambda f, z, y: f(z, y, ref_emb=z), "ref_emb and ref_labels go together: ref_labels is missing"),
        (lambda f, z, y: f(z, y, (y, y, y), z), "ref_emb and ref_labels go together: ref_labels is missing"),
        (lambda f, z, y: f(z, y, ref_labels=y), "ref_emb and ref_labels go together: ref_emb is missing"),
        (lambda f, z, y: f(z, y, None, z[:, :3], y), r"ref_emb must have.*expected \(m, 6\), got \(6, 3\)"),
        (lambda f, z, y: f(z, y, None, z, y[:2]), r"ref_labels must be.*row of ref_emb: expected \(6,\), got \(2,\)"),
        (lambda f, z, y: f(z, y, (y, y)), "indices_tuple must hold triplets.*got 2 entries"),
        (lambda f, z, y: f(z, y, y), "indices_tuple must hold triplets.*got Tensor"),
        (lambda f, z, y: f(z, y, (y, y[:2], y)), r"in indices_tuple\[0\] as in indices_tuple\[1\]: got 6 and 2"),
        (lambda f, z, y: f(z, y, (y, [1], y)), r"indices_tuple\[1\] must be a tensor of indices.*got list"),
        (lambda f, z, y: f(z, y, (y, y.float(), y)), r"indices_tuple\[1\] must be integers: got torch.float32"),
        (lambda f, z, y: f(z, y, (T([0]), T([1]), T([6]))), r"indices_tuple\[2\] must point into the 6 contrasts"),
        (lambda f, z, y: f(z, y, (T([-1]), T([1]), T([2]))), r"must point into the 6 embeddings: got indices from -1"),
        (lambda f, z, y: f(z, y, (T([0]), T([1]), T([1]))), "a positive or as a negative: 1 pairs are both"),
    ],
)
def test_metric_learning_refuses_wrong_input(call: Callable[..., Tensor], message: str) -> None:
    for loss in OURS:
        with pytest.raises(InputError, match=message):
            call(loss, embeddings(6), torch.arange(6))


def test_compat_imports_without_the_other_libraries() -> None:
    code = "import sys; sys.modules['pytorch_metric_learning'] = None; import sincere.compat"
    subprocess.run([sys.executable, "-c", code], check=True)


def supcontrast_code(
    features: Tensor, labels: Tensor | None, mask: Tensor | None, mode: str, temperature: float, base: float
) -> Tensor:
    """What the authors' code computes: views one after the other, the mask repeated, the diagonal taken out."""
    b, views = features.shape[:2]
    z = features.flatten(2)
    pairs = torch.eye(b) if mask is None and labels is None else mask
    if labels is not None:
        pairs = labels.reshape(-1, 1) == labels.reshape(1, -1)
    assert pairs is not None
    contrasts = torch.cat(z.unbind(1))
    anchors = contrasts if mode == "all" else z[:, 0]
    logits = anchors @ contrasts.T / temperature
    not_self = 1 - torch.eye(len(contrasts), dtype=F64)[: len(anchors)]
    positives = pairs.to(F64).repeat(len(anchors) // b, views) * not_self
    log_p = logits - (logits.exp() * not_self).sum(dim=1, keepdim=True).log()
    counts = positives.sum(dim=1)
    return -(temperature / base) * ((positives * log_p).sum(dim=1) / torch.where(counts > 0, counts, 1)).mean()


@pytest.mark.parametrize("mode", ["all", "one"])
@pytest.mark.parametrize("shape", [(7, 1, 5), (7, 3, 5), (7, 2, 2, 3), (1, 4, 5), (2, 1, 5)])
@pytest.mark.parametrize("positives", ["nobody says", "labels", "column of labels", "mask", "weights", "empty mask"])
def test_supcontrast_equals_the_authors_code(positives: str, shape: tuple[int, ...], mode: str) -> None:
    generator = torch.Generator().manual_seed(4)
    z, b = unit(*shape, seed=3), shape[0]
    labels = torch.tensor([0, 1, 0, 1, 2, 2, 3])[:b]
    weights = torch.rand(b, b, generator=generator) * (torch.rand(b, b, generator=generator) > 0.4)
    given: dict[str, tuple[Tensor | None, Tensor | None]] = {
        "nobody says": (None, None),
        "labels": (labels, None),
        "column of labels": (labels.unsqueeze(1), None),
        "mask": (None, weights > 0),
        "weights": (None, weights),
        "empty mask": (None, torch.zeros(b, b)),
    }
    for temperature, base in ((0.07, 0.07), (0.1, 0.07), (0.5, 1.0)):
        loss = supcontrast.SupConLoss(temperature, mode, base)  # type: ignore[arg-type]
        expected = supcontrast_code(z, *given[positives], mode, temperature, base)
        torch.testing.assert_close(loss(z, *given[positives]), expected, rtol=1e-10, atol=1e-12)


@EACH_LOSS
def test_metric_learning_has_the_arguments_of_the_library(name: str) -> None:
    """Names, order and defaults, of the call and of what is passed to it by keyword."""
    ours, theirs = (inspect.signature(getattr(module, name).forward) for module in (metric_learning, pml))
    assert [(p.name, p.default) for p in ours.parameters.values()] == [
        (p.name, p.default if p.name != "labels" else None) for p in theirs.parameters.values()
    ]
    ours, theirs = (inspect.signature(getattr(module, name)) for module in (metric_learning, pml))
    assert ours.parameters["temperature"].default == theirs.parameters["temperature"].default
