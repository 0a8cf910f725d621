"""A trained model back from its run, taking inputs as people have them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from sincere.checks import meant_beside, shape_of
from sincere.data import Form, LabelledData, hash_texts
from sincere.data.arrays import array_of
from sincere.data.conversion import check_unmasked
from sincere.data.named_columns import names_of_columns, places_of_columns
from sincere.defaults import usual_defaults
from sincere.embeddings.arrays import writable
from sincere.embeddings.description import ModelDescription
from sincere.embeddings.embed import Precision, device_of, embed, embed_inputs, embed_views, tokenized
from sincere.embeddings.embedding_set import EmbeddingSet
from sincere.embeddings.identity import model_fingerprint, other_model
from sincere.embeddings.nearest_class import check_rule, nearest_class
from sincere.embeddings.prediction import Method, Prediction
from sincere.embeddings.references import OR_GIVE, References, references_of
from sincere.encoders import EmbeddingModel
from sincere.errors import InputError
from sincere.runs import RunFolder, load_weights, model_description
from sincere.runs.tensor_files import load_into
from sincere.tables import amount
from sincere.views import StagedViews

RawInputs: TypeAlias = "Tensor | np.ndarray[Any, Any] | Sequence[str]"
FROM_FILES = (
    " Files are read as for training by sincere.data.read_data(PATH, form=model.description.form, labels='optional'), "
    "and what that gives first goes into model.embed or model.predict."
)


@dataclass(frozen=True, eq=False)
class LoadedModel:
    """A model in evaluation mode, with the preparation of its inputs.

    Call it on raw inputs (uint8 images, feature arrays, texts, waveforms) for their embeddings, (n, d) float32, as the
    head gives them: normalise where only directions matter. `predict` tells their classes. `embed` takes labelled data
    and gives an EmbeddingSet.
    """

    model: EmbeddingModel
    views: StagedViews
    description: ModelDescription
    run: Path | None = None  # the folder that it came from

    @property
    def class_names(self) -> tuple[str, ...]:
        """The classes that it was trained on."""
        return self.description.class_names

    def __repr__(self) -> str:
        """What it is, not what is in it: the layers are in `model`."""
        about, names = self.description, self.class_names
        form = f"{about.form.kind} {'×'.join(map(str, about.form.shape))}"
        size = amount(sum(weights.numel() for weights in self.model.parameters()), "parameter")
        classes = f"{amount(len(names), 'class', 'classes')}, {', '.join(names[:3])}{', …' if len(names) > 3 else ''}"
        where = "" if self.run is None else f"; run {str(self.run)!r}"
        return f"LoadedModel({about.encoder}, {size}; {form} → {self.model.head.dim} dimensions; {classes}{where})"

    @cached_property
    def references(self) -> References:
        """The run's training samples, by which classes are told, and its validation samples.

        From the run where it kept their embeddings; otherwise its data is read and embedded, once, and kept there.
        """
        if self.run is None:
            raise InputError(
                "classes are told by the training samples of a run, and this model was not loaded from one. Load it, "
                f"{OR_GIVE}."
            )
        return references_of(RunFolder(self.run), self.embed)

    @usual_defaults()
    def predict(
        self,
        inputs: "RawInputs | LabelledData | EmbeddingSet",
        *,
        method: Method = "class_means",
        k: int | None = None,
        top: int = 5,
        references: EmbeddingSet | None = None,
        batch: int = 1024,
        precision: Precision = "fp32",
    ) -> Prediction:
        """The class of each sample, and how sure that is.

        Args:
            inputs: as a call takes them; or data that `sincere.data.read_data` read; or embeddings of this model.
            method: `"class_means"`: the class whose training samples have the nearest mean, by cosine. `"knn"`: the
                class that most of the k nearest training samples have. Both as `sincere evaluate` measures them.
            k: neighbours that vote, of `"knn"`; unless given, as many as serve the run's validation samples best.
            top: how many of the best classes the record holds.
            references: embeddings of labelled samples to go by in place of the run's training samples: of other
                classes, too. This model must have made them.
        """
        check_rule(method, k, top)
        known = self.references if references is None else References(references)
        for name, given in (("references", references), ("inputs", inputs)):
            if isinstance(given, EmbeddingSet) and other_model(given.model, model_fingerprint(self.model)):
                raise InputError(
                    f"{name} must be embeddings of this model: {given.name!r} were made by another one, or by this one "
                    "before it was trained further. Embed their data with this model."
                )
        new, shown = self._met(inputs, batch, precision)
        return nearest_class(new, known.to(new.device), method=method, k=k, top=top, shown=shown)

    @usual_defaults()
    def __call__(self, inputs: RawInputs, *, batch: int = 1024, precision: Precision = "fp32") -> Tensor:
        """Embeddings of raw inputs, (n, d)."""
        return embed_inputs(self.model, self.views, self.prepared(inputs), batch=batch, precision=precision)[0]

    @usual_defaults()
    def features(self, inputs: RawInputs, *, batch: int = 1024, precision: Precision = "fp32") -> Tensor:
        """The encoder's features of raw inputs, (n, f): what linear classifiers work best on."""
        return embed_inputs(self.model, self.views, self.prepared(inputs), batch=batch, precision=precision)[1]

    @usual_defaults()
    def embed(
        self,
        data: LabelledData,
        *,
        batch: int = 1024,
        precision: Precision = "fp32",
        on_step: Callable[[str], None] | None = None,
    ) -> EmbeddingSet:
        """Embeddings, features and labels of labelled data; `on_step` hears how far it is, for a progress display."""
        taken = self._taken(data)
        return embed(self.model, self.views, taken, batch=batch, precision=precision, on_step=on_step)

    @usual_defaults()
    def embed_views(
        self, data: LabelledData, *, count: int, seed: int = 0, batch: int = 1024, precision: Precision = "fp32"
    ) -> EmbeddingSet:
        """As `embed`, of `count` random views of each sample, of the kind that the model was trained on.

        All samples' first views come first, then the second ones: `evaluate(…, views=…)` fits its linear probe on them.
        """
        data = self._taken(data)
        return embed_views(self.model, self.views, data, count=count, seed=seed, batch=batch, precision=precision)

    def _met(
        self, inputs: "RawInputs | LabelledData | EmbeddingSet", batch: int, precision: Precision
    ) -> tuple[Tensor, tuple[str, ...] | None]:
        """Embeddings of whatever came, and what is shown of each sample."""
        if isinstance(inputs, LabelledData):
            inputs = self.embed(inputs, batch=batch, precision=precision)
        if isinstance(inputs, EmbeddingSet):
            return inputs.embeddings.to(device_of(self.model)), inputs.shown
        new = self(inputs, batch=batch, precision=precision)
        texts = self.description.form.kind == "text" and not isinstance(inputs, Tensor)
        return new, tuple(map(str, inputs)) if texts else None

    def _taken(self, data: LabelledData) -> LabelledData:
        """Data as the model takes it: of its form, texts as the numbers of its own tokenizer where it has one."""
        if not isinstance(data, LabelledData):
            raise InputError(
                f"data must be labelled data, as sincere.data.read_data gives it: got {type(data).__name__}. Call the "
                "model on raw inputs, model(inputs), for their embeddings."
            )
        if data.form != self.description.form:
            raise InputError(
                f"data must have the form that the model was trained on, {self.description.form}: got {data.form}. "
                "Read it with that form, or call the model on raw inputs."
            )
        return tokenized(data, self.model.encoder)

    def prepared(self, inputs: RawInputs) -> Tensor:
        """Raw inputs in the form that the model takes."""
        form = self.description.form
        if form.kind == "text":
            if isinstance(inputs, Tensor):
                return inputs
            if isinstance(inputs, str) or not all(isinstance(text, str) for text in inputs):
                raise InputError(
                    "inputs of this model must be a list of texts. Put it in brackets if it is one: [text]."
                )
            texts = [str(text) for text in inputs]  # NumPy's are of a kind of their own
            tokenize = getattr(self.model.encoder, "tokenize", None)
            if tokenize is not None:
                tokens: Tensor = tokenize(texts)
                return tokens
            assert form.buckets is not None
            return hash_texts(texts, words=form.shape[0], pieces=form.shape[1], buckets=form.buckets)
        own = names_of_columns(inputs) if form.columns is not None else None
        places = None if own is None else places_of_columns(form.columns or (), own, whose="the data frame's")
        values = inputs if isinstance(inputs, Tensor) else _tensor_of(inputs)
        return _in_form(values if places is None else values[:, places], form)


