"""How well embeddings tell labels of which a sample may carry several."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from sincere.defaults import usual_defaults
from sincere.embeddings.plain_rows import finite_rows, shaped_numbers
from sincere.errors import InputError, OptionError
from sincere.evaluate.bootstrap import estimated, resampled_counts, resampled_means
from sincere.evaluate.label_probe import fit_labels, fit_labels_with_folds
from sincere.evaluate.neighbour_shares import neighbour_shares
from sincere.evaluate.ranking import Ranking
from sincere.evaluate.record import Estimate
from sincere.nearest.precision import full_precision
from sincere.tables import amount, columns, such_as

NEIGHBOURS = 20  # unless given; as in `evaluate`


@dataclass(frozen=True)
class LabelFigures:
    """One label: how many carry it, and the average precision of ranking the samples for it."""

    name: str
    samples: int
    references: int
    linear: Estimate
    knn: Estimate


@dataclass(frozen=True)
class MultiHotEvaluation:
    """What `evaluate_multi_hot` found; print it for a table. Every figure is a share, with its 95 % interval."""

    samples: int
    references: int
    linear_map: Estimate
    knn_map: Estimate
    macro_f1: Estimate
    micro_f1: Estimate
    neighbour_jaccard: Estimate
    labels: tuple[LabelFigures, ...]  # without those that no sample carries
    k: int
    l2: float
    draws: int
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        rows = [
            (f"over {amount(len(self.labels), 'label')}", "linear probe", f"k-NN (k = {self.k})"),
            ("mean average precision", str(self.linear_map), str(self.knn_map)),
            ("F1, mean over labels", str(self.macro_f1), ""),
            ("F1, all decisions together", str(self.micro_f1), ""),
            ("labels shared with the nearest", "", str(self.neighbour_jaccard)),
        ]
        hardest = sorted(self.labels, key=lambda one: one.linear.value)[:5]
        rows += [("", "", ""), ("average precision, lowest first", "", "")]
        rows += [(f"{one.name} ({one.samples:,} of them)", str(one.linear), str(one.knn)) for one in hardest]
        return "\n".join(
            [
                f"{amount(self.references, 'reference')}, {amount(self.samples, 'sample')}; percent, with 95 % "
                f"intervals from {self.draws:,} bootstrap draws",
                "",
                *columns(rows),
                *(f"! {note}" for note in self.notes),
            ]
        )


@usual_defaults()
@full_precision()
def evaluate_multi_hot(
    embeddings: object,
    labels: object,
    references: object,
    reference_labels: object,
    *,
    label_names: Iterable[object] | None = None,
    k: int | None = None,
    l2: float | None = None,
    draws: int = 1000,
    seed: int = 0,
) -> MultiHotEvaluation:
    """How well embeddings of samples with several labels each tell these labels.

    Two rankings of the samples for every label: by a linear classifier that is fitted on the references, and by how
    many of the k nearest references carry the label. Their figure is average precision, its mean over labels mAP. F1 is
    that of the linear classifier, which says that a sample carries a label where that is the more probable. The share
    of labels that a sample has in common with its nearest reference is |y ∩ y'|/|y ∪ y'|, over samples with any label.

    Nothing is chosen on the samples: the strength of L2 is, by cross-validation within the references. Labels that no
    sample carries have no figure of their own. Samples with a negative entry, which are unlabelled for the losses, are
    left out.

    Args:
        embeddings: (n, d), numbers in a tensor, an array or lists.
        labels: (n, labels), 1 where a sample carries a label and 0 where not.
        references: (m, d), such as the embeddings of training samples.
        reference_labels: (m, labels).
        label_names: one for each column; their numbers unless given.
        k: how many references are neighbours; 20 unless given, or all of fewer.
        l2: strength of the linear classifier's penalty, where it was chosen before.
        draws: of the bootstrap over samples.
    """
    new, hot = _labelled("embeddings", embeddings, "labels", labels)
    known, known_hot = _labelled("references", references, "reference_labels", reference_labels)
    names = _checked(new, hot, known, known_hot, label_names)
    k = min(NEIGHBOURS, len(known)) if k is None else k
    probe, strength = fit_labels_with_folds(known, known_hot, seed=seed) if l2 is None else (None, l2)
    scores = (probe or fit_labels(known, known_hot, l2=strength)).scores(new).double()
    votes, shared = _by_neighbours(new, hot, known, known_hot, k)
    (linear, linear_map), (knn, knn_map) = (_precisions(one, hot, draws=draws, seed=seed) for one in (scores, votes))
    macro, micro = _f1(scores > 0, hot.bool(), draws=draws, seed=seed)
    asked = hot.any(dim=0).nonzero().flatten().tolist()
    held = ([names[label] for label in asked], *(one.sum(dim=0).long()[asked].tolist() for one in (hot, known_hot)))
    return MultiHotEvaluation(
        samples=len(new),
        references=len(known),
        linear_map=linear_map,
        knn_map=knn_map,
        macro_f1=macro,
        micro_f1=micro,
        neighbour_jaccard=_mean(shared[hot.any(dim=1)], draws=draws, seed=seed),
        labels=tuple(map(LabelFigures, *held, linear, knn)),
        k=k,
        l2=strength,
        draws=draws,
        notes=tuple(_notes(names, hot, known_hot)),
    )


def _labelled(name: str, embeddings: object, labels_name: str, labels: object) -> tuple[Tensor, Tensor]:
    """Rows, float32 (n, d), and their labels, float32 (n, labels) of 0 and 1; without unlabelled samples."""
    rows = finite_rows(name, embeddings)
    given = shaped_numbers(
        labels_name,
        labels,
        f"a 0 or 1 for each label of each sample, ({len(rows)}, labels)",
        (len(rows), None),
        " For one class a sample use sincere.evaluate.evaluate; lists of names become such rows by scikit-learn's "
        "MultiLabelBinarizer.",
    )
    hot = torch.from_numpy(given.astype("float32"))
    kept = ~(hot < 0).any(dim=1)  # and not those with NaN, which is refused: it marks no sample as unlabelled
    if not bool(((hot[kept] == 0) | (hot[kept] == 1)).all()):
        wrong = hot[kept][(hot[kept] != 0) & (hot[kept] != 1)]
        raise InputError(f"{labels_name} must be 0 or 1: got {wrong[0].item():g}. Decide which labels a sample has.")
    return rows[kept], hot[kept]


def _checked(
    new: Tensor, hot: Tensor, known: Tensor, known_hot: Tensor, label_names: Iterable[object] | None
) -> tuple[str, ...]:
    """The labels' names, where samples and references fit together."""
    if new.shape[1] != known.shape[1] or hot.shape[1] != known_hot.shape[1]:
        raise InputError(
            "samples and references must share dimensions and labels: got embeddings of "
            f"{new.shape[1]} and {known.shape[1]} dimensions, {hot.shape[1]} and {known_hot.shape[1]} labels."
        )
    if not bool(hot.any()) or not bool(known_hot.any()):
        raise InputError("some sample and some reference must carry a label: one side has none at all.")
    names = tuple(map(str, range(hot.shape[1]) if label_names is None else label_names))
    if len(names) != hot.shape[1]:
        raise OptionError(f"label_names must hold one name for each of {hot.shape[1]} labels: got {len(names)}.")
    return names


