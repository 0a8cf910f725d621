"""`sincere demo`."""

from pathlib import Path
from time import perf_counter
from typing import Annotated

import torch
import typer

from sincere.cli import options
from sincere.cli.demo_folder import claimed
from sincere.cli.hints import command
from sincere.cli.output import say, tell, tell_json, working
from sincere.cli.run_evaluation import embedding_sets, evaluated
from sincere.data import open_data
from sincere.evaluate import EvaluationOptions
from sincere.recipes.demo import EPOCHS, METHODS, Side, conclusion, demo_configs, side, table
from sincere.report import write_report
from sincere.runs import RunFolder
from sincere.tables import amount
from sincere.train import train

Folder = Annotated[Path, typer.Option("--out", help="Folder for the runs; that of an earlier demo is replaced.")]
Many = Annotated[int, typer.Option("--epochs", help="Passes over the training images.")]
Number = Annotated[int, typer.Option("--seed", help="Random seed of weights, batches and views.")]


def demo(
    out: Folder = Path("sincere-demo"), epochs: Many = EPOCHS, seed: Number = 0, json: options.Json = False
) -> None:
    """Train SINCERE, SupCon and cross-entropy on scikit-learn's digits and compare them: a minute, no download."""
    configs, began, sides = demo_configs(seed=seed, epochs=epochs), perf_counter(), dict[str, Side]()
    claimed(out, configs)
    torch.set_num_threads(1)  # the network is small: more threads mostly wait for each other, busily
    data = open_data("digits")
    for name, config in configs.items():
        say(f"{name}: {amount(epochs, 'epoch')} on {len(data.train):,} images → {out / name}")
        stopped = train(config, run=out / name, data=data).exit_code
        if stopped:
            raise typer.Exit(stopped)
        found = evaluated(out / name, EvaluationOptions(methods=METHODS))
        sides[name] = side(name, found, embedding_sets(RunFolder(out / name))["test"])
    with working("report") as at:
        page = write_report([out / name for name in configs], out / "report.html", on_step=at)
    if json:
        told = {name: one.to_json() | {"run": str(out / name)} for name, one in sides.items()}
        tell_json(told | {"report": str(page)})
        return
    tell(f"\n{table(sides)}\n\n{conclusion(sides)}\n")
    tell(f"{perf_counter() - began:.0f} s. The runs are in {out}: `{command('evaluate', out / 'sincere')}` says more.")
    tell(f"What they look like, to open in a browser: {page}")
