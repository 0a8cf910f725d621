"""Pictures that several claims draw."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sincere.claims.palette import colour_of
from sincere.claims.record import Measured

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw_intervals(figure: "Figure", measured: Sequence[Measured], label: str) -> None:
    """One line a figure: its value, its interval, and the paper's value as a diamond where that is a number."""
    axis = figure.subplots()
    told = None
    for place, one in enumerate(measured):
        low, high = one.ends
        reach = [[max(one.value - low, 0)], [max(high - one.value, 0)]]
        axis.errorbar(one.value, place, xerr=reach, fmt="o", color=colour_of(one.what), capsize=4)
        if (paper := _as_number(one.paper)) is not None:
            (told,) = axis.plot(paper, place, marker="D", color="0.3", markerfacecolor="none", linestyle="none")
    axis.set_yticks(range(len(measured)), [one.what.partition(", ")[0] for one in measured])
    axis.set_ylim(len(measured) - 0.5, -0.5)
    axis.set_xlabel(label)
    if told is not None:
        figure.legend([told], ["the paper"], loc="outside upper right", frameon=False)


def _as_number(text: str | None) -> float | None:
    try:
        return None if text is None else float(text.replace("−", "-"))
    except ValueError:
        return None
