"""A set by itself: every sample is judged by all the others, so no second set is needed."""

import torch
from torch import Tensor

from sincere.embeddings.embedding_set import EmbeddingSet
from sincere.evaluate import ClassifierResult, Estimate, Evaluation, RetrievalResult
from sincere.evaluate.accuracy import balanced_accuracy, per_class_accuracy, top_k_hits
from sincere.evaluate.bootstrap import percentile_interval, resampled_class_means, resampled_means
from sincere.evaluate.retrieval import as_hits, retrieve
from sincere.nearest.default_k import default_k, k_notes, k_origin, k_words
from sincere.nearest.neighbours import nearest, vote

DRAWS, SEED, RECALL_AT = 1000, 0, (1, 5, 10)
NOTE = "no training set was given: every sample was classified by its nearest neighbours among all the others"
NOBODY = "there is one sample only, and nobody else to judge it by"
ONE_CLASS = "all samples are of one class, {!r}, and cannot be taken for another: one class has no accuracy"


def evaluate_alone(found: EmbeddingSet, *, name: str) -> Evaluation:
    """Leave-one-out k-NN and retrieval; neither where there is nobody else, or nothing else to be taken for."""
    present = [name for name, count in found.class_counts().items() if count]
    judged = len(present) > 1
    notes = [NOTE if judged else ONE_CLASS.format(present[0]) if len(found) > 1 else NOBODY]
    classifiers = (_knn(found),) if judged else ()
    retrieval = _retrieval(found) if judged else None
    for result in classifiers:
        others = {name: count - 1 for name, count in found.class_counts().items()}
        notes += k_notes(int(result.settings["k"] or 0), result.settings["k_origin"], others, one="other sample")
    alone = sum(count == 1 for count in found.class_counts().values())
    if alone and len(found) > 1:
        notes.append(
            "1 sample is the only one of its class: no neighbour can vote for it, and it is no query of retrieval"
            if alone == 1
            else f"{alone:,} samples are the only ones of their class: no neighbour can vote for them, and they are "
            "no queries of retrieval"
        )
    dims = {"embeddings": found.embeddings.shape[1]}
    if found.features is not None:
        dims["features"] = found.features.shape[1]
    return Evaluation(
        name=name,
        data=found.name,
        class_names=found.class_names,
        labels=tuple(found.labels.tolist()),
        train_samples=len(found) - 1,
        dims=dims,
        classifiers=classifiers,
        retrieval=retrieval,
        draws=DRAWS,
        seed=SEED,
        notes=tuple(notes),
    )


def _knn(found: EmbeddingSet) -> ClassifierResult:
    labels, classes = found.labels, len(found.class_names)
    k = default_k(torch.bincount(labels) - 1)  # a sample does not find itself
    scores = vote(nearest(found.embeddings, None, labels, k=k), classes=classes, k=k)
    predicted = scores.argmax(dim=1)
    right, hits = predicted == labels, top_k_hits(scores, labels, 5)
    overall = resampled_means(torch.stack([right, hits], dim=1), draws=DRAWS, seed=SEED)
    by_class = resampled_class_means(right.unsqueeze(1), labels, classes=classes, draws=DRAWS, seed=SEED)[:, 0]
    shares = per_class_accuracy(right, labels, classes=classes).tolist()
    return ClassifierResult(
        method="knn",
        title=f"k-NN, leave-one-out ({k_words(k, k_origin(k))})",
        settings={"k": k, "k_origin": k_origin(k), "voting": "count", "on": "embeddings", "leave_one_out": True},
        predicted=tuple(predicted.tolist()),
        in_top5=tuple(hits.tolist()) if classes > 5 else None,
        top1=_estimate(float(right.double().mean()), overall[:, 0]),
        balanced=_estimate(balanced_accuracy(right, labels, classes=classes), by_class.nanmean(dim=1)),
        top5=_estimate(float(hits.double().mean()), overall[:, 1]) if classes > 5 else None,
        per_class=tuple(
            None if share != share else _estimate(share, by_class[:, number]) for number, share in enumerate(shares)
        ),
    )


def _retrieval(found: EmbeddingSet) -> RetrievalResult | None:
    result = retrieve(found.embeddings, found.labels, ks=RECALL_AT)
    if not result.queries.numel():
        return None
    columns = torch.stack([result.r_precision, result.average_precision, *result.recall.values()], dim=1)
    draws = resampled_means(columns, draws=DRAWS, seed=SEED)
    estimates = [_estimate(float(mean), draw) for mean, draw in zip(columns.mean(dim=0), draws.T, strict=True)]
    return RetrievalResult(
        gallery="the other samples",
        queries=tuple(result.queries.tolist()),
        hits={k: tuple(as_hits(chances).tolist()) for k, chances in result.recall.items()},
        precisions=tuple(result.r_precision.tolist()),
        average_precisions=tuple(result.average_precision.tolist()),
        recall=dict(zip(result.recall, estimates[2:], strict=True)),
        r_precision=estimates[0],
        map_at_r=estimates[1],
    )


def _estimate(value: float, resampled: Tensor) -> Estimate:
    return Estimate(value, *percentile_interval(resampled))
