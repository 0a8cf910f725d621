"""A claim of a paper: what it says, and how to find out."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sincere.claims.laboratory import CIFAR, Laboratory
from sincere.claims.record import Form, Measured, Verdict
from sincere.errors import InputError, OptionError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from sincere.claims.experiments import Planned

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Conditions:
    """Under which a claim is run."""

    form: Form
    seed: int
    laboratory: Laboratory  # where models are trained, and kept for the claims that share them
    data: Mapping[str, str] = field(default_factory=dict)  # where the user keeps what cannot be embedded
    say: Callable[[str], None] = lambda words: None

    @property
    def full(self) -> bool:
        return self.form == "full"

    @property
    def on_cifar(self) -> bool:
        """Does it train on CIFAR, with the paper's network and epochs or with a fast one?"""
        return self.form != "quick"

    def path_of(self, name: str) -> str:
        """Where a data set is; the fast and full forms need real ones."""
        if name not in self.data:
            raise InputError(f"this claim needs {name}: say where it is, data={{{name!r}: 'PATH'}}.")
        return self.data[name]


@dataclass(frozen=True)
class Outcome:
    """What running a claim found.

    setting: what was run, in words. rows: the figure's data, kept as CSV. draw: fills a matplotlib figure.
    """

    verdict: Verdict
    reason: str
    setting: str
    measured: tuple[Measured, ...]
    rows: tuple[Row, ...] = ()
    draw: "Callable[[Figure], None] | None" = None
    more: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Claim:
    """One claim by number and name.

    statement: what the paper says, in our words. paper: its figure, or what would have to be seen.
    needs: data sets that the fast and the full form read from the user's disk.
    one_will_do: is there a result, if half of one, from any one of them?
    full_without_data: has the full form something else to run where they are not given?
    runs: those that it trains, for claims whose runs are long enough to be trained one by one.
    decisive: which figures a reader wants who has a second for each claim: what these are called, as a regular
        expression, or several of which the first that finds any counts, where forms have other figures. One or two
        figures; the first of all unless given.
    """

    number: int
    name: str
    source: str
    statement: str
    paper: str
    run: Callable[[Conditions], Outcome]
    needs: tuple[str, ...] = ()
    one_will_do: bool = False
    full_without_data: bool = False
    runs: "Callable[[Conditions], Iterator[Planned]] | None" = None
    decisive: str | tuple[str, ...] = ()

    def told_by(self, measured: Sequence[Measured]) -> tuple[Measured, ...]:
        """Of these figures those that decide."""
        for pattern in (self.decisive,) if isinstance(self.decisive, str) else self.decisive:
            if found := tuple(one for one in measured if re.search(pattern, one.what)):
                return found
        return tuple(measured[:1])

    def check_data(self, conditions: Conditions) -> None:
        """Refuse what has not the data that it needs, before anything is trained; and CIFAR for a quick form."""
        if unread := [name for name in conditions.data if name in CIFAR and conditions.form == "quick"]:
            raise OptionError(f"quick forms do not read {unread[0]}: ask for --fast or --full (form=… in Python).")
        if conditions.form == "quick" or (self.one_will_do and any(name in conditions.data for name in self.needs)):
            return
        if conditions.full and self.full_without_data:
            return
        for name in self.needs:
            conditions.path_of(name)
