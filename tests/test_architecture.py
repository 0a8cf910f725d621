"""Who imports whom: read from the source, so that the folders keep meaning what they say."""

import ast
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent / "src" / "sincere"
GROUND = {"types", "errors", "checks", "tables", "defaults", "optional", "seeds"}
# A package may import itself, the ground, and what stands here.
MAY_IMPORT: dict[str, set[str]] = {
    "types": set(),
    "errors": set(),
    "checks": {"errors"},
    "tables": set(),
    "defaults": set(),
    "optional": {"errors"},
    "seeds": set(),
    "losses": GROUND | {"functional"},  # losses/modules.py wraps the functions
    "functional": {"losses"},
    "compat": GROUND | {"losses", "functional"},
    "data": GROUND,
    "views": GROUND,
    "encoders": GROUND,
    "runs": GROUND,
    "nearest": GROUND | {"losses"},
    "embeddings": GROUND | {"data", "views", "encoders", "runs", "nearest"},
    "train": GROUND | {"data", "views", "encoders", "losses", "runs", "embeddings", "nearest"},
    "evaluate": GROUND | {"embeddings", "losses", "nearest"},
    "geometry": GROUND | {"embeddings", "evaluate", "losses", "functional", "nearest"},
    "theory": GROUND | {"losses", "functional"},
    "claims": GROUND
    | {"data", "encoders", "losses", "functional", "runs", "train", "embeddings", "evaluate", "geometry"}
    | {"theory", "recipes", "bench"},
    "report": GROUND | {"runs", "embeddings", "evaluate", "geometry", "nearest"},
    "estimators": GROUND | {"data", "views", "encoders", "losses", "train", "nearest"},
    "bench": GROUND | {"losses", "functional", "runs"},
    "recipes": GROUND | {"train", "data", "encoders", "losses", "embeddings", "evaluate", "geometry"},
    "cli": GROUND
    | {"__init__", "__version__", "data", "views", "encoders", "runs", "train", "embeddings"}
    | {"evaluate", "bench", "recipes", "claims", "report"},
    "__main__": {"cli"},
    "__init__": {"losses", "embeddings"},
}
THIRD_PARTY = {"torch", "numpy"}
# `pip install sincere[...]` brings these: only inside a function, so that importing a module never needs them. Where
# `sincere.optional.bring` imports them there is nothing to see here.
OPTIONAL = {
    "runs": {"safetensors"},
    "embeddings": {"onnxruntime"},
    "train": {"rich"},
    "theory": {"scipy"},
    "claims": {"sklearn", "scipy", "matplotlib"},
    "report": {"matplotlib"},
}
# Packages that nobody imports, only users and the command line: they may need their extras from the first line on.
ON_DEMAND = {"estimators": {"sklearn"}, "cli": {"typer", "rich"}}
KERNEL_FILES = {"triton_kernels.py", "triton_order.py", "triton_rows.py", "triton_tiles.py"}
FILES = sorted(ROOT.rglob("*.py"))


def package_of(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def imports_of(nodes: Iterable[ast.AST], path: Path) -> list[str]:
    """Every module that these nodes import."""
    names = []
    for node in nodes:
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: say where it is from: absolute imports only"
            names += [f"{node.module}.{alias.name}" for alias in node.names]
    return names


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_imports(path):
    package = package_of(path)
    assert package in MAY_IMPORT, f"give {package} a line in MAY_IMPORT, and in CONTRIBUTING.md"
    tree = ast.parse(path.read_text())
    at_import = set(imports_of(tree.body, path))
    for name in imports_of(ast.walk(tree), path):
        top, *rest = name.split(".")
        if top == "sincere":
            target = rest[0] if rest else "__init__"
            assert target in MAY_IMPORT[package] | {package}, f"{path.name} imports sincere.{target}"
        elif top == "triton":
            assert path.name.startswith("triton_"), f"{path.name} imports triton, which may be missing"
        elif top in ON_DEMAND.get(package, set()):
            continue
        elif top in OPTIONAL.get(package, set()):
            assert name not in at_import, f"{path.name} imports {top}, which may be missing: inside a function, please"
        elif top not in sys.stdlib_module_names:
            assert top in THIRD_PARTY, f"{path.name} imports {top}, which `pip install sincere` does not bring"


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_files_stay_readable(path):
    text = path.read_text()
    assert len(text.splitlines()) <= 330, "one idea a file"
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef):
            docstring = len((ast.get_docstring(node, clean=False) or "").splitlines())
            longest = 80 if path.name in KERNEL_FILES else 60  # a kernel cannot hand its registers around
            assert node.end_lineno - node.lineno + 1 - docstring <= longest, f"{node.name} does more than one thing"


def test_import_brings_nothing_but_torch_and_numpy():
    code = (
        "import sys, torch, numpy; before = set(sys.modules); import sincere, sincere.functional, sincere.compat;"
        "new = {name.split('.')[0] for name in set(sys.modules) - before} - set(sys.stdlib_module_names);"
        "print(*sorted(new))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert set(run.stdout.split()) <= {"sincere", "torch", "numpy"}


def test_public_names_exist_and_are_sorted_out():
    import sincere

    assert sincere.__all__ == sorted(sincere.__all__)
    for name in sincere.__all__:
        assert getattr(sincere, name).__doc__


def test_everything_is_reached_from_the_package_and_nothing_loaded_before():
    code = (
        "import sys, sincere; assert 'torch' not in sys.modules, 'loaded too early';"
        "print(*(getattr(sincere, name).__name__ for name in ('functional', 'geometry', 'SetLoss')));"
        "print(hasattr(sincere, 'nothing'), {*sincere.__all__, 'train'} <= {*dir(sincere)})"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (run.stdout, run.stderr) == ("sincere.functional sincere.geometry SetLoss\nFalse True\n", "")
