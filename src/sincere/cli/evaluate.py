"""`sincere evaluate`."""

from collections.abc import Collection, Mapping
from pathlib import Path

from sincere.cli import options
from sincere.cli.hints import command
from sincere.cli.output import tell, tell_json
from sincere.cli.run_evaluation import keep, measured, say_not_kept
from sincere.errors import OptionError
from sincere.evaluate import EvaluationOptions
from sincere.runs import RunFolder
from sincere.train.fields import check_at_least


def evaluate_run(
    run: options.Run,
    methods: options.Methods = options.ALL_METHODS,
    k: options.Neighbours = None,
    l2: options.Strength = None,
    probe_views: options.ProbeViews = 0,
    unit_probe: options.UnitProbe = False,
    draws: options.Draws = 1000,
    seed: options.ProbeSeed = 0,
    device: options.Device = None,
    json: options.Json = False,
) -> None:
    """Measure a finished run on its test split: accuracies with 95 % intervals, and in words what it confuses.

    Writes evaluation.json into the run, by which `sincere compare` goes. Nothing is chosen on the test split. If the
    run may only be read, the figures are printed all the same; --json prints all that evaluation.json would hold.
    """
    check_at_least(0, seed=seed)
    names = tuple(name.strip().replace("-", "_") for name in methods.split(","))
    settings = EvaluationOptions(
        methods=names,  # type: ignore[arg-type]  # it checks them
        k=k,
        draws=draws,
        seed=seed,
        l2=l2,
        probe_views=probe_views,
        unit_probe=unit_probe,
    )
    of_linear = {"--l2": l2, "--probe-views": probe_views or None, "--unit-probe": unit_probe or None}
    check_meant(names, {"knn": {"--k": k}, "linear": of_linear})
    found = measured(run, settings, device=device)
    refused = keep(run, found)  # before it is told: whoever reads along may have read enough
    tell_json(found.to_json()) if json else tell("\n".join([str(found), "", *found.summary]))
    earlier = " The one that is there is of an earlier evaluation." if RunFolder(run).evaluation.exists() else ""
    elsewhere = "" if json else f" To have it elsewhere: {command_for(run, settings)} --json > evaluation.json"
    say_not_kept(refused, advice=earlier + elsewhere)


def check_meant(methods: Collection[str], flags: Mapping[str, Mapping[str, float | None]]) -> None:
    """Refuse flags of methods that are not asked for; `flags` are given by their method and their name."""
    for method, own in flags.items():
        for flag, value in own.items():
            if value is not None and method not in methods:
                asked = f"--methods {','.join(methods)}"
                raise OptionError(f"{flag} belongs to {method}, and {asked} leaves that out: add it, or drop {flag}.")


def command_for(run: Path, settings: EvaluationOptions | None) -> str:
    """What to type for an evaluation of a run by these settings."""
    words, plain = ["evaluate", str(run)], EvaluationOptions()
    for name in ("methods", "k", "l2", "probe_views", "unit_probe", "draws", "seed"):
        value = getattr(settings or plain, name)
        if value is True:
            words.append(f"--{name.replace('_', '-')}")
        elif value != getattr(plain, name):
            words += [f"--{name.replace('_', '-')}", ",".join(value) if isinstance(value, tuple) else f"{value}"]
    return command(*words)
