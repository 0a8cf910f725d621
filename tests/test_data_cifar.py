"""CIFAR's archives: read right, verified, and never run."""

import hashlib
import io
import os
import pickle
import pickletools
from dataclasses import replace

import numpy as np
import pytest

from data_files import cifar10_batch, write_archive, write_cifar10, write_cifar100
from sincere.data import open_data
from sincere.data.cifar import CIFAR10, read_cifar
from sincere.data.cifar_pickle import read_pickle
from sincere.data.options import Settings
from sincere.errors import InputError


@pytest.fixture
def cifar10(tmp_path):
    folder = tmp_path / "cifar-10-batches-py"
    return folder, write_cifar10(folder)


@pytest.mark.parametrize("form", ["archive", "folder", "folder above", "named archive"])
def test_reads_the_archive_and_its_folder(cifar10, form, tmp_path):
    folder, held = cifar10
    source = {
        "archive": lambda: f"cifar10:{write_archive(tmp_path / 'c.tar.gz', folder)}",
        "folder": lambda: f"cifar10:{folder}",
        "folder above": lambda: tmp_path,
        "named archive": lambda: write_archive(tmp_path / "cifar-10-python.tar.gz", folder),
    }[form]()
    splits = open_data(source, verify=False, validation_share=0)
    train = np.concatenate([held[f"data_batch_{i}"][b"data"] for i in range(1, 6)])
    # The published layout: a row is 1,024 red, 1,024 green, 1,024 blue values, each row by row.
    red = splits.train.inputs[:, 0].reshape(100, 1024).numpy()
    np.testing.assert_array_equal(red, train[:, :1024])
    assert splits.train.inputs[7, 2, 1, 0] == train[7, 2048 + 32]
    np.testing.assert_array_equal(splits.test.inputs.reshape(20, 3072).numpy(), held["test_batch"][b"data"])
    assert splits.test.labels.tolist() == held["test_batch"][b"labels"]
    assert splits.train.class_names[3] == "class 3"
    assert splits.train.shown[20] == "2_0.png"
    assert splits.train.name == "cifar10"


