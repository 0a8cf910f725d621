"""An encoder of texts that trains from scratch: a bag of hashed pieces for each word, neighbours, and two poolings."""

import torch
from torch import Tensor, nn

from sincere.checks import is_number
from sincere.encoders.pooling import largest_of_sequence
from sincere.encoders.shapes import check_batch, check_shape, check_size
from sincere.errors import OptionError


class TextEncoder(nn.Module):
    """Texts as whole numbers (b, words, pieces), 0 for nothing -> features (b, width).

    A word's vector is the sum of its pieces' vectors over √(their number), plus what a convolution makes of it and its
    two neighbours. A text is two things side by side: the mean of its words, weighted by a softmax over one learned
    score each, and their maximum, dimension by dimension: what it is about, and the most telling thing in it.

    Args:
        shape: (words, pieces) of one text.
        width: of the features.
        dim: of a word's vector.
        rows: of the table of pieces' vectors; numbers beyond it are folded back, so it may be smaller than the data's.
        rate: how fast pieces' vectors learn beside the other layers. Adam moves every row by about the learning rate,
            however rarely its piece occurs: the fewer texts there are, the more rare pieces learn them by heart.
    """

    def __init__(
        self, shape: tuple[int, ...], *, width: int = 256, dim: int = 128, rows: int = 2**16, rate: float = 0.3
    ) -> None:
        super().__init__()
        check_shape("text", shape, ("words", "pieces"))
        for name, value, least in (("width", width, 1), ("dim", dim, 1), ("rows", rows, 2)):
            check_size(name, value, least)
        if not is_number(rate) or not 0 < rate <= 10:
            raise OptionError(f"rate must be above 0 and at most 10: got {rate!r}. 1 is the speed of the other layers.")
        self.rows, self.rate, self.feature_dim = rows, rate, width
        self.pieces = nn.EmbeddingBag(rows, dim, mode="sum", padding_idx=0)
        self.neighbours = nn.Conv1d(dim, dim, 3, padding=1)
        self.score = nn.Linear(dim, 1)
        self.layers = nn.Sequential(nn.LayerNorm(2 * dim), nn.Linear(2 * dim, width), nn.ReLU())
        # Near 0, so that pieces that were never seen in training say nothing.
        nn.init.normal_(self.pieces.weight, std=0.001 / rate)
        with torch.no_grad():
            self.pieces.weight[0] = 0.0

    def forward(self, texts: Tensor) -> Tensor:
        check_batch("this text encoder", texts, ("words", "pieces"), floating=False)
        words, present = self.word_vectors(texts)
        around = self.neighbours(words.transpose(1, 2)).transpose(1, 2)
        words = words + around.relu()
        features: Tensor = self.layers(torch.cat([self.weighted_mean(words, present), maximum(words, present)], dim=1))
        return features

    def word_vectors(self, texts: Tensor) -> tuple[Tensor, Tensor]:
        """Vectors (b, words, dim), and whether there is a word, (b, words, 1)."""
        texts = texts if texts.dtype in (torch.int32, torch.int64) else texts.long()  # short ones cannot count rows
        b, words, pieces = texts.shape
        numbers = ((texts - 1) % (self.rows - 1) + 1).masked_fill(texts <= 0, 0)
        if torch.compiler.is_exporting():  # ONNX has no bags; row 0 is 0, so that a plain sum is the same
            sums = nn.functional.embedding(numbers, self.pieces.weight).sum(dim=2)
        else:
            sums = self.pieces(numbers.reshape(b * words, pieces)).reshape(b, words, self.pieces.embedding_dim)
        count = (texts > 0).sum(dim=2, keepdim=True)
        return self.rate * sums / count.clamp(min=1).sqrt(), count > 0

    def weighted_mean(self, words: Tensor, present: Tensor) -> Tensor:
        """(b, dim); 0 for a text without words."""
        # Not −∞: softmax over nothing but that is NaN, and so is its gradient.
        scores = self.score(words).masked_fill(~present, torch.finfo(words.dtype).min)
        weights: Tensor = scores.softmax(dim=1).masked_fill(~present, 0.0)
        return (weights * words).sum(dim=1)


def maximum(words: Tensor, present: Tensor) -> Tensor:
    """(b, dim); 0 for a text without words."""
    largest = largest_of_sequence(words.masked_fill(~present, torch.finfo(words.dtype).min))
    return largest.masked_fill(~present.any(dim=1), 0.0)
