"""Train the runs of a claim one by one, evaluate each, and keep of it what the claim reads.

python reproduce/make_runs.py errors --full --data cifar100=PATH --without-embeddings
python reproduce/make_runs.py table-1 --full --data cifar10=PATH

python reproduce/make_runs.py table-1 --full --data cifar10=PATH --only cifar10-supcon-0

What is kept lies in reproduce/light-runs/, where `sincere reproduce` finds it: a run that is there is trained on no
machine again. Start the command several times for several runs at once on one GPU: each takes what no other has.
A command that is stopped has saved its run, and the same command goes on with it.
"""

import argparse
import shutil
import sys
from contextlib import ExitStack
from pathlib import Path
from time import perf_counter

from sincere.checks import did_you_mean
from sincere.claims.claim import Conditions
from sincere.claims.experiments import Planned
from sincere.claims.laboratory import Laboratory, StoppedError
from sincere.claims.light_runs import lighten
from sincere.claims.registry import CLAIMS, check_known, find_claim
from sincere.cli.reproduce import places_of
from sincere.errors import InputError, OptionError
from sincere.runs.lock import only_here

HERE = Path(__file__).resolve().parent


def main() -> None:
    given = parsed()
    claim = find_claim(given.claim)
    if claim.runs is None:
        those = ", ".join(one.name for one in CLAIMS if one.runs is not None)
        raise OptionError(f"{claim.name} has no long runs to make one by one: these have: {those}.")
    laboratory = Laboratory(given.runs, "plain", given.light)
    data = places_of(given.data)
    check_known(data)
    conditions = Conditions("fast" if given.fast else "full", given.seed, laboratory, data, say=print)
    claim.check_data(conditions)
    planned = list(claim.runs(conditions))
    for run in chosen(planned, given.only):
        with ExitStack() as held:
            try:
                held.enter_context(only_here(given.runs / "locks" / run.folder))
            except OptionError:  # another process is at it
                continue
            make(run, given.light, embeddings=not given.without_embeddings)
    there = sum((given.light / run.folder).exists() for run in planned)
    print(f"{there} of {len(planned)} runs are in {given.light}")


def chosen(planned: list[Planned], only: list[str]) -> list[Planned]:
    """Those that were asked for by name; all of them, if none was."""
    names = [run.folder for run in planned]
    for name in only:
        if name not in names:
            raise OptionError(f"this claim's runs are {', '.join(names)}: got {name!r}.{did_you_mean(name, names)}")
    return [run for run in planned if not only or run.folder in only]


def make(run: Planned, light: Path, *, embeddings: bool) -> None:
    """Nothing, if it is there."""
    kept = light / run.folder
    if kept.exists():
        if run.light() is None:  # the claim would not take it either
            raise InputError(f"{kept} was made with other settings: move it away, and the same command trains it anew.")
        return
    began = perf_counter()
    made = run.trained().folder.path
    half = kept.with_name(f".{kept.name}")  # under its name only when it is whole
    shutil.rmtree(half, ignore_errors=True)
    lighten(made, half, embeddings=embeddings)
    half.rename(kept)
    print(f"made {kept}, {perf_counter() - began:.0f} s", flush=True)


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("claim", help="its name or number")
    form = parser.add_mutually_exclusive_group(required=True)
    form.add_argument("--fast", action="store_true", help="real images, a short network")
    form.add_argument("--full", action="store_true", help="the paper's sizes")
    parser.add_argument("--data", action="append", default=[], metavar="NAME=PATH", help="where a data set is")
    parser.add_argument("--only", action="append", default=[], metavar="RUN", help="by its folder; again for more")
    parser.add_argument("--seed", type=int, default=0, help="the first one")
    parser.add_argument("--runs", type=Path, default=HERE / "runs", help="where runs are trained")
    parser.add_argument("--light", type=Path, default=HERE / "light-runs", help="where what is kept of them goes")
    parser.add_argument("--without-embeddings", action="store_true", help="keep accuracies and nearness to a simplex")
    return parser.parse_args()


if __name__ == "__main__":
    try:
        main()
    except StoppedError as error:
        print(error, file=sys.stderr)
        sys.exit(error.exit_code)
    except (InputError, OptionError) as error:
        sys.exit(str(error))
