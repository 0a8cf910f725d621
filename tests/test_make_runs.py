"""Runs of a claim that are trained one by one: each once, kept light, found by the claim."""

import sys
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from statistics import median
from types import SimpleNamespace

import pytest

from sincere.claims.claim import Claim, Conditions
from sincere.claims.experiments import BOTH, Experiment, Planned, experiments
from sincere.claims.graf_objectives import planned_objectives, trained_objectives
from sincere.claims.laboratory import Laboratory
from sincere.claims.light_runs import is_light
from sincere.claims.registry import CLAIMS
from sincere.errors import InputError, OptionError
from sincere.evaluate import Evaluation
from sincere.recipes.demo import demo_configs
from sincere.runs import RunFolder, read_metrics
from sincere.runs.lock import only_here

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "reproduce"))
import make_runs

BOTH_SETS = {"cifar10": "ten.tar.gz", "cifar100": "hundred.tar.gz"}


def tiny_runs(conditions):
    """Two epochs of digits from two seeds."""
    plain = replace(demo_configs(seed=0)["sincere"], epochs=2)
    one = Experiment("tiny", "digits", (0, 1), plain, "linear", conditions)
    for seed in one.seeds:
        yield Planned(one, f"sincere-{seed}", one.config("sincere", seed))


@pytest.fixture
def made(monkeypatch, tmp_path):
    """Runs the script with a tiny claim; returns where runs are trained, where they are kept, and the script."""
    claim = Claim(0, "tiny", "none", "none", "none", lambda conditions: None, runs=tiny_runs)
    monkeypatch.setattr(make_runs, "find_claim", lambda name: claim)
    runs, light = tmp_path / "runs", tmp_path / "light"

    def script(*more):
        where = ["--runs", str(runs), "--light", str(light)]
        monkeypatch.setattr(sys, "argv", ["make_runs.py", "tiny", "--full", *where, *more])
        make_runs.main()

    return runs, light, script


def test_each_run_is_made_once_and_found_by_its_claim(made, capsys):
    runs, light, script = made
    script("--without-embeddings")
    assert "2 of 2 runs are in" in capsys.readouterr().out
    assert sorted(found.name for found in light.iterdir()) == ["tiny-sincere-0", "tiny-sincere-1"]
    elsewhere = Laboratory(runs.parent / "another machine", "off", light)
    for planned in tiny_runs(Conditions("full", 0, elsewhere)):
        found = planned.trained()
        assert found.folder.path == light / planned.folder
        assert is_light(found.folder)
        assert len(found.epoch_losses()) == 2
    assert not elsewhere.folder.exists()  # nothing was trained there
    script("--without-embeddings")
    assert "run tiny" not in capsys.readouterr().out


def test_what_another_process_has_is_left_to_it(made, capsys):
    runs, light, script = made
    with only_here(runs / "locks" / "tiny-sincere-0"):
        script()
    assert [found.name for found in light.iterdir()] == ["tiny-sincere-1"]
    assert "1 of 2 runs are in" in capsys.readouterr().out
    assert RunFolder(light / "tiny-sincere-1").embeddings("test").exists()


def test_one_run_alone(made, capsys):
    _, light, script = made
    script("--only", "tiny-sincere-1", "--without-embeddings")
    assert [found.name for found in light.iterdir()] == ["tiny-sincere-1"]
    assert "1 of 2 runs are in" in capsys.readouterr().out
    with pytest.raises(OptionError, match=r"runs are tiny-sincere-0, tiny-sincere-1: got 'tiny-sincere-2'\. Did you"):
        script("--only", "tiny-sincere-2")


def test_what_was_cut_off_while_it_was_kept_is_kept_anew(made):
    _, light, script = made
    (light / ".tiny-sincere-0").mkdir(parents=True)
    (light / ".tiny-sincere-0" / "evaluation.json").write_text("half of it")
    script("--without-embeddings")
    assert sorted(found.name for found in light.iterdir()) == ["tiny-sincere-0", "tiny-sincere-1"]


