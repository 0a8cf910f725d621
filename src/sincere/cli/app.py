"""All verbs, in the order in which people need them."""

import os
from typing import Annotated

import typer

from sincere import __version__
from sincere.cli.bench import bench
from sincere.cli.compare import compare_runs
from sincere.cli.demo import demo
from sincere.cli.embed import embed_data
from sincere.cli.evaluate import evaluate_run
from sincere.cli.export import export
from sincere.cli.help import Verb, Verbs, flowing
from sincere.cli.recipes import recipes
from sincere.cli.refusals import DEBUG, in_words
from sincere.cli.report import report_on
from sincere.cli.reproduce import reproduce_claim
from sincere.cli.train import train_model

app = typer.Typer(
    cls=Verbs,
    help="Supervised contrastive learning: from labelled data to an embedding model that you can trust.",
    epilog="Begin with:  sincere demo",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _tell_version(wanted: bool) -> None:
    if wanted:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def options(
    debug: Annotated[bool, typer.Option("--debug", help=f"Show where an error was raised; as does {DEBUG}=1.")] = False,
    version: Annotated[
        bool, typer.Option("--version", help="Say the version and leave.", callback=_tell_version, is_eager=True)
    ] = False,
) -> None:
    """Options before the verb."""
    if debug:
        os.environ[DEBUG] = "1"


for name, verb, example in (
    ("demo", demo, "sincere demo"),
    ("train", train_model, "sincere train letter.csv --loss sincere --epochs 40 --out runs/letter"),
    ("evaluate", evaluate_run, "sincere evaluate runs/letter"),
    ("compare", compare_runs, "sincere compare runs/letter runs/letter-supcon"),
    ("report", report_on, "sincere report runs/letter runs/letter-supcon"),
    ("embed", embed_data, "sincere embed runs/letter new.csv --out new.npz"),
    ("export", export, "sincere export runs/letter letter.onnx"),
    ("bench", bench, "sincere bench"),
    ("reproduce", reproduce_claim, "sincere reproduce table-2"),
):
    needs_words = name not in ("demo", "bench", "reproduce")
    words = flowing(verb.__doc__)
    app.command(name, cls=Verb, help=words, epilog=f"Example:  {example}", no_args_is_help=needs_words)(in_words(verb))
app.add_typer(recipes, name="recipes")
