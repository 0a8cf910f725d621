"""Recipes: complete, explained, and the paper's to the letter."""

import csv
import importlib.util
import inspect
import json
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
import scipy.stats
import torch

from sincere.cli.planning import planned
from sincere.cli.train import train_model
from sincere.data import LabelledData, open_data
from sincere.encoders import build_encoder
from sincere.errors import OptionError
from sincere.evaluate import Evaluation, EvaluationOptions
from sincere.recipes import NOT_MEASURED, RECIPES, Given, find_recipe, starting_point
from sincere.recipes.measured import FILE
from sincere.train import TrainConfig
from sincere.train.fields import differences

ROOT = Path(__file__).parent.parent
# Written from the paper (arXiv 2309.14277v1, Sections 4 and 4.3) and the authors' code, not from our recipes.
PAPER = {
    "epochs": 1000,
    "objective": "contrastive",
    "batches": {"size": 512, "sampler": "shuffled", "drop_last": False},
    "views": {"name": "sincere", "count": 2, "options": {}, "early_size": None, "early_share": 0.5},
    "head": {"layers": "mlp", "hidden": None, "dim": 128},
    "memory": {"queue": 0, "momentum": None},
    "schedule": {
        "shape": "cosine",
        "warmup_epochs": 10,
        "warmup_start_lr": 0.0005,
        "end_lr": 0.0005,
        "cosine_from": "warmup",
        "power": 1.0,
    },
}
OPTIMIZER = {"name": "sgd", "lr": 0.5, "momentum": 0.9, "nesterov": False, "weight_decay": 0.0001, "decay": "all"}


@pytest.mark.parametrize("recipe", RECIPES.values(), ids=lambda recipe: recipe.name)
class TestEveryRecipe:
    def test_survives_json(self, recipe):
        assert TrainConfig.from_json(recipe.to_json()["config"]) == recipe.config

    def test_says_where_every_setting_comes_from(self, recipe):
        changed = list(differences(TrainConfig().to_json(), recipe.config.to_json()))
        told = {name for name, _, origin in recipe.settings() if origin}
        missing = {line.partition(":")[0] for line in changed} - told - {"data.source"}
        if recipe.evaluation is not None:
            judged = differences(asdict(EvaluationOptions()), asdict(recipe.evaluation), where="evaluation.")
            missing |= {line.partition(":")[0] for line in judged} - told
        assert not missing, "each setting that is no default needs an origin"

    def test_says_what_was_measured(self, recipe):
        assert recipe.measured == NOT_MEASURED or all(
            words in recipe.measured for words in ("test samples", "seed", "training on", " s", "torch", "commit")
        )
        assert recipe.config.data.source == recipe.data
        assert recipe.needs_path == ("PATH" in recipe.command)


@pytest.mark.parametrize("loss", ["sincere", "supcon"])
@pytest.mark.parametrize("classes", [10, 100])
@pytest.mark.parametrize(("suffix", "encoder"), [("", "resnet50"), ("-resnet18", "resnet18")])
def test_the_papers_experiment(loss, classes, suffix, encoder):
    recipe = find_recipe(f"{loss}-cifar{classes}{suffix}")
    config = recipe.config.to_json()
    assert {name: config[name] for name in PAPER} == PAPER
    assert {name: config["optimizer"][name] for name in OPTIMIZER} == OPTIMIZER
    assert config["optimizer"]["clip_norm"] is None
    assert config["encoder"] == {"name": encoder, "options": {"stem": "small"}}
    assert (config["loss"]["name"], config["loss"]["temperature"], config["loss"]["options"]) == (loss, 0.1, {})
    assert config["data"]["validation_share"] == 0, "all 50,000 images are trained on"
    assert config["data"]["source"] == f"cifar{classes}:PATH"


def test_the_papers_figures_are_in_the_claims():
    for name, figures in {"sincere-cifar10": "95.93 / 99.78", "supcon-cifar100": "75.96 / 92.33"}.items():
        assert figures in RECIPES[name].claim


def test_how_a_recipe_is_evaluated_is_among_its_settings():
    plain = find_recipe("digits")
    asked = EvaluationOptions(methods=("linear",), l2=0.01, probe_views=4)
    origins = {**plain.origins, "evaluation": "ours", "evaluation.l2": "chosen on held-out images"}
    recipe = replace(plain, evaluation=asked, origins=origins)
    added = [one for one in recipe.settings() if one not in set(plain.settings())]
    assert added == [
        ("evaluation.methods", '["linear"]', "ours"),
        ("evaluation.l2", "0.01", "chosen on held-out images"),
        ("evaluation.probe_views", "4", "ours"),
    ]
    assert recipe.to_json()["evaluation"]["l2"] == 0.01
    assert EvaluationOptions(**recipe.to_json()["evaluation"]) == asked
    assert plain.to_json()["evaluation"] is None


