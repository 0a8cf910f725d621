"""Runs that claims and recipes share: an evaluation is taken for another one only where it is the same."""

import importlib
import importlib.util
import json
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from sincere.claims import CLAIMS, experiments, kept_results
from sincere.claims.claim import Conditions, Outcome
from sincere.claims.experiments import Experiment, few_digits
from sincere.claims.laboratory import Laboratory
from sincere.claims.light_runs import lighten
from sincere.claims.record import Measured
from sincere.claims.sincere_accuracy import accuracy_at_rate
from sincere.claims.statistics import over_seeds, with_fisher_interval
from sincere.claims.trends import exponent
from sincere.cli.run_evaluation import evaluated
from sincere.errors import InputError, OptionError
from sincere.evaluate import EvaluationOptions
from sincere.recipes import find_recipe
from sincere.recipes.measured import Figures
from sincere.train import DataConfig, OptimizerConfig
from small_runs import small_config, small_splits

ROOT = Path(__file__).parent.parent
METHODS = ("knn", "class_means", "linear")


@pytest.fixture(scope="module")
def arrays(tmp_path_factory):
    """A file of small arrays, which `evaluated` can read again to make views of them."""
    path = tmp_path_factory.mktemp("data") / "blobs.npz"
    data = small_splits(90).train
    np.savez(path, X=data.inputs.numpy(), y=data.labels.numpy())
    return str(path)


def config(arrays):
    return small_config(epochs=1, data=DataConfig(source=arrays))


@pytest.fixture(scope="module")
def run(arrays, tmp_path_factory):
    return Laboratory(tmp_path_factory.mktemp("runs"), "off").trained("one", config(arrays))


def test_long_runs_can_be_kept_as_soon_as_each_is_done(arrays, tmp_path):
    """A machine may be gone before the claim has all of its runs."""
    for form in ("quick", "full"):
        conditions = Conditions(form, 0, Laboratory(tmp_path / form, "off"))
        one = Experiment("blobs", "blobs", (0,), config(arrays), "linear", conditions)
        done = one.run("sincere", 0)
        assert done.folder.evaluation.exists() == (form == "full")
    assert lighten(done.folder.path, tmp_path / "light").is_dir()


@pytest.mark.parametrize(("place", "told"), [("cpu", True), ("cuda", False)])
def test_long_runs_on_a_cpu_are_announced_before_they_begin(arrays, tmp_path, monkeypatch, place, told):
    """And only where something is to be trained."""
    monkeypatch.setattr(experiments, "device_for", lambda name: torch.device(place))
    for expected in (told, False):
        said = []
        conditions = Conditions("full", 0, Laboratory(tmp_path, "off"), say=said.append)
        Experiment("blobs", "blobs", (0,), config(arrays), "linear", conditions).run("sincere", 0)
        assert said == ["run blobs-sincere-0", *([experiments.SLOW] if expected else [])]


ASKED = EvaluationOptions(methods=METHODS, draws=100)
OTHERS = {
    "views": {"probe_views": 2},
    "more views": {"probe_views": 3},
    "unit vectors": {"unit_probe": True},
    "l2": {"l2": 0.01},
    "another l2": {"l2": 0.02},
    "k": {"k": 5},
    "another k": {"k": 7},
    "weighted voting": {"voting": "similarity"},
    "neighbours on features": {"neighbours_on": "features"},
    "probes on embeddings": {"probes_on": "embeddings"},
    "draws": {"draws": 200},
    "seed": {"seed": 1},
    "retrieval": {"methods": (*METHODS, "retrieval")},
    "retrieval at other places": {"methods": (*METHODS, "retrieval"), "recall_at": (1, 3)},
    "paper's probe": {"methods": ("linear_paper",)},
}


def test_an_evaluation_answers_its_own_options_and_no_others(run):
    """Every pair of options: made by one, asked by another."""
    options = {"plain": ASKED, **{name: replace(ASKED, **changes) for name, changes in OTHERS.items()}}
    for made, by in options.items():
        evaluated(run.folder.path, by)
        for name, asked in options.items():
            contained = made.startswith("retrieval") and name == "plain"
            assert (run.kept_evaluation(asked) is not None) == (made == name or contained), (made, name)


def test_retrieval_on_other_vectors_is_never_taken_from_the_folder(run):
    """Its record does not say what it was run on."""
    on_features = EvaluationOptions(methods=("retrieval",), draws=100, neighbours_on="features")
    evaluated(run.folder.path, on_features)
    assert run.kept_evaluation(on_features) is None


