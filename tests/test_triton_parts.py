"""What only large batches or certain GPUs reach, on small batches: second rounds of loops, remainders, rounding."""

import pytest
import torch

import sincere.functional as SF
from kernel_results import DEVICE, KERNEL_LOSSES, assert_close, needs_kernels, results
from sincere.losses.backends import fused

triton = pytest.importorskip("triton")
import triton.language as tl

from sincere.losses.backends import triton_fused, triton_launch, triton_wide
from sincere.losses.backends.triton_rows import add_to_total
from sincere.losses.backends.triton_tiles import operand

pytestmark = needs_kernels


@pytest.fixture(autouse=True)
def no_programs():
    """Those of other tests are forgotten."""
    fused._kept_plan.cache_clear()
    yield
    fused._kept_plan.cache_clear()


def value_and_gradient(loss, z, labels, **options):
    z = z.detach().clone().requires_grad_()
    value = loss(z, labels, **options)
    return [value.detach(), torch.autograd.grad(value, z)[0]]


@pytest.mark.parametrize("loss", [SF.sincere, SF.supcon])
def test_every_loop_over_tiles_goes_round(loss):
    """Tiles of 64 columns: whole ones before and behind the classes' range, some of one class with all of the rows on
    either side of the rows' own, and a last one that holds a single column."""
    labels = torch.arange(3, device=DEVICE).repeat_interleave(torch.tensor([40, 200, 81], device=DEVICE))
    z = torch.randn(321, 3, device=DEVICE)
    truth = value_and_gradient(loss, z.double(), labels, backend="dense", reduction="sum")
    assert_close(value_and_gradient(loss, z, labels, backend="triton", reduction="sum"), truth, 2e-5)


@pytest.mark.parametrize("way", ["counting", "chunks"])
def test_class_order_in_several_rounds(way, monkeypatch):
    """Places are counted 256 rows at a time, or searched for in 64 chunks at a time: here in two."""
    launched = triton_launch.Launch.__init__

    def in_rounds_of_two(self, kernel, grid, constants, *resources):
        launched(self, kernel, grid, constants | ({"BC": 2} if "BC" in constants else {}), *resources)

    monkeypatch.setattr(triton_launch.Launch, "__init__", in_rounds_of_two)
    if way == "chunks":
        monkeypatch.setattr(triton_fused, "COUNTING", 0)
    z, labels = torch.randn(300, 3, device=DEVICE), torch.randint(-1, 4, (300,), device=DEVICE)
    truth = value_and_gradient(SF.supcon, z.double(), labels, backend="dense")
    assert_close(value_and_gradient(SF.supcon, z, labels, backend="triton"), truth, 2e-5)


@triton.jit
def total_kernel(value_ptr, weight_ptr, place_ptr, number_ptr, result_ptr, stride, REDUCTION: tl.constexpr):
    at = tl.program_id(0)
    value, weight = tl.load(value_ptr + at), tl.load(weight_ptr + at)
    add_to_total(value, weight, place_ptr, number_ptr, result_ptr, stride, REDUCTION)


@pytest.mark.parametrize("programs", [128, 300])
@pytest.mark.parametrize("reduction", ["mean", "mean_all", "sum"])
def test_the_total_of_many_programs(programs, reduction):
    """The last program adds 128 shares at a time."""
    values, weights = torch.rand(programs, device=DEVICE), torch.rand(programs, device=DEVICE)
    numbers, places = torch.full((10, 1024), torch.nan, device=DEVICE), torch.zeros(5, 1024, device=DEVICE).int()
    result = torch.full((), torch.nan, device=DEVICE)
    total_kernel[(programs,)](values, weights, places, numbers, result, 1024, REDUCTION=reduction)
    factor = 1 if reduction == "sum" else 1 / weights.double().sum().item()
    assert result.item() == pytest.approx(values.double().sum().item() * factor, rel=1e-5)
    assert numbers[9, 0].item() == pytest.approx(factor, rel=1e-5)


def test_wide_rows_in_several_chunks(monkeypatch):
    """Anchors and contrasts pad to different sizes; the contrasts' gradient leaves a remainder."""
    monkeypatch.setattr(triton_wide, "CHUNK_BYTES", 2 * 256 * 4 * triton_launch.PAD)
    z, contrasts = torch.randn(130, 257, device=DEVICE), torch.randn(270, 257, device=DEVICE)
    labels, others = torch.arange(130, device=DEVICE) % 3, torch.arange(270, device=DEVICE) % 4
    labels[64] = others[100] = -1  # these are sorted behind all others, and the last chunk needs rows that take part
    truth = results(KERNEL_LOSSES[0], z.double(), labels, contrasts.double(), others, temperature=0.1, backend="dense")
    assert_close(
        results(KERNEL_LOSSES[0], z, labels, contrasts, others, temperature=0.1, backend="triton"), truth, 2e-5
    )


