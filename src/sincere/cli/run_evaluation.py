"""A run's evaluation: from its saved embeddings, or from its model and data where none were saved."""

from pathlib import Path

from sincere.cli.output import working
from sincere.data import LabelledData
from sincere.embeddings import EmbeddingSet, load
from sincere.errors import InputError
from sincere.evaluate import Evaluation, EvaluationOptions, evaluate
from sincere.runs import RunFolder
from sincere.runs.files import write_atomically
from sincere.runs.folder import Split
from sincere.train import TrainConfig
from sincere.train.loop import opened
from sincere.train.processes import device_for

SPLITS: tuple[Split, ...] = ("train", "validation", "test")


def evaluated(run: Path, options: EvaluationOptions | None = None, *, device: str | None = None) -> Evaluation:
    """Evaluate a finished run and write `evaluation.json` into it."""
    folder, place = RunFolder(run), device_for(device or "auto")
    check_finished(folder)
    with working(f"evaluating {run}") as at:
        at("embeddings")
        sets = {split: made.to(place) for split, made in embedding_sets(folder, device).items()}
        found = evaluate(
            sets["train"],
            sets["test"],
            validation=sets.get("validation"),
            options=options,
            name=folder.path.resolve().name,
            on_step=at,
        )
    write_atomically(folder.evaluation, (found.to_json() + "\n").encode())
    return found


def known_evaluation(run: Path) -> Evaluation:
    """The evaluation that a run has, or a new one where it has none."""
    folder = RunFolder(run)
    if not folder.evaluation.exists():
        return evaluated(run)
    return Evaluation.from_json(folder.evaluation.read_text(encoding="utf-8"))


def check_finished(folder: RunFolder) -> None:
    """Refuse what is no run, or has not come to its end."""
    if not folder.path.is_dir():
        raise InputError(f"there is no folder {folder.path}.")
    if not folder.started:
        raise InputError(f"{folder.path} must be the folder of a run: there is no {folder.config.name} in it.")
    if not folder.finished:
        raise InputError(f"{folder.path} has not come to its end: sincere train --resume {folder.path}")


def embedding_sets(folder: RunFolder, device: str | None = None) -> dict[Split, EmbeddingSet]:
    """The run's embeddings by split; made from its model and its data where it did not save them."""
    saved = {split: folder.embeddings(split) for split in SPLITS if folder.embeddings(split).exists()}
    if {"train", "test"} <= saved.keys():
        return {split: EmbeddingSet.load(path) for split, path in saved.items()}
    model, data = load(folder.path, device=device_for(device or "auto")), opened(TrainConfig.load(folder.path).data)
    parts: dict[Split, LabelledData | None] = {"train": data.train, "validation": data.validation, "test": data.test}
    return {split: model.embed(part) for split, part in parts.items() if part is not None}
