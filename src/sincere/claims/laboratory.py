"""Where claims train their models: each run once, kept in a folder, gone on with where it was cut off."""

from dataclasses import dataclass
from pathlib import Path

from sincere.data import Splits
from sincere.embeddings import EmbeddingSet
from sincere.errors import InputError
from sincere.evaluate import Evaluation, EvaluationOptions, evaluate
from sincere.runs import RunFolder, read_metrics
from sincere.runs.files import write_atomically
from sincere.runs.folder import Split
from sincere.train import TrainConfig, train
from sincere.train.processes import device_for
from sincere.train.progress import Show


@dataclass(frozen=True)
class Trained:
    """A finished run, by its folder."""

    folder: RunFolder

    def embeddings(self, split: Split) -> EmbeddingSet:
        return EmbeddingSet.load(self.folder.embeddings(split))

    def epoch_losses(self) -> list[float]:
        """Mean training loss of each epoch."""
        return [record["loss"] for record in read_metrics(self.folder.metrics) if record["kind"] == "epoch"]

    def seconds(self) -> float:
        """Of training, all starts together."""
        return float(max(record["seconds"] for record in read_metrics(self.folder.metrics)))

    def evaluation(self, options: EvaluationOptions) -> Evaluation:
        """The evaluation that lies in the folder, if it has all these methods; otherwise a new one."""
        if self.folder.evaluation.exists():
            known = Evaluation.from_json(self.folder.evaluation.read_text(encoding="utf-8"))
            done = {*known.methods, *(("retrieval",) if known.retrieval else ())}
            if set(options.methods) <= done and known.draws == options.draws:
                return known
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


@dataclass(frozen=True)
class Laboratory:
    """A folder of runs."""

    folder: Path
    show: Show = "auto"

    def trained(self, name: str, config: TrainConfig, data: Splits | None = None) -> Trained:
        """The run of this name and configuration: read, gone on with, or begun.

        A run of the same name with other settings is refused, so that no figure ever comes from the wrong run.
        """
        run = RunFolder(self.folder / name)
        if run.finished and not TrainConfig.load(run.path).differences(config):
            return Trained(run)
        done = train(config, run=run.path, resume=True, data=data, show=self.show)
        if not done.finished:
            raise InputError(f"{run.path} was stopped: run the same command again to go on with it.")
        return Trained(run)
