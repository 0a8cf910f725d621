"""Numbers and tables for a reader."""

import csv
import io
from collections.abc import Iterable, Sequence


def amount(number: int, one: str, many: str | None = None) -> str:
    """A number with its noun.

    >>> amount(1, "class", "classes"), amount(1200, "class", "classes"), amount(2, "sample")
    ('1 class', '1,200 classes', '2 samples')
    """
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def such_as(names: Sequence[str]) -> str:
    """The first of the names that a count is of; if it is the only one, it is no example.

    >>> such_as(["cat"]), such_as(["cat", "dog"])
    (": 'cat'", ", such as 'cat'")
    """
    return f"{':' if len(names) == 1 else ', such as'} {names[0]!r}"


def columns(rows: Sequence[Sequence[str]]) -> list[str]:
    r"""Cells padded to columns, the first to the left and the rest to the right.

    >>> print("\n".join(columns([("loss", "value"), ("sincere", "4.47")])))
    loss     value
    sincere   4.47
    """
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    return [
        "  ".join(
            cell.ljust(width) if place == 0 else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def csv_text(rows: Iterable[Iterable[object]]) -> str:
    r"""Rows as comma-separated values.

    >>> csv_text([("class", "n"), ("a, b", 2)])
    'class,n\n"a, b",2\n'
    """
    kept = [list(row) for row in rows]
    # Until Python 3.13 a lone "\r" in a text is quoted only if it ends lines as well, and readers end a row at it.
    broken = any("\r" in str(cell) for row in kept for cell in row)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC if broken else csv.QUOTE_MINIMAL)
    writer.writerows(kept)
    return text.getvalue()
