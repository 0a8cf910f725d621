"""Claim 30: the set loss against SINCERE and SupCon in accuracy, geometry and cost, which the paper leaves open."""

from collections.abc import Callable
from functools import partial

import sincere.functional as SF
from sincere.bench.agreement import outcome
from sincere.bench.problem import Problem
from sincere.bench.rounds import Candidate, run_rounds
from sincere.claims.claim import Claim, Conditions, Outcome
from sincere.claims.experiments import Experiment, cifar, few_digits
from sincere.claims.objectives import Side, accuracy, contrastive, difference, objective, rows_of
from sincere.claims.pictures import draw_intervals
from sincere.claims.record import Measured, number
from sincere.claims.statistics import over_seeds
from sincere.embeddings import EmbeddingSet
from sincere.geometry import similarity_by_class_pair, similarity_histograms, simplex_conditions
from sincere.train.processes import device_for

ROUNDS = 15
LOSSES = {"set_nce": "set loss", "sincere": "SINCERE", "supcon": "SupCon"}


def set_loss(conditions: Conditions) -> Outcome:
    one = cifar(conditions, 10) if conditions.on_cifar else few_digits(conditions)
    sides = {name: objective(one, name, title, loss=contrastive(name, one)) for name, title in LOSSES.items()}
    ours = sides["set_nce"]
    differences = [difference(ours, sides[name], one.probe) for name in ("sincere", "supcon")]
    accuracies = [accuracy(side, one.probe) for side in sides.values()]
    shapes = [figure for side in sides.values() for figure in shape(side)]
    conditions.say(f"time of the losses, {ROUNDS} rounds")
    times = costs(one, seed=conditions.seed)
    return Outcome(
        "answered",
        answer(differences, times),
        f"{one.title}; linear classifier on frozen features; cosines of test pairs",
        (*differences, *accuracies, *shapes, *times),
        tuple(rows_of(list(sides.values()), one.seeds, ("knn", one.probe))),
        lambda figure: draw_intervals(figure, accuracies, "top-1 of a linear classifier, % (95 % interval)"),
    )


def shape(side: Side) -> list[Measured]:
    """Where its embeddings end."""
    tests = [run.embeddings("test") for run in side.runs]
    read: dict[str, Callable[[EmbeddingSet], float | None]] = {
        "cosine within classes": lambda test: similarity_by_class_pair(test).within,
        "cosine between classes": lambda test: similarity_by_class_pair(test).between,
        "overlap of both": lambda test: similarity_histograms(test).overlap,
        "deviation from the simplex": lambda test: simplex_conditions(test).mean_deviation,
    }
    made = []
    for name, look in read.items():
        values = [found for found in map(look, tests) if found is not None]
        made.append(over_seeds(f"{side.title}, {name}", values))
    return made


def costs(one: Experiment, *, seed: int) -> list[Measured]:
    """Time of the set loss over that of the others, forward and backward, on a batch of the size that was trained with.

    By rounds in which every loss runs: times of whole runs tell more about what else the machine did meanwhile.
    """
    device = str(device_for("auto"))
    batch = Problem(one.rows_of_a_batch, one.plain.head.dim, classes=10, seed=seed, device=device).batch()
    temperature = one.plain.loss.temperature
    candidates: dict[str, Candidate] = {
        title: partial(outcome, partial(getattr(SF, name), temperature=temperature), *batch)
        for name, title in LOSSES.items()
    }
    samples = run_rounds(candidates, rounds=ROUNDS, repeats=10, device=device)
    ours, *others = LOSSES.values()
    return [
        over_seeds(
            f"time of a step, {ours} / {other}",
            [a / b for a, b in zip(samples[ours], samples[other], strict=True)],
            of="rounds",
        )
        for other in others
    ]


def answer(differences: list[Measured], times: list[Measured]) -> str:
    """In words that the figures choose."""
    told = []
    for one, other in zip(differences, ("SINCERE", "SupCon"), strict=True):
        if one.low is not None and one.low > 0:
            told.append(f"more accurate than {other} by {number(one.value)} points")
        elif one.high is not None and one.high < 0:
            told.append(f"less accurate than {other} by {number(-one.value)} points")
        else:
            told.append(f"as accurate as {other} ({number(one.value)} points, interval holds zero)")
    sincere, supcon = (f"{time.value:.3g}" for time in times)
    return (
        f"The set loss is {' and '.join(told)}; the loss itself, forward and backward on a batch, takes {sincere} "
        f"times as long as SINCERE and {supcon} times as long as SupCon."
    )


SET_LOSS = (
    Claim(
        30,
        "set-loss",
        "open question of Feeney and Hughes 2023, Section 5",
        "what predicting a class's members all at once gives against SINCERE and SupCon",
        "no figure: an open question",
        set_loss,
        ("cifar10",),
        decisive="^set loss − ",
    ),
)
