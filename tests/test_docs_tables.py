"""Tables and lists of the pages name what the code has: nothing is missing, and nothing is there that is gone."""

import inspect
import re
from dataclasses import fields
from pathlib import Path
from typing import get_args, get_type_hints

import pytest

import sincere
from sincere import functional, geometry
from sincere.cli import options
from sincere.cli.app import VERBS
from sincere.data.options import DEFAULTS
from sincere.data.tabular import LABEL_NAMES
from sincere.encoders.build import ENCODERS, LIBRARIES
from sincere.evaluate.options import Method
from sincere.nearest.default_k import K_CANDIDATES
from sincere.recipes import RECIPES
from sincere.train import OptimizerConfig, TrainConfig
from sincere.train.config import LOSSES
from sincere.types import Backend, Reduction
from sincere.views import PRESETS

ROOT = Path(__file__).parent.parent
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "benchmarks/README.md", "reproduce/README.md")),
    *sorted((ROOT / "docs").glob("*.md")),
]


def page(name):
    """Without its blocks of code, in which # is no heading."""
    return re.sub(r"```.*?```", "", (ROOT / name).read_text(), flags=re.DOTALL)


def section(name, heading):
    """What stands under a heading, up to the next one of any level."""
    found = re.search(rf"^#+ {re.escape(heading)}\n(.*?)(?=^#+ |\Z)", page(name), flags=re.DOTALL | re.MULTILINE)
    assert found, f"{name} has no heading {heading!r}"
    return found[1]


def rows(text):
    """The cells of every row of its tables, but for their heads."""
    lines = re.sub(r"^\|.*\n\|[-|]+$", "", text, flags=re.MULTILINE).splitlines()
    return [[cell.strip() for cell in line[2:-2].split(" | ")] for line in lines if line.startswith("| ")]


def code(cell):
    """What stands in backticks: `"mean"` is mean, `SupConLoss(form=…)` is SupConLoss."""
    return [re.sub(r"\(.*", "", word).strip('"') for word in re.findall(r"`([^`]+)`", cell)]


def first_cells(text):
    return [name for row in rows(text) for name in code(row[0])]


def test_options_of_data_with_their_defaults():
    written = {}
    for names, default, *_ in rows(section("docs/data.md", "Options")):
        values = default.replace("2¹⁷", str(2**17)).split(", ")
        written.update(zip(code(names), values * len(code(names)) if len(values) == 1 else values, strict=True))
    said = {name: f'`"{value}"`' if isinstance(value, str) else str(value) for name, value in DEFAULTS.items()}
    assert written == said


def test_names_of_label_columns():
    sentence = re.search(r"A table's label column is called (.*?), in any case", page("docs/data.md"))
    assert tuple(code(sentence[1])) == LABEL_NAMES


def test_settings_of_training():
    """The table has a row for every record; each setting stands in it, or under the heading that it links to."""
    table = section("docs/training.md", "Settings")
    more = section("docs/training.md", "Optimizers") + section("docs/training.md", "Learning rate")
    named = {word for text in re.findall(r"`([^`]+)`", table + more) for word in re.findall(r"\w+", text)}
    config = TrainConfig()
    for record in fields(TrainConfig):
        value = getattr(config, record.name)
        assert record.name in named
        for setting in fields(value) if hasattr(value, "__dataclass_fields__") else ():
            # That an optimizer has a learning rate and a weight decay, and is called by its name, needs no saying.
            known = record.name == "optimizer" and setting.name in ("name", "lr", "weight_decay")
            assert known or setting.name in named, f"{record.name}.{setting.name}"


def test_presets_of_views():
    table = rows(section("docs/views-and-encoders.md", "Views by name"))
    written = {(kind, name) for kind, names, *_ in table for name in code(names)}
    presets = {(kind, name) for kind, known in PRESETS.items() for name in known if name != "none"}
    assert written == {*presets, ("all", "none")}


def test_encoders_with_their_kinds_and_options():
    listed = rows(section("docs/views-and-encoders.md", "Encoders by name"))
    table = {name: row for row in listed for name in code(row[0])}
    assert set(table) == {*ENCODERS, *(f"{library}:NAME" for library in LIBRARIES), "package.module:factory"}
    for name, (kind, make) in ENCODERS.items():
        options = [p.name for p in inspect.signature(make).parameters.values() if p.kind is p.KEYWORD_ONLY]
        assert table[name][1].split(",")[0] == kind
        assert set(options) <= set(code(table[name][4])), name


