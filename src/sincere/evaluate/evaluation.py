"""Two embedding sets → one record. Nothing is ever chosen on the test set."""

from collections.abc import Callable, Iterator

import torch

from sincere.embeddings.embedding_set import EmbeddingSet
from sincere.embeddings.identity import other_model
from sincere.errors import InputError, OptionError
from sincere.evaluate.classifiers import CLASSIFIERS, Scored, Task, counted, vectors_of
from sincere.evaluate.inputs import check_is_set
from sincere.evaluate.lengths import lengths_of_classes, swallowed
from sincere.evaluate.options import EvaluationOptions
from sincere.evaluate.record import Evaluation, RetrievalResult
from sincere.evaluate.results import classifier_results, dims_of, retrieval_result
from sincere.evaluate.retrieval import retrieve
from sincere.nearest.default_k import k_notes
from sincere.nearest.precision import full_precision
from sincere.tables import amount, such_as

ALONE = "every test sample is the only one of its class"


@full_precision()
def evaluate(
    train: EmbeddingSet,
    test: EmbeddingSet,
    *,
    validation: EmbeddingSet | None = None,
    views: EmbeddingSet | None = None,
    options: EvaluationOptions | None = None,
    name: str | None = None,
    on_step: Callable[[str], None] | None = None,
) -> Evaluation:
    """How good are these embeddings? Classifiers fitted on `train`, figures and intervals from `test`.

    Runs on the device of the sets: `evaluate(train.to("cuda"), test.to("cuda"))`.

    Args:
        train: what classifiers are fitted on.
        test: what they are measured on, and nothing else.
        validation: what k and the strength of L2 are chosen on. Without it k is 20, or fewer
            where classes are small, and the strength comes from cross-validation within `train`.
        views: random views of the training samples, as `LoadedModel.embed_views` makes them: what the linear probe is
            fitted on in place of `train`. All other methods stay with `train`.
        options: which methods, with which settings.
        name: of the model or run; the training set's where none is given.
        on_step: called with a few words before each method, for a progress display.
    """
    options = EvaluationOptions() if options is None else options
    if not isinstance(options, EvaluationOptions):
        raise OptionError(
            f"options must be an EvaluationOptions: got {type(options).__name__}. "
            "EvaluationOptions(methods=…, k=…) makes one."
        )
    task = _checked(train, test, validation, views, options)
    say = on_step or (lambda words: None)
    scored, retrieval = [], None
    for method in task.options.methods:
        say(method.replace("_", " "))
        if method == "retrieval":
            retrieval = _retrieval(task) if _has_queries(task) else None
        else:
            scored.append(CLASSIFIERS[method](task))
    say("intervals")
    return Evaluation(
        name=name or train.name,
        data=test.name,
        class_names=task.train.class_names,
        labels=tuple(task.test.labels.tolist()),
        train_samples=len(train),
        dims=dims_of(test),
        classifiers=tuple(
            classifier_results(
                scored, task.test.labels, classes=task.classes, draws=task.options.draws, seed=task.options.seed
            )
        ),
        retrieval=retrieval,
        draws=task.options.draws,
        seed=task.options.seed,
        notes=tuple(_notes(task, scored, retrieval)),
        samples=test.samples,
    )


def _checked(
    train: EmbeddingSet,
    test: EmbeddingSet,
    validation: EmbeddingSet | None,
    views: EmbeddingSet | None,
    options: EvaluationOptions,
) -> Task:
    for role, found in (("train", train), ("test", test), ("validation", validation), ("views", views)):
        if found is None:
            continue
        check_is_set(role, found)
        if len(found) == 0:
            raise InputError(f"{role} must hold at least one sample: {found.name!r} is empty.")
        if found.embeddings.shape[1] != train.embeddings.shape[1]:
            raise InputError(
                f"{role} must have the training set's dimension, {train.embeddings.shape[1]}: got "
                f"{found.embeddings.shape[1]}. Are these embeddings of one model?"
            )
        if other_model(train.model, found.model):
            raise InputError(
                f"{role} must be embeddings of the model of the training set: {found.name!r} and {train.name!r} were "
                "made by two. Embed both with one model."
            )
        if (
            found.features is not None
            and train.features is not None
            and found.features.shape[1] != (width := train.features.shape[1])
        ):
            raise InputError(
                f"{role} must have features of the training set's dimension, {width}: got {found.features.shape[1]}. "
                "Are these features of one model?"
            )
        if found.embeddings.device != train.embeddings.device:
            raise InputError(f"{role} must be on the training set's device, {train.embeddings.device}.")
    names = train.class_names
    validation, views = (None if found is None else found.with_classes(names) for found in (validation, views))
    task = Task(train, test.with_classes(names), validation, options, views)
    _check_views(task)
    return task


