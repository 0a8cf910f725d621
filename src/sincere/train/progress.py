"""What a person sees of a run: a live line on a terminal where `rich` is installed, plain lines anywhere else."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Literal, Protocol

from sincere.train.meter import Reading

Show = Literal["auto", "plain", "off"]
SECONDS_BETWEEN_LINES = 10.0  # a log keeps every line, so it gets few
GAP = "  "
SHORTEST_BAR, GOOD_BAR, LONGEST_BAR = 5, 10, 40  # cells


@dataclass(frozen=True)
class Length:
    """How long a run is. The first `early` steps take `cost` of a later one's time, about."""

    epochs: int
    steps: int
    early: int = 0
    cost: float = 1.0

    def work(self, step: int) -> float:
        """What the first so many steps take, in later ones.

        >>> Length(epochs=2, steps=20, early=10, cost=0.4).work(15)
        9.0
        """
        return step - (1 - self.cost) * min(step, self.early)


@dataclass(frozen=True)
class Telling:
    """How a run tells what it has to say: on which display, and whom it tells what is odd about data and batches."""

    show: Show
    note: Callable[[str], None]


def note_on_stderr(words: str) -> None:
    """At once, in a line of its own."""
    print(f"note: {words}", file=sys.stderr, flush=True)


def telling_by(show: Show) -> Telling:
    """Notes go to stderr like everything else, or nowhere where nothing is shown."""
    return Telling(show, (lambda words: None) if show == "off" else note_on_stderr)


class Progress(Protocol):
    """What a run tells about itself."""

    def tick(self, step: int) -> None:
        """`step` steps are done."""

    def reading(self, step: int, epoch: int, reading: Reading) -> None:
        """New means; `epoch` counts from 1."""

    def say(self, words: str) -> None:
        """A line that stays."""

    def close(self) -> None: ...


class Silent:
    """Nothing at all."""

    def tick(self, step: int) -> None: ...
    def reading(self, step: int, epoch: int, reading: Reading) -> None: ...
    def say(self, words: str) -> None: ...
    def close(self) -> None: ...


class PlainLines:
    """A line at the start, at the end, and every ten seconds."""

    def __init__(self, length: Length, done: int) -> None:
        self.length, self.began, self.done = length, perf_counter(), done
        self.last = -SECONDS_BETWEEN_LINES

    def tick(self, step: int) -> None: ...

    def reading(self, step: int, epoch: int, reading: Reading) -> None:
        now = perf_counter()
        if now - self.last < SECONDS_BETWEEN_LINES and step < self.length.steps:
            return
        self.last = now
        work, whole = self.length.work, self.length.work(self.length.steps)
        left = (now - self.began) / max(work(step) - work(self.done), self.length.cost) * (whole - work(step))
        place = (f"epoch {epoch}/{self.length.epochs}", f"step {step:,}/{self.length.steps:,}")
        self.say(GAP.join([*place, *said(reading).values(), f"{clock(left)} left"]))

    def say(self, words: str) -> None:
        print(words, file=sys.stderr, flush=True)

    def close(self) -> None: ...


class LiveLine:
    """A bar with the latest reading, by rich."""

    def __init__(self, length: Length, done: int) -> None:
        from rich.console import Console
        from rich.progress import Progress as RichProgress
        from rich.progress import ProgressColumn, Task
        from rich.table import Column

        class Line(ProgressColumn):
            def render(self, task: Task) -> Any:
                return _FittingLine(task)

        self.length = length
        line = Line(table_column=Column(ratio=1))
        self.bar = RichProgress(line, console=Console(stderr=True), transient=True, expand=True)
        self.task = self.bar.add_task("", total=length.work(length.steps), epoch=f"–/{length.epochs}", reading=None)
        self.tick(done)
        self.bar.start()

    def tick(self, step: int) -> None:
        self.bar.update(self.task, completed=self.length.work(step))

    def reading(self, step: int, epoch: int, reading: Reading) -> None:
        self.bar.update(self.task, epoch=f"{epoch}/{self.length.epochs}", reading=reading)

    def say(self, words: str) -> None:
        self.bar.console.print(words, highlight=False, markup=False)

    def close(self) -> None:
        self.bar.stop()


class _FittingLine:
    """A line as wide as the terminal: the bar takes what the words leave, and words go before the bar gets too short.

    Percentage, loss and time left stay in any case. The others go in this order: samples/s, excess, epoch, the bar.
    """

    def __init__(self, task: Any) -> None:
        self.task = task

    def __rich_console__(self, console: Any, options: Any) -> Any:
        from rich.progress_bar import ProgressBar
        from rich.table import Table

        task, words = self.task, self.words(options.max_width)
        room = min(options.max_width - _length(words) - len(GAP), LONGEST_BAR)
        cells: list[Any] = list(words.values())
        if room >= SHORTEST_BAR:
            bar = ProgressBar(total=task.total, completed=task.completed, width=room)
            cells.insert(1 if "epoch" in words else 0, bar)
        line = Table.grid(padding=(0, len(GAP), 0, 0))
        for _ in cells:
            line.add_column(no_wrap=True)
        line.add_row(*cells)
        yield line

    def words(self, width: int) -> dict[str, str]:
        """What is said on a line of this width, by name."""
        task, reading = self.task, self.task.fields["reading"]
        left = "-:--" if task.time_remaining is None else clock(task.time_remaining)
        words = {"epoch": f"epoch {task.fields['epoch']}", "share": f"{int(task.percentage)} %"}
        if reading is not None:
            words |= said(reading)
        words["left"] = f"{left} left"
        for name in ("rate", "excess", "epoch"):
            if _length(words) + len(GAP) + GOOD_BAR <= width:
                return words
            words.pop(name, None)
        if _length(words) <= width:
            return words
        return {name: word.removeprefix("loss ").removesuffix(" left") for name, word in words.items()}


def build_progress(show: Show, length: Length, *, done: int, leader: bool) -> Progress:
    """Live on a terminal, plain lines where output goes into a file or rich is missing."""
    if show == "off" or not leader:
        return Silent()
    if show == "auto" and sys.stderr.isatty():
        try:
            return LiveLine(length, done)
        except ImportError:
            pass
    return PlainLines(length, done)


def _length(words: dict[str, str]) -> int:
    return len(GAP.join(words.values()))


def said(reading: Reading) -> dict[str, str]:
    """`loss 1.2345`, `excess 1.2200`, `9,120 samples/s`, by name."""
    excess = {} if reading.excess is None else {"excess": f"excess {_number(reading.excess)}"}
    return {"loss": f"loss {_number(reading.loss)}", **excess, "rate": f"{reading.rate:,.0f} samples/s"}


def _number(value: float) -> str:
    """Four digits behind the point; few in all where the number is large, as it is while a run diverges."""
    return f"{value:.4f}" if abs(value) < 10_000 else f"{value:.3e}"


def clock(seconds: float) -> str:
    """`1:02:03`, or `2:03`."""
    minutes, rest = divmod(max(round(seconds), 0), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
