"""`sincere evaluate`."""

from sincere.cli import options
from sincere.cli.output import tell, tell_json
from sincere.cli.run_evaluation import evaluated
from sincere.evaluate import EvaluationOptions


def evaluate_run(
    run: options.Run,
    methods: options.Methods = options.ALL_METHODS,
    k: options.Neighbours = None,
    draws: options.Draws = 1000,
    seed: options.DrawsSeed = 0,
    device: options.Device = None,
    json: options.Json = False,
) -> None:
    """Measure a finished run on its test split: accuracies with 95 % intervals, and in words what it confuses.

    Writes evaluation.json into the run, by which `sincere compare` goes. Nothing is chosen on the test split.
    """
    names = tuple(name.strip().replace("-", "_") for name in methods.split(","))
    settings = EvaluationOptions(methods=names, k=k, draws=draws, seed=seed)  # type: ignore[arg-type]  # it checks them
    found = evaluated(run, settings, device=device)
    tell_json(found.to_json()) if json else tell("\n".join([str(found), "", *found.summary]))
