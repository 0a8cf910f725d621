"""A chart of one run on a GPU: milliseconds against the number of embeddings, both on logarithmic axes.

It is drawn once. A browser that asks for dark colours gets them from a rule at the top of the SVG file.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import log10
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.axes import Axes

from gpu_results import Row
from gpu_tables import FLOOR_TFLOPS, memory, of_table

INK, FAINT, PAPER = "#24292f", "#6e7781", "#fffffe"


@dataclass(frozen=True)
class Series:
    """One line. Colours are Okabe and Ito's and Tol's, which colour-blind readers can tell apart."""

    candidate: str
    title: str
    colour: str
    marker: str
    line: str = "-"


SERIES = (
    Series("pytorch-metric-learning SupCon", "pytorch-metric-learning", "#aa3377", "D", (0, (1, 1.2))),
    Series("eager SINCERE", "n×n code", "#d55e00", "s", (0, (5, 1.5))),
    Series("compiled dense SINCERE", "compiled", "#007a5a", "^", (0, (3, 1.2, 1, 1.2))),
    Series("ours SINCERE", "sincere", "#0072b2", "o"),
    Series("ours SINCERE, CUDA graph", "sincere, CUDA graph", "#0072b1", "o", (0, (1, 1.2))),
)
DARK = {
    INK: "#e6edf3", FAINT: "#9198a1", PAPER: "#0d1117", "#aa3377": "#f08cc0", "#d55e00": "#ff9d5c",
    "#007a5a": "#3fd6a8", "#0072b2": "#6cbcf7", "#0072b1": "#6cbcf7",
}  # fmt: skip


def draw(rows: Sequence[Row], path: Path) -> None:
    """Write `path`.svg and `path`.png."""
    main = [row for row in of_table(rows, "main") if row["dtype"] == "bfloat16"]
    settings = {
        "font.size": 11, "text.color": INK, "axes.labelcolor": INK, "axes.edgecolor": FAINT, "xtick.color": FAINT,
        "ytick.color": FAINT, "xtick.labelcolor": INK, "ytick.labelcolor": INK, "svg.hashsalt": "sincere",
    }  # fmt: skip
    with plt.rc_context(settings):
        figure, axes = plt.subplots(figsize=(8.2, 5.2), layout="constrained", facecolor=PAPER)
        axes.set_facecolor("none")
        draw_lines(axes, main)
        finish(axes, main)
        make_room(axes, min(int(row["n"]) for row in main))
        # The run's name lets a test see that the chart is that of the newest results.
        origin = {"Date": None, "Creator": "benchmarks/gpu_chart.py", "Description": f"run {rows[0]['run']}"}
        figure.savefig(path.with_suffix(".svg"), metadata=origin)
        plt.close(figure)
    add_dark_colours(path.with_suffix(".svg"))


def draw_lines(axes: Axes, rows: Sequence[Row]) -> None:
    """A line a candidate: its name where it begins, its memory where it ends."""
    sizes = sorted({int(row["n"]) for row in rows})
    floor = [6e3 * n * n * int(rows[0]["d"]) / (FLOOR_TFLOPS * 1e12) for n in sizes]
    axes.plot(sizes, floor, color=FAINT, lw=1.5, ls=(0, (2, 2)), zorder=2)
    middle = len(sizes) // 2
    write(axes, sizes[middle], floor[middle], f"the floor: 6n²d operations at {FLOOR_TFLOPS} TFLOP/s", FAINT, (9, -9))
    names: list[Label] = []
    ends: dict[int, list[Label]] = {}
    for series in SERIES:
        points = sorted((int(row["n"]), row) for row in rows if row["candidate"] == series.candidate)
        if not points:
            continue
        n, ms = [point[0] for point in points], [float(point[1]["ms"]) for point in points]
        axes.plot(n, ms, color=series.colour, ls=series.line, marker=series.marker, ms=6, lw=2, zorder=3)
        last = points[-1][1]
        if n[0] > sizes[0]:
            write(axes, n[-1], ms[-1], f"{series.title}\n{memory(last)}", series.colour, (9, -3))
            continue
        names.append(Label(ms[0], series.title, series.colour))
        if series.candidate == "ours SINCERE":
            # Where neither another candidate's name stands nor the floor runs.
            free = (((-4, 11), "right"), ((10, -9), "left"))
            for (size, row), (offset, side) in zip(points[-3:-1], free, strict=False):
                write(axes, size, float(row["ms"]), memory(row), series.colour, offset, ha=side)
        if not series.candidate.endswith("CUDA graph"):  # it holds what the step holds
            ends.setdefault(n[-1], []).append(Label(ms[-1], memory(last), series.colour))
    for label in spread(names):
        write(axes, sizes[0], label.ms, label.text, label.colour, (-10, 0), ha="right", size=11)
    for n, labels in ends.items():
        for label in spread(labels):
            write(axes, n, label.ms, label.text, label.colour, (9, 0))


def write(
    axes: Axes, n: int, ms: float, text: str, colour: str, offset: tuple[int, int], ha: str = "left", size: float = 9.5
) -> None:
    """Text beside a point, on paper where it meets the grid."""
    paper = {"facecolor": PAPER, "edgecolor": "none", "pad": 0.6}
    weight = "bold" if text == "sincere" else "normal"
    axes.annotate(
        text, (n, ms), xytext=offset, textcoords="offset points", color=colour, ha=ha, va="center", size=size,
        weight=weight, bbox=paper, zorder=1.9,
    )  # fmt: skip


@dataclass(frozen=True)
class Label:
    """Text at a height."""

    ms: float
    text: str
    colour: str


def spread(labels: Sequence[Label], least: float = 0.26) -> list[Label]:
    """The labels at heights that are `least` decades apart, so that none covers another."""
    placed: list[Label] = []
    for label in sorted(labels, key=lambda label: label.ms):
        height = log10(label.ms)
        if placed:
            height = max(height, log10(placed[-1].ms) + least)
        placed.append(replace(label, ms=10**height))
    return placed


def finish(axes: Axes, rows: Sequence[Row]) -> None:
    sizes = sorted({int(row["n"]) for row in rows})
    axes.set(xscale="log", yscale="log", xlim=(sizes[0] / 9, sizes[-1] * 2.4))
    axes.set_xticks(sizes, [f"{n:,}" for n in sizes])
    axes.set_xticks([], minor=True)
    named = {
        1e-3: "1 µs",
        1e-2: "10 µs",
        1e-1: "0.1 ms",
        1: "1 ms",
        10: "10 ms",
        100: "0.1 s",
        1000: "1 s",
        1e4: "10 s",
    }
    low, high = axes.get_ylim()
    axes.set_yticks(*zip(*((ms, name) for ms, name in named.items() if low <= ms <= high), strict=True))
    axes.set_yticks([], minor=True)
    axes.grid(axis="y", color=FAINT, alpha=0.25, lw=0.7)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(length=0)
    axes.set_xlabel("embeddings in the batch")
    first = rows[0]
    axes.set_title(
        f"SINCERE on one {first['gpu']}, time and memory of a step", loc="left", size=14, pad=26, weight="bold"
    )
    batch = f"forward + backward, bfloat16, d = {first['d']}, {first['classes']} classes"
    words = f"{batch}; beside the points: memory beyond the inputs"
    axes.text(0, 1.03, words, transform=axes.transAxes, color=FAINT, size=10)


def make_room(axes: Axes, first: int) -> None:
    """Begin the axis so far before its first size that the names of the lines, which end there, stand within it."""
    axes.figure.draw_without_rendering()  # lays it out: before that no text has a width in the chart's units
    left, at, right = (axes.transData.transform((n, 1))[0] for n in (axes.get_xlim()[0], first, axes.get_xlim()[1]))
    beyond = (
        at - min(one.get_window_extent().x0 for one in axes.texts if one.get_ha() == "right") + 0.01 * (right - left)
    )
    # The names keep their width, and what is to the right of them shares the rest.
    decades = log10(axes.get_xlim()[1] / first) * beyond / (right - left - beyond)
    axes.set_xlim(left=first / 10**decades)


def add_dark_colours(path: Path) -> None:
    """Rules for browsers that ask for dark colours; everybody else ignores them."""
    rules = [
        f'[style*="{what}: {light}"] {{ {what}: {dark} !important }}'
        for light, dark in DARK.items()
        for what in ("fill", "stroke")
    ]
    style = "<style>@media (prefers-color-scheme: dark) {\n" + "\n".join(rules) + "\n}</style>"
    text = path.read_text()
    path.write_text(re.sub(r"(<svg[^>]*>)", lambda match: f"{match[1]}\n {style}", text, count=1))
