"""Bad data: each case stops with a message that names the place, what was found, and what to do."""

import json
import zipfile

import numpy as np
import pytest

from data_files import write_idx, write_images, write_wav
from sincere.data import open_data, read_data
from sincere.errors import InputError, OptionError

GOOD = "text,label\n" + "some words,a\nother words,b\n" * 4


def csv(content):
    return lambda folder: _write(folder / "t.csv", content.encode())


def jsonl(*rows):
    return lambda folder: _write(folder / "t.jsonl", "\n".join(map(json.dumps, rows)).encode())


def npz(**arrays):
    def write(folder):
        np.savez(folder / "t.npz", **arrays)
        return folder / "t.npz"

    return write


def idx(images, labels):
    def write(folder):
        write_idx(folder / "train-images-idx3-ubyte", images)
        write_idx(folder / "train-labels-idx1-ubyte", labels)
        return folder

    return write


def raw(name, content):
    return lambda folder: _write(folder / name, content)


def _write(path, content):
    path.write_bytes(content)
    return path


def images(counts, **extra):
    def write(folder):
        write_images(folder / "data", counts)
        for name, content in extra.items():
            (folder / "data" / name).write_bytes(content)
        return folder / "data"

    return write


def loose_images(folder):
    write_images(folder, {"only": 3})
    return folder / "only"


def both_kinds(folder):
    write_images(folder / "d", {"a": 2})
    write_wav(folder / "d" / "b" / "0.wav", np.zeros(4))
    return folder / "d"


def other_form(name):
    def write(folder):
        (folder / "d" / "a").mkdir(parents=True)
        (folder / "d" / "a" / name).write_bytes(b"ID3")
        return folder / "d"

    return write


def two_parts(train, test):
    def write(folder):
        _write(folder / "train.csv", train.encode())
        return _write(folder / "test.csv", test.encode()).parent

    return write


X, Y = np.zeros((8, 3)), np.arange(8) % 2
BROKEN = X.copy()
BROKEN[2, 1], BROKEN[5, 0] = np.nan, np.inf
PIXELS = np.zeros((8, 2, 2), np.uint8)