@pytest.mark.parametrize(("level", "classes"), [(None, 100), ("fine", 100), ("coarse", 20)])
def test_cifar100_has_two_levels(tmp_path, level, classes):
    write_cifar100(tmp_path / "cifar-100-python")
    splits = open_data(f"cifar100:{tmp_path}", verify=False, validation_share=0, level=level)
    assert len(splits.train.class_names) == classes
    assert splits.test.labels.tolist() == [i if classes == 100 else i // 5 for i in range(100)]


def test_published_sums_are_compared(cifar10):
    folder, _ = cifar10
    own = {name: hashlib.md5((folder / name).read_bytes()).hexdigest() for name in CIFAR10.sums}
    parts = {part: {name: own[name] for name in getattr(CIFAR10, part)} for part in ("train", "test", "names")}
    edition = replace(CIFAR10, **parts)
    assert len(read_cifar(edition, folder, Settings()).train.classes) == 100
    content = bytearray((folder / "data_batch_3").read_bytes())
    content[len(content) // 2] ^= 1  # one bit of one pixel
    (folder / "data_batch_3").write_bytes(content)
    with pytest.raises(InputError, match=rf"data_batch_3 must have the published MD5 sum {own['data_batch_3']}: got"):
        read_cifar(edition, folder, Settings())
    assert len(read_cifar(edition, folder, Settings(verify=False)).train.classes) == 100


def test_verifies_unless_told_otherwise(cifar10):
    with pytest.raises(InputError, match=r"c99cafc152244af753f735de768cd75f.*verify=False"):
        open_data(f"cifar10:{cifar10[0]}")


def test_a_missing_file_and_a_broken_archive_are_named(cifar10, tmp_path):
    folder, _ = cifar10
    archive = write_archive(tmp_path / "c.tar.gz", folder)
    archive.write_bytes(archive.read_bytes()[: archive.stat().st_size // 2])
    with pytest.raises(InputError, match=r"c\.tar\.gz cannot be read as an archive.*download it again"):
        open_data(f"cifar10:{archive}")
    (folder / "test_batch").unlink()
    with pytest.raises(InputError, match="missing test_batch"):
        open_data(f"cifar10:{folder}")
    with pytest.raises(InputError, match="no such file or folder"):
        open_data("cifar10:/nowhere/at/all")


class Touch:
    """A pickle that makes a folder when it is loaded as usual."""

    def __init__(self, path, call=os.mkdir):
        self.path, self.call = str(path), call

    def __reduce__(self):
        return self.call, (self.path,)


class Evaluate(Touch):
    def __reduce__(self):
        return eval, (f"__import__('os').mkdir({self.path!r})",)


@pytest.mark.parametrize("protocol", [0, 2, 4])
@pytest.mark.parametrize("payload", [Touch, Evaluate])
@pytest.mark.parametrize("place", ["value", "key", "list", "whole"])
def test_a_pickle_that_would_run_code_is_refused(tmp_path, payload, place, protocol):
    trap = tmp_path / "trap"
    attack = payload(trap)
    content = {
        "value": {"data": attack},
        "key": {attack: "data"},
        "list": {"labels": [1, [attack]]},
        "whole": attack,
    }[place]
    dumped = pickle.dumps(content, protocol=protocol)
    with pytest.raises(InputError, match=r"the name (posix|nt|builtins|__builtin__)\..*Nothing in it was run"):
        read_pickle(dumped, "data_batch_1")
    assert not trap.exists()
    pickle.loads(dumped)
    assert trap.exists()  # the trap works where it is let


def test_a_trap_in_the_archive_is_refused_when_sums_are_not_compared(cifar10, tmp_path):
    folder, held = cifar10
    (folder / "data_batch_2").write_bytes(pickle.dumps({**held["data_batch_2"], b"more": Touch(tmp_path / "trap")}))
    with pytest.raises(InputError, match=r"data_batch_2 cannot be read.*mkdir"):
        open_data(f"cifar10:{folder}", verify=False)
    assert not (tmp_path / "trap").exists()


# Each builds on names that are allowed, and asks them for more than they do.
CRAFTED = {
    "attribute of an allowed name": b"\x80\x04\x8c\x05numpy\x8c\x11ndarray.__class__\x93.",
    "state for a stand-in": b"cnumpy\nndarray\n}(S'a'\nI1\nub.",
    "new object of a stand-in": b"\x80\x02cnumpy\nndarray\n)\x81.",
    "an array of objects": b"cnumpy\ndtype\n(S'O8'\nI0\nI1\ntR.",
    "persistent id": b"Pname\n.",
    "extension registry": b"\x80\x02\x82\x01.",
    "list instead of dictionary": b"(I1\nI2\nl.",
    "array with too few bytes": pickle.dumps({b"data": np.zeros((2, 3), np.uint8)}, 3).replace(b"\0" * 6, b"\0" * 5),
    "array of floats": pickle.dumps({b"data": np.zeros((2, 3))}, 3),
    "array of three dimensions": pickle.dumps({b"data": np.zeros((2, 3, 1), np.uint8)}, 3),
    "transposed array": pickle.dumps({b"data": np.zeros((2, 3), np.uint8).T}, 3),
    "cut off": pickle.dumps(cifar10_batch(0), 3)[:-100],
    "no pickle": b"\x89PNG",
    "nothing": b"",
}


@pytest.mark.parametrize("case", CRAFTED)
def test_crafted_pickles_are_refused(case):
    with pytest.raises(InputError, match="data_batch_1"):
        read_pickle(CRAFTED[case], "data_batch_1")


def test_python_2_pickles_are_read():
    """The official files: protocol 2 with byte strings, written here opcode by opcode."""
    pixels = bytes(range(12))
    official = (
        b"\x80\x02}(U\x06labels](K\x03K\x07eU\x09filenames](U\x05a.pngU\x05b.pngeU\x04data"
        b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R"
        b"(K\x01K\x02K\x06\x86cnumpy\ndtype\nU\x02u1K\x00K\x01\x87R(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
        b"\x89U\x0c" + pixels + b"tbu."
    )
    pickletools.dis(official, out=io.StringIO())  # well-formed
    loaded = read_pickle(official, "test_batch")
    assert loaded["labels"] == [3, 7]
    assert loaded["filenames"] == ["a.png", "b.png"]
    np.testing.assert_array_equal(loaded["data"], np.frombuffer(pixels, np.uint8).reshape(2, 6))
