"""Subjects → the HTML file and the folder of its pictures."""

import re
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from sincere.defaults import usual_defaults
from sincere.errors import InputError, OptionError
from sincere.evaluate.comparison import distinct_names
from sincere.report.elements import figure, json_island, text
from sincere.report.inputs import Known, Source, sources_of, subject_from, training_sets_of
from sincere.report.keeping import keep_records
from sincere.report.map_names import places_of_names
from sincere.report.mistakes import worst_mistakes
from sincere.report.page import SECTIONS, Panel, page, plotly_script
from sincere.report.palette import class_symbol, colour_of
from sincere.report.picture import Picture
from sincere.report.pictures.accuracy import accuracy_picture
from sincere.report.pictures.class_pairs import class_pairs_picture
from sincere.report.pictures.comparison import comparisons, differences_picture, runs_picture
from sincere.report.pictures.confusion import confusion_picture
from sincere.report.pictures.curves import curves_picture
from sincere.report.pictures.histograms import histograms_picture
from sincere.report.pictures.point_map import point_map_picture, predictions
from sincere.report.pictures.simplex import simplex_picture
from sincere.report.projections import PointMap, point_map
from sincere.report.sections import about, difference_sentences, mistakes_section, runs_table, summary, tiles
from sincere.report.subject import Subject
from sincere.report.thumbnails import sheet_of
from sincere.runs.files import not_kept, write_atomically

LONGEST = 400  # signs of a sample's text in the page
# Two stand side by side: neighbours of about the same height.
PICTURES = (
    accuracy_picture,
    histograms_picture,
    class_pairs_picture,
    confusion_picture,
    simplex_picture,
    curves_picture,
)


class _Writer:
    """Saves each picture once and hands out its HTML; gathers what the interactive maps show."""

    def __init__(self, out: Path, subjects: Sequence[Subject]) -> None:
        self.folder = out.with_name(f"{out.stem}_files")
        self.folder.mkdir(parents=True, exist_ok=True)
        self.several = len(subjects) > 1
        self.runs: list[dict[str, Any]] = []
        self.contents: list[dict[str, Any]] = []

    def figure(self, picture: Picture, *, number: int | None, name: str = "", extra: str = "") -> str:
        """Save a picture and give its element."""
        prefix = f"{number + 1}-{_slug(name)}-" if self.several and number is not None else ""
        svg = picture.save(self.folder, prefix)
        ident = picture.name if number is None else f"r{number}-{picture.name}"
        made = figure(picture, svg, ident=ident, files=f"{self.folder.name}/{prefix}{picture.name}", extra=extra)
        return made.replace("<figure ", f'<figure data-section="{picture.name}" ', 1)

    def touch(self, subject: Subject, found: PointMap) -> str:
        """Remember a run's points; the controls and the place for its interactive map."""
        number = len(self.runs)
        self.runs.append(
            {
                "classes": subject.test.class_names,
                "colours": [colour_of(c) for c in range(len(subject.test.class_names))],
                "symbols": [class_symbol(c) for c in range(len(subject.test.class_names))],
                "labels": subject.test.labels[found.chosen].tolist(),
                "predicted": predictions(subject, found),
                "samples": found.chosen.tolist(),
                "first": found.first,
                "content": self._content(subject, found),
                "projections": [
                    {
                        "title": one.title,
                        "note": one.note,
                        "points": one.points.round(4).T.tolist(),
                        "names": places_of_names(one.points, subject.test.labels[found.chosen].numpy()),
                    }
                    for one in found.projections
                ],
            }
        )
        buttons = "".join(
            f'<button role="tab" type="button" aria-selected="{str(place == found.first).lower()}">'
            f"{text(one.title)}</button>"
            for place, one in enumerate(found.projections)
        )
        counts = subject.test.class_counts()
        options = "".join(
            f'<option value="{place}">{text(name)}</option>'
            for place, name in enumerate(subject.test.class_names)
            if counts[name]
        )
        drawn = f"{len(found.chosen):,} of {len(subject.test):,} samples, drawn at random. "
        drawn = drawn if len(found.chosen) < len(subject.test) else ""
        return (
            '<div class="touch"><div class="controls"><div class="choices" role="tablist" aria-label="Projection">'
            f"{buttons}</div><label>Highlight "
            f'<select><option value="">all classes</option>{options}</select></label></div>'
            f'<div class="plot" data-plot="{number}"></div><p class="note">{drawn}<span class="how"></span> Point at a '
            "sample, or tap it, to see what it is.</p></div>"
        )

    def _content(self, subject: Subject, found: PointMap) -> int:
        """What the points show; runs on the same samples share it."""
        part = subject.test.subset(found.chosen)
        texts = None if part.shown is None else [words[:LONGEST] for words in part.shown]
        sheet = None if part.images is None or not len(part) else vars(sheet_of(part.images))
        made = {"texts": texts, "sheet": sheet}
        if made not in self.contents:
            self.contents.append(made)
        return self.contents.index(made)


