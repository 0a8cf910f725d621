"""Kept results → the table that the README and the docs show."""

from collections.abc import Iterable, Iterator
from itertools import zip_longest
from pathlib import Path
from textwrap import wrap

from sincere.claims.claim import Claim
from sincere.claims.record import ClaimResult, Form, Measured
from sincere.claims.registry import CLAIMS
from sincere.claims.reproduce import Kept
from sincere.errors import InputError

FORMS: tuple[Form, ...] = ("full", "fast", "quick")  # what says more comes first
LEAST = 24  # columns of a statement, however narrow the terminal


def kept_results(out: str | Path) -> dict[int, ClaimResult]:
    """The best result of each claim that a folder holds: the full form's, else the fast one's, else the quick one's."""
    return {number: forms[0] for number, forms in kept_forms(out).items()}


def kept_forms(out: str | Path) -> dict[int, list[ClaimResult]]:
    """Every form of each claim that a folder holds a result of, the one that says most first."""
    found: dict[int, list[ClaimResult]] = {}
    for claim in CLAIMS:
        for form in FORMS:
            place = Kept(Path(out) / claim.name, form)
            if place.result.exists():
                found.setdefault(claim.number, []).append(_read(place.result, claim.name, form))
    return found


def _read(path: Path, name: str, form: Form) -> ClaimResult:
    """The result in a file, which says of itself that it is the one of its place."""
    try:
        result = ClaimResult.from_json(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, InputError) as error:
        why = str(error).removesuffix(".")
        raise InputError(f"{path} is no result that can be read: {why}. If it is of no use, delete it.") from error
    if (result.name, result.form) != (name, form):
        raise InputError(
            f"{path} must hold the {form} form of {name}: it holds the {result.form} form of {result.name}. "
            "Put it back where it belongs, or delete it."
        )
    return result


def markdown_table(results: dict[int, ClaimResult], *, page: str | None = None) -> str:
    """One row a claim: what the paper says, the one or two figures of ours that decide, the paper's, the verdict.

    page: where each claim has a section of its name, for links to these; "" for the page of the table itself.
    """
    lines = ["| | claim | ours | the paper | verdict |", "|---|---|---|---|---|"]
    for claim in CLAIMS:
        result = results.get(claim.number)
        said = f"{claim.statement} (`{claim.name}`)" if page is None else f"[{claim.statement}]({page}#{claim.name})"
        cells = (str(claim.number), said, *_figures(claim, result), "–" if result is None else _verdict(result))
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines)


def _figures(claim: Claim, result: ClaimResult | None) -> tuple[str, str]:
    """Ours, and the paper's for the same."""
    if result is None:
        return "not run yet", "–"
    told = claim.told_by(result.measured)
    papers = dict.fromkeys(one.paper for one in told if one.paper)  # each once
    return "<br>".join(map(_figure, told)) or "–", "<br>".join(papers) or "–"


def _figure(one: Measured) -> str:
    what, value, interval = one.at_a_glance
    return f"{what} **{value}**" + (f" ({interval})" if interval else "")


def _verdict(result: ClaimResult) -> str:
    size = "" if result.form == "full" else f" ({result.form} form)"
    return f"**{result.verdict}**{size}"


def listing(results: dict[int, ClaimResult], *, width: int | None = None) -> Iterator[str]:
    """For a terminal: number, name, verdict, statement; a line a claim, or within so many columns."""
    name_width = max((len(claim.name) for claim in CLAIMS), default=0)
    if width is None:
        yield f" #  {'name':<{name_width}}  {'kept result':<21} claim"
    for claim in CLAIMS:
        result = results.get(claim.number)
        verdict = "–" if result is None else f"{result.verdict}, {result.form}"
        first = f"{claim.number:>2}  {claim.name:<{name_width}}  "
        if width is None:
            yield f"{first}{verdict:<21} {claim.statement}"
        else:
            yield from _beside(first, f"    {verdict:<{name_width}}  ", claim.statement, width)
    if not results:
        yield "\nNo result is kept here. To run a claim: sincere reproduce NAME"


def _beside(first: str, second: str, words: str, width: int) -> Iterator[str]:
    """Words to the right of two short lines, in as many lines as they take."""
    lines = wrap(words, max(width - len(first), LEAST))
    for left, right in zip_longest((first, second), lines, fillvalue=""):
        yield f"{left or ' ' * len(first)}{right}".rstrip()


def counts(results: Iterable[ClaimResult]) -> dict[str, int]:
    """How many claims came to each verdict."""
    found: dict[str, int] = {}
    for result in results:
        found[result.verdict] = found.get(result.verdict, 0) + 1
    return found
