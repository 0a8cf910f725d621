"""Configurations: checked when made, the same after JSON, and unknown settings named."""

import json
from dataclasses import replace

import numpy as np
import pytest

from sincere.errors import InputError, OptionError
from sincere.train import (
    BatchesConfig,
    ComputeConfig,
    EncoderConfig,
    HeadConfig,
    LossConfig,
    MemoryConfig,
    OptimizerConfig,
    ReportingConfig,
    ScheduleConfig,
    TrainConfig,
    ViewsConfig,
    train,
)
from small_runs import small_config, small_splits

PAPER = TrainConfig(
    batches=BatchesConfig(512, "shuffled", drop_last=False),
    views=ViewsConfig("sincere"),
    encoder=EncoderConfig("resnet50", {"stem": "small"}),
    head=HeadConfig("mlp", 2048, 128),
    loss=LossConfig("sincere", 0.1),
    optimizer=OptimizerConfig("sgd", 0.5, 0.9, weight_decay=1e-4, decay="all"),
    schedule=ScheduleConfig("cosine", 10, 0.0005, 0.0005),
    compute=ComputeConfig(precision="bf16", channels_last=True, compile="max-autotune-no-cudagraphs"),
    epochs=1000,
)


@pytest.mark.parametrize(
    "config",
    [
        TrainConfig(),
        PAPER,
        replace(PAPER, loss=LossConfig("eps_supinfonce", options={"epsilon": 0.5, "reduction": "class_mean"})),
        replace(PAPER, optimizer=OptimizerConfig("adamw", 1e-3, betas=(0.9, 0.98)), schedule=ScheduleConfig()),
        replace(PAPER, memory=MemoryConfig(queue=4096, momentum=0.99), loss=LossConfig("supcon")),
        TrainConfig(objective="joint", cross_entropy_weight=0.5, reporting=ReportingConfig(tensorboard=True)),
    ],
)
def test_json_and_back(config, tmp_path):
    text = json.dumps(config.to_json())
    assert TrainConfig.from_json(json.loads(text)) == config
    (tmp_path / "config.json").write_text(text)
    assert TrainConfig.load(tmp_path) == TrainConfig.load(tmp_path / "config.json") == config
    assert config.differences(TrainConfig.from_json(json.loads(text))) == []


def test_left_out_settings_keep_their_defaults():
    assert TrainConfig.from_json({"loss": {"name": "supcon"}}) == TrainConfig(loss=LossConfig("supcon"))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"epoch": 3}, "unknown setting 'epoch'. Did you mean 'epochs'?"),
        ({"optimizer": {"learning_rate": 3}}, "unknown setting 'optimizer.learning_rate'"),
        ({"optimizer": {"moment": 0.9}}, "Did you mean 'optimizer.momentum'?"),
        ({"optimizer": {"lr": "fast"}}, "optimizer: lr must be a finite number: got 'fast'"),
        ({"optimizer": {"lr": float("nan")}}, "lr must be a finite number"),
        ({"optimizer": {"lr": 0}}, "lr must be positive"),
        ({"optimizer": {"betas": [0.9]}}, "betas must be a list of float"),
        ({"optimizer": {"betas": [0.9, 1.0]}}, "betas must be at least 0 and below 1"),
        ({"optimizer": {"betas": [-0.5, 0.9]}}, "betas must be at least 0 and below 1"),
        ({"optimizer": {"nesterov": True, "momentum": 0}}, "nesterov needs a momentum"),
        ({"optimizer": {"name": "lars", "nesterov": True}}, "nesterov is of sgd and muon"),
        ({"encoder": {"options": {"width": float("nan")}}}, "of what JSON can hold: got {'width': nan}"),
        ({"encoder": {"options": {"sizes": [1, {"of": print}]}}}, "options by name, of what JSON can hold"),
        ({"views": {"options": {"flip": {"p": np.float32(0.5)}}}}, "options by name, of what JSON can hold"),
        ({"optimizer": {"name": "adam"}}, "'lars', 'muon': got 'adam'. Did you mean 'adamw'?"),
        ({"epochs": 1.5}, "epochs must be a whole number"),
        ({"epochs": True}, "epochs must be a whole number"),
        ({"epochs": 0}, "epochs must be at least 1"),
        ({"batches": {"size": 3}}, "size must be at least 4"),
        ({"compute": {"compile": True}}, "compile must be one of 'off'"),
        ({"loss": {"options": {"margin": 1}}}, "loss: unknown option 'margin'"),
        ({"loss": {"options": {"gather": True}}}, "options must not hold 'gather'"),
        ({"loss": {"options": {"reduction": "none"}}}, "reduction must be one of 'mean'"),
        ({"data": {"options": {"seed": 1}}}, "data: options must not hold 'seed'"),
        ({"loss": {"temperature": -1}}, "temperature must be positive"),
        ({"loss": 3}, "loss must be a LossConfig"),
        ({"schedule": {"warmup_epochs": 200}}, "warmup_epochs must fit into the run's 100 epochs"),
        ({"schedule": {"end_lr": 1}}, "must not exceed optimizer.lr"),
        ({"views": {"count": 1}, "loss": {"name": "spread"}}, "needs at least two views"),
        ({"views": {"count": 1}, "memory": {"momentum": 0.9}}, "memory.momentum needs at least two views"),
        ({"memory": {"momentum": 1}}, "momentum must be below 1"),
        ({"memory": {"queue": 8}, "loss": {"name": "infonce"}}, "memory cannot serve loss 'infonce'"),
        ({"memory": {"queue": 8}, "objective": "joint"}, "memory belongs to objective"),
        ({"memory": {"queue": 8}, "compute": {"chunk_size": 4}}, "exclude each other"),
    ],
)
def test_what_is_refused(values, message):
    with pytest.raises(OptionError) as error:
        TrainConfig.from_json(values)
    assert message in str(error.value)


def test_whole_numbers_may_be_as_large_as_they_like():
    assert TrainConfig.from_json({"seed": 10**400}).seed == 10**400


def test_differences_name_settings_and_leave_reporting_out():
    other = replace(PAPER, optimizer=replace(PAPER.optimizer, lr=0.1), reporting=ReportingConfig(log_every=7), seed=3)
    assert PAPER.differences(other) == ["optimizer.lr: 0.5 → 0.1", "seed: 0 → 3"]


def test_a_file_that_is_no_configuration(tmp_path):
    with pytest.raises(InputError, match="there is none"):
        TrainConfig.load(tmp_path)
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(InputError, match="must be JSON"):
        TrainConfig.load(tmp_path)


def test_a_loss_of_ones_own(tmp_path):
    own = LossConfig("small_runs:Scaled", temperature=0.2, options={"scale": 1.0})
    config = small_config(loss=own)
    assert TrainConfig.from_json(json.loads(json.dumps(config.to_json()))) == config
    found = train(config, run=tmp_path / "own", data=small_splits(), show="off")
    same = train(small_config(loss=LossConfig("sincere", 0.2)), run=tmp_path / "ours", data=small_splits(), show="off")
    assert found.finished
    assert found.excess is None  # no floor is known of it
    assert found.loss == same.loss


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("no_such_package.losses:Mine", "does not find"),
        ("small_runs:Missing", "does not have"),
        ("small_runs:small_splits", "must return a torch.nn.Module|unexpected keyword"),
        ("sinceer", "package.module:factory"),
    ],
)
def test_losses_that_are_not_there(name, message):
    with pytest.raises((OptionError, TypeError), match=message):
        LossConfig(name)
