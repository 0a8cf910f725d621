"""Data that a finished run's model meets: read as the run read its own, as far as nobody says otherwise."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from sincere.data import DataOptions, LabelledData, read_data
from sincere.data.sources import path_of, reader_for
from sincere.embeddings import LoadedModel
from sincere.errors import InputError, OptionError
from sincere.runs import RunFolder
from sincere.train import TrainConfig

Data = Annotated[
    str,
    typer.Argument(
        metavar="DATA",
        help="As `sincere train` takes it; labels may be missing. Also a folder of files, or one file.",
        show_default=False,
    ),
]
Part = Annotated[
    Literal["train", "validation", "test"],
    typer.Option("--part", help="Which part of data that comes in parts; of other data, train is all of it."),
]


def read_new(
    model: LoadedModel,
    data: str,
    *,
    part: Literal["train", "validation", "test"],
    label_column: str | None,
    input_column: str | None,
    unreadable: Literal["stop", "skip"] | None,
) -> tuple[LabelledData, tuple[str, ...]]:
    """New data in the form that a run's model takes, and notes; labels may be missing, unless their column was named.

    None is what nobody gave.
    """
    assert model.run is not None
    borrowed = as_the_run(model.run, data)
    reading: DataOptions = {**borrowed, "labels": "optional"}
    if unreadable is not None:
        reading["unreadable"] = unreadable
    if label_column is not None:
        reading |= {"label_column": label_column, "labels": "needed"}
    if input_column is not None:
        reading["input_column"] = input_column
    try:
        return read_data(data, form=model.description.form, part=part, **reading)
    except InputError as error:
        raise InputError(f"{error}{whose_columns(str(error), borrowed, reading)}") from error


def check_overwrites_nothing(out: Path, run: Path, data: str, label_column: str | None) -> None:
    """Refuse to write over what is read, or over the embeddings of the run's own splits."""
    place, source = out.resolve(), path_of(data)
    if source is not None and place == source.resolve():
        raise OptionError(f"--out must be another file than the data, which would be lost: got {out} for both.")
    if label_column is not None and place == Path(label_column).resolve():
        raise OptionError(f"--out must be another file than the labels, which would be lost: got {out} for both.")
    if source is not None and source.is_dir() and place.is_relative_to(source.resolve()) and place.exists():
        raise OptionError(f"--out must not be a file of the data, which would be lost: {out} lies in {source}.")
    if place.parent == RunFolder(run).embeddings("train").parent.resolve():
        raise OptionError(f"--out must lie outside {out.parent}, where the run keeps its own embeddings: got {out}.")


def as_the_run(run: Path, data: str) -> DataOptions:
    """How the run read its own data: where classes and samples are found, as far as `data` can be asked for it."""
    config, reading = TrainConfig.load(run).data, DataOptions()
    takes = reader_for(data, config.kind).takes
    if config.kind is not None and "kind" in takes:
        reading["kind"] = config.kind
    for name in ("label_column", "input_column", "level", "encoding"):
        if name in config.options and name in takes:
            reading[name] = config.options[name]
    if data.lower().endswith(".npy"):
        reading.pop("label_column", None)  # there it names a file: the labels of other samples
    return reading


def whose_columns(message: str, borrowed: DataOptions, reading: DataOptions) -> str:
    """A sentence about a column that is missed because the run's own data has it, or nothing."""
    words = {"label_column": "the label column", "input_column": "the column of samples"}
    for name, what in words.items():
        column = borrowed.get(name)
        if isinstance(column, str) and column == reading.get(name) and repr(column) in message:
            advised = f"{name}=" in message
            flag = "" if advised else f" If this file has another, name it: --{name.replace('_', '-')} …."
            return f" {column!r} is {what} of the run's own data.{flag}"
    return ""
