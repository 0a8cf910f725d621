"""Several processes, of which one fails or is not like the others: all of them end soon, with the first one's words.

python tests/test_train_processes.py FOLDER     all cases, by two processes each; prints how they ended, as JSON
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import sincere.train.loop as loop
import sincere.train.peers as peers
from forked_runs import as_torchrun, ended, free_port, in_a_process
from sincere.errors import InputError
from sincere.runs import WriteError
from sincere.train import DivergedError, train
from sincere.train.peers import OtherProcessError
from sincere.train.processes import Processes
from sincere.train.step import TrainingStep
from small_runs import small_config, small_splits

PATIENCE = 30.0  # seconds; where nobody is told the others wait for half an hour
SOON = 10.0


def failing(name: str, error: Exception) -> Callable[[], None]:
    """Let something that the loop calls fail."""

    def fail(*_: object, **__: object) -> None:
        raise error

    return lambda: setattr(loop, name, fail)


def failing_step() -> None:
    original = TrainingStep.__call__

    def step(self: TrainingStep, batch: torch.Tensor, *, step: int, **how: object) -> torch.Tensor:
        if step == 7:
            raise DivergedError("the loss became nan.")
        return original(self, batch, step=step, **how)

    TrainingStep.__call__ = step


FULL = WriteError(28, "could not write step-000000004: the disk is full.")
# Which process something is wrong with, what it does before it trains, and with which words all must end.
CASES: dict[str, tuple[int, Callable[[], None], str]] = {
    "device": (1, failing("device_for", InputError("there is no such device.")), "there is no such device."),
    "first device": (0, failing("device_for", InputError("there is no such device.")), "there is no such device."),
    "folder": (0, failing("check_folder", InputError("the folder is not empty.")), "the folder is not empty."),
    "session": (1, failing("build_session", InputError("there is no such encoder.")), "there is no such encoder."),
    "beginning": (0, failing("begin", WriteError(13, "could not write README.txt.")), "could not write README.txt."),
    "step": (1, failing_step, "the loss became nan."),
    "checkpoint": (0, failing("save_checkpoint", FULL), "could not write step-000000004: the disk is full."),
    "end": (0, failing("save_model", FULL), "could not write step-000000004: the disk is full."),
    "other settings": (1, lambda: None, "same settings: process 1 and process 0 differ"),
    "other data": (1, lambda: None, "same training data: process 1 and process 0 differ"),
    "other folder": (1, lambda: None, "same checkpoint: process 1 and process 0 differ"),
    "killed": (1, lambda: os.kill(os.getpid(), signal.SIGKILL), "another process of the run has left"),
}


def one_process(name: str, rank: int, place: Path) -> str:
    """How a run ends on one of two processes: the error's type and words."""
    who, go_wrong, _ = CASES[name]
    torch.set_num_threads(1)
    config, splits, run = small_config(reporting=replace(small_config().reporting, checkpoint_steps=4)), 60, place
    if rank == who:
        if name == "killed":
            loop.build_session = lambda *_, **__: go_wrong()
        else:
            go_wrong()
        config = replace(config, seed=1) if name == "other settings" else config
        splits = 63 if name == "other data" else splits
        run = place.with_name("elsewhere") if name == "other folder" else place
    try:
        train(config, run=run, resume=True, data=small_splits(splits), show="off")
    except Exception as error:
        return f"{type(error).__name__}: {getattr(error, 'strerror', None) or error}"
    return "finished"


def both(name: str, folder: Path) -> dict[str, object]:
    """Two processes and a store, as torchrun starts them; exit codes, words, and how many seconds lie between them."""
    port, place = free_port(), folder / name
    if name == "other folder":
        begun(place)

    def process(rank: int) -> int:
        as_torchrun(rank, port)
        os.environ["TORCHELASTIC_USE_AGENT_STORE"] = "True"
        (folder / f"{name} {rank}").write_text(one_process(name, rank, place))
        return 1

    children = [in_a_process(lambda r=rank: process(r)) for rank in range(2)]
    store = torch.distributed.TCPStore("127.0.0.1", port, is_master=True, wait_for_workers=False)
    codes = ends(children)
    del store
    places = [folder / f"{name} {rank}" for rank in range(2)]
    times = [place.stat().st_mtime for place in places if place.exists()]
    words = [place.read_text() if place.exists() else "" for place in places]
    return {"codes": codes, "words": words, "apart": max(times) - min(times)}


