"""From features to embeddings: the projection head, and encoder and head as one model."""

from typing import Literal, TypeAlias, cast

from torch import Tensor, nn

from sincere.checks import check_choice, check_room
from sincere.encoders.shapes import check_batch, check_size
from sincere.errors import OptionError

Layers: TypeAlias = Literal["mlp", "linear", "none"]


class ProjectionHead(nn.Module):
    """Features (b, feature_dim) -> embeddings (b, dim), on which the loss works; not normalised, the losses do that.

    Source: "mlp", two linear layers with a ReLU between them, is the head of SimCLR (Chen et al., 2020, arXiv
    2002.05709, Section 2.1), of SupCon (Khosla et al., 2020, arXiv 2004.11362, Section 3.1) and of SINCERE (Feeney and
    Hughes, 2023, arXiv 2309.14277), which have 2048 → 2048 → 128 behind a ResNet-50.

    Args:
        feature_dim: of the encoder.
        layers: "mlp", "linear" (one layer), or "none" (the features are the embeddings).
        hidden: width between the two layers; that of the features unless said.
        dim: of the embeddings; with "none" that of the features.
    """

    def __init__(self, feature_dim: int, *, layers: Layers = "mlp", hidden: int | None = None, dim: int = 128) -> None:
        super().__init__()
        check_choice("layers", layers, ("mlp", "linear", "none"))
        hidden = feature_dim if hidden is None else hidden
        for name, value in (("feature_dim", feature_dim), ("hidden", hidden), ("dim", dim)):
            check_size(name, value)
        weights = {"mlp": hidden * (feature_dim + dim), "linear": feature_dim * dim, "none": 0}[layers]
        check_room(4 * weights, f"the {weights:,} weights of the head", "Choose a smaller dim or hidden.")
        self.feature_dim, self.dim = feature_dim, feature_dim if layers == "none" else dim
        modules: dict[str, list[nn.Module]] = {
            "mlp": [nn.Linear(feature_dim, hidden), nn.ReLU(), nn.Linear(hidden, dim)],
            "linear": [nn.Linear(feature_dim, dim)],
            "none": [],
        }
        self.layers = nn.Sequential(*modules[layers])

    def forward(self, features: Tensor) -> Tensor:
        check_batch("this head", features, (self.feature_dim,))
        return cast(Tensor, self.layers(features))


class EmbeddingModel(nn.Module):
    """An encoder and a head: a view -> features -> embeddings.

    >>> import torch
    >>> from sincere.encoders import build_encoder
    >>> encoder = build_encoder("mlp", kind="array", shape=(16,), width=32)
    >>> model = EmbeddingModel(encoder, ProjectionHead(encoder.feature_dim, dim=8))
    >>> model(torch.randn(5, 16)).shape, model.features(torch.randn(5, 16)).shape
    (torch.Size([5, 8]), torch.Size([5, 32]))
    """

    def __init__(self, encoder: nn.Module, head: ProjectionHead) -> None:
        super().__init__()
        if getattr(encoder, "feature_dim", None) != head.feature_dim:
            raise OptionError(
                f"the head must take the encoder's features: encoder.feature_dim is "
                f"{getattr(encoder, 'feature_dim', 'missing')}, the head was built for {head.feature_dim}."
            )
        self.encoder, self.head = encoder, head

    def features(self, inputs: Tensor) -> Tensor:
        """The encoder's output, (b, feature_dim): what linear probes and transfer use."""
        return cast(Tensor, self.encoder(inputs))

    def forward(self, inputs: Tensor) -> Tensor:
        """The head's output, (b, dim): what the losses, class means and nearest neighbours use."""
        return cast(Tensor, self.head(self.features(inputs)))
