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


def test_ragged_lists_are_refused_by_name():
    with pytest.raises(InputError, match="embeddings must be an array, or lists of one length"):
        EmbeddingSet.from_arrays([[1.0, 2.0], [3.0]], [0, 1])


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
