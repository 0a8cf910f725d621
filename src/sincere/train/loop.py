"""Training, from a configuration to a run folder."""

from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from signal import Signals
from time import perf_counter
from typing import get_args

import torch

from sincere.checks import check_choice
from sincere.data import Splits, open_data
from sincere.defaults import gradients_on, usual_defaults
from sincere.embeddings.embed import embed
from sincere.runs import RunFolder, newest_checkpoint, newest_step, read_metrics, save_checkpoint, save_model
from sincere.runs.folder import SPLITS
from sincere.runs.lock import only_here
from sincere.runs.tensor_files import needs_safetensors
from sincere.train.batches import EpochPlan
from sincere.train.checkpoint import Position, restore, run_state
from sincere.train.config import DataConfig
from sincere.train.global_generators import callers_generators_restored
from sincere.train.interruption import Interruption
from sincere.train.meter import Meter
from sincere.train.peers import heard_by_the_others
from sincere.train.processes import Processes, device_for, joined_processes, tuned_convolutions
from sincere.train.progress import Length, Show, Telling, build_progress, telling_by
from sincere.train.reporting import Moment, Reporter
from sincere.train.session import Session, build_session
from sincere.train.start import begin, check_alike, check_config, check_folder, check_splits, notes_on_compute
from sincere.train.train_config import TrainConfig
from sincere.train.validation import Validation, validate

EpochLoss = tuple[float, float | None]  # mean loss and excess


@dataclass(frozen=True)
class TrainedRun:
    """How a call of `train` ended."""

    run: Path
    finished: bool
    signal: int | None  # what stopped it, if something did
    epoch: int  # complete epochs
    step: int
    loss: float | None  # mean of the last complete epoch
    excess: float | None
    validation: Validation | None  # the last one
    seconds: float  # of training, all starts together
    leader: bool  # is this the process, of those that torchrun started, that talks

    @property
    def exit_code(self) -> int:
        """0, or 128 + the signal: 130 after Ctrl-C, 143 after SIGTERM."""
        return 0 if self.signal is None else 128 + self.signal


def train(
    config: TrainConfig,
    *,
    run: str | Path,
    resume: bool = False,
    data: Splits | None = None,
    show: Show = "auto",
) -> TrainedRun:
    """Train a model and leave a run folder: configuration, metrics, checkpoint, weights, embeddings.

    Ctrl-C and SIGTERM end it after the current step with everything saved; the record then says which signal it was.
    Under torchrun all processes call it alike.

    Args:
        config: every setting.
        run: the folder, new or empty; or that of the run to go on with.
        resume: go on with the run in the folder, from its newest checkpoint; where there is no run yet, begin it, so
            that a job that may be killed can use the same command every time.
        data: splits in memory, in place of those that `config.data` names.
        show: "auto" has a live display on a terminal; "plain" writes lines; "off" is silent. All of it on stderr.
    """
    check_choice("show", show, get_args(Show))
    return told_run(config, run=run, resume=resume, data=data, telling=telling_by(show))


@usual_defaults()
@gradients_on()
def told_run(
    config: TrainConfig, *, run: str | Path, resume: bool, data: Splits | None, telling: Telling
) -> TrainedRun:
    """`train`, for a caller who takes the notes and puts them into words of its own, as the command line does."""
    with heard_by_the_others():
        check_config(config)
        needs_safetensors()
        device, folder = device_for(config.compute.device), RunFolder(Path(run))
        if data is not None:
            check_splits(data)
    with joined_processes(device) as processes, callers_generators_restored(device):
        if processes.leader:
            check_folder(folder, config, resume=resume)
        splits = opened(config.data) if data is None else data
        return _trained(config, folder, splits, device, processes, telling, resume=resume)


