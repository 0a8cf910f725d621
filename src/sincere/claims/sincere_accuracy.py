"""Claims 11 and 13: as accurate as SupCon, and robust to the same learning rates (SINCERE, 4.2 and 4.3)."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from sincere.claims.claim import Claim, Conditions, Outcome
from sincere.claims.experiments import (
    BOTH,
    Experiment,
    as_far_as_run,
    both_losses,
    cifar,
    digits,
    experiments,
    of_one_seed,
)
from sincere.claims.objectives import DRAWS, Top, contrastive, difference, objective, over_samples
from sincere.claims.palette import COLOURS, TITLES
from sincere.claims.record import Measured, Verdict, number
from sincere.claims.sincere_losses import SECTION
from sincere.claims.statistics import covers_zero, wholly_above_zero, wholly_below_zero
from sincere.data import open_data
from sincere.evaluate import Evaluation
from sincere.evaluate.bootstrap import percentile_interval, resampled_means
from sincere.evaluate.options import Method
from sincere.train import DivergedError, OptimizerConfig, ScheduleConfig, TrainConfig

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TABLE_2 = {
    ("cifar10", "supcon"): ("95.78", "99.84"),
    ("cifar10", "sincere"): ("95.93", "99.78"),
    ("cifar100", "supcon"): ("75.96", "92.33"),
    ("cifar100", "sincere"): ("75.86", "92.54"),
}
TOPS: tuple[Top, ...] = (1, 5)
OWN_PROBE: Method = "linear"  # the library's; CIFAR in full is judged by the paper's
RATES = (0.005, 0.05, 0.1, 0.5, 1.0, 5.0)  # Section 4.3


def table_2(conditions: Conditions) -> Outcome:
    """Accuracy of a linear classifier, and whether the losses differ in it."""
    found = experiments(conditions)
    measured: list[Measured] = []
    rows, changes, alone, beside = [], [], [], []
    for one in found:
        sides = {loss: objective(one, loss, TITLES[loss], loss=contrastive(loss, one)) for loss in BOTH}
        for top in TOPS:
            name, both = f"{one.data} top-{top}", (sides["sincere"], sides["supcon"])
            change = difference(*both, one.probe, paper="no significant difference", top=top)
            changes.append(replace(change, what=f"{name}, {change.what}"))
            alone.append(
                replace(over_samples(*both, one.probe, top=top), what=f"{name}, the same over test samples alone")
            )
            measured += [changes[-1], alone[-1]] if len(one.seeds) > 1 else [changes[-1]]  # of one seed it is the same
        if one.probe != OWN_PROBE:
            change = difference(sides["sincere"], sides["supcon"], OWN_PROBE)
            beside.append(replace(change, what=f"{one.data} top-1 by our linear probe, {change.what}"))
            measured.append(beside[-1])
        for loss, side in sides.items():
            measured += _accuracies(one, loss, list(side.evaluations))
            rows += [_row(one, loss, seed, e) for seed, e in zip(one.seeds, side.evaluations, strict=True)]
    verdict, reason = judged_accuracies(changes, alone)
    reason += by_another_probe(beside) + of_one_seed(found[0]) + beside_the_paper(measured)
    return Outcome(
        *as_far_as_run(verdict, reason, found),
        "; ".join(f"{one.title}; linear classifier on frozen features; {one.seeds_in_words}" for one in found),
        tuple(measured),
        tuple(rows),
        lambda figure: _draw_accuracies(figure, measured),
    )


def judged_accuracies(changes: Sequence[Measured], alone: Sequence[Measured]) -> tuple[Verdict, str]:
    """No difference in top-1 or top-5 on any data set; `alone`: the same with the interval over test samples alone."""
    none = [*map(covers_zero, changes)]
    verdict: Verdict = "reproduced" if all(none) else "partly" if any(none) else "not reproduced"
    apart = ", ".join(one.what.partition(",")[0] for one, same in zip(changes, none, strict=True) if not same)
    narrow = [*map(covers_zero, alone)]
    return verdict, (
        "Criterion: the 95 % interval of the paired difference holds zero on every data set, in top-1 and in top-5; "
        f"from {DRAWS:,} bootstrap draws of the test set or over seeds, whichever is wider."
        + (f" It does not in {apart}." if apart else "")
        + ("" if none == narrow else " Over test samples alone it does not: these runs differ, more than the losses.")
    )


def by_another_probe(beside: Sequence[Measured]) -> str:
    """What another classifier says of the same features; nothing where the judge is the only one."""
    if not beside:
        return ""
    told = []
    for one in beside:
        better = (
            "SINCERE is better" if wholly_above_zero(one) else "SupCon is better" if wholly_below_zero(one) else None
        )
        told.append(f"{better or 'no difference is shown'} on {one.what.partition(' ')[0]}")
    return (
        " The judge is the paper's linear classifier; by our own linear probe, which is not judged, "
        f"{' and '.join(told)}."
    )


def beside_the_paper(measured: list[Measured]) -> str:
    """How far top-1 is from the paper's larger network; the claim is about differences and does not judge it."""
    points = [one.value - float(one.paper) for one in measured if one.paper and one.what.endswith(" top-1, %")]
    if not points:
        return ""
    low, high = number(min(points)), number(max(points))
    return f" Top-1 minus the paper's is {low} to {high} points, which this claim does not judge."


