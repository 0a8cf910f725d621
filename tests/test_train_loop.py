"""The training loop: every part that can be put in, what it logs, and what it refuses."""

import importlib
import json
import re
import shutil
import signal
import sys
import threading
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from scipy import stats

import sincere
import sincere.functional
from sincere import LabelQueue
from sincere.data import ClassBatches, LabelledData, Splits
from sincere.embeddings import EmbeddingSet
from sincere.errors import InputError, OptionError
from sincere.runs import RunFolder, WriteError, newest_checkpoint, newest_step, read_metrics
from sincere.runs.lock import only_here
from sincere.train import (
    BatchesConfig,
    DivergedError,
    EncoderConfig,
    HeadConfig,
    LossConfig,
    MemoryConfig,
    OptimizerConfig,
    ScheduleConfig,
    TrainConfig,
    ViewsConfig,
    loop,
    train,
)
from sincere.train.interruption import Interruption
from sincere.train.loop import told_run
from sincere.train.meter import Reading
from sincere.train.network import SimplexClassifier, simplex_vertices
from sincere.train.processes import Processes, device_for
from sincere.train.progress import Length, PlainLines, Telling, clock
from sincere.train.session import build_session
from sincere.train.step import TrainingStep
from small_runs import CPU, small_config, small_splits


def session(splits=None, **changes):
    return build_session(small_config(**changes), splits or small_splits(), torch.device("cpu"), Processes())


def run(folder, *, resume=False, splits=None, **changes):
    return train(small_config(**changes), run=folder, data=splits or small_splits(), resume=resume, show="off")


