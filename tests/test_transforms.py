"""The losses under torch.func: grad, vmap, jacrev, jvp and what is made of them, by every backend."""

import pytest
import torch

import sincere.functional as SF
from loss_table import LOSSES, rows_of
from sincere.losses.backends import select

LABELS = torch.arange(12) // 2 % 3
EACH_LOSS = pytest.mark.parametrize("case", LOSSES, ids=repr)
# torch's own, of its first dual tensor
NO_WARNING_OF_TORCH = pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated")


@pytest.fixture(params=["tiled", "auto"])
def backend(request, monkeypatch):
    """The tiled backend, asked for or chosen."""
    monkeypatch.setattr(select, "SMALL_ON_CPU", 4)
    return request.param


def batch(case, *leading):
    z = torch.randn(*leading, 12, 5, dtype=torch.float64)
    if not leading:
        return rows_of(case, z, LABELS)[:2]
    shaped = [rows_of(case, rows, LABELS)[:2] for rows in z]
    return torch.stack([rows for rows, _ in shaped]), shaped[0][1]


def gradient_of(call, z):
    z = z.clone().requires_grad_()
    return torch.autograd.grad(call(z), z)[0]


@EACH_LOSS
def test_grad_and_vmap(case, backend):
    z, labels = batch(case, 3)

    def loss(rows):
        return case.call(rows, labels, backend=backend)

    def truth(rows):
        return case.call(rows, labels, backend="dense")

    expected = torch.stack([gradient_of(truth, rows) for rows in z])
    torch.testing.assert_close(torch.func.grad(loss)(z[0]), expected[0], rtol=1e-9, atol=1e-11)
    torch.testing.assert_close(torch.func.vmap(torch.func.grad(loss))(z), expected, rtol=1e-9, atol=1e-11)
    torch.testing.assert_close(torch.func.vmap(loss)(z), torch.stack([truth(rows) for rows in z]))


@EACH_LOSS
def test_a_jacobian_of_all_anchors(case, backend):
    z, labels = batch(case)

    def losses(rows, backend=backend):
        return case.call(rows, labels, backend=backend, reduction="none").flatten()

    found = torch.func.jacrev(losses)(z)
    expected = torch.stack([gradient_of(lambda rows, at=at: losses(rows, "dense")[at], z) for at in range(12)])
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-11)


@pytest.mark.filterwarnings("ignore:There is a performance drop")  # torch's own, of operators that it batches itself
@EACH_LOSS
def test_gradients_of_all_anchors_at_once(case, backend):
    z, labels = batch(case)
    z.requires_grad_()
    losses = case.call(z, labels, backend=backend, reduction="none").flatten()
    (found,) = torch.autograd.grad(losses, z, torch.eye(12, dtype=z.dtype), is_grads_batched=True, retain_graph=True)
    expected = torch.stack([torch.autograd.grad(loss, z, retain_graph=True)[0] for loss in losses])
    torch.testing.assert_close(found, expected)


def test_contrasts_labels_and_temperature_may_be_the_batched_ones(backend):
    z, c, labels = torch.randn(2, 6, 4), torch.randn(2, 9, 4), torch.randint(3, (2, 6))
    contrast_labels, temperature = torch.arange(9) % 3, torch.tensor([0.1, 0.4])

    def loss(z, labels, c, temperature, backend=backend):
        return SF.supcon(z, labels, c, contrast_labels, temperature=temperature, backend=backend)

    of_both = torch.func.grad(loss, argnums=(0, 2, 3))
    found = torch.func.vmap(of_both)(z, labels, c, temperature)
    for at in range(2):
        given = [tensor[at].clone().requires_grad_() for tensor in (z, c, temperature)]
        value = loss(given[0], labels[at], given[1], given[2], backend="dense")
        for got, want in zip(found, torch.autograd.grad(value, given), strict=True):
            torch.testing.assert_close(got[at], want, rtol=1e-4, atol=1e-5)


