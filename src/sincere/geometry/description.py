"""All figures of this package for one set: one record, and one pass over all pairs."""

from collections.abc import Callable, Iterator

from sincere.checks import check_temperature
from sincere.embeddings.embedding_set import EmbeddingSet
from sincere.geometry.alignment_uniformity import GaussianPotential, alignment
from sincere.geometry.anchors import COLDEST, AnchorRows, ExponentialSums, anchor_rows
from sincere.geometry.collapse import neural_collapse
from sincere.geometry.directions import Directions, check_not_empty, directions_of
from sincere.geometry.eigenvalues import spectrum
from sincere.geometry.histograms import HistogramCounts, histograms_from
from sincere.geometry.loss_values import SET_LOSS_UP_TO, kl_bounds_from, readings_from, repulsion_from
from sincere.geometry.margins import class_margins
from sincere.geometry.pair_pass import Listener, listen
from sincere.geometry.pair_similarity import similarity_by_class_pair
from sincere.geometry.record import Geometry
from sincere.geometry.robustness import head_robustness
from sincere.geometry.simplex import simplex_conditions
from sincere.nearest.precision import full_precision
from sincere.tables import amount, such_as


@full_precision()
def describe(
    test: EmbeddingSet,
    *,
    train: EmbeddingSet | None = None,
    temperature: float = 0.1,
    bins: int = 100,
    draws: int = 1000,
    seed: int = 0,
    name: str | None = None,
    on_step: Callable[[str], None] | None = None,
) -> Geometry:
    """The shape of a set of embeddings: exact over all pairs, in memory linear in their number.

    Args:
        test: the embeddings to look at; those of samples that the model was not trained on say more.
        train: what a linear head is fitted on, to see how far test embeddings may move before it errs.
        temperature: of the losses.
        bins: of the histograms of cosines.
        draws: of every bootstrap.
        seed: of the draws.
        name: of the model or run; the set's where none is given.
        on_step: called with a few words before each part, for a progress display.
    """
    check_not_empty(test)
    check_temperature(temperature)
    say = on_step or (lambda words: None)
    say("class means")
    rows, similarity = directions_of(test), similarity_by_class_pair(test)
    simplex, collapse, eigenvalues = simplex_conditions(test), neural_collapse(test), spectrum(test)
    say("margins")
    margins = class_margins(test, draws=draws, seed=seed)
    say("all pairs")
    counts, potential = HistogramCounts(rows, bins), GaussianPotential(rows, 2)
    sums = ExponentialSums(rows, temperature) if temperature >= COLDEST else None
    listeners: list[Listener] = [counts, potential]
    listen(rows, listeners if sums is None else [*listeners, sums])
    say("losses")
    anchors = anchor_rows(rows, temperature, sums)
    robustness = None
    if train is not None:
        say("linear head")
        robustness = head_robustness(train, test, draws=draws, seed=seed)
    return Geometry(
        name=name or test.name,
        data=test.name,
        samples=len(test),
        dim=test.embeddings.shape[1],
        class_names=test.class_names,
        class_counts=tuple(test.class_counts().values()),
        temperature=float(temperature),
        similarity=similarity,
        histograms=histograms_from(counts, similarity),
        margins=margins,
        simplex=simplex,
        neural_collapse=collapse,
        alignment=alignment(test),
        uniformity=potential.uniformity(),
        spectrum=eigenvalues,
        repulsion=repulsion_from(anchors),
        kl_bounds=kl_bounds_from(anchors, rows, test.class_names),
        loss_readings=readings_from(anchors, rows, temperature),
        head_robustness=robustness,
        notes=tuple(_notes(test, rows, anchors)),
    )


def _notes(test: EmbeddingSet, rows: Directions, anchors: AnchorRows) -> Iterator[str]:
    """What a reader should know before quoting a figure."""
    counts = test.class_counts()
    present = sum(count > 0 for count in counts.values())
    empty = [name for name, count in counts.items() if not count]
    if empty:
        end = "has no sample and is left out" if len(empty) == 1 else "have no sample and are left out"
        yield f"{amount(len(empty), 'class', 'classes')} {end}{such_as(empty)}"
    alone = int((anchors.num_pos == 0).sum())
    if alone:
        yield (
            "1 sample is the only one of its class: it has no margin and is no anchor"
            if alone == 1
            else f"{alone:,} samples are the only ones of their class: they have no margin and are no anchors"
        )
    if present > rows.rows.shape[1] + 1:
        dim = rows.rows.shape[1]
        yield (
            f"{amount(present, 'class', 'classes')} do not fit a regular simplex in {amount(dim, 'dimension')} "
            f"(at most {dim + 1}): its cosine and the losses' floors cannot be reached"
        )
    zeros = int((rows.rows.square().sum(dim=1) == 0).sum())
    if zeros:
        yield (
            "1 embedding is zero: it has no direction, and counts with cosine 0"
            if zeros == 1
            else f"{zeros:,} embeddings are zero: they have no direction, and count with cosine 0"
        )
    if rows.rows.shape[0] > SET_LOSS_UP_TO:
        yield (
            f"the set loss is not read over {rows.rows.shape[0]:,} samples at once, as its cost grows with subsets; "
            "loss_readings(..., batch=256) reads it in batches"
        )
