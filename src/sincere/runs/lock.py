"""One process at a time in the folder of a run: two would write each other's checkpoints and metrics."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sincere.errors import OptionError


@contextmanager
def only_here(folder: Path) -> Iterator[None]:
    """Make the folder and hold it; refuse one that another process holds.

    The system lets go of it when the process ends, however it ends, and nothing is left behind. Where it has no such
    locks (Windows, some network disks) nobody is refused.
    """
    folder.mkdir(parents=True, exist_ok=True)
    try:
        import fcntl
    except ImportError:
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise OptionError(
                f"one process alone may train in {folder}: another one is at it. Wait for it, or choose another folder."
            ) from None
        except OSError:
            pass
        yield
    finally:
        os.close(handle)
