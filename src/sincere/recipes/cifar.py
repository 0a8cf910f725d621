"""CIFAR-10 and CIFAR-100: the SINCERE paper's experiment to the letter, and shorter ones of ours.

The experiment is Section 4 of Feeney and Hughes, 2023, arXiv 2309.14277, whose settings are those of Khosla et al.'s
code (arXiv 2004.11362). The paper judges by a linear classifier on frozen features: `sincere evaluate RUN --methods
linear,linear_paper`.
"""

from dataclasses import replace
from functools import partial
from typing import Literal

from sincere.evaluate import EvaluationOptions
from sincere.recipes.recipe import Recipe
from sincere.train import (
    BatchesConfig,
    ComputeConfig,
    DataConfig,
    EncoderConfig,
    HeadConfig,
    LossConfig,
    OptimizerConfig,
    ReportingConfig,
    ScheduleConfig,
    TrainConfig,
    ViewsConfig,
)

LossName = Literal["sincere", "supcon"]
# Table 2 of the paper: test top-1 / top-5 of a linear classifier, ResNet-50, 1,000 epochs, one run each.
TABLE_2 = {
    ("sincere", 10): "95.93 / 99.78",
    ("supcon", 10): "95.78 / 99.84",
    ("sincere", 100): "75.86 / 92.54",
    ("supcon", 100): "75.96 / 92.33",
}
TITLES = {"sincere": "SINCERE", "supcon": "SupCon"}

PAPER = {
    "data.validation_share": "Section 4.3 chooses nothing on held-out images: all 50,000 are trained on",
    "batches.size": "Section 4.3: 512",
    "batches.sampler": "authors' code: plain shuffling",
    "batches.drop_last": "authors' code: the last, smaller batch is kept",
    "views": "authors' code: crop of 0.2 to 1 of the area, flip, colour jitter, greyscale; two views",
    "encoder": "Section 4: ResNet-50; authors' code: a 3×3 stem without pooling for images of 32 pixels",
    "head": "Khosla et al., Section 3.1: two layers, 128 dimensions; authors' code: as wide as the features",
    "loss": "the paper's losses, Eq. 12 and 3; Section 4.3: temperature 0.1",
    "optimizer": "Section 4.3: SGD, learning rate 0.5, momentum 0.9, weight decay 0.0001 on all parameters",
    "schedule.warmup_epochs": "Section 4.3: 10",
    "schedule.warmup_start_lr": "Section 4.3: 0.0005; the authors' code starts at 0.01",
    "schedule.end_lr": "Section 4.3: 0.0005",
    "epochs": "Section 4.3: 1,000",
    "compute": "ours, for speed on a recent GPU: bfloat16, channels last, compiled and recorded",
    "reporting": "ours: there is no validation split to look at",
}
SMALLER = {**PAPER, "encoder": "ours: ResNet-18 with the paper's stem"}
FAST = {
    "batches": "ours: 512, as in the paper, shuffled; the incomplete batch is left out, so that one size is recorded",
    "views": "ours: one view, shifted by up to 4 pixels, mirrored every other time, with a hole of 12 pixels, "
    "and half of them, by chance, changed by TrivialAugment",
    "encoder": "ours: twelve layers, few and wide, the first of them computed from the data",
    "head": PAPER["head"],
    "optimizer.lr": "ours, chosen on held-out training images; the paper's 0.5",
    "optimizer.nesterov": "ours: usual for supervised CIFAR networks",
    "optimizer.weight_decay": "ours: 0.0005 is usual for supervised CIFAR networks",
    "schedule": "ours: warm-up over 2 % of the epochs, cosine to 0",
    "epochs": "ours: what fits two minutes of an H200",
    "compute": "ours: bfloat16, channels last, steps recorded as a CUDA graph, ready long before a compiler would be",
    "data.validation_share": "ours: all 50,000 images are trained on once settings are chosen",
    "reporting": PAPER["reporting"],
    "evaluation": "ours: a linear probe fitted on four views of each training image, its strength chosen on held-out "
    "training images",
}

FAST_100 = {
    **FAST,
    "views": f"{FAST['views']}; 24 pixels wide in the first 60 % of the epochs, which saves time",
    "optimizer.lr": "the paper's 0.5; others were not tried",
    "epochs": "ours: what fits one minute of an H200",
    "evaluation": "ours: as for CIFAR-10",
}
BEST = {
    **FAST,
    "views": "ours: as in the fast recipes, but three quarters of the views are changed by TrivialAugment",
    "encoder": "ours: a wide ResNet, usual for small images where there is time; no other was tried at this length",
    "optimizer.lr": "ours, by analogy: between the paper's and that of the fast recipe; nothing else was tried",
    "epochs": "ours: what fits ten minutes of an H200",
    "compute": "ours, for speed on a recent GPU: bfloat16, channels last, compiled and recorded",
    "evaluation": "ours: as in the fast recipes, with the strength that was chosen there",
}

ON_GPU = ComputeConfig(precision="bf16", channels_last=True, compile="compiled-graphs")
# A ResNet-50 keeps the GPU busy: there it pays to try several forms of its kernels, for a minute, once in a run.
TUNED = ComputeConfig(precision="bf16", channels_last=True, compile="tuned-graphs")
AT_ONCE = ComputeConfig(precision="bf16", channels_last=True, compile="graphs")
FAST_RATES = {10: 0.125, 100: 0.5}  # chosen on held-out training images; for CIFAR-100 nothing else was tried
FAST_EPOCHS = {10: 160, 100: 112}  # two minutes and one: on CIFAR-100 there is room above the paper's accuracy
QUIET = ReportingConfig(validate_every=0)
PROBED = EvaluationOptions(methods=("linear", "knn", "class_means"), probe_views=4, l2=0.001)


