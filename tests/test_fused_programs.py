"""Programs of fused losses: which calls share one, in which precision they work; and calls out of the ordinary."""

from dataclasses import replace

import pytest
import torch

import sincere.functional as SF
from kernel_results import DEVICE, assert_close, needs_kernels
from sincere.errors import InputError
from sincere.losses.backends import fused

pytest.importorskip("triton")
from sincere.losses.backends import triton_fused, triton_launch

pytestmark = needs_kernels
N, D = 9, 6
LABELS = torch.arange(N, device=DEVICE) % 3


@pytest.fixture(autouse=True)
def no_programs():
    """Those of other tests are forgotten."""
    fused._kept_plan.cache_clear()
    yield
    fused._kept_plan.cache_clear()


@pytest.fixture
def precision():
    """Sets torch's precision of float32 products for one test."""
    setting = torch.backends.cuda.matmul
    before = setting.fp32_precision
    yield lambda name: setattr(setting, "fp32_precision", name)
    setting.fp32_precision = before


def rows():
    return torch.randn(N, D, device=DEVICE)


def moved(tensor):
    """The same numbers at an address that is no multiple of 16."""
    room = torch.empty(tensor.numel() + 1, dtype=tensor.dtype, device=tensor.device)
    room[1:] = tensor.flatten()
    shifted = room[1:].view(tensor.shape)
    assert shifted.data_ptr() % 16
    return shifted


def spread_out(tensor):
    """The same rows, each behind 16 numbers of another, so that they are as aligned as before."""
    room = torch.zeros(tensor.shape[0], 16 + tensor.shape[1], device=tensor.device)
    room[:, 16:] = tensor
    return room[:, 16:]


WEIGHTS = torch.linspace(0.5, 2, N, device=DEVICE)
TEMPERATURE = torch.tensor(0.1, device=DEVICE)
# What Triton compiles different code for, as two calls that differ in nothing else.
COMPILED_APART = {
    "rows' stride": ({}, lambda given: given | {"z": spread_out(given["z"])}),
    "rows' address": ({}, lambda given: given | {"z": moved(given["z"])}),
    "labels' type": ({}, lambda given: given | {"labels": given["labels"].int()}),
    "labels' address": ({}, lambda given: given | {"labels": moved(given["labels"])}),
    "weights' type": ({"weights": WEIGHTS}, lambda given: given | {"weights": WEIGHTS.double()}),
    "weights' address": ({"weights": WEIGHTS}, lambda given: given | {"weights": moved(WEIGHTS)}),
    "temperature's type": ({"temperature": TEMPERATURE}, lambda given: given | {"temperature": TEMPERATURE.double()}),
}


@pytest.mark.parametrize("name", COMPILED_APART)
def test_what_triton_compiles_apart_has_a_program_of_its_own(name, monkeypatch):
    """A program skips what Triton looks at before a launch: a kernel for aligned rows would read others wrongly."""
    built, program = [], triton_fused.Program
    monkeypatch.setattr(triton_fused, "Program", lambda *given, **more: built.append(given) or program(*given, **more))
    more, change = COMPILED_APART[name]
    given = {"z": rows(), "labels": LABELS, **more}
    other = change(given)

    def call(z, labels, **options):
        return SF.sincere(z, labels, backend="triton", **options)

    value = call(**given)
    assert torch.equal(call(**given), value)
    assert len(built) == 1
    torch.testing.assert_close(call(**other), value)
    assert len(built) == 2
    call(**given)
    call(**other)
    assert len(built) == 2


def test_backward_passes_that_are_compiled_apart_have_programs_of_their_own(precision):
    plan = fused.plan_of(fused.Combination(mean_softplus=1), "mean", False, False, 1, -1, False, False)
    z = rows()
    calls = [(z, 0.1), (spread_out(z), 0.1), (moved(z), 0.1), (z, TEMPERATURE), (z, TEMPERATURE.double()), (z[:5], 0.1)]
    calls += [(z.bfloat16(), 0.1), (z[:, :4], 0.1)]

    def program(z, temperature):
        _, workspace = triton_fused.empty_results(plan, *z.shape, z.dtype, z.device)
        return triton_fused.backward_program(z, temperature, plan, workspace)

    programs = [program(*call) for call in calls]
    precision("tf32")  # rows that are not normalised then take as much room as before
    programs.append(program(*calls[0]))
    assert len({id(one) for one in programs}) == len(calls) + 1
    precision("ieee")
    assert [id(program(*call)) for call in calls] == [id(one) for one in programs[:-1]]


