"""What is taken for a sample where a file leaves it open: said in a note, or refused with what to do."""

import re
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from scipy import sparse

from data_files import Frame, write_wav
from sincere.cli.hints import as_typed
from sincere.data import open_data, read_data, split_arrays
from sincere.data.tabular import TEXT_NAMES
from sincere.errors import InputError

LABELS = np.arange(8) % 2


def table(folder, header, row, count=8):
    """A table whose rows are `row` with a number and one of two classes."""
    path = folder / "t.csv"
    path.write_text("\n".join([header, *(row.format(i=i, c="ab"[i % 2]) for i in range(count))]))
    return path


def refusal(source, **options):
    with pytest.raises(InputError) as error:
        open_data(source, **options)
    return str(error.value)


@pytest.mark.parametrize(
    ("header", "row", "left"),
    [
        ("text,price,label", "word{i},{i}.5,{c}", ["'price'"]),
        ("text,label,category", "some words {i},{c},x", ["'category'"]),
        ("id,title,Review,stars,label", "{i},t,so good {i},{i},{c}", ["'title'", "'stars'"]),
        ("query,document,label", "two words {i},doc{i},{c}", ["'document'"]),  # single words are no second text
        ("sentence,source,label", "字{i},web,{c}", ["'source'"]),
    ],
)
def test_columns_beside_a_text_are_named(tmp_path, header, row, left):
    path = table(tmp_path, header, row)
    data, notes = read_data(path)
    assert data.kind == "text"
    assert f"of {path} is read as text, and not {', '.join(left)}; the option input_column chooses another" in notes[0]
    assert "--input-column chooses another column" in as_typed(notes[0], {"input_column": "--input-column"})
    assert ("label_column other classes" in notes[0]) == ("'category'" in left)
    _, notes = read_data(path, form=data.form)  # a model has chosen already
    assert notes[0].endswith(f"and not {', '.join(left)}.")


@pytest.mark.parametrize(
    ("header", "row", "options"),
    [
        ("text,label", "some words {i},{c}", {}),
        ("id,text,label", "{i},some words {i},{c}", {}),
        ("id,text,label", "key{i},some words {i},{c}", {}),
        ("id,title,label", "{i},some words {i},{c}", {}),
        ("title,label", "some words {i},{c}", {}),
        ("title,price,label", "some words {i},{i},{c}", {"input_column": "title"}),
    ],
)
def test_what_is_clear_needs_no_word(tmp_path, header, row, options):
    data, notes = read_data(table(tmp_path, header, row), **options)
    assert data.kind == "text"
    assert data.shown[1] == "some words 1"
    assert notes == ()


@pytest.mark.parametrize(
    ("header", "row", "words"),
    [
        ("title,rooms,area,price,label", "a house {i},{i},2,3,{c}", ["column 'title'", "input_column='title'"]),
        ("content,heat,label", "oil{i},{i},{c}", ["column 'content'", "must hold numbers"]),
        ("title,body,label", "a title {i},a body,{c}", ["'title', 'body'", "input_column='…'", "join them in one"]),
        ("id,title,body,label", "{i},a title,a body,{c}", ["one column of text", "input_column='…'"]),
        (
            "question,sentence,label",
            "what is it {i},it is so,{c}",
            ["'question' and 'sentence' all look like it", "input_column='…'", "join them in one"],
        ),
        ("id;heat;label", "{i};{i},5;{c}", ["decimal point"]),
    ],
)
def test_what_could_be_meant_otherwise_is_refused(tmp_path, header, row, words):
    message = refusal(table(tmp_path, header, row))
    for part in words:
        assert part in message


def test_the_kind_settles_it(tmp_path):
    path = table(tmp_path, "title,price,label", "a house {i},{i},{c}")
    data, (note,) = read_data(path, kind="text")
    assert data.shown[0] == "a house 0"
    assert "and not 'price'" in note


def test_the_page_lists_the_usual_names():
    page = (Path(__file__).parent.parent / "docs" / "data.md").read_text()
    sentence = re.search(r"A column of text is called (.*?), in any case", page)
    assert re.findall("`(.*?)`", sentence[1]) == list(TEXT_NAMES)


@pytest.mark.parametrize(
    ("header", "row", "options"),
    [
        ("file,label", "{c}_{i}.png,{c}", {}),
        ("text,label", "sounds/{c} ({i}).WAV,{c}", {}),
        ("clip,label", "{c}_{i}.mp3,{c}", {"input_column": "clip"}),
        ("path,width,label", "{c}_{i}.jpeg,3,{c}", {}),
    ],
)
def test_a_table_of_files_is_refused(tmp_path, header, row, options):
    path = table(tmp_path, header, row, count=20)
    message = refusal(path, **options)
    assert "not names of files: 20 of 20 values in" in message
    assert "sort them into a folder with a sub-folder per class" in message
    path.write_text(path.read_text().rpartition("\n")[0] + "\nmissing" + ",3" * header.count(",w") + ",a")
    assert "19 of 20 values in" in refusal(path, **options)