def test_unknown_recipes_are_refused():
    with pytest.raises(OptionError, match="Did you mean 'letter'"):
        find_recipe("leter")


def data(kind, shape, samples):
    dtype = {"image": torch.uint8, "text": torch.int32}.get(kind, torch.float32)
    more = {"sound": {"sample_rate": 8000}, "text": {"buckets": 100}}.get(kind, {})
    inputs, labels = torch.zeros(samples, *shape, dtype=dtype), torch.arange(samples) % 2
    return LabelledData(inputs, labels, ("a", "b"), kind, "made", **more)


@pytest.mark.parametrize(
    ("kind", "shape", "encoder"),
    [
        ("image", (1, 8, 8), "small_cnn"),
        ("image", (3, 32, 32), "short_cnn"),
        ("array", (6,), "mlp"),
        ("text", (5, 4), "text"),
        ("sound", (800,), "sound"),
    ],
)
@pytest.mark.parametrize("samples", [20, 5000])
def test_a_start_for_every_kind_and_size(kind, shape, encoder, samples):
    config = starting_point(data(kind, shape, samples), Given(device="cpu"))
    assert config.encoder.name == encoder
    assert config.batches.size <= max(samples // 8, 32)
    assert config.epochs >= 8
    assert config.optimizer.name == "adamw"


@pytest.mark.parametrize(
    ("shape", "samples", "seconds"),
    [((3, 32, 32), 294, 180), ((3, 32, 32), 3500, 900), ((3, 64, 64), 3500, 1800), ((3, 224, 224), 294, 900)],
)
def test_images_on_a_cpu_cost_minutes(shape, samples, seconds):
    config = starting_point(data("image", shape, samples), Given(device="cpu"))
    network = build_encoder(config.encoder.name, kind="image", shape=shape, **config.encoder.options)
    operations = []
    for layer in network.modules():
        if isinstance(layer, torch.nn.Conv2d):
            layer.register_forward_hook(lambda own, _, made: operations.append(own.weight.numel() * made[0, 0].numel()))
    network(torch.zeros(2, *shape))
    views = samples * config.views.count * config.epochs
    # A multiplication and an addition, forward and twice backward; 30 GFLOP/s of each of two cores are little.
    assert views * sum(operations) * 6 / 60e9 < seconds
    assert config.compute.channels_last


def test_a_gpu_gets_larger_networks(monkeypatch):
    photos = data("image", (3, 32, 32), 420)
    assert starting_point(photos, Given(encoder="resnet18", device="cpu")).epochs == 300, "named, it stays what it was"
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda **how: True)
    config = starting_point(photos)
    assert (config.encoder.name, config.encoder.options, config.epochs) == ("resnet18", {}, 300)
    assert (config.optimizer.name, config.compute.precision) == ("sgd", "bf16")
    assert starting_point(photos, Given(device="cpu")).encoder.name == "short_cnn"


def test_what_is_given_decides_about_the_rest():
    digits = open_data("digits").train
    config = starting_point(digits, Given(encoder="resnet18", batch=64, epochs=3))
    assert (config.encoder.name, config.batches.size, config.epochs) == ("resnet18", 64, 3)
    assert config.encoder.options == {}
    assert config.optimizer.lr == pytest.approx(0.5 / 8), "the papers' rate for 512 samples, in proportion"
    assert config.schedule.warmup_epochs <= 3
    assert starting_point(digits, Given(optimizer="adamw", encoder="resnet18")).optimizer.lr < 0.01
    with pytest.raises(OptionError, match="'sgd', 'adamw'"):
        starting_point(digits, Given(optimizer="adam"))


@pytest.fixture(scope="module")
def figures():
    """benchmarks/recipe_figures.py."""
    spec = importlib.util.spec_from_file_location("recipe_figures", ROOT / "benchmarks" / "recipe_figures.py")
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    return script


def test_the_page_shows_the_figures_that_are_kept(figures):
    kept = json.loads(FILE.read_text())
    shown = figures.PAGE.read_text().partition(figures.START)[2].partition(figures.END)[0].strip()
    assert shown.splitlines() == list(figures.table(kept)), "run python benchmarks/recipe_figures.py"
    assert figures.reached(kept) in figures.README.read_text()
    on_cpu = [np.mean(one["seconds"]) for one in kept.values() if "threads" in one["hardware"]]
    assert f"in {min(on_cpu):.0f} to {max(on_cpu):.0f} seconds" in figures.reached(kept), "no time is typed by hand"
    assert figures.fast(kept) in figures.FAST_PAGE.read_text()
    for name, document in kept.items():
        means = [100 * value for value in document["top1"]["knn"]]
        spread = f" ± {np.std(means, ddof=1):.2f}" if len(means) > 1 else ""
        assert f"k-NN {np.mean(means):.2f}{spread} %" in find_recipe(name).measured
        assert (f"over {len(means)} seeds" if len(means) > 1 else "(one seed)") in find_recipe(name).measured


