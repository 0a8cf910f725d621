"""A table's label column, and what is to be learned from: one column of text, or numbers."""

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from sincere.data.class_folders import OF_FILES
from sincere.data.label_names import LABEL_NAMES, check_one_label, telling_note
from sincere.data.options import Settings
from sincere.data.ready import Ready, features_from, lost_digits
from sincere.data.samples import UNLABELLED, Found, Note, listed, number_classes
from sincere.data.tables import Table
from sincere.data.texts import texts_from
from sincere.errors import InputError

# Not `title` or `name`: houses, films and books have one beside what there is to learn.
TEXT_NAMES = ("text", "sentence", "question", "utterance", "query", "content", "review", "document", "message")
INDEX_NAMES = frozenset({"id", "index", "row", "unnamed: 0", ""})  # the last two are pandas' and R's
Numbers = npt.NDArray[np.float64]
SHOWN_COLUMNS = 6  # of a row, where a person wants to see it
FRACTION = re.compile(r"[+-]?\d*\.\d+")
WORDS_OF_A_NAME = 3  # of a column; more are rather a sentence
COMMA = re.compile(r"[+-]?\d*,\d+(e[+-]?\d+)?", re.IGNORECASE)  # a number as much of Europe writes it
JOINED = "|;,"  # signs that people put between the labels of a sample that has several
MISSING = frozenset({"", "na", "n/a", "nan", "null", "none", "?"})
TRUTH = {"true": 1.0, "false": 0.0}  # how pandas, R and SQL write a column of truth values
COUNTED = 10  # rows; fewer may be in that order by chance
NEARLY_ALL = 0.9  # of a column's values; a few may be missing or misspelt
TO_FOLDERS = (
    "Images and sound are read from files: sort them into a folder with a sub-folder per class (cat/1.png, dog/2.png), "
    "and name that folder."
)


def read_tabular(table: Table, settings: Settings) -> Found:
    """Texts or features of a table."""
    label_column = _label_column(table, settings)
    labels, notes = _labels(table, label_column, optional=settings.labels == "optional")
    others = {name: _numbers(values) for name, values in table.columns.items() if name != label_column}
    text_column = _text_column(table, others, settings)
    if text_column is not None:
        texts = texts_from(_texts(table, text_column), labels, table.lines, str(table.path))
        texts = replace(texts, notes=_left_out(table, others, text_column, settings))
        if label_column is None and _is_like_data(text_column):
            notes.append(
                f"the first line of {table.path} is taken for the names of its columns, and {text_column!r} for no "
                "sample. If it is one, put a name above it."
            )
        return Found(table.path.stem, texts, notes=tuple(notes))
    check_one_label(table, label_column, settings)
    columns = {}
    for name, numbers in others.items():
        if numbers is None:
            _check_no_files(table, name)
            or_classes = f", or name it as the classes: label_column={name!r}" if label_column is None else ""
            raise InputError(f"{_not_a_number(table, name).removesuffix('.')}{or_classes}.")
        columns[name] = numbers
    notes += telling_note(table, columns, labels)
    return Found(table.path.stem, _features(table, columns, labels), notes=tuple(notes))


def _features(table: Table, columns: Mapping[str, Numbers], labels: Sequence[str]) -> Ready:
    notes = {name: Note(f"column {name!r} of {table.path} only numbers the rows, and was left out") for name in columns}
    starts = {name: _first_number(table, name) for name in columns}
    indexes = {name: note for name, note in notes.items() if starts[name] in (0, 1)}
    going_on = {name: note for name, note in notes.items() if starts[name] not in (0, 1, None)}
    whole = {name: n for name, n in columns.items() if name not in indexes or np.isfinite(n).all()}
    learned = {name: numbers for name, numbers in whole.items() if name not in indexes}
    what = f"features of {table.path}"
    features = features_from(np.stack(list((whole or columns).values()), axis=1), what, tuple(whole), table.lines)
    refused = (
        lost_digits(learned, what)
        if learned
        else f"{table.path} must have something to learn from beside labels and numbers of rows."
    )
    shown = _rows_in_words(learned or whole)
    return Ready(features, number_classes(labels), "array", shown, tuple(whole), indexes, going_on, refused)


def _rows_in_words(columns: Mapping[str, Numbers]) -> tuple[str, ...]:
    """The beginning of each row with the names of its columns."""
    first = dict(list(columns.items())[:SHOWN_COLUMNS])
    more = f", … ({len(columns)} columns)" if len(columns) > len(first) else ""
    return tuple(
        ", ".join(f"{name} = {value:.6g}" for name, value in zip(first, row, strict=True)) + more
        for row in zip(*(numbers.tolist() for numbers in first.values()), strict=True)
    )


def _named(names: Sequence[str], columns: Sequence[str]) -> str | None:
    """The first of `names` that is a column, in any case."""
    lower = {column.lower(): column for column in reversed(columns)}
    return next((lower[name] for name in names if name in lower), None)