# what is wrong: (writer, words of the message)
TIMES = "time,label\n" + "".join(f"{1_700_000_000 + 20 * (i % 3)},{'abc'[i % 3]}\n" for i in range(30))
CASES = {
    "nearly its name": (lambda folder: csv(GOOD)(folder).with_name("tt.csv"), ["tt.csv. Did you mean", "/t.csv'?"]),
    "a like ending": (lambda folder: raw("wine.csv", b"")(folder).with_name("nope.csv"), ["Data must be digits"]),
    "no path at all": (lambda folder: f"{folder}\0/none.csv", ["no such file or folder"]),
    "no such file": (lambda folder: folder / "none.csv", ["none.csv", "no such file or folder", "cifar10:PATH"]),
    "unknown suffix": (raw("data.h5", b"HDF"), ["data.h5", "no known suffix"]),
    "a spreadsheet": (raw("data.XLSX", b"PK"), ["data.XLSX", "Save the table as .csv"]),
    "a JSON array": (raw("data.json", b"[]"), ["data.json", "a .jsonl", "one JSON object a line"]),
    "a single image": (raw("cat.png", b""), ["cat.png is one file", "sub-folder per class", "name that folder"]),
    "a single sound": (raw("a.mp3", b"ID3"), ["a.mp3", "not read here", "ffmpeg"]),
    "archive without a name": (raw("some.tar.gz", b"PK"), ["write cifar10:PATH or cifar100:PATH"]),
    "empty folder": (lambda folder: folder, ["sub-folder per class", "it is empty"]),
    "folder without classes": (loose_images, ["sub-folder per class", "3 files lie side by side", "0.png"]),
    "one class": (images({"cat": 5}), ["at least two classes", "has one, cat, with 5 samples"]),
    "one class beside an empty folder": (images({"cat": 5, "dog": 0}), ["at least two classes", "cat"]),
    "classes further down": (
        lambda folder: write_images(folder / "all", {"cat": 2, "dog": 2}).parent,
        ["has one, all, with 4 samples", "the 2 sub-folders of", "name that folder"],
    ),
    "images and sound": (both_kinds, ["2 images and 1 WAV file", "kind='image'"]),
    "sound that is not WAV": (other_form("0.mp3"), ["not WAV", "ffmpeg"]),
    "images of a telephone": (other_form("IMG_1.HEIC"), ["a form that is not read here, .heic", "to PNG or JPEG"]),
    "empty CSV": (csv(""), ["t.csv is empty"]),
    "blank CSV": (csv("\n \n"), ["t.csv is empty"]),
    "header alone": (csv("text,label\n"), ["t.csv", "at least one row"]),
    "no header": (csv("1,2,0\n3,4,1\n"), ["line of column names", "first line is 1, 2, 0"]),
    "no label column": (csv("words,mood\nhi,good\n"), ["'words', 'mood'", "label_column='…'"]),
    "index and label only": (csv("id,label\n1,a\n2,b\n"), ["something to learn from", "numbers of rows"]),
    "label column only": (csv("label\na\nb\n"), ["something to learn from", "'label'"]),
    "same name twice": (csv("a,a,label\n1,2,x\n"), ["different name for every column", "a comes twice"]),
    "row of another length": (csv(GOOD + "one, two, three,a\n"), ["2 fields", "line 10 has 4", "Quote"]),
    "open quotation": (
        csv(GOOD + '"never closed,a\n' + GOOD),
        ["t.csv", "begins in line 10", "end of data", "write it twice", "close it"],
    ),
    "open quotation up to another": (
        csv(GOOD + '"never closed,a\nnever,"opened"\n'),
        ["t.csv", "begins in line 10", "write it twice", "close it"],
    ),
    "single quotation mark in quotation": (csv(GOOD + '\n"a 3" pipe",a\n'), ["begins in line 11", "write it twice"]),
    "missing label": (csv(GOOD + "no label here,\n"), ["'label'", "1 of 9 have none", "lines 10"]),
    "text without a word": (csv(GOOD + '"  ",a\n'), ["must hold a word", "1 of 9", "lines 10"]),
    "not UTF-8": (raw("t.csv", GOOD.encode() + "é,a\n".encode("latin-1")), ["t.csv", "utf-8", "encoding='latin-1'"]),
    "UTF-16": (raw("t.csv", GOOD.encode("utf-16")), ["t.csv", "encoding='utf-16'"]),
    "in memory": (lambda folder: [[1.0, 2.0]], ["a name or a path", "got list", "split_arrays(inputs, labels)"]),
    "sentences without a header": (csv("where is my card,a\nmy card is lost,b\n"), ["If its first line is data"]),
    "no header above words": (csv("1.5,2,cat\n3.5,4,dog\n"), ["label_column='…'", "If its first line is data"]),
    "few words without a header": (csv("hello,x\nbye,y\nhello you,x\n"), ["'hello', 'x'", "If its first line is data"]),
    "decimal commas": (
        csv("a;b;label\n1,5;2,5;x\n3,5;4,5;y\n"),
        ["decimal point", "column 'a' holds '1,5' in line 2", "between thousands"],
    ),
    "some decimal commas": (
        csv("a;b;label\n1;2,5;x\n3;4,5;y\n"),
        ["decimal point", "column 'b' holds '2,5' in line 2"],
    ),
    "words among numbers": (
        csv("a,b,label\n1,2,x\n3,red,y\n"),
        ["column 'b'", "must hold numbers", "line 3 holds 'red'"],
    ),
    "missing number": (
        csv("a,b,label\n1,2,x\n3,,y\n4,nan,y\n"),
        ["line 3 column 'b', line 4 column 'b'", "2 of 3 rows"],
    ),
    "several texts": (csv("q1,q2,label\nhi,ho,a\n"), ["one column of text", "'q1', 'q2'", "input_column"]),
    "labels are measurements": (
        csv("a,y\n" + "".join(f"{i},{i / 7:.4f}\n" for i in range(9))),
        ["at least two classes must have two samples", "9 classes for 9 samples", "measurements"],
    ),
    "JSON broken": (
        raw("t.jsonl", b'{"text": "a", "label": 1}\n{"text"\n'),
        ["t.jsonl", "line 2", "JSON object a line"],
    ),
    "JSON list": (jsonl([1, 2]), ["line 1 is a list"]),
    "JSON text is a list": (jsonl({"text": ["a"], "label": 1}), ["'text'", "line 1 holds a list"]),
    "JSON label is NaN": (jsonl({"text": "a", "label": 1.0}, {"text": "b", "label": np.nan}), ["1 of 2 have none"]),
    "JSON lacks a label": (jsonl({"text": "a", "label": 1}, {"text": "b"}), ["1 of 2 have none", "lines 2"]),
    "Parquet broken": (raw("t.parquet", b"PAR1 no more"), ["t.parquet", "cannot be read as Parquet"]),
    "empty npz": (raw("t.npz", b""), ["t.npz is empty"]),
    "npz broken": (raw("t.npz", b"PK\3\4 no zip"), ["t.npz cannot be read", "incomplete", "copy or save it again"]),
    "npz with a password": (
        lambda folder: _locked(npz(x=X, y=Y)(folder)),
        ["t.npz cannot be read", "password", "never loaded"],
    ),
    "npz of other files": (
        lambda folder: _with_a_readme(npz(points=X)(folder)),
        ["points (8, 3).", "Name them"],
    ),
    "npz of objects": (
        npz(x=X, y=np.array([{}] * 8)),
        ["t.npz", "Python objects, which are never loaded", ".astype(str)"],
    ),
    "npz with other names": (npz(points=X, colour=Y), ["points (8, 3), colour (8,)", "input_column='…'"]),
    "labels do not match": (npz(x=X, y=Y[:7]), ["one label per sample", "(8, 3)", "7 labels"]),
    "one-hot labels": (npz(x=X, y=np.eye(8)), ["the labels, y of", "one class each: got (8, 8)", "argmax(1)"]),
    "fractional labels": (npz(x=X, y=Y + 0.5), ["whole numbers or text", "fractions"]),
    "NaN features": (npz(x=BROKEN, y=Y), ["2 of 8 rows", "row 2 column 1, row 5 column 0", "Fill or remove"]),
    "too large for float32": (npz(x=np.full((8, 1), 1e300), y=Y), ["8 of 8 rows", "±3.4e38", "Divide"]),
    "one number too large": (csv("a,label\n1e39,a\n2,b\n"), ["1 of 2 rows hold more, line 2 column 'a'", "±3.4e38"]),
    "times": (csv(TIMES), ["digits in float32", "'time' lies between 1700000000 and 1700000040", "Subtract"]),
    "times in an array": (npz(x=1.7e9 + 20.0 * (np.arange(8)[:, None] % 3), y=Y), ["digits in float32", "column '0'"]),
    "two columns of labels": (
        csv("a,class,target\n1.5,a,0\n2.5,b,1\n"),
        ["'class' and 'target' all look like it", "label_column='class'"],
    ),
    "float images": (npz(x=np.zeros((8, 4, 4)), y=Y), ["(8, 4, 4)", "kind='array' flattens"]),
    "no features": (npz(x=np.zeros((8, 0)), y=Y), ["at least one feature", "(8, 0)"]),
    "text as features": (npz(x=np.array([["a"]] * 8), y=Y), ["must hold numbers", "<U1"]),
    "class names too few": (npz(x=X, y=Y + 1, class_names=["a", "b"]), ["between 0 and 1", "1 to 2"]),
    "test part only": (npz(x_test=X, y_test=Y), ["samples to train on"]),
    "npy without labels": (lambda folder: _npy(folder), ["x.npy", "y.npy", "label_column='PATH'"]),
    "IDX cut": (idx(PIXELS, Y.astype(np.uint8)[:5]), ["train-labels-idx1-ubyte", "expected (8,), got (5,)"]),
    "IDX without labels": (
        lambda folder: (write_idx(folder / "train-images-idx3-ubyte", PIXELS), folder)[1],
        ["labels beside it", "train-labels-idx1-ubyte.gz"],
    ),
    "IDX of two sets": (
        lambda folder: [write_idx(folder / f"{n}-train-images-idx3-ubyte", PIXELS) for n in "ab"] and folder,
        ["one data set", "a-train-images", "b-train-images"],
    ),
    "IDX test only": (
        lambda folder: (write_idx(folder / "t10k-images-idx3-ubyte", PIXELS), folder)[1],
        ["train-images"],
    ),
    "IDX empty": (lambda folder: raw("train-images-idx3-ubyte", b"")(folder).parent, ["is empty"]),
    "IDX of something else": (
        lambda folder: raw("train-images-idx3-ubyte", b"\x89PNG....")(folder).parent,
        ["opening with 00 00 08: got 89 50 4e 47"],
    ),
    "IDX too short": (
        lambda folder: raw("train-images-idx3-ubyte", b"\0\0\x08\x03" + b"\0\0\0\x02" * 3 + b"abc")(folder).parent,
        ["(2, 2, 2) bytes", "8 in all: got 3"],
    ),
    "IDX .gz broken": (
        lambda folder: raw("train-images-idx3-ubyte.gz", b"\x1f\x8b broken")(folder).parent,
        ["broken .gz"],
    ),
    "TREC line": (raw("a.label", b"NUM:dist How far ?\nHow far ?\n"), ["a.label", "line 2 is 'How far ?'"]),
    "TREC empty": (raw("a.label", b"\n"), ["a.label is empty"]),
    "test has another class": (
        two_parts(GOOD, "text,label\nnew,c\n"),
        ["must match", "a, b", ": the test part of", "also has c"],
    ),
    "test is of another kind": (
        two_parts(GOOD, "size,label\n1,a\n2,b\n"),
        ["one kind, text: the test part of", "array"],
    ),
    "test has other columns": (
        two_parts("a,b,label\n" + "1,2,x\n3,4,y\n" * 3, "a,b,c,label\n1,2,3,x\n"),
        ["the test part of", "those to train on, 'a', 'b': it also has 'c'"],
    ),
}


