"""Samples without a class, as a trained model meets them: `read_data(…, labels="optional")` of each source."""

import json

import numpy as np
import pytest
from PIL import Image

from data_files import write_images, write_wav
from sincere.data import open_data, read_data
from sincere.errors import InputError, OptionError

ROWS = np.arange(12, dtype=np.float64).reshape(4, 3)


def csv_of_numbers(folder):
    (folder / "t.csv").write_text("a,b,c\n" + "".join(f"{a},{b},{c}\n" for a, b, c in ROWS))
    return folder / "t.csv"


def json_of_numbers(folder):
    (folder / "t.jsonl").write_text(
        "".join(json.dumps(dict(zip("abc", row, strict=True))) + "\n" for row in ROWS.tolist())
    )
    return folder / "t.jsonl"


def archive(**arrays):
    def write(folder):
        np.savez(folder / "t.npz", **arrays)
        return folder / "t.npz"

    return write


def array(folder):
    np.save(folder / "t.npy", ROWS)
    return folder / "t.npy"


@pytest.mark.parametrize(
    "write",
    [csv_of_numbers, json_of_numbers, archive(x=ROWS), archive(Features=ROWS), archive(points=ROWS), array],
)
def test_rows_without_labels_are_of_one_class(tmp_path, write):
    source = write(tmp_path)
    with pytest.raises(InputError, match="label"):
        read_data(source)
    data, notes = read_data(source, labels="optional")
    np.testing.assert_array_equal(data.inputs.numpy(), ROWS)
    assert data.class_names == ("unlabelled",)
    assert data.labels.tolist() == [0] * 4
    assert "of one class, 'unlabelled'" in notes[0]


def test_labels_that_are_there_are_read(tmp_path):
    (tmp_path / "t.csv").write_text("a,b,label\n1,2,x\n3,4,\n5,6,x\n")
    data, notes = read_data(tmp_path / "t.csv", labels="optional")
    assert [data.class_names[i] for i in data.labels.tolist()] == ["x", "unlabelled", "x"]
    assert "1 of 3 rows" in notes[0]
    np.savez(tmp_path / "t.npz", x=ROWS, y=[0, 1, 0, 1])
    data, notes = read_data(tmp_path / "t.npz", labels="optional")
    assert (data.class_names, notes) == (("0", "1"), ())
    # A label column of other data, as a run remembers it, is no reason to overlook the labels that are there.
    assert read_data(tmp_path / "t.npz", labels="optional", label_column="kind")[0].class_names == ("0", "1")


def test_one_column_of_texts(tmp_path):
    (tmp_path / "t.csv").write_text('text\n"Where is it, please?"\nLost!\n')
    data, _ = read_data(tmp_path / "t.csv", labels="optional")
    assert data.kind == "text"
    assert data.shown == ("Where is it, please?", "Lost!")


def test_a_column_of_words_may_be_the_classes(tmp_path):
    (tmp_path / "t.csv").write_text("a,b,kind\n1,2,x\n3,4,y\n")
    with pytest.raises(InputError, match="or name it as the classes: label_column='kind'"):
        read_data(tmp_path / "t.csv", labels="optional")


def test_what_is_no_sample_makes_no_class_of_unlabelled_ones(tmp_path):
    write_images(tmp_path / "d", {"cat": 2})
    (tmp_path / "d" / "notes.txt").write_text("-")
    _, notes = read_data(tmp_path / "d", labels="optional")
    assert notes == (f"1 file of {tmp_path / 'd'} is no image file and was left out: {tmp_path / 'd' / 'notes.txt'}.",)


def test_a_sentence_that_is_lost_as_a_name_is_noted(tmp_path):
    (tmp_path / "t.csv").write_text("where is my card\nmy card is lost\n")
    data, notes = read_data(tmp_path / "t.csv", labels="optional")
    assert data.shown == ("my card is lost",)
    assert "'where is my card' for no sample" in notes[1]
    (tmp_path / "t.csv").write_text("asked by customers\nmy card is lost\n")
    assert len(read_data(tmp_path / "t.csv", labels="optional")[1]) == 1


def test_files_side_by_side_and_alone(tmp_path):
    write_images(tmp_path / "d", {"cat": 2})
    for i in range(3):
        Image.new("RGB", (5, 6), (i, i, i)).save(tmp_path / "d" / f"{i}.png")
    data, notes = read_data(tmp_path / "d", labels="optional")
    assert data.class_names == ("cat", "unlabelled")
    assert data.labels.tolist() == [0, 0, 1, 1, 1]
    assert data.inputs[2:, 0, 0, 0].tolist() == [0, 1, 2]
    assert "3 files" in notes[0]
    # Where classes are needed these three are left out, and not without a word.
    data, notes = read_data(tmp_path / "d")
    assert len(data) == 2
    assert "3 files" in notes[0]
    assert "left out" in notes[0]
    one, _ = read_data(tmp_path / "d" / "2.png", form=data.form, labels="optional")
    assert one.inputs.unique().tolist() == [2]
    write_wav(tmp_path / "a.wav", np.arange(8))
    assert read_data(tmp_path / "a.wav", labels="optional")[0].kind == "sound"
    with pytest.raises(InputError, match="one file, of no class"):
        read_data(tmp_path / "a.wav")
    (tmp_path / "a.mp3").write_bytes(b"ID3")
    with pytest.raises(InputError, match=r"a\.mp3 is of a form that is not read here.*ffmpeg"):
        read_data(tmp_path / "a.mp3", labels="optional")


def test_nobody_trains_on_samples_without_a_class(tmp_path):
    with pytest.raises(OptionError, match="belongs to read_data"):
        open_data(csv_of_numbers(tmp_path), labels="optional")
