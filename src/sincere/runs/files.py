"""Files that are either whole or as they were: written beside, made durable, then renamed into place."""

import errno
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from time import monotonic, sleep
from typing import Any

from sincere.errors import InputError

ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # errors of a disk, a user or a process that may not write more
PATIENCE = 300.0  # seconds without a byte from another writer; a slow disk can take minutes to keep a large file
SECONDS_BETWEEN_LOOKS = 0.05
TEMPORARY = ".unfinished"  # what a killed process may leave behind; the next write or resume clears it away


class WriteError(OSError):
    """A file of the run could not be written; what was there before is as it was."""


def write_atomically(path: Path, content: bytes) -> None:
    """Write `content` so that a reader, or a power cut, finds the old file or the new one and nothing between."""
    with replaced(path, len(content)) as beside:
        write_durably(beside, content)


@contextmanager
def replaced(path: Path, size: int) -> Iterator[Path]:
    """Where to write what will be at `path`: once the block is through, it takes that name; else it goes away."""
    beside = path.with_name(path.name + TEMPORARY)
    with explained_write(path, size), _turn(beside):
        try:
            yield beside
            os.replace(beside, path)
        except BaseException:
            beside.unlink(missing_ok=True)
            raise
        sync_folder(path.parent)


@contextmanager
def _turn(beside: Path) -> Iterator[None]:
    """Let one process at a time write `beside`: another would write into it, or rename what is half written.

    Where the system has no such locks (Windows, some network disks) nobody waits.
    """
    if find_spec("fcntl") is None:
        yield
        return
    while True:
        handle = os.open(beside, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            _lock(handle, beside)
            if _is_at(handle, beside):  # or else the one that we waited for has renamed it
                yield
                return
        finally:
            os.close(handle)


def _lock(handle: int, beside: Path) -> None:
    """Wait while others write `beside`, but not for one that hangs: stopped, or asleep in a disk that is gone."""
    import fcntl

    seen, since = _written(handle), monotonic()
    while True:
        try:
            return fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            sleep(SECONDS_BETWEEN_LOOKS)
        except OSError:
            return None
        if (now := _written(handle)) != seen:
            seen, since = now, monotonic()
        elif monotonic() - since > PATIENCE:
            raise TimeoutError(
                errno.ETIMEDOUT,
                f"another process is writing it, and has not got on for {PATIENCE / 60:.0f} minutes. End that process "
                f"if it hangs (lsof {beside} tells its number)",
            )


def _written(handle: int) -> tuple[int, int]:
    found = os.fstat(handle)
    return found.st_size, found.st_mtime_ns


def _is_at(handle: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), path.stat())
    except FileNotFoundError:
        return False


def write_durably(path: Path, content: bytes) -> None:
    """Write and wait until the disk has it."""
    with open(path, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Make a rename durable; where folders cannot be opened (Windows) the system does it by itself."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def explained_write(path: Path, size: int) -> Iterator[None]:
    """Turn the system's error into one that says what to do, and how much room was needed where that is the reason."""
    try:
        yield
    except OSError as error:
        needs, advice = "", "mend that, or name another place"
        if error.errno in ROOM:
            there = next(place for place in path.absolute().parents if place.exists())
            free = shutil.disk_usage(there).free
            needs = f" It needs {_room(size)}, and {_room(free)} are free on that disk."
            advice = "make room"
        raise WriteError(
            error.errno,
            f"could not write {path}: {error.strerror or error}.{needs} What was there before is intact: {advice}, "
            "then run the same command again; a training run goes on by resume=True.",
        ) from error


def _room(size: int) -> str:
    return f"{size / 1e6:,.1f} MB" if size >= 1e5 else f"{size:,} bytes"


def write_json(path: Path, value: Any) -> None:
    """Write a value as JSON that people read too: indented, one final newline, no NaN."""
    text = json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False)
    write_atomically(path, (text + "\n").encode())


def read_json(path: Path) -> dict[str, Any]:
    """The JSON object in a file of a run."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"{path.parent} must hold {path.name}: there is none. Is it the folder of a run?") from None
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise InputError(f"{path} must be JSON: {error}. It was not written by a run, or was edited.") from error
    if not isinstance(value, dict):
        raise InputError(f"{path} must hold a JSON object: got {type(value).__name__}.")
    return value


def not_kept(refused: Mapping[Path, OSError]) -> list[str]:
    """What could not be kept and why, in words: a sentence for each run, and for each reason if it has several."""
    names: dict[tuple[Path, str], list[str]] = {}
    for place, error in refused.items():
        cause = error.__cause__ if isinstance(error.__cause__, OSError) else error  # a WriteError says more than that
        names.setdefault((place.parent, cause.strerror or str(cause)), []).append(place.name)
    return [f"{', '.join(these)} could not be kept in {run}: {reason}." for (run, reason), these in names.items()]
