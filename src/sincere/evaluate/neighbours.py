"""The k nearest samples by their address among the methods of evaluation; `sincere.nearest` computes them."""

from sincere.nearest.neighbours import (
    PARTS,
    TILE,
    Neighbours,
    Voting,
    choose_k,
    cosine_tiles,
    nearest,
    row_tiles,
    vote,
)

__all__ = ["PARTS", "TILE", "Neighbours", "Voting", "choose_k", "cosine_tiles", "nearest", "row_tiles", "vote"]
