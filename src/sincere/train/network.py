"""What is trained: the embedding model, and a classifier where the objective has one."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sincere.embeddings.embed import Precision, half_precision, in_layout_of
from sincere.encoders import EmbeddingModel
from sincere.errors import OptionError
from sincere.tables import amount
from sincere.train.config import Objective


class Network(nn.Module):
    """Views (b, v, …) → what the objective needs of them, (b, v, width): embeddings, logits, or both side by side.

    One tensor, so that a batch can be cached chunk by chunk and DDP sees one output.
    """

    def __init__(
        self, model: EmbeddingModel, classifier: nn.Module | None, *, joint: bool, precision: Precision = "fp32"
    ) -> None:
        super().__init__()
        self.model, self.classifier = model, classifier
        self.joint, self.precision = joint, precision

    def forward(self, views: Tensor) -> Tensor:
        samples = views.flatten(0, 1)
        with half_precision(samples.device, self.precision):
            outputs = self.outputs(in_layout_of(self.model, samples))
        return outputs.reshape(*views.shape[:2], -1)

    def outputs(self, samples: Tensor) -> Tensor:
        """What the objective needs of samples (n, …): (n, width)."""
        features = self.model.features(samples)
        embeddings: Tensor = self.model.head(features)
        if self.classifier is None:
            return embeddings
        if not self.joint:
            logits: Tensor = self.classifier(embeddings)
            return logits
        return torch.cat([embeddings, self.classifier(features)], dim=1)


class SimplexClassifier(nn.Module):
    """Logits cos(z, v_c)/τ with class weights v_c that are fixed to the vertices of a regular simplex.

    *Source:* the "CE-fix" baseline of Graf et al., 2021, arXiv 2102.08817. *Conventions:* embeddings are normalised
    and the temperature takes the place of their radius. K classes need K − 1 dimensions. The simplex lies at random:
    features behind a ReLU could never come near a vertex that has no positive coordinate. *Differs from:* the authors'
    code takes inner products with embeddings as they are.
    """

    vertices: Tensor

    def __init__(self, dim: int, classes: int, *, temperature: float) -> None:
        super().__init__()
        self.temperature = temperature
        self.register_buffer("vertices", turned_at_random(simplex_vertices(classes, dim), rank=classes - 1))

    def forward(self, embeddings: Tensor) -> Tensor:
        return F.normalize(embeddings.float(), dim=1) @ self.vertices.T / self.temperature


def simplex_vertices(classes: int, dim: int) -> Tensor:
    """Unit vectors (classes, dim), any two at cosine −1/(classes − 1).

    >>> torch.round(simplex_vertices(3, 4) @ simplex_vertices(3, 4).T, decimals=4).tolist()
    [[1.0, -0.5, -0.5], [-0.5, 1.0, -0.5], [-0.5, -0.5, 1.0]]
    """
    if classes < 2 or dim < classes - 1:
        raise OptionError(
            f"a regular simplex of {amount(classes, 'class', 'classes')} needs at least "
            f"{amount(max(classes - 1, 1), 'dimension')} and two classes: got {amount(dim, 'dimension')}. Set head.dim."
        )
    # Row k of Helmert's matrix: k ones, −k, zeros. Its rows span what is orthogonal to (1, …, 1): the simplex's space.
    helmert = torch.ones(classes - 1, classes, dtype=torch.float64).tril()
    rows = torch.arange(1, classes, dtype=torch.float64)
    helmert[torch.arange(classes - 1), torch.arange(1, classes)] = -rows
    vertices = F.normalize(helmert / (rows * (rows + 1)).sqrt().unsqueeze(1), dim=0).T
    return F.pad(vertices, (0, dim - classes + 1)).float()


def turned_at_random(vectors: Tensor, *, rank: int) -> Tensor:
    """Vectors (n, d) with the same inner products; those that come are zero from coordinate `rank` on."""
    basis, _ = torch.linalg.qr(torch.randn(vectors.shape[1], rank, dtype=torch.float64, device="cpu"))
    turned: Tensor = vectors[:, :rank].double() @ basis.T
    return turned.float()


def build_classifier(objective: Objective, model: EmbeddingModel, classes: int, temperature: float) -> nn.Module | None:
    """The classifier that an objective needs: on features beside a contrastive loss, on embeddings alone."""
    if objective == "contrastive":
        return None
    if objective == "fixed_simplex":
        return SimplexClassifier(model.head.dim, classes, temperature=temperature)
    return nn.Linear(model.head.feature_dim if objective == "joint" else model.head.dim, classes)
