"""Losses whole, by kernels: from embeddings and labels to the value, and back, in a handful of launches.

The general way stops at the statistics, and everything around them is some 190 small operations: for batches of a few
thousand these, not the pairs, are what a step costs. Here sorting, normalising, the loss's equation and the reduction
are kernels too (triton_fused.py launches them).
"""

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from sincere.checks import check_finite
from sincere.losses.backends.saved import refuse_second_derivative
from sincere.losses.options import Settings
from sincere.losses.statistics import Combination


@dataclass(frozen=True)
class Plan:
    """Everything about a fused loss that is no tensor."""

    combination: Combination
    reduction: str
    cosine: bool
    bounded: bool  # is |s| ≤ 32 known without looking at the rows
    views: int
    ignore_label: int
    keep_ignored: bool
    weighted: bool = False
    # Filled by the engine: what it has prepared for this plan, by shapes and types.
    programs: dict[tuple[object, ...], Any] = field(default_factory=dict, compare=False, repr=False)

    def written(self) -> str:
        """One line, because operators of torch.library take strings and not records."""
        own = [self.cosine, self.bounded, self.views, self.ignore_label, self.keep_ignored, self.weighted]
        numbers = [repr(number) for number in self.combination.numbers()]
        return " ".join([self.reduction, *[str(int(value)) for value in own], *numbers])

    @staticmethod
    def read(line: str) -> "Plan":
        """What `written` wrote."""
        reduction, cosine, bounded, views, ignore_label, keep_ignored, weighted, *numbers = line.split()
        return plan_of(
            Combination.of_numbers([float(number) for number in numbers]),
            reduction,
            cosine == "1",
            bounded == "1",
            int(views),
            int(ignore_label),
            keep_ignored == "1",
            weighted == "1",
        )


def plan_of(*fields: Any) -> Plan:
    """One plan for one choice of options, so that what is prepared for it is found again."""
    return Plan(*fields) if torch.compiler.is_compiling() else _kept_plan(*fields)


@lru_cache(maxsize=64)
def _kept_plan(*fields: Any) -> Plan:
    return Plan(*fields)


def loss(combination: Combination, embeddings: Tensor, labels: Tensor, settings: Settings) -> Tensor:
    """The reduced loss; `kernels_take_whole_loss` has looked at the input."""
    if settings.check_finite:
        check_finite("embeddings", embeddings)
    temperature, weights = settings.temperature, settings.weights
    if isinstance(temperature, Tensor):
        on_device, number = temperature.reshape(()).to(embeddings.device), 0.0
    else:
        on_device, number = None, float(temperature)
    plan = plan_of(
        combination,
        settings.reduction,
        settings.similarity == "cosine",
        settings.bounded,
        embeddings.shape[1] if embeddings.ndim == 3 else 1,
        settings.ignore_label,
        settings.ignored_as_negatives,
        weights is not None,
    )
    rows = embeddings.reshape(-1, embeddings.shape[-1]) if embeddings.ndim == 3 else embeddings
    if rows.stride(1) != 1:
        rows = rows.contiguous()
    inputs = (rows, on_device, number, labels.contiguous(), None if weights is None else weights.contiguous())
    if torch.compiler.is_compiling():
        result = _forward_operator(*inputs, plan.written())[0]
    else:
        result = FusedLoss.apply(*inputs, plan)  # type: ignore[no-untyped-call]
    whole: Tensor = result
    return whole.reshape(embeddings.shape[:-1]) if plan.reduction == "none" else whole


def _engine() -> Any:
    """Triton is imported when it is first used: `import sincere` works without it."""
    from sincere.losses.backends import triton_fused

    return triton_fused


