"""Metrics as JSON lines: one object a line, appended, and cut back to the checkpoint when a run resumes."""

import json
from pathlib import Path
from typing import Any

from sincere.errors import InputError
from sincere.runs.files import explained_write, write_atomically


class MetricsLog:
    """Appends records; each has a "step", by which a resumed run knows what it will write again.

    >>> import tempfile
    >>> log = MetricsLog(Path(tempfile.mkdtemp()) / "metrics.jsonl")
    >>> log.append({"step": 1, "loss": 2.5})
    >>> log.append({"step": 2, "loss": 2.0})
    >>> log.cut_after(1)
    >>> read_metrics(log.path)
    [{'step': 1, 'loss': 2.5}]
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def append(self, record: dict[str, Any]) -> None:
        """Add one line, at once on disk as far as a killed process is concerned."""
        if "step" not in record:
            raise InputError(f"a record of metrics must say its step: got the keys {sorted(record)}.")
        line = json.dumps(record, ensure_ascii=False, allow_nan=False) + "\n"
        with explained_write(self.path, len(line)), open(self.path, "a", encoding="utf-8") as file:
            file.write(line)

    def cut_after(self, step: int) -> None:
        """Forget what was logged after `step`, and a last line that was cut short."""
        if not self.path.exists():
            return
        kept = [json.dumps(record, ensure_ascii=False) for record in read_metrics(self.path) if record["step"] <= step]
        write_atomically(self.path, "".join(line + "\n" for line in kept).encode())


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """The records of a metrics file; a last line without its end, of a killed run, is left out."""
    if not path.exists():
        return []
    text = path.read_text(encoding="utf-8", errors="replace")
    lines = text.split("\n")[:-1]  # not splitlines, which ends lines at characters that JSON has inside of texts
    records = []
    for number, line in enumerate(lines, start=1):
        try:
            record = json.loads(line)
            records.append({**record, "step": int(record["step"])})
        except (json.JSONDecodeError, KeyError, OverflowError, TypeError, ValueError) as error:
            raise InputError(
                f"{path}, line {number}, must be a JSON object with a step: {error}. Delete that line to go on."
            ) from error
    return records
