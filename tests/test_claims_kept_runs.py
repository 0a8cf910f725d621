"""Runs that claims keep: gone on with where they were cut off, never taken for others, and light where that will do."""

import json
import resource
import shutil
import signal
from dataclasses import replace

import numpy as np
import pytest
import torch

from sincere.claims.laboratory import Laboratory, StoppedError, answers
from sincere.claims.light_runs import is_light, lighten
from sincere.claims.record import Measured
from sincere.claims.run_origins import origins_of
from sincere.claims.statistics import covers_zero, over_seeds, with_fisher_interval
from sincere.embeddings import EmbeddingSet
from sincere.errors import InputError, OptionError
from sincere.evaluate import EvaluationOptions, evaluate
from sincere.runs import MetricsLog, RunFolder, read_metrics
from sincere.train.step import TrainingStep
from small_runs import small_config, small_splits

KNN = EvaluationOptions(methods=("knn",), draws=100)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A finished run with an evaluation."""
    data = small_splits()
    found = Laboratory(tmp_path_factory.mktemp("runs"), "off").trained("one", small_config(), data)
    found.evaluation(KNN)
    return found


@pytest.fixture
def stopped(monkeypatch, tmp_path):
    """A laboratory whose run was stopped during its seventh step, and what was said."""
    original = TrainingStep.__call__

    def step(self, batch, *, step, **options):
        if step == 6:
            signal.raise_signal(signal.SIGTERM)
        return original(self, batch, step=step, **options)

    laboratory = Laboratory(tmp_path / "runs", "off")
    with monkeypatch.context() as patch:
        patch.setattr(TrainingStep, "__call__", step)
        with pytest.raises(StoppedError, match="was stopped: run the same command again") as error:
            laboratory.trained("one", small_config(), small_splits())
    return laboratory, error.value


def test_a_stopped_run_is_told_and_gone_on_with(stopped, whole):
    laboratory, error = stopped
    assert error.exit_code == 143
    found = laboratory.trained("one", small_config(), small_splits())
    assert found.folder.finished
    assert len(found.epoch_losses()) == 3
    starts = json.loads(found.folder.provenance.read_text())["starts"]
    assert len(starts) == 2
    assert found.folder.weights.read_bytes() == whole.folder.weights.read_bytes()


def test_a_begun_run_goes_on_though_a_light_one_lies_beside(stopped, whole, tmp_path):
    laboratory, _ = stopped
    lighten(whole.folder.path, tmp_path / "light" / "one")
    found = replace(laboratory, light=tmp_path / "light").trained("one", small_config(), small_splits())
    assert found.folder.path == tmp_path / "runs" / "one"
    assert found.folder.finished


def test_a_finished_run_with_other_settings_is_refused(whole):
    laboratory = Laboratory(whole.folder.path.parent, "off")
    assert laboratory.trained("one", small_config(), small_splits()) == whole
    with pytest.raises(OptionError, match="was begun with other settings"):
        laboratory.trained("one", small_config(seed=3), small_splits())


def cifar_at(place):
    """A configuration that names CIFAR there; what is read is given to the laboratory instead."""
    plain = small_config()
    return replace(plain, data=replace(plain.data, source=place))


def test_where_cifar_lies_makes_no_other_run(tmp_path):
    """Runs are made on machines that keep it in different places; its files have checksums."""
    laboratory, data = Laboratory(tmp_path / "runs", "off", tmp_path / "light"), small_splits()
    done = laboratory.trained("one", cifar_at("cifar10:here"), data)
    assert laboratory.trained("one", cifar_at("cifar10:there"), data) == done
    done.evaluation(KNN)
    lighten(done.folder.path, tmp_path / "light" / "one")
    shutil.rmtree(done.folder.path)
    light = laboratory.trained("one", cifar_at("cifar10:elsewhere"), data)
    assert light.folder.path == tmp_path / "light" / "one"
    assert laboratory.trained("one", cifar_at("cifar100:here"), data).folder.path == tmp_path / "runs" / "one"
    with pytest.raises(OptionError, match=r"data\.source: 'cifar100:here' → 'cifar10:here'"):
        laboratory.trained("one", cifar_at("cifar10:here"), data)


def test_a_stopped_run_goes_on_where_cifar_was_moved(stopped, whole, monkeypatch):
    laboratory, _ = stopped
    folder = RunFolder(laboratory.folder / "one")
    begun = json.loads(folder.config.read_text())
    folder.config.write_text(json.dumps(begun | {"data": begun["data"] | {"source": "cifar10:here"}}))
    read = []
    monkeypatch.setattr("sincere.claims.laboratory.opened", lambda data: read.append(data.source) or small_splits())
    found = laboratory.trained("one", cifar_at("cifar10:there"))
    assert read == ["cifar10:there"]
    assert found.folder.weights.read_bytes() == whole.folder.weights.read_bytes()


def test_a_result_says_where_its_kept_runs_were_trained(stopped, tmp_path):
    """Of a run that began on one machine and ended on another: both."""
    laboratory, _ = stopped
    one = laboratory.trained("one", small_config(), small_splits())
    other = laboratory.trained("other", small_config(seed=3), small_splits())
    assert laboratory.trained("one", small_config(), small_splits()) == one  # asked for twice, counted once
    known = json.loads(one.folder.provenance.read_text())
    first, second = known["starts"]
    first |= {"started": "2026-01-01T00:00:00+00:00", "sincere_commit": "abc"}
    first["hardware"]["gpus"] = ["A GPU"]
    second["started"] = "2026-01-02T00:00:00+00:00"
    one.folder.provenance.write_text(json.dumps(known))
    found = origins_of(laboratory.used, before="2026-02-01T00:00:00+00:00")
    assert (found["count"], found["seconds"]) == (1, round(one.seconds(), 1))
    assert [(place["machine"], place["commit"], place["first"]) for place in found["trained_on"]] == [
        ("A GPU", "abc", "2026-01-01T00:00:00+00:00"),
        (f"CPU, {torch.get_num_threads()} thread(s)", second["sincere_commit"] or "unknown", second["started"]),
    ]
    assert origins_of([other.folder], before="2026-02-01T00:00:00+00:00") is None


def test_the_evaluation_is_kept_and_chosen_on_the_validation_samples(whole):
    kept = json.loads(whole.folder.evaluation.read_text())
    found = whole.evaluation(KNN)
    assert found.classifier("knn").settings["k_origin"] == "chosen on the validation set"
    assert json.loads(found.to_json()) == kept
    assert found.name == "one"


def test_embeddings_that_are_missing_from_a_whole_run_are_not_said_to_be_light(whole, tmp_path):
    copy = RunFolder(shutil.copytree(whole.folder.path, tmp_path / "copy"))
    copy.embeddings("train").unlink()
    with pytest.raises(InputError) as error:
        replace(whole, folder=copy).embeddings("train")
    assert "light" not in str(error.value)


def test_seconds_are_those_of_the_last_line(whole):
    seconds = [record["seconds"] for record in read_metrics(whole.folder.metrics)]
    assert whole.seconds() == seconds[-1] == max(seconds) > min(seconds)


def test_what_is_kept_of_a_light_run(whole, tmp_path):
    # As in a run that was stopped within an epoch: its last line is of a step, and has the time.
    heavy = RunFolder(shutil.copytree(whole.folder.path, tmp_path / "heavy"))
    MetricsLog(heavy.metrics).append({"kind": "train", "step": 16, "seconds": 1e6, "loss": 1.0})
    light = RunFolder(lighten(heavy.path, tmp_path / "light"))
    records = read_metrics(heavy.metrics)
    epochs = [record for record in records if record["kind"] == "epoch"]
    assert len(epochs) == 3
    assert read_metrics(light.metrics) == [*epochs, records[-1]]
    assert replace(whole, folder=light).seconds() == 1e6
    for name in ("config.json", "provenance.json", "evaluation.json"):
        assert (light.path / name).read_bytes() == (heavy.path / name).read_bytes()
    assert {place.name for place in light.path.rglob("*") if place.is_file()} == {
        *("config.json", "provenance.json", "evaluation.json", "metrics.jsonl", "simplex.json", "test.npz")
    }
    with np.load(light.embeddings("test")) as arrays:
        assert arrays["embeddings"].dtype == np.float16
        lengths = np.linalg.norm(arrays["embeddings"].astype(np.float64), axis=1)
    assert np.abs(lengths - 1).max() < 1e-3
    small, large = (EmbeddingSet.load(folder.embeddings("test")) for folder in (light, heavy))
    assert small.name == large.name != ""
    directions = torch.nn.functional.normalize(large.embeddings, dim=1)
    torch.testing.assert_close(small.embeddings.float(), directions, rtol=0, atol=1e-3)


def test_a_light_run_knows_how_near_its_embeddings_were_to_a_simplex(whole, tmp_path):
    light = replace(whole, folder=RunFolder(lighten(whole.folder.path, tmp_path / "light", embeddings=False)))
    for split in ("train", "test"):
        rows = torch.nn.functional.normalize(whole.embeddings(split).embeddings.double(), dim=1).numpy()
        labels = whole.embeddings(split).labels.numpy()
        means = np.stack([rows[labels == c].mean(axis=0) for c in np.unique(labels)])
        centred = means - means.mean(axis=0)
        centred /= np.linalg.norm(centred, axis=1, keepdims=True)
        across = (centred @ centred.T)[~np.eye(len(means), dtype=bool)]
        towards = np.einsum("nd,nd->n", rows, (means / np.linalg.norm(means, axis=1, keepdims=True))[labels])
        for fit in (light.simplex_fit(split), whole.simplex_fit(split)):
            assert fit.deviation == pytest.approx(np.abs(across + 1 / (len(means) - 1)).mean(), rel=1e-5)
            assert fit.collapse == pytest.approx(towards.mean(), rel=1e-5)
    assert is_light(light.folder)
    with pytest.raises(InputError, match="light run, without test embeddings"):
        light.embeddings("test")


def test_a_run_is_light_from_its_last_file_on(whole, tmp_path):
    light = RunFolder(lighten(whole.folder.path, tmp_path / "light"))
    assert is_light(light)
    assert not is_light(whole.folder)
    laboratory = Laboratory(tmp_path / "runs", "off", tmp_path)
    assert laboratory.trained("light", small_config(), small_splits()).folder.path == light.path
    light.evaluation.unlink()  # as a copy that was cut off leaves it
    assert not is_light(light)
    assert laboratory.trained("light", small_config(), small_splits()).folder.path == tmp_path / "runs" / "light"


def test_where_the_last_file_does_not_fit_there_is_no_light_run(whole, tmp_path):
    """It says that the others are there: one that is half there would say so too."""
    heavy = RunFolder(shutil.copytree(whole.folder.path, tmp_path / "heavy"))
    heavy.evaluation.write_text(heavy.evaluation.read_text() + " " * 300_000)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
    try:
        with pytest.raises(OSError, match="File too large"):
            lighten(heavy.path, tmp_path / "light")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)
    assert (tmp_path / "light" / "embeddings" / "test.npz").exists()
    assert not is_light(RunFolder(tmp_path / "light"))


def test_an_evaluation_alone_is_no_finished_run(whole, tmp_path):
    heavy = RunFolder(shutil.copytree(whole.folder.path, tmp_path / "heavy"))
    heavy.weights.unlink()
    with pytest.raises(InputError, match="must be finished and evaluated"):
        lighten(heavy.path, tmp_path / "light")
    assert not (tmp_path / "light").exists()


def evaluated(options, *, features=False):
    random = torch.Generator().manual_seed(0)
    parts = []
    for count in (12, 9):
        labels = torch.arange(count) % 3
        points = torch.randn(count, 4, generator=random) + 3 * torch.eye(4)[labels]
        parts.append(EmbeddingSet(points, labels, ("a", "b", "c"), "blobs", features=2 * points if features else None))
    return evaluate(*parts, options=options)


def test_more_neighbours_than_there_are_samples_are_all_of_them():
    """Twelve are asked whether 50 or 60 are wanted, and no others where ten are."""
    known = evaluated(EvaluationOptions(methods=("knn",), draws=100, k=50))
    asked = {k: answers(known, EvaluationOptions(methods=("knn",), draws=100, k=k)) for k in (None, 10, 12, 50, 60)}
    assert asked == {None: False, 10: False, 12: True, 50: True, 60: True}


def test_probes_are_on_what_there_is():
    plain = EvaluationOptions(methods=("linear",), draws=100, l2=0.1)
    on_embeddings = replace(plain, probes_on="embeddings")
    for features in (False, True):
        known = evaluated(plain, features=features)
        assert answers(known, plain)
        assert answers(known, on_embeddings) is not features


def test_places_of_recall_are_the_same_places():
    def options(*places):
        return EvaluationOptions(methods=("retrieval",), draws=100, recall_at=places)

    known = evaluated(options(1, 2))
    for places, same in (((1, 2), True), ((2, 1), True), ((1,), False), ((1, 2, 4), False)):
        assert answers(known, options(*places)) == same, places


def test_figures_at_the_edges_of_their_intervals():
    for edge in ((0.0, 1.0), (-1.0, 0.0)):
        assert covers_zero(Measured("difference", 0.5, *edge))
    assert with_fisher_interval("r", -1.0, 9) == Measured("r", -1.0, -1.0, -1.0, "9 runs")
    assert with_fisher_interval("r", -1.0000000000000002, 9).value == -1.0
    assert with_fisher_interval("r", 0.5, 4).low is not None
    with pytest.raises(InputError, match="a correlation lies between"):
        with_fisher_interval("r", -1.1, 9)
    with pytest.raises(OptionError, match="at least one value"):
        over_seeds("x", [])
    assert over_seeds("x", [2.0]).n == "1 seed"
    assert over_seeds("x", [2.0], of="rounds").n == "1 round"
    assert over_seeds("x", [2.0, 3.0], of="rounds").n == "2 rounds"
