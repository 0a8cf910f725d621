"""What a report is about: one run, or one set of embeddings that somebody made, with every record there is of it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from sincere.defaults import usual_defaults
from sincere.embeddings.arrays import Unlabelled
from sincere.embeddings.embedding_set import EmbeddingSet
from sincere.errors import InputError
from sincere.evaluate import Evaluation, evaluate
from sincere.evaluate.inputs import check_is_set
from sincere.geometry import describe
from sincere.geometry.record import Geometry
from sincere.report.leave_one_out import ONE_CLASS, evaluate_alone
from sincere.runs import RunFolder, read_json, read_metrics
from sincere.runs.folder import Split
from sincere.tables import amount

TEMPERATURE = 0.1  # of the losses that geometry reads, where no run says another
Say = Callable[[str], None]


@dataclass(frozen=True, eq=False)
class Subject:
    """The sets share the evaluation's list of classes."""

    name: str
    test: EmbeddingSet  # what is shown
    train: EmbeddingSet | None  # where neighbours come from; None: from `test` itself
    evaluation: Evaluation
    geometry: Geometry
    metrics: tuple[dict[str, Any], ...] = ()
    config: dict[str, Any] | None = None
    provenance: dict[str, Any] | None = None
    unkept: Mapping[Path, Evaluation | Geometry] = field(default_factory=dict)  # made anew, by its place in the run

    @property
    def alone(self) -> bool:
        """Was every sample judged by the others of its own set?"""
        return self.train is None

    def counted(self, number: int) -> str:
        """So many of its samples, in sentences."""
        return amount(number, "sample" if self.alone else "test sample")

    @property
    def attainable(self) -> Tensor:
        """Is there another of its class that could vote for it? bool (n,); without one no embedding is right."""
        counts = torch.bincount(
            (self.test if self.train is None else self.train).labels, minlength=len(self.test.class_names)
        )
        return (counts - int(self.alone) > 0)[self.test.labels]


@usual_defaults()
def read_subject(
    path: str | Path,
    *,
    train: str | Path | EmbeddingSet | None = None,
    labels: str | Path | None = None,
    sets: Mapping[Split, EmbeddingSet] | None = None,
    unlabelled: Unlabelled = "refuse",
    on_step: Say | None = None,
) -> Subject:
    """Read the folder of a run, or a file of embeddings.

    A run's evaluation.json and geometry.json are used where they are there; one that is missing, or a geometry of other
    samples, is made anew. Nothing is written: `unkept` has what was made, and `keep_records` puts it into the run.

    Args:
        path: the folder of a run, an `.npz`, or an `.npy` with its labels in a file of their own.
        train: of a file: the embeddings that k-NN, class means and the linear probe are fitted on, a file too or a set.
            Without it every sample is judged by all the others of the file.
        labels: of an `.npy`: where its labels are.
        sets: of a run: its embeddings by split, where it did not save them.
        unlabelled: of files: what the number −1 as a label means, as in `EmbeddingSet.from_arrays`.
        on_step: called with a few words before each step, for a progress display.
    """
    path, say = Path(path), on_step or (lambda words: None)
    if path.is_dir():
        if train is not None or labels is not None:
            raise InputError(f"train and labels belong to a file of embeddings: {path} is the folder of a run.")
        return _of_run(RunFolder(path), sets, say)
    if not path.exists():
        raise InputError(f"there is no file or folder {path}.")
    say("reading")
    test = EmbeddingSet.load(path, labels=labels, unlabelled=unlabelled)
    fitted_on = EmbeddingSet.load(train, unlabelled=unlabelled) if isinstance(train, (str, Path)) else train
    return subject_of(test, train=fitted_on, name=path.stem, on_step=say)


