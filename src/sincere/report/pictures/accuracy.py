"""Accuracy with its interval, one line a figure."""

import torch

from sincere.evaluate import Estimate, Evaluation
from sincere.report.palette import COLOURS, FAINT
from sincere.report.picture import Picture, Table, in_style, new_figure
from sincere.report.subject import Subject
from sincere.report.verdict import Grade, Verdict, graded, percent


def figures_of(found: Evaluation) -> dict[tuple[str, str], tuple[str, Estimate]]:
    """Every figure of an evaluation, by method and metric, with its title."""
    rows: dict[tuple[str, str], tuple[str, Estimate]] = {}
    for result in found.classifiers:
        rows[result.method, "top1"] = (result.title, result.top1)
        rows[result.method, "balanced"] = (f"{result.title}, balanced", result.balanced)
        if result.top5 is not None:
            rows[result.method, "top5"] = (f"{result.title}, top-5", result.top5)
    if found.retrieval is not None:
        for k, value in found.retrieval.recall.items():
            rows["retrieval", f"recall@{k}"] = (f"recall@{k}", value)
        rows["retrieval", "r_precision"] = ("R-precision", found.retrieval.r_precision)
        rows["retrieval", "map@r"] = ("MAP@R", found.retrieval.map_at_r)
    return rows


LONGEST = 30  # signs of a title in one line
SHOWN = ("top1", "recall@1", "map@r")  # one dot a method; the rest is in the table


@in_style
def accuracy_picture(subject: Subject) -> Picture | None:
    """A dot and its interval for each classifier and for retrieval, with guessing a class as a line."""
    every = figures_of(subject.evaluation)
    rows = {key: row for key, row in every.items() if key[1] in SHOWN}
    if not rows:
        return None
    guess = guessing(subject.evaluation)
    figure, axes = new_figure(5.6, 1.15 + 0.36 * len(rows))
    places = range(len(rows) - 1, -1, -1)
    for place, (_, value) in zip(places, rows.values(), strict=True):
        axes.plot([100 * value.low, 100 * value.high], [place, place], color=COLOURS[0], linewidth=3, alpha=0.45)
        axes.plot([100 * value.value], [place], "o", color=COLOURS[0], markersize=7)
        text = f"{100 * value.value:.1f}"
        axes.annotate(text, (100 * value.value, place), (0, 7), textcoords="offset points", ha="center", fontsize=8.5)
    titles = [t if len(t) <= LONGEST else t.replace(" (k = ", "\n(k = ") for t, _ in rows.values()]
    axes.set_yticks(list(places), titles)
    lowest = min(value.low for _, value in rows.values())
    left = 0.0 if lowest < 0.5 else 100 * max(0.0, lowest - (1 - lowest) - 0.05)
    top, classifiers = len(rows) - 0.2, sum(metric == "top1" for _, metric in rows)
    if classifiers and 100 * guess >= left:  # retrieval guesses no class
        axes.vlines(100 * guess, top - classifiers - 0.3, top, color=FAINT, linestyle="--", linewidth=1)
        axes.annotate("guessing", (100 * guess, top), (0, 3), textcoords="offset points", fontsize=8.5)
    axes.set_xlim(left, 100 + (100 - left) * 0.04)
    axes.set_ylim(-0.6, top)
    axes.set_xlabel(f"per cent of {subject.counted(len(subject.evaluation.labels))}, with 95 % interval")
    axes.grid(visible=False, axis="y")
    return Picture(
        name="accuracy",
        title="Accuracy",
        verdict=_verdict(subject, guess),
        alt="Accuracies and retrieval figures as dots with 95 % intervals: "
        + "; ".join(f"{title} {value}" for title, value in rows.values()),
        figure=figure,
        table=Table(
            ("figure", "value", "low", "high"),
            tuple((title, value.value, value.low, value.high) for title, value in every.values()),
        ),
    )


def guessing(found: Evaluation) -> float:
    """The share that guessing the most frequent class would get right."""
    counts = [0] * len(found.class_names)
    for label in found.labels:
        counts[label] += 1
    return max(counts) / len(found.labels)


def accuracy_grade(subject: Subject) -> Grade:
    """By how much of the error of guessing is left: a tenth is good, half is mixed.

    Of samples that can be right at all: a class without another sample is no fault of the embeddings.
    """
    judged = subject.attainable
    labels = subject.test.labels[judged]
    right = subject.evaluation.correct(subject.evaluation.classifiers[0].method)[judged]
    left, guessed = int((~right).sum()), len(labels) - int(torch.bincount(labels).max())
    return graded(left / guessed, good=0.1, mixed=0.5)


def _verdict(subject: Subject, guess: float) -> Verdict:
    found = subject.evaluation
    if not found.classifiers:
        return Verdict("open", "No classifier was run; the figures are of retrieval.")
    if guess == 1:
        return Verdict("open", "There is one class only, so every guess is right and accuracy says nothing.")
    first, hopeless = found.classifiers[0], int((~subject.attainable).sum())
    if len(set(subject.test.labels[subject.attainable].tolist())) < 2:
        who = "other" if subject.alone else "training"
        return Verdict("open", f"Fewer than two classes have {who} samples to be judged by, so accuracy says nothing.")
    grade = accuracy_grade(subject)
    end = {
        "good": "a good embedding for these classes",
        "mixed": "much is right, and much is left",
        "poor": _against_guessing(first.top1, guess),
    }[grade]
    n = len(found.labels)
    share = f"{percent(first.top1.value)} of {subject.counted(n)}"
    interval = f"95 % interval {100 * first.top1.low:.1f} to {100 * first.top1.high:.1f}"
    if first.top1.value == 1:  # every draw of samples without a mistake is without one
        share, interval = (
            f"all {subject.counted(n)}",
            f"errors below {percent(1 - 0.05 ** (1 / n))} with 95 % confidence",
        )
    return Verdict(
        grade,
        f"{first.title} is right on {share} ({interval}), where always guessing the most "
        f"frequent class gives {percent(guess)}: {end}.{_left_out(subject, hopeless)}",
    )


def _against_guessing(found: Estimate, guess: float) -> str:
    if found.low > guess:
        return "better than guessing, with most of its errors left"
    return "worse than guessing" if found.high < guess else "not to be told from guessing"


def _left_out(subject: Subject, hopeless: int) -> str:
    """Whom the grade leaves out."""
    if not hopeless:
        return ""
    where = "other" if subject.alone else "training"
    return f" The grade leaves out {subject.counted(hopeless)} whose class has no {where} sample."
