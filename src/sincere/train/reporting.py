"""Everything that a run tells: metrics on disk, the progress display, TensorBoard if asked for."""

from dataclasses import dataclass
from typing import Any

from sincere.errors import OptionError
from sincere.runs import MetricsLog, RunFolder
from sincere.tables import amount
from sincere.train.meter import Reading
from sincere.train.progress import Progress
from sincere.train.validation import Validation


@dataclass(frozen=True)
class Moment:
    """When something was measured: steps done, the epoch (from 1), seconds of training so far, the learning rate."""

    step: int
    epoch: int
    seconds: float
    rate: float


class Reporter:
    """Writes each record once: as a line of JSON, to the display, and to TensorBoard."""

    def __init__(self, folder: RunFolder, progress: Progress, *, tensorboard: bool, step: int) -> None:
        self.log, self.progress = MetricsLog(folder.metrics), progress
        self.board: Any = _board(folder, step) if tensorboard else None

    def reading(self, moment: Moment, reading: Reading, *, temperature: float | None) -> None:
        """Means over the last steps."""
        values: dict[str, Any] = {"loss": reading.loss, "excess": reading.excess, "lr": moment.rate}
        values |= {"temperature": temperature, "samples_per_second": round(reading.rate, 1)}
        self._write("train", moment, values)
        self.progress.reading(moment.step, moment.epoch, reading)

    def epoch(self, moment: Moment, loss: float, excess: float | None) -> None:
        """Means over an epoch."""
        self._write("epoch", moment, {"loss": loss, "excess": excess})

    def validation(self, moment: Moment, found: Validation) -> None:
        values = {"knn_accuracy": found.accuracy, "neighbours": found.neighbours, "references": found.references}
        self._write("validation", moment, {**values, "samples": found.samples})
        self.progress.say(
            f"epoch {moment.epoch}  k-NN {100 * found.accuracy:.2f} % on {amount(found.samples, 'validation sample')} "
            f"(k = {found.neighbours}, {amount(found.references, 'reference')})"
        )

    def close(self) -> None:
        self.progress.close()
        if self.board is not None:
            self.board.close()

    def _write(self, kind: str, moment: Moment, values: dict[str, Any]) -> None:
        told = {name: value for name, value in values.items() if value is not None}
        place = {"kind": kind, "step": moment.step, "epoch": moment.epoch, "seconds": round(moment.seconds, 3)}
        self.log.append({**place, **told})
        if self.board is not None:
            for name, value in told.items():
                self.board.add_scalar(f"{kind}/{name}", value, moment.step)


def _board(folder: RunFolder, step: int) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise OptionError(
            'reporting.tensorboard needs tensorboard, which is not installed: pip install "sincere[tensorboard]".'
        ) from error
    # What a killed run wrote after its checkpoint would otherwise show twice.
    return SummaryWriter(folder.tensorboard, purge_step=step + 1 if step else None)
