"""Speed on a CPU: our losses against others', plain ones, a compiled one, and three products nobody can do without.

python benchmarks/cpu_speed.py
python benchmarks/cpu_speed.py --authors-sincere PATH --authors-supcon PATH     # see peer_losses.py
python benchmarks/cpu_speed.py --n 512 2048 --rounds 5 --csv speed.csv
"""

import shutil
from argparse import Namespace
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

import sincere.functional as SF
from peer_losses import Peer, add_options, peers
from plain_losses import check_peers, check_plain_losses, plain_sincere, plain_supcon
from sincere.bench.problem import Problem
from sincere.bench.rounds import Candidate, Samples, ratio, run_rounds
from timing import (
    Row,
    forward_backward,
    noise_in_words,
    options_parser,
    print_table,
    timing_records,
    timing_rows,
    timings,
    write_records,
)

OURS, OUR_SUPCON, DENSE = "ours SINCERE", "ours SupCon", "ours SINCERE, dense"
EAGER_SINCERE, EAGER_SUPCON = "eager SINCERE", "eager SupCon"
COMPILED, PRODUCTS = "compiled dense SINCERE", "three products"
SIZES = [256, 1024, 4096]  # two of each class at least: without positives some peers are NaN
TARGET_AT = 4096
SHORT, MORE_ROUNDS = 4096, 10  # steps of a millisecond need, and can have, more rounds


@dataclass(frozen=True)
class Target:
    """What the time of `slow` over the time of `fast` should be."""

    slow: str
    fast: str
    at_least: float | None = None
    at_most: float | None = None

    @property
    def words(self) -> str:
        return f"≥ {self.at_least:g}" if self.at_least is not None else f"≤ {self.at_most:g} (aim)"

    def met(self, value: float) -> bool:
        return value >= self.at_least if self.at_least is not None else value <= (self.at_most or 0)


TARGETS = (
    Target(EAGER_SINCERE, OURS, at_least=4),
    Target(EAGER_SUPCON, OUR_SUPCON, at_least=3),
    Target(EAGER_SUPCON, OURS, at_least=3),
    Target(COMPILED, OURS, at_least=1),
    Target(OURS, PRODUCTS, at_most=1.4),
)


def main() -> None:
    options = parsed_options()
    torch.set_num_threads(options.threads)
    known, records = peers(options), []
    for n in options.n:
        problem = Problem(n, options.d, options.classes, options.seed)
        records += measured(problem, known, options)
    sources = {name: peer.source for name, peer in known.items()}
    write_records([{**record, "source": sources.get(str(record["candidate"]), "")} for record in records], options)


def measured(problem: Problem, known: dict[str, Peer], options: Namespace) -> list[Row]:
    """Everybody on one batch: printed, and as records."""
    print(check_plain_losses(problem))
    print(check_peers(known, problem))
    candidates = all_candidates(problem, known, compiled=problem.n == max(options.n) and not options.no_compile)
    rounds = options.rounds * (MORE_ROUNDS if problem.n < SHORT else 1)
    samples = run_rounds(candidates, rounds=rounds, warm_up=options.warm_up)
    print(f"\nforward + backward, n = {problem.n:,}, d = {problem.d}, {problem.classes} classes, float32, ", end="")
    print(f"{options.threads} threads, median of {rounds} rounds\n")
    print_table(timing_rows(timings(samples, OURS), OURS))
    if problem.n == TARGET_AT:
        print()
        print_table(target_rows(samples))
    print(noise_in_words(samples) + "\n")
    return timing_records("cpu_speed", samples, OURS, problem)


def parsed_options() -> Namespace:
    parser = options_parser(__doc__.splitlines()[0], rounds=9)
    parser.add_argument("--n", type=int, nargs="+", default=SIZES, help="embeddings in a batch (default %(default)s)")
    parser.add_argument("--warm-up", type=int, default=2, help="rounds that are dropped (default %(default)s)")
    parser.add_argument("--no-compile", action="store_true", help="leave torch.compile out, else at the largest n")
    add_options(parser)
    return parser.parse_args()


def all_candidates(problem: Problem, known: dict[str, Peer], *, compiled: bool) -> dict[str, Candidate]:
    """Everybody on the same batch."""
    embeddings, labels = problem.batch()
    losses: dict[str, Callable[..., Tensor]] = {
        OURS: SF.sincere,
        OUR_SUPCON: SF.supcon,
        DENSE: partial(SF.sincere, backend="dense"),
        EAGER_SINCERE: plain_sincere,
        EAGER_SUPCON: plain_supcon,
        **{name: peer.loss for name, peer in known.items()},
    }
    candidates: dict[str, Candidate] = {
        name: forward_backward(loss, embeddings, labels, temperature=problem.temperature)
        for name, loss in losses.items()
    }
    if compiled:
        step = compiled_candidate(embeddings, labels, problem.temperature)
        candidates |= {} if step is None else {COMPILED: step}
    return candidates | {PRODUCTS: three_products(embeddings.detach())}


def compiled_candidate(embeddings: Tensor, labels: Tensor, temperature: float) -> Candidate | None:
    """Our dense SINCERE under torch.compile, compiled by one call here; None, with the reason printed, without it."""
    if not any(shutil.which(compiler) for compiler in ("c++", "g++", "clang++")):
        print("skipped torch.compile: no C++ compiler found")
        return None
    loss = torch.compile(partial(SF.sincere, backend="dense"), fullgraph=True)
    step = forward_backward(loss, embeddings, labels, temperature=temperature)
    try:
        step()
    except Exception as error:
        print(f"skipped torch.compile: {type(error).__name__}: {str(error).splitlines()[0]}")
        return None
    return step


def three_products(z: Tensor) -> Candidate:
    """z zᵀ, G z and Gᵀ z into memory that is there already: what an n×n gradient costs before any exponential."""
    G = z.new_empty(z.shape[0], z.shape[0])
    from_rows, from_columns = torch.empty_like(z), torch.empty_like(z)

    def step() -> None:
        torch.mm(z, z.T, out=G)
        torch.mm(G, z, out=from_rows)
        torch.mm(G.T, z, out=from_columns)

    return step


def target_rows(samples: Samples) -> list[Row]:
    """The ratios that have a target, with the target beside them."""
    rows: list[Row] = []
    for target in TARGETS:
        if target.slow not in samples or target.fast not in samples:
            continue
        seen = ratio(samples, target.slow, target.fast)
        rows.append(
            {
                "time of": target.slow,
                "over time of": target.fast,
                "ratio": seen.median,
                "p20": seen.p20,
                "p80": seen.p80,
                "target": target.words,
                "": "met" if target.met(seen.median) else "missed",
            }
        )
    return rows


if __name__ == "__main__":
    main()
