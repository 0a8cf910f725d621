"""`sincere predict`: images, texts, sounds and tables, with labels and without, and what evaluation says of them."""

import csv
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from command_line import FAST, blobs, done, parsed, refused
from data_files import write_wav
from sincere.data import open_data
from sincere.embeddings import EmbeddingSet, load
from sincere.evaluate import Evaluation

HUES = {"sky": 200, "grass": 120, "fire": 10}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A run of each kind of data, beside what it was trained on."""
    folder = tmp_path_factory.mktemp("runs")
    blobs(folder / "blobs.npz", samples=150)
    for name, hue in HUES.items():
        for i in range(12):
            picture(folder / "photos" / name / f"{i}.png", hue, 30 + 3 * i)
    texts = {"late": "where is my card", "twice": "you charged me two times", "close": "delete my account"}
    ends = ("please", "now", "today", "hello", "thanks")
    lines = [f"{text} {end},{name}" for name, text in texts.items() for end in ends]
    (folder / "bank.csv").write_text("\n".join(["query,category", *lines * 3]))
    for name, pitch in (("low", 200), ("high", 1500)):
        for i in range(10):
            tone(folder / "tones" / name / f"{i}.wav", pitch + 5 * i)
    for data in ("blobs.npz", "photos", "bank.csv", "tones"):
        epochs = ("--epochs", "15") if data != "blobs.npz" else ()
        done("train", folder / data, *FAST, *epochs, "--out", folder / "run" / Path(data).stem, "--quiet")
    return folder


def picture(path, hue, light):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (12, 12), f"hsl({hue}, 90%, {light}%)").save(path)


def tone(path, pitch):
    write_wav(path, 2**14 * np.sin(2 * np.pi * pitch * np.arange(1600) / 8000))


def rows_in(path):
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("method", ["class_means", "knn"])
def test_predictions_are_those_of_the_kept_evaluation(runs, tmp_path, method):
    run = runs / "run" / "blobs"
    done("evaluate", run, "--draws", "100")
    kept = Evaluation.from_json((run / "evaluation.json").read_text())
    test = open_data(str(runs / "blobs.npz")).test
    np.savez(tmp_path / "new.npz", x=test.inputs.numpy(), y=np.array(test.class_names)[test.labels])
    told = parsed(
        "predict", run, tmp_path / "new.npz", "--method", method.replace("_", "-"), "--out", tmp_path / "p.csv"
    )
    (expected,) = (one for one in kept.classifiers if one.method == method)
    names = [kept.class_names[number] for number in expected.predicted]
    assert [row["predicted"] for row in told["predictions"]] == names
    assert [row["predicted"] for row in rows_in(tmp_path / "p.csv")] == names
    assert told["labelled"] == len(names)
    assert told["agree"] / told["labelled"] == pytest.approx(expected.top1.value)
    assert told["k"] == (expected.settings["k"] if method == "knn" else None)


def test_images_in_a_folder(runs, tmp_path):
    for i, (name, hue) in enumerate(HUES.items()):
        picture(tmp_path / "new" / f"{i} {name}.png", hue, 45)
    result = done("predict", runs / "run" / "photos", tmp_path / "new", "--out", tmp_path / "out" / "p.csv")
    rows = rows_in(tmp_path / "out" / "p.csv")
    assert list(rows[0]) == ["row", "sample", "predicted", "cosine", "margin", "second"]
    assert [(row["row"], Path(row["sample"]).name, row["predicted"]) for row in rows] == [
        (str(i + 1), f"{i} {name}.png", name) for i, name in enumerate(HUES)
    ]
    assert "3 samples, by the nearest class mean of" in result.stdout
    assert "agree" not in result.stdout
    assert result.stderr == "", "who asks for a class need not be told that there is none"
    loaded = load(runs / "run" / "photos", device="cpu")
    pixels = np.stack([np.asarray(Image.open(row["sample"])) for row in rows])
    found = loaded.predict(pixels)
    assert [f"{cosine:.5f}" for cosine in found.cosine.tolist()] == [f"{float(row['cosine']):.5f}" for row in rows]


def test_folders_of_other_names_are_no_labels(runs, tmp_path):
    picture(tmp_path / "new" / "monday" / "a.png", HUES["sky"], 50)
    result = done("predict", runs / "run" / "photos", tmp_path / "new")
    assert "agree" not in result.stdout
    assert "note: 1 label is of none of the classes to choose from: 'monday'." in result.stderr
    picture(tmp_path / "new" / "fire" / "b.png", HUES["fire"], 50)
    told = parsed("predict", runs / "run" / "photos", tmp_path / "new")
    assert (told["samples"], told["labelled"], told["agree"]) == (2, 1, 1)
    assert [row["label"] for row in told["predictions"]] == ["fire", "monday"]


@pytest.mark.parametrize(("kind", "name"), [("photos", "fire"), ("tones", "low")])
def test_a_single_file(runs, tmp_path, kind, name):
    if kind == "photos":
        picture(tmp_path / "one.png", HUES["fire"], 50)
    else:
        tone(tmp_path / "one.wav", 215)
    (one,) = tmp_path.glob("one.*")
    (told,) = parsed("predict", runs / "run" / kind, one)["predictions"]
    assert (told["predicted"], told["row"], told["sample"]) == (name, 1, str(one))
    assert told["best"][name] == told["cosine"]
    assert "label" not in told


def test_texts(runs, tmp_path):
    # A lone carriage return, too, which the csv module does not quote by itself.
    (tmp_path / "new.csv").write_text(
        'query\n"where, please,\nis my card"\nyou charged me two times\n"where\ris my card"\n', newline=""
    )
    result = done("predict", runs / "run" / "bank", tmp_path / "new.csv", "--out", tmp_path / "p.csv")
    rows = rows_in(tmp_path / "p.csv")
    assert [(row["sample"], row["predicted"]) for row in rows] == [
        ("where, please,\nis my card", "late"),
        ("you charged me two times", "twice"),
        ("where\ris my card", "late"),
    ]
    assert "where, please, is my card" in result.stdout
    (tmp_path / "new.csv").write_text("query,category\nwhere is my card,late\nwhere is my card,close\nhello,\n")
    told = parsed("predict", runs / "run" / "bank", tmp_path / "new.csv")
    assert (told["samples"], told["labelled"], told["agree"]) == (3, 2, 1)
    assert [row["label"] for row in told["predictions"]] == ["late", "close", None]
    text = done("predict", runs / "run" / "bank", tmp_path / "new.csv").stdout
    assert "1 of 2 labels agree, 50.0 %." in text


def test_votes_and_other_references(runs, tmp_path):
    run, new = runs / "run" / "blobs", blobs(tmp_path / "new.npz", samples=30, seed=4)
    told = parsed("predict", run, new, "--method", "knn", "--k", "5")
    assert told["k"] == 5
    assert all(round(5 * row["share"], 4) in (1, 2, 3, 4, 5) for row in told["predictions"])
    done("embed", run, new, "--out", tmp_path / "known.npz")
    told = parsed("predict", run, new, "--method", "knn", "--k", "1", "--references", tmp_path / "known.npz")
    assert told["agree"] == 30, "each is nearest to itself"
    text = done("predict", run, new, "--method", "knn", "--references", tmp_path / "known.npz").stdout
    assert f"nearest samples of {tmp_path / 'known.npz'}" in text


def test_the_second_class_and_the_share_of_votes_are_those_of_a_loop(runs, tmp_path):
    run, new = runs / "run" / "blobs", blobs(tmp_path / "new.npz", samples=30, seed=4)
    done("embed", run, new, "--out", tmp_path / "made.npz")
    made, known = (EmbeddingSet.load(place) for place in (tmp_path / "made.npz", run / "embeddings" / "train.npz"))
    rows, others = (one.embeddings.double().numpy() for one in (made, known))
    rows, others = (one / np.linalg.norm(one, axis=1, keepdims=True) for one in (rows, others))
    names, labels = known.class_names, known.labels.numpy()
    means = np.stack([others[labels == c].mean(axis=0) for c in range(3)])
    near = rows @ (means / np.linalg.norm(means, axis=1, keepdims=True)).T
    told = parsed("predict", run, new)["predictions"]
    assert [row["second"] for row in told] == [names[c] for c in np.argsort(-near, axis=1)[:, 1]]
    told = parsed("predict", run, new, "--method", "knn", "--k", "45")["predictions"]
    shares = set()
    for row, cosines in zip(told, rows @ others.T, strict=True):
        order = np.argsort(-cosines)
        if cosines[order[44]] - cosines[order[45]] > 1e-6:  # those that are equally near share a vote
            shares.add(share := round(np.bincount(labels[order[:45]]).max() / 45, 6))
            assert row["share"] == share
    assert len(shares) > 1


def test_a_run_without_its_training_samples(runs, tmp_path, monkeypatch):
    copy = shutil.copytree(runs / "run" / "blobs", tmp_path / "run")
    before = parsed("predict", copy, runs / "blobs.npz")
    shutil.rmtree(copy / "embeddings")
    again = parsed("predict", copy, runs / "blobs.npz")
    assert [row["predicted"] for row in again["predictions"]] == [row["predicted"] for row in before["predictions"]]
    assert (copy / "embeddings" / "train.npz").exists()
    shutil.rmtree(copy / "embeddings")
    other = blobs(tmp_path / "new.npz", samples=6)
    (runs / "blobs.npz").rename(runs / "moved.npz")
    try:
        line = refused("predict", copy, other)
    finally:
        (runs / "moved.npz").rename(runs / "blobs.npz")
    assert "train.npz is not there, and neither is the data" in line
    assert line.endswith("and `sincere embed` make: --references ….")


def test_nothing_that_was_read_is_written_over(runs, tmp_path):
    new = tmp_path / "new.csv"
    new.write_text("query\nwhere is my card\n")
    assert "another file than the data" in refused("predict", runs / "run" / "bank", new, "--out", new)
    (tmp_path / "link.csv").symlink_to(new)
    assert "another file" in refused("predict", runs / "run" / "bank", new, "--out", tmp_path / "link.csv")
    for part in ("train", "test"):
        (tmp_path / "parts").mkdir(exist_ok=True)
        (tmp_path / "parts" / f"{part}.csv").write_text("query,category\nwhere is my card,late\n")
    line = refused("predict", runs / "run" / "bank", tmp_path / "parts", "--out", tmp_path / "parts" / "test.csv")
    assert "must not be a file of the data" in line
    np.save(tmp_path / "points.npy", np.zeros((2, 6)))
    (tmp_path / "labels.csv").write_text("ant\nbee\n")
    labels = ("--label-column", tmp_path / "labels.csv", "--out", tmp_path / "labels.csv")
    assert "than the labels" in refused("predict", runs / "run" / "blobs", tmp_path / "points.npy", *labels)
    inside = runs / "run" / "bank" / "embeddings" / "p.csv"
    assert "must lie outside" in refused("predict", runs / "run" / "bank", new, "--out", inside)
    assert new.read_text() == "query\nwhere is my card\n"
    assert (tmp_path / "labels.csv").read_text() == "ant\nbee\n"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--out", "p.txt"), "--out must end in .csv: got p.txt."),
        (("--k", "3"), "--k belongs to --method knn"),
        (("--method", "knn", "--k", "0"), "--k must be a whole number from 1: got 0."),
        (("--method", "linear"), "--method must be one of 'class_means', 'knn': got 'linear'."),
        (("--references", "absent.npz"), "there is no file absent.npz"),
    ],
)
def test_refuses_in_one_line(runs, words, message):
    assert message in refused("predict", runs / "run" / "blobs", runs / "blobs.npz", *words)
