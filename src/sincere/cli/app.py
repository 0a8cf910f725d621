"""All verbs, in the order in which people need them. A verb is imported when it is called, and torch with it."""

import os
from collections.abc import Callable
from importlib import import_module
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperCommand

from sincere import __version__
from sincere.cli.help import Verb, Verbs, flowing
from sincere.cli.output import DEBUG


class Listed(NamedTuple):
    """A verb as the list of all shows it."""

    place: str  # module and name within sincere.cli
    words: str  # with which its docstring begins
    example: str


VERBS = {
    "demo": Listed(
        "demo:demo",
        "Train SINCERE, SupCon and cross-entropy on scikit-learn's digits and compare them: a minute, no download.",
        "sincere demo",
    ),
    "train": Listed(
        "train:train_model",
        "Train an embedding model on labelled data, and leave everything in a folder.",
        "sincere train letter.csv --loss sincere --epochs 40 --out runs/letter",
    ),
    "evaluate": Listed(
        "evaluate:evaluate_run",
        "Measure a finished run on its test split: accuracies with 95 % intervals, and in words what it confuses.",
        "sincere evaluate runs/letter",
    ),
    "compare": Listed(
        "compare:compare_runs",
        "Say whether the difference between runs is real: paired bootstrap and exact test on the same test samples.",
        "sincere compare runs/letter runs/letter-supcon",
    ),
    "report": Listed(
        "report:report_on",
        "Write one HTML page that shows what embeddings are worth and what they look like; it opens offline.",
        "sincere report runs/letter runs/letter-supcon",
    ),
    "predict": Listed(
        "predict:predict_classes",
        "Tell the classes of new data with the model of a finished run, and how sure it is; labels or not.",
        "sincere predict runs/letter new.csv --out predictions.csv",
    ),
    "embed": Listed(
        "embed:embed_data",
        "Embed data with the model of a finished run: embeddings, features, labels and class names in one .npz.",
        "sincere embed runs/letter new.csv --out new.npz",
    ),
    "export": Listed(
        "export:export",
        "Write the model of a finished run for other programs; the file's ending says how.",
        "sincere export runs/letter letter.onnx",
    ),
    "bench": Listed(
        "bench:bench",
        "What the losses cost on this machine, beside the code people write: time and memory, compared with float64 "
        "first.",
        "sincere bench",
    ),
    "reproduce": Listed(
        "reproduce:reproduce_claim",
        "Run a claim of the papers and say whether it holds: the paper's figure, ours with its interval, a verdict.",
        "sincere reproduce table-2",
    ),
    "recipes": Listed(
        "recipes:recipes",
        "Named, complete configurations, with the evidence for them.",
        "sincere recipes show letter",
    ),
}
DO_SOMETHING_ALONE = ("demo", "bench", "reproduce")  # the others show their help where nothing is given


def verb_called(name: str) -> Callable[..., object]:
    """The function that a verb calls; for recipes, which has verbs of its own, an application."""
    module, _, verb = VERBS[name].place.partition(":")
    found: Callable[..., object] = getattr(import_module(f"sincere.cli.{module}"), verb)
    return found


class LaterVerb(TyperCommand):
    """A verb by its name and its words alone. What is typed behind it goes to the whole of it, imported only then."""

    def __init__(self, name: str) -> None:
        super().__init__(name=name, help=VERBS[name].words)

    def make_context(self, *args: Any, **more: Any) -> Any:
        return self.whole().make_context(*args, **more)

    def whole(self) -> Any:
        """With its options."""
        from sincere.cli.refusals import in_words

        name = str(self.name)
        verb = verb_called(name)
        if isinstance(verb, typer.Typer):
            return typer.main.get_command(verb)
        alone = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
        words, example = flowing(verb.__doc__), f"Example:  {VERBS[name].example}"
        shown = alone.command(
            name, cls=Verb, help=words, epilog=example, no_args_is_help=name not in DO_SOMETHING_ALONE
        )
        shown(in_words(verb))
        return typer.main.get_command(alone)


class EveryVerb(Verbs):
    """The verbs, none of them imported yet."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        for name in VERBS:
            self.add_command(LaterVerb(name))


app = typer.Typer(
    cls=EveryVerb,
    help="Supervised contrastive learning: from labelled data to an embedding model whose accuracy you know.",
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