def paper(loss: LossName, classes: int, encoder: str = "resnet50") -> TrainConfig:
    """Section 4.3, with the authors' code where the paper is silent."""
    return TrainConfig(
        data=DataConfig(f"cifar{classes}:PATH", validation_share=0.0),
        batches=BatchesConfig(512, "shuffled", drop_last=False),
        views=ViewsConfig("sincere", count=2),
        encoder=EncoderConfig(encoder, {"stem": "small"}),
        head=HeadConfig("mlp", dim=128),
        loss=LossConfig(loss, temperature=0.1),
        optimizer=OptimizerConfig("sgd", lr=0.5, momentum=0.9, weight_decay=1e-4, decay="all"),
        schedule=ScheduleConfig("cosine", warmup_epochs=10, warmup_start_lr=0.0005, end_lr=0.0005),
        compute=TUNED if encoder == "resnet50" else ON_GPU,
        reporting=QUIET,
        epochs=1000,
    )


def fast(classes: int) -> TrainConfig:
    """Ours: a short network, one view, half of the time a strong one; for CIFAR-100 a small one at first."""
    views = ViewsConfig("trivial", count=1, options={"flip": {"alternate": True}, "trivial": {"p": 0.5}})
    return TrainConfig(
        data=DataConfig(f"cifar{classes}:PATH", validation_share=0.0),
        batches=BatchesConfig(512, "shuffled", drop_last=True),
        views=views if classes == 10 else replace(views, early_size=24, early_share=0.6),
        encoder=EncoderConfig("short_cnn", {"activation": "relu"}),
        head=HeadConfig("mlp", dim=128),
        loss=LossConfig("sincere", temperature=0.1),
        optimizer=OptimizerConfig("sgd", lr=FAST_RATES[classes], momentum=0.9, nesterov=True, weight_decay=5e-4),
        schedule=ScheduleConfig("cosine", warmup_epochs=0.02 * FAST_EPOCHS[classes]),
        compute=AT_ONCE,
        reporting=QUIET,
        epochs=FAST_EPOCHS[classes],
    )


def best(classes: int) -> TrainConfig:
    """Ours: a wide ResNet and stronger views, as long as ten minutes allow."""
    shorter = replace(fast(10), data=fast(classes).data)
    return replace(
        shorter,
        views=replace(shorter.views, options={"flip": {"alternate": True}, "trivial": {"p": 0.75}}),
        encoder=EncoderConfig("wide_resnet", {"depth": 28, "width": 10}),
        optimizer=replace(shorter.optimizer, lr=0.2),
        schedule=ScheduleConfig("cosine", warmup_epochs=2),
        compute=ON_GPU,
        epochs=115,
    )


def _of_the_paper(loss: LossName, classes: int) -> Recipe:
    return Recipe(
        name=f"{loss}-cifar{classes}",
        data=f"cifar{classes}:PATH",
        claim=f"{TITLES[loss]} on CIFAR-{classes} as in the SINCERE paper, Section 4: ResNet-50, 1,000 epochs; "
        f"its Table 2 has {TABLE_2[loss, classes]} % (top-1 / top-5, linear classifier, one run).",
        make=partial(paper, loss, classes),
        origins=PAPER,
    )


def _smaller(loss: LossName, classes: int) -> Recipe:
    return Recipe(
        name=f"{loss}-cifar{classes}-resnet18",
        data=f"cifar{classes}:PATH",
        claim=f"{TITLES[loss]} on CIFAR-{classes} with the paper's settings and a ResNet-18 in place of the ResNet-50.",
        make=partial(paper, loss, classes, "resnet18"),
        origins=SMALLER,
    )


def _ours(kind: Literal["fast", "best"], classes: int) -> Recipe:
    minutes = "two minutes" if classes == 10 else "one minute"
    aim = {
        "fast": f"made to take {minutes} of one H200 from files to a linear probe's verdict: a short network, one "
        f"view, {FAST_EPOCHS[classes]} epochs",
        "best": "as accurate as ten minutes of one H200 allow, from files to a linear probe's verdict: a wide ResNet, "
        "one view, 115 epochs",
    }[kind]
    return Recipe(
        name=f"{kind}-cifar{classes}",
        data=f"cifar{classes}:PATH",
        claim=f"SINCERE on CIFAR-{classes}, {aim}. Table 2 of the SINCERE paper has {TABLE_2['sincere', classes]} % "
        "(top-1 / top-5, ResNet-50, 1,000 epochs).",
        make=partial({"fast": fast, "best": best}[kind], classes),
        origins=BEST if kind == "best" else FAST if classes == 10 else FAST_100,
        evaluation=PROBED,
    )


LOSSES: tuple[LossName, ...] = ("sincere", "supcon")
CIFAR = (
    *(_of_the_paper(loss, classes) for classes in (10, 100) for loss in LOSSES),
    *(_smaller(loss, classes) for classes in (10, 100) for loss in LOSSES),
    *(_ours("fast", classes) for classes in (10, 100)),
    *(_ours("best", classes) for classes in (10, 100)),
)
