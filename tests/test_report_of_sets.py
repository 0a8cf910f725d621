"""Reports on sets in memory, as a notebook has them, and on what was passed in their place."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import sincere.report
from report_subjects import clouds
from sincere.embeddings import EmbeddingSet
from sincere.errors import InputError, OptionError
from sincere.report import read_subject, subject_of, write_report

TRAIN, TEST = clouds("abc", seed=0), clouds("abc", seed=0, noise=1.5, per_class=15)
OTHER_TRAIN = EmbeddingSet.from_arrays(TRAIN.embeddings @ torch.randn(5, 4), TRAIN.labels, class_names=("a", "b", "c"))
OTHER = EmbeddingSet.from_arrays(TEST.embeddings @ torch.randn(5, 4), TEST.labels, class_names=("a", "b", "c"))


@pytest.fixture
def measured(monkeypatch):
    """The subjects that a page is made of, in place of their pictures."""
    seen = []
    monkeypatch.setattr(sincere.report.writing, "_panel", lambda writer, subject, number: seen.append(subject))
    monkeypatch.setattr(sincere.report.writing, "page", lambda *_, **__: "")
    return seen


@pytest.mark.parametrize("train", [None, TRAIN], ids=["alone", "with training samples"])
def test_a_set_gives_the_page_of_its_subject(train, tmp_path):
    (page,) = {
        write_report(given, tmp_path / "page.html", train=beside).read_text()
        for given, beside in ((TEST, train), (subject_of(TEST, train=train), None))
    }
    assert "clouds" in page


def test_several_sets_have_their_training_samples_in_the_same_order(measured, tmp_path):
    write_report([TEST, OTHER, TEST], tmp_path / "page.html", train=[TRAIN, OTHER_TRAIN, None])
    assert [subject.name for subject in measured] == ["clouds", "arrays", "clouds (2)"]
    assert [subject.train and subject.train.embeddings.shape for subject in measured] == [(60, 5), (60, 4), None]
    assert [subject.geometry.dim for subject in measured] == [5, 4, 5]


def test_sets_and_files_go_together(measured, tmp_path):
    test, train = TEST.save(tmp_path / "test.npz"), TRAIN.save(tmp_path / "train.npz")
    write_report([test, TEST, str(test)], tmp_path / "page.html", train=[TRAIN, str(train), train])
    first, *others = (replace(subject.evaluation, name="") for subject in measured)
    assert all(other == first for other in others)
    assert read_subject(test, train=TRAIN).evaluation == measured[0].evaluation


def test_a_set_may_have_a_graph(tmp_path):
    """As one that was made without `from_arrays`, out of a model's output."""
    grown = replace(TEST, embeddings=TEST.embeddings.clone().requires_grad_() * 1)
    assert write_report(grown, tmp_path / "page.html").exists()


FROM_ARRAYS = r"EmbeddingSet.from_arrays\(embeddings, labels\) makes one"


@pytest.mark.parametrize(
    ("inputs", "options", "message"),
    [
        (TEST.embeddings, {}, f"got Tensor.*{FROM_ARRAYS}"),
        (TEST.embeddings.numpy(), {}, f"got ndarray.*{FROM_ARRAYS}"),
        ((TEST.embeddings, TEST.labels), {}, f"got Tensor.*{FROM_ARRAYS}"),
        ([[0.1, 0.2], [0.3, 0.4]], {}, f"got list.*{FROM_ARRAYS}"),
        ([TEST, None], {}, "must be .*an EmbeddingSet, .*got NoneType"),
        (TEST, {"train": TRAIN.embeddings}, f"train must be.*got Tensor.*{FROM_ARRAYS}"),
        ([TEST, OTHER], {"train": [TRAIN, OTHER_TRAIN.embeddings]}, f"train must be.*got Tensor.*{FROM_ARRAYS}"),
        ({"a": TEST}, {}, "must be .*got dict"),
        (7, {}, "must be .*got int"),
    ],
)
def test_what_is_no_set_is_refused_in_words(inputs, options, message, tmp_path):
    with pytest.raises(InputError, match=message):
        write_report(inputs, tmp_path / "page.html", **options)


def test_train_that_belongs_to_nothing_is_refused(tmp_path):
    out = tmp_path / "page.html"
    with pytest.raises(OptionError, match=r"train must hold one.*for each of the 2.*in their order: got 1"):
        write_report([TEST, OTHER], out, train=TRAIN)
    with pytest.raises(OptionError, match=r"for each of the 2.*got 3"):
        write_report([TEST, OTHER], out, train=[TRAIN] * 3)
    with pytest.raises(InputError, match=r"train belongs to embeddings.*subject 'clouds' has been measured"):
        write_report(subject_of(TEST), out, train=TRAIN)
    with pytest.raises(InputError, match="train and labels belong to a file of embeddings"):
        write_report(tmp_path, out, train=TRAIN)
    with pytest.raises(OptionError, match=r"out must be a path that ends in \.html: got EmbeddingSet.*train="):
        write_report(TEST, TRAIN)
    with pytest.raises(InputError, match=f"test must be an EmbeddingSet: got ndarray.*{FROM_ARRAYS}"):
        subject_of(np.zeros((3, 2)))
