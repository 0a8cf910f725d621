"""On a CUDA device: the property suite, accuracy in every precision, memory, training, reproducibility, CUDA graphs.

Without one it skips; SINCERE_TRY_GPU_TESTS=1 runs what Triton's interpreter can run, on small batches (minutes). On a
GPU most of the time goes to compiling kernels, so processes that share the work by `-k` share the wait.
"""

import math
import os
from dataclasses import replace

import pytest
import torch

import sincere.functional as SF
from kernel_results import CUDA, DEVICE, KERNEL_LOSSES, assert_close
from loss_table import rows_of
from places import Place
from sincere.losses.similarity import unit_rows

if not CUDA and os.environ.get("SINCERE_TRY_GPU_TESTS") != "1":
    pytest.skip("needs a CUDA device", allow_module_level=True)
pytest.importorskip("triton")
# Collected here once more, with the `place` below.
from test_properties import (  # noqa: F401
    TestGoldenNumbers,
    TestIdentities,
    TestKnownValues,
    TestSymmetries,
    test_edge_batches_are_finite,
)

pytestmark = [pytest.mark.gpu, pytest.mark.filterwarnings("ignore::RuntimeWarning")]  # numpy's, in the interpreter
on_cuda_alone = pytest.mark.skipif(not CUDA, reason="needs a CUDA device")
ROUNDING = torch.finfo(torch.float32).eps
# Reductions do not know which loss they reduce: all of them for one loss, so that fewer kernels are compiled.
ON_DEVICE = Place("auto", DEVICE, torch.float32, 2e-6 / 0.1, ("mean",), (torch.float32,))


@pytest.fixture(params=["auto", "triton"])
def place(request):
    case = request.node.callspec.params.get("case")
    here = replace(ON_DEVICE, backend=request.param)
    if case is not None and not here.takes(case):
        pytest.skip("this loss has no kernels")
    return replace(here, reductions=Place("").reductions) if case is not None and case.name == "sincere" else here


@pytest.fixture
def matmul_precision():
    """Sets it for one test."""
    before = torch.get_float32_matmul_precision()
    yield torch.set_float32_matmul_precision
    torch.set_float32_matmul_precision(before)


def value_and_gradient(call, z, *args, **options):
    z = z.detach().clone().requires_grad_()
    loss = call(z, *args, **options)
    return loss.detach(), torch.autograd.grad(loss, z)[0]


N, D = (500, 48) if CUDA else (60, 20)
CLASSES = torch.arange(N) // 2 % 5


def batches():
    """Rows (n, d) by name; neighbours are of one class, so that they can serve as views."""
    centres, direction = torch.randn(5, D), torch.randn(D)
    sides = torch.where(CLASSES > 1, 1.0, -1.0).unsqueeze(1)
    hard = centres[CLASSES] + 0.1 * torch.randn(N, D)
    hard[2] = hard[0] + 0.01 * torch.randn(D)  # a member of class 1 in the midst of class 0
    return {
        "random": torch.randn(N, D),
        "clustered": centres[CLASSES] + 0.3 * torch.randn(N, D),
        "collapsed": centres[CLASSES] + 0.02 * torch.randn(N, D),
        "nearly equal": direction + 1e-3 * torch.randn(N, D),
        "antipodal": sides * direction + 0.05 * torch.randn(N, D),
        "hard negative": hard,
    }


def rounded_rows(z, dtype, temperature):
    """Unit rows rounded as the kernels round them: times √(log₂e/τ). The gradient passes as if nothing had been."""
    unit, scale = unit_rows(z), math.sqrt(math.log2(math.e) / temperature)
    return unit + ((unit * scale).to(dtype).to(z.dtype) / scale - unit).detach()


# Precision of the embeddings, of the products, and torch's setting. TF32 is float16 where rows are normalised.
PRECISIONS = {
    "bfloat16": (torch.bfloat16, torch.bfloat16, "highest"),
    "float16": (torch.float16, torch.float16, "highest"),
    "float32": (torch.float32, None, "highest"),
    "tf32": (torch.float32, torch.float16, "high"),
}


def dense_in(products, case, z, labels, temperature):
    """The same computation without tiles: dense in float32, from rows that are rounded as for the products."""
    if products is None:
        return value_and_gradient(case.call, z, labels, temperature=temperature, backend="dense")

    def of_rounded(z, labels):
        rows = rounded_rows(z, products, temperature)
        return case.call(rows, labels, temperature=temperature, similarity="dot", backend="dense")

    value, gradient = value_and_gradient(of_rounded, z.float(), labels)
    return value, gradient.to(z.dtype)


