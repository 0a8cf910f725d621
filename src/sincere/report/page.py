"""The page: one HTML file with everything in it, and a policy that lets nothing else in."""

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

from sincere.report.elements import text
from sincere.report.palette import colour_of
from sincere.report.picture import needs_lab
from sincere.report.subject import Subject
from sincere.tables import amount

HERE = Path(__file__).parent
SECTIONS = {
    "overview": "At a glance",
    "map": "Map",
    "accuracy": "Accuracy",
    "similarities": "Target and noise",
    "class_pairs": "Class pairs",
    "confusion": "Confusions",
    "simplex": "Simplex",
    "training": "Training",
    "mistakes": "Worst mistakes",
    "about": "Details",
}


@dataclass(frozen=True)
class Panel:
    """What the page says of one subject."""

    name: str
    sections: tuple[str, ...]  # those of SECTIONS that it has
    body: str


def page(subjects: Sequence[Subject], panels: Sequence[Panel], *, comparison: str, points: str) -> str:
    """Everything in one document."""
    style, script = (HERE / "report.css").read_text("utf-8"), (HERE / "report.js").read_text("utf-8")
    plotly = plotly_script()
    title = subjects[0].name if len(subjects) == 1 else f"{len(subjects)} runs side by side"
    return "".join(
        [
            '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{_policy(plotly, script)}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<meta name="referrer" content="no-referrer"><link rel="icon" href="data:,">',
            f"<title>{text(title)} – sincere report</title><style>{style}</style></head><body>",
            _header(subjects, title),
            _bar(panels, compared=bool(comparison)),
            f"<main>{comparison}",
            *(_panel(panel, number, alone=len(panels) == 1) for number, panel in enumerate(panels)),
            f"</main>{_footer()}",
            f'<div id="tip" role="status" aria-live="polite"></div>{points}',
            f"<script>{plotly}</script><script>{script}</script></body></html>\n",
        ]
    )


def plotly_script() -> str:
    """plotly.js as the installed package brings it."""
    script = needs_lab("plotly.offline").get_plotlyjs()
    return str(script).replace("\r\n", "\n")


def _policy(*scripts: str) -> str:
    """No request to anywhere, and no script but ours: what data smuggled in would not run even if it were markup."""
    hashes = " ".join(
        f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'" for script in scripts
    )
    return (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )


def _header(subjects: Sequence[Subject], title: str) -> str:
    first = subjects[0]
    names = " · ".join(subject.name for subject in subjects)
    classes = sum(count > 0 for count in first.geometry.class_counts)
    what = (
        f"{first.evaluation.data}: {first.counted(first.geometry.samples)}, {amount(classes, 'class', 'classes')}, "
        f"embeddings of {amount(first.geometry.dim, 'dimension')}"
    )
    lead = what if len(subjects) == 1 else f"{names} — {what}"
    return (
        f'<header class="top"><div><p class="brand">sincere report</p><h1>{text(title)}</h1>'
        f'<p class="lead">{text(lead)}</p></div><button id="theme" type="button">Colours: auto</button></header>'
    )


def _bar(panels: Sequence[Panel], *, compared: bool) -> str:
    there = [key for key in SECTIONS if any(key in panel.sections for panel in panels)]
    links = "".join(f'<a href="#r0-{key}" data-goto="{key}">{SECTIONS[key]}</a>' for key in there)
    links = ('<a href="#comparison">Runs side by side</a>' if compared else "") + links
    tabs = ""
    if len(panels) > 1:
        buttons = "".join(
            f'<button role="tab" id="tab{number}" aria-controls="panel{number}" '
            f'aria-selected="{str(number == 0).lower()}" style="--run: {colour_of(number)}">'
            f"{text(panel.name)}</button>"
            for number, panel in enumerate(panels)
        )
        tabs = f'<div class="tabs" role="tablist" aria-label="Runs">{buttons}</div>'
    return f'<div class="bar"><div><nav aria-label="Sections">{links}</nav>{tabs}</div></div>'


def _panel(panel: Panel, number: int, *, alone: bool) -> str:
    if alone:
        return f'<section class="panel" id="panel{number}">{panel.body}</section>'
    return (
        f'<section class="panel" id="panel{number}" role="tabpanel" aria-labelledby="tab{number}">'
        f'<h2 data-section="overview" id="r{number}-overview">{text(panel.name)}</h2>{panel.body}</section>'
    )


def _footer() -> str:
    try:
        version = f" {metadata.version('sincere')}"
    except metadata.PackageNotFoundError:  # run from a checkout that is not installed
        version = ""
    today = datetime.now(UTC).date().isoformat()
    return (
        f"<footer>Written by sincere{version} on {today}. Intervals are 95 % bootstrap intervals over samples. "
        "This page needs no network and asks for nothing.</footer>"
    )