def ends(children: list[int]) -> list[int | None]:
    """Exit codes; None of a process that had to be ended, as it waited for the others."""
    codes = [ended(child, PATIENCE) for child in children]
    for child, code in zip(children, codes, strict=True):
        if code is None:
            os.kill(child, signal.SIGKILL)
            ended(child)
    return codes


def restarted(folder: Path) -> dict[str, object]:
    """`torchrun --max-restarts 1`: the second attempt finds the store of the first, in which one has failed."""
    port, place = free_port(), folder / "restarted"

    def process(rank: int, attempt: int) -> int:
        as_torchrun(rank, port)
        os.environ |= {"TORCHELASTIC_USE_AGENT_STORE": "True", "TORCHELASTIC_RESTART_COUNT": str(attempt)}
        if attempt == 0:
            one_process("step", rank, place)
            return 1
        time.sleep(2 * (1 - rank))  # so that the other one is there first, with nobody but those of before
        config = small_config(reporting=replace(small_config().reporting, checkpoint_steps=4))
        return train(config, run=place, resume=True, data=small_splits(), show="off").exit_code

    store, codes = None, []
    for attempt in range(2):
        children = [in_a_process(lambda r=rank, a=attempt: process(r, a)) for rank in range(2)]
        store = store or torch.distributed.TCPStore("127.0.0.1", port, is_master=True, wait_for_workers=False)
        codes.append(ends(children))
    return {"codes": codes}


def patient(folder: Path) -> dict[str, object]:
    """The first process takes longer over its last embeddings than torch lets the others wait."""
    port = free_port()

    def process(rank: int) -> int:
        as_torchrun(rank, port)
        torch.distributed.distributed_c10d.default_pg_timeout = peers.timedelta(seconds=3)
        original = loop.embed

        def slow(*given: object) -> object:
            time.sleep(2)  # for each of three parts
            return original(*given)

        loop.embed = slow
        return train(small_config(), run=folder / "patient", data=small_splits(), show="off").exit_code

    return {"codes": ends([in_a_process(lambda r=rank: process(r)) for rank in range(2)])}


def callers_group(folder: Path) -> dict[str, object]:
    """Two runs in a group that the caller has formed, and uses afterwards."""
    port = free_port()

    def process(rank: int) -> int:
        as_torchrun(rank, port)
        torch.distributed.init_process_group("gloo")
        for number in range(2):
            train(small_config(epochs=1), run=folder / f"callers{number}", data=small_splits(), show="off")
        groups = len(torch.distributed.distributed_c10d._world.pg_map)
        total = torch.ones(1)
        torch.distributed.all_reduce(total)
        torch.distributed.destroy_process_group()
        return 0 if (groups, int(total)) == (1, 2) else 1

    return {"codes": ends([in_a_process(lambda r=rank: process(r)) for rank in range(2)])}


def callers_failure(folder: Path) -> dict[str, object]:
    """A step fails on one process of a group that the caller has formed; after a run in which nothing did."""
    port = free_port()

    def process(rank: int) -> int:
        as_torchrun(rank, port)
        torch.distributed.init_process_group("gloo")
        train(small_config(epochs=1), run=folder / "callers before", data=small_splits(), show="off")
        (folder / f"callers failure {rank}").write_text(one_process("step", rank, folder / "callers failure"))
        return 1

    codes = ends([in_a_process(lambda r=rank: process(r)) for rank in range(2)])
    return {"codes": codes, "words": [(folder / f"callers failure {rank}").read_text() for rank in range(2)]}


