"""Claim 28: text and sound, with the same losses and no weights from elsewhere."""

from collections.abc import Callable
from dataclasses import replace

from sincere.claims.claim import Claim, Conditions, Outcome
from sincere.claims.experiments import BOTH, Experiment
from sincere.claims.objectives import accuracy, contrastive, difference, objective, rows_of
from sincere.claims.palette import TITLES
from sincere.claims.pictures import draw_intervals
from sincere.claims.record import Measured, number
from sincere.recipes.laptop import banking77, fsdd
from sincere.train import TrainConfig

WELL = 50.0  # % of test samples, of 77 classes and of 10: less would be no success to speak of
SETS: dict[str, tuple[Callable[[], TrainConfig], str, int]] = {
    "banking77": (banking77, "customers' questions, 77 intents", 4),
    "fsdd": (fsdd, "spoken digits of six speakers", 6),
}


def other_modalities(conditions: Conditions) -> Outcome:
    changes: list[Measured] = []
    accuracies: list[Measured] = []
    rows, titles = [], []
    for name in SETS:
        one = experiment(conditions, name)
        titles.append(one.title)
        sides = [objective(one, loss, TITLES[loss], loss=contrastive(loss, one)) for loss in BOTH]
        changes.append(_on(name, difference(sides[0], sides[1], "knn")))
        accuracies += [_on(name, accuracy(side, "knn")) for side in sides]
        rows += [{"data": name, **row} for row in rows_of(sides, one.seeds, ("knn", "linear"))]
    return Outcome(
        "answered",
        answer(changes, accuracies),
        "; ".join(titles) + "; k-NN on embeddings",
        (*changes, *accuracies),
        tuple(rows),
        lambda figure: draw_intervals(figure, accuracies, "top-1 of k-NN, % (95 % interval)"),
    )


def experiment(conditions: Conditions, name: str) -> Experiment:
    """The recipe of the data set; the quick form trains for a third of its epochs, from one seed."""
    make, words, few = SETS[name]
    plain = make()
    epochs = plain.epochs if conditions.full else few
    seeds = 3 if conditions.full else 1
    data = replace(plain.data, source=conditions.path_of(name))
    plain = replace(plain, data=data, epochs=epochs, reporting=replace(plain.reporting, validate_every=0))
    title = f"{name} ({words}), {epochs} epochs from scratch, {seeds} seed{'s' if seeds > 1 else ''}"
    first = conditions.seed
    return Experiment(f"{name}-{epochs}", title, tuple(range(first, first + seeds)), plain, "linear", conditions)


def _on(name: str, measured: Measured) -> Measured:
    return replace(measured, what=f"{name} {measured.what}")


def answer(changes: list[Measured], accuracies: list[Measured]) -> str:
    reached = " and ".join(f"{number(one.value)} % on {one.what.split()[0]}" for one in accuracies[::2])
    told = []
    for one in changes:
        name = one.what.split()[0]
        real = (one.low or 0.0) > 0 or (one.high or 0.0) < 0
        told.append(f"{number(one.value)} points on {name}" + (", a difference" if real else ", no difference shown"))
    carried = all(one.low is not None and one.low > WELL for one in accuracies)
    whether = "carry over" if carried else f"do not carry over everywhere, as not all are above {WELL:g} %"
    return f"The losses {whether}: SINCERE reaches {reached}. Against SupCon: {'; '.join(told)}."


OTHER_MODALITIES = (
    Claim(
        28,
        "text-and-sound",
        "open question on Feeney and Hughes 2023",
        "whether the losses carry over to text and to sound",
        "no figure: an open question",
        other_modalities,
        ("banking77", "fsdd"),
        decisive=" − SupCon, points$",
    ),
)
