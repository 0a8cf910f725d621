"""The other verbs, on one small run: files, figures, JSON, refusals, help."""

import html
import io
import json
import re
import shutil
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from rich.console import Console
from typer.testing import CliRunner

from command_line import FAST, apart, blobs, call, done, parsed, refused, with_two_runs
from sincere import diagnose
from sincere.cli import output, report, run_evaluation
from sincere.cli.app import app
from sincere.cli.demo_folder import claimed
from sincere.cli.evaluate import command_for
from sincere.cli.hints import as_typed
from sincere.data import open_data
from sincere.embeddings import EmbeddingSet, load
from sincere.encoders import ENCODERS
from sincere.evaluate import Evaluation, EvaluationOptions, evaluate
from sincere.recipes.demo import side
from sincere.runs import RunFolder, files
from sincere.train.config import LOSSES
from sincere.views.presets import PRESETS

VERBS = ("demo", "train", "evaluate", "compare", "report", "predict", "embed", "export", "bench", "reproduce")
VERBS = (*VERBS, "recipes", "recipes list", "recipes show")


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A folder with data and two runs, and the command line called within it."""
    return with_two_runs(tmp_path_factory.mktemp("runs"))


@pytest.mark.parametrize("verb", VERBS)
def test_help_shows_an_example(verb):
    text = done(*verb.split(), "--help").output
    assert "Example:" in text
    assert f"sincere {verb.split()[0]}" in text.partition("Example:")[2]


@pytest.mark.parametrize("verb", VERBS)
def test_help_at_80_columns(verb):
    result = CliRunner().invoke(app, [*verb.split(), "--help"], env={"COLUMNS": "80"})
    assert "<bool>" not in result.output, "a flag takes no value"
    text = result.output.partition("Usage:")[2].partition("╭")[0]
    paragraphs = [part.splitlines() for part in re.split(r"\n\s*\n", text)[1:]]
    for lines in paragraphs:
        for line, following in pairwise(lines):
            first = following.split()[0]
            assert len(line.rstrip()) + 1 + len(first) > 79, f"{line!r} has room for {first!r}"


def test_help_lists_what_there_is():
    text = " ".join(done("train", "--help").output.split())
    for name in (*LOSSES, "cross_entropy", "fixed_simplex", *ENCODERS, *(n for kind in PRESETS.values() for n in kind)):
        assert name in text
    assert "probe" not in done("compare", "--help").output


def test_method_and_methods_are_both_understood(runs):
    for flag in ("--method", "--methods"):
        (one,) = parsed("evaluate", runs / "sincere", flag, "class-means", "--draws", "100")["classifiers"]
        assert one["method"] == "class_means"
    parsed("evaluate", runs / "sincere", "--draws", "100"), parsed("evaluate", runs / "supcon", "--draws", "100")
    words = ("compare", runs / "sincere", runs / "supcon", "--draws", "100")
    assert parsed(*words, "--methods", "class-means") == parsed(*words, "--method", "class_means")


def test_nothing_gives_help_and_the_version_is_told():
    assert "sincere demo" in call().output
    assert done("--version").stdout.strip().count(".") == 2


def test_evaluate(runs):
    text = done("evaluate", runs / "sincere", "--draws", "100").stdout
    assert "k-NN" in text
    assert "MAP@R" in text
    found = Evaluation.from_json(RunFolder(runs / "sincere").evaluation.read_text())
    told = parsed("evaluate", runs / "sincere", "--methods", "class-means", "--draws", "100")
    (means,) = told["classifiers"]
    assert means["top1"]["value"] == found.classifier("class_means").top1.value
    assert found.name == "sincere"
    done("evaluate", runs / "sincere", "--draws", "100")


def test_evaluate_without_saved_embeddings(runs, tmp_path):
    copy = shutil.copytree(runs / "sincere", tmp_path / "sincere")
    known = parsed("evaluate", copy, "--methods", "knn", "--draws", "100")
    shutil.rmtree(copy / "embeddings")
    assert parsed("evaluate", copy, "--methods", "knn", "--draws", "100") == known


def test_evaluate_with_a_probe_on_views(runs, tmp_path, monkeypatch):
    given = []

    def noted(*sets, views, **more):
        given.append(views)
        return evaluate(*sets, views=views, **more)

    monkeypatch.setattr(run_evaluation, "evaluate", noted)
    copy = shutil.copytree(runs / "sincere", tmp_path / "sincere")
    words = ("--methods", "linear,class-means", "--probe-views", "3", "--l2", "0.05", "--draws", "100")
    linear, means = parsed("evaluate", copy, *words)["classifiers"]
    expected = load(copy, device="cpu").embed_views(open_data(str(runs / "blobs.npz")).train, count=3, seed=0)
    assert torch.equal(given[0].features, expected.features)
    assert linear["settings"]["fitted_on"] == "3 views of each training sample"
    assert (linear["settings"]["l2"], linear["settings"]["l2_origin"]) == (0.05, "given")
    assert "linear probe on features (3 views)" in done("evaluate", copy, *words, "--seed", "1").stdout
    assert not torch.equal(given[1].features, expected.features), "--seed is the views' as well"
    shutil.rmtree(copy / "embeddings")
    assert parsed("evaluate", copy, *words)["classifiers"] == [linear, means]
    without = parsed("evaluate", copy, "--methods", "class-means", "--draws", "100")
    assert without["classifiers"][0]["top1"] == means["top1"]
    assert given[3] is None


def test_runs_on_other_test_samples_are_not_compared(tmp_path):
    """With the same classes in the same order: labels alone would not tell."""
    data = blobs(tmp_path / "train.npz")
    for seed, name in enumerate(("easy", "hard"), start=1):
        test = blobs(tmp_path / f"{name}.npz", samples=30, seed=seed)
        done("train", data, "--test", test, *FAST, "--out", tmp_path / name, "--quiet")
    told = "the labels of 'easy' and 'hard' agree, but their inputs are others"
    assert told in refused("compare", tmp_path / "easy", tmp_path / "hard")
    done("report", tmp_path / "easy", tmp_path / "hard", "--out", tmp_path / "page.html")
    page = html.unescape((tmp_path / "page.html").read_text(encoding="utf-8"))
    assert f"No paired comparison: the evaluations must be of the same test samples in the same order: {told}" in page


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--methods", "class-means", "--probe-views", "3"), "--probe-views belongs to linear, and --methods class_me"),
        (("--methods", "knn,linear_paper", "--l2", "0.1"), "--l2 belongs to linear, and --methods knn,linear_paper le"),
        (("--methods", "knn", "--unit-probe"), "--unit-probe belongs to linear, and --methods knn leaves that out"),
        (("--methods", "linear", "--k", "5"), "leaves that out: add it, or drop --k."),
        (("--methods", "knm", "--k", "5"), "--methods must be one of 'knn', "),
    ],
)
def test_flags_of_methods_that_are_not_asked_for_are_refused(runs, words, message):
    assert message in refused("evaluate", runs / "sincere", *words)


@pytest.mark.parametrize(
    "error",
    [
        MemoryError("Unable to allocate 9. TiB"),
        RuntimeError("alloc_cpu.cpp:117. DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes."),
    ],
)
def test_a_full_memory_is_said_in_a_line(runs, monkeypatch, error):
    def fails(*words, **more):
        raise error

    monkeypatch.setattr(run_evaluation, "evaluate", fails)
    monkeypatch.setattr("sincere.cli.train.told_run", fails)
    found = call("evaluate", runs / "sincere")
    assert (found.exit_code, found.stdout) == (1, "")
    assert found.stderr == "error: this machine's memory is full: fewer samples need less.\n"
    found = call("train", runs / "blobs.npz", *FAST, "--out", runs / "none", "--quiet")
    assert found.exit_code == 1
    assert "full: a smaller --batch, a smaller network or fewer samples need less." in found.stderr
    error = ValueError("DefaultCPUAllocator")
    with pytest.raises(ValueError, match="DefaultCPUAllocator"):
        call("evaluate", runs / "sincere")


def test_views_and_embeddings_are_of_the_data_that_the_run_was_trained_on(runs, tmp_path):
    copy = shutil.copytree(runs / "sincere", tmp_path / "sincere")
    config = json.loads((copy / "config.json").read_text())
    config["data"]["source"] = str(blobs(tmp_path / "blobs.npz", seed=1))
    (copy / "config.json").write_text(json.dumps(config))
    words = ("--methods", "linear", "--probe-views", "2", "--draws", "100", "--device", "cpu")
    assert "the training data must be what the run began with" in refused("evaluate", copy, *words)
    shutil.rmtree(copy / "embeddings")
    for verb in (("evaluate", copy, "--methods", "knn", "--draws", "100"), ("report", copy)):
        assert "the training data must be what the run began with" in refused(*verb), "of embeddings it holds as well"


def test_what_to_type_for_an_evaluation():
    assert command_for(Path("runs/a"), None) == "sincere evaluate runs/a"
    assert command_for(Path("runs/Mein Lauf"), None) == "sincere evaluate 'runs/Mein Lauf'"
    assert command_for(Path("runs/Läufe"), None) == "sincere evaluate runs/Läufe"
    settings = EvaluationOptions(methods=("knn", "linear"), l2=1e-3, probe_views=4)
    typed = "sincere evaluate runs/a --methods knn,linear --l2 0.001 --probe-views 4"
    assert command_for(Path("runs/a"), settings) == typed
    assert command_for(Path("runs/a"), EvaluationOptions(unit_probe=True)) == "sincere evaluate runs/a --unit-probe"


def test_compare(runs):
    text = done("compare", runs / "sincere", runs / "supcon").stdout
    assert "sincere" in text
    assert "supcon" in text
    assert "18 samples" in text
    told = parsed("compare", runs / "supcon", runs / "sincere", "--method", "retrieval", "--metric", "map@r")
    assert told["names"] == ["supcon", "sincere"]
    assert told["differences"][0]["verdict"] in ("real", "unclear", "none")


def test_compare_says_how_to_evaluate_by_what_is_missing(runs, tmp_path):
    words = ("compare", runs / "sincere", runs / "supcon", "--method", "linear-paper")
    line = refused(*words)
    again = line.partition(f"{runs / 'sincere'} must have been evaluated by linear_paper: its evaluation.json has ")[2]
    assert again.endswith(
        f"sincere evaluate {runs / 'sincere'} --methods knn,class_means,linear,retrieval,linear_paper"
    )
    copied = shutil.copytree(runs / "sincere", tmp_path / "copied")
    done("evaluate", copied, "--methods", "knn")
    assert f"sincere evaluate {copied} --methods knn,retrieval" in refused(
        "compare", copied, runs / "supcon", "--method", "retrieval", "--metric", "map@r"
    )


def test_embed(runs):
    new = blobs(runs / "new.npz", samples=12, seed=5)
    text = done("embed", runs / "sincere", new, "--out", runs / "new-embeddings.npz").stdout
    assert "12 embeddings of dimension 4" in text
    made = EmbeddingSet.load(runs / "new-embeddings.npz")
    model = load(runs / "sincere", device="cpu")
    assert torch.allclose(made.embeddings, model(np.load(new)["x"]), atol=1e-6)
    assert made.class_names == ("ant", "bee", "cat")
    told = parsed("embed", runs / "sincere", new, "--out", runs / "new-embeddings.npz")
    assert (told["samples"], told["dim"]) == (12, 4)


def test_embed_reads_as_the_run_did(tmp_path):
    lines = [f"{i % 7},{i % 5},{('Öl', 'Äpfel')[i % 2]}" for i in range(40)]
    (tmp_path / "oils.csv").write_text("\n".join(["a,b,Sorte", *lines]), encoding="latin-1")
    reading = ("--label-column", "Sorte", "--set", "data.options.encoding=latin-1")
    done("train", tmp_path / "oils.csv", *FAST, *reading, "--out", tmp_path / "run", "--quiet")
    words = ("embed", tmp_path / "run", tmp_path / "oils.csv", "--out", tmp_path / "made.npz")
    assert set(parsed(*words)["classes"]) == {"Äpfel", "Öl"}
    line = refused(*words, "--label-column", "c")
    assert "must have a column 'c'" in line
    assert "of the run" not in line
    (tmp_path / "new.csv").write_text("a,b,kind\n1,2,Öl\n", encoding="latin-1")
    np.savez(tmp_path / "new.npz", x=np.eye(2), y=np.array(["Öl", "Öl"]))
    words = ("embed", tmp_path / "run", tmp_path / "new.csv", "--out", tmp_path / "made.npz")
    assert "--label-column kind" in refused(*words)
    assert parsed(*words, "--label-column", "kind")["classes"] == ["Öl"]
    words = ("embed", tmp_path / "run", tmp_path / "new.npz", "--out", tmp_path / "made.npz")
    assert parsed(*words)["classes"] == ["Öl"]
    (tmp_path / "new.csv").write_text("a,b\n1,2\n3,4\n")
    words = ("embed", tmp_path / "run", tmp_path / "new.csv", "--out", tmp_path / "made.npz")
    found = done(*words)
    assert "note:" in found.stderr
    assert "--label-column …" in found.stderr
    assert EmbeddingSet.load(tmp_path / "made.npz").class_names == ("unlabelled",)
    assert "must have a column 'Sorte'" in refused(*words, "--label-column", "Sorte")
    np.save(tmp_path / "points.npy", np.eye(2)[[0, 1, 0]])
    np.save(tmp_path / "points_y.npy", np.array(["Öl", "Öl", "Äpfel"]))
    assert parsed("embed", tmp_path / "run", tmp_path / "points.npy", "--out", tmp_path / "made.npz")["samples"] == 3


def test_embed_borrows_what_the_data_can_be_asked_for(tmp_path):
    """A run's columns, encoding and kind say nothing of data that has none, and nobody gave them for it."""
    points = np.random.default_rng(0).normal(size=(30, 2)).astype(np.float32)
    np.savez(tmp_path / "t.npz", feats=points, sort=np.arange(30) % 2)
    reading = ("--kind", "array", "--input-column", "feats", "--label-column", "sort")
    done("train", tmp_path / "t.npz", *FAST, *reading, "--out", tmp_path / "run", "--quiet")
    (tmp_path / "new.csv").write_text("a,b,sort\n1,2,0\n3,4,1\n")
    words = ("embed", tmp_path / "run", tmp_path / "new.csv", "--out", tmp_path / "made.npz")
    assert parsed(*words)["samples"] == 2
    (tmp_path / "q.label").write_bytes(b"DESC:manner How ?\n")
    line = refused("embed", tmp_path / "run", tmp_path / "q.label", "--out", tmp_path / "made.npz")
    assert "all data must be of one kind, array: q is of kind text" in line
    assert "--unreadable belongs to images and sound in files" in refused(*words, "--unreadable", "skip")


