"""How time and memory of our loss grow with the batch on a CPU: time with n², memory with n.

    python benchmarks/cpu_scaling.py --max-n 16384     # about a minute
    python benchmarks/cpu_scaling.py                   # up to 65,536: some minutes

Every round times every size once, in one process, so the growth of time is a ratio inside a round. Extra memory is
measured apart, each size in a fresh process, as `cpu_memory.py` explains.
"""

from argparse import Namespace

import torch

import sincere.functional as SF
from cpu_memory import usage
from plain_losses import check_plain_losses
from sincere.bench.problem import Problem
from sincere.bench.rounds import Samples, ratio, run_rounds
from timing import Row, forward_backward, noise_in_words, options_parser, print_table, timing_records, write_records

SMALLEST = 1024
LOSSES = {"ours SINCERE": SF.sincere, "ours SupCon": SF.supcon}
CHECKED = 2048  # the plain losses would need gigabytes at the larger sizes


def main() -> None:
    options = parsed_options()
    torch.set_num_threads(options.threads)
    problems = [Problem(n, options.d, options.classes, options.seed) for n in sizes(options.max_n)]
    print(check_plain_losses(Problem(min(CHECKED, options.max_n), options.d, options.classes, options.seed)))
    samples = time_of_sizes(options.loss, problems, options.rounds)
    memory = [usage(options.loss, problem, options.threads).extra_mib for problem in problems]
    print(f"\n{options.loss}, forward + backward, d = {options.d}, {options.classes} classes, float32, ", end="")
    print(f"{options.threads} threads, {options.rounds} rounds\n")
    print_table(growth_rows(samples, memory))
    print("\nexpected per doubling of n: time ×4, memory ×2")
    print(noise_in_words(samples))
    write_records(scaling_records(options.loss, samples, memory, problems), options)


def parsed_options() -> Namespace:
    parser = options_parser(__doc__.splitlines()[0], rounds=3)
    parser.add_argument("--max-n", type=int, default=65_536, help="largest batch (default %(default)s)")
    parser.add_argument("--loss", choices=sorted(LOSSES), default="ours SINCERE", help="(default %(default)s)")
    options = parser.parse_args()
    if options.max_n < 2 * SMALLEST:
        parser.error(f"--max-n must leave two sizes to compare: at least {2 * SMALLEST:,}, got {options.max_n:,}")
    return options


def sizes(largest: int) -> list[int]:
    """1,024, 2,048, … up to `largest`."""
    found = [SMALLEST]
    while 2 * found[-1] <= largest:
        found.append(2 * found[-1])
    return found


def time_of_sizes(loss: str, problems: list[Problem], rounds: int) -> Samples:
    """Seconds by size and round, after a warm-up on the smallest size alone: a large one needs none."""
    steps = {
        str(problem.n): forward_backward(LOSSES[loss], *problem.batch(), temperature=problem.temperature)
        for problem in problems
    }
    smallest = str(problems[0].n)
    run_rounds({smallest: steps[smallest]}, rounds=1, warm_up=2)
    return run_rounds(steps, rounds=rounds, warm_up=0)


def growth_rows(samples: Samples, memory: list[float]) -> list[Row]:
    """Each size with its growth over the size before."""
    rows: list[Row] = []
    names = list(samples)
    for place, name in enumerate(names):
        before = names[place - 1] if place else name
        grown = ratio(samples, name, before)
        rows.append(
            {
                "n": int(name),
                "median s": sorted(samples[name])[len(samples[name]) // 2],
                "time ×": grown.median if place else "",
                "p20": grown.p20 if place else "",
                "p80": grown.p80 if place else "",
                "extra MiB": memory[place],
                "memory ×": memory[place] / memory[place - 1] if place else "",
            }
        )
    return rows


def scaling_records(loss: str, samples: Samples, memory: list[float], problems: list[Problem]) -> list[Row]:
    """A record a size."""
    smallest = str(problems[0].n)
    records: list[Row] = []
    for problem, extra in zip(problems, memory, strict=True):
        own = timing_records("cpu_scaling", samples, smallest, problem)
        (record,) = (row for row in own if row["candidate"] == str(problem.n))
        records.append({**record, "candidate": loss, "reference": f"n = {smallest}", "extra_mib": extra})
    return records


if __name__ == "__main__":
    main()
