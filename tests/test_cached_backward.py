"""cached_backward: the gradient of the whole batch, whatever the chunks."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

import sincere.functional as SF
from sincere import SINCERELoss, cached_backward
from sincere.errors import InputError, OptionError
from sincere.losses.cached_backward import _RandomState

LABELS = torch.arange(17) % 4


def gradients(module):
    return [parameter.grad.clone() for parameter in module.parameters()]


@pytest.mark.parametrize("chunk_size", [1, 5, 17, 100])
def test_equals_the_whole_batch_with_dropout_replayed(chunk_size):
    encoder = nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.Dropout(0.3), nn.LayerNorm(8), nn.Linear(8, 4)).double()
    inputs = torch.randn(17, 6, dtype=torch.float64)
    torch.manual_seed(1)
    chunks = [encoder(part) for part in inputs.split(chunk_size)]  # draws noise in the same order as the chunks
    loss = SF.sincere(torch.cat(chunks), LABELS)
    loss.backward()
    expected, noise_after = gradients(encoder), torch.rand(3)
    encoder.zero_grad()
    torch.manual_seed(1)
    value = cached_backward(encoder, inputs, lambda z: SF.sincere(z, LABELS), chunk_size=chunk_size)
    assert value.item() == pytest.approx(loss.item(), rel=1e-12)
    assert not value.requires_grad
    for got, want in zip(gradients(encoder), expected, strict=True):
        torch.testing.assert_close(got, want, rtol=1e-10, atol=1e-12)
    assert torch.equal(torch.rand(3), noise_after)  # and leaves the generator where one pass would


def test_noise_of_the_loss_is_drawn_once():
    """And the generator is left behind it, though the encoder's noise was replayed since."""
    encoder, inputs = nn.Sequential(nn.Linear(6, 4), nn.Dropout(0.3)), torch.randn(17, 6)

    def loss(z):
        return SF.sincere(z + 0.1 * torch.randn(17, 4), LABELS)

    torch.manual_seed(1)
    expected = loss(torch.cat([encoder(part) for part in inputs.split(5)])).item()
    noise_after = torch.rand(3)
    torch.manual_seed(1)
    value = cached_backward(encoder, inputs, loss, chunk_size=5)
    assert value.item() == pytest.approx(expected, rel=1e-5)
    assert torch.equal(torch.rand(3), noise_after)


def test_it_computes_gradients_where_they_are_switched_off():
    encoder, x = nn.Linear(3, 2), torch.randn(17, 3)
    cached_backward(encoder, x, lambda z: SF.sincere(z, LABELS), chunk_size=np.int64(4))
    expected, _ = gradients(encoder)
    encoder.zero_grad()
    with torch.no_grad():
        cached_backward(encoder, x, lambda z: SF.sincere(z, LABELS), chunk_size=4)
    assert torch.equal(encoder.weight.grad, expected)


class Exact(nn.Linear):
    def forward(self, x):
        with torch.autocast("cpu", enabled=False):
            return super().forward(x.float())


@pytest.mark.parametrize("last", [nn.Linear, Exact])
def test_autocast_around_it_does_not_lower_the_precision_of_the_loss(last):
    """Autocast is on while it runs, backward passes and all; in one chunk it is the same computation."""
    encoder, inputs = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), last(8, 4)), torch.randn(17, 6)

    def loss(z):
        return SF.sincere(z, LABELS, backend="dense")

    with torch.autocast("cpu", torch.bfloat16):
        value = loss(encoder(inputs))
    value.backward()
    expected = gradients(encoder)
    encoder.zero_grad()
    with torch.autocast("cpu", torch.bfloat16):
        cached = cached_backward(encoder, inputs, loss, chunk_size=17)
    assert cached.item() == value.item()
    for got, want in zip(gradients(encoder), expected, strict=True):
        assert torch.equal(got, want)


