"""`sincere report`."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Literal

import typer

from sincere.cli import options
from sincere.cli.output import say, tell, tell_json, working
from sincere.cli.run_evaluation import check_finished, embedding_sets, say_not_kept
from sincere.errors import OptionError
from sincere.report import Subject, keep_records, read_subject, write_report
from sincere.runs import RunFolder

Inputs = Annotated[
    list[Path],
    typer.Argument(
        metavar="RUN", help="Folders of runs, or files of embeddings: .npz, or .npy with --labels.", show_default=False
    ),
]
File = Annotated[
    Path | None,
    typer.Option(
        "--out",
        help="The .html to write; report.html in the run, or here for several; FILE-report.html beside a file.",
        show_default=False,
    ),
]
Train = Annotated[
    Path | None,
    typer.Option(
        "--train",
        help="Of a file: embeddings that classifiers are fitted on. Without it each sample is judged by the others.",
        show_default=False,
    ),
]
Labels = Annotated[
    Path | None, typer.Option("--labels", help="Of an .npy: its labels, .npy or one a line.", show_default=False)
]
Unlabelled = Annotated[
    Literal["refuse", "drop", "class"],
    typer.Option("--unlabelled", help="Of files: samples with the label −1 are left out, or are a class like others."),
]


def report_on(
    runs: Inputs,
    out: File = None,
    train: Train = None,
    labels: Labels = None,
    unlabelled: Unlabelled = "refuse",
    json: options.Json = False,
) -> None:
    """Write one HTML page that shows what embeddings are worth and what they look like; it opens offline.

    Takes runs, and arrays that somebody else made. Several are shown side by side, with paired intervals. Every picture
    is also saved as PNG and SVG, with its figures as CSV, in a folder beside the page. A run that may only be read has
    its page in the current folder.
    """
    if unlabelled != "refuse" and all(path.is_dir() for path in runs):
        raise OptionError("--unlabelled belongs to files of embeddings: every sample of a run has a class.")
    if len(runs) > 1 and (train is not None or labels is not None):
        raise OptionError("--train and --labels belong to one file of embeddings: report on it alone.")
    subjects: list[Subject] = []
    refused: dict[Path, OSError] = {}
    with working("report") as at:
        for path in runs:
            subjects.append(read_input(path, train, labels, unlabelled, at))
            refused.update(keep_records(subjects[-1]))  # at once, so that a failure later on costs no evaluation
        try:
            place = write_report(subjects, out or default_place(runs), on_step=at)
        except OSError as error:
            if out is not None or len(runs) > 1 or not runs[0].is_dir():
                raise
            refused[RunFolder(runs[0]).report] = error
            # A run that may only be read, or a full disk: here may be better.
            place = write_report(subjects, Path(f"{subjects[0].name}-report.html"), on_step=at)
    say_not_kept(refused)
    for subject in subjects:
        for note in subject.evaluation.notes:
            say(f"note: {subject.name}: {note}")
    size = place.stat().st_size
    if json:
        told = {s.name: [*s.evaluation.summary, *s.geometry.summary] for s in subjects}
        tell_json({"path": str(place), "bytes": size, "summary": told})
        return
    pictures = place.with_name(f"{place.stem}_files")
    tell(f"{place}: {size / 1e6:.1f} MB. Open it in a browser; its pictures are in {pictures}.")


def default_place(runs: list[Path]) -> Path:
    """In the run, or beside the file; where there are several, in the current folder."""
    first = runs[0]
    if len(runs) > 1:
        return Path("report.html")
    return RunFolder(first).report if first.is_dir() else first.with_name(f"{first.stem}-report.html")


def read_input(
    path: Path, train: Path | None, labels: Path | None, unlabelled: Unlabelled, at: Callable[[str], None]
) -> Subject:
    """A run, whose embeddings are made anew where it did not save them, or a file."""
    if not path.is_dir():
        return read_subject(path, train=train, labels=labels, unlabelled=unlabelled, on_step=at)
    folder = RunFolder(path)
    check_finished(folder)
    at(f"embeddings of {path}")
    return read_subject(path, train=train, labels=labels, sets=embedding_sets(folder), on_step=at)
