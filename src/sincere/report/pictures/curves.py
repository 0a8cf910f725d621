"""Training: the loss and its floor, and k-NN accuracy on the validation split."""

from collections.abc import Sequence
from math import sqrt
from typing import Any

from sincere.report.palette import COLOURS, FAINT
from sincere.report.picture import Picture, Table, in_style, new_figure
from sincere.report.subject import Subject
from sincere.report.verdict import Verdict, percent

LATE = 0.2  # the last fifth of the epochs says whether training had levelled off
FALLING = 0.05  # of the way from the first loss to the last, within that fifth
WORSE = 0.02  # below the best validation accuracy, at the end
LITTLE_LEARNED = 0.5  # of the loss above its floor that is left at the end


@in_style
def curves_picture(subject: Subject) -> Picture | None:
    """Two panels that share the epochs; None for embeddings without a run, or before its first epoch."""
    epochs = [record for record in subject.metrics if record.get("kind") == "epoch" and "loss" in record]
    if not epochs:
        return None
    checks = [record for record in subject.metrics if record.get("kind") == "validation"]
    floors = [record["loss"] - record["excess"] if "excess" in record else None for record in epochs]
    figure, axes = new_figure(5.6, 4.6 if checks else 3.2)
    _draw_loss(axes, epochs, floors)
    if checks:
        figure.delaxes(axes)
        upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
        _draw_loss(upper, epochs, floors)
        share = [100 * record["knn_accuracy"] for record in checks]
        lower.plot([record["epoch"] for record in checks], share, "o-", color=COLOURS[2], markersize=4)
        lower.annotate(
            f"{share[-1]:.1f}", (checks[-1]["epoch"], share[-1]), (6, 0), textcoords="offset points", va="center"
        )
        lower.set_ylabel("k-NN on validation,\nper cent right")
        lower.margins(y=0.25)
        lower.set_ylim(top=min(lower.get_ylim()[1], 100.5))  # nobody is right more often than always
        axes = lower
    axes.set_xlabel("epoch")
    axes.locator_params(axis="x", integer=True)
    by_epoch = {record["epoch"]: record["knn_accuracy"] for record in checks}
    rows = [(r["epoch"], r["loss"], floor, by_epoch.get(r["epoch"])) for r, floor in zip(epochs, floors, strict=True)]
    return Picture(
        name="training",
        title="Training",
        verdict=_verdict(epochs, checks),
        alt=f"Loss by epoch, from {epochs[0]['loss']:.3g} to {epochs[-1]['loss']:.3g}, above its floor; "
        "k-NN accuracy on the validation split below it.",
        figure=figure,
        table=Table(("epoch", "loss", "floor", "validation k-NN accuracy"), tuple(rows)),
    )


def _draw_loss(axes: Any, epochs: Sequence[dict[str, Any]], floors: Sequence[float | None]) -> None:
    steps = [record["epoch"] for record in epochs]
    one = "o-" if len(steps) == 1 else "-"
    axes.plot(steps, [record["loss"] for record in epochs], one, color=COLOURS[0], label="loss, mean of the epoch")
    if all(floor is not None for floor in floors):
        axes.plot(steps, floors, "--", color=FAINT, linewidth=1.4, label="floor, where classes are equal")
    axes.set_ylabel("loss")
    losses = [record["loss"] for record in epochs]
    axes.set_ylim(bottom=min(0.0, min(losses)) - 0.03 * max(losses))  # a floor of zero is a line that can be seen
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2)  # inside it could cover the loss


def _verdict(epochs: Sequence[dict[str, Any]], checks: Sequence[dict[str, Any]]) -> Verdict:
    first, last = epochs[0]["loss"], epochs[-1]["loss"]
    told = f"The loss went from {first:.3g} to {last:.3g}"
    if "excess" in epochs[-1]:
        told += f", {epochs[-1]['excess']:.2g} above its floor"
    if checks:
        told += f"; k-NN was right on {percent(checks[-1]['knn_accuracy'])} of the validation split at the end"
    if len(epochs) < 5:
        few = "1 epoch is" if len(epochs) == 1 else f"{len(epochs)} epochs are"
        return Verdict("open", f"{told}. {few} too few to see whether it had levelled off.")
    if last >= first:
        return Verdict("poor", f"{told}: it did not fall, so nothing was learned. Try a smaller learning rate.")
    late = epochs[-max(2, round(LATE * len(epochs)))]["loss"]
    if checks and (best := _better_before(checks)):
        return Verdict(
            "mixed", f"{told}, but {percent(best['knn_accuracy'])} at epoch {best['epoch']}: it trained for too long."
        )
    if (late - last) / (first - last) > FALLING:
        return Verdict("mixed", f"{told}. It was still falling at the end, so more epochs may help.")
    if (left := _excess_left(epochs)) > LITTLE_LEARNED:
        return Verdict(
            "mixed", f"{told}. It had levelled off with {percent(left)} of what was above the floor still there."
        )
    # Whatever is trained by a falling learning rate levels off with it: that is no sign that nothing is left to gain.
    return Verdict(
        "good", f"{told}. It had levelled off; where the learning rate fell to its end, a longer run may gain still."
    )


def _better_before(checks: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
    """The best validation, if the last one is worse by more than two points and more than two standard errors: on few
    samples the best of many is better by luck."""
    best = max(checks, key=lambda record: float(record["knn_accuracy"]))
    shares = [record["knn_accuracy"] for record in (best, checks[-1])]
    error = sqrt(sum(share * (1 - share) for share in shares) / best.get("samples", 1e9))
    return best if shares[0] - shares[1] > max(WORSE, 2 * error) else None


def _excess_left(epochs: Sequence[dict[str, Any]]) -> float:
    """The last epoch's loss above its floor as a share of the first epoch's; 0 where no floor is known."""
    first, last = epochs[0].get("excess", 0.0), epochs[-1].get("excess", 0.0)
    return float(last / first) if first > 0 else 0.0
