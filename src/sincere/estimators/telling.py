"""What a fit tells while it goes on, on the trainer's own display."""

from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import Any

import torch
from torch import Tensor

from sincere.errors import OptionError
from sincere.train.meter import Reading
from sincere.train.progress import Length, Progress, Show, Silent, build_progress

STEPS_BETWEEN_READINGS = 10  # a reading waits for the device


def show_by(verbose: Any) -> Show:
    """Which display scikit-learn's `verbose` asks for: 0 none, 1 the best there is, from 2 lines alone."""
    if not isinstance(verbose, int) or verbose < 0:
        raise OptionError(f"verbose must be True, False or a whole number from 0: got {verbose!r}.")
    return "off" if verbose == 0 else "auto" if verbose == 1 else "plain"


class Told:
    """Steps of a fit, counted and told; of a silent fit nothing is read from the device."""

    def __init__(self, progress: Progress, length: Length, device: torch.device) -> None:
        self.progress, self.length = progress, length
        self.silent = isinstance(progress, Silent)
        self.total = torch.zeros((), dtype=torch.float64, device=device)
        self.step = self.first = self.samples = 0
        self.since = perf_counter()

    def add(self, loss: Tensor, samples: int) -> None:
        """One step's loss, and how many samples it took."""
        if self.silent:
            return
        self.step, self.samples = self.step + 1, self.samples + samples
        self.total += loss.detach()
        self.progress.tick(self.step)
        if self.step % STEPS_BETWEEN_READINGS == 0 or self.step == self.length.steps:
            self._read()

    def _read(self) -> None:
        mean, now = float(self.total) / (self.step - self.first), perf_counter()
        rate = self.samples / max(now - self.since, 1e-9)
        epoch = 1 + (self.step - 1) * self.length.epochs // self.length.steps
        self.progress.reading(self.step, epoch, Reading(mean, None, rate))
        self.total.zero_()
        self.first, self.samples, self.since = self.step, 0, now


@contextmanager
def told(show: Show, length: Length, device: torch.device) -> Iterator[Told]:
    """A display for as long as the block lasts, however it ends."""
    progress = build_progress(show, length, done=0, leader=True)
    try:
        yield Told(progress, length, device)
    finally:
        progress.close()
