"""CITATION.cff names this version, and the papers that the losses' own docstrings name."""

import re
from pathlib import Path

from sincere import __version__

ROOT = Path(__file__).parent.parent


def test_version_and_papers():
    cited = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {__version__}\n" in cited
    numbers = re.findall(r"value: arXiv:(\d{4}\.\d{5})", cited)
    assert numbers == re.findall(r"url: https://arxiv\.org/abs/(\d{4}\.\d{5})", cited)
    sources = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "src" / "sincere").rglob("*.py"))
    assert numbers
    assert all(number in sources for number in numbers)
