"""From a configuration and its data to everything that a run works with, on its device."""

from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor, nn

from sincere.data import LabelledData, Splits
from sincere.embeddings.description import ModelDescription
from sincere.embeddings.embed import tokenized
from sincere.encoders import EmbeddingModel, default_encoder, seeded
from sincere.errors import InputError, OptionError
from sincere.seeds import seeded_generator
from sincere.train.batches import Planner
from sincere.train.early import early_views
from sincere.train.excess import batch_floor, has_floor
from sincere.train.fields import of_group
from sincere.train.memory import Memory
from sincere.train.meter import Meter, finite
from sincere.train.network import Network, build_classifier
from sincere.train.objective import ObjectiveLoss
from sincere.train.optimizer import build_optimizers
from sincere.train.processes import Processes
from sincere.train.schedule import learning_rate
from sincere.train.step import Parts, TrainingStep
from sincere.train.train_config import TrainConfig
from sincere.views import StagedViews, Statistics, build_views, default_views

SEEN_AT_START = 5000  # samples, for encoders that compute some of their weights from data


@dataclass(frozen=True, eq=False)
class Session:
    """A run that is ready to go."""

    config: TrainConfig
    splits: Splits  # as they go into the model; the training split is on the device
    description: ModelDescription
    parts: Parts
    step: TrainingStep
    planner: Planner

    @property
    def model(self) -> EmbeddingModel:
        return self.parts.network.model

    @property
    def total_steps(self) -> int:
        return self.config.epochs * len(self.planner)

    def rate(self, step: int) -> float:
        """The learning rate of a step."""
        lr, epochs = self.config.optimizer.lr, self.config.epochs
        return learning_rate(self.config.schedule, lr, step=step, steps_per_epoch=len(self.planner), epochs=epochs)

    def temperature(self) -> float | None:
        """The temperature of the contrastive loss, read from the device if it is learned.

        One that grew to infinity is refused: every similarity is 0 then, and the loss a number that says nothing.
        """
        temperature = self.parts.objective.temperature
        if isinstance(temperature, Tensor):
            return finite(float(temperature.detach()), "learned temperature")
        return temperature

    def meter(self) -> Meter:
        """A meter for this objective: a floor is known where the contrasts are the batch and nothing else."""
        config = self.config
        alone = config.objective == "contrastive" and not config.memory.queue and config.memory.momentum is None

        def floor(counts: tuple[int, ...]) -> float:
            temperature = self.temperature()
            assert temperature is not None  # losses that have a floor have one
            return batch_floor(config.loss, counts, views=config.views.count, temperature=temperature)

        return Meter(self.step.device, floor if alone and has_floor(config.loss) else None)


def build_session(
    config: TrainConfig, splits: Splits, device: torch.device, processes: Processes, *, weights_follow: bool = False
) -> Session:
    """Build model, loss, optimizer, views and batches from the seed alone; the same on every process.

    `weights_follow`: from a checkpoint, all of them, so that those that the encoder once started from are not needed.
    """
    counts = torch.bincount(splits.train.labels, minlength=len(splits.train.class_names)).tolist()
    present = [name for name, count in zip(splits.train.class_names, counts, strict=True) if count]
    if len(present) < 2:
        raise InputError(f"training needs samples of at least two classes: {splits.train.name} has those of {present}.")
    generator = seeded_generator(config.seed, "weights")
    description = describe(config, splits.train)
    with of_group("encoder"):
        model = description.build_model(generator, weights_follow=weights_follow)
    views = description.build_views()
    splits = _tokenized(splits, model)
    _started_from_data(model, views, splits.train, config.seed)
    splits = replace(splits, train=splits.train.to(device))
    network = _network(config, model, len(splits.train.class_names), device, generator)
    dim = model.head.dim
    with seeded(seeded_generator(config.seed, "loss")):  # a loss of the user's own may have weights
        objective = ObjectiveLoss(config, dim=dim, gather=processes.world > 1).to(device)
    memory = Memory(config.memory, network, dim=dim, processes=processes.world).to(device)
    optimizers = build_optimizers(config.optimizer, network, objective)
    parts = Parts(network, objective, memory, optimizers, views.to(device), splits.train, processes)
    planner = Planner(config.batches, splits.train, seed=config.seed, processes=processes.world, epochs=config.epochs)
    largest = planner.dealer.largest
    steps = round(config.views.early_share * config.epochs) * len(planner)
    early = early_views(config.views, model, parts.views, splits.train, steps=steps)
    step = TrainingStep(
        parts, config.compute, views=config.views.count, early=early, seed=config.seed, largest_batch=largest
    )
    return Session(config, splits, description, parts, step, planner)