def image_splits(samples=60, side=9, channels=1):
    """Images of three classes, sorted by class as folders are; no two are alike, nor like their mirror images."""
    generator = torch.Generator().manual_seed(0)

    def part(count):
        labels = torch.arange(count) * 3 // count
        images = torch.randint(0, 150, (count, channels, side, side), dtype=torch.uint8, generator=generator)
        images[..., : side // 2] += (50 * labels).byte().reshape(-1, 1, 1, 1)
        return LabelledData(images, labels, ("ant", "bee", "cat"), "image", "made")

    return Splits(part(samples), part(18), part(18))


def flips(count):
    """Views that are mirrored or not, in turns, and nothing else."""
    return ViewsConfig("plain", count, {"flip": {"alternate": True}, "shift": False, "hole": False})


def losses(folder):
    return [record["loss"] for record in read_metrics(folder / "metrics.jsonl") if record["kind"] == "train"]


EVERY_PART = {
    "supcon": {"loss": LossConfig("supcon")},
    "infonce": {"loss": LossConfig("infonce")},
    "eps": {"loss": LossConfig("eps_supinfonce", options={"epsilon": 0.1})},
    "decoupled": {"loss": LossConfig("decoupled")},
    "spread": {"loss": LossConfig("spread")},
    "set": {"loss": LossConfig("set_nce")},
    "learned temperature": {"loss": LossConfig(learnable_temperature=True)},
    "cross-entropy": {"objective": "cross_entropy"},
    "cross-entropy with head": {"objective": "cross_entropy", "head": HeadConfig("linear")},
    "fixed simplex": {"objective": "fixed_simplex"},
    "joint": {"objective": "joint"},
    "queue": {"memory": MemoryConfig(queue=24)},
    "momentum": {"memory": MemoryConfig(momentum=0.9)},
    "momentum and queue": {"memory": MemoryConfig(queue=24, momentum=0.9)},
    "adamw": {"optimizer": OptimizerConfig("adamw", 0.01, clip_norm=1.0)},
    "lars": {"optimizer": OptimizerConfig("lars", 5.0)},
    "muon": {"optimizer": OptimizerConfig("muon", 0.05)},
    "muon and sgd": {"optimizer": OptimizerConfig("muon", 0.05, others="sgd", others_lr=0.1, nesterov=True)},
    "bf16": {"compute": replace(CPU, precision="bf16")},
    "fp16": {"compute": replace(CPU, precision="fp16")},
    "chunks": {"compute": replace(CPU, chunk_size=5)},
    "shuffled": {"batches": BatchesConfig(16, "shuffled", drop_last=False)},
    "balanced": {"batches": BatchesConfig(16, "balanced")},
    "three views": {"views": ViewsConfig(count=3)},
    "batch norm": {"encoder": EncoderConfig("mlp", {"width": 16})},
    "alternating flips": {
        "splits": image_splits(),
        "views": flips(2),
        "encoder": EncoderConfig("small_cnn", {"width": 4}),
    },
    "alternating flips of one view": {
        "splits": image_splits(),
        "views": flips(1),
        "encoder": EncoderConfig("small_cnn", {"width": 4}),
        "loss": LossConfig("supcon"),
    },
    "whitened first layer": {
        "splits": image_splits(),
        "encoder": EncoderConfig("short_cnn", {"channels": [4, 6, 8]}),
        "memory": MemoryConfig(momentum=0.9),
    },
}


@pytest.fixture
def interrupted(monkeypatch):
    """A run that gets a signal during its step number `after`."""

    def go(folder, *, after, number=signal.SIGINT, **changes):
        original = TrainingStep.__call__

        def step(self, batch, *, step, times_before, share):
            if step == after - 1:
                signal.raise_signal(number)
            return original(self, batch, step=step, times_before=times_before, share=share)

        with monkeypatch.context() as patch:
            patch.setattr(TrainingStep, "__call__", step)
            return run(folder, **changes)

    return go


@pytest.mark.parametrize("name", EVERY_PART)
def test_every_part_trains_and_resumes_to_the_bit(name, tmp_path, interrupted):
    """Stopped by a signal in the middle of an epoch, then resumed: the weights of an undisturbed run."""
    changes = {"epochs": 2, "optimizer": OptimizerConfig(lr=0.02), **EVERY_PART[name]}
    whole = run(tmp_path / "whole", **changes)
    assert (whole.finished, whole.exit_code, whole.epoch) == (True, 0, 2)
    part = interrupted(tmp_path / "part", after=3, **changes)
    assert (part.finished, part.step, part.exit_code) == (False, 3, 130)
    assert newest_step(tmp_path / "part" / "checkpoint") == 3
    assert run(tmp_path / "part", resume=True, **changes).finished
    a, b = (load_file(tmp_path / place / "model.safetensors") for place in ("whole", "part"))
    assert all(torch.equal(a[key], b[key]) for key in a)
    assert losses(tmp_path / "whole") == losses(tmp_path / "part")


@pytest.mark.parametrize(("after", "epoch"), [(1, 0), (4, 0), (5, 1), (6, 1), (15, 3)])
def test_a_signal_ends_the_run_after_the_step_that_it_came_in(after, epoch, tmp_path, interrupted):
    """Be it the last of an epoch, with everything that is told of an epoch, or the last of all."""
    found = interrupted(tmp_path, after=after)
    assert (found.step, found.epoch, found.exit_code) == (after, epoch, 130)
    assert newest_step(tmp_path / "checkpoint") == after
    kinds = [record["kind"] for record in read_metrics(tmp_path / "metrics.jsonl")]
    assert kinds.count("epoch") == epoch
    assert run(tmp_path, resume=True).step == 15


def test_it_learns(tmp_path):
    found = run(tmp_path, epochs=12, optimizer=OptimizerConfig("adamw", 0.01))
    mean = [record["loss"] for record in read_metrics(tmp_path / "metrics.jsonl") if record["kind"] == "epoch"]
    assert len(mean) == 12
    assert mean[-1] < 0.2 * mean[0]
    assert found.loss == mean[-1]
    assert found.validation.accuracy > 0.9


def test_the_folder_is_complete_and_says_where_it_came_from(tmp_path):
    config = small_config()
    train(config, run=tmp_path / "run", data=small_splits(), show="off")
    folder = RunFolder(tmp_path / "run")
    assert TrainConfig.load(folder.path) == config
    record = json.loads(folder.provenance.read_text())
    assert record["data"]["train"] == 60
    assert {"command", "commit", "versions", "hardware", "seed", "started"} <= record["starts"][0].keys()
    for split, count in (("train", 60), ("validation", 18), ("test", 18)):
        found = EmbeddingSet.load(folder.embeddings(split))
        assert found.embeddings.shape == (count, 5)
        assert found.features.shape == (count, 8)
    kinds = [record["kind"] for record in read_metrics(folder.metrics)]
    assert kinds.count("train") == 3 * 3  # 5 batches an epoch: after 2, 4 and 5
    assert kinds.count("epoch") == 3
    assert kinds.count("validation") == 2  # after the second epoch, and at the end


def test_logged_losses_and_excess_are_those_of_the_batches(tmp_path):
    """Against the library's own diagnosis of every batch, at the weights that the step had."""
    supcon = LossConfig("supcon")
    run(tmp_path, epochs=1, loss=supcon)
    made = session(epochs=1, loss=supcon)
    made.parts.network.train()
    plan = made.planner.plan(0)
    values, excess = [], []
    for place in range(len(plan)):
        batch = plan.batch(place)
        numbers = made.step._drawn(batch, place, 0)
        outputs = made.parts.network(made.parts.views.render(made.parts.data.inputs[batch], numbers)).detach()
        reading = sincere.diagnose(outputs, made.parts.data.labels[batch], set_loss=False).losses["supcon"]
        values.append(reading.value)
        excess.append(reading.excess)
        assert made.step(batch, step=place, times_before=0, share=made.rate(place) / 0.1).item() == pytest.approx(
            reading.value, rel=1e-5
        )
    logged = [record for record in read_metrics(tmp_path / "metrics.jsonl") if record["kind"] == "train"]
    assert [record["step"] for record in logged] == [2, 4, 5]
    for record, part in zip(logged, (slice(0, 2), slice(2, 4), slice(4, 5)), strict=True):
        assert record["loss"] == pytest.approx(np.mean(values[part]), rel=1e-5)
        assert record["excess"] == pytest.approx(np.mean(excess[part]), rel=1e-5)


def test_there_is_no_excess_over_the_floor_of_other_samples(tmp_path):
    """With a class that the loss ignores, the floor of all samples is none: the loss could come below it."""
    run(tmp_path, epochs=1, loss=LossConfig(options={"ignore_label": 0}))
    assert not any("excess" in record for record in read_metrics(tmp_path / "metrics.jsonl"))
    assert session(loss=LossConfig(options={"ignore_label": -1})).meter().floor_of is not None


def test_steps_move_at_the_scheduled_rate(tmp_path):
    """A plain SGD step moves a weight by exactly rate × gradient."""
    schedule = ScheduleConfig(warmup_epochs=1, warmup_start_lr=0.02, end_lr=0.01)
    optimizer = OptimizerConfig(lr=0.1, momentum=0, weight_decay=0)
    made = session(schedule=schedule, optimizer=optimizer)
    plan = made.planner.plan(0)
    made.parts.network.train()
    for step in (0, 3):
        weight = made.model.head.layers[0].weight
        before, gradients = weight.detach().clone(), []
        hook = weight.register_hook(gradients.append)
        made.step(plan.batch(step), step=step, times_before=0, share=made.rate(step) / 0.1)
        hook.remove()
        torch.testing.assert_close(weight, before - (0.02 + 0.08 * step / 5) * gradients[0])


def test_chunks_give_the_gradient_of_the_whole_batch(tmp_path):
    run(tmp_path / "whole")
    run(tmp_path / "chunks", compute=replace(CPU, chunk_size=5))
    np.testing.assert_allclose(losses(tmp_path / "whole"), losses(tmp_path / "chunks"), rtol=1e-4)


def test_momentum_encoder_and_queue_are_the_equation(tmp_path):
    """One step by hand: first views against the momentum encoder's keys and the queue, then both move."""
    made = session(memory=MemoryConfig(queue=24, momentum=0.75), optimizer=OptimizerConfig(lr=0.5, momentum=0))
    made.parts.network.train()
    plan, memory, network = made.planner.plan(0), made.parts.memory, made.parts.network
    by_hand = LabelQueue(24, 5)
    for place in range(4):
        batch = plan.batch(place)
        inputs, labels = made.parts.data.inputs[batch], made.parts.data.labels[batch]
        views = made.parts.views.render(inputs, made.step._drawn(batch, place, 0))
        with torch.no_grad():
            anchors = network(views[:, :1])[:, 0]
            keys = memory.follower(views[:, 1:])[:, 0]
            followed = [p.clone() for p in memory.follower.parameters()]
        rows, classes = by_hand.contrasts()
        s = F.normalize(anchors, dim=1) @ F.normalize(torch.cat([keys, rows]), dim=1).T / 0.1
        same = labels.unsqueeze(1) == torch.cat([labels, classes])
        negatives = s.masked_fill(same, -torch.inf).logsumexp(dim=1, keepdim=True)
        expected = ((F.softplus(negatives - s) * same).sum(1) / same.sum(1)).mean()
        assert made.step(batch, step=place, times_before=0, share=1.0).item() == pytest.approx(
            expected.item(), rel=1e-5
        )
        by_hand.enqueue(keys, labels)
        torch.testing.assert_close(memory.queue.contrasts(), by_hand.contrasts())
        for mine, old, new in zip(memory.follower.parameters(), followed, network.parameters(), strict=True):
            torch.testing.assert_close(mine, 0.75 * old + 0.25 * new)


def test_joint_is_the_sum_of_both(tmp_path):
    made = session(objective="joint", cross_entropy_weight=0.3, loss=LossConfig("supcon"))
    outputs, labels = torch.randn(6, 2, 5 + 3), torch.tensor([0, 1, 2, 0, 1, 2])
    logits = outputs[..., 5:].reshape(12, 3)
    expected = sincere.functional.supcon(outputs[..., :5], labels) + 0.3 * F.cross_entropy(
        logits, labels.repeat_interleave(2)
    )
    assert made.parts.objective(outputs, labels).item() == pytest.approx(expected.item(), rel=1e-6)
    network, views = made.parts.network, torch.randn(4, 2, 6)
    features = network.model.encoder(views.flatten(0, 1))  # the classifier stands on these, beside the head
    expected = torch.cat([network.model.head(features), network.classifier(features)], dim=1).reshape(4, 2, 8)
    torch.testing.assert_close(network(views), expected)


@pytest.mark.parametrize(("classes", "dim"), [(2, 1), (3, 2), (10, 9), (10, 64)])
def test_simplex_vertices_are_a_regular_simplex(classes, dim):
    vertices = simplex_vertices(classes, dim).double()
    expected = torch.full((classes, classes), -1 / (classes - 1), dtype=torch.float64).fill_diagonal_(1.0)
    torch.testing.assert_close(vertices @ vertices.T, expected, rtol=0, atol=1e-6)
    classifier = SimplexClassifier(dim, classes, temperature=0.1)
    logits = classifier(3 * classifier.vertices)
    torch.testing.assert_close(logits, 10 * expected.float(), rtol=0, atol=1e-5)


def test_a_fixed_simplex_lies_anywhere():
    """Features behind a ReLU are in reach of every vertex, and another seed has another simplex."""
    torch.manual_seed(0)
    one, other = (SimplexClassifier(512, 100, temperature=0.1).vertices for _ in range(2))
    assert not torch.allclose(one, other, atol=0.01)
    nearest = F.normalize(one.relu(), dim=1)  # of all vectors without negative coordinates
    assert ((nearest * one).sum(dim=1) > 0.6).all()


def test_simplex_needs_room():
    with pytest.raises(OptionError, match=r"needs at least 9 dimensions.*Set head\.dim"):
        simplex_vertices(10, 8)


def test_a_folder_is_never_overwritten(tmp_path):
    run(tmp_path / "run", epochs=1)
    with pytest.raises(OptionError, match="holds a run already"):
        run(tmp_path / "run", epochs=1)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.tex").write_text("…")
    with pytest.raises(OptionError, match=r"must be new or empty: it holds thesis\.tex"):
        run(tmp_path / "other")
    for place in ("thesis.tex", "thesis.tex/run"):
        with pytest.raises(OptionError, match=r"thesis\.tex is a file"):
            run(tmp_path / "other" / place)


def test_a_run_that_could_not_begin_is_in_nobodys_way(tmp_path):
    with pytest.raises(OptionError, match="the encoder 'mlp' takes"):
        run(tmp_path / "run", encoder=EncoderConfig("mlp", {"deep": 3}))
    assert not (tmp_path / "run").exists()
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "config.json").write_text("{}")  # of a run that failed in its first step
    (tmp_path / "run" / "provenance.json.unfinished").write_text("{")  # of one that was killed even before
    assert run(tmp_path / "run", epochs=1).finished


