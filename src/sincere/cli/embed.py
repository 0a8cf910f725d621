"""`sincere embed`."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from sincere.cli import options
from sincere.cli.hints import flags_of
from sincere.cli.notes import note
from sincere.cli.output import tell, tell_json, working
from sincere.cli.run_evaluation import check_finished
from sincere.data import DataOptions, read_data
from sincere.data.sources import reader_for
from sincere.embeddings import load
from sincere.errors import InputError, OptionError
from sincere.runs import RunFolder
from sincere.tables import amount
from sincere.train import TrainConfig
from sincere.train.processes import device_for

Data = Annotated[
    str,
    typer.Argument(
        metavar="DATA",
        help="As `sincere train` takes it; labels may be missing. Also a folder of files, or one file.",
        show_default=False,
    ),
]
File = Annotated[Path, typer.Option("--out", help="The .npz to write.", show_default=False)]
Part = Annotated[
    Literal["train", "validation", "test"],
    typer.Option("--part", help="Which part of data that comes in parts; of other data, train is all of it."),
]


def embed_data(
    run: options.Run,
    data: Data,
    out: File,
    part: Part = "train",
    label_column: options.LabelColumn = None,
    input_column: options.InputColumn = None,
    unreadable: options.Unreadable = None,
    device: options.Device = None,
    json: options.Json = False,
) -> None:
    """Embed data with the model of a finished run: embeddings, features, labels and class names in one .npz.

    Columns, encoding and the like are those of the run's own data unless given. The run's own splits are in
    RUN/embeddings already. In Python: sincere.embeddings.load(RUN)(inputs).
    """
    if out.suffix != ".npz":
        raise OptionError(f"--out must end in .npz: got {out}.")
    check_finished(RunFolder(run))
    check_overwrites_nothing(out, run, data)
    borrowed = as_the_run(run, data)
    reading: DataOptions = {**borrowed, "labels": "optional"}
    if unreadable is not None:
        reading["unreadable"] = unreadable
    if label_column is not None:
        reading |= {"label_column": label_column, "labels": "needed"}
    if input_column is not None:
        reading["input_column"] = input_column
    with working(f"embedding {data}") as at:
        model = load(run, device=device_for(device or "auto"))
        at("reading")
        try:
            samples, notes = read_data(data, form=model.description.form, part=part, **reading)
        except InputError as error:
            raise InputError(f"{error}{whose_columns(str(error), borrowed, reading)}") from error
        at(amount(len(samples), "sample"))
        made = model.embed(samples).to("cpu")
    place = made.save(out)
    for words in notes:
        note(words, flags_of(embed_data), [data])
    told = {"path": str(place), "samples": len(made), "dim": made.embeddings.shape[1], "classes": made.class_names}
    tell_json(told) if json else tell(f"{place}: {amount(len(made), 'embedding')} of dimension {told['dim']}")


def check_overwrites_nothing(out: Path, run: Path, data: str) -> None:
    """Refuse to write over the data, or over the embeddings of the run's own splits."""
    place = out.resolve()
    if place == Path(data).expanduser().resolve():
        raise OptionError(f"--out must be another file than the data, which would be lost: got {out} for both.")
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
    if data.endswith(".npy"):
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
