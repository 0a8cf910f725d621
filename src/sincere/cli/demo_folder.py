"""The folder of the demo: made, or made anew, and never at the cost of anybody else's files."""

import shutil
from collections.abc import Iterable
from pathlib import Path

from sincere.errors import OptionError
from sincere.runs import RunFolder, write_json
from sincere.train.start import check_empty

MARK = "demo.json"  # says whose folder it is


def claimed(folder: Path, runs: Iterable[str]) -> None:
    """Make the folder ready for these runs; refuse one that the demo has not made."""
    if folder.exists() and not folder.is_dir():
        raise OptionError(f"--out must be a folder: {folder} is a file.")
    if folder.is_dir() and any(folder.iterdir()) and not (folder / MARK).is_file():
        raise OptionError(f"{folder} holds files that are not the demo's: give another folder with --out.")
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / MARK, {"format": "sincere.demo/1", "runs": list(runs)})
    for run in (RunFolder(folder / name) for name in runs):
        _clear(run)
        check_empty(run)


def _clear(run: RunFolder) -> None:
    """Remove what a run has written; anything else stays."""
    if not run.started:
        return
    for place in list(run.path.iterdir()):
        if run.knows(place.name):
            shutil.rmtree(place) if place.is_dir() else place.unlink()