def _locked(path):
    """Encrypted, as the archive's own flags say."""
    content = bytearray(path.read_bytes())
    for mark, flags in ((b"PK\3\4", 6), (b"PK\1\2", 8)):
        place = content.find(mark)
        while place >= 0:
            content[place + flags] |= 1
            place = content.find(mark, place + 1)
    path.write_bytes(content)
    return path


def _with_a_readme(path):
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("README.txt", "points in the plane")
    return path


def _npy(folder):
    np.save(folder / "x.npy", X)
    return folder / "x.npy"


@pytest.mark.parametrize("case", CASES)
def test_the_message_says_what_is_wrong(case, tmp_path):
    write, parts = CASES[case]
    source = write(tmp_path)
    with pytest.raises(InputError) as error:
        open_data(source)
    for part in parts:
        assert part in str(error.value)


def test_a_test_file_is_called_by_its_name(tmp_path):
    (tmp_path / "t.csv").write_text(GOOD)
    (tmp_path / "new.csv").write_text("text,label\nnew,c\n")
    with pytest.raises(InputError, match=r"new\.csv also has c"):
        open_data(tmp_path / "t.csv", test=tmp_path / "new.csv")


def test_two_files_for_one_part(tmp_path):
    for name in ("train.csv", "train.tsv", "test.csv"):
        (tmp_path / name).write_text(GOOD)
    with pytest.raises(InputError, match=r"both train\.csv and train\.tsv"):
        open_data(tmp_path)


