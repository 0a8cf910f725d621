"""Samples in, random views out: one draw, then the stages in their order."""

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor, nn

from sincere.checks import check_whole, shape_of
from sincere.errors import InputError, OptionError
from sincere.types import Kind
from sincere.views.resampling import interval_weights, resample
from sincere.views.stages import Shape, Stage
from sincere.views.statistics import Statistics

LAYOUTS: dict[Kind, tuple[str, int]] = {
    "image": ("uint8 images of shape (b, c, h, w)", 4),
    "array": ("floating-point arrays of shape (b, features)", 2),
    "text": ("int32 or int64 texts of shape (b, words, pieces)", 3),
    "sound": ("floating-point waveforms of shape (b, samples)", 2),
}


LEAST = torch.finfo(torch.float32).tiny  # below, a number has fewer digits, and a GPU may take it for 0


class Views(Protocol):
    """Anything that makes views: those of this package, or a user's own."""

    def __call__(self, inputs: Tensor, *, count: int, generator: torch.Generator) -> Tensor:
        """`count` random views of each sample, (b, count, …), on the inputs' device."""

    def plain(self, inputs: Tensor) -> Tensor:
        """The samples without any randomness, (b, …): scaled and normalised, for evaluation."""


class StagedViews(nn.Module):
    """Views made by stages, normalised by statistics of the training inputs.

    >>> from sincere.views import Statistics, build_views
    >>> images = torch.randint(0, 256, (4, 3, 32, 32), dtype=torch.uint8)
    >>> views = build_views("sincere", kind="image", statistics=Statistics.of(images, kind="image"))
    >>> views(images, count=2, generator=torch.Generator().manual_seed(0)).shape
    torch.Size([4, 2, 3, 32, 32])

    A call is two steps, for whoever compiles or captures the second: `draw` takes every random number of the batch from
    the generator at once, `render` turns inputs and numbers into views and has nothing random in it.
    """

    mean: Tensor
    std: Tensor

    def __init__(self, stages: Sequence[Stage], *, kind: Kind, statistics: Statistics) -> None:
        super().__init__()
        self.kind, self.statistics = kind, statistics
        self.stages = tuple(sorted(stages, key=lambda stage: stage.normalised))
        side = (-1, *[1] * (LAYOUTS[kind][1] - 2))
        # Of the statistics, which are saved elsewhere; as buffers they follow `.to(device)`.
        for name in ("mean", "std"):
            values = torch.tensor(getattr(statistics, name), dtype=torch.float32)
            if not bool(values.isfinite().all()) or (name == "std" and bool((values < LEAST).any())):
                raise OptionError(
                    f"views normalise in float32, which cannot hold this {name}: got {getattr(statistics, name)}. "
                    "Scale the data first."
                )
            self.register_buffer(name, values.reshape(side), persistent=False)

    def forward(self, inputs: Tensor, *, count: int, generator: torch.Generator) -> Tensor:
        """`count` random views of each sample: (b, count, …), float (texts: whole numbers)."""
        return self.render(inputs, self.draw(inputs, count=count, generator=generator))

    def draw(self, inputs: Tensor, *, count: int, generator: torch.Generator, turns: Tensor | None = None) -> Tensor:
        """Every random number for `count` views of each sample, (b, count, numbers) in [0, 1), in one call.

        `turns` (b, count) are whole numbers that count a sample's views through training, for stages that alternate.
        """
        self._admit(inputs)
        check_whole("count", count)
        if generator.device.type != inputs.device.type:
            raise InputError(
                f"the generator must live on the inputs' device, {inputs.device}: got one on {generator.device}. "
                f"Make it with torch.Generator({str(inputs.device)!r})."
            )
        total = self.numbers(tuple(inputs.shape[1:]))
        drawn = torch.rand(inputs.shape[0], count, total, generator=generator, device=inputs.device)
        return drawn if turns is None else self._with_turns(drawn, turns, tuple(inputs.shape[1:]))

    def _with_turns(self, numbers: Tensor, turns: Tensor, shape: Shape) -> Tensor:
        taken, flat = 0, numbers.flatten(0, 1)
        for stage in self.stages:
            needed = stage.numbers(shape)
            drawn = flat[:, taken : taken + needed]
            changed = stage.with_turns(drawn, turns.flatten())
            if changed is not drawn:
                drawn.copy_(changed)
            taken, shape = taken + needed, stage.shape_after(shape)
        return numbers

    def numbers(self, shape: Shape) -> int:
        """How many random numbers one view of a sample of this shape takes."""
        total = 0
        for stage in self.stages:
            total += stage.numbers(shape)
            shape = stage.shape_after(shape)
        return total

    def render(self, inputs: Tensor, numbers: Tensor) -> Tensor:
        """The views (b, count, …) that these numbers (b, count, `self.numbers(shape)`) stand for."""
        self._admit(inputs)
        b, count = numbers.shape[:2]
        samples = inputs.unsqueeze(1).expand(b, count, *inputs.shape[1:]).reshape(b * count, *inputs.shape[1:])
        samples, numbers, taken, waiting = self._scaled(samples), numbers.flatten(0, 1), 0, True
        for stage in self.stages:
            if waiting and stage.normalised:
                samples, waiting = self._normalised(samples), False
            needed = stage.numbers(tuple(samples.shape[1:]))
            samples = stage(samples, numbers[:, taken : taken + needed])
            taken += needed
        if waiting:
            samples = self._normalised(samples)
        return samples.reshape(b, count, *samples.shape[1:])

    def plain(self, inputs: Tensor) -> Tensor:
        """The samples without randomness, (b, …); images resized as a whole where views have a size of their own."""
        self._admit(inputs)
        samples, shape = self._scaled(inputs), tuple(inputs.shape[1:])
        target = shape
        for stage in self.stages:
            target = stage.shape_after(target)
        if target != shape:
            start = samples.new_zeros(samples.shape[0])  # `len` would fix the size of a batch that is exported
            rows, columns = (
                interval_weights(start, start + size, size, to) for size, to in zip(shape[1:], target[1:], strict=True)
            )
            samples = resample(samples, rows, columns)
        return self._normalised(samples)

    def _scaled(self, inputs: Tensor) -> Tensor:
        return inputs.float() / 255 if self.kind == "image" else inputs

    def _normalised(self, samples: Tensor) -> Tensor:
        return samples if self.mean.numel() == 0 else (samples - self.mean) / self.std

    def _admit(self, inputs: Tensor) -> None:
        """Refuse what these views cannot be for, and follow the inputs to their device."""
        layout, dimensions = LAYOUTS[self.kind]
        types = {"image": inputs.dtype == torch.uint8, "text": inputs.dtype in (torch.int32, torch.int64)}
        if inputs.ndim != dimensions or not types.get(self.kind, inputs.is_floating_point()):
            raise InputError(f"these views take {layout}: got {inputs.dtype}, {shape_of(inputs)}.")
        if 0 in inputs.shape[1:]:
            raise InputError(f"there is nothing in a sample to make views of: got {layout}, {shape_of(inputs)}.")
        known = self.mean.numel()
        if known and inputs.shape[1] != known:
            what = "channels" if self.kind == "image" else "features"
            raise InputError(
                f"these views normalise {known} {what}: got {shape_of(inputs)}. Take the statistics of the same data."
            )
        if self.mean.device != inputs.device:
            self.to(inputs.device)

    def extra_repr(self) -> str:
        return ", ".join([self.kind, *map(repr, self.stages)])
