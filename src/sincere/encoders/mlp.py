"""A multi-layer perceptron for arrays of features."""

from torch import Tensor, nn

from sincere.checks import check_flag
from sincere.encoders.shapes import DEEPEST, check_batch, check_shape, check_size


class MLP(nn.Module):
    """Linear layers with batch normalisation and ReLU: arrays (b, features) -> features (b, width).

    Args:
        shape: (features,).
        width: of every layer.
        depth: number of layers.
        residual: add each layer's input to its output, from the second layer on.
    """

    def __init__(self, shape: tuple[int, ...], *, width: int = 256, depth: int = 3, residual: bool = False) -> None:
        super().__init__()
        check_shape("mlp", shape, ("features",))
        check_size("width", width)
        check_size("depth", depth, most=DEEPEST)
        check_flag("residual", residual)
        self.features, self.residual, self.feature_dim = shape[0], residual, width
        self.layers = nn.ModuleList(_layer(width if number else shape[0], width) for number in range(depth))

    def forward(self, arrays: Tensor) -> Tensor:
        check_batch("this mlp", arrays, (self.features,))
        hidden = arrays
        for number, layer in enumerate(self.layers):
            result = layer(hidden)
            hidden = hidden + result if self.residual and number else result
        return hidden


def _layer(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(inputs, outputs, bias=False), nn.BatchNorm1d(outputs), nn.ReLU())
