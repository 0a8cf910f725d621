"""Pieces of HTML. Everything that comes from data goes through `text`, without exception."""

import json
from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

from sincere.checks import is_number
from sincere.report.picture import Cell, Picture
from sincere.report.svg import inlined
from sincere.report.verdict import SIGNS, WORDS, Verdict

MOST_ROWS = 200  # of a table under a picture; the CSV has them all


def text(value: object) -> str:
    """Data as text of a page, in an element or in a quoted attribute."""
    return escape(str(value), quote=True)


def json_island(name: str, value: Any) -> str:
    """Data for the page's script. No text within can end the element: `<` does not occur in it."""
    written = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for sign, code in (
        ("<", "\\u003c"),
        (">", "\\u003e"),
        ("&", "\\u0026"),
        ("\u2028", "\\u2028"),
        ("\u2029", "\\u2029"),
    ):
        written = written.replace(sign, code)
    return f'<script type="application/json" id="{text(name)}">{written}</script>'


def verdict_line(verdict: Verdict) -> str:
    """The sentence under a picture, its grade in front."""
    chip = f'<span class="grade {verdict.grade}"><span aria-hidden="true">{SIGNS[verdict.grade]}</span> '
    return (
        f'<p class="verdict">{chip}{WORDS[verdict.grade]}</span> {text(verdict.sentence).replace(" %", "&nbsp;%")}</p>'
    )


def table(columns: Sequence[str], rows: Iterable[Sequence[Cell]]) -> str:
    """A table that scrolls by itself where it is wide."""
    listed = list(rows)
    head = "".join(f'<th scope="col">{text(column)}</th>' for column in columns)
    body = "".join("<tr>" + "".join(_cell(cell) for cell in row) + "</tr>" for row in listed[:MOST_ROWS])
    left = len(listed) - MOST_ROWS
    more = f"<p class='note'>{left:,} more rows are in the CSV.</p>" if left > 0 else ""
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>{more}'


def figure(picture: Picture, svg: str, *, ident: str, files: str, extra: str = "") -> str:
    """A picture with its sentence, its figures, and where its files are."""
    links = " · ".join(f'<a href="{text(files)}.{ending}">{ending.upper()}</a>' for ending in ("png", "svg", "csv"))
    notes = "".join(f'<p class="note">{text(note)}</p>' for note in picture.notes)
    drawn = inlined(svg, prefix=ident, label=picture.alt)
    return (
        f'<figure id="{ident}"><figcaption><h3>{text(picture.title)}</h3></figcaption>'
        f'{extra}<div class="drawn{" still" if extra else ""}">{drawn}</div>'
        f"{verdict_line(picture.verdict)}{notes}"
        f'<details class="numbers"><summary>Numbers and files</summary>'
        f'{table(picture.table.columns, picture.table.rows)}<p class="note files">{links}</p></details></figure>'
    )


def _cell(cell: Cell) -> str:
    if not is_number(cell):
        return f"<td>{'–' if cell is None else text(cell)}</td>"
    shown = f"{cell:,}" if isinstance(cell, int) else f"{cell:.4g}"
    return f'<td class="number">{shown.replace("-", "−")}</td>'
