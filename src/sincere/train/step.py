"""One training step: indices in, weights moved, the loss left on the device. Nothing in it waits for the device."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from sincere.data import LabelledData
from sincere.losses.cached_backward import cached_backward
from sincere.seeds import seed_for, seeded_generator
from sincere.train.config import ComputeConfig
from sincere.train.early import Early
from sincere.train.global_generators import seed_layers
from sincere.train.memory import Memory
from sincere.train.network import Network
from sincere.train.objective import ObjectiveLoss
from sincere.train.optimizer import Optimizers
from sincere.train.processes import Processes
from sincere.train.recorded import RecordedSteps, Results
from sincere.views import StagedViews

RECORDING = ("graphs", "compiled-graphs", "tuned-graphs")  # ways of computing that record CUDA graphs of our own
OWN = ("off", *RECORDING)  # those in which the compiler has none of its own
NEARLY = 0.9  # of the largest batch: below that a batch is one that was left over


@dataclass(frozen=True, eq=False)
class Parts:
    """What a step moves and works with, all on one device."""

    network: Network
    objective: ObjectiveLoss
    memory: Memory
    optimizers: Optimizers
    views: StagedViews
    data: LabelledData
    processes: Processes


class TrainingStep:
    """Views, forward, loss, backward, optimizer.

    The random numbers of a step come from the seed and the step's number. They are drawn for the whole batch, and each
    process renders its own share: N processes see the views that one would see.
    """

    def __init__(
        self, parts: Parts, compute: ComputeConfig, *, views: int, early: Early, seed: int, largest_batch: int
    ) -> None:
        self.parts, self.views, self.seed = parts, views, seed
        self.early, self.is_early = early, False
        self.complete = NEARLY * largest_batch
        self.device = parts.data.inputs.device
        self.chunk_size = compute.chunk_size
        self.generator = torch.Generator(self.device)
        # Whose turn it is first, for each sample, where views take turns.
        toss = seeded_generator(seed, "turns")
        self.firsts = torch.randint(2, (len(parts.data),), generator=toss).to(self.device)
        # Where the compiler's CUDA graphs may be in play they have to know that a new step begins.
        self.compilers_graphs = compute.compile not in OWN and self.device.type == "cuda"
        self.scaler = torch.amp.GradScaler(self.device.type) if compute.precision == "fp16" else None
        self.network: nn.Module = parts.network
        self._render: Callable[[Tensor, Tensor], Tensor] = parts.views.render
        self._loss: Callable[..., tuple[Tensor, Tensor, Tensor | None]] = self._forward
        many = parts.processes.world > 1
        self.recorded: RecordedSteps | None = None
        self.recorded_early: RecordedSteps | None = None
        # A queue grows from step to step at first, and each size would be compiled anew.
        whole = not many and compute.chunk_size is None and parts.memory.queue is None
        if compute.compile in RECORDING and whole and self.device.type == "cuda":
            moved = (*parts.network.parameters(), *parts.objective.parameters())
            self.recorded = RecordedSteps(self._forward_and_backward, moved)
            self.recorded_early = RecordedSteps(self._forward_and_backward, moved) if early.steps else None
        if compute.compile not in ("off", "graphs"):
            self._compile(compute, whole=whole)
        if many:
            places: Any = [self.device] if self.device.type == "cuda" else None
            self.network = DistributedDataParallel(parts.network, device_ids=places)

    def _compile(self, compute: ComputeConfig, *, whole: bool) -> None:
        """Everything between indices and loss as one graph; where something interrupts it, its parts."""
        # Complete batches have one size or a few, so a graph for each beats one for all.
        how: dict[str, Any] = {"dynamic": False}
        if compute.compile == "tuned-graphs":
            how["options"] = {"max_autotune_pointwise": True}  # reductions too, which batch normalisation is made of
        elif compute.compile not in ("default", *RECORDING):
            how["mode"] = compute.compile
        if whole:
            self._loss = torch.compile(self._forward, **how)
            return
        self.parts.network.compile(**how)
        self._render = torch.compile(self._render, **how)

    def __call__(self, batch: Tensor, *, step: int, times_before: int | Tensor, share: float) -> Tensor:
        """Move the weights by one batch, indices (b,) of all processes, at a share of the full learning rate.

        `times_before` is how often the samples came before, one number for all or (b,). Returns the loss of
        the whole batch, on the device and without its graph.
        """
        parts = self.parts
        self.is_early = step < self.early.steps
        seed_layers(self.device, seed_for(self.seed, "layers", step, parts.processes.rank))
        if self.compilers_graphs:
            torch.compiler.cudagraph_mark_step_begin()  # type: ignore[no-untyped-call]
        mine = parts.processes.own_share(batch)
        inputs, labels = parts.data.inputs[mine], parts.data.labels[mine]
        numbers = self._drawn(batch, step, times_before)
        if self.chunk_size is None:
            loss, outputs, keys = self._recorded_or_plain(len(batch))(inputs, numbers, labels)
            parts.memory.remember(keys, outputs, labels)
        else:
            loss = self._cached(inputs, numbers, labels, self.chunk_size)
        self._share_gradients_of_loss()
        parts.optimizers.set_rate(share)
        parts.optimizers.step(self.scaler)
        parts.memory.follow(parts.network)
        return loss.detach()

    def _recorded_or_plain(self, size: int) -> Callable[[Tensor, Tensor, Tensor], Results]:
        """The step for a batch of this size: what is left over at the end of an epoch is not worth a recording."""
        if not self.is_early:
            self.recorded_early = None  # its memory is free from here on
        recorded = self.recorded_early if self.is_early else self.recorded
        return self._forward_and_backward if recorded is None or size < self.complete else recorded

    def _views(self, inputs: Tensor, numbers: Tensor) -> Tensor:
        views = self._render(inputs, numbers)
        return self.early.shrunk(views) if self.is_early else views

    def _forward_and_backward(
        self, inputs: Tensor, numbers: Tensor, labels: Tensor
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        # What is left over at the end of an epoch is not worth a compilation of its own.
        forward = self._loss if len(inputs) >= self.complete else self._forward
        loss, outputs, keys = forward(inputs, numbers, labels)
        (loss if self.scaler is None else self.scaler.scale(loss)).backward()  # type: ignore[no-untyped-call]
        return loss.detach(), outputs, keys

    def _drawn(self, batch: Tensor, step: int, times_before: int | Tensor) -> Tensor:
        """The random numbers of this process's share, out of those of the whole batch."""
        self.generator.manual_seed(seed_for(self.seed, "views", step))
        inputs = self.parts.data.inputs
        shaped = inputs[:1].expand(len(batch), *inputs.shape[1:])  # only its shape is looked at
        first = self.firsts[batch] + times_before * self.views
        turns = first.unsqueeze(1) + torch.arange(self.views, device=self.device)
        numbers = self.parts.views.draw(shaped, count=self.views, generator=self.generator, turns=turns)
        return self.parts.processes.own_share(numbers)

    def _forward(self, inputs: Tensor, numbers: Tensor, labels: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        """Loss, outputs and keys of a batch; the outputs without their graph, or zeros would flow back through it."""
        memory, views = self.parts.memory, self._views(inputs, numbers)
        outputs = self.network(memory.anchors(views))
        keys = memory.keys(views)
        loss = self.parts.objective(outputs, labels, *memory.contrasts(keys, labels))
        return loss, outputs.detach(), keys

    def _cached(self, inputs: Tensor, numbers: Tensor, labels: Tensor, chunk_size: int) -> Tensor:
        def loss(outputs: Tensor) -> Tensor:
            value: Tensor = self.parts.objective(outputs, labels)
            return value

        views = self._views(inputs, numbers)
        return cached_backward(self.network, views, loss, chunk_size=chunk_size, scaler=self.scaler)

    def _share_gradients_of_loss(self) -> None:
        """DDP averages the network's gradients; a learned temperature is outside of it."""
        if self.parts.processes.world == 1:
            return
        for parameter in self.parts.objective.parameters():
            if parameter.grad is not None:
                torch.distributed.all_reduce(parameter.grad)
                parameter.grad /= self.parts.processes.world
