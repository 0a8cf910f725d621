"""What is measured while training: losses summed on the device and read once in a while."""

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from math import isfinite
from time import perf_counter
from typing import Any

import torch
from torch import Tensor

from sincere.train.batches import EpochPlan


class DivergedError(ArithmeticError):
    """The loss, or its temperature, is no longer a number; going on would only overwrite what was good."""


def finite(value: float, name: str) -> float:
    """The value of what a run moves, if it still is a number."""
    if not isfinite(value):
        raise DivergedError(
            f"the {name} became {value} within the last steps. What was saved before is kept. A lower learning rate, a "
            "longer warm-up, optimizer.clip_norm, or bf16 in place of fp16 are the usual cures."
        )
    return value


def check_weights(weights: Iterable[Tensor]) -> None:
    """Refuse weights of which some are no numbers any more; waits for the device once."""
    sums = [weight.detach().sum(dtype=torch.float64) for weight in weights]  # finite unless one of its terms is not
    finite(float(torch.stack(sums).sum()) if sums else 0.0, "sum of the weights")


@dataclass(frozen=True)
class Reading:
    """Means over the steps since the last reading."""

    loss: float
    excess: float | None  # over the floor of the same batches; None where the objective has no floor
    rate: float  # samples per second, over all processes


@dataclass
class Sums:
    """Sums over steps, as a checkpoint keeps them."""

    loss: float = 0.0
    floor: float = 0.0
    steps: int = 0


class Meter:
    """Adds losses up without reading them. One interval never reaches from one epoch into the next."""

    def __init__(self, device: torch.device, floor_of: Callable[[tuple[int, ...]], float] | None) -> None:
        self.floor_of = floor_of
        self.total = torch.zeros((), dtype=torch.float64, device=device)
        self.first = 0  # batch of the epoch at which the interval begins
        self.samples = 0
        self.epoch = Sums()
        self.since = perf_counter()

    def add(self, loss: Tensor, samples: int) -> None:
        """One step's loss, still on the device."""
        self.total += loss
        self.samples += samples

    def read(self, plan: EpochPlan, place: int) -> Reading:
        """The interval up to batch `place`; begins a new one. Waits for the device."""
        # Floors first: they are the CPU's work, and the device is still busy with the last steps.
        floor = sum(map(self.floor_of, plan.class_counts(self.first, place))) if self.floor_of else 0.0
        loss, steps = finite(float(self.total), "loss"), place - self.first
        self.epoch = Sums(self.epoch.loss + loss, self.epoch.floor + floor, self.epoch.steps + steps)
        now = perf_counter()
        rate = self.samples / max(now - self.since, 1e-9)
        self.total.zero_()
        self.first, self.samples, self.since = place, 0, now
        return Reading(loss / steps, (loss - floor) / steps if self.floor_of else None, rate)

    def end_epoch(self) -> tuple[float, float | None]:
        """Mean loss and excess of the epoch; begins a new one."""
        sums, self.epoch, self.first = self.epoch, Sums(), 0
        return sums.loss / sums.steps, (sums.loss - sums.floor) / sums.steps if self.floor_of else None

    def state(self) -> dict[str, Any]:
        """The sums so far as JSON; waits for the device."""
        return {"total": finite(float(self.total), "loss"), "first": self.first, "epoch": asdict(self.epoch)}

    def load_state(self, state: dict[str, Any]) -> None:
        self.total.fill_(state["total"])
        self.first, self.epoch = int(state["first"]), Sums(**state["epoch"])
