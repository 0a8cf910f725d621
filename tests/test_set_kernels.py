"""The set loss by kernels: by Triton's interpreter where there is no GPU. An anchor takes it some 50 ms, so that
batches have few of them."""

import warnings
from contextlib import contextmanager
from functools import partial
from types import SimpleNamespace

import pytest
import torch

import oracles
import sincere.functional as SF
from kernel_results import CUDA, DEVICE, assert_close, losses_and_gradient, needs_kernels, results
from sincere.errors import OptionError
from sincere.losses.backends import row_blocks, set_rows

triton = pytest.importorskip("triton")
from sincere.losses.backends import triton_set, triton_set_launch

pytestmark = [
    needs_kernels,
    pytest.mark.filterwarnings("ignore:(invalid value|divide by zero|overflow) encountered:RuntimeWarning"),  # numpy's
]
on_cuda_alone = pytest.mark.skipif(not CUDA, reason="needs a CUDA device")
saddle = partial(SF.set_nce, method="saddle")
SADDLE = SimpleNamespace(call=saddle)
per_anchor = partial(losses_and_gradient, saddle)


def batch(n, d, classes, dtype=torch.float32):
    z = torch.randn(n, d, device=DEVICE).to(dtype)
    labels = torch.randint(0, classes, (n,), device=DEVICE)
    labels[::7] = -1
    return z, labels


@pytest.mark.parametrize(("n", "d", "classes"), [(25, 3, 2), (33, 20, 12), (9, 16, 1), (1, 4, 1)])
def test_agrees_with_float64(n, d, classes):
    z, labels = batch(n, d, classes)
    for temperature in (0.1, 0.01):
        truth = results(SADDLE, z.double(), labels, temperature=temperature, backend="tiled")
        candidate = results(SADDLE, z, labels, temperature=temperature, backend="triton")
        assert_close(candidate, truth, 2e-6 / temperature)


@pytest.mark.parametrize("include_batch", [False, True])
@pytest.mark.parametrize("reduction", ["class_mean", "sum", "mean_all"])
def test_contrasts_weights_and_reductions(reduction, include_batch):
    z, labels = batch(11, 12, 4)
    contrasts, contrast_labels = batch(141, 12, 5)
    options = {"include_batch": include_batch, "reduction": reduction, "temperature": 0.3}
    options["weights"] = torch.rand(11, device=DEVICE)
    options["ignored_as_negatives"] = reduction == "sum"
    truth = results(SADDLE, z.double(), labels, contrasts.double(), contrast_labels, backend="tiled", **options)
    candidate = results(SADDLE, z, labels, contrasts, contrast_labels, backend="triton", **options)
    assert_close(candidate, truth, 1e-5)


def test_close_to_the_sum_over_all_subsets():
    """Against the definition, from nothing of ours: as close as the saddle point promises."""
    z, labels = torch.randn(15, 4), torch.tensor([0] * 7 + [1] * 6 + [2] * 2)
    truth = oracles.set_nce_by_recurrence(oracles.batch_from_labels(z.double().numpy(), labels.numpy(), 0.1))
    values = saddle(z.to(DEVICE), labels.to(DEVICE), backend="triton", reduction="none").cpu()
    positives = (labels.unsqueeze(1) == labels).sum(dim=1) - 1
    assert ((values - torch.tensor(truth)).abs() < 0.0403 / positives).all()


@pytest.mark.parametrize("way", ["read again", "blocks of rows"])
def test_long_rows_and_large_batches(way, monkeypatch):
    """What otherwise takes more than 8,192 contrasts, or millions of logits."""
    z, labels = batch(19, 6, 3)
    contrasts = batch(75, 6, 3)
    whole = results(SADDLE, z, labels, *contrasts, temperature=0.2, backend="triton")
    if way == "read again":
        monkeypatch.setattr(triton_set_launch, "HELD_UP_TO", 64)
        monkeypatch.setattr(triton_set_launch, "REREAD", 32)
        monkeypatch.setattr(triton_set_launch, "GRADIENT_BLOCK", 32)
    else:
        monkeypatch.setattr(row_blocks, "LOGITS_PER_BLOCK", 1)
    parts = results(SADDLE, z, labels, *contrasts, temperature=0.2, backend="triton")
    assert_close(parts, whole, 1e-6)