def _by_neighbours(new: Tensor, hot: Tensor, known: Tensor, known_hot: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """How many of the k nearest carry each label, (n, labels), and the labels shared with the nearest, (n,)."""
    hot, known_hot = hot.double(), known_hot.double()
    votes = torch.zeros(hot.shape, dtype=torch.float64)
    for tile, shares in neighbour_shares(new, known, k=k):
        # Without the digits that the order of a sum leaves: samples with equal votes must tie.
        votes[tile] = (shares @ known_hot).round(decimals=9)
    shared = torch.zeros(len(hot), dtype=torch.float64)
    for tile, shares in neighbour_shares(new, known, k=1):
        both = hot[tile] @ known_hot.T
        either = hot[tile].sum(dim=1, keepdim=True) + known_hot.sum(dim=1) - both
        shared[tile] = (shares * both / either.clamp(min=1)).sum(dim=1)
    return votes, shared


def _precisions(scores: Tensor, hot: Tensor, *, draws: int, seed: int) -> tuple[list[Estimate], Estimate]:
    """Average precision of each label that some sample carries, and its mean over these, all by the same draws."""
    rankings = [Ranking(*columns) for columns in zip(scores.T, hot.T, strict=True) if bool(columns[1].any())]
    values = torch.cat([one.average_precision() for one in rankings])
    parts = [
        torch.stack([one.average_precision(counts) for one in rankings], dim=1)
        for counts in resampled_counts(len(hot), draws=draws, seed=seed)
    ]
    resampled = torch.cat(parts)  # (draws, labels), NaN in a draw that lacks the label
    by_label = [estimated(float(value), draw) for value, draw in zip(values, resampled.T, strict=True)]
    return by_label, estimated(float(values.mean()), resampled.nanmean(dim=1))


def _f1(said: Tensor, carried: Tensor, *, draws: int, seed: int) -> tuple[Estimate, Estimate]:
    """Mean over the labels that some sample carries, and of the decisions on all labels together."""
    parts = torch.cat([one.double() for one in (said & carried, said, carried)], dim=1)
    both = torch.cat([parts.mean(dim=0, keepdim=True), resampled_means(parts, draws=draws, seed=seed)])
    hits, guesses, truths = both.view(len(both), 3, -1).unbind(dim=1)
    by_label = (2 * hits / (guesses + truths))[:, carried.any(dim=0)]  # NaN in a draw that has neither
    together = 2 * hits.sum(dim=1) / (guesses + truths).sum(dim=1)
    return tuple(estimated(float(one[0]), one[1:]) for one in (by_label.nanmean(dim=1), together))  # type: ignore[return-value]


def _mean(values: Tensor, *, draws: int, seed: int) -> Estimate:
    return estimated(float(values.mean()), resampled_means(values.unsqueeze(1), draws=draws, seed=seed)[:, 0])


def _notes(names: Sequence[str], hot: Tensor, known_hot: Tensor) -> Iterator[str]:
    """Labels that cannot be judged, or not be learned."""
    asked, known = hot.any(dim=0).tolist(), known_hot.any(dim=0).tolist()
    for told, some in (
        ("No sample carries {}: no figures of it.", [not one for one in asked]),
        (
            "No reference carries {}: nothing can tell it.",
            [one and not other for one, other in zip(asked, known, strict=True)],
        ),
    ):
        if found := [name for name, one in zip(names, some, strict=True) if one]:
            yield told.format(repr(found[0]) if len(found) == 1 else f"{len(found)} labels{such_as(found)}")