def test_losses():
    table = rows(section("README.md", "The losses"))
    assert {code(function)[0] for _, function, *_ in table} == set(functional.__all__)
    assert {code(module)[0] for module, *_ in table} == {name for name in sincere.__all__ if name.endswith("Loss")}


def test_reductions_and_backends():
    assert first_cells(section("docs/losses.md", "Reductions and weights")) == list(get_args(Reduction))
    backends = first_cells(page("docs/backends.md").partition("## ")[0])
    assert backends == [name for name in get_args(Backend) if name != "auto"]


def test_methods_of_evaluation_and_candidates_for_k():
    assert first_cells(section("docs/evaluation.md", "What is measured")) == list(get_args(Method))
    written = re.search(r"the best of ([\d, ]+) there", section("docs/evaluation.md", "What was chosen, and on what"))[
        1
    ]
    assert tuple(map(int, written.split(", "))) == K_CANDIDATES


def test_instruments_of_geometry():
    instruments = {name for name in geometry.__all__ if name[0].islower()} - {"describe", "class_means"}
    assert set(first_cells(section("docs/geometry.md", "What each instrument says"))) == instruments


def test_commands():
    written = {name.split()[1] for name in first_cells(section("docs/quickstart.md", "When something is wrong"))}
    assert written == set(VERBS)


def test_help_of_train_names_what_there_is():
    losses, encoders, views, optimizers = (
        set(re.findall(r"[\w:-]+", option.__metadata__[0].help))
        for option in (options.Loss, options.Encoder, options.Views, options.Optimizer)
    )
    assert losses >= {*LOSSES, "cross_entropy", "fixed_simplex"}
    assert encoders >= {*ENCODERS, *(f"{library}:NAME" for library in LIBRARIES)}
    assert views >= {name for known in PRESETS.values() for name in known}
    assert optimizers >= set(get_args(get_type_hints(OptimizerConfig)["name"]))


def test_recipes():
    written = first_cells(section("docs/recipes.md", "Recipes"))
    papers = [name for name in written if name.startswith(("sincere-", "supcon-"))]
    assert {*written, *(f"{name}-resnet18" for name in papers)} - {"-resnet18"} == set(RECIPES)
    for name in re.findall(r"--recipe (\S+)", "".join(file.read_text() for file in PAGES)):
        assert name.strip("`") in {*RECIPES, "NAME"}, name


@pytest.mark.parametrize("name", ["quickstart.md", "evaluation.md"])
def test_no_printed_table_has_a_top_5_of_fewer_than_five_neighbours(name):
    """`evaluate` prints a dash there, because fewer than five classes can get a vote."""
    tables = re.findall(r"^k-NN \(k = (\d+)\)  .*  +(\S+)$", (ROOT / "docs" / name).read_text(), flags=re.MULTILINE)
    assert tables
    assert {last for k, last in tables if int(k) < 5} == {"–"}


def test_every_benchmark_is_in_the_list():
    """Files that cannot be run by themselves are parts of others."""
    programs = {file.stem for file in (ROOT / "benchmarks").glob("*.py") if "__main__" in file.read_text()}
    listed = (ROOT / "benchmarks" / "README.md").read_text()
    assert [name for name in sorted(programs) if f"{name}.py" not in listed] == []


def test_every_module_of_the_losses_is_on_the_map():
    tree = (ROOT / "CONTRIBUTING.md").read_text()
    losses = ROOT / "src" / "sincere" / "losses"
    equations = {f"{name}.py" for name in functional.__all__}  # "one file a loss"
    modules = {file.name for file in losses.rglob("*.py")} - {"__init__.py"} - equations
    assert [name for name in sorted(modules) if name not in tree] == []


def anchors(text):
    """The names that GitHub gives to headings."""
    headings = re.findall(r"^#+ (.*)$", text, flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("file", PAGES, ids=lambda file: str(file.relative_to(ROOT)))
def test_links_lead_to_headings(file):
    for target, anchor in re.findall(r"\]\(([^)#\s]*)#([^)\s]+)\)", page(file)):
        if not target.startswith("http"):
            assert anchor in anchors(page(file.parent / target if target else file)), f"{target}#{anchor}"
