"""Settings for those who give none: by the kind of the data and by how much there is of it."""

from dataclasses import dataclass, field, replace
from typing import Any

import torch

from sincere.data import LabelledData
from sincere.encoders import default_encoder
from sincere.encoders.external import starts_from_weights
from sincere.encoders.resnet import LARGE
from sincere.train import (
    BatchesConfig,
    ComputeConfig,
    EncoderConfig,
    HeadConfig,
    OptimizerConfig,
    ReportingConfig,
    ScheduleConfig,
    TrainConfig,
    ViewsConfig,
)

BATCHES_AN_EPOCH = 8  # at least, where there is enough data: fewer make long epochs and few steps
SMALLEST_BATCH = 32
WARMUP = 0.05  # of the steps


@dataclass(frozen=True)
class Start:
    """What an encoder is trained with unless told otherwise. Ours, chosen on validation splits.

    steps: to aim at; epochs: the bounds within which they are kept. Where `cost` is known, seconds of one CPU core for
    a pixel's way through the network and back, the aim is `CPU_WORK` instead.
    """

    steps: int
    epochs: tuple[int, int]
    batch: int = 512
    cost: float | None = None
    optimizer: str = "adamw"
    lr: float | None = None  # with that optimizer; the usual one otherwise
    head: HeadConfig = field(default_factory=HeadConfig)
    options: dict[str, Any] = field(default_factory=dict)


STARTS = {
    "small_cnn": Start(steps=400, epochs=(10, 60), batch=128, options={"width": 16}),
    "mlp": Start(steps=1000, epochs=(20, 100)),
    "text": Start(steps=250, epochs=(8, 40), head=HeadConfig("linear")),
    "sound": Start(steps=250, epochs=(10, 60), batch=128, options={"width": 16}),
    # A model of sentences knows its language already: few and small steps, as is usual for such models, and the
    # embeddings that it has, which a new head would hide.
    "sentence-transformers": Start(steps=50, epochs=(3, 5), batch=64, lr=2e-5, head=HeadConfig("none")),
}
# Images without a GPU: networks of which a CPU trains a useful one in minutes. Costs measured on an AMD EPYC.
WITHOUT_GPU = {
    "short_cnn": Start(
        steps=0,
        epochs=(15, 100),
        batch=128,
        cost=2.6e-6,
        options={"channels": [32, 64, 128], "activation": "relu"},
    ),
    "resnet18": Start(steps=0, epochs=(15, 100), batch=128, cost=0.5e-6, options={"width": 0.25}),
}
CPU_WORK = 800.0  # seconds of one core: some seven minutes on two
CPU_SIDE = 64  # pixels that large images are reduced to: a CPU learns more from them in the same time
NETWORKS = Start(steps=8000, epochs=(30, 300), optimizer="sgd")  # ResNets, and whatever else is named
# One whose weights somebody trained on other images: a tenth of the steps, and no new head, which would have to learn
# from few images what the features know already. benchmarks/pretrained_start.py measures it, with weak weights, for
# which 1e-3 is better; good ones have more to lose.
PRETRAINED = Start(steps=400, epochs=(10, 30), batch=64, lr=3e-4, head=HeadConfig("none"))

# The full rate, by optimizer; that of SGD and LARS is for batches of 512 and grows with them.
OPTIMIZERS = {
    "adamw": OptimizerConfig("adamw", lr=2e-3, weight_decay=1e-4),
    "sgd": OptimizerConfig("sgd", lr=0.5, weight_decay=1e-4),
    "lars": OptimizerConfig("lars", lr=0.5, weight_decay=1e-4),
    "muon": OptimizerConfig("muon", lr=0.02, weight_decay=1e-4),
}


@dataclass(frozen=True)
class Given:
    """What somebody has decided already, and what other settings depend on."""

    encoder: str | None = None
    optimizer: str | None = None
    batch: int | None = None
    epochs: int | None = None
    device: str | None = None
    dim: int | None = None
    encoder_options: dict[str, Any] = field(default_factory=dict)


