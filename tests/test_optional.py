"""Packages that may be missing, or there and of no use: what is said of them."""

import pytest

from sincere.errors import OptionError
from sincere.optional import bring

THERE = "which is installed and does not import beside torch"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, r'^pictures needs halfway, which is not installed: pip install "sincere\[lab\]"\.$'),
        ("import nowhere_at_all", rf"halfway, {THERE} .*: No module named 'nowhere_at_all'\. Install .*sincere\[lab\]"),
        (
            "raise RuntimeError('built for\\nanother torch.')",
            rf"halfway, {THERE} .*: built for another torch\. Install",
        ),
        ("import math; math.nothing", rf"halfway, {THERE} .*has no attribute 'nothing'\. Install"),
        (
            "try:\n    import nowhere_at_all\nexcept ImportError as e:\n    raise ImportError('see above') from e",
            rf"halfway, {THERE} .*: No module named 'nowhere_at_all'\. Install",
        ),
    ],
)
def test_what_is_said_of_a_package(tmp_path, monkeypatch, content, words):
    if content is not None:
        (tmp_path / "halfway.py").write_text(content)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(OptionError, match=words):
        bring("halfway", extra="lab", purpose="pictures")


def test_a_package_that_works_is_given():
    assert bring("os.path", extra="lab", purpose="anything").join("a", "b") == "a/b"
