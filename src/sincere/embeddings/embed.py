"""Labelled data through a model: embeddings and features of every sample, in batches."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from typing import Literal, get_args

import torch
from torch import Tensor, nn

from sincere.checks import check_choice, is_integral
from sincere.data import LabelledData
from sincere.defaults import usual_defaults
from sincere.embeddings.embedding_set import EmbeddingSet
from sincere.embeddings.identity import model_fingerprint, samples_fingerprint
from sincere.embeddings.thumbnails import thumbnails
from sincere.encoders import EmbeddingModel
from sincere.errors import InputError, OptionError
from sincere.tables import amount
from sincere.views import Views

Precision = Literal["fp32", "bf16", "fp16"]
HALVES = {"bf16": torch.bfloat16, "fp16": torch.float16}


@usual_defaults()
def embed(
    model: EmbeddingModel,
    views: Views,
    data: LabelledData,
    *,
    batch: int = 1024,
    device: torch.device | str | None = None,
    precision: Precision = "fp32",
    visible: bool = True,
    on_step: Callable[[str], None] | None = None,
) -> EmbeddingSet:
    """Embeddings and features of every sample, on the model's device; the model is left as it was.

    Args:
        model: encoder and head.
        views: their `plain` form of the samples goes in: scaled and normalised, nothing random.
        data: what to embed.
        batch: samples that go through the model together.
        device: where to compute, if not where the model is; the model moves there.
        precision: of the computation; what comes out is float32.
        visible: with what a person would want to see of each sample, thumbnails of images and the beginning of rows.
            Measuring while training needs none of it.
        on_step: called with a few words before each batch, for a progress display.
    """
    embeddings, features = embed_inputs(
        model, views, data.inputs, batch=batch, device=device, precision=precision, on_step=on_step
    )
    return EmbeddingSet(
        embeddings=embeddings,
        labels=data.labels.to(embeddings.device),
        class_names=data.class_names,
        name=data.name,
        features=features,
        shown=first_values(data.inputs) if visible and data.kind == "array" and data.shown is None else data.shown,
        images=thumbnails(data.inputs) if visible and data.kind == "image" else None,
        samples=samples_fingerprint(data) if visible else None,
        model=model_fingerprint(model) if visible else None,
    )


@torch.no_grad()
def embed_inputs(
    model: EmbeddingModel,
    views: Views,
    inputs: Tensor,
    *,
    batch: int = 1024,
    device: torch.device | str | None = None,
    precision: Precision = "fp32",
    on_step: Callable[[str], None] | None = None,
) -> tuple[Tensor, Tensor]:
    """As `embed`, of inputs without labels: embeddings (n, d) and features (n, f), float32."""
    _check_counts(batch=batch)
    place = torch.device(device) if device is not None else device_of(model)
    if place != device_of(model):
        model.to(place)
    # An empty set goes through once as well: its embeddings have a width, too.
    starts = range(0, max(len(inputs), 1), batch)

    def prepared() -> Iterator[Tensor]:
        for first in starts:
            if on_step is not None:
                on_step(f"{first:,} of {amount(len(inputs), 'sample')}")
            yield views.plain(inputs[first : first + batch].to(place, non_blocking=True))

    return _through(model, prepared(), place, precision)


@usual_defaults()
@torch.no_grad()
def embed_views(
    model: EmbeddingModel,
    views: Views,
    data: LabelledData,
    *,
    count: int,
    seed: int = 0,
    batch: int = 1024,
    precision: Precision = "fp32",
) -> EmbeddingSet:
    """As `embed`, of `count` random views of each sample; all samples' first views come first, then the second ones.

    A linear classifier that is fitted on them sees the training samples as less settled than they look plain, once an
    encoder has learned those by heart. A seed repeats the views on the same kind of device.
    """
    _check_counts(count=count, batch=batch)
    place = device_of(model)
    generator = torch.Generator(place).manual_seed(seed)
    starts = [first for _ in range(count) for first in range(0, len(data), batch)]
    inputs = (data.inputs[first : first + batch].to(place, non_blocking=True) for first in starts)
    samples: Iterator[Tensor] = (views(some, count=1, generator=generator).squeeze(1) for some in inputs)
    if len(data) == 0:  # views of nothing; their stages need not know how
        samples = iter([views.plain(data.inputs.to(place))])
    embeddings, features = _through(model, samples, place, precision)
    labels = data.labels.to(place).repeat(count)
    name, made_by = f"{data.name}, {amount(count, 'view')}", model_fingerprint(model)
    return EmbeddingSet(embeddings, labels, data.class_names, name, features, model=made_by)


def _check_counts(**counts: int) -> None:
    for name, value in counts.items():
        if not is_integral(value) or value < 1:
            raise OptionError(f"{name} must be a whole number of at least 1: got {value!r}.")


def _through(
    model: EmbeddingModel, batches: Iterable[Tensor], place: torch.device, precision: Precision
) -> tuple[Tensor, Tensor]:
    """Embeddings and features of prepared samples, batch by batch."""
    check_choice("precision", precision, get_args(Precision))
    found: list[tuple[Tensor, Tensor]] = []
    with in_evaluation(model), half_precision(place, precision), untuned():
        for samples in batches:
            features = model.features(in_layout_of(model, samples))
            found.append((model.head(features).float(), features.float()))
    return torch.cat([pair[0] for pair in found]), torch.cat([pair[1] for pair in found])


def first_values(rows: Tensor, most: int = 6) -> tuple[str, ...]:
    """The beginning of each row, for people: what is shown of arrays without names of columns.

    >>> first_values(torch.tensor([[1.0, 0.25], [-2.0, 1e6]]))
    ('1, 0.25', '-2, 1e+06')
    """
    more = f", … ({rows.shape[1]} values)" if rows.shape[1] > most else ""
    return tuple(", ".join(f"{value:.3g}" for value in row) + more for row in rows[:, :most].tolist())


@contextmanager
def untuned() -> Iterator[None]:
    """Without cuDNN's search for the fastest algorithms, which takes longer here than what it would save.

    Training asks for it. The few batches of an embedding, in two or three sizes, are through before the search is.
    """
    before = torch.backends.cudnn.benchmark
    torch.backends.cudnn.benchmark = False
    try:
        yield
    finally:
        torch.backends.cudnn.benchmark = before


def device_of(module: nn.Module) -> torch.device:
    """Where a module's weights are; the CPU for one without any."""
    return next((tensor.device for tensor in (*module.parameters(), *module.buffers())), torch.device("cpu"))