@pytest.mark.parametrize(("forward", "backward"), [("ieee", "tf32"), ("tf32", "ieee")])
def test_torchs_setting_may_change_before_a_compiled_backward_pass(forward, backward, precision):
    """The workspace is laid out for the forward pass's precision, and is read with that."""
    z = rows()
    torch.compiler.reset()
    loss = torch.compile(lambda z: SF.sincere(z, LABELS, backend="triton"), fullgraph=True, backend="aot_eager")
    gradients = []
    for later in (forward, backward):
        precision(forward)
        given = z.clone().requires_grad_()
        value = loss(given)
        fused._kept_plan.cache_clear()  # no program of the first round serves the second
        precision(later)
        gradients.append(torch.autograd.grad(value, given)[0])
    assert torch.equal(*gradients)


def test_float16_stands_in_for_tf32_where_nothing_can_leave_its_range(precision):
    plan = fused.plan_of(fused.Combination(mean_softplus=1), "mean", True, True, 1, -1, False, False)
    single, tf32, half = (triton_launch.PRECISIONS[name] for name in ("float32", "tf32", "float16"))
    bfloat16 = triton_launch.PRECISIONS["bfloat16"]
    assert triton_fused.precision_of(plan, torch.float32) == single
    precision("tf32")
    assert triton_fused.precision_of(plan, torch.float32) == half
    assert triton_fused.precision_of(replace(plan, weighted=True), torch.float32) == tf32
    assert triton_fused.precision_of(replace(plan, cosine=False), torch.float32) == tf32
    assert triton_fused.precision_of(plan, torch.bfloat16) == bfloat16
    # All digits of float32 are three products, TF32 alone is one.
    assert (single.input_precision, tf32.input_precision, half.input_precision) == ("tf32x3", "tf32", "ieee")


def test_one_value_per_anchor_may_be_differentiated_again_and_by_nothing():
    """A gradient of zeros has no largest part to be measured by; a second pass finds what the first one found."""
    z = rows().requires_grad_()
    losses = SF.sincere(z, LABELS, backend="triton", reduction="none")
    upstream = torch.linspace(-3, 1, N, device=DEVICE)
    first, second = (torch.autograd.grad(losses, z, upstream, retain_graph=True)[0] for _ in range(2))
    (truth,) = torch.autograd.grad(SF.sincere(z, LABELS, backend="dense", reduction="none"), z, upstream)
    assert_close([first], [truth], 2e-5)
    assert torch.equal(first, second)
    (nothing,) = torch.autograd.grad(losses, z, torch.zeros_like(losses))
    assert (nothing == 0).all()


def test_broken_rows_are_named_where_that_is_asked_for():
    z = rows()
    z[4, 1] = torch.nan
    with pytest.raises(InputError, match=r"embeddings must be finite.*rows 4\)"):
        SF.sincere(z, LABELS, backend="triton", check_finite=True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_learned_temperature_keeps_shape_and_type(dtype):
    """Compiled or not; what torch.compile expects of the backward pass is what it gets."""
    z = rows().to(dtype).requires_grad_()
    torch.compiler.reset()
    for call in (SF.sincere, torch.compile(SF.sincere, fullgraph=True, backend="aot_eager")):
        temperature = torch.full((1, 1), 0.3, device=DEVICE, dtype=torch.float64, requires_grad=True)
        (gradient,) = torch.autograd.grad(call(z, LABELS, temperature=temperature, backend="triton"), temperature)
        assert (gradient.shape, gradient.dtype) == (temperature.shape, temperature.dtype)
        assert gradient.bfloat16() != gradient  # more digits than the rows have
        truth = SF.sincere(z.double(), LABELS, temperature=temperature, backend="dense")
        assert_close([gradient], torch.autograd.grad(truth, temperature), 2e-5 if dtype == torch.float32 else 1e-2)


@pytest.mark.parametrize(("learned", "reduction"), [(None, "none"), (TEMPERATURE.double(), "mean")], ids=str)
def test_operators_give_what_torch_compile_is_told(learned, reduction):
    """Shapes, types and strides of the results, for rows that are cut out of wider ones."""
    z = torch.randn(N, D + 2, device=DEVICE).bfloat16()[:, 1:-1]
    plan = fused.plan_of(fused.Combination(mean_softplus=1), reduction, True, False, 1, -1, False, False).written()
    given = (z, learned, 0.1, LABELS, None, plan)
    value, workspace = fused._forward_operator(*given)
    checks = ("test_schema", "test_faketensor")
    torch.library.opcheck(fused._forward_operator, given, test_utils=checks)
    back = (torch.ones_like(value), z, learned, 0.1, plan, workspace)
    torch.library.opcheck(fused._backward_operator, back, test_utils=checks)
