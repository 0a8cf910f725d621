"""The set loss of a batch against itself, whole by kernels: by Triton's interpreter where there is no GPU."""

import importlib
import json
import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

import sincere.functional as SF
from kernel_results import DEVICE, assert_close, needs_kernels

triton = pytest.importorskip("triton")
from sincere.losses.backends import row_blocks, triton_set_launch, triton_set_program
from sincere.losses.backends.triton_launch import Launch
from sincere.losses.options import settings_from

pytestmark = [
    needs_kernels,
    pytest.mark.filterwarnings("ignore:(invalid value|divide by zero|overflow) encountered:RuntimeWarning"),  # numpy's
]


@pytest.fixture(autouse=True)
def taken(monkeypatch):
    """One entry a loss that kernels computed whole; programs of other tests are forgotten."""
    calls, loss = [], triton_set_program.loss
    monkeypatch.setattr(triton_set_program, "loss", lambda *arguments: calls.append(1) or loss(*arguments))
    triton_set_program.PROGRAMS.clear()
    yield calls
    triton_set_program.PROGRAMS.clear()


def saddle(z, labels, **options):
    return SF.set_nce(z, labels, method="saddle", **{"backend": "triton", **options})


def results(z, labels, *, learned=False, **options):
    """Value and gradients, for an upstream gradient that is not 1."""
    z = z.detach().clone().requires_grad_()
    inputs = [z]
    if learned:
        number = options.get("temperature", 0.1)
        options["temperature"] = torch.tensor(number, device=DEVICE, dtype=torch.float64, requires_grad=True)
        inputs.append(options["temperature"])
    loss = saddle(z, labels, **options)
    return [loss.detach(), *torch.autograd.grad(loss, inputs, torch.full_like(loss, 3.7))]


def drawn(*shape, classes=3, dtype=torch.float32):
    z, labels = torch.randn(shape, device=DEVICE).to(dtype), torch.randint(0, classes, shape[:1], device=DEVICE)
    labels[::7] = -1
    return z, labels


class Operators(TorchDispatchMode):
    """Every operator of torch, views and allocations included; what a kernel does by itself is not torch's."""

    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
        self.names.append(str(operator))
        return operator(*args, **(kwargs or {}))


def test_few_operators_and_launches(monkeypatch, taken):
    """A GPU waits for them: at n = 1,024 a step of 91 operators took an H200 3.28 ms, 0.17 ms of it on the device."""
    launches, entered, call = [], [], Launch.__call__

    @contextmanager
    def on_device_of(rows):
        entered.append(rows.device.type)
        yield
        entered.pop()

    def launched(self, *arguments):
        launches.append(self.kernel)
        assert entered == [DEVICE], "kernels run on the device of their rows, which need not be the current one"
        with _disable_current_modes():
            call(self, *arguments)

    monkeypatch.setattr(triton_set_program, "on_device_of", on_device_of)
    monkeypatch.setattr(Launch, "__call__", launched)
    z, labels = drawn(9, 4, dtype=torch.bfloat16)
    z.requires_grad_()
    saddle(z, labels)  # what is prepared once is not counted
    launches.clear()
    with Operators() as operators:
        torch.autograd.grad(saddle(z, labels), z)
    assert len(operators.names) <= 14, operators.names  # 13: 6 allocations, 3 products, 2 transposes, 2 of autograd's
    assert len(launches) <= 5
    assert taken == [1, 1]


CASES = {
    "one row": ((1, 1), {}),
    "one class": ((6, 4), {"classes": 1}),
    "cold": ((17, 5), {"temperature": 0.01}),
    "wide": ((9, 300), {"classes": 2}),
    "weights": ((12, 3), {"weighted": True, "reduction": "mean_all"}),
    "views": ((7, 3, 6), {"weighted": True, "reduction": "sum"}),
    "learned": ((14, 5), {"learned": True, "ignored_as_negatives": True}),
    "dot": ((13, 4), {"learned": True, "similarity": "dot", "temperature": 0.7, "ignore_label": 1}),
    "a whole tile and more": ((18, 130), {"reduction": "mean_all", "learned": True}),
    "half precision": ((11, 8), {"dtype": torch.bfloat16}),
    "short labels": ((15, 6), {"label_dtype": torch.int16}),
}