def test_unfinished_runs_are_named_with_what_to_type(runs, tmp_path):
    copy = shutil.copytree(runs / "sincere", tmp_path / "my run")
    RunFolder(copy).weights.unlink()
    on_data = (("predict", runs / "blobs.npz"), ("embed", runs / "blobs.npz", "--out", "x.npz"))
    for words in (("evaluate",), ("report",), ("export", "x.onnx"), *on_data):
        line = refused(words[0], copy, *words[1:])
        assert line.endswith(f"sincere train --resume '{copy}'")


def test_altered_weights_are_refused_by_every_verb(runs, tmp_path):
    copy = shutil.copytree(runs / "sincere", tmp_path / "sincere")
    RunFolder(copy).evaluation.unlink(missing_ok=True)
    content = bytearray(RunFolder(copy).weights.read_bytes())
    content[-3] ^= 16
    RunFolder(copy).weights.write_bytes(content)
    embed = ("embed", copy, runs / "blobs.npz", "--out", tmp_path / "x.npz")
    verbs = (("evaluate", copy), ("report", copy), ("compare", copy, runs / "supcon"), embed)
    verbs = (*verbs, ("predict", copy, runs / "blobs.npz"))
    for words in (*verbs, ("export", copy, tmp_path / "x.safetensors"), ("export", copy, tmp_path / "x.onnx")):
        assert "is not what model.json beside it describes" in refused(*words)
    assert not list(tmp_path.glob("x.*"))
    assert not RunFolder(copy).evaluation.exists()


