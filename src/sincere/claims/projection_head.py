"""Claim 29, an open question: what a projection head does to the optimum.

Behind a head many arrangements of features have the same least loss, and the start of a descent decides which of them
it ends at. So figures of features are means over starts, with an interval.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sincere.claims.claim import Claim, Conditions, Outcome
from sincere.claims.optimum import GRAF
from sincere.claims.palette import COLOURS, GREY, TITLES
from sincere.claims.record import Measured, number
from sincere.claims.statistics import over_seeds
from sincere.theory import ProjectionOptimum, ProjectionRow, projection_optimum

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LOSSES = ("sincere", "supcon")
NO_HEAD = "none"
ALIKE = 1e-4  # losses that differ by less are one minimum that descents stopped at; a lost dimension costs far more
THERE = 1e-3  # off the simplex, or of the variance within classes: no more than descents leave


@dataclass(frozen=True)
class HeadReading:
    """What descents with one loss and one head ended at, start by start."""

    loss: str
    dim: int
    head: str
    rows: tuple[ProjectionRow, ...]

    @property
    def reached(self) -> tuple[ProjectionRow, ...]:
        """Those that ended at the least loss of all."""
        least = min(row.value for row in self.rows)
        return tuple(row for row in self.rows if row.value <= least + ALIKE)

    @property
    def counted(self) -> str:
        return f"{len(self.reached)} of {len(self.rows)} starts"

    @property
    def off_simplex(self) -> float:
        """The head's output, at worst."""
        return max(row.output.simplex_deviation for row in self.reached)

    @property
    def shares(self) -> list[float]:
        """Of the features' variance within classes."""
        return [row.features_within for row in self.reached]


def projection_head(conditions: Conditions) -> Outcome:
    """Features and outputs at the optimum behind no head, a linear one and an MLP."""
    starts = 10 if conditions.full else 3
    dims = (3, 2, 6) if conditions.full else (3, 2)
    tried = {
        (loss, dim): [
            projection_optimum(loss, dim=dim, starts=1, seed=conditions.seed + start) for start in range(starts)
        ]
        for loss in LOSSES
        for dim in dims
    }
    found = [reading for optima in tried.values() for reading in readings(optima)]
    some = tried[LOSSES[0], dims[0]][0]
    return Outcome(
        "answered",
        projection_answer(found),
        f"free features of dimension {some.feature_dim}, {some.classes} classes × {some.members}, a head that is "
        f"trained with them, τ = {some.temperature:g}; output of {' and '.join(str(dim) for dim in dims if dim > 2)} "
        f"dimensions, and of 2, too few for a simplex; {starts} starts each, of which those count that reach the least "
        "loss; intervals are of the mean over them",
        tuple(figure for one in found if one.dim == 3 for figure in _figures(one)),
        tuple(row for one in found for row in _rows(one, conditions.seed)),
        lambda figure: _draw(figure, [one for one in found if one.dim in (2, 3)]),
    )


def readings(optima: Sequence[ProjectionOptimum]) -> list[HeadReading]:
    """By head: the same loss and dimension from several starts, one optimum each."""
    first = optima[0]
    return [
        HeadReading(first.loss, first.dim, row.head, tuple(one.of(row.head) for one in optima)) for row in first.rows
    ]


def _figures(one: HeadReading) -> list[Measured]:
    """Without a head there is one arrangement, so what is left of it is told at worst, as of every output."""
    title = f"{TITLES[one.loss]}, {one.head}"
    features = {
        "features off the simplex": [row.features.simplex_deviation for row in one.reached],
        "share of the features' variance within classes": one.shares,
    }
    output = Measured(f"{title}: output off the simplex, at most", one.off_simplex, n=one.counted)
    if one.head == NO_HEAD:
        return [output, *(Measured(f"{title}: {k}, at most", max(v), n=one.counted) for k, v in features.items())]
    return [output, *(replace(over_seeds(f"{title}: {k}", v), n=one.counted) for k, v in features.items())]


def projection_answer(found: Sequence[HeadReading]) -> str:
    """In plain words, from the figures."""
    wide, narrow = ([one for one in found if one.dim == dim and one.head != NO_HEAD] for dim in (3, 2))
    bare = max(max(one.shares) for one in found if one.head == NO_HEAD)
    shares = [share for one in wide for share in one.shares]
    off, collapsed = max(one.off_simplex for one in wide), max(shares) < THERE
    upon_itself = "The head takes the simplex upon itself: its" if off < THERE and not collapsed else "The head's"
    aside = min(row.features.simplex_deviation for one in wide for row in one.reached)
    return (
        f"{upon_itself} output ends {'at' if off < THERE else 'off'} the simplex (off by at most {number(off)}), and "
        f"the features in front of it {_of_features(wide, shares, collapsed)}, against at most {number(100 * bare)} % "
        f"without a head; their means are off the simplex by at least {number(aside)}.{_of_lost(wide)} "
        f"{_of_few_dimensions(narrow)}"
    )


