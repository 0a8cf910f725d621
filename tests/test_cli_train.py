"""`sincere train`: what it makes, what it refuses, and how it goes on."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from command_line import FAST, apart, blobs, call, done, parsed, refused
from forked_runs import free_port
from sincere.cli.forecast import forecast, shorter
from sincere.cli.settings import overruled
from sincere.data import LabelledData, Splits, open_data
from sincere.data.batches import ClassBatches
from sincere.embeddings import load
from sincere.errors import InputError
from sincere.evaluate import EvaluationOptions
from sincere.recipes import RECIPES
from sincere.runs import RunFolder, load_tensors
from sincere.train import BatchesConfig, ComputeConfig, EncoderConfig, TrainConfig, ViewsConfig


@pytest.fixture
def data(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return blobs(tmp_path / "blobs.npz")


def test_leaves_a_finished_run_and_says_what_is_next(data):
    result = done("train", data, *FAST)
    run = RunFolder("runs/blobs-sincere")
    assert run.finished
    assert "3 classes" in result.stderr
    assert "sincere evaluate runs/blobs-sincere" in result.stderr
    assert result.stdout == "", "stdout is for findings"
    done("train", data, *FAST, "--loss", "cross-entropy", "--quiet")
    assert TrainConfig.load("runs/blobs-cross_entropy").objective == "cross_entropy"
    done("train", data, *FAST)
    assert RunFolder("runs/blobs-sincere-2").finished, "a second run takes the next free name"


def test_flags_file_and_set_go_one_over_the_other(data, tmp_path):
    (tmp_path / "some.json").write_text(json.dumps({"optimizer": {"lr": 0.5, "eps": 1e-6}, "epochs": 7, "seed": 3}))
    flags = ("--config", "some.json", *FAST, "--lr", "0.25", "--loss", "supcon", "--temperature", "0.2")
    sets = ("--set", "optimizer.lr=.125", "--set", "optimizer.betas=0.8,0.9", "--set", "optimizer.clip_norm=none")
    told = parsed("train", data, *flags, *sets, "--out", "here")
    config = TrainConfig.load("here")
    assert (config.epochs, config.seed, config.optimizer.eps) == (2, 3, 1e-6)
    assert (config.optimizer.lr, config.optimizer.betas, config.optimizer.clip_norm) == (0.125, (0.8, 0.9), None)
    assert (config.loss.name, config.loss.temperature, config.head.dim) == ("supcon", 0.2, 4)
    assert config.encoder.options == {"width": 8}
    assert told["finished"]
    assert told["run"] == "here"
    assert told["epoch"] == 2
    done("train", "--config", "here", "--out", "again", "--quiet")
    assert TrainConfig.load("again") == config, "the settings of a run repeat it"


def test_evaluate_with_it(data):
    told = parsed("train", data, *FAST, "--evaluate")
    assert told["evaluation"]["classifiers"][0]["top1"]["value"] > 0.5
    assert RunFolder(told["run"]).evaluation.exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("nowhere.csv",), "there is no such file"),
        ((), None),  # help
        (("--epochs", "3"), "DATA must be given"),
        (("blobs.npz", "--set", "optimizer.wieght_decay=1"), "Did you mean 'optimizer.weight_decay'?"),
        (("blobs.npz", "--set", "weight_decay=1"), "Did you mean 'optimizer.weight_decay'?"),
        (("blobs.npz", "--set", "epochs.many=1"), "'epochs' is a setting itself"),
        (("blobs.npz", "--set", "colour=red"), "Settings begin with data, batches"),
        (("blobs.npz", "--set", "epochs"), "NAME=VALUE"),
        (("blobs.npz", "--set", "epochs=many"), "epochs must be a whole number: got 'many'"),
        (("blobs.npz", "--set", "loss=supcon"), "'loss' is a group of settings: set one of them, 'loss.name', 'loss."),
        (("blobs.npz", "--loss", "triplet"), "error: --loss must be one of 'sincere', 'supcon'"),
        (("blobs.npz", "--loss", "cross_entropie"), "'cross_entropy', 'fixed_simplex', 'package.module:factory': got"),
        (("blobs.npz", "--encoder", "resnet18"), "is for data of kind 'image', and blobs is of kind 'array': use mlp"),
        (("blobs.npz", "--encoder", "timm:resnet18"), "is for data of kind 'image', and blobs is of kind 'array'"),
        (("blobs.npz", "--encoder", "mpl"), "--encoder must be one of 'resnet9'"),
        (("blobs.npz", "--optimizer", "adam"), "'sgd', 'adamw'"),
        (("blobs.npz", "--recipe", "leter"), "Did you mean 'letter'?"),
        (("--recipe", "letter"), "sincere train PATH --recipe letter"),
        (("blobs.npz", "--recipe", "letter", "--epochs", "1"), "In proportion: --set schedule.warmup_epochs=0.05"),
        (("blobs.npz", "--config", "absent.json"), "there is no absent.json"),
        (("blobs.npz", "--out", "a", "--resume", "b"), "got both"),
        (("--resume", "nothing-here"), "there is none in nothing-here"),
        (("blobs.npz", "--set", "schedule.name=cosine"), "Settings of schedule: 'schedule.shape', "),
        (("blobs.npz", "--set", "batches.sampel=shuffled"), "Did you mean 'batches.sampler'?"),
        (("blobs.npz", "--out", "full"), "must be new or empty"),
        (("blobs.npz", "--device", "tpu"), "device must be"),
        (("blobs.npz", "--device", "meta"), "device 'meta' must be one that torch can use here"),
    ],
)
def test_refuses_in_one_line(data, tmp_path, words, message):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.txt").write_text("mine")
    if message is None:
        assert "Usage" in call("train", *words).output
        return
    line = refused("train", *words)
    assert call("train", *words).stderr == line + "\n", "nothing is announced before"
    assert message in line
    assert line.startswith("error: ")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["blobs.npz", "full"], "nothing is left behind"


def test_a_warm_up_that_no_longer_fits_is_refused_with_what_fits(data):
    """Settings of a run of 40 epochs, asked to take 1; what somebody gives by hand is nobody's proportion."""
    Path("long.json").write_text('{"epochs": 40, "schedule": {"warmup_epochs": 2}}')
    words = ("train", data, "--config", "long.json", *FAST, "--epochs", "1", "--out", "short", "--quiet")
    line = refused(*words)
    assert "these settings have 2 of 40, and 1 epoch is asked for" in line
    advice = line.partition("In proportion: ")[2].split()
    assert advice == ["--set", "schedule.warmup_epochs=0.05"]
    assert "In proportion" not in refused(*words, "--set", "schedule.warmup_epochs=3")
    done(*words, *advice)
    assert TrainConfig.load("short").schedule.warmup_epochs == 0.05


