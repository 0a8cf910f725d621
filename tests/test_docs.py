"""Every Python block of the README and the docs runs, page by page, and prints what the page says that it prints."""

import ast
import re
from importlib import import_module
from pathlib import Path

import pytest
import torch

import sincere
import sincere.functional
import sincere.geometry

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_examples_run(page, monkeypatch, tmp_path, capsys):
    """A plain block right below a Python block is its output."""
    blocks = re.findall(r"```python\n(.*?)```(?:\n\n```\n(.*?)```)?", page.read_text(), flags=re.DOTALL)
    if page == ROOT / "README.md":
        assert blocks, "the README opens with an example"
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    namespace = {}
    for block, output in blocks:
        capsys.readouterr()
        exec(compile(block, str(page), "exec"), namespace)
        if output:
            assert _words(capsys.readouterr().out) == _words(output)


def _words(text):
    """Figures and column widths may differ from processor to processor; what they are called, and a dash, may not."""
    return re.sub(r"[-−+]?\d[\d,.]*(e[-+]\d+)?", "0", text).split()


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_scripts_that_are_not_run_import_what_exists(page):
    """Blocks that need a library, a trained model or minutes: `py`, and whole scripts under `<summary>NAME.py`."""
    text = page.read_text()
    scripts = re.findall(r"```py\n(.*?)```", text, flags=re.DOTALL)
    scripts += re.findall(r"<summary>\w+\.py</summary>\n\n```\n(.*?)```", text, flags=re.DOTALL)
    imports = [node for script in scripts for node in ast.walk(ast.parse(script)) if isinstance(node, ast.ImportFrom)]
    for node in imports:
        if node.module.partition(".")[0] == "sincere":
            for name in node.names:
                assert _importable(node.module, name.name), f"{page.name}: from {node.module} import {name.name}"


def _importable(module, name):
    try:
        return hasattr(import_module(module), name) or import_module(f"{module}.{name}") is not None
    except ModuleNotFoundError:
        return False


def test_figures_of_the_pages_are_those_of_the_results(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import readme_table

    again = "run `python benchmarks/readme_table.py`"
    assert readme_table.figures() in (ROOT / "README.md").read_text(), again
    assert readme_table.gpu_figures() in (ROOT / "docs" / "backends.md").read_text(), again
    assert readme_table.variants() in (ROOT / "docs" / "gpu-kernels.md").read_text(), again
    if rows := readme_table.gpu_rows():
        run = f"<dc:description>run {rows[0]['run']}</dc:description>"
        assert run in readme_table.CHART.with_suffix(".svg").read_text(), again


def test_every_public_name_is_listed(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    import write_api

    page = write_api.PAGE.read_text(encoding="utf-8")
    assert page == write_api.page(), "run `python docs/write_api.py`"
    for module in (sincere, sincere.functional, sincere.geometry):
        for name in module.__all__:
            assert f"\n- **`{name}`**" in page
    packages = {path.parent.name for path in (ROOT / "src" / "sincere").glob("*/__init__.py")}
    listed = {name.split(".")[1] for name in write_api.PACKAGES if "." in name}
    assert packages - listed == {"cli", "losses"}, "a new package is named in docs/write_api.py"


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"], ids=lambda p: p.name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text()):
        if not target.startswith(("http://", "https://")):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"
