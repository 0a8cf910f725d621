"""Claim 7: the loss costs little beside the encoder (SINCERE, Section 3.2)."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from statistics import fmean
from typing import TYPE_CHECKING

import torch

import sincere.functional as SF
from sincere.bench.agreement import outcome
from sincere.bench.machine import this_machine
from sincere.bench.problem import Problem
from sincere.bench.rounds import Candidate, Samples, run_rounds
from sincere.claims.claim import Claim, Conditions, Outcome
from sincere.claims.palette import COLOURS, GREY
from sincere.claims.record import Verdict, number
from sincere.claims.sincere_losses import SECTION
from sincere.claims.statistics import over_seeds
from sincere.encoders import EmbeddingModel, ProjectionHead, build_encoder

if TYPE_CHECKING:
    from matplotlib.figure import Figure

VIEWS = 1024  # two of each of 512 samples
FAR = 10.0  # "far exceeds": an encoder ten times as slow as the loss


@dataclass(frozen=True)
class Shares:
    """Seconds by round: of the encoder for all views of a batch, and of each loss on its embeddings."""

    encoder: tuple[float, ...]
    half: tuple[float, ...]  # of the encoder on half as many images as were run, to see that time is in proportion
    losses: dict[str, tuple[float, ...]]
    images: int  # that were run at once; `encoder` is in proportion to VIEWS

    def times(self, loss: str) -> list[float]:
        """How many times as long as the loss the encoder takes, round by round."""
        return [a / b for a, b in zip(self.encoder, self.losses[loss], strict=True)]


def loss_beside_encoder(conditions: Conditions) -> Outcome:
    """One forward + backward of each."""
    gpu = conditions.full and torch.cuda.is_available()
    device, encoder = ("cuda" if gpu else "cpu"), ("resnet50" if conditions.full else "resnet18")
    images, rounds = (VIEWS if gpu else 32 if conditions.full else 16), (10 if conditions.full else 5)
    conditions.say(f"{encoder} on {images} images at once, {rounds} rounds")
    found = measured_shares(encoder, device, images, rounds, conditions.seed)
    verdict, reason = judge_shares(found)
    machine = this_machine(device)
    threads = "" if machine.threads is None else f", {machine.threads} thread{'s' if machine.threads > 1 else ''}"
    scaled = "" if images == VIEWS else f", in proportion to {VIEWS:,} from {images} images at once"
    return Outcome(
        verdict,
        reason,
        f"{encoder.replace('resnet', 'ResNet-')} with the small stem and an MLP head on 32×32 images, forward + "
        f"backward, "
        f"float32{scaled}; losses on {VIEWS:,} × 128 embeddings; {rounds} interleaved rounds; {machine.name}{threads}",
        (
            *(
                over_seeds(
                    f"encoder's time over that of {name}",
                    found.times(name),
                    paper="far exceeds" * (name == "SINCERE") or None,
                    of="rounds",
                )
                for name in found.losses
            ),
            over_seeds("seconds of the encoder, a batch", found.encoder, of="rounds"),
            *(over_seeds(f"seconds of {name}", seconds, of="rounds") for name, seconds in found.losses.items()),
            over_seeds(
                f"time of {images} images over that of {images // 2}",
                _doubling(found),
                paper="2 in proportion",
                of="rounds",
            ),
        ),
        tuple(
            {"round": number, "encoder_seconds": found.encoder[number], "half_seconds": found.half[number]}
            | {f"{name}_seconds": seconds[number] for name, seconds in found.losses.items()}
            for number in range(rounds)
        ),
        lambda figure: _draw(figure, found),
    )


def measured_shares(encoder: str, device: str, images: int, rounds: int, seed: int) -> Shares:
    """Everybody in every round."""
    generator = torch.Generator().manual_seed(seed)
    backbone = build_encoder(encoder, kind="image", shape=(3, 32, 32), generator=generator)
    feature_dim = int(getattr(backbone, "feature_dim", 0))
    model = EmbeddingModel(backbone, ProjectionHead(feature_dim, dim=128)).to(device)
    views = torch.randn(images, 3, 32, 32, generator=generator).to(device)
    embeddings, labels = Problem(VIEWS, 128, classes=10, seed=seed, device=device).batch()

    def through_encoder(batch: torch.Tensor) -> None:
        model.zero_grad()
        model(batch).square().sum().backward()

    candidates: dict[str, Candidate] = {
        "encoder": partial(through_encoder, views),
        "half": partial(through_encoder, views[: images // 2]),
        "SINCERE": partial(outcome, partial(SF.sincere, temperature=0.1), embeddings, labels),
        "SupCon": partial(outcome, partial(SF.supcon, temperature=0.1), embeddings, labels),
    }
    repeats = {"encoder": 1, "half": 1, "SINCERE": 5, "SupCon": 5}
    samples: Samples = run_rounds(candidates, rounds=rounds, warm_up=1, repeats=repeats, device=device)
    scale = VIEWS / images
    return Shares(
        tuple(scale * seconds for seconds in samples["encoder"]),
        tuple(2 * scale * seconds for seconds in samples["half"]),
        {name: tuple(samples[name]) for name in ("SINCERE", "SupCon")},
        images,
    )


def _doubling(found: Shares) -> list[float]:
    """Time of all images over that of half of them; `half` is already in proportion to a whole batch."""
    return [2 * a / b for a, b in zip(found.encoder, found.half, strict=True)]


def judge_shares(found: Shares) -> tuple[Verdict, str]:
    """By the least of the rounds."""
    least, mean = min(found.times("SINCERE")), fmean(found.times("SINCERE"))
    verdict: Verdict = "reproduced" if least >= FAR else "partly" if mean > 1 else "not reproduced"
    share = 100 / (1 + mean)
    return verdict, (
        f"Criterion: in every round the encoder takes at least {FAR:g} times as long as SINCERE on its embeddings"
        + ("." if least >= FAR else ", which it does not.")
        + f" SINCERE has {share:.2g} % of the two together."
    )


def _draw(figure: "Figure", found: Shares) -> None:
    axis = figure.subplots()
    rows: Sequence[tuple[str, Sequence[float], str]] = [
        ("encoder", found.encoder, COLOURS["cross_entropy"]),
        *((name, found.losses[name], COLOURS[name.lower()]) for name in found.losses),
    ]
    for place, (_, seconds, colour) in enumerate(rows):
        # No bars: on a scale without a zero their lengths would mean nothing.
        axis.scatter(seconds, [place] * len(seconds), s=22, color=colour, alpha=0.5, linewidths=0)
        axis.plot([fmean(seconds)] * 2, [place - 0.2, place + 0.2], color=colour, linewidth=2)
        axis.annotate(f"{number(fmean(seconds))} s", (max(seconds) * 1.25, place), va="center")
    axis.set_yticks(range(len(rows)), [name for name, _, _ in rows])
    axis.set_ylim(len(rows) - 0.5, -0.5)
    low, high = min(min(seconds) for _, seconds, _ in rows), max(found.encoder)
    axis.set(
        xscale="log",
        xlim=(low / 3, high * 4),
        xlabel="seconds of forward + backward, batch of 512 samples with two views",
    )
    scaled = "" if found.images == VIEWS else f" (encoder in proportion from {found.images} images)"
    axis.set_title(f"Dots: {len(found.encoder)} rounds{scaled}; lines: their mean", fontsize=10)
    axis.axvline(fmean(found.encoder) / FAR, color=GREY, linestyle="--", linewidth=1)
    axis.annotate(
        "a tenth of\nthe encoder", (0.92 * fmean(found.encoder) / FAR, 2.35), ha="right", fontsize=8, color=GREY
    )


ENCODER_SHARE = (
    Claim(
        7,
        "loss-beside-encoder",
        f"{SECTION}, Section 3.2",
        "at batch 512 the encoder takes far longer than the loss on its embeddings",
        "the encoder's time far exceeds the loss's",
        loss_beside_encoder,
    ),
)