@usual_defaults()
def subject_of(
    test: EmbeddingSet, *, train: EmbeddingSet | None = None, name: str | None = None, on_step: Say | None = None
) -> Subject:
    """Measure embeddings in memory.

    Args:
        test: what is shown, on any device.
        train: what k-NN, class means and the linear probe are fitted on. Without it every sample is judged by all the
            others of `test`.
        name: of the subject instead of the set's.
        on_step: called with a few words before each step, for a progress display.
    """
    say = on_step or (lambda words: None)
    check_is_set("test", test)
    if train is not None:
        check_is_set("train", train)
    if not len(test):
        raise InputError(f"a report needs at least one sample: {test.name!r} is empty.")
    name, test, train = name or test.name, _without_graph(test), None if train is None else _without_graph(train)
    if train is None:
        say("neighbours")
        found = evaluate_alone(test, name=name)
    else:
        found = evaluate(train, test, name=name, on_step=say)
        test, train = test.with_classes(found.class_names), train.with_classes(found.class_names)
        found = _telling(found, test, train)
    say("geometry")
    geometry = describe(test, train=train, temperature=TEMPERATURE, on_step=say)
    # Measured where the sets are; pictures are drawn on the CPU.
    return Subject(name, test.to("cpu"), None if train is None else train.to("cpu"), found, geometry)


def _without_graph(found: EmbeddingSet) -> EmbeddingSet:
    """The same numbers: a set that was made of a model's output may still hold on to how they came about."""
    features = None if found.features is None else found.features.detach()
    return replace(found, embeddings=found.embeddings.detach(), features=features)


def _telling(found: Evaluation, test: EmbeddingSet, train: EmbeddingSet) -> Evaluation:
    """Without the figures that are 100 % whatever the embeddings are: of test samples that are all of one class."""
    shown, known = (set(part.labels.tolist()) for part in (test, train))
    if len(shown) != 1:
        return found
    name = found.class_names[min(shown)]
    if known == shown:
        return replace(found, classifiers=(), retrieval=None, notes=(ONE_CLASS.format(name),))
    if found.retrieval is None:
        return found
    note = f"all test samples are of one class, {name!r}: retrieval among them finds nothing else, and has no figure"
    return replace(found, retrieval=None, notes=(*found.notes, note))


def _of_run(folder: RunFolder, sets: Mapping[Split, EmbeddingSet] | None, say: Say) -> Subject:
    sets = _saved_sets(folder) if sets is None else sets
    config = read_json(folder.config)
    name = folder.path.resolve().name
    train, test = sets["train"], sets["test"]
    unkept: dict[Path, Evaluation | Geometry] = {}
    if folder.evaluation.exists():
        found = Evaluation.from_json(folder.evaluation.read_text(encoding="utf-8"))
    else:
        found = evaluate(train, test, validation=sets.get("validation"), name=name, on_step=say)
        unkept[folder.evaluation] = found
    train, test = train.with_classes(found.class_names), test.with_classes(found.class_names)
    if tuple(test.labels.tolist()) != found.labels:
        raise InputError(
            f"{folder.evaluation} must be of the samples in {folder.embeddings('test')}: their labels differ. "
            f"Evaluate the run again: sincere evaluate {folder.path}"
        )
    geometry = _geometry_on_record(folder, test)
    if geometry is None:
        say("geometry")
        temperature = float(config.get("loss", {}).get("temperature", TEMPERATURE))
        geometry = describe(test, train=train, temperature=temperature, on_step=say)
        unkept[folder.geometry] = geometry
    return Subject(
        name=name,
        test=test,
        train=train,
        evaluation=replace(_telling(found, test, train), name=name),
        geometry=geometry,
        metrics=tuple(read_metrics(folder.metrics)),
        config=config,
        provenance=read_json(folder.provenance) if folder.provenance.exists() else None,
        unkept=unkept,
    )


def _geometry_on_record(folder: RunFolder, test: EmbeddingSet) -> Geometry | None:
    """The one that the run has, if it is of these samples."""
    if not folder.geometry.exists():
        return None
    found = Geometry.from_json(folder.geometry.read_text(encoding="utf-8"))
    here = (len(test), test.embeddings.shape[1], test.class_names)
    return found if (found.samples, found.dim, found.class_names) == here else None


def _saved_sets(folder: RunFolder) -> dict[Split, EmbeddingSet]:
    saved = folder.saved_embeddings()
    if not {"train", "test"} <= saved.keys():
        raise InputError(
            f"{folder.path} must hold embeddings/train.npz and embeddings/test.npz, as a finished run does: "
            f"it holds {', '.join(saved) or 'neither'}. `sincere report` on the command line makes them anew."
        )
    return {split: EmbeddingSet.load(place) for split, place in saved.items()}