@pytest.mark.parametrize("views_in_rows", [1, 2])
def test_an_encoder_that_gives_another_number_of_rows_is_refused_before_the_loss(views_in_rows):
    linear = nn.Linear(3, 2)

    class Stacked(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = linear

        def forward(self, x):
            return self.linear(x).repeat(2, 1) if views_in_rows == 2 else self.linear(x).mean(dim=0, keepdim=True)

    loss = SINCERELoss(learnable_temperature=True)
    with pytest.raises(InputError, match=r"one embedding per sample.*expected 5 rows"):
        cached_backward(Stacked(), torch.randn(17, 3), lambda z: loss(z, LABELS), chunk_size=5)
    assert linear.weight.grad is None
    assert loss.log_temperature.grad is None


class Returns(nn.Module):
    def __init__(self, output):
        super().__init__()
        self.output = output

    def forward(self, *inputs):
        return self.output


@pytest.mark.parametrize(
    ("encoder", "inputs", "message"),
    [
        (nn.Linear(3, 2), [torch.ones(5, 3), torch.ones(4, 3)], r"same number of samples in each tensor: got \[5, 4\]"),
        (nn.Linear(3, 2), torch.tensor(1.0), "tensors whose first dimension is the batch"),
        (nn.Linear(3, 2), [torch.tensor(1.0)], "tensors whose first dimension is the batch"),
        (nn.Linear(3, 2), [], "tensors whose first dimension is the batch"),
        (Returns((torch.ones(5, 2),)), torch.ones(5, 3), "must return embeddings, a tensor: got tuple"),
        (Returns(torch.tensor(1.0)), torch.ones(5, 3), r"expected 5 rows for a chunk of 5 samples, got \(\)"),
    ],
)
def test_what_is_no_batch_and_what_are_no_embeddings(encoder, inputs, message):
    with pytest.raises(InputError, match=message):
        cached_backward(encoder, inputs, lambda z: z.sum(), chunk_size=5)


@pytest.mark.parametrize("chunk_size", [0, 2.5, "4", True])
def test_chunk_size_is_a_whole_number(chunk_size):
    with pytest.raises(OptionError, match="chunk_size must be an integer, at least 1"):
        cached_backward(nn.Linear(3, 2), torch.randn(17, 3), lambda z: SF.sincere(z, LABELS), chunk_size=chunk_size)


def test_gradients_add_up_and_reach_the_loss():
    encoder, loss = nn.Linear(3, 2), SINCERELoss(learnable_temperature=True)
    x = torch.randn(17, 3)
    for _ in range(2):
        cached_backward(encoder, x, lambda z: loss(z, LABELS), chunk_size=4)
    twice, temperature = encoder.weight.grad.clone(), loss.log_temperature.grad.clone()
    encoder.zero_grad()
    loss.zero_grad()
    loss(encoder(x), LABELS).backward()
    torch.testing.assert_close(twice, 2 * encoder.weight.grad, rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(temperature, 2 * loss.log_temperature.grad, rtol=1e-4, atol=1e-6)


def test_a_scaler_scales_the_gradient_and_not_the_value():
    encoder, x = nn.Linear(3, 2).double(), torch.randn(17, 3, dtype=torch.float64)
    value = cached_backward(encoder, x, lambda z: SF.sincere(z, LABELS), chunk_size=4)
    plain = gradients(encoder)
    encoder.zero_grad()
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    scaled_value = cached_backward(encoder, x, lambda z: SF.sincere(z, LABELS), chunk_size=4, scaler=scaler)
    assert scaled_value.item() == value.item()
    for got, want in zip(gradients(encoder), plain, strict=True):
        torch.testing.assert_close(got, 1024 * want)


def test_views_and_several_inputs():
    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(3, 2), nn.Linear(4, 2)

        def forward(self, left, right):
            return torch.stack([self.a(left), self.b(right)], dim=1)

    encoder = Two().double()
    left, right = torch.randn(17, 3, dtype=torch.float64), torch.randn(17, 4, dtype=torch.float64)
    SF.spread(encoder(left, right), LABELS).backward()
    expected = gradients(encoder)
    for inputs in ((left, right), [left, right], {"left": left, "right": right}):
        encoder.zero_grad()
        cached_backward(encoder, inputs, lambda z: SF.spread(z, LABELS), chunk_size=6)
        for got, want in zip(gradients(encoder), expected, strict=True):
            torch.testing.assert_close(got, want, rtol=1e-10, atol=1e-12)


def test_running_statistics_move_once_per_chunk():
    x = torch.randn(16, 3)
    once, cached = nn.BatchNorm1d(3), nn.BatchNorm1d(3)
    for part in x.split(8):
        once(part)
    cached_backward(cached, x, lambda z: SF.sincere(z, LABELS[:16]), chunk_size=8)
    torch.testing.assert_close(cached.running_mean, once.running_mean)
    torch.testing.assert_close(cached.running_var, once.running_var)
    assert cached.num_batches_tracked == 2


def test_a_failing_encoder_leaves_running_statistics_alone():
    class Failing(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm, self.calls = nn.BatchNorm1d(3), 0

        def forward(self, x):
            self.calls += 1
            if self.calls == 2:
                raise ValueError("the second chunk")
            return self.norm(x)

    encoder = Failing()
    with pytest.raises(ValueError, match="the second chunk"):
        cached_backward(encoder, torch.randn(16, 3), lambda z: SF.sincere(z, LABELS[:16]), chunk_size=8)
    assert encoder.norm.num_batches_tracked == 0
    assert not encoder.norm.running_mean.any()


class Frozen(nn.Module):
    """A frozen encoder with running statistics."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(3, 5), nn.BatchNorm1d(5), nn.Tanh()).double().requires_grad_(False)

    def forward(self, x):
        return self.layers(x)


@pytest.mark.parametrize("chunk_size", [5, 17])
@pytest.mark.parametrize("where", ["in the loss", "in the encoder"])
def test_a_head_on_a_frozen_encoder(where, chunk_size):
    frozen, head, x = Frozen(), nn.Linear(5, 4).double(), torch.randn(17, 3, dtype=torch.float64)
    features = torch.cat([frozen(part) for part in x.split(chunk_size)])
    moved = {name: value.clone() for name, value in frozen.named_buffers()}
    expected = SF.sincere(head(features), LABELS)
    expected.backward()
    want = gradients(head)
    head.zero_grad()
    frozen.layers[1].reset_running_stats()
    if where == "in the loss":
        value = cached_backward(frozen, x, lambda z: SF.sincere(head(z), LABELS), chunk_size=chunk_size)
    else:
        whole = nn.Sequential(frozen, head)
        value = cached_backward(whole, x, lambda z: SF.sincere(z, LABELS), chunk_size=chunk_size)
    assert value.item() == pytest.approx(expected.item(), rel=1e-12)
    for got, wanted in zip(gradients(head), want, strict=True):
        torch.testing.assert_close(got, wanted, rtol=1e-10, atol=1e-12)
    assert all(parameter.grad is None for parameter in frozen.parameters())
    for name, buffer in frozen.named_buffers():
        torch.testing.assert_close(buffer, moved[name])


def test_a_frozen_encoder_with_something_else_to_learn():
    frozen, x = nn.Linear(3, 2).double().requires_grad_(False), torch.randn(17, 3, dtype=torch.float64)
    loss = SINCERELoss(learnable_temperature=True).double()
    cached_backward(frozen, x, lambda z: loss(z, LABELS), chunk_size=4)
    got = loss.log_temperature.grad.clone()
    loss.zero_grad()
    loss(frozen(x), LABELS).backward()
    torch.testing.assert_close(got, loss.log_temperature.grad)
    image = x.clone().requires_grad_()  # what an input should look like
    cached_backward(frozen, image, lambda z: SF.sincere(z, LABELS), chunk_size=4)
    direct = x.clone().requires_grad_()
    SF.sincere(frozen(direct), LABELS).backward()
    torch.testing.assert_close(image.grad, direct.grad)
    scale = nn.Parameter(torch.tensor(3.0))
    cached_backward(frozen, x, lambda z: scale, chunk_size=4)
    assert scale.grad == 1


@pytest.mark.parametrize(
    ("loss", "message"),
    [
        (lambda z: SF.sincere(z, LABELS), "something must need a gradient"),
        (lambda z: SF.sincere(z.detach(), LABELS), "loss must return a number that depends on the embeddings"),
        (lambda z: torch.zeros(()), "loss must return a number that depends on the embeddings"),
    ],
)
def test_nothing_that_needs_a_gradient_is_refused(loss, message):
    with pytest.raises(InputError, match=message):
        cached_backward(nn.Linear(3, 2).requires_grad_(False), torch.randn(17, 3), loss, chunk_size=4)


def test_noise_is_kept_of_the_device_that_the_encoder_moves_its_inputs_to(monkeypatch):
    """Inputs on the CPU, an encoder on a GPU: dropout draws there."""
    asked, given_back = [], []
    monkeypatch.setattr(torch.cuda, "get_rng_state", lambda device: asked.append(device) or f"state of {device}")
    monkeypatch.setattr(torch.cuda, "set_rng_state", lambda state, device: given_back.append((state, device)))
    encoder = SimpleNamespace(
        parameters=lambda: [SimpleNamespace(is_cuda=True, device="cuda:1")],
        buffers=lambda: [SimpleNamespace(is_cuda=on_gpu, device=f"cuda:{2 * on_gpu}") for on_gpu in (False, True)],
    )
    _RandomState(encoder, torch.randn(3, 2)).restore()
    assert sorted(asked) == ["cuda:1", "cuda:2"]
    assert sorted(given_back) == [("state of cuda:1", "cuda:1"), ("state of cuda:2", "cuda:2")]


def test_a_function_is_no_encoder():
    layer = torch.nn.Linear(3, 2)
    with pytest.raises(InputError, match=r"encoder must be an nn\.Module, .*: got function\. For a function, write"):
        cached_backward(lambda rows: layer(rows), torch.ones(4, 3), lambda z: z.sum(), chunk_size=2)


def test_a_loss_in_the_place_of_inputs_is_told_the_order():
    inputs = torch.ones(4, 2)
    with pytest.raises(InputError, match=r"got function\. The order is encoder, inputs, loss\."):
        cached_backward(torch.nn.Linear(2, 2), lambda z: z.sum(), inputs, chunk_size=2)


def test_what_is_no_function_of_embeddings_is_refused():
    with pytest.raises(InputError, match=r"loss must be a function of the embeddings, .* got Tensor\."):
        cached_backward(torch.nn.Linear(2, 2), torch.zeros(4, 2), torch.zeros(()), chunk_size=2)
