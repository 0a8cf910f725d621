"""What `EmbeddingSet.from_arrays` makes of labels of −1, which the losses take for unlabelled, and of views."""

import json

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from sincere.cli.app import app
from sincere.embeddings import EmbeddingSet
from sincere.errors import InputError, OptionError

ROWS = torch.arange(10.0).reshape(5, 2) + 1
LABELS = [3, -1, 0, -1, 3]
SHOWN = tuple("abcde")
IMAGES = torch.arange(5, dtype=torch.uint8).repeat_interleave(16).reshape(5, 4, 4)
WORDS = r'labels of −1 .* 2 of 5 samples.*unlabelled="drop".*unlabelled="class"'


@pytest.mark.parametrize("labels", [LABELS, torch.tensor(LABELS), np.array(LABELS, np.int8), np.array(LABELS, float)])
def test_unlabelled_samples_are_not_taken_for_a_class(labels, tmp_path):
    with pytest.raises(InputError, match=WORDS):
        EmbeddingSet.from_arrays(ROWS, labels)
    with pytest.raises(InputError, match=r'2 of 5 samples.*unlabelled="drop" leaves those out\.$'):
        EmbeddingSet.from_arrays(ROWS, labels, class_names=("a", "b", "c", "d"))
    np.savez(tmp_path / "theirs.npz", x=ROWS.numpy(), y=np.asarray(labels))
    with pytest.raises(InputError, match=WORDS):
        EmbeddingSet.load(tmp_path / "theirs.npz")


def test_unlabelled_samples_are_left_out_where_that_is_asked_for(tmp_path):
    labels, features = np.array(LABELS), 2 * ROWS
    whole = EmbeddingSet.from_arrays(
        ROWS, labels, features=features, shown=SHOWN, images=IMAGES, unlabelled="drop", name="rows"
    )
    assert whole.class_names == ("0", "3")
    assert whole.labels.tolist() == [1, 0, 1]
    assert torch.equal(whole.embeddings, ROWS[[0, 2, 4]])
    assert torch.equal(whole.features, features[[0, 2, 4]])
    assert whole.shown == ("a", "c", "e")
    assert whole.images[:, 0, 0].tolist() == [0, 2, 4]
    named = EmbeddingSet.from_arrays(ROWS, labels, class_names=("a", "b", "c", "d"), unlabelled="drop")
    assert (named.labels.tolist(), len(named.class_names)) == ([3, 0, 3], 4)
    np.savez(tmp_path / "theirs.npz", x=ROWS.numpy(), y=labels, shown=np.array(SHOWN))
    read = EmbeddingSet.load(tmp_path / "theirs.npz", unlabelled="drop")
    assert (read.labels.tolist(), read.shown) == ([1, 0, 1], ("a", "c", "e"))
    assert len(EmbeddingSet.from_arrays(ROWS, [-1] * 5, unlabelled="drop")) == 0


def test_minus_one_may_be_a_class(tmp_path):
    """As where there are two, −1 and 1; and it still is one when the set is read again."""
    made = EmbeddingSet.from_arrays(ROWS, [-1, 1, 1, -1, 1], unlabelled="class")
    assert (made.class_names, made.labels.tolist()) == (("-1", "1"), [0, 1, 1, 0, 1])
    assert EmbeddingSet.load(made.save(tmp_path / "made.npz")).labels.tolist() == made.labels.tolist()
    texts = EmbeddingSet.from_arrays(ROWS, ["-1", "1", "1", "-1", "1"])  # a name is a name
    assert texts.class_names == ("-1", "1")
    assert EmbeddingSet.from_arrays(ROWS, [-2, 1, 1, -2, 1]).class_names == ("-2", "1")


def test_what_unlabelled_may_be():
    with pytest.raises(OptionError, match="unlabelled must be one of 'refuse', 'drop', 'class': got 'ignore'"):
        EmbeddingSet.from_arrays(ROWS, LABELS, unlabelled="ignore")


@pytest.mark.parametrize("made", [lambda z: z, lambda z: z.numpy()], ids=["tensor", "array"])
def test_views_are_refused_with_what_to_write(made):
    """The advice is followed to the letter."""
    embeddings, labels = torch.randn(4, 3, 2), torch.tensor([0, 1, 0, 2])
    with pytest.raises(InputError, match=r"embeddings must have shape \(n, d\): got \(4, 3, 2\)") as refusal:
        EmbeddingSet.from_arrays(made(embeddings), made(labels))
    (advice,) = (part for part in str(refusal.value).split("`") if part.startswith("EmbeddingSet"))
    given = {"EmbeddingSet": EmbeddingSet, "np": np, "embeddings": made(embeddings), "labels": made(labels)}
    followed = eval(advice, given)
    assert torch.equal(followed.embeddings, embeddings.reshape(12, 2))
    assert followed.labels.tolist() == [0, 0, 0, 1, 1, 1, 0, 0, 0, 2, 2, 2]


def test_pictures_are_no_views():
    with pytest.raises(InputError, match=r"got \(4, 3, 8, 8\). Flatten each sample first"):
        EmbeddingSet.from_arrays(torch.randn(4, 3, 8, 8), [0, 1, 0, 2])


def test_report_takes_it_as_it_is_typed(tmp_path):
    """±1 are two classes of many data sets: what to type for them is in the refusal."""
    file = tmp_path / "signs.npz"
    np.savez(file, embeddings=np.random.default_rng(0).normal(size=(40, 3)), labels=np.tile([-1, 1], 20))
    refused = CliRunner().invoke(app, ["report", str(file)])
    assert refused.exit_code == 2
    assert "--unlabelled drop" in refused.stderr
    assert "--unlabelled class" in refused.stderr
    taken = CliRunner().invoke(app, ["report", str(file), "--unlabelled", "class", "--json"])
    assert taken.exit_code == 0, taken.stderr
    assert json.loads(taken.stdout)["path"] == str(tmp_path / "signs-report.html")


def test_classes_that_nobody_knows_are_told_where_to_go():
    known, other = (EmbeddingSet.from_arrays(ROWS[:4], names) for names in (["a", "b"] * 2, ["a", "c"] * 2))
    with pytest.raises(InputError, match=r"1 is not \('c'\)\. Leave out .*sincere\.geometry\.out_of_class"):
        other.with_classes(known.class_names)
