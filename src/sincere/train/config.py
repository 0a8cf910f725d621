"""Every setting of a training run: frozen, checked when made, the same in Python, in JSON and on the command line."""

from dataclasses import dataclass, field, fields
from typing import Any, Literal

import torch
from torch import nn

from sincere.checks import check_choice, check_temperature
from sincere.encoders.seeding import seeded
from sincere.encoders.shapes import check_size
from sincere.errors import OptionError
from sincere.losses.modules import (
    ContrastiveLoss,
    DecoupledLoss,
    EpsSupInfoNCELoss,
    InfoNCELoss,
    SetLoss,
    SINCERELoss,
    SpreadLoss,
    SupConLoss,
)
from sincere.train.fields import check_at_least, check_fields
from sincere.train.own_loss import own_loss
from sincere.types import Kind
from sincere.views import PRESETS

Objective = Literal["contrastive", "cross_entropy", "fixed_simplex", "joint"]
Compile = Literal[
    "off",
    "graphs",
    "compiled-graphs",
    "tuned-graphs",
    "default",
    "reduce-overhead",
    "max-autotune",
    "max-autotune-no-cudagraphs",
]

LOSSES: dict[str, type[ContrastiveLoss]] = {
    "sincere": SINCERELoss,
    "supcon": SupConLoss,
    "infonce": InfoNCELoss,
    "eps_supinfonce": EpsSupInfoNCELoss,
    "decoupled": DecoupledLoss,
    "spread": SpreadLoss,
    "set_nce": SetLoss,
}
SET_BY_THE_LOOP = ("temperature", "learnable_temperature", "gather", "include_batch", "weights")
REDUCTIONS = ("mean", "mean_all", "class_mean")


@dataclass(frozen=True)
class DataConfig:
    """What to train on; see `sincere.data.open_data`. `options` are further ones of its options, by name."""

    source: str = "digits"
    test: str | None = None
    kind: Kind | None = None
    validation_share: float = 0.1
    test_share: float = 0.2
    seed: int = 0  # of the split, apart from the run's, so that runs of several seeds share one split
    options: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_fields(self)
        check_at_least(0, validation_share=self.validation_share, test_share=self.test_share)
        for name in self.options.keys() & {own.name for own in fields(self)}:
            raise OptionError(f"options must not hold {name!r}: it is a setting of its own beside them.")


@dataclass(frozen=True)
class BatchesConfig:
    """How an epoch is dealt out.

    size: samples of a batch, over all processes; each comes with all its views.
    sampler: "classes" gives every batch at least two classes and at least two of each; "shuffled" is plain shuffling,
        as in the papers, which leaves out an incomplete last batch if `drop_last`; "balanced" deals every class as
        often as any other, rare ones again and again, and each epoch another part of the large ones.
    """

    size: int = 512
    sampler: Literal["classes", "shuffled", "balanced"] = "classes"
    drop_last: bool = True

    def __post_init__(self) -> None:
        check_fields(self)
        check_at_least(4, size=self.size)


@dataclass(frozen=True)
class ViewsConfig:
    """Random views of each sample: a preset ("auto" goes by kind), its stages' changes, and how many of each sample.

    early_size: pixels of the shorter side, to which larger views of images are shrunk in the first `early_share` of the
        epochs. A network learns the coarse part of its task at a fraction of the cost; None keeps all at full size.
    """

    name: str = "auto"
    count: int = 2
    options: dict[str, Any] = field(default_factory=dict)
    early_size: int | None = None
    early_share: float = 0.5

    def __post_init__(self) -> None:
        check_fields(self)
        check_at_least(1, count=self.count, early_size=self.early_size)
        if not 0 <= self.early_share <= 1:
            raise OptionError(f"early_share must be a share of the epochs, 0 to 1: got {self.early_share}.")
        # A misspelt one is known before any data is read; whether it suits the kind of data, only then.
        check_choice("views", self.name, dict.fromkeys(("auto", *(name for kind in PRESETS.values() for name in kind))))


@dataclass(frozen=True)
class EncoderConfig:
    """The encoder's name and its own options, as `sincere.encoders.build_encoder` takes them; "auto" goes by kind."""

    name: str = "auto"
    options: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True)
