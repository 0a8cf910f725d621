"""BalancedBatches: every class as often as any other, and no sample left out for ever."""

from collections import Counter
from itertools import pairwise

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from sincere.data import BalancedBatches, balanced_batches
from sincere.errors import InputError, OptionError

COUNTS = (90, 41, 17, 9, 5, 2, 1)


def labels_of(counts, seed=0):
    labels = torch.tensor([label for label, count in enumerate(counts) for _ in range(count)])
    return labels[torch.randperm(len(labels), generator=torch.Generator().manual_seed(seed))]


LABELS = labels_of(COUNTS)
SHAPES = [(28, None), (30, 3), (16, 4), (8, 4), (12, 2), (13, None), (10, 5)]
EACH_SHAPE = pytest.mark.parametrize(("size", "per_class"), SHAPES)


@EACH_SHAPE
def test_a_batch_holds_as_many_of_each_of_its_classes(size, per_class):
    dealt = BalancedBatches(LABELS, batch_size=size, per_class=per_class)
    for epoch in range(3):
        batches = list(dealt.batches(epoch))
        assert len(batches) == len(dealt) == round(len(LABELS) / dealt.largest)
        for batch in batches:
            assert len(batch) == dealt.largest == dealt.smallest <= size
            classes = Counter(LABELS[batch].tolist())
            assert len(classes) == dealt.classes_per_batch >= 2
            assert set(classes.values()) == {dealt.per_class}
            for index, times in Counter(batch.tolist()).items():
                assert times <= -(-dealt.per_class // COUNTS[LABELS[index]])


@EACH_SHAPE
def test_classes_come_alike_in_every_epoch_and_over_all(size, per_class):
    dealt = BalancedBatches(LABELS, batch_size=size, per_class=per_class, seed=5)
    total = Counter()
    for epoch in range(9):
        came = Counter(dict.fromkeys(range(len(COUNTS)), 0))
        for batch in dealt.batches(epoch):
            came.update(LABELS[batch].unique().tolist())
        assert max(came.values()) - min(came.values()) <= 1
        total += came
        assert max(total.values()) - min(total[label] for label in range(len(COUNTS))) <= 1


@EACH_SHAPE
def test_a_large_class_comes_whole_before_any_of_it_comes_again(size, per_class):
    """Counted after every batch of many epochs."""
    dealt = BalancedBatches(LABELS, batch_size=size, per_class=per_class, seed=2)
    large = [label for label, count in enumerate(COUNTS) if count >= 2 * dealt.per_class]
    times = torch.zeros(len(LABELS), dtype=torch.int64)
    for epoch in range(25):
        for batch in dealt.batches(epoch):
            times.index_add_(0, batch, torch.ones_like(batch))
            for label in large:
                of_class = times[label == LABELS]
                assert of_class.max() - of_class.min() <= 1
    assert large
    assert all(times[label == LABELS].min() > 0 for label in large)


@pytest.mark.parametrize("counts", [(90, 10), (20, 7, 3), (3, 2, 1, 1, 1)])
def test_an_epoch_of_few_samples_is_no_larger_than_they_are(counts):
    """Where a batch could hold more than all samples: 512 of them would be copies of 100."""
    dealt = BalancedBatches(labels_of(counts), batch_size=512)
    assert len(dealt) == 1
    assert dealt.classes_per_batch >= 2
    assert dealt.largest <= sum(counts)
    assert dealt.notes[0].startswith(f"batches hold {dealt.largest} samples rather than 512: ")


def test_a_turn_never_holds_a_sample_twice():
    """Also where it ends one time through its class and begins the next: 2 × 7 samples in turns of 5."""
    labels = labels_of((14, 13, 11, 10))
    dealt = BalancedBatches(labels, batch_size=20, per_class=5)
    for epoch in range(200):
        assert all(len(batch.unique()) == 20 for batch in dealt.batches(epoch))


def test_a_large_class_is_put_in_order_once_each_time(monkeypatch):
    """Not at each of its turns: with a million samples that would take longer than many a training step."""
    drawn, original = [], balanced_batches.permutation

    def permutation(count, generator):
        drawn.append(count)
        return original(count, generator)

    monkeypatch.setattr(balanced_batches, "permutation", permutation)
    dealt = BalancedBatches(labels_of((900, 90)), batch_size=10)
    for epoch in range(3):
        assert len(list(dealt.batches(epoch))) == 99
    assert drawn.count(900) <= 2, "297 turns of 5 are the class once, and most of it once more"


def test_epochs_follow_from_the_seed_in_any_order():
    one, other = (BalancedBatches(LABELS, batch_size=16, seed=4) for _ in range(2))
    later = [batch.tolist() for batch in one.batches(7)]
    for epoch in range(7):
        list(other.batches(epoch))
    assert [batch.tolist() for batch in other.batches(7)] == later
    assert [batch.tolist() for batch in BalancedBatches(LABELS, batch_size=16, seed=5).batches(7)] != later
    orders = [[batch.tolist() for batch in one.batches(epoch)] for epoch in range(3)]
    assert all(a != b for a, b in pairwise(orders))


def test_ranks_share_every_batch():
    whole = list(BalancedBatches(LABELS, batch_size=14).batches(3))
    parts = [list(BalancedBatches(LABELS, batch_size=14, rank=rank, world_size=3).batches(3)) for rank in range(3)]
    for batch, *shares in zip(whole, *parts, strict=True):
        assert torch.cat(shares).tolist() == batch.tolist()
        assert {len(share) for share in shares} <= {4, 5}


def test_a_data_loader_takes_them():
    dealt = BalancedBatches(LABELS, batch_size=14)
    seen = [labels for (labels,) in DataLoader(TensorDataset(LABELS), batch_sampler=dealt)]
    assert [len(labels) for labels in seen] == [14] * len(dealt)
    assert dealt.epoch == 1
    assert all(Counter(labels.tolist()).most_common()[0][1] == 2 for labels in seen)


def test_what_the_user_should_know_is_noted():
    assert BalancedBatches(labels_of((8, 8)), batch_size=8).notes == ()
    size, few = BalancedBatches(LABELS, batch_size=30, class_names=tuple("abcdefg")).notes
    assert size == "batches hold 28 samples rather than 30: 4 of each of 7 classes."
    assert few == (
        "2 classes have fewer than 4 samples, which are repeated within a batch, where only random views make them "
        "differ: f, g."
    )
    (unlabelled,) = BalancedBatches(labels_of((8, 8)) - 1, batch_size=8).notes
    assert "−1" in unlabelled or "-1" in unlabelled


@pytest.mark.parametrize(
    ("labels", "options", "words"),
    [
        ([1, 1, 1, 1], {}, "at least two classes"),
        ([0.5, 1.0], {}, "whole numbers"),
        (LABELS, {"class_names": ["a"]}, "labels must lie between 0 and 0"),
        (LABELS, {"per_class": 1}, "per_class must be a whole number from 2 up to half a batch, 8"),
        (LABELS, {"per_class": 9}, "got 9"),
        (LABELS, {"per_class": 2.0}, "got 2.0"),
        (LABELS, {"batch_size": 3}, "batch_size must be at least 4"),
        (labels_of((8, 8)), {"per_class": 2, "world_size": 6}, "batches have 4, and there are 6 ranks"),
    ],
)
def test_errors_say_what_must_hold(labels, options, words):
    with pytest.raises((InputError, OptionError), match=words):
        BalancedBatches(labels, **{"batch_size": 16, **options})