def test_what_was_logged_after_the_checkpoint_is_logged_once(tmp_path, interrupted):
    """A killed run has logged steps that it will do again, and the last line perhaps in part."""
    interrupted(tmp_path, after=3)
    with open(tmp_path / "metrics.jsonl", "a") as file:
        file.write('{"kind": "train", "step": 4, "seconds": 1.0, "loss": 7.0}\n{"kind": "train", "st')
    assert run(tmp_path, resume=True).finished
    lines = [(record["kind"], record["step"]) for record in read_metrics(tmp_path / "metrics.jsonl")]
    assert lines.count(("train", 4)) == 1
    assert len(lines) == len(set(lines))
    assert 7.0 not in losses(tmp_path)


def test_resuming_with_other_settings_or_data_is_refused(tmp_path, interrupted):
    interrupted(tmp_path, after=3)
    with pytest.raises(OptionError, match=re.escape("(loss.temperature: 0.1 → 0.2; seed: 0 → 1)")):
        run(tmp_path, resume=True, loss=LossConfig(temperature=0.2), seed=1)
    other = small_splits(63)
    with pytest.raises(InputError, match="fingerprint differs"):
        train(small_config(), run=tmp_path, resume=True, data=other, show="off")
    splits = small_splits()
    for part in ("validation", "test"):
        changed = replace(getattr(splits, part), inputs=getattr(splits, part).inputs + 1)
        with pytest.raises(InputError, match="validation and test data must be what the run began with"):
            run(tmp_path, resume=True, splits=replace(splits, **{part: changed}))
    quieter = small_config().reporting
    assert run(tmp_path, resume=True, reporting=replace(quieter, log_every=5)).finished


def test_resuming_a_finished_run_changes_nothing(tmp_path):
    first = run(tmp_path)
    before = (tmp_path / "model.safetensors").read_bytes(), (tmp_path / "metrics.jsonl").read_text()
    second = run(tmp_path, resume=True)
    assert ((tmp_path / "model.safetensors").read_bytes(), (tmp_path / "metrics.jsonl").read_text()) == before
    assert (second.loss, second.validation, second.step) == (first.loss, first.validation, first.step)


