"""The triton backend: by its interpreter where there is no GPU, and compiled for two generations of GPUs."""

import json
import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch

import sincere.functional as SF
from kernel_results import DEVICE, KERNEL_LOSSES, assert_close, needs_kernels, results
from loss_table import rows_of
from sincere.errors import OptionError
from sincere.losses.backends import select
from sincere.losses.diagnosis import diagnose

triton = pytest.importorskip("triton")
from sincere.losses.backends import triton_backend, triton_launch

pytestmark = needs_kernels


def batch(n, d, classes, dtype=torch.float32):
    z = torch.randn(n, d, device=DEVICE).to(dtype)
    labels = torch.randint(0, classes, (n,), device=DEVICE)
    labels[::7] = -1
    return z, labels


@pytest.mark.parametrize(("n", "d", "classes"), [(41, 3, 2), (130, 20, 40), (128, 16, 1), (1, 4, 1)])
@pytest.mark.parametrize("case", KERNEL_LOSSES, ids=repr)
def test_agrees_with_float64(case, n, d, classes):
    z, labels, _ = rows_of(case, *batch(n, d, classes))
    for temperature in (0.1, 0.01):
        truth = results(case, z.double(), labels, temperature=temperature, backend="dense")
        candidate = results(case, z, labels, temperature=temperature, backend="triton")
        assert_close(candidate, truth, 2e-6 / temperature)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_embeddings_wider_than_the_registers(dtype):
    z, labels = batch(70, 300, 3, dtype)
    for case in KERNEL_LOSSES[:2]:
        truth = results(case, z.double(), labels, temperature=0.1, backend="dense")
        candidate = results(case, z, labels, temperature=0.1, backend="triton")
        assert_close(candidate[:2], truth[:2], 2e-5 if dtype == torch.float32 else 1e-2)


@pytest.mark.parametrize("include_batch", [False, True])
@pytest.mark.parametrize("case", KERNEL_LOSSES, ids=repr)
def test_contrasts_weights_and_reductions(case, include_batch):
    if case.needs_views and not include_batch:
        pytest.skip("the spread loss refuses contrasts without the batch")
    z, labels, _ = rows_of(case, *batch(50, 12, 4))
    contrasts, contrast_labels = batch(141, 12, 5)
    for reduction in ("class_mean", "sum"):
        options = {"include_batch": include_batch, "reduction": reduction, "temperature": 0.3}
        options["weights"] = torch.rand(labels.shape[0], device=DEVICE)
        options["ignored_as_negatives"] = reduction == "sum"
        truth = results(case, z.double(), labels, contrasts.double(), contrast_labels, backend="dense", **options)
        candidate = results(case, z, labels, contrasts, contrast_labels, backend="triton", **options)
        assert_close(candidate, truth, 1e-5)


@pytest.mark.parametrize("case", KERNEL_LOSSES, ids=repr)
def test_contrasts_whose_class_no_anchor_has(case):
    """They are negatives of every anchor, also beside contrasts of a class whose anchors fill whole tiles."""
    labels = torch.zeros(110, dtype=torch.int64, device=DEVICE)
    labels[-10:] = 1
    z, labels, _ = rows_of(case, torch.randn(110, 8, device=DEVICE), labels)
    contrasts = torch.randn(20, 8, device=DEVICE)
    contrast_labels = torch.arange(20, device=DEVICE) % 5 - 2  # no anchor has -2 and 2; -1 is unlabelled
    options = {"include_batch": True, "ignored_as_negatives": True, "temperature": 0.3}
    truth = results(case, z.double(), labels, contrasts.double(), contrast_labels, backend="dense", **options)
    candidate = results(case, z, labels, contrasts, contrast_labels, backend="triton", **options)
    assert_close(candidate, truth, 1e-5)


