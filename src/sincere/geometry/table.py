"""A geometry as a table and as sentences."""

from collections.abc import Iterator
from math import exp, log
from typing import TYPE_CHECKING

from sincere.tables import amount, columns

if TYPE_CHECKING:
    from sincere.evaluate.record import Estimate
    from sincere.geometry.record import Geometry

NAMES = {
    "sincere": "SINCERE",
    "supcon": "SupCon",
    "supcon_in": "SupCon L_in",
    "eps_supinfonce": "ε-SupInfoNCE",
    "decoupled": "decoupled",
    "set_nce": "set loss",
}


def render(found: "Geometry") -> str:
    """A table in plain text: figure, value, and what full collapse to the regular simplex would give."""
    title = found.data if found.name == found.data else f"{found.name} on {found.data}"
    lines = [f"{title}: {amount(found.samples, 'embedding')} of dimension {found.dim}, {_classes(found)}", ""]
    lines += columns([("", "value", "at the simplex"), *_shape_rows(found)])
    rows: list[tuple[str, ...]]
    if found.loss_readings:
        rows = [(f"loss at temperature {found.temperature:g}", "value", "floor", "excess", "pushed apart")]
        for loss, reading in found.loss_readings.items():
            share = f"{100 * found.repulsion[loss]:.1f} %"
            rows.append((NAMES[loss], _number(reading.value), _number(reading.floor), _number(reading.excess), share))
        lines += ["", *columns(rows)]
    if found.head_robustness is not None:
        head = found.head_robustness
        rows = [(f"linear head on {head.on}", *(f"ε = {step:g}" for step in head.steps))]
        rows += [("FGSM step", *map(str, head.fgsm)), ("worst step", *map(str, head.worst))]
        lines += ["", *columns(rows)]
    rows = [("class", "n", "within", "margin", "below 0", "overlap", "KL ≥", "nearest"), *_by_class(found)]
    lines += ["", *columns(rows)]
    return "\n".join([*lines, *([""] if found.notes else []), *(f"! {note}" for note in found.notes)])


def _shape_rows(found: "Geometry") -> Iterator[tuple[str, str, str]]:
    simplex, collapse, spectrum = found.simplex, found.neural_collapse, found.spectrum
    ideal = str(_present(found) - 1)
    yield "mean cosine within classes", _number(found.similarity.within), "1"
    yield "mean cosine between classes", _number(found.similarity.between), _number(simplex.target)
    yield "overlap of the two histograms", _number(found.histograms.overlap), "0"
    yield "margin to the next class mean", _interval(found.margins.overall), _gap(found)
    yield "S1 ‖mean of class means‖", _number(simplex.s1), "0"
    yield "S2 spread of their norms", _number(simplex.s2), "0"
    yield "S3 spread of their distances", _number(simplex.s3), "0"
    yield "cosine across class means", _number(simplex.mean_cosine), _number(simplex.target)
    yield "within-class collapse", _number(simplex.within_collapse), "1"
    yield "NC1 within / between spread", _number(collapse.nc1), "0"
    yield "NC2 distance from the frame", _number(collapse.nc2_etf), "0"
    yield "alignment", _number(found.alignment), "0"
    yield "uniformity", _number(found.uniformity), _number(_uniformity_at_simplex(found))
    yield "effective rank", _number(spectrum.effective_rank), ideal
    yield "participation ratio", _number(spectrum.participation_ratio), ideal


def _by_class(found: "Geometry") -> Iterator[tuple[str, ...]]:
    for place, name in enumerate(found.class_names):
        if found.class_counts[place]:
            share = found.margins.negative[place]
            yield (
                name,
                f"{found.class_counts[place]:,}",
                _number(found.similarity.means[place][place]),
                _interval(found.margins.margins[place]),
                "–" if share is None else f"{100 * share:.1f} %",
                _number(found.histograms.overlap_by_class[place]),
                _number(found.kl_bounds.get(name)),
                found.margins.nearest[place] or "–",
            )


def sentences(found: "Geometry") -> Iterator[str]:
    """What to see, and whether it is good."""
    yield from _similarity_sentences(found)
    yield from _margin_sentences(found)
    yield from _simplex_sentences(found)
    yield from _loss_sentences(found)
    if found.head_robustness is not None and found.head_robustness.radius is not None:
        head = found.head_robustness
        clean = dict(zip(head.steps, head.worst, strict=True)).get(0.0)
        right = "" if clean is None else f" is right on {100 * clean.value:.1f} % of the samples, and"
        yield (
            f"A linear head on the {head.on}{right} errs on half of those it gets right once they move by "
            f"{head.radius:.2f} in the worst direction; their mean length is {head.mean_norm:.2f}."
        )