@pytest.mark.parametrize("broken", [float("nan"), float("inf")])
def test_ignored_rows_may_hold_anything(broken):
    labels = torch.tensor([0, 1, -1, 0, 1, 2, 2], device=DEVICE)
    contrast_labels = torch.tensor([0, 1, 2, -1, 0, 1], device=DEVICE)
    z, c = torch.randn(7, 5, device=DEVICE), torch.randn(6, 5, device=DEVICE)
    z[2, 1] = c[3, 2] = broken
    kept, usable = labels >= 0, contrast_labels >= 0
    for given, left in (((), ()), ((c, contrast_labels), (c[usable], contrast_labels[usable]))):
        for similarity in ("dot", "cosine"):
            losses, gradient = per_anchor(z, labels, *given, backend="triton", similarity=similarity)
            wanted = per_anchor(z[kept], labels[kept], *left, backend="triton", similarity=similarity)
            torch.testing.assert_close(losses[kept], wanted[0], rtol=1e-5, atol=1e-6)
            torch.testing.assert_close(gradient[kept], wanted[1], rtol=1e-4, atol=1e-5)
            assert losses[2] == 0
            assert not gradient[2].any()


@pytest.mark.parametrize("broken", [float("nan"), float("inf")])
@pytest.mark.parametrize("similarity", ["cosine", "dot"])
def test_what_is_no_number_shows(similarity, broken):
    z, labels = torch.randn(12, 5, device=DEVICE), torch.arange(12, device=DEVICE) % 3
    z[3, 2] = broken
    truth = per_anchor(z, labels, backend="tiled", similarity=similarity)
    candidate = per_anchor(z, labels, backend="triton", similarity=similarity)
    assert truth[0].isnan().all()
    assert candidate[0].isnan().all()
    assert torch.equal(candidate[1].isnan(), truth[1].isnan())


@pytest.mark.parametrize("ignored", [-1, 2**63 - 1])
def test_any_number_is_a_label(ignored):
    names = torch.tensor([2**63 - 1, -1, 0, -(2**63)])
    places = torch.randint(4, (14,), generator=torch.Generator().manual_seed(1))
    z, mark = torch.randn(14, 4, device=DEVICE), names.tolist().index(ignored)
    options = {"backend": "triton", "ignored_as_negatives": True}
    found = per_anchor(z, names[places].to(DEVICE), ignore_label=ignored, **options)
    plain = per_anchor(z, places.to(DEVICE), ignore_label=mark, **options)
    assert all(torch.equal(got, want) for got, want in zip(found, plain, strict=True))


def test_labels_that_lie_apart_in_memory():
    z, labels = batch(13, 4, 3)
    apart = torch.stack([labels, labels + 1], dim=1)[:, 0]
    assert not apart.is_contiguous()
    shifted = torch.cat([labels[:1], labels])[1:]  # starts where no vector of 16 bytes does
    expected = per_anchor(z, labels, backend="triton")
    for same in (apart, shifted):
        found = per_anchor(z, same, backend="triton")
        assert all(torch.equal(got, want) for got, want in zip(found, expected, strict=True))


@pytest.mark.parametrize("n", [0, 1, 2])
def test_almost_empty_batches(n):
    z, labels = torch.randn(n, 4, device=DEVICE, requires_grad=True), torch.zeros(n, dtype=torch.long, device=DEVICE)
    loss = saddle(z, labels, backend="triton")
    assert loss.item() == 0
    assert not torch.autograd.grad(loss, z)[0].any()
    contrasts = torch.randn(0, 4, device=DEVICE), labels[:0]
    loss = saddle(z, labels, *contrasts, backend="triton")
    assert loss.item() == 0
    assert not torch.autograd.grad(loss, z)[0].any()


@pytest.mark.parametrize("garbage", [0xFF, 0x71], ids=["nan", "1e30"])
def test_nothing_is_read_before_it_is_written(garbage, monkeypatch):
    z, labels = batch(15, 6, 4)
    contrasts = batch(10, 6, 4)
    truth, empty, filled = results(SADDLE, z, labels, *contrasts, temperature=0.1, backend="triton"), torch.empty, []

    def used_before(*arguments, **options):
        made = empty(*arguments, **options)
        filled.append(made.shape)
        made.reshape(-1).view(torch.uint8).fill_(garbage)
        return made

    monkeypatch.setattr(torch, "empty", used_before)
    for got, want in zip(results(SADDLE, z, labels, *contrasts, temperature=0.1, backend="triton"), truth, strict=True):
        assert torch.equal(got, want)
    assert len(filled) >= 3


