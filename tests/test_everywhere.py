"""The losses under torch.compile, autocast and half precision, as modules, and on a GPU where there is one."""

import copy
import inspect
import shutil

import pytest
import torch

import sincere
import sincere.functional as SF
from loss_table import BACKENDS, LOSSES, rows_of
from sincere.losses import subsets
from sincere.losses.options import DEFAULTS, LossOptions

COMPILER = "inductor" if shutil.which("c++") or shutil.which("g++") else "aot_eager"
LABELS = torch.arange(24) // 2 % 4


def value_and_gradient(call, z, *args, **options):
    z = z.detach().clone().requires_grad_()
    loss = call(z, *args, **options)
    return loss.detach(), torch.autograd.grad(loss, z)[0]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("case", LOSSES, ids=repr)
def test_compiles_whole(case, backend, monkeypatch):
    monkeypatch.setattr(subsets, "NEWTON_STEPS", 12)  # a graph has them one by one, and 60 take long to compile
    z, labels, _ = rows_of(case, torch.randn(24, 5), LABELS)

    def call(z, labels):
        return case.call(z, labels, backend=backend, reduction="class_mean" if case.name == "sincere" else "mean")

    torch.compiler.reset()
    compiled = torch.compile(call, fullgraph=True, backend="aot_eager")
    for a, b in zip(value_and_gradient(compiled, z, labels), value_and_gradient(call, z, labels), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)


