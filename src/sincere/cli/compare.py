"""`sincere compare`."""

from pathlib import Path
from typing import Annotated, get_args

import typer

from sincere.cli import options
from sincere.cli.hints import command
from sincere.cli.output import tell, tell_json
from sincere.cli.run_evaluation import known_evaluation
from sincere.errors import OptionError
from sincere.evaluate import Evaluation, compare
from sincere.evaluate.options import Method
from sincere.train.fields import check_at_least

How = Annotated[str, typer.Option("--method", "--methods", help="knn, class_means, linear, linear_paper or retrieval.")]
Metric = Annotated[
    str, typer.Option("--metric", help="top1, top5, balanced; of retrieval: map@r, r_precision, recall@K.")
]


def compare_runs(
    runs: options.Runs,
    method: How = "knn",
    metric: Metric = "top1",
    draws: options.Draws = 1000,
    seed: options.DrawsSeed = 0,
    json: options.Json = False,
) -> None:
    """Say whether the difference between runs is real: paired bootstrap and exact test on the same test samples.

    Runs that have no evaluation.json are evaluated first.
    """
    if len(runs) < 2:
        raise OptionError(f"compare takes two runs or more: got {len(runs)}.")
    check_at_least(0, seed=seed)  # before runs without an evaluation are evaluated
    name, known = method.replace("-", "_"), [known_evaluation(run) for run in runs]
    for run, evaluation in zip(runs, known, strict=True):
        check_evaluated(run, evaluation, name)
    found = compare(*known, method=name, metric=metric, draws=draws, seed=seed)
    tell_json(found.to_json()) if json else tell(str(found))


def check_evaluated(run: Path, known: Evaluation, method: str) -> None:
    """Refuse a run that was evaluated by other methods, and say how it is by this one too."""
    methods = (*known.methods, *(["retrieval"] if known.retrieval else []))
    if method in get_args(Method) and method not in methods:
        again = command("evaluate", run, "--methods", ",".join((*methods, method)))
        raise OptionError(
            f"{run} must have been evaluated by {method}: its evaluation.json has {', '.join(methods)}. {again}"
        )
