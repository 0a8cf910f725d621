"""Labels as lines of text, for arrays in an .npy: read alike to train on and to look at, refused in words of ours."""

import numpy as np
import pytest

from sincere.data import open_data
from sincere.embeddings import EmbeddingSet
from sincere.errors import InputError


@pytest.fixture(params=["data", "embeddings"])
def read(request, tmp_path):
    """Six samples with the labels of a file; gives the classes in their order."""
    np.save(tmp_path / "rows.npy", np.arange(18, dtype=np.float32).reshape(6, 3))

    def reading(content, name="labels.txt"):
        (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
        if request.param == "data":
            return open_data(tmp_path / "rows.npy", label_column=str(tmp_path / name)).train.class_names
        return EmbeddingSet.load(tmp_path / "rows.npy", labels=tmp_path / name).class_names

    return reading


@pytest.mark.parametrize(
    ("content", "names"),
    [
        ("cat\ndog\ncat\ndog\ncat\ndog\n", ("cat", "dog")),
        ("10\n9\n10\n9\n10 \n9\n\n\n", ("9", "10")),
        ("9\n99999999999999999999\n9\n99999999999999999999\n9\n99999999999999999999", ("9", "9" * 20)),
        ("\ufeffk\u00e4fer\r\ndog\r\nk\u00e4fer\r\ndog\r\nk\u00e4fer\r\ndog\r\n", ("dog", "k\u00e4fer")),
    ],
    ids=["texts", "numbers", "no int64 holds them", "mark and carriage returns"],
)
def test_one_a_line(read, content, names):
    assert tuple(sorted(read(content), key=lambda name: (len(name), name))) == names


@pytest.mark.parametrize(
    ("content", "name", "words"),
    [
        ("a\nb\n\na\nb\na\n", "l.txt", ["must hold one label a line: line 3 of 6 is blank", "Write its label"]),
        ("\n", "l.txt", ["must hold one label a line: it is empty"]),
        ("label\na\nb\na\nb\na\nb", "l.txt", ["rows.npy, 6, one a line: got 7", "line 1, 'label', is a heading"]),
        ("a\nb\n", "l.txt", ["rows.npy, 6, one a line: got 2."]),
        (
            "id,label\n1,a\n",
            "l.csv",
            ["nothing else: line 1 holds 'id,label'", "Save the column with the labels alone"],
        ),
        ("a\nk\u00e4fer\n".encode("latin-1"), "l.txt", ["in UTF-8", r"line 2 holds 'k\\xe4fer'", "Save it again"]),
    ],
    ids=["blank", "empty", "heading", "too few", "table", "encoding"],
)
def test_refused_with_file_line_and_text(read, content, name, words):
    with pytest.raises(InputError) as error:
        read(content, name)
    for part in (name, *words):
        assert part in str(error.value)
