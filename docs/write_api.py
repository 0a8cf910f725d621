"""Write docs/api.md, a line for every public name, from the signatures and docstrings of the packages.

python docs/write_api.py
"""

import importlib
import inspect
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

HERE = Path(__file__).resolve().parent
PAGE = HERE / "api.md"
# In the order of use; the page that explains a package.
PACKAGES = {
    "sincere": "losses.md",
    "sincere.functional": "losses.md",
    "sincere.data": "data.md",
    "sincere.views": "views-and-encoders.md",
    "sincere.encoders": "views-and-encoders.md",
    "sincere.train": "training.md",
    "sincere.recipes": "recipes.md",
    "sincere.embeddings": "training.md#the-model-afterwards",
    "sincere.nearest": "evaluation.md",
    "sincere.evaluate": "evaluation.md",
    "sincere.estimators": "evaluation.md#estimators-for-scikit-learn",
    "sincere.geometry": "geometry.md",
    "sincere.report": "report.md",
    "sincere.theory": "theory.md",
    "sincere.claims": "claims.md",
    "sincere.bench": "backends.md",
    "sincere.runs": "training.md",
    "sincere.compat.supcontrast": "your-own-loop.md",
    "sincere.compat.metric_learning": "your-own-loop.md",
    "sincere.errors": "losses.md",
}
TORCHS = ("forward", "extra_repr")  # what torch asks of every module
INTRODUCTION = """# Every public name

<!-- Written by docs/write_api.py from signatures and docstrings: edit those, not this page. -->

A line each, in the order in which they are used; `help(NAME)` in Python says all. Names that are not listed here may
change without notice.
"""


def page() -> str:
    modules = {name: importlib.import_module(name) for name in PACKAGES}
    links = " · ".join(f"[{name}](#{name.replace('.', '')})" for name in modules)
    parts = [INTRODUCTION, f"{links}\n"]
    for name, module in modules.items():
        parts.append(f"## {name}\n\n{sentence(module)} [More]({PACKAGES[name]}).\n")
        parts += [f"- {line}" for line in lines(module)]
        parts.append("")
    return "\n".join(parts)


def lines(module: ModuleType) -> Iterator[str]:
    """Of one package: its names in the alphabet, classes and functions with what they take."""
    for name in sorted(public_names(module), key=str.casefold):
        thing = getattr(module, name)
        said = sentence(thing) if callable(thing) else constant(thing)
        methods = [f"`{method}`" for method in public_methods(thing)] if inspect.isclass(thing) else []
        has = f" Has {', '.join(methods)}." if methods else ""
        yield f"**`{name}`**`{arguments(thing)}` {said}{has}".replace("``", "")


def public_names(module: ModuleType) -> list[str]:
    own = [name for name, thing in vars(module).items() if getattr(thing, "__module__", None) == module.__name__]
    return list(getattr(module, "__all__", [name for name in own if not name.startswith("_")]))


def public_methods(kind: type) -> list[str]:
    """Its own; those that it has from another class stand there."""
    methods = property | classmethod | staticmethod | FunctionType
    return sorted(name for name, thing in vars(kind).items() if is_public(name) and isinstance(thing, methods))


def is_public(name: str) -> bool:
    return not name.startswith("_") and name not in TORCHS


def arguments(thing: Any) -> str:
    """Names and defaults, without types; nothing for what cannot be called."""
    protocol = getattr(thing, "_is_protocol", False)
    if protocol or not (inspect.isfunction(thing) or inspect.isclass(thing)):
        return ""
    try:
        signature = inspect.signature(thing)
    except ValueError:
        return ""
    plain = [
        one.replace(annotation=inspect.Parameter.empty, default=shown(one.default))
        for one in signature.parameters.values()
    ]
    return str(inspect.Signature(plain))


class Shown:
    """A default as a reader would write it."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


def shown(default: Any) -> Any:
    if default is inspect.Parameter.empty:
        return default
    text = repr(default)
    if len(text) > 30 or text.startswith("<"):  # functions, objects, sentinels
        text = "…"
    return Shown(text)


def constant(thing: Any) -> str:
    if isinstance(thing, dict):
        return f"has {', '.join(f'`{key}`' for key in thing)}."
    text = repr(thing)
    return f"is a {type(thing).__name__}." if len(text) > 80 or " at 0x" in text else f"is `{text}`."


def sentence(thing: Any) -> str:
    """The first of its docstring."""
    written = textwrap.dedent(inspect.getdoc(thing) or "").strip().partition("\n\n")[0].replace("\n", " ")
    first = re.split(r"(?<=[.?!])\s+(?=[A-Z`])", written, maxsplit=1)[0]
    return first if first.endswith((".", "?", "!")) else f"{first.rstrip(':;,')}."


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
