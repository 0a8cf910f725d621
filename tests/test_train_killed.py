"""Stop and go: whatever ends a run, and whenever, it resumes, and its weights are those of an undisturbed one."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from sincere.runs import newest_checkpoint, read_metrics

HERE = Path(__file__).parent
TIMED = ("seconds", "samples_per_second")

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="the runs are forked")


def untimed(folder):
    return [{k: v for k, v in record.items() if k not in TIMED} for record in read_metrics(folder / "metrics.jsonl")]


def assert_same_run(one, other):
    """Weights, everything that a checkpoint holds, metrics and embeddings, to the last bit."""
    assert (one / "model.safetensors").read_bytes() == (other / "model.safetensors").read_bytes()
    a, b = newest_checkpoint(one / "checkpoint"), newest_checkpoint(other / "checkpoint")
    assert a.state["digest"] == b.state["digest"]
    assert untimed(one) == untimed(other)
    for split in ("train", "test"):
        with np.load(one / "embeddings" / f"{split}.npz") as x, np.load(other / "embeddings" / f"{split}.npz") as y:
            assert all(np.array_equal(x[key], y[key]) for key in x.files)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """What tests/forked_runs.py reports; it runs in a process without threads, which can be forked."""
    folder = tmp_path_factory.mktemp("runs")
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, str(HERE / "forked_runs.py"), str(folder)]
    run = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=600, check=False)
    assert run.returncode == 0, run.stderr
    return folder, json.loads(run.stdout), run.stderr


def test_killed_at_random_moments_it_ends_bit_identical(runs):
    folder, report = runs[0], runs[1]["killed"]
    unheard = {-15: 143}  # SIGTERM before the run listens ends it as it ends any process
    stopped = [unheard.get(code, code) for run in report["codes"] for code in run if code != 0]
    assert stopped == [-9, 143, -9, 130, -9, 143, -9, 130, -9, 143]
    for number in range(len(report["codes"])):
        assert_same_run(folder / "whole", folder / str(number))
        left = {place.name for place in (folder / str(number)).rglob("*") if "unfinished" in place.name}
        assert not left


def test_no_line_of_metrics_comes_twice(runs):
    folder, report = runs[0], runs[1]["killed"]
    for number in range(len(report["codes"])):
        keys = [(record["kind"], record["step"]) for record in untimed(folder / str(number))]
        assert len(keys) == len(set(keys))
        assert keys == sorted(keys, key=lambda key: key[1])


@pytest.mark.parametrize(("name", "code"), [("SIGINT", 130), ("SIGTERM", 143)])
def test_a_signal_finishes_the_step_saves_and_says_so(runs, name, code):
    _, report, messages = runs
    found = report["killed"]["graceful"][name]
    assert found["code"] == code
    (checkpoint,) = found["saved"]
    assert int(checkpoint.removeprefix("step-")) >= found["last"] > 0
    assert f"{name}: finishing this step and saving" in messages


def test_two_processes_are_one(runs):
    """The same losses, one log, one checkpoint; a signal to one stops both, and they resume bit-identical."""
    folder, report, messages = runs
    codes = report["together"]
    names = [name.removesuffix(", two") for name in codes if name.endswith(", two")]
    assert len(names) == 6
    for name in names:
        assert codes[f"{name}, one"] == 0, messages
        assert codes[f"{name}, two"] == [0, 0], messages
        one, two = (untimed(folder / name / count) for count in ("one", "two"))
        assert [(r["kind"], r["step"]) for r in one] == [(r["kind"], r["step"]) for r in two]
        losses = [[r["loss"] for r in records if "loss" in r] for records in (one, two)]
        assert max(losses[0]) > 0.1
        np.testing.assert_allclose(losses[0], losses[1], rtol=2e-5, atol=2e-5, err_msg=name)
    assert codes["undisturbed"] == codes["resumed"] == [0, 0]
    assert codes["stopped"] == [143, 143]
    assert_same_run(folder / "undisturbed", folder / "stopped")


def test_the_same_processes_train_one_run_after_another(runs):
    """torchrun's store remembers where processes were met in the run before: whoever looks there waits for ever."""
    folder, report, messages = runs
    assert report["again"]["codes"] == [0, 0], messages
    weights = [(folder / f"again{number}" / "model.safetensors").read_bytes() for number in range(4)]
    assert weights == weights[:1] * 4