def test_what_ten_minutes_bought_is_in_the_kept_files(figures):
    """The figures of each recipe are those of its kept runs, the page's table too, and so are the sentences' below."""
    page, measured = figures.FAST_PAGE.read_text(encoding="utf-8"), json.loads(FILE.read_text())
    rows = list(figures.seed_by_seed())
    assert "\n".join(rows) in page, "run python benchmarks/recipe_figures.py"
    for name in ("best-cifar10", "best-cifar100"):
        top1 = measured[name]["top1"]
        for seed in range(len(top1["linear"])):
            kept = (figures.KEPT / f"{name}-{seed}.evaluation.json").read_text(encoding="utf-8")
            found = Evaluation.from_json(kept)
            assert {method: found.classifier(method).top1.value for method in top1} == {
                method: values[seed] for method, values in top1.items()
            }
            assert any(row.startswith(f"| `{name}`, seed {seed} | {100 * top1['linear'][seed]:.2f} (") for row in rows)
    ten, hundred = ([100 * value for value in measured[f"best-cifar{k}"]["top1"]["linear"]] for k in (10, 100))
    assert (f"{np.mean(hundred) - 75.86:.1f}", f"{np.mean(ten) - 95.93:.1f}") == ("6.5", "1.0")
    assert (sum(value > 96.995 for value in ten), f"{97 - np.mean(ten):.1f}") == (1, "0.1")
    assert f"a deviation of {np.std(ten, ddof=1):.2f} between seeds" in page
    for name, told in (("best-cifar10", "536 s with seed 0"), ("best-cifar100", "523 s with seed 1")):
        assert f"{measured[name]['verdict_seconds'][0]:.0f} s" == told[:5]
        assert told in page