@pytest.mark.parametrize("name", CASES)
def test_agrees_with_float64(name, taken):
    shape, given = CASES[name]
    options = {"temperature": 0.1, **given}
    dtype = options.pop("dtype", torch.float32)
    z, labels = drawn(*shape, classes=options.pop("classes", 3), dtype=dtype)
    labels = labels.to(options.pop("label_dtype", torch.int64))
    if options.pop("weighted", False):
        options["weights"] = torch.rand(labels.shape, device=DEVICE)
    candidate = results(z, labels, **options)
    assert taken == [1]
    truth = results(z.double(), labels, backend="tiled", **options)
    assert candidate[0].dtype == torch.float32
    assert candidate[1].dtype == dtype
    slack = 2e-3 if dtype == torch.bfloat16 else 2e-6 / options["temperature"]  # the gradient is rounded, once
    assert_close(candidate, truth, slack)


def test_strided_input():
    labels = torch.randint(0, 3, (24,), device=DEVICE)[::2]
    weights = torch.rand(24, device=DEVICE)[::2]
    by_columns, cut_out = torch.randn(6, 12, device=DEVICE).T, torch.randn(12, 9, device=DEVICE)[:, 2:8]
    for z in (by_columns, cut_out, cut_out.unflatten(0, (6, 2))):
        few = slice(z.shape[0])
        given = {"weights": weights[few]}
        truth = results(z.double(), labels[few], backend="tiled", **given)
        assert_close(results(z, labels[few], **given), truth, 2e-5)


@pytest.mark.parametrize("way", ["read again", "blocks of rows"])
def test_long_rows_and_large_batches(way, monkeypatch, taken):
    z, labels = drawn(39, 5)
    whole = results(z, labels, learned=True)
    triton_set_program.PROGRAMS.clear()
    changes = {"HELD_UP_TO": 16, "REREAD": 16} if way == "read again" else {"LOGITS_PER_BLOCK": 1}
    for name, number in changes.items():
        monkeypatch.setattr(row_blocks if name == "LOGITS_PER_BLOCK" else triton_set_launch, name, number)
    parts = results(z, labels, learned=True)
    (program,) = triton_set_program.PROGRAMS.values()
    found = len(program.blocks), program.blocks[0].losses.constants["HELD"]
    assert found == ((1, False) if way == "read again" else (3, True))
    assert_close(parts, whole, 1e-6)
    assert taken == [1, 1]


def test_rows_of_every_length():
    """Zeros, and norms that float32 cannot square; gradients grow as norms shrink, so they are compared times them."""
    lengths = torch.tensor([1e-30, 1e-3, 1.0, 1e30, 0.0], device=DEVICE)[torch.arange(20) % 5].unsqueeze(1)
    z, labels = torch.randn(20, 6, device=DEVICE) * lengths, torch.arange(20, device=DEVICE) // 5 % 2
    value, gradient = results(z, labels)
    want, truth = results(z.double(), labels, backend="tiled")
    assert_close([value, gradient.double() * lengths], [want, truth * lengths], 2e-5)
    assert not gradient[4::5].any()


@pytest.mark.parametrize("gap", [6.0, 12.0])
def test_digits_where_the_first_order_cancels(gap):
    """Classes far apart: losses down to e^−12, and a gradient as close to the truth as by anchors and contrasts."""
    labels = torch.arange(24, device=DEVICE) % 3
    z = gap**0.5 * torch.eye(3, device=DEVICE)[labels] + 0.1 * torch.randn(24, 3, device=DEVICE)
    options = {"similarity": "dot", "temperature": 1.0, "reduction": "sum"}
    value, gradient = results(z, labels, **options)
    want, truth = results(z.double(), labels, backend="tiled", **options)
    torch.testing.assert_close(value.double(), want, rtol=1e-4, atol=0)
    assert (gradient.double() - truth).norm() < 2e-5 * truth.norm()


