"""The label −1, which means unlabelled in the losses, where it is a class elsewhere; and sets of one class."""

import json
import re

import numpy as np
import pytest
import torch

import sincere.functional as SF
from data_files import write_images
from sincere.data import ClassBatches, open_data, read_data
from sincere.embeddings import EmbeddingSet
from sincere.evaluate import evaluate
from sincere.report import subject_of, write_report
from sincere.report.leave_one_out import evaluate_alone
from sincere.report.sections import about, tiles

TAKEN = "the label −1 is taken as a class of its own"
ADVICE = "if it means unlabelled, as it does in the losses, leave those samples out"


def rows_of(labels):
    values = np.random.default_rng(0).normal(size=(len(labels), 3)).round(3)
    return [(*row, label) for row, label in zip(values.tolist(), labels, strict=True)]


def as_csv(folder, labels):
    path = folder / "t.csv"
    path.write_text("a,b,c,label\n" + "".join(",".join(map(str, row)) + "\n" for row in rows_of(labels)))
    return path


def as_json_lines(folder, labels):
    path = folder / "t.jsonl"
    path.write_text("".join(json.dumps(dict(zip("abcy", row, strict=True))) + "\n" for row in rows_of(labels)))
    return path


def as_archive(folder, labels):
    rows = np.array(rows_of(labels))
    np.savez(folder / "t.npz", x=rows[:, :3], y=np.array(labels))
    return folder / "t.npz"


def as_texts(folder, labels):
    lines = [f"text number {i} of it,{label}\n" for i, label in enumerate(labels)]
    (folder / "t.csv").write_text("text,label\n" + "".join(lines))
    return folder / "t.csv"


def as_folders(folder, labels):
    write_images(folder / "t", {str(label): 10 for label in set(labels)})
    return folder / "t"


def as_parts(folder, labels):
    for part in ("train", "test"):
        as_csv(folder, labels).rename(folder / f"{part}.csv")
    return folder


WRITERS = (as_csv, as_json_lines, as_archive, as_texts, as_folders, as_parts)


@pytest.mark.parametrize("write", WRITERS, ids=lambda write: write.__name__)
def test_open_data_notes_minus_one_beside_other_numbers(tmp_path, write):
    source = write(tmp_path, [-1, 0, 1] * 10)
    noted = [note for note in open_data(source).note if TAKEN in note]
    assert noted == [f"{TAKEN}, like the other numbers; {ADVICE}."]
    assert noted[0] in read_data(source)[1]


@pytest.mark.parametrize(
    ("classes", "noted"),
    [
        ((-1, 0), True),
        ((-1, 3, 12), True),
        ((-1, 1), False),  # a usual coding of two classes
        ((-2, -1, 0, 1, 2), False),  # a scale
        ((0, 1, 2), False),
        (("-1", "0", "cat"), False),
    ],
    ids=str,
)
def test_which_classes_are_noted(tmp_path, classes, noted):
    splits = open_data(as_csv(tmp_path, classes * 10))
    assert any(TAKEN in note for note in splits.note) == noted
    assert splits.train.class_names == tuple(map(str, classes))


def test_test_data_of_its_own_does_not_repeat_the_note(tmp_path):
    source = as_archive(tmp_path, [-1, 0, 1] * 10)
    splits = open_data(source, test=str(as_csv(tmp_path, [-1, 0, 1] * 4)))
    assert sum(TAKEN in note for note in splits.note) == 1


@pytest.mark.parametrize("labels", [torch.tensor, np.array, list], ids=["tensor", "array", "list"])
def test_class_batches_note_what_the_losses_leave_out(labels):
    plain = [-1] * 360 + [0] * 20 + [1] * 20
    batches = ClassBatches(labels(plain), batch_size=32)
    (note,) = batches.notes
    assert note.startswith("360 of 400 samples have the label −1")
    assert "the losses leave it out" in note
    assert "labels[labels != -1]" in note
    # What the note warns of does happen, and what it advises helps.
    assert _batches_without_negatives(torch.tensor(plain), batches) > 0
    labelled = torch.tensor(plain)[torch.tensor(plain) != -1]
    advised = ClassBatches(labelled, batch_size=32)
    assert advised.notes == ()
    assert _batches_without_negatives(labelled, advised) == 0