def _check_views(task: Task) -> None:
    """Views are those of the training samples, in their order, and as many as the options ask for."""
    asked, views, samples = task.options.probe_views, task.views, len(task.train)
    if views is None:
        if asked and "linear" in task.options.methods:
            raise OptionError(
                f"probe_views={asked} needs the embeddings of {counted(asked)} of each training sample, which only "
                f"their model can make: pass views=model.embed_views(data, count={asked})."
            )
        return
    if len(views) % samples:
        raise InputError(
            f"views must hold each of the {samples} training samples equally often: got {len(views)} rows."
        )
    if not torch.equal(views.labels, task.train.labels.repeat(task.view_count)):
        raise InputError(
            "views must be of the training samples, a first view of each in the order of train, then a second: "
            "their labels differ."
        )
    if asked not in (0, task.view_count):
        raise InputError(
            f"views must hold {counted(asked)} of each sample, as probe_views says: got {task.view_count}."
        )


def _has_queries(task: Task) -> bool:
    """Can retrieval be run? Where nothing else was asked for, it has to be."""
    if bool((torch.bincount(task.test.labels) > 1).any()):
        return True
    if task.options.methods == ("retrieval",):
        raise InputError(f"retrieval needs a class with two test samples: {ALONE}. Add test samples.")
    return False


def _retrieval(task: Task) -> RetrievalResult:
    """Among the test samples: the gallery is as new to the model as the queries."""
    options = task.options
    found = retrieve(vectors_of(task.test, options.neighbours_on), task.test.labels, ks=options.recall_at)
    return retrieval_result(found, gallery="the other test samples", draws=options.draws, seed=options.seed)


def _notes(task: Task, scored: list[Scored], retrieval: RetrievalResult | None) -> Iterator[str]:
    """What a reader should know before quoting a figure."""
    options = task.options
    for part, end in ((task.train, "training sample and cannot be predicted"), (task.test, "test sample to judge by")):
        missing = [name for name, count in part.class_counts().items() if not count]
        if missing:
            have = "has" if len(missing) == 1 else "have"
            yield f"{amount(len(missing), 'class', 'classes')} {have} no {end}{such_as(missing)}"
    if "linear" in options.methods and task.validation is None and options.l2 is None:
        yield (
            "the linear probe's L2 was chosen within the training set; if the encoder was trained on these samples "
            "they look easier than new ones, so pass a validation set, or a strength that was chosen elsewhere"
        )
    if "knn" in options.methods and options.k is not None and options.k > len(task.train):
        yield f"k = {options.k} is more than the training samples: all {len(task.train)} voted"
    for one in scored:
        if one.method == "linear" and not options.unit_probe:
            vectors, classes = vectors_of(task.train, task.probes_on), task.classes
            lengths = lengths_of_classes(vectors, task.train.labels, classes=classes)
            names = task.train.class_names
            yield from swallowed(one.scores.argmax(dim=1), task.test.labels, lengths, names, task.probes_on)
        if one.method == "knn":
            yield from k_notes(
                int(one.settings["k"] or 0), one.settings["k_origin"], task.train.class_counts(), one="training sample"
            )
    if retrieval is None and "retrieval" in options.methods:
        yield f"retrieval was left out: {ALONE}"
    if retrieval is not None and len(retrieval.queries) < len(task.test):
        yield _left_out(len(task.test) - len(retrieval.queries))


def _left_out(alone: int) -> str:
    """A note on samples that retrieval has nothing to find for."""
    if alone == 1:
        return "1 test sample is the only one of its class: retrieval leaves it out as a query"
    return f"{amount(alone, 'test sample')} are the only ones of their class: retrieval leaves them out as queries"