@NO_WARNING_OF_TORCH
@EACH_LOSS
def test_auto_takes_the_backend_that_has_the_derivative(case, monkeypatch):
    """Forward mode, a second derivative, and a Hessian times a vector, which is the one of the other."""
    monkeypatch.setattr(select, "SMALL_ON_CPU", 4)
    z, labels = batch(case)
    direction = torch.randn_like(z)

    def loss(rows, backend="auto"):
        return case.call(rows, labels, backend=backend, temperature=0.5)

    def slope(rows):
        return (gradient_of(lambda x: loss(x, "dense"), rows) * direction).sum()

    _, forward = torch.func.jvp(loss, (z,), (direction,))
    torch.testing.assert_close(forward, slope(z), rtol=1e-9, atol=1e-11)
    _, product = torch.func.jvp(torch.func.grad(loss), (z,), (direction,))
    twice = torch.func.grad(lambda rows: (torch.func.grad(loss)(rows) * direction).sum())(z)
    step = 1e-5
    difference = (
        gradient_of(lambda x: loss(x, "dense"), z + step * direction)
        - gradient_of(lambda x: loss(x, "dense"), z - step * direction)
    ) / (2 * step)
    torch.testing.assert_close(product, difference, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(twice, difference, rtol=1e-5, atol=1e-6)


@NO_WARNING_OF_TORCH
@pytest.mark.filterwarnings("ignore:Attempted to insert a get_attr Node")  # torch's own, of constants in its graph
@EACH_LOSS
def test_a_linearised_loss(case):
    """Traced once, at one point; then a tangent in any direction."""
    z, labels = batch(case)
    value, tangent = torch.func.linearize(lambda rows: case.call(rows, labels), z)
    torch.testing.assert_close(value, case.call(z, labels, backend="dense"))
    gradient = gradient_of(lambda rows: case.call(rows, labels, backend="dense"), z)
    for direction in torch.randn(2, *z.shape, dtype=z.dtype):
        torch.testing.assert_close(tangent(direction), (gradient * direction).sum(), rtol=1e-9, atol=1e-11)


@NO_WARNING_OF_TORCH
@pytest.mark.filterwarnings("ignore:Attempted to insert a get_attr Node")
def test_a_linearised_set_loss_says_what_must_hold():
    """A trace cannot look at labels to choose a method: beyond 64 contrasts it must be named."""
    z, labels = torch.randn(65, 5, dtype=torch.float64), torch.arange(65) % 7
    with pytest.raises(RuntimeError, match=r'forward mode.*linearize.*backend="dense" and method="exact"'):
        torch.func.linearize(lambda rows: SF.set_nce(rows, labels), z)
    with pytest.raises(RuntimeError, match=r'forward mode.*backend="dense" and method="exact"'):
        torch.func.linearize(lambda rows: SF.set_nce(rows, labels, method="saddle"), z)
    _, tangent = torch.func.linearize(lambda rows: SF.set_nce(rows, labels, method="exact"), z)
    _, expected = torch.func.jvp(lambda rows: SF.set_nce(rows, labels, method="exact"), (z,), (z.flip(0),))
    torch.testing.assert_close(tangent(z.flip(0)), expected, rtol=1e-9, atol=1e-11)


@NO_WARNING_OF_TORCH
@pytest.mark.parametrize("loss", [SF.sincere, SF.set_nce])
def test_what_the_tiled_backend_has_not_is_refused_in_words(loss):
    z = torch.randn(12, 5)

    def value(rows):
        return loss(rows, LABELS, backend="tiled")

    with pytest.raises(RuntimeError, match=r'forward mode.*backend="dense"'):
        torch.func.jvp(value, (z,), (z,))
    with pytest.raises(RuntimeError, match=r'forward mode.*backend="dense"'):
        torch.func.jvp(torch.func.grad(value), (z,), (z,))
    with pytest.raises(RuntimeError, match=r'second derivative.*backend="dense"'):
        torch.func.grad(lambda rows: torch.func.grad(value)(rows).square().sum())(z)
    with torch.autograd.forward_ad.dual_level(), pytest.raises(RuntimeError, match='Pass backend="dense"'):
        value(torch.autograd.forward_ad.make_dual(z, z))


@pytest.mark.parametrize("similarity", ["cosine", lambda a, c: a @ c.T], ids=["cosine", "own"])
@pytest.mark.parametrize("method", ["exact", "saddle"])
def test_the_set_loss_in_one_matrix(method, similarity):
    z = torch.randn(3, 12, 5, dtype=torch.float64)

    def loss(rows, backend="dense" if similarity == "cosine" else "auto"):
        return SF.set_nce(rows, LABELS, method=method, similarity=similarity, backend=backend)

    expected = torch.stack([gradient_of(loss, rows) for rows in z])
    torch.testing.assert_close(torch.func.vmap(torch.func.grad(loss))(z), expected, rtol=1e-9, atol=1e-11)
    torch.testing.assert_close(torch.func.vmap(loss)(z), torch.stack([loss(rows) for rows in z]))


@pytest.mark.parametrize("loss", [SF.sincere, SF.supcon])
def test_kernels(loss):
    """Fused kernels know plain tensors alone: under a transform the general way takes over."""
    z = torch.randn(2, 12, 5)
    if torch.cuda.is_available():
        z = z.cuda()
    labels = LABELS.to(z.device)

    def value(rows, backend="triton"):
        return loss(rows, labels, backend=backend)

    expected = torch.stack([gradient_of(lambda x: value(x, "dense"), rows) for rows in z])
    torch.testing.assert_close(torch.func.vmap(torch.func.grad(value))(z), expected, rtol=1e-3, atol=1e-4)


SIZES = {"few contrasts": (6, 3), "more than 64": (70, 2)}


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("how", [{"backend": "dense"}, {"similarity": lambda a, c: a @ c.T}], ids=["dense", "own"])
def test_a_set_loss_of_many_label_sets_at_once(how, size):
    """vmap over labels too: how many positives there are at most is not to be looked at."""
    rows, classes = SIZES[size]
    generator = torch.Generator().manual_seed(0)
    z = torch.randn(3, rows, 4, dtype=torch.float64, generator=generator)
    labels = torch.stack([torch.randperm(rows, generator=generator) % classes for _ in range(3)])
    method = "exact" if rows <= 64 else "saddle"
    expected = torch.stack([SF.set_nce(a, b, method=method, **how) for a, b in zip(z, labels, strict=True)])
    torch.testing.assert_close(torch.func.vmap(lambda a, b: SF.set_nce(a, b, **how))(z, labels), expected)


def test_second_derivatives_of_a_set_loss_of_many_label_sets():
    z, labels = torch.randn(3, 6, 4, dtype=torch.float64), torch.tensor([[0, 0, 1, 1, 2, 2]] * 3)
    found = torch.func.vmap(torch.func.hessian(lambda a, b: SF.set_nce(a, b)))(z, labels)
    expected = [torch.func.hessian(lambda a, b=b: SF.set_nce(a, b))(a) for a, b in zip(z, labels, strict=True)]
    torch.testing.assert_close(found, torch.stack(expected))
