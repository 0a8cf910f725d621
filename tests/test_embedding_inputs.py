"""What people hand over: masks for places, ragged lists, numbers as names of classes, label files of any editor."""

import numpy as np
import pytest
import torch

from sincere.embeddings import EmbeddingSet
from sincere.errors import InputError


def five():
    return EmbeddingSet.from_arrays(
        torch.arange(10.0).view(5, 2), [0, 1, 0, 1, 0], shown=tuple("abcde"), features=torch.arange(5.0).view(5, 1)
    )


@pytest.mark.parametrize("mask", [[True] * 5, [False, True, False, False, True], [False] * 5])
def test_a_mask_takes_everything_of_the_samples_it_marks(mask):
    found, places = five().subset(torch.tensor(mask)), [place for place, taken in enumerate(mask) if taken]
    assert found.shown == tuple("abcde"[place] for place in places)
    assert found.embeddings.tolist() == [[2.0 * place, 2.0 * place + 1] for place in places]
    assert found.labels.tolist() == [place % 2 for place in places]
    assert found.features.flatten().tolist() == places


def test_a_mask_of_another_length_is_refused():
    with pytest.raises(InputError, match=r"a mask must hold one value a sample, \(5,\): got \(3,\)"):
        five().subset(torch.tensor([True, False, True]))


@pytest.mark.parametrize(
    "places",
    [
        [4, 0, 4],
        (4, 0, -1),
        np.array([4, 0, 4])[::-1][::-1],  # a view that steps backwards and forwards
        np.argsort([1, 3, 2, 4, 0])[[0, 1, 0]][::-1][::-1],
        np.array([4, 0, 4], dtype=np.uint8),  # which torch would take for a mask
        torch.tensor([4, 0, 4], dtype=torch.int32),
    ],
)
def test_places_in_any_form(places):
    assert five().subset(places).shown == ("e", "a", "e")
    assert five().subset(places).embeddings.tolist() == [[8.0, 9.0], [0.0, 1.0], [8.0, 9.0]]


def test_places_backwards_read_only_as_masks_and_none():
    places = np.arange(5)
    places.flags.writeable = False
    assert five().subset(places[::-1]).shown == tuple("edcba")
    assert five().subset([False, True, False, False, True]).shown == ("b", "e")
    assert five().subset(np.array([0, 1, 0, 1, 0]) == 1).labels.tolist() == [1, 1]
    assert len(five().subset([])) == 0


@pytest.mark.parametrize(
    ("places", "message"),
    [
        ([0.0, 1.0], r"whole numbers, \(k,\), or a mask, \(5,\): got float64 of shape \(2,\)"),
        (["a"], "whole numbers"),
        (3, r"whole numbers, \(k,\).*of shape \(\)"),
        ([[0], [1]], r"of shape \(2, 1\)"),
        ([0, 5], "between 0 and 4, .*: got 0 to 5"),
        ([-6], "got -6 to -6"),
        (np.ma.array([0, 1], mask=[False, True]), "indices must have all their values"),
    ],
)
def test_places_that_are_none(places, message):
    with pytest.raises(InputError, match=message):
        five().subset(places)


def test_masked_values_are_refused_by_name():
    """NumPy would hand on whatever lies below the mask."""
    hidden = np.ma.array(np.eye(2), mask=[[False, True], [False, False]])
    with pytest.raises(InputError, match=r"embeddings must have all .* masked\. Leave those samples out"):
        EmbeddingSet.from_arrays(hidden, [0, 1])
    with pytest.raises(InputError, match="labels must have all"):
        EmbeddingSet.from_arrays(np.eye(2), np.ma.array([0, 1], mask=[True, False]))
    assert len(EmbeddingSet.from_arrays(np.ma.array(np.eye(2)), [0, 1])) == 2  # nothing is masked


def test_lists_of_what_is_shown_and_of_classes(tmp_path):
    made = EmbeddingSet.from_arrays(np.eye(3), [1, 0, 1], class_names=["cat", "dog"], shown=[7, "two", np.str_("c")])
    assert (made.shown, made.class_names) == (("7", "two", "c"), ("cat", "dog"))
    assert EmbeddingSet.load(made.save(tmp_path / "it.npz")).shown == made.shown
    moved = made.with_classes(np.array(["dog", "bird", "cat"]))
    assert (moved.labels.tolist(), moved.class_names) == ([0, 2, 0], ("dog", "bird", "cat"))
    assert made.with_classes(["cat", "dog"]) is made
    numbered = EmbeddingSet.from_arrays(np.eye(2), [3, 5])
    assert numbered.with_classes([5, 3]).labels.tolist() == [1, 0]


def test_ragged_lists_are_refused_by_name():
    with pytest.raises(InputError, match="embeddings must be an array, or lists of one length"):
        EmbeddingSet.from_arrays([[1.0, 2.0], [3.0]], [0, 1])
    with pytest.raises(InputError, match="embeddings must be an array"):  # of a model, and not detached
        EmbeddingSet.from_arrays([torch.ones(2, requires_grad=True)] * 2, [0, 1])


def test_numbers_as_names_of_classes_are_the_same_after_a_file(tmp_path):
    made = EmbeddingSet.from_arrays(np.eye(2), [0, 1], class_names=(7, 9))
    assert made.class_names == ("7", "9") == EmbeddingSet.load(made.save(tmp_path / "it.npz")).class_names
    assert EmbeddingSet.from_arrays(np.eye(2), ["9", "7"], class_names=(7, 9)).labels.tolist() == [1, 0]


def test_labels_as_a_text_file(tmp_path):
    np.save(tmp_path / "rows.npy", np.eye(3))
    (tmp_path / "labels.txt").write_bytes("cat\r\ndog\r\ncat\r\n".encode("utf-8-sig"))
    found = EmbeddingSet.load(tmp_path / "rows.npy", labels=tmp_path / "labels.txt")
    assert (found.class_names, found.labels.tolist()) == (("cat", "dog"), [0, 1, 0])
    (tmp_path / "labels.txt").write_bytes("k\u00e4fer\ndog\ncat".encode("latin-1"))
    with pytest.raises(InputError, match="must be text in UTF-8, one label a line"):
        EmbeddingSet.load(tmp_path / "rows.npy", labels=tmp_path / "labels.txt")
