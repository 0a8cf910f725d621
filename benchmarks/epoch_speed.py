"""Seconds that an epoch of training takes, from data in memory to moved weights, by recipe and settings.

    python benchmarks/epoch_speed.py cifar10:PATH sincere-cifar10-resnet18 "sincere-cifar10 compute.compile=off"
    python benchmarks/epoch_speed.py random "fast-cifar10 encoder.name=short_cnn" --epochs 5 --csv epochs.csv

Each argument after the data is a recipe and, behind it, settings as `sincere train --set` takes them. "random" stands
for 50,000 random images of CIFAR's size, which take as long. The first epoch is told apart: it compiles, and cuDNN
chooses its algorithms in it. The trainer is the one that users run; checkpoints and validation are left out.
"""

import argparse
import csv
import statistics
import tempfile
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from time import perf_counter
from typing import Any

import torch

from sincere.cli.settings import from_assignments, laid_over
from sincere.data import LabelledData, Splits, open_data
from sincere.recipes import find_recipe
from sincere.runs import RunFolder, provenance, read_metrics
from sincere.train import ReportingConfig, TrainConfig, train
from timing import git_commit

QUIET = ReportingConfig(validate_every=0, log_every=1000, checkpoint_seconds=None, save_embeddings=False)


def random_images(n: int = 50_000, classes: int = 10) -> Splits:
    """Images of CIFAR's size and number that show nothing."""
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randint(0, 256, (n, 3, 32, 32), dtype=torch.uint8, generator=generator)
    labels = torch.randint(0, classes, (n,), generator=generator)
    names = tuple(map(str, range(classes)))
    made = LabelledData(inputs=inputs, labels=labels, class_names=names, kind="image", name="random")
    return Splits(train=made, validation=None, test=made.subset(range(10 * classes)))


def configured(words: str, source: str, epochs: int) -> TrainConfig:
    name, *settings = words.split()
    config = TrainConfig.from_json(laid_over(find_recipe(name).config.to_json(), from_assignments(settings)))
    schedule = replace(config.schedule, warmup_epochs=min(config.schedule.warmup_epochs, 1.0))
    data = replace(config.data, source=source, validation_share=0.0)
    return replace(config, data=data, schedule=schedule, epochs=epochs, reporting=QUIET)


def timed(config: TrainConfig, data: Splits) -> dict[str, Any]:
    """Seconds of the first epoch and of the others, and the most memory that was taken."""
    on_gpu = torch.cuda.is_available()
    torch.compiler.reset()
    if on_gpu:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    with tempfile.TemporaryDirectory() as folder:
        began = perf_counter()
        train(config, run=Path(folder) / "run", data=data, show="off")
        whole = perf_counter() - began
        records = read_metrics(RunFolder(Path(folder) / "run").metrics)
    ends = [record["seconds"] for record in records if record["kind"] == "epoch"]
    epochs = sorted(after - before for before, after in pairwise(ends))
    return {
        "first_epoch_s": round(ends[0], 3),
        "epoch_s": round(statistics.median(epochs), 4),
        "fastest_s": round(epochs[0], 4),
        "slowest_s": round(epochs[-1], 4),
        "epochs": len(epochs),
        "whole_s": round(whole, 2),
        "peak_GiB": round(torch.cuda.max_memory_allocated() / 2**30, 2) if on_gpu else "",
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source")
    parser.add_argument("runs", nargs="+", metavar="'RECIPE SETTING=VALUE …'")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--csv", type=Path)
    parser.add_argument("--commit", default=git_commit(), help="of the code, where it was copied without its history")
    given = parser.parse_intermixed_args()
    data = random_images() if given.source == "random" else open_data(given.source, validation_share=0.0)
    machine = provenance(seed=0)
    origin = {
        "data": data.train.name, "images": len(data.train),
        "device": ", ".join(machine["hardware"].get("gpus", ["CPU"])), "torch": torch.__version__,
        "commit": given.commit,
    }  # fmt: skip
    rows: list[dict[str, Any]] = []
    for words in given.runs:
        config = configured(words, given.source, given.epochs)
        try:
            rows.append({"run": words, **timed(config, data), **origin})
        except RuntimeError as error:  # out of memory, or what a compiler refuses: the others shall still be timed
            print(f"{words}: failed, {str(error)[:400]}", flush=True)
            continue
        print({name: value for name, value in rows[-1].items() if name not in origin}, flush=True)
        if given.csv is not None:
            with given.csv.open("w", newline="") as file:
                writer = csv.DictWriter(file, [*rows[0]])
                writer.writeheader()
                writer.writerows(rows)


if __name__ == "__main__":
    main()
