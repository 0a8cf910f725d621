"""Readers: small files written by other means give back what was written."""

import csv
import importlib
import inspect
import json
import os
import struct
import sys
from dataclasses import asdict
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch
from PIL import Image, ImageOps
from sklearn.datasets import load_digits

from data_files import write_idx, write_images
from sincere.data import images, open_data, read_data
from sincere.errors import InputError, OptionError

RNG = np.random.default_rng(0)


def test_digits_are_scikit_learns():
    bunch = load_digits()
    data, _ = read_data("digits")
    assert torch.equal((data.inputs.flatten(1).double() * 16 / 255).round(), torch.from_numpy(bunch.data))
    assert data.labels.tolist() == bunch.target.tolist()
    assert (data.kind, data.name, data.class_names) == ("image", "digits", tuple("0123456789"))
    as_array, _ = read_data("digits", kind="array")
    np.testing.assert_array_equal(as_array.inputs.numpy(), bunch.data.astype(np.float32))


def test_a_split_is_the_same_twice_and_complete():
    first, again, other = (open_data("digits", seed=seed) for seed in (0, 0, 1))
    assert torch.equal(first.test.inputs, again.test.inputs)
    assert not torch.equal(first.test.inputs, other.test.inputs)
    assert len(first.train) + len(first.validation) + len(first.test) == 1797
    assert open_data("digits", validation_share=0).validation is None


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_idx(tmp_path, suffix):
    images, labels = RNG.integers(0, 256, (12, 4, 3), dtype=np.uint8), np.arange(12, dtype=np.uint8) % 3 + 5
    for part, n in (("train", 12), ("t10k", 5)):
        write_idx(tmp_path / f"{part}-images-idx3-ubyte{suffix}", images[:n])
        write_idx(tmp_path / f"{part}-labels-idx1-ubyte{suffix}", labels[:n])
    splits = open_data(tmp_path, validation_share=0)
    np.testing.assert_array_equal(splits.train.inputs[:, 0].numpy(), images)
    assert splits.train.class_names == ("5", "6", "7")
    assert splits.test.labels.tolist() == (labels[:5] - 5).tolist()


def test_a_plain_idx_file_goes_before_its_gz(tmp_path):
    for name, value in (("train-images-idx3-ubyte", 1), ("train-images-idx3-ubyte.gz", 2)):
        write_idx(tmp_path / name, np.full((8, 2, 2), value, np.uint8))
    write_idx(tmp_path / "train-labels-idx1-ubyte.gz", np.arange(8, dtype=np.uint8) % 2)
    assert read_data(tmp_path)[0].inputs.unique().tolist() == [1]


def test_images_by_folder(tmp_path):
    write_images(tmp_path / "pets", {"dog": 6, "cat": 5})
    (tmp_path / "pets" / ".hidden").mkdir()
    (tmp_path / "pets" / "cat" / "notes.txt").write_text("about cats")
    data, notes = read_data(tmp_path / "pets")
    assert (data.class_names, data.name, data.form.shape) == (("cat", "dog"), "pets", (3, 6, 5))
    for image, label, path in zip(data.inputs, data.labels.tolist(), data.shown, strict=True):
        np.testing.assert_array_equal(image.permute(1, 2, 0).numpy(), np.asarray(Image.open(path)))
        assert f"/{data.class_names[label]}/" in path
    assert len(notes) == 1
    assert "notes.txt" in notes[0]


def test_train_and_test_folders_stay_apart(tmp_path):
    write_images(tmp_path / "train", {"a": 8, "b": 8})
    write_images(tmp_path / "test", {"b": 3})
    splits = open_data(tmp_path, validation_share=0.25)
    assert (len(splits.train), len(splits.validation), len(splits.test)) == (12, 4, 3)
    assert all("/test/b/" in path for path in splits.test.shown)
    assert splits.test.labels.tolist() == [1, 1, 1]
    write_images(tmp_path / "val", {"a": 2, "b": 2})
    splits = open_data(tmp_path)
    assert (len(splits.train), len(splits.validation), len(splits.test)) == (16, 4, 3)


def test_train_can_be_a_class(tmp_path):
    write_images(tmp_path, {"bus": 4, "car": 4, "train": 4})
    assert read_data(tmp_path)[0].class_names == ("bus", "car", "train")


def test_images_come_to_the_most_common_size(tmp_path):
    write_images(tmp_path, {"a": 6, "b": 6}, size=(6, 5))
    wide = np.zeros((12, 30, 3), np.uint8)
    wide[:, 10:20] = (200, 100, 50)  # what a centre crop keeps
    Image.fromarray(wide).save(tmp_path / "a" / "wide.png")
    data, notes = read_data(tmp_path)
    assert data.form.shape == (3, 6, 5)
    assert "1 of 13 images were scaled and cropped to 6×5" in notes[0]
    assert data.inputs[data.shown.index(str(tmp_path / "a" / "wide.png"))][:, :, 2].float().mean(1).tolist() == [
        200.0,
        100.0,
        50.0,
    ]
    assert read_data(tmp_path, image_size=4)[0].form.shape == (3, 4, 4)


