"""Claims 26 and 29, open questions: what other similarities and a projection head do to the optimum."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sincere.claims.claim import Claim, Conditions, Outcome
from sincere.claims.optimum import GRAF
from sincere.claims.palette import COLOURS, GREY, TITLES
from sincere.claims.record import Measured, number
from sincere.claims.sincere_losses import SECTION
from sincere.theory import ProjectionOptimum, SimilarityOptimum, projection_optimum, similarity_optimum

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


def projection_head(conditions: Conditions) -> Outcome:
    """Features and outputs at the optimum behind no head, a linear one and an MLP."""
    starts = 10 if conditions.full else 3
    dims = (3, 2, 6) if conditions.full else (3, 2)
    found = [projection_optimum(loss, dim=dim, starts=starts, seed=conditions.seed) for loss in LOSSES for dim in dims]
    rows = [(one, row) for one in found for row in one.rows]
    return Outcome(
        "answered",
        projection_answer(found),
        f"free features of dimension {found[0].feature_dim}, 4 classes × {found[0].members}, a head that is trained "
        f"with them, τ = {found[0].temperature:g}; output of {' and '.join(str(dim) for dim in dims if dim > 2)} "
        f"dimensions, and of 2, too few for a simplex; best of {starts} starts",
        tuple(
            Measured(f"{TITLES[one.loss]}, {row.head}: {name}", value)
            for one, row in rows
            if one.dim == 3
            for name, value in (
                ("output off the simplex", row.output.simplex_deviation),
                ("features off the simplex", row.features.simplex_deviation),
                ("share of the features' variance within classes", row.features_within),
            )
        ),
        tuple(
            {
                "loss": one.loss,
                "dim": one.dim,
                "head": row.head,
                "value": row.value,
                "excess": row.excess,
                "output_off_simplex": row.output.simplex_deviation,
                "output_within": row.output_within,
                "features_off_simplex": row.features.simplex_deviation,
                "features_within": row.features_within,
                "rank": row.rank,
                "converged": row.converged,
            }
            for one, row in rows
        ),
        lambda figure: _draw_projection(figure, [one for one in found if one.dim in (2, 3)]),
    )


def projection_answer(found: Sequence[ProjectionOptimum]) -> str:
    """In plain words, from the figures."""
    wide = [one for one in found if one.dim == 3]
    narrow = [one for one in found if one.dim == 2]
    heads = [one.of(head) for one in wide for head in ("linear", "mlp")]
    output, inside = max(row.output.simplex_deviation for row in heads), [row.features_within for row in heads]
    excess = max(one.of("linear").excess for one in narrow)
    return (
        (
            "The head takes the simplex upon itself: its output ends there"
            if output < 1e-3
            else "The head's output is off the simplex"
        )
        + f" (off by at most {number(output)}), and the features in front of it need not: "
        f"{number(100 * min(inside))} to "
        f"{number(100 * max(inside))} % of their variance stays within classes, against "
        f"{number(100 * wide[0].of('none').features_within)} % without a head, and their means are off it by "
        f"{number(min(row.features.simplex_deviation for row in heads))} or more. A head of fewer than K − 1 "
        f"dimensions makes "
        f"the simplex impossible, at a cost of up to {number(excess)} in the loss."
    )


def _draw_projection(figure: "Figure", found: Sequence[ProjectionOptimum]) -> None:
    left, right = figure.subplots(1, 2)
    wide = [one for one in found if one.dim == 3]
    heads = [row.head for row in wide[0].rows]
    for number_of, one in enumerate(wide):
        places = [place + 0.4 * number_of - 0.2 for place in range(len(heads))]
        shares = [100 * row.features_within for row in one.rows]
        left.bar(places, shares, width=0.38, color=COLOURS[one.loss], label=f"{TITLES[one.loss]}: features")
        outputs = [100 * row.output_within for row in one.rows]
        left.plot(
            places,
            outputs,
            "D",
            color="black",
            markersize=5,
            label="head's output" if number_of == 0 else None,
            clip_on=False,
        )
    most = max(100 * row.features_within for one in wide for row in one.rows)
    left.set(ylabel="% of the variance within classes", title="Output of 3 dimensions", ylim=(0, 1.3 * most))
    for number_of, one in enumerate(found):
        places = [place + 0.2 * number_of - 0.3 for place in range(len(heads))]
        deviations = [max(row.output.simplex_deviation, 1e-9) for row in one.rows]
        marker = "o" if one.dim == 3 else "v"
        label = f"{TITLES[one.loss]}, output of {one.dim}"
        right.plot(places, deviations, marker, color=COLOURS[one.loss], markersize=8, label=label)
    right.axhline(1e-3, color=GREY, linestyle="--", linewidth=1)
    right.set(yscale="log", ylim=(1e-9, 1e4), ylabel="output's cosines off −1/(K−1)", title="What the loss sees")
    right.set_yticks([10.0**power for power in range(-8, 1, 2)])  # above, the legend
    for axis in (left, right):
        axis.set_xticks(
            range(len(heads)), ["no head" if head == "none" else head.replace("mlp", "MLP") for head in heads]
        )
    left.legend(frameon=False, fontsize=8, loc="upper left")
    right.legend(frameon=False, fontsize=8, loc="upper left")


OPEN_OPTIMUM = (
    Claim(
        26,
        "other-similarities",
        f"open question on {SECTION}, Section 3.2",
        "what do other similarities than cosine do to the optimum?",
        "not examined",
        other_similarities,
    ),
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
