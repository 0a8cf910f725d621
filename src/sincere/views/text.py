"""Stages for texts: whole numbers (n, words, pieces), each a hashed piece of a word, 0 where there is nothing."""

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from sincere.views.stages import Shape, Stage, check_share


@dataclass(frozen=True)
class WordDropout(Stage):
    """Each word left out, all its pieces at once, with probability `share`; at least one word stays."""

    share: float = 0.1
    name: ClassVar[str] = "words"

    def __post_init__(self) -> None:
        check_share("share", self.share)

    def numbers(self, shape: Shape) -> int:
        return shape[0]

    def __call__(self, samples: Tensor, numbers: Tensor) -> Tensor:
        present = (samples != 0).any(dim=2)
        ranked = numbers.masked_fill(~present, -1.0)
        kept = (ranked >= self.share) | (ranked == ranked.amax(dim=1, keepdim=True))
        return samples * kept.unsqueeze(2)


@dataclass(frozen=True)
class PieceDropout(Stage):
    """Each piece of each word left out with probability `share`, so that no spelling is relied upon alone; of a text at
    least one piece stays.

    Nothing is left out where words have one piece, as tokens have: `WordDropout` does that, and leaves a word at least.
    """

    share: float = 0.1
    name: ClassVar[str] = "pieces"

    def __post_init__(self) -> None:
        check_share("share", self.share)

    def numbers(self, shape: Shape) -> int:
        return shape[0] * shape[1] if shape[1] > 1 else 0

    def __call__(self, samples: Tensor, numbers: Tensor) -> Tensor:
        if samples.shape[2] == 1:
            return samples
        ranked = numbers.reshape(samples.shape).masked_fill(samples == 0, -1.0)
        kept = (ranked >= self.share) | (ranked == ranked.amax(dim=(1, 2), keepdim=True))
        return samples * kept
