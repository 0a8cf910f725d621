"""A column of a table while it is read: many short texts in few objects."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple, overload

import numpy as np
import numpy.typing as npt

SHORT = 32  # characters on average up to which texts are put together


class Joined(NamedTuple):
    """Texts one after another, and where each ends."""

    text: str
    ends: npt.NDArray[np.unsignedinteger]

    def apart(self) -> list[str]:
        ends = self.ends.tolist()
        return [self.text[start:end] for start, end in zip([0, *ends[:-1]], ends, strict=True)]


class TextColumn(Sequence[str]):
    """Texts in pieces of one size, which only the last may fall short of.

    A Python string of ten digits takes 59 bytes, and eight more in a list. Short texts are kept joined instead, and cut
    out when they are asked for; longer ones, and those that are not ASCII, gain nothing by it and stay as they are.
    """

    def __init__(self, piece: int) -> None:
        self.piece, self.length = piece, 0
        self.pieces: list[Joined | list[str]] = []

    def append_piece(self, texts: Sequence[str]) -> None:
        assert self.length % self.piece == 0, "only the last piece may be a short one"
        text = "".join(texts)
        if text.isascii() and len(text) <= SHORT * len(texts):
            ends = np.cumsum(np.fromiter(map(len, texts), np.int64, len(texts)))
            self.pieces.append(Joined(text, ends.astype(np.min_scalar_type(len(text)))))
        else:
            self.pieces.append(list(texts))
        self.length += len(texts)

    def __len__(self) -> int:
        return self.length

    def __iter__(self) -> Iterator[str]:
        for piece in self.pieces:
            yield from piece.apart() if isinstance(piece, Joined) else piece

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        if isinstance(index, slice):
            return [self[place] for place in range(*index.indices(self.length))]
        number, place = divmod(range(self.length)[index], self.piece)
        piece = self.pieces[number]
        if not isinstance(piece, Joined):
            return piece[place]
        return piece.text[int(piece.ends[place - 1]) if place else 0 : int(piece.ends[place])]
