"""Claim 23: how long it takes to fit random labels (Graf et al., 2021, after Zhang et al., 2017)."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean
from typing import TYPE_CHECKING

from sincere.claims.claim import Claim, Conditions, Outcome
from sincere.claims.optimum import GRAF
from sincere.claims.palette import COLOURS, TITLES
from sincere.claims.random_image_labels import Fitting, ImageFits, described, fit_images
from sincere.claims.record import Measured, Verdict
from sincere.data import open_data
from sincere.tables import amount
from sincere.theory import Estimate, RandomLabels
from sincere.theory import random_labels as fit_random_labels
from sincere.train.processes import device_for, tuned_convolutions

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LOSSES = ("cross_entropy", "supcon", "sincere")  # SINCERE is ours to add
CLAIMED = {"cross_entropy": "no departure from a line", "supcon": "faster than linear"}  # of which shape growth is
RATES = {"sgd": 0.05, "adam": 0.005}
OPTIMIZERS = {"sgd": "SGD", "adam": "Adam"}


# The paper has a ResNet-18; a short network and a fifth of the images take a GPU minutes in place of hours.
ON_IMAGES = {
    "fast": (Fitting("short_cnn", {"activation": "relu"}, 10_000, 300), "short_cnn (the paper: ResNet-18)"),
    "full": (Fitting("resnet18", {"stem": "small"}, 50_000, 200), "ResNet-18"),
}


def random_labels(conditions: Conditions) -> Outcome:
    """Images where they are given, points otherwise."""
    return on_images(conditions) if "cifar10" in conditions.data else on_points(conditions)


def on_images(conditions: Conditions) -> Outcome:
    """Steps of a convolutional network against the share of random labels, by loss."""
    fitting, title = ON_IMAGES[conditions.form]
    fitting = replace(fitting, seeds=tuple(conditions.seed + seed for seed in fitting.seeds))
    train = open_data(f"cifar10:{conditions.path_of('cifar10')}", validation_share=0.0).train
    kept = conditions.laboratory.folder / f"random-labels-{conditions.form}-{conditions.seed}.json"
    kept.parent.mkdir(parents=True, exist_ok=True)
    place = device_for("auto")
    with tuned_convolutions(place):
        found = fit_images(train.inputs, train.labels, fitting, kept=kept, place=place, say=conditions.say)
    verdict, reason = judge_random_labels([found])
    return Outcome(
        verdict,
        reason,
        described(fitting, title, found),
        tuple(_figures(found, len(fitting.seeds), size="")),
        tuple({"optimizer": found.optimizer, "samples": found.samples, **run.__dict__} for run in found.runs),
        lambda figure: _draw(figure, [found]),
    )


def on_points(conditions: Conditions) -> Outcome:
    """Steps to fit against the share of random labels, by loss and optimiser."""
    seeds, sizes = (10, (256, 1024)) if conditions.full else (5, (256,))
    found = []
    for samples in sizes:
        for optimizer in ("sgd", "adam"):
            conditions.say(f"{samples} samples, {optimizer}")
            found.append(
                fit_random_labels(
                    LOSSES,
                    seeds=seeds,
                    first_seed=conditions.seed,
                    samples=samples,
                    optimizer="sgd" if optimizer == "sgd" else "adam",
                    rate=RATES[optimizer],
                    max_steps=20_000 if conditions.full else 5_000,
                )
            )
    verdict, reason = judge_random_labels(found)
    first = found[0]
    return Outcome(
        verdict,
        reason,
        f"{' and '.join(f'{size:,}' for size in sizes)} points of {first.classes} Gaussian clusters in {first.dim} "
        f"dimensions, "
        f"a network of two hidden layers of {first.hidden}, batches of {first.batch}, until "
        f"{100 * first.threshold:g} % of the "
        f"training labels are right; SGD (rate {RATES['sgd']}, momentum) and Adam; {seeds} seeds",
        tuple(
            figure
            for one in found
            for figure in _figures(one, seeds, size="" if one.samples == 256 else f", {one.samples:,} samples")
        ),
        tuple(
            {"optimizer": one.optimizer, "samples": one.samples, **run.__dict__} for one in found for run in one.runs
        ),
        lambda figure: _draw(figure, found),
    )


def judge_random_labels(found: Sequence[RandomLabels | ImageFits]) -> tuple[Verdict, str]:
    """By slope and curvature of steps over the share, with SGD and momentum, as networks of the paper's kind are
    trained."""
    with_sgd, with_adam = ([one for one in found if one.optimizer == name] for name in ("sgd", "adam"))
    longer = {loss: all(one.trend(loss).slope.above_zero for one in with_sgd) for loss in CLAIMED}
    bent = {loss: all(one.trend(loss).shape == shape for one in with_sgd) for loss, shape in CLAIMED.items()}
    holds = [longer[loss] and bent[loss] for loss in CLAIMED]
    verdict: Verdict = "reproduced" if all(holds) else "partly" if any(holds) else "not reproduced"
    told = "; ".join(f"{TITLES[loss]}: {_shapes(with_sgd, loss)}" for loss in CLAIMED)
    words = (
        "Criteria, for SGD: steps grow with the share, and the interval of the curvature of steps over the share, over "
        f"seeds, holds 0 for cross-entropy (linear) and lies above 0 for SupCon. {told[0].upper()}{told[1:]}."
        + "".join(f" Steps of {TITLES[loss]} are not shown to grow." for loss in CLAIMED if not longer[loss])
    )
    if with_adam:
        shapes = _shapes(with_adam, "supcon")
        words += (
            f" With Adam SupCon shows {_as_noun(shapes)}: the optimiser decides, not the loss alone."
            if shapes != "faster than linear"
            else " With Adam SupCon is faster than linear too."
        )
    if unfitted := _unfitted(found):
        words += f" Never fitted, and counted with the last step that was allowed: {unfitted}."
    return verdict, words


def _unfitted(found: Sequence[RandomLabels | ImageFits]) -> str:
    """Which runs never fitted: a mean that has one of them may hang on it."""
    which = Counter(
        f"{TITLES[run.loss]} by {OPTIMIZERS[one.optimizer]}, {100 * run.share:g} % of {one.samples:,} labels random"
        for one in found
        for run in one.runs
        if not run.fitted
    )
    return "; ".join(f"{amount(count, 'run')} of {case}" for case, count in which.items())


def _shapes(found: Sequence[RandomLabels | ImageFits], loss: str) -> str:
    """In words; of each number of samples where they differ."""
    shapes = [one.trend(loss).shape for one in found]
    if len(set(shapes)) == 1:
        return shapes[0]
    return ", ".join(f"{shape} with {one.samples:,} samples" for one, shape in zip(found, shapes, strict=True))


def _as_noun(shape: str) -> str:
    return shape if shape.startswith("no ") else f"growth {shape}"


def _figures(one: RandomLabels | ImageFits, seeds: int, *, size: str) -> list[Measured]:
    name = OPTIMIZERS[one.optimizer]
    made = []
    expected = {"cross_entropy": "linear", "supcon": "faster than linear"} if name == "SGD" else {}
    for loss in LOSSES:
        what = f"{name}{size}: curvature, {TITLES[loss]}, steps"
        made.append(_measured(what, one.trend(loss).curvature, seeds, expected.get(loss)))
    for loss, growth in one.growth.items():
        what = f"{name}{size}: growth of {TITLES[loss]} over that of cross-entropy, 25 % to all"
        made.append(_measured(what, growth, seeds, "above 1" if (name, loss) == ("SGD", "supcon") else None))
    return made


def _measured(what: str, estimate: Estimate, seeds: int, paper: str | None) -> Measured:
    return Measured(what, estimate.value, estimate.low, estimate.high, f"{seeds} seeds", paper)


def _draw(figure: "Figure", found: Sequence[RandomLabels | ImageFits]) -> None:
    columns = min(2, len(found))
    axes = figure.subplots(-(-len(found) // columns), columns, squeeze=False)
    for axis, one in zip(axes.flat, found, strict=True):
        for shift, loss in zip((-0.8, 0.0, 0.8), LOSSES, strict=True):
            places = [100 * share for share in one.shares]
            steps = [one.steps(loss, share) for share in one.shares]
            axis.plot(places, [fmean(each) for each in steps], color=COLOURS[loss], label=TITLES[loss], linewidth=1.8)
            for place, each in zip(places, steps, strict=True):
                axis.scatter([place + shift] * len(each), each, s=12, color=COLOURS[loss], alpha=0.6, linewidths=0)
        name = OPTIMIZERS[one.optimizer]
        axis.set(title=f"{name}, {one.samples:,} samples", ylim=(0, None))
        axis.set_xticks([100 * share for share in one.shares])
    for axis in axes[-1]:
        axis.set_xlabel("% of labels random")
    figure.supylabel(f"steps to fit {100 * found[0].threshold:g} % of the labels", fontsize="medium")
    seeds = len(found[0].steps(LOSSES[0], 1.0))
    title = f"dots: {seeds} seeds; lines: their mean"
    figure.legend(
        *axes[0, 0].get_legend_handles_labels(),
        title=title,
        loc="outside lower center",
        ncols=len(LOSSES),
        frameon=False,
        fontsize=8,
        title_fontsize=8,
    )


RANDOM_LABELS = (
    Claim(
        23,
        "random-labels",
        f"{GRAF}, experiment with random labels",
        "the more labels are random, the longer fitting takes: linearly with cross-entropy, faster than that with "
        "SupCon",
        "roughly linear; superlinear",
        random_labels,
        ("cifar10",),
        full_without_data=True,
        decisive="^SGD: curvature, (cross-entropy|SupCon),",
    ),
)
