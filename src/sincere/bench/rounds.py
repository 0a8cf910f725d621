"""Interleaved timing: every round runs every candidate once, so that a slow minute of the machine slows them all.

A figure in seconds belongs to one machine and one moment. A ratio of two candidates inside one round mostly does not,
so the ratio is what is reported: the median over rounds of (candidate / reference), with its spread.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median, quantiles

import torch

UNSTEADY = 1.5  # p80 over p20 from which a run says more about the machine than about the code

Candidate = Callable[[], object]
Samples = dict[str, list[float]]  # seconds of each candidate, one entry a round


@dataclass(frozen=True)
class Spread:
    """The middle and the edges of what was seen over the rounds."""

    median: float
    p20: float
    p80: float

    @classmethod
    def of(cls, values: Sequence[float]) -> "Spread":
        if len(values) == 1:
            return cls(values[0], values[0], values[0])
        fifths = quantiles(values, n=5, method="inclusive")
        return cls(median(values), fifths[0], fifths[3])


def run_rounds(
    candidates: Mapping[str, Candidate],
    *,
    rounds: int,
    warm_up: int = 2,
    repeats: int | Mapping[str, int] = 1,
    device: str = "cpu",
) -> Samples:
    """Seconds per call of every candidate in every round; the `warm_up` rounds are run and dropped.

    The order turns by one place a round, so that nobody always runs behind the one that emptied the cache.
    """
    names = list(candidates)
    samples: Samples = {name: [] for name in names}
    for number in range(warm_up + rounds):
        first = number % len(names)
        for name in names[first:] + names[:first]:
            times = repeats if isinstance(repeats, int) else repeats[name]
            seconds = elapsed(candidates[name], repeats=times, device=device)
            if number >= warm_up:
                samples[name].append(seconds)
    return samples


def elapsed(candidate: Candidate, *, repeats: int, device: str) -> float:
    """Seconds per call; by events on a GPU, where a call returns before its work is done."""
    if torch.device(device).type == "cuda":
        start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
        torch.cuda.synchronize(device)
        start.record()
        for _ in range(repeats):
            candidate()
        stop.record()
        torch.cuda.synchronize(device)
        return float(start.elapsed_time(stop)) / 1000 / repeats
    begin = time.perf_counter()
    for _ in range(repeats):
        candidate()
    return (time.perf_counter() - begin) / repeats


def ratio(samples: Samples, name: str, reference: str) -> Spread:
    """Time of `name` over time of `reference`, round by round."""
    return Spread.of([mine / other for mine, other in zip(samples[name], samples[reference], strict=True)])


def unsteady(samples: Samples) -> list[str]:
    """The candidates whose rounds disagree too much to be believed."""
    spreads = {name: Spread.of(values) for name, values in samples.items()}
    return [name for name, spread in spreads.items() if spread.p80 > UNSTEADY * spread.p20]
