"""An evaluation as a table and as sentences."""

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from sincere.evaluate.accuracy import ENOUGH
from sincere.tables import amount, columns

if TYPE_CHECKING:
    from sincere.evaluate.record import ClassifierResult, Evaluation


def render(found: "Evaluation") -> str:
    """A table in plain text, percent with 95 % intervals."""
    title = found.data if found.name == found.data else f"{found.name} on {found.data}"
    lines = [
        f"{title}: {found.train_samples:,} training and {amount(len(found.labels), 'test sample')}, "
        f"{amount(len(found.class_names), 'class', 'classes')}; percent, with 95 % intervals from "
        f"{found.draws:,} bootstrap draws"
    ]
    if found.classifiers:
        rows: list[tuple[str, ...]] = [("classifier", "top-1", "balanced", "top-5")]
        for result in found.classifiers:
            top5 = "–" if result.top5 is None else str(result.top5)
            rows.append((result.title, str(result.top1), str(result.balanced), top5))
        lines += ["", *columns(rows)]
    if found.retrieval is not None:
        retrieval = found.retrieval
        rows = [(f"retrieval among {retrieval.gallery}", f"of {amount(len(retrieval.queries), 'query', 'queries')}")]
        rows += [(f"recall@{k}", str(value)) for k, value in retrieval.recall.items()]
        rows += [("R-precision", str(retrieval.r_precision)), ("MAP@R", str(retrieval.map_at_r))]
        lines += ["", *columns(rows)]
    if found.notes:
        lines += ["", *(f"! {note}" for note in found.notes)]
    return "\n".join(lines)


def sentences(found: "Evaluation") -> Iterator[str]:
    """What each classifier got right, what it confuses, and what retrieval finds."""
    for result in found.classifiers:
        yield _accuracy_sentence(found, result)
    if found.classifiers:
        yield from _confusion_sentences(found, found.classifiers[0])
    if found.retrieval is not None:
        nearest = min(found.retrieval.recall)
        share, depth = found.retrieval.recall[nearest], found.retrieval.map_at_r
        yield (
            f"The {'nearest' if nearest == 1 else f'{nearest} nearest'} of {found.retrieval.gallery} "
            f"{'has' if nearest == 1 else 'hold'} the query's class for {100 * share.value:.1f} % of the queries; "
            f"MAP@R is {100 * depth.value:.1f} % (95 % interval {100 * depth.low:.1f} to {100 * depth.high:.1f})."
        )


def _accuracy_sentence(found: "Evaluation", result: "ClassifierResult") -> str:
    n, title = len(found.labels), result.title
    right = sum(p == y for p, y in zip(result.predicted, found.labels, strict=True))
    if right == n:
        # Every draw of a test set without errors is without errors, so its interval has no width.
        bound = 1 - 0.05 ** (1 / n)
        every = "the one test sample" if n == 1 else f"all {n:,} test samples"
        return (
            f"{title}: right on {every}. The bootstrap sees no error to draw; "
            f"the error rate is below {100 * bound:.2g} % with 95 % confidence."
        )
    return (
        f"{title}: right on {right:,} of {amount(n, 'test sample')}, {100 * result.top1.value:.1f} %; "
        f"95 % interval {100 * result.top1.low:.1f} to {100 * result.top1.high:.1f}."
    )


def _confusion_sentences(found: "Evaluation", result: "ClassifierResult") -> Iterator[str]:
    """The three lowest classes and the three most frequent confusions of one classifier."""
    names = found.class_names
    sizes = Counter(found.labels)
    below = [
        (value.value, name, sizes[place])
        for place, (value, name) in enumerate(zip(result.per_class, names, strict=True))
        if value is not None
    ]
    worst = [f"{name} ({_share(share, size)})" for share, name, size in sorted(below)[:3] if share < 1]
    if worst:
        yield f"Hardest classes for {result.title}: {', '.join(worst)}."
    counts: dict[tuple[int, int], int] = {}
    for label, predicted in zip(found.labels, result.predicted, strict=True):
        if label != predicted:
            counts[label, predicted] = counts.get((label, predicted), 0) + 1
    often = sorted(counts.items(), key=lambda item: -item[1])[:3]
    if often:
        shown = ", ".join(f"{names[label]} for {names[taken]} ({count})" for (label, taken), count in often)
        yield f"Most often taken for another: {shown}."


def _share(share: float, size: int) -> str:
    """Per cent, or how many of how few."""
    return f"{100 * share:.1f} %" if size >= ENOUGH else f"{round(share * size)} of {size}"
