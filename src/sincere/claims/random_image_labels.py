"""Claim 23 on images: steps until a convolutional network fits labels some of which are random.

As in Zhang et al. (2017, arXiv 1611.03530), whose experiment Graf et al. repeat: images as they are, without random
views, and no weight decay. What can be learned by heart is learned by heart.
"""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import sincere.functional as SF
from sincere.claims.palette import TITLES
from sincere.claims.run_origins import described_origin
from sincere.embeddings.embed import Precision, half_precision, in_evaluation
from sincere.encoders import ShortCNN, build_encoder, seeded
from sincere.errors import InputError
from sincere.runs import provenance
from sincere.runs.files import write_atomically
from sincere.theory import Estimate, FitTime, FitTimes, FitTrend
from sincere.theory.fit_times import fit_growth, fit_trend
from sincere.train.recorded import RecordedSteps, Results

CONTRASTIVE: dict[str, Callable[..., Tensor]] = {"supcon": SF.supcon, "sincere": SF.sincere}
LOSSES = ("cross_entropy", *CONTRASTIVE)
DIM = 128  # of the embeddings, behind one linear layer, as cross-entropy's logits are
PORTION = 2000  # images that are looked at together
WORTH_COMPILING = 20_000  # images from which on compiling should pay for itself; a guess, not measured


@dataclass(frozen=True)
class Fitting:
    """How networks are trained, and when they have fitted."""

    encoder: str
    options: dict[str, Any]
    images: int  # of the training set, the first ones
    max_epochs: int  # after which a run is given up
    shares: tuple[float, ...] = (0.0, 0.25, 0.5, 0.75, 1.0)
    seeds: tuple[int, ...] = (0, 1, 2)
    batch: int = 512
    # Of which each loss takes the one that fits plain labels soonest: at 0.05 cross-entropy took as long for plain
    # labels as for half random ones, 2,204 steps, and SupCon 171 (short_cnn, 10,000 images).
    rates: tuple[float, ...] = (0.02, 0.01, 0.05, 0.005, 0.1)
    momentum: float = 0.9
    temperature: float = 0.1
    threshold: float = 0.99


@dataclass(frozen=True)
class ImageFits(FitTimes):
    """Steps to fit by loss, share and seed."""

    samples: int
    threshold: float
    optimizer: str
    runs: tuple[FitTime, ...]
    trends: tuple[FitTrend, ...]
    growth: dict[str, Estimate]
    rates: dict[str, float]  # by loss
    made_on: tuple[str, ...]  # machine, torch and commit of every process that made some of the runs


def fit_images(
    images: Tensor, labels: Tensor, fitting: Fitting, *, kept: Path, place: torch.device, say: Callable[[str], None]
) -> ImageFits:
    """Every loss with every share from every seed. Each run is kept in a file, so that what was cut off goes on."""
    settings = json.loads(json.dumps(asdict(fitting)))
    rates, known, made_on = _kept_before(kept, settings)
    here = described_origin(provenance(seed=fitting.seeds[0]))

    def keep() -> None:
        if here not in made_on:
            made_on.append(here)
        runs = [asdict(run) for run in known.values()]
        document = {"settings": settings, "made_on": made_on, "rates": rates, "runs": runs}
        write_atomically(kept, (json.dumps(document, indent=1) + "\n").encode())

    inputs, plain = normalised(images[: fitting.images].to(place)), labels[: fitting.images]
    classes = int(labels.max()) + 1
    fitters = {loss: Fitter(loss, inputs, classes, fitting) for loss in LOSSES}
    for loss in LOSSES:
        if loss not in rates:
            say(f"learning rate of {loss}")
            rates[loss] = chosen_rate(fitters[loss], plain.to(place))
            keep()
    for seed, loss, share in product(fitting.seeds, LOSSES, fitting.shares):
        if (loss, share, seed) in known:
            continue
        say(f"{loss}, {100 * share:g} % of the labels random, seed {seed}")
        shown = randomised(plain, share, classes=classes, seed=seed).to(place)
        known[loss, share, seed] = fitters[loss].steps_to_fit(shown, rate=rates[loss], share=share, seed=seed)
        keep()
    runs = [known[case] for case in product(LOSSES, fitting.shares, fitting.seeds)]
    return ImageFits(
        samples=len(inputs),
        threshold=fitting.threshold,
        optimizer="sgd",
        runs=tuple(runs),
        trends=tuple(fit_trend(loss, runs) for loss in LOSSES),
        growth=fit_growth(LOSSES, runs),
        rates=rates,
        made_on=tuple(made_on),
    )