@usual_defaults()
def write_report(
    inputs: Sequence[Source] | Source,
    out: str | Path,
    *,
    train: Sequence[Known] | Known = None,
    on_step: Callable[[str], None] | None = None,
) -> Path:
    """Write one self-contained HTML file, with its pictures as PNG, SVG and CSV in a folder beside it.

    An evaluation or a geometry that the folder of a run lacked is kept in it (`keep_records`); a warning says what
    could not be, as where others may only read it. Subjects are shown as they are, and no record of theirs is written.

    Args:
        inputs: an `EmbeddingSet`, the folder of a run, a file of embeddings, or a subject that `read_subject` or
            `subject_of` gave; or a list of them. Several are shown side by side, and compared in pairs where they are
            of the same test samples.
        out: the `.html` to write; `NAME_files/` appears beside it.
        train: of a set or a file: the samples that k-NN, class means and the linear probe are fitted on, as a set or a
            file. For several inputs a list, one for each or None. Without it every sample is judged by all the others.
        on_step: called with a few words before each step, for a progress display.
    """
    out, say = _html_path(out), on_step or (lambda words: None)
    sources = sources_of(inputs)
    known = training_sets_of(train, sources)
    plotly_script()  # before the work, not after it
    subjects: list[Subject] = []
    for source, beside in zip(sources, known, strict=True):
        subjects.append(subject_from(source, beside, say))
        if isinstance(source, (str, Path)):  # at once, so that a failure later on costs no evaluation
            for words in not_kept(keep_records(subjects[-1])):
                warnings.warn(words, stacklevel=3)  # the caller's line, beyond that of the decorator
    subjects = _told_apart(subjects)
    out.parent.mkdir(parents=True, exist_ok=True)
    writer = _Writer(out, subjects)
    side_by_side = _comparison(writer, subjects) if len(subjects) > 1 else ""
    panels = []
    for number, subject in enumerate(subjects):
        say(f"pictures of {subject.name}")
        panels.append(_panel(writer, subject, number))
    points = json_island("points", {"runs": writer.runs, "contents": writer.contents})
    write_atomically(out, page(subjects, panels, comparison=side_by_side, points=points).encode())
    return out


def _html_path(out: object) -> Path:
    if not isinstance(out, (str, Path)):
        raise OptionError(
            f"out must be a path that ends in .html: got {type(out).__name__}. Training samples are passed as train=…."
        )
    if Path(out).suffix.lower() not in (".html", ".htm"):
        raise OptionError(f"out must end in .html: got {out}.")
    return Path(out)


def _panel(writer: _Writer, subject: Subject, number: int) -> Panel:
    found = point_map(subject)
    touch = writer.touch(subject, found)
    wide = writer.figure(point_map_picture(subject, found), number=number, name=subject.name, extra=touch)
    wide = wide.replace("<figure ", f'<figure class="wide map" data-run="{number}" ', 1)
    pictures = [picture for make in PICTURES if (picture := make(subject)) is not None]
    grid = "".join(writer.figure(picture, number=number, name=subject.name) for picture in pictures)
    mistakes = mistakes_section(subject, worst_mistakes(subject))
    kind = "" if subject.test.images is not None else " texts"
    mistakes = mistakes.replace('<ol class="mistakes">', f'<ol class="mistakes{kind}">', 1)
    there = {"overview", "map", "about", *(picture.name for picture in pictures)} | (
        {"mistakes"} if mistakes else set()
    )
    start = "" if writer.several else f'<span data-section="overview" id="r{number}-overview"></span>'
    worst = f'<h2 data-section="mistakes" id="r{number}-mistakes">Worst mistakes</h2>{mistakes}' if mistakes else ""
    body = (
        f'{start}{tiles(subject)}{summary(subject)}{wide}<div class="grid">{grid}</div>{worst}'
        f'<h2 data-section="about" id="r{number}-about">Details</h2>{about(subject)}'
    )
    return Panel(subject.name, tuple(key for key in SECTIONS if key in there), body)


def _comparison(writer: _Writer, subjects: Sequence[Subject]) -> str:
    """Every run by itself, and in pairs where they met the same samples."""
    try:
        found = comparisons(subjects)
        words = difference_sentences(found) if found else ""
        second = differences_picture(found)
    except InputError as error:
        words, second = f'<p class="note warn">No paired comparison: {text(error)}</p>', None
    pictures = [picture for picture in (runs_picture(subjects), second) if picture is not None]
    drawn = "".join(writer.figure(picture, number=None) for picture in pictures)
    return (
        f'<section id="comparison"><h2>Runs side by side</h2>{runs_table(subjects)}{words}'
        f'<div class="grid">{drawn}</div></section>'
    )


def _told_apart(subjects: Sequence[Subject]) -> list[Subject]:
    """Subjects whose names differ: a second `run` becomes `run (2)`."""
    names = distinct_names([subject.name for subject in subjects])
    return [
        replace(subject, name=name, evaluation=replace(subject.evaluation, name=name))
        for subject, name in zip(subjects, names, strict=True)
    ]


def _slug(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_-]+", "-", name).strip("-")[:40] or "run"
