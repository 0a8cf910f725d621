"""Tables: columns that would tell the class, spellings of classes, and what float32 and Python's times cannot hold."""

import unicodedata
from dataclasses import asdict

import numpy as np
import pytest
import torch

from sincere.data import Form, open_data, read_data
from sincere.errors import InputError

NOISE = np.random.default_rng(0).normal(size=(60, 2)).round(4)


def write(path, header, row, rows=60):
    """A table; `row` makes a line of a row's number, two numbers of noise and one of three classes, by order."""
    lines = [
        row.format(i=i, a=NOISE[i, 0], b=NOISE[i, 1], k=i * 3 // rows, c="xyz"[i * 3 // rows]) for i in range(rows)
    ]
    path.write_text("\n".join([header, *lines]))
    return path


class TestASecondColumnOfLabels:
    def test_a_named_one_leaves_a_note_on_the_other(self, tmp_path):
        path = write(tmp_path / "t.csv", "a,b,class,target", "{a},{b},{c},{k}")
        data, (note,) = read_data(path, label_column="class")
        assert data.columns == ("a", "b", "target")
        assert note.startswith(f"every value of column 'target' in {path} belongs to one class alone")
        with pytest.raises(InputError, match="'class' and 'target' all look like it"):
            read_data(path)

    def test_y_beside_x_is_a_coordinate(self, tmp_path):
        data, notes = read_data(write(tmp_path / "t.csv", "x,y,label", "{a},{b},{c}"))
        assert data.columns == ("x", "y")
        assert notes == ()

    def test_features_that_do_not_tell_the_class_need_no_word(self, tmp_path):
        path = write(tmp_path / "t.csv", "a,constant,label", "{a},1,{c}")
        path.write_text(path.read_text().replace(",1,x", ",2,x", 1).replace(",1,z", ",2,z", 1))
        assert read_data(path)[1] == ()

    def test_a_text_is_learned_from_alone(self, tmp_path):
        _, (note,) = read_data(write(tmp_path / "t.csv", "text,class,target", "some words {a},{c},{k}"))
        assert "and not 'target'" in note


class TestAColumnThatCountsTheRows:
    @pytest.mark.parametrize("first", [0, 1])
    def test_it_is_left_out_whatever_its_name(self, tmp_path, first):
        path = write(tmp_path / "t.csv", "sample_id,a,b,label", "{i},{a},{b},{c}")
        if first:
            path.write_text(
                "\n".join(
                    f"{n}{line[line.index(',') :]}" if n else line
                    for n, line in enumerate(path.read_text().split("\n"))
                )
            )
        data, notes = read_data(path)
        assert data.columns == ("a", "b")
        assert data.shown[0] == f"a = {NOISE[0, 0]:.6g}, b = {NOISE[0, 1]:.6g}"
        assert notes == (f"column 'sample_id' of {path} only numbers the rows, and was left out.",)

    def test_other_whole_numbers_are_features(self, tmp_path):
        path = write(tmp_path / "t.csv", "size,label", "{i},{c}")
        path.write_text(path.read_text().replace("\n59,", "\n60,"))
        assert read_data(path)[0].columns == ("size",)

    def test_a_feature_stays_one_in_data_that_comes_later(self, tmp_path):
        trained, _ = read_data(write(tmp_path / "t.csv", "a,size,label", "{a},{i}5,{c}"))
        form = Form(**asdict(trained.form))
        later = write(tmp_path / "later.csv", "size,a,label", "{i},{a},{c}", rows=20)
        data, notes = read_data(later, form=form)
        assert data.inputs[:, 1].tolist() == list(range(20))
        assert notes == ()

    def test_the_count_of_a_later_table_may_go_on(self, tmp_path):
        trained, _ = read_data(write(tmp_path / "t.csv", "a,key,label", "{a},{i},{c}", rows=30))
        later = write(tmp_path / "later.csv", "a,key,label", "{a},{i},{c}", rows=30)
        for start in (30, 800):  # 800, 801, … as where a training table of 800 rows ended
            lines = later.read_text().splitlines()
            rows = [
                ",".join([line.split(",")[0], str(start + i), line.split(",")[2]]) for i, line in enumerate(lines[1:])
            ]
            later.write_text("\n".join([lines[0], *rows]))
            data, notes = read_data(later, form=trained.form)
            assert data.inputs.shape == (30, 1)
            assert "'key' of" in str(notes[0])
            assert "only numbers the rows" in str(notes[0])
        alone, notes = read_data(later)
        assert (alone.columns, notes) == (("a", "key"), ()), "800 and on may be years"

    def test_alone_there_is_nothing_to_learn_from(self, tmp_path):
        with pytest.raises(InputError, match="something to learn from beside labels and numbers of rows"):
            read_data(write(tmp_path / "t.csv", "key,label", "{i},{c}"))


def test_times_that_training_tells_apart_may_lie_close_in_later_data(tmp_path):
    trained, _ = read_data(write(tmp_path / "t.csv", "time,label", "17{i}00000000,{c}"))
    later = write(tmp_path / "later.csv", "time,label", "17000000{i},{c}", rows=3)
    assert read_data(later, form=trained.form)[0].inputs.shape == (3, 1)


class TestSpellingsOfClasses:
    def test_a_class_may_be_spelt_in_two_ways(self, tmp_path):
        spelt = [unicodedata.normalize(form, "café") for form in ("NFC", "NFD")]
        lines = [f"word {i},{spelt[i % 2] if i % 3 else 'thé'}" for i in range(30)]
        (tmp_path / "t.csv").write_text("\n".join(["text,label", *lines]))
        splits = open_data(tmp_path / "t.csv")
        assert splits.train.class_names == ("café", "thé")
        data, _ = read_data(tmp_path / "t.csv", class_names=(spelt[1], "thé"))  # as a model of before has them
        assert torch.equal(data.labels, torch.tensor([int(i % 3 == 0) for i in range(30)]))


@pytest.mark.parametrize("kind", ["timestamp", "time64"])
def test_nanoseconds_of_parquet_are_refused_in_words(tmp_path, kind):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    times = arrow.array(np.arange(30) + 1, type=getattr(arrow, kind)("ns"))
    parquet.write_table(
        arrow.table({"when": times, "a": NOISE[:30, 0], "label": [*"xyz"] * 10}), tmp_path / "t.parquet"
    )
    with pytest.raises(InputError, match=r"'when' of .* must hold numbers: line 1 holds '.*00:00:00\.000000001'"):
        open_data(tmp_path / "t.parquet")