@pytest.mark.parametrize("broken", [float("nan"), float("inf")])
@pytest.mark.parametrize("similarity", ["cosine", "dot"])
def test_what_is_no_number_shows_unless_it_is_ignored(similarity, broken):
    z, labels = torch.randn(12, 5, device=DEVICE), torch.arange(12, device=DEVICE) % 3
    z[3, 2], labels[7] = broken, -1
    truth = results(z, labels, backend="tiled", similarity=similarity)
    candidate = results(z, labels, similarity=similarity)
    assert candidate[0].isnan()
    assert torch.equal(candidate[1].isnan(), truth[1].isnan())
    assert not candidate[1][7].any()
    labels[3] = -1
    kept = labels >= 0
    value, gradient = results(z, labels, similarity=similarity)
    expected = results(z[kept], labels[kept], similarity=similarity)
    assert_close([value, gradient[kept]], expected, 1e-5)
    assert not gradient[~kept].any()


@pytest.mark.parametrize("garbage", [0xFF, 0x71], ids=["nan", "1e30"])
def test_nothing_is_read_before_it_is_written(garbage, monkeypatch):
    z, labels = drawn(15, 6)
    truth, empty, filled = results(z, labels, learned=True), torch.empty, []

    def used_before(*arguments, **options):
        made = empty(*arguments, **options)
        filled.append(made.shape)
        made.reshape(-1).view(torch.uint8).fill_(garbage)
        return made

    monkeypatch.setattr(torch, "empty", used_before)
    for got, want in zip(results(z, labels, learned=True), truth, strict=True):
        assert torch.equal(got, want)
    assert len(filled) == 7


def test_autocast_changes_nothing():
    """The backward pass, too, multiplies in float32 where autocast is on."""
    z, labels = drawn(12, 8)
    expected = results(z, labels)
    with torch.autocast(DEVICE, torch.bfloat16):
        found = results(z, labels)
    assert all(torch.equal(got, want) for got, want in zip(found, expected, strict=True))


def test_backward_twice_and_no_second_derivative():
    z, labels = drawn(9, 5)
    temperature = torch.tensor(0.2, device=DEVICE, requires_grad=True)
    inputs = (z.requires_grad_(), temperature)
    loss = saddle(z, labels, temperature=temperature)
    first = torch.autograd.grad(loss, inputs, retain_graph=True)
    second = torch.autograd.grad(loss, inputs, create_graph=True)
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))
    for gradient in second:
        with pytest.raises(RuntimeError, match=r"differentiated once.*dense"):
            gradient.sum().backward(retain_graph=True)
    many = torch.autograd.grad(loss, z, torch.tensor([1.0, -2.0], device=DEVICE), is_grads_batched=True)[0]
    torch.testing.assert_close(many, torch.stack([first[0], -2 * first[0]]))


@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated")  # torch's own, of its first dual tensor
def test_forward_mode_of_the_temperature_is_refused():
    z, labels = drawn(6, 3)
    with torch.autograd.forward_ad.dual_level():
        warm = torch.autograd.forward_ad.make_dual(torch.tensor(0.1, device=DEVICE), torch.tensor(1.0, device=DEVICE))
        with pytest.raises(RuntimeError, match="forward mode"):
            saddle(z, labels, temperature=warm)


def test_traced_and_fake_tensors_go_the_general_way(taken):
    z, labels = drawn(8, 3)
    traced = make_fx(lambda rows: saddle(rows, labels))(z)
    assert traced(z + 1).item() == pytest.approx(saddle(z + 1, labels).item(), rel=1e-6)
    assert taken == [1]
    with FakeTensorMode():
        rows, classes = torch.empty(8, 3, device=DEVICE, requires_grad=True), torch.zeros(8, device=DEVICE).long()
        assert torch.autograd.grad(saddle(rows, classes), rows)[0].shape == (8, 3)
    assert taken == [1]


@pytest.mark.parametrize(
    "options",
    [{"reduction": "none"}, {"reduction": "class_mean"}, {"similarity": "euclidean"}, {"check_finite": True}],
    ids=str,
)
def test_leaves_the_rest_to_the_general_path(options, taken):
    z, labels = drawn(8, 3)
    truth = results(z.double(), labels, backend="tiled", **options)
    assert_close(results(z, labels, **options), truth, 2e-5)
    assert saddle(z, labels, contrast_embeddings=z[:4], contrast_labels=labels[:4]).isfinite()
    assert saddle(z.double(), labels, backend="auto").isfinite()
    assert not taken


