"""Peak memory on a CPU: what forward and backward need beyond the batch itself.

    python benchmarks/cpu_memory.py
    python benchmarks/cpu_memory.py --large          # also n = 65,536, a minute or two
    python benchmarks/cpu_memory.py --authors-sincere PATH --authors-supcon PATH     # see peer_losses.py

Method. Each candidate runs alone in a fresh process, because a peak never comes down again. The process imports
everything, wakes the thread pool and the matrix library with a product, runs the candidate once on 64 embeddings so
that lazily loaded code is there, makes the batch, and notes its peak resident memory; then it runs forward and backward
once and notes the peak again. The difference is the extra memory: it holds the gradient (n·d numbers), what the loss
keeps and every temporary, but neither the batch nor Python and torch.

The peak is that of the process's own address space (VmHWM). `ru_maxrss`, which it stands for on other systems, carries
over the peak of the parent process through exec on Linux: a large parent would hide the difference.
"""

import json
import resource
import subprocess
import sys
from argparse import Namespace
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import sincere.functional as SF
from peer_losses import Peer, add_options, checkouts, peers
from plain_losses import check_peers, check_plain_losses, plain_sincere, plain_supcon
from sincere.bench.problem import Problem
from timing import Row, forward_backward, options_parser, print_table, provenance, write_records

MEBIBYTE = 1 << 20
TINY = 64
LARGE = 65_536

CANDIDATES: dict[str, Callable[..., Tensor]] = {
    "ours SINCERE": SF.sincere,
    "ours SupCon": SF.supcon,
    "eager SINCERE": plain_sincere,
    "eager SupCon": plain_supcon,
}
# Largest extra memory in MiB that we promise, by candidate and n.
TARGETS = {
    ("ours SINCERE", 4096): 48,
    ("ours SupCon", 4096): 48,
    ("ours SINCERE", LARGE): 512,
    ("ours SupCon", LARGE): 512,
}


@dataclass(frozen=True)
class Usage:
    """One forward and backward pass in a fresh process."""

    candidate: str
    n: int
    extra_mib: float


def main() -> None:
    options = parsed_options()
    if options.worker is not None:
        print(json.dumps(work(**json.loads(options.worker), known=peers(options))))
        return
    problem = Problem(options.n, options.d, options.classes, options.seed)
    of_peers = checkouts(options)
    print(in_fresh_process("check", problem, options.threads, of_peers)["check"], flush=True)
    plan = [(name, problem) for name in (*CANDIDATES, *peers(options))]
    if options.large:
        plan.append(("ours SINCERE", Problem(LARGE, options.d, options.classes, options.seed)))
    usages = [usage(name, wanted, options.threads, of_peers) for name, wanted in plan]
    print(
        f"\npeak memory of forward + backward beyond the batch, d = {problem.d}, {problem.classes} classes, float32\n"
    )
    print_table([shown(found, problem.d) for found in usages])
    torch.set_num_threads(options.threads)
    measured = zip(plan, usages, strict=True)
    records = [{"benchmark": "cpu_memory", **asdict(found), **provenance(wanted)} for (_, wanted), found in measured]
    write_records(records, options)


def parsed_options() -> Namespace:
    parser = options_parser(__doc__.splitlines()[0], rounds=None, n=4096)
    parser.add_argument("--large", action="store_true", help=f"also n = {LARGE:,} (a minute or two)")
    add_options(parser)
    parser.add_argument("--worker", help="used by the benchmark itself: what to measure in this process")
    return parser.parse_args()


def usage(name: str, problem: Problem, threads: int, of_peers: Sequence[str] = ()) -> Usage:
    """Extra memory of one candidate, from a fresh process; `of_peers` are options that say where others' code is."""
    found = in_fresh_process(name, problem, threads, of_peers)
    return Usage(name, problem.n, found["extra_mib"])


def in_fresh_process(name: str, problem: Problem, threads: int, of_peers: Sequence[str] = ()) -> dict[str, Any]:
    """What `work` returns there."""
    order = json.dumps({"name": name, "problem": asdict(problem), "threads": threads})
    command = [sys.executable, str(Path(__file__).resolve()), "--worker", order, *of_peers]
    finished = subprocess.run(command, capture_output=True, text=True)
    if finished.returncode != 0:
        raise RuntimeError(f"{name} at n = {problem.n:,} failed in its process:\n{finished.stderr}")
    return json.loads(finished.stdout.splitlines()[-1])


def work(name: str, problem: dict[str, Any], threads: int, known: dict[str, Peer]) -> dict[str, Any]:
    """In the fresh process: check the losses to compare with, or measure one candidate."""
    torch.set_num_threads(threads)
    wanted = Problem(**problem)
    if name == "check":
        return {"check": f"{check_plain_losses(wanted)}\n{check_peers(known, wanted)}"}
    found = CANDIDATES[name] if name in CANDIDATES else known[name].loss
    loss = partial(found, temperature=wanted.temperature)
    warm_up(loss, wanted)
    step = forward_backward(loss, *wanted.batch())
    before = peak_resident()
    step()
    return {"extra_mib": (peak_resident() - before) / MEBIBYTE}


def warm_up(loss: Callable[..., Tensor], problem: Problem) -> None:
    """Thread pool, matrix library and lazily loaded code, with batches too small to matter."""
    square = torch.randn(512, 512)
    torch.mm(square, square).exp_().sum()
    embeddings, labels = Problem(TINY, problem.d, classes=8).batch()
    forward_backward(loss, embeddings, labels)()
    forward_backward(partial(SF.sincere, backend="tiled"), embeddings, labels)()


def peak_resident() -> int:
    """The most memory, in bytes, that this process has held so far."""
    status = Path("/proc/self/status")
    if status.exists():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) * 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def shown(found: Usage, d: int) -> Row:
    """A row of the printed table; one matrix is the n×n floats that a plain loss holds several of."""
    target = TARGETS.get((found.candidate, found.n))
    return {
        "candidate": found.candidate,
        "n": found.n,
        "batch MiB": found.n * d * 4 / MEBIBYTE,
        "extra MiB": found.extra_mib,
        "n×n matrices": found.extra_mib * MEBIBYTE / (4 * found.n**2),
        "target": "–" if target is None else f"≤ {target}" if found.n < LARGE else f"< {target}",
        "": "" if target is None else "met" if found.extra_mib < target else "missed",
    }


if __name__ == "__main__":
    main()
