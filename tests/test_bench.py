"""The benchmark for users: what it records, and what it refuses. Nobody looks at a clock here."""

import json
import math
from dataclasses import replace

import pytest
import torch

import sincere.bench as bench
from sincere.bench import candidates, measurement, memory
from sincere.bench.agreement import ALLOWED
from sincere.bench.measurement import check_losses
from sincere.bench.plain_losses import plain_sincere, plain_supcon
from sincere.bench.problem import Problem
from sincere.errors import OptionError

SMALL = Problem(48, d=8, classes=6)


@pytest.fixture(scope="module")
def found():
    return bench.measure("cpu", [64, 40], d=8, classes=4, seconds=0.2)


def test_every_candidate_has_a_record_at_every_size(found):
    names = [*candidates.OURS, *candidates.EAGER, candidates.PRODUCTS]
    assert [(record.n, record.candidate) for record in found.records] == [(n, name) for n in (40, 64) for name in names]
    assert found.sizes == (40, 64)
    assert found.of("ours SINCERE", 64).ours
    assert not found.of("three products", 64).ours
    assert found.of("ours SINCERE", 65) is None


def test_numbers_are_positive_and_in_order(found):
    for record in found.records:
        assert 0 < record.p20 <= record.ms <= record.p80
        assert record.rounds >= 3
        assert record.repeats >= 1
        assert record.ratio > 0
        assert record.tflops > 0
        assert record.extra_mib is None or record.extra_mib >= 0
        if record.ours:
            assert record.ratio == 1


@pytest.mark.parametrize(("threads", "words"), [(1, "with 1 thread,"), (2, "with 2 threads,")])
def test_threads_are_counted(found, threads, words):
    assert words in str(replace(found, machine=replace(found.machine, threads=threads)))


def test_everybody_was_compared_first(found):
    against = {(a.candidate, a.n) for a in found.agreement if a.reference == "float64"}
    assert against == {(name, n) for name in [*candidates.OURS, *candidates.EAGER] for n in (40, 64)}
    assert {a.candidate for a in found.agreement if a.reference == "ours in float32"} == set(candidates.EAGER)
    for agreement in found.agreement:
        assert agreement.holds
        assert agreement.gradient_error <= 1e-4


def test_json_and_table_show_all(found):
    document = json.loads(found.to_json())
    assert document["format"] == "sincere.bench/1"
    assert len(document["records"]) == len(found.records)
    assert document["records"][0]["ms"] == found.records[0].ms
    assert document["machine"]["torch"] == torch.__version__
    table = str(found)
    assert table == bench.render(found)
    for text in ("n = 40", "n = 64", "ours SupCon", "eager SINCERE", "three products", found.machine.name, "4 classes"):
        assert text in table
    assert [line.split(":")[0] for line in found.summary] == ["n = 64", "n = 64"]


@pytest.mark.parametrize(
    "wrong",
    [
        lambda z, y: 1.001 * plain_sincere(z, y),  # the value
        lambda z, y: plain_sincere(z, y) + 0.01 * (z - z.detach()).sum(),  # the gradient alone
        lambda z, y: plain_supcon(z, y),  # another loss
        lambda z, y: math.nan * plain_sincere(z, y),
    ],
)
def test_a_wrong_candidate_is_refused(wrong):
    with pytest.raises(bench.AgreementError, match=r"eager SINCERE at n = 48 differs from float64 .* nothing is timed"):
        check_losses({"eager SINCERE": wrong}, SMALL)


def test_a_wrong_loss_of_ours_stops_the_benchmark(monkeypatch):
    monkeypatch.setattr(candidates.SF, "supcon", candidates.SF.sincere)
    timed = []
    monkeypatch.setattr(measurement, "run_rounds", lambda *a, **k: timed.append(a))
    with pytest.raises(bench.AgreementError, match="ours SupCon"):
        bench.measure("cpu", [40], d=8, classes=4)
    assert not timed


@pytest.mark.parametrize("dtype", list(ALLOWED))
def test_precisions_pass_the_gate_with_room(dtype):
    problem = Problem(64, d=16, classes=4, dtype=dtype)
    for agreement in check_losses(candidates.our_losses(problem) | candidates.eager_losses(problem), problem):
        assert agreement.gradient_error <= agreement.allowed_gradient_error / 2


def test_what_does_not_fit_is_left_out_and_said(monkeypatch):
    monkeypatch.setattr(candidates, "available_bytes", lambda device: 200_000)
    found = bench.measure("cpu", [40, 100], d=8, classes=4, seconds=0.1)
    assert found.of("eager SINCERE", 40) is not None
    assert found.of("eager SINCERE", 100) is None
    assert found.of("ours SINCERE", 100) is not None
    assert "left out n×n code at n = 100: its matrices would not fit the memory" in found.notes
    assert found.summary[-1].startswith("n = 100: ours takes")


def test_peak_of_memory_holds_what_the_step_took():
    _, peak = memory.with_peak(lambda: torch.ones(64, 2**20).sum(), "cpu")  # 256 MiB
    assert peak is None or 240 <= peak <= 300


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"device": "meta"}, 'device must be "auto", "cpu", "cuda" or one GPU .*: got \'meta\''),
        ({"device": "gpu"}, 'device must be "auto", "cpu", "cuda" or one GPU .*: got \'gpu\''),
        ({"device": ""}, "device must be .*: got ''"),
        ({"device": None}, "device must be .*: got None"),
        ({"sizes": 40}, "sizes must be a list of integers, .*: got 40"),
        ({"sizes": "40"}, "sizes must be a list of integers, .*: got '40'"),
        ({"sizes": [40.5]}, r"sizes must be a list of integers, .*: got \[40.5\]"),
        ({"sizes": [7]}, r"at least two embeddings of each of the 4 classes, 8 and more: got \[7\]"),
        ({"sizes": []}, r"got \[\]"),
        ({"dtype": "float64"}, "dtype must be one of"),
        ({"seconds": 0}, "seconds must be a positive, finite number: got 0"),
        ({"seconds": math.inf}, "seconds must be a positive, finite number: got inf"),
        ({"seconds": "1"}, "seconds must be a positive, finite number: got '1'"),
        ({"d": 1}, "d must be an integer, at least 2: got 1"),
        ({"d": 2.5}, "d must be an integer, at least 2: got 2.5"),
        ({"classes": 1}, "classes must be an integer, at least 2: got 1"),
    ],
)
def test_plans_that_cannot_be_carried_out(options, message):
    with pytest.raises(OptionError, match=message):
        bench.measure(**{"device": "cpu", "sizes": [40], "d": 8, "classes": 4} | options)


def test_a_gpu_that_is_not_there(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    with pytest.raises(
        OptionError, match=r"device='cuda:2' is not there: torch finds 2 GPUs, \"cuda:0\" to \"cuda:1\""
    ):
        bench.measure("cuda:2", [40], d=8, classes=4)
