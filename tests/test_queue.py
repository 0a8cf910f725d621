"""LabelQueue: what it holds, in which order, and that a resumed run continues with it."""

import copy

import pytest
import torch

import sincere.functional as SF
from sincere import LabelQueue
from sincere.errors import InputError, OptionError


def rows(*numbers):
    return torch.tensor([[float(n), 0.0] for n in numbers]), torch.tensor(numbers)


def test_keeps_the_last_and_forgets_the_oldest():
    queue = LabelQueue(5, 2)
    assert len(queue) == 0
    assert queue.contrasts()[0].shape == (0, 2)
    queue.enqueue(*rows(1, 2, 3))
    assert queue.contrasts()[1].tolist() == [1, 2, 3]
    queue.enqueue(*rows(4, 5, 6, 7))
    assert len(queue) == 5
    assert sorted(queue.contrasts()[1].tolist()) == [3, 4, 5, 6, 7]
    embeddings, labels = queue.contrasts()
    assert torch.equal(embeddings[:, 0].long(), labels)
    queue.enqueue(*rows(*range(10, 23)))
    assert sorted(queue.contrasts()[1].tolist()) == [18, 19, 20, 21, 22]
    assert queue.contrasts()[0][:, 0].tolist() == queue.contrasts()[1].tolist()  # each row with its own label
    queue.clear()
    assert len(queue) == 0
    resumed = LabelQueue(5, 2)
    resumed.load_state_dict(queue.state_dict())
    assert len(resumed) == 0
    queue.enqueue(*rows(30, 31))
    assert queue.contrasts()[1].tolist() == [30, 31]
    assert queue.contrasts()[0][:, 0].tolist() == [30, 31]


def test_what_was_taken_out_stays_as_it_was():
    queue = LabelQueue(3, 2)
    queue.enqueue(*rows(1, 2, 3))
    embeddings, labels = queue.contrasts()
    queue.enqueue(*rows(4, 5))
    assert (embeddings[:, 0].tolist(), labels.tolist()) == ([1, 2, 3], [1, 2, 3])


def test_resumed_run_continues_with_the_same_memory():
    straight, before = LabelQueue(7, 2), LabelQueue(7, 2)
    for start in range(0, 9, 3):
        for queue in (straight, before):
            queue.enqueue(*rows(start, start + 1, start + 2))
    after = LabelQueue(7, 2)
    after.load_state_dict(before.state_dict())
    assert len(after) == 7
    for queue in (straight, after, copy.deepcopy(before)):
        queue.enqueue(*rows(50, 51))
    for a, b in zip(after.contrasts(), straight.contrasts(), strict=True):
        assert torch.equal(a, b)


def test_a_memory_of_another_size_is_refused_and_leaves_this_one_as_it_was():
    larger, queue = LabelQueue(7, 2), LabelQueue(5, 2)
    larger.enqueue(*rows(*range(9)))
    queue.enqueue(*rows(50, 51))
    with pytest.raises(RuntimeError, match="size mismatch"):
        queue.load_state_dict(larger.state_dict())
    assert len(queue) == 2
    assert queue.contrasts()[1].tolist() == [50, 51]
    assert queue.position.tolist() == [2, 2]


def test_views_multi_hot_and_half_precision():
    queue = LabelQueue(6, 2, classes=3)
    queue.enqueue(torch.ones(2, 2, 2, dtype=torch.bfloat16), torch.tensor([[1, 0, 1], [0, 1, 0]]))
    embeddings, labels = queue.contrasts()
    assert embeddings.dtype == torch.float32
    assert labels.tolist() == [[1, 0, 1], [1, 0, 1], [0, 1, 0], [0, 1, 0]]


@pytest.mark.parametrize("backend", ["dense", "tiled"])
def test_writing_between_forward_and_backward_is_safe(backend):
    queue = LabelQueue(8, 2)
    queue.enqueue(*rows(0, 1, 2))
    z = torch.randn(4, 2, requires_grad=True)
    labels = torch.tensor([0, 0, 1, 1])
    loss = SF.sincere(z, labels, *queue.contrasts(), include_batch=True, backend=backend, similarity="dot")
    queue.enqueue(z, labels)
    loss.backward()
    assert z.grad.isfinite().all()
    assert not queue.embeddings.requires_grad


@pytest.mark.parametrize(
    ("size", "dim", "classes"), [(True, 2, None), (2, True, None), (0, 2, None), (2, 2, True), (2, 2, 1)]
)
def test_sizes_are_whole_numbers(size, dim, classes):
    with pytest.raises(OptionError, match=r"must be.* integer"):
        LabelQueue(size, dim, classes=classes)


@pytest.mark.parametrize(
    ("embeddings", "labels", "words"),
    [
        (torch.zeros(3), torch.zeros(3, dtype=torch.int64), "embeddings must"),
        (torch.zeros(3, 2, dtype=torch.int64), torch.zeros(3, dtype=torch.int64), "embeddings must"),
        (torch.zeros(3, 2), torch.zeros(4, dtype=torch.int64), "labels must"),
        (torch.zeros(3, 2), torch.zeros(3), "labels must"),
    ],
)
def test_what_is_no_batch_is_not_remembered(embeddings, labels, words):
    queue = LabelQueue(size=4, dim=2)
    with pytest.raises(InputError, match=words):
        queue.enqueue(embeddings, labels)
    assert len(queue) == 0


def test_what_does_not_fit_a_queue_is_told_how_to_make_one():
    plain, several = LabelQueue(size=4, dim=2), LabelQueue(size=4, dim=2, classes=3)
    many = torch.ones(3, 5, dtype=torch.bool)
    with pytest.raises(InputError, match=r"kind, \(n,\): got \(3, 5\)\. Make the queue with classes=5\."):
        plain.enqueue(torch.zeros(3, 2), many)
    with pytest.raises(InputError, match=r"kind, \(n, 3\): got \(3,\)\. Make the queue without classes\."):
        several.enqueue(torch.zeros(3, 2), torch.arange(3))
    with pytest.raises(InputError, match=r"queue's, \(n, 2\): got \(3, 7\)\. Make the queue with dim=7\."):
        plain.enqueue(torch.zeros(3, 7), torch.arange(3))


def test_a_queue_is_true_though_it_be_empty():
    """`if queue:` asks whether there is one; as of a container it would never let an empty one be filled."""
    assert len(LabelQueue(4, 2)) == 0
    assert LabelQueue(4, 2)