def unequal(d, dtype, absent, seed=0):
    """A class of 90 beside one of 3, one class left without labels, in any order."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(5).repeat_interleave(torch.tensor([90, 20, 9, 3, 1]))
    labels = torch.where(labels == absent, -1, labels)[torch.randperm(len(labels), generator=generator)]
    return torch.randn(len(labels), d, generator=generator).to(DEVICE, dtype), labels.to(DEVICE)


@pytest.mark.parametrize("temperature", [0.1, 0.01])
@pytest.mark.parametrize("case", KERNEL_LOSSES, ids=repr)
def test_classes_that_compete_alike(case, temperature):
    """Among them such as anchors or contrasts alone have."""
    z, labels, _ = rows_of(case, *unequal(12, torch.float32, absent=2))
    options = {"temperature": temperature, "class_balanced": True}
    for contrasts, more in (
        ((), {}),
        (unequal(12, torch.float32, absent=1, seed=1), {"include_batch": True, "reduction": "class_mean"}),
        (unequal(12, torch.float32, absent=3, seed=2), {}),
    ):
        if case.needs_views and contrasts and not more:
            continue  # the spread loss refuses contrasts without the batch
        known = [one.double() if one.is_floating_point() else one for one in contrasts]
        truth = results(case, z.double(), labels, *known, backend="dense", **options, **more)
        candidate = results(case, z, labels, *contrasts, backend="triton", **options, **more)
        assert_close(candidate, truth, 1e-6 / temperature)


@pytest.mark.parametrize(("dtype", "d", "slack"), [(torch.float32, 300, 5e-6), (torch.bfloat16, 24, 2e-2)])
@pytest.mark.parametrize("bounded", [True, False])
@pytest.mark.parametrize("case", KERNEL_LOSSES[:2], ids=repr)
def test_classes_that_compete_alike_by_other_kernels(case, bounded, dtype, d, slack):
    """Wide rows, half precision; a temperature that is a number promises |s| ≤ 32, or does not."""
    z, labels = unequal(d, dtype, absent=2)
    temperature, found = 0.1 if bounded else 0.01, []
    for backend, rows in (("dense", z.double()), ("triton", z)):
        rows = rows.requires_grad_()
        value = case.call(rows, labels, temperature=temperature, class_balanced=True, backend=backend)
        found.append([value.detach(), *torch.autograd.grad(value, rows)])
    assert_close(found[1], found[0], slack)


@pytest.mark.parametrize("temperature", [0.1, 0.01])
@pytest.mark.parametrize("case", KERNEL_LOSSES, ids=repr)
def test_bounded_and_unbounded_logits(case, temperature):
    """A temperature that is a number promises |s| ≤ 40, or does not; both ways must agree with the truth."""
    z, labels, _ = rows_of(case, *batch(100, 8, 3))

    def gradient(z, backend):
        z = z.detach().clone().requires_grad_()
        return torch.autograd.grad(case.call(z, labels, temperature=temperature, backend=backend), z)[0]

    truth = gradient(z.double(), "dense")
    assert (gradient(z, "triton").double() - truth).norm() <= 2e-6 / temperature * truth.norm()


@pytest.mark.parametrize(("dtype", "slack"), [(torch.bfloat16, 1e-2), (torch.float16, 4e-3)])
@pytest.mark.parametrize("case", KERNEL_LOSSES, ids=repr)
def test_half_precision(case, dtype, slack):
    """Normalised rows are rounded to the input's precision before the products; the slack is that rounding."""
    z, labels, _ = rows_of(case, *batch(150, 24, 5, dtype))
    truth = results(case, z.double(), labels, temperature=0.1, backend="dense")
    candidate = results(case, z, labels, temperature=0.1, backend="triton")
    assert candidate[1].dtype == dtype
    assert_close(candidate[:2], truth[:2], slack)


@pytest.mark.filterwarnings("ignore:invalid value encountered:RuntimeWarning")  # numpy's, where it interprets
@pytest.mark.parametrize("broken", [float("nan"), float("inf")])
@pytest.mark.parametrize("case", KERNEL_LOSSES, ids=repr)
def test_what_is_no_number_shows(case, broken):
    """A number out of 400 that is none: every loss and gradient that it spoils without kernels is spoilt with them."""
    z, labels, _ = rows_of(case, torch.randn(40, 10, device=DEVICE), torch.arange(40, device=DEVICE) % 3)
    z.view(-1, 10)[3, 2] = broken

    def spoilt(backend, *contrasts, **options):
        rows = z.clone().requires_grad_()
        losses = case.call(rows, labels, *contrasts, backend=backend, reduction="none", **options)
        return losses.isnan(), torch.autograd.grad(losses.sum(), rows)[0].isnan()

    for contrasts, more in (((), {}), (batch(20, 10, 3), {"include_batch": True})):
        for temperature in (0.1, 0.01):
            options = {"temperature": temperature, **more}
            truth, candidate = spoilt("dense", *contrasts, **options), spoilt("triton", *contrasts, **options)
            assert truth[0].any()
            assert torch.equal(candidate[0], truth[0])
            assert torch.equal(candidate[1], truth[1])