def test_half_precision_and_autocast():
    z, labels = batch(16, 8, 3, torch.bfloat16)
    truth = per_anchor(z.double(), labels, backend="tiled")
    for under in (False, True):
        with torch.autocast(DEVICE, torch.bfloat16, enabled=under):
            losses, gradient = per_anchor(z, labels, backend="triton")
        assert gradient.dtype == torch.bfloat16
        torch.testing.assert_close(losses.double(), truth[0], rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(gradient.double(), truth[1], rtol=2e-2, atol=1e-4)


def test_compiles_whole():
    z, labels = batch(14, 8, 3)
    torch.compiler.reset()
    whole = torch.compile(lambda z: saddle(z, labels, backend="triton"), fullgraph=True, backend="aot_eager")
    z.requires_grad_()
    value, expected = whole(z), saddle(z, labels, backend="triton")
    assert value.item() == pytest.approx(expected.item(), rel=1e-6)
    gradients = [torch.autograd.grad(loss, z)[0] for loss in (value, expected)]
    torch.testing.assert_close(*gradients, rtol=1e-5, atol=1e-7)


def test_the_operator_says_what_it_returns():
    """torch.compile plans by it, and a graph that keeps these numbers for later would trip over a wrong shape."""
    z, labels = batch(5, 4, 2)
    everyone = torch.ones(5, dtype=torch.bool, device=DEVICE)
    arguments = (z, z, labels, labels, everyone, everyone, "classes", 0, set_rows.KERNELS)
    torch.library.opcheck(set_rows._forward, arguments, test_utils=("test_faketensor",))


def test_transforms():
    z, labels = torch.randn(2, 9, 5, device=DEVICE), torch.arange(9, device=DEVICE) % 3
    expected = torch.stack([per_anchor(rows, labels, backend="triton")[1] for rows in z])
    of_sum = torch.func.grad(lambda rows: saddle(rows, labels, backend="triton", reduction="sum"))
    torch.testing.assert_close(torch.func.vmap(of_sum)(z), expected, rtol=1e-4, atol=1e-5)
    with pytest.raises(RuntimeError, match="second derivative"):
        torch.func.grad(lambda rows: of_sum(rows).square().sum())(z[0])


def test_every_launch_is_on_the_device_of_its_rows(monkeypatch):
    entered, launches, call = [], [], triton_set_launch.Launch.__call__

    @contextmanager
    def on_device_of(rows):
        entered.append(rows.device.type)
        yield
        entered.pop()

    def launched(self, *arguments):
        launches.append(self.kernel)
        assert entered == [DEVICE]
        call(self, *arguments)

    monkeypatch.setattr(triton_set_launch, "on_device_of", on_device_of)
    monkeypatch.setattr(triton_set_launch.Launch, "__call__", launched)
    per_anchor(*batch(8, 4, 2), backend="triton")
    assert launches == [triton_set.set_values_kernel, triton_set.set_gradient_kernel]


def test_launches_are_kept(monkeypatch):
    """By where labels lie in memory, too: Triton compiles other code where no vector of 16 bytes starts."""
    monkeypatch.setattr(triton_set_launch, "LAUNCHES", {})
    z, labels = batch(6, 3, 2)
    for given, kept in ((labels, 2), (labels.clone(), 2), (torch.cat([labels[:1], labels])[1:], 4)):
        per_anchor(z, given, backend="triton")
        assert len(triton_set_launch.LAUNCHES) == kept
    monkeypatch.setattr(triton_set_launch, "MOST_LAUNCHES", 1)
    per_anchor(z[:5], labels[:5], backend="triton")
    assert len(triton_set_launch.LAUNCHES) == 1


def test_by_name_auto_is_the_saddle_point():
    z, labels = torch.randn(10, 4, device=DEVICE), torch.arange(10, device=DEVICE) % 2
    value = SF.set_nce(z, labels, backend="triton").item()
    assert value == saddle(z, labels, backend="triton").item()
    assert abs(value - SF.set_nce(z, labels, method="exact").item()) > 1e-5


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"method": "exact"}, r'saddle point.*got method="exact".*backend="auto"'),
        ({"similarity": lambda a, c: a @ c.T}, "cannot run here.*caller's function"),
        ({"labels": torch.ones(6, 4, dtype=torch.bool)}, "cannot run here.*no single classes"),
        ({"embeddings": torch.randn(6, 3, dtype=torch.float64)}, "cannot run here.*float64"),
    ],
)
def test_says_why_it_cannot_run(options, words):
    options = {"embeddings": torch.randn(6, 3), "labels": torch.arange(6) // 2, **options}
    with pytest.raises(OptionError, match=words):
        SF.set_nce(options.pop("embeddings"), options.pop("labels"), backend="triton", **options)


def test_rows_of_any_width():
    """Products are torch's, so that the width which other kernels stop at is none here."""
    z, labels = torch.randn(6, 1100, device=DEVICE), torch.arange(6, device=DEVICE) % 2
    expected = saddle(z.double(), labels, backend="tiled").item()
    assert saddle(z, labels, backend="triton").item() == pytest.approx(expected, rel=1e-5)


@on_cuda_alone
@pytest.mark.gpu
def test_on_a_gpu_auto_is_exact_up_to_64_contrasts(monkeypatch):
    """Whatever their labels: the largest k is not looked at."""
    assert set_rows.EXACT_CONTRASTS == 64
    for n, method in ((64, "exact"), (65, "saddle")):
        z, labels = torch.randn(n, 8, device=DEVICE), torch.arange(n, device=DEVICE) % 4
        value = SF.set_nce(z, labels).item()
        assert value == pytest.approx(SF.set_nce(z, labels, method=method, backend="tiled").item(), rel=1e-6)
    monkeypatch.setattr(triton_set_launch, "forward", lambda *_: pytest.fail("these labels are no kernel's"))
    several = torch.nn.functional.one_hot(labels, 4).bool()
    assert SF.set_nce(z, several).isfinite()
    assert SF.set_nce(z.double(), labels).isfinite()
    assert SF.set_nce(z, labels, similarity=lambda a, c: a @ c.T).isfinite()


@on_cuda_alone
@pytest.mark.gpu
@pytest.mark.parametrize("m", [100, 10_000])
def test_nothing_waits_for_the_device(m):
    z, labels = torch.randn(m, 16, device=DEVICE, requires_grad=True), torch.arange(m, device=DEVICE) % 10

    def step():
        return torch.autograd.grad(SF.set_nce(z, labels), z)[0]

    step()  # compiles
    before = torch.cuda.get_sync_debug_mode()
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Synchronization debug mode is a prototype feature")
            torch.cuda.set_sync_debug_mode("error")
        expected = step()
    finally:
        torch.cuda.set_sync_debug_mode(before)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        recorded = step()
    recorded.zero_()
    graph.replay()
    torch.testing.assert_close(recorded, expected, rtol=1e-4, atol=1e-7)


@on_cuda_alone
@pytest.mark.gpu
@pytest.mark.parametrize(("n", "m"), [(1024, 1024), (333, 5000), (64, 20_011)])
def test_sizes_of_training(n, m):
    """Every shape of launch: few and many warps, rows held and read again."""
    z, contrasts = torch.randn(n, 64, device=DEVICE), torch.randn(m, 64, device=DEVICE)
    labels, contrast_labels = (torch.arange(size, device=DEVICE) % 10 for size in (n, m))
    options = {"temperature": 0.1}
    truth = results(SADDLE, z.double(), labels, contrasts.double(), contrast_labels, backend="tiled", **options)
    plain = results(SADDLE, z, labels, contrasts, contrast_labels, backend="tiled", **options)
    candidate = results(SADDLE, z, labels, contrasts, contrast_labels, backend="triton", **options)
    assert_close(candidate, truth, 2e-5)
    for got, same_precision, want in zip(candidate, plain, truth, strict=True):
        slack = 4e-7 * want.double().norm()
        assert (got.double() - want).norm() <= (same_precision.double() - want).norm() + slack