LIBRARY = '''
"""A library of one network, which may start from a file, or from a download that never comes."""

import torch
from torch import nn


def is_model(name):
    return name == "net"


def list_models():
    return ["net"]


def create_model(name, *, in_chans, num_classes, pretrained=False, checkpoint_path=""):
    if pretrained:
        raise ConnectionError("no route to the host")
    network = nn.Sequential(nn.Conv2d(in_chans, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.AdaptiveAvgPool2d(1))
    network.append(nn.Flatten())
    if checkpoint_path:
        network.load_state_dict(torch.load(checkpoint_path, weights_only=True))
    return network
'''


@pytest.fixture
def timm(tmp_path, monkeypatch):
    """A library under the name of one that need not be installed; how the run deals with it is the same."""
    (tmp_path / "library").mkdir()
    (tmp_path / "library" / "timm.py").write_text(LIBRARY)
    monkeypatch.syspath_prepend(tmp_path / "library")
    monkeypatch.delitem(sys.modules, "timm", raising=False)
    yield importlib.import_module("timm")
    sys.modules.pop("timm", None)


class TestStartingWeights:
    """A run that goes on has weights of its own."""

    @pytest.fixture
    def start(self, timm, tmp_path):
        """A file of weights that no seed gives."""
        network = timm.create_model("net", in_chans=1, num_classes=0)
        with torch.no_grad():
            network[0].weight.fill_(0.25)
        torch.save(network.state_dict(), tmp_path / "start.pth")
        return tmp_path / "start.pth"

    def changes(self, **options):
        return {"splits": image_splits(), "epochs": 2, "encoder": EncoderConfig("timm:net", options)}

    @pytest.mark.parametrize("momentum", [None, 0.9])
    def test_a_run_goes_on_to_the_bit_without_the_file(self, start, tmp_path, interrupted, momentum):
        changes = {**self.changes(checkpoint_path=str(start)), "memory": MemoryConfig(momentum=momentum)}
        assert (session(**changes).model.encoder.network[0].weight == 0.25).all(), "a new run starts from them"
        run(tmp_path / "whole", **changes)
        assert not interrupted(tmp_path / "part", after=3, **changes).finished
        start.unlink()
        assert run(tmp_path / "part", resume=True, **changes).finished
        a, b = (load_file(tmp_path / place / "model.safetensors") for place in ("whole", "part"))
        assert all(torch.equal(a[key], b[key]) for key in a)
        assert losses(tmp_path / "whole") == losses(tmp_path / "part")
        described = [json.loads((tmp_path / place / "model.json").read_text()) for place in ("whole", "part")]
        assert [one["encoder_options"] for one in described] == [{"checkpoint_path": str(start)}] * 2

    def test_a_run_without_a_checkpoint_needs_it(self, start, tmp_path):
        changes = self.changes(checkpoint_path=str(start))
        start.unlink()
        for resume in (False, True):
            with pytest.raises(OptionError, match=r"checkpoint_path=.*FileNotFoundError"):
                run(tmp_path / "run", resume=resume, **changes)
        assert not (tmp_path / "run").exists()

    def test_a_run_that_was_begun_and_has_no_checkpoint_needs_it(self, start, tmp_path, interrupted):
        changes = self.changes(checkpoint_path=str(start))
        interrupted(tmp_path / "run", after=1, **changes)
        shutil.rmtree(tmp_path / "run" / "checkpoint")
        start.unlink()
        with pytest.raises(OptionError, match="FileNotFoundError"):
            run(tmp_path / "run", resume=True, **changes)

    def test_nothing_is_downloaded_again(self, timm, tmp_path, interrupted, monkeypatch):
        changes = self.changes(pretrained=True)
        with pytest.raises(OptionError, match="ConnectionError: no route to the host"):
            run(tmp_path / "run", **changes)
        with monkeypatch.context() as online:
            create = timm.create_model
            online.setattr(timm, "create_model", lambda name, *, pretrained, **options: create(name, **options))
            interrupted(tmp_path / "run", after=3, **changes)
        assert run(tmp_path / "run", resume=True, **changes).finished


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"place": 3', '"place": 2', "batch 2 of epoch 0 is next, which it is not"),
        ('"place": 3', '"place": 0', "batch 0 of epoch 0 is next, which it is not"),
        ('"epoch": 0', '"epoch": 1', "batch 3 of epoch 1 is next, which it is not"),
        ('"place": 3', '"plaice": 3', "not complete: KeyError\\('place'\\)"),
        ('"total":', '"totals":', "not complete: KeyError\\('total'\\)"),
        ('"format": "sincere', '"format": "other', "must have the format"),
    ],
)
def test_a_state_that_was_edited_is_noticed(old, new, message, tmp_path, interrupted):
    interrupted(tmp_path, after=3)
    state = next((tmp_path / "checkpoint").glob("step-*/state.json"))
    assert old in state.read_text()
    state.write_text(state.read_text().replace(old, new, 1))
    with pytest.raises(InputError, match=message):
        run(tmp_path, resume=True)


def test_batches_that_cannot_be_shared_are_refused_before_a_run_begins():
    """60 samples in batches of 58: the last one has two samples."""
    config = small_config(batches=BatchesConfig(58, "shuffled", drop_last=False))
    with pytest.raises(OptionError, match=r"smallest batch of epoch 0 has 2, and there are 3 processes.*drop_last"):
        build_session(config, small_splits(), torch.device("cpu"), Processes(0, 3))


def test_batches_of_later_epochs_are_looked_at_before_a_run_begins():
    """Sizes of batches by class differ a little: here the smallest has 5 samples in the first epoch, then 4."""
    labels = torch.tensor([0] * 2 + [1] * 2 + [2] * 7)
    few = LabelledData(torch.randn(11, 6), labels, ("ant", "bee", "cat"), "array", "few")
    assert [min(map(len, ClassBatches(labels, batch_size=8, seed=6).batches(epoch))) for epoch in (0, 1)] == [5, 4]
    config = small_config(seed=6, batches=BatchesConfig(8, "classes"))
    with pytest.raises(OptionError, match=r"smallest batch of epoch 1 has 4, and there are 5 processes"):
        build_session(config, Splits(few, few, few), torch.device("cpu"), Processes(0, 5))


def test_a_single_sample_is_not_left_over(tmp_path):
    """60 samples in batches of 59: batch normalisation would refuse one view of the last sample by itself."""
    one_view = replace(small_config().views, count=1)
    run(tmp_path, batches=BatchesConfig(59, "shuffled", drop_last=False), views=one_view, epochs=2)
    steps = [record["step"] for record in read_metrics(tmp_path / "metrics.jsonl") if record["kind"] == "epoch"]
    assert steps == [1, 2]


