"""What each process of tests/test_gather.py does: compare its share of a global loss with one process's.

python tests/distributed_cases.py FOLDER     everything, by two processes and by three; prints what they found, as JSON
"""

import json
import math
import os
import signal
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

import sincere.functional as SF
from forked_runs import ended, in_a_process
from sincere import LabelQueue, SINCERELoss, cached_backward
from sincere.errors import InputError

FEATURES, DIM, VIEWS = 5, 4, 2


@dataclass(frozen=True)
class Case:
    """Samples of each process, and their labels in one row; `call` maps embeddings, labels, options to a loss."""

    name: str
    sizes: list[int]
    labels: list[int]
    call: Callable[..., Tensor]
    options: dict[str, Any] = field(default_factory=dict)
    weighted: bool = False
    contrasts: bool = False


def infonce_without_labels(embeddings: Tensor, labels: Tensor, *contrasts: Tensor, **options: Any) -> Tensor:
    return SF.infonce(embeddings, **options)


def soft(embeddings: Tensor, labels: Tensor, *contrasts: Tensor, **options: Any) -> Tensor:
    probabilities = torch.nn.functional.one_hot(labels % 4, 4) * 0.7 + 0.1
    if contrasts:
        contrasts = (contrasts[0], torch.nn.functional.one_hot(contrasts[1] % 4, 4) * 0.7 + 0.1)
    return SF.soft_label(embeddings, probabilities, *contrasts, **options)


def ranked(embeddings: Tensor, labels: Tensor, *contrasts: Tensor, **options: Any) -> Tensor:
    """Class numbers as numbers, −1 as one that nobody knows."""
    numbers, *others = (given.double().masked_fill(given < 0, math.nan) for given in (labels, *contrasts[1:]))
    return SF.rank_n_contrast(embeddings, numbers, *contrasts[:1], *others, ties="spared", **options)


def multi_hot(embeddings: Tensor, labels: Tensor, *contrasts: Tensor, **options: Any) -> Tensor:
    hot = torch.stack([labels % 2 == 0, labels % 3 == 0, labels > 0], dim=1).long()
    hot = hot.masked_fill((labels < 0).unsqueeze(1), -1)
    return SF.sincere(embeddings, hot, **{"positives": "jaccard"} | options)


def supcon_in(*args: Tensor, **options: Any) -> Tensor:
    return SF.supcon(*args, form="in", **options)


def set_saddle(*args: Tensor, **options: Any) -> Tensor:
    return SF.set_nce(*args, method="saddle", **options)


LOSSES: dict[str, Callable[..., Tensor]] = {
    "sincere": SF.sincere,
    "supcon": SF.supcon,
    "supcon_in": supcon_in,
    "eps_supinfonce": SF.eps_supinfonce,
    "decoupled": SF.decoupled,
    "spread": SF.spread,
    "set_nce": SF.set_nce,
    "set_saddle": set_saddle,
    "soft_label": soft,
    "rank_n_contrast": ranked,
    "multi_hot": multi_hot,
    "infonce": infonce_without_labels,
}


def cases(world: int) -> list[Case]:
    """Every loss on every kind of split; then every option on one loss."""
    splits = {
        "even": ([4] * world, [0, 1, 0, 1, 2, 2, 1, 0, 3, 3, 3, 1][: 4 * world]),
        "uneven": ([5, 2, 1][:world], [0, 1, 0, 1, 2, 2, 1, 0][: sum([5, 2, 1][:world])]),
        "positives only elsewhere": ([3] * world, [0, 1, 2] * world),
        "one process without a valid anchor": ([4, 2, 2][:world], [0, 0, 1, 1, 7, 8, 0, 1][: sum([4, 2, 2][:world])]),
        "one process without samples": ([4, 0, 2][:world], [0, 0, 1, 1, 0, 1][: sum([4, 0, 2][:world])]),
        "unlabelled, and a class of one process": (
            [5, 2, 3][:world],
            [0, 1, -1, 1, 0, 2, -1, 3, 3, -1][: sum([5, 2, 3][:world])],
        ),
    }
    found = [
        Case(f"{loss}, {split}", sizes, labels, call)
        for loss, call in LOSSES.items()
        for split, (sizes, labels) in splits.items()
    ]
    sizes, labels = splits["uneven"]
    for reduction in ("mean_all", "class_mean", "sum"):
        found.append(Case(f"reduction {reduction}", sizes, labels, SF.sincere, {"reduction": reduction}, weighted=True))
        for positives in ("jaccard", "per_label"):
            options = {"reduction": reduction, "positives": positives}
            found.append(Case(f"multi-hot {positives}, {reduction}", sizes, labels, multi_hot, options))
    for loss in ("sincere", "supcon"):
        options = {"class_balanced": True, "reduction": "class_mean"}
        found.append(Case(f"{loss}, class-balanced", sizes, labels, LOSSES[loss], options, weighted=True))
    for similarity in ("dot", "euclidean"):
        found.append(Case(f"similarity {similarity}", sizes, labels, SF.supcon, {"similarity": similarity}))
    for backend in ("dense", "tiled"):
        found.append(Case(f"backend {backend}", sizes, labels, SF.sincere, {"backend": backend}, weighted=True))
    for loss in ("sincere", "supcon", "soft_label", "rank_n_contrast", "set_nce"):
        found.append(Case(f"{loss}, contrasts", sizes, labels, LOSSES[loss], contrasts=True))
        found.append(
            Case(f"{loss}, batch and contrasts", sizes, labels, LOSSES[loss], {"include_batch": True}, contrasts=True)
        )
    return found


