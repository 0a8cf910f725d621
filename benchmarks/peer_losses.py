"""Losses that others publish, as they are: of an installed library, or of a checkout of the papers' authors' code.

    python benchmarks/cpu_speed.py --authors-sincere PATH --authors-supcon PATH

where the paths are clones of tufts-ml/SupContrast and HobbitLong/SupContrast on GitHub.

Each is compared with ours before it is timed, with the settings that make it the paper's equation: unit embeddings, and
no factor of the temperature.
"""

import runpy
import subprocess
from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata, util
from pathlib import Path

import torch.nn.functional as F
from torch import Tensor

Loss = Callable[..., Tensor]  # of embeddings and labels; temperature by name


@dataclass(frozen=True)
class Peer:
    """Somebody else's loss, which of ours it should equal, and the version of its code."""

    loss: Loss
    equals: str
    source: str


def add_options(parser: ArgumentParser) -> None:
    parser.add_argument("--authors-sincere", type=Path, metavar="PATH", help="a checkout of tufts-ml/SupContrast")
    parser.add_argument("--authors-supcon", type=Path, metavar="PATH", help="a checkout of HobbitLong/SupContrast")


def checkouts(options: Namespace) -> list[str]:
    """These options again, for a process of one's own."""
    given = (("--authors-sincere", options.authors_sincere), ("--authors-supcon", options.authors_supcon))
    return [word for flag, path in given if path is not None for word in (flag, str(path.resolve()))]


def peers(options: Namespace) -> dict[str, Peer]:
    """Those that are there, by the names under which results are kept."""
    found = {}
    if options.authors_sincere is not None:
        found["authors' SINCERE"] = authors_sincere(options.authors_sincere)
    if options.authors_supcon is not None:
        found["authors' SupCon"] = authors_supcon(options.authors_supcon)
    if util.find_spec("pytorch_metric_learning") is not None:
        found["pytorch-metric-learning SupCon"] = metric_learning_supcon()
    return found


def authors_sincere(checkout: Path) -> Peer:
    theirs = runpy.run_path(str(checkout / "revised_losses.py"))["SINCERELoss"]

    def loss(embeddings: Tensor, labels: Tensor, temperature: float) -> Tensor:
        return theirs(temperature)(F.normalize(embeddings, dim=1), labels)  # type: ignore[no-any-return]

    return Peer(loss, "SINCERE", f"tufts-ml/SupContrast {commit_of(checkout)}")


def authors_supcon(checkout: Path) -> Peer:
    theirs = runpy.run_path(str(checkout / "losses.py"))["SupConLoss"]

    def loss(embeddings: Tensor, labels: Tensor, temperature: float) -> Tensor:
        one_view = F.normalize(embeddings, dim=1).unsqueeze(1)
        return theirs(temperature, base_temperature=temperature)(one_view, labels)  # type: ignore[no-any-return]

    return Peer(loss, "SupCon", f"HobbitLong/SupContrast {commit_of(checkout)}")


def metric_learning_supcon() -> Peer:
    from pytorch_metric_learning.losses import SupConLoss  # type: ignore[import-untyped]

    def loss(embeddings: Tensor, labels: Tensor, temperature: float) -> Tensor:
        return SupConLoss(temperature)(embeddings, labels)  # type: ignore[no-any-return]

    return Peer(loss, "SupCon", f"pytorch-metric-learning {metadata.version('pytorch-metric-learning')}")


def commit_of(checkout: Path) -> str:
    command = ["git", "-C", str(checkout), "rev-parse", "--short", "HEAD"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
