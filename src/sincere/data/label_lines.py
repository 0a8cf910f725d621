"""Labels as a text file: one class a line, for arrays that come without."""

import re
from pathlib import Path

import numpy as np
import numpy.typing as npt

from sincere.errors import InputError

WHOLE = re.compile(r"[+-]?\d{1,18}")  # of a length that int64 holds in any case
TABLES = (".csv", ".tsv")
DELIMITERS = ",;\t|"
SHOWN = 40  # characters of a line that a message repeats


def read_label_lines(path: Path) -> npt.NDArray[np.int64] | npt.NDArray[np.str_]:
    """One label a line: whole numbers where all of them are, else texts. Blank lines at the end are none."""
    if not path.exists():
        raise InputError(f"there is no file {path}.")
    lines = [line.strip() for line in _text(path).rstrip().splitlines()]
    if not lines:
        raise InputError(f"{path} must hold one label a line: it is empty.")
    for number, line in enumerate(lines, start=1):
        if not line:
            raise InputError(
                f"{path} must hold one label a line: line {number} of {len(lines)} is blank. Write its label there, or "
                "take the line out."
            )
    fields = [sign for sign in DELIMITERS if sign in lines[0]] if path.suffix.lower() in TABLES else []
    if fields:
        raise InputError(
            f"{path} must hold one label a line and nothing else: line 1 holds {lines[0][:SHOWN]!r}. Save the column "
            "with the labels alone, without its name."
        )
    if all(WHOLE.fullmatch(line) for line in lines):
        return np.array([int(line) for line in lines], np.int64)
    return np.array(lines, np.str_)


def check_as_many(path: Path, labels: npt.NDArray[np.generic], samples: int, of: str) -> None:
    """Refuse a file of labels that has more or fewer lines than there are samples."""
    if len(labels) == samples:
        return
    first = str(labels[0])[:SHOWN]
    heading = f" If line 1, {first!r}, is a heading, take it out." if len(labels) == samples + 1 else ""
    raise InputError(
        f"{path} must hold a label for each sample of {of}, {samples:,}, one a line: got {len(labels):,}.{heading}"
    )


def _text(path: Path) -> str:
    """A file in UTF-8 as text; some editors begin it with a byte-order mark."""
    content = path.read_bytes()
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = error.object[: error.start]  # which may be without the mark
        number, begun = before.count(b"\n") + 1, before.rpartition(b"\n")[2]
        after = error.object[error.start :].partition(b"\n")[0]
        came = (begun + after)[:SHOWN].decode("utf-8", "backslashreplace")
        raise InputError(
            f"{path} must be text in UTF-8, one label a line: line {number} holds {came!r}. Save it again in UTF-8, or "
            "the labels as an .npy."
        ) from error
