"""Write docs/claims.md and the README's table from the results that are kept here. Nothing in them is typed by hand.

python reproduce/write_pages.py          # after `sincere reproduce CLAIM`
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sincere.claims import CLAIMS, Claim, ClaimResult
from sincere.claims.reproduce import Kept
from sincere.claims.results import counts, kept_forms, markdown_table

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import full_runs

README, PAGE = HERE.parent / "README.md", HERE.parent / "docs" / "claims.md"
START, END = "<!-- claims: start, written by reproduce/write_pages.py -->", "<!-- claims: end -->"
INTRODUCTION = """# The papers' claims, one by one

<!-- Written by reproduce/write_pages.py from the results in reproduce/: edit those, not this page. -->

`sincere reproduce` lists every claim, and `sincere reproduce NAME` runs one: it gives the paper's figure, ours with
its interval and n, and a verdict by criteria that the result states. Each claim has up to three forms. The quick form
needs two cores and about three minutes; where the paper trains on CIFAR, it trains on scikit-learn's digits. `--fast`
trains on the real CIFAR images with the paper's settings, but a short network, 40 epochs and three seeds, in less
than a minute of a GPU a run. `--full` has the paper's data and sizes, apart from a ResNet-18 for the SINCERE paper's
ResNet-50, a fifth of the steps of claims 21 and 22, and points where claim 23 is not given images; each result says
what was run. The page shows the largest form that was run, and below it the fast one where there is a larger one: a
claim that holds on CIFAR need not hold on digits or after 40 epochs, nor the other way round. Questions that the papers
leave open are *answered*, not reproduced.

The table has the one or two figures that say most about each claim, with their 95 % intervals, beside the paper's for
the same. All others, and the criteria of the verdict, are in the claim's section.
"""


def main() -> None:
    forms = kept_forms(HERE)
    results = {number: found[0] for number, found in forms.items()}
    PAGE.write_text(page(forms), encoding="utf-8")
    README.write_text(with_table(README.read_text(encoding="utf-8"), results), encoding="utf-8")


def with_table(text: str, results: dict[int, ClaimResult]) -> str:
    """The README with the newest table between its markers."""
    before, _, rest = text.partition(START)
    after = rest.partition(END)[2]
    return f"{before}{START}\n\n{summary(results)}\n\n{END}{after}"


def summary(results: dict[int, ClaimResult]) -> str:
    """How many of each verdict, and a line a claim."""
    found = counts(results.values())
    told = ", ".join(f"{number} {verdict}" for verdict, number in sorted(found.items(), key=lambda item: -item[1]))
    full = sum(result.form == "full" for result in results.values())
    rows = [
        f"| {one.number} | [{in_cell(one.statement)}](docs/claims.md#{one.name}) | {verdict(results.get(one.number))} |"
        for one in CLAIMS
    ]
    return "\n".join(
        [
            f"Of {len(CLAIMS)} claims and open questions {len(results)} have been run, {full} of them in the full "
            f"form: {told}.",
            "",
            "<details><summary>All of them</summary>",
            "",
            "| | claim | verdict |",
            "|---|---|---|",
            *rows,
            "",
            "</details>",
        ]
    )


def verdict(result: ClaimResult | None) -> str:
    if result is None:
        return "not run yet"
    return result.verdict if result.form == "full" else f"{result.verdict}, {result.form} form"


def page(forms: dict[int, list[ClaimResult]]) -> str:
    results = {number: found[0] for number, found in forms.items()}
    sections = [line for claim in CLAIMS for line in section(claim, forms.get(claim.number, []))]
    return "\n".join([INTRODUCTION, markdown_table(results, page=""), "", *sections, *full_runs.section(CLAIMS)])


def section(claim: Claim, forms: list[ClaimResult]) -> Iterator[str]:
    """One claim: what it says, and what came out of the largest form; of the fast form, too, if there is a larger one,
    because it has real images where the larger one may have none, and more seeds."""
    yield f"## {claim.name}"
    yield f"\n**Claim {claim.number}.** {capital(claim.statement)} ({claim.source}). Paper: {claim.paper}.\n"
    if not forms:
        yield "Not run yet.\n"
        return
    yield from outcome(claim, forms[0])
    if so_far := full_runs.told(claim):
        yield f"{so_far}\n"
    for other in forms[1:]:
        if other.form == "fast":
            yield from outcome(claim, other)


def outcome(claim: Claim, result: ClaimResult) -> Iterator[str]:
    """The verdict of a form with its criteria, every figure, the picture, and where it came from."""
    yield f"**{capital(result.form)} form: {result.verdict}.** {result.reason} {capital(result.setting)}.\n"
    yield from figures(result)
    picture = Kept(HERE / claim.name, result.form).picture
    if picture.exists():
        yield f"![{claim.statement}](../reproduce/{claim.name}/{picture.name})\n"
    yield f"{provenance(result)}\n"


def figures(result: ClaimResult) -> Iterator[str]:
    """A table of them, without columns in which nothing stands."""
    rows = [(one.what, str(one), one.n or "", one.paper or "") for one in result.measured]
    columns = [place for place in range(4) if place < 2 or any(row[place] for row in rows)]
    yield "| " + " | ".join(("ours", "", "n", "paper")[place] for place in columns) + " |"
    yield "|---" * len(columns) + "|"
    for row in rows:
        yield "| " + " | ".join(in_cell(row[place]) for place in columns) + " |"
    yield ""


def capital(words: str) -> str:
    """A formula at the beginning stays as it is."""
    return words if "|" in words.split()[0] else words[0].upper() + words[1:]


def in_cell(text: str) -> str:
    return text.replace("|", "\\|")


def provenance(result: ClaimResult) -> str:
    found = result.provenance
    machine = ", ".join(found["hardware"].get("gpus", [])) or f"CPU, {found['hardware']['threads']} thread(s)"
    commit = (found.get("sincere_commit") or found.get("commit") or "unknown")[:9]
    return (
        f"`{found['command']}`, seed {found['seed']}, {result.seconds:.0f} s, {machine}, "
        f"torch {found['versions']['torch']}, commit {commit}, {found['started'][:10]}.{of_runs(found.get('runs'))}"
    )


def of_runs(found: dict[str, Any] | None) -> str:
    """Where the runs were trained that the claim found there already."""
    if found is None:
        return ""
    places = [
        f"{one['machine']}, torch {one['torch']}, commit {one['commit'][:9]}, {one['last'][:10]}"
        for one in found["trained_on"]
    ]
    return f" Its {found['count']} runs were trained before, {found['seconds']:,.0f} s in all: {'; '.join(places)}."


if __name__ == "__main__":
    main()
