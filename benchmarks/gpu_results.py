"""The file that holds every run on a GPU: rows are added to it and never taken away."""

import csv
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

Row = dict[str, str]
COLUMNS = (
    "run", "scope", "table", "candidate", "n", "d", "classes", "dtype", "matmul_precision", "temperature", "steps",
    "ms", "p20", "p80", "extra_MiB", "TFLOP/s", "share_of_floor",
    "gpu", "torch", "triton", "cuda", "commit", "date", "seed",
)  # fmt: skip
FULL = "full"  # the scope of a run that left nothing out


def read(path: Path) -> list[Row]:
    """Every row, with all columns; what an older program did not write is empty."""
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return [complete(row) for row in csv.DictReader(file)]


def complete(row: Mapping[str, object]) -> Row:
    unknown = set(row) - set(COLUMNS)
    if unknown:
        raise ValueError(f"a row may have the columns of gpu_results.COLUMNS: got also {', '.join(sorted(unknown))}")
    return {name: "" if row.get(name) is None else str(row[name]) for name in COLUMNS}


def append(path: Path, rows: Iterable[Mapping[str, object]]) -> int:
    """Add the rows that are not there yet, and say how many; a file with older columns is written anew with all."""
    old = read(path)
    there = {tuple(row.values()) for row in old}
    new = [row for row in map(complete, rows) if tuple(row.values()) not in there]
    if old and _header(path) == list(COLUMNS):
        with path.open("a", newline="") as file:
            csv.DictWriter(file, COLUMNS, lineterminator="\n").writerows(new)
    else:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(old + new)
    return len(new)


def newest_run(rows: Sequence[Row]) -> list[Row]:
    """The last run that left nothing out; without one, the last of all. Rows without a run are the oldest."""
    whole = [row["run"] for row in rows if row["scope"] == FULL]
    newest = max(whole or [row["run"] for row in rows], default="")
    return [row for row in rows if row["run"] == newest]


def newest_tables(rows: Sequence[Row]) -> list[Row]:
    """The newest run, but for tables that were run alone after it (`--only TABLE`), whose newest rows take their place.

    The main table stays that of the whole run: what it is compared with was timed beside it.
    """
    shown = newest_run(rows)
    for table in {row["table"] for row in shown} - {"main"}:
        alone = [row for row in rows if row["scope"] == f"only {table}" and row["run"] > shown[0]["run"]]
        if alone:
            last = max(row["run"] for row in alone)
            shown = [row for row in shown if row["table"] != table] + [row for row in alone if row["run"] == last]
    return shown


def _header(path: Path) -> list[str]:
    with path.open(newline="") as file:
        return next(csv.reader(file), [])