def test_an_evaluation_by_views_is_not_taken_for_the_plain_one(run):
    views = evaluated(run.folder.path, replace(ASKED, probe_views=2))
    assert views.classifier("linear").settings["fitted_on"] == "2 views of each training sample"
    found = run.evaluation(ASKED)
    assert found.classifier("linear").settings["fitted_on"] == "the training samples"
    stamp = run.folder.evaluation.stat().st_mtime_ns
    assert run.evaluation(ASKED) == found
    assert run.evaluation(replace(ASKED, methods=("linear",))) == found, "fewer methods are a part of it"
    assert run.folder.evaluation.stat().st_mtime_ns == stamp, "read, not made again"


@pytest.fixture
def figures():
    spec = importlib.util.spec_from_file_location("recipe_figures", ROOT / "benchmarks" / "recipe_figures.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def recipe_with(evaluation, arrays):
    return replace(find_recipe("digits"), make=lambda: config(arrays), evaluation=evaluation)


@pytest.mark.parametrize("methods", [("knn", "linear"), ("linear_paper", "linear", "class_means", "knn")])
def test_recipes_are_measured_as_they_say(figures, arrays, tmp_path, monkeypatch, methods):
    asked = EvaluationOptions(methods=methods, l2=0.01, probe_views=2, draws=100)
    monkeypatch.setattr(figures, "find_recipe", lambda name: recipe_with(asked, arrays))
    found = figures.measured("digits", arrays, Laboratory(tmp_path, "off"), range(2))
    assert list(found["top1"]) == [method for method in METHODS if method in methods]
    for seed in range(2):
        folder = tmp_path / f"digits-{seed}"
        settings = json.loads((folder / "evaluation.json").read_text())["classifiers"]
        linear = next(one["settings"] for one in settings if one["method"] == "linear")
        assert (linear["fitted_on"], linear["l2"]) == ("2 views of each training sample", 0.01)
        expected = evaluated(folder, asked)
        for method, values in found["top1"].items():
            assert values[seed] == expected.classifier(method).top1.value
    monkeypatch.setattr(figures, "evaluated", None)
    assert figures.measured("digits", arrays, Laboratory(tmp_path, "off"), range(2))["top1"] == found["top1"], (
        "what is there is read"
    )
    assert f"linear probe {Figures.of(found).spread('linear')} %" in str(Figures.of(found))
    monkeypatch.setitem(figures.RECIPES, "digits", recipe_with(asked, arrays))
    (row,) = list(figures.table({"digits": found}))[2:]
    cells = [cell.strip() for cell in row.split("|")]
    assert cells[4] == f"{Figures.of(found).spread('linear')} (2 views)"
    assert (cells[3] == "–") == ("class_means" not in methods)


@pytest.fixture
def whole(figures, arrays, tmp_path, monkeypatch):
    """Figures of two seeds, whose runs are in `runs`; the script writes where the test says."""
    asked = EvaluationOptions(methods=("knn",), draws=100)
    monkeypatch.setattr(figures, "find_recipe", lambda name: recipe_with(asked, arrays))
    found = figures.measured("digits", arrays, Laboratory(tmp_path / "runs", "off"), range(2))
    monkeypatch.setattr(figures, "FILE", tmp_path / "measured.json")
    monkeypatch.setattr(figures, "_write_between", lambda *words: None)
    return found


def test_seeds_are_added_one_by_one(figures, whole, arrays, tmp_path, monkeypatch):
    """The same figures as of all seeds at once; those of another machine are refused."""
    for _ in range(2):
        words = [f"digits={arrays}", "--runs", str(tmp_path / "runs"), "--add", "--seeds", "1"]
        monkeypatch.setattr(sys, "argv", ["recipe_figures.py", *words])
        figures.main()
    assert json.loads(figures.FILE.read_text())["digits"] == whole
    whole["commit"] = "0123456789abcdef"  # there is none in a checkout without its history
    later = {**whole, "commit": "abc", "verdict_seconds": [3.0, 4.0]}
    both = figures.joined(whole, later)
    assert both["commit"] == "0123456789abcdef, abc"
    assert "commit 012345678, abc, " in str(Figures.of(both))
    assert figures.joined({**whole, "commit": None}, later)["commit"] == "abc"
    assert figures.joined(both, later)["commit"] == both["commit"], "each commit once"
    assert (both["verdict_seconds"], len(both["seconds"])) == ([3.0, 4.0], 4)
    with pytest.raises(OptionError, match=r"must have the same hardware: .* is kept, got another"):
        figures.joined(whole, {**later, "hardware": "another"})
    with pytest.raises(OptionError, match="kept figures are of knn, the new ones of linear"):
        figures.joined(whole, {**later, "top1": {"linear": [0.5]}})


def test_seeds_that_shared_their_machine_count_without_their_times(figures, whole, arrays, tmp_path, monkeypatch):
    """And are read where only their records are left, as of runs from elsewhere."""

    def call(*words):
        monkeypatch.setattr(sys, "argv", ["recipe_figures.py", f"digits={arrays}", "--seeds", "1", *words])
        figures.main()

    with pytest.raises(OptionError, match="digits has no times yet: let its first seed have a machine of its own"):
        call("--shared", "--add", "--runs", str(tmp_path / "runs"))
    call("--runs", str(tmp_path / "runs"))
    second, left = tmp_path / "runs" / "digits-1", tmp_path / "light" / "digits-1"
    left.mkdir(parents=True)
    for name in ("config.json", "provenance.json", "metrics.jsonl", "evaluation.json"):
        shutil.copy(second / name, left)
    call("--shared", "--add", "--runs", str(tmp_path / "none"), "--light", str(left.parent))
    assert not (tmp_path / "none").exists(), "nothing is trained"
    found = json.loads(figures.FILE.read_text())["digits"]
    assert found["top1"] == whole["top1"]
    assert found["seconds"] == whole["seconds"][:1]
    assert Figures.of(found).seeds == 2
    assert "over 2 seeds" in str(Figures.of(found))


def test_recipes_that_say_nothing_are_measured_as_before(figures, arrays, tmp_path, monkeypatch):
    monkeypatch.setattr(figures, "find_recipe", lambda name: recipe_with(None, arrays))
    found = figures.measured("digits", arrays, Laboratory(tmp_path, "off"), [0])
    known = json.loads((ROOT / "src" / "sincere" / "recipes" / "measured.json").read_text())["digits"]
    assert found.keys() == known.keys()
    assert tuple(found["top1"]) == METHODS
    plain = evaluated(tmp_path / "digits-0", EvaluationOptions(methods=METHODS))
    assert [values[0] for values in found["top1"].values()] == [one.top1.value for one in plain.classifiers]


def test_a_recipe_without_an_accuracy_cannot_be_measured(figures, arrays, tmp_path, monkeypatch):
    asked = EvaluationOptions(methods=("retrieval",))
    monkeypatch.setattr(figures, "find_recipe", lambda name: recipe_with(asked, arrays))
    with pytest.raises(OptionError, match="must be evaluated by one of knn, class_means, linear"):
        figures.measured("digits", arrays, Laboratory(tmp_path, "off"), [0])
    assert not list(tmp_path.iterdir())


def test_a_folder_that_cannot_be_written_is_found_before_anything_is_computed(tmp_path, monkeypatch):
    def computes(conditions):
        raise AssertionError("computed")

    module = importlib.import_module("sincere.claims.reproduce")
    monkeypatch.setattr(module, "find_claim", lambda name: replace(CLAIMS[0], run=computes))
    (tmp_path / "file").write_text("")
    for out in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(OptionError, match="folder that can be written"):
            module.reproduce("any", out=out)
    with pytest.raises(OptionError, match="seed must be a whole number"):
        module.reproduce("any", out=tmp_path / "out", seed=1.5)
    with pytest.raises(OptionError, match="seed must be a whole number of at least 0: got -1"):
        module.reproduce("any", out=tmp_path / "out", seed=-1)
    with monkeypatch.context() as without:
        without.setattr(module, "find_spec", lambda name: None)
        with pytest.raises(OptionError, match="matplotlib"):
            module.reproduce("any", out=tmp_path / "out")
    with pytest.raises(AssertionError, match="computed"):
        module.reproduce("any", out=tmp_path / "out")


def test_damaged_and_foreign_results_are_named(tmp_path):
    kept = ROOT / "reproduce"
    claim, other = CLAIMS[0], CLAIMS[1]
    place = tmp_path / claim.name / "quick.json"
    place.parent.mkdir()
    good = json.loads((kept / claim.name / "quick.json").read_text(encoding="utf-8"))
    place.write_text(json.dumps(good), encoding="utf-8")
    assert kept_results(tmp_path)[claim.number].name == claim.name
    wrong = [{"verdict": "yes"}, {"seconds": "long"}, {"number": "one"}, {"provenance": None}, {"reason": 3}]
    wrong += [{"measured": [{"what": "x", "value": "y"}]}, {"measured": [{"what": "x", "value": 1, "low": "y"}]}]
    damaged = [b"", b"[]", b"\xff\xfe", b"[" * 100_000, *(json.dumps({**good, **change}).encode() for change in wrong)]
    for content in damaged:
        place.write_bytes(content)
        with pytest.raises(InputError, match=rf"{claim.name}.quick.json is no result that can be read"):
            kept_results(tmp_path)
    for foreign in ({**good, "name": other.name}, {**good, "form": "full"}):
        place.write_text(json.dumps(foreign), encoding="utf-8")
        with pytest.raises(InputError, match=f"must hold the quick form of {claim.name}"):
            kept_results(tmp_path)


def test_figures_that_cannot_have_an_interval():
    assert with_fisher_interval("r", 0.5, 3).low is None
    assert with_fisher_interval("r", 1.0000000000000002, 10).value == 1.0
    for call in (
        lambda: with_fisher_interval("r", float("nan"), 10),
        lambda: over_seeds("x", [1.0, float("nan")]),
        lambda: exponent("x", [1, 2, float("nan")], [1, 2, 3]),
        lambda: exponent("x", [1, 2, 3], [1, 2, float("inf")]),
        lambda: exponent("x", [2, 2, 2], [1, 2, 3]),
    ):
        with pytest.raises(InputError):
            call()


def test_a_run_that_diverges_is_no_better_than_guessing(tmp_path):
    said = []
    one = few_digits(Conditions("quick", 0, Laboratory(tmp_path, "off"), {}, said.append))
    config = replace(one.plain, optimizer=OptimizerConfig("sgd", lr=1e30), epochs=2)
    found = accuracy_at_rate(one, "sgd", config, "SINCERE, rate 1e30")
    assert found == Measured("SINCERE, rate 1e30, % (diverged: guessing)", 10.0, 10.0, 10.0)
    assert said[-1] == "sgd diverged"


def test_a_light_run_stands_in_for_the_run(run, arrays, tmp_path):
    run.evaluation(ASKED)
    light = lighten(run.folder.path, tmp_path / "light" / "one")
    laboratory = Laboratory(tmp_path / "runs", "off", tmp_path / "light")
    found = laboratory.trained("one", config(arrays))
    assert found.folder.path == light
    assert not (tmp_path / "runs").exists()  # nothing was trained
    assert found.epoch_losses() == run.epoch_losses()
    assert found.seconds() == run.seconds()
    assert found.evaluation(ASKED) == run.evaluation(ASKED)
    heavy, small = run.embeddings("test"), found.embeddings("test")
    assert torch.equal(heavy.labels, small.labels)
    assert heavy.class_names == small.class_names
    cosines = [rows @ rows.T for rows in (F.normalize(heavy.embeddings, dim=1), small.embeddings)]
    assert (cosines[0] - cosines[1]).abs().max() < 1e-3
    with pytest.raises(InputError, match=r"light run, without train embeddings.*trains it anew"):
        found.embeddings("train")


def test_a_light_run_with_other_settings_does_not(run, arrays, tmp_path):
    run.evaluation(ASKED)
    lighten(run.folder.path, tmp_path / "light" / "one")
    laboratory = Laboratory(tmp_path / "runs", "off", tmp_path / "light")
    other = replace(config(arrays), seed=7)
    assert laboratory.trained("one", other).folder.path == tmp_path / "runs" / "one"
    assert laboratory.trained("one", other).folder.finished


def test_only_a_finished_and_evaluated_run_is_made_light_and_nothing_is_overwritten(run, arrays, tmp_path):
    fresh = Laboratory(tmp_path / "runs", "off").trained("one", config(arrays))
    with pytest.raises(InputError, match="must be finished and evaluated"):
        lighten(fresh.folder.path, tmp_path / "light")
    run.evaluation(ASKED)
    lighten(run.folder.path, tmp_path / "light")
    with pytest.raises(InputError, match="exists already"):
        lighten(run.folder.path, tmp_path / "light")


def test_a_result_names_the_code_that_it_began_with(tmp_path, monkeypatch):
    module = importlib.import_module("sincere.claims.reproduce")
    committed = ["before"]

    def computes(conditions):
        committed[0] = "while it was running"
        return Outcome("reproduced", "", "", (), ())

    monkeypatch.setattr(module, "find_claim", lambda name: replace(CLAIMS[0], run=computes))
    monkeypatch.setattr(module, "provenance", lambda *, seed: {"commit": committed[0], "started": ""})
    assert module.reproduce("any", out=tmp_path).provenance == {"commit": "before", "started": ""}
