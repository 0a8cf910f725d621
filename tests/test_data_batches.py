"""Batches: what ClassBatches promises, on any class counts, batch sizes and numbers of ranks."""

import math
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from torch import Tensor

from sincere.data import ClassBatches, LabelledData, ShuffledBatches
from sincere.errors import InputError, OptionError
from sincere.train import BatchesConfig
from sincere.train.batches import Planner

COUNTS = st.lists(st.one_of(st.integers(1, 4), st.integers(1, 60)), min_size=1, max_size=12)


def labels_of(counts: list[int]) -> Tensor:
    return torch.repeat_interleave(torch.arange(len(counts)), torch.tensor(counts))


def global_batches(labels: Tensor, batch_size: int, world_size: int = 1, epoch: int = 0, seed: int = 0):
    """Batches put together from the shares of all ranks, and the shares."""
    ranks = [
        list(ClassBatches(labels, batch_size=batch_size, seed=seed, rank=r, world_size=world_size).batches(epoch))
        for r in range(world_size)
    ]
    shares = list(zip(*ranks, strict=True))
    return [torch.cat(share) for share in shares], shares


def most_batches(counts: list[int]) -> int:
    """Each batch needs pairs of two classes; a class has ⌊n/2⌋ pairs, of which one batch can use one."""
    return max(k for k in range(sum(counts) + 1) if sum(min(n // 2, k) for n in counts) >= 2 * k)


@given(COUNTS, st.integers(4, 70), st.integers(1, 5), st.integers(0, 3))
@example([900, 90, 10], 64, 1, 0)
@example([900, 90, 10], 8, 4, 1)
@example([50, 50, 1], 16, 2, 0)
@example([2, 2], 4, 4, 0)
@example([2, 2], 8, 5, 0)
@example([3, 3, 3, 3, 3], 4, 1, 0)
@example([10, 29], 24, 2, 0)  # these three: sizes that are even only with care
@example([1, 4, 3, 7, 2, 1, 8], 8, 1, 0)
@example([7, 3, 9, 4, 24, 14, 23, 1, 4], 6, 1, 0)
def test_every_batch_has_two_of_two_classes_and_every_sample_comes_once(counts, batch_size, world_size, epoch):
    batch_size = max(batch_size, world_size)
    labels = labels_of(counts)
    if sum(n >= 2 for n in counts) < 2 or sum(counts) < world_size:
        with pytest.raises(InputError, match="two classes with at least two samples each"):
            ClassBatches(labels, batch_size=batch_size, world_size=world_size)
        return
    batches, shares = global_batches(labels, batch_size, world_size, epoch)
    assert torch.cat(batches).sort().values.tolist() == list(range(len(labels)))
    for batch, share in zip(batches, shares, strict=True):
        held = Counter(labels[batch].tolist())
        assert sum(count >= 2 for count in held.values()) >= 2
        assert all(count >= 2 or counts[label] == 1 for label, count in held.items())
        sizes = [len(part) for part in share]
        assert min(sizes) >= 1
        assert max(sizes) - min(sizes) <= 1
    check_sizes([len(batch) for batch in batches], counts, batch_size, world_size)


def check_sizes(sizes: list[int], counts: list[int], batch_size: int, world_size: int) -> None:
    samples, least = sum(counts), 4 if world_size == 1 else max(4, world_size + 2)
    wanted = math.ceil(samples / batch_size)
    assert len(sizes) == max(1, min(wanted, most_batches(counts), samples // least))
    assert max(sizes) <= max(batch_size, math.ceil(samples / len(sizes))) + 2
    assert min(sizes) >= samples // len(sizes) - 3
    assert max(sizes) - min(sizes) <= 4


def test_sizes_are_even_where_classes_are():
    batches, _ = global_batches(labels_of([500] * 10), 64)
    assert Counter(map(len, batches)) == {64: 51, 62: 28}
    batches, _ = global_batches(labels_of([51] * 10), 64)
    assert Counter(map(len, batches)) == {64: 7, 62: 1}


def test_seed_and_epoch_are_the_whole_state():
    labels = labels_of([30, 20, 11])
    first, _ = global_batches(labels, 8, epoch=3)
    again, _ = global_batches(labels, 8, epoch=3)
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    for other in (global_batches(labels, 8, epoch=4)[0], global_batches(labels, 8, epoch=3, seed=1)[0]):
        assert not torch.equal(torch.cat(first), torch.cat(other))
    # One generator, asked for epochs in any order.
    batches = ClassBatches(labels, batch_size=8)
    torch.rand(3)
    list(batches.batches(9))
    assert torch.equal(torch.cat(list(batches.batches(3))), torch.cat(first))


@pytest.mark.parametrize("world_size", [2, 3, 4, 8])
def test_batches_do_not_depend_on_the_number_of_ranks(world_size):
    labels = labels_of([40, 25, 13])
    one, _ = global_batches(labels, 40)
    many, _ = global_batches(labels, 40, world_size=world_size)
    assert all(torch.equal(a, b) for a, b in zip(one, many, strict=True))


def test_companions_change_from_epoch_to_epoch():
    """In 60 epochs of batches of two pairs, every sample meets nearly all others; fixed groups would meet three."""
    labels = labels_of([8, 8, 8])
    batches = ClassBatches(labels, batch_size=4)
    met = torch.zeros(24, 24, dtype=torch.bool)
    for epoch in range(60):
        for batch in batches.batches(epoch):
            met[batch[:, None], batch] = True
    assert met.float().mean() > 0.9


def test_classes_share_batches_in_proportion():
    """Pairs of classes meet about as often as chance has it: no class is always with the same other."""
    labels = labels_of([40] * 6)
    together = torch.zeros(6, 6)
    for epoch in range(30):
        for batch in ClassBatches(labels, batch_size=4).batches(epoch):
            classes = labels[batch].unique()
            together[classes[:, None], classes] += 1
    meetings = together[~torch.eye(6, dtype=torch.bool)]
    assert meetings.min() > 0.6 * meetings.mean()
    assert meetings.max() < 1.5 * meetings.mean()


def test_equal_classes_come_to_as_many_batches_and_ranks():
    """No class is in every batch because its number is low, and no rank has the classes of low numbers."""
    labels = labels_of([40] * 6)
    met, on_first = torch.zeros(6), torch.zeros(6)
    for epoch in range(30):
        for first, second in global_batches(labels, 12, world_size=2, epoch=epoch)[1]:
            met[labels[torch.cat([first, second])].unique()] += 1
            on_first += torch.bincount(labels[first], minlength=6)
    assert met.max() - met.min() < 0.15 * met.mean()
    assert met.mean() > 0.6 * 30 * 20  # of all batches: nor are a class's samples dealt to a few of them
    assert (on_first / (30 * 40) - 0.5).abs().max() < 0.1


def test_neighbouring_batches_are_no_more_alike_than_others():
    """One of three classes and one of the three others each: that two batches share one has the chance 1 − (2/3)²."""
    labels = labels_of([40] * 6)
    dealt = [labels[batch].unique() for epoch in range(30) for batch in global_batches(labels, 4, epoch=epoch)[0]]
    shared = [torch.isin(a, b).any().item() for a, b in pairwise(dealt)]
    assert np.mean(shared) == pytest.approx(5 / 9, abs=0.05)


def test_what_cannot_be_kept_is_said():
    lone = ClassBatches(labels_of([10, 2, 1, 10, 1]), batch_size=8, class_names=["ant", "bee", "cicada", "fly", "gnat"])
    assert lone.notes[0] == "2 classes have one sample to train on, and no positive but views of it: cicada, gnat."
    few = ClassBatches(labels_of([930, 90, 10]), batch_size=8)
    assert len(few) == 50
    assert "about 21 samples rather than 8" in few.notes[0]
    assert "50 batches only" in few.notes[0]
    assert ClassBatches(labels_of([900, 90, 10]), batch_size=64).notes == ()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch_size": 3}, "at least 4, two samples of two classes and one per rank: got 3"),
        ({"batch_size": 4, "world_size": 8}, "at least 8"),
        ({"batch_size": 8, "rank": 2, "world_size": 2}, "rank must lie between 0 and world_size − 1: got rank 2 of 2"),
        ({"batch_size": 8, "rank": -1, "world_size": 2}, "got rank -1 of 2"),
    ],
)
def test_sizes_and_ranks_are_checked(options, message):
    with pytest.raises(OptionError, match=message):
        ClassBatches(labels_of([10, 10]), **options)
    with pytest.raises(OptionError, match=message):
        ShuffledBatches(20, **options)


def test_labels_are_integers():
    with pytest.raises(InputError, match=r"torch.float32 \(4,\)"):
        ClassBatches(torch.zeros(4), batch_size=4)


@given(st.integers(8, 90), st.integers(8, 40), st.integers(1, 4), st.booleans())
@example(17, 8, 1, False)  # the one that is left joins the batch before
@example(17, 8, 2, False)
@example(17, 8, 1, True)
def test_shuffled_batches_have_one_size_and_repeat_nothing(samples, batch_size, world_size, drop_last):
    ranks = [
        ShuffledBatches(samples, batch_size=batch_size, rank=r, world_size=world_size, drop_last=drop_last)
        for r in range(world_size)
    ]
    batches = [torch.cat(share) for share in zip(*(rank.batches(2) for rank in ranks), strict=True)]
    assert len(batches) == len(ranks[0])
    size = min(batch_size, samples)
    full, rest = divmod(samples, size)
    sizes = [size] * full + ([rest] if rest >= world_size and not drop_last else [])
    if sizes[-1] == 1:  # nobody to be compared with: it joins the batch before
        sizes = [*sizes[:-2], size + 1]
    assert [len(batch) for batch in batches] == sizes
    seen = torch.cat(batches)
    assert len(seen.unique()) == len(seen) == sum(sizes)
    assert any("left out" in note for note in ranks[0].notes) == (sum(sizes) < samples)
    assert not torch.equal(seen, torch.cat(list(ShuffledBatches(samples, batch_size=size, seed=1).batches(2))))


def test_shuffled_batches_need_samples():
    assert "rather than 64" in ShuffledBatches(10, batch_size=64).notes[0]
    assert ShuffledBatches(10, batch_size=10).notes == ()
    with pytest.raises(InputError, match="at least 2 samples: got 1"):
        ShuffledBatches(1, batch_size=4)
    with pytest.raises(InputError, match="at least 4 samples: got 3"):  # or else a rank would have none
        ShuffledBatches(3, batch_size=4, world_size=4)
    for samples, came in ((torch.arange(20), "Tensor"), (20.0, "float"), (True, "bool")):
        with pytest.raises(OptionError, match=rf"how many there are.*got {came}. Pass len\(labels\)"):
            ShuffledBatches(samples, batch_size=4)
    assert list(ShuffledBatches(np.int64(20), batch_size=4)) == list(ShuffledBatches(20, batch_size=4))


@pytest.mark.parametrize("sampler", ["shuffled", "classes", "balanced"])
def test_a_runs_seed_orders_its_samples(sampler):
    data = LabelledData(torch.arange(60.0).reshape(30, 2), torch.arange(30) % 3, ("a", "b", "c"), "array", "points")

    def first_epoch(seed):
        planner = Planner(BatchesConfig(10, sampler), data, seed=seed, processes=1)
        return [batch.tolist() for batch in planner.dealer.batches(0)]

    assert first_epoch(0) == first_epoch(0)
    assert first_epoch(0) != first_epoch(1)


@pytest.mark.parametrize("batch_size", [4.5, 8.0, "8", True, None])
def test_a_batch_size_is_a_whole_number(batch_size):
    for make in (
        lambda: ShuffledBatches(20, batch_size=batch_size),
        lambda: ClassBatches(torch.arange(20) % 2, batch_size=batch_size),
    ):
        with pytest.raises(OptionError, match="batch_size must be a whole number"):
            make()
    assert len(ShuffledBatches(20, batch_size=np.int64(5))) == 4


@pytest.mark.parametrize(("counts", "batch_size", "sizes"), [((498, 2), 256, [500]), ((20, 2), 12, [22])])
def test_batches_that_had_to_be_larger_are_named(counts, batch_size, sizes):
    labels = [number for number, count in enumerate(counts) for _ in range(count)]
    dealt = ClassBatches(labels, batch_size=batch_size)
    assert [len(batch) for batch in dealt.batches(0)] == sizes
    assert f"batches hold about {sizes[0]} samples rather than {batch_size}" in dealt.notes[-1]
    assert ClassBatches([0] * 11 + [1] * 11, batch_size=12).notes == ()


@pytest.mark.parametrize("counts", [(308, 90, 10), (400, 90, 10)])
def test_a_batch_fewer_than_asked_for_is_no_news_while_sizes_are_right(counts):
    """Give or take two, which may make the pairs even; it was said that they hold about 8 rather than 8."""
    dealt = ClassBatches(labels_of(list(counts)), batch_size=8)
    assert len(dealt) == 50 < sum(counts) // 8
    assert {len(batch) for batch in dealt.batches(0)} <= {8, 10}
    assert dealt.notes == ()


def test_the_note_names_the_ranks_where_they_are_the_reason():
    labels = labels_of([20, 20, 20, 36])
    ranks = ClassBatches(labels, batch_size=16, world_size=16)
    assert "about 19 samples rather than 16: with 16 ranks none may have fewer than 18" in ranks.notes[-1]
    assert "pairs for" not in ranks.notes[-1]
    assert ClassBatches(labels, batch_size=16).notes == ()
    classes = ClassBatches(labels_of([90, 4]), batch_size=16, world_size=8)  # with ranks, but for want of pairs
    assert "about 47 samples rather than 16: the smaller classes have pairs for 2 batches only" in classes.notes[-1]


@pytest.mark.parametrize("counts", [(2, 2, 7), (9, 5, 7, 5, 7), (51, 9, 5), (3, 2, 21), (20, 20), (3, 3, 1)])
@pytest.mark.parametrize("batch_size", [4, 8, 9, 16])
def test_no_batch_of_any_epoch_is_smaller_than_said(counts, batch_size):
    dealt = ClassBatches(labels_of(list(counts)), batch_size=batch_size)
    sizes = [len(batch) for epoch in range(20) for batch in dealt.batches(epoch)]
    assert max(min(sizes) - 3, 4) <= dealt.smallest <= min(sizes)
    assert abs(max(sizes) - dealt.largest) <= 2
    for drop_last in (True, False):
        plain = ShuffledBatches(sum(counts), batch_size=batch_size, drop_last=drop_last)
        assert min(map(len, plain.batches(0))) - 1 <= plain.smallest <= min(map(len, plain.batches(0)))
        assert max(map(len, plain.batches(0))) == plain.largest
