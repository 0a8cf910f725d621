"""SINCERE and SupCon side by side on handwritten digits, in seconds on a laptop.

    python demo/digits.py
    python demo/digits.py --seed 1 --epochs 20

Both losses train the same small network from the same weights on the same batches; the table then compares the two
embedding spaces on images that neither has seen. "Repulsion" is the share of same-class pairs (t, p) that a step of
gradient descent would push apart, ∂L/∂s_tp > 0:

    SupCon   ∂ℓ_t/∂s_tp = softmax_A(s)_tp − 1/|P|        (Feeney and Hughes, 2023, arXiv 2309.14277, Eq. 14)
    SINCERE  ∂ℓ_t/∂s_tp = −σ(lse_N(t) − s_tp)/|P|  ≤ 0
"""

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier
from torch import Tensor, nn

import sincere.functional as SF

TEMPERATURE = 0.1
PER_CLASS = 20  # every class of a batch has this many images, so every anchor has positives
NEIGHBOURS = 5
DRAWS = 1000
# Ours: set once for both losses, and not tuned on the test images.
LEARNING_RATE, WEIGHT_DECAY = 3e-3, 1e-2
NOISE, MASKED = 0.1, 0.1  # deviation of the pixel noise and share of the pixels blanked in each view

Coefficients = Callable[[Tensor, Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class Digits:
    """Images (n, 64) in [0, 1] and their classes, split once."""

    train_images: Tensor
    train_labels: Tensor
    test_images: Tensor
    test_labels: Tensor


@dataclass(frozen=True)
class Result:
    """What one loss arrived at."""

    correct: np.ndarray  # one truth value per test image
    within: float
    between: float
    repulsion: float
    repulsion_in_training: float

    def accuracy_interval(self, draws: np.ndarray) -> tuple[float, float]:
        low, high = np.percentile(self.correct[draws].mean(axis=1), [2.5, 97.5])
        return float(low), float(high)


def main() -> None:
    options = parsed_options()
    torch.set_num_threads(1)  # the matrices are small: more threads would mostly wait for each other
    digits = split_digits(options.seed)
    results = {}
    for name in LOSSES:
        encoder, repulsion = trained(name, digits, options.epochs, options.seed)
        results[name] = evaluated(name, encoder, digits, repulsion)
    n = len(digits.test_labels)
    draws = np.random.default_rng(options.seed).integers(0, n, (DRAWS, n))
    print_table(results, draws)
    print(f"\n{what_to_see(results, draws)}")


def parsed_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=0, help="of the split, the weights and the batches (default 0)")
    parser.add_argument("--epochs", type=int, default=60, help="passes over the training images (default %(default)s)")
    options = parser.parse_args()
    if options.epochs < 1:
        parser.error(f"--epochs must be at least 1, got {options.epochs}")
    return options


def split_digits(seed: int) -> Digits:
    """Three quarters to train, a quarter to test, classes in equal shares."""
    images, labels = load_digits(return_X_y=True)
    parts = train_test_split(
        (images / 16).astype(np.float32), labels.astype(np.int64), test_size=0.25, stratify=labels, random_state=seed
    )
    train_images, test_images, train_labels, test_labels = map(torch.from_numpy, parts)
    return Digits(train_images, train_labels, test_images, test_labels)


def trained(name: str, digits: Digits, epochs: int, seed: int) -> tuple[nn.Module, float]:
    """A network trained with one loss, and the repulsion in its last epoch; the seed fixes weights and batches."""
    torch.manual_seed(seed)
    encoder = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 64))
    optimizer = torch.optim.AdamW(encoder.parameters(), lr=LEARNING_RATE, weight_decay=WEIGHT_DECAY)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs)
    generator = torch.Generator().manual_seed(seed)
    loss_of, coefficients = LOSSES[name]
    seen, start, repulsions = 0, time.perf_counter(), []
    for epoch in range(epochs):
        losses = []
        for views, labels in batches(digits, generator):
            embeddings = encoder(views)
            loss = loss_of(embeddings, labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            seen += len(labels)
            losses.append(loss.item())
            if epoch == epochs - 1:
                repulsions.append(repulsion(embeddings.detach(), labels, coefficients))
        schedule.step()
        rate = seen / (time.perf_counter() - start)
        progress = f"{name:<8} epoch {epoch + 1:>3}/{epochs}  loss {np.mean(losses):.4f}  {rate:,.0f} views/s   "
        if sys.stdout.isatty():
            print(f"\r{progress}", end="\n" if epoch == epochs - 1 else "", flush=True)
        elif (epoch + 1) % 20 == 0 or epoch == epochs - 1:  # a log keeps every line, so it gets few
            print(progress, flush=True)
    return encoder, float(np.mean(repulsions))


def batches(digits: Digits, generator: torch.Generator) -> Iterator[tuple[Tensor, Tensor]]:
    """One pass: PER_CLASS images of each class a batch, two random views of each, shuffled anew."""
    members = [
        of_class[torch.randperm(len(of_class), generator=generator)]
        for of_class in ((digits.train_labels == label).nonzero().squeeze(1) for label in range(10))
    ]
    for number in range(min(map(len, members)) // PER_CLASS):
        chosen = torch.cat([rows[number * PER_CLASS : (number + 1) * PER_CLASS] for rows in members])
        images, labels = digits.train_images[chosen], digits.train_labels[chosen]
        yield torch.cat([view(images, generator), view(images, generator)]), labels.repeat(2)


def view(images: Tensor, generator: torch.Generator) -> Tensor:
    """The images with some pixels blanked and noise on all."""
    kept = torch.rand(images.shape, generator=generator) >= MASKED
    return images * kept + NOISE * torch.randn(images.shape, generator=generator)


def supcon_coefficients(s: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
    """softmax_A(s)_tp − 1/|P|."""
    share = s.masked_fill(~(positive | negative), -torch.inf).softmax(dim=1)
    return share - 1 / positive.sum(dim=1, keepdim=True)


def sincere_coefficients(s: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
    """−σ(lse_N(t) − s_tp)/|P|."""
    lse_negative = s.masked_fill(~negative, -torch.inf).logsumexp(dim=1, keepdim=True)
    return -torch.sigmoid(lse_negative - s) / positive.sum(dim=1, keepdim=True)


LOSSES: dict[str, tuple[Callable[..., Tensor], Coefficients]] = {
    "SINCERE": (partial(SF.sincere, temperature=TEMPERATURE), sincere_coefficients),
    "SupCon": (partial(SF.supcon, temperature=TEMPERATURE), supcon_coefficients),
}


def cosines_and_masks(embeddings: Tensor, labels: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """All cosines in double precision, and which pairs are positives and negatives."""
    z = F.normalize(embeddings.double(), dim=1)
    same = labels.unsqueeze(1) == labels
    return z @ z.T, same & ~torch.eye(len(labels), dtype=torch.bool), ~same


def repulsion(embeddings: Tensor, labels: Tensor, coefficients: Coefficients) -> float:
    """Share of same-class pairs (t, p) with ∂L/∂s_tp > 0."""
    cosines, positive, negative = cosines_and_masks(embeddings, labels)
    pushed = coefficients(cosines / TEMPERATURE, positive, negative)[positive] > 0
    return float(pushed.double().mean())


@torch.no_grad()
def evaluated(name: str, encoder: nn.Module, digits: Digits, repulsion_in_training: float) -> Result:
    """k-NN among the training embeddings, and the geometry of the test embeddings."""
    known = F.normalize(encoder(digits.train_images), dim=1).numpy()
    embeddings = F.normalize(encoder(digits.test_images), dim=1)
    neighbours = KNeighborsClassifier(NEIGHBOURS).fit(known, digits.train_labels.numpy())
    cosines, positive, negative = cosines_and_masks(embeddings, digits.test_labels)
    return Result(
        correct=neighbours.predict(embeddings.numpy()) == digits.test_labels.numpy(),
        within=float(cosines[positive].mean()),
        between=float(cosines[negative].mean()),
        repulsion=repulsion(embeddings, digits.test_labels, LOSSES[name][1]),
        repulsion_in_training=repulsion_in_training,
    )


def print_table(results: dict[str, Result], draws: np.ndarray) -> None:
    """One column a loss."""
    intervals = {name: result.accuracy_interval(draws) for name, result in results.items()}
    n = draws.shape[1]
    rows: dict[str, Callable[[str], str]] = {
        f"on {n} test images": lambda name: name,
        f"{NEIGHBOURS}-NN accuracy": lambda name: f"{results[name].correct.mean():.2%}",
        f"  95 % interval, {DRAWS:,} draws": lambda name: "{:.2%} – {:.2%}".format(*intervals[name]),
        "mean cosine within classes": lambda name: f"{results[name].within:+.3f}",
        "mean cosine between classes": lambda name: f"{results[name].between:+.3f}",
        "repulsion": lambda name: f"{results[name].repulsion:.1%}",
        "repulsion in training, last epoch": lambda name: f"{results[name].repulsion_in_training:.1%}",
    }
    print()
    for title, cell in rows.items():
        print(f"{title:<36}" + "".join(f"{cell(name):>20}" for name in results))


def what_to_see(results: dict[str, Result], draws: np.ndarray) -> str:
    """One sentence, chosen by the numbers: a difference is claimed only where its interval excludes zero."""
    ours, theirs = results["SINCERE"], results["SupCon"]
    differences = (ours.correct[draws].mean(axis=1) - theirs.correct[draws].mean(axis=1)) * 100
    low, high = np.percentile(differences, [2.5, 97.5])
    interval = f"95 % interval of the paired difference {low:+.1f} to {high:+.1f} points"
    if low > 0 or high < 0:
        accuracy = f"{'SINCERE' if low > 0 else 'SupCon'} is the more accurate here ({interval})"
    else:
        accuracy = f"the accuracies cannot be told apart ({interval})"
    if theirs.repulsion > ours.repulsion:
        share = "none" if ours.repulsion == 0 else f"{ours.repulsion:.1%}"
        pushed = f"SupCon pushes {theirs.repulsion:.1%} of same-class test pairs apart and SINCERE {share}"
    else:
        pushed = "neither loss pushes same-class test pairs apart"
    return f"What to see: {pushed}, while {accuracy}."


if __name__ == "__main__":
    main()