def _of_features(wide: Sequence[HeadReading], shares: Sequence[float], collapsed: bool) -> str:
    if collapsed:
        return f"collapse as well: at most {number(100 * max(shares))} % of their variance stays within classes"
    means = [sum(one.shares) / len(one.shares) for one in wide]
    return (
        f"need not collapse: at the same loss {_range(shares)} % of their variance stays within classes, as it comes "
        f"from the start, on average {_range(means)} % by loss and head"
    )


def _range(shares: Sequence[float]) -> str:
    return f"{number(100 * min(shares))} to {number(100 * max(shares))}"


def _of_lost(wide: Sequence[HeadReading]) -> str:
    """Descents that ended higher; nothing where there are none."""
    tried, reached = sum(len(one.rows) for one in wide), sum(len(one.reached) for one in wide)
    if tried == reached:
        return ""
    return f" Of {tried} descents with such a head {tried - reached} ended at a higher loss, and are left out."


def _of_few_dimensions(narrow: Sequence[HeadReading]) -> str:
    """What a head costs that has no room for a simplex."""
    costs = [min(row.excess for row in one.rows) for one in narrow]
    if max(costs) < ALIKE:
        return "A head of fewer than K − 1 dimensions costs nothing in the loss."
    return (
        "In fewer than K − 1 dimensions there is no simplex, and a head with so few costs "
        f"{number(min(costs))} to {number(max(costs))} in the loss."
    )


def _rows(one: HeadReading, seed: int) -> list[dict[str, object]]:
    return [
        {
            "loss": one.loss,
            "dim": one.dim,
            "head": one.head,
            "start": seed + start,
            "value": row.value,
            "excess": row.excess,
            "output_off_simplex": row.output.simplex_deviation,
            "output_within": row.output_within,
            "features_off_simplex": row.features.simplex_deviation,
            "features_within": row.features_within,
            "rank": row.rank,
            "converged": row.converged,
        }
        for start, row in enumerate(one.rows)
    ]


def _draw(figure: "Figure", found: Sequence[HeadReading]) -> None:
    left, right = figure.subplots(1, 2)
    heads = list(dict.fromkeys(one.head for one in found))
    _draw_features(left, [one for one in found if one.dim == 3], heads)
    kinds = list(dict.fromkeys((one.loss, one.dim) for one in found))
    for one in found:
        place = heads.index(one.head) + 0.2 * kinds.index((one.loss, one.dim)) - 0.3
        marker = "o" if one.dim == 3 else "v"
        label = f"{TITLES[one.loss]}, output of {one.dim}" if one.head == heads[0] else None
        right.plot(place, max(one.off_simplex, 1e-9), marker, color=COLOURS[one.loss], markersize=8, label=label)
    right.axhline(THERE, color=GREY, linestyle="--", linewidth=1)
    right.set(yscale="log", ylim=(1e-9, 1e4), ylabel="output's cosines off −1/(K−1)", title="What the loss sees")
    right.set_yticks([10.0**power for power in range(-8, 1, 2)])  # above, the legend
    for axis in (left, right):
        axis.set_xticks(
            range(len(heads)), ["no head" if head == NO_HEAD else head.replace("mlp", "MLP") for head in heads]
        )
        axis.legend(frameon=False, fontsize=8, loc="upper left")


def _draw_features(axis: "Axes", wide: Sequence[HeadReading], heads: Sequence[str]) -> None:
    """The mean over starts as a bar, every start as a point, and the head's output beside."""
    for one in wide:
        place = heads.index(one.head) + 0.4 * LOSSES.index(one.loss) - 0.2
        shares = [100 * share for share in one.shares]
        named = one.head == heads[0]
        label = f"{TITLES[one.loss]}: features" if named else None
        axis.bar(place, sum(shares) / len(shares), width=0.38, color=COLOURS[one.loss], label=label)
        first = named and one.loss == LOSSES[0]
        axis.plot([place] * len(shares), shares, ".", color=GREY, markersize=5, label="one start" if first else None)
        output = 100 * max(row.output_within for row in one.reached)
        label = "head's output" if first else None
        axis.plot(place, output, "D", color="black", markersize=5, label=label, clip_on=False)
    most = max(100 * max(one.shares) for one in wide)
    axis.set(ylabel="% of the variance within classes", title="Output of 3 dimensions", ylim=(0, 1.4 * most))


PROJECTION_HEAD = (
    Claim(
        29,
        "projection-head",
        f"open question of {GRAF}",
        "how does a projection head affect the optimal arrangement?",
        "not examined",
        projection_head,
        decisive="^SINCERE, (none|mlp): share",
    ),
)
