"""What classifiers and retrieval said of each sample → their results, every figure with its bootstrap interval."""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from sincere.embeddings.embedding_set import EmbeddingSet
from sincere.evaluate.accuracy import balanced_accuracy, per_class_accuracy, top_k_hits
from sincere.evaluate.bootstrap import estimated, resampled_class_means, resampled_means
from sincere.evaluate.classifiers import Scored
from sincere.evaluate.record import ClassifierResult, RetrievalResult
from sincere.evaluate.retrieval import Retrieved, as_hits


def classifier_results(
    scored: Sequence[Scored], labels: Tensor, *, classes: int, draws: int, seed: int
) -> Iterator[ClassifierResult]:
    """The result of each classifier on the samples with these labels (n,); all figures come from the same draws."""
    if not scored:
        return
    correct = torch.stack([one.scores.argmax(dim=1) == labels for one in scored], dim=1)
    top5 = torch.stack([top_k_hits(one.scores, labels, 5) for one in scored], dim=1)
    overall = resampled_means(torch.cat([correct, top5], dim=1), draws=draws, seed=seed)
    by_class = resampled_class_means(correct, labels, classes=classes, draws=draws, seed=seed)
    for place, one in enumerate(scored):
        right, hits = correct[:, place], top5[:, place]
        has_top5 = classes > 5 and (one.ranks is None or one.ranks >= 5)
        shares = per_class_accuracy(right, labels, classes=classes).tolist()
        yield ClassifierResult(
            method=one.method,
            title=one.title,
            settings=one.settings,
            predicted=tuple(one.scores.argmax(dim=1).tolist()),
            in_top5=tuple(hits.tolist()) if has_top5 else None,
            top1=estimated(float(right.double().mean()), overall[:, place]),
            balanced=estimated(balanced_accuracy(right, labels, classes=classes), by_class[:, place].nanmean(dim=1)),
            top5=estimated(float(hits.double().mean()), overall[:, len(scored) + place]) if has_top5 else None,
            per_class=tuple(
                None if share != share else estimated(share, by_class[:, place, number])
                for number, share in enumerate(shares)
            ),
        )


def retrieval_result(found: Retrieved, *, gallery: str, draws: int, seed: int) -> RetrievalResult:
    """The result of retrieval; `gallery` says in words where it looked."""
    columns = torch.stack([found.r_precision, found.average_precision, *found.recall.values()], dim=1).cpu()
    resampled = resampled_means(columns, draws=draws, seed=seed)
    estimates = [estimated(float(mean), draw) for mean, draw in zip(columns.mean(dim=0), resampled.T, strict=True)]
    return RetrievalResult(
        gallery=gallery,
        queries=tuple(found.queries.tolist()),
        hits={k: tuple(as_hits(chances).tolist()) for k, chances in found.recall.items()},
        precisions=tuple(found.r_precision.tolist()),
        average_precisions=tuple(found.average_precision.tolist()),
        recall=dict(zip(found.recall, estimates[2:], strict=True)),
        r_precision=estimates[0],
        map_at_r=estimates[1],
    )


def dims_of(found: EmbeddingSet) -> dict[str, int]:
    """Dimensions of the embeddings and, where there are any, of the features."""
    dims = {"embeddings": found.embeddings.shape[1]}
    return dims if found.features is None else {**dims, "features": found.features.shape[1]}
