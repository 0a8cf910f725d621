"""Numbers and tables for a reader."""

from collections.abc import Sequence


def amount(number: int, one: str, many: str | None = None) -> str:
    """A number with its noun.

    >>> amount(1, "class", "classes"), amount(1200, "class", "classes"), amount(2, "sample")
    ('1 class', '1,200 classes', '2 samples')
    """
    return f"{number:,} {one if number == 1 else many or one + 's'}"


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
