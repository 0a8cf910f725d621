"""The training experiments that several claims read: the same runs, trained once.

The quick form trains a small CNN on scikit-learn's digits; the full form a ResNet-18 on CIFAR with the paper's settings
(Feeney and Hughes, 2023, Section 4.3), whose ResNet-50 takes four times as long. The fast form has CIFAR and the same
settings too, but a short network and few epochs: a run takes less than a minute of one GPU, so there are three of each.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from sincere.claims.claim import Conditions
from sincere.claims.laboratory import Trained
from sincere.claims.record import Verdict
from sincere.evaluate import Evaluation, EvaluationOptions
from sincere.evaluate.options import Method
from sincere.recipes.cifar import AT_ONCE, LossName, paper
from sincere.recipes.demo import demo_configs
from sincere.train import EncoderConfig, LossConfig, TrainConfig
from sincere.train.processes import device_for

QUICK_SEEDS = 3
FAST_EPOCHS = 40
BOTH: tuple[LossName, ...] = ("sincere", "supcon")
SLOW = (
    "There is no GPU here. On a CPU this run can take hours in the fast form and days in the full one; Ctrl-C saves "
    "it, and the same command goes on with it. Runs that are kept with the project are found in reproduce/ of a "
    "checkout."
)


@dataclass(frozen=True)
class Experiment:
    """One data set and encoder on which losses are compared; whatever is not named is the same for all of them."""

    data: str
    title: str  # data, encoder, epochs, in words
    seeds: tuple[int, ...]
    plain: TrainConfig
    probe: Method  # which linear classifier speaks for it
    conditions: Conditions
    l2: float | None = None  # of the linear classifier, where it was chosen before

    def config(self, loss: LossName, seed: int) -> TrainConfig:
        return replace(self.plain, loss=LossConfig(loss, self.plain.loss.temperature), seed=seed)

    def run(self, loss: LossName, seed: int) -> Trained:
        """Trained with one loss from one seed."""
        return self.variant(f"{loss}-{seed}", self.config(loss, seed))

    def folder_of(self, name: str) -> str:
        """Of a run by its name within this experiment: of the fast form another than of the full one."""
        return f"{self.data}{'-fast' if self.conditions.form == 'fast' else ''}-{name}"

    def variant(self, name: str, config: TrainConfig) -> Trained:
        """Trained with any other settings, under a name of its own."""
        folder, laboratory = self.folder_of(name), self.conditions.laboratory
        self.conditions.say(f"run {folder}")
        if self.conditions.on_cifar and laboratory.found(folder, config) is None and device_for("auto").type == "cpu":
            self.conditions.say(SLOW)
        run = laboratory.trained(folder, config)
        if self.conditions.on_cifar:
            self.evaluation(run)  # now, not after the next run: only what is evaluated can be made light
        return run

    def runs(self, loss: LossName) -> Iterator[Trained]:
        for seed in self.seeds:
            yield self.run(loss, seed)

    def evaluation(self, run: Trained) -> Evaluation:
        """Linear classifier on the features, k-NN and class means on the embeddings."""
        methods: tuple[Method, ...] = ("knn", "class_means", "linear")
        if self.probe == "linear_paper":
            methods = (*methods, "linear_paper")
        return run.evaluation(EvaluationOptions(methods=methods, l2=self.l2))

    @property
    def seeds_in_words(self) -> str:
        return f"seed{'s' if len(self.seeds) > 1 else ''} {', '.join(map(str, self.seeds))}"

    @property
    def rows_of_a_batch(self) -> int:
        """Embeddings that meet in one batch."""
        return self.plain.batches.size * self.plain.views.count


@dataclass(frozen=True)
class Planned:
    """A run that a claim will ask for, so that runs can be trained one by one (`reproduce/make_runs.py`)."""

    experiment: Experiment
    name: str
    config: TrainConfig

    @property
    def folder(self) -> str:
        return self.experiment.folder_of(self.name)

    def light(self) -> Trained | None:
        """What is kept of it, if that was made with these settings."""
        return self.experiment.conditions.laboratory.light_run(self.folder, self.config)

    def trained(self) -> Trained:
        """And evaluated, on CIFAR."""
        return self.experiment.variant(self.name, self.config)


def both_losses(conditions: Conditions) -> Iterator[Planned]:
    """The runs of `experiments`, of each data set and seed both losses together."""
    for one in experiments(conditions):
        for seed in one.seeds:
            for loss in BOTH:
                yield Planned(one, f"{loss}-{seed}", one.config(loss, seed))


def experiments(conditions: Conditions) -> tuple[Experiment, ...]:
    """Digits for the quick form, CIFAR-10 and CIFAR-100 for the others: those of them that were given."""
    if not conditions.on_cifar:
        return (digits(conditions),)
    return tuple(cifar(conditions, classes) for classes in (10, 100) if f"cifar{classes}" in conditions.data)


def of_one_seed(one: Experiment) -> str:
    """What an interval of a difference means where there is one run of each; nothing where there are several."""
    if len(one.seeds) > 1:
        return ""
    return " With one seed the interval is over test images, and says nothing of other runs."


def as_far_as_run(verdict: Verdict, reason: str, found: tuple[Experiment, ...]) -> tuple[Verdict, str]:
    """Verdict and reason on both CIFAR sets, where perhaps only one of them was there to be run."""
    ran = {one.data for one in found}
    if ran not in ({"cifar10"}, {"cifar100"}):
        return verdict, reason
    present, absent = ("CIFAR-10", "CIFAR-100") if ran == {"cifar10"} else ("CIFAR-100", "CIFAR-10")
    return "partly" if verdict == "reproduced" else verdict, f"{reason} On {present} alone: {absent} was not run."


def digits(conditions: Conditions, *, seeds: int = QUICK_SEEDS) -> Experiment:
    plain = demo_configs(seed=conditions.seed)["sincere"]
    plain = replace(plain, reporting=replace(plain.reporting, validate_every=0, log_every=1000))
    title = f"scikit-learn's digits, small CNN, {plain.epochs} epochs, batch {plain.batches.size}"
    first = conditions.seed
    return Experiment("digits", title, tuple(range(first, first + seeds)), plain, "linear", conditions)


def few_digits(conditions: Conditions) -> Experiment:
    """A fifth of the digits to train on and most of them to judge by: what helps shows where samples are few."""
    whole = digits(conditions)
    plain = replace(
        whole.plain,
        data=replace(whole.plain.data, validation_share=0.1, test_share=0.7),
        batches=replace(whole.plain.batches, size=64),
        epochs=30,
    )
    title = f"a fifth of scikit-learn's digits, small CNN, {plain.epochs} epochs, batch {plain.batches.size}"
    return replace(whole, data="few-digits", title=title, plain=plain)


def cifar(conditions: Conditions, classes: int) -> Experiment:
    """One run each, as in the paper; or three with a small network."""
    plain = paper("sincere", classes, "resnet18")
    source = f"cifar{classes}:{conditions.path_of(f'cifar{classes}')}"
    plain = replace(plain, data=replace(plain.data, source=source))
    if not conditions.full:
        return _fast(conditions, classes, plain)
    title = f"CIFAR-{classes}, ResNet-18 (the paper: ResNet-50), {plain.epochs:,} epochs, batch 512"
    return Experiment(f"cifar{classes}", title, (conditions.seed,), plain, "linear_paper", conditions)


def _fast(conditions: Conditions, classes: int, plain: TrainConfig) -> Experiment:
    """The paper's settings but for network and epochs, and recorded in place of compiled."""
    plain = replace(
        plain,
        encoder=EncoderConfig("short_cnn", {"activation": "relu"}),
        schedule=replace(plain.schedule, warmup_epochs=1),
        compute=AT_ONCE,
        epochs=FAST_EPOCHS,
    )
    title = f"CIFAR-{classes}, short_cnn (the paper: ResNet-50), {plain.epochs} epochs (the paper: 1,000), batch 512"
    seeds = tuple(range(conditions.seed, conditions.seed + QUICK_SEEDS))
    return Experiment(f"cifar{classes}", title, seeds, plain, "linear", conditions, l2=0.01)
