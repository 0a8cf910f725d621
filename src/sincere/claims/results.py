"""Kept results → the table that the README and the docs show."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from sincere.claims.record import ClaimResult, Form
from sincere.claims.registry import CLAIMS
from sincere.claims.reproduce import Kept
from sincere.errors import InputError

FORMS: tuple[Form, ...] = ("full", "fast", "quick")  # what says more comes first


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


def markdown_table(results: dict[int, ClaimResult]) -> str:
    """One row a claim: what the paper says, what came out, the verdict."""
    lines = ["| | claim | paper | ours | verdict |", "|---|---|---|---|---|"]
    for claim in CLAIMS:
        result = results.get(claim.number)
        ours, verdict = ("not run yet", "–") if result is None else (_ours(result), _verdict(result))
        cells = (str(claim.number), f"`{claim.name}`: {claim.statement}", claim.paper, ours, verdict)
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines)


def _ours(result: ClaimResult) -> str:
    first = result.measured[:3]
    return "; ".join(f"{one.what} {one}" + (f", n = {one.n}" if one.n else "") for one in first)


def _verdict(result: ClaimResult) -> str:
    size = "" if result.form == "full" else f" ({result.form} form)"
    return f"**{result.verdict}**{size}"


def listing(results: dict[int, ClaimResult]) -> Iterator[str]:
    """For a terminal: number, name, verdict, statement."""
    width = max((len(claim.name) for claim in CLAIMS), default=0)
    yield f" #  {'name':<{width}}  {'kept result':<21} claim"
    for claim in CLAIMS:
        result = results.get(claim.number)
        verdict = "–" if result is None else f"{result.verdict}, {result.form}"
        yield f"{claim.number:>2}  {claim.name:<{width}}  {verdict:<21} {claim.statement}"
    if not results:
        yield "\nNo result is kept here. To run a claim: sincere reproduce NAME"


def counts(results: Iterable[ClaimResult]) -> dict[str, int]:
    """How many claims came to each verdict."""
    found: dict[str, int] = {}
    for result in results:
        found[result.verdict] = found.get(result.verdict, 0) + 1
    return found