def _batches_without_negatives(labels, batches):
    rows = torch.randn(len(labels), 4, generator=torch.Generator().manual_seed(0))
    return sum(float(SF.sincere(rows[batch], labels[batch])) == 0 for batch in batches.batches(0))


def test_class_batches_note_a_pair_of_classes_too():
    (note,) = ClassBatches([-1, 1] * 10, batch_size=8).notes  # every batch of it has a loss of 0
    assert "10 of 20 samples have the label −1" in note


def test_classes_that_are_named_minus_one_are_classes():
    assert ClassBatches([0, 1, 2] * 10, batch_size=8, class_names=["-1", "0", "1"]).notes == ()
    for unsigned in (np.array([0, 255] * 10, dtype=np.uint8), np.array([True, False] * 10)):
        assert ClassBatches(unsigned, batch_size=8).notes == ()


def test_minus_one_has_no_name_of_another_class():
    notes = ClassBatches([0] * 8 + [1] * 8 + [-1], batch_size=8, class_names=["ant", "bee"]).notes
    assert any(note.endswith("one sample to train on, and no positive but views of it: -1.") for note in notes)


def cloud(classes, *, each=12, name="cloud"):
    labels = [label for label in classes for _ in range(each)]
    rows = np.random.default_rng(len(labels)).normal(size=(len(labels), 4))
    return EmbeddingSet.from_arrays(rows, labels, name=name)


def test_the_page_of_one_class_shows_no_accuracy(tmp_path):
    page = write_report(cloud(["unlabelled"]), tmp_path / "r.html").read_text()
    shown = re.sub(r"<(script|style)\b.*?</\1>", "", page, flags=re.DOTALL)
    assert "100.0" not in shown
    assert "k-NN" not in shown
    assert "MAP@R" not in shown
    assert 'class="grade good"' not in shown
    assert shown.count("one class has no accuracy") == 1
    assert shown.index("one class has no accuracy") < shown.index("<figure")
    assert 'data-goto="confusion"' not in shown
    assert "Directions in use" in shown


@pytest.mark.parametrize("each", [2, 12, 40])
@pytest.mark.parametrize("fitted", [False, True], ids=["alone", "with training samples"])
def test_one_class_has_no_figures_and_one_note(each, fitted):
    one = cloud(["only"], each=each)
    subject = subject_of(one, train=cloud(["only"], each=30) if fitted else None)
    assert subject.evaluation.classifiers == ()
    assert subject.evaluation.retrieval is None
    assert subject.evaluation.notes == (
        "all samples are of one class, 'only', and cannot be taken for another: one class has no accuracy",
    )
    assert "%" not in tiles(subject)
    assert "<td>nobody</td>" in about(subject)


def test_names_without_samples_are_no_second_class():
    rows = np.random.default_rng(0).normal(size=(8, 3))
    found = evaluate_alone(EmbeddingSet.from_arrays(rows, [1] * 8, class_names=("never", "seen")), name="x")
    assert (found.classifiers, found.retrieval) == ((), None)
    assert "'seen'" in found.notes[0]


def test_one_class_among_training_samples_of_two_can_be_wrong():
    subject = subject_of(cloud(["a"]), train=cloud("ab"))
    assert "k-NN" in tiles(subject)
    assert subject.evaluation.classifier("knn").top1.value < 1
    assert "MAP@R" not in tiles(subject)
    assert any("retrieval among them finds nothing else" in note for note in subject.evaluation.notes)


def test_two_classes_keep_their_figures():
    subject = subject_of(cloud("ab"))
    assert "k-NN, leave-one-out (k = 11, small classes)" in tiles(subject)
    assert "MAP@R" in tiles(subject)
    assert any("because classes are small (11 other samples each)" in note for note in subject.evaluation.notes)
    assert "all the others (leave-one-out)" in about(subject)


def test_one_class_of_training_samples_cannot_be_outvoted():
    found = evaluate(cloud(["a"]), cloud(["a"]), name="x")
    assert found.classifier("knn").settings["k"] == 12
    assert not any("further neighbours" in note for note in found.notes)