def part_of(rank: int, sizes: list[int]) -> slice:
    return slice(sum(sizes[:rank]), sum(sizes[: rank + 1]))


def loss_of(
    case: Case, encoder: nn.Module, inputs: Tensor, part: slice, temperature: Tensor, *, gather: bool
) -> Tensor:
    generator = torch.Generator().manual_seed(1)
    total = sum(case.sizes)
    options = dict(case.options, temperature=temperature, gather=gather)
    if case.weighted:
        options["weights"] = torch.rand(total, generator=generator, dtype=torch.float64)[part] + 0.1
    contrasts: tuple[Tensor, ...] = ()
    if case.contrasts:
        memory = torch.randn(total, DIM, generator=generator, dtype=torch.float64)
        contrasts = (memory[part], torch.tensor(case.labels)[part].flip(0) if gather else _flipped(case))
    embeddings = encoder(inputs[part].flatten(0, 1)).view(-1, VIEWS, DIM)
    return case.call(embeddings, torch.tensor(case.labels)[part], *contrasts, **options)


def _flipped(case: Case) -> Tensor:
    labels = torch.tensor(case.labels)
    return torch.cat([labels[part_of(r, case.sizes)].flip(0) for r in range(len(case.sizes))])


def gradients(case: Case, rank: int, *, gather: bool) -> tuple[float, Tensor]:
    """The loss, and the gradient of every parameter as an optimiser sees it."""
    torch.manual_seed(0)
    inputs = torch.randn(sum(case.sizes), VIEWS, FEATURES, dtype=torch.float64)
    encoder: nn.Module = nn.Linear(FEATURES, DIM, dtype=torch.float64)
    scale = nn.Parameter(torch.tensor(0.3, dtype=torch.float64))
    model = DistributedDataParallel(encoder) if gather else encoder
    part = part_of(rank, case.sizes) if gather else slice(None)
    loss = loss_of(case, model, inputs, part, scale, gather=gather)
    loss.backward()
    if gather:  # a loss's own parameter is outside DDP here, so average it by hand
        dist.all_reduce(scale.grad)
        scale.grad /= dist.get_world_size()
    grads = [parameter.grad.flatten() for parameter in encoder.parameters()]
    return loss.item(), torch.cat([*grads, scale.grad.flatten()])


def check_case(case: Case, rank: int) -> str | None:
    value, gradient = gradients(case, rank, gather=True)
    expected_value, expected = gradients(case, rank, gather=False)
    off = (gradient - expected).abs().max().item()
    if abs(value - expected_value) > 1e-12 * max(1, abs(expected_value)):
        return f"{case.name}: rank {rank} logs {value!r}, one process {expected_value!r}"
    if not off <= 1e-12 * max(1, expected.abs().max().item()):
        return f"{case.name}: rank {rank} is off by {off:.1e} of {expected.abs().max().item():.1e}"
    return None


