"""What would I gain on my machine? Ours against the code people write, checked first, then timed in turns."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from math import ceil
from statistics import median
from typing import TypeVar

import torch

from sincere.bench import candidates as who
from sincere.bench.agreement import Agreement, Loss, Outcome, compared, outcome, truth
from sincere.bench.machine import this_machine
from sincere.bench.memory import with_peak
from sincere.bench.plan import Plan, plan_of
from sincere.bench.problem import Problem
from sincere.bench.records import BenchResult, Record
from sincere.bench.rounds import Candidate, Samples, Spread, elapsed, ratio, run_rounds, unsteady

CHECKED = 1024  # the largest size that is compared with float64
FEWEST_ROUNDS, MOST_ROUNDS = 3, 30
SECONDS_PER_SAMPLE = 0.02  # a shorter sample is mostly the clock and the scheduler
LONG = 0.5  # seconds of a step from which its first run tells how long it takes
PATIENCE = 4  # n×n code is left out where its rounds would take so many times the seconds that the plan gives

Say = Callable[[str], None]
T = TypeVar("T")


def measure(
    device: str = "auto",
    sizes: Sequence[int] | None = None,
    *,
    d: int = 128,
    classes: int = 10,
    dtype: str | None = None,
    compiled: bool = False,
    seconds: float | None = None,
    progress: Say | None = None,
) -> BenchResult:
    """Time and memory of forward + backward: ours, n×n code, bare products.

    Everybody is compared with float64, and at each size with ours, before anything is timed; a disagreement raises
    `AgreementError`. Then every round runs every candidate, so that ratios hold on a busy machine too.

    Args:
        device: "auto" (the GPU where there is one), "cpu", "cuda", "cuda:1".
        sizes: numbers of embeddings; by default 1,024 and 4,096 on a CPU, up to 65,536 on a GPU.
        d: dimensions of an embedding.
        classes: of nearly equal size.
        dtype: of the embeddings, by default "float32" on a CPU and "bfloat16" on a GPU; n×n code computes in float32.
        compiled: also n×n code under torch.compile, at the largest size that fits: half a minute more.
        seconds: of timing, all sizes together; every candidate gets three rounds whatever they take.
        progress: gets a line whenever something new begins.
    """
    plan = plan_of(device, sizes, d=d, classes=classes, dtype=dtype, seconds=seconds)
    started, begin = datetime.now(UTC).isoformat(timespec="seconds"), time.perf_counter()
    say = progress or (lambda line: None)
    bench = _Bench(plan, say)
    if torch.device(plan.device).type == "cuda":
        with torch.cuda.device(plan.device):
            bench.run(compiled)
    else:
        bench.run(compiled)
    problem = plan.problem(plan.sizes[0])
    return BenchResult(
        machine=this_machine(plan.device),
        temperature=problem.temperature,
        seed=problem.seed,
        started=started,
        seconds=round(time.perf_counter() - begin, 2),
        agreement=tuple(bench.agreement),
        records=tuple(bench.records),
        notes=tuple(bench.notes),
    )


def check_losses(losses: Mapping[str, Loss], problem: Problem) -> list[Agreement]:
    """Each loss against float64 on this batch; raises `AgreementError` at the first that computes something else."""
    truths = {loss: truth(loss, problem) for loss in {who.LOSS_OF[name] for name in losses}}
    found = []
    for name, loss in losses.items():
        exact = truths[who.LOSS_OF[name]]
        found.append(compared(name, outcome(loss, *problem.batch()), exact, problem, to="float64"))
    return found


@dataclass
class _Bench:
    """One benchmark in progress."""

    plan: Plan
    say: Say
    agreement: list[Agreement] = field(default_factory=list)
    records: list[Record] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    last_step: dict[str, tuple[int, float]] = field(default_factory=dict)  # n and seconds of a step, at the last size

    def run(self, compiled: bool) -> None:
        for n in sorted({min(n, CHECKED) for n in self.plan.sizes}):
            self.say(f"comparing with float64 at n = {n:,}")
            problem = self.plan.problem(n)
            losses = who.our_losses(problem) | (who.eager_losses(problem) if who.eager_fits(problem) else {})
            self.agreement += check_losses(losses, problem)
        fitting = [n for n in self.plan.sizes if who.eager_fits(self.plan.problem(n))]
        for n in self.plan.sizes:
            self.say(f"timing n = {n:,}")
            self._measure_size(self.plan.problem(n), compiled and n == max(fitting, default=0))

    def _measure_size(self, problem: Problem, compiled: bool) -> None:
        losses = who.our_losses(problem)
        if self._worth_while(problem):
            losses |= who.eager_losses(problem)
        with_products = who.products_fit(problem)
        embeddings, labels = problem.batch()
        if compiled:
            losses |= {who.COMPILED: who.compiled_loss(problem)}
        steps: dict[str, _Step] = {}
        references: dict[str, Outcome] = {}
        for name, loss in losses.items():
            try:
                if name == who.COMPILED:
                    outcome(loss, embeddings, labels)  # compiling is neither time nor memory of a step
                found, step = _first_run(partial(outcome, loss, embeddings, labels), problem.device)
            except Exception as error:
                if name in who.OURS:
                    raise
                self.notes.append(f"left out {name} at n = {problem.n:,}: {_first_line(error)}")
                continue
            reference = references.setdefault(who.LOSS_OF[name], found)  # ours come first
            if name not in who.OURS:
                to = f"ours in {problem.dtype}"
                self.agreement.append(compared(name, found, reference, problem, to=to))
            steps[name] = step
        if with_products:
            _, steps[who.PRODUCTS] = _first_run(who.three_products(embeddings), problem.device)
        self._time(problem, steps)

    def _worth_while(self, problem: Problem) -> bool:
        """Does n×n code fit the memory and the time?"""
        why = None
        if not who.eager_fits(problem):
            why = "its matrices would not fit the memory"
        else:
            expected = sum(
                seconds * (problem.n / n) ** 2 for name, (n, seconds) in self.last_step.items() if name in who.EAGER
            )
            if expected * (1 + FEWEST_ROUNDS) > PATIENCE * self.plan.seconds:
                why = f"a round would take some {expected:.0f} seconds"
        if why is not None:
            self.notes.append(f"left out n×n code at n = {problem.n:,}: {why}")
        return why is None

    def _time(self, problem: Problem, steps: Mapping[str, "_Step"]) -> None:
        runs = {name: step.run for name, step in steps.items()}
        repeats = {name: max(1, ceil(SECONDS_PER_SAMPLE / step.seconds)) for name, step in steps.items()}
        round_cost = sum(step.seconds * repeats[name] for name, step in steps.items())
        share = self.plan.seconds / len(self.plan.sizes)
        rounds = min(MOST_ROUNDS, max(FEWEST_ROUNDS, int(share / round_cost)))
        samples = run_rounds(runs, rounds=rounds, warm_up=0, repeats=repeats, device=problem.device)
        for name, step in steps.items():
            self.last_step[name] = (problem.n, median(samples[name]))
            self.records.append(_record(name, samples, repeats[name], step.extra_mib, problem))
        if noisy := unsteady(samples):
            self.notes.append(
                f"rounds at n = {problem.n:,} differ by half and more for {', '.join(noisy)}: "
                "run again on a quiet machine"
            )


@dataclass(frozen=True)
class _Step:
    """A candidate on its batch, and what one run of it took."""

    run: Candidate
    seconds: float
    extra_mib: float | None


def _first_run(run: Callable[[], T], device: str) -> tuple[T, _Step]:
    """Run a candidate once: what it returned, and its memory and rough time."""
    begin = time.perf_counter()
    found, extra_mib = with_peak(run, device)
    seconds = time.perf_counter() - begin
    if seconds < LONG or torch.device(device).type == "cuda":  # the first may have compiled something
        seconds = elapsed(run, repeats=1, device=device)
    return found, _Step(run, seconds, extra_mib)


def _record(name: str, samples: Samples, repeats: int, extra_mib: float | None, problem: Problem) -> Record:
    loss = who.LOSS_OF.get(name)
    spread = Spread.of(samples[name])
    return Record(
        candidate=name,
        loss=loss,
        n=problem.n,
        d=problem.d,
        classes=problem.classes,
        dtype=problem.dtype,
        ms=1000 * spread.median,
        p20=1000 * spread.p20,
        p80=1000 * spread.p80,
        rounds=len(samples[name]),
        repeats=repeats,
        ratio=ratio(samples, name, f"ours {loss or 'SINCERE'}").median,
        extra_mib=extra_mib,
        tflops=6 * problem.n**2 * problem.d / spread.median / 1e12,
    )


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"