def _kept_before(
    kept: Path, settings: dict[str, Any]
) -> tuple[dict[str, float], dict[tuple[str, float, int], FitTime], list[str]]:
    """Rates by loss, runs, and where they were made, of a file that was written with these settings."""
    if not kept.exists():
        return {}, {}, []
    document = json.loads(kept.read_text(encoding="utf-8"))
    if document["settings"] != settings:
        raise InputError(f"{kept} holds runs with other settings: move it away, or choose another folder of runs.")
    runs = [FitTime(**run) for run in document["runs"]]
    return document["rates"], {(run.loss, run.share, run.seed): run for run in runs}, document["made_on"]


def chosen_rate(fitter: "Fitter", labels: Tensor) -> float:
    """The rate at which these labels are fitted soonest, from a seed that nothing is measured with.

    A rate is given up as soon as it takes longer than the best before it.
    """
    fitting = fitter.fitting
    best, patience = None, fitting.max_epochs
    steps_an_epoch = max(1, len(labels) // fitting.batch)
    for rate in fitting.rates:
        seed = max(fitting.seeds) + 1
        trial = fitter.steps_to_fit(labels, rate=rate, share=0.0, seed=seed, max_epochs=patience)
        epochs = trial.steps // steps_an_epoch
        if trial.fitted and (best is None or epochs < patience):
            best, patience = rate, epochs
    return fitting.rates[0] if best is None else best


def normalised(images: Tensor) -> Tensor:
    """uint8 (n, c, h, w) → float32 with mean 0 and deviation 1 in each channel."""
    scaled = images.float() / 255
    deviation, mean = torch.std_mean(scaled, dim=(0, 2, 3), keepdim=True)
    return ((scaled - mean) / deviation).contiguous(memory_format=torch.channels_last)


def randomised(labels: Tensor, share: float, *, classes: int, seed: int) -> Tensor:
    """Labels of which a share was drawn anew, uniformly. A larger share of one seed has all of a smaller one's."""
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(len(labels), generator=generator)
    drawn = torch.randint(classes, (len(labels),), generator=generator)
    chosen = order[: round(share * len(labels))]
    changed = labels.cpu().clone()
    changed[chosen] = drawn[chosen]
    return changed


class Fitter:
    """A network of one loss, which every run starts anew: what a GPU compiles and records for it is made once."""

    def __init__(self, loss: str, inputs: Tensor, classes: int, fitting: Fitting) -> None:
        self.loss, self.inputs, self.classes, self.fitting = loss, inputs, classes, fitting
        self.network = _network(loss, inputs, classes, fitting, seed=0)
        self._value: Callable[[Tensor, Tensor, Tensor], Results] = self._forward
        self._evaluated: Callable[[Tensor], Tensor] = self.network
        self._step: Callable[[Tensor, Tensor, Tensor], Results] = self._forward_and_backward
        if inputs.is_cuda:
            self._step = RecordedSteps(self._forward_and_backward, self.network.parameters())
            if len(inputs) >= WORTH_COMPILING:
                self._value = torch.compile(self._forward, dynamic=False)
                self._evaluated = torch.compile(self.network, dynamic=False)

    def steps_to_fit(
        self, labels: Tensor, *, rate: float, share: float, seed: int, max_epochs: int | None = None
    ) -> FitTime:
        """Train from this seed's start; look at the training labels after every epoch."""
        fresh = _network(self.loss, self.inputs, self.classes, self.fitting, seed)
        self.network.load_state_dict(fresh.state_dict())  # in place: a recording knows addresses
        descend = torch.optim.SGD(self.network.parameters(), lr=rate, momentum=self.fitting.momentum)
        generator = torch.Generator().manual_seed(seed)
        batch = min(self.fitting.batch, len(labels))
        nothing = labels.new_zeros(0)  # of random numbers
        steps = 0
        for _ in range(self.fitting.max_epochs if max_epochs is None else max_epochs):
            order = torch.randperm(len(labels), generator=generator).to(labels.device)
            for start in range(0, len(labels) - batch + 1, batch):
                rows = order[start : start + batch]
                descend.zero_grad()
                self._step(self.inputs[rows], nothing, labels[rows])
                descend.step()
                steps += 1
            if self._has_fitted(labels):
                return FitTime(self.loss, share, seed, steps, True)
        return FitTime(self.loss, share, seed, steps, False)

    def _has_fitted(self, labels: Tensor) -> bool:
        """Whether as many training labels are right as the threshold asks for.

        Some tenth of the images is looked at first: where more of it is wrong than may be wrong in all, the rest is
        spared. With cross-entropy that is certain; with a contrastive loss the tenth has class means of its own, which
        suit it better than those of all images.
        """
        first = PORTION * max(1, len(labels) // 10 // PORTION)
        may_be_wrong = (1 - self.fitting.threshold) * len(labels)
        if first < len(labels) and (1 - self._right(labels[:first])) * first > may_be_wrong:
            return False
        return self._right(labels) >= self.fitting.threshold

    def _right(self, labels: Tensor) -> float:
        """The share of these labels, of as many of the first images, that is right."""
        inputs = self.inputs[: len(labels)]
        return training_accuracy(self.loss, self.network, inputs, labels, evaluated=self._evaluated)

    def _forward_and_backward(self, inputs: Tensor, numbers: Tensor, labels: Tensor) -> Results:
        value, outputs, keys = self._value(inputs, numbers, labels)
        value.backward()  # type: ignore[no-untyped-call]
        return value.detach(), outputs, keys

    def _forward(self, inputs: Tensor, _: Tensor, labels: Tensor) -> Results:
        with half_precision(inputs.device, _precision(inputs)):
            output = self.network(inputs)
        output = output.float()
        if self.loss == "cross_entropy":
            return F.cross_entropy(output, labels), output.detach(), None
        value = CONTRASTIVE[self.loss](output, labels, temperature=self.fitting.temperature)
        return value, output.detach(), None


def _network(loss: str, inputs: Tensor, classes: int, fitting: Fitting, seed: int) -> nn.Module:
    """An encoder and one linear layer: to the logits, or to the embeddings."""
    generator = torch.Generator().manual_seed(seed)
    shape = tuple(inputs.shape[1:])
    encoder = build_encoder(fitting.encoder, kind="image", shape=shape, generator=generator, **fitting.options)
    if isinstance(encoder, ShortCNN):
        encoder.start_from(inputs[:PORTION].cpu())
    with seeded(generator):
        last = nn.Linear(int(encoder.feature_dim), classes if loss == "cross_entropy" else DIM)  # type: ignore[arg-type]
    network = nn.Sequential(encoder, last).to(inputs.device)
    return network.to(memory_format=torch.channels_last)  # type: ignore[call-overload, no-any-return]


def _precision(inputs: Tensor) -> Precision:
    return "bf16" if inputs.is_cuda else "fp32"


@torch.no_grad()
def training_accuracy(
    loss: str,
    network: nn.Module,
    inputs: Tensor,
    labels: Tensor,
    *,
    evaluated: Callable[[Tensor], Tensor] | None = None,
) -> float:
    """By the largest logit, or by the nearest class mean of the embeddings; `evaluated` is the network as compiled."""
    outputs = evaluated or network
    with in_evaluation(network), half_precision(inputs.device, _precision(inputs)):
        output = torch.cat([outputs(some).float() for some in torch.split(inputs, PORTION)])
    if loss != "cross_entropy":
        output = F.normalize(output, dim=1)
        means = output.new_zeros(int(labels.max()) + 1, output.shape[1]).index_add_(0, labels, output)
        output = output @ F.normalize(means, dim=1).T
    return float((output.argmax(dim=1) == labels).double().mean())


def described(fitting: Fitting, title: str, found: ImageFits) -> str:
    """In words."""
    chosen = ", ".join(f"{TITLES[loss]} {rate:g}" for loss, rate in found.rates.items())
    return (
        f"the first {fitting.images:,} training images of CIFAR-10, {title}, no random views, batches of "
        f"{fitting.batch}, SGD (momentum {fitting.momentum:g}, at the constant rate that fits plain labels soonest: "
        f"{chosen}), until {100 * fitting.threshold:g} % of the training labels are right after an epoch, at most "
        f"{fitting.max_epochs} epochs; {len(fitting.seeds)} seeds; made on {'; '.join(found.made_on)}"
    )
