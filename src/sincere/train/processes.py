"""One process or many: who this one is, and what all of them have to agree on."""

import gc
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from sincere.errors import InputError, OptionError
from sincere.tables import amount
from sincere.train.peers import callers_store, failing_together, new_store, several, wait_for_everybody

# The others wait while the first process validates and embeds, on a CPU easily for longer than the half hour that torch
# would let them. One that has left is noticed at once all the same, by its connection.
LONGEST_WORK = timedelta(days=7)


@dataclass(frozen=True, eq=False)
class Processes:
    """This process's place among those that torchrun started, or the only one."""

    rank: int = 0
    world: int = 1
    control: Any = None  # a group on the CPU, so that agreeing on something never waits for a GPU

    @property
    def leader(self) -> bool:
        """The one that writes and talks."""
        return self.rank == 0

    def largest(self, value: int) -> int:
        """The largest of everybody's values; all processes call it together."""
        if self.world == 1:
            return value
        shared = torch.tensor([value], dtype=torch.int64)
        dist.all_reduce(shared, op=dist.ReduceOp.MAX, group=self.control)
        return int(shared)

    def wait(self) -> None:
        """Go on once everybody is here."""
        self.largest(0)

    def own_share(self, rows: Tensor) -> Tensor:
        """This process's part of a batch, in order; parts differ by one row at most."""
        return rows if self.world == 1 else rows.tensor_split(self.world)[self.rank]

    def gathered(self, tensor: Tensor) -> list[Tensor]:
        """Everybody's tensor of the same shape, in order of rank, on the CPU."""
        if self.world == 1:
            return [tensor.cpu()]
        mine = tensor.cpu().contiguous()
        everybody = [torch.empty_like(mine) for _ in range(self.world)]
        dist.all_gather(everybody, mine, group=self.control)
        return everybody

    def agree(self, what: str, value: str, *, advice: str) -> None:
        """Refuse a run whose processes differ in something; all of them call it together, and all refuse."""
        if self.world == 1:
            return
        digest = hashlib.blake2b(value.encode(), digest_size=32).digest()
        first, *others = self.gathered(torch.frombuffer(bytearray(digest), dtype=torch.uint8))
        different = [str(rank) for rank, other in enumerate(others, start=1) if not torch.equal(first, other)]
        if different:
            raise InputError(
                f"all processes of a run must have the same {what}: process {', '.join(different[:5])} and process 0 "
                f"differ. {advice}"
            )


def device_for(name: str) -> torch.device:
    """The device that a configuration names; torchrun's processes of one machine take one GPU each."""
    available = torch.cuda.is_available()
    if name == "auto":
        name = "cuda" if available else "cpu"
    try:
        device = torch.device(name)
    except (RuntimeError, TypeError) as error:
        raise OptionError(f"device must be 'auto', 'cpu', 'cuda' or 'cuda:N': got {name!r}.") from error
    if device.type == "cuda":
        if not available:
            raise OptionError(f"device {name!r} needs a GPU that torch can use, and there is none: use 'cpu'.")
        if device.index is None:
            device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
        if device.index >= torch.cuda.device_count():
            raise OptionError(
                f"device {device} does not exist: torch finds {amount(torch.cuda.device_count(), 'GPU')}. "
                "Start no more processes than GPUs on a machine."
            )
    elif device.type != "cpu":
        try:
            torch.Generator(device)  # views take their random numbers from one; some kinds of device have none
        except (RuntimeError, AssertionError) as error:
            raise OptionError(
                f"device {name!r} must be one that torch can use here, and is not: use 'auto'."
            ) from error
    return device


@contextmanager
def tuned_convolutions(device: torch.device) -> Iterator[None]:
    """Let cuDNN try its algorithms on the first batches: an epoch's batches have one size or two."""
    before = torch.backends.cudnn.benchmark
    torch.backends.cudnn.benchmark = before or device.type == "cuda"
    try:
        yield
    finally:
        torch.backends.cudnn.benchmark = before


@contextmanager
def joined_processes(device: torch.device) -> Iterator[Processes]:
    """Join the other processes that torchrun started; whoever has joined already is left alone."""
    ours = not dist.is_initialized() if dist.is_available() else False
    if device.type == "cuda":
        torch.cuda.set_device(device)
    store: Any = None
    if ours and several():
        store = _meet(device)
    elif ours or not dist.is_available() or dist.get_world_size() == 1:
        yield Processes()
        return
    else:
        store = callers_store()
    control = dist.new_group(backend="gloo", timeout=LONGEST_WORK)
    rank, world = dist.get_rank(), dist.get_world_size()
    try:
        # A failure is told before the group is left: whoever then notices that this process is gone can find out why.
        with nullcontext() if store is None else failing_together(store, rank):
            yield Processes(rank, world, control)
    finally:
        if ours:
            # DDP holds on to the group from within cycles, and its threads must not be left to the interpreter's end.
            gc.collect()
            dist.destroy_process_group()
        else:
            dist.destroy_process_group(control)


def _meet(device: torch.device) -> Any:
    """Form the process group once everybody is here; returns the store in which processes tell of failures."""
    store, rank, world = new_store()
    wait_for_everybody(store, world)
    on_gpu = device.type == "cuda"
    how: dict[str, Any] = {"device_id": device} if on_gpu else {}
    dist.init_process_group("nccl" if on_gpu else "gloo", store=store, rank=rank, world_size=world, **how)
    return store
