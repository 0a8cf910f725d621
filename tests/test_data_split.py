"""Stratified splits: proportions, rounding, and the same result everywhere."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.model_selection import StratifiedShuffleSplit

from sincere.data import stratified_split
from sincere.errors import InputError, OptionError

COUNTS = st.lists(st.integers(1, 40), min_size=1, max_size=10)


def labels_of(counts: list[int], shuffle_seed: int = 0) -> torch.Tensor:
    labels = torch.repeat_interleave(torch.arange(len(counts)), torch.tensor(counts))
    return labels[torch.randperm(len(labels), generator=torch.Generator().manual_seed(shuffle_seed))]


@given(COUNTS, st.sampled_from([0.0, 0.1, 0.25, 0.4]), st.sampled_from([0.0, 0.2, 1 / 3, 0.5]), st.integers(0, 5))
def test_parts_are_disjoint_complete_and_in_proportion(counts, validation_share, test_share, seed):
    labels = labels_of(counts)
    split = stratified_split(labels, validation_share=validation_share, test_share=test_share, seed=seed)
    assert torch.cat(list(split)).sort().values.tolist() == list(range(len(labels)))
    assert labels[split.train].unique().tolist() == list(range(len(counts)))  # every class can be learned
    for share, part in ((test_share, split.test), (validation_share, split.validation)):
        held = torch.bincount(labels[part], minlength=len(counts)).tolist()
        assert len(part) <= round(share * len(labels))
        for n, count in zip(counts, held, strict=True):
            assert count < share * n + 1
            if n > 10:  # small classes have to leave a sample for training
                assert count > share * n - 1
        if min(counts) > 10:
            assert len(part) == round(share * len(labels))
        assert part.tolist() == sorted(part.tolist())


@pytest.mark.parametrize("seed", range(6))
def test_sizes_are_those_of_scikit_learn(seed):
    labels = labels_of([90, 33, 20, 57])
    split = stratified_split(labels, validation_share=0, test_share=0.2, seed=seed)
    ours = torch.bincount(labels[split.test])
    assert ours.tolist() == [18, 7, 4, 11]  # quotas 18, 6.6, 4, 11.4: one is missing, and the largest remainder is 0.6
    theirs = next(StratifiedShuffleSplit(1, test_size=40, random_state=seed).split(labels, labels))[1]
    assert (ours - torch.bincount(labels[torch.from_numpy(theirs)])).abs().max() <= 1


def test_a_class_of_one_sample_stays_in_train():
    """Half of everything is to go, and the lone samples' remainders are as large as any."""
    labels = labels_of([1, 1, 1, 3, 3, 3])
    for seed in range(20):
        split = stratified_split(labels, validation_share=0.25, test_share=0.5, seed=seed)
        assert labels[split.train].unique().tolist() == [0, 1, 2, 3, 4, 5]
        assert torch.cat(list(split)).sort().values.tolist() == list(range(12))


def test_small_classes_give_all_but_one():
    """Thirds of three, and half of two: whole numbers, so that no class has to give less than its share."""
    thirds = stratified_split(labels_of([3] * 4), validation_share=1 / 3, test_share=1 / 3)
    halves = stratified_split(labels_of([2] * 4), validation_share=0, test_share=0.5)
    for part in thirds:
        assert labels_of([3] * 4)[part].sort().values.tolist() == [0, 1, 2, 3]
    assert labels_of([2] * 4)[halves.test].sort().values.tolist() == [0, 1, 2, 3]


def test_a_class_that_gave_its_share_does_not_stand_in_for_lone_samples():
    """Half of 15 would be eight, but five classes of one cannot give any: the part stays short."""
    labels = labels_of([1] * 5 + [10])
    assert labels[stratified_split(labels, validation_share=0, test_share=0.5).test].tolist() == [5] * 5


def test_the_split_is_pinned():
    """A run's test set must not change under it, on another machine or with another torch."""
    split = stratified_split(labels_of([6, 4, 5]), validation_share=0.2, test_share=0.2, seed=7)
    assert (split.validation.tolist(), split.test.tolist()) == ([0, 1, 9], [6, 7, 11])


def test_seeds_differ_and_the_global_generator_does_not_matter():
    labels = labels_of([30, 30])
    first = stratified_split(labels, seed=1).test
    torch.manual_seed(99)
    assert torch.equal(stratified_split(labels, seed=1).test, first)
    assert not torch.equal(stratified_split(labels, seed=2).test, first)


def test_equal_remainders_go_to_classes_by_chance():
    """Ten classes of 4 and a test share of one in eight: half a sample each, so five classes give one."""
    labels = labels_of([4] * 10)
    given = sum(
        torch.bincount(
            labels[stratified_split(labels, validation_share=0, test_share=0.125, seed=seed).test], minlength=10
        )
        for seed in range(40)
    )
    assert int(given.sum()) == 40 * 5
    assert 8 < int(given.min()) <= int(given.max()) < 32


@pytest.mark.parametrize("shares", [(0.5, 0.5), (-0.1, 0.2), (0.1, 1.0)])
def test_shares_leave_something_to_train_on(shares):
    with pytest.raises(OptionError, match="together less than 1"):
        stratified_split(labels_of([4, 4]), validation_share=shares[0], test_share=shares[1])


def test_labels_are_integers():
    with pytest.raises(InputError, match=r"torch\.float32"):
        stratified_split(torch.zeros(4))


def test_labels_come_as_batches_take_them():
    labels = labels_of([4] * 10)
    parts = stratified_split(labels, seed=3)
    for same in (labels.numpy(), labels.tolist()):
        assert all(map(torch.equal, stratified_split(same, seed=3), parts))
    for wrong in (labels.float(), ["cat", "dog"], labels.view(20, 2)):
        with pytest.raises(InputError, match="labels must be whole numbers, one per sample: got"):
            stratified_split(wrong)
    with pytest.raises(InputError, match=r"Number names: np\.unique"):
        stratified_split(["cat", "dog"])
