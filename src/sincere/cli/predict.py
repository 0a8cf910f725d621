"""`sincere predict`."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from sincere.cli import options
from sincere.cli.hints import flags_of
from sincere.cli.new_data import Data, Part, check_overwrites_nothing, read_new
from sincere.cli.notes import note
from sincere.cli.output import tell, tell_json, working
from sincere.cli.run_evaluation import check_finished
from sincere.data.samples import UNLABELLED, listed
from sincere.embeddings import EmbeddingSet, Prediction, load
from sincere.embeddings.nearest_class import check_rule
from sincere.errors import OptionError
from sincere.runs import RunFolder
from sincere.runs.files import write_atomically
from sincere.tables import amount, csv_text
from sincere.train.processes import device_for

TOP = 5
File = Annotated[Path | None, typer.Option("--out", help="A .csv to write, a row for each sample.", show_default=False)]
Method = Annotated[str, typer.Option("--method", help="class_means (the nearest mean of a class), or knn.")]
Known = Annotated[
    Path | None,
    typer.Option(
        "--references",
        help="An .npz of `sincere embed` whose labels to go by, instead of the run's training samples.",
        show_default=False,
    ),
]


def predict_classes(
    run: options.Run,
    data: Data,
    out: File = None,
    method: Method = "class_means",
    k: options.Neighbours = None,
    references: Known = None,
    part: Part = "train",
    label_column: options.LabelColumn = None,
    input_column: options.InputColumn = None,
    unreadable: options.Unreadable = None,
    device: options.Device = None,
    json: options.Json = False,
) -> None:
    """Tell the classes of new data with the model of a finished run, and how sure it is; labels or not.

    Prints a short table, and where the data has labels how many agree. The margin is how much nearer the class is than
    the second: near 0 it could be either. Rows of the .csv are counted from 1. In Python: sincere.load(RUN).predict(…).
    """
    rule: Any = method.replace("-", "_")  # which is checked
    check_rule(rule, k, TOP)
    if out is not None:
        if out.suffix != ".csv":
            raise OptionError(f"--out must end in .csv: got {out}.")
        check_overwrites_nothing(out, run, data, label_column)
    check_finished(RunFolder(run))
    with working(f"predicting {data}") as at:
        model = load(run, device=device_for(device or "auto"))
        at("reading")
        samples, notes = read_new(
            model, data, part=part, label_column=label_column, input_column=input_column, unreadable=unreadable
        )
        known = None if references is None else EmbeddingSet.load(references)
        if known is None:
            at("training samples")
            _ = model.references  # read or, where the run did not keep them, embedded
        made = model.embed(samples, on_step=at)
        at("classes")
        found = model.predict(made, method=rule, k=k, top=TOP, references=known)
    labels = labels_of(made)
    if out is not None:
        write_csv(out, rows_of(found, labels))
    # That samples have no class is known to whoever asks for it.
    for words in [*(words for words in notes if repr(UNLABELLED) not in words), *strange(labels, found.class_names)]:
        note(words, flags_of(predict_classes), [data])
    if json:
        tell_json(document(found, labels, run=run, data=data, out=out))
    else:
        tell(in_words(found, labels, known=references or run, data=data, out=out))


def labels_of(samples: EmbeddingSet) -> list[str | None]:
    """The label that each sample came with, if any."""
    names = [None if name == UNLABELLED else name for name in samples.class_names]
    return [names[number] for number in samples.labels.tolist()]


def strange(labels: Sequence[str | None], classes: Sequence[str]) -> list[str]:
    """A note on labels that cannot be predicted: folders may be sorted by something else than the classes."""
    others = {label for label in labels if label is not None}.difference(classes)
    if not others:
        return []
    count = sum(label in others for label in labels)
    are, names = "is" if count == 1 else "are", listed([repr(name) for name in sorted(others)], 5)
    return [f"{amount(count, 'label')} {are} of none of the classes to choose from: {names}."]


def agreement(found: Prediction, labels: Sequence[str | None]) -> tuple[int, int]:
    """How many predictions are their label, of how many samples whose label can be predicted at all."""
    classes = set(found.class_names)
    judged = [(name, label) for name, label in zip(found.names, labels, strict=True) if label in classes]
    return sum(name == label for name, label in judged), len(judged)


def rows_of(found: Prediction, labels: Sequence[str | None]) -> list[dict[str, Any]]:
    """One a sample: which it is, its class, how sure, the second class, and its label where any sample has one."""
    rows, labelled = [], any(label is not None for label in labels)
    each = zip(found.names, found.cosine.tolist(), found.margin.tolist(), labels, strict=True)
    for place, (name, cosine, margin, label) in enumerate(each):
        ranked = found.ranked(place)
        row = {
            "row": place + 1,
            "sample": None if found.shown is None else found.shown[place],
            "predicted": name,
            "cosine": round(cosine, 6),
            **({} if found.k is None else {"share": round(ranked[0][1], 6)}),
            "margin": round(margin, 6),
            "second": ranked[1][0] if len(ranked) > 1 else None,
        }
        rows.append({**row, "label": label} if labelled else row)
    return rows


def write_csv(out: Path, rows: Sequence[dict[str, Any]]) -> None:
    """The whole file or none of it."""
    text = csv_text([rows[0] if rows else (), *(row.values() for row in rows)])
    out.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(out, text.encode(errors="backslashreplace"))  # names of files may be no Unicode


def document(
    found: Prediction, labels: Sequence[str | None], *, run: Path, data: str, out: Path | None
) -> dict[str, Any]:
    """For a program."""
    agree, judged = agreement(found, labels)
    best = [{name: round(score, 6) for name, score in found.ranked(place)} for place in range(len(found))]
    rows = [{**row, "best": top} for row, top in zip(rows_of(found, labels), best, strict=True)]
    return {
        "run": str(run),
        "data": data,
        "method": found.method,
        "k": found.k,
        "classes": found.class_names,
        "samples": len(found),
        "labelled": judged,
        "agree": agree if judged else None,
        "path": None if out is None else str(out),
        "predictions": rows,
    }


def in_words(found: Prediction, labels: Sequence[str | None], *, known: Path, data: str, out: Path | None) -> str:
    """For a person."""
    lines = [f"{data}: {amount(len(found), 'sample')}, by {found.rule} of {known}", "", str(found)]
    agree, judged = agreement(found, labels)
    if judged:
        lines += ["", f"{agree:,} of {amount(judged, 'label')} agree, {100 * agree / judged:.1f} %."]
    if out is not None:
        lines += ["", f"{out}: {amount(len(found), 'prediction')}"]
    return "\n".join(lines)