def _is_like_data(name: str) -> bool:
    """Whether a column's name is a number or a sentence, as in a table without a line of names."""
    return FRACTION.fullmatch(name) is not None or len(name.split()) > WORDS_OF_A_NAME


def _label_column(table: Table, settings: Settings) -> str | None:
    """The column with the classes; None where there is none and none is needed."""
    columns = list(table.columns)
    wanted = settings.label_column
    column = wanted if wanted in columns else None if wanted else _named(LABEL_NAMES, columns)
    if column is None and settings.labels == "optional":
        return None
    if column is None:
        expected = f"a column {wanted!r}" if wanted else f"a label column, named {', '.join(LABEL_NAMES)}"
        is_like_data = any(_is_like_data(name) or name in values for name, values in table.columns.items())
        or_data = " If its first line is data, put names above it." if is_like_data else ""
        raise InputError(
            f"{table.path} must have {expected}: its columns are {listed([repr(name) for name in columns])}. "
            f"Name the one with the classes: label_column='…'.{or_data}"
        )
    if len(columns) == 1:
        raise InputError(f"{table.path} must have something to learn from beside its labels: it only has {column!r}.")
    return column


def _labels(table: Table, column: str | None, *, optional: bool) -> tuple[list[str], list[str]]:
    """The class of each row, and notes."""
    if column is None:
        note = f"{table.path} has no label column that is known: its rows are of one class, {UNLABELLED!r}. "
        return [UNLABELLED] * len(table.lines), [
            note + "If one of its columns has the labels, name it: label_column='…'."
        ]
    for line, value in zip(table.lines, table.columns[column], strict=True):
        if isinstance(value, (list, dict)):
            raise InputError(
                f"every row of {table.path} must have one class in {column!r}: line {line} holds a "
                f"{type(value).__name__}, {str(value)[:40]}. Save one class a row, as text or a whole number."
            )
    labels = [_label(value) for value in table.columns[column]]
    if optional and (without := labels.count("")):
        few = f"{without:,} of {len(labels):,} rows of {table.path} have no label in {column!r}"
        labels = [label or UNLABELLED for label in labels]
        return labels, [f"{few}: they are of one class, {UNLABELLED!r}.", *_combined(labels, column, table)]
    if missing := [line for line, label in zip(table.lines, labels, strict=True) if not label]:
        raise InputError(
            f"every row of {table.path} must have a label in {column!r}: {len(missing):,} of {len(labels):,} have none "
            f"(lines {listed(missing, 5)}). Fill or remove them."
        )
    return labels, _combined(labels, column, table)


def _combined(labels: Sequence[str], column: str, table: Table) -> list[str]:
    """A note where labels look like several classes in one: `a|b` beside `a` and `b`, or beside `a|c` and `b|c`."""
    classes = set(labels)
    for sign in JOINED:
        parts = {label: {part.strip() for part in label.split(sign)} for label in classes}
        among = Counter(part for found in parts.values() for part in found)  # of how many classes is it a part?
        joined = [c for c, found in parts.items() if len(found) > 1 and all(part and among[part] > 1 for part in found)]
        if joined:
            rows = sum(label in joined for label in labels)
            return [
                f"{rows:,} of {len(labels):,} labels in {column!r} of {table.path} look like several classes in one, "
                f"as {min(joined)!r} does: each such combination is taken as a class of its own."
            ]
    return []


def _label(value: object) -> str:
    """A class as text; 3.0 is class 3, as some writers know no integers, and Parquet's bytes are UTF-8."""
    if isinstance(value, bytes):
        value = value.decode("utf-8", "backslashreplace")
    if isinstance(value, float):
        return "" if math.isnan(value) else str(int(value)) if value.is_integer() else str(value)
    return "" if value is None else str(value).strip()


def _text_column(table: Table, others: Mapping[str, Numbers | None], settings: Settings) -> str | None:
    """The column with text, or None if the table holds numbers."""
    if settings.kind not in (None, "text", "array"):
        raise InputError(
            f"a table holds text or arrays of numbers: got kind={settings.kind!r}, {table.path}. {TO_FOLDERS}"
        )
    if settings.kind == "array":
        return None
    named = ", ".join(map(repr, others))
    if settings.input_column is not None:
        if settings.input_column not in others:
            raise InputError(
                f"{table.path} must have a column {settings.input_column!r} beside its labels: it has {named}."
            )
        return settings.input_column
    beside = [name for name in others if not _counts_rows(table, name)] or list(others)
    words = [name for name in beside if others[name] is None]
    # A column of single words beside columns of numbers is a category among features, unless text was asked for.
    are_features = settings.kind is None and len(words) < len(beside)
    usual = _usual_text(table, words)
    if usual is not None and (not are_features or _is_prose(table, usual)):
        return usual
    if settings.kind is None and words and all(COMMA.fullmatch(str(table.columns[name][0]).strip()) for name in words):
        raise InputError(_not_a_number(table, words[0]))  # a decimal comma makes no words of numbers
    if len(beside) == 1 and (words or settings.kind == "text"):
        return beside[0]
    if settings.kind == "text" and len(words) == 1:
        return words[0]
    if are_features:
        return None
    raise InputError(
        f"{table.path} must have one column of text, named {', '.join(TEXT_NAMES)}: it has {named}. "
        "Name it: input_column='…'. To learn from several, join them in one column first."
    )