@pytest.fixture
def unwritable(runs, tmp_path, monkeypatch):
    """A run without an evaluation into which nothing can be written."""
    copy = shutil.copytree(runs / "sincere", tmp_path / "colleagues")
    for place in (RunFolder(copy).evaluation, RunFolder(copy).geometry):
        place.unlink(missing_ok=True)
    write = files.write_durably

    def forbidding(path, content):
        if path.is_relative_to(copy):
            raise PermissionError(13, "Permission denied", str(path))
        write(path, content)

    monkeypatch.setattr(files, "write_durably", forbidding)
    return copy


def test_findings_are_told_where_a_run_may_only_be_read(unwritable, tmp_path):
    words = ("evaluate", unwritable, "--draws", "100")
    found = done(*words)
    assert "k-NN" in found.stdout
    note = f"note: evaluation.json could not be kept in {unwritable}: Permission denied."
    again = f"sincere evaluate {unwritable} --draws 100 --json > evaluation.json"
    assert found.stderr == f"{note} To have it elsewhere: {again}\n"
    assert not RunFolder(unwritable).evaluation.exists()
    kept = done(*words, "--json")  # as advised
    assert kept.stderr == f"{note}\n"
    assert found.stdout.startswith(f"{Evaluation.from_json(kept.stdout)}\n"), "what was shown is what is kept"
    RunFolder(unwritable).evaluation.write_text(kept.stdout)
    again = done(*words, "--methods", "knn")
    assert f"{note} The one that is there is of an earlier evaluation. To have it" in again.stderr
    assert "linear" in RunFolder(unwritable).evaluation.read_text()