@pytest.mark.parametrize("backend", ["auto", "triton"])
def test_auto_takes_them_where_they_can_run(backend, monkeypatch):
    module = importlib.import_module("sincere.losses.set_nce")
    for can in (False, True):
        monkeypatch.setattr(module, "kernels_take_whole_loss", lambda *arguments, can=can: can)
        assert module._kernels_take_whole(*drawn(70, 3), settings_from({"backend": backend}), "saddle") == can


def test_programs_are_not_mixed_up(monkeypatch):
    """Each call gets what it would get alone, whatever came before; and what never comes again is forgotten."""
    z, labels = drawn(9, 8)
    calls = [
        (z, labels, {}),
        (z, labels, {"temperature": 0.7}),
        (z, labels, {"learned": True}),
        (z[:7, ::2], labels[1:8].int(), {}),
        (z.bfloat16(), labels, {"similarity": "dot"}),
        (z, labels, {"ignored_as_negatives": True, "ignore_label": 1}),
        (z, labels, {"weights": torch.rand(9, device=DEVICE), "reduction": "sum"}),
    ]
    together = [results(*call[:2], **call[2]) for call in calls]
    triton_set_program.PROGRAMS.clear()
    monkeypatch.setattr(triton_set_program, "MOST_PROGRAMS", 1)
    for call, earlier in zip(reversed(calls), reversed(together), strict=True):
        assert all(torch.equal(a, b) for a, b in zip(results(*call[:2], **call[2]), earlier, strict=True))
    assert len(triton_set_program.PROGRAMS) == 1


@pytest.mark.skipif(DEVICE != "cuda", reason="needs a CUDA device")
@pytest.mark.gpu
def test_first_thing_in_a_process():
    """No other kernel has run before, neither in this thread nor in that of the backward pass: no warning of cuBLAS."""
    code = """
import warnings, torch, sincere.functional as SF
warnings.simplefilter("error", UserWarning)
z, labels = torch.eye(100, device="cuda", requires_grad=True), torch.arange(100, device="cuda") % 3
SF.set_nce(z, labels).backward()
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=300)


COMPILE = """
import json, sys, torch, compile_kernels as kernels
from sincere.losses.backends.triton_set_program import Plan, Program

usual, other = Plan("mean", True, 1, -1, False, False, False), Plan("mean_all", False, 1, -1, True, True, True)
found = {}
for n, plan in ((1024, usual), (8192, usual), (65536, usual), (1024, other)):
    kernels.INTEGERS |= {"scale": "*fp32" if plan.learned else "fp32", "x_grad_ptr": "*bf16"}
    program = Program(plan, (n, 128), torch.device("cpu"))
    block = program.blocks[0]
    launches = [block.losses] if plan is usual else []
    launches += [program.prepare, program.reduce, program.give_back] if n == 1024 else []
    launches += [block.pairs] if n == 1024 and plan is usual else []
    for of in launches:
        binary = kernels.compiled(of, torch.float32, torch.bfloat16, int(sys.argv[1])).asm["cubin"]
        found[f"{of.kernel.__name__} of {n}, {plan.reduction}"] = kernels.resources(binary)
print(json.dumps(found))
"""


@pytest.mark.parametrize("capability", [80, 90])
def test_kernels_compile_without_a_gpu(capability, tmp_path):
    if not triton.__version__.startswith("3.9."):
        pytest.skip("registers are known for triton 3.9")
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    environment |= {"TRITON_CACHE_DIR": str(tmp_path), "PYTHONPATH": str(Path(__file__).parent)}
    run = subprocess.run(
        [sys.executable, "-c", COMPILE, str(capability)], capture_output=True, text=True, env=environment, check=False
    )
    assert run.returncode == 0, run.stderr[-2000:]
    found = json.loads(run.stdout)
    assert len(found) == 10
    for name, (registers, stack) in found.items():
        assert (registers <= 128, stack) == (True, 0), (name, registers, stack)