class HeadConfig:
    """The projection between features and embeddings. "auto": none for cross-entropy, else an MLP."""

    layers: Literal["auto", "mlp", "linear", "none"] = "auto"
    hidden: int | None = None  # as many as features
    dim: int = 128

    def __post_init__(self) -> None:
        check_fields(self)
        check_at_least(1, hidden=self.hidden, dim=self.dim)
        for name, width in (("hidden", self.hidden), ("dim", self.dim)):
            if width is not None:
                check_size(name, width)  # and not so wide that it must be a slip

    def layers_for(self, objective: Objective) -> Literal["mlp", "linear", "none"]:
        """What "auto" means."""
        if self.layers != "auto":
            return self.layers
        return "none" if objective == "cross_entropy" else "mlp"


@dataclass(frozen=True)
class LossConfig:
    """A contrastive loss by name; `options` are those of its module: epsilon, alpha, form, method, similarity, …

    name: sincere, supcon, infonce, eps_supinfonce, decoupled, spread, set_nce; or a loss of your own as
        "package.module:factory", called as factory(temperature=…, **options) and returning a module that turns
        embeddings (b, v, d) and labels (b,) into a number. On several processes it must take gather=True too.
    """

    name: str = "sincere"
    temperature: float = 0.1
    learnable_temperature: bool = False
    options: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_fields(self)
        check_temperature(self.temperature)
        for name in SET_BY_THE_LOOP:
            if name in self.options:
                raise OptionError(f"options must not hold {name!r}: it is a setting of its own, or the loop's.")
        check_choice("reduction", self.options.get("reduction", "mean"), REDUCTIONS)
        with seeded(torch.Generator().manual_seed(0)):  # a trial, which takes no random number from the caller
            self.build()

    def build(self, *, gather: bool = False, include_batch: bool = False) -> nn.Module:
        """The loss as a module."""
        if ":" in self.name:
            if self.learnable_temperature:
                raise OptionError("learnable_temperature belongs to the losses of this library: learn it in your own.")
            return own_loss(self.name, temperature=self.temperature, gather=gather, **self.options)
        check_choice("loss", self.name, (*LOSSES, "package.module:factory"))
        return LOSSES[self.name](
            temperature=self.temperature,
            learnable_temperature=self.learnable_temperature,
            gather=gather,
            include_batch=include_batch,
            **self.options,
        )


@dataclass(frozen=True)
class MemoryConfig:
    """Contrasts beyond the batch.

    queue: how many past embeddings to contrast with, over all processes together; 0 for none.
    momentum: the share of its own weights that a momentum encoder keeps each step (0.999, say). With one, the first
        view of a sample goes through the encoder and the others through the momentum encoder; they are the anchors'
        contrasts together with the queue. Without one the queue holds past embeddings of the encoder itself.
    """

    queue: int = 0
    momentum: float | None = None

    def __post_init__(self) -> None:
        check_fields(self)
        check_at_least(0, queue=self.queue, momentum=self.momentum)
        if self.momentum is not None and self.momentum >= 1:
            raise OptionError(f"momentum must be below 1, or nothing would ever change: got {self.momentum}.")


@dataclass(frozen=True)
class OptimizerConfig:
    """How weights follow gradients.

    momentum: of sgd, lars and muon; nesterov: of sgd and muon. betas, eps: of adamw, and of muon's other parameters.
    trust: LARS's η, the share of a weight's norm that a step may move it by.
    decay: weight decay on "all" parameters, as the papers' code does, or on "matrices" alone (no biases, no norms).
    others, others_lr, others_weight_decay: muon moves matrices inside the network; what optimizer moves the rest, how
        fast, and with which weight decay: muon's own unless it is given, which is much for sgd.
    clip_norm: scale gradients down to this norm where they exceed it.
    """

    name: Literal["sgd", "adamw", "lars", "muon"] = "sgd"
    lr: float = 0.5
    momentum: float = 0.9
    nesterov: bool = False
    weight_decay: float = 1e-4
    decay: Literal["all", "matrices"] = "all"
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    trust: float = 1e-3
    others: Literal["adamw", "sgd"] = "adamw"
    others_lr: float = 1e-3
    others_weight_decay: float | None = None
    clip_norm: float | None = None

    def __post_init__(self) -> None:
        check_fields(self)
        decays = {"weight_decay": self.weight_decay, "others_weight_decay": self.others_weight_decay}
        check_at_least(0, **decays, eps=self.eps)
        for name in ("lr", "others_lr", "trust", "clip_norm"):
            if (value := getattr(self, name)) is not None and value <= 0:
                raise OptionError(f"{name} must be positive: got {value}.")
        for name, value in (("momentum", self.momentum), *(("betas", beta) for beta in self.betas)):
            if not 0 <= value < 1:
                raise OptionError(f"{name} must be at least 0 and below 1: got {value}.")
        if self.nesterov and self.name == "lars":
            raise OptionError("nesterov is of sgd and muon: LARS has plain momentum (Algorithm 1 of its paper).")
        if self.nesterov and self.momentum == 0:
            raise OptionError("nesterov needs a momentum above 0.")


