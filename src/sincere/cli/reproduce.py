"""`sincere reproduce`."""

import sys
from pathlib import Path
from shutil import get_terminal_size
from typing import Annotated, Any

import typer

from sincere.claims import CLAIMS, Claim, ClaimResult, kept_results, listing, markdown_table, reproduce
from sincere.claims.laboratory import StoppedError
from sincere.claims.record import Form
from sincere.cli import options
from sincere.cli.output import say, tell, tell_json
from sincere.errors import OptionError

Name = Annotated[
    str | None,
    typer.Argument(metavar="CLAIM", help="Its name or number; without one, the list of all.", show_default=False),
]
Full = Annotated[bool, typer.Option("--full", help="At the paper's size: real data, and a GPU where it trains.")]
Fast = Annotated[
    bool, typer.Option("--fast", help="Claims on CIFAR: real images, a small network, three seeds; minutes of a GPU.")
]
Out = Annotated[Path, typer.Option("--out", help="Where results are kept.")]
Runs = Annotated[Path | None, typer.Option("--runs", help="Where trained models are kept; OUT/runs unless given.")]
Data = Annotated[
    list[str] | None,
    typer.Option("--data", metavar="NAME=PATH", help="Where a data set is, for fast and full forms: cifar10=PATH."),
]
Seed = Annotated[int, typer.Option("--seed", help="Random seed.")]
Table = Annotated[bool, typer.Option("--table", help="Print the kept results as a Markdown table.")]


def reproduce_claim(
    claim: Name = None,
    full: Full = False,
    fast: Fast = False,
    out: Out = Path("reproduce"),
    runs: Runs = None,
    data: Data = None,
    seed: Seed = 0,
    table: Table = False,
    json: options.Json = False,
) -> None:
    """Run a claim of the papers and say whether it holds: the paper's figure, ours with its interval, a verdict.

    Results are kept in OUT/CLAIM as JSON, with a picture and its data.
    """
    check_meant(claim, full=full, fast=fast, runs=runs, data=data, seed=seed or None, table=table)
    if claim is None:
        kept = kept_results(out)
        if json:
            tell_json([_entry(one, kept.get(one.number)) for one in CLAIMS])
        else:
            tell(markdown_table(kept) if table else "\n".join(listing(kept, width=_columns())))
        return
    form: Form = "full" if full else "fast" if fast else "quick"
    try:
        result = reproduce(claim, form=form, out=out, runs=runs, data=places_of(data or []), seed=seed, say=say)
    except StoppedError as error:
        say(f"error: {error}")
        raise typer.Exit(error.exit_code) from error
    tell_json(result.to_json()) if json else tell(str(result))
    kept_in = out / result.name
    say(f"Kept in {kept_in}: {', '.join(sorted(path.name for path in kept_in.glob(f'{form}.*')))}")


def _columns() -> int | None:
    """Of the terminal; None where a file or another program reads, for which a claim is a line."""
    return get_terminal_size().columns if sys.stdout.isatty() else None


def _entry(claim: Claim, kept: ClaimResult | None) -> dict[str, Any]:
    """A claim in the list for programs: with what came out, or None for its verdict where it was not run."""
    if kept is not None:
        return kept.__dict__ | {"measured": [one.__dict__ for one in kept.measured]}
    known = {name: getattr(claim, name) for name in ("number", "name", "source", "statement", "paper")}
    return {**known, "form": None, "verdict": None, "measured": []}


def check_meant(claim: str | None, *, table: bool, **of_a_claim: object) -> None:
    """Refuse what says nothing of a claim that is run, or of the list of all."""
    if claim is not None and table:
        raise OptionError("--table prints the list of all claims: leave out CLAIM, or --table.")
    given = [f"--{name}" for name, value in of_a_claim.items() if value]
    if claim is None and given:
        raise OptionError(f"{given[0]} belongs to a claim that is run: name it, as in sincere reproduce gradient.")
    if of_a_claim["full"] and of_a_claim["fast"]:
        raise OptionError("--full and --fast are two forms of a claim: give one of them.")


def places_of(given: list[str]) -> dict[str, str]:
    """Paths by the names of their data sets, as they were typed."""
    found = {}
    for one in given:
        name, mark, path = one.partition("=")
        if not (name and mark and path):
            raise OptionError(f"--data must be NAME=PATH, as in cifar10=cifar-10-python.tar.gz: got {one!r}.")
        found[name] = path
    return found