def _similarity_sentences(found: "Geometry") -> Iterator[str]:
    within, between, target = found.similarity.within, found.similarity.between, found.simplex.target
    if within is None or between is None or target is None:
        yield "There is no pair of one class and of two to compare: one class, or one sample of each."
        return
    yield (
        f"Members of a class have mean cosine {_number(within)}, different classes {_number(between)}; the simplex of "
        f"{_classes(found)} would have 1 and {_number(target)}."
    )
    overlap = found.histograms.overlap or 0.0
    if overlap < 0.05:
        verdict = "a threshold tells nearly all pairs apart"
    else:
        verdict = f"{'some' if overlap < 0.25 else 'many'} pairs cannot be told by cosine"
    yield f"The two distributions of cosine share {100 * overlap:.1f} % of their mass: {verdict}."


def _margin_sentences(found: "Geometry") -> Iterator[str]:
    margins = found.margins
    if margins.overall is None or margins.overall_negative is None:
        return
    known = [
        (margin.value, name, nearest)
        for margin, name, nearest in zip(margins.margins, margins.class_names, margins.nearest, strict=True)
        if margin is not None
    ]
    least, name, nearest = min(known, key=lambda entry: entry[0])
    yield (
        f"{100 * margins.overall_negative:.1f} % of the samples are closer to another class's mean than to their own. "
        f"The smallest mean margin, {_number(least)}, is that of {name}, whose nearest class is {nearest}."
    )


def _simplex_sentences(found: "Geometry") -> Iterator[str]:
    simplex = found.simplex
    if simplex.mean_deviation is None or simplex.within_collapse is None:
        return
    room = "" if simplex.fits else f" {_classes(found)} do not fit a simplex in {amount(found.dim, 'dimension')}."
    yield (
        f"Across class means the cosine is off the simplex's by {simplex.mean_deviation:.2f} on average and "
        f"{simplex.largest_deviation:.2f} at most, and samples have cosine {_number(simplex.within_collapse)} with "
        f"the mean of their own class (0 and 1 when collapse is complete).{room}"
    )
    rank = found.spectrum.effective_rank
    if rank is not None:
        yield (
            f"The embeddings use {rank:.1f} of {amount(found.dim, 'dimension')} (effective rank); "
            f"{_present(found)} points of a simplex need {_present(found) - 1}."
        )


def _loss_sentences(found: "Geometry") -> Iterator[str]:
    share, reading = found.repulsion.get("supcon", 0.0), found.loss_readings.get("sincere")
    if reading is None:
        return
    yield f"SupCon would push {100 * share:.0f} % of these same-class pairs apart; SINCERE and the set loss push none."
    if reading.floor is not None:
        yield (
            f"SINCERE over all samples at temperature {found.temperature:g} is {reading.value:.2f}, "
            f"{reading.value - reading.floor:.2f} above its floor of {reading.floor:.2f}."
        )
    if found.kl_bounds:
        yield _bound_sentence(found)


def _bound_sentence(found: "Geometry") -> str:
    """KL itself is never below 0: where its bound is, nothing is said."""
    bounds = found.kl_bounds
    name = min(bounds, key=lambda one: bounds[one])
    most = f"so many samples can prove at most {log(max(_negatives(found))):.2f}"
    silent = sum(bound <= 0 for bound in bounds.values())
    if not silent:
        which = "Each class" if len(bounds) == _present(found) else "Each class with two samples"
        return (
            f"{which} differs from the rest by at least {bounds[name]:.2f} nats (KL bound), {name} the least; {most}."
        )
    lowest = f"{bounds[name]:.2f}".replace("-", "−")
    return (
        f"The KL bound is not above 0 for {silent:,} of {amount(len(bounds), 'class', 'classes')}, and says nothing of "
        f"{'it' if silent == 1 else 'them'}; the lowest is that of {name}, {lowest} nats, and {most}."
    )


def _uniformity_at_simplex(found: "Geometry") -> float | None:
    """log of the mean over pairs of e^(−2‖x − y‖²): distance 0 within a class, ‖x − y‖² = 2 − 2·target between two."""
    within, between, target = found.histograms.pairs_within, found.histograms.pairs_between, found.simplex.target
    if target is None or not within + between:
        return None
    return log((within + between * exp(-4 * (1 - target))) / (within + between))


def _present(found: "Geometry") -> int:
    return sum(count > 0 for count in found.class_counts)


def _classes(found: "Geometry") -> str:
    return amount(_present(found), "class", "classes")


def _negatives(found: "Geometry") -> list[int]:
    """How many samples of other classes each class meets."""
    return [found.samples - count for count in found.class_counts if 0 < count < found.samples]


def _gap(found: "Geometry") -> str:
    """At the simplex the own mean has cosine 1, every other the target."""
    return "–" if found.simplex.target is None else _number(1 - found.simplex.target)


def _number(value: float | None) -> str:
    """Three digits with a real minus sign, and none before a zero."""
    if value is None:
        return "–"
    text = f"{value:.3f}"
    return text.replace("-", "−") if float(text) else text.lstrip("-")


def _interval(found: "Estimate | None") -> str:
    return "–" if found is None else f"{_number(found.value)} ({_number(found.low)} to {_number(found.high)})"