@pytest.fixture
def matmul():
    """The setting of float32 products, given back as it was."""
    setting = torch.backends.cuda.matmul
    before = setting.fp32_precision
    yield setting
    setting.fp32_precision = before


@pytest.mark.filterwarnings("ignore:(invalid value|overflow) encountered:RuntimeWarning")  # numpy's
@pytest.mark.parametrize("options", [{"similarity": "dot"}, {"weights": True}], ids=["dot", "weights"])
@pytest.mark.parametrize("loss", [SF.sincere, SF.supcon, SF.decoupled])
def test_the_nan_of_gpus_stays_one_in_tf32(loss, options, matmul):
    """GPUs write NaN as 0x7FFFFFFF, CPUs as 0x7FC00000: rounded to TF32 by bits, the former became −0."""
    matmul.fp32_precision = "tf32"
    z, labels = torch.randn(40, 10, device=DEVICE), torch.arange(40, device=DEVICE) % 3
    z.view(torch.int32)[3, 2] = 0x7FFFFFFF
    if "weights" in options:
        options = {"weights": torch.ones(40, device=DEVICE)}
    for contrasts in ((), (z.clone(), labels)):
        rows = z.clone().requires_grad_()
        value = loss(rows, labels, *contrasts, temperature=1.0, backend="triton", **options)
        assert value.isnan()
        assert torch.autograd.grad(value, rows)[0].isnan().all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_both_names_of_torchs_setting_are_known(dtype, matmul):
    """`torch.get_float32_matmul_precision` raises where the setting was made by its newer name."""
    z, labels = batch(60, 8, 3, dtype)
    values = []
    for contrasts in ((), (z.clone(), labels)):
        for name in ("ieee", "tf32"):
            matmul.fp32_precision = name
            values.append(SF.sincere(z, labels, *contrasts, backend="triton").item())
    alone, alone_in_tf32, contrasted, contrasted_in_tf32 = values
    assert (alone != alone_in_tf32) == (dtype == torch.float32)
    assert alone_in_tf32 == pytest.approx(alone, rel=2e-3)
    assert contrasted_in_tf32 == pytest.approx(contrasted, rel=2e-3)


def test_every_launch_is_on_the_device_of_its_rows(monkeypatch):
    """Triton launches on the current device, and the rows may be on another: no launch without the context for it."""
    entered, launches, call = [], [], triton_launch.Launch.__call__

    @contextmanager
    def on_device_of(rows):
        entered.append(rows.device)
        yield
        entered.pop()

    def launched(self, *arguments):
        launches.append(self.kernel)
        assert entered == [torch.device(DEVICE, 0 if DEVICE == "cuda" else None)]
        call(self, *arguments)

    for module in (triton_launch, triton_backend):
        monkeypatch.setattr(module, "on_device_of", on_device_of)
    monkeypatch.setattr(triton_launch.Launch, "__call__", launched)
    for d in (8, 300):
        results(KERNEL_LOSSES[0], *batch(40, d, 3), *batch(30, d, 3), temperature=0.1, backend="triton")
    assert len(launches) == 6
    # The fused loss as torch.compile runs it, whose backward pass is an operator of its own.
    torch.compiler.reset()
    loss = torch.compile(lambda z, y: SF.sincere(z, y, backend="triton"), fullgraph=True, backend="aot_eager")
    z, labels = batch(40, 8, 3)
    loss(z.requires_grad_(), labels).backward()
    assert len(launches) == 9


