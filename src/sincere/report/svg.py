"""matplotlib's SVG → SVG that can stand in a page: it follows the page's colours and font, and its ids are its own."""

import re
from html import escape

from sincere.report.palette import FAINT, GRID, INK, PAPER

VARIABLES = {INK: "var(--ink)", FAINT: "var(--faint)", GRID: "var(--grid)", PAPER: "none"}


def inlined(svg: str, *, prefix: str, label: str) -> str:
    """The `<svg>` element alone, with the page's colours, ids that begin with `prefix`, and a label for screen readers.

    >>> drawn = '<svg width="9pt" height="9pt" viewBox="0 0 9 9"><g id="a" style="fill: #1b1e23"/></svg>'
    >>> inlined(drawn, prefix="p", label="a < b")
    '<svg role="img" aria-label="a &lt; b" viewBox="0 0 9 9"><g id="p-a" style="fill: var(--ink)"/></svg>'
    """
    body = svg[svg.index("<svg") :].strip()
    body = re.sub(r"<metadata>.*?</metadata>\s*", "", body, flags=re.DOTALL)
    body = re.sub(r"<title>.*?</title>\s*", "", body, flags=re.DOTALL)  # browsers show it as a tooltip of their own
    head, rest = body.split(">", 1)
    head = re.sub(r'\s(?:width|height|version|xmlns(?::\w+)?)="[^"]*"', "", head)
    head = head.replace("<svg", f'<svg role="img" aria-label="{escape(label, quote=True)}"', 1)
    rest = re.sub(r'\bid="([^"]+)"', rf'id="{prefix}-\1"', rest)
    rest = re.sub(r'(href="#|url\(#)', rf"\g<1>{prefix}-", rest).replace("xlink:href", "href")
    for colour, variable in VARIABLES.items():
        rest = rest.replace(colour, variable)
    # One family for the page and its pictures; sizes stay, so that nothing moves.
    rest = re.sub(r"(font-family: |font: [^;\"']*?)'[^;\"]*", r"\1var(--font)", rest)
    return f"{head}>{rest}"
