"""Every setting arrives where it belongs, clocks and floors tell the truth, and clipping clips."""

import resource
import signal
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

import oracles
from sincere.data import Splits
from sincere.data.fingerprint import data_fingerprint, digest_of
from sincere.errors import InputError, OptionError
from sincere.runs import RunFolder, WriteError, read_metrics
from sincere.train import (
    BatchesConfig,
    ComputeConfig,
    DivergedError,
    LossConfig,
    OptimizerConfig,
    ReportingConfig,
    ScheduleConfig,
    ViewsConfig,
    loop,
    meter,
    train,
)
from sincere.train.checkpoint import Position, run_state
from sincere.train.config import DataConfig
from sincere.train.excess import HAVE_A_FLOOR, batch_floor, has_floor
from sincere.train.optimizer import build_optimizers
from sincere.train.processes import Processes
from sincere.train.schedule import learning_rate
from sincere.train.session import build_session
from sincere.train.step import TrainingStep
from small_runs import small_config, small_splits


def run(folder, *, resume=False, splits=None, **changes):
    return train(small_config(**changes), run=folder, data=splits or small_splits(), resume=resume, show="off")


class TestOptimizers:
    @pytest.mark.parametrize(
        ("config", "expected"),
        [
            (OptimizerConfig("sgd", momentum=0.7, nesterov=True), {"momentum": 0.7, "nesterov": True}),
            (OptimizerConfig("sgd", momentum=0.6), {"momentum": 0.6, "nesterov": False}),
            (OptimizerConfig("adamw", betas=(0.8, 0.95), eps=1e-5), {"betas": (0.8, 0.95), "eps": 1e-5}),
            (OptimizerConfig("lars", momentum=0.7, trust=0.02), {"momentum": 0.7, "trust": 0.02}),
        ],
    )
    def test_settings_reach_the_optimizer(self, config, expected):
        (part,) = build_optimizers(replace(config, lr=0.3), nn.Linear(3, 2), nn.Module()).parts
        for group in part.param_groups:
            assert {name: group[name] for name in expected} == expected
            assert group["lr"] == 0.3

    @pytest.mark.parametrize("nesterov", [False, True])
    def test_settings_reach_muon_and_the_others(self, nesterov):
        network = nn.Sequential(nn.Linear(4, 5), nn.Linear(5, 5), nn.Linear(5, 3))
        config = OptimizerConfig("muon", 0.2, 0.7, nesterov, betas=(0.8, 0.95), eps=1e-5, others_lr=0.004)
        muon, others = build_optimizers(config, network, nn.Module()).parts
        assert [(group["lr"], group["momentum"], group["nesterov"]) for group in muon.param_groups] == [
            (0.2, 0.7, nesterov)
        ]
        assert [(group["lr"], group["betas"], group["eps"]) for group in others.param_groups] == [
            (0.004, (0.8, 0.95), 1e-5)
        ]

    @pytest.mark.parametrize("scale", [None, 1024.0], ids=["float32", "scaled, as for float16"])
    @pytest.mark.parametrize(("limit", "length"), [(0.5, 0.5), (13.0, 10.0)], ids=["too long", "short enough"])
    def test_the_norm_of_all_gradients_together_is_clipped(self, scale, limit, length):
        """Plain SGD at rate 1 moves by the gradient: 6 and 8 long in two weights, 10 together."""
        network = nn.ParameterList([nn.Parameter(torch.zeros(4)), nn.Parameter(torch.zeros(1))])
        config = OptimizerConfig("sgd", 1.0, 0.0, weight_decay=0.0, clip_norm=limit)
        made = build_optimizers(config, network, nn.Module())
        scaler = None if scale is None else torch.amp.GradScaler("cpu", init_scale=scale)
        loss = 3 * network[0].sum() + 8 * network[1].sum()
        (loss if scaler is None else scaler.scale(loss)).backward()
        made.step(scaler)
        direction = torch.tensor([3.0, 3.0, 3.0, 3.0, 8.0]) / 10
        torch.testing.assert_close(torch.cat(list(network)).detach(), -length * direction, rtol=1e-5, atol=0)
        assert all(weight.grad is None for weight in network)


def test_a_warm_up_may_end_within_an_epoch():
    config = ScheduleConfig("constant", warmup_epochs=0.5)
    rates = [learning_rate(config, 0.4, step=step, steps_per_epoch=8, epochs=2) for step in range(16)]
    assert rates == pytest.approx([0.0, 0.1, 0.2, 0.3] + [0.4] * 12)


