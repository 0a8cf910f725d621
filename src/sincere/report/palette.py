"""Colours that colour-blind readers can tell apart, and that work on white and on black.

Ink, grid and paper are written into pictures as fixed values that nothing else uses: `svg.py` turns them into the
page's variables, so that one picture follows light and dark.
"""

from typing import Any

INK, FAINT, GRID, PAPER = "#1b1e23", "#5d6571", "#d5d9de", "#fefefe"
# Six of Okabe and Ito 2008, without black (it is ink) and yellow (too pale on white), and four that stay as far from
# them and from each other under every colour blindness as theirs do: ten classes are what most data sets have.
COLOURS = (
    *("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00"),
    *("#8A3FFC", "#8B5A3C", "#AEBB66", "#A8126F"),
)
# Beside the colour, so that more classes than colours stay apart; plotly's names, which matplotlib's table translates.
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "pentagon", "star")
MARKERS = {"circle": "o", "square": "s", "diamond": "D", "triangle-up": "^", "pentagon": "p", "star": "*"}
SAME, OTHER = COLOURS[0], COLOURS[5]  # same class, other class: the pair that differs most under any colour blindness


def colour_of(number: int) -> str:
    """The colour of a class, or of a run."""
    return COLOURS[number % len(COLOURS)]


def class_symbol(number: int) -> str:
    """The symbol of a class: the next one each time the colours have been through."""
    return SYMBOLS[number // len(COLOURS) % len(SYMBOLS)]


def shares_map() -> Any:
    """From nothing to blue: zero has the colour of the paper, whichever that is."""
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("shares", [(0.0, 0.447, 0.698, 0.0), (0.0, 0.447, 0.698, 1.0)])


def cosines_map() -> Any:
    """From orange over nothing to blue: opposite, unrelated, alike."""
    from matplotlib.colors import LinearSegmentedColormap

    ends = [(0.835, 0.369, 0.0, 1.0), (0.835, 0.369, 0.0, 0.0), (0.0, 0.447, 0.698, 0.0), (0.0, 0.447, 0.698, 1.0)]
    return LinearSegmentedColormap.from_list("cosines", list(zip((0.0, 0.5, 0.5, 1.0), ends, strict=True)))
