"""Try variants of a recipe one after the other: accuracy on held-out training images, and time from data to verdict.

    python benchmarks/cifar_search.py cifar10:PATH --recipe fast-cifar10 --limit 540 --out results.csv \
        "epochs=40" "epochs=40 optimizer.lr=1.0" "encoder.name=resnet9 epochs=60 batches.size=1024"

Each argument is one variant: settings as `sincere train --set` takes them. A tenth of the training images is held out
and judged by a linear classifier on frozen features and by class means, and once more after batch normalisation has
taken its statistics from plain training images in place of views; the test images are not touched. A variant that
would not fit into what is left of --limit (by the time of the one before) is left out and said so. The first variant
of a kind pays for compilation, which a fresh machine would pay every time: `first_epoch` tells it apart.
"""

import argparse
import csv
import json
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import Any

import torch

from sincere.cli.settings import from_assignments, laid_over
from sincere.data import LabelledData, Splits, open_data
from sincere.embeddings import EmbeddingSet, LoadedModel, load
from sincere.embeddings.embed import embed_views
from sincere.evaluate.linear import fit_logistic
from sincere.nearest.class_means import class_mean_scores, class_means
from sincere.recipes import find_recipe
from sincere.runs import RunFolder, provenance, read_metrics
from sincere.train import TrainConfig, train
from timing import git_commit

TOLD = ("batches", "views", "encoder", "head", "loss", "optimizer", "schedule", "compute", "epochs")
STRENGTHS = (1e-1, 1e-2, 1e-3, 1e-4)
VIEWS = 4  # of each training image, for the classifier that is fitted on views


def configured(recipe: str, source: str, variant: str, seed: int) -> TrainConfig:
    """The recipe with a variant's settings, a tenth of the training images held out."""
    settings = laid_over(find_recipe(recipe).config.to_json(), from_assignments(variant.split()))
    config = TrainConfig.from_json(settings)
    data = replace(config.data, source=source, validation_share=0.1)
    reporting = replace(config.reporting, validate_every=0, log_every=100, checkpoint_seconds=None)
    return replace(config, data=data, reporting=reporting, seed=seed)


def probed(train_set: EmbeddingSet, held_out: EmbeddingSet, views: EmbeddingSet) -> dict[str, float]:
    """Accuracy on the held-out images, in percent: class means, and a linear classifier at each strength of L2, fitted
    on plain training images and on random views of them."""
    labels, classes = held_out.labels, len(train_set.class_names)
    means = class_means(train_set.embeddings, train_set.labels, classes=classes)
    scores = class_mean_scores(held_out.embeddings, means)
    found = {"class_means": 100 * float((scores.argmax(1) == labels).double().mean())}
    assert held_out.features is not None
    for name, source in (("linear", train_set), ("on_views", views)):
        assert source.features is not None
        fitted = None
        for l2 in STRENGTHS:
            fitted = fit_logistic(source.features, source.labels, classes=classes, l2=l2, start=fitted, tolerance=1e-4)
            right = fitted.scores(held_out.features).argmax(1) == labels
            found[f"{name}_{l2:g}"] = 100 * float(right.double().mean())
        found[name] = max(value for key, value in found.items() if key.startswith(f"{name}_"))
    return found


def in_full(config: TrainConfig) -> str:
    """A variant with everything that its recipe adds, since recipes change: all settings that are no defaults."""
    differing = dict(flat(config.to_json()).items() - flat(TrainConfig().to_json()).items())
    told = {name: value for name, value in differing.items() if name.partition(".")[0] in TOLD}
    return " ".join(f"{name}={value}" for name, value in sorted(told.items()))


def flat(settings: dict[str, Any], where: str = "") -> dict[str, str]:
    """Settings by their full names, values as JSON without blanks."""
    found: dict[str, str] = {}
    for name, value in settings.items():
        if isinstance(value, dict):
            found |= flat(value, f"{where}{name}.")
        else:
            found[where + name] = value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))
    return found