def _trained(
    config: TrainConfig,
    folder: RunFolder,
    splits: Splits,
    device: torch.device,
    processes: Processes,
    telling: Telling,
    *,
    resume: bool,
) -> TrainedRun:
    """A function of its own, so that network and optimizers are freed before the process group is destroyed."""
    if processes.world > 1:
        check_alike(config, splits, processes)
    resumed = newest_step(folder.checkpoint) > 0
    session = build_session(config, splits, device, processes, weights_follow=resumed)
    # Last, so that a setting that cannot work leaves no folder behind.
    with only_here(folder.path) if processes.leader else nullcontext():
        if processes.leader:
            check_folder(folder, config, resume=resume)  # once more: others may have begun a run here meanwhile
            begin(folder, config, splits)
        processes.wait()
        with Interruption(quiet=not processes.leader) as asked, tuned_convolutions(device):
            return Loop(session, folder, telling).run(asked)


def opened(config: DataConfig) -> Splits:
    """The data that a configuration names."""
    return open_data(
        config.source,
        test=config.test,
        kind=config.kind,
        validation_share=config.validation_share,
        test_share=config.test_share,
        seed=config.seed,
        **config.options,
    )


def last_told(folder: RunFolder) -> tuple[EpochLoss | None, Validation | None]:
    """Loss and validation of the last complete epochs, from the metrics of a run that is resumed."""
    loss, validation = None, None
    for record in read_metrics(folder.metrics):
        if record["kind"] == "epoch":
            loss = (record["loss"], record.get("excess"))
        elif record["kind"] == "validation":
            numbers = (record["neighbours"], record["references"], record["samples"])
            validation = Validation(record["knn_accuracy"], *numbers)
    return loss, validation