@dataclass(frozen=True)
class ScheduleConfig:
    """The learning rate over time: a straight warm-up, then down to `end_lr`, or not; set anew each step.

    shape: how it falls: along half a cosine; "polynomial", as the share of steps that are left to the power of `power`,
        a straight line by default; or not at all, "constant".
    cosine_from: "warmup" starts the cosine at the full rate when the warm-up ends. "start" lets it run from the first
        step and warms up to where it has got to, as the SupCon authors' code does.
    """

    shape: Literal["cosine", "polynomial", "constant"] = "cosine"
    warmup_epochs: float = 0.0
    warmup_start_lr: float = 0.0
    end_lr: float = 0.0
    cosine_from: Literal["warmup", "start"] = "warmup"
    power: float = 1.0

    def __post_init__(self) -> None:
        check_fields(self)
        rates = {"warmup_start_lr": self.warmup_start_lr, "end_lr": self.end_lr}
        check_at_least(0, warmup_epochs=self.warmup_epochs, **rates)
        if self.power <= 0:
            raise OptionError(f"power must be positive: got {self.power}.")
        if self.power != 1.0 and self.shape != "polynomial":
            raise OptionError(f'power belongs to shape="polynomial": got {self.shape!r}.')
        if self.cosine_from == "start" and self.shape == "polynomial":
            raise OptionError('cosine_from="start" belongs to shape="cosine": got "polynomial".')


@dataclass(frozen=True)
class ComputeConfig:
    """Where and how numbers are computed.

    device: "auto" takes a GPU if there is one. precision: "bf16" and "fp16" under autocast, weights stay float32.
    compile: torch.compile's mode; or "graphs": nothing is compiled, but forward and backward are recorded as a CUDA
        graph and replayed, which is ready in seconds where compiling can take the better part of a minute. Left plain
        where there is nothing to record or too much changes: on a CPU, with a queue, chunks or several processes.
        "compiled-graphs" compiles, and then records what was compiled; "tuned-graphs" compiles each kernel that is not
        a convolution or a product in several ways, and takes the fastest.
    chunk_size: samples that go through the encoder together where a batch does not fit memory (`cached_backward`).
    sync_batch_norm: statistics over all processes' batches, GPUs only.
    """

    device: str = "auto"
    precision: Literal["fp32", "bf16", "fp16"] = "fp32"
    channels_last: bool = False
    compile: Compile = "off"
    chunk_size: int | None = None
    sync_batch_norm: bool = False

    def __post_init__(self) -> None:
        check_fields(self)
        check_at_least(1, chunk_size=self.chunk_size)


@dataclass(frozen=True)
class ReportingConfig:
    """What a run tells and keeps on its way. It changes no weight, so a resumed run may have another.

    log_every: steps between two lines of metrics. validate_every: epochs between two k-NN accuracies, 0 for never; of
        at most `references` training samples with `neighbours` neighbours each, 20 unless given, and fewer where
        classes are small.
    checkpoint_seconds, checkpoint_steps: whichever comes first; None for never. One is written at the end anyway.
    """

    log_every: int = 50
    validate_every: int = 10
    references: int = 10_000
    neighbours: int | None = None
    checkpoint_seconds: float | None = 60.0
    checkpoint_steps: int | None = None
    tensorboard: bool = False
    save_embeddings: bool = True

    def __post_init__(self) -> None:
        check_fields(self)
        check_at_least(1, log_every=self.log_every, references=self.references, neighbours=self.neighbours)
        check_at_least(0, validate_every=self.validate_every, checkpoint_seconds=self.checkpoint_seconds)
        check_at_least(1, checkpoint_steps=self.checkpoint_steps)