def test_a_run_is_evaluated_after_its_training_though_nothing_more_can_be_kept(runs, tmp_path, monkeypatch):
    write = files.write_durably

    def forbidding(path, content):
        if path.name.startswith("evaluation.json"):
            raise OSError(28, "No space left on device", str(path))
        write(path, content)

    monkeypatch.setattr(files, "write_durably", forbidding)
    told = done("train", runs / "blobs.npz", *FAST, "--out", tmp_path / "run", "--quiet", "--evaluate")
    assert "k-NN" in told.stdout
    assert f"note: evaluation.json could not be kept in {tmp_path / 'run'}: No space left on device." in told.stderr
    assert RunFolder(tmp_path / "run").finished


@pytest.mark.parametrize(("number", "reason"), [(30, "Read-only file system"), (28, "No space left on device")])
def test_what_could_not_be_kept_is_said_in_a_line(number, reason, runs, tmp_path, monkeypatch):
    copy = shutil.copytree(runs / "sincere", tmp_path / "colleagues")
    for place in (RunFolder(copy).evaluation, RunFolder(copy).geometry):
        place.unlink(missing_ok=True)
    done("evaluate", runs / "supcon", "--draws", "100")
    write = files.write_durably

    def forbidding(path, content):
        if path.is_relative_to(copy):
            raise OSError(number, reason, str(path))
        write(path, content)

    def page(subjects, place, **more):  # pictures take their time
        files.write_atomically(Path(place), subjects[0].name.encode())
        return Path(place)

    monkeypatch.setattr(files, "write_durably", forbidding)
    monkeypatch.setattr(report, "write_report", page)
    monkeypatch.chdir(tmp_path)
    told = done("compare", copy, runs / "supcon", "--json")
    assert json.loads(told.stdout)["names"] == ["colleagues", "supcon"]
    assert told.stderr == f"note: evaluation.json could not be kept in {copy}: {reason}.\n"
    told = done("report", copy)
    assert told.stderr == f"note: evaluation.json, geometry.json, report.html could not be kept in {copy}: {reason}.\n"
    assert told.stdout.startswith("colleagues-report.html: ")
    assert (tmp_path / "colleagues-report.html").read_text() == "colleagues"
    told = done("report", copy, "--out", tmp_path / "page.html")
    assert told.stderr == f"note: evaluation.json, geometry.json could not be kept in {copy}: {reason}.\n"
    assert not RunFolder(copy).evaluation.exists()
    assert not RunFolder(copy).geometry.exists()
    asked = call("report", copy, "--out", copy / "page.html")
    assert (asked.exit_code, asked.stdout) == (1, ""), "where the page shall be was said"
    assert f"could not write {copy / 'page.html'}: {reason}" in asked.stderr
    monkeypatch.undo()
    assert done("compare", copy, runs / "supcon").stderr == ""
    assert RunFolder(copy).evaluation.exists()


