"""Do views that are smaller in the first epochs pay, where a run's cost is what is limited?

    python benchmarks/early_views.py cifar10:PATH --seeds 0 1 2 3 4

The first 3,000 training images of CIFAR-10, with the network and the settings that `sincere train` chooses on a CPU.
Full size for 24 or 50 epochs, beside smaller views for the first part of more epochs, as many as cost the same (one
core of an AMD EPYC: an epoch of 24 pixels takes 0.49 of a full one's time, of 20 pixels 0.35, of 16 pixels 0.21).
Judged by 5,000 other training images; no test image is touched. Four to eight minutes a run on one core; rows are added
to results/early_views.csv, those that are there are not run again.
"""

import argparse
import csv
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from sincere.data import Splits, open_data
from sincere.embeddings import EmbeddingSet
from sincere.evaluate import EvaluationOptions, evaluate
from sincere.recipes.start import Given, starting_point
from sincere.runs import RunFolder
from sincere.train import ReportingConfig, TrainConfig, train
from timing import git_commit

RESULTS = Path(__file__).parent / "results" / "early_views.csv"
TRAINED, JUDGED = range(3000), range(40_000, 45_000)
# epochs, early_size, early_share
ARMS: dict[str, tuple[int, int | None, float]] = {
    "24 epochs, full size": (24, None, 0.5),
    "40 epochs, 60 % with 20 pixels": (40, 20, 0.6),
    "46 epochs, 60 % with 16 pixels": (46, 16, 0.6),
    "59 epochs, 75 % with 16 pixels": (59, 16, 0.75),
    "50 epochs, full size": (50, None, 0.5),
    "80 epochs, 60 % with 20 pixels": (80, 20, 0.6),
}
METHODS = ("linear", "knn", "class_means")
JUDGES = EvaluationOptions(methods=METHODS, l2=0.01)


def configured(base: TrainConfig, arm: str, seed: int) -> TrainConfig:
    epochs, size, share = ARMS[arm]
    return replace(
        base,
        epochs=epochs,
        seed=seed,
        views=replace(base.views, early_size=size, early_share=share),
        compute=replace(base.compute, device="cpu"),
        schedule=replace(base.schedule, warmup_epochs=0.05 * epochs),
        reporting=ReportingConfig(validate_every=0, log_every=1000),
    )


def measured(config: TrainConfig, data: Splits) -> dict[str, Any]:
    """Accuracies in percent, and the last epoch's loss."""
    with tempfile.TemporaryDirectory() as place:
        done = train(config, run=Path(place) / "run", data=data, show="off")
        folder = RunFolder(Path(place) / "run")
        parts = [EmbeddingSet.load(folder.embeddings(split)) for split in ("train", "test")]
    found = evaluate(*parts, options=JUDGES)
    accuracies = {method: round(100 * found.classifier(method).top1.value, 2) for method in METHODS}
    return {**accuracies, "loss": round(done.loss or 0.0, 3)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source")
    parser.add_argument("--arms", nargs="*", choices=ARMS, default=list(ARMS))
    parser.add_argument("--seeds", nargs="*", type=int, default=[0, 1, 2, 3, 4])
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_intermixed_args()
    torch.set_num_threads(1)  # so that a seed gives the same on any number of cores
    whole = open_data(given.source, validation_share=0.0).train
    data = Splits(train=whole.subset(TRAINED), validation=None, test=whole.subset(JUDGED))
    base = starting_point(data.train, Given(device="cpu"))
    for seed in given.seeds:
        for arm in given.arms:
            rows = kept(given.out)
            if any((row["arm"], row["seed"]) == (arm, str(seed)) for row in rows):
                continue
            row = {"arm": arm, "seed": seed, **measured(configured(base, arm, seed), data)}
            print(row, flush=True)
            write(given.out, [*kept(given.out), {**row, "torch": torch.__version__, "commit": git_commit()}])


def kept(path: Path) -> list[dict[str, Any]]:
    if not path.exists():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def write(path: Path, rows: list[dict[str, Any]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, rows[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    main()