def test_a_queue_keeps_its_processes(tmp_path, interrupted):
    interrupted(tmp_path, after=3, memory=MemoryConfig(queue=24))
    state = next((tmp_path / "checkpoint").glob("step-*/state.json"))
    state.write_text(state.read_text().replace('"processes": 1', '"processes": 2'))
    with pytest.raises(InputError, match="as many processes as it had, 2"):
        run(tmp_path, resume=True, memory=MemoryConfig(queue=24))


def test_a_full_disk_ends_the_run_with_its_checkpoint_intact(tmp_path, monkeypatch):
    """The second checkpoint finds no room; afterwards there is, and the run goes on to the same end."""
    import sincere.runs.checkpoints as checkpoints

    original, written = checkpoints.write_durably, []

    def full(path, content):
        written.append(path)
        if len(written) == 3:
            raise OSError(28, "No space left on device")
        original(path, content)

    reporting = replace(small_config().reporting, checkpoint_steps=2)
    with monkeypatch.context() as patch:
        patch.setattr(checkpoints, "write_durably", full)
        with pytest.raises(WriteError, match="No space left on device"):
            run(tmp_path / "full", reporting=reporting)
    assert newest_checkpoint(tmp_path / "full" / "checkpoint").step == 2
    assert run(tmp_path / "full", resume=True, reporting=reporting).finished
    run(tmp_path / "whole", reporting=reporting)
    a, b = ((tmp_path / place / "model.safetensors").read_bytes() for place in ("full", "whole"))
    assert a == b


def test_a_loss_that_is_no_number_stops_the_run_and_spares_the_checkpoint(tmp_path):
    reporting = replace(small_config().reporting, checkpoint_steps=1)
    with pytest.raises(DivergedError, match="lower learning rate"):
        run(tmp_path, optimizer=OptimizerConfig(lr=1e30), reporting=reporting)
    for tensor in newest_checkpoint(tmp_path / "checkpoint").tensors.values():
        assert not tensor.isnan().any()


@pytest.mark.parametrize(("steps", "kept"), [(2, 2), (100, 0)])
def test_weights_that_are_no_numbers_are_not_kept(steps, kept, tmp_path):
    """The loss of the last step, the fourth, is finite and its gradient is not, so that no later loss can tell."""
    changes = {
        "epochs": 1,
        "batches": BatchesConfig(size=15),
        "loss": LossConfig("small_runs:Steep", options={"at": 4}),
        "reporting": replace(small_config().reporting, checkpoint_steps=steps, validate_every=0, save_embeddings=False),
    }
    with pytest.raises(DivergedError, match=r"the sum of the weights became nan .* A lower learning rate"):
        run(tmp_path, **changes)
    assert newest_step(tmp_path / "checkpoint") == kept
    assert not RunFolder(tmp_path).finished


@pytest.mark.parametrize(
    ("form", "words"),
    [
        ("rows", r"got \(24,\), torch.float32\."),
        ("one row", r"got \(1,\), torch.float32\."),
        ("float", r"got float\."),
        ("detached", r"got \(\), torch.float32 without a gradient\."),
    ],
)
def test_a_loss_of_ones_own_must_be_a_number(form, words, tmp_path):
    with pytest.raises(InputError, match=f"small_runs:Odd must return one number, .* {words}"):
        run(tmp_path, loss=LossConfig("small_runs:Odd", options={"form": form}))


def test_an_option_that_a_loss_of_ones_own_does_not_take_is_named():
    with pytest.raises(OptionError, match="small_runs:Scaled does not take the option 'sclae'"):
        LossConfig("small_runs:Scaled", options={"scale": 1.0, "sclae": 2.0})


def test_two_do_not_train_in_one_folder(tmp_path):
    with only_here(tmp_path / "run"):
        with pytest.raises(OptionError, match=r"one process alone may train in .*run: another one is at it\. Wait"):
            run(tmp_path / "run")
        assert not list((tmp_path / "run").iterdir()), "nothing of the other's is touched"
    assert run(tmp_path / "run").finished
    with pytest.raises(OptionError, match="holds a run already"):
        run(tmp_path / "run")


def test_a_run_that_began_while_data_were_read_is_not_taken_up(tmp_path, monkeypatch):
    def slow(*given, **options):
        monkeypatch.undo()
        run(tmp_path)
        return build_session(*given, **options)

    monkeypatch.setattr(loop, "build_session", slow)
    with pytest.raises(OptionError, match="holds a run already"):
        run(tmp_path)
    assert len(json.loads((tmp_path / "provenance.json").read_text())["starts"]) == 1


@pytest.mark.parametrize("log_every", [1, 100])
def test_a_learned_temperature_that_overflows_stops_the_run(log_every, tmp_path):
    """SGD at 100 makes it infinite in a step or two; the loss then is finite, and the same whatever the network."""
    reporting = replace(small_config().reporting, log_every=log_every, checkpoint_steps=1)
    learned = LossConfig("supcon", learnable_temperature=True)
    with pytest.raises(DivergedError, match=r"the learned temperature became inf .* A lower learning rate"):
        run(tmp_path, loss=learned, optimizer=OptimizerConfig("sgd", lr=100.0), reporting=reporting)
    kept = newest_checkpoint(tmp_path / "checkpoint")
    assert kept.step > 0
    assert torch.isfinite(kept.tensors["objective:loss.log_temperature"].exp())
    told = [record["temperature"] for record in read_metrics(tmp_path / "metrics.jsonl") if record["kind"] == "train"]
    assert np.isfinite(told).all()


def test_the_callers_random_state_is_left_alone(tmp_path):
    torch.manual_seed(3)
    expected = torch.rand(4)
    torch.manual_seed(3)
    run(tmp_path / "a", epochs=1, encoder=EncoderConfig("small_runs:layers", {"dropout": 0.5}))
    assert torch.equal(torch.rand(4), expected)
    torch.manual_seed(4)
    run(tmp_path / "b", epochs=1, encoder=EncoderConfig("small_runs:layers", {"dropout": 0.5}))
    assert losses(tmp_path / "a") == losses(tmp_path / "b")