def test_a_place_that_the_system_refuses(runs, monkeypatch):
    def forbidding(self, *more, **options):
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(Path, "mkdir", forbidding)
    assert "cannot use there: Permission denied" in refused("demo", "--out", "there", "--epochs", "1")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device of Linux")
def test_a_full_disk_behind_stdout():
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "sincere", "recipes"]
        found = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=300)
    assert (found.returncode, found.stderr) == (1, "error: could not read or write: No space left on device.\n")


def test_a_terminal_that_knows_ascii_alone(runs, tmp_path):
    copy = shutil.copytree(runs / "sincere", tmp_path / "Läufe 鳥")
    words = ("evaluate", copy, "--methods", "knn", "--draws", "100")
    found = apart(*words, folder=tmp_path, PYTHONIOENCODING="ascii")
    assert found.returncode == 0, found.stderr
    assert found.stdout.startswith("L\\xe4ufe \\u9ce5 on blobs")
    assert "\\u2013" not in found.stdout, "a dash is a hyphen there"
    told = apart(*words, "--json", folder=tmp_path, PYTHONIOENCODING="ascii")
    assert json.loads(told.stdout)["name"] == "Läufe 鳥"


def test_names_with_brackets_are_no_markup(monkeypatch):
    screen = io.StringIO()
    monkeypatch.setattr(output, "Console", lambda **options: Console(file=screen, force_terminal=True))
    with output.working("embedding photos [/old].csv") as at:
        at("of [/new]")
    assert "embedding photos [/old].csv" in screen.getvalue()


