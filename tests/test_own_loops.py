"""Losses in training loops that others wrote: batches of every size compiled, parameters replaced, a queue."""

import copy

import pytest
import torch
from torch._dynamo.testing import CompileCounter
from torch.func import functional_call

import sincere
from loss_table import LOSSES, rows_of
from sincere.losses.backends.select import SMALL_ON_CPU

SIZES = (64, 48, 14, 200, 600, 90, 500, 1024, 64)  # on both sides of where "auto" begins to compute tiles
assert min(SIZES) ** 2 <= SMALL_ON_CPU < max(SIZES) ** 2


@pytest.mark.filterwarnings("ignore::DeprecationWarning:torch")  # the compiler's own imports
@pytest.mark.parametrize("case", LOSSES, ids=repr)
def test_batches_of_any_size_need_few_graphs(case):
    """One for few pairs and one for many; the set loss has three ways."""
    torch.compiler.reset()
    torch.manual_seed(0)
    counter = CompileCounter()

    def call(z, labels):
        return case.call(z, labels)

    compiled = torch.compile(call, backend=counter, dynamic=True, fullgraph=True)
    for size in SIZES:
        z, labels, _ = rows_of(case, torch.randn(size, 5), torch.arange(size) // 2 % 4)
        torch.testing.assert_close(compiled(z, labels), call(z, labels))
    assert counter.frame_count <= 3


def rescaled(loss):
    """Its parameters times 1.5, by name."""
    return {name: parameter.detach() * 1.5 for name, parameter in loss.named_parameters()}


class Bilinear(torch.nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.eye(dim) + 0.1)

    def forward(self, anchors, contrasts):
        return anchors @ self.weight @ contrasts.T


LEARNED = {
    "temperature": lambda: {"temperature": torch.nn.Parameter(torch.tensor([0.2]))},
    "similarity": lambda: {"similarity": Bilinear(5)},
    "learnable": lambda: {"learnable_temperature": True},
}


@pytest.mark.parametrize("learned", LEARNED)
def test_a_call_uses_the_parameters_that_the_module_has_now(learned):
    torch.manual_seed(0)
    z, labels = torch.randn(12, 5), torch.arange(12) % 3
    loss = sincere.SINCERELoss(**LEARNED[learned]())
    changed = copy.deepcopy(loss)
    with torch.no_grad():
        for name, parameter in changed.named_parameters():
            parameter.copy_(rescaled(loss)[name])
    expected = changed(z, labels)
    assert not torch.isclose(expected, loss(z, labels))
    torch.testing.assert_close(functional_call(loss, rescaled(loss), (z, labels)), expected)
    loss.load_state_dict(rescaled(loss), assign=True)
    value = loss(z, labels)
    torch.testing.assert_close(value, expected)
    value.backward()
    assert all(parameter.grad is not None and parameter.grad.any() for parameter in loss.parameters())


def test_a_similarity_may_be_exchanged():
    z, labels = torch.randn(12, 5), torch.arange(12) % 3
    loss, other = sincere.SupConLoss(similarity=Bilinear(5)), Bilinear(5)
    torch.nn.init.normal_(other.weight)
    loss.similarity = other  # as a wrapper of a part of a model does
    torch.testing.assert_close(loss(z, labels), sincere.SupConLoss(similarity=other)(z, labels))


def test_a_queue_does_not_depend_on_the_default_device():
    queue = sincere.LabelQueue(size=8, dim=5)
    torch.set_default_device("meta")
    try:
        queue.enqueue(torch.ones(3, 5, device="cpu"), torch.zeros(3, dtype=torch.int64, device="cpu"))
    finally:
        torch.set_default_device(None)
    assert queue.position.tolist() == [3, 3]
