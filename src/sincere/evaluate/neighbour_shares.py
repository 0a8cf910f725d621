"""Which of a gallery are the k nearest of each query, where those that are equally near share the last places."""

from collections.abc import Iterator

import torch
from torch import Tensor

from sincere.checks import is_integral
from sincere.errors import OptionError
from sincere.nearest.cosines import comparable
from sincere.nearest.neighbours import cosine_tiles


def neighbour_shares(queries: Tensor, gallery: Tensor, *, k: int) -> Iterator[tuple[slice, Tensor]]:
    """For blocks of queries, each gallery sample's place among the k nearest by cosine, (block, m): 1, 0, or a share;
    float64, as thirds in float32 add up to another whole with every order.

    Every row adds up to k. If g samples have exactly the k-th cosine and the k have room for r of them, each of the g
    has r/g, so that the order of the gallery makes no difference.
    """
    if not is_integral(k) or not 1 <= k <= gallery.shape[0]:
        raise OptionError(f"k must be a whole number between 1 and the {gallery.shape[0]} references: got {k!r}.")
    queries, known = comparable(queries, gallery)
    for tile, cosines in cosine_tiles(queries, known):
        last = cosines.topk(k, dim=1).values[:, -1:]
        nearer, tied = cosines > last, cosines == last
        room = k - nearer.sum(dim=1, keepdim=True)
        yield tile, torch.where(tied, room.double() / tied.sum(dim=1, keepdim=True), nearer.double())
