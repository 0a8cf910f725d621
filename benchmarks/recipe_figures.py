"""What recipes reach over several seeds: runs them, or reads runs that are there, and keeps the figures with them.

    python benchmarks/recipe_figures.py digits=digits letter=letter.npz trec6=trec:TREC --runs runs --seeds 3
    python benchmarks/recipe_figures.py fast-cifar10=cifar10:PATH --by-the-clock
    python benchmarks/recipe_figures.py best-cifar10=cifar10:PATH --by-the-clock --add --seeds 1
    python benchmarks/recipe_figures.py best-cifar10=cifar10:PATH --shared --add --seeds 1 --light FOLDER

Writes src/sincere/recipes/measured.json, from which `sincere recipes show` and docs/recipes.md tell what was measured.
Nothing is chosen here: each run is evaluated once, on its test split, as its recipe says (`sincere train --recipe NAME
--evaluate`), or by k-NN, class means and a linear probe where it says nothing. With --by-the-clock each run is that
command in a process of its own, timed from its start to its end: imports, data, compilation and evaluation count.
Long runs can be made seed by seed: with --add the seeds go on after those whose figures are kept. Of runs that shared
their machine with others (--shared) accuracies count and times do not. Runs that were made elsewhere need not be there
whole: --light has folders of them without weights.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import Any

from sincere.claims.laboratory import Laboratory, Trained
from sincere.cli.run_evaluation import evaluated
from sincere.errors import OptionError
from sincere.evaluate import Evaluation, EvaluationOptions
from sincere.evaluate.classifiers import counted
from sincere.recipes import RECIPES, find_recipe
from sincere.recipes.cifar import TABLE_2
from sincere.recipes.measured import FILE, Figures
from sincere.runs import read_json, write_json

ROOT = Path(__file__).resolve().parent.parent
PAGE, FAST_PAGE, README = ROOT / "docs" / "recipes.md", ROOT / "docs" / "fast-cifar.md", ROOT / "README.md"
START, END = "<!-- measured: start, written by benchmarks/recipe_figures.py -->", "<!-- measured: end -->"
REACHED_START, REACHED_END = "<!-- reached: start, written by benchmarks/recipe_figures.py -->", "<!-- reached: end -->"
BEST_START, BEST_END = (
    "<!-- ten minutes: start, written by benchmarks/recipe_figures.py -->",
    "<!-- ten minutes: end -->",
)
KEPT = ROOT / "benchmarks" / "results" / "NVIDIA-H200" / "recipes"  # of runs too long to be made again for a page
METHODS = ("knn", "class_means", "linear")


def by_the_clock(name: str, source: str, run: Path, seed: int) -> float:
    """Train and evaluate as a user would, in a new folder; seconds from the command to its end."""
    words = ["train", source, "--recipe", name, "--seed", str(seed), "--evaluate", "--quiet", "--out", str(run)]
    began = perf_counter()
    subprocess.run([sys.executable, "-m", "sincere", *words], check=True)
    return round(perf_counter() - began, 1)


def measured(
    name: str,
    source: str,
    laboratory: Laboratory,
    seeds: Iterable[int],
    *,
    clock: bool = False,
    shared: bool = False,
    commit: str | None = None,
) -> dict[str, Any]:
    """One recipe's figures over these seeds."""
    recipe = find_recipe(name)
    config, options = recipe.config, recipe.evaluation or EvaluationOptions(methods=METHODS)
    methods = [method for method in METHODS if method in options.methods]
    if not methods:
        raise OptionError(f"{name} must be evaluated by one of {', '.join(METHODS)}: it asks for {options.methods}.")
    done: list[Trained] = []
    clocked: list[float] = []
    for seed in seeds:
        print(f"{name}, seed {seed}", flush=True)
        if clock:
            clocked.append(by_the_clock(name, source, laboratory.folder / f"{name}-{seed}", seed))
        asked = replace(config, data=replace(config.data, source=source), seed=seed)
        done.append(laboratory.trained(f"{name}-{seed}", asked))
    found = [run.kept_evaluation(options) or evaluated(run.folder.path, options) for run in done]
    origin = read_json(done[-1].folder.provenance)["starts"][-1]
    machine = origin["hardware"]
    return {
        "top1": {method: [one.classifier(method).top1.value for one in found] for method in methods},
        "test_samples": len(found[0].labels),
        "seconds": [] if shared else [round(run.seconds(), 1) for run in done],
        "hardware": ", ".join(machine.get("gpus", [])) or f"{machine['processor']}, {machine['threads']} threads",
        "torch": origin["versions"]["torch"],
        "commit": commit or origin["sincere_commit"],
        "date": origin["started"][:10],
        **({"verdict_seconds": clocked} if clocked else {}),
    }