def test_settings_in_a_file_must_be_groups_and_leave_something_of_a_recipe(data):
    Path("odd.json").write_text('{"epochs": 4, "schedule": 3}')
    assert "schedule in odd.json must be a group of settings by name: got 3" in refused(
        "train", data, "--config", "odd.json", "--epochs", "1"
    )
    Path("whole.json").write_text(json.dumps(TrainConfig().to_json()))
    words = ("train", data, "--recipe", "letter", "--config")
    assert "nothing of the recipe 'letter' would be left: give one of them" in refused(*words, "whole.json")
    Path("part.json").write_text('{"epochs": 2}')
    done(*words, "part.json", "--out", "run", "--quiet")
    assert TrainConfig.load("run").epochs == 2
    assert TrainConfig.load("run").batches.size == RECIPES["letter"].config.batches.size


def test_a_tilde_that_the_shell_left_is_the_home_folder(data, monkeypatch):
    monkeypatch.setenv("HOME", str(data.parent / "home"))
    done("train", data, *FAST, "--out=~/run", "--quiet")
    assert RunFolder(data.parent / "home" / "run").finished
    assert not Path("~").exists()
    done("evaluate", "~/run", "--methods", "knn")
    assert "no folder ~nobody-of-this-name/run" in refused("evaluate", "~nobody-of-this-name/run")


