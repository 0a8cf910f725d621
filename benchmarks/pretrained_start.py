"""What `sincere train` makes of a pretrained network on few photos, beside the network as it was.

python benchmarks/pretrained_start.py CIFAR10 CIFAR100     # folders with the official files

ImageNet's weights are no part of this: a timm network is first trained on CIFAR-100 with cross-entropy, and kept under
--weights for the next time. The photos are PNGs of CIFAR-10, 50 of each class, of which `sincere train` sets a tenth
aside. k-NN and a linear probe judge by all test images; with --choose by 300 other training images of each class, as
the start was chosen. "from nothing" is how a network is trained that knows nothing yet. A quarter of an hour for the
weights, a minute or two a row, a quarter of an hour for "from nothing", on one core; rows go to
results/pretrained_start.csv.
"""

import argparse
import csv
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import timm
import torch
import torch.nn.functional as F
from PIL import Image
from torch import Tensor, nn

from sincere.data import LabelledData, open_data
from sincere.embeddings import EmbeddingSet
from sincere.encoders import build_encoder
from sincere.evaluate import Evaluation, EvaluationOptions, evaluate
from sincere.views import Statistics, build_views

RESULTS = Path(__file__).parent / "results" / "pretrained_start.csv"
NETWORK, EPOCHS, BATCH, RATE = "resnet10t", 9, 256, 3e-3
PER_CLASS, TO_CHOOSE_BY, SEEDS = 50, 300, 3
FROM_NOTHING = ["--optimizer", "sgd", "--epochs", "300", "--set", "head.layers=mlp"]
ASKED = EvaluationOptions(methods=("knn", "linear"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cifar10", type=Path)
    parser.add_argument("cifar100", type=Path)
    parser.add_argument("--weights", type=Path, default=Path(f"{NETWORK}-cifar100.pth"))
    parser.add_argument("--choose", action="store_true", help="judge by training images, and write no results")
    given = parser.parse_args()
    if not given.weights.exists():
        torch.save(pretrained(given.cifar100).state_dict(), given.weights)
    with TemporaryDirectory() as place:
        parts = photos(given.cifar10, Path(place), choose=given.choose)
        rows = [row("as it was", 0, untouched(given.weights, parts))]
        for seed in range(SEEDS):
            rows.append(row("its start", seed, trained(given.weights, parts, [], seed, Path(place) / f"start-{seed}")))
        nothing = trained(given.weights, parts, FROM_NOTHING, 0, Path(place) / "nothing")
        rows.append(row("from nothing, 300 epochs", 0, nothing))
    if not given.choose:
        with RESULTS.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, rows[0], lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)


def pretrained(cifar100: Path) -> nn.Module:
    """The network with a classifier, trained on CIFAR-100 with images normalised as its own description says."""
    torch.manual_seed(0)
    data = open_data(f"cifar100:{cifar100}", validation_share=0)
    network = timm.create_model(NETWORK, num_classes=len(data.train.class_names))
    network = network.to(memory_format=torch.channels_last)
    optimizer = torch.optim.AdamW(network.parameters(), lr=RATE, weight_decay=0.05)
    batches = len(data.train) // BATCH
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, RATE, total_steps=EPOCHS * batches, pct_start=0.15)
    for epoch in range(EPOCHS):
        for chosen in torch.randperm(len(data.train))[: batches * BATCH].split(BATCH):
            images = moved_and_mirrored(data.train.inputs[chosen])
            with torch.autocast("cpu", torch.bfloat16):
                logits = network(normalised(images, network))
            loss = F.cross_entropy(logits.float(), data.train.labels[chosen], label_smoothing=0.1)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
        print(f"epoch {epoch + 1}: {accuracy(network, data.test):.4f} on CIFAR-100's test images", flush=True)
    return network


def moved_and_mirrored(images: Tensor) -> Tensor:
    down, left = torch.randint(0, 9, (2,)).tolist()
    moved = F.pad(images, (4, 4, 4, 4))[:, :, down : down + 32, left : left + 32]
    return torch.where((torch.rand(len(images)) < 0.5).view(-1, 1, 1, 1), moved.flip(3), moved)


def normalised(images: Tensor, network: nn.Module) -> Tensor:
    mean, std = (torch.tensor(network.pretrained_cfg[name]).view(3, 1, 1) for name in ("mean", "std"))
    return ((images / 255 - mean) / std).contiguous(memory_format=torch.channels_last)


def accuracy(network: nn.Module, data: LabelledData) -> float:
    network.eval()
    with torch.no_grad():
        found = torch.cat([network(normalised(images, network)).argmax(1) for images in data.inputs.split(500)])
    network.train()
    return float((found == data.labels).float().mean())


def photos(cifar10: Path, place: Path, *, choose: bool) -> dict[str, Path]:
    """Folders of PNGs: the first training images of each class, and those to judge by."""
    data = open_data(f"cifar10:{cifar10}", validation_share=0)
    for part, samples, per_class in (
        ("train", data.train, slice(PER_CLASS)),
        ("test", data.train if choose else data.test, slice(-TO_CHOOSE_BY, None) if choose else slice(None)),
    ):
        for number, name in enumerate(samples.class_names):
            folder = place / part / name
            folder.mkdir(parents=True)
            for index in (samples.labels == number).nonzero().flatten().tolist()[per_class]:
                Image.fromarray(samples.inputs[index].permute(1, 2, 0).numpy()).save(folder / f"{index:05}.png")
    return {part: place / part for part in ("train", "test")}


def untouched(weights: Path, parts: dict[str, Path]) -> Evaluation:
    """The network's own features, of images prepared as for training."""
    data = open_data(parts["train"], test=parts["test"])
    shape = data.train.form.shape
    encoder = build_encoder(f"timm:{NETWORK}", kind="image", shape=shape, checkpoint_path=str(weights)).eval()
    views = build_views("none", kind="image", statistics=Statistics.of(data.train.inputs, kind="image"))
    sets = []
    for part in (data.train, data.test):
        with torch.no_grad():
            features = torch.cat([encoder(views.plain(images)) for images in part.inputs.split(500)])
        sets.append(EmbeddingSet.from_arrays(features.numpy(), part.labels.numpy()))
    return evaluate(*sets, options=ASKED)


def trained(weights: Path, parts: dict[str, Path], options: list[str], seed: int, run: Path) -> Evaluation:
    """By the command line, as a user would."""
    command = [sys.executable, "-m", "sincere", "train", str(parts["train"]), "--test", str(parts["test"])]
    command += ["--encoder", f"timm:{NETWORK}", "--set", f"encoder.options.checkpoint_path={weights}"]
    command += ["--device", "cpu", "--seed", str(seed), "--out", str(run), *options]
    subprocess.run(command, check=True)
    train, test = (EmbeddingSet.load(run / "embeddings" / f"{part}.npz") for part in ("train", "test"))
    return evaluate(train, test, options=ASKED)


def row(way: str, seed: int, found: Evaluation) -> dict[str, str]:
    made = {"way": way, "seed": str(seed)}
    for method in ASKED.methods:
        top1 = found.classifier(method).top1
        made |= {method: f"{100 * top1.value:.2f}", f"{method} interval": f"{100 * top1.low:.1f}–{100 * top1.high:.1f}"}
    made["test images"] = str(len(found.labels))
    print(made, flush=True)
    return made


if __name__ == "__main__":
    main()
