"""Batches as a DataLoader's `batch_sampler`: each pass is the next epoch, wherever the loop came from."""

from functools import partial

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from sincere.data import BalancedBatches, ClassBatches, ShuffledBatches, stratified_split
from sincere.errors import InputError, OptionError

LABELS = torch.arange(50) % 7
KINDS = {
    "classes": lambda **options: ClassBatches(LABELS, batch_size=12, seed=3, **options),
    "balanced": lambda **options: BalancedBatches(LABELS, batch_size=12, seed=3, **options),
    "shuffled": lambda **options: ShuffledBatches(50, batch_size=12, seed=3, **options),
}
EACH_KIND = pytest.mark.parametrize("make", KINDS.values(), ids=KINDS)


def dealt(batches, epoch):
    return [batch.tolist() for batch in batches.batches(epoch)]


@EACH_KIND
@pytest.mark.parametrize("workers", [0, 2])
def test_a_loader_goes_through_one_epoch_after_another(make, workers):
    """Also one whose processes live on between epochs, and ask the same sampler again."""
    data = TensorDataset(torch.arange(50), LABELS)
    loader = DataLoader(data, batch_sampler=make(), num_workers=workers, persistent_workers=workers > 0)
    for epoch in range(3):
        came = [rows.tolist() for rows, _ in loader]
        assert came == dealt(make(), epoch)
        assert len(came) == len(loader)
    assert dealt(make(), 0) != dealt(make(), 1)


@EACH_KIND
def test_a_loop_that_resumes_says_where(make):
    batches = make()
    batches.set_epoch(5)
    assert list(batches) == dealt(make(), 5)
    assert list(batches) == dealt(make(), 6)  # as one that was never asked to begin elsewhere
    for _ in range(2):  # as DistributedSampler's callers do, at the start of every epoch
        batches.set_epoch(1)
        assert list(batches) == dealt(make(), 1)
    assert dealt(batches, 9) == dealt(make(), 9)
    assert batches.epoch == 2  # `batches` leaves it alone


def test_indices_are_plain_numbers():
    for batch in KINDS["classes"]():
        assert type(batch) is list
        assert {type(index) for index in batch} == {int}


def test_a_pass_that_is_given_up_counts():
    batches = KINDS["classes"]()
    next(iter(batches))
    assert list(batches) == dealt(batches, 1)


@EACH_KIND
def test_processes_share_every_batch(make):
    ranks = [make(rank=rank, world_size=3) for rank in range(3)]
    for epoch in range(2):
        shares = [list(one) for one in ranks]
        assert [len(share) for share in shares] == [len(ranks[0])] * 3
        whole = [sorted(index for part in parts for index in part) for parts in zip(*shares, strict=True)]
        assert whole == [sorted(batch) for batch in dealt(make(), epoch)]


@EACH_KIND
@pytest.mark.parametrize("epoch", [-1, 0.0, True])
def test_an_epoch_is_a_whole_number(make, epoch):
    with pytest.raises(OptionError, match="epoch must be a whole number of at least 0: got"):
        make().set_epoch(epoch)


@pytest.mark.parametrize("labels", [LABELS.tolist(), LABELS.numpy(), LABELS.to(torch.int16), tuple(LABELS.tolist())])
def test_labels_as_data_sets_of_others_have_them(labels):
    assert dealt(ClassBatches(labels, batch_size=12, seed=3), 0) == dealt(KINDS["classes"](), 0)


def test_truth_values_are_two_classes():
    even = LABELS % 2 == 0
    assert dealt(ClassBatches(even, batch_size=12), 0) == dealt(ClassBatches(even.long(), batch_size=12), 0)


@pytest.mark.parametrize("labels", [["cat", "dog"] * 4, np.zeros(8), [[0, 1], [1, 0]], [0.5, 1.5], None])
def test_what_is_no_class_is_refused(labels):
    with pytest.raises(InputError, match="labels must be whole numbers, one per sample: got"):
        ClassBatches(labels, batch_size=4)


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        (np.ma.array([0, 0, 1, 1], mask=[False, False, True, False]), "labels must have all their values: some are"),
        (torch.tensor([0, 0, 1, 1]).bfloat16(), r"got torch\.bfloat16 \(4,\)"),
        (torch.tensor([0.0, 0, 1, 1], requires_grad=True), r"got torch\.float32 \(4,\)"),
        ([torch.tensor(1.0, requires_grad=True)] * 4, "labels must be an array"),
        ([[0], [0, 1]], "labels must be an array, or lists of one length"),
    ],
)
@pytest.mark.parametrize(
    "take",
    [partial(ClassBatches, batch_size=4), partial(BalancedBatches, batch_size=4), stratified_split],
    ids=["classes", "balanced", "split"],
)
def test_labels_that_are_none_are_refused_in_words(take, labels, words):
    """NumPy would hand on what lies below a mask, and knows neither bfloat16 nor graphs."""
    with pytest.raises(InputError, match=words):
        take(labels)


@pytest.mark.parametrize("kind", [ClassBatches, BalancedBatches])
def test_names_must_be_there_for_all_classes(kind):
    with pytest.raises(InputError, match="labels must lie between 0 and 1, as there are 2 classes: got 0 to 5"):
        kind([0, 0, 1, 1, 5, 5], batch_size=4, class_names=["cat", "dog"])
    assert kind([-1, -1, 0, 0, 1, 1], batch_size=4, class_names=["cat", "dog"]).notes
