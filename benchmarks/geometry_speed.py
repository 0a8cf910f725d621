"""What `sincere.geometry` costs: seconds of each instrument, and the peak memory of each, over all pairs of n samples.

    python benchmarks/geometry_speed.py                                    # 10,000 samples, half a minute
    python benchmarks/geometry_speed.py --n 60000 --classes 10 100         # some minutes

Method. Every instrument runs once, alone, in a fresh process, because a peak never comes down again. The process makes
the embeddings, wakes the thread pool with the same instrument on 200 samples, and notes its peak resident memory, as
`cpu_memory.py` does; then it runs the instrument by the clock, and notes the peak again. The difference is what the
instrument needs beyond Python, torch and the embeddings; the peak itself is what a user sees. `describe` does all of
them, and shares one pass over the pairs among those that need it.
"""

import csv
import json
import subprocess
import sys
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from cpu_memory import MEBIBYTE, peak_resident
from sincere import geometry
from sincere.bench.problem import Problem
from sincere.embeddings import EmbeddingSet
from timing import Row, print_table, provenance

TARGET_SECONDS, TARGET_MIB = 60, 1024  # of `describe`, at these n, d and threads
TARGET_N, TARGET_D, TARGET_THREADS = 60_000, 128, 2
INSTRUMENTS: dict[str, Callable[[EmbeddingSet, EmbeddingSet], object]] = {
    "describe": lambda train, test: geometry.describe(test),
    "describe, with a head": lambda train, test: geometry.describe(test, train=train),
    "similarity_by_class_pair": lambda train, test: geometry.similarity_by_class_pair(test),
    "similarity_histograms": lambda train, test: geometry.similarity_histograms(test),
    "class_margins": lambda train, test: geometry.class_margins(test),
    "simplex_conditions": lambda train, test: geometry.simplex_conditions(test),
    "neural_collapse": lambda train, test: geometry.neural_collapse(test),
    "alignment, α = 2": lambda train, test: geometry.alignment(test),
    "alignment, α = 1": lambda train, test: geometry.alignment(test, power=1),
    "uniformity": lambda train, test: geometry.uniformity(test),
    "spectrum": lambda train, test: geometry.spectrum(test),
    "linear_cka": lambda train, test: geometry.linear_cka(test, test),
    "loss_readings": lambda train, test: geometry.loss_readings(test),
    "loss_readings, batches of 128": lambda train, test: geometry.loss_readings(test, batch=128),
    "head_robustness": lambda train, test: geometry.head_robustness(train, test),
    "out_of_class, means": lambda train, test: geometry.out_of_class(test, train),
    "out_of_class, k-NN": lambda train, test: geometry.out_of_class(test, train, score="knn"),
}


def main() -> None:
    options = parsed_options()
    if options.worker is not None:
        print(json.dumps(work(**json.loads(options.worker))))
        return
    chosen = [name for name in INSTRUMENTS if not options.only or name in options.only]
    records: list[Row] = []
    for classes in options.classes:
        problem = Problem(options.n, options.d, classes, options.seed)
        print(f"\nn = {problem.n:,}, d = {problem.d}, {classes} classes, {options.threads} threads\n", flush=True)
        found = [{"instrument": name, **in_fresh_process(name, problem, options.threads)} for name in chosen]
        print_table(found)
        for row in found:
            if (words := against_target(row, problem, options.threads)) is not None:
                print(words)
        torch.set_num_threads(options.threads)
        records += [{"benchmark": "geometry_speed", **row, **provenance(problem)} for row in found]
    if options.csv is not None:
        write(records, options.csv)


def against_target(row: dict[str, Any], problem: Problem, threads: int) -> str | None:
    """Whether `describe` met its target; None for anything else that it was not set for."""
    set_for = (problem.n, problem.d, threads) == (TARGET_N, TARGET_D, TARGET_THREADS)
    if row["instrument"] != "describe" or not set_for:
        return None
    met = row["seconds"] < TARGET_SECONDS and row["peak MiB"] < TARGET_MIB
    return f"target at n = {TARGET_N:,}: < {TARGET_SECONDS} s, < {TARGET_MIB} MiB: {'met' if met else 'MISSED'}"


def parsed_options() -> Namespace:
    parser = ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", type=int, default=10_000, help="samples (default %(default)s)")
    parser.add_argument("--d", type=int, default=128, help="dimensions (default %(default)s)")
    parser.add_argument("--classes", type=int, nargs="+", default=[10], help="classes, one table each (default 10)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=2, help="CPU threads (default %(default)s)")
    parser.add_argument("--only", nargs="+", choices=list(INSTRUMENTS), help="these instruments alone")
    parser.add_argument("--csv", type=Path, help="add the figures to this file, in place of those of the same n and K")
    parser.add_argument("--worker", help="used by the benchmark itself: what to measure in this process")
    return parser.parse_args()


def in_fresh_process(name: str, problem: Problem, threads: int) -> dict[str, Any]:
    """What `work` returns there."""
    order = {"name": name, "n": problem.n, "d": problem.d, "classes": problem.classes, "seed": problem.seed}
    command = [sys.executable, str(Path(__file__).resolve()), "--worker", json.dumps({**order, "threads": threads})]
    finished = subprocess.run(command, capture_output=True, text=True)
    if finished.returncode != 0:
        raise RuntimeError(f"{name} at n = {problem.n:,} failed in its process:\n{finished.stderr}")
    return json.loads(finished.stdout.splitlines()[-1])


def work(name: str, n: int, d: int, classes: int, seed: int, threads: int) -> dict[str, Any]:
    """In the fresh process: one instrument, its seconds and its memory."""
    torch.set_num_threads(threads)
    train, test = noisy_classes(n, d, classes, seed), noisy_classes(n, d, classes, seed + 1)
    few = torch.arange(200)
    INSTRUMENTS[name](train.subset(few), test.subset(few))
    before = peak_resident()
    start, cpu = time.perf_counter(), time.process_time()
    INSTRUMENTS[name](train, test)
    seconds, cpu_seconds = time.perf_counter() - start, time.process_time() - cpu
    peak = peak_resident()
    return {
        "seconds": seconds,
        "cpu seconds": cpu_seconds,
        "extra MiB": (peak - before) / MEBIBYTE,
        "peak MiB": peak / MEBIBYTE,
    }


def noisy_classes(n: int, d: int, classes: int, seed: int) -> EmbeddingSet:
    """Samples around random centres, as a trained model leaves them: mean cosine some 0.6 within a class."""
    centres = torch.randn(classes, d, generator=torch.Generator().manual_seed(99))
    labels = torch.arange(n) % classes
    noise = torch.randn(n, d, generator=torch.Generator().manual_seed(seed))
    return EmbeddingSet(centres[labels] + 0.8 * noise, labels, tuple(map(str, range(classes))), "made")


def write(records: list[Row], path: Path) -> None:
    """The file with these figures, and with those of other sizes that it held before."""
    kept: list[Row] = []
    if path.exists():
        new = {(str(row["n"]), str(row["classes"]), row["instrument"]) for row in records}
        with path.open(newline="") as file:
            kept = [row for row in csv.DictReader(file) if (row["n"], row["classes"], row["instrument"]) not in new]
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(records[0]))
        writer.writeheader()
        writer.writerows([*kept, *records])


if __name__ == "__main__":
    main()
