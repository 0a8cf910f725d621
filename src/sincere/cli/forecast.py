"""How long a training run will take on this CPU, from a few steps of it that are thrown away; and what shortens it."""

from collections.abc import Sequence
from dataclasses import replace
from time import perf_counter

from torch import Tensor

from sincere.data import Splits
from sincere.encoders.build import LIBRARIES
from sincere.train import TrainConfig
from sincere.train.global_generators import callers_generators_restored
from sincere.train.peers import several
from sincere.train.processes import Processes, device_for
from sincere.train.session import Session, build_session

SHORT = 30.0  # seconds up to which nothing needs to be said
LONG = 1800.0  # seconds from which on something is said about making it shorter
TRIED, GROWTH = 8, 4  # samples of the steps that are tried first, and how many times as many come next
PATIENCE = 4.0  # seconds that the next larger step may take to be tried too
ENOUGH, MOST = 1.5, 5  # seconds of whole steps, and how many of them
SIDES = (64, 32)  # pixels that larger images are advised to be reduced to


def forecast(config: TrainConfig, data: Splits) -> float | None:
    """Seconds of training, or None where nothing is tried: on a GPU, on several processes, with networks or losses of
    the user's own, which may do anything when they are called.
    """
    device = device_for(config.compute.device)
    own = [name for name in (config.encoder.name, config.loss.name) if ":" in name]
    if device.type != "cpu" or several() or any(name.partition(":")[0] not in LIBRARIES for name in own):
        return None
    tried = replace(config, compute=replace(config.compute, compile="off"))  # compiling alone takes a minute
    with callers_generators_restored(device):
        session = build_session(tried, data, device, Processes())
        plan = session.planner.plan(0)
        early, steps = session.step.early.steps, session.total_steps
        parts = [(step, count) for step, count in ((0, early), (early, steps - early)) if count]  # by size of views
        mean = sum(count / steps * _seconds_a_sample(session, plan.batch(0), step) for step, count in parts)
        return config.epochs * plan.starts[-1] * mean


def _seconds_a_sample(session: Session, batch: Tensor, step: int) -> float:
    """Of this step with this batch; by steps with more and more of it where the whole would take long."""
    session.parts.network.train()
    _seconds(session, batch[:TRIED], step)  # the first one also sets up what later ones reuse
    tried = [(min(TRIED, len(batch)), _seconds(session, batch[:TRIED], step))]
    while tried[-1][0] < len(batch):
        size, taken = tried[-1]
        larger = min(GROWTH * size, len(batch))
        if taken * larger / size > PATIENCE:
            return extrapolated(tried, len(batch)) / len(batch)
        tried.append((larger, _seconds(session, batch[:larger], step)))
    times = [tried[-1][1]]
    while sum(times) < ENOUGH and len(times) < MOST:  # other programs' work comes in bursts
        times.append(_seconds(session, batch, step))
    return sum(times) / len(times) / len(batch)


def extrapolated(tried: Sequence[tuple[int, float]], samples: int) -> float:
    """Seconds of a step with so many samples, from what smaller ones took: part of it may not grow with them.

    >>> extrapolated([(8, 1.0)], 80), extrapolated([(8, 1.0), (32, 1.5)], 80)
    (10.0, 2.5)
    """
    size, taken = tried[-1]
    if len(tried) == 1:
        return taken * samples / size
    smaller, less = tried[-2]
    return taken + max(taken - less, 0.0) / (size - smaller) * (samples - size)


def _seconds(session: Session, batch: Tensor, step: int) -> float:
    began = perf_counter()
    session.step(batch, step=step, times_before=0, share=1.0)
    return perf_counter() - began


def in_words(seconds: float) -> str:
    """Rounded as a forecast should be.

    >>> in_words(40), in_words(700), in_words(12_600), in_words(400_000)
    ('about 40 seconds', 'about 12 minutes', 'about 3.5 hours', 'about 5 days')
    """
    if seconds < 90:
        return f"about {round(seconds, -1):.0f} seconds"
    if seconds < 5400:
        return f"about {seconds / 60:.0f} minutes"
    return f"about {seconds / 3600:.1f} hours" if seconds < 172_800 else f"about {seconds / 86_400:.0f} days"


def shorter(config: TrainConfig, shape: Sequence[int], seconds: float, *, named: bool) -> str | None:
    """What to type for a shorter run, in a line, or nothing where it is short. `named`: by --encoder, for images."""
    if seconds <= LONG:
        return None
    ways = ["leave out --encoder, and get a network for CPUs"] if named else []
    smaller = [side for side in SIDES if len(shape) == 3 and side < min(shape[1:])]
    ways += [f"--image-size {side}" for side in smaller[:1]]
    fitting = int(config.epochs * LONG / seconds)
    if fitting:
        ways.append(f"--epochs {fitting} ({in_words(seconds * fitting / config.epochs).removeprefix('about ')})")
    return f"To make it shorter: {'; '.join(ways)}; or use a GPU." if ways else "To make it shorter: use a GPU."