def test_claims_without_long_runs_and_data_without_a_name_are_refused(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["make_runs.py", "gradient", "--full"])
    with pytest.raises(OptionError, match=r"gradient has no long runs .* these have: table-1, figure-2"):
        make_runs.main()
    for data, words in (("cifar10", "must be NAME=PATH"), ("cifar11=PATH", "got data by the name of 'cifar11'")):
        monkeypatch.setattr(sys, "argv", ["make_runs.py", "table-1", "--full", "--data", data])
        with pytest.raises(OptionError, match=words):
            make_runs.main()


def test_what_was_kept_with_other_settings_is_not_taken_for_the_run(made, monkeypatch):
    _, light, script = made
    script("--without-embeddings")
    config = light / "tiny-sincere-1" / "config.json"
    config.write_text(config.read_text().replace('"epochs": 2', '"epochs": 3'))
    with pytest.raises(InputError, match="tiny-sincere-1 was made with other settings: move it away"):
        script("--without-embeddings")


def test_the_training_pages_epochs_are_those_of_the_kept_runs():
    """Several runs on one GPU: the sentence is written by hand."""
    medians, fastest = [], []
    for metrics in sorted((ROOT / "reproduce" / "light-runs").glob("cifar100-graf-*/metrics.jsonl")):
        ends = [record["seconds"] for record in read_metrics(metrics) if record["kind"] == "epoch"]
        lengths = [after - before for before, after in pairwise(ends)]
        medians.append(median(lengths))
        fastest.append(min(lengths))
    alone = [seconds for seconds in fastest if seconds < 1]
    page = (ROOT / "docs" / "training.md").read_text(encoding="utf-8")
    assert f"{min(medians):.2f} to {max(medians):.2f} s (medians of {len(medians)} runs)" in page
    assert f"{min(alone):.2f} to {max(alone):.2f} s where" in page
    assert f"(the fastest epoch, in {len(alone)} of them)" in page


def test_the_pages_figures_of_swallowed_images_are_those_of_the_kept_runs():
    """How many test images a classifier takes for its most common class, least and most of three seeds."""

    def largest(objective, method):
        found = []
        for run in sorted((ROOT / "reproduce" / "light-runs").glob(f"cifar100-graf-{objective}-no-views-?")):
            known = Evaluation.from_json((run / "evaluation.json").read_text(encoding="utf-8"))
            found.append(max(Counter(known.classifier(method).predicted).values()))
        assert len(found) == 3
        return f"{min(found):,} to {max(found):,}"

    readme = (ROOT / "reproduce" / "README.md").read_text(encoding="utf-8")
    page = (ROOT / "docs" / "evaluation.md").read_text(encoding="utf-8")
    supcon, means = largest("SupCon", "linear"), largest("SupCon", "class_means")
    assert (
        f"takes {supcon} of the 10,000 test images for one and the same class (three seeds; class means {means})"
        in readme
    )
    assert f"on the fixed simplex's features {largest('fixed-simplex', 'linear')}, on cross-entropy's" in readme
    assert f"on cross-entropy's {largest('cross-entropy', 'linear')}." in readme
    assert f"took {supcon} for a single class, class means {means} " in page


@pytest.mark.parametrize("form", ["fast", "full"])
@pytest.mark.parametrize("claim", [claim for claim in CLAIMS if claim.runs is not None], ids=lambda claim: claim.name)
def test_the_plan_is_what_the_claim_asks_for(claim, form, monkeypatch, tmp_path):
    """Each run by its name and settings, none of them left out and none too many."""
    conditions = Conditions(form, 0, Laboratory(tmp_path), {name: BOTH_SETS[name] for name in claim.needs})
    planned = {run.folder: run.config for run in claim.runs(conditions)}
    asked = {}

    def variant(self, name, config):
        asked[self.folder_of(name)] = config
        return SimpleNamespace(evaluation=lambda options: None)

    monkeypatch.setattr(Experiment, "variant", variant)
    if claim.runs is planned_objectives:
        trained_objectives(conditions)
    else:
        for one in experiments(conditions):
            for loss in BOTH:
                list(one.runs(loss))
    assert planned == asked