def describe(config: TrainConfig, data: LabelledData) -> ModelDescription:
    """The model that a configuration means for this data: "auto" decided, shapes filled in."""
    statistics = Statistics.of(data.inputs, kind=data.kind)
    auto = config.views.name == "auto"
    views = default_views(data.kind, tuple(data.inputs.shape[1:])) if auto else config.views.name
    made = build_views(views, kind=data.kind, statistics=statistics, **config.views.options)
    made.numbers(tuple(data.inputs.shape[1:]))  # raises where a stage does not fit: before there is a run, not in it
    shape = tuple(made.plain(data.inputs[:1]).shape[1:])
    encoder = default_encoder(data.kind, shape) if config.encoder.name == "auto" else config.encoder.name
    if encoder.startswith("sentence-transformers:"):
        shape = (2 * shape[0], 1)  # its own tokens, of which a word has one or two
        folder = Path(encoder.partition(":")[2])
        if folder.is_dir():  # the run may be loaded from elsewhere
            encoder = f"sentence-transformers:{folder.resolve()}"
    return ModelDescription(
        form=data.form,
        class_names=data.class_names,
        statistics=statistics,
        encoder=encoder,
        inputs_shape=shape,
        encoder_options=config.encoder.options,
        head_layers=config.head.layers_for(config.objective),
        head_hidden=config.head.hidden,
        dim=config.head.dim,
        views=views,
        views_options=config.views.options,
        data=data.name,
    )


def _network(
    config: TrainConfig, model: EmbeddingModel, classes: int, device: torch.device, generator: torch.Generator
) -> Network:
    with seeded(generator):
        classifier = build_classifier(config.objective, model, classes, config.loss.temperature)
    joint = config.objective == "joint"
    network: nn.Module = Network(model, classifier, joint=joint, precision=config.compute.precision)
    if config.compute.sync_batch_norm:
        if device.type != "cuda":
            raise OptionError("compute.sync_batch_norm needs GPUs: torch has it for no other device.")
        network = nn.SyncBatchNorm.convert_sync_batchnorm(network)  # type: ignore[no-untyped-call]
    network = network.to(device)
    if config.compute.channels_last:
        network = network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    assert isinstance(network, Network)
    return network


def _started_from_data(model: EmbeddingModel, views: StagedViews, data: LabelledData, seed: int) -> None:
    """Let an encoder that computes some of its weights from data (`start_from`) see samples from all over the set."""
    start = getattr(model.encoder, "start_from", None)
    if start is not None:
        mixed = torch.randperm(len(data), generator=seeded_generator(seed, "start"))
        start(views.plain(data.inputs[mixed[:SEEN_AT_START].to(data.inputs.device)]))


def _tokenized(splits: Splits, model: EmbeddingModel) -> Splits:
    """Texts as the numbers of the encoder's own tokenizer, where it has one."""
    if getattr(model.encoder, "tokenize", None) is None:
        return splits
    train, test = (tokenized(data, model.encoder) for data in (splits.train, splits.test))
    validation = None if splits.validation is None else tokenized(splits.validation, model.encoder)
    # As many tokens as the longest text has: a transformer takes as long for padding as for words.
    held = [data.inputs for data in (train, validation, test) if data is not None and len(data)]
    most = max(int((inputs != 0).any(dim=2).sum(dim=1).max()) for inputs in held)

    def cut(data: LabelledData) -> LabelledData:
        return replace(data, inputs=data.inputs[:, :most])

    return replace(splits, train=cut(train), validation=None if validation is None else cut(validation), test=cut(test))
