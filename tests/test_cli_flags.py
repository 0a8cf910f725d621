"""Every flag that a verb takes reaches what the verb calls: one that is parsed and dropped would change nothing."""

import inspect
import json
import shutil
from pathlib import Path
from pkgutil import resolve_name

import numpy as np
import pytest

from command_line import call, done, with_two_runs
from sincere.cli.new_data import as_the_run, check_overwrites_nothing
from sincere.cli.settings import without_effect
from sincere.embeddings import EmbeddingSet
from sincere.errors import OptionError
from sincere.evaluate import EvaluationOptions
from sincere.recipes import Given
from sincere.runs import RunFolder
from sincere.train import TrainConfig


class CalledError(Exception):
    """Raised instead of what a verb calls, so that nothing has to be computed."""


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Data and two finished runs that have been evaluated, and a table that comes in parts."""
    folder = with_two_runs(tmp_path_factory.mktemp("runs"))
    for loss in ("sincere", "supcon"):
        done("evaluate", folder / loss, "--methods", "knn,retrieval", "--draws", "100")
    (folder / "parts").mkdir()
    for part in ("train", "test"):
        lines = [",".join([*map(str, row), "ant"]) for row in np.eye(6)]
        (folder / "parts" / f"{part}.csv").write_text("\n".join(["a,b,c,d,e,f,label", *lines]))
    return folder


def arguments_of(monkeypatch, place, *words):
    """With which arguments, by name, a verb calls the function at `place`; by default those of its signature."""
    called, seen = inspect.signature(resolve_name(place)), {}

    def instead(*given, **options):
        bound = called.bind(*given, **options)
        bound.apply_defaults()
        seen.update(bound.arguments)
        raise CalledError

    monkeypatch.setattr(place, instead)
    with pytest.raises(CalledError):
        call(*words)
    return seen


CALLS = {
    "compare": (
        "compare {}/sincere {}/supcon --method retrieval --metric map@r --draws 177",
        "sincere.cli.compare.compare",
        {"method": "retrieval", "metric": "map@r", "draws": 177, "seed": 0},
    ),
    "compare with a seed": (
        "compare {}/sincere {}/supcon --seed 5",
        "sincere.cli.compare.compare",
        {"method": "knn", "metric": "top1", "draws": 1000, "seed": 5},
    ),
    "embed": (
        "embed {}/sincere {}/parts --out x.npz --part test --label-column l --input-column i --unreadable skip",
        "sincere.cli.embed.read_new",
        {"data": "{}/parts", "part": "test", "label_column": "l", "input_column": "i", "unreadable": "skip"},
    ),
    "predict": (
        "predict {}/sincere {}/parts --part test --label-column l --input-column i --unreadable skip",
        "sincere.cli.predict.read_new",
        {"data": "{}/parts", "part": "test", "label_column": "l", "input_column": "i", "unreadable": "skip"},
    ),
    "bench": (
        "bench --sizes 64,96 --dim 24 --classes 3 --dtype float64 --compiled --seconds 0.5 --device cpu",
        "sincere.cli.bench.measure",
        {"device": "cpu", "sizes": (64, 96), "d": 24, "classes": 3, "dtype": "float64", "compiled": True}
        | {"seconds": 0.5},
    ),
    "reproduce": (
        "reproduce lemma-2 --full --seed 4 --out {}/kept --runs {}/trained --data cifar10=a.tar.gz --data cifar100=b",
        "sincere.cli.reproduce.reproduce",
        {"name": "lemma-2", "form": "full", "seed": 4, "data": {"cifar10": "a.tar.gz", "cifar100": "b"}}
        | {"out": Path("{}/kept"), "runs": Path("{}/trained")},
    ),
    "report": (
        "report {}/blobs.npz --train {}/parts.npz --unlabelled drop",
        "sincere.cli.report.read_subject",
        {"path": Path("{}/blobs.npz"), "train": Path("{}/parts.npz"), "labels": None, "unlabelled": "drop"},
    ),
    "report with labels": (
        "report {}/rows.npy --labels {}/labels.txt",
        "sincere.cli.report.read_subject",
        {"path": Path("{}/rows.npy"), "train": None, "labels": Path("{}/labels.txt"), "unlabelled": "refuse"},
    ),
    "demo": ("demo --seed 6 --epochs 3", "sincere.cli.demo.demo_configs", {"seed": 6, "epochs": 3}),
}


def within(value, folder):
    """A word, or a path, of a test's own folder."""
    return type(value)(str(value).format(folder)) if isinstance(value, (str, Path)) else value


