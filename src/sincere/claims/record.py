"""What came out of a claim: figures with their intervals, a verdict, and where all of it comes from."""

import json
import re
from dataclasses import asdict, dataclass
from math import isfinite
from types import UnionType
from typing import Any, Literal, TypeAlias, get_args

from sincere.checks import check_choice
from sincere.errors import InputError, OptionError

FORMAT = "sincere.claim/1"
UNIT = re.compile(r",? (%|points|steps)(?= |$)")  # in the name of a figure
Form: TypeAlias = Literal["quick", "fast", "full"]
# "answered" is for the questions that the papers leave open: there is nothing to reproduce.
Verdict: TypeAlias = Literal["reproduced", "partly", "not reproduced", "answered"]


@dataclass(frozen=True)
class Measured:
    """One figure of ours, and the paper's for the same where it has one.

    low, high: the 95 % interval; n says of how many (seeds, samples, draws, cases).
    """

    what: str
    value: float
    low: float | None = None
    high: float | None = None
    n: str | None = None
    paper: str | None = None

    def __post_init__(self) -> None:
        for name in ("value", "low", "high"):
            figure = getattr(self, name)
            if not isinstance(figure, (int, float)) and (figure is not None or name == "value"):
                raise InputError(f"{name} of {self.what!r} must be a number: got {figure!r}.")
            if figure is not None and not isfinite(figure):  # no criterion could be judged by it, no JSON hold it
                raise InputError(f"{name} of {self.what!r} must be finite: got {figure}.")

    @property
    def ends(self) -> tuple[float, float]:
        """Of the interval; the figure itself where there is none."""
        low, high = (self.value if end is None else end for end in (self.low, self.high))
        return low, high

    def __str__(self) -> str:
        interval = "" if self.low is None or self.high is None else f" ({number(self.low)} to {number(self.high)})"
        return f"{number(self.value)}{interval}"

    @property
    def at_a_glance(self) -> tuple[str, str, str]:
        """Its name, its value with the unit, its interval.

        >>> Measured("cifar10 top-1, SINCERE − SupCon, points", 0.28, -0.12, 0.66).at_a_glance
        ('cifar10 top-1, SINCERE − SupCon', '0.28 points', '−0.12 to 0.66')
        """
        unit = UNIT.search(self.what)
        what = self.what if unit is None else self.what[: unit.start()] + self.what[unit.end() :]
        value = number(self.value) + (f" {unit[1]}" if unit else "")
        interval = "" if self.low is None or self.high is None else f"{number(self.low)} to {number(self.high)}"
        return what, value, interval


@dataclass(frozen=True)
class ClaimResult:
    """A claim that was run, as it is kept."""

    number: int
    name: str
    form: Form
    source: str
    statement: str
    paper: str
    setting: str  # what was run, in words: data, model, sizes, seeds
    verdict: Verdict
    reason: str
    measured: tuple[Measured, ...]
    seconds: float
    provenance: dict[str, Any]

    def __post_init__(self) -> None:
        check_choice("verdict", self.verdict, get_args(Verdict))
        check_choice("form", self.form, get_args(Form))
        texts = ("name", "source", "statement", "paper", "setting", "reason")
        wanted: dict[str, type | UnionType] = {"number": int, "seconds": int | float, "provenance": dict}
        for name, kind in {**wanted, **dict.fromkeys(texts, str)}.items():
            if not isinstance(getattr(self, name), kind):
                raise InputError(f"{name} of a claim's result has the wrong type: got {getattr(self, name)!r}.")

    def __str__(self) -> str:
        width = max((len(one.what) for one in self.measured), default=0)
        lines = [f"{self.number}. {self.statement} ({self.source})", f"paper: {self.paper}", f"ours: {self.setting}"]
        for one in self.measured:
            paper = f"   paper {one.paper}" if one.paper else ""
            counted = f"   n = {one.n}" if one.n else ""
            lines.append(f"  {one.what:<{width}}  {one}{counted}{paper}")
        return "\n".join([*lines, f"{self.verdict}: {self.reason}", f"{self.seconds:.0f} s, {self.form} form"])

    def to_json(self) -> str:
        return json.dumps({"format": FORMAT, **asdict(self)}, indent=1, ensure_ascii=False, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> "ClaimResult":
        """The record that `to_json` wrote."""
        try:
            document = json.loads(text)
            found = document.pop("format", None)
            if found != FORMAT:
                raise InputError(f"a claim's result must be JSON of the format {FORMAT!r}: got {found!r}.")
            document["measured"] = tuple(Measured(**one) for one in document["measured"])
            return cls(**document)
        except (KeyError, TypeError, AttributeError, RecursionError, OptionError, json.JSONDecodeError) as error:
            raise InputError(f"this is not a complete result of a claim: {error!r}. Run the claim again.") from error


def number(value: float) -> str:
    """Four digits that count, without an exponent where people do not expect one.

    >>> number(0.99667), number(12345.6), number(-0.11111), number(3.2e-9), number(0.0)
    ('0.9967', '12,346', '−0.1111', '3.2e-09', '0')
    """
    if value == 0:
        return "0"
    size = abs(value)
    text = f"{value:,.0f}" if size >= 1000 else f"{value:.4g}" if size >= 1e-4 else f"{value:.2g}"
    return text.replace("-", "−", 1) if text.startswith("-") else text
