"""Class margins: are samples closer to their own class's mean than to any other?"""

import torch
from torch import Tensor

from sincere.embeddings.embedding_set import EmbeddingSet
from sincere.evaluate.bootstrap import estimated, resampled_class_means, resampled_means
from sincere.geometry.directions import check_not_empty, class_sums, cosines_across
from sincere.geometry.record import ClassMargins
from sincere.losses.similarity import unit_rows
from sincere.nearest.neighbours import row_tiles
from sincere.nearest.precision import full_precision

TIE = 1e-9  # a margin this close to zero is rounding: the sample is as close to either mean


@full_precision()
def sample_margins(found: EmbeddingSet) -> Tensor:
    """cos(z_i, mean of the other samples of its class) − max over other classes of cos(z_i, their mean), float64 (n,).

    NaN for the only sample of a class, and where there is no other class.
    """
    labels, classes = found.labels, len(found.class_names)
    rows = unit_rows(found.embeddings)
    sums = class_sums(rows, labels, classes=classes)
    counts = torch.bincount(labels, minlength=classes)
    directions = unit_rows(sums).masked_fill((counts == 0).unsqueeze(1), torch.nan)
    margins = torch.full((len(found),), torch.nan, dtype=torch.float64, device=rows.device)
    for tile in row_tiles(len(found), max(classes, rows.shape[1]), rows.device):
        z, own_class = rows[tile].double(), labels[tile]
        own = (z * unit_rows(sums[own_class] - z)).sum(dim=1)
        others = (z @ directions.T).nan_to_num(nan=-torch.inf)
        others.scatter_(1, own_class.unsqueeze(1), -torch.inf)
        margins[tile] = torch.where(counts[own_class] > 1, own - others.amax(dim=1), torch.nan)
    return margins.masked_fill(margins.isinf(), torch.nan)


@full_precision()
def class_margins(found: EmbeddingSet, *, draws: int = 1000, seed: int = 0) -> ClassMargins:
    """The mean margin of each class, with a 95 % bootstrap interval over its samples; class means are not resampled.

    A sample is left out of its own class's mean, because otherwise it would be closer to it than a new sample. A
    negative margin means that the nearest class mean is another class's.
    """
    check_not_empty(found)
    classes = len(found.class_names)
    margins = sample_margins(found).cpu()
    usable = ~margins.isnan()
    values, labels = margins[usable], found.labels.cpu()[usable]
    if not values.numel():
        nothing = (None,) * classes
        return ClassMargins(found.class_names, nothing, nothing, _nearest(found), None, None, draws, seed)
    column = values.unsqueeze(1)
    by_class = resampled_class_means(column, labels, classes=classes, draws=draws, seed=seed)[:, 0]
    overall = resampled_means(column, draws=draws, seed=seed)[:, 0]
    counts = torch.bincount(labels, minlength=classes)
    means = torch.bincount(labels, weights=values, minlength=classes) / counts
    negative = torch.bincount(labels, weights=(values < -TIE).double(), minlength=classes) / counts
    return ClassMargins(
        class_names=found.class_names,
        margins=tuple(
            estimated(mean, by_class[:, number]) if mean == mean else None for number, mean in enumerate(means.tolist())
        ),
        negative=tuple(None if share != share else share for share in negative.tolist()),
        nearest=_nearest(found),
        overall=estimated(float(values.mean()), overall),
        overall_negative=float((values < -TIE).double().mean()),
        draws=draws,
        seed=seed,
    )


def _nearest(found: EmbeddingSet) -> tuple[str | None, ...]:
    """For each class the other one whose mean has the largest cosine with its own."""
    classes = len(found.class_names)
    counts = torch.bincount(found.labels, minlength=classes)
    cosines = cosines_across(class_sums(unit_rows(found.embeddings), found.labels, classes=classes))
    empty = counts == 0
    cosines = cosines.masked_fill(empty, -torch.inf).fill_diagonal_(-torch.inf)
    highest, places = cosines.max(dim=1)
    return tuple(
        found.class_names[place] if best > -2 and not gone else None
        for best, place, gone in zip(highest.tolist(), places.tolist(), empty.tolist(), strict=True)
    )
