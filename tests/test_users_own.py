"""What users bring stays as it is: names that look like options in messages, and files that a verb could write over."""

import numpy as np
import pytest
from PIL import Image

from command_line import FAST, blobs, call, done, refused
from sincere.cli.help import one_path
from sincere.cli.hints import as_typed, flags_of
from sincere.cli.train import train_model
from sincere.data import open_data, read_data

OF_TRAIN = flags_of(train_model)


@pytest.mark.parametrize(
    ("words", "own", "typed"),
    [
        ("its columns are 'dim', 'lr=3'. Name one: label_column='…'.", (), None),
        ("lr=3.csv must have a column 'seed=3'.", ["lr=3.csv"], "lr=3.csv must have a column 'seed=3'."),
        ("dim must hold config.json: there is none.", ["dim"], "dim must hold config.json: there is none."),
        ("optimizer.lr has no known suffix.", ["optimizer.lr"], "optimizer.lr has no known suffix."),
        ("data/seed=3 is a file.", ["data/seed=3"], "data/seed=3 is a file."),
        # A folder that is called like a group of settings does not hide the group.
        ("data: test_share must be above 0.", ["data"], "data.test_share must be above 0."),
        ("data.options.image_size must be at least 1.", ["data"], "--image-size must be at least 1."),
        ("Name it: label_column='dim'.", ["dim"], "Name it: --label-column dim."),
        ("dim must be at least 1: got 0.", ["wine.csv"], "--dim must be at least 1: got 0."),
    ],
)
def test_which_words_are_names(words, own, typed):
    expected = "its columns are 'dim', 'lr=3'. Name one: --label-column …." if typed is None else typed
    assert as_typed(words, OF_TRAIN, own) == expected


def test_files_and_columns_called_like_options(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lr=3.csv").write_text("dim,lr=3,kind\n" + "".join(f"{i},{-i},{'ab'[i % 2]}\n" for i in range(20)))
    line = refused("train", "lr=3.csv")
    assert line.startswith("error: lr=3.csv must have a label column")
    assert "'dim', 'lr=3', 'kind'. Name the one with the classes: --label-column …." in line
    assert "a column 'seed=3' " in refused("train", "lr=3.csv", "--label-column", "kind", "--input-column", "seed=3")
    assert refused("evaluate", "seed=4") == "error: there is no folder seed=4."
    np.save("dim=3.npy", np.zeros((4, 2)))
    assert "beside it, dim=3_labels.npy or dim=3_y.npy" in refused("train", "dim=3.npy")


def test_classes_called_like_options(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = [*(f"{i},{i % 3},{'ab'[i % 2]}\n" for i in range(20)), "1,2,seed=3\n"]
    (tmp_path / "wine.csv").write_text("size,weight,label\n" + "".join(rows))
    noted = done("train", "wine.csv", *FAST, "--out", "run").stderr
    assert noted.count("no positive but views of it: 'seed=3'.") == 1


def test_report_names_both_options_of_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done("train", blobs(tmp_path / "blobs.npz"), *FAST, "--out", "run", "--quiet")
    line = refused("report", "run", "--labels", "labels.txt")
    assert line == "error: --train and --labels belong to a file of embeddings: run is the folder of a run."


def test_embed_overwrites_neither_data_nor_the_runs_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    data = blobs(tmp_path / "blobs.npz")
    done("train", data, *FAST, "--out", "run", "--quiet")
    kept = [data, tmp_path / "run/embeddings/test.npz"]
    before = [path.read_bytes() for path in kept]
    assert "another file than the data" in refused("embed", "run", data, "--out", "blobs.npz")
    assert "must lie outside run/embeddings" in refused("embed", "run", data, "--out", "run/embeddings/test.npz")
    assert [path.read_bytes() for path in kept] == before
    done("embed", "run", data, "--out", "run/other.npz")


def test_export_does_not_overwrite_the_runs_weights(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done("train", blobs(tmp_path / "blobs.npz"), *FAST, "--out", "run", "--quiet")
    assert "another than the run's own weights" in refused("export", "run", "run/model.safetensors")
    done("export", "run", "run/copy.safetensors")
    done("evaluate", "run", "--methods", "knn")


def test_resume_of_what_is_no_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert refused("train", "--resume", "night") == (
        "error: --resume must name the folder of a run: there is none in night. "
        "To begin one there: sincere train DATA --resume night"
    )
    done("train", blobs(tmp_path / "blobs.npz"), *FAST, "--resume", "night", "--quiet")


def test_a_path_with_spaces_is_told_of_quotation_marks(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my photos").mkdir()
    found = call("train", "my", "photos", "--epochs", "3")
    assert found.exit_code == 2
    assert "A path with spaces needs quotation marks: 'my photos'" in " ".join(found.stderr.replace("│", " ").split())
    assert "quotation" not in call("train", "my", "pictures").stderr


def test_thousands_of_words_are_searched_for_a_path_in_steps_as_many(monkeypatch):
    """`sincere train photos/*` took minutes to be refused."""
    asked = []
    monkeypatch.setattr("os.path.exists", lambda path: asked.append(path) or path == "my new photos")
    words = [f"photos/{number}.jpg" for number in range(300)]
    assert one_path([*words, "my", "new", "photos", *words]) == "my new photos"
    assert len(asked) < 20 * 2 * len(words)


def test_notes_on_data_in_a_models_form_advise_no_option(tmp_path):
    for name in "ab":
        (tmp_path / name).mkdir()
        for i in range(5):
            Image.new("RGB", (20 + i, 30), (i, 99, 0)).save(tmp_path / name / f"{i}.png")
    form = open_data(tmp_path, image_size=8, validation_share=0).train.form
    _, notes = read_data(tmp_path, form=form)
    assert notes == ("10 of 10 images were scaled and cropped to 8×8.",)


def test_labels_that_make_no_batch_say_what_to_type(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    numbers = [*range(40), 0, 1]
    (tmp_path / "wine.csv").write_text("size,age\n" + "".join(f"{i % 7}.5,{n}\n" for i, n in enumerate(numbers)))
    words = ("train", "wine.csv", "--label-column", "age", *FAST)
    assert "--set batches.sampler=shuffled" in refused(*words)
    done(*words, "--set", "batches.sampler=shuffled", "--quiet")
