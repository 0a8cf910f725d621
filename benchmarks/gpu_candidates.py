"""What gpu_speed.py times: the cases, and who takes part in which."""

import argparse
import importlib.util
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

import sincere.functional as SF
from sincere.bench.candidates import three_products
from sincere.bench.plain_losses import plain_sincere, plain_supcon

TEMPERATURE = 0.1
SEED = 0
DENSE_UP_TO = 16_384  # also of CUDA graphs: beyond it launches no longer count
PRODUCTS_UP_TO = 65_536

Loss = Callable[..., Tensor]  # of embeddings and labels; more by name
Step = Callable[[], object]
StepOf = Callable[[Tensor, Tensor], Step]


@dataclass(frozen=True)
class Case:
    """One batch, and the table that it is for."""

    table: str
    n: int
    d: int = 128
    classes: int = 10
    dtype: str = "bfloat16"
    matmul: str = "highest"  # torch's float32_matmul_precision

    @property
    def slow(self) -> bool:
        """Seconds a step: three are enough."""
        return self.n > 2**19


MAIN = [Case("main", n) for n in (1024, 4096, 16_384, 65_536, 1_048_576)] + [
    Case("main", 65_536, dtype="float32", matmul="high"),
    Case("main", 65_536, dtype="float32"),
]
WIDTHS = [Case("widths", 16_384, d=d) for d in (64, 256, 512, 768)]
CLASSES = [Case("classes", 65_536, classes=classes) for classes in (100, 1000)]
SETS = [Case("sets", n) for n in (1024, 4096, 16_384)]
BALANCED = [Case("balanced", n, classes=100) for n in (16_384, 65_536)]
CASES = MAIN + WIDTHS + CLASSES + SETS + BALANCED


@dataclass(frozen=True)
class Candidate:
    """A way to compute a loss, or the yardstick."""

    name: str
    step: StepOf
    up_to: int | None = None  # embeddings; more would not fit, or prove nothing
    tables: tuple[str, ...] = ("main",)
    peer: bool = False  # somebody else's way
    graph: bool = False  # replayed as a CUDA graph
    compiled: bool = False


def step_of(loss: Loss, **options: object) -> StepOf:
    """Forward and backward as in a training step."""

    def make(z: Tensor, labels: Tensor) -> Step:
        return lambda: torch.autograd.grad(loss(z, labels, **options), z)

    return make


def compiled_dense(z: Tensor, labels: Tensor) -> Step:
    """Our dense backend, nothing but n×n operations, compiled for this batch's size."""
    torch._dynamo.reset()
    return step_of(torch.compile(SF.sincere, dynamic=False), temperature=TEMPERATURE, backend="dense")(z, labels)


def peers() -> dict[str, Loss]:
    """n×n code as people run it: embeddings in half precision become float32 first."""
    found: dict[str, Loss] = {
        "eager SINCERE": lambda z, labels: plain_sincere(z.float(), labels, TEMPERATURE),
        "eager SupCon": lambda z, labels: plain_supcon(z.float(), labels, TEMPERATURE),
    }
    if importlib.util.find_spec("pytorch_metric_learning") is not None:
        from pytorch_metric_learning.losses import SupConLoss

        theirs = SupConLoss(temperature=TEMPERATURE)
        found["pytorch-metric-learning SupCon"] = lambda z, labels: theirs(z.float(), labels)
    return found


PEERS = peers()
OURS = ("main", "widths", "classes")
# SINCERE stands among them for the ratio.
SET_LOSSES = {
    "ours set loss, whole by kernels": step_of(SF.set_nce, temperature=TEMPERATURE, method="saddle", backend="triton"),
    "ours set loss, CUDA graph": step_of(SF.set_nce, temperature=TEMPERATURE, method="saddle"),
    "ours set loss, no kernels": step_of(SF.set_nce, temperature=TEMPERATURE, method="saddle", backend="tiled"),
    "ours SINCERE beside it": step_of(SF.sincere, temperature=TEMPERATURE),
}
BALANCED_LOSSES = {
    f"ours SINCERE, classes alike, {name}": step_of(
        SF.sincere, temperature=TEMPERATURE, class_balanced=True, reduction="class_mean", backend=backend
    )
    for name, backend in (("by kernels", "triton"), ("no kernels", "tiled"))
} | {"ours SINCERE, mean over classes, beside it": step_of(SF.sincere, temperature=TEMPERATURE, reduction="class_mean")}
CANDIDATES = [
    Candidate("ours SINCERE", step_of(SF.sincere, temperature=TEMPERATURE), tables=OURS),
    Candidate("ours SupCon", step_of(SF.supcon, temperature=TEMPERATURE), tables=OURS),
    Candidate("ours SINCERE, CUDA graph", step_of(SF.sincere, temperature=TEMPERATURE), DENSE_UP_TO, graph=True),
    *(Candidate(name, step, tables=("sets",), graph="graph" in name) for name, step in SET_LOSSES.items()),
    *(Candidate(name, step, tables=("balanced",)) for name, step in BALANCED_LOSSES.items()),
    Candidate("three products", lambda z, labels: three_products(z), PRODUCTS_UP_TO),
    *(Candidate(name, step_of(loss), DENSE_UP_TO, peer=True) for name, loss in PEERS.items()),
    Candidate("compiled dense SINCERE", compiled_dense, DENSE_UP_TO, peer=True, compiled=True),
]


def chosen(case: Case, options: argparse.Namespace) -> list[Candidate]:
    """Who takes part in this case."""
    found = [c for c in CANDIDATES if case.table in c.tables and (c.up_to is None or case.n <= c.up_to)]
    found = [c for c in found if not c.compiled or case.n in options.compile_sizes]
    if options.quick:
        found = [c for c in found if case.table == "main" and not c.peer]
    if options.only is not None and options.only != case.table:
        found = [c for c in found if options.only in c.name]
    return found
