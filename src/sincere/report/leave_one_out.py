"""A set by itself: every sample is judged by all the others, so no second set is needed."""

import torch

from sincere.embeddings.embedding_set import EmbeddingSet
from sincere.evaluate import Evaluation, RetrievalResult
from sincere.evaluate.classifiers import Scored
from sincere.evaluate.record import Setting
from sincere.evaluate.results import classifier_results, dims_of, retrieval_result
from sincere.evaluate.retrieval import retrieve
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
    scored = [_knn(found)] if judged else []
    retrieval = _retrieval(found) if judged else None
    for one in scored:
        others = {name: count - 1 for name, count in found.class_counts().items()}
        notes += k_notes(int(one.settings["k"] or 0), one.settings["k_origin"], others, one="other sample")
    alone = sum(count == 1 for count in found.class_counts().values())
    if alone and len(found) > 1:
        notes.append(
            "1 sample is the only one of its class: no neighbour can vote for it, and it is no query of retrieval"
            if alone == 1
            else f"{alone:,} samples are the only ones of their class: no neighbour can vote for them, and they are "
            "no queries of retrieval"
        )
    return Evaluation(
        name=name,
        data=found.name,
        class_names=found.class_names,
        labels=tuple(found.labels.tolist()),
        train_samples=len(found) - 1,
        dims=dims_of(found),
        classifiers=tuple(
            classifier_results(scored, found.labels, classes=len(found.class_names), draws=DRAWS, seed=SEED)
        ),
        retrieval=retrieval,
        draws=DRAWS,
        seed=SEED,
        notes=tuple(notes),
    )


def _knn(found: EmbeddingSet) -> Scored:
    labels = found.labels
    k = default_k(torch.bincount(labels) - 1)  # a sample does not find itself
    scores = vote(nearest(found.embeddings, None, labels, k=k), classes=len(found.class_names), k=k)
    settings: dict[str, Setting] = {
        "k": k,
        "k_origin": k_origin(k),
        "voting": "count",
        "on": "embeddings",
        "leave_one_out": True,
    }
    return Scored("knn", f"k-NN, leave-one-out ({k_words(k, k_origin(k))})", settings, scores)


def _retrieval(found: EmbeddingSet) -> RetrievalResult | None:
    result = retrieve(found.embeddings, found.labels, ks=RECALL_AT)
    if not result.queries.numel():
        return None
    return retrieval_result(result, gallery="the other samples", draws=DRAWS, seed=SEED)
