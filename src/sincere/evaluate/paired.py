"""Tests for two models on the same samples, and the correction for testing more than once."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

FLIPS = 9_999


@dataclass(frozen=True)
class PairedTest:
    """A test that two models are equally good."""

    name: str
    p: float
    only_first: int | None = None  # samples that only the first got right; None where samples are not right or wrong
    only_second: int | None = None


def paired_test(first: Tensor, second: Tensor, *, seed: int) -> PairedTest:
    """McNemar's exact test where samples are right or wrong (bool), sign flips of the differences otherwise."""
    if first.dtype != torch.bool:
        return PairedTest("sign-flip test", sign_flip(first - second, seed=seed))
    only_first, only_second = int((first & ~second).sum()), int((second & ~first).sum())
    return PairedTest("McNemar's exact test", mcnemar_exact(only_first, only_second), only_first, only_second)


def mcnemar_exact(only_first: int, only_second: int) -> float:
    """Two-sided p of McNemar's exact test, from how many samples only the first and only the second got right.

    If the models were equally good, each such sample would be a fair coin: p = 2 P(Bin(b + c, ½) ≤ min(b, c)), or 1.
    """
    tosses, fewer = only_first + only_second, min(only_first, only_second)
    ways, term = 0, 1
    for heads in range(fewer + 1):
        ways += term
        term = term * (tosses - heads) // (heads + 1)
    return float(min(1.0, 2 * ways / 2**tosses))


def sign_flip(differences: Tensor, *, seed: int) -> float:
    """Two-sided p that the mean of paired differences (n,) is zero, for figures that are not just right or wrong.

    If the models were equally good, each difference could as well have the other sign: p is the share of 9,999 random
    choices of signs, and the one that came, whose sum is at least as far from zero.
    """
    values = differences.cpu().double()
    values = values[values != 0]
    if not values.numel():
        return 1.0
    generator = torch.Generator().manual_seed(seed)
    observed = values.sum().abs() * (1 - 1e-12)  # a sum in another order may differ in its last bits
    as_far = 1
    step = max(1, 2**22 // values.numel())
    for start in range(0, FLIPS, step):
        rows = min(step, FLIPS - start)
        signs = torch.randint(2, (rows, values.numel()), generator=generator, device="cpu").double().mul_(2).sub_(1)
        as_far += int(((signs @ values).abs() >= observed).sum())
    return as_far / (FLIPS + 1)


def holm(p_values: Sequence[float]) -> list[float]:
    """p values after Holm's correction: below 0.05 in this list, the chance of any false finding is below 0.05.

    Source: Holm 1979, A simple sequentially rejective multiple test procedure.
    """
    adjusted = [0.0] * len(p_values)
    largest = 0.0
    for rank, place in enumerate(sorted(range(len(p_values)), key=lambda place: p_values[place])):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[place]))
        adjusted[place] = largest
    return adjusted