@torch.no_grad()
def normalised_by_plain_images(model: LoadedModel, data: LabelledData) -> None:
    """Let batch normalisation count on the training images as they are: an encoder has seen views alone."""
    layers = [module for module in model.model.modules() if isinstance(module, torch.nn.BatchNorm2d)]
    for layer in layers:
        layer.reset_running_stats()
        layer.momentum = None  # a plain mean over all batches
        layer.train()
    place = layers[0].weight.device
    for inputs in data.inputs.split(1000):
        model.model.encoder(model.views.plain(inputs.to(place)))
    model.model.eval()


def judged_again(model: LoadedModel, data: Splits) -> dict[str, float]:
    """Class means and the best linear classifier with those statistics."""
    assert data.validation is not None
    normalised_by_plain_images(model, data.train)
    train_set, held_out = model.embed(data.train), model.embed(data.validation)
    found = probed(train_set, held_out, train_set)
    return {f"{name}_plain_norms": found[name] for name in ("class_means", "linear")}


def tried(config: TrainConfig, data: Splits, show: str) -> dict[str, Any]:
    """Train and judge one variant."""
    began, folder = perf_counter(), Path(tempfile.mkdtemp(prefix="cifar-"))
    try:
        done = train(config, run=folder / "run", data=data, show=show)  # type: ignore[arg-type]
        trained, run = perf_counter(), RunFolder(folder / "run")
        device = "cuda" if torch.cuda.is_available() else "cpu"
        sets = [EmbeddingSet.load(run.embeddings(split)).to(device) for split in ("train", "validation")]
        model = load(run.path, device=device)
        found = probed(*sets, embed_views(model.model, model.views, data.train, count=VIEWS))
        found.update(judged_again(model, data))
        epochs = [record["seconds"] for record in read_metrics(run.metrics) if record["kind"] == "epoch"]
        per_epoch = (epochs[-1] - epochs[0]) / max(len(epochs) - 1, 1)
        return {
            **found,
            "loss": done.loss,
            "seconds": perf_counter() - began,
            "training": trained - began,
            "first_epoch": epochs[0],
            "epoch": per_epoch,
        }
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source")
    parser.add_argument("variants", nargs="*", default=[""])
    parser.add_argument("--recipe", default="fast-cifar10")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--limit", type=float, default=540.0, help="seconds in all")
    parser.add_argument("--out", type=Path, default=None)
    parser.add_argument("--show", default="off")
    parser.add_argument("--commit", default=git_commit(), help="of the code, where it was copied without its history")
    given = parser.parse_intermixed_args()
    began = perf_counter()
    first = configured(given.recipe, given.source, given.variants[0], 0)
    data = open_data(given.source, validation_share=0.1, seed=first.data.seed)
    print(f"data in {perf_counter() - began:.1f} s", flush=True)
    rows: list[dict[str, Any]] = []
    last = 0.0
    for variant in given.variants:
        for seed in range(given.seeds):
            left = given.limit - (perf_counter() - began)
            if last > left:
                print(f"left out, {left:.0f} s left: {variant} seed {seed}", flush=True)
                continue
            config = configured(given.recipe, given.source, variant, seed)
            row = tried(config, data, given.show)
            last = row["seconds"]
            rows.append({"variant": in_full(config), "seed": seed, **row})
            shown = {name: round(value, 2) for name, value in row.items() if isinstance(value, float)}
            print(f"{variant or 'as it is'} | seed {seed} | {json.dumps(shown)}", flush=True)
            if given.out is not None:
                _write(given.out, rows, given.recipe, given.commit)


def _write(path: Path, rows: list[dict[str, Any]], recipe: str, commit: str) -> None:
    found = provenance(seed=0)
    more = {
        "recipe": recipe,
        "device": ", ".join(found["hardware"].get("gpus", ["CPU"])),
        "torch": found["versions"]["torch"],
        "commit": commit,
    }
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, [*rows[0], *more])
        writer.writeheader()
        writer.writerows({**row, **more} for row in rows)


if __name__ == "__main__":
    main()