def test_advice_is_as_one_types_it():
    advice = "Name it: label_column='…'; unreadable='skip', kind='text'. Got part='x', colour='red'."
    of_train = "Name it: --label-column …; --set data.options.unreadable=skip, --kind text. Got part='x', colour='red'."
    flags = {name: "--" + name.replace("_", "-") for name in ("label_column", "unreadable", "kind", "part")}
    of = {"train": ("label_column", "kind"), "embed": ("label_column", "unreadable", "part")}
    typed = {verb: {name: flags[name] for name in names} for verb, names in of.items()}
    assert as_typed(advice, {**typed["train"], "set_": "--set"}) == of_train
    of_embed = "Name it: --label-column …; --unreadable skip, kind='text'. Got --part x, colour='red'."
    assert as_typed(advice, typed["embed"]) == of_embed
    assert as_typed("test='my data'", {"set_": "--set"}) == "--set 'data.test=my data'"


def test_export(runs):
    done("export", runs / "sincere", runs / "weights.safetensors")
    told = parsed("export", runs / "sincere", runs / "weights.safetensors")
    assert told["bytes"] == (runs / "weights.safetensors").stat().st_size
    onnxruntime = pytest.importorskip("onnxruntime")
    done("export", runs / "sincere", runs / "model.onnx")
    points = np.load(runs / "blobs.npz")["x"]
    (given,) = onnxruntime.InferenceSession(runs / "model.onnx").run(None, {"inputs": points})
    assert np.allclose(given, load(runs / "sincere", device="cpu")(points).numpy(), atol=1e-4)


def test_bench():
    told = parsed("bench", "--sizes", "64", "--seconds", "0.05", "--device", "cpu")
    assert {record["n"] for record in told["records"]} == {64}
    assert "whole numbers" in refused("bench", "--sizes", "many")