def test_texts_that_mention_files_are_texts(tmp_path):
    path = table(tmp_path, "text,label", "where is {i}.png,{c}\nno file here,{c}")
    assert read_data(path)[0].kind == "text"


@pytest.mark.parametrize("kind", ["image", "sound"])
def test_a_table_holds_neither_images_nor_sound(tmp_path, kind):
    message = refusal(table(tmp_path, "file,label", "{c}_{i}.png,{c}"), kind=kind)
    assert f"got kind={kind!r}" in message
    assert "a sub-folder per class" in message


UNIT = np.linspace(0, 1, 8 * 4 * 4).reshape(8, 4, 4)


@pytest.mark.parametrize(
    ("images", "cure"),
    [
        (UNIT.astype(np.float32), '(x * 255).round().astype("uint8")'),
        (UNIT[:, None], '(x * 255).round().astype("uint8")'),
        (UNIT > 0.5, '(x * 255).round().astype("uint8")'),
        (UNIT * 255, 'x.round().astype("uint8")'),
        ((UNIT * 255).astype(np.int64), 'x.astype("uint8")'),
    ],
)
def test_images_of_other_numbers_are_told_how_to_be_saved(tmp_path, images, cure):
    np.savez(tmp_path / "t.npz", x=images, y=LABELS)
    open_way, image_way = refusal(tmp_path / "t.npz"), refusal(tmp_path / "t.npz", kind="image")
    for message in (open_way, image_way):
        assert f"got {images.dtype} {images.shape} from 0 to" in message
        assert f"Save {cure}." in message
    assert "If these are no images, kind='array' flattens each sample" in open_way
    assert "kind='array'" not in image_way
    np.savez(tmp_path / "t.npz", x=eval(cure, {"x": images}), y=LABELS)
    pixels = read_data(tmp_path / "t.npz")[0].inputs
    assert pixels.shape == (8, 1, 4, 4)
    assert (pixels.min(), pixels.max()) == (0, 255), "cured as advised, they are no black squares"


@pytest.mark.parametrize("images", [UNIT - 0.5, UNIT * 300, np.where(UNIT > 0.9, np.nan, UNIT)])
def test_images_of_another_range_are_to_be_brought_to_it(tmp_path, images):
    np.savez(tmp_path / "t.npz", x=images, y=LABELS)
    assert "Bring the values to 0 to 255" in refusal(tmp_path / "t.npz", kind="image")


@pytest.mark.parametrize("kind", [None, "text", "array", "image"])
@pytest.mark.parametrize("shape", [(8,), (8, 1)])
def test_arrays_of_texts_are_told_to_be_a_table(tmp_path, kind, shape):
    np.savez(tmp_path / "t.npz", x=np.full(shape, "some words"), y=LABELS)
    message = refusal(tmp_path / "t.npz", kind=kind)
    assert "must hold numbers: got <U10" in message
    assert "Save texts as a .csv with the columns text and label" in message


@pytest.mark.parametrize(("shape", "kind"), [((8, 100), "sound"), ((8, 1, 100), None), ((8, 100, 2), None)])
def test_waveforms_are_told_to_be_wav_files(tmp_path, shape, kind):
    np.savez(tmp_path / "t.npz", x=np.zeros(shape, np.float32), y=LABELS)
    assert "Waveforms are read from WAV files, in a folder with" in refusal(tmp_path / "t.npz", kind=kind)


def test_a_single_file_is_said_to_have_no_label(tmp_path):
    Image.new("RGB", (5, 6)).save(tmp_path / "one.jpg")
    write_wav(tmp_path / "one.wav", np.arange(8))
    for path in (tmp_path / "one.jpg", tmp_path / "one.wav"):
        data, notes = read_data(path, labels="optional")
        assert data.class_names == ("unlabelled",)
        assert f"{path} is read alone and so has no class: it is of one class, 'unlabelled'." in notes


def test_another_class_to_judge_by_comes_with_advice(tmp_path):
    train = table(tmp_path, "text,label", "some words {i},{c}")
    (tmp_path / "new.csv").write_text("text,label\nnew,c\n")
    message = refusal(train, test=tmp_path / "new.csv")
    assert "also has c. Correct these labels or remove their samples, or add samples of them to" in message