def test_no_image_can_be_read(tmp_path):
    for name in "ab":
        (tmp_path / name).mkdir()
        (tmp_path / name / "0.png").write_bytes(b"")
    with pytest.raises(InputError, match=r"none of the 2 images can be read; the first is .*0\.png"):
        open_data(tmp_path, unreadable="skip")


OPTIONS = {
    "unknown": ({"image_sise": 3}, "unknown option 'image_sise'. Did you mean 'image_size'?"),
    "kind": ({"kind": "video"}, "kind must be one of 'image', 'array', 'text', 'sound'"),
    "level": ({"level": "middle"}, "level must be one of 'fine', 'coarse'"),
    "unreadable": ({"unreadable": "ignore"}, "unreadable must be one of 'stop', 'skip'"),
    "image_size": ({"image_size": 0}, "image_size must be a whole number of at least 1: got 0"),
    "seconds": ({"seconds": -1.0}, "seconds must be a positive number: got -1.0"),
    "seconds in words": ({"seconds": "3"}, "seconds must be a positive number: got '3'"),
    "verify": ({"verify": "no"}, "verify must be True or False: got 'no'"),
    "seed": ({"seed": 0.5}, "seed must be a whole number: got 0.5"),
    "shares": ({"test_share": 0.8, "validation_share": 0.3}, "together less than 1"),
    "shares in words": (
        {"test_share": "0.2"},
        "together less than 1, so that something is left to train on: got 0.1 and '0.2'",
    ),
    "no test part": ({"test_share": 0}, "test_share must be above 0 where the source has no test part"),
    "digits as text": ({"kind": "text"}, "digits are images, or arrays of 64 features: got kind='text'"),
}


