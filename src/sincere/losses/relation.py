"""Which contrasts are positives of which anchor: the only place where labels become pairs.

For anchor t and contrast a, the weight w_ta ≥ 0 says how much a is a positive of t.
A(t) = usable contrasts other than t itself, P(t) = {a ∈ A: w_ta > 0}, N(t) = {a ∈ A: w_ta = 0}.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, cast

import torch
from torch import Tensor

NO_SELF = -1
LAST = torch.iinfo(torch.int64).max  # kernels sort what takes no part behind everything else by this key
Kind = Literal["classes", "any", "jaccard", "per_label", "soft", "pairs", "numbers"]


@dataclass(frozen=True)
class Relation:
    """Labels of n anchors and m contrasts, in the form that `weights` needs.

    kind "classes": (n,) and (m,) class numbers. "any", "jaccard", "per_label": (n, classes) and (m, classes) of 0 and
    1. "soft": unit rows, (n, classes) and (m, classes). "pairs": anchor holds the (n, m) weights themselves. "numbers":
    (n, k) and (m, k), between which there are distances and no `weights`.
    """

    kind: Kind
    anchor: Tensor
    contrast: Tensor
    usable: Tensor  # (m,) or (n, m): may this contrast take part at all
    labelled: Tensor  # (n,): may this sample be an anchor
    self_offset: int | None  # anchor t is contrast t + self_offset; None: no anchor is among the contrasts
    negative_bias: Tensor | None = None  # (m,): added to a contrast's logits where it is a negative

    @classmethod
    def from_arguments(
        cls, anchor: Tensor, contrast: Tensor, usable: Tensor, labelled: Tensor, kind: str, self_offset: int
    ) -> "Relation":
        """The relation with these `arguments`."""
        offset = None if self_offset == NO_SELF else self_offset
        return cls(cast(Kind, kind), anchor, contrast, usable, labelled, offset)

    def arguments(self) -> tuple[Tensor, Tensor, Tensor, Tensor, str, int]:
        """The fields as an operator of torch.library takes them: tensors, strings and integers, and no None."""
        offset = NO_SELF if self.self_offset is None else self.self_offset
        return self.anchor, self.contrast, self.usable, self.labelled, self.kind, offset

    @property
    def anchors(self) -> int:
        return self.labelled.shape[0]

    @property
    def contrasts(self) -> int:
        return self.usable.shape[-1]

    def weights(self, rows: slice | None = None) -> Tensor:
        """w for the anchors in `rows`, or for all: (r, m), boolean where every positive weighs alike."""
        rows = slice(None) if rows is None else rows  # no slice as a default: torch 2.11's compiler cannot trace one
        others = self.others(rows)
        if self.kind == "per_label":
            weights = shared_label_shares(self.anchor[rows], self.contrast, self.self_offset is not None)
        else:
            weights = _WEIGHTS[self.kind](self.anchor[rows], self.contrast)
        usable = others & self.labelled[rows].unsqueeze(1)
        return weights & usable if weights.dtype == torch.bool else torch.where(usable, weights, 0)

    def others(self, rows: slice | None = None) -> Tensor:
        """A(t) for the anchors in `rows`, or for all, as a boolean mask (r, m)."""
        rows = slice(None) if rows is None else rows
        # Not rows.indices(…): torch.compile would then compile anew for every number of anchors.
        start = 0 if rows.start is None else rows.start
        stop = start + self.labelled[rows].shape[0]
        usable = self.usable[rows] if self.usable.ndim == 2 else self.usable.expand(stop - start, -1)
        if self.self_offset is None:
            return usable
        return usable & ~self.is_self(start, stop)

    def is_self(self, start: int, stop: int) -> Tensor:
        """Which contrast is the anchor itself, for anchors start..stop."""
        assert self.self_offset is not None
        own = torch.arange(start + self.self_offset, stop + self.self_offset, device=self.usable.device)
        return own.unsqueeze(1) == torch.arange(self.contrasts, device=self.usable.device)


def exchanged(labels: Tensor, ignore_label: int) -> Tensor:
    """Labels in which unlabelled samples and the class LAST, if there is one, have swapped their numbers. Positives
    stay the same, and no class has the number by which kernels sort rows that take no part."""
    return torch.where(labels == ignore_label, LAST, torch.where(labels == LAST, ignore_label, labels))


def compact_ids(labels: Tensor) -> Tensor:
    """Class numbers renamed to numbers from 0 to n − 1, in sorted order: each is the place of its class's first member
    among the sorted labels."""
    ordered, _ = labels.sort()
    return torch.searchsorted(ordered, labels)


def same_class(anchor: Tensor, contrast: Tensor) -> Tensor:
    return anchor.unsqueeze(1) == contrast.unsqueeze(0)


def shares_a_label(anchor: Tensor, contrast: Tensor) -> Tensor:
    return anchor @ contrast.T > 0


def jaccard_index(anchor: Tensor, contrast: Tensor) -> Tensor:
    """|y_t ∩ y_a| / |y_t ∪ y_a|."""
    shared = anchor @ contrast.T
    union = anchor.sum(dim=1, keepdim=True) + contrast.sum(dim=1) - shared
    return torch.where(shared > 0, shared / torch.where(union > 0, union, 1), 0)


def shared_label_shares(anchor: Tensor, contrast: Tensor, among_contrasts: bool) -> Tensor:
    """Σ 1/|P_l(t)| over the labels l that t and a share; P_l(t) are t's others that carry l.

    So a weighted mean over P(t) is the mean, over t's labels, of the mean over the members of each. Contrasts that take
    no part carry no label here, so |P_l(t)| is how many contrasts carry l, without t where t is `among_contrasts`.
    """
    members = contrast.sum(dim=0) - (1 if among_contrasts else 0)
    return (anchor / members.clamp(min=1)) @ contrast.T


def label_similarity(anchor: Tensor, contrast: Tensor) -> Tensor:
    return anchor @ contrast.T


def given_weights(weights: Tensor, contrast: Tensor) -> Tensor:
    return weights


_WEIGHTS: dict[Kind, Callable[[Tensor, Tensor], Tensor]] = {
    "classes": same_class,
    "any": shares_a_label,
    "jaccard": jaccard_index,
    "soft": label_similarity,
    "pairs": given_weights,
}
