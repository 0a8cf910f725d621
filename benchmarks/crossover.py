"""Where the tiled backend overtakes the dense one: the size that `SMALL_ON_CPU` and `SMALL_ON_GPU` should say.

On a CPU also where it overtakes losses that are computed whole, for `WHOLE_ON_CPU`.

python benchmarks/crossover.py
python benchmarks/crossover.py --device cuda --max-n 16384
"""

from argparse import Namespace
from collections.abc import Sequence
from itertools import pairwise
from math import exp, isqrt, log

import torch

import sincere.functional as SF
from plain_losses import check_plain_losses
from sincere.bench.problem import Problem
from sincere.bench.rounds import Samples, Spread, elapsed, ratio, run_rounds
from sincere.losses.backends import select
from sincere.losses.backends.select import SMALL_ON_CPU, SMALL_ON_GPU, WHOLE_ON_CPU
from timing import Row, forward_backward, noise_in_words, options_parser, print_table, timing_records, write_records

LOSSES = {"sincere": SF.sincere, "supcon": SF.supcon}
SIZES = (32, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 2048, 4096, 8192, 16_384, 32_768)
CHECKED = 1024
# A sample shorter than this is mostly the clock and the scheduler.
SECONDS_PER_SAMPLE = 0.02


def main() -> None:
    options = parsed_options()
    torch.set_num_threads(options.threads)
    problems = [
        Problem(n, options.d, min(options.classes, n // 4), options.seed, device=options.device)
        for n in SIZES
        if n <= options.max_n
    ]
    print(check_plain_losses(Problem(CHECKED, options.d, options.classes, options.seed, device=options.device)))
    found = [samples_of(options.loss, problem, options.rounds) for problem in problems]
    print(f"\n{options.loss}, forward + backward, d = {options.d}, at most {options.classes} classes, ", end="")
    print(f"{options.device}, median of {options.rounds} rounds\n")
    print_table([row_of(problem, samples) for problem, samples in zip(problems, found, strict=True)])
    small = SMALL_ON_GPU if torch.device(options.device).type == "cuda" else SMALL_ON_CPU
    ratios = [ratio(samples, "tiled", "dense").median for samples in found]
    print(f"\n{crossing_in_words([problem.n for problem in problems], ratios)}")
    print(f"the selection switches at n = {isqrt(small):,}, and for whole losses on a CPU at {WHOLE_ON_CPU:,}")
    measured = list(zip(problems, found, strict=True))
    print(noise_in_words({f"{name} at {problem.n}": s[name] for problem, s in measured for name in s}))
    records = [record for problem, s in measured for record in timing_records("crossover", s, "dense", problem)]
    write_records(records, options)


def parsed_options() -> Namespace:
    parser = options_parser(__doc__.splitlines()[0], rounds=15)
    parser.set_defaults(classes=10)
    parser.add_argument("--device", default="cpu", help="cpu or cuda (default %(default)s)")
    parser.add_argument("--max-n", type=int, default=4096, help="largest batch (default %(default)s)")
    parser.add_argument("--loss", choices=sorted(LOSSES), default="sincere", help="(default %(default)s)")
    return parser.parse_args()


def samples_of(loss: str, problem: Problem, rounds: int) -> Samples:
    """Each way on one batch; short calls are repeated until a sample is long enough to trust."""
    embeddings, labels = problem.batch()
    ways = {"dense": "dense", "tiled": "tiled"}
    if torch.device(problem.device).type == "cpu":
        select.WHOLE_ON_CPU = problem.n  # so that "auto" computes it whole at any size
        ways["whole"] = "auto"
    steps = {
        name: forward_backward(LOSSES[loss], embeddings, labels, temperature=problem.temperature, backend=backend)
        for name, backend in ways.items()
    }
    run_rounds(steps, rounds=1, warm_up=1, device=problem.device)
    fastest = min(elapsed(step, repeats=3, device=problem.device) for step in steps.values())
    repeats = max(1, round(SECONDS_PER_SAMPLE / fastest))
    return run_rounds(steps, rounds=rounds, warm_up=1, repeats=repeats, device=problem.device)


def row_of(problem: Problem, samples: Samples) -> Row:
    """A size, the times, and how much longer the tiled backend takes."""
    seen = ratio(samples, "tiled", "dense")
    whole = {"tiled/whole": ratio(samples, "tiled", "whole").median} if "whole" in samples else {}
    return {
        "n": problem.n,
        "classes": problem.classes,
        "dense ms": Spread.of(samples["dense"]).median * 1000,
        "tiled ms": Spread.of(samples["tiled"]).median * 1000,
        "tiled/dense": seen.median,
        "p20": seen.p20,
        "p80": seen.p80,
        **whole,
    }


def crossing_in_words(sizes: Sequence[int], ratios: Sequence[float]) -> str:
    """Where tiled/dense last falls below 1, on a straight line in log n and log ratio."""
    falls = [place for place, (left, right) in enumerate(pairwise(ratios)) if left >= 1 > right]
    if ratios[-1] >= 1:
        return f"dense is still the faster at n = {sizes[-1]:,}: no crossing"
    if not falls:
        return f"tiled is the faster from n = {sizes[0]:,} on: no crossing"
    left = falls[-1]
    share = log(ratios[left]) / (log(ratios[left]) - log(ratios[left + 1]))
    crossing = exp(log(sizes[left]) + share * (log(sizes[left + 1]) - log(sizes[left])))
    several = f" (the last of {len(falls)} crossings: noise, or run more rounds)" if len(falls) > 1 else ""
    return f"the backends cross at n ≈ {crossing:.0f}{several}"


if __name__ == "__main__":
    main()
