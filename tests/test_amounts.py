"""One is one: no `1 samples`, wherever a number can be 1."""

import re

import pytest
import torch
from torch import arange, zeros

from data_files import write_images
from sincere.data import open_data
from sincere.data.labelled import LabelledData
from sincere.embeddings import EmbeddingSet
from sincere.errors import InputError, OptionError
from sincere.train import ScheduleConfig, TrainConfig
from sincere.train.network import simplex_vertices

SLIP = re.compile(r"\b1 (samples|classes|epochs|dimensions|files|sub-folders|images|fields|words|pixels)\b")


def refusal(call) -> str:
    with pytest.raises((InputError, OptionError)) as error:
        call()
    return str(error.value)


def test_sets_of_one():
    one = EmbeddingSet(torch.ones(1, 2), torch.zeros(1, dtype=torch.int64), ("cat",), "few")
    assert repr(one) == "EmbeddingSet('few': 1 sample of 1 class, embeddings (1, 2))"
    data = LabelledData(torch.ones(1, 2), torch.zeros(1, dtype=torch.int64), ("cat",), "array", "few")
    assert "1 sample of 1 class," in repr(data)
    many = EmbeddingSet(zeros(1200, 2), arange(1200) % 2, ("cat", "dog"), "many")
    assert "1,200 samples of 2 classes" in repr(many)


def test_settings_that_are_one():
    said = refusal(lambda: TrainConfig(epochs=1, schedule=ScheduleConfig(warmup_epochs=3)))
    assert "the run's 1 epoch: got 3" in said
    assert "at least 2 dimensions and two classes: got 1 dimension." in refusal(lambda: simplex_vertices(3, 1))


def test_folders_with_one_of_a_thing(tmp_path):
    write_images(tmp_path / "photos", {"cat": 4, "dog": 4})
    (tmp_path / "photos" / "empty").mkdir()
    (tmp_path / "photos" / "cat" / "list.txt").write_text("no image")
    (tmp_path / "photos" / "cat" / "0.png").rename(tmp_path / "photos" / "loose.png")
    notes = " ".join(open_data(tmp_path / "photos").note)
    assert "1 sub-folder of " in notes
    assert "holds no image and makes no class: empty." in notes
    assert "is no image file and was left out" in notes
    assert "lies in none of its sub-folders and so has no class, and was left out" in notes
    assert not SLIP.search(notes)


def test_tables_with_one_of_a_thing(tmp_path):
    path = tmp_path / "few.csv"
    path.write_text("text,label\none,a\nthree words here,a\ntwo words,b\none,b\ntwo,c\n")
    notes = " ".join(open_data(path, words=1, test_share=0.3, validation_share=0).note)
    assert "texts are longer than 1 word and were cut there" in notes
    assert not SLIP.search(notes)
    path.write_text("label\na\nb,c\n")
    assert "must have 1 field in every row" in refusal(lambda: open_data(path))