def _usual_text(table: Table, words: Sequence[str]) -> str | None:
    """The column of words that has a usual name; of several, the one with more than single words."""
    usual = [name for name in words if name.lower() in TEXT_NAMES]
    prose = [name for name in usual if _is_prose(table, name)] if len(usual) > 1 else []
    likely = prose or usual
    if len(likely) > 1:
        raise InputError(
            f"{table.path} must have one column of text: {' and '.join(map(repr, likely))} all look like it. Name the "
            "one to learn from: input_column='…'. To learn from several, join them in one column first."
        )
    return likely[0] if likely else None


def _is_prose(table: Table, column: str) -> bool:
    """Whether a column is called `text`, or most of its values have more than one word."""
    values = table.columns[column]
    return column.lower() == "text" or 2 * sum(len(str(value).split(None, 1)) > 1 for value in values) > len(values)


def _left_out(table: Table, others: Iterable[str], column: str, settings: Settings) -> tuple[Note, ...]:
    """A note on the columns beside a text that the user did not name; nobody misses numbers of rows."""
    left = [name for name in others if name != column and not _counts_rows(table, name)]
    if not left or settings.input_column is not None:
        return ()
    advice = "the option input_column chooses another column"
    if settings.label_column is None and any(name.lower() in LABEL_NAMES for name in left):
        advice += ", the option label_column other classes"
    names = listed([repr(name) for name in left], SHOWN_COLUMNS)
    return (Note(f"only column {column!r} of {table.path} is read as text, and not {names}", advice),)


def _check_no_files(table: Table, column: str) -> None:
    """Refuse names of files: as texts they tell the class where it is part of the name, and nothing of the files."""
    values = table.columns[column]
    files = [name for value in values if (name := str(value).strip()).lower().endswith(OF_FILES)]
    if len(files) >= NEARLY_ALL * len(values):
        raise InputError(
            f"a table must hold its samples, not names of files: {len(files):,} of {len(values):,} values in "
            f"{column!r} of {table.path} are such names, as {files[0][:40]!r} is. {TO_FOLDERS}"
        )


def _texts(table: Table, column: str) -> list[str]:
    _check_no_files(table, column)
    values = table.columns[column]
    for line, value in zip(table.lines, values, strict=True):
        if not isinstance(value, (str, int, float, type(None))):
            raise InputError(
                f"column {column!r} of {table.path} must hold text: line {line} holds a {type(value).__name__}. Save "
                "it as text, or lists of numbers as a column for each."
            )
    return ["" if value is None else str(value) for value in values]


def _numbers(values: Sequence[object]) -> Numbers | None:
    """A column as numbers, NaN where one is missing; None where it holds something else."""
    try:
        return np.fromiter(map(float, values), np.float64, len(values))  # type: ignore[arg-type]
    except (ValueError, TypeError, OverflowError):
        numbers = [_number(value) for value in values]
        return None if None in numbers else np.array(numbers, np.float64)


def _number(value: object) -> float | None:
    word = value.strip().lower() if isinstance(value, str) else None
    if value is None or word in MISSING:
        return math.nan
    if word in TRUTH:
        return TRUTH[word]
    try:
        return float(value)  # type: ignore[arg-type]
    except OverflowError:  # a whole number of hundreds of digits, refused as one that is not finite
        return math.inf
    except (TypeError, ValueError):
        return None


def _counts_rows(table: Table, name: str) -> bool:
    return _first_number(table, name) in (0, 1)


def _first_number(table: Table, name: str) -> float | None:
    """At which number a column begins to count the rows; None if it does not.

    From 0 or 1 on it is an index: learned from, it would tell the class of data that is sorted by class. A column of a
    usual name counts as one if no value comes twice. One that begins elsewhere may be a feature, such as a year; or
    the index of a test table, which goes on where that of the training table ended.
    """
    values, rows = table.columns[name], len(table.lines)
    if name.lower() in INDEX_NAMES:
        return 0 if len(set(map(str, values))) == rows else None
    first = _number(values[0])
    if rows < COUNTED or first is None or not first.is_integer():
        return None
    return first if all(_number(value) == first + place for place, value in enumerate(values)) else None


def _not_a_number(table: Table, name: str) -> str:
    line, value = next(
        (line, value) for line, value in zip(table.lines, table.columns[name], strict=True) if _number(value) is None
    )
    if COMMA.fullmatch(str(value).strip()):  # not read as a number: 1,234 may be one or a thousand times that
        return (
            f"numbers of {table.path} must have a decimal point: column {name!r} holds {value!r} in line {line}. Save "
            "the table with points in place of commas, and without commas between thousands."
        )
    return (
        f"column {name!r} of {table.path} must hold numbers: line {line} holds {str(value)[:40]!r}. Remove the column, "
        f"replace its words by numbers, or learn from it as text: input_column={name!r}."
    )
