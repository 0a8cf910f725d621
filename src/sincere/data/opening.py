"""From a source to data in memory, split and ready to train on."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Literal, TypeAlias, Unpack, get_args

import torch
from numpy.typing import ArrayLike

from sincere.checks import check_choice
from sincere.data.arrays import array_of, samples_of_arrays
from sincere.data.batch_limits import lone_note
from sincere.data.labelled import Form, LabelledData, Splits
from sincere.data.named_columns import names_of_columns
from sincere.data.options import DataOptions, Settings, check_meant, settings_from, shows_options
from sincere.data.repeated import repeated_note
from sincere.data.samples import Classes, Found, Rendered, Samples, legible, listed, listed_names, one_spelling
from sincere.data.sources import find, reader_for
from sincere.data.split import stratified_split
from sincere.defaults import usual_defaults
from sincere.errors import InputError, OptionError
from sincere.tables import amount

Part: TypeAlias = Literal["train", "validation", "test"]


@shows_options
@usual_defaults()
def open_data(source: str | Path, **options: Unpack[DataOptions]) -> Splits:
    """Read labelled data and split it.

    An official test (and validation) part stays what it is; everything else is split by class with the seed. Classes
    and sizes are decided without an official test part.

    Args:
        source: "digits"; "cifar10:PATH", "cifar100:PATH" (official archive or its folder); "trec:PATH";
            "torchvision:NAME:ROOT"; a folder with a sub-folder per class, IDX files, or train and test parts; a file:
            .npz, .npy, .csv, .tsv, .jsonl, .parquet, .label.
        options: see :class:`sincere.data.options.DataOptions`.

    >>> splits = open_data("digits")
    >>> len(splits.train), len(splits.validation), len(splits.test), splits.train.form.shape
    (1258, 180, 359, (1, 8, 8))
    """
    settings = settings_from(options)
    if settings.labels == "optional":
        raise OptionError("labels='optional' belongs to read_data: what is trained on needs a class for each sample.")
    reader = reader_for(source, settings.kind)
    found = reader.read(settings)
    takes = reader.takes if settings.test is None else reader.takes | reader_for(settings.test, settings.kind).takes
    check_meant(settings, takes, found.train.kind, source)
    return _splits(_with_test(found, settings), settings, source)


def _splits(found: Found, settings: Settings, source: str | Path) -> Splits:
    """What was found in one form, with a test part and, if there is to be one, a validation part."""
    form = found.train.form(settings)
    train, notes = _in_form(found.train, form, found.name, None, settings)
    _check_trainable(train, source)
    parts = {}
    for name, samples in (("validation", found.validation), ("test", found.test)):
        if samples is not None:
            what = f"the {name} part of {found.name}" if name != "test" or settings.test is None else settings.test
            parts[name], more = _in_form(samples, form, found.name, train.class_names, settings, what=str(what))
            notes += tuple(f"{name}: {note}" for note in more)
    return _split(train, parts, (*found.notes, *notes), settings)


@usual_defaults()
def split_arrays(
    inputs: ArrayLike,
    labels: ArrayLike,
    *,
    test: tuple[ArrayLike, ArrayLike] | None = None,
    kind: Literal["image", "array"] | None = None,
    validation_share: float = 0.1,
    test_share: float = 0.2,
    seed: int = 0,
    name: str = "arrays",
) -> Splits:
    """Split data that is in memory already: what `open_data` makes of an .npz with the same arrays.

    Args:
        inputs: (n, features), or uint8 images (n, height, width), (n, height, width, channels) or (n, channels, height,
            width): an array, a tensor, a data frame of numbers or nested lists.
        labels: (n,), whole numbers or names.
        test: inputs and labels to judge by, instead of a share of these.
        kind: "array" flattens samples of any shape.
        validation_share, test_share, seed: as for `open_data`.
        name: of the data, in messages and reports.

    >>> splits = split_arrays([[0.0, 1.0]] * 10 + [[1.0, 0.0]] * 10, ["cat"] * 10 + ["dog"] * 10)
    >>> len(splits.train), len(splits.validation), len(splits.test), splits.train.class_names
    (14, 2, 4, ('cat', 'dog'))
    """
    settings = Settings(kind=kind, validation_share=validation_share, test_share=test_share, seed=seed)
    judge = None if test is None else _in_memory(*test, settings, "test ")
    return _splits(Found(name, _in_memory(inputs, labels, settings, ""), test=judge), settings, name)


def _in_memory(inputs: ArrayLike, labels: ArrayLike, settings: Settings, part: str) -> Samples:
    named = [(array_of(values, what), what) for values, what in ((inputs, f"{part}inputs"), (labels, f"{part}labels"))]
    samples = samples_of_arrays(named[0], named[1], None, settings)
    return replace(samples, columns=names_of_columns(inputs)) if samples.kind == "array" else samples


@shows_options
@usual_defaults()
def read_data(
    source: str | Path,
    *,
    form: Form | None = None,
    class_names: tuple[str, ...] | None = None,
    part: Part = "train",
    **options: Unpack[DataOptions],
) -> tuple[LabelledData, tuple[str, ...]]:
    """Read a part of a source without splitting it, in the form and with the classes of other data.

    Use it for data that a trained model meets later, with `form=train.form` and `class_names=train.class_names` of the
    data it was trained on, and `labels="optional"` where it may have none. `part` chooses among the parts that a source
    has. Returns the data, and notes in words.
    """
    settings = settings_from(options)
    if settings.test is not None:
        raise OptionError("test belongs to open_data: read_data reads one source, unsplit.")
    check_choice("part", part, get_args(Part))
    reader = reader_for(source, settings.kind)
    found = reader.read(settings)
    check_meant(settings, reader.takes, found.train.kind, source)
    samples = {"train": found.train, "validation": found.validation, "test": found.test}[part]
    if samples is None:
        raise InputError(f"{source} has no {part} part of its own: read it with part='train', which is all of it.")
    own = form or found.train.form(settings)
    data, notes = _in_form(samples, own, found.name, class_names, settings, advise=form is None)
    return data, (*found.notes, *notes)


def _with_test(found: Found, settings: Settings) -> Found:
    """`found` with the test part that the caller named, if any."""
    if settings.test is None:
        return found
    other = find(settings.test, settings)
    notes = (*found.notes, *other.notes)
    if found.test is not None:
        notes = (*notes, f"the test part of {found.name} was left out, as {settings.test} is to judge by.")
    return Found(found.name, found.train, found.validation, other.train, notes)


def _in_form(
    samples: Samples,
    form: Form,
    name: str,
    class_names: tuple[str, ...] | None,
    settings: Settings,
    *,
    what: str | None = None,
    advise: bool = True,
) -> tuple[LabelledData, tuple[str, ...]]:
    """Samples rendered in a form, without what cannot be read, their classes numbered as in `class_names`.

    `what` they are called in messages, where it is not their name. `advise` says whether options could change the form.
    """
    called = what or name
    if samples.kind != form.kind:
        raise InputError(f"all data must be of one kind, {form.kind}: {called} is of kind {samples.kind}.")
    try:
        rendered = samples.render(form)
    except InputError as error:
        raise InputError(f"{called}: {error}") from error
    kept, skipped = _readable(samples, rendered, settings)
    notes = (*(note.told(advise=advise) for note in rendered.notes), *skipped)
    labels, class_names = _renumbered(samples.classes, kept, class_names, called)
    inputs, shown = rendered.inputs, samples.shown
    if len(kept) < len(inputs):
        inputs, shown = inputs[kept], None if shown is None else tuple(shown[i] for i in kept.tolist())
    about = (form.sample_rate, form.buckets, form.columns)
    return LabelledData(inputs, labels, class_names, form.kind, legible(name), shown, *about), notes


def _renumbered(
    classes: Classes, kept: torch.Tensor, class_names: tuple[str, ...] | None, called: str
) -> tuple[torch.Tensor, tuple[str, ...]]:
    """The labels of the samples that are kept, as numbers of `class_names`, or of the classes that they have."""
    numbers = torch.from_numpy(classes.numbers)[kept]
    present = [classes.names[i] for i in torch.unique(numbers).tolist()]
    if class_names is None:
        class_names = tuple(present)
    place = {one_spelling(label): i for i, label in enumerate(class_names)}
    if unknown := [label for label in present if label not in place]:
        raise InputError(
            f"labels of all parts must match those to train on ({listed_names(class_names, 8)}): {called} also has "
            f"{listed_names(unknown, 8)}. Correct these labels or remove their samples, or add samples of them to "
            "those to train on."
        )
    places = torch.tensor([place.get(label, -1) for label in classes.names], dtype=torch.int64)
    return places[numbers], class_names


def _readable(samples: Samples, rendered: Rendered, settings: Settings) -> tuple[torch.Tensor, tuple[str, ...]]:
    """Indices of samples that could be read; says which could not, or stops."""
    count = len(rendered.inputs)
    if not rendered.unreadable:
        return torch.arange(count), ()
    shown = samples.shown or ()
    files = listed([f"{shown[i]} ({_lost_link(shown[i]) or reason})" for i, reason in rendered.unreadable.items()])
    if len(rendered.unreadable) == count:
        raise InputError(f"at least one file must be readable: none of {count:,} is: {files}. Remove or replace them.")
    if settings.unreadable == "stop":
        raise InputError(
            f"every file must be readable: {len(rendered.unreadable):,} of {count:,} are not: {files}. Remove or "
            "replace them, or go on without them: unreadable='skip'."
        )
    kept = torch.tensor([i for i in range(count) if i not in rendered.unreadable], dtype=torch.int64)
    return kept, (f"{len(rendered.unreadable):,} of {count:,} files were skipped: {files}.",)


def _lost_link(path: str) -> str | None:
    """Of a link that leads nowhere, where that is: whoever lists the folder sees a file."""
    lost = os.path.islink(path) and not os.path.exists(path)
    return f"a link to {legible(os.readlink(path))}, where nothing is" if lost else None


def _check_trainable(train: LabelledData, source: str | Path) -> None:
    counts = train.class_counts()
    if len(train.class_names) < 2:
        raise InputError(
            f"there must be at least two classes to tell apart: {source} has one, "
            f"{listed_names(train.class_names, 1)}, with {amount(len(train), 'sample')}."
            f"{_further_down(Path(source), train.class_names)}"
        )
    if int((counts >= 2).sum()) < 2:
        raise InputError(
            f"at least two classes must have two samples or more: {source} has {len(train.class_names)} classes for "
            f"{len(train)} samples, such as {listed_names(train.class_names, 5)}. Are these labels, or measurements?"
        )


def _further_down(source: Path, classes: tuple[str, ...]) -> str:
    """Advice where the only sub-folder holds sub-folders, as in an archive that was unpacked into a folder."""
    inside = source.joinpath(*classes)
    folders = sum(path.is_dir() for path in inside.iterdir()) if source.is_dir() and inside.is_dir() else 0
    return f" If the {folders} sub-folders of {inside} are the classes, name that folder." if folders > 1 else ""


def _split(train: LabelledData, parts: dict[str, LabelledData], notes: tuple[str, ...], settings: Settings) -> Splits:
    validation_share = 0.0 if "validation" in parts else settings.validation_share
    test_share = 0.0 if "test" in parts else settings.test_share
    if "test" not in parts and not test_share:
        raise OptionError("test_share must be above 0 where the source has no test part of its own: got 0.")
    indices = stratified_split(
        train.labels, validation_share=validation_share, test_share=test_share, seed=settings.seed
    )
    if test_share:
        parts["test"] = train.subset(indices.test)
    if validation_share:
        parts["validation"] = train.subset(indices.validation)
    if len(indices.train) < len(train):
        train = train.subset(indices.train)
    if not len(parts["test"]):
        raise InputError(f"the test part must hold samples: {train.name} has too few for a share of {test_share}.")
    if "validation" in parts and not len(parts["validation"]):
        del parts["validation"]
        notes += (f"there is no validation part: {train.name} has too few samples for a share of {validation_share}.",)
    notes += lone_note(train.class_names, train.class_counts().tolist())
    if (note := repeated_note(parts["test"], train)) is not None:
        notes += (note,)
    return Splits(train, parts.get("validation"), parts["test"], notes)