def test_the_seed_makes_weights_batches_and_views():
    one, other = session(), session(seed=1)
    assert not torch.equal(one.model.head.layers[0].weight, other.model.head.layers[0].weight)
    assert not torch.equal(one.planner.plan(0).indices, other.planner.plan(0).indices)
    batch = torch.arange(8)
    numbers = [made.step._drawn(batch, step, 0) for made in (one, other) for step in (0, 1)]
    assert all(not torch.equal(a, b) for i, a in enumerate(numbers) for b in numbers[:i])
    assert torch.equal(session().step._drawn(batch, 1, 0), numbers[1])


def test_images_by_name_of_everything(tmp_path):
    """Grey images of 8×8 with "auto" for views and encoder, channels last."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(40) % 2
    images = torch.randint(0, 100, (40, 1, 8, 8), dtype=torch.uint8, generator=generator)
    images[labels == 1, :, :, 4:] += 100
    data = LabelledData(images, labels, ("left", "right"), "image", "halves")
    config = small_config(
        epochs=2,
        encoder=EncoderConfig(options={"width": 4}),
        compute=replace(CPU, channels_last=True),
        optimizer=OptimizerConfig("adamw", 0.01),
    )
    found = train(config, run=tmp_path, data=Splits(data, None, data), show="off")
    assert found.validation is None
    described = json.loads((tmp_path / "model.json").read_text())
    assert (described["encoder"], described["views"]) == ("small_cnn", "digits")
    assert losses(tmp_path)[-1] < losses(tmp_path)[0]


def test_tensorboard_gets_what_the_metrics_get(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    reporting = replace(small_config().reporting, tensorboard=True)
    run(tmp_path, epochs=1, reporting=reporting)
    events = EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    assert [event.value for event in events.Scalars("train/loss")] == pytest.approx(losses(tmp_path))
    assert [event.step for event in events.Scalars("train/loss")] == [2, 4, 5]


def test_plain_lines(tmp_path, capsys):
    train(small_config(), run=tmp_path, data=small_splits(), show="auto")  # stderr is no terminal here
    lines = capsys.readouterr().err.splitlines()
    pattern = r"epoch 1/3  step 2/15  loss \d\.\d{4}  excess \d\.\d{4}  [\d,]+ samples/s  \d+:\d\d left"
    assert re.fullmatch(pattern, lines[0])
    assert any("k-NN" in line and "on 18 validation samples" in line for line in lines)
    assert lines[-2].startswith("epoch 3/3  step 15/15")


def test_a_signal_is_answered_in_words(tmp_path, capsys, monkeypatch):
    original = TrainingStep.__call__

    def step(self, batch, *, step, times_before, share):
        signal.raise_signal(signal.SIGTERM)
        return original(self, batch, step=step, times_before=times_before, share=share)

    monkeypatch.setattr(TrainingStep, "__call__", step)
    found = train(small_config(), run=tmp_path, data=small_splits())
    assert (found.signal, found.exit_code) == (signal.SIGTERM, 143)
    words = capsys.readouterr().err
    assert "SIGTERM: finishing this step and saving" in words
    assert f"stopped by SIGTERM after step 1 of 15. Everything up to it is saved in {tmp_path}: resume" in words


def test_plain_lines_are_few(capsys):
    shown = PlainLines(Length(epochs=1, steps=1000), done=0)
    for step in range(1, 1001):
        shown.reading(step, 1, Reading(1.0, None, 5.0))
    assert len(capsys.readouterr().err.splitlines()) == 2
    assert (clock(59.6), clock(3723)) == ("1:00", "1:02:03")


def test_the_live_line_draws(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    assert train(small_config(), run=tmp_path, data=small_splits()).finished
    assert "k-NN" in capsys.readouterr().err


def test_notes_of_the_data_are_shown(tmp_path, capsys):
    splits = replace(small_splits(), note=("2 files were skipped",))
    train(small_config(epochs=1), run=tmp_path, data=splits, show="plain")
    assert "note: 2 files were skipped" in capsys.readouterr().err


def test_notes_go_to_whoever_takes_them(tmp_path, capsys):
    splits, taken = replace(small_splits(), note=("2 files were skipped",)), []
    telling = Telling("off", taken.append)
    told_run(small_config(epochs=1), run=tmp_path / "a", resume=False, data=splits, telling=telling)
    assert taken == ["2 files were skipped"]
    train(small_config(epochs=1), run=tmp_path / "b", data=splits, show="off")
    assert capsys.readouterr().err == ""


def test_a_second_signal_leaves_at_once():
    with Interruption(quiet=True) as asked:
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGINT)  # at once: the echo that torchrun makes
        assert asked.signal == signal.SIGTERM
        asked.asked_at -= 5
        with pytest.raises(SystemExit) as error:
            signal.raise_signal(signal.SIGTERM)
    assert error.value.code == 143


def test_other_threads_leave_signals_alone(tmp_path):
    found = []
    thread = threading.Thread(target=lambda: found.append(run(tmp_path, epochs=1)))
    thread.start()
    thread.join()
    assert found[0].finished


def test_devices_that_are_not_there():
    with pytest.raises(OptionError, match="device must be"):
        device_for("gpu!")
    if not torch.cuda.is_available():
        with pytest.raises(OptionError, match="needs a GPU"):
            device_for("cuda")
        assert device_for("auto") == torch.device("cpu")
        with pytest.raises(OptionError, match="sync_batch_norm needs GPUs"):
            session(compute=replace(CPU, sync_batch_norm=True))


def test_one_class_is_refused():
    data = LabelledData(torch.zeros(8, 2), torch.zeros(8, dtype=torch.int64), ("a",), "array", "one")
    with pytest.raises(InputError, match="at least two classes"):
        build_session(small_config(), Splits(data, None, data), torch.device("cpu"), Processes())


def test_processes_share_batches_and_queues():
    batch = torch.arange(7)
    shares = [Processes(rank, 3).own_share(batch) for rank in range(3)]
    assert torch.equal(torch.cat(shares), batch)
    with pytest.raises(OptionError, match="multiple of the 2 processes"):
        build_session(small_config(memory=MemoryConfig(queue=25)), small_splits(), torch.device("cpu"), Processes(0, 2))


def test_an_encoder_with_a_tokenizer_reads_the_texts(tmp_path):
    texts = tuple("good fine" if i % 2 else "bad poor" for i in range(24))
    labels = torch.arange(24) % 2
    inputs = sincere.data.hash_texts(list(texts), words=3, pieces=4, buckets=100)
    data = LabelledData(inputs, labels, ("bad", "good"), "text", "words", texts, buckets=100)
    config = small_config(epochs=1, encoder=EncoderConfig("small_runs:Lengths"))
    train(config, run=tmp_path, data=Splits(data, None, data), show="off")
    loaded = sincere.embeddings.load(tmp_path, device="cpu")
    saved = EmbeddingSet.load(tmp_path / "embeddings" / "test.npz")
    torch.testing.assert_close(loaded.embed(data).embeddings, saved.embeddings)
    torch.testing.assert_close(loaded(["good fine", "bad poor"]), saved.embeddings[[1, 0]])


@pytest.mark.parametrize("way", ["default", "compiled-graphs", "tuned-graphs"])
def test_what_is_left_over_is_not_compiled(way, monkeypatch):
    """Two sizes of batch, one compilation: counted by a backend that is handed every graph that is compiled."""
    sizes = []

    def counting(graph, inputs):
        sizes.append(max(tensor.shape[0] for tensor in inputs if isinstance(tensor, torch.Tensor)))
        return graph.forward

    original = torch.compile
    monkeypatch.setattr(torch, "compile", lambda function, **how: original(function, dynamic=False, backend=counting))
    shuffled = BatchesConfig(24, "shuffled", drop_last=False)
    compiled = session(batches=shuffled, compute=replace(CPU, compile=way))
    plain = session(batches=shuffled)
    torch.compiler.reset()
    plan = compiled.planner.plan(0)
    assert [plan.size(place) for place in range(len(plan))] == [24, 24, 12]
    for place in range(len(plan)):
        values = [made.step(plan.batch(place), step=place, times_before=0, share=0.5) for made in (compiled, plain)]
        assert values[0].item() == pytest.approx(values[1].item(), rel=1e-5)
    assert sizes
    assert 12 not in sizes


def test_cuda_graphs_on_a_cpu_are_plain_steps():
    """There is nothing to record without a GPU, and the settings of a run on one can still be tried."""
    graphs, plain = session(compute=replace(CPU, compile="graphs")), session()
    batch = plain.planner.plan(0).batch(0)
    values = [made.step(batch, step=0, times_before=0, share=1.0).item() for made in (graphs, plain)]
    assert values[0] == pytest.approx(values[1], rel=1e-5)


def sides(images, views):
    """Whether each view (b, count, …) shows its image mirrored, by distance to both; other views are refused."""
    plain = (images.double() / 255).unsqueeze(1)
    mean, std = (getattr(image_splits().train.inputs.double() / 255, name)() for name in ("mean", "std"))
    near = [((plain.flip(-1) if turn else plain) - mean) / std - views.double() for turn in (False, True)]
    straight, mirrored = (found.abs().amax(dim=(2, 3, 4)) < 1e-2 for found in near)
    assert torch.equal(straight, ~mirrored)
    return mirrored


@pytest.mark.parametrize("count", [1, 2, 3])
def test_views_of_a_sample_take_turns_from_epoch_to_epoch(count, tmp_path, monkeypatch, interrupted):
    """In a run of 5 epochs that is stopped in the second and resumed: what its network was shown."""
    shown = {}
    original = TrainingStep.__call__

    def step(self, batch, *, step, times_before, share):
        assert step not in shown
        render = self.parts.views.render
        views = render(self.parts.data.inputs[batch], self._drawn(batch, step, times_before))
        shown[step] = (batch, sides(self.parts.data.inputs[batch], views))
        return original(self, batch, step=step, times_before=times_before, share=share)

    monkeypatch.setattr(TrainingStep, "__call__", step)
    encoder = EncoderConfig("small_cnn", {"width": 2})
    changes = {"splits": image_splits(), "views": flips(count), "epochs": 5, "encoder": encoder}
    changes["loss"] = LossConfig("supcon")
    assert interrupted(tmp_path, after=8, **changes).step == 8
    assert run(tmp_path, resume=True, **changes).finished
    by_sample = {number: [] for number in range(60)}
    for number in range(25):
        batch, mirrored = shown[number]
        for sample, row in zip(batch.tolist(), mirrored.tolist(), strict=True):
            by_sample[sample] += row
    for turns in by_sample.values():
        assert len(turns) == 5 * count
        assert all(a != b for a, b in pairwise(turns)), "one side, then the other"
    assert {turns[0] for turns in by_sample.values()} == {False, True}


@pytest.mark.parametrize("count", [1, 3])
def test_a_sample_that_is_left_out_keeps_its_turn(count, tmp_path, monkeypatch, interrupted):
    """60 samples in batches of 25: ten others are left out of each epoch, and come back with the side that is next."""
    shown = {}
    original = TrainingStep.__call__

    def step(self, batch, *, step, times_before, share):
        views = self.parts.views.render(self.parts.data.inputs[batch], self._drawn(batch, step, times_before))
        shown[step] = (batch, sides(self.parts.data.inputs[batch], views))
        return original(self, batch, step=step, times_before=times_before, share=share)

    monkeypatch.setattr(TrainingStep, "__call__", step)
    changes = {"splits": image_splits(), "views": flips(count), "epochs": 8, "loss": LossConfig("supcon")}
    changes |= {"batches": BatchesConfig(25, "shuffled"), "encoder": EncoderConfig("small_cnn", {"width": 2})}
    assert interrupted(tmp_path, after=9, **changes).step == 9  # in the fifth epoch
    assert run(tmp_path, resume=True, **changes).finished
    by_sample = {number: [] for number in range(60)}
    for number in range(16):
        batch, mirrored = shown[number]
        for sample, row in zip(batch.tolist(), mirrored.tolist(), strict=True):
            by_sample[sample] += row
    assert len({len(turns) for turns in by_sample.values()}) > 1, "some came less often than others"
    assert all(a != b for turns in by_sample.values() for a, b in pairwise(turns)), "one side, then the other"


def test_plans_do_not_depend_on_the_plans_before():
    """How often a sample came: the same for a run that resumes, and for one that asks again."""
    made = session(batches=BatchesConfig(25, "shuffled"))
    came = torch.zeros(60, dtype=torch.int64)
    plans = [made.planner.plan(epoch) for epoch in range(6)]
    for plan in plans:
        for place in range(len(plan)):
            assert torch.equal(plan.times_before(place), came[plan.batch(place)])
        came[plan.indices] += 1
    assert came.min() < came.max()
    for epoch in (5, 2, 2, 4):
        again = session(batches=BatchesConfig(25, "shuffled")).planner if epoch == 5 else made.planner
        assert torch.equal(again.plan(epoch).before, plans[epoch].before)
    everything = session().planner
    assert set(everything.plan(7).before.tolist()) == {7}


def test_copies_of_a_rare_sample_take_turns_too():
    """Also those within one batch."""
    splits = image_splits(60)
    rare = torch.cat([(splits.train.labels == label).nonzero().flatten()[:count] for label, count in ((0, 20), (1, 2))])
    splits = replace(splits, train=splits.train.subset(rare))
    changes = {"encoder": EncoderConfig("small_cnn", {"width": 2}), "batches": BatchesConfig(12, "balanced")}
    made = session(splits, views=flips(1), **changes)
    by_sample = {number: [] for number in range(22)}
    for epoch in range(3):
        plan = made.planner.plan(epoch)
        assert torch.equal(plan.before, session(splits, **changes).planner.plan(epoch).before), "as one that resumes"
        for place in range(len(plan)):
            batch = plan.batch(place)
            numbers = made.step._drawn(batch, place, times_before=plan.times_before(place))[:, 0, 0]
            for sample, number in zip(batch.tolist(), numbers.tolist(), strict=True):
                by_sample[sample].append(number < 0.5)
    assert min(len(by_sample[sample]) for sample in (20, 21)) > 6, "several times in a batch"
    assert all(a != b for turns in by_sample.values() for a, b in pairwise(turns)), "one side, then the other"


def test_which_side_comes_first_is_a_toss_of_the_seed():
    splits = image_splits(600)
    batch = torch.arange(600)
    first = {}
    for seed in (0, 1):
        made = session(splits, views=flips(1), encoder=EncoderConfig("small_cnn", {"width": 2}), seed=seed)
        drawn = [made.step._drawn(batch, number, times_before=0)[:, 0, 0] < 0.5 for number in (0, 7)]
        assert torch.equal(*drawn), "whatever the step at which a sample comes"
        first[seed] = drawn[0]
        assert stats.binomtest(int(drawn[0].sum()), 600, 0.5).pvalue > 1e-3
        by_class = [int(drawn[0][splits.train.labels == label].sum()) for label in range(3)]
        assert all(stats.binomtest(found, 200, 0.5).pvalue > 1e-3 for found in by_class)
    alike = int((first[0] == first[1]).sum())
    assert stats.binomtest(alike, 600, 0.5).pvalue > 1e-3, "another seed, another toss"


@pytest.mark.parametrize("world", [2, 3])
def test_many_processes_take_the_turns_of_one(world):
    made = session(image_splits(), views=flips(2), encoder=EncoderConfig("small_cnn", {"width": 2}))
    batch, step = torch.randperm(60, generator=torch.Generator().manual_seed(0))[:13], made.step
    whole = step._drawn(batch, 4, times_before=3)
    shares = []
    for rank in range(world):
        step.parts = replace(made.parts, processes=Processes(rank, world))
        shares.append(step._drawn(batch, 4, times_before=3))
    assert torch.equal(torch.cat(shares), whole)
    assert torch.equal(whole[:, 0, 0] < 0.5, whole[:, 1, 0] >= 0.5)


def test_an_encoder_that_starts_from_data_sees_all_of_it(monkeypatch):
    """Images sorted by class: what it is shown is prepared as in evaluation, from every class, and not too much."""
    seen = []
    monkeypatch.setattr("sincere.encoders.short_cnn.ShortCNN.start_from", lambda self, images: seen.append(images))
    monkeypatch.setattr("sincere.train.session.SEEN_AT_START", 20)
    splits = image_splits(130)
    session(splits, encoder=EncoderConfig("short_cnn", {"channels": [4, 4, 4]}))
    (images,) = seen
    assert len(images) == 20
    pixels = splits.train.inputs.double() / 255
    plain = (pixels - pixels.mean()) / pixels.std(correction=0)
    distances = (images.double().unsqueeze(1) - plain).abs().amax(dim=(2, 3, 4))
    assert (distances.amin(dim=1) < 1e-4).all()
    chosen = distances.argmin(dim=1)
    assert len(chosen.unique()) == len(images)
    counts = torch.bincount(splits.train.labels[chosen], minlength=3)
    assert counts.min() >= 3  # of twenty drawn from three classes of the same size


def test_an_encoder_of_ones_own_can_start_from_data(monkeypatch):
    seen = []

    class Started(torch.nn.Linear):
        feature_dim = 4

        def start_from(self, inputs):
            seen.append(inputs)

    monkeypatch.setattr("small_runs.layers", lambda shape: Started(shape[0], 4))
    made = session()
    inputs = small_splits().train.inputs.double()
    expected = (inputs - inputs.mean(0)) / inputs.std(0, correction=0)
    (shown,) = seen
    nearest = torch.cdist(shown.double(), expected).min(dim=1)
    assert nearest.values.max() < 1e-5
    assert sorted(nearest.indices.tolist()) == list(range(60))  # all of them, in any order
    assert made.model.head.dim == 5


@pytest.mark.parametrize("optimizer", ["sgd", "adamw", "muon"])
def test_training_leaves_the_first_layer_and_moves_everything_else(optimizer):
    options = {"channels": [4, 6, 8]}
    made = session(
        image_splits(), encoder=EncoderConfig("short_cnn", options), optimizer=OptimizerConfig(optimizer, 0.01)
    )
    before = {name: value.clone() for name, value in made.parts.network.named_parameters()}
    made.parts.network.train()
    plan = made.planner.plan(0)
    for place in range(2):
        made.step(plan.batch(place), step=place, times_before=0, share=1.0)
    same = {name for name, value in made.parts.network.named_parameters() if torch.equal(value, before[name])}
    assert same == {"model.encoder.stem.weight"}


def test_without_safetensors_nothing_is_begun(monkeypatch, tmp_path):
    """Weights could not be saved: better to say so before the first step than after the last."""
    monkeypatch.setitem(sys.modules, "safetensors.torch", None)
    with pytest.raises(InputError, match=r"safetensors, which is not installed: pip install"):
        run(tmp_path / "run")
    assert not (tmp_path / "run").exists()