def rounded_to_tf32(x):
    """To the nearest number of eleven digits in base 2."""
    fraction, exponent = torch.frexp(x.double())
    return torch.ldexp((fraction * 2**11).round() / 2**11, exponent)


@pytest.fixture
def tf32():
    setting = torch.backends.cuda.matmul
    before = setting.fp32_precision
    setting.fp32_precision = "tf32"
    yield
    setting.fp32_precision = before


@pytest.mark.parametrize("contrasted", [False, True], ids=["fused", "contrasts"])
def test_rows_are_rounded_to_tf32_and_not_cut_off(contrasted, tf32):
    """The value is that of rows, times √(log₂e/τ), to the nearest; tensor cores would shrink all of them."""
    z, labels = torch.randn(40, 8, device=DEVICE), torch.arange(40, device=DEVICE) % 3
    scale = torch.tensor(1.4426950408889634).sqrt()
    rounded = rounded_to_tf32(z * scale) / scale.double()
    options = {"similarity": "dot", "temperature": 1.0}
    truth, candidate = (
        SF.sincere(rows, labels, *((rows, labels) if contrasted else ()), backend=backend, **options)
        for rows, backend in ((rounded, "dense"), (z, "triton"))
    )
    plain = SF.sincere(z.double(), labels, *((z.double(), labels) if contrasted else ()), backend="dense", **options)
    assert candidate.item() == pytest.approx(truth.item(), rel=2e-6)
    assert candidate.item() != pytest.approx(plain.item(), rel=6e-6)


@triton.jit
def operand_kernel(x_ptr, out_ptr, PRECISION: tl.constexpr):
    at = tl.arange(0, 64)
    x = tl.load(x_ptr + at)
    tl.store(out_ptr + at, operand(x, x, PRECISION))


@pytest.mark.parametrize("precision", ["tf32", "tf32x3", "ieee"])
def test_factors_of_products_are_rounded_for_tf32_alone(precision):
    x = torch.randn(64, device=DEVICE)
    out = torch.empty_like(x)
    operand_kernel[(1,)](x, out, PRECISION=precision)
    assert torch.equal(out.double(), rounded_to_tf32(x) if precision == "tf32" else x.double())


@pytest.mark.parametrize("loss", [SF.sincere, SF.decoupled])
def test_one_class_by_way_of_the_statistics(loss):
    """Nobody has a negative: no NaN of an empty sum, and no anchor counts as its own negative."""
    z, labels = torch.randn(20, 4, device=DEVICE), torch.full((20,), 3, device=DEVICE)
    options = {"reduction": "class_mean", "temperature": 0.1}
    value, gradient = value_and_gradient(loss, z, labels, backend="triton", **options)
    want, truth = value_and_gradient(loss, z.double(), labels, backend="dense", **options)
    assert value.item() == want.item() == 0
    assert not truth.any()
    assert not gradient.any()


def test_float16_by_way_of_the_statistics():
    """Gradients travel over their largest part: back again for contrasts too, and without one they are 0."""
    z, contrasts = torch.randn(40, 8, device=DEVICE).half(), torch.randn(30, 8, device=DEVICE).half()
    labels, others = torch.arange(40, device=DEVICE) % 3, torch.arange(30, device=DEVICE) % 3

    def gradients(z, contrasts, backend, factor):
        given = [z.detach().requires_grad_(), contrasts.detach().requires_grad_()]
        value = factor * SF.sincere(given[0], labels, given[1], others, backend=backend)
        return torch.autograd.grad(value, given)

    assert_close(gradients(z, contrasts, "triton", 30), gradients(z.double(), contrasts.double(), "dense", 30), 4e-3)
    assert all((gradient == 0).all() for gradient in gradients(z, contrasts, "triton", 0))


def test_no_contrasts_at_all():
    z, labels = torch.randn(5, 4, device=DEVICE), torch.arange(5, device=DEVICE) % 2
    value, gradient = value_and_gradient(
        lambda z, labels, **options: SF.supcon(z, labels, z.detach()[:0], labels[:0], **options),
        z,
        labels,
        backend="triton",
    )
    assert value == 0
    assert (gradient == 0).all()
