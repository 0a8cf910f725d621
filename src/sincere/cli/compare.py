"""`sincere compare`."""

from typing import Annotated

import typer

from sincere.cli import options
from sincere.cli.output import tell, tell_json
from sincere.cli.run_evaluation import known_evaluation
from sincere.errors import OptionError
from sincere.evaluate import compare

Method = Annotated[
    str, typer.Option("--method", "--methods", help="knn, class_means, linear, linear_paper or retrieval.")
]
Metric = Annotated[
    str, typer.Option("--metric", help="top1, top5, balanced; of retrieval: map@r, r_precision, recall@K.")
]


def compare_runs(
    runs: options.Runs,
    method: Method = "knn",
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
    found = compare(
        *map(known_evaluation, runs), method=method.replace("-", "_"), metric=metric, draws=draws, seed=seed
    )
    tell_json(found.to_json()) if json else tell(str(found))