def test_the_rate_that_is_told_is_that_of_the_step_just_done(tmp_path):
    schedule = ScheduleConfig(warmup_epochs=1, warmup_start_lr=0.02, end_lr=0.01)
    run(tmp_path, schedule=schedule)
    told = {record["step"]: record["lr"] for record in read_metrics(tmp_path / "metrics.jsonl") if "lr" in record}
    assert list(told) == [2, 4, 5, 7, 9, 10, 12, 14, 15]
    assert told[2] == pytest.approx(0.02 + 0.08 / 5)
    assert told[15] == pytest.approx(0.01)


class TestClocks:
    @pytest.fixture
    def clock(self, monkeypatch):
        """Each step takes a second, and nothing else takes any time."""
        now = [100.0]
        original = TrainingStep.__call__

        def step(self, batch, **how):
            now[0] += 1
            return original(self, batch, **how)

        monkeypatch.setattr(TrainingStep, "__call__", step)
        monkeypatch.setattr(loop, "perf_counter", lambda: now[0])
        monkeypatch.setattr(meter, "perf_counter", lambda: now[0])
        return now

    @pytest.fixture
    def saved(self, monkeypatch):
        steps, original = [], loop.save_checkpoint

        def save(folder, step, *what):
            steps.append(step)
            return original(folder, step, *what)

        monkeypatch.setattr(loop, "save_checkpoint", save)
        return steps

    @pytest.mark.parametrize(
        ("seconds", "steps", "expected"),
        [
            (4.0, None, [4, 8, 12, 15]),
            (None, 6, [6, 12, 15]),
            (4.0, 3, [3, 6, 9, 12, 15]),
            (4.0, 100, [4, 8, 12, 15]),
            (None, None, [15]),
            (5.0, None, [5, 10, 15]),
        ],
    )
    def test_checkpoints_come_by_the_clock_or_by_steps(self, clock, saved, seconds, steps, expected, tmp_path):
        """One is written at the end anyway, once."""
        changes = {"checkpoint_seconds": seconds, "checkpoint_steps": steps}
        run(tmp_path, reporting=replace(small_config().reporting, **changes))
        assert saved == expected

    def test_a_run_that_goes_on_counts_the_seconds_of_before(self, clock, tmp_path, monkeypatch):
        reporting = replace(small_config().reporting, checkpoint_steps=4)
        with monkeypatch.context() as patch:
            patch.setattr(loop, "save_model", lambda *_: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                run(tmp_path, reporting=reporting)
        clock[0] += 1000  # between the two starts
        found = run(tmp_path, reporting=reporting, resume=True)
        assert found.seconds == 15
        told = read_metrics(tmp_path / "metrics.jsonl")
        assert all(record["seconds"] == record["step"] for record in told)

    def test_samples_a_second_are_those_of_the_interval(self, clock, tmp_path):
        run(tmp_path)
        told = [record for record in read_metrics(tmp_path / "metrics.jsonl") if record["kind"] == "train"]
        assert [record["samples_per_second"] for record in told] == [12.0] * len(told)


@pytest.mark.parametrize("stopped", [None, 8], ids=["undisturbed", "resumed within an epoch"])
def test_the_means_of_an_epoch_are_those_of_its_steps(stopped, tmp_path, monkeypatch):
    """Of what was told on the way, by how many steps each line stands for."""
    with monkeypatch.context() as patch:
        original = TrainingStep.__call__

        def step(self, batch, *, step, **how):
            if step + 1 == stopped:
                signal.raise_signal(signal.SIGTERM)
            return original(self, batch, step=step, **how)

        patch.setattr(TrainingStep, "__call__", step)
        assert run(tmp_path, loss=LossConfig("supcon")).finished is (stopped is None)
    found = run(tmp_path, loss=LossConfig("supcon"), resume=True)
    told = read_metrics(tmp_path / "metrics.jsonl")
    for epoch in (1, 2, 3):
        lines = [record for record in told if (record["kind"], record["epoch"]) == ("train", epoch)]
        steps = np.diff([5 * (epoch - 1), *(record["step"] for record in lines)])
        assert steps.tolist() == [2, 2, 1]
        (mean,) = (record for record in told if (record["kind"], record["epoch"]) == ("epoch", epoch))
        for name in ("loss", "excess"):
            assert mean[name] == pytest.approx(np.average([record[name] for record in lines], weights=steps), rel=1e-9)
        assert 0 < mean["excess"] < mean["loss"]
    assert (found.loss, found.excess) == (mean["loss"], mean["excess"])


def test_a_temperature_that_overflowed_is_not_saved():
    """Its logarithm, the weight that moves, is still a number."""
    learned = LossConfig("supcon", learnable_temperature=True)
    made = build_session(small_config(loss=learned), small_splits(), torch.device("cpu"), Processes())
    run_state(made, Position(), made.meter())
    with torch.no_grad():
        made.parts.objective.loss.log_temperature.fill_(1000.0)
    with pytest.raises(DivergedError, match="the learned temperature became inf"):
        run_state(made, Position(), made.meter())


class TestFloors:
    COUNTS = ((3, 3), (4, 2, 0, 1), (2, 0, 2, 3, 1), (1, 1), (5,))

    def at_the_simplex(self, name, counts, views, epsilon):
        """The float64 loop of the loss, at a regular simplex of the classes that are there."""
        labels = [label for label, count in enumerate(counts) for _ in range(count * views)]
        if name == "infonce":
            labels = [sample for sample in range(sum(counts)) for _ in range(views)]
        classes = sorted(set(labels))
        corners = np.eye(len(classes)) - (1 / len(classes) if len(classes) > 1 else 0)
        rows = corners[[classes.index(label) for label in labels]]
        batch = oracles.batch_from_labels(rows, np.array(labels), 0.1)
        loops = {"infonce": oracles.sincere, "supcon": oracles.supcon_out, "set_nce": oracles.set_nce_by_recurrence}
        if name == "eps_supinfonce":
            values = oracles.eps_supinfonce(batch, epsilon)
        else:
            values = loops.get(name, getattr(oracles, name, None))(batch)
        valid = [value for value in values if value is not None]
        return np.mean(valid) if valid else 0.0

    @pytest.mark.parametrize("name", HAVE_A_FLOOR)
    @pytest.mark.parametrize("views", [1, 2])
    @pytest.mark.parametrize("counts", COUNTS)
    def test_the_floor_of_a_batch_is_the_loss_at_its_simplex(self, name, views, counts):
        options = {"epsilon": 0.4} if name == "eps_supinfonce" else {}
        found = batch_floor(LossConfig(name, options=options), counts, views=views, temperature=0.1)
        assert found == pytest.approx(self.at_the_simplex(name, counts, views, 0.4), rel=1e-9, abs=1e-12)

    @pytest.mark.parametrize("options", [{}, {"class_balanced": True, "reduction": "class_mean"}])
    def test_an_epsilon_that_nobody_gave_is_the_losses_own(self, options):
        """What `sincere train` minimises, of unequal classes at their simplex, is at its floor and not below it."""
        config, labels = LossConfig("eps_supinfonce", options=options), torch.tensor([0, 0, 0, 1, 1, 2, 2, 2, 2])
        corners = torch.eye(3, dtype=torch.float64) - 1 / 3
        value = config.build()(corners[labels].unsqueeze(1), labels).item()
        assert batch_floor(config, (3, 2, 4), views=1, temperature=config.temperature) == pytest.approx(value, rel=1e-9)

    @pytest.mark.parametrize("options", [{"similarity": "dot"}, {"reduction": "class_mean"}, {"ignore_label": 0}])
    def test_there_is_none_under_other_conditions(self, options):
        assert not has_floor(LossConfig(options=options))
        assert has_floor(LossConfig())
        assert not has_floor(LossConfig("spread"))


def test_data_are_opened_as_the_settings_say(monkeypatch):
    seen = []
    monkeypatch.setattr(loop, "open_data", lambda source, **how: seen.append((source, how)))
    loop.opened(DataConfig("a.csv", "b.csv", "array", 0.15, 0.25, 7, {"label_column": "c"}))
    expected = {"test": "b.csv", "kind": "array", "validation_share": 0.15, "test_share": 0.25, "seed": 7}
    assert seen == [("a.csv", {**expected, "label_column": "c"})]


def test_embeddings_are_saved_if_they_are_wanted(tmp_path):
    for wanted in (True, False):
        run(tmp_path / str(wanted), epochs=1, reporting=ReportingConfig(save_embeddings=wanted))
        assert RunFolder(tmp_path / str(wanted)).embeddings("test").exists() is wanted


def test_a_disk_that_is_full_at_the_end_is_told_once(tmp_path):
    """Embeddings of 3,000 samples do not fit into 100 kB; the rest of the run does."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
    try:
        with pytest.raises(WriteError) as error:
            run(tmp_path, splits=small_splits(3000), epochs=1, batches=BatchesConfig(1000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)
    assert error.value.strerror.count("could not write") == 1
    assert "train.npz: File too large. It needs" in error.value.strerror
    assert run(tmp_path, splits=small_splits(3000), epochs=1, batches=BatchesConfig(1000), resume=True).finished


def test_notes_are_told_once(tmp_path, capsys):
    """By the run that begins, not by each that goes on."""
    splits = replace(small_splits(), note=("2 files were skipped",))
    for resume in (False, True):
        train(small_config(epochs=1), run=tmp_path, data=splits, resume=resume, show="plain")
    assert capsys.readouterr().err.count("note: 2 files were skipped") == 1


def test_validation_computes_as_training_does(tmp_path, monkeypatch):
    seen = []
    monkeypatch.setattr(loop, "validate", lambda *_, precision: seen.append(precision))
    run(tmp_path, compute=replace(small_config().compute, precision="bf16"))
    assert set(seen) == {"bf16"}


def test_labels_are_part_of_what_data_are_known_by():
    data = small_splits().train
    assert data_fingerprint(data) == data_fingerprint(replace(data, inputs=data.inputs.clone()))
    assert data_fingerprint(data) != data_fingerprint(replace(data, labels=data.labels.flip(0)))
    assert data_fingerprint(data) != data_fingerprint(replace(data, inputs=data.inputs.flip(0)))
    assert data_fingerprint(data, data) != data_fingerprint(data, replace(data, labels=data.labels.flip(0)))


def test_types_and_shapes_are_part_of_what_tensors_are_known_by():
    """The bytes of all of these are the same."""
    dtypes = (torch.float32, torch.int32)
    known = {digest_of([torch.zeros(shape, dtype=dtype)]) for shape in ((2, 3), (3, 2), (6,)) for dtype in dtypes}
    assert len(known) == 6
    for strided in (torch.arange(6.0).view(2, 3).T, torch.arange(6.0)[::2]):
        assert digest_of([strided]) == digest_of([strided.contiguous()])


@pytest.mark.parametrize("sampler", ["classes", "shuffled", "balanced"])
def test_samples_of_one_class_are_refused(sampler, tmp_path):
    """Although there are names for three: the loss would be 0 from the first step to the last."""
    splits = small_splits()
    one = splits.train.subset(torch.nonzero(splits.train.labels == 1).flatten())
    with pytest.raises(InputError, match=r"samples of at least two classes: blobs has those of \['bee'\]"):
        run(tmp_path / "run", splits=Splits(one, None, splits.test), batches=BatchesConfig(8, sampler))
    assert not (tmp_path / "run").exists()


def test_a_scaler_that_is_missing_from_a_checkpoint_is_noticed(tmp_path):
    half = {"compute": replace(small_config().compute, precision="fp16")}
    run(tmp_path, **half)
    state = next((tmp_path / "checkpoint").glob("step-*/state.json"))
    for content in ('"scaler": null, "before": {', '"scaler": {"a": 1}, "before": {'):
        text = state.read_text()
        state.write_text(text.replace('"scaler": {', content, 1))
        with pytest.raises(InputError, match="the state in the checkpoint of step 15 is not complete"):
            run(tmp_path, resume=True, **half)
        state.write_text(text)


def test_what_is_no_config_or_display_is_refused_before_anything_is_written(tmp_path):
    with pytest.raises(OptionError, match=r"config must be a TrainConfig: got str\. .*DataConfig\('photos/'\)"):
        train("photos/", run=tmp_path / "run")
    with pytest.raises(OptionError, match="show must be one of 'auto', 'plain', 'off': got 'on'"):
        train(small_config(), run=tmp_path / "run", show="on")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("data", [(np.zeros((4, 2)), np.zeros(4)), "photos/", [1, 2]])
def test_what_is_no_splits_is_told_where_to_go(data, tmp_path):
    with pytest.raises(
        InputError, match=r"data must be the splits .* got (tuple|str|list)\. .*DataConfig.*split_arrays"
    ):
        train(small_config(), run=tmp_path / "run", data=data)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("compute", "words"),
    [
        (ComputeConfig(device="cpu", compile="graphs"), "steps stay plain"),
        (ComputeConfig(device="cpu", precision="fp16"), "slower on a CPU"),
        (ComputeConfig(device="cpu", precision="bf16"), None),
    ],
)
def test_settings_that_do_nothing_on_a_cpu_are_noted(compute, words, tmp_path, capsys):
    train(small_config(compute=compute, epochs=1), run=tmp_path, data=small_splits(), show="plain")
    said = capsys.readouterr().err
    assert (words in said) if words else ("note: compute" not in said)


def test_views_that_nobody_has_are_refused_before_data_is_read():
    with pytest.raises(OptionError, match=r"views must be one of 'auto', .*: got 'supcn'\. Did you mean 'supcon'"):
        ViewsConfig("supcn")