def starting_point(data: LabelledData, given: Given | None = None) -> TrainConfig:
    """A configuration for this data, with what is given.

    >>> from sincere.data import open_data
    >>> config = starting_point(open_data("digits").train)
    >>> config.encoder.name, config.batches.size, config.epochs
    ('small_cnn', 128, 40)
    """
    given = given or Given()
    gpu, views = _on_gpu(given), ViewsConfig()
    name = given.encoder or default_encoder(data.kind, data.form.shape, gpu=gpu)
    ours = given.encoder is None and not gpu  # who names a network knows what it costs
    named = PRETRAINED if starts_from_weights(name, given.encoder_options) else NETWORKS
    start = (WITHOUT_GPU if ours else {}).get(name) or STARTS.get(name.partition(":")[0], named)
    size = given.batch or batch_size(len(data), start.batch)
    epochs = given.epochs or _epochs(start, data, size, views.count)
    return TrainConfig(
        batches=BatchesConfig(size),
        views=views,
        encoder=EncoderConfig(name, start.options),
        head=_head(start, given),
        optimizer=_optimizer(given.optimizer or start.optimizer, size, start),
        schedule=ScheduleConfig(warmup_epochs=round(WARMUP * epochs, 2)),
        compute=_compute(data, start, gpu=gpu),
        reporting=ReportingConfig(validate_every=max(epochs // 10, 1)),
        epochs=epochs,
    )


def reduced_side(data: LabelledData, given: Given) -> int | None:
    """Pixels at which images of this size had better be read where nobody says how, or None for as they are."""
    if data.kind != "image" or given.encoder is not None or _on_gpu(given):
        return None
    return CPU_SIDE if min(data.form.shape[1:]) >= LARGE else None


def batch_size(samples: int, largest: int) -> int:
    """A power of two, such that an epoch has some batches, and no larger than `largest`.

    >>> batch_size(1258, 512), batch_size(50_000, 512), batch_size(20, 512)
    (128, 512, 32)
    """
    fitting = max(samples // BATCHES_AN_EPOCH, SMALLEST_BATCH)
    return min(1 << (fitting.bit_length() - 1), largest)


def _on_gpu(given: Given) -> bool:
    return torch.cuda.is_available() and given.device != "cpu"


def _head(start: Start, given: Given) -> HeadConfig:
    """Without a head the embeddings have as many dimensions as the features: who asks for others needs a layer."""
    return HeadConfig("linear") if start.head.layers == "none" and given.dim is not None else start.head


def _epochs(start: Start, data: LabelledData, batch: int, views: int) -> int:
    """A multiple of five, by the steps to aim at, or by the work of a CPU."""
    if start.cost is None:
        wanted = start.steps * batch / len(data)
    else:
        height, width = data.form.shape[1:]
        wanted = CPU_WORK / (len(data) * views * height * width * start.cost)
    low, high = start.epochs
    return min(max(5 * round(wanted / 5), low), high)


def _optimizer(name: str, batch: int, start: Start) -> OptimizerConfig:
    known = OPTIMIZERS.get(name)
    if known is None:
        return OptimizerConfig(name)  # type: ignore[arg-type]  # refuses it, and says which there are
    if name == start.optimizer and start.lr is not None:
        return replace(known, lr=start.lr)
    if name not in ("sgd", "lars"):
        return known
    return OptimizerConfig(known.name, lr=known.lr * batch / 512, weight_decay=known.weight_decay)


def _compute(data: LabelledData, start: Start, *, gpu: bool) -> ComputeConfig:
    """A recent GPU wants half precision, and images with their channels last; a CPU at least the latter."""
    if start.cost is not None:
        return ComputeConfig(channels_last=True)
    if not gpu or not torch.cuda.is_bf16_supported(including_emulation=False):
        return ComputeConfig()
    return ComputeConfig(precision="bf16", channels_last=data.kind == "image")