class TestArraysInMemory:
    def test_they_are_what_a_file_of_them_would_be(self, tmp_path):
        generator = np.random.default_rng(0)
        x, y = generator.integers(0, 256, (60, 8, 8, 3), dtype=np.uint8), np.array(["b", "a", "c"] * 20)
        np.savez(tmp_path / "arrays.npz", x=x, y=y)
        found, expected = split_arrays(x, y, seed=3), open_data(tmp_path / "arrays.npz", seed=3)
        for ours, theirs in zip((found.train, found.test), (expected.train, expected.test), strict=True):
            assert torch.equal(ours.inputs, theirs.inputs)
            assert torch.equal(ours.labels, theirs.labels)
            assert ours.class_names == theirs.class_names
        assert found.validation.class_names == ("a", "b", "c")

    def test_columns_of_a_frame_go_by_their_names(self):
        frame = Frame(np.random.default_rng(0).normal(size=(20, 3)), "abc")
        labels = ["x", "y"] * 10
        found = split_arrays(frame, labels, test=(frame["cab"], labels))
        assert found.train.columns == ("a", "b", "c")
        assert torch.equal(found.test.inputs, split_arrays(frame, labels, test=(frame, labels)).test.inputs)
        with pytest.raises(InputError, match=r"its columns must be those to train on, .* it lacks 'c'"):
            split_arrays(frame, labels, test=(frame["ab"], labels))
        for unnamed in ("aab", [0, 1, 2]):
            assert split_arrays(Frame(frame.values, unnamed), labels).train.columns is None

    def test_names_in_a_column_of_objects(self):
        """As pandas keeps them."""
        names = np.array(["dog", "cat"] * 10, dtype=object)
        found = split_arrays(np.random.default_rng(0).normal(size=(20, 3)), names)
        assert found.train.class_names == ("cat", "dog")

    def test_numbers_in_a_column_of_objects(self):
        """As a frame that holds names too gives them out."""
        rows = np.random.default_rng(0).normal(size=(20, 3))
        for labels in ([0, 1] * 10, [True, False] * 10, [0.0, 1.0] * 10):
            plain = split_arrays(rows, labels)
            found = split_arrays(rows.astype(object), np.array(labels, dtype=object))
            assert torch.equal(found.train.inputs, plain.train.inputs)
            assert found.train.class_names == plain.train.class_names

    @pytest.mark.parametrize(
        ("rows", "labels", "message"),
        [
            (
                np.zeros((4, 3)),
                ["a", "b", None, "a"],
                r"^labels must hold names throughout: row 2 holds None\. Mend it",
            ),
            (np.zeros((4, 3)), ["a", float("nan"), "b", "a"], "labels must hold names throughout: row 1 holds nan"),
            (np.zeros((3, 3)), [0, 1, None], "labels must hold numbers throughout: row 2 holds None"),
            ([[0.5, "u"], [0.5, None], [0.5, 1]], [0, 1, 1], "numbers throughout: row 0, column 1, holds 'u'"),
            (sparse.csr_array(np.eye(4)), [0, 1, 0, 1], r"got csr_array\. Pass inputs\.toarray\(\)\."),
            ({"size": 1}, [0, 1], r"inputs must be an array, or lists of one length: got dict\."),
            ((row for row in np.eye(4)), [0, 1, 0, 1], r"lists of one length: got generator\."),
            (np.eye(3), {0, 1, 2}, r"labels must be an array, or lists of one length: got set\."),
            (np.ma.array(np.eye(4), mask=np.eye(4)), [0, 1, 0, 1], "inputs must have all their values: some are"),
            (np.eye(4), np.ma.array([0, 1, 0, 1], mask=[1, 0, 0, 0]), "labels must have all their values: some are"),
            ([torch.ones(3, requires_grad=True)] * 4, [0, 1, 0, 1], "inputs must be an array, or lists of one length"),
        ],
    )
    def test_what_is_no_array_is_named(self, rows, labels, message):
        with pytest.raises(InputError, match=message):
            split_arrays(rows, labels)

    def test_tensors_with_a_graph_in_half_precision_and_tests_of_their_own(self):
        rows = torch.randn(30, 4, dtype=torch.bfloat16, requires_grad=True)
        labels = torch.arange(30) % 3
        found = split_arrays(rows, labels, test=(rows[:6].tolist(), labels[:6].tolist()), validation_share=0.0)
        assert torch.equal(found.test.inputs, rows[:6].detach().float())
        assert len(found.train) == 30
        assert found.validation is None

    @pytest.mark.parametrize(
        ("given", "words"),
        [
            ((np.zeros((4, 3, 8, 8), np.float32), [0, 1, 0, 1]), 'inputs must be .*astype\\("uint8"\\)'),
            (([["a"], ["b"]], [0, 1]), "inputs must hold numbers"),
            ((np.zeros((4, 2)), [0, 1]), "inputs must have one label per sample"),
            ((np.zeros((10, 2)), [0] * 10), "arrays"),
            (([[1, 2], [1]], [0, 1]), "inputs must be an array, or lists of one length"),
        ],
    )
    def test_what_cannot_be_split_is_refused(self, given, words):
        with pytest.raises(InputError, match=words):
            split_arrays(*given)