@pytest.mark.parametrize("garbage", [0xFF, 0x71], ids=["nan", "1e30"])
@pytest.mark.parametrize("case", KERNEL_LOSSES, ids=repr)
def test_nothing_is_read_before_it_is_written(case, garbage, monkeypatch):
    """What `torch.empty` hands out on a GPU has been used before: padding must not bring it into a result."""
    d = 300 if (case.name, garbage) == ("sincere", 0xFF) else 20  # wide rows have a workspace more
    z, labels, _ = rows_of(case, *batch(41, d, 4))
    contrasts = batch(37, d, 5)

    def everything():
        found = results(case, z, labels, temperature=0.1, backend="triton")
        if d > 20:
            return found
        return found + results(case, z, labels, *contrasts, temperature=0.1, backend="triton", include_batch=True)

    truth, empty, filled = everything(), torch.empty, []

    def used_before(*arguments, **options):
        made = empty(*arguments, **options)
        filled.append(made.shape)
        if made.numel():
            made.reshape(-1).view(torch.uint8).fill_(garbage)
        return made

    monkeypatch.setattr(torch, "empty", used_before)
    for got, want in zip(everything(), truth, strict=True):
        assert torch.equal(got, want)
    assert len(filled) >= 5


@pytest.mark.parametrize(("dtype", "precision"), [(torch.float32, "tf32"), (torch.bfloat16, "ieee")])
def test_diagnose_counts_with_every_digit(dtype, precision, matmul, monkeypatch):
    """Where classes are points nothing is pushed apart, in whichever precision losses are computed."""
    matmul.fp32_precision = precision
    monkeypatch.setattr(select, "select_backend", lambda pairs: ("triton", "as for a large batch on a GPU"))
    z, labels = torch.randn(4, 8, device=DEVICE).repeat(20, 1).to(dtype), torch.arange(80, device=DEVICE) % 4
    assert diagnose(z, labels, set_loss=False).repulsion == 0
    assert matmul.fp32_precision == precision


@pytest.mark.parametrize("n", [0, 1, 2])
def test_almost_empty_batches(n):
    z, labels = torch.randn(n, 4, device=DEVICE, requires_grad=True), torch.zeros(n, dtype=torch.long, device=DEVICE)
    for case in KERNEL_LOSSES[:-1]:
        expected = case.call(z, labels, backend="dense").item()
        loss = case.call(z, labels, backend="triton")
        assert loss.item() == pytest.approx(expected, abs=1e-6)
        assert torch.isfinite(torch.autograd.grad(loss, z)[0]).all()


def test_compiles_whole():
    z, labels = batch(40, 8, 3)
    torch.compiler.reset()
    compiled = torch.compile(lambda z: SF.sincere(z, labels, backend="triton"), fullgraph=True, backend="aot_eager")
    assert compiled(z).item() == pytest.approx(SF.sincere(z, labels, backend="triton").item(), rel=1e-6)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"similarity": lambda a, c: a @ c.T}, "caller's function"),
        ({"labels": torch.ones(6, 4, dtype=torch.bool)}, "no single classes"),
        ({"embeddings": torch.randn(6, 3, dtype=torch.float64)}, "float64"),
        ({"embeddings": torch.randn(6, 1025)}, "1,024"),
    ],
)
def test_says_why_it_cannot_run(options, words):
    options = {"embeddings": torch.randn(6, 3), "labels": torch.arange(6) // 2, **options}
    with pytest.raises(OptionError, match=r"cannot run here.*" + words):
        SF.sincere(options.pop("embeddings"), options.pop("labels"), backend="triton", **options)


@pytest.mark.parametrize("capability", [80, 90])
def test_kernels_compile_without_a_gpu(capability, tmp_path):
    """Registers and spills stay at what is recorded: a change that spills is seen before it is slow."""
    if not triton.__version__.startswith("3.9."):
        pytest.skip("spills are recorded for triton 3.9")
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"} | {"TRITON_CACHE_DIR": str(tmp_path)}
    script = Path(__file__).parent / "compile_kernels.py"
    run = subprocess.run(
        [sys.executable, str(script), str(capability)], capture_output=True, text=True, env=environment, check=False
    )
    assert run.returncode == 0, run.stderr[-2000:]
    for row in json.loads(run.stdout):
        assert row["registers"] <= 255, row
        assert row["stack"] <= row["stack_recorded"], row
