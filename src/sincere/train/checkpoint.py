"""The state of a run as tensors and JSON, and back. What is random needs no saving: it follows from seed and step."""

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from sincere.errors import InputError
from sincere.runs import Checkpoint
from sincere.runs.tensor_files import load_into
from sincere.train.meter import Meter, check_weights
from sincere.train.session import Session

FORMAT = "sincere.checkpoint/1"


@dataclass
class Position:
    """How far a run has come: steps done in all, and the batch of the epoch that is next."""

    step: int = 0
    epoch: int = 0
    place: int = 0
    seconds: float = 0.0


def run_state(session: Session, position: Position, meter: Meter) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Everything to resume from; all processes call it together, since each has a queue of its own."""
    parts = session.parts
    # Either raises where something has overflowed that need not show in the loss yet: no state to go on from.
    session.temperature()
    check_weights(parts.optimizers.named.values())
    tensors: dict[str, Tensor] = {}
    modules = {"network": parts.network, "objective": parts.objective, "follower": parts.memory.follower}
    for name, module in modules.items():
        if module is not None:
            tensors |= {f"{name}:{key}": value for key, value in module.state_dict().items()}
    tensors |= {f"optimizer:{key}": value for key, value in parts.optimizers.state().items()}
    if parts.memory.queue is not None:
        for key, value in parts.memory.queue.state_dict().items():
            gathered = parts.processes.gathered(value)
            tensors |= {f"queue{rank}:{key}": mine for rank, mine in enumerate(gathered)}
    scaler = session.step.scaler
    state = {
        "format": FORMAT,
        "epoch": position.epoch,
        "place": position.place,
        "seconds": position.seconds,
        "processes": parts.processes.world,
        "meter": meter.state(),
        "scaler": None if scaler is None else scaler.state_dict(),
    }
    return tensors, state


def restore(session: Session, found: Checkpoint, meter: Meter) -> Position:
    """Put a run back to where it was."""
    state, parts = found.state, session.parts
    if state.get("format") != FORMAT:
        raise InputError(f"the checkpoint must have the format {FORMAT!r}: got {state.get('format')!r}.")
    queue = parts.memory.queue
    if queue is not None and (had := state.get("processes")) != parts.processes.world:
        raise InputError(
            f"a run with a queue must go on with as many processes as it had, {had}, since each has a "
            f"part of the queue: got {parts.processes.world}."
        )
    groups: dict[str, dict[str, Tensor]] = {}
    for place, tensor in found.tensors.items():
        group, _, key = place.partition(":")
        groups.setdefault(group, {})[key] = tensor
    where = f"the checkpoint of step {found.step}"
    load_into(parts.network, groups.get("network", {}), where)
    load_into(parts.objective, groups.get("objective", {}), where)
    if parts.memory.follower is not None:
        load_into(parts.memory.follower, groups.get("follower", {}), where)
    if queue is not None:
        load_into(queue, groups.get(f"queue{parts.processes.rank}", {}), where)
    parts.optimizers.load_state(groups.get("optimizer", {}))
    try:
        if session.step.scaler is not None:
            session.step.scaler.load_state_dict(state["scaler"])
        meter.load_state(state["meter"])
        position = Position(found.step, int(state["epoch"]), int(state["place"]), float(state["seconds"]))
    except (AttributeError, KeyError, RuntimeError, TypeError, ValueError) as error:
        raise InputError(f"the state in {where} is not complete: {error!r}. Restore it from a copy.") from error
    if position.step != position.epoch * len(session.planner) + position.place:
        raise InputError(
            f"{where} says that batch {position.place} of epoch {position.epoch} is next, which it is not with "
            f"{len(session.planner)} batches an epoch: was it edited, or written by another version?"
        )
    return position
