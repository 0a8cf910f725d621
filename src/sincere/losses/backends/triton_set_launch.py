"""The set loss by kernels: blocks of logits, a launch for each, and nothing that waits for the device."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
import triton
from torch import Tensor

from sincere.losses.backends import triton_set
from sincere.losses.backends.row_blocks import row_blocks
from sincere.losses.backends.set_rows import NUMBERS_OF_KERNELS
from sincere.losses.backends.triton_launch import Launch, on_device_of
from sincere.losses.relation import Relation
from sincere.losses.subsets import NEWTON_STEPS

# A row of so many logits stays in the registers of its program, 16 a thread, while λ is found. A longer one is read
# again in every round, REREAD logits at a time, and 8 a thread, beside which its sums have room.
HELD_UP_TO, REREAD = 8192, 2048
GRADIENT_BLOCK = 1024


LAUNCHES: dict[tuple[object, ...], Launch] = {}
MOST_LAUNCHES = 4096  # batches that are never alike must not fill the memory


def forward(anchors: Tensor, contrasts: Tensor, relation: Relation) -> tuple[Tensor, Tensor, Tensor]:
    """ℓ and k of every anchor, and the numbers that their gradients need."""
    n, m = relation.anchors, relation.contrasts
    made = torch.zeros if m == 0 else torch.empty  # without a contrast there is nothing to launch
    values = made(n, dtype=torch.float32, device=anchors.device)
    numbers = made(NUMBERS_OF_KERNELS, n, dtype=torch.float32, device=anchors.device)
    k = made(n, dtype=torch.int64, device=anchors.device)
    if m == 0:
        return values, k, numbers
    labels = label_arguments(relation)
    with on_device_of(anchors):
        for rows in row_blocks(relation):
            s = rows_of(anchors, rows) @ contrasts.T
            launch = kept_launch(values_launch, rows, relation, labels)
            launch(s, *labels, values, k, numbers, rows.start, n, m, own_column(relation))
    return values, k, numbers


def backward(
    anchors: Tensor, contrasts: Tensor, relation: Relation, numbers: Tensor, grad: Tensor
) -> tuple[Tensor, Tensor]:
    """∂L/∂anchors and ∂L/∂contrasts."""
    n, m = relation.anchors, relation.contrasts
    if n == 0 or m == 0:
        return torch.zeros_like(anchors), torch.zeros_like(contrasts)
    anchor_grad, contrast_grad = torch.empty_like(anchors), torch.empty_like(contrasts)
    labels = label_arguments(relation)
    with on_device_of(anchors):
        for rows in row_blocks(relation):
            own = rows_of(anchors, rows)
            s = own @ contrasts.T
            launch = kept_launch(gradient_launch, rows, relation, (*labels[:3], grad))
            launch(s, *labels[:3], grad, numbers, rows.start, n, m, own_column(relation))
            torch.mm(s, contrasts, out=rows_of(anchor_grad, rows))
            # With beta = 0 what the first block finds there is not read.
            contrast_grad.addmm_(s.T, own, beta=0 if rows.start == 0 else 1)
    return anchor_grad, contrast_grad


def rows_of(tensor: Tensor, rows: slice) -> Tensor:
    """The rows of one block; without an operator where that is all of them."""
    return tensor if rows.stop - rows.start == tensor.shape[0] else tensor[rows]


def kept_launch(
    make: Callable[[int, int], Launch], rows: slice, relation: Relation, tensors: Sequence[Tensor]
) -> Launch:
    """The launch for such arguments, made once: its key is everything for which Triton compiles different code."""
    sizes = (rows.start, rows.stop, relation.anchors, relation.contrasts, relation.self_offset)
    choices = (HELD_UP_TO, REREAD, GRADIENT_BLOCK, NEWTON_STEPS)
    key = (make, sizes, choices, tensors[0].device, *[tensor.data_ptr() % 16 for tensor in tensors])
    launch = LAUNCHES.get(key)
    if launch is None:
        if len(LAUNCHES) >= MOST_LAUNCHES:
            LAUNCHES.clear()
        launch = LAUNCHES[key] = make(rows.stop - rows.start, relation.contrasts)
    return launch


def label_arguments(relation: Relation) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Classes of anchors and contrasts, who may be a contrast, who may be an anchor: one number after the other."""
    given = (relation.anchor, relation.contrast, relation.usable.view(torch.uint8), relation.labelled.view(torch.uint8))
    anchor, contrast, usable, labelled = (tensor.contiguous() for tensor in given)
    return anchor, contrast, usable, labelled


def own_column(relation: Relation) -> int:
    """What leads from an anchor's row to its own column; to a negative one where it has none."""
    return -relation.anchors if relation.self_offset is None else relation.self_offset


def held_rows(contrasts: int) -> tuple[dict[str, Any], int]:
    """How a program goes through rows of so many logits, as a kernel's constants; and its warps."""
    held = contrasts <= HELD_UP_TO
    block = max(32, triton.next_power_of_2(contrasts)) if held else REREAD
    warps = max(1, block // (32 * (16 if held else 8)))
    return {"BLOCK": block, "HELD": held, "STEPS": NEWTON_STEPS}, warps


def values_launch(rows: int, contrasts: int) -> Launch:
    constants, warps = held_rows(contrasts)
    return Launch(triton_set.set_values_kernel, (rows, 1, 1), constants, warps, 1)


def gradient_launch(rows: int, contrasts: int) -> Launch:
    block = min(GRADIENT_BLOCK, max(32, triton.next_power_of_2(contrasts)))
    grid = (rows, triton.cdiv(contrasts, block), 1)
    return Launch(triton_set.set_gradient_kernel, grid, {"BLOCK": block}, max(1, block // 256), 1)
