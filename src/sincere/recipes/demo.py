"""SINCERE, SupCon and cross-entropy side by side on handwritten digits: the configurations, and what to look at."""

from dataclasses import asdict, dataclass, replace
from typing import Any

from sincere.embeddings import EmbeddingSet
from sincere.evaluate import Evaluation, compare
from sincere.evaluate.options import Method
from sincere.geometry import similarity_by_class_pair
from sincere.losses.diagnosis import diagnose
from sincere.recipes.laptop import digits
from sincere.tables import columns
from sincere.train import LossConfig, TrainConfig

METHODS: tuple[Method, ...] = ("knn", "class_means", "linear")
EPOCHS = 15  # ours: enough for 97.5 % by k-NN with every loss, and a minute of two cores with all three


def demo_configs(*, seed: int = 0, epochs: int = EPOCHS) -> dict[str, TrainConfig]:
    """The same encoder, views, batches and optimizer, from the same weights; the objectives alone differ."""
    plain = replace(digits(), epochs=epochs, seed=seed)
    plain = replace(plain, schedule=replace(plain.schedule, warmup_epochs=min(1.0, epochs)))
    return {
        "sincere": replace(plain, loss=LossConfig("sincere")),
        "supcon": replace(plain, loss=LossConfig("supcon")),
        "cross-entropy": replace(plain, objective="cross_entropy"),
    }


@dataclass(frozen=True)
class Side:
    """What one objective arrived at, on test images."""

    evaluation: Evaluation
    within: float  # mean cosine of two images of one class
    between: float  # and of two classes
    repulsion: float | None  # share of same-class pairs that its loss pushes apart; cross-entropy knows no pairs

    def to_json(self) -> dict[str, Any]:
        """The figures of the table."""
        accuracies: dict[str, Any] = {method: asdict(self.evaluation.classifier(method).top1) for method in METHODS}
        return {**accuracies, "within": self.within, "between": self.between, "repulsion": self.repulsion}


def side(name: str, evaluation: Evaluation, test: EmbeddingSet) -> Side:
    """Look at the test embeddings of one of `demo_configs`."""
    cosines = similarity_by_class_pair(test)
    assert cosines.within is not None  # every digit is among the test images
    assert cosines.between is not None
    shares = {"sincere": 0.0, "cross-entropy": None}  # SINCERE's coefficients of same-class pairs are never positive
    pushed = diagnose(test.embeddings, test.labels, set_loss=False).repulsion
    return Side(evaluation, cosines.within, cosines.between, shares.get(name, pushed))


def table(sides: dict[str, Side]) -> str:
    """One column an objective."""
    first = next(iter(sides.values())).evaluation
    rows = [[f"{len(first.labels)} test images, percent (95 % interval)", *sides]]
    for method in METHODS:
        found = [one.evaluation.classifier(method) for one in sides.values()]
        rows.append([method.replace("_", " ").replace("knn", "k-NN"), *(str(result.top1) for result in found)])
    rows.append(["mean cosine within classes", *(f"{one.within:+.3f}" for one in sides.values())])
    rows.append(["mean cosine between classes", *(f"{one.between:+.3f}" for one in sides.values())])
    shares = (one.repulsion for one in sides.values())
    rows.append(["same-class pairs pushed apart", *("–" if s is None else f"{100 * s:.1f} %" for s in shares)])
    return "\n".join(columns(rows))


def conclusion(sides: dict[str, Side]) -> str:
    """What to see, in sentences that the figures choose."""
    pushed = sides["supcon"].repulsion or 0.0
    told = str(compare(sides["sincere"].evaluation, sides["supcon"].evaluation, method="knn").differences[0])
    if not pushed:
        return told
    return f"SupCon's gradient pushes {100 * pushed:.0f} % of same-class test pairs apart, SINCERE's none. {told}"
