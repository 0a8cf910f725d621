"""How good what a picture shows is, in one word; the limits are ours, and docs/report.md lists them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

Grade: TypeAlias = Literal["good", "mixed", "poor", "open"]
WORDS: dict[Grade, str] = {"good": "Good", "mixed": "Mixed", "poor": "Poor", "open": "Look"}
SIGNS: dict[Grade, str] = {"good": "✓", "mixed": "≈", "poor": "✗", "open": "→"}  # never by colour alone


@dataclass(frozen=True)
class Verdict:
    """One sentence on a picture: what to see in it, and whether it is good. `open` where that is for the reader."""

    grade: Grade
    sentence: str


def graded(value: float, *, good: float, mixed: float) -> Grade:
    """A value for which less is better.

    >>> graded(0.1, good=0.1, mixed=0.5), graded(0.2, good=0.1, mixed=0.5), graded(0.6, good=0.1, mixed=0.5)
    ('good', 'mixed', 'poor')
    """
    return "good" if value <= good else "mixed" if value <= mixed else "poor"


def percent(share: float, digits: int = 1) -> str:
    """A share for people; what is not all never reads 100.

    >>> percent(0.983), percent(0.98, 0), percent(0.9996), percent(1.0)
    ('98.3 %', '98 %', '99.96 %', '100.0 %')
    """
    shown = f"{100 * share:.{digits}f}"
    return f"{shown} %" if share >= 1 or float(shown) < 100 or digits > 3 else percent(share, digits + 1)


def signed(value: float, digits: int = 2) -> str:
    """A cosine as people read it, with a real minus sign.

    >>> signed(-0.111), signed(-0.001)
    ('−0.11', '0.00')
    """
    text = f"{value:.{digits}f}"
    return text.replace("-", "−") if float(text) else text.lstrip("-")


def some(names: Sequence[str]) -> str:
    """The first three names, and how many more."""
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(names[:3]) + more