@usual_defaults()
def load(run: str | Path, *, device: torch.device | str | None = None) -> LoadedModel:
    """The model of a finished run, on the GPU if there is one. Nothing in the folder is run as code.

    An encoder of the user's own, `package.module:factory`, is imported from where it was.

    Args:
        run: the folder of the run.
        device: where the model shall live.
    """
    folder = RunFolder(Path(run))
    if folder.path.is_file():
        raise InputError(f"a model is loaded from the folder of its run: {folder.path} is a file. Name its folder.")
    if not folder.path.is_dir():
        raise InputError(f"there is no folder {folder.path}.{meant_beside(folder.path)}")
    if not folder.finished:
        raise InputError(
            f"{folder.path} must be a run that has come to its end: {folder.weights.name} is missing. "
            + ("Resume it first." if folder.started else "Is it the folder of a run?")
        )
    description = ModelDescription.from_json(model_description(folder))
    model = description.build_model(weights_follow=True)
    load_into(model, load_weights(folder), folder.weights)
    place = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    return LoadedModel(model.eval().to(place), description.build_views().to(place), description, folder.path)


def _tensor_of(inputs: object) -> Tensor:
    check_unmasked("inputs of this model", inputs)
    try:
        array = np.asarray(inputs)
    except ValueError as error:
        raise InputError(f"inputs of this model must be of one shape: {error}{FROM_FILES}") from error
    if array.dtype == object and array.ndim:  # a data frame's with columns of several types
        array = array_of(array, "inputs of this model")
    if array.dtype.kind not in "fiub":
        raise InputError(f"inputs of this model must be numbers: got {array.dtype}.{FROM_FILES}")
    return torch.from_numpy(writable(np.ascontiguousarray(array)))


