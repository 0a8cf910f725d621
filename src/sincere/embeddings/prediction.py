"""The classes of new samples, as a record."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from torch import Tensor

from sincere.tables import amount, columns

Method: TypeAlias = Literal["class_means", "knn"]
METHODS: tuple[Method, ...] = get_args(Method)
LISTED = 10  # samples, and classes, of a printed table
WIDEST = 48  # letters of a sample in it


@dataclass(frozen=True, eq=False)
class Prediction:
    """The class of each sample, and how sure that is. Print it for a table.

    By `"class_means"` a score is the cosine with the mean of a class, by `"knn"` the share of the k nearest training
    samples that are of the class. Where the margin is near 0, it could be the second class as well.

    method, k: how it was found; k neighbours voted, None by class means.
    class_names: the classes that there were to choose from.
    labels: int64 (n,), the predicted class of each sample, a number of `class_names`; `names` are those in words.
    cosine: float32 (n,), with the mean of that class, or by "knn" with the nearest training sample of it.
    margin: float32 (n,), the best score less the second.
    best: int64 (n, m), the best classes, best first; scores: float32 (n, m), theirs.
    shown: which sample each is: its file, its text, its first values; None where nobody knows.
    """

    method: Method
    class_names: tuple[str, ...]
    labels: Tensor
    cosine: Tensor
    margin: Tensor
    best: Tensor
    scores: Tensor
    k: int | None = None
    shown: tuple[str, ...] | None = None

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def names(self) -> tuple[str, ...]:
        """The predicted class of each sample by its name."""
        return tuple(self.class_names[label] for label in self.labels.tolist())

    @property
    def rule(self) -> str:
        """How it was found, in words."""
        if self.k is None:
            return "the nearest class mean"
        return "the nearest sample" if self.k == 1 else f"the {self.k:,} nearest samples"

    def ranked(self, row: int) -> list[tuple[str, float]]:
        """The best classes of one sample with their scores; without those for which nobody voted."""
        pairs = zip(self.best[row].tolist(), self.scores[row].tolist(), strict=True)
        return [(self.class_names[label], score) for label, score in pairs if self.k is None or score > 0]

    def __repr__(self) -> str:
        """What it is, not what is in it."""
        return f"Prediction({amount(len(self), 'sample')}, by {self.rule} of {len(self.class_names)} classes)"

    def __str__(self) -> str:
        """A short table, rows counted from 1; of many samples how often each class comes, and the least sure."""
        if len(self) <= LISTED:
            return "\n".join(self._table(range(len(self)))) if len(self) else "no samples"
        counts = Counter(self.names).most_common()
        rows = [("class", "samples"), *((_short(name), f"{count:,}") for name, count in counts[:LISTED])]
        if len(counts) > LISTED:
            others = sum(count for _, count in counts[LISTED:])
            rows.append((f"… {amount(len(counts) - LISTED, 'other class', 'other classes')}", f"{others:,}"))
        # By the margin first; where all neighbours are of one class, by how near they are.
        sure = list(zip(self.margin.tolist(), self.cosine.tolist(), strict=True))
        least = sorted(range(len(self)), key=lambda place: sure[place])
        return "\n".join([*columns(rows), "", f"the {LISTED} least sure", *self._table(least[:LISTED])])

    def _table(self, places: Sequence[int]) -> list[str]:
        """A line for each of some samples, under a heading."""
        wide = max(len("row"), len(f"{len(self):,}"))
        heading = (f"{'row':>{wide}}{'' if self.shown is None else '  sample'}", *self._in_words(0))
        lines = []
        for place in places:
            sample = "" if self.shown is None else f"  {_short(self.shown[place])}"
            lines.append((f"{place + 1:>{wide},}{sample}", *map(_short, self._in_words(place).values())))
        return columns([heading, *lines])

    def _in_words(self, row: int) -> dict[str, str]:
        """What is known of one sample, by column."""
        ranked = self.ranked(row)
        share = {} if self.k is None else {"share": f"{ranked[0][1]:.3f}"}
        cosine, margin = (f"{float(values[row]):.3f}" for values in (self.cosine, self.margin))
        second = ranked[1][0] if len(ranked) > 1 else "–"
        return {"class": ranked[0][0], "cosine": cosine, **share, "margin": margin, "second": second}


def _short(text: str) -> str:
    """One line of a text, its middle left out where it is long: of a path the end tells more, of a sentence the start.

    >>> _short("a photograph of a cat that sleeps on a sofa in Lisbon")
    'a photograph of a cat t…eeps on a sofa in Lisbon'
    """
    line = " ".join(text.split())
    half = WIDEST // 2
    return line if len(line) <= WIDEST else f"{line[: half - 1]}…{line[-half:]}"