class FusedLoss(torch.autograd.Function):
    """The loss for eager code: fewer layers than an operator of torch.library has."""

    @staticmethod
    def forward(
        ctx: Any,
        rows: Tensor,
        temperature: Tensor | None,
        number: float,
        labels: Tensor,
        weights: Tensor | None,
        plan: Plan,
    ) -> Tensor:
        loss: Tensor
        ctx.program, (loss, workspace) = _engine().forward(
            rows, number if temperature is None else temperature, labels, weights, plan
        )
        ctx.save_for_backward(rows, temperature, workspace)
        ctx.number = number
        return loss

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        rows, temperature, workspace = ctx.saved_tensors
        temperature = ctx.number if temperature is None else temperature
        if torch.is_grad_enabled():
            of_rows, of_temperature = FusedGradient.apply(grad, rows, temperature, ctx.program, workspace)  # type: ignore[no-untyped-call]
        else:
            of_rows, of_temperature = ctx.program.backward(grad, rows, temperature, workspace)
        return of_rows, of_temperature if ctx.needs_input_grad[1] else None, None, None, None, None


class FusedGradient(torch.autograd.Function):
    """The backward pass where a second derivative might be asked for: it has none, and says so."""

    @staticmethod
    def forward(
        ctx: Any, grad: Tensor, rows: Tensor, temperature: Tensor | float, program: Any, workspace: Tensor
    ) -> tuple[Tensor, Tensor]:
        of_rows, of_temperature = program.backward(grad, rows, temperature, workspace)
        return of_rows, rows.new_zeros(()) if of_temperature is None else of_temperature

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        refuse_second_derivative()


@torch.library.custom_op("sincere::fused_loss", mutates_args=())
def _forward_operator(
    rows: Tensor, temperature: Tensor | None, number: float, labels: Tensor, weights: Tensor | None, plan: str
) -> tuple[Tensor, Tensor]:
    results: tuple[Tensor, Tensor]
    _, results = _engine().forward(
        rows, number if temperature is None else temperature, labels, weights, Plan.read(plan)
    )
    return results


@torch.library.custom_op("sincere::fused_loss_backward", mutates_args=())
def _backward_operator(
    grad: Tensor, rows: Tensor, temperature: Tensor | None, number: float, plan: str, workspace: Tensor
) -> tuple[Tensor, Tensor]:
    given = number if temperature is None else temperature
    program = _engine().backward_program(rows, given, Plan.read(plan), workspace)
    with _engine().launch.on_device_of(rows):  # autograd sees to that in eager code
        of_rows, of_temperature = program.backward(grad, rows, given, workspace)
    return of_rows, rows.new_zeros(()) if of_temperature is None else of_temperature


@_forward_operator.register_fake
def _(
    rows: Tensor, temperature: Tensor | None, number: float, labels: Tensor, weights: Tensor | None, plan: str
) -> tuple[Tensor, Tensor]:
    results: tuple[Tensor, Tensor] = _engine().empty_results(Plan.read(plan), *rows.shape, rows.dtype, rows.device)
    return results


@_backward_operator.register_fake
def _(
    grad: Tensor, rows: Tensor, temperature: Tensor | None, number: float, plan: str, workspace: Tensor
) -> tuple[Tensor, Tensor]:
    return torch.empty_like(rows, memory_format=torch.contiguous_format), rows.new_empty((), dtype=_kept(temperature))


def _kept(temperature: Tensor | None) -> torch.dtype | None:
    return None if temperature is None else temperature.dtype


def _setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    rows, temperature, ctx.number, _, _, ctx.plan = inputs
    ctx.save_for_backward(rows, temperature, output[1])


def _differentiate(ctx: Any, grad: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
    rows, temperature, workspace = ctx.saved_tensors
    of_rows, of_temperature = _backward_operator(grad.contiguous(), rows, temperature, ctx.number, ctx.plan, workspace)
    return of_rows, None if temperature is None else of_temperature, None, None, None, None


_forward_operator.register_autograd(_differentiate, setup_context=_setup_context)
_backward_operator.register_autograd(refuse_second_derivative)