def test_advice_is_what_one_can_type(tmp_path):
    (tmp_path / "moods.csv").write_text("first,second,mood\n" + "hi,ho,good\noh,ah,bad\n" * 10)
    assert refused("train", tmp_path / "moods.csv").endswith("Name the one with the classes: --label-column ….")
    named = ("train", tmp_path / "moods.csv", "--label-column", "mood")
    assert "Name it: --input-column …. To learn from several" in refused(*named)
    done(*named, "--input-column", "first", *FAST, "--out", tmp_path / "run", "--quiet")


def test_files_that_cannot_be_read_may_be_skipped(tmp_path):
    random = np.random.default_rng(0)
    for name in ("a", "b"):
        (tmp_path / "photos" / name).mkdir(parents=True)
        for i in range(12):
            pixels = random.integers(0, 256, (16, 16, 3), np.uint8)
            Image.fromarray(pixels).save(tmp_path / "photos" / name / f"{i}.png")
    (tmp_path / "photos" / "a" / "broken.png").write_bytes(b"no image")
    assert "--unreadable skip" in refused("train", tmp_path / "photos", "--device", "cpu")
    told = done("train", tmp_path / "photos", *FAST, "--unreadable", "skip", "--out", tmp_path / "run").stderr
    assert "broken.png" in told
    assert TrainConfig.load(tmp_path / "run").data.options == {"unreadable": "skip"}


def test_large_images_are_reduced_for_a_cpu(tmp_path):
    random = np.random.default_rng(0)
    for i in range(24):
        place = tmp_path / "photos" / "ab"[i % 2] / f"{i}.png"
        place.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(random.integers(0, 256, (100, 120, 3), np.uint8)).save(place)
    words = ("train", tmp_path / "photos", "--device", "cpu", "--epochs", "1", "--batch", "16", "--out")
    said = done(*words, tmp_path / "run").stderr
    assert "image, 3×64×64, reduced for a CPU: --image-size chooses" in said
    config = TrainConfig.load(tmp_path / "run")
    assert (config.data.options, config.encoder.name) == ({"image_size": 64}, "short_cnn")
    said = done(*words, tmp_path / "kept", "--image-size", "100").stderr
    assert "image, 3×100×100\n" in said
    kept = TrainConfig.load(tmp_path / "kept")
    assert (kept.encoder.name, kept.encoder.options) == ("resnet18", {"width": 0.25})
    named = done(*words, tmp_path / "named", "--encoder", "small_cnn", "--set", "encoder.options.width=4").stderr
    assert "image, 3×100×120\n" in named


