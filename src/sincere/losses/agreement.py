"""Check, before embeddings are gathered, that all processes pass arguments that fit together.

A collective of tensors that do not match, or a backward pass that only some processes run, hangs or mixes up numbers.
So each process sends the others one short message about its arguments, and if they differ, all processes raise an
error that names the difference.
"""

from collections.abc import Iterator
from math import exp, inf, log
from typing import NamedTuple, get_args

import torch
from torch import Tensor, nn

from sincere.errors import InputError
from sincere.losses.gather import numbers_of_all, world_size
from sincere.losses.options import Settings
from sincere.types import Positives, Reduction, SimilarityName

DTYPES = (
    torch.float32,
    torch.float64,
    torch.int64,
    torch.bool,
    torch.int32,
    torch.uint8,
    torch.float16,
    torch.bfloat16,
)
TYPE_NAMES = ("another type", *(str(dtype) for dtype in DTYPES))
NO_OR_YES = ("no", "yes")
LEARNED = (
    " One that is learned drifts apart unless its gradient is averaged: make the loss a part of the model that DDP "
    "wraps, or wrap it too."
)
NO_NUMBER = 10**12  # for a temperature that is not positive and finite
NOTHING = -1  # in place of every fact about contrasts where there are none


class Fact(NamedTuple):
    """Something that must be the same on all processes, as a number."""

    name: str
    number: int
    choices: tuple[str, ...] = ()  # what the numbers 0, 1, 2, … stand for
    advice: str = ""
    slack: int = 0  # numbers that are no farther apart are the same

    def shown(self, number: int) -> str:
        return self.choices[number] if self.choices else str(number)


class Temperature(Fact):
    """The temperature as millionths of its logarithm. Copies that are learned in the same way may differ by rounding;
    copies that drift apart sooner or later differ by more."""

    @classmethod
    def of(cls, temperature: float | Tensor) -> "Temperature":
        value = float(temperature.detach()) if isinstance(temperature, Tensor) else temperature
        number = round(1e6 * log(value)) if 0 < value < inf else NO_NUMBER
        return cls("temperature", number, advice=LEARNED, slack=100)

    def shown(self, number: int) -> str:
        return "no positive number" if number == NO_NUMBER else f"{exp(number / 1e6):.6g}"


def rows_of_all(
    embeddings: Tensor, labels: Tensor, contrasts: tuple[Tensor, Tensor] | None, settings: Settings
) -> tuple[list[int], list[int]]:
    """How many embeddings, and how many contrasts, each process passes; raises an error if anything else differs.

    Without `gather`, the numbers of this process alone.
    """
    rows = [embeddings.shape[0], 0 if contrasts is None else contrasts[0].shape[0]]
    if not settings.gather or world_size() == 1:
        return rows[:1], rows[1:]
    facts = [*_facts_of_call(contrasts, settings), *_facts_of_rows("embeddings", embeddings, labels)]
    facts += _facts_of_rows("contrast_embeddings", *(contrasts or (None, None)))
    everybody = numbers_of_all([*rows, *(fact.number for fact in facts)], embeddings.device)
    own, other, *columns = (list(column) for column in zip(*everybody, strict=True))
    for fact, numbers in zip(facts, columns, strict=True):
        if max(numbers) - min(numbers) > fact.slack:
            came = ", ".join(f"{fact.shown(n)} on process {_named(n, numbers)}" for n in dict.fromkeys(numbers))
            raise InputError(f"{fact.name} must be the same on all processes with gather=True: {came}.{fact.advice}")
    return own, other


def _named(number: int, numbers: list[int]) -> str:
    """The first few processes that sent this number."""
    processes = [str(at) for at, said in enumerate(numbers) if said == number]
    return " and ".join(processes[:3]) + (" and others" if len(processes) > 3 else "")


def _facts_of_call(contrasts: tuple[Tensor, Tensor] | None, settings: Settings) -> Iterator[Fact]:
    reductions, positives = get_args(Reduction), get_args(Positives)
    similarities = (*get_args(SimilarityName), "a function of the caller's")
    similarity = settings.similarity if isinstance(settings.similarity, str) else similarities[-1]
    yield Fact("whether contrasts are given", int(contrasts is not None), NO_OR_YES)
    yield Fact("reduction", reductions.index(settings.reduction), reductions)
    yield Fact("similarity", similarities.index(similarity), similarities)
    yield Fact("positives", positives.index(settings.positives), positives)
    yield Fact("ignore_label", int(settings.ignore_label))
    yield Fact("ignored_as_negatives", int(settings.ignored_as_negatives), NO_OR_YES)
    yield Fact("class_balanced", int(settings.class_balanced), NO_OR_YES)
    yield Fact("include_batch", int(settings.include_batch), NO_OR_YES)
    yield Temperature.of(settings.temperature)
    yield _fact_of_gradient("weights", settings.weights)
    yield _fact_of_gradient("temperature or similarity", *_learned_by_loss(settings))


def _facts_of_rows(name: str, rows: Tensor | None, labels: Tensor | None) -> Iterator[Fact]:
    if rows is None or labels is None:
        yield from (Fact(name, NOTHING) for _ in range(5))
        return
    yield Fact(f"the dimension of {name}", rows.shape[1])
    yield Fact(f"the type of {name}", _number_of(rows.dtype), TYPE_NAMES)
    columns = labels.shape[1] if labels.ndim == 2 else 0
    yield Fact(f"the number of columns of the labels of {name}", columns, advice=" Class numbers (n,) have none, or 0.")
    yield Fact(f"the type of the labels of {name}", _number_of(labels.dtype), TYPE_NAMES)
    yield _fact_of_gradient(name, rows)


def _learned_by_loss(settings: Settings) -> Iterator[Tensor]:
    if isinstance(settings.temperature, Tensor):
        yield settings.temperature
    if isinstance(settings.similarity, nn.Module):
        yield from settings.similarity.parameters()


def _fact_of_gradient(name: str, *tensors: Tensor | None) -> Fact:
    needed = torch.is_grad_enabled() and any(tensor is not None and tensor.requires_grad for tensor in tensors)
    advice = (
        " A backward pass waits for all processes, so call the loss under torch.no_grad() on all of them or on none; "
        "a process without samples gets its embeddings from the encoder too, encoder(x[:0])."
    )
    return Fact(f"whether {name} need a gradient", int(needed), NO_OR_YES, advice)


def _number_of(dtype: torch.dtype) -> int:
    return DTYPES.index(dtype) + 1 if dtype in DTYPES else 0