def test_recipes(runs):
    assert "letter" in done("recipes").stdout
    assert parsed("recipes") == parsed("recipes", "list")
    names = [recipe["name"] for recipe in parsed("recipes", "list")]
    assert {"digits", "letter", "banking77", "trec6", "fsdd", "sincere-cifar10", "supcon-cifar100"} <= set(names)
    text = done("recipes", "show", "sincere-cifar100").stdout
    assert "optimizer" not in text.partition("epochs = 1000")[2].splitlines()[1], "each setting has its own origin"
    assert "sincere train cifar100:PATH --recipe sincere-cifar100" in text
    assert parsed("recipes", "show", "letter")["config"]["objective"] == "contrastive"
    assert "Did you mean 'digits'?" in refused("recipes", "show", "digit")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("evaluate", "{}/absent"), "there is no folder"),
        (("evaluate", "{}/sincre"), "sincere'?"),
        (("evaluate", "{}/blobs.npz"), "must be the folder of a run: it is a file"),
        (("compare", "{}/blobs.npz", "{}/blobs.npz"), "blobs.npz, and several compared in one report"),
        (("evaluate", "{}"), "must be the folder of a run: there is no config.json in it. Name one of those in it: "),
        (("compare", "{}", "{}/supcon"), "/sincere, "),
        (("evaluate", "{}/sincere", "--methods", "knn,svm"), "'svm'"),
        (("evaluate", "{}/sincere", "--draws", "0"), "draws"),
        (("evaluate", "{}/sincere", "--l2", "0"), "l2 must be a positive number: got 0.0"),
        (("evaluate", "{}/sincere", "--probe-views", "-1"), "--probe-views must be at least 0"),
        (("compare", "{}/sincere"), "two runs or more"),
        (("compare", "{}/sincere", "{}/supcon", "--method", "svm"), "knn, class_means, linear"),
        (("compare", "{}/sincere", "{}/supcon", "--metric", "f1"), "'top1'"),
        (("embed", "{}/sincere", "{}/blobs.npz", "--out", "x.csv"), "must end in .npz"),
        (("embed", "{}/sincere", "digits", "--out", "x.npz"), "kind"),
        (("export", "{}/sincere", "model.pt"), ".onnx or .safetensors"),
        (("embed", "{}/sincere", "{}/other.npz", "--out", "x.npz"), "other: every sample must have 6 features: got 2"),
        (("embed", "{}/sincere", "{}/blobs.npz", "--out", "{}/blobs.npz/x.npz"), "blobs.npz: File exists"),
        (("embed", "{}/sincere", "{}/blobs.npz", "--out", "x.npz", "--part", "test"), "read it with --part train"),
        (("export", "{}", "model.onnx"), "folder of a run"),
        (("bench", "--device", "gpu"), "device must be"),
        (("recipes", "--json", "show", "letter"), "sincere recipes show … --json"),
    ],
)
def test_refuses_in_one_line(runs, words, message):
    np.savez(runs / "other.npz", x=np.eye(2, dtype=np.float32), y=np.arange(2))
    assert message in refused(*(word.format(runs) for word in words))


def test_an_extra_that_is_missing_is_named(runs, monkeypatch):
    monkeypatch.setitem(sys.modules, "safetensors.torch", None)
    assert 'pip install "sincere[lab]"' in refused("export", runs / "sincere", "x.safetensors")


def test_without_typer(tmp_path):
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.modules['typer'] = None\n")
    found = apart("demo", folder=tmp_path, PYTHONPATH=str(tmp_path))
    assert found.returncode == 2
    assert found.stderr == 'error: the command line needs typer: pip install "sincere[lab]".\n'


def test_demo(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = done("demo", "--epochs", "1").stdout
    for words in ("sincere", "supcon", "cross-entropy", "k-NN", "within", "between", "pushed apart", "points"):
        assert words in text
    folder = tmp_path / "sincere-demo"
    assert str(Path("sincere-demo") / "report.html") in text
    assert (folder / "report.html").stat().st_size < 8e6
    told = Evaluation.from_json(RunFolder(folder / "supcon").evaluation.read_text())
    assert str(told.classifier("knn").top1) in text
    test = EmbeddingSet.load(RunFolder(folder / "supcon").embeddings("test"))
    looked_at = side("supcon", told, test).to_json()
    assert looked_at["repulsion"] == diagnose(test.embeddings, test.labels).repulsion
    assert looked_at["knn"]["low"] <= looked_at["knn"]["value"] <= looked_at["knn"]["high"]
    (folder / "note.txt").write_text("mine")
    claimed(folder, ("sincere", "supcon", "cross-entropy"))
    assert not any((folder / "supcon").iterdir()), "what a demo has made, the next one makes anew"
    assert (folder / "note.txt").read_text() == "mine"


def test_demo_leaves_others_files_alone(tmp_path):
    (tmp_path / "thesis.txt").write_text("mine")
    assert "not the demo's" in refused("demo", "--out", tmp_path)
    assert "is a file" in refused("demo", "--out", tmp_path / "thesis.txt")
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "demo.json").write_text(json.dumps({"format": "sincere.demo/1"}))
    (mine / "sincere").mkdir()
    (mine / "sincere" / "thesis.txt").write_text("mine")
    assert "thesis.txt" in refused("demo", "--out", mine, "--epochs", "1").splitlines()[-1]
    assert (mine / "sincere" / "thesis.txt").read_text() == "mine"


