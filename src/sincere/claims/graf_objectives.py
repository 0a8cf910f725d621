"""The runs of claims 21 and 22: cross-entropy, a fixed simplex and SupCon, with random views and with none."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sincere.claims.claim import Conditions
from sincere.claims.experiments import Experiment, Planned, cifar, few_digits
from sincere.claims.objectives import Side, contrastive, objective
from sincere.claims.record import Verdict
from sincere.evaluate.options import Method
from sincere.train import BatchesConfig, HeadConfig, OptimizerConfig, ScheduleConfig, ViewsConfig

SOURCE = "Graf et al. 2021, arXiv 2102.08817"
OBJECTIVES: dict[str, dict[str, Any]] = {
    "cross-entropy": {"objective": "cross_entropy"},
    "fixed simplex": {"objective": "fixed_simplex"},
    "SupCon": {},
}
# Who judges: the authors' script has class means ("explicit_linear"), their notebook a linear classifier.
JUDGES: dict[Method, str] = {"class_means": "class means", "linear": "linear probe"}


@dataclass(frozen=True)
class Objectives:
    """Every objective, with and without augmentation."""

    experiment: Experiment
    sides: dict[tuple[str, bool], Side]  # by objective and whether views were random


def judged_by_all(holds: Mapping[str, Sequence[bool]]) -> tuple[Verdict, str]:
    """From criteria that hold or not, by each judge or by the one figure there is: whether they all hold."""
    flat = [found for each in holds.values() for found in each]
    verdict: Verdict = "reproduced" if all(flat) else "partly" if any(flat) else "not reproduced"
    told = (f"{words}: {' / '.join('yes' if one else 'no' for one in found)}" for words, found in holds.items())
    return verdict, f"Criteria (by {' / by '.join(JUDGES.values())}): {'; '.join(told)}."


def trained_objectives(conditions: Conditions) -> Objectives:
    """Three objectives, each with random views and with none, from the same weights and over the same epochs."""
    one = experiment(conditions)
    sides = {
        (name, augmented): objective(one, _run(name, augmented), name, **_settings(one, name, augmented))
        for name in OBJECTIVES
        for augmented in (True, False)
    }
    return Objectives(one, sides)


def planned_objectives(conditions: Conditions) -> Iterator[Planned]:
    """The runs of `trained_objectives`, all of one seed before the next one's."""
    one = experiment(conditions)
    for seed in one.seeds:
        for name in OBJECTIVES:
            for augmented in (True, False):
                config = replace(one.plain, seed=seed, **_settings(one, name, augmented))
                yield Planned(one, f"{_run(name, augmented)}-{seed}", config)


def _run(name: str, augmented: bool) -> str:
    return f"{name.replace(' ', '-')}-{'views' if augmented else 'no-views'}"


def _settings(one: Experiment, name: str, augmented: bool) -> dict[str, Any]:
    """What an objective changes of the plain configuration."""
    views = one.plain.views if augmented else ViewsConfig("none", count=one.plain.views.count)
    return {"loss": contrastive("supcon", one), "views": views, **OBJECTIVES[name]}


def experiment(conditions: Conditions) -> Experiment:
    """CIFAR-100 for all objectives alike: as the paper's authors train, or, fast, as supervised networks usually do.

    Or few digits.
    """
    if not conditions.on_cifar:
        return few_digits(conditions)
    one = cifar(conditions, 100)
    settings, title = _as_the_authors() if conditions.full else _as_usual(one.plain.epochs)
    plain = replace(one.plain, **settings)
    return replace(one, data=f"{one.data}-graf", title=title, plain=plain, probe="linear", seeds=(0, 1, 2))


def _as_the_authors() -> tuple[dict[str, Any], str]:
    """Settings of the authors' code (plus-rkwitt/py_supcon_vs_ce, run_exp_performance.py) but for the length.

    One view, no projection head: SupCon works on normalised features, cross-entropy on features as they are.
    """
    epochs = 100
    settings = {
        "batches": BatchesConfig(256, "shuffled", drop_last=True),
        "views": ViewsConfig("plain", count=1, options={"hole": False}),
        "head": HeadConfig("none"),
        "optimizer": OptimizerConfig("sgd", lr=0.1, momentum=0.9, weight_decay=1e-4),
        "schedule": ScheduleConfig("polynomial", power=5.0),
        "epochs": epochs,
    }
    title = (
        f"CIFAR-100, ResNet-18, {epochs} epochs (the paper: 512), batch 256, one view, no projection head, shift and "
        "flip, learning rate 0.1 · (share of steps left)⁵"
    )
    return settings, title


def _as_usual(epochs: int) -> tuple[dict[str, Any], str]:
    settings = {
        "views": ViewsConfig("plain", count=2, options={"hole": False}),
        "optimizer": OptimizerConfig("sgd", lr=0.1, momentum=0.9, nesterov=True, weight_decay=5e-4),
        "schedule": ScheduleConfig(warmup_epochs=2),
    }
    return settings, f"CIFAR-100, short_cnn (the paper: ResNet-18), {epochs} epochs, batch 512, shift and flip"
