"""torch's global generators, from which layers draw: seeded for each step, and given back to the caller after a run."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from sincere.encoders.seeding import ONE_AT_A_TIME

_before: dict[torch.device, Tensor] = {}  # the caller's generators, as the first run to begin found them
_runs: Counter[torch.device] = Counter()  # that are under way on each of these devices, in threads of one process


def seed_layers(device: torch.device, seed: int) -> None:
    """Seed the generators that layers draw from and that take no other: weights at the start, dropout at each step."""
    with ONE_AT_A_TIME:  # not while another thread makes its weights
        torch.default_generator.manual_seed(seed)
        if device.type == "cuda":
            torch.cuda.manual_seed(seed)


@contextmanager
def callers_generators_restored(device: torch.device) -> Iterator[None]:
    """Give the caller's global generators back as they were, when the last run of several threads is done."""
    places = {torch.device("cpu"), device}
    with ONE_AT_A_TIME:
        for place in places:
            if not _runs[place]:
                _before[place] = _generator(place).get_state()
            _runs[place] += 1
    try:
        yield
    finally:
        with ONE_AT_A_TIME:
            for place in places:
                _runs[place] -= 1
                if not _runs[place]:
                    _generator(place).set_state(_before.pop(place))


def _generator(device: torch.device) -> torch.Generator:
    """The generator that layers draw from on this device."""
    if device.type != "cuda":
        return torch.default_generator
    torch.cuda.init()  # type: ignore[no-untyped-call]
    found: torch.Generator = torch.cuda.default_generators[
        torch.cuda.current_device() if device.index is None else device.index
    ]
    return found
