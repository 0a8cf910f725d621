"""Derivatives written by hand that the transforms of torch.func can take too.

torch.library registers an operator's derivative in a way that `torch.func.grad` and `jacrev` refuse, and `vmap` warns
of. An autograd.Function with its context set up apart is taken by all of them, once it says what a batch of problems
is: here, one problem after the other, in the memory of one.
"""

from typing import Any

import torch
from torch import Tensor
from torch._C._functorch import TransformType, get_interpreter_stack
from torch.autograd.forward_ad import unpack_dual

TRACED = torch._C._TorchDispatchModeKey.PROXY


def are_active(*inputs: Tensor) -> bool:
    """Is this called inside torch.func's grad, vmap and the like, or in forward mode? Code that can handle nothing but
    plain tensors and a single derivative has to ask. torch.compile copes with such code by itself."""
    if torch.compiler.is_compiling():
        return False
    return bool(get_interpreter_stack()) or _has_tangent(*inputs)


def ask_for_more_than_a_gradient(*inputs: Tensor | None) -> bool:
    """Is it known beforehand that one derivative in reverse will not do: forward mode, or a derivative of one?

    `create_graph=True` cannot be seen here, since autograd says nothing before the backward pass.
    """
    if torch.compiler.is_compiling():
        return False
    kinds = _kinds()
    return kinds.count(TransformType.Grad) > 1 or TransformType.Jvp in kinds or _has_tangent(*inputs)


def hide_values(tensor: Tensor) -> bool:
    """May code not look at numbers here? Neither a compiled or traced graph nor `vmap`, which holds many at once, lets
    it, and tensors of the device "meta" have none."""
    return torch.compiler.is_compiling() or tensor.is_meta or TransformType.Vmap in _kinds() or are_recorded()


def are_recorded() -> bool:
    """Does a trace write down every operation, as `torch.func.linearize` and `make_fx` do?"""
    return not torch.compiler.is_compiling() and torch._C._get_dispatch_mode(TRACED) is not None


def _kinds() -> list[TransformType]:
    return [level.key() for level in get_interpreter_stack() or ()]


def _has_tangent(*inputs: Tensor | None) -> bool:
    given = (tensor for tensor in inputs if tensor is not None)
    return any(unpack_dual(tensor).tangent is not None for tensor in given)  # type: ignore[no-untyped-call]


class OneByOne(torch.autograd.Function):
    """A function of one problem, and tuples of tensors as results; `vmap` goes through its problems and stacks them."""

    @classmethod
    def vmap(cls, info: Any, in_dims: tuple[int | None, ...], *inputs: Any) -> Any:
        def of_problem(index: int) -> Any:
            given = zip(inputs, in_dims, strict=True)
            return cls.apply(*(value if dim is None else value.select(dim, index) for value, dim in given))  # type: ignore[no-untyped-call]

        every = [of_problem(index) for index in range(info.batch_size)]
        stacked = tuple(torch.stack(parts) for parts in zip(*every, strict=True))
        return stacked, (0,) * len(stacked)


class LastDerivative(OneByOne):
    """A backward pass as a function, with nothing kept for a derivative of its own: subclasses refuse that."""

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        """Nothing is kept."""
