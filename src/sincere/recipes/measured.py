"""What recipes were measured to reach, as `benchmarks/recipe_figures.py` has written it: nothing is typed by hand."""

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

FILE = Path(__file__).parent / "measured.json"
NOT_MEASURED = "not measured here yet"
TITLES = {"knn": "k-NN", "class_means": "class means", "linear": "linear probe"}


@dataclass(frozen=True)
class Figures:
    """One recipe over its seeds."""

    top1: dict[str, list[float]]  # by method: the share of the test samples that is right, seed by seed
    test_samples: int
    seconds: list[float]  # of training, of the seeds that had their machine to themselves
    hardware: str
    torch: str
    commit: str | None  # several with commas, where seeds were added later
    date: str
    verdict_seconds: list[float] | None = None  # from the command to the last figure, each run in a process of its own

    @classmethod
    def of(cls, document: dict[str, Any]) -> "Figures":
        return cls(**document)

    @property
    def seeds(self) -> int:
        return min(map(len, self.top1.values()))

    @property
    def mean_seconds(self) -> float:
        return fmean(self.seconds)

    def spread(self, method: str) -> str:
        """Mean and standard deviation over seeds, in percent."""
        values = [100 * value for value in self.top1[method]]
        return f"{fmean(values):.2f} ± {stdev(values):.2f}" if len(values) > 1 else f"{values[0]:.2f}"

    @property
    def over(self) -> str:
        """Over how many seeds the figures are."""
        return f"mean ± deviation over {self.seeds} seeds" if self.seeds > 1 else "one seed"

    @property
    def to_verdict(self) -> str:
        """Seconds from data to verdict, in words; empty where they were not measured."""
        return f", {fmean(self.verdict_seconds):.0f} s from data to verdict" if self.verdict_seconds else ""

    @property
    def short_commit(self) -> str:
        return ", ".join(one[:9] for one in (self.commit or "unknown").split(", "))

    def __str__(self) -> str:
        reached = ", ".join(f"{TITLES[method]} {self.spread(method)} %" for method in self.top1)
        return (
            f"{reached} of {self.test_samples:,} test samples ({self.over}), "
            f"{self.mean_seconds:.0f} s of training on {self.hardware}{self.to_verdict}; torch {self.torch}, commit "
            f"{self.short_commit}, {self.date}"
        )


@cache
def known_figures() -> dict[str, Figures]:
    """The measured figures of each recipe, by its name."""
    if not FILE.exists():
        return {}
    return {name: Figures.of(document) for name, document in json.loads(FILE.read_text(encoding="utf-8")).items()}


def measured_of(name: str) -> str:
    """The figures of a recipe in words, or that it was not measured."""
    found = known_figures().get(name)
    return NOT_MEASURED if found is None else str(found)
