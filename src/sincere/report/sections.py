"""The parts of the page that are words, tables and thumbnails; pictures come drawn."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from sincere.embeddings.embedding_set import EmbeddingSet
from sincere.evaluate import Comparison
from sincere.evaluate.comparison import LIMITS
from sincere.report.elements import table, text, verdict_line
from sincere.report.mistakes import Mistake, gallery_of
from sincere.report.pictures.accuracy import SHOWN, figures_of
from sincere.report.pictures.comparison import common_figures, without_k
from sincere.report.subject import Subject
from sincere.report.thumbnails import picture_uri
from sincere.report.verdict import Verdict, percent, signed
from sincere.tables import amount

LONGEST = 220  # signs of a text that a card shows


def tiles(subject: Subject) -> str:
    """The handful of figures that people ask for first."""
    found: list[tuple[str, str, str]] = []
    for result in subject.evaluation.classifiers:
        low, high = 100 * result.top1.low, 100 * result.top1.high
        found.append((result.title, percent(result.top1.value), f"95 % interval {low:.1f} to {high:.1f}"))
    if subject.evaluation.retrieval is not None:
        value = subject.evaluation.retrieval.map_at_r
        found.append(("MAP@R", percent(value.value), f"95 % interval {100 * value.low:.1f} to {100 * value.high:.1f}"))
    within, between = subject.geometry.similarity.within, subject.geometry.similarity.between
    if within is not None and between is not None:
        found.append(("Cosine within classes", signed(within), f"between classes {signed(between)}"))
    rank = subject.geometry.spectrum.effective_rank
    if rank is not None:
        found.append(
            ("Directions in use", f"{rank:.1f}", f"effective rank, of {amount(subject.geometry.dim, 'dimension')}")
        )
    cells = "".join(
        f'<div class="tile"><dt>{text(title)}</dt><dd><b>{text(value)}</b><span>{text(more)}</span></dd></div>'
        for title, value, more in found
    )
    return f'<dl class="tiles">{cells}</dl>'


def summary(subject: Subject) -> str:
    """What the records say of themselves, and their notes."""
    sentences = [*subject.evaluation.summary, *subject.geometry.summary, *subject.geometry.notes]
    listed = "".join(f"<li>{text(sentence)}</li>" for sentence in sentences)
    noted = "".join(f'<p class="note">Note: {text(note)}.</p>' for note in subject.evaluation.notes)
    return f"{noted}<details><summary>All findings in words</summary><ul>{listed}</ul></details>"


def runs_table(subjects: Sequence[Subject]) -> str:
    """Runs × figures, with intervals; the headline figures in plain view, the others behind a click."""
    keys = common_figures(subjects)
    first = _rows_of(subjects, [key for key in keys if key[1] in SHOWN])
    for title, values in _geometry_rows(subjects).items():
        cells = "".join(f'<td class="number">{text(value)}</td>' for value in values)
        first += f'<tr><th scope="row">{text(title)}</th>{cells}</tr>'
    rest = _rows_of(subjects, [key for key in keys if key[1] not in SHOWN])
    more = f"<details><summary>Balanced accuracy, top-5 and more</summary>{_framed(subjects, rest)}</details>"
    return _framed(subjects, first) + (more if rest else "")


def _framed(subjects: Sequence[Subject], body: str) -> str:
    head = "".join(f'<th scope="col">{text(subject.name)}</th>' for subject in subjects)
    return (
        '<div class="scroll all"><table class="runs"><thead><tr><th scope="col">per cent, 95 % interval</th>'
        f"{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _rows_of(subjects: Sequence[Subject], keys: Sequence[tuple[str, str]]) -> str:
    """A row a figure; the highest of each in bold."""
    found = [figures_of(subject.evaluation) for subject in subjects]
    best = {key: max(figures[key][1].value for figures in found) for key in keys}
    body = ""
    for key in keys:
        cells = ""
        for figures in found:
            value = figures[key][1]
            shown = f"{100 * value.value:.2f}"
            shown = f"<b>{shown}</b>" if value.value == best[key] else shown
            interval = f"<span>{100 * value.low:.1f}–{100 * value.high:.1f}</span>"
            cells += f'<td class="number">{shown} {interval}</td>'
        body += f'<tr><th scope="row">{text(without_k(found[0][key][0]))}</th>{cells}</tr>'
    return body


def _geometry_rows(subjects: Sequence[Subject]) -> dict[str, list[str]]:
    found = [subject.geometry for subject in subjects]

    def shown(value: float | None) -> str:
        return "–" if value is None else signed(value)

    return {
        "cosine within classes": [shown(one.similarity.within) for one in found],
        "cosine between classes": [shown(one.similarity.between) for one in found],
        "overlap of target and noise": [
            "–" if o is None else percent(o) for o in (g.histograms.overlap for g in found)
        ],
        "off the simplex, mean": [shown(one.simplex.mean_deviation) for one in found],
        "effective rank": ["–" if r is None else f"{r:.1f}" for r in (one.spectrum.effective_rank for one in found)],
    }


def difference_sentences(found: Mapping[tuple[str, str], Comparison]) -> str:
    """The first figure's differences in plain view, the others' behind a click."""
    marks = {"real": "good", "unclear": "mixed", "none": "open"}
    blocks = []
    for one in found.values():
        items = "".join(
            f'<li><span class="dot {marks[difference.verdict]}" aria-hidden="true"></span>{text(difference)}</li>'
            for difference in one.differences
        )
        blocks.append(f'<ul class="differences">{items}</ul>')
    rest = (
        f"<details><summary>The other figures in words</summary>{''.join(blocks[1:])}</details>" if blocks[1:] else ""
    )
    return f'{"".join(blocks[:1])}{rest}{_correction(found)}<p class="note">{text(LIMITS)}</p>'


def _correction(found: Mapping[tuple[str, str], Comparison]) -> str:
    """For how many tests p was corrected, and why `sincere compare` may say another."""
    said = text(next((one.correction for one in found.values()), ""))
    if said and len(found) > 1:
        said += " <code>sincere compare</code> tests one figure, and corrects for the pairs of that figure alone."
    return f'<p class="note">{said}</p>' if said else ""


def mistakes_section(subject: Subject, found: Sequence[Mistake]) -> str:
    """A card for each mistake: the sample, then its nearest neighbours."""
    if not subject.evaluation.classifiers:
        return ""
    first = subject.evaluation.classifiers[0]
    mistaken, can = ~subject.evaluation.correct(first.method), subject.attainable
    wrong, hopeless = int((mistaken & can).sum()), int((mistaken & ~can).sum())
    where = "other" if subject.alone else "training"
    beside = f"{subject.counted(hopeless)} whose class has no {where} sample, which cannot be right" if hopeless else ""
    if not found:
        if len(subject.test.class_names) == 1:
            return verdict_line(Verdict("open", "There is one class only: nothing can be wrong."))
        none = f"{first.title} made no mistake"
        said = f"{none} but on {beside}." if beside else f"{none}."
        return verdict_line(Verdict("good" if bool(can.any()) else "open", said))
    whose = "the others" if subject.alone else "the training samples"
    which = f"All {wrong} mistakes" if wrong == len(found) else f"The {len(found)} worst of {wrong:,} mistakes"
    order = "by how much closer they are to the class they were taken for than to their own, "
    which, order = ("The one mistake", "") if wrong == 1 else (which, order)
    besides = f" (beside {beside})" if beside else ""
    near = f"the {len(found[0].neighbours)} nearest" if len(found[0].neighbours) > 1 else "the nearest"
    lead = Verdict(
        "open",
        f"{which}{besides}, {order}with {near} of {whose}: where these look like the sample, it is "
        "ambiguous or its label is wrong; where they do not, the embedding is at fault. "
        "A dashed green line marks neighbours of the sample's own class.",
    )
    cards = "".join(_card(subject, mistake) for mistake in found)
    return f'{verdict_line(lead)}<ol class="mistakes">{cards}</ol>'


def _card(subject: Subject, mistake: Mistake) -> str:
    names, gallery = subject.test.class_names, gallery_of(subject)
    near = "".join(
        f'<li class="{"same" if one.label == mistake.label else "other"}">{sample_view(gallery, one.sample)}'
        f"<span>{text(names[one.label])}<br><small>cos {signed(one.cosine)}</small></span></li>"
        for one in mistake.neighbours
    )
    known = subject.test.images is not None or subject.test.shown is not None
    seen = sample_view(subject.test, mistake.sample) if known else ""
    return (
        f'<li><div class="query">{seen}<p><b>{text(names[mistake.label])}</b> '
        f"taken for <b>{text(names[mistake.predicted])}</b><br><small>sample {mistake.sample:,}, margin "
        f'{signed(mistake.margin)}</small></p></div><ol class="near">{near}</ol></li>'
    )


def sample_view(found: EmbeddingSet, place: int) -> str:
    """What can be seen of a sample: its thumbnail, its text, or its number."""
    shown = "" if found.shown is None else found.shown[place]
    cut = shown if len(shown) <= LONGEST else shown[:LONGEST] + "…"
    if found.images is not None:
        uri = picture_uri(found.images[place])
        return f'<img class="thumb" src="{uri}" alt="{text(cut or f"sample {place}")}" title="{text(cut)}">'
    return f'<span class="words">{text(cut)}</span>' if cut else f'<span class="words">sample {place:,}</span>'


def about(subject: Subject) -> str:
    """Data, settings and where the run came from."""
    geometry = subject.geometry
    counts = [count for count in geometry.class_counts if count]
    rows: list[tuple[str, str]] = [
        ("data", subject.evaluation.data),
        ("samples shown", _sizes(counts)),
        ("judged by", _judges(subject)),
        ("dimensions", ", ".join(f"{name} {dim}" for name, dim in subject.evaluation.dims.items())),
        ("temperature of loss readings", f"{geometry.temperature:g}"),
    ]
    starts = (subject.provenance or {}).get("starts") or []
    last: dict[str, Any] = starts[-1] if starts and isinstance(starts[-1], dict) else {}
    for key in ("command", "started", "commit", "seed"):
        if last.get(key) is not None:
            rows.append((key, str(last[key])))
    for key in ("versions", "hardware"):
        if isinstance(last.get(key), dict):
            rows.append((key, ", ".join(f"{name} {value}" for name, value in last[key].items())))
    told = table(("", ""), rows)
    settings = ""
    if subject.config is not None:
        written = json.dumps(subject.config, indent=2, ensure_ascii=False)
        settings = f"<details><summary>Every setting</summary><pre>{text(written)}</pre></details>"
    return f"<details><summary>Data, settings, versions</summary>{told}{settings}</details>"


def _judges(subject: Subject) -> str:
    if not subject.evaluation.classifiers and subject.evaluation.retrieval is None:
        return "nobody"
    return "all the others (leave-one-out)" if subject.alone else amount(len(subject.train or ()), "training sample")


def _sizes(counts: Sequence[int]) -> str:
    least, most = min(counts), max(counts)
    each = f"{most:,}" if least == most else f"{least:,} to {most:,}"
    return f"{sum(counts):,} in {amount(len(counts), 'class', 'classes')}, {each} each"
