"""The long runs of the SINCERE paper's experiment, side by side: those that are made, while others may be to come."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from sincere.claims import Claim
from sincere.claims.claim import Conditions
from sincere.claims.experiments import Planned, both_losses
from sincere.claims.laboratory import Laboratory, Trained
from sincere.claims.run_origins import origins_of
from sincere.claims.sincere_accuracy import TABLE_2
from sincere.claims.sincere_losses import TABLE_1
from sincere.geometry import similarity_by_class_pair

HERE = Path(__file__).resolve().parent
TITLE = "The full runs"
LINK = f"[{TITLE.lower()}](#{TITLE.lower().replace(' ', '-')})"


def planned_runs(claim: Claim, here: Path = HERE) -> list[Planned]:
    """Of its full form, if they are runs of the SINCERE paper's experiment, which the table below is made for."""
    if claim.runs is not both_losses:
        return []
    laboratory = Laboratory(here / "runs", "off", here / "light-runs")
    return list(claim.runs(Conditions("full", 0, laboratory, dict.fromkeys(claim.needs, "PATH"))))


def told(claim: Claim, here: Path = HERE) -> str | None:
    """How many of them there are, while some are still to come; None where there are none."""
    planned = planned_runs(claim, here)
    made = sum(run.light() is not None for run in planned)
    if not 0 < made < len(planned):
        return None
    return f"Runs of its full form that are made: {made} of {len(planned)} ({LINK})."


def section(claims: Iterable[Claim], here: Path = HERE) -> Iterator[str]:
    """A table of those of these claims' runs that are made."""
    planned = {run.folder: run for claim in claims for run in planned_runs(claim, here)}
    made = {name: (run, light) for name, run in planned.items() if (light := run.light()) is not None}
    if not made:
        return
    so_far = "" if len(made) == len(planned) else f", {len(made)} of {len(planned)} so far"
    yield f"## {TITLE}\n"
    yield (
        f"Runs of the paper's settings with a ResNet-18 in place of its ResNet-50{so_far}, one of each. Loss "
        "is the mean of the first epoch and of the last; accuracy that of the paper's linear classifier, with the 95 % "
        "interval over test images; cosines are means over pairs of test images.\n"
    )
    yield "| run | loss | the paper | top-1, % | the paper | cosine within, between classes | training |"
    yield "|---|---|---|---|---|---|---|"
    for name, (run, light) in made.items():
        yield f"| `{name}` | {' | '.join(_cells(run, light))} |"
    yield ""


def _cells(run: Planned, light: Trained) -> tuple[str, ...]:
    data, loss = run.experiment.data, run.config.loss.name
    losses, pairs = light.epoch_losses(), similarity_by_class_pair(light.embeddings("test"))
    began, ended = TABLE_1[data, loss]
    origin = origins_of([light.folder], before="9999")
    assert origin is not None  # of nothing that lies here the start is to come
    place = origin["trained_on"][0]
    return (
        f"{losses[0]:.2f} → {losses[-1]:.2f}",
        f"{began:.2f} → {ended:.2f}",
        str(run.experiment.evaluation(light).classifier(run.experiment.probe).top1),
        TABLE_2[data, loss][0],
        f"{pairs.within:.3f}, {pairs.between:.3f}".replace("-", "−"),
        f"{origin['seconds']:,.0f} s, {place['machine']}, torch {place['torch']}, commit {place['commit'][:9]}",
    )
