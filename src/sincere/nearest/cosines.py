"""Cosines of queries with a gallery. Samples that are equally near get exactly equal ones, wherever they stand.

A product of matrices does not promise that: the last columns, or all columns of a block of few rows, may be summed in
another order, and two copies of one vector then differ in their last bit. So copies take the cosine of the first of
them, and rows of whole numbers, such as codes of ±1 or counts, are multiplied exactly and rounded once.
"""

from dataclasses import dataclass
from functools import reduce

import torch
from torch import Tensor

from sincere.checks import shape_of
from sincere.errors import InputError
from sincere.losses.similarity import unit_rows

BITS = {2: torch.int16, 4: torch.int32, 8: torch.int64}  # the integers of as many bytes
CELLS = 2**20  # numbers looked at at once
GLANCE = 16  # rows or columns that tell nearly always that there are no whole numbers, and no copies


@dataclass(frozen=True)
class Cosines:
    """All that a block of queries needs. `inverse_norms` are None where rows have norm one."""

    queries: Tensor  # (n, d)
    gallery: Tensor  # (m, d)
    again: Tensor | None = None  # (c,) gallery rows that equal one before
    first: Tensor | None = None  # (c,) the first of their kind
    inverse_norms: tuple[Tensor, Tensor] | None = None  # float64 (n,) and (m,), of rows that are whole numbers

    def of(self, block: slice) -> Tensor:
        """Cosines of a block of the queries with the whole gallery."""
        products = self.queries[block] @ self.gallery.T
        if self.inverse_norms is not None:
            here, there = self.inverse_norms
            return products.double().mul_(there).mul_(here[block].unsqueeze(1)).to(products.dtype)
        if self.again is not None and self.first is not None:
            products[:, self.again] = products[:, self.first]
        return products


def comparable(queries: Tensor, gallery: Tensor | None) -> tuple[Tensor, Tensor | None]:
    """Both in one precision, float32 at least: with the few digits of half precision many neighbours would tie."""
    rows = {"queries": queries} if gallery is None else {"queries": queries, "gallery": gallery}
    for name, found in rows.items():
        if not isinstance(found, Tensor) or found.ndim != 2 or not found.is_floating_point():
            came = f"{found.dtype}, {shape_of(found)}" if isinstance(found, Tensor) else type(found).__name__
            raise InputError(
                f"{name} must be a floating-point tensor of shape (n, d): got {came}. Of several views (b, v, d) "
                "pass one, [:, 0]."
            )
    precision = reduce(torch.promote_types, (found.dtype for found in rows.values()), torch.float32)
    return queries.to(precision), None if gallery is None else gallery.to(precision)


def prepared(queries: Tensor, gallery: Tensor | None) -> Cosines:
    """What the cosines of queries with a gallery need; with each other, where there is no gallery."""
    whole = _whole(queries)
    exact = whole if whole is None or gallery is None else _whole(gallery)
    if whole is not None and exact is not None and (found := _exactly(whole, exact)) is not None:
        return found
    rows = unit_rows(queries)
    again, first = copies(queries if gallery is None else gallery)
    return Cosines(rows, rows if gallery is None else unit_rows(gallery), again, first)


def copies(vectors: Tensor) -> tuple[Tensor, Tensor] | tuple[None, None]:
    """Places of the rows that have the direction of a row before, digit for digit, and places of the first of each."""
    largest = _largest(vectors)
    kind, counts = torch.unique(_keys(vectors[:, :GLANCE] / largest), return_inverse=True, return_counts=True)[1:]
    places = (counts[kind] > 1).nonzero().flatten()  # the others differ from all in a few columns already
    if not places.numel():
        return None, None
    rows = vectors[places] / largest[places]
    first = _first(torch.unique(_keys(rows), return_inverse=True)[1])
    if not torch.equal(rows[first], rows):  # two rows have one key by chance
        first = _first(torch.unique(rows, dim=0, return_inverse=True)[1])
    again = (first != torch.arange(len(first), device=first.device)).nonzero().flatten()
    return places[again], places[first[again]]


def _keys(rows: Tensor) -> Tensor:
    """A number for each row, made of all its bits by whole numbers, so that equal rows have equal ones anywhere."""
    generator = torch.Generator().manual_seed(0)
    factors = torch.randint(-(2**63), 2**63 - 1, (rows.shape[1],), generator=generator, device="cpu").to(rows.device)
    bits = (rows + 0.0).view(BITS[rows.element_size()])  # −0 + 0 is 0
    return torch.cat([(part * factors).sum(dim=1) for part in bits.tensor_split(1 + bits.numel() // CELLS)])


def _first(kind: Tensor) -> Tensor:
    """For each row the place of the first of its kind."""
    places = torch.arange(len(kind), device=kind.device)
    return places.scatter_reduce(0, kind, places, "amin", include_self=False)[kind]


def _largest(vectors: Tensor) -> Tensor:
    """The size of every row's largest entry, (n, 1); 1 for a row of zeros. A row divided by it has the same direction,
    and multiples of one row, as long as they hold all its digits, become equal."""
    # A tenth of the time of `abs().amax()`, which makes a copy of everything.
    largest = torch.maximum(vectors.amax(dim=1, keepdim=True), -vectors.amin(dim=1, keepdim=True))
    return torch.where(largest > 0, largest, 1)


def _whole(vectors: Tensor) -> Tensor | None:
    """The rows in whole numbers, as they are or divided by their largest entry; None where that leaves fractions."""
    for some in (vectors[:GLANCE], vectors):
        if torch.equal(some, some.round()):
            found = some
        else:
            found = some / _largest(some)
            if not torch.equal(found, found.round()):
                return None
    return found


def _exactly(queries: Tensor, gallery: Tensor) -> Cosines | None:
    """Of whole numbers, if they are so small that no sum of their products is rounded."""
    squares = [rows.square().sum(dim=1, dtype=torch.float64) for rows in (queries, gallery)]
    most = 2 / torch.finfo(queries.dtype).eps  # from here on whole numbers have gaps
    if not queries.numel() or not gallery.numel() or float(squares[0].max() * squares[1].max()) > most**2:
        return None
    here, there = (torch.where(found > 0, found, torch.inf).rsqrt() for found in squares)
    return Cosines(queries, gallery, inverse_norms=(here, there))