class Loop:
    """The training loop, with what it remembers from step to step."""

    def __init__(self, session: Session, folder: RunFolder, telling: Telling) -> None:
        self.session, self.folder, self.config = session, folder, session.config.reporting
        self.processes = session.parts.processes
        self.meter: Meter = session.meter()
        found = newest_checkpoint(folder.checkpoint)
        self.position = restore(session, found, self.meter) if found else Position()
        advice = f"All of them must see one folder, {folder.path}: is it on a disk that every machine shares?"
        self.processes.agree("checkpoint", str(self.position.step), advice=advice)
        self.saved_step, self.saved_at = self.position.step, perf_counter()
        self.began = perf_counter() - self.position.seconds
        self.epoch_loss, self.validation = last_told(folder) if found else (None, None)
        self.upcoming: EpochPlan | None = None
        early, leader = session.step.early, self.processes.leader
        length = Length(session.config.epochs, session.total_steps, early.steps, early.cost)
        notes = (
            *session.splits.note,
            *session.planner.notes,
            *early.notes,
            *notes_on_compute(session.config.compute, session.step.device),
        )
        if leader and not found:
            for note in dict.fromkeys(notes):  # data and batches may say the same
                telling.note(note)
        self.progress = build_progress(telling.show, length, done=self.position.step, leader=leader)

    def run(self, asked: Interruption) -> TrainedRun:
        """Epoch after epoch from where the run stands, until the end or a signal."""
        session, position, signal = self.session, self.position, 0
        reporter = None
        session.parts.network.train()
        self.meter.since = perf_counter()
        try:
            if self.processes.leader:
                reporter = Reporter(self.folder, self.progress, tensorboard=self.config.tensorboard, step=position.step)
            while position.epoch < session.config.epochs and not signal:
                signal = self._epoch(asked, reporter)
            if signal:
                self._say_goodbye(signal)
            else:
                self._finish()
        finally:
            self.progress.close() if reporter is None else reporter.close()
        return self._record(signal or None)

    def _epoch(self, asked: Interruption, reporter: Reporter | None) -> int:
        """The rest of the current epoch; the signal that ended it, or 0."""
        session, position, meter = self.session, self.position, self.meter
        plan = self.upcoming or session.planner.plan(position.epoch)
        while position.place < len(plan):
            share = session.rate(position.step) / session.config.optimizer.lr
            batch, before = plan.batch(position.place), plan.times_before(position.place)
            loss = session.step(batch, step=position.step, times_before=before, share=share)
            meter.add(loss, plan.size(position.place))
            position.step, position.place = position.step + 1, position.place + 1
            self.progress.tick(position.step)
            last = position.place == len(plan)
            if last and plan.epoch + 1 < session.config.epochs:
                # Dealt out while the device is still busy, before anything waits for it.
                self.upcoming = session.planner.plan(plan.epoch + 1)
            if reporter is not None and (last or position.place % self.config.log_every == 0):
                reporter.reading(self._moment(), meter.read(plan, position.place), temperature=session.temperature())
            if last:
                self._end_epoch(reporter)
            # Signals and clocks differ between processes, yet all must save and stop together. So they agree on one
            # number that holds both: twice the signal (0 for none), plus 1 where a checkpoint is due.
            signal, due = divmod(self.processes.largest(2 * (asked.signal or 0) + self._due()), 2)
            if signal or due:
                self._save()
            if signal or last:
                return signal
        return 0

    def _end_epoch(self, reporter: Reporter | None) -> None:
        """Tell the epoch's means and the validation accuracy, then stand at the next epoch's first batch."""
        position, every = self.position, self.config.validate_every
        if reporter is not None:
            moment = self._moment()
            self.epoch_loss = self.meter.end_epoch()
            reporter.epoch(moment, *self.epoch_loss)
            if every and ((position.epoch + 1) % every == 0 or position.epoch + 1 == self.session.config.epochs):
                self.validation = self._validated()
                if self.validation is not None:
                    reporter.validation(moment, self.validation)
                self.meter.since = perf_counter()
        position.epoch, position.place = position.epoch + 1, 0

    def _validated(self) -> Validation | None:
        session = self.session
        precision = session.config.compute.precision
        return validate(session.model, session.parts.views, session.splits, self.config, precision=precision)

    def _moment(self) -> Moment:
        """Now; the learning rate is that of the step just done."""
        position = self.position
        seconds = perf_counter() - self.began
        return Moment(position.step, position.epoch + 1, seconds, self.session.rate(position.step - 1))

    def _due(self) -> bool:
        """Does the leader want a checkpoint?"""
        config, position = self.config, self.position
        if not self.processes.leader or position.step == self.saved_step:
            return False
        by_steps = config.checkpoint_steps is not None and position.step - self.saved_step >= config.checkpoint_steps
        waited = perf_counter() - self.saved_at
        by_clock = config.checkpoint_seconds is not None and waited >= config.checkpoint_seconds
        return by_steps or by_clock

    def _save(self) -> None:
        """Write a checkpoint; all processes call it together."""
        position = self.position
        position.seconds = perf_counter() - self.began
        tensors, state = run_state(self.session, position, self.meter)
        if self.processes.leader:
            save_checkpoint(self.folder.checkpoint, position.step, tensors, state)
        self.saved_step, self.saved_at = position.step, perf_counter()

    def _say_goodbye(self, signal: int) -> None:
        name, step = Signals(signal).name, self.position.step
        self.progress.say(
            f"stopped by {name} after step {step:,} of {self.session.total_steps:,}. Everything up to it is saved in "
            f"{self.folder.path}: resume to go on."
        )

    def _finish(self) -> None:
        """Leave what a run is for: embeddings, the model's description and, last, as a sign of the end, its weights."""
        session = self.session
        if self.saved_step != self.position.step:
            self._save()
        if self.processes.leader:
            if self.config.save_embeddings:
                for name in SPLITS:
                    if (part := getattr(session.splits, name)) is not None:
                        embed(session.model, session.parts.views, part).save(self.folder.embeddings(name))
            save_model(self.folder, session.description.to_json(), session.model.state_dict())
        self.processes.wait()

    def _record(self, signal: int | None) -> TrainedRun:
        loss, excess = self.epoch_loss or (None, None)
        return TrainedRun(
            run=self.folder.path,
            finished=signal is None,
            signal=signal,
            epoch=self.position.epoch,
            step=self.position.step,
            loss=loss,
            excess=excess,
            validation=self.validation,
            seconds=perf_counter() - self.began,
            leader=self.processes.leader,
        )
