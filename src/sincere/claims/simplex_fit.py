"""How near a run's classes are to the corners of a simplex: figures of its embeddings that light runs keep instead."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from sincere.embeddings import EmbeddingSet
from sincere.geometry import neural_collapse, simplex_conditions

FILE = "simplex.json"


@dataclass(frozen=True)
class SimplexFit:
    """Of one embedding set; None where too few classes have samples."""

    deviation: float | None  # mean |cos + 1/(K−1)| across class means, after the means' own mean is taken off
    collapse: float | None  # mean cosine of an embedding and its class's mean


def simplex_fit(found: EmbeddingSet) -> SimplexFit:
    return SimplexFit(neural_collapse(found).nc2_maximal, simplex_conditions(found).within_collapse)


def as_json(fits: dict[str, SimplexFit]) -> bytes:
    """By split."""
    return (json.dumps({split: asdict(fit) for split, fit in fits.items()}, indent=1) + "\n").encode()


def read_fits(path: Path) -> dict[str, SimplexFit]:
    return {split: SimplexFit(**fit) for split, fit in json.loads(path.read_text(encoding="utf-8")).items()}
