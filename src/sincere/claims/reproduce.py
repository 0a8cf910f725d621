"""Run a claim, and keep what came out: JSON, the figure, and the figure's data."""

import csv
import io
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryFile
from time import perf_counter
from typing import get_args

from sincere.checks import check_choice
from sincere.claims.claim import Conditions, Outcome
from sincere.claims.laboratory import Laboratory
from sincere.claims.record import ClaimResult, Form
from sincere.claims.registry import check_known, find_claim
from sincere.claims.run_origins import origins_of
from sincere.errors import OptionError
from sincere.runs import provenance
from sincere.runs.files import write_atomically
from sincere.train.progress import Show

NO_PICTURES = 'pictures need matplotlib: pip install "sincere[lab]".'


@dataclass(frozen=True)
class Kept:
    """Where the result of one form of one claim lies."""

    folder: Path
    form: Form

    @property
    def result(self) -> Path:
        return self.folder / f"{self.form}.json"

    @property
    def picture(self) -> Path:
        return self.folder / f"{self.form}.png"

    @property
    def data(self) -> Path:
        return self.folder / f"{self.form}.csv"


def reproduce(
    name: str,
    *,
    form: Form = "quick",
    out: str | Path = "reproduce",
    runs: str | Path | None = None,
    data: Mapping[str, str] | None = None,
    seed: int = 0,
    say: Callable[[str], None] | None = None,
    show: Show = "auto",
) -> ClaimResult:
    """Run one claim and write `out/NAME/FORM.json`, with a picture and its data where it has them.

    Args:
        name: of the claim, or its number.
        form: "quick" fits two cores and three minutes; "full" is the paper's size and wants a GPU where it trains;
            "fast", for claims on CIFAR, has the real images and a small network: minutes of one GPU.
        out: where results are kept; the newest of a form replaces the one before.
        runs: where trained models are kept, for claims that share them; `out/runs` unless given. What is not there is
            looked for in `out/light-runs`, where `reproduce/lighten_runs.py` puts what claims read of a run.
        data: where data sets are, by name: {"cifar10": "cifar-10-python.tar.gz"}.
        seed: of everything random; claims over several seeds count up from it.
        say: called with a few words on what is being done.
        show: how training shows its progress.
    """
    check_choice("form", form, get_args(Form))
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise OptionError(f"seed must be a whole number of at least 0: got {seed!r}.")
    claim, place = find_claim(name), Path(out)
    if form == "fast" and not any(needed.startswith("cifar") for needed in claim.needs):
        raise OptionError(
            f"only claims on CIFAR have a fast form, and {claim.name} is none: use the quick or the full one."
        )
    laboratory = Laboratory(Path(runs) if runs is not None else place / "runs", show, place / "light-runs")
    conditions = Conditions(form, seed, laboratory, dict(data or {}), say or (lambda words: None))
    check_known(conditions.data)
    claim.check_data(conditions)
    kept = Kept(place / claim.name, form)
    _check_room(kept.folder)
    origin = provenance(seed=seed)  # before hours of training, in which somebody may commit
    began = perf_counter()
    outcome = claim.run(conditions)
    if (trained := origins_of(laboratory.used, before=origin["started"])) is not None:
        origin["runs"] = trained
    result = ClaimResult(
        number=claim.number,
        name=claim.name,
        form=form,
        source=claim.source,
        statement=claim.statement,
        paper=claim.paper,
        setting=outcome.setting,
        verdict=outcome.verdict,
        reason=outcome.reason,
        measured=outcome.measured,
        seconds=round(perf_counter() - began, 1),
        provenance=origin,
    )
    _keep(kept, result, outcome)
    return result


def _check_room(folder: Path) -> None:
    """Hours of training are not to end at a folder that nobody may write, or at a picture that nothing can draw."""
    if find_spec("matplotlib") is None:
        raise OptionError(NO_PICTURES)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise OptionError(
            f"results must lie in a folder that can be written: {folder}: {error.strerror}. Choose another: out='…'."
        ) from error


def _keep(kept: Kept, result: ClaimResult, outcome: Outcome) -> None:
    kept.folder.mkdir(parents=True, exist_ok=True)
    if outcome.rows:
        write_atomically(kept.data, _csv(outcome).encode())
    if outcome.draw is not None:
        write_atomically(kept.picture, _png(outcome))
    write_atomically(kept.result, (result.to_json() + "\n").encode())


def _csv(outcome: Outcome) -> str:
    names = list(dict.fromkeys(name for row in outcome.rows for name in row))
    text = io.StringIO()
    writer = csv.DictWriter(text, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(outcome.rows)
    return text.getvalue()


def _png(outcome: Outcome) -> bytes:
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise OptionError(NO_PICTURES) from error
    assert outcome.draw is not None
    figure = Figure(figsize=(7.2, 4.0), layout="constrained")
    outcome.draw(figure)
    image = io.BytesIO()
    figure.savefig(image, format="png", dpi=144)
    return image.getvalue()
