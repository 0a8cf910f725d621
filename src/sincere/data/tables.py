"""Tables with named columns: CSV, JSON lines, Parquet."""

import codecs
import csv
import json
import re
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, TextIO

from sincere.data.columns import TextColumn
from sincere.data.options import Settings
from sincere.errors import InputError
from sincere.optional import bring
from sincere.tables import amount

UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)  # how a file of a spreadsheet's "Unicode text" begins
DELIMITERS = ",;\t|"
ROWS_AT_ONCE = 512  # of a CSV: as many at a time are lists of strings
LONGEST_FIELD = 2**31 - 1  # characters; csv's own limit, 131,072, is less than a long document has
# Where rows stood before they were shuffled or picked, which tells the class of data that was sorted by class.
PANDAS_INDEX = re.compile(r"__index_level_\d+__")
SUFFIXES = frozenset({".csv", ".tsv", ".jsonl", ".ndjson", ".parquet"})


@dataclass(frozen=True, eq=False)
class Table:
    """Columns of equal length.

    lines: where each row stands in the file, for messages.
    """

    path: Path
    columns: Mapping[str, Sequence[object]]
    lines: Sequence[int]

    def __post_init__(self) -> None:
        if not self.lines:
            raise InputError(f"{self.path} must hold at least one row of data: got none.")


def read_table(path: Path, settings: Settings) -> Table:
    """Read a table by the file's suffix."""
    if path.stat().st_size == 0:
        raise InputError(f"{path} is empty.")
    suffix = path.suffix.lower()
    if suffix == ".parquet":
        return _read_parquet(path)
    try:
        return (_read_csv if suffix in (".csv", ".tsv") else _read_json_lines)(path, settings.encoding)
    except UnicodeError as error:
        with path.open("rb") as file:
            likely = "utf-16" if file.read(2) in UTF_16 else "latin-1"
        raise InputError(
            f"{path} must be {settings.encoding.removesuffix('-sig')} text: {error}. Save it as UTF-8, or name "
            f"its encoding: encoding={likely!r}."
        ) from error
    except LookupError as error:
        raise InputError(f"encoding must be one that Python knows: {error}.") from error


def _read_csv(path: Path, encoding: str) -> Table:
    with path.open(encoding=encoding, newline="") as file:
        opening = next((line for line in file if line.strip()), "")
        file.seek(0)
        delimiter = "\t" if path.suffix.lower() == ".tsv" else max(DELIMITERS, key=opening.count)
        rows = _csv_rows(file, delimiter, path)
        _, names = next(rows, (0, None))
        if names is None:
            raise InputError(f"{path} is empty.")
        header = [name.strip() for name in names]
        _check_header(header, path)
        columns, lines = [TextColumn(ROWS_AT_ONCE) for _ in header], array("q")
        while some := list(islice(rows, ROWS_AT_ONCE)):
            for line, row in some:
                if len(row) != len(header):
                    raise InputError(
                        f"{path} must have {amount(len(header), 'field')} in every row, as in its header "
                        f"({', '.join(header)}): line {line} has {len(row)}. Quote fields that hold a {delimiter!r}."
                    )
            lines.extend(line for line, _ in some)
            for column, texts in zip(columns, zip(*(row for _, row in some), strict=True), strict=True):
                column.append_piece(texts)
    return Table(path, dict(zip(header, columns, strict=True)), lines)


def _csv_rows(file: TextIO, delimiter: str, path: Path) -> Iterator[tuple[int, list[str]]]:
    """Rows with the line on which each ends; blank lines are none.

    Strict, since a quotation mark that nobody closes would otherwise swallow the rest of the file without a word.
    """
    reader = csv.reader(file, delimiter=delimiter, strict=True)
    usual = csv.field_size_limit(LONGEST_FIELD)
    begun = 1  # where a row begins: of one that a mark keeps open to the end of the file, only that tells the place
    try:
        for row in reader:
            if any(field.strip() for field in row):
                yield reader.line_num, row
            begun = reader.line_num + 1
    except csv.Error as error:
        raise InputError(
            f"{path} cannot be read as CSV: in the row that begins in line {begun}, a quotation mark opens a field and "
            f"does not close it ({error}). If the mark belongs to the text, quote the field and write it twice; "
            "otherwise close it."
        ) from error
    finally:
        csv.field_size_limit(usual)


def _check_header(header: Sequence[str], path: Path) -> None:
    if all(_is_number(name) for name in header):
        raise InputError(
            f"{path} must begin with a line of column names: its first line is {', '.join(header[:6])}. "
            "Put names above it, one of them 'label'."
        )
    _check_doubled(header, path)


def _check_doubled(header: Sequence[str], path: Path) -> None:
    if doubled := sorted({name for name in header if header.count(name) > 1}):
        raise InputError(f"{path} must have a different name for every column: {', '.join(doubled)} comes twice.")


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _read_json_lines(path: Path, encoding: str) -> Table:
    rows, lines = [], []
    with path.open(encoding=encoding) as file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except (ValueError, RecursionError) as error:  # numbers of thousands of digits, lists in lists in lists
                raise InputError(f"{path} must hold one JSON object a line: line {number}: {error}.") from error
            if not isinstance(row, dict):
                raise InputError(f"{path} must hold one JSON object a line: line {number} is a {type(row).__name__}.")
            rows.append(row)
            lines.append(number)
    names = list(dict.fromkeys(name for row in rows for name in row))
    # A key that a line lacks reads as null, and is refused where its column is used.
    return Table(path, {name: [row.get(name) for row in rows] for name in names}, lines)


def _read_parquet(path: Path) -> Table:
    parquet = bring("pyarrow.parquet", extra="parquet", purpose="reading Parquet files")
    try:
        with parquet.ParquetFile(path) as file:  # `read_table` fails on names that come twice, and does not say so
            table = file.read()
    except (OSError, ValueError) as error:  # pyarrow's own errors are both
        raise InputError(f"{path} cannot be read as Parquet: {error}.") from error
    _check_doubled(table.column_names, path)
    names = [name for name in table.column_names if not PANDAS_INDEX.fullmatch(name)]
    return Table(path, {name: _parquet_values(table.column(name)) for name in names}, range(1, table.num_rows + 1))


def _parquet_values(column: Any) -> list[object]:
    """The values as Python has them; as text where it has none, as for nanoseconds and the year 10000."""
    try:
        values: list[object] = column.to_pylist()
    except (ValueError, OverflowError):
        values = column.cast("string").to_pylist()
    return values