def test_grey_deep_transparent_and_turned_images(tmp_path):
    write_images(tmp_path, {"a": 3, "b": 3}, size=(4, 6), mode="L")
    Image.fromarray(np.full((4, 6), 0x1234, np.uint16)).save(tmp_path / "a" / "deep.png")
    data, _ = read_data(tmp_path)
    assert data.form.shape == (1, 4, 6)
    assert data.inputs[data.shown.index(str(tmp_path / "a" / "deep.png"))].unique().tolist() == [0x12]

    Image.new("RGBA", (6, 4), (10, 20, 30, 0)).save(tmp_path / "b" / "clear.png")
    turned = Image.fromarray(np.arange(24, dtype=np.uint8).reshape(6, 4))
    exif = Image.Exif()
    exif[0x0112] = 6  # shown after a quarter turn clockwise
    turned.save(tmp_path / "b" / "turned.png", exif=exif)
    data, _ = read_data(tmp_path)
    assert data.form.shape == (3, 4, 6)
    assert data.inputs[data.shown.index(str(tmp_path / "b" / "clear.png"))].unique().tolist() == [255]
    shown = data.inputs[data.shown.index(str(tmp_path / "b" / "turned.png"))][0].numpy()
    np.testing.assert_array_equal(shown, np.rot90(np.arange(24).reshape(6, 4), -1))