@pytest.mark.parametrize("name", CALLS)
def test_every_flag_reaches_what_is_called(name, runs, monkeypatch):
    words, place, expected = CALLS[name]
    seen = arguments_of(monkeypatch, place, *(word.format(runs) for word in words.split()))
    assert {option: seen[option] for option in expected} == {o: within(value, runs) for o, value in expected.items()}


def test_every_flag_of_an_evaluation_reaches_it(runs, monkeypatch):
    words = ("--methods", "knn,linear", "--k", "7", "--l2", "0.3", "--probe-views", "2", "--unit-probe")
    words = (*words, "--draws", "155", "--seed", "9", "--device", "cpu")
    seen = arguments_of(monkeypatch, "sincere.cli.evaluate.measured", "evaluate", runs / "sincere", *words)
    assert (seen["run"], seen["device"]) == (runs / "sincere", "cpu")
    assert seen["options"] == EvaluationOptions(
        methods=("knn", "linear"), k=7, l2=0.3, probe_views=2, unit_probe=True, draws=155, seed=9
    )


@pytest.mark.parametrize("given", [{}, {"--method": "knn", "--k": "3"}])
def test_what_is_predicted_by_reaches_the_model(given, runs, tmp_path, monkeypatch):
    reference = tmp_path / "known.npz"
    done("embed", runs / "sincere", runs / "blobs.npz", "--out", reference)
    words = [word for pair in given.items() for word in pair]
    place = "sincere.embeddings.LoadedModel.predict"
    seen = arguments_of(
        monkeypatch, place, "predict", runs / "sincere", runs / "blobs.npz", *words, "--references", reference
    )
    method, k = given.get("--method", "class_means"), given.get("--k")
    assert (seen["method"], seen["k"], seen["top"]) == (method, None if k is None else int(k), 5)
    known = EmbeddingSet.load(reference)
    assert np.array_equal(seen["references"].embeddings, known.embeddings)


def test_validation_samples_reach_an_evaluation_of_a_run(runs, monkeypatch):
    """By which k and the strength of the linear probe are chosen; without them they would be others."""
    seen = arguments_of(monkeypatch, "sincere.cli.run_evaluation.evaluate", "evaluate", runs / "sincere")
    for part, given in (("train", "train"), ("test", "test"), ("validation", "validation")):
        kept = EmbeddingSet.load(runs / "sincere" / "embeddings" / f"{part}.npz")
        assert np.array_equal(seen[given].embeddings, kept.embeddings)
    assert seen["name"] == "sincere"


def test_what_is_given_reaches_the_starting_point(runs, monkeypatch):
    """By which what is not given is chosen: the learning rate by the batch and the optimizer, and so on."""
    flags = "--encoder mlp --set encoder.options.width=24 --optimizer adamw --batch 20 --epochs 7 --device cpu --dim 6"
    place = "sincere.cli.planning.starting_point"
    seen = arguments_of(monkeypatch, place, "train", runs / "blobs.npz", *flags.split(), "--out", runs / "new")
    (given,) = (value for value in seen.values() if isinstance(value, Given))
    assert given == Given(
        encoder="mlp", encoder_options={"width": 24}, optimizer="adamw", batch=20, epochs=7, device="cpu", dim=6
    )


@pytest.mark.parametrize("level", ["coarse", "fine"])
def test_new_questions_are_read_at_the_level_of_the_run(level, runs, tmp_path):
    """Or every label would be of none of the classes that the run knows."""
    copy = RunFolder(shutil.copytree(runs / "sincere", tmp_path / "run"))
    config = json.loads(copy.config.read_text())
    config["data"] = {**config["data"], "source": "trec:questions", "options": {"level": level}}
    copy.config.write_text(json.dumps(config))
    (tmp_path / "new.label").write_bytes(b"DESC:manner How ?\n")
    assert as_the_run(copy.path, str(tmp_path / "new.label")) == {"level": level}


def test_a_new_file_may_lie_beside_the_data_and_one_that_is_there_may_not_be_written_over(runs):
    run, data = runs / "sincere", runs / "parts"
    check_overwrites_nothing(data / "new.csv", run, str(data), None)
    with pytest.raises(OptionError, match="must not be a file of the data"):
        check_overwrites_nothing(data / "train.csv", run, str(data), None)


@pytest.mark.parametrize(("dim", "notes"), [(None, 0), (6, 1)])
def test_a_dimension_that_changes_nothing_is_noted_where_somebody_gave_it(dim, notes):
    config = TrainConfig(objective="cross_entropy")
    assert [*without_effect({"dim": dim}, config)] == notes * [
        "--dim changes nothing: without a head the features are the embeddings. For another dimension: "
        "--set head.layers=linear."
    ]
