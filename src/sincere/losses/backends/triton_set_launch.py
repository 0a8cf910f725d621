"""The set loss by kernels: blocks of logits, a launch for each, and nothing that waits for the device."""

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
            s = anchors[rows] @ contrasts.T
            launch = values_launch(s.shape[0], m)
            launch(s, *labels, values, k, numbers, rows.start, n, m, own_column(relation))
    return values, k, numbers


def backward(
    anchors: Tensor, contrasts: Tensor, relation: Relation, numbers: Tensor, grad: Tensor
) -> tuple[Tensor, Tensor]:
    """∂L/∂anchors and ∂L/∂contrasts."""
    n, m = relation.anchors, relation.contrasts
    if m == 0:
        return torch.zeros_like(anchors), torch.zeros_like(contrasts)
    anchor_grad, contrast_grad = torch.empty_like(anchors), torch.zeros_like(contrasts)
    labels = label_arguments(relation)
    with on_device_of(anchors):
        for rows in row_blocks(relation):
            s = anchors[rows] @ contrasts.T
            launch = gradient_launch(s.shape[0], m)
            launch(s, *labels[:3], grad, numbers, rows.start, n, m, own_column(relation))
            torch.mm(s, contrasts, out=anchor_grad[rows])
            contrast_grad.addmm_(s.T, anchors[rows])
    return anchor_grad, contrast_grad


def label_arguments(relation: Relation) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Classes of anchors and contrasts, who may be a contrast, who may be an anchor: one number after the other."""
    given = (relation.anchor, relation.contrast, relation.usable.view(torch.uint8), relation.labelled.view(torch.uint8))
    anchor, contrast, usable, labelled = (tensor.contiguous() for tensor in given)
    return anchor, contrast, usable, labelled


def own_column(relation: Relation) -> int:
    """What leads from an anchor's row to its own column; to a negative one where it has none."""
    return -relation.anchors if relation.self_offset is None else relation.self_offset


def values_launch(rows: int, contrasts: int) -> Launch:
    held = contrasts <= HELD_UP_TO
    block = max(32, triton.next_power_of_2(contrasts)) if held else REREAD
    warps = max(1, block // (32 * (16 if held else 8)))
    constants = {"BLOCK": block, "HELD": held, "STEPS": NEWTON_STEPS}
    return Launch(triton_set.set_values_kernel, (rows, 1, 1), constants, warps, 1)


def gradient_launch(rows: int, contrasts: int) -> Launch:
    block = min(GRADIENT_BLOCK, max(32, triton.next_power_of_2(contrasts)))
    grid = (rows, triton.cdiv(contrasts, block), 1)
    return Launch(triton_set.set_gradient_kernel, grid, {"BLOCK": block}, max(1, block // 256), 1)
