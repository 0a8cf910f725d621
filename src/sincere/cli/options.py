"""Flags that verbs share, declared once."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from sincere.evaluate import EvaluationOptions
from sincere.types import Kind

MODEL, DATA, COMPUTE = "Model and training", "Data", "Computing"


def _option(flag: str, words: str, panel: str | None = None) -> object:
    return typer.Option(flag, help=words, rich_help_panel=panel, show_default=False)


Json = Annotated[bool, typer.Option("--json", help="Print JSON for a program instead of a table.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress; notes stay, on stderr.")]
Run = Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run.", show_default=False)]
Runs = Annotated[list[Path], typer.Argument(metavar="RUN", help="Folders of runs.", show_default=False)]
Device = Annotated[str | None, _option("--device", "auto, cpu, cuda or cuda:N.", COMPUTE)]

Source = Annotated[
    str | None,
    typer.Argument(
        metavar="DATA",
        help="digits, cifar10:PATH, cifar100:PATH, trec:PATH, a folder with a sub-folder per class, or a file: "
        ".csv .tsv .jsonl .parquet .npz .npy .label",
        show_default=False,
    ),
]
Test = Annotated[str | None, _option("--test", "Test data, a file or folder; otherwise a share of DATA.", DATA)]
AKind = Annotated[Kind | None, _option("--kind", "Of data, where the files leave it open.", DATA)]
ImageSize = Annotated[
    int | None,
    _option(
        "--image-size", "Pixels of a side; otherwise the most common size, on a CPU 64 if that is 96 or more.", DATA
    ),
]
LabelColumn = Annotated[
    str | None, _option("--label-column", "Column of a table, key of an .npz, or file with an .npy's labels.", DATA)
]
InputColumn = Annotated[str | None, _option("--input-column", "Column with the text, or key of an .npz.", DATA)]
Unreadable = Annotated[
    Literal["stop", "skip"] | None,
    _option("--unreadable", "What to do about files that cannot be read; stop unless given.", DATA),
]

Loss = Annotated[
    str | None,
    _option(
        "--loss",
        "sincere (default), supcon, infonce, eps_supinfonce, decoupled, spread, set_nce; cross_entropy, fixed_simplex; "
        "or a loss of your own, package.module:factory.",
        MODEL,
    ),
]
Temperature = Annotated[float | None, _option("--temperature", "Of the loss; 0.1 unless given.", MODEL)]
ClassBalanced = Annotated[
    bool,
    typer.Option(
        "--class-balanced",
        help="Let rare classes count as much as frequent ones: as contrasts and as anchors.",
        rich_help_panel=MODEL,
    ),
]
Encoder = Annotated[
    str | None,
    _option(
        "--encoder",
        "resnet9, resnet18, resnet34, resnet50, wide_resnet, short_cnn, small_cnn, mlp, text, sound, timm:NAME, "
        "torchvision:NAME, sentence-transformers:NAME, package.module:factory; by data and device unless given.",
        MODEL,
    ),
]
Dim = Annotated[int | None, _option("--dim", "Dimensions of the embeddings; 128 unless given.", MODEL)]
Views = Annotated[
    str | None,
    _option(
        "--views",
        "Preset of random views. Images: sincere, supcon, simclr, plain, trivial, digits; others: array, text, sound; "
        "any: none. By the data unless given.",
        MODEL,
    ),
]
Epochs = Annotated[
    int | None,
    _option("--epochs", "Passes over the data; by its size, and on a CPU by their cost, unless given.", MODEL),
]
Batch = Annotated[int | None, _option("--batch", "Samples of a batch, over all processes.", MODEL)]
Optimizer = Annotated[str | None, _option("--optimizer", "sgd, adamw, lars or muon.", MODEL)]
LearningRate = Annotated[float | None, _option("--lr", "Learning rate at its highest.", MODEL)]
Seed = Annotated[int | None, _option("--seed", "Random seed of weights, batches and views; 0 unless given.", MODEL)]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="Any other setting: optimizer.weight_decay=1e-4. Repeatable.",
        show_default=False,
    ),
]
Precision = Annotated[Literal["fp32", "bf16", "fp16"] | None, _option("--precision", "Of the computation.", COMPUTE)]

Config = Annotated[Path | None, _option("--config", "Settings from a JSON file, or of another run (its folder).")]
RecipeName = Annotated[str | None, _option("--recipe", "A complete configuration by name: see `sincere recipes`.")]
Out = Annotated[Path | None, _option("--out", "The run's new folder; runs/DATA-LOSS unless given.")]
Resume = Annotated[Path | None, _option("--resume", "Go on with the run in this folder, or begin it there.")]
Evaluate = Annotated[
    bool,
    typer.Option(
        "--evaluate",
        help="Run `sincere evaluate` on the result, as the recipe says or else with its defaults. With --resume, name "
        "the recipe again.",
    ),
]


Methods = Annotated[
    str,
    typer.Option(
        "--methods", "--method", help="Any of knn, class_means, linear, linear_paper, retrieval; with commas between."
    ),
]
ALL_METHODS = ",".join(EvaluationOptions().methods)
Neighbours = Annotated[
    int | None,
    typer.Option("--k", help="Neighbours that vote; chosen on the validation split unless given.", show_default=False),
]
Strength = Annotated[
    float | None,
    typer.Option(
        "--l2",
        help="Strength of the linear probe's L2 penalty; unless given, chosen on the validation split, or by folds of "
        "the training split where there is none.",
        show_default=False,
    ),
]
ProbeViews = Annotated[
    int,
    typer.Option(
        "--probe-views",
        help="Fit the linear probe on this many random views of each training sample instead of the sample itself (0); "
        "reads the data again.",
    ),
]
UnitProbe = Annotated[
    bool,
    typer.Option(
        "--unit-probe",
        help="Bring vectors to length one for the linear probe: for encoders that were trained without a head.",
    ),
]
Draws = Annotated[int, typer.Option("--draws", help="Number of bootstrap draws.")]
DrawsSeed = Annotated[int, typer.Option("--seed", help="Random seed of the draws.")]
ProbeSeed = Annotated[int, typer.Option("--seed", help="Random seed of the draws and of the probe's views.")]