@pytest.mark.parametrize("case", OPTIONS)
def test_options_are_checked(case):
    options, message = OPTIONS[case]
    with pytest.raises(OptionError) as error:
        open_data("digits", **options)
    assert message in str(error.value)


def test_too_few_samples_for_a_share(tmp_path):
    (tmp_path / "t.csv").write_text("text,label\n" + "some words,a\nother words,b\n" * 2)
    splits = open_data(tmp_path / "t.csv")
    assert (len(splits.train), splits.validation, len(splits.test)) == (3, None, 1)
    assert "no validation part: t has too few samples for a share of 0.1" in splits.note[0]
    with pytest.raises(InputError, match=r"test part must hold samples: t has too few for a share of 0\.05"):
        open_data(tmp_path / "t.csv", test_share=0.05)


def test_a_class_of_one_sample_is_said(tmp_path):
    (tmp_path / "t.csv").write_text(GOOD + "a lonely text,c\n")
    splits = open_data(tmp_path / "t.csv", validation_share=0)
    assert "1 class has one sample to train on, and no positive but views of it: c." in splits.note
    assert splits.train.class_counts()[2] == 1


def test_classes_that_differ_in_capitals_alone_are_said(tmp_path):
    """A messy table has Refund and refund; of an alphabet, A and a are two classes."""
    (tmp_path / "t.csv").write_text("text,label\n" + "some words,Refund\nother words,refund\nmore words,card\n" * 5)
    (note,) = (note for note in open_data(tmp_path / "t.csv").note if "capitals" in note)
    assert note.startswith("classes differ in capitals or spaces alone: 'Refund' and 'refund'. ")
    (tmp_path / "t.csv").write_text("text,label\n" + "some words,A\nother words,a\n" * 5)
    assert not any("capitals" in note for note in open_data(tmp_path / "t.csv").note)
    write_images(tmp_path / "spaces", {"sea gull": 3, "sea  gull ": 3, "tern": 3})
    assert "'sea  gull ' and 'sea gull'" in " ".join(open_data(tmp_path / "spaces").note)


