"""How many neighbours vote where nobody says: what serves other samples best, or as many as the classes allow."""

from collections.abc import Iterator, Mapping

import torch
from torch import Tensor

from sincere.nearest.neighbours import Voting, choose_k, nearest
from sincere.tables import amount, such_as

DEFAULT_K = 20
K_CANDIDATES = (1, 3, 5, 10, 20, 50, 100, 200)
LOWERED = "default, lowered because classes are small"


def default_k(counts: Tensor) -> int:
    """20, or fewer where classes are small; `counts` is how many of each class there are to find.

    Of k neighbours at most R can be of a class that has R samples: the others vote for somebody else however good the
    embeddings are, and beyond k = 2R they outvote a class that came first as a whole. So k is at most the R that three
    quarters of the classes have; with few classes, all but the smallest. That one must not decide for all, since few
    neighbours make an unsteady vote, yet it should be able to win: k comes down to 2R of a small class (the lower
    tenth; the smallest of fewer than ten) where that takes no more than half of it. Classes with nothing to find do not
    count.
    """
    sizes = sorted(int(count) for count in counts.tolist() if count > 0)
    if not sizes:
        return 1
    usual, small = sizes[min(len(sizes) - 1, max(1, len(sizes) // 4))], sizes[len(sizes) // 10]
    k = min(DEFAULT_K, usual)
    return min(k, 2 * small) if 4 * small >= k else k


def settled_k(
    given: int | None,
    gallery: Tensor,
    labels: Tensor,
    held_out: tuple[Tensor, Tensor] | None,
    *,
    classes: int,
    voting: Voting = "count",
) -> tuple[int, str]:
    """How many neighbours vote, and who said so: the caller, samples held out for it with their labels, the classes."""
    if given is not None:
        return min(given, len(labels)), "given"
    if held_out is not None:
        near = nearest(held_out[0], gallery, labels, k=min(max(K_CANDIDATES), len(labels)))
        k = choose_k(near, held_out[1], K_CANDIDATES, classes=classes, voting=voting)
        return k, "chosen on the validation set"
    k = default_k(torch.bincount(labels))
    return k, k_origin(k)


def k_origin(k: int) -> str:
    """What a record says of a k that nobody gave."""
    return "default" if k == DEFAULT_K else LOWERED


def k_words(k: int, origin: object) -> str:
    """For a title: `k = 20`, or `k = 5, small classes` where it was lowered."""
    return f"k = {k}, small classes" if origin == LOWERED else f"k = {k}"


def k_notes(k: int, origin: object, counts: Mapping[str, int], *, one: str) -> Iterator[str]:
    """Why k is what it is, and for which classes it is too large. `one` is what there is to find: a training sample."""
    found = {name: count for name, count in counts.items() if count > 0}
    if origin == LOWERED and len(found) > 1:  # one class alone cannot be outvoted
        least, most = min(found.values()), max(found.values())
        sizes = f"{amount(most, one)} each" if least == most else f"{least:,} to {amount(most, one)} each"
        yield (
            f"k-NN has k = {k} instead of {DEFAULT_K} because {'' if least == most else 'some '}classes are small "
            f"({sizes}): further neighbours would be of other classes, and could outvote them"
        )
    short = [name for name, count in found.items() if 2 * count < k]
    if short:
        have = "has" if len(short) == 1 else "have"
        yield (
            f"{amount(len(short), 'class', 'classes')} {have} fewer {one}s than half of k = {k}, and can be outvoted "
            f"even where all of them are nearest{such_as(short)} with {found[short[0]]}"
        )