def half_precision(device: torch.device, precision: Precision) -> AbstractContextManager[object]:
    """Autocast to the precision; nothing for fp32."""
    if precision not in HALVES:
        return nullcontext()
    return torch.autocast(device.type, dtype=HALVES[precision])


@contextmanager
def in_evaluation(module: nn.Module) -> Iterator[None]:
    """Evaluation mode while this lasts, then every part as it was."""
    training = [(part, part.training) for part in module.modules()]
    module.eval()
    try:
        yield
    finally:
        for part, mode in training:
            part.training = mode


def tokenized(data: LabelledData, encoder: nn.Module) -> LabelledData:
    """Texts as the numbers of the encoder's own tokenizer, where it has one; other data as it is."""
    tokenize = getattr(encoder, "tokenize", None)
    if tokenize is None:
        return data
    if data.shown is None:
        raise InputError("this model reads texts with a tokenizer of its own: data must keep its texts, `shown`.")
    return replace(data, inputs=tokenize(data.shown))


def in_layout_of(model: nn.Module, samples: Tensor) -> Tensor:
    """Images channels-last where the model's convolutions are, so that no layer has to turn them around."""
    if samples.ndim != 4:
        return samples
    weight = next((p for p in model.parameters() if p.ndim == 4), None)
    if weight is None or weight.is_contiguous():
        return samples
    return samples.contiguous(memory_format=torch.channels_last)
