"""Claim 26, an open question: what other similarities than cosine do to the optimum."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sincere.claims.claim import Claim, Conditions, Outcome
from sincere.claims.palette import COLOURS, GREY, TITLES
from sincere.claims.record import Measured, number
from sincere.claims.sincere_losses import SECTION
from sincere.theory import SimilarityOptimum, similarity_optimum

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LOSSES = ("sincere", "supcon")
SCALES = (0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 4.0)


def other_similarities(conditions: Conditions) -> Outcome:
    """Cosine, dot and euclidean: on the sphere, in the ball, without a bound."""
    starts = 10 if conditions.full else 3
    settings: list[tuple[tuple[int, ...], int]] = [((15,) * 4, 3), ((40, 40, 8, 8), 3), ((10,) * 6, 3)]
    if conditions.full:
        settings.append(((15,) * 4, 8))
    found = [
        similarity_optimum(loss, counts=counts, dim=dim, scales=SCALES, starts=starts, seed=conditions.seed)
        for loss in LOSSES
        for counts, dim in settings
    ]
    plain = {one.loss: one for one in reversed(found)}
    cases = f"{len(found)} cases"
    return Outcome(
        "answered",
        similarities_answer(found),
        f"free points, τ = {found[0].temperature:g}: {settings_in_words(settings)}; on the unit sphere, in the unit "
        f"ball, and a simplex that is stretched; best of {starts} starts",
        (
            Measured(
                "largest difference of loss or gradient between similarities on the sphere",
                _sphere_difference(found),
                n=cases,
            ),
            Measured("least norm at the optimum in the ball", least_norm(found), n=cases),
            Measured("largest difference of the optimum's value, ball and sphere", ball_gap(found), n=cases),
            *(
                Measured(f"{TITLES[loss]} at a simplex of norm {scale:g}, dot", value)
                for loss in LOSSES
                for scale, value in zip(SCALES, plain[loss].dot_by_scale, strict=True)
                if scale in (1.0, 2.0, 4.0)
            ),
        ),
        tuple(row for one in found for row in _similarity_rows(one)),
        lambda figure: _draw_similarities(figure, found, plain),
    )


def settings_in_words(settings: Sequence[tuple[tuple[int, ...], int]]) -> str:
    """Classes and dimensions of each."""
    return ", ".join(
        f"{len(counts)} {'equal' if len(set(counts)) == 1 else 'unequal'} classes in {dim} dimensions"
        for counts, dim in settings
    )


def _sphere_difference(found: Sequence[SimilarityOptimum]) -> float:
    """At the same points, of loss and of gradient along the sphere."""
    return max(one.sphere_difference for one in found)


def least_norm(found: Sequence[SimilarityOptimum]) -> float:
    return min(row.norms[0] for one in found for row in one.rows if row.space == "ball")


def ball_gap(found: Sequence[SimilarityOptimum]) -> float:
    """Between the least values in the ball and on the sphere."""
    return max(
        abs(row.value - one.of("cosine", "sphere").value) for one in found for row in one.rows if row.space == "ball"
    )


def similarities_answer(found: Sequence[SimilarityOptimum]) -> str:
    """In plain words, from the figures."""
    sincere = next(one for one in found if one.loss == "sincere")
    supcon = next(one for one in found if one.loss == "supcon")
    same = _sphere_difference(found) < 1e-9
    edge = least_norm(found) > 0.999 and ball_gap(found) < 1e-4
    one, four = SCALES.index(1.0), SCALES.index(4.0)
    return (
        (
            "Nothing changes on the sphere, where all three are one loss"
            if same
            else "The similarities differ on the sphere"
        )
        + f" (at the same points loss and gradient differ by at most {number(_sphere_difference(found))}); "
        + (
            "in the ball dot and euclidean go to its edge and to the same optimum. "
            if edge
            else "in the ball the optimum is another one. "
        )
        + "Without a bound on norms neither has an optimum: stretching the simplex from norm 1 to 4 takes SINCERE from "
        f"{number(sincere.dot_by_scale[one])} to {number(sincere.dot_by_scale[four])}, like a lower temperature, "
        f"and SupCon from "
        f"{number(supcon.dot_by_scale[one])} to {number(supcon.dot_by_scale[four])}, the log|P| that it cannot pass."
    )


def _similarity_rows(one: SimilarityOptimum) -> list[dict[str, object]]:
    counts = "+".join(map(str, one.counts))
    at = [{"loss": one.loss, "counts": counts, "dim": one.dim, **row.__dict__, "norms": None} for row in one.rows]
    for made, row in zip(at, one.rows, strict=True):
        made |= {"least_norm": row.norms[0], "largest_norm": row.norms[1]}
    stretched = [
        {
            "loss": one.loss,
            "counts": counts,
            "dim": one.dim,
            "similarity": name,
            "space": f"simplex of norm {scale:g}",
            "value": value,
        }
        for name, values in (("dot", one.dot_by_scale), ("euclidean", one.euclidean_by_scale))
        for scale, value in zip(SCALES, values, strict=False)
    ]
    return [*at, *stretched]


def _draw_similarities(
    figure: "Figure", found: Sequence[SimilarityOptimum], plain: dict[str, SimilarityOptimum]
) -> None:
    left, right = figure.subplots(1, 2)
    names = [("cosine", "sphere"), ("dot", "sphere"), ("euclidean", "sphere"), ("dot", "ball"), ("euclidean", "ball")]
    for one in found:
        marker = "o" if len(set(one.counts)) == 1 and one.classes == 4 else "s" if one.classes == 4 else "^"
        values = [one.of(*name).value for name in names]
        left.plot(range(len(names)), values, marker=marker, color=COLOURS[one.loss], linewidth=1)
    for marker, label in (("o", "4 equal classes"), ("s", "4 unequal"), ("^", "6 equal")):
        left.plot([], [], marker, color=GREY, label=label)
    left.set_xticks(range(len(names)), [f"{similarity}\n{space}" for similarity, space in names], fontsize=8)
    left.set(ylabel="least loss found", ylim=(0, None))
    left.set_title("With a bound on norms: no difference", fontsize=9.5)
    left.legend(frameon=False, fontsize=8, loc="lower right")
    for loss in LOSSES:
        one = plain[loss]
        right.plot(SCALES, one.dot_by_scale, marker="o", color=COLOURS[loss], label=f"{TITLES[loss]}, dot")
        right.plot(SCALES, one.euclidean_by_scale, "x", color="black", markersize=6)
    right.plot([], [], "x", color="black", label="euclidean")
    right.set(
        yscale="log",
        ylim=(1e-18, 30),
        xlabel="norm of the simplex",
        ylabel="loss",
    )
    right.set_title("Without: stretching goes on paying", fontsize=9.5)
    right.legend(frameon=False, fontsize=8)


OPEN_OPTIMUM = (
    Claim(
        26,
        "other-similarities",
        f"open question on {SECTION}, Section 3.2",
        "what do other similarities than cosine do to the optimum?",
        "not examined",
        other_similarities,
    ),
)