def test_reproduce(tmp_path):
    listed = done("reproduce", "--out", tmp_path).stdout.splitlines()
    assert [line.split()[0] for line in listed[1:31]] == [str(number) for number in range(1, 31)]
    assert listed[-1] == "No result is kept here. To run a claim: sincere reproduce NAME"
    told = json.loads(done("reproduce", "lemma-2", "--out", tmp_path, "--json").stdout)
    assert (told["number"], told["verdict"], told["form"]) == (3, "reproduced", "quick")
    assert json.loads((tmp_path / "lemma-2" / "quick.json").read_text()) == told
    assert [one["name"] for one in parsed("reproduce", "--out", tmp_path) if one["verdict"]] == ["lemma-2"]
    assert done("reproduce", "--out", tmp_path, "--table").stdout.count("not run yet") == 29
    ran = done("reproduce", "3", "--out", tmp_path)
    assert "reproduced: " in ran.stdout
    assert ran.stderr.splitlines()[-1].startswith(f"Kept in {tmp_path / 'lemma-2'}: quick.")
    assert "unknown claim" in refused("reproduce", "lema-2")
    assert "NAME=PATH" in refused("reproduce", "table-2", "--full", "--data", "cifar10")
    assert "--data cifar10=PATH" in refused("reproduce", "table-2", "--full", "--out", tmp_path)
    assert "Did you mean 'cifar100'?" in refused("reproduce", "table-2", "--fast", "--data", "cifa100=x")
    assert "ask for --fast or --full" in refused("reproduce", "table-2", "--data", "cifar10=x", "--out", tmp_path)
    (tmp_path / "file").write_text("")
    assert refused("reproduce", "lemma-2", "--out", tmp_path / "file").endswith("Choose another: --out ….")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("lemma-2", "--table"), "--table prints the list of all claims"),
        (("--full",), "--full belongs to a claim that is run: name it"),
        (("--fast",), "--fast belongs to a claim"),
        (("--seed", "3", "--table"), "--seed belongs to a claim"),
        (("--runs", "here"), "--runs belongs to a claim"),
        (("--data", "cifar10=x"), "--data belongs to a claim"),
        (("table-2", "--full", "--fast"), "two forms of a claim"),
    ],
)
def test_what_says_nothing_of_a_claim_or_of_their_list_is_refused(tmp_path, words, message):
    assert message in refused("reproduce", *words, "--out", tmp_path)


def test_a_claim_whose_run_was_stopped_ends_as_training_does(tmp_path, monkeypatch):
    def stopped(config, **words):
        return SimpleNamespace(finished=False, exit_code=130)  # as `train` does after Ctrl-C

    monkeypatch.setattr("sincere.claims.laboratory.train", stopped)
    result = call("reproduce", "figure-2", "--out", tmp_path)
    assert result.exit_code == 130
    assert result.stderr.splitlines()[-1] == (
        f"error: {tmp_path / 'runs' / 'digits-sincere-0'} was stopped: run the same command again to go on with it."
    )
    assert result.stdout == ""
    assert not (tmp_path / "figure-2" / "quick.json").exists()


def test_programs_get_the_whole_list_of_claims(tmp_path):
    listed = parsed("reproduce", "--out", tmp_path / "nothing")
    assert [one["number"] for one in listed] == list(range(1, 31))
    assert not any(one["verdict"] or one["measured"] for one in listed)
    assert listed[1]["name"] == "gradient"
    kept = parsed("reproduce", "--out", Path(__file__).parent.parent / "reproduce")
    assert [one["name"] for one in kept] == [one["name"] for one in listed]
    assert all(one["verdict"] and one["measured"] for one in kept)