def _row(one: Experiment, loss: str, seed: int, found: Evaluation) -> dict[str, str | float | int | None]:
    result = found.classifier(one.probe)
    return {
        "data": one.data,
        "loss": loss,
        "seed": seed,
        "top1": result.top1.value,
        "top5": result.top5.value if result.top5 else None,
        "knn_top1": found.classifier("knn").top1.value,
        "class_means_top1": found.classifier("class_means").top1.value,
        "test_samples": len(found.labels),
    }


def _accuracies(one: Experiment, loss: str, found: list[Evaluation]) -> list[Measured]:
    """Top-1 and top-5 with the bootstrap interval of the mean over seeds."""
    printed = TABLE_2.get((one.data, loss), (None, None))
    made = []
    for name, paper in zip(("top-1", "top-5"), printed, strict=True):
        hits = [_hits(one, evaluation, name) for evaluation in found]
        if any(hit is None for hit in hits):
            continue
        values = 100 * torch.stack([hit.double() for hit in hits if hit is not None]).mean(dim=0)
        low, high = percentile_interval(resampled_means(values.unsqueeze(1), draws=DRAWS, seed=0)[:, 0])
        counted = f"{len(values):,} test samples"
        made.append(Measured(f"{one.data} {TITLES[loss]} {name}, %", float(values.mean()), low, high, counted, paper))
    return made


def _hits(one: Experiment, found: Evaluation, name: str) -> Tensor | None:
    if name == "top-1":
        return found.correct(one.probe)
    within = found.classifier(one.probe).in_top5
    return None if within is None else torch.tensor(within)


def _draw_accuracies(figure: "Figure", measured: list[Measured]) -> None:
    shown = [one for one in measured if "top-1, %" in one.what]
    axis = figure.subplots()
    for place, one in enumerate(shown):
        colour = COLOURS["sincere" if "SINCERE" in one.what else "supcon"]
        assert one.low is not None
        assert one.high is not None
        axis.errorbar(
            one.value, place, xerr=[[one.value - one.low], [one.high - one.value]], fmt="o", color=colour, capsize=4
        )
        if one.paper:
            axis.plot(float(one.paper), place, marker="D", color="0.3", markerfacecolor="none", linestyle="none")
    axis.set_yticks(range(len(shown)), [one.what.removesuffix(" top-1, %") for one in shown])
    diamond = "; diamond: the paper" if any(one.paper for one in shown) else ""
    axis.set(xlabel=f"top-1 of a linear classifier, % (95 % interval{diamond})", ylim=(len(shown) - 0.5, -0.5))


