"""Runs in processes of their own, forked from one that has imported everything: quickly started, killed at will.

python tests/forked_runs.py FOLDER      prints what came of these, as JSON:
killed       one run undisturbed, one killed again and again, and two stopped gracefully
together     the same runs in one process and in two
again        several runs, one after another, in the same two processes
"""

import json
import os
import random
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch

from sincere.train import (
    EncoderConfig,
    LossConfig,
    MemoryConfig,
    OptimizerConfig,
    ReportingConfig,
    TrainConfig,
    train,
)
from small_runs import small_config, small_splits

PATIENCE = 60.0
ENOUGH = 10  # kills
KILLS = (signal.SIGKILL, signal.SIGTERM, signal.SIGKILL, signal.SIGINT)


def in_a_process(work: Callable[[], int]) -> int:
    """Fork; the child's exit code is what `work` returns."""
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])  # or a very early one would leave through the fork
    child = os.fork()
    if child:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
        return child
    code = 70
    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
        code = work()
    except KeyboardInterrupt:  # before the run listens to signals, Python's own handling is in place
        code = 130
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def ended(child: int, patience: float = PATIENCE) -> int | None:
    """The exit code (negative: the signal), or None after `patience` seconds."""
    until = time.monotonic() + patience
    while True:
        found, status = os.waitpid(child, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() >= until:
            return None
        time.sleep(0.001)


def long_config() -> TrainConfig:
    """50 steps with everything that has a state: dropout, momentum encoder, queue, a learned temperature."""
    return small_config(
        epochs=10,
        encoder=EncoderConfig("small_runs:layers", {"dropout": 0.2}),
        loss=LossConfig(learnable_temperature=True),
        memory=MemoryConfig(queue=24, momentum=0.9),
        optimizer=OptimizerConfig(name="adamw", lr=0.01),
        reporting=ReportingConfig(log_every=2, validate_every=3, neighbours=3, checkpoint_steps=3),
    )


def one_run(folder: Path, config: TrainConfig) -> int:
    torch.set_num_threads(1)
    return train(config, run=folder, resume=True, data=small_splits(), show="off").exit_code


def killed(folder: Path) -> dict[str, object]:
    """One run undisturbed, into `whole`; then others into `0`, `1`, … with kills at random moments, until enough.

    A signal that comes after a run's last step changes nothing, rightly: it is sent again to the next run.
    """
    config, moments = long_config(), random.Random(0)
    began = time.monotonic()
    assert ended(in_a_process(lambda: one_run(folder / "whole", config))) == 0
    length = time.monotonic() - began
    codes: list[list[int | None]] = [[]]
    kills = 0
    while kills < ENOUGH or codes[-1]:
        place = folder / str(len(codes) - 1)
        child = in_a_process(lambda p=place: one_run(p, config))
        code = ended(child, moments.uniform(0, length) if kills < ENOUGH else PATIENCE)
        if code is None:
            os.kill(child, KILLS[kills % len(KILLS)])
            code = ended(child)
            kills += code != 0
        codes[-1].append(code)
        if code == 0:
            codes.append([])
    signals = {name: graceful(folder, getattr(signal, name)) for name in ("SIGINT", "SIGTERM")}
    return {"codes": codes[:-1], "graceful": signals}


def graceful(folder: Path, number: int) -> dict[str, object]:
    """One signal once the run is under way; then the rest of it."""
    config = replace(long_config(), epochs=2000)
    child = in_a_process(lambda: one_run(folder / f"signal{number}", config))
    metrics = wait_for_metrics(folder / f"signal{number}")
    os.kill(child, number)
    code = ended(child)
    saved = [place.name for place in (folder / f"signal{number}" / "checkpoint").iterdir()]
    return {"code": code, "saved": saved, "last": json.loads(metrics.read_text().splitlines()[-1])["step"]}


def wait_for_metrics(folder: Path) -> Path:
    metrics = folder / "metrics.jsonl"
    until = time.monotonic() + PATIENCE
    while not (metrics.exists() and metrics.stat().st_size) and time.monotonic() < until:
        time.sleep(0.002)
    return metrics


TOGETHER: dict[str, dict[str, object]] = {
    "plain": {},
    "learned temperature": {"loss": LossConfig(name="supcon", learnable_temperature=True)},
    "joint": {"objective": "joint"},
    "cross-entropy": {"objective": "cross_entropy"},
    "queue": {"memory": MemoryConfig(queue=24, momentum=0.9)},
    "chunks": {"compute": replace(small_config().compute, chunk_size=4)},
}


def together(folder: Path) -> dict[str, object]:
    """Every configuration by one process and by two; the exit codes. What they logged lies in the folder."""
    codes: dict[str, object] = {}
    for name, changes in TOGETHER.items():
        config = small_config(**changes)
        codes[f"{name}, one"] = ended(in_a_process(lambda c=config, n=name: one_run(folder / n / "one", c)))
        codes[f"{name}, two"] = two_processes(folder / name / "two", config)
    config = replace(long_config(), epochs=20)
    codes["undisturbed"] = two_processes(folder / "undisturbed", config)
    codes["stopped"] = two_processes(folder / "stopped", config, stop=signal.SIGTERM)
    codes["resumed"] = two_processes(folder / "stopped", config)
    return codes


def again(folder: Path) -> dict[str, object]:
    """Runs one after another in the same two processes, whose store is torchrun's and outlives them; exit codes."""
    port = free_port()

    def process(rank: int) -> int:
        as_torchrun(rank, port)
        os.environ["TORCHELASTIC_USE_AGENT_STORE"] = "True"
        config = small_config(epochs=1)
        return max(one_run(folder / f"again{number}", config) for number in range(4))

    children = [in_a_process(lambda r=rank: process(r)) for rank in range(2)]
    store = torch.distributed.TCPStore("127.0.0.1", port, is_master=True, wait_for_workers=False)
    codes = [ended(child, 20.0) for child in children]
    for child, code in zip(children, codes, strict=True):
        if code is None:
            os.kill(child, signal.SIGKILL)
    del store
    return {"codes": codes}


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def as_torchrun(rank: int, port: int) -> None:
    """Its environment variables, for one of two processes."""
    place = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": 2, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    os.environ.update({key: str(value) for key, value in place.items()})


def two_processes(folder: Path, config: TrainConfig, *, stop: int | None = None) -> list[int | None]:
    """As torchrun starts them: by environment variables. `stop` is sent to the second alone, once a line is logged."""
    port = free_port()

    def process(rank: int) -> int:
        as_torchrun(rank, port)
        return one_run(folder, config)

    children = [in_a_process(lambda r=rank: process(r)) for rank in range(2)]
    if stop is not None:
        wait_for_metrics(folder)
        os.kill(children[1], stop)
    return [ended(child) for child in children]


if __name__ == "__main__":
    torch.optim.SGD([torch.zeros(1)])  # the first optimizer of a process loads torch's compiler: once, here
    place = Path(sys.argv[1])
    result = {work.__name__: work(place) for work in (killed, together, again)}
    print(json.dumps(result))
