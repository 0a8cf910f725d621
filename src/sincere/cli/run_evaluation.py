"""A run's evaluation: from its saved embeddings, or from its model and data where none were saved."""

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from sincere.checks import meant_beside
from sincere.cli.hints import command
from sincere.cli.output import say, working
from sincere.cli.run_data import data_of
from sincere.data import LabelledData, Splits
from sincere.data.samples import listed
from sincere.embeddings import EmbeddingSet, load
from sincere.errors import InputError
from sincere.evaluate import Evaluation, EvaluationOptions, evaluate
from sincere.runs import RunFolder, WriteError
from sincere.runs.files import not_kept, write_atomically
from sincere.runs.folder import Split
from sincere.runs.model import checked_weights
from sincere.train.processes import device_for


def evaluated(
    run: Path, options: EvaluationOptions | None = None, *, device: str | None = None, data: Splits | None = None
) -> Evaluation:
    """Evaluate a finished run and write `evaluation.json` into it, or say in a line that it could not be kept there.

    `data` is the run's, where it was read already.
    """
    found = measured(run, options, device=device, data=data)
    say_not_kept(keep(run, found))
    return found


def keep(run: Path, found: Evaluation) -> dict[Path, OSError]:
    """Write `evaluation.json` into a run; returns why not, by its place, where that cannot be."""
    place = RunFolder(run).evaluation
    try:
        write_atomically(place, (found.to_json() + "\n").encode())
    except WriteError as error:  # a run of somebody else's is no mistake, and a full disk takes no figures away
        return {place: error}
    return {}


def measured(
    run: Path, options: EvaluationOptions | None = None, *, device: str | None = None, data: Splits | None = None
) -> Evaluation:
    """Evaluate a finished run."""
    folder, place, options = RunFolder(run), device_for(device or "auto"), options or EvaluationOptions()
    check_finished(folder)
    with working(f"evaluating {run}") as at:
        at("embeddings")
        sets = {split: made.to(place) for split, made in embedding_sets(folder, device, data).items()}
        views = None
        if options.probe_views and "linear" in options.methods:
            at("views")
            views = training_views(folder, count=options.probe_views, seed=options.seed, device=device, data=data)
        return evaluate(
            sets["train"],
            sets["test"],
            validation=sets.get("validation"),
            views=views,
            options=options,
            name=folder.path.resolve().name,
            on_step=at,
        )


def known_evaluation(run: Path) -> Evaluation:
    """The evaluation that a run has, or a new one where it has none; kept, where that can be."""
    folder = RunFolder(run)
    if folder.evaluation.exists():
        return Evaluation.from_json(folder.evaluation.read_text(encoding="utf-8"))
    return evaluated(run)


def say_not_kept(refused: Mapping[Path, OSError], *, advice: str = "") -> None:
    """Say in a line what could not be kept in a run, why, and what to do about it."""
    for words in not_kept(refused):
        say(f"note: {words}{advice}")


def check_finished(folder: RunFolder) -> None:
    """Refuse what is no run, or has not come to its end."""
    if folder.path.is_file():
        whose = folder.path.suffix.lower() in (".npz", ".npy")
        measured_by = (
            f" Embeddings are measured by {command('report', folder.path)}, and several compared in one report."
        )
        raise InputError(
            f"{folder.path} must be the folder of a run: it is a file. `sincere train` makes runs."
            f"{measured_by if whose else ''}"
        )
    if not folder.path.is_dir():
        raise InputError(f"there is no folder {folder.path}.{meant_beside(folder.path)}")
    if not folder.started:
        raise InputError(
            f"{folder.path} must be the folder of a run: there is no {folder.config.name} in it.{_runs_in(folder.path)}"
        )
    if not folder.finished:
        raise InputError(f"{folder.path} has not come to its end: {command('train', '--resume', folder.path)}")


def _runs_in(folder: Path) -> str:
    """The runs in a folder that is none itself, as `runs` is."""
    with suppress(OSError):  # a folder that may not be read
        inside = sorted(path for path in folder.iterdir() if RunFolder(path).started)
        return f" Name one of those in it: {listed(inside, 5)}." if inside else ""
    return ""


def embedding_sets(
    folder: RunFolder, device: str | None = None, data: Splits | None = None
) -> dict[Split, EmbeddingSet]:
    """The run's embeddings by split; made from its model and its data where it did not save them."""
    checked_weights(folder)  # other weights than the run's would have other embeddings
    saved = folder.saved_embeddings()
    if {"train", "test"} <= saved.keys():
        return {split: EmbeddingSet.load(path) for split, path in saved.items()}
    model, data = load(folder.path, device=device_for(device or "auto")), data or data_of(folder)
    parts: dict[Split, LabelledData | None] = {"train": data.train, "validation": data.validation, "test": data.test}
    return {split: model.embed(part) for split, part in parts.items() if part is not None}


def training_views(
    folder: RunFolder, *, count: int, seed: int, device: str | None = None, data: Splits | None = None
) -> EmbeddingSet:
    """Embeddings of random views of the run's training samples, which no run saves."""
    without = ", or leave --probe-views out: everything else is measured from the run's own files"
    samples = (data or data_of(folder, or_else=without)).train
    return load(folder.path, device=device_for(device or "auto")).embed_views(samples, count=count, seed=seed)
