"""Where claims train their models: each run once, kept in a folder, gone on with where it was cut off."""

from dataclasses import dataclass, field, replace
from pathlib import Path

from sincere.claims.light_runs import is_light
from sincere.claims.simplex_fit import FILE, SimplexFit, read_fits, simplex_fit
from sincere.data import Splits
from sincere.embeddings import EmbeddingSet
from sincere.errors import InputError
from sincere.evaluate import Evaluation, EvaluationOptions, evaluate
from sincere.evaluate.classifiers import LENGTH, counted
from sincere.evaluate.record import Setting
from sincere.runs import RunFolder, read_metrics
from sincere.runs.files import write_atomically
from sincere.runs.folder import Split
from sincere.train import TrainConfig, train
from sincere.train.loop import opened
from sincere.train.processes import device_for
from sincere.train.progress import Show

CIFAR = ("cifar10", "cifar100")  # as sources name them
SAMPLES = "the training samples"  # what a linear probe is fitted on, unless views are asked for


class StoppedError(InputError):
    """A run was stopped by a signal before its end; everything up to it is saved."""

    def __init__(self, words: str, exit_code: int) -> None:
        super().__init__(words)
        self.exit_code = exit_code  # of a process that ends for it, as `TrainedRun` has it


@dataclass(frozen=True)
class Trained:
    """A finished run, by its folder."""

    folder: RunFolder

    def embeddings(self, split: Split) -> EmbeddingSet:
        found = self.folder.embeddings(split)
        if is_light(self.folder) and not found.exists():
            raise InputError(
                f"{self.folder.path} is a light run, without {split} embeddings, which are needed here: move it away, "
                "and the same command trains it anew."
            )
        return EmbeddingSet.load(found)

    def simplex_fit(self, split: Split) -> SimplexFit:
        """How near these embeddings are to a simplex, which light runs know of splits that they do not hold."""
        if is_light(self.folder):
            return read_fits(self.folder.path / FILE)[split]
        return simplex_fit(self.embeddings(split))

    def epoch_losses(self) -> list[float]:
        """Mean training loss of each epoch."""
        return [record["loss"] for record in read_metrics(self.folder.metrics) if record["kind"] == "epoch"]

    def seconds(self) -> float:
        """Of training, all starts together."""
        return float(max(record["seconds"] for record in read_metrics(self.folder.metrics)))

    def kept_evaluation(self, options: EvaluationOptions) -> Evaluation | None:
        """The evaluation that lies in the folder, if it is one by these options."""
        if not self.folder.evaluation.exists():
            return None
        known = Evaluation.from_json(self.folder.evaluation.read_text(encoding="utf-8"))
        return known if answers(known, options) else None

    def evaluation(self, options: EvaluationOptions) -> Evaluation:
        """The evaluation that lies in the folder, if it is one by these options; otherwise a new one."""
        kept = self.kept_evaluation(options)
        if kept is not None:
            return kept
        place = device_for("auto")
        validation = self.embeddings("validation").to(place) if self.folder.embeddings("validation").exists() else None
        found = evaluate(
            self.embeddings("train").to(place),
            self.embeddings("test").to(place),
            validation=validation,
            options=options,
            name=self.folder.path.name,
        )
        write_atomically(self.folder.evaluation, (found.to_json() + "\n").encode())
        return found


def answers(known: Evaluation, options: EvaluationOptions) -> bool:
    """Was every method that these options ask for run, and run as they ask? There may be others beside."""
    if (known.draws, known.seed) != (options.draws, options.seed):
        return False
    if "retrieval" in options.methods:
        # A record does not say on which vectors retrieval was run, so any but the usual ones are run again.
        if known.retrieval is None or set(known.retrieval.recall) != {*options.recall_at}:
            return False
        if options.neighbours_on != "embeddings":
            return False
    classifiers = set(options.methods) - {"retrieval"}
    return classifiers <= {*known.methods} and all(_as_asked(known, method, options) for method in classifiers)


def _as_asked(known: Evaluation, method: str, options: EvaluationOptions) -> bool:
    """Has this classifier the settings that the options would give it?"""
    settings = known.classifier(method).settings
    if method in ("knn", "class_means"):
        if settings["on"] != options.neighbours_on:
            return False
        if method == "class_means":
            return True
        k = None if options.k is None else min(options.k, known.train_samples)
        return settings["voting"] == options.voting and _given(settings, "k") == k
    if settings["on"] != (options.probes_on or ("features" if "features" in known.dims else "embeddings")):
        return False
    if method == "linear_paper":
        return True
    views = options.probe_views
    seen = f"{counted(views)} of each training sample" if views else SAMPLES
    if (LENGTH in settings) != options.unit_probe:
        return False
    return settings["fitted_on"] == seen and _given(settings, "l2") == options.l2


def _given(settings: dict[str, Setting], name: str) -> Setting:
    """A setting that was given, or None where it was chosen: what the options said of it."""
    return settings[name] if settings[f"{name}_origin"] == "given" else None


@dataclass(frozen=True)
class Laboratory:
    """A folder of runs, and perhaps another one of light runs (`sincere.claims.light_runs`)."""

    folder: Path
    show: Show = "auto"
    light: Path | None = None
    used: list[RunFolder] = field(default_factory=list, compare=False, repr=False)  # every run that was asked for

    def trained(self, name: str, config: TrainConfig, data: Splits | None = None) -> Trained:
        """The run of this name and configuration: read, gone on with, or begun.

        A run of the same name with other settings is refused, so that no figure ever comes from the wrong run. Where
        CIFAR lies is no setting.
        """
        found = self._trained(name, config, data)
        self.used.append(found.folder)
        return found

    def found(self, name: str, config: TrainConfig) -> Trained | None:
        """The run of this name and configuration, if nothing has to be trained for it."""
        run = RunFolder(self.folder / name)
        if not run.started:
            return self.light_run(name, config)
        known = TrainConfig.load(run.path)
        return Trained(run) if run.finished and not known.differences(as_begun(config, known)) else None

    def _trained(self, name: str, config: TrainConfig, data: Splits | None) -> Trained:
        if (found := self.found(name, config)) is not None:
            return found
        run = RunFolder(self.folder / name)
        begun = as_begun(config, TrainConfig.load(run.path)) if run.started else config
        if begun != config and data is None:
            data = opened(config.data)
        done = train(begun, run=run.path, resume=True, data=data, show=self.show)
        if not done.finished:
            raise StoppedError(f"{run.path} was stopped: run the same command again to go on with it.", done.exit_code)
        return Trained(run)

    def light_run(self, name: str, config: TrainConfig) -> Trained | None:
        """What is kept of a run of this name and configuration, if anything."""
        if self.light is None or not is_light(kept := RunFolder(self.light / name)):
            return None
        known = TrainConfig.load(kept.path)
        return None if known.differences(as_begun(config, known)) else Trained(kept)


def as_begun(config: TrainConfig, known: TrainConfig) -> TrainConfig:
    """With CIFAR where `known` had it: its files are compared with published checksums, so they are the same anywhere.

    Runs that are made one at a time on several machines find it in several places.
    """
    name, theirs = config.data.source.partition(":")[0], known.data.source
    if name not in CIFAR or theirs.partition(":")[0] != name:
        return config
    return replace(config, data=replace(config.data, source=theirs))