def test_values_beyond_16_bits_are_no_white(tmp_path):
    write_images(tmp_path, {"a": 3, "b": 3}, size=(4, 6), mode="L")
    ramp = np.linspace(0, 65535, 24).astype(np.int32).reshape(4, 6)
    Image.fromarray(ramp).save(tmp_path / "a" / "wide.tif")
    data, _ = read_data(tmp_path)
    shown = data.inputs[data.shown.index(str(tmp_path / "a" / "wide.tif"))][0].numpy()
    np.testing.assert_array_equal(shown, ramp // 257)
    for name, values in (("above", ramp + 1), ("below", ramp - 1)):
        Image.fromarray(values).save(tmp_path / "b" / f"{name}.tif")
    words = r"2 of 9 are not: \S*above\.tif \(holds values from 1 to 65,536, not from 0 to 65,535: scale them, .*-1 to"
    with pytest.raises(InputError, match=words):
        read_data(tmp_path)
    assert len(read_data(tmp_path, unreadable="skip")[0]) == 7


def test_what_is_white_in_32_bits_all_images_say_together(tmp_path):
    """255 where none holds more; a PGM, which Pillow opens in 32 bits as well, is of 16."""
    levels = np.arange(24, dtype=np.int32).reshape(4, 6)
    for name in "ab":
        (tmp_path / name).mkdir()
        for i in (1, 5, 10):
            Image.fromarray(levels * i).save(tmp_path / name / f"{i}.tif")
    data, notes = read_data(tmp_path)
    for i in (1, 5, 10):
        shown = data.inputs[data.shown.index(str(tmp_path / "b" / f"{i}.tif"))][0].numpy()
        np.testing.assert_array_equal(shown, levels * i)
    assert notes == ("6 of 6 images have 32 bits and no value above 255: 255 is taken for white.",)

    Image.fromarray((levels * 10).astype(np.uint16)).save(tmp_path / "a" / "deep.png")
    (tmp_path / "a" / "deep.pgm").write_bytes(b"P5 6 4 65535\n" + (levels * 10).astype(">u2").tobytes())
    data, notes = read_data(tmp_path)
    for name in ("deep.png", "deep.pgm"):
        assert data.inputs[data.shown.index(str(tmp_path / "a" / name))].unique().tolist() == [0]
    assert notes[1] == (
        "2 of 8 images have 16 or 32 bits and no value above 230 of 65,535: they are dark, scale them before."
    )

    Image.fromarray(levels * 257).save(tmp_path / "b" / "bright.tif")  # so that the others are dark, and not of 8 bits
    data, notes = read_data(tmp_path)
    np.testing.assert_array_equal(data.inputs[data.shown.index(str(tmp_path / "b" / "bright.tif"))][0], levels)
    assert data.inputs[data.shown.index(str(tmp_path / "b" / "10.tif"))].max() == 0
    assert notes == ()


def test_images_of_all_sizes_come_to_a_square(tmp_path):
    """Two of seven that happen to be alike, and upright, are no reason to crop all others like them."""
    sizes = [(40, 30), (40, 30), (20, 50), (24, 60), (36, 90), (50, 100), (64, 70)]  # height, width
    for name, some in (("a", sizes[:4]), ("b", sizes[4:])):
        (tmp_path / name).mkdir()
        for i, (height, width) in enumerate(some):
            Image.new("RGB", (width, height), (i, 90, 0)).save(tmp_path / name / f"{i}.png")
    assert read_data(tmp_path)[0].form.shape == (3, 30, 30)


@pytest.mark.parametrize(
    ("sizes", "shape"),
    [
        ([(40, 30), (40, 30), (20, 50), (24, 60)], (40, 30)),  # half of them are enough
        ([(100, 300)] * 4, (100, 300)),  # the shorter side decides what is too large
    ],
)
def test_the_most_common_size_is_kept(tmp_path, sizes, shape):
    for i, (height, width) in enumerate(sizes):
        (tmp_path / "ab"[i % 2]).mkdir(exist_ok=True)
        Image.new("RGB", (width, height), (i, 90, 0)).save(tmp_path / "ab"[i % 2] / f"{i}.png")
    assert read_data(tmp_path)[0].form.shape == (3, *shape)


@pytest.mark.parametrize(("largest", "words"), [(255, "255 is taken for white"), (4095, "they are dark"), (4096, None)])
def test_the_largest_value_of_32_bits_decides_what_is_said(tmp_path, largest, words):
    for name in "ab":
        (tmp_path / name).mkdir()
        Image.fromarray(np.array([[0, largest]], np.int32)).save(tmp_path / name / "1.tif")
    data, notes = read_data(tmp_path)
    assert data.inputs.max() == (255 if largest == 255 else largest // 257)
    assert len(notes) == (words is not None)
    assert words is None or words in notes[0]


@pytest.mark.parametrize(("mode", "channels"), [("1", 1), ("L", 1), ("LA", 1), ("P", 3), ("RGB", 3)])
def test_grey_is_what_has_no_colour(tmp_path, mode, channels):
    for name in "ab":
        (tmp_path / name).mkdir()
        Image.new(mode, (6, 4)).save(tmp_path / name / "1.png")
    grey = read_data(tmp_path)[0]
    assert grey.form.shape == (channels, 4, 6)
    write_images(tmp_path / "colour", {"a": 2, "b": 1}, size=(4, 6))
    _, notes = read_data(tmp_path / "colour", form=grey.form)
    assert notes == (() if channels == 3 else ("3 of 3 images lost their colour, as most have none.",))


@pytest.mark.parametrize("orientation", range(1, 9))
def test_every_way_to_hold_a_camera(tmp_path, orientation):
    exif = Image.Exif()
    exif[0x0112] = orientation
    for name in "ab":
        (tmp_path / name).mkdir()
        Image.fromarray(RNG.integers(0, 256, (10, 20, 3), np.uint8)).save(tmp_path / name / "1.png", exif=exif)
    data, notes = read_data(tmp_path)
    seen = [np.asarray(ImageOps.exif_transpose(Image.open(path))) for path in data.shown]
    np.testing.assert_array_equal(data.inputs.permute(0, 2, 3, 1).numpy(), seen)
    assert not notes, "nothing was scaled"


@pytest.mark.parametrize("suffix", ["png", "jpg"])
def test_files_are_scaled_like_by_pillow(tmp_path, suffix):
    """A JPEG is decoded at a fraction of its size, and loses nothing that would be seen."""
    detail = 40 * np.sin(np.arange(600) / 4) + 128
    for name in "ab":
        (tmp_path / name).mkdir()
        pixels = np.stack([detail[:, None] + 0 * detail, detail + 0 * detail[:, None], np.full((600, 600), 60)], axis=2)
        Image.fromarray(pixels.astype(np.uint8)).save(tmp_path / name / f"1.{suffix}")
    data, _ = read_data(tmp_path, image_size=100)
    for path, found in zip(data.shown, data.inputs, strict=True):
        whole = ImageOps.fit(Image.open(path).convert("RGB"), (100, 100), Image.Resampling.BICUBIC)
        off = np.abs(found.permute(1, 2, 0).numpy().astype(float) - np.asarray(whole, float))
        assert off.max() <= (0 if suffix == "png" else 6)


def test_floating_point_pixels_are_refused(tmp_path):
    write_images(tmp_path, {"a": 2, "b": 2})
    Image.fromarray(np.full((6, 5), 0.5, np.float32)).save(tmp_path / "a" / "deep.tif")
    with pytest.raises(InputError, match=r"deep\.tif \(holds floating-point pixels: save it with 8 bits"):
        read_data(tmp_path)


def test_too_little_memory_is_no_broken_file(tmp_path, monkeypatch):
    def full(*_):
        raise MemoryError

    write_images(tmp_path, {"a": 2, "b": 2})
    monkeypatch.setattr(images, "_pixels", full)
    with pytest.raises(MemoryError):
        read_data(tmp_path, unreadable="skip")


def test_a_large_photograph_is_taken_small(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        for i in range(2):
            Image.new("RGB", (600, 500), (i, 90, 0)).save(tmp_path / name / f"{i}.jpg")
    data, notes = read_data(tmp_path)
    assert data.form.shape == (3, 224, 224)
    assert "4 of 4 images were scaled and cropped to 224×224; the option image_size" in notes[0]


def test_an_unreadable_image_is_named(tmp_path):
    write_images(tmp_path, {"a": 5, "b": 5})
    (tmp_path / "a" / "broken.png").write_bytes(b"no image")
    whole = (tmp_path / "b" / "1.png").read_bytes()
    (tmp_path / "b" / "cut.png").write_bytes(whole[:50])
    with pytest.raises(InputError, match=r"2 of 12 are not: .*a/broken\.png.*b/cut\.png.*unreadable='skip'"):
        read_data(tmp_path)
    data, notes = read_data(tmp_path, unreadable="skip")
    assert len(data) == 10
    assert not any("broken" in path or "cut" in path for path in data.shown)
    assert "2 of 12 files were skipped" in notes[0]
    assert "broken.png (no image that Pillow knows)" in notes[0]
    _, notes = read_data(tmp_path, image_size=3, unreadable="skip")
    assert notes[0].startswith("10 of 10 images were scaled")


def test_no_readable_image_for_a_known_form(tmp_path):
    """As `sincere embed` reads them: nothing would be embedded."""
    write_images(tmp_path / "seen", {"a": 2, "b": 2})
    form = read_data(tmp_path / "seen")[0].form
    (tmp_path / "new" / "a").mkdir(parents=True)
    (tmp_path / "new" / "a" / "broken.png").write_bytes(b"no image")
    with pytest.raises(InputError, match=r"none of 1 is: .*broken\.png"):
        read_data(tmp_path / "new", form=form, unreadable="skip")


def test_npz(tmp_path):
    x, y = RNG.normal(size=(30, 4)), RNG.integers(0, 3, 30)
    np.savez(tmp_path / "one.npz", X=x, y=y, class_names=["red", "green", "blue"])
    data, _ = read_data(tmp_path / "one.npz")
    np.testing.assert_array_equal(data.inputs.numpy(), x.astype(np.float32))
    assert [data.class_names[i] for i in data.labels] == [("red", "green", "blue")[i] for i in y]

    names = np.array(["b", "a"])[y % 2]
    np.savez(tmp_path / "parts.npz", x_train=x, y_train=names, x_test=x[:5], y_test=names[:5])
    splits = open_data(tmp_path / "parts.npz", validation_share=0)
    assert (len(splits.train), len(splits.test), splits.train.class_names) == (30, 5, ("a", "b"))

    np.savez(tmp_path / "named.npz", points=x, colour=y[:, None])
    data, _ = read_data(tmp_path / "named.npz", input_column="points", label_column="colour")
    assert data.labels.tolist() == y.tolist()


@pytest.mark.parametrize("layout", ["nhw", "nhwc", "nchw"])
def test_npz_of_images(tmp_path, layout):
    images = RNG.integers(0, 256, (10, 3, 8, 7), dtype=np.uint8)
    stored = {"nhw": images[:, 0], "nhwc": images.transpose(0, 2, 3, 1), "nchw": images}[layout]
    np.savez(tmp_path / "i.npz", images=stored, labels=np.arange(10) % 2)
    data, _ = read_data(tmp_path / "i.npz")
    np.testing.assert_array_equal(data.inputs.numpy(), images[:, :1] if layout == "nhw" else images)
    flat, _ = read_data(tmp_path / "i.npz", kind="array")
    assert flat.form.shape == (stored[0].size,)


def test_ready_images_are_fitted_like_pillow(tmp_path):
    smooth = np.stack(np.meshgrid(np.linspace(0, 255, 32), np.linspace(255, 0, 48)), -1).mean(-1).astype(np.uint8)
    np.savez(tmp_path / "i.npz", x=np.stack([smooth] * 4), y=[0, 0, 1, 1])
    data, _ = read_data(tmp_path / "i.npz", image_size=16)
    expected = np.asarray(Image.fromarray(smooth).resize((16, 24), Image.Resampling.BILINEAR))[4:20]
    assert np.abs(data.inputs[0, 0].numpy().astype(int) - expected).max() <= 1
    digits, _ = read_data("digits")
    coloured, _ = read_data(tmp_path / "i.npz", form=digits.form)
    assert coloured.form == digits.form


def test_npy_pair(tmp_path):
    x, y = RNG.normal(size=(12, 2)), np.arange(12) % 4
    np.save(tmp_path / "x_train.npy", x)
    np.save(tmp_path / "y_train.npy", y)
    np.save(tmp_path / "other.npy", y[::-1])
    assert read_data(tmp_path / "x_train.npy")[0].labels.tolist() == y.tolist()
    other, _ = read_data(tmp_path / "x_train.npy", label_column=str(tmp_path / "other.npy"))
    assert other.labels.tolist() == y[::-1].tolist()


ROWS = [("yes, please", "agree", 1.5, 2), ('he said "no"', "refuse", -3.0, 4), ("no\nway", "refuse", 0.25, 8)] * 4


def write_table(path, columns):
    """Through pandas-free writers: csv by hand, JSON by json, Parquet by pyarrow."""
    names, rows = list(columns), list(zip(*columns.values(), strict=True))
    if path.suffix == ".parquet":
        import pyarrow as pa
        import pyarrow.parquet as pq

        pq.write_table(pa.table(columns), path)
    elif path.suffix == ".jsonl":
        path.write_text("\n".join(json.dumps(dict(zip(names, row, strict=True))) for row in rows) + "\n\n")
    else:
        mark = "\t" if path.suffix == ".tsv" else ","
        quoted = [['"' + str(cell).replace('"', '""') + '"' for cell in row] for row in rows]
        path.write_text("\n".join(mark.join(row) for row in [names, *quoted]) + "\n", encoding="utf-8-sig")
    return path


@pytest.mark.parametrize("suffix", ["csv", "tsv", "jsonl", "parquet"])
def test_tables(tmp_path, suffix):
    texts, labels, first, second = map(list, zip(*ROWS, strict=True))
    path = write_table(tmp_path / f"talk.{suffix}", {"Sentence": texts, "Intent": labels})
    data, _ = read_data(path)
    assert (data.kind, data.shown, data.class_names) == ("text", tuple(texts), ("agree", "refuse"))
    assert [data.class_names[i] for i in data.labels] == labels

    path = write_table(tmp_path / f"numbers.{suffix}", {"a": first, "class": labels, "b": second})
    data, _ = read_data(path)
    assert data.kind == "array"
    assert data.inputs.tolist() == [[a, float(b)] for a, b in zip(first, second, strict=True)]
    with_other_label, _ = read_data(path, label_column="b", kind="text", input_column="class")
    assert with_other_label.class_names == ("2", "4", "8")


def test_numbers_of_rows_are_not_learned_from(tmp_path):
    path = write_table(tmp_path / "t.csv", {"Id": range(12), "size": [1, 2, 3] * 4, "label": ["a", "b"] * 6})
    data, notes = read_data(path)
    assert data.inputs.flatten().tolist() == [1, 2, 3] * 4
    assert "column 'Id'" in notes[0]


def test_truth_values_are_numbers(tmp_path):
    """pandas writes the columns of `get_dummies` like this."""
    (tmp_path / "t.csv").write_text("size,red,label\n1,True,x\n2,FALSE,y\n3,false,x\n4,,y\n5, true ,y\n")
    with pytest.raises(InputError, match=r"1 of 5 rows hold NaN.*line 5 column 'red'"):
        read_data(tmp_path / "t.csv")
    (tmp_path / "t.csv").write_text("size,red,label\n1,True,x\n2,FALSE,y\n3,false,x\n5, true ,y\n")
    data, _ = read_data(tmp_path / "t.csv")
    assert data.inputs.tolist() == [[1, 1], [2, 0], [3, 0], [5, 1]]


def test_pandas_index_in_parquet_is_no_feature(tmp_path):
    """`frame.sample(frac=1).to_parquet` keeps where each row stood, a giveaway if rows were sorted by class."""
    index = {"__index_level_0__": [7, 2, 2, 0] * 3}
    path = write_table(tmp_path / "t.parquet", {"size": [1, 2, 3] * 4, "label": ["a", "b"] * 6, **index})
    data, _ = read_data(path)
    assert data.inputs.flatten().tolist() == [1, 2, 3] * 4
    path = write_table(tmp_path / "u.parquet", {"headline": ["a b", "c"] * 6, "label": ["a", "b"] * 6, **index})
    assert read_data(path)[0].kind == "text"


def test_parquet_with_a_column_twice_or_with_lists_is_refused(tmp_path):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    columns = [pa.array([1.0, 2.0]), pa.array([3.0, 4.0]), pa.array(["a", "b"])]
    pq.write_table(pa.table(columns, names=["v", "v", "label"]), tmp_path / "t.parquet")
    with pytest.raises(InputError, match="a different name for every column: v comes twice"):
        read_data(tmp_path / "t.parquet")
    path = write_table(tmp_path / "u.parquet", {"v": [[1.0, 2.0], [3.0, 4.0]], "label": ["a", "b"]})
    with pytest.raises(InputError, match=r"holds a list\. Save it as text, or lists of numbers as a column for each"):
        read_data(path)


def test_signatures_show_the_options():
    parameters = inspect.signature(open_data).parameters
    assert parameters["test_share"].default == 0.2
    assert list(inspect.signature(read_data).parameters)[:4] == ["source", "form", "class_names", "part"]


def test_train_and_test_tables_make_one_data_set(tmp_path):
    texts, labels, *_ = map(list, zip(*ROWS, strict=True))
    write_table(tmp_path / "train.csv", {"text": texts, "label": labels})
    write_table(tmp_path / "test.csv", {"text": ["a far longer text than any other"], "label": ["refuse"]})
    (tmp_path / "LICENSE").write_text("free")
    splits = open_data(tmp_path, validation_share=0)
    assert splits.test.labels.tolist() == [1]
    assert splits.test.form == splits.train.form
    assert "LICENSE" in splits.note[0]
    assert any(note.startswith("test: 1 of 1 texts are longer than") for note in splits.note)
    named = open_data(tmp_path / "train.csv", test=tmp_path / "test.csv", validation_share=0)
    assert torch.equal(named.test.inputs, splits.test.inputs)


def test_semicolons_and_other_encodings(tmp_path):
    (tmp_path / "t.csv").write_text("texte;label\n" + "café, thé;a\nœuf;b\n" * 2, encoding="cp1252")
    data, _ = read_data(tmp_path / "t.csv", encoding="cp1252")
    assert data.shown[:2] == ("café, thé", "œuf")


@pytest.mark.parametrize("mark", [",", ";", "\t", "|"])
def test_marks_between_columns(tmp_path, mark):
    rows = [["a", "b", "label"], *([f"{i}.5", "-1", "xy"[i % 2]] for i in range(6))]
    (tmp_path / "t.csv").write_text("\n".join(map(mark.join, rows)))
    data, _ = read_data(tmp_path / "t.csv")
    assert data.inputs[:, 0].tolist() == [0.5, 1.5, 2.5, 3.5, 4.5, 5.5]
    assert data.class_names == ("x", "y")


def test_names_that_are_not_utf_8(tmp_path):
    """As unpacking an old archive leaves them; everything that a run saves is UTF-8."""
    folder = tmp_path / os.fsdecode(b"caf\xe9s")
    try:
        write_images(folder, {"thé": 4, os.fsdecode(b"caf\xe9"): 4})
    except OSError:
        pytest.skip("this file system has names in UTF-8 alone")
    data, _ = read_data(folder)
    assert (data.name, data.class_names) == ("cafés", ("café", "thé"))
    assert "cafés/café/0.png" in data.shown[0]
    "".join(data.shown).encode()


def test_trec(tmp_path):
    lines = ["NUM:dist How far is it ?", "LOC:city Where is Zürich ?", "ENTY:other What ?", "DESC:other So ?"] * 3
    (tmp_path / "train_5500.label").write_text("\n".join(lines) + "\n", encoding="latin-1")
    (tmp_path / "TREC_10.label").write_text("LOC:city Where ?\n", encoding="latin-1")
    splits = open_data(tmp_path, validation_share=0)
    assert (splits.train.name, splits.train.class_names) == ("trec", ("DESC", "ENTY", "LOC", "NUM"))
    assert splits.train.shown[1] == "Where is Zürich ?"
    assert splits.test.labels.tolist() == [2]
    fine = open_data(f"trec:{tmp_path}", level="fine", validation_share=0)
    assert fine.train.class_names == ("DESC:other", "ENTY:other", "LOC:city", "NUM:dist")
    alone, _ = read_data(tmp_path / "train_5500.label")
    assert len(alone) == 12


def test_later_data_comes_in_the_form_and_classes_of_the_first(tmp_path):
    texts, labels, *_ = map(list, zip(*ROWS, strict=True))
    train, _ = read_data(
        write_table(tmp_path / "a.csv", {"text": texts, "label": labels}), words=9, pieces=3, buckets=50
    )
    later, notes = read_data(
        write_table(tmp_path / "b.csv", {"text": ["w " * 12], "label": ["refuse"]}),
        form=train.form,
        class_names=train.class_names,
    )
    assert later.form == train.form
    assert later.labels.tolist() == [1]
    assert "longer than 9 words" in notes[0]
    with pytest.raises(InputError, match="no test part of its own"):
        read_data(tmp_path / "a.csv", part="test")


def torchvision_stub(monkeypatch, **sets):
    package, datasets = ModuleType("torchvision"), ModuleType("torchvision.datasets")
    for name, dataset in sets.items():
        setattr(datasets, name, dataset)
    monkeypatch.setitem(sys.modules, "torchvision", package)
    monkeypatch.setitem(sys.modules, "torchvision.datasets", datasets)


class Shapes:
    """As torchvision's data sets are: a root, a part, pairs of a PIL image and a number."""

    classes = ("circle", "square")

    def __init__(self, root, train=True, transform=None, download=False):
        if not (Path(root) / "shapes").exists():
            raise RuntimeError("Dataset not found.")
        self.count = 8 if train else 4

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        size = (6, 6) if index != 3 else (12, 9)
        return Image.new("RGB", size, (index, 0, 9)), index % 2


def test_torchvision_data_sets_by_name(monkeypatch, tmp_path):
    torchvision_stub(monkeypatch, Shapes=Shapes)
    with pytest.raises(InputError, match=r"Dataset not found.*torchvision\.datasets\.Shapes\(.*download=True\)"):
        open_data(f"torchvision:Shapes:{tmp_path}")
    (tmp_path / "shapes").touch()
    splits = open_data(f"torchvision:Shapes:{tmp_path}", validation_share=0)
    assert splits.train.inputs[:, 0, 0, 0].tolist() == list(range(8))
    assert splits.train.form.shape == (3, 6, 6)
    assert (splits.train.class_names, splits.train.name) == (("circle", "square"), "shapes")
    assert splits.test.labels.tolist() == [0, 1, 0, 1]
    for wrong in ("Sapes", "shapes"):
        with pytest.raises(OptionError, match=rf"must name one of Shapes: got '{wrong}'\. Did you mean 'Shapes'\?"):
            open_data(f"torchvision:{wrong}:{tmp_path}")
    with pytest.raises(OptionError, match="must name the folder with the data"):
        open_data("torchvision:Shapes")


class Pets(Shapes):
    """As some have it: parts by a `split`, under names of their own."""

    splits = ("trainval", "val")

    def __init__(self, root, split="trainval"):
        if split not in self.splits:
            raise ValueError(f"Unknown value '{split}' for argument split. Valid values are {self.splits}.")
        self.count = 8 if split == "trainval" else 4


class Letters(Pets):
    splits = ("balanced",)


class Clips(Pets):
    def __init__(self, root, frames_per_clip, split="train"):
        pass


class Faces(Pets):
    def __getitem__(self, index):
        return super().__getitem__(index)[0], torch.zeros(40)


class Pairs(Pets):
    def __getitem__(self, index):
        return (*super().__getitem__(index), 0)


def test_torchvision_data_sets_of_other_kinds(monkeypatch, tmp_path):
    torchvision_stub(monkeypatch, Pets=Pets, Letters=Letters, Clips=Clips, Faces=Faces, Pairs=Pairs)
    splits = open_data(f"torchvision:Pets:{tmp_path}", validation_share=0)
    assert (len(splits.train), len(splits.test)) == (8, 4)
    for name, error, words in (
        ("Letters", OptionError, r"no part called train or trainval .*balanced.* Export it"),
        ("Clips", OptionError, "not a data set of images with a class each.*frames_per_clip"),
        ("Faces", InputError, "the number of a class each: it gives a Tensor"),
        ("Pairs", InputError, "the number of a class each: it gives no such pair"),
    ):
        with pytest.raises(error, match=words):
            open_data(f"torchvision:{name}:{tmp_path}")


def test_the_real_torchvision_reads_its_own_data_sets(tmp_path):
    try:
        importlib.import_module("torchvision.datasets")
    except (ImportError, RuntimeError) as error:
        pytest.skip(f"torchvision does not import here: {error}")
    folder = tmp_path / "MNIST" / "raw"
    folder.mkdir(parents=True)
    images = np.arange(30 * 28 * 28, dtype=np.uint32).astype(np.uint8).reshape(30, 28, 28)
    for part in ("train", "t10k"):
        (folder / f"{part}-images-idx3-ubyte").write_bytes(struct.pack(">4I", 2051, 30, 28, 28) + images.tobytes())
        (folder / f"{part}-labels-idx1-ubyte").write_bytes(struct.pack(">2I", 2049, 30) + bytes(range(10)) * 3)
    splits = open_data(f"torchvision:MNIST:{tmp_path}", validation_share=0)
    assert np.array_equal(splits.train.inputs.squeeze(1).numpy(), images)
    assert splits.test.labels.tolist() == list(range(10)) * 3
    assert splits.train.class_names[9] == "9 - nine"
    for name, words in (
        ("Imagenette", "Dataset not found"),
        ("OxfordIIITPet", "Dataset not found"),
        ("EMNIST", "no part called train"),
        ("Kinetics", "frames_per_clip"),
    ):
        with pytest.raises((InputError, OptionError), match=words):
            open_data(f"torchvision:{name}:{tmp_path}")


@pytest.mark.parametrize(
    ("missing", "source", "extra"),
    [
        ("sklearn.datasets", "digits", "lab"),
        ("PIL.Image", "pets", "lab"),
        ("pyarrow.parquet", "t.parquet", "parquet"),
        ("torchvision.datasets", "torchvision:MNIST:.", "vision"),
    ],
)
def test_a_missing_package_is_named_with_its_extra(monkeypatch, tmp_path, missing, source, extra):
    write_images(tmp_path / "pets", {"a": 2, "b": 2})
    (tmp_path / "t.parquet").write_bytes(b"PAR1")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(OptionError, match=rf"{missing.split('.')[0]}.*pip install \"sincere\[{extra}\]\""):
        open_data(source)


@pytest.mark.parametrize(
    ("labels", "told"),
    [
        (("a", "b", "a|b"), "1 of 3 labels in 'label' of"),
        (("a;b", "b;c", "c; a", "a;b"), "4 of 4 labels in 'label' of"),
        (("a", "b", "c|d"), None),  # nothing says that c and d are classes
        (("New York", "Paris, Texas", "Paris"), None),
        (("|", "a|", "a"), None),
    ],
)
def test_several_classes_in_one_are_noted(tmp_path, labels, told):
    rows = "".join(f'w{i} v{i},"{label}"\n' for i, label in enumerate(labels))
    (tmp_path / "t.csv").write_text("text,label\n" + rows)
    data, notes = read_data(tmp_path / "t.csv")
    assert len(data.class_names) == len(set(labels))
    assert (told is None) == (not notes)
    if told:
        assert told in notes[0]
        assert "each such combination is taken as a class of its own" in notes[0]


def test_names_in_bytes_are_read_as_text(tmp_path):
    """h5py, and files of Python 2, keep texts as bytes."""
    classes = np.array("café cat".encode().split())
    labels = np.arange(20) % 2
    np.savez(tmp_path / "labels.npz", x=RNG.normal(size=(20, 3)), y=classes[labels])
    np.savez(tmp_path / "named.npz", x=RNG.normal(size=(20, 3)), y=labels, class_names=classes)
    for name in ("labels", "named"):
        data, _ = read_data(tmp_path / f"{name}.npz")
        assert [data.class_names[label] for label in data.labels] == [
            "café" if label == 0 else "cat" for label in labels
        ]


def test_parquets_bytes_are_text(tmp_path):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    parquet.write_table(arrow.table({"x": [1.0, 2.0], "label": ["café".encode(), b"b"]}), tmp_path / "t.parquet")
    assert read_data(tmp_path / "t.parquet")[0].class_names == ("b", "café")


def test_hidden_folders_inside_of_a_class_are_not_read(tmp_path):
    folder = write_images(tmp_path / "photos", {"cat": 3, "dog": 3})
    write_images(folder / "cat", {".ipynb_checkpoints": 2, "indoors": 1})
    data, _ = read_data(folder)
    assert data.class_counts().tolist() == [4, 3]
    assert not any("checkpoints" in path for path in data.shown)
    hidden = tmp_path / ".home" / "photos"  # a hidden folder above the data is nobody's secret
    write_images(hidden, {"cat": 2, "dog": 2})
    assert len(read_data(hidden)[0]) == 4


def test_the_form_is_that_of_images_as_they_are_seen(tmp_path):
    """A camera held upright writes lying pixels, and in EXIF how to turn them."""
    upright = Image.Exif()
    upright[0x0112] = 6  # stored turned to the left: to be turned to the right
    for name in "ab":
        (tmp_path / "photos" / name).mkdir(parents=True)
        for number in range(3):
            pixels = np.zeros((10, 20, 3), np.uint8)
            pixels[:, :10] = 255  # the left half of what is stored is the upper half of what is seen
            Image.fromarray(pixels).save(tmp_path / "photos" / name / f"{number}.png", exif=upright)
    data, notes = read_data(tmp_path / "photos")
    assert data.form.shape == (3, 20, 10)
    assert not notes, "nothing was scaled"
    assert (data.inputs[:, :, :10] == 255).all()
    assert (data.inputs[:, :, 10:] == 0).all()


def test_blank_lines_above_a_table_do_not_hide_its_separator(tmp_path):
    (tmp_path / "t.csv").write_text("\n\na;b;label\n1;2;x\n3;4;y\n")
    data, _ = read_data(tmp_path / "t.csv")
    assert data.inputs.tolist() == [[1, 2], [3, 4]]


def test_a_long_document_is_one_field(tmp_path):
    """csv refuses fields of more than 131,072 characters unless it is told otherwise."""
    (tmp_path / "t.csv").write_text(f"text,label\n{'word ' * 40_000},a\nshort,b\n")
    limit = csv.field_size_limit()
    data, _ = read_data(tmp_path / "t.csv", words=4)
    assert data.class_names == ("a", "b")
    assert csv.field_size_limit() == limit, "of the whole process, so it is given back"


@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
def test_columns_are_known_by_their_names(tmp_path, suffix):
    """Another file may have them in another order; JSON's objects have none."""

    def write(name, columns):
        rows = [{"a": i, "b": 100 + i, "label": "xy"[i % 2]} for i in range(8)]
        lines = [json.dumps({column: row[column] for column in columns}) for row in rows]
        if suffix == "csv":
            lines = [",".join(columns), *(",".join(str(row[column]) for column in columns) for row in rows)]
        (tmp_path / f"{name}.{suffix}").write_text("\n".join(lines))
        return tmp_path / f"{name}.{suffix}"

    train, test = write("first", ("a", "b", "label")), write("second", ("label", "b", "a"))
    splits = open_data(train, test=test)
    assert splits.test.inputs.tolist() == [[i, 100 + i] for i in range(8)]
    form = type(splits.train.form)(**json.loads(json.dumps(asdict(splits.train.form))))  # as a model keeps it
    later, _ = read_data(test, form=form)
    assert torch.equal(later.inputs, splits.test.inputs)
    (tmp_path / "third.csv").write_text("b,c,label\n1,2,x\n")
    with pytest.raises(InputError, match="its columns must be those to train on, 'a', 'b': it lacks 'a' and it also"):
        read_data(tmp_path / "third.csv", form=form)
    np.savez(tmp_path / "nameless.npz", x=np.ones((2, 2)), y=[0, 1])
    assert read_data(tmp_path / "nameless.npz", form=form)[0].inputs.tolist() == [[1, 1], [1, 1]]