def _in_form(inputs: Tensor, form: Form) -> Tensor:
    """Images as uint8 (n, c, h, w), arrays as float32, waveforms as float32 of the model's length."""
    if form.kind == "image":
        if tuple(inputs.shape[1:]) == (*form.shape[1:], form.shape[0]) and tuple(inputs.shape[1:]) != form.shape:
            inputs = inputs.permute(0, 3, 1, 2)  # height, width, channels, as image libraries have them
        elif form.shape[0] == 1 and inputs.ndim == 3:
            inputs = inputs.unsqueeze(1)
        if inputs.dtype != torch.uint8 or tuple(inputs.shape[1:]) != form.shape:
            raise InputError(
                f"images must be uint8 of shape (n, {', '.join(map(str, form.shape))}), or with the channels last: "
                f"got {inputs.dtype} {shape_of(inputs)}.{FROM_FILES}"
            )
        return inputs
    inputs = inputs.float()
    if form.kind == "sound" and inputs.ndim == 2 and inputs.shape[1] != form.shape[0]:
        return F.pad(inputs, (0, form.shape[0] - inputs.shape[1]))  # a negative number cuts
    if tuple(inputs.shape[1:]) != form.shape:
        raise InputError(f"inputs must have shape (n, {form.shape[0]}): got {shape_of(inputs)}.")
    return inputs