def check_none_reduction(rank: int, world: int) -> str | None:
    """reduction="none" gives a process its own anchors' values."""
    torch.manual_seed(0)
    z, labels = torch.randn(3 * world, DIM, dtype=torch.float64), torch.tensor([0, 1, 2] * world)
    part = slice(3 * rank, 3 * rank + 3)
    mine = SF.sincere(z[part], labels[part], gather=True, reduction="none")
    return None if torch.allclose(mine, SF.sincere(z, labels, reduction="none")[part], rtol=1e-12) else "none: differs"


def check_queue(rank: int, world: int) -> str | None:
    """Queues of all processes together are the queue of one."""
    torch.manual_seed(0)
    steps = torch.randn(3, 4 * world, DIM, dtype=torch.float64)
    labels = torch.tensor([0, 1, 1, 2] * world)
    part = slice(4 * rank, 4 * rank + 4)
    queue, whole = LabelQueue(8, DIM).double(), LabelQueue(8 * world, DIM).double()
    loss, one_process = SINCERELoss(gather=True, include_batch=True), SINCERELoss(include_batch=True)
    for z in steps:
        value = loss(z[part], labels[part], *queue.contrasts())
        expected = one_process(z, labels, *whole.contrasts())
        if abs(value - expected) > 1e-12:
            return f"queue: rank {rank} has {value.item()!r}, one process {expected.item()!r}"
        queue.enqueue(z[part], labels[part])
        whole.enqueue(z, labels)
    return None


def check_cached_backward(rank: int, world: int) -> str | None:
    """Chunks under DDP with gather: still the gradient of the global batch at once."""
    torch.manual_seed(0)
    inputs, labels = torch.randn(4 * world, FEATURES, dtype=torch.float64), torch.tensor([0, 1, 1, 2] * world)
    part = slice(4 * rank, 4 * rank + 4)
    encoder = nn.Linear(FEATURES, DIM, dtype=torch.float64)
    model = DistributedDataParallel(encoder)
    cached_backward(model, inputs[part], lambda z: SF.sincere(z, labels[part], gather=True), chunk_size=3)
    (expected,) = torch.autograd.grad(SF.sincere(encoder(inputs), labels), encoder.weight)
    return None if torch.allclose(encoder.weight.grad, expected, rtol=1e-11, atol=1e-13) else "cached_backward: differs"


def check_cached_backward_without_samples(rank: int, world: int) -> str | None:
    """A process may have no samples, and another more chunks than the rest."""
    torch.manual_seed(0)
    sizes = [5, 0, 2][:world]
    inputs, labels = torch.randn(sum(sizes), FEATURES, dtype=torch.float64), torch.tensor([0, 1, 0, 1, 2, 2, 0])
    part = part_of(rank, sizes)
    encoder = nn.Linear(FEATURES, DIM, dtype=torch.float64)
    model = DistributedDataParallel(encoder)
    cached_backward(model, inputs[part], lambda z: SF.sincere(z, labels[part], gather=True), chunk_size=2)
    (expected,) = torch.autograd.grad(SF.sincere(encoder(inputs), labels[: sum(sizes)]), encoder.weight)
    agrees = torch.allclose(encoder.weight.grad, expected, rtol=1e-11, atol=1e-13)
    return None if agrees else "cached_backward without samples: differs"


def check_cached_backward_around_ddp(rank: int, world: int) -> str | None:
    """DDP may be inside the encoder, as torch.compile leaves it: chunks before the last must not wait there either."""
    torch.manual_seed(0)
    sizes = [7, 2, 1][:world]
    inputs, labels = torch.randn(sum(sizes), FEATURES, dtype=torch.float64), torch.arange(sum(sizes)) % 3
    part = part_of(rank, sizes)
    encoder = nn.Linear(FEATURES, DIM, dtype=torch.float64)
    model = nn.Sequential(DistributedDataParallel(encoder))
    cached_backward(model, inputs[part], lambda z: SF.sincere(z, labels[part], gather=True), chunk_size=2)
    (expected,) = torch.autograd.grad(SF.sincere(encoder(inputs), labels), encoder.weight)
    agrees = torch.allclose(encoder.weight.grad, expected, rtol=1e-11, atol=1e-13)
    return None if agrees else "cached_backward around DDP: differs"


