"""The folder of one run: every file name in one place, and a README.txt in it that says what each file is."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from sincere.runs.files import TEMPORARY, write_atomically

Split = Literal["train", "validation", "test"]
SPLITS: tuple[Split, ...] = get_args(Split)

CONTENTS = {
    "config.json": "every setting of the run; `sincere train --config config.json` repeats it",
    "provenance.json": "command, commit, versions, hardware, seed, fingerprint of the data, time of each start",
    "metrics.jsonl": "one JSON object a line: losses by step, validation accuracy by epoch",
    "checkpoint/": "the newest resumable state: tensors as safetensors, the rest as JSON, nothing pickled",
    "model.safetensors": "the trained weights: a plain state dict of the encoder and its head",
    "model.json": "how to build the model around the weights, how to prepare its inputs, and the weights' digest",
    "embeddings/": "train.npz, validation.npz, test.npz: embeddings, features, labels, class names",
    "evaluation.json": "accuracies with their intervals, once `sincere evaluate` has run",
    "geometry.json": "the shape of the test embeddings, once `sincere report` has run",
    "report.html": "what `sincere report` wrote: open it in a browser",
    "report_files/": "its pictures as PNG and SVG, and their figures as CSV",
    "tensorboard/": "event files, if they were asked for",
}


@dataclass(frozen=True)
class RunFolder:
    """Where the files of a run are.

    >>> RunFolder(Path("runs/a")).metrics.as_posix()
    'runs/a/metrics.jsonl'
    """

    path: Path

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", Path(self.path))

    @property
    def readme(self) -> Path:
        return self.path / "README.txt"

    @property
    def config(self) -> Path:
        return self.path / "config.json"

    @property
    def provenance(self) -> Path:
        return self.path / "provenance.json"

    @property
    def metrics(self) -> Path:
        return self.path / "metrics.jsonl"

    @property
    def checkpoint(self) -> Path:
        return self.path / "checkpoint"

    @property
    def weights(self) -> Path:
        return self.path / "model.safetensors"

    @property
    def model(self) -> Path:
        return self.path / "model.json"

    @property
    def evaluation(self) -> Path:
        return self.path / "evaluation.json"

    @property
    def geometry(self) -> Path:
        return self.path / "geometry.json"

    @property
    def report(self) -> Path:
        return self.path / "report.html"

    @property
    def tensorboard(self) -> Path:
        return self.path / "tensorboard"

    def embeddings(self, split: Split) -> Path:
        return self.path / "embeddings" / f"{split}.npz"

    def saved_embeddings(self) -> dict[Split, Path]:
        """The splits whose embeddings are there."""
        return {split: self.embeddings(split) for split in SPLITS if self.embeddings(split).exists()}

    def knows(self, name: str) -> bool:
        """Is this the name of something that a run writes here, whole or not yet?"""
        ours = {self.readme.name, *(entry.rstrip("/") for entry in CONTENTS)}
        return name.removesuffix(TEMPORARY) in ours

    @property
    def started(self) -> bool:
        """Did a run get anywhere here? One that failed before its first line of metrics has nothing to lose."""
        return self.checkpoint.exists() or (self.metrics.exists() and self.metrics.stat().st_size > 0)

    @property
    def finished(self) -> bool:
        """Did it come to its end?"""
        return self.weights.exists()

    def create(self) -> None:
        """Make the folder and explain it."""
        self.path.mkdir(parents=True, exist_ok=True)
        width = max(map(len, CONTENTS))
        lines = [f"{name:<{width}}  {meaning}" for name, meaning in CONTENTS.items()]
        text = "A training run of `sincere`. Some files appear only at the end.\n\n" + "\n".join(lines) + "\n"
        write_atomically(self.readme, text.encode())