class TestSmallColourImages:
    """No setting has to be found for images that the presets were not made for."""

    WORDS = ("train", "photos.npz", "--epochs", "1", "--batch", "16", "--device", "cpu", "--quiet")

    @pytest.fixture
    def images(self, request, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        side, labels = request.param, np.arange(40) % 2
        pixels = np.random.default_rng(0).integers(0, 150, (40, side, side, 3), np.uint8)
        pixels[..., 0] += (100 * labels).astype(np.uint8).reshape(-1, 1, 1)
        np.savez("photos.npz", x=pixels, y=labels)
        return pixels

    @pytest.mark.parametrize("images", [4, 8, 12, 16, 32], indirect=True)
    def test_train_with_the_defaults(self, images):
        done(*self.WORDS, "--out", "run")
        assert TrainConfig.load("run").views == ViewsConfig("auto", 2, {})
        model = load("run")
        assert model.description.views == "plain"
        assert model(images[:3]).shape == (3, 128)

    @pytest.mark.parametrize("images", [4, 8, 12], indirect=True)
    @pytest.mark.parametrize("views", ["plain", "trivial"])
    def test_train_with_views_by_name(self, images, views):
        done(*self.WORDS, "--views", views, "--out", "run")
        assert RunFolder("run").finished

    @pytest.mark.parametrize("images", [8], indirect=True)
    def test_a_hole_that_does_not_fit_is_refused_with_one_that_does(self, images):
        words = (*self.WORDS, "--views", "plain")
        line = refused(*words, "--out", "refused", "--set", "views.options.hole.pixels=12")
        assert "the hole of 12 pixels: got 8×8" in line
        assert not Path("refused").exists()
        for number, typed in enumerate(("views.options.hole.pixels=3", "views.options.hole=false")):
            assert f"--set {typed}" in line
            done(*words, "--out", f"run{number}", "--set", typed)


class TestForecast:
    def test_it_is_the_time_that_steps_take(self, data, monkeypatch):
        ticks = iter(range(1000))
        monkeypatch.setattr("sincere.cli.forecast.perf_counter", lambda: 3.0 * next(ticks))  # each step takes 3 s
        splits = open_data(str(data))
        config = TrainConfig(batches=BatchesConfig(16), epochs=10, compute=ComputeConfig("cpu"))
        dealt = sum(len(batch) for batch in ClassBatches(splits.train.labels, batch_size=16, seed=0).batches(0))
        first = len(next(iter(ClassBatches(splits.train.labels, batch_size=16, seed=0).batches(0))))
        assert first > 8, "8 samples in 3 s: the whole batch would take more than 4"
        assert forecast(config, splits) == pytest.approx(10 * dealt * 3.0 / 8)
        monkeypatch.setattr("sincere.cli.forecast.PATIENCE", 60.0)
        assert forecast(config, splits) == pytest.approx(10 * dealt * 3.0 / first)

    @pytest.mark.parametrize("patience", [2.06, 100.0], ids=["from small steps", "from whole ones"])
    def test_what_a_step_takes_whatever_its_size_is_not_taken_for_every_sample(self, patience, data, monkeypatch):
        """As with texts, whose table of words takes longer than a few of them: 16 times as long was forecast."""
        monkeypatch.setattr("sincere.cli.forecast._seconds", lambda session, batch, step: 1.0 + 0.01 * len(batch))
        for name, number in (("TRIED", 2), ("GROWTH", 2), ("PATIENCE", patience)):
            monkeypatch.setattr(f"sincere.cli.forecast.{name}", number)
        splits = open_data(str(data))
        batches = [len(batch) for batch in ClassBatches(splits.train.labels, batch_size=16, seed=0).batches(0)]
        config = TrainConfig(batches=BatchesConfig(16), epochs=10, compute=ComputeConfig("cpu"))
        expected = 10 * sum(batches) * (1.0 + 0.01 * batches[0]) / batches[0]
        assert forecast(config, splits) == pytest.approx(expected)

    def test_smaller_views_at_first_are_timed_for_themselves(self, monkeypatch):
        """Three of ten epochs take 1 s a step, the others 5."""

        def taken(session, batch, step):
            return 1.0 if step < session.step.early.steps else 5.0

        monkeypatch.setattr("sincere.cli.forecast._seconds", taken)
        monkeypatch.setattr("sincere.cli.forecast.PATIENCE", 1e9)
        generator = torch.Generator().manual_seed(0)
        inputs = torch.randint(0, 256, (40, 3, 16, 16), dtype=torch.uint8, generator=generator)
        made = LabelledData(inputs, torch.arange(40) % 4, tuple("abcd"), "image", "noise")
        config = TrainConfig(
            batches=BatchesConfig(20, "shuffled"), views=ViewsConfig("none", 2, early_size=10, early_share=0.3),
            encoder=EncoderConfig("small_cnn", {"width": 4}), epochs=10, compute=ComputeConfig("cpu"),
        )  # fmt: skip
        assert forecast(config, Splits(made, None, made)) == pytest.approx(2 * (3 * 1.0 + 7 * 5.0))

    def test_it_leaves_the_run_alone(self, data):
        done("train", data, *FAST, "--out", "told")
        done("train", data, *FAST, "--out", "untold", "--quiet")
        told, untold = (load_tensors(RunFolder(name).weights) for name in ("told", "untold"))
        assert all(torch.equal(untold[name], value) for name, value in told.items())

    def test_nothing_of_the_users_own_is_called_twice(self, data, monkeypatch):
        own = replace(TrainConfig(), encoder=EncoderConfig("command_line:Stopping"))
        assert forecast(own, open_data(str(data))) is None
        monkeypatch.setenv("WORLD_SIZE", "2")
        assert forecast(TrainConfig(), open_data(str(data))) is None

    def test_what_is_said_about_it(self, data, monkeypatch):
        for seconds, expected in ((20.0, []), (100.0, ["On this CPU it will take about 2 minutes."])):
            monkeypatch.setattr("sincere.cli.train.forecast", lambda *what, seconds=seconds: seconds)
            said = done("train", data, *FAST).stderr.splitlines()
            assert [line for line in said if "CPU" in line] == expected
        monkeypatch.setattr("sincere.cli.train.forecast", lambda *what: 7200.0)
        said = done("train", data, *FAST).stderr.splitlines()
        assert "On this CPU it will take about 2.0 hours." in said
        assert "To make it shorter: use a GPU." in said, "half an epoch cannot be asked for"

    @pytest.mark.parametrize(
        ("shape", "epochs", "named", "expected"),
        [
            ((3, 32, 32), 300, True, "leave out --encoder, and get a network for CPUs; --epochs 75 (30 minutes);"),
            ((3, 64, 64), 15, False, "--image-size 32; --epochs 3 (24 minutes);"),
            ((3, 224, 200), 15, False, "--image-size 64; --epochs 3 (24 minutes);"),
            ((16,), 100, False, "To make it shorter: --epochs 25 (30 minutes); or use a GPU."),
        ],
    )
    def test_ways_to_shorten_it(self, shape, epochs, named, expected):
        assert expected in shorter(replace(TrainConfig(), epochs=epochs), shape, 7200.0, named=named)
        assert shorter(replace(TrainConfig(), epochs=epochs), shape, 1800.0, named=named) is None


def test_words_are_numbered_and_places_are_quoted(data):
    said = done("train", data, *FAST, "--epochs", "1", "--out", "my run").stderr
    assert "sincere, 1 epoch → my run" in said
    assert "1 epoch in " in said
    assert said.endswith("Next: sincere evaluate 'my run'\n")


def test_data_is_named_anew_from_another_folder(data, tmp_path, monkeypatch):
    words = ("train", "blobs.npz", "--encoder", "command_line:Stopping", "--epochs", "3", "--device", "cpu")
    (tmp_path / "stop").touch()
    assert call(*words, "--out", "run").exit_code == 130
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    line = refused("train", "--resume", "../run")
    assert f"there is no blobs.npz in {tmp_path / 'elsewhere'}" in line
    assert "sincere train DATA --resume ../run" in line
    other = blobs(tmp_path / "other.npz", seed=1)
    assert "the training data must be what the run began with" in refused("train", other, "--resume", "../run")
    done("train", "../blobs.npz", "--resume", "../run")
    assert RunFolder(tmp_path / "run").finished
    assert TrainConfig.load(tmp_path / "run").data.source == "blobs.npz", "settings are what they were"
    line = refused("evaluate", "../run", "--probe-views", "2", "--draws", "100")
    assert f"there is no blobs.npz in {tmp_path / 'elsewhere'}. Go to the folder where the run was trained, " in line
    assert "or put a link to the data here, or leave --probe-views out" in line
    done("evaluate", "../run", "--draws", "100")  # what is advised serves
    (tmp_path / "elsewhere" / "blobs.npz").symlink_to(tmp_path / "blobs.npz")
    done("evaluate", "../run", "--probe-views", "2", "--draws", "100")


def test_data_that_was_named_in_full_and_moved_is_told_as_such(data, tmp_path):
    done("train", tmp_path / "blobs.npz", *FAST, "--out", tmp_path / "run")
    (tmp_path / "blobs.npz").rename(tmp_path / "moved.npz")
    words = ("evaluate", tmp_path / "run", "--probe-views", "2", "--draws", "100")
    line = refused(*words)
    assert f"there is no {tmp_path / 'blobs.npz'}. Put the data, or a link to it, back there, or leave" in line
    blobs(tmp_path / "blobs.npz", seed=1)  # other data in its place
    line = refused(*words)
    assert "the training data must be what the run began with" in line
    assert "Bring the data back, or leave --probe-views out" in line
    assert "start a new run" not in line, "it is to be measured, and not trained"
    (tmp_path / "blobs.npz").unlink()
    (tmp_path / "blobs.npz").symlink_to(tmp_path / "moved.npz")
    done(*words)


def test_a_test_part_of_its_own_is_named_anew_too(data, tmp_path, monkeypatch):
    blobs(tmp_path / "judge.npz", seed=0)
    done("train", "blobs.npz", "--test", "judge.npz", *FAST, "--epochs", "1", "--out", "run")
    (tmp_path / "run" / "model.safetensors").unlink()
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    line = refused("train", "../blobs.npz", "--resume", "../run")
    assert "there is no judge.npz" in line
    assert "sincere train DATA --test TEST --resume ../run" in line
    blobs(tmp_path / "other.npz", seed=1)
    line = refused("train", "../blobs.npz", "--test", "../other.npz", "--resume", "../run")
    assert "the validation and test data must be what the run began with" in line
    done("train", "../blobs.npz", "--test", "../judge.npz", "--resume", "../run")
    assert RunFolder(tmp_path / "run").finished
    assert TrainConfig.load(tmp_path / "run").data.test == "judge.npz", "settings are what they were"


def test_a_traceback_for_those_who_want_it(tmp_path, monkeypatch):
    plain = apart("train", "nowhere.csv", folder=tmp_path)
    assert plain.returncode == 2
    assert len(plain.stderr.splitlines()) == 1
    monkeypatch.setenv("SINCERE_DEBUG", "")  # so that it is restored
    with pytest.raises(InputError, match="no such file"):
        call("--debug", "train", "nowhere.csv")


def test_options_begin_anew_where_their_name_changes():
    from sincere.cli.settings import laid_over

    below = {"encoder": {"name": "mlp", "options": {"width": 4}}, "epochs": 3}
    assert laid_over(below, {"encoder": {"name": "text"}})["encoder"] == {"name": "text", "options": {}}
    assert laid_over(below, {"encoder": {"name": "mlp"}}) == below
    assert laid_over(below, {"encoder": {"options": {"depth": 2}}})["encoder"]["options"] == {"width": 4, "depth": 2}


def test_a_recipe_with_changes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    small = ("--epochs", "1", "--set", "encoder.options.width=2", "--device", "cpu", "--quiet")
    told = parsed("train", "--recipe", "digits", *small)
    config, recipe = TrainConfig.load(told["run"]), RECIPES["digits"].config
    assert (config.epochs, config.encoder.options["width"]) == (1, 2)
    assert (config.optimizer, config.views, config.data) == (recipe.optimizer, recipe.views, recipe.data)


def test_a_recipe_says_how_it_is_evaluated(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    asked = EvaluationOptions(methods=("linear",), l2=0.25, probe_views=2, draws=100)
    told_why = {**RECIPES["digits"].origins, "evaluation": "ours: a test"}
    monkeypatch.setitem(RECIPES, "digits", replace(RECIPES["digits"], evaluation=asked, origins=told_why))
    shown = done("recipes", "show", "digits").stdout
    assert "evaluation.l2 = 0.25" in shown
    assert "ours: a test" in shown
    assert parsed("recipes", "show", "digits")["evaluation"]["probe_views"] == 2
    words = ("--epochs", "1", "--set", "encoder.options.width=2", "--device", "cpu", "--out", "run")
    trained = done("train", "--recipe", "digits", *words)
    command = "sincere evaluate run --methods linear --l2 0.25 --probe-views 2 --draws 100"
    assert trained.stderr.endswith(f"Next: {command}\n")
    ways = [
        parsed("train", "--resume", "run", "--recipe", "digits", "--evaluate", "--quiet")["evaluation"],
        parsed(*command.split()[1:]),
    ]
    assert ways[0] == ways[1]
    (linear,) = ways[0]["classifiers"]
    assert linear["settings"]["fitted_on"] == "2 views of each training sample"
    assert (linear["settings"]["l2"], linear["settings"]["l2_origin"]) == (0.25, "given")
    plain = parsed("train", "--resume", "run", "--evaluate", "--quiet")["evaluation"]
    assert [one["method"] for one in plain["classifiers"]] == ["knn", "class_means", "linear"]
    assert "Did you mean 'digits'" in refused("train", "--resume", "run", "--recipe", "digit")


def test_resume_gives_the_weights_of_an_undisturbed_run(data, tmp_path):
    words = ("train", "blobs.npz", "--encoder", "command_line:Stopping", "--epochs", "3", "--device", "cpu")
    (tmp_path / "stop").touch()
    stopped = call(*words, "--out", "stopped")
    assert stopped.exit_code == 130
    assert "sincere train --resume stopped" in stopped.stderr
    assert "not come to its end" in refused("evaluate", "stopped")
    assert "holds a run already" in refused("train", "blobs.npz", "--out", "stopped")
    assert "epochs: 3 → 5" in refused("train", "--resume", "stopped", "--epochs", "5")
    done("train", "--resume", "stopped")
    done(*words, "--resume", "straight")  # begins it, as there is none yet
    ours, theirs = (load_tensors(RunFolder(tmp_path / run).weights) for run in ("stopped", "straight"))
    assert ours.keys() == theirs.keys()
    assert all(ours[name].equal(theirs[name]) for name in ours)


def test_data_that_one_process_alone_does_not_find_ends_both(data, tmp_path):
    """As on two machines, where no torchrun ends the other one: it would wait half an hour."""
    (tmp_path / "elsewhere").mkdir()
    command = [sys.executable, "-m", "sincere", "train", "blobs.npz", *FAST, "--out", "both", "--quiet"]
    meeting = {"WORLD_SIZE": "2", "MASTER_ADDR": "localhost", "MASTER_PORT": str(free_port()), "OMP_NUM_THREADS": "1"}
    processes = [
        subprocess.Popen(
            command, cwd=folder, env={**os.environ, **meeting, "RANK": rank}, stderr=subprocess.PIPE, text=True
        )
        for rank, folder in (("0", tmp_path), ("1", tmp_path / "elsewhere"))
    ]
    try:
        words = [process.communicate(timeout=300)[1] for process in processes]
    finally:
        for process in processes:
            process.kill()
    assert words[1].startswith("process 1: error: there is no such file or folder: blobs.npz."), words
    assert words[0].startswith("error: process 1 of the run stopped: there is no such file or folder: blobs.npz."), (
        words
    )
    assert [process.returncode for process in processes] == [1, 2]
    assert not (tmp_path / "both").exists()


def test_two_processes_talk_as_one(data, tmp_path):
    port = free_port()
    launch = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", str(port)]
    words = ["-m", "sincere", "train", "blobs.npz", *FAST, "--out", "both", "--json"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    run = subprocess.run([*launch, *words], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stderr
    told = json.loads(run.stdout)
    assert told["finished"]
    assert RunFolder(tmp_path / "both").finished
    assert run.stderr.count("3 classes") == 1


def test_two_processes_need_a_folder(data, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert "--out RUN" in refused("train", data)


def test_notes_stay_where_progress_is_not_wanted(data, tmp_path):
    """They say what a result rests on; stdout is for findings all the same."""
    np.savez("lonely.npz", x=np.random.default_rng(0).normal(size=(17, 3)), y=[0, 1] * 8 + [2])
    said = done("train", "lonely.npz", *FAST, "--quiet", "--out", "run")
    assert said.stderr == "note: 1 class has one sample to train on, and no positive but views of it: 2.\n", "once"
    assert said.stdout == ""
    assert "note:" not in done("train", "--resume", "run", "--quiet").stderr, "it was said when the run began"


def test_images_that_are_reduced_are_noted_without_progress_too(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, (24, 100, 120, 3), np.uint8)
    np.savez(tmp_path / "photos.npz", x=pixels, y=np.arange(24) % 2)
    words = ("train", tmp_path / "photos.npz", "--device", "cpu", "--epochs", "1", "--batch", "16", "--quiet", "--out")
    said = done(*words, tmp_path / "run").stderr
    assert "note: images are reduced to 3×64×64 for a CPU; --image-size chooses another size.\n" in said


def test_flags_that_change_nothing_are_noted(data):
    words = ("train", data, *FAST, "--quiet", "--out")
    said = done(*words, "a", "--loss", "cross-entropy", "--temperature", "0.3").stderr
    assert "note: --temperature changes nothing: cross_entropy has none.\n" in said
    assert "note: --dim changes nothing: without a head the features are the embeddings." in said
    advice = ("--set", "head.layers=linear")
    assert " ".join(advice) in said
    assert "changes nothing" not in done(*words, "b", "--loss", "cross-entropy", *advice).stderr
    assert "changes nothing" not in done(*words, "c", "--loss", "fixed-simplex", "--temperature", "0.3").stderr
    assert load("b", device="cpu").model.head.dim == 4
    said = done(*words, "d", "--set", "epochs=1", "--set", "head.dim=4").stderr
    assert "note: --epochs 2 changes nothing: --set epochs=1 goes over it.\n" in said


def test_a_flag_is_noted_where_set_changes_the_setting_that_it_is_for():
    """`--loss cross-entropy` is for the objective; and a name may be spelt in two ways."""

    def notes(loss, *assigned):
        return list(overruled({"loss": loss, "set_": list(assigned)}))

    assert notes("cross-entropy", "loss.name=supcon") == []
    assert notes("eps-supinfonce", "loss.name=eps_supinfonce") == []
    (said,) = notes("cross-entropy", "objective=contrastive")
    assert said == "--loss cross-entropy changes nothing: --set objective=contrastive goes over it."


def test_a_balance_that_set_takes_away_is_noted(data):
    words = ("train", data, *FAST, "--quiet", "--class-balanced", "--out")
    said = done(*words, "a", "--set", "loss.name=supcon").stderr
    assert "note: --class-balanced changes nothing: --set goes over it. " in said
    assert "--loss supcon keeps them.\n" in said
    assert "--class-balanced" not in done(*words, "b", "--loss", "supcon").stderr
    assert TrainConfig.load("b/config.json").loss.options["class_balanced"]
    assert said.count("changes nothing") == 1


def test_rare_classes_are_noted_with_what_helps(tmp_path):
    rows = np.random.default_rng(0).normal(size=(112, 3))
    np.savez(tmp_path / "rare.npz", x=rows, y=[0] * 60 + [1] * 48 + [2] * 4)
    words = ("train", tmp_path / "rare.npz", *FAST, "--quiet", "--out")
    note = "samples to train on: --class-balanced lets rare ones count as much as frequent ones.\n"
    assert note in done(*words, tmp_path / "plain").stderr
    assert note not in done("train", "--resume", tmp_path / "plain", "--quiet").stderr
    assert note not in done(*words, tmp_path / "dealt", "--set", "batches.sampler=balanced").stderr
    assert note not in done(*words, tmp_path / "classified", "--loss", "cross-entropy").stderr
    balanced = done(*words, tmp_path / "balanced", "--class-balanced").stderr
    assert note not in balanced
    assert TrainConfig.load(tmp_path / "balanced").loss.options == {"class_balanced": True, "reduction": "class_mean"}
    said = done(*words, tmp_path / "none", "--loss", "cross-entropy", "--class-balanced").stderr
    assert "note: --class-balanced changes nothing: cross_entropy has no contrasts.\n" in said
    assert "--class-balanced lets classes compete alike" in refused(
        *words, tmp_path / "x", "--loss", "set-nce", "--class-balanced"
    )


def test_what_was_typed_is_refused_before_what_comes_of_it(data):
    """Fewer epochs than a warm-up takes are no configuration, and not what is wrong with resuming by them."""
    done("train", data, *FAST, "--set", "schedule.warmup_epochs=2", "--out", "run", "--quiet")
    line = refused("train", "--resume", "run", "--epochs", "1")
    assert "run was begun with other settings (epochs: 2 → 1)" in line


def test_settings_of_a_run_are_for_other_data_too(data, tmp_path):
    """Options that only the run's own data has are left behind; those that were typed are refused."""
    lines = [f"{i % 7},{i % 5},{'xy'[i % 2]}" for i in range(40)]
    (tmp_path / "t.csv").write_text("\n".join(["a,b,sort", *lines]))
    reading = ("--label-column", "sort", "--set", "data.options.encoding=latin-1", "--set", "data.options.words=null")
    done("train", "t.csv", *FAST, *reading, "--out", "first", "--quiet")
    done("train", data, "--config", "first", "--out", "second", "--quiet", "--label-column", "y")
    assert TrainConfig.load("second").data.options == {"label_column": "y", "words": None}
    words = ("train", "digits", "--config", "first", "--out", "third")
    assert "--label-column belongs to tables, .npz and .npy, and says nothing of digits" in refused(
        *words, "--label-column", "y"
    )


def test_more_than_a_machine_holds_is_refused_before_a_run_begins(data):
    assert "--dim must be a whole number of at most 100,000,000" in refused("train", data, "--dim", 10**9)
