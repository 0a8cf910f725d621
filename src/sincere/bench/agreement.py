"""Nothing is timed that computes something else: every candidate is compared before the clock starts."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

import torch
from torch import Tensor

import sincere.functional as SF
from sincere.bench.problem import Problem
from sincere.losses.tf32 import allows_tf32

Loss: TypeAlias = Callable[[Tensor, Tensor], Tensor]

# Relative errors of value and gradient that are rounding. Sums over n terms in another order differ in float32's last
# digits; half precision rounds the normalised rows, and the gradient once more (docs/gpu-kernels.md says how).
ALLOWED = {"float32": (1e-5, 1e-4), "float16": (2e-3, 4e-3), "bfloat16": (4e-3, 1e-2)}
ALLOWED_IN_TF32 = (2e-3, 4e-3)
EXACT: dict[str, Callable[..., Tensor]] = {"SINCERE": SF.sincere, "SupCon": SF.supcon}


class AgreementError(RuntimeError):
    """A candidate does not compute its loss, so that its time would prove nothing."""


@dataclass(frozen=True)
class Agreement:
    """How far a candidate is from the truth, or from a candidate that was compared with the truth."""

    candidate: str
    n: int
    reference: str
    value_error: float
    gradient_error: float
    allowed_value_error: float
    allowed_gradient_error: float

    @property
    def holds(self) -> bool:
        # NaN is not below anything.
        return self.value_error <= self.allowed_value_error and self.gradient_error <= self.allowed_gradient_error

    def __str__(self) -> str:
        return (
            f"{self.candidate} at n = {self.n:,} differs from {self.reference} by {self.value_error:.0e} in value and "
            f"{self.gradient_error:.0e} in gradient"
        )


@dataclass(frozen=True)
class Outcome:
    """L and ∂L/∂embeddings, times n: float16 could not hold the embeddings' gradient itself."""

    value: Tensor
    gradient: Tensor


def outcome(loss: Loss, embeddings: Tensor, labels: Tensor) -> Outcome:
    """What a candidate computes for this batch."""
    value = loss(embeddings, labels) * embeddings.shape[0]
    (gradient,) = torch.autograd.grad(value, embeddings)
    return Outcome(value.detach(), gradient)


def truth(loss: str, problem: Problem) -> Outcome:
    """By our dense backend in float64, which the tests compare with a loop written from the paper."""
    embeddings, labels = problem.batch()
    exact = embeddings.detach().double().requires_grad_()
    dense = partial(EXACT[loss], temperature=problem.temperature, backend="dense")
    return outcome(dense, exact, labels)


def compared(candidate: str, found: Outcome, reference: Outcome, problem: Problem, *, to: str) -> Agreement:
    """The comparison with `reference`, which `to` names; raises where they differ by more than rounding."""
    value_error = (found.value.double() - reference.value.double()).abs() / reference.value.double().abs()
    difference = found.gradient.double() - reference.gradient.double()
    gradient_error = difference.norm() / reference.gradient.double().norm()
    in_tf32 = problem.device != "cpu" and allows_tf32()
    allowed = ALLOWED_IN_TF32 if problem.dtype == "float32" and in_tf32 else ALLOWED[problem.dtype]
    agreement = Agreement(candidate, problem.n, to, float(value_error), float(gradient_error), *allowed)
    if not agreement.holds:
        raise AgreementError(
            f"{agreement}, where rounding explains {allowed[0]:.0e} and {allowed[1]:.0e}: nothing is timed. "
            "Please report this with your versions of torch and triton, and your device."
        )
    return agreement