def test_what_smaller_views_gain_is_in_the_kept_runs():
    """The sentences of docs/training.md, from the rows of benchmarks/early_views.py."""
    with (ROOT / "benchmarks" / "results" / "early_views.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    found = {(row["arm"], row["seed"]): row for row in rows}

    def gains(arm, method, over="24 epochs, full size"):
        seeds = [seed for one, seed in found if one == arm]
        return np.array([float(found[arm, seed][method]) - float(found[over, seed][method]) for seed in seeds])

    page = (ROOT / "docs" / "training.md").read_text(encoding="utf-8")
    good, means = "40 epochs, 60 % with 20 pixels", {}
    for method, told in (
        ("knn", "{:.1f} points better by k-NN ({:.1f} to {:.1f}, "),
        ("linear", "{:.1f} by a linear probe ({:.1f} to {:.1f}; "),
    ):
        gain = gains(good, method)
        low, high = scipy.stats.t.interval(0.95, len(gain) - 1, gain.mean(), scipy.stats.sem(gain))
        assert told.format(gain.mean(), low, high) in page
        means[method] = [
            np.mean([float(row[method]) for row in rows if row["arm"] == arm]) for arm in (good, "24 epochs, full size")
        ]
    assert "{:.1f} instead of {:.1f} %".format(*means["knn"]) in page
    worse = sorted(-gains("46 epochs, 60 % with 16 pixels", "linear"))
    assert f"{worse[0]:.1f} to {worse[1]:.1f} points worse" in page
    assert f"{-gains('59 epochs, 75 % with 16 pixels', 'linear')[0]:.1f} where 75 % have (one seed)" in page
    longer = sorted(-gains("80 epochs, 60 % with 20 pixels", "knn", "50 epochs, full size"))
    assert f"{longer[0]:.1f} to {longer[1]:.1f} points worse by k-NN than 50 at full size (two seeds)" in page


def test_a_sentence_model_is_trained_in_few_and_small_steps():
    """It knows its language already. Other named networks keep their start, and so does who names an optimizer."""
    texts = data("text", (5, 4), 540)
    named = {"encoder": "sentence-transformers:all-MiniLM-L6-v2", "device": "cpu"}
    config = starting_point(texts, Given(**named))
    assert (config.optimizer.name, config.optimizer.lr) == ("adamw", 2e-5)
    assert (config.head.layers, config.batches.size, config.epochs) == ("none", 64, 5)
    assert starting_point(data("text", (5, 4), 5000), Given(**named)).epochs == 3
    assert starting_point(texts, Given(optimizer="sgd", **named)).optimizer.lr == pytest.approx(0.5 / 8)
    other = starting_point(data("image", (3, 32, 32), 540), Given(encoder="timm:resnet18", device="cpu"))
    assert (other.optimizer.name, other.head.layers, other.epochs) == ("sgd", "auto", 300)


@pytest.mark.parametrize(
    ("encoder", "options"),
    [
        ("timm:resnet18", {"pretrained": True}),
        ("timm:resnet18", {"checkpoint_path": "resnet18.pth"}),
        ("torchvision:resnet18", {"weights": "DEFAULT"}),
    ],
)
def test_a_pretrained_network_is_trained_for_few_epochs_without_a_new_head(encoder, options):
    photos, named = data("image", (3, 32, 32), 450), {"encoder": encoder, "device": "cpu"}
    config = starting_point(photos, Given(encoder_options=options, **named))
    assert (config.optimizer.name, config.optimizer.lr) == ("adamw", 3e-4)
    assert (config.head.layers, config.batches.size, config.epochs) == ("none", 32, 30)
    assert starting_point(data("image", (3, 32, 32), 9000), Given(encoder_options=options, **named)).epochs == 10
    by_hand = starting_point(photos, Given(encoder_options=options, optimizer="sgd", **named))
    assert by_hand.optimizer.lr == pytest.approx(0.5 / 16)
    untrained = starting_point(photos, Given(encoder_options=dict.fromkeys(options), **named))
    assert (untrained.optimizer.name, untrained.head.layers, untrained.epochs) == ("sgd", "auto", 300)


def test_who_asks_for_dimensions_gets_them():
    """A start without a head would have those of the features, whatever is asked for."""
    photos, named = data("image", (3, 32, 32), 450), {"encoder": "timm:net", "encoder_options": {"pretrained": True}}
    assert starting_point(photos, Given(dim=16, **named)).head.layers == "linear"
    assert starting_point(photos, Given(dim=16, encoder="resnet18")).head.layers == "auto"


def test_the_command_line_says_that_a_network_is_pretrained(tmp_path):
    """Planned, not built: no library is needed for that."""
    np.savez(tmp_path / "photos.npz", x=np.zeros((60, 32, 32, 3), dtype=np.uint8), y=np.arange(60) % 2)
    words = dict.fromkeys(inspect.signature(train_model).parameters)
    words |= {"data": str(tmp_path / "photos.npz"), "encoder": "timm:resnet18", "out": tmp_path / "run"}
    for said, epochs, layers in (("true", 30, "none"), ("false", 300, "auto")):
        plan = planned({**words, "set_": [f"encoder.options.pretrained={said}"]})
        assert (plan.config.epochs, plan.config.head.layers) == (epochs, layers)
    plan = planned({**words, "dim": 16, "set_": ["encoder.options.pretrained=true"]})
    assert (plan.config.head.dim, plan.config.head.layers) == (16, "linear")


def test_the_page_on_encoders_has_the_figures_of_the_pretrained_network():
    with (ROOT / "benchmarks" / "results" / "pretrained_start.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    page = (ROOT / "docs" / "views-and-encoders.md").read_text(encoding="utf-8")
    seeds = [row for row in rows if row["way"] == "its start"]
    for row in (row for row in rows if row not in seeds):
        shown = [f"{row[method]} % ({row[f'{method} interval']})" for method in ("knn", "linear")]
        assert f"| {row['way']} | {shown[0]} | {shown[1]} |" in page
    shown = [", ".join(row[method] for row in seeds) for method in ("knn", "linear")]
    assert f"| its start, seeds 0 to {len(seeds) - 1} | {shown[0]} % | {shown[1]} % |" in page


def test_the_page_on_encoders_has_the_figures_of_the_sentence_model():
    with (ROOT / "benchmarks" / "results" / "sentence_start.csv").open(encoding="utf-8") as file:
        rows = {row["way"]: row for row in csv.DictReader(file)}
    page = (ROOT / "docs" / "views-and-encoders.md").read_text(encoding="utf-8")
    ours, nothing, before = rows["its start"], rows["from nothing, 3 epochs"], rows["as it was"]
    assert f"ends at {ours['knn']} % by k-NN on their 800 test texts (95 % interval {ours['knn interval']})" in page
    assert f"untouched it has {before['knn']} % ({before['knn interval']})" in page
    assert f"it has {nothing['knn']} % ({nothing['knn interval']}) after three epochs" in page
    assert f"{ours['linear']} % against {before['linear']} % untouched" in page