@pytest.mark.filterwarnings("ignore::DeprecationWarning:torch")  # inductor's own imports
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_module_compiles_to_machine_code(backend):
    if COMPILER != "inductor":
        pytest.skip("no C++ compiler on this machine, which torch.compile needs")
    torch.compiler.reset()
    loss = sincere.SINCERELoss(learnable_temperature=True, backend=backend)
    encoder = torch.nn.Linear(6, 4)
    x = torch.randn(24, 6)
    eager = loss(encoder(x), LABELS)
    compiled = torch.compile(lambda x, y: loss(encoder(x), y), fullgraph=True)(x, LABELS)
    gradients = torch.autograd.grad(eager, [encoder.weight, loss.log_temperature])
    for a, b in zip(torch.autograd.grad(compiled, [encoder.weight, loss.log_temperature]), gradients, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(compiled, eager)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("case", LOSSES, ids=repr)
def test_autocast_does_not_lower_the_precision(case, backend):
    z, labels, _ = rows_of(case, torch.randn(24, 5), LABELS)
    expected, gradient = value_and_gradient(case.call, z, labels, backend=backend)
    z.requires_grad_()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        value = case.call(z, labels, backend=backend)
    assert value.dtype == torch.float32
    assert torch.equal(value, expected)
    assert torch.equal(torch.autograd.grad(value, z)[0], gradient)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("case", LOSSES, ids=repr)
def test_half_precision_input_is_computed_in_float32(case, backend, dtype):
    z, labels, _ = rows_of(case, torch.randn(24, 5).to(dtype), LABELS)
    value, gradient = value_and_gradient(case.call, z, labels, backend=backend, temperature=0.05)
    expected, expected_gradient = value_and_gradient(case.call, z.float(), labels, backend=backend, temperature=0.05)
    assert torch.equal(value, expected)
    assert gradient.dtype == dtype
    assert torch.equal(gradient, expected_gradient.to(dtype))


MODULES = [
    (sincere.SINCERELoss, SF.sincere, {}),
    (sincere.SupConLoss, SF.supcon, {"form": "in"}),
    (sincere.EpsSupInfoNCELoss, SF.eps_supinfonce, {"epsilon": 0.7}),
    (sincere.DecoupledLoss, SF.decoupled, {}),
    (sincere.SpreadLoss, SF.spread, {"alpha": 0.2}),
    (sincere.SetLoss, SF.set_nce, {"method": "saddle"}),
]


@pytest.mark.parametrize(("module", "function", "own"), MODULES, ids=lambda x: getattr(x, "__name__", None))
def test_a_module_is_its_function(module, function, own):
    z, labels = torch.randn(12, 2, 5), torch.arange(12) % 4
    queue, weights = (torch.randn(3, 5), torch.tensor([0, 1, 9])), torch.rand(12)
    options = {"temperature": 0.2, "reduction": "class_mean", "include_batch": True}
    loss = module(**options, **own)
    expected = function(z, labels, *queue, weights=weights, **options, **own)
    assert torch.equal(loss(z, labels, *queue, weights=weights), expected)
    assert torch.equal(copy.deepcopy(loss)(z, labels, *queue, weights=weights), expected)
    for name, value in {**options, **own}.items():
        assert f"{name}={value!r}" in repr(loss)


def test_modules_of_other_shapes():
    z = torch.randn(6, 2, 5)
    assert torch.equal(sincere.InfoNCELoss()(z), SF.infonce(z))
    assert torch.equal(sincere.InfoNCELoss()(z[:, 0], z[:, 1]), SF.infonce(z[:, 0], z[:, 1]))
    pairs = torch.rand(6, 6)
    assert torch.equal(sincere.SoftLabelLoss(targets="pairs")(z, pairs), SF.soft_label(z, pairs, targets="pairs"))


def test_learnable_temperature():
    loss = sincere.SINCERELoss(temperature=0.3, learnable_temperature=True, temperature_floor=0.05)
    z, labels = torch.randn(12, 4), torch.arange(12) % 3
    assert loss(z, labels).item() == pytest.approx(SF.sincere(z, labels, temperature=0.3).item(), rel=1e-5)
    optimizer = torch.optim.SGD(loss.parameters(), lr=100.0)
    for _ in range(5):
        optimizer.zero_grad()
        (-loss(z, labels)).backward()  # whichever way it is driven,
        optimizer.step()
        assert loss.temperature.item() >= 0.05  # it stays above the floor
    assert "learned" in repr(loss)
    restored = sincere.SINCERELoss(temperature=0.3, learnable_temperature=True, temperature_floor=0.05)
    restored.load_state_dict(loss.state_dict())
    assert torch.equal(restored(z, labels), loss(z, labels))


def test_signatures_show_every_option():
    assert set(LossOptions.__annotations__) == set(DEFAULTS)
    for name in SF.__all__:
        parameters = inspect.signature(getattr(SF, name)).parameters
        assert set(DEFAULTS) <= set(parameters)
        assert all(parameters[option].default == default for option, default in DEFAULTS.items())


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("case", LOSSES, ids=repr)
def test_cuda_agrees_with_the_cpu(case, backend):
    z, labels, _ = rows_of(case, torch.randn(300, 16, dtype=torch.float64), torch.arange(300) // 2 % 7)
    for temperature in (0.1, 0.01):
        on_cpu = value_and_gradient(case.call, z, labels, temperature=temperature)
        on_gpu = value_and_gradient(case.call, z.cuda(), labels.cuda(), temperature=temperature, backend=backend)
        for a, b in zip(on_gpu, on_cpu, strict=True):
            torch.testing.assert_close(a.cpu(), b, rtol=1e-9, atol=1e-12)


def test_similarity_of_the_callers_own_in_half_precision():
    z = torch.randn(24, 5)
    for dtype in (torch.bfloat16, torch.float16):
        rounded = (z @ z.T).to(dtype)
        loss = SF.sincere(z, LABELS, similarity=lambda a, c, s=rounded: s)
        torch.testing.assert_close(loss, SF.sincere(z, LABELS, similarity=lambda a, c, s=rounded: s.float()))


@pytest.mark.parametrize("case", LOSSES, ids=repr)
def test_a_temperature_of_any_shape_and_type_changes_nothing_but_the_scale(case):
    z, labels, _ = rows_of(case, torch.randn(24, 5), LABELS)
    expected = case.call(z, labels, temperature=0.2, reduction="none")
    for temperature in (torch.full((1, 1), 0.2, dtype=torch.float64), torch.full((1,), 0.2), torch.tensor(0.2)):
        torch.testing.assert_close(case.call(z, labels, temperature=temperature, reduction="none"), expected)


@pytest.mark.parametrize("backend", ["auto", *BACKENDS])
@pytest.mark.parametrize("loss", [SF.sincere, SF.supcon, SF.spread, SF.set_nce], ids=lambda loss: loss.__name__)
def test_tensors_without_values_give_shapes(loss, backend):
    z = torch.empty(30, 2, 4, device="meta", requires_grad=True)
    value = loss(z, torch.empty(30, dtype=torch.int64, device="meta"), backend=backend)
    value.backward()
    assert value.shape == ()
    assert z.grad.shape == z.shape
