"""`sincere report`: runs, and arrays that somebody else made."""

import json
import shutil
import warnings

import numpy as np
import pytest

from command_line import FAST, blobs, call, done, parsed, refused
from sincere.evaluate import Evaluation
from sincere.geometry import Geometry
from sincere.report import read_subject
from sincere.runs import RunFolder


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A short run on a table with named columns."""
    folder = tmp_path_factory.mktemp("runs")
    with np.load(blobs(folder / "blobs.npz")) as arrays:
        rows, labels = arrays["x"], arrays["y"]
    lines = ["a,b,c,d,e,f,label", *(",".join([*map(str, row), label]) for row, label in zip(rows, labels, strict=True))]
    (folder / "blobs.csv").write_text("\n".join(lines))
    done("train", folder / "blobs.csv", *FAST, "--out", folder / "run", "--quiet")
    return folder / "run"


def test_a_run(run):
    told = parsed("report", run)
    folder = RunFolder(run)
    assert told["path"] == str(folder.report)
    assert told["bytes"] == folder.report.stat().st_size < 8_000_000
    assert told["summary"]["run"][0].startswith("k-NN (k = ")
    text = folder.report.read_text()
    for words in ("Training", "above its floor", "Worst mistakes", "Every setting"):
        assert words in text
    geometry = Geometry.from_json(folder.geometry.read_text())
    evaluation = Evaluation.from_json(folder.evaluation.read_text())
    assert geometry.samples == len(evaluation.labels)
    assert (folder.path / "report_files" / "training.csv").is_file()
    assert "geometry.json" in folder.readme.read_text()
    subject = read_subject(run)
    assert subject.test.shown[0].startswith("a = ")
    assert subject.geometry == geometry
    assert subject.config["loss"]["name"] == "sincere"


def test_records_on_file_are_used_and_checked(run, tmp_path):
    copy = RunFolder(shutil.copytree(run, tmp_path / "copy"))
    first = read_subject(copy.path)
    changed = json.loads(copy.geometry.read_text())
    changed["uniformity"] = -123.0
    copy.geometry.write_text(json.dumps(changed))
    assert read_subject(copy.path).geometry.uniformity == -123.0
    changed["samples"] += 1  # of other embeddings: made anew
    copy.geometry.write_text(json.dumps(changed))
    assert read_subject(copy.path).geometry.uniformity == first.geometry.uniformity
    other = first.evaluation
    labels = tuple((label + 1) % 3 for label in other.labels)
    text = Evaluation(**{**vars(other), "labels": labels}).to_json()
    copy.evaluation.write_text(text)
    assert "their labels differ" in refused("report", copy.path)


def test_a_run_without_saved_embeddings(run, tmp_path):
    copy = RunFolder(shutil.copytree(run, tmp_path / "copy"))
    shutil.rmtree(copy.embeddings("test").parent)
    told = parsed("report", copy.path, "--out", tmp_path / "page.html")
    assert told["path"] == str(tmp_path / "page.html")
    assert (tmp_path / "page_files").is_dir()


def test_arrays_of_somebody_else(tmp_path):
    random = np.random.default_rng(0)
    rows, labels = random.normal(size=(30, 4)), np.array(["x", "y", "z"])[np.arange(30) % 3]
    np.save(tmp_path / "rows.npy", rows)
    (tmp_path / "labels.txt").write_text("\n".join(labels))
    found = done("report", tmp_path / "rows.npy", "--labels", tmp_path / "labels.txt")
    assert f"pictures are in {tmp_path / 'rows-report_files'}." in found.stdout
    assert "no training set was given" in found.stderr
    assert (tmp_path / "rows-report.html").is_file()
    assert not (tmp_path / "geometry.json").exists()
    for_programs = done("report", tmp_path / "rows.npy", "--labels", tmp_path / "labels.txt", "--json")
    assert "no training set was given" in for_programs.stderr
    assert json.loads(for_programs.stdout)["path"].endswith("rows-report.html")
    np.savez(tmp_path / "test.npz", x=rows[:15], y=labels[:15])
    np.savez(tmp_path / "train.npz", x=rows[15:], y=labels[15:])
    subject = read_subject(tmp_path / "test.npz", train=tmp_path / "train.npz")
    assert not subject.alone
    assert subject.evaluation.train_samples == 15


def test_class_names_that_no_font_of_ours_has(tmp_path):
    rows = np.random.default_rng(0).normal(size=(12, 3))
    np.savez(tmp_path / "birds.npz", x=rows, y=np.array(["鳥", "Vögel & <b>"])[np.arange(12) % 2])
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        done("report", tmp_path / "birds.npz")
    assert not [one for one in seen if "Glyph" in str(one.message)]
    text = (tmp_path / "birds-report.html").read_text(encoding="utf-8")
    assert "鳥</text>" in text, "text of a picture stays text, so the browser's fonts serve"
    assert "Vögel &amp; &lt;b&gt;" in text


def test_what_is_refused(run, tmp_path):
    blobs(tmp_path / "a.npz")
    assert "report on it alone" in refused("report", tmp_path / "a.npz", run, "--train", tmp_path / "a.npz")
    assert "belong to a file" in refused("report", run, "--train", tmp_path / "a.npz")
    assert "--unlabelled belongs to files" in refused("report", run, "--unlabelled", "drop")
    assert "must end in .html" in refused("report", tmp_path / "a.npz", "--out", tmp_path / "a.pdf")
    assert f"there is no file or folder {tmp_path / 'b'}." in refused("report", tmp_path / "b")
    (tmp_path / "empty").mkdir()
    assert "must be the folder of a run" in refused("report", tmp_path / "empty")
    assert "Example:" in call("report", "--help").output