def begun(place: Path) -> None:
    """A run of one process, stopped after some steps."""

    def process() -> int:
        config = small_config(reporting=replace(small_config().reporting, checkpoint_steps=4))
        failing("save_model", FULL)()
        try:
            train(config, run=place, data=small_splits(), show="off")
        except WriteError:
            return 0
        return 1

    assert ended(in_a_process(process)) == 0


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory):
    folder = tmp_path_factory.mktemp("outcomes")
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, __file__, str(folder)]
    run = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=600, check=False)
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the runs are forked")
@pytest.mark.parametrize("name", CASES)
def test_all_processes_end_soon_with_the_words_of_the_first(outcomes, name):
    found, (who, _, words) = outcomes[name], CASES[name]
    assert found["codes"] == ([1, 1] if name != "killed" else [1, -9]), "none of them waits"
    assert found["apart"] < SOON
    assert words in found["words"][who] or name == "killed"
    heard = found["words"][1 - who]
    if name.startswith("other "):
        assert words in heard, "all refuse alike"
    elif name == "killed":
        assert heard.startswith(f"OtherProcessError: {words}")
    else:
        assert heard == f"OtherProcessError: process {who} of the run stopped: {found['words'][who].split(': ', 1)[1]}"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the runs are forked")
def test_processes_that_torchrun_starts_again_meet_each_other(outcomes):
    assert outcomes["restarted"]["codes"] == [[1, 1], [0, 0]]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the runs are forked")
@pytest.mark.parametrize("name", ["patient", "callers_group"])
def test_processes_wait_for_the_first_and_leave_the_callers_group_as_it_was(outcomes, name):
    assert outcomes[name]["codes"] == [0, 0]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the runs are forked")
def test_in_a_callers_group_the_others_hear_why_too(outcomes):
    found = outcomes["callers_failure"]
    assert found["codes"] == [1, 1]
    assert found["words"] == [
        "OtherProcessError: process 1 of the run stopped: the loss became nan.",
        "DivergedError: the loss became nan.",
    ]


def test_one_process_has_nobody_to_agree_with(monkeypatch):
    asked = []
    monkeypatch.setattr(Processes, "gathered", lambda self, mine: asked.append(mine))
    Processes().agree("settings", "mine", advice="")
    assert not asked


def test_failures_of_one_process_are_told_to_nobody(monkeypatch):
    """No store is asked for where there is nobody else; where there is none to be had, the error is what it was."""
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    monkeypatch.setattr(peers, "new_store", lambda *_: pytest.fail("nobody is there"))
    with pytest.raises(InputError, match="mine"), peers.heard_by_the_others():
        raise InputError("mine")
    monkeypatch.undo()
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.delenv("MASTER_ADDR", raising=False)
    with pytest.raises(InputError, match="mine"), peers.heard_by_the_others():
        raise InputError("mine")


def test_whoever_never_comes_is_waited_for_no_longer_than_said(monkeypatch):
    monkeypatch.setattr(peers, "LONGEST_WAIT", peers.timedelta(seconds=0.3))
    store = torch.distributed.HashStore()
    with pytest.raises(OtherProcessError, match=r"all 2 processes must begin the run: 1 came within 0 minutes"):
        peers.wait_for_everybody(store, 2)
    peers.wait_for_everybody(store, 2)  # the second one: now everybody is here


def test_the_first_failure_is_the_one_that_is_told():
    store = torch.distributed.HashStore()
    peers.tell(store, 1, InputError("first"))
    peers.tell(store, 0, InputError("second"))
    assert peers.first_failure(store) == "process 1 of the run stopped: first"
    with pytest.raises(OtherProcessError, match="first"), peers.failing_together(store, 0):
        raise RuntimeError("the network is gone")
    with pytest.raises(torch.OutOfMemoryError), peers.failing_together(store, 0):
        raise torch.OutOfMemoryError("mine")
    with pytest.raises(InputError, match="mine"), peers.failing_together(store, 0):
        raise InputError("mine")


if __name__ == "__main__":
    torch.optim.SGD([torch.zeros(1)])  # the first optimizer of a process loads torch's compiler: once, here
    place = Path(sys.argv[1])
    others = {work.__name__: work(place) for work in (restarted, patient, callers_group, callers_failure)}
    print(json.dumps({**{case: both(case, place) for case in CASES}, **others}))