def learning_rates(conditions: Conditions) -> Outcome:
    """Accuracy over the paper's learning rates."""
    one = cifar(conditions, 10) if conditions.on_cifar else digits(conditions, seeds=1)
    epochs = min(100, one.plain.epochs)
    accuracy: dict[tuple[str, float], Measured] = {}
    for loss in BOTH:
        for rate in RATES:
            config = replace(
                one.config(loss, one.seeds[0]),
                optimizer=OptimizerConfig("sgd", lr=rate, momentum=0.9, weight_decay=1e-4),
                schedule=ScheduleConfig(warmup_epochs=0.1 * epochs, warmup_start_lr=rate / 1000, end_lr=rate / 1000),
                epochs=epochs,
            )
            name = f"{loss}-sgd-{rate:g}-{epochs}-{one.seeds[0]}"
            accuracy[loss, rate] = accuracy_at_rate(one, name, config, f"{TITLES[loss]}, rate {rate:g}")
    verdict, reason = judged_rates(accuracy)
    rows = [
        {"loss": loss, "rate": rate, "top1": found.value, "low": found.low, "high": found.high}
        for (loss, rate), found in accuracy.items()
    ]
    title = one.title if not conditions.full else one.title.replace("1,000 epochs", "100 epochs")
    return Outcome(
        verdict,
        reason,
        f"{title}; SGD with momentum 0.9, warm-up over a tenth; seed {one.seeds[0]}; linear classifier",
        tuple(accuracy.values()),
        tuple(rows),
        lambda figure: _draw_rates(figure, accuracy),
    )


def accuracy_at_rate(one: Experiment, name: str, config: TrainConfig, what: str) -> Measured:
    """Of a run at any rate, however high: one that diverged has learnt nothing, so its classifier can only guess."""
    try:
        run = one.variant(name, config)
    except DivergedError:
        one.conditions.say(f"{name} diverged")
        guessing = 100 / len(open_data(config.data.source, validation_share=0.0).train.class_names)
        return Measured(f"{what}, % (diverged: guessing)", guessing, guessing, guessing)
    top1 = one.evaluation(run).classifier(one.probe).top1
    return Measured(f"{what}, %", 100 * top1.value, 100 * top1.low, 100 * top1.high)


def judged_rates(accuracy: dict[tuple[str, float], Measured]) -> tuple[Verdict, str]:
    """Alike: within 2 points of the accuracy at 0.5; worse: the interval ends below that at 0.5."""
    alike, worse = [], []
    for loss in BOTH:
        at_half = accuracy[loss, 0.5]
        alike += [abs(accuracy[loss, rate].value - at_half.value) <= 2.0 for rate in (0.005, 0.05, 0.1)]
        ends = [accuracy[loss, rate].high for rate in (1.0, 5.0)]
        worse += [end is not None and end < at_half.value for end in ends]
    verdict: Verdict = "reproduced" if all(alike + worse) else "partly" if any(alike + worse) else "not reproduced"
    return verdict, (
        "Criteria, for both losses: 0.005, 0.05 and 0.1 within 2 points of 0.5; the intervals at 1 and 5 below it. "
        f"{sum(alike)} of {len(alike)} and {sum(worse)} of {len(worse)} hold."
    )


def _draw_rates(figure: "Figure", accuracy: dict[tuple[str, float], Measured]) -> None:
    axis = figure.subplots()
    for loss in BOTH:
        found = [accuracy[loss, rate] for rate in RATES]
        values = [one.value for one in found]
        below = [one.value - one.ends[0] for one in found]
        above = [one.ends[1] - one.value for one in found]
        axis.errorbar(
            RATES, values, yerr=[below, above], marker="o", capsize=3, color=COLOURS[loss], label=TITLES[loss]
        )
    axis.set(xscale="log", xlabel="learning rate of SGD", ylabel="top-1 of a linear classifier, % (95 % interval)")
    axis.set_xticks(RATES, [f"{rate:g}" for rate in RATES])
    axis.legend(frameon=False)


SINCERE_ACCURACY = (
    Claim(
        11,
        "table-2",
        f"{SECTION}, Table 2",
        "a linear classifier on frozen features is as accurate after SINCERE as after SupCon",
        "CIFAR-10 top-1/top-5: SupCon 95.78/99.84, SINCERE 95.93/99.78; CIFAR-100: 75.96/92.33, 75.86/92.54",
        table_2,
        ("cifar10", "cifar100"),
        one_will_do=True,
        runs=both_losses,
    ),
    Claim(
        13,
        "learning-rates",
        f"{SECTION}, Section 4.3",
        "learning rates from 0.005 to 0.1 give similar results to 0.5; 1 and 5 are worse",
        "similar, and worse",
        learning_rates,
        ("cifar10",),
        decisive=r"^SINCERE, rate 0\.(005|5),",
    ),
)
