"""The classifiers by name: fitted on the training set, chosen on the validation set, run on the test set."""

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from sincere.embeddings.embedding_set import EmbeddingSet
from sincere.errors import InputError
from sincere.evaluate.linear import fit_logistic, fit_with_folds, fit_with_validation
from sincere.evaluate.options import EvaluationOptions, Vectors
from sincere.evaluate.paper_probe import fit_paper_probe
from sincere.evaluate.record import Setting
from sincere.losses.similarity import unit_rows
from sincere.nearest.class_means import class_mean_scores, class_means
from sincere.nearest.default_k import k_words, settled_k
from sincere.nearest.neighbours import nearest, vote
from sincere.tables import amount

LENGTH = "length"  # in the linear probe's settings, where its vectors were brought to one


@dataclass(frozen=True)
class Task:
    """The sets of one evaluation, over one list of classes."""

    train: EmbeddingSet
    test: EmbeddingSet
    validation: EmbeddingSet | None
    options: EvaluationOptions
    views: EmbeddingSet | None = None  # of the training samples, all first ones before all second ones

    @property
    def classes(self) -> int:
        return len(self.train.class_names)

    @property
    def probes_on(self) -> Vectors:
        return self.options.probes_on or ("embeddings" if self.train.features is None else "features")

    @property
    def view_count(self) -> int:
        """Random views of each training sample; 0 where there are none."""
        return 0 if self.views is None else len(self.views) // len(self.train)


@dataclass(frozen=True)
class Scored:
    """What a classifier said of the test samples."""

    method: str
    title: str
    settings: dict[str, Setting]
    scores: Tensor  # (n, classes)
    ranks: int | None = None  # so many classes at most have a score that tells them apart; None: all


def vectors_of(found: EmbeddingSet, which: Vectors) -> Tensor:
    """Embeddings, or features where they were asked for."""
    if which == "embeddings":
        return found.embeddings
    if found.features is None:
        raise InputError(
            f"{found.name!r} must hold features: it has embeddings only. Embed it again, or ask for those."
        )
    return found.features


def _knn(task: Task) -> Scored:
    options = task.options
    which = options.neighbours_on
    gallery, labels = vectors_of(task.train, which), task.train.labels
    held_out = None if task.validation is None else (vectors_of(task.validation, which), task.validation.labels)
    k, origin = settled_k(options.k, gallery, labels, held_out, classes=task.classes, voting=options.voting)
    near = nearest(vectors_of(task.test, which), gallery, labels, k=k)
    scores = vote(near, classes=task.classes, k=k, voting=options.voting)
    settings: dict[str, Setting] = {"k": k, "k_origin": origin, "voting": options.voting, "on": which}
    return Scored("knn", f"k-NN ({k_words(k, origin)})", settings, scores, ranks=k)


def _class_means(task: Task) -> Scored:
    which = task.options.neighbours_on
    means = class_means(vectors_of(task.train, which), task.train.labels, classes=task.classes)
    return Scored("class_means", "class means", {"on": which}, class_mean_scores(vectors_of(task.test, which), means))


def _linear(task: Task) -> Scored:
    which, views = task.probes_on, task.view_count
    source = task.train if task.views is None else task.views
    vectors, labels = _for_probe(task, source), source.labels
    if task.options.l2 is not None:
        l2, origin = task.options.l2, "given"
        fitted = fit_logistic(vectors, labels, classes=task.classes, l2=l2)
    elif task.validation is not None:
        held_out = (_for_probe(task, task.validation), task.validation.labels)
        fitted, l2 = fit_with_validation((vectors, labels), held_out, classes=task.classes)
        origin = "chosen on the validation set"
    else:
        fitted, l2 = fit_with_folds(vectors, labels, classes=task.classes, seed=task.options.seed, views=views or 1)
        origin = "chosen by cross-validation within the training set"
    seen, short = "the training samples", ""
    if views:
        seen, short = f"{counted(views)} of each training sample", f" ({counted(views)})"
    settings: dict[str, Setting] = {"l2": l2, "l2_origin": origin, "on": which, "fitted_on": seen}
    title = f"linear probe on {which}{short}"
    if task.options.unit_probe:
        settings[LENGTH], title = 1, f"linear probe on unit {which}{short}"
    return Scored("linear", title, settings, fitted.scores(_for_probe(task, task.test)))


def _for_probe(task: Task, found: EmbeddingSet) -> Tensor:
    """What the linear probe sees of a set."""
    vectors = vectors_of(found, task.probes_on)
    return unit_rows(vectors) if task.options.unit_probe else vectors


def counted(views: int) -> str:
    """`1 view`, `4 views`."""
    return amount(views, "view")


def _linear_paper(task: Task) -> Scored:
    which = task.probes_on
    fitted = fit_paper_probe(
        vectors_of(task.train, which), task.train.labels, classes=task.classes, seed=task.options.seed
    )
    settings: dict[str, Setting] = {"schedule": "SINCERE Section 4.3, without augmentation", "on": which}
    scores = fitted.scores(vectors_of(task.test, which))
    return Scored("linear_paper", f"paper's probe on {which}", settings, scores)


CLASSIFIERS: dict[str, Callable[[Task], Scored]] = {
    "knn": _knn,
    "class_means": _class_means,
    "linear": _linear,
    "linear_paper": _linear_paper,
}