@pytest.mark.parametrize(("count", "words"), [(1, "1 file of "), (2, "2 files of ")])
def test_images_of_another_form_are_not_called_no_images(tmp_path, count, words):
    write_images(tmp_path / "photos", {"cat": 4, "dog": 4})
    for number in range(count):
        (tmp_path / "photos" / "cat" / f"{number}.heic").write_bytes(b"ftypheic")
    (note,) = (note for note in open_data(tmp_path / "photos").note if "heic" in note)
    assert note.startswith(words)
    assert "not read here, and w" in note
    assert "convert them to PNG or JPEG" in note
    assert "no image file" not in note


@pytest.mark.parametrize("largest", [np.uint64(2**63 + 1), np.inf, 1e30])
def test_labels_that_int64_does_not_have_are_refused(tmp_path, largest):
    """They would be cast to whatever comes out, and be classes of that name."""
    np.savez(tmp_path / "t.npz", x=np.ones((4, 2)), y=np.array([0, 0, largest, largest], type(largest)))
    with pytest.raises(InputError, match=r"the labels, y of .*, must be whole numbers below 2\*\*63: got .*as text"):
        open_data(tmp_path / "t.npz")


def test_damaged_arrays_are_refused_in_words(tmp_path):
    generator = np.random.default_rng(0)
    np.savez_compressed(tmp_path / "whole.npz", x=generator.normal(size=(100, 10)), y=np.arange(100) % 2)
    np.save(tmp_path / "whole.npy", generator.normal(size=(100, 10)))
    np.save(tmp_path / "bad_labels.npy", np.arange(100) % 2)
    refused = 0
    for suffix, reach in (("npz", None), ("npy", 128)):  # of the second, its header
        content = (tmp_path / f"whole.{suffix}").read_bytes()
        for _ in range(150):
            bad = bytearray(content)
            bad[generator.integers(reach or len(bad))] ^= generator.integers(1, 256)
            (tmp_path / f"bad.{suffix}").write_bytes(bad)
            try:
                open_data(tmp_path / f"bad.{suffix}")
            except InputError:
                refused += 1
    assert refused > 200


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (f'{{"x": 1{"0" * 400}, "label": "b"}}', "must be finite: 1 of 9 rows"),
        (f'{{"x": 1{"0" * 5000}, "label": "b"}}', "one JSON object a line: line 9"),
        ("[" * 100_000, "one JSON object a line: line 9"),
    ],
)
def test_numbers_and_lists_beyond_measure(tmp_path, line, words):
    (tmp_path / "t.jsonl").write_text('{"x": 1, "label": "a"}\n{"x": 2, "label": "b"}\n' * 4 + line + "\n")
    with pytest.raises(InputError, match=words):
        open_data(tmp_path / "t.jsonl")


def parts(folder):
    for name in ("train.csv", "test.csv"):
        (folder / name).write_text(GOOD)
    return folder


def trec(folder):
    return _write(folder / "q.label", b"DESC:manner How ?\nENTY:animal What ?\n" * 4)


def sounds(folder):
    for i in range(6):
        write_wav(folder / "ab"[i % 2] / f"{i}.wav", np.arange(80))
    return folder


