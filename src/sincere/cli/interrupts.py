"""Ctrl-C before a verb begins and after it has ended: a line and an exit code, no traceback."""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

INTERRUPTED = 130  # the exit code: 128 + SIGINT


def leave(number: int, frame: FrameType | None) -> None:
    """End the process; written past Python's streams, which may be in the midst of something.

    An exception would be raised anywhere in other people's modules, some of which catch it or print it.
    """
    if os.environ.get("RANK", "0") == "0":
        os.write(2, b"error: interrupted.\n")
    os._exit(INTERRUPTED)


def leave_quietly() -> None:
    """From now on Ctrl-C ends the process by `leave`, unless somebody else handles or ignores it."""
    if threading.current_thread() is not threading.main_thread():
        return
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, leave)


@contextmanager
def interruptible() -> Iterator[None]:
    """Within a verb Ctrl-C is Python's KeyboardInterrupt, so that what is open gets closed."""
    if signal.getsignal(signal.SIGINT) is not leave:
        yield
        return
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, leave)
