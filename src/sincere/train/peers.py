"""The other processes of a run: a failure of one of them reaches all, so that none waits for a peer that is gone.

It is told through the store by which torchrun's processes find each other, which works before there is a process group,
and still does when one of the group has left.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from time import monotonic, sleep
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.rendezvous import rendezvous

LONGEST_WAIT = timedelta(minutes=30)  # for the others to come: torch's own default
TO_REACH_THE_STORE = timedelta(seconds=30)  # for a process that has failed and only wants to say so
SECONDS_BETWEEN_LOOKS = 0.1
FAILED, HERE = "failed", "here"  # keys: the first failure's words, and how many have come
LEFT = "another process of the run has left: what it says itself tells why."
_meetings = 0  # groups that this process has joined, or begun to


class OtherProcessError(RuntimeError):
    """Another process of the run has stopped, and this one with it."""


def several() -> bool:
    """Did torchrun, or another launcher, start more than one process?"""
    return dist.is_available() and int(os.environ.get("WORLD_SIZE", "1")) > 1


@contextmanager
def heard_by_the_others() -> Iterator[None]:
    """Around what a process does before it meets the others: a failure reaches those that wait for it there."""
    try:
        yield
    except Exception as error:
        if several() and not dist.is_initialized():
            # As well as it can be done: what went wrong matters more than who has heard of it.
            with suppress(Exception):
                store, rank, _ = new_store(TO_REACH_THE_STORE)
                tell(store, rank, error)
        raise


def new_store(timeout: timedelta = LONGEST_WAIT) -> tuple[Any, int, int]:
    """The store that the next process group is formed by, this process's rank and the number of processes.

    Its keys are new each time: torchrun's store outlives a process group, and even restarted processes. Whoever found
    old addresses in it would wait for peers that have left.
    """
    store, rank, world = next(rendezvous("env://", timeout=timeout))
    return _under_new_names(store), rank, world


def callers_store() -> Any:
    """The store of the group that a caller has formed, for words between its processes; None where it has none."""
    try:
        store = dist.distributed_c10d._get_default_store()
    except (AttributeError, RuntimeError, ValueError):  # no promise of torch's, and some backends do without
        store = None
    return None if store is None else _under_new_names(store)


def _under_new_names(store: Any) -> Any:
    global _meetings
    _meetings += 1
    names = f"sincere/{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}/{_meetings}"
    return dist.PrefixStore(names, store)  # type: ignore[attr-defined]


def wait_for_everybody(store: Any, world: int) -> None:
    """Until all have come; raises as soon as one says that it will not."""
    until = monotonic() + LONGEST_WAIT.total_seconds()
    try:
        store.add(HERE, 1)
        while (come := store.add(HERE, 0)) < world:
            if words := first_failure(store):
                raise OtherProcessError(words)
            if monotonic() > until:
                minutes = LONGEST_WAIT.total_seconds() / 60
                raise OtherProcessError(
                    f"all {world} processes must begin the run: {come} came within {minutes:.0f} minutes. Look at what "
                    "the others say."
                )
            sleep(SECONDS_BETWEEN_LOOKS)
    except dist.DistError as error:
        raise OtherProcessError(LEFT) from error


@contextmanager
def failing_together(store: Any, rank: int) -> Iterator[None]:
    """Tell the others why this process fails; or, where it fails because another did, raise that one's words."""
    try:
        yield
    except BaseException as error:
        # Those who have left are noticed by torch in many places, and always as a RuntimeError.
        if isinstance(error, RuntimeError) and not isinstance(error, torch.OutOfMemoryError):
            words = first_failure(store)
            if words or "by peer" in str(error):  # gloo's: "Connection closed by peer", "Connection reset by peer"
                raise OtherProcessError(words or LEFT) from error
        tell(store, rank, error)
        raise


def tell(store: Any, rank: int, error: BaseException) -> None:
    """Leave word of a failure, unless somebody has: the first is the one who knows."""
    words = getattr(error, "strerror", None) or str(error) or type(error).__name__
    with suppress(RuntimeError):  # the store leaves with the process that holds it
        store.compare_set(FAILED, "", f"process {rank} of the run stopped: {words}")


def first_failure(store: Any) -> str | None:
    """What the first process to fail has said; None where there is nothing, or nobody to ask."""
    with suppress(RuntimeError):
        if store.check([FAILED]):
            return str(store.get(FAILED).decode())
    return None