def check_set_loss_chooses_for_all(rank: int, world: int) -> str | None:
    """The first process's anchors have so many positives that "auto" approximates; those of the others alone have one,
    and it would be exact."""
    torch.manual_seed(0)
    sizes = [200, 10, 10][:world]
    labels = torch.cat([torch.zeros(200, dtype=torch.int64), 1 + torch.arange(sum(sizes) - 200) // 2])
    z, part = torch.randn(sum(sizes), DIM, dtype=torch.float64), part_of(rank, sizes)
    for backend in ("auto", "dense"):
        found = SF.set_nce(z[part], labels[part], gather=True, backend=backend)
        expected, exact = (SF.set_nce(z, labels, backend=backend, method=method) for method in ("auto", "exact"))
        if abs(expected - exact) < 1e-6 or abs(found - expected) > 1e-12:
            return f"set loss: rank {rank} has {found.item()!r}, one process {expected.item()!r}, exact {exact.item()}"
    return None


def check_second_derivative(rank: int, world: int) -> str | None:
    """The gradient of a gradient's size goes through all processes too: every process differentiates world · L."""
    torch.manual_seed(0)
    z, labels = torch.randn(3 * world, DIM, dtype=torch.float64), torch.tensor([0, 1, 2] * world)
    part = slice(3 * rank, 3 * rank + 3)

    def gradient_of_penalty(rows: Tensor, times: int, **options: Any) -> Tensor:
        loss = times * SF.sincere(rows, backend="dense", **options)
        (gradient,) = torch.autograd.grad(loss, rows, create_graph=True)
        return torch.autograd.grad(gradient.square().sum(), rows)[0]

    mine = gradient_of_penalty(z[part].clone().requires_grad_(), 1, labels=labels[part], gather=True)
    expected = gradient_of_penalty(z.clone().requires_grad_(), world, labels=labels)[part]
    return None if torch.allclose(mine, expected, rtol=1e-11, atol=1e-13) else "second derivative: differs"


def check_transform(rank: int, world: int) -> str | None:
    """torch.func.grad takes a gathered loss as autograd does."""
    torch.manual_seed(0)
    z, labels = torch.randn(3 * world, DIM, dtype=torch.float64), torch.tensor([0, 1, 2] * world)
    part = slice(3 * rank, 3 * rank + 3)
    mine = torch.func.grad(lambda rows: SF.sincere(rows, labels[part], gather=True))(z[part])
    whole = z.clone().requires_grad_()
    (expected,) = torch.autograd.grad(SF.sincere(whole, labels), whole)
    return None if torch.allclose(mine / world, expected[part], rtol=1e-11, atol=1e-13) else "torch.func: differs"


class Bilinear(nn.Module):
    """A similarity that is learned."""

    def __init__(self) -> None:
        super().__init__()
        self.form = nn.Parameter(torch.eye(DIM, dtype=torch.float64))

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        return a @ self.form @ b.T


def calls_that_differ(rank: int) -> dict[str, Callable[[], Tensor]]:
    """What one process must not do unlike the others, by the words that all of them must hear."""
    z, labels = torch.randn(4, DIM, dtype=torch.float64, requires_grad=True), torch.tensor([0, 1, 0, 1])
    first = rank == 0
    hot, contrasts = torch.ones(4, 2 if first else 3, dtype=torch.int64), () if first else (z, labels)
    soft_labels = torch.rand(4, 2, dtype=torch.float32 if first else torch.float64)

    def without_gradient() -> Tensor:
        with torch.set_grad_enabled(not first):
            return SF.sincere(z, labels, gather=True)

    return {
        "the dimension of embeddings": lambda: SF.sincere(z[:, : 3 if first else 4], labels, gather=True),
        "the type of embeddings": lambda: SF.sincere(z.float() if first else z, labels, gather=True),
        "whether embeddings need a gradient": without_gradient,
        "whether weights need a gradient": lambda: SF.sincere(
            z, labels, weights=torch.ones(4, requires_grad=first), gather=True
        ),
        "whether temperature or similarity need a gradient": lambda: SF.sincere(
            z.detach(), labels, temperature=torch.tensor(0.1, dtype=torch.float64, requires_grad=first), gather=True
        ),
        "temperature or similarity need a gradient must be the same": lambda: SF.sincere(
            z.detach(), labels, similarity=Bilinear().requires_grad_(first), gather=True
        ),
        "whether contrasts are given": lambda: SF.sincere(z, labels, *contrasts, gather=True),
        "the number of columns": lambda: SF.sincere(z, labels if first else hot, gather=True),
        "the number of columns of the labels": lambda: SF.sincere(z, hot, gather=True),
        "the type of the labels": lambda: SF.soft_label(z, soft_labels, gather=True),
        "reduction must": lambda: SF.sincere(z, labels, reduction="mean" if first else "class_mean", gather=True),
        "similarity must": lambda: SF.sincere(z, labels, similarity="dot" if first else "cosine", gather=True),
        "positives must": lambda: SF.sincere(z, hot[:, :2], positives="any" if first else "jaccard", gather=True),
        "ignore_label must": lambda: SF.sincere(z, labels, ignore_label=-1 if first else 0, gather=True),
        "class_balanced must": lambda: SF.sincere(z, labels, class_balanced=first, gather=True),
        "ignored_as_negatives must": lambda: SF.sincere(z, labels, ignored_as_negatives=first, gather=True),
        "temperature must be the same on all processes with gather=True: 0.1 on process 0, 0.2": lambda: SF.sincere(
            z, labels, temperature=0.1 if first else 0.2, gather=True
        ),
        "drifts apart unless its gradient is averaged": lambda: SF.sincere(
            z, labels, temperature=torch.tensor(0.1 if first else 0.1001, requires_grad=True), gather=True
        ),
        "no positive number on process 0": lambda: SF.sincere(
            z, labels, temperature=torch.tensor(math.nan if first else 0.1), gather=True
        ),
        "include_batch": lambda: SF.sincere(z, labels, z, labels, include_batch=first, gather=True),
    }


def check_differences_are_refused_by_all(rank: int, world: int) -> str | None:
    """In words, and not by waiting for ever: every process would hang otherwise, or mix up numbers."""
    for words, call in calls_that_differ(rank).items():
        try:
            call()
        except InputError as error:
            if words not in str(error):
                return f"{words}: rank {rank} says {error}"
        else:
            return f"{words}: rank {rank} does not refuse"
    return None


def check_rounding_is_no_difference(rank: int, world: int) -> str | None:
    """Copies of a temperature that are learned alike may end in other digits; processes go on together."""
    torch.manual_seed(0)
    z, labels = torch.randn(3 * world, DIM, dtype=torch.float64), torch.tensor([0, 1, 2] * world)
    part, options = slice(3 * rank, 3 * rank + 3), {"temperature": 0.1 * (1 + 1e-5 * rank)}
    found = SF.sincere(z[part], labels[part], gather=True, **options)
    return None if abs(found - SF.sincere(z, labels, temperature=0.1)) < 1e-2 else "temperatures almost alike: differs"


CHECKS = (
    check_none_reduction,
    check_rounding_is_no_difference,
    check_queue,
    check_cached_backward,
    check_cached_backward_without_samples,
    check_cached_backward_around_ddp,
    check_set_loss_chooses_for_all,
    check_second_derivative,
    check_transform,
    check_differences_are_refused_by_all,
)


def run(rank: int, world: int, folder: Path) -> int:
    """Everything above in one process of `world`; what went wrong goes into a file."""
    torch.set_num_threads(1)
    warnings.simplefilter("error")
    dist.init_process_group("gloo", init_method=f"file://{folder / 'store'}", rank=rank, world_size=world)
    problems, done = [], 0
    for case in cases(world):
        problems.append(check_case(case, rank))
        done += 1
    for check in CHECKS:
        problems.append(check(rank, world))
        done += 1
    (folder / f"{rank}.json").write_text(json.dumps([done, [problem for problem in problems if problem]]))
    dist.barrier()
    dist.destroy_process_group()
    return 0


def _ended_or_killed(child: int) -> int | None:
    """The exit code; None of a process that waited for the others and had to be killed, whereupon they end too."""
    code = ended(child)
    if code is None:
        os.kill(child, signal.SIGKILL)
        ended(child)
    return code


def together(world: int, folder: Path) -> dict[str, Any]:
    """Exit codes of that many processes, and what they found."""
    folder.mkdir()
    children = [in_a_process(lambda r=rank: run(r, world, folder)) for rank in range(world)]
    codes = [_ended_or_killed(child) for child in children]
    return {"codes": codes, "reports": [json.loads(place.read_text()) for place in sorted(folder.glob("*.json"))]}


if __name__ == "__main__":
    torch.optim.SGD([torch.zeros(1)])  # loads torch's compiler, which DistributedDataParallel needs: once, here
    print(json.dumps({str(world): together(world, Path(sys.argv[1]) / str(world)) for world in (2, 3)}))
