"""Programs that set torch's default device or dtype: data, training and models are the same there."""

import torch

import sincere
from sincere.data import open_data
from sincere.train import train
from small_runs import small_config, small_splits


def test_a_run_is_the_same(set_default, tmp_path):
    splits = small_splits(90)
    train(small_config(epochs=2), run=tmp_path / "plain", data=splits, show="off")
    other = set_default(train, small_config(epochs=2), run=tmp_path / "other", data=splits, show="off")
    assert other.finished
    expected = sincere.load(tmp_path / "plain").embed(splits.test)
    model = set_default(sincere.load, tmp_path / "other")
    assert torch.equal(set_default(model.embed, splits.test).embeddings, expected.embeddings)
    assert torch.equal(set_default(model, splits.test.inputs), expected.embeddings)


def test_data_is_the_same(set_default):
    plain, other = open_data("digits"), set_default(open_data, "digits")
    assert torch.equal(other.train.inputs, plain.train.inputs)
    assert torch.equal(other.test.labels, plain.test.labels)
