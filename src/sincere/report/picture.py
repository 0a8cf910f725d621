"""A picture of the report: drawn once, saved three ways, and shown with its sentence."""

import io
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeAlias, TypeVar

from sincere.optional import bring
from sincere.report.palette import FAINT, GRID, INK, PAPER
from sincere.report.verdict import Verdict
from sincere.runs.files import write_atomically
from sincere.tables import csv_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

P = ParamSpec("P")
T = TypeVar("T")
Cell: TypeAlias = str | int | float | None
DPI = 160
LEGIBLE_NAMES = 30  # of classes along an axis
STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",  # text stays text
    "font.family": "DejaVu Sans",
    "font.size": 9.5,
    "axes.edgecolor": FAINT,
    "axes.labelcolor": INK,
    "axes.facecolor": "none",
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 9.5,
    "axes.titlecolor": INK,
    "figure.facecolor": PAPER,
    "grid.color": GRID,
    "grid.linewidth": 0.7,
    "legend.frameon": False,
    "legend.labelcolor": INK,
    "text.color": INK,
    "xtick.major.size": 0,
    "ytick.major.size": 0,
    "xtick.color": FAINT,
    "ytick.color": FAINT,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "lines.linewidth": 1.8,
}


@dataclass(frozen=True)
class Table:
    """The figures behind a picture."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]

    def as_csv(self) -> str:
        """Comma-separated; cells that a spreadsheet would run as a formula get an apostrophe before them."""
        return csv_text(map(_inert, row) for row in (self.columns, *self.rows))


@dataclass(frozen=True, eq=False)
class Picture:
    """Drawn, with its words and figures."""

    name: str  # of its files
    title: str
    verdict: Verdict
    alt: str  # for those who do not see it
    figure: "Figure"
    table: Table
    notes: tuple[str, ...] = field(default=())

    def save(self, folder: Path, prefix: str = "") -> str:
        """Write PNG, SVG and CSV; the SVG's text."""
        from matplotlib import rc_context
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.backends.backend_svg import FigureCanvasSVG

        stem, pixels, drawn = f"{prefix}{self.name}", io.BytesIO(), io.BytesIO()
        self.figure.set_dpi(DPI)
        with rc_context({**STYLE, "svg.hashsalt": stem}), any_letters():
            # `savefig` would draw and lay out everything four times.
            FigureCanvasAgg(self.figure).print_png(pixels)  # type: ignore[no-untyped-call]
            self.figure.set_layout_engine("none")
            canvas: Any = FigureCanvasSVG(self.figure)
            canvas.print_svg(drawn, metadata={"Date": None, "Title": self.title})
        write_atomically(folder / f"{stem}.png", pixels.getvalue())
        write_atomically(folder / f"{stem}.svg", drawn.getvalue())
        write_atomically(folder / f"{stem}.csv", self.table.as_csv().encode())
        return drawn.getvalue().decode()


def in_style(draw: Callable[P, T]) -> Callable[P, T]:
    """Draw in the report's style, and leave matplotlib's settings as they were."""

    @wraps(draw)
    def styled(*args: P.args, **kwargs: P.kwargs) -> T:
        with needs_lab("matplotlib").rc_context(STYLE):
            return draw(*args, **kwargs)

    return styled


@contextmanager
def any_letters() -> Iterator[None]:
    """The browser has fonts for a class 鳥, since text of the SVG stays text; the PNG has a box, without a warning."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        yield


def new_figure(width: float = 5.6, height: float = 3.6) -> "tuple[Figure, Axes]":
    """A figure with one pair of axes."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.add_subplot()


def needs_lab(module: str) -> Any:
    """A module of the `lab` extra, or an error that names its package."""
    return bring(module, extra="lab", purpose="a report")


def heat_ticks(axes: "Axes", names: Sequence[str]) -> None:
    """Class names on both axes of a matrix; none where there are too many to be read."""
    axes.grid(visible=False)
    for side in ("left", "bottom"):
        axes.spines[side].set_visible(False)
    if len(names) > LEGIBLE_NAMES:
        axes.set_xticks([])
        axes.set_yticks([])
        return
    shown = short_names(names, 14)
    size = 9.0 if len(names) <= 12 else 6.5
    slanted = max(map(len, shown)) > 3
    axes.set_xticks(range(len(names)), shown, fontsize=size, rotation=60 if slanted else 0)
    if slanted:
        for label in axes.get_xticklabels():
            label.set_horizontalalignment("right")
            label.set_rotation_mode("anchor")
    axes.set_yticks(range(len(names)), shown, fontsize=size)


def colour_bar(figure: "Figure", axes: "Axes", drawn: Any, label: str) -> None:
    """The scale of a matrix; as pixels, since a vector drawing of it has seams."""
    bar = figure.colorbar(drawn, ax=axes, shrink=0.8, label=label)
    if bar.solids is not None:
        bar.solids.set_rasterized(True)
    bar.outline.set_visible(False)


def cell_text(axes: "Axes", row: int, column: int, words: str, *, on_dark: bool) -> None:
    """A number in a matrix. It takes no part in the layout, which would measure every cell."""
    made = axes.text(column, row, words, ha="center", va="center", fontsize=7.5, in_layout=False)
    made.set_color("white" if on_dark else INK)


def rounded(value: float | None) -> float | None:
    """A cosine to six places: more are the embeddings' rounding, and a thousand classes have half a million pairs."""
    return None if value is None else round(value, 6)


def short_names(names: Sequence[str], most: int) -> list[str]:
    """Names that fit; those that would look alike are cut in the middle, where they keep their different ends.

    >>> short_names(["northern goshawk", "finch"], 12), short_names(["a long name 1", "a long name 2"], 9)
    (['northern go…', 'finch'], ['a lo…me 1', 'a lo…me 2'])
    """
    cut = [short(name, most) for name in names]
    twice = {name for name, times in Counter(cut).items() if times > 1}
    return [short(name, most, middle=True) if shown in twice else shown for name, shown in zip(names, cut, strict=True)]


def short(name: str, most: int, *, middle: bool = False) -> str:
    """A name that fits; matplotlib reads two dollar signs as mathematics, so they are escaped."""
    plain = " ".join(name.split()) or "(no name)"
    end = (most - 1) // 2 if middle else 0
    cut = plain if len(plain) <= most else plain[: most - 1 - end] + "…" + plain[len(plain) - end :]
    return cut.replace("$", r"\$")


def _inert(cell: Cell) -> Cell:
    return f"'{cell}" if isinstance(cell, str) and cell[:1] in ("=", "+", "-", "@", "\t", "\r") else cell