def slacks(case, products, z, temperature, value, gradient):
    """How much further from the truth than dense a value and a gradient may be.

    Four rounding errors of the largest logit; for a gradient also four of what all anchors could pull with together
    (pairs cancel, rounding errors do not), and one in the products' precision, to which ∂L/∂s of a pair is rounded.
    The spread loss computes its own views' logits apart, so that one rounding error of the products does not cancel.
    """
    anchors = z.numel() / z.shape[-1]
    force = (2 / temperature / anchors / z.double().norm(dim=-1)).norm()
    pairs = 0 if products is None else torch.finfo(products).eps / 2
    logits, apart = 4 * ROUNDING / temperature, pairs if case.needs_views else 0
    return (
        logits * (1 + value.abs()) + apart / temperature,
        (logits + pairs) * gradient.norm() + (4 * ROUNDING + apart) * force,
    )


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("case", KERNEL_LOSSES, ids=repr)
def test_as_close_to_float64_as_dense(case, precision, matmul_precision):
    """Twice the error of dense in the same precision, plus `slacks`: house rule for every kernel."""
    dtype, products, setting = PRECISIONS[precision]
    if case.needs_views and dtype != torch.float32:
        products = None  # the spread loss computes half precision in float32
    too_far = []
    for name, rows in batches().items():
        z, labels, _ = rows_of(case, rows.to(DEVICE, dtype), CLASSES.to(DEVICE))
        for temperature in (0.01, 0.1, 1.0):
            truth = value_and_gradient(case.call, z.double(), labels, temperature=temperature, backend="dense")
            dense = dense_in(products, case, z, labels, temperature)
            matmul_precision(setting)
            candidate = value_and_gradient(case.call, z, labels, temperature=temperature, backend="triton")
            matmul_precision("highest")
            slack = slacks(case, products, z, temperature, *truth)
            for what, got, plain, true, more in zip(("value", "gradient"), candidate, dense, truth, slack, strict=True):
                error, allowed = ((other.double() - true).norm().item() for other in (got, plain))
                if not error <= 2 * allowed + more.item():
                    too_far.append(f"{name}, τ = {temperature}, {what}: {error:.3g} > 2 · {allowed:.3g} + {more:.3g}")
    assert not too_far, "\n".join(too_far)


@on_cuda_alone
def test_tf32_of_plain_dot_products(matmul_precision):
    """TF32 has 10 bits, and so has dense with the same setting; the slack is one rounding error."""
    labels = CLASSES.cuda()
    for case in KERNEL_LOSSES[:2]:
        z = unit_rows(torch.randn(N, D)).cuda()
        options = {"temperature": 0.1, "similarity": "dot"}
        truth = value_and_gradient(case.call, z.double(), labels, backend="dense", **options)
        matmul_precision("high")
        candidate = value_and_gradient(case.call, z, labels, backend="triton", **options)
        dense = value_and_gradient(case.call, z, labels, backend="dense", **options)
        for got, plain, true in zip(candidate, dense, truth, strict=True):
            assert (got - true).norm() <= 2 * (plain - true).norm() + 2**-10 * true.norm()


@on_cuda_alone
def test_heavy_weights_where_products_are_in_float16(matmul_precision):
    """Weights of a hundred times 4,096 leave float16's range; with them TF32 is TF32."""
    z, labels, weights = torch.randn(N, D).cuda(), CLASSES.cuda(), 100 * (1 + torch.rand(N).cuda())
    truth = value_and_gradient(SF.sincere, z.double(), labels, weights=weights, backend="dense")
    matmul_precision("high")
    assert_close(value_and_gradient(SF.sincere, z, labels, weights=weights, backend="triton"), truth, 4e-3)


# Every way of ordering rows, and every tile that half precision has, at sizes that choose them; 9,000 rows are more
# chunks than are searched at a time.
SIZES = (2000, 2500, 9000, 33000) if CUDA else (50,)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize(("dtype", "slack"), [(torch.float32, 2e-5), (torch.bfloat16, 1e-2), (torch.float16, 4e-3)])
def test_large_batches(n, dtype, slack):
    """Against float64 by tiles, whose memory is linear too; tolerances as in test_triton.py.

    A mean over 33,000 anchors has gradients below what float16 can hold: the loss is scaled, as by a GradScaler.
    """
    z, labels = torch.randn(n, 40).to(DEVICE, dtype), torch.randint(-1, 30, (n,)).to(DEVICE)
    scale = 4096 if dtype == torch.float16 else 1
    for loss in (SF.sincere, SF.supcon) if dtype == torch.bfloat16 else (SF.sincere,):

        def call(*given, loss=loss, **options):
            return scale * loss(*given, **options)

        truth = value_and_gradient(call, z.double(), labels, backend="tiled")
        assert_close(value_and_gradient(call, z, labels, backend="triton"), truth, slack)


