"""What is in the files that people install from."""

import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
BUILD = "import sys, setuptools.build_meta as b; out = sys.argv[1]; b.build_sdist(out); b.build_wheel(out)"
BESIDE_CODE = ("py.typed", "recipes/measured.json", "report/report.css", "report/report.js")


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A copy of what the build reads, and what it makes of it."""
    pytest.importorskip("setuptools", minversion="77", reason="builds by the project's own backend")
    checkout, out = tmp_path_factory.mktemp("checkout"), tmp_path_factory.mktemp("built")
    for name in ("pyproject.toml", "README.md", "LICENSE", "MANIFEST.in"):
        shutil.copy(ROOT / name, checkout)
    for name in ("src", "tests"):
        shutil.copytree(ROOT / name, checkout / name, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    made = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", BUILD, str(out)], cwd=checkout, capture_output=True, text=True
    )
    assert made.returncode == 0, made.stderr
    return out


def test_the_wheel_holds_the_package_and_nothing_else(built):
    (wheel,) = built.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    modules = {path.relative_to(ROOT / "src").as_posix() for path in (ROOT / "src" / "sincere").rglob("*.py")}
    assert {name for name in names if name.endswith(".py")} == modules
    assert {f"sincere/{name}" for name in BESIDE_CODE} <= {*names}
    assert {name.partition("/")[0].partition("-")[0] for name in names} == {"sincere"}
    assert any(name.endswith("licenses/LICENSE") for name in names)


def test_the_source_archive_has_no_half_of_the_tests(built):
    """setuptools takes tests/test_*.py along by itself, but nothing that they import."""
    (archive,) = built.glob("*.tar.gz")
    with tarfile.open(archive) as opened:
        names = [name.partition("/")[2] for name in opened.getnames()]
    assert not [name for name in names if name.startswith("tests")]
    assert {"pyproject.toml", "README.md", "LICENSE", *(f"src/sincere/{name}" for name in BESIDE_CODE)} <= {*names}
