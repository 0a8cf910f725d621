"""Triton's interpreter without what it does over and over.

A launch replaces Triton's language by functions that numpy computes. Each call of a helper looks through the whole
language once more, to replace what is replaced already: that is half of what an interpreted kernel takes.
"""

import importlib.util
from collections.abc import Callable
from typing import Any


def replace_the_language_once_a_launch() -> None:
    """Once for each of the two modules, `tl` and `tl.core`, that a kernel or its helpers know it by."""
    if importlib.util.find_spec("triton") is None:
        return
    import triton.language as tl
    from triton.runtime import interpreter

    replace = getattr(interpreter, "_patch_lang", None)
    if replace is None:  # a Triton that does it in another way
        return
    known: set[Callable[..., Any]] = set()  # functions of this launch
    replaced: set[Any] = set()  # modules, in this launch

    def once(function: Callable[..., Any]) -> Any:
        if function in known:
            return interpreter._LangPatchScope()
        launch = not known
        known.add(function)
        modules = {module for module in (tl, tl.core) if any(x is module for x in function.__globals__.values())}
        if modules and modules <= replaced:
            return interpreter._LangPatchScope()
        replaced.update(modules)
        scope = replace(function)
        if launch:
            scope.restore = given_back(scope.restore)
        return scope

    def given_back(restore: Callable[[], None]) -> Callable[[], None]:
        def restored() -> None:
            known.clear()
            replaced.clear()
            restore()

        return restored

    interpreter._patch_lang = once
