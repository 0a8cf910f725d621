"""LabelledData, Form and Splits: what they hold, and what they refuse."""

import json
from dataclasses import asdict, replace

import numpy as np
import pytest
import torch

from sincere.data import Form, LabelledData, Splits, open_data
from sincere.errors import InputError, OptionError

PETS = LabelledData(torch.eye(3), torch.tensor([1, 0, 1]), ("cat", "dog"), "array", "pets", shown=("a", "b", "c"))
KINDS = {
    "image": (torch.zeros(4, 3, 5, 6, dtype=torch.uint8), {}),
    "array": (torch.zeros(4, 7), {}),
    "text": (torch.zeros(4, 5, 2, dtype=torch.int32), {"buckets": 64}),
    "sound": (torch.zeros(4, 90), {"sample_rate": 8000}),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_has_its_form(kind):
    inputs, more = KINDS[kind]
    data = LabelledData(inputs, torch.tensor([0, 1, 1, 0]), ("a", "b"), kind, "some", **more)
    assert data.form == Form(kind, tuple(inputs.shape[1:]), **more)
    assert data.subset([3]).form == data.form
    assert Form(**json.loads(json.dumps(asdict(data.form)))) == data.form


def test_a_subset_keeps_order_classes_and_what_is_shown():
    part = PETS.subset(torch.tensor([2, 1]))
    assert torch.equal(part.inputs, torch.eye(3)[[2, 1]])
    assert (part.labels.tolist(), part.shown, part.class_names) == ([1, 0], ("c", "b"), PETS.class_names)
    assert PETS.subset([2, 0]).class_counts().tolist() == [0, 2]
    assert len(PETS.subset([])) == 0
    assert PETS.subset([-1]).shown == ("c",)
    for mask in (PETS.labels == 1, [True, False, True], np.array([True, False, True])):
        assert PETS.subset(mask).shown == ("a", "c"), "a mask chooses, and is no list of the places 0 and 1"
    for wrong, words in (([0.5], "whole numbers"), ([3], "between 0 and 2"), ([True], "one value a sample")):
        with pytest.raises(InputError, match=words):
            PETS.subset(wrong)
    assert PETS.to("cpu").labels.tolist() == PETS.labels.tolist()


@pytest.mark.parametrize(
    ("change", "parts"),
    [
        ({"inputs": torch.eye(3).double()}, ["array", "torch.float32", "torch.float64"]),
        ({"inputs": torch.zeros(3)}, ["(n, features)", "(3,)"]),
        ({"labels": torch.tensor([0, 1])}, ["(3,)", "(2,)"]),
        ({"labels": torch.tensor([0, 1, 1], dtype=torch.int32)}, ["int64", "int32"]),
        ({"labels": torch.tensor([0, 1, 2])}, ["0 and 1", "0 to 2"]),
        ({"labels": torch.tensor([-1, 1, 1])}, ["-1 to 1"]),
        ({"class_names": ("cat", "cat")}, ["differ"]),
        ({"shown": ("a",)}, ["expected 3, got 1"]),
        ({"sample_rate": 8000}, ["sample_rate belongs to sound"]),
        ({"buckets": 8}, ["buckets belong to text"]),
        ({"inputs": torch.eye(3).fill_(float("nan"))}, ["finite", "3 of 3 rows"]),
    ],
)
def test_refuses_what_does_not_fit(change, parts):
    with pytest.raises(InputError) as error:
        replace(PETS, **change)
    for part in parts:
        assert part in str(error.value)


def test_an_unknown_kind_is_an_option_error():
    with pytest.raises(OptionError, match="'image', 'array', 'text', 'sound'"):
        replace(PETS, kind="video")
    with pytest.raises(InputError, match=r"channels, height, width"):
        Form("image", (32, 32))


def test_splits_are_of_one_form_and_have_the_same_classes():
    assert Splits(PETS, None, PETS.subset([0])).note == ()
    with pytest.raises(InputError, match=r"test must have the form of train.*shape=\(2,\)"):
        Splits(PETS, None, replace(PETS, inputs=torch.zeros(3, 2)))
    with pytest.raises(InputError, match="validation must have the classes of train"):
        Splits(PETS, replace(PETS, class_names=("cat", "cow")), PETS)


def test_test_samples_that_were_trained_on_are_told(tmp_path):
    """Counted by hand: 3 of the 8 test rows are rows of the table to train on."""
    train = np.arange(40, dtype=np.float32).reshape(20, 2)
    test = np.concatenate([train[[0, 7, 7]], train[:5] + 0.5])
    np.savez(tmp_path / "a.npz", X_train=train, y_train=np.arange(20) % 2, X_test=test, y_test=np.arange(8) % 2)
    splits = open_data(tmp_path / "a.npz", validation_share=0.0)
    assert any(note.startswith("3 of 8 test samples equal a training sample") for note in splits.note)
    whole = open_data("digits", test="digits")
    known = {tuple(row) for row in whole.train.inputs.flatten(1).tolist()}
    equal = sum(tuple(row) in known for row in whole.test.inputs.flatten(1).tolist())
    assert 0 < equal < len(whole.test)  # the validation samples are not trained on
    assert any(note.startswith(f"{equal:,} of 1,797 test samples equal") for note in whole.note)
    alone = open_data("digits", test="digits", validation_share=0.0)
    assert any(note.startswith("all 1,797 test samples equal") for note in alone.note)
    assert not open_data("digits").note
