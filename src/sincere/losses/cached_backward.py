"""The gradient of a batch that is larger than memory, through the encoder chunk by chunk.

A contrastive loss needs all embeddings at once, but only the encoder's activations are large. So: embed every chunk
without a graph; differentiate the loss with respect to the embeddings; embed every chunk again, with a graph, and
push its embeddings' gradient through. Twice the encoder's forward pass, the memory of one chunk, the gradient of the
whole batch. (Gao et al., 2021, arXiv 2101.06983.) Accumulating the losses of small batches is something else: it adds
no negatives.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from numbers import Integral
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from sincere.checks import shape_of
from sincere.errors import InputError, OptionError
from sincere.losses.options import full_precision


def cached_backward(
    encoder: nn.Module,
    inputs: Any,
    loss: Callable[[Tensor], Tensor],
    *,
    chunk_size: int,
    scaler: "torch.amp.GradScaler | None" = None,
) -> Tensor:
    """Add the gradient of `loss(encoder(inputs))` to the parameters' `.grad`, and return the loss, detached.

    >>> from sincere import SINCERELoss
    >>> encoder, labels = nn.Linear(4, 3), torch.arange(12) // 3
    >>> value = cached_backward(encoder, torch.randn(12, 4), lambda z: SINCERELoss()(z, labels), chunk_size=5)
    >>> encoder.weight.grad is not None
    True

    The random state of every chunk is kept and replayed, so dropout and other noise agree between the two passes.
    Under DistributedDataParallel only the last chunk synchronises gradients; `loss` may use `gather=True`, and
    processes may have any number of samples, none included. What communicates in every pass, such as FSDP and
    SyncBatchNorm, needs as many chunks on every process.

    BatchNorm in training mode normalises each chunk by itself, as it would the batches of as many devices, so its
    gradient is not that of the whole batch at once: put it into eval mode, or use another norm, where that matters.
    Running statistics move once per chunk, not twice.

    A frozen encoder is fine where `loss` has parameters of its own, those of a head or a temperature: they alone get
    gradients.

    Args:
        encoder: maps a chunk of inputs to embeddings, (c, d) or (c, v, d).
        inputs: a tensor; or a list, tuple or dict of tensors, passed as `encoder(*inputs)` or `encoder(**inputs)`. The
            first dimension of each tensor is the batch.
        loss: maps the embeddings of the whole batch to a scalar; its own parameters get their gradients too.
        chunk_size: samples that go through the encoder together.
        scaler: scales the loss before the backward pass, for float16.
    """
    if not isinstance(encoder, nn.Module):
        raise InputError(
            f"encoder must be an nn.Module, whose dropout and BatchNorm are known: got {type(encoder).__name__}. For a "
            "function, write a module whose forward calls it and that holds the layers it uses."
        )
    if isinstance(chunk_size, bool) or not isinstance(chunk_size, Integral) or chunk_size < 1:
        raise OptionError(f"chunk_size must be an integer, at least 1: got {chunk_size!r}.")
    chunks = list(_chunks(inputs, chunk_size))
    if not callable(loss):
        raise InputError(
            "loss must be a function of the embeddings, such as lambda z: SINCERELoss()(z, labels): got "
            f"{type(loss).__name__}."
        )
    states: list[_RandomState] = []
    embedded: list[Tensor] = []
    with torch.no_grad(), _buffers_restored(encoder):
        for chunk in chunks:
            states.append(_RandomState(encoder, chunk))
            embedded.append(_call(encoder, chunk))
    embeddings = torch.cat(embedded).requires_grad_()
    with torch.enable_grad():
        value = _scalar(loss(embeddings))
        moved = _needs_more_than(value, embeddings)
        with full_precision(embeddings):  # autocast would compute the derivatives of float32 products in half precision
            torch.autograd.backward(value if scaler is None else scaler.scale(value))
    gradient = embeddings.grad if embeddings.grad is not None else torch.zeros_like(embeddings)
    final = _RandomState(encoder, chunks[-1])
    parts = torch.split(gradient, int(chunk_size))  # torch takes no whole numbers of NumPy's here
    for position, (chunk, state, part) in enumerate(zip(chunks, states, parts, strict=True)):
        state.restore()
        with _synchronised(encoder, last=position == len(chunks) - 1), torch.enable_grad():
            output = _call(encoder, chunk)
            if output.requires_grad:  # not of an encoder that is frozen
                with full_precision(output):
                    torch.autograd.backward(output, part)
                moved = True
    final.restore()
    if not moved:
        raise InputError(
            "something must need a gradient: no parameter of the encoder requires one, no input, and nothing in the "
            "loss. Unfreeze a part of the encoder (requires_grad_()), or call it under torch.no_grad() to evaluate."
        )
    return value.detach()


def _tensors(inputs: Any) -> list[Tensor]:
    values = list(inputs.values()) if isinstance(inputs, dict) else inputs
    if isinstance(inputs, Tensor):
        values = [inputs]
    are_some = isinstance(values, (list, tuple)) and len(values) > 0
    if not are_some or not all(isinstance(value, Tensor) and value.ndim > 0 for value in values):
        order = " The order is encoder, inputs, loss." if callable(inputs) else ""
        raise InputError(
            "inputs must be a tensor, or a list, tuple or dict of tensors whose first dimension is the batch: got "
            f"{type(inputs).__name__}.{order}"
        )
    return list(values)


def _chunks(inputs: Any, chunk_size: int) -> Iterator[Any]:
    tensors = _tensors(inputs)
    lengths = [tensor.shape[0] for tensor in tensors]
    if len(set(lengths)) != 1:
        raise InputError(f"inputs must have the same number of samples in each tensor: got {lengths}.")
    # No samples are one empty chunk: a process that has none must still take part in what all processes do together.
    for start in range(0, max(lengths[0], 1), chunk_size):
        part = slice(start, start + chunk_size)
        if isinstance(inputs, Tensor):
            yield inputs[part]
        elif isinstance(inputs, dict):
            yield {name: value[part] for name, value in inputs.items()}
        else:
            yield tuple(value[part] for value in inputs)


def _call(encoder: nn.Module, chunk: Any) -> Tensor:
    if isinstance(chunk, dict):
        output = encoder(**chunk)
    else:
        output = encoder(*chunk) if isinstance(chunk, tuple) else encoder(chunk)
    if not isinstance(output, Tensor):
        raise InputError(f"encoder must return embeddings, a tensor: got {type(output).__name__}.")
    samples = _tensors(chunk)[0].shape[0]
    if output.ndim == 0 or output.shape[0] != samples:
        raise InputError(
            f"encoder must return one embedding per sample, or its views as (c, v, d): expected {samples} rows for a "
            f"chunk of {samples} samples, got {shape_of(output)}."
        )
    return output


def _scalar(value: object) -> Tensor:
    if not isinstance(value, Tensor) or value.numel() != 1:
        came = shape_of(value) if isinstance(value, Tensor) else type(value).__name__
        raise InputError(
            f'loss must return one number, a tensor with one element: got {came}. Use a reduction other than "none".'
        )
    if not value.requires_grad:
        raise InputError(
            "loss must return a number that depends on the embeddings or on parameters: got one without a gradient. "
            "Was it detached, or computed under torch.no_grad()?"
        )
    return value


def _needs_more_than(value: Tensor, embeddings: Tensor) -> bool:
    """Does the loss pass gradients to anything but the embeddings, such as parameters of its own?"""
    if value.is_leaf:
        return value is not embeddings
    nodes, seen = [value.grad_fn], set[Any]()
    while nodes:
        node = nodes.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        leaf = getattr(node, "variable", None)  # of the nodes at the ends of the graph
        if leaf is not None and leaf is not embeddings:
            return True
        nodes += [following for following, _ in node.next_functions]
    return False


class _RandomState:
    """The generators' states on the CPU and on the devices of a chunk and of the encoder, which may move the chunk."""

    def __init__(self, encoder: nn.Module, chunk: Any) -> None:
        self.cpu = torch.get_rng_state()
        tensors = (*_tensors(chunk), *encoder.parameters(), *encoder.buffers())
        devices = {tensor.device for tensor in tensors if tensor.is_cuda}
        self.cuda = {device: torch.cuda.get_rng_state(device) for device in devices}

    def restore(self) -> None:
        torch.set_rng_state(self.cpu)
        for device, state in self.cuda.items():
            torch.cuda.set_rng_state(state, device)


@contextmanager
def _buffers_restored(encoder: nn.Module) -> Iterator[None]:
    """Running statistics must not move in the pass that is computed twice."""
    before = [(buffer, buffer.clone()) for buffer in encoder.buffers()]
    try:
        yield
    finally:
        for buffer, value in before:
            buffer.copy_(value)


@contextmanager
def _synchronised(encoder: nn.Module, *, last: bool) -> Iterator[None]:
    """DistributedDataParallel averages gradients in the backward pass of the last chunk alone.

    Wherever it is: `torch.compile` wraps it in a module, and so may the caller.
    """
    with ExitStack() as waiting:
        for module in encoder.modules() if not last else ():
            if isinstance(module, DistributedDataParallel):
                waiting.enter_context(module.no_sync())
        yield