TABLE, ARRAYS = csv(GOOD), npz(x=X, y=[0, 1] * (len(X) // 2))
NUMBERS = csv("a,b,label\n" + "1,2,x\n3,4,y\n" * 4)
PICTURES = idx(np.zeros((6, 4, 4), np.uint8), np.arange(6, dtype=np.uint8) % 2)


@pytest.mark.parametrize(
    ("write", "options", "message"),
    [
        (lambda folder: "digits", {"label_column": "y"}, "label_column belongs to tables, .npz and .npy, and says"),
        (lambda folder: "digits", {"level": "fine"}, "level belongs to CIFAR-100 and TREC"),
        (lambda folder: "digits", {"words": 9}, "words belongs to texts, and digits is of kind 'image': leave it out"),
        (TABLE, {"unreadable": "skip"}, "unreadable belongs to images and sound in files"),
        (TABLE, {"image_size": 9}, "image_size belongs to images"),
        (TABLE, {"verify": False}, "verify belongs to CIFAR"),
        (NUMBERS, {"kind": "array", "input_column": "a"}, "input_column belongs to tables of text, and .npz"),
        (ARRAYS, {"encoding": "latin-1"}, "encoding belongs to .csv, .tsv and .jsonl"),
        (images({"a": 3, "b": 3}), {"seconds": 1.0}, "seconds belongs to sound"),
        (images({"a": 3, "b": 3}), {"input_column": "x"}, "input_column belongs to"),
        (parts, {"unreadable": "skip"}, "unreadable belongs to"),
        (trec, {"encoding": "utf-8"}, "encoding belongs to"),
        (trec, {"kind": "array"}, "kind must be that of the data: "),
        (PICTURES, {"kind": "array"}, "is of kind 'image', got 'array'"),
        (sounds, {"buckets": 99}, "buckets belongs to texts"),
    ],
)
def test_options_that_would_change_nothing_are_refused(tmp_path, write, options, message):
    source = write(tmp_path)
    for read in (open_data, read_data):
        with pytest.raises(OptionError) as error:
            read(source, **options)
        assert message in str(error.value)


@pytest.mark.parametrize(
    ("write", "options"),
    [
        (lambda folder: "digits", {"kind": "array"}),
        (TABLE, {"kind": "text", "input_column": "text", "encoding": "latin-1", "words": 9, "pieces": 12}),
        (ARRAYS, {"kind": "array", "input_column": "x", "label_column": "y", "unreadable": "stop", "verify": True}),
        (images({"a": 3, "b": 3}), {"unreadable": "skip", "image_size": 5, "kind": "image"}),
        (parts, {"label_column": "label", "encoding": "latin-1"}),
        (trec, {"level": "fine", "kind": "text", "words": 3}),
        (PICTURES, {"kind": "image", "image_size": 5}),
        (sounds, {"unreadable": "skip", "seconds": 0.005, "sample_rate": 4000}),
    ],
)
def test_options_that_have_a_meaning_are_taken(tmp_path, write, options):
    assert read_data(write(tmp_path), **options)


def test_options_may_be_of_the_data_to_judge_by_alone(tmp_path):
    """One set of options is for both: the columns of an archive, say, where the rest lies in a table."""
    np.savez(tmp_path / "t.npz", feats=np.eye(2, dtype=np.float32).repeat(9, 0), label=["x", "y"] * 9)
    (tmp_path / "new.csv").write_text("a,b,label\n1,2,x\n3,4,y\n")
    options = {"kind": "array", "input_column": "feats", "label_column": "label", "encoding": "latin-1"}
    assert len(open_data(tmp_path / "t.npz", test=tmp_path / "new.csv", **options).test) == 2
    with pytest.raises(OptionError, match="encoding belongs to"):
        open_data(tmp_path / "t.npz", **options)


def test_a_label_is_one_class(tmp_path):
    rows = [{"x": i, "label": ["a", "b"][i % 2] if i < 7 else ["a", "b"]} for i in range(8)]
    with pytest.raises(InputError, match=r"one class in 'label': line 8 holds a list, \['a', 'b'\]\. Save one"):
        open_data(jsonl(*rows)(tmp_path))


def test_a_name_that_the_caller_gave_must_be_there(tmp_path):
    np.savez(tmp_path / "a.npz", x=np.eye(4), y=np.arange(4) % 2)
    with pytest.raises(
        InputError, match=r"must hold 'pixels': it holds x \(4, 4\).*input_column='…', label_column='…'"
    ):
        open_data(tmp_path / "a.npz", input_column="pixels")
    (tmp_path / "t.csv").write_text("query,category\nhow are you,a\nwho is it,b\n")
    with pytest.raises(InputError, match=r"must have a column 'question' beside its labels: it has 'query'\."):
        open_data(tmp_path / "t.csv", input_column="question")