def test_float16_by_way_of_the_statistics():
    """Gradients of some 1/n² per pair, which float16 does not resolve, travel over their largest part."""
    z, labels = torch.randn(SIZES[0], 40).to(DEVICE).half(), torch.randint(-1, 30, (SIZES[0],)).to(DEVICE)

    def call(*given, **options):
        return 4096 * SF.sincere(*given, reduction="class_mean", **options)

    truth = value_and_gradient(call, z.double(), labels, backend="tiled")
    assert_close(value_and_gradient(call, z, labels, backend="triton"), truth, 4e-3)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_two_runs_are_identical(n, dtype):
    z, labels = torch.randn(n, 40).to(DEVICE, dtype), torch.randint(-1, 30, (n,)).to(DEVICE)
    for reduction in ("mean", "none", "class_mean"):

        def call(z, reduction=reduction):
            return SF.sincere(z, labels, backend="triton", reduction=reduction).sum()

        first, second = value_and_gradient(call, z), value_and_gradient(call, z)
        assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


def loss_curve(backend, dtype, steps, n=256 if CUDA else 40):
    """A small network on synthetic clusters, from the same start and with the same batches every time."""
    torch.manual_seed(1)
    centres = torch.randn(8, 16)
    network = torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.ReLU(), torch.nn.Linear(64, 24)).to(DEVICE)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1, momentum=0.9)
    losses = []
    for _ in range(steps):
        labels = torch.randint(0, 8, (n,))
        images = (centres[labels] + 0.7 * torch.randn(n, 16)).to(DEVICE)
        loss = SF.sincere(network(images).to(dtype), labels.to(DEVICE), backend=backend)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return torch.stack(losses)


@pytest.mark.parametrize(("dtype", "slack"), [(torch.float32, 1e-4), (torch.bfloat16, 2e-2)])
def test_training_goes_the_same_way(dtype, slack):
    """In half precision unit rows are rounded: without kernels that moves this curve by 0.4 % (other seeds: 0.6 %)."""
    steps = 60 if CUDA else 12
    kernels, dense = loss_curve("triton", dtype, steps), loss_curve("dense", dtype, steps)
    assert ((kernels - dense).abs() <= slack * dense).all()
    assert dense[-5:].mean() < 0.7 * dense[0]


def peak_memory(call, n):
    """Bytes beyond the input that a step needs, its gradient included."""
    z = torch.randn(n, 128, device="cuda", dtype=torch.bfloat16)
    labels = torch.randint(0, 10, (n,), device="cuda")

    def step():
        torch.autograd.grad(call(z.requires_grad_(), labels), z)
        torch.cuda.synchronize()

    step()  # compiles
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    step()
    return torch.cuda.max_memory_allocated() - before


@on_cuda_alone
@pytest.mark.parametrize("reduction", ["mean", "class_mean"])
def test_memory_is_linear(reduction):
    def call(z, labels):
        return SF.sincere(z, labels, reduction=reduction, backend="triton")

    few, many = peak_memory(call, 16384), peak_memory(call, 65536)
    assert many < 4.4 * few
    if reduction == "mean":  # the other takes the general path, whose statistics are in float32
        assert many < 128 * 2**20


@on_cuda_alone
@pytest.mark.parametrize("n", [1000, 4000])
def test_cuda_graph(n):
    """A captured step replays the eager one, on the numbers that stand in its input then."""
    labels = torch.randint(0, 10, (n,), device="cuda")
    static = torch.randn(n, 64, device="cuda").bfloat16().requires_grad_()

    def step(z):
        loss = SF.sincere(z, labels)
        return loss.detach(), torch.autograd.grad(loss, z)[0]

    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            step(static)
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = step(static)
    for _ in range(2):
        rows = torch.randn(n, 64, device="cuda").bfloat16()
        with torch.no_grad():
            static.copy_(rows)
        graph.replay()
        torch.cuda.synchronize()
        expected = step(rows.requires_grad_())
        assert all(torch.equal(a, b) for a, b in zip(captured, expected, strict=True))
