"""How to build a model around its weights, and how to prepare its inputs: what `model.json` of a run holds."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import torch

from sincere.data import Form
from sincere.encoders import EmbeddingModel, ProjectionHead, build_encoder, seeded
from sincere.encoders.external import without_starting_weights
from sincere.encoders.head import Layers
from sincere.errors import InputError
from sincere.views import StagedViews, Statistics, build_views

FORMAT = "sincere.model/1"


@dataclass(frozen=True)
class ModelDescription:
    """Everything about a model but its weights.

    form: of the data it was made for. inputs_shape: of what the encoder takes, which differs from the form's shape
    where views change the size, and where an encoder has a tokenizer of its own.
    """

    form: Form
    class_names: tuple[str, ...]
    statistics: Statistics
    encoder: str
    inputs_shape: tuple[int, ...]
    encoder_options: dict[str, Any] = field(default_factory=dict)
    head_layers: Layers = "mlp"
    head_hidden: int | None = None
    dim: int = 128
    views: str = "none"
    views_options: dict[str, Any] = field(default_factory=dict)
    data: str = ""

    def __post_init__(self) -> None:
        # A description may come from a file that somebody edited: what follows would fail far from its cause.
        whole = all(isinstance(side, int) and side > 0 for side in self.inputs_shape)
        if not whole or not self.inputs_shape:
            raise InputError(f"inputs_shape must hold whole numbers from 1: got {self.inputs_shape!r}.")
        for name, kind in (("encoder", str), ("views", str), ("encoder_options", dict), ("views_options", dict)):
            if not isinstance(value := getattr(self, name), kind):
                raise InputError(f"{name} of a model's description must be a {kind.__name__}: got {value!r}.")

    def build_model(self, generator: torch.Generator | None = None, *, weights_follow: bool = False) -> EmbeddingModel:
        """The model with fresh weights, drawn from the generator, or those that its encoder's options name.

        `weights_follow`: all of them will be replaced, so that nothing is downloaded or read for them.
        """
        options = dict(self.encoder_options)
        if weights_follow:
            options = without_starting_weights(self.encoder, options)
        if self.encoder == "sound":
            options.setdefault("sample_rate", self.form.sample_rate)
        encoder = build_encoder(
            self.encoder, kind=self.form.kind, shape=self.inputs_shape, generator=generator, **options
        )
        features = int(encoder.feature_dim)  # type: ignore[arg-type]  # every encoder has it
        with seeded(generator):
            head = ProjectionHead(features, layers=self.head_layers, hidden=self.head_hidden, dim=self.dim)
        return EmbeddingModel(encoder, head)

    def build_views(self) -> StagedViews:
        """The views that it was trained with; `plain` of them prepares inputs."""
        return build_views(self.views, kind=self.form.kind, statistics=self.statistics, **self.views_options)

    def to_json(self) -> dict[str, Any]:
        """What `json.dumps` takes."""
        return {"format": FORMAT, **asdict(self), "statistics": self.statistics.to_json()}

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> "ModelDescription":
        """The inverse of `to_json`."""
        if record.get("format") != FORMAT:
            raise InputError(f"a model's description must have the format {FORMAT!r}: got {record.get('format')!r}.")
        values = {name: value for name, value in record.items() if name != "format"}
        try:
            form = dict(values.pop("form"))
            return cls(
                form=Form(**{**form, "shape": tuple(form["shape"])}),
                class_names=tuple(values.pop("class_names")),
                statistics=Statistics.from_json(values.pop("statistics")),
                inputs_shape=tuple(values.pop("inputs_shape")),
                **values,
            )
        except InputError:
            raise
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(f"this is not a complete description of a model: {error!r}.") from error
