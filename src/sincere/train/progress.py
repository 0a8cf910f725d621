"""What a person sees of a run: a live line on a terminal where `rich` is installed, plain lines anywhere else."""

import sys
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Literal, Protocol

from sincere.train.meter import Reading

Show = Literal["auto", "plain", "off"]
SECONDS_BETWEEN_LINES = 10.0  # a log keeps every line, so it gets few


@dataclass(frozen=True)
class Length:
    """How long a run is."""

    epochs: int
    steps: int


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
        left = (now - self.began) / max(step - self.done, 1) * (self.length.steps - step)
        self.say(
            f"epoch {epoch}/{self.length.epochs}  step {step:,}/{self.length.steps:,}  {in_words(reading)}  "
            f"{clock(left)} left"
        )

    def say(self, words: str) -> None:
        print(words, file=sys.stderr, flush=True)

    def close(self) -> None: ...


class LiveLine:
    """A bar with the latest reading, by rich."""

    def __init__(self, length: Length, done: int) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as RichProgress

        self.length = length
        columns: list[Any] = [
            TextColumn("epoch {task.fields[epoch]}"),
            BarColumn(),
            TextColumn("{task.fields[reading]}"),
            TimeRemainingColumn(compact=True),
            TextColumn("left"),
        ]
        self.bar = RichProgress(*columns, console=Console(stderr=True), transient=True)
        self.task = self.bar.add_task("", total=length.steps, completed=done, epoch=f"–/{length.epochs}", reading="")
        self.bar.start()

    def tick(self, step: int) -> None:
        self.bar.update(self.task, completed=step)

    def reading(self, step: int, epoch: int, reading: Reading) -> None:
        self.bar.update(self.task, epoch=f"{epoch}/{self.length.epochs}", reading=in_words(reading))

    def say(self, words: str) -> None:
        self.bar.console.print(words, highlight=False, markup=False)

    def close(self) -> None:
        self.bar.stop()


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


def in_words(reading: Reading) -> str:
    """`loss 1.234  excess 1.220  9,120 samples/s`."""
    excess = "" if reading.excess is None else f"  excess {reading.excess:.4f}"
    return f"loss {reading.loss:.4f}{excess}  {reading.rate:,.0f} samples/s"


def clock(seconds: float) -> str:
    """`1:02:03`, or `2:03`."""
    minutes, rest = divmod(max(round(seconds), 0), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