def joined(kept: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """Figures of more seeds behind those that are kept, which must be of the same machine and methods."""
    for what in ("hardware", "torch", "test_samples"):
        if kept[what] != new[what]:
            raise OptionError(f"seeds of one recipe must have the same {what}: {kept[what]} is kept, got {new[what]}.")
    if kept["top1"].keys() != new["top1"].keys():
        before, now = (", ".join(one["top1"]) for one in (kept, new))
        raise OptionError(f"the kept figures are of {before}, the new ones of {now}.")
    clocked = kept.get("verdict_seconds", []) + new.get("verdict_seconds", [])
    commits = [commit for one in (kept, new) for commit in (one["commit"] or "").split(", ") if commit]
    return {
        **new,
        "top1": {method: [*values, *new["top1"][method]] for method, values in kept["top1"].items()},
        "seconds": kept["seconds"] + new["seconds"],
        "commit": ", ".join(dict.fromkeys(commits)) or None,
        **({"verdict_seconds": clocked} if clocked else {}),
    }


def table(figures: dict[str, Any]) -> Iterator[str]:
    """For docs/recipes.md."""
    yield "| recipe | k-NN, % | class means, % | linear, % | test samples | seeds | training | on |"
    yield "|---|---|---|---|---|---|---|---|"
    for name in RECIPES:
        if name not in figures:
            continue
        one = Figures.of(figures[name])
        cells = [one.spread(method) if method in one.top1 else "–" for method in METHODS]
        judging = RECIPES[name].evaluation
        if judging is not None and judging.probe_views and "linear" in one.top1:
            cells[METHODS.index("linear")] += f" ({counted(judging.probe_views)})"
        seconds = f"{one.mean_seconds:.0f} s{one.to_verdict}"
        yield f"| `{name}` | {' | '.join(cells)} | {one.test_samples:,} | {one.seeds} | {seconds} | {one.hardware} |"


def reached(figures: dict[str, Any]) -> str:
    """For the README: what trains on a CPU."""
    found = {name: Figures.of(one) for name, one in figures.items()}
    on_cpu = {name: one for name, one in found.items() if "threads" in one.hardware and "knn" in one.top1}
    told = ", ".join(f"{name} {one.spread('knn')} %" for name, one in on_cpu.items())
    times = sorted(one.mean_seconds for one in on_cpu.values())
    return (
        f"From scratch on two cores, in {times[0]:.0f} to {times[-1]:.0f} seconds, by k-NN on test samples: {told} "
        "(mean ± deviation over seeds). [Recipes](docs/recipes.md) has the commands, times and the baselines that they "
        "beat.\n\n"
        "On one H200, against the SINCERE paper's ResNet-50 after 1,000 epochs, by `sincere train cifar10:PATH "
        "--recipe fast-cifar10 --evaluate` and the like: `fast-` in one or two minutes, `best-` in ten "
        "([how they came about](docs/fast-cifar.md)):\n\n"
        f"{fast(figures)}"
    )


def fast(figures: dict[str, Any]) -> str:
    """What two minutes and what ten minutes of a GPU buy, beside the paper."""
    lines = [
        "| recipe | linear probe on test images, % | seed by seed | the paper, % | training | data to verdict | on |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, classes in [(f"{kind}-cifar{classes}", classes) for kind in ("fast", "best") for classes in (10, 100)]:
        if name not in figures:
            continue
        one = Figures.of(figures[name])
        each = ", ".join(f"{100 * value:.2f}" for value in one.top1["linear"])
        clock = ", ".join(f"{seconds:.0f}" for seconds in one.verdict_seconds or ())
        clock = f"{clock} s" if clock else "–"
        lines.append(
            f"| `{name}` | {one.spread('linear')} | {each} | {TABLE_2['sincere', classes].partition(' ')[0]} "
            f"| {one.mean_seconds:.0f} s | {clock} | {one.hardware}, torch {one.torch}, commit {one.short_commit} |"
        )
    return "\n".join(lines)


def seed_by_seed(names: Iterable[str] = ("best-cifar10", "best-cifar100")) -> Iterator[str]:
    """Every run whose evaluation and losses by epoch are kept."""
    yield "| run | linear probe, % (95 % interval over test images) | k-NN, % | class means, % | last epoch's loss |"
    yield "|---|---|---|---|---|"
    for name in names:
        for kept in sorted(KEPT.glob(f"{name}-*.evaluation.json")):
            run = kept.name.partition(".")[0]
            found = Evaluation.from_json(kept.read_text(encoding="utf-8"))
            probe, *others = (found.classifier(method).top1 for method in ("linear", "knn", "class_means"))
            low, high = (f"{100 * end:.1f}" for end in (probe.low, probe.high))
            last = (KEPT / f"{run}.epochs.jsonl").read_text(encoding="utf-8").splitlines()[-1]
            cells = [f"{100 * probe.value:.2f} ({low} to {high})", *(f"{100 * one.value:.2f}" for one in others)]
            yield f"| `{name}`, seed {run.rpartition('-')[2]} | {' | '.join(cells)} | {json.loads(last)['loss']:.2f} |"


def _write_between(path: Path, start: str, end: str, text: str) -> None:
    before, _, rest = path.read_text(encoding="utf-8").partition(start)
    path.write_text(f"{before}{start}\n\n{text}\n\n{end}{rest.partition(end)[2]}", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipes", nargs="*", metavar="NAME=DATA")
    parser.add_argument("--runs", type=Path, default=Path("runs"))
    parser.add_argument("--light", type=Path, help="where runs without their weights lie, which are read")
    parser.add_argument("--seeds", type=int, default=3)
    timing = parser.add_mutually_exclusive_group()
    timing.add_argument("--by-the-clock", action="store_true", help="each run a command of its own, timed as a whole")
    timing.add_argument("--shared", action="store_true", help="the machine had other work: keep no times")
    parser.add_argument("--add", action="store_true", help="more seeds, after those whose figures are kept")
    parser.add_argument("--commit", help="of the code, where it was copied without its history")
    given = parser.parse_args()
    figures = read_json(FILE) if FILE.exists() else {}
    for word in given.recipes:
        name, _, source = word.partition("=")
        kept = figures.get(name) if given.add else None
        if given.shared and not kept:
            raise OptionError(
                f"{name} has no times yet: let its first seed have a machine of its own, then --add others."
            )
        first = Figures.of(kept).seeds if kept else 0
        seeds = range(first, first + given.seeds)
        laboratory = Laboratory(given.runs, "off", given.light)
        timing_as = {"clock": given.by_the_clock, "shared": given.shared}
        new = measured(name, source, laboratory, seeds, **timing_as, commit=given.commit)
        figures[name] = joined(kept, new) if kept else new
        write_json(FILE, figures)
    _write_between(PAGE, START, END, "\n".join(table(figures)))
    _write_between(README, REACHED_START, REACHED_END, reached(figures))
    _write_between(FAST_PAGE, REACHED_START, REACHED_END, fast(figures))
    _write_between(FAST_PAGE, BEST_START, BEST_END, "\n".join(seed_by_seed()))
    print(json.dumps({name: str(Figures.of(one)) for name, one in figures.items()}, indent=1, ensure_ascii=False))


if __name__ == "__main__":
    main()
