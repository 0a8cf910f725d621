"""Is the difference real? Two or more evaluations on the same test samples."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import combinations, count
from typing import Literal, TypeAlias

import torch
from torch import Tensor

from sincere.checks import check_choice
from sincere.embeddings.identity import other_samples
from sincere.errors import InputError, OptionError
from sincere.evaluate.accuracy import balanced_accuracy
from sincere.evaluate.bootstrap import estimated, resampled_class_means, resampled_means
from sincere.evaluate.classifiers import LENGTH
from sincere.evaluate.paired import PairedTest, holm, paired_test
from sincere.evaluate.record import Estimate, Evaluation, Setting
from sincere.evaluate.retrieval import as_hits
from sincere.tables import amount, columns

Verdict: TypeAlias = Literal["real", "unclear", "none"]
LEVEL = 0.05
LIMITS = (
    "These intervals allow for the luck of the test samples only: each model was trained once, and training again with "
    "another seed can move a figure by more."
)


@dataclass(frozen=True)
class Difference:
    """The first minus the second, on the same samples."""

    first: str
    second: str
    figure: str  # what is compared, in words
    samples: int
    estimate: Estimate
    test: PairedTest
    p_holm: float  # after Holm's correction; the same as the test's p where it was the only test
    tests: int = 1  # that were corrected together

    @property
    def verdict(self) -> Verdict:
        """Real where the interval leaves out zero and the test agrees; unclear where only one of them says so."""
        outside = self.estimate.low > 0 or self.estimate.high < 0
        return "real" if outside and self.p_holm < LEVEL else "unclear" if outside or self.p_holm < LEVEL else "none"

    def __str__(self) -> str:
        better, worse, low, high = self.first, self.second, self.estimate.low, self.estimate.high
        if self.estimate.value < 0:
            better, worse, low, high = self.second, self.first, -high, -low
        samples = amount(self.samples, "sample")
        if self.estimate == Estimate(0.0, 0.0, 0.0):
            return f"{self.first} and {self.second} agree on every one of {samples} in {self.figure}."
        size = f"{_points(abs(self.estimate.value))} points"
        corrected = f" after Holm's correction for {self.tests} tests" if self.tests > 1 else ""
        p = f"p = {self.p_holm:.2g}" if self.p_holm >= 1e-4 else "p < 0.0001"
        evidence = f"95 % interval {_points(low)} to {_points(high)}, {self.test.name} {p}{corrected}"
        if self.verdict == "real":
            return (
                f"{better} is better than {worse} by {size} of {self.figure}; {evidence}: a real difference, "
                f"more than the luck of these {samples}."
            )
        if self.verdict == "unclear":
            reason = "interval and test disagree"
            if self.test.p < LEVEL <= self.p_holm:
                reason = "it would count if it were the only test, but not as one of so many"
            return (
                f"{better} may be better than {worse} by {size} of {self.figure}; {evidence}: {reason}, so this stays "
                "open. More test samples would decide it."
            )
        ahead = f"{better} is ahead by {size}" if self.estimate.value else size
        return (
            f"No difference to be seen between {self.first} and {self.second} in {self.figure}: {ahead}, {evidence}. "
            f"On {samples}, whatever lies in the interval is possible."
        )


@dataclass(frozen=True)
class Comparison:
    """What `compare` found; print it to read it."""

    names: tuple[str, ...]
    figure: str
    samples: int
    estimates: tuple[Estimate, ...]  # of each model by itself
    differences: tuple[Difference, ...]  # of each pair
    draws: int
    seed: int
    notes: tuple[str, ...] = ()  # in what else the models differ than in themselves

    def __str__(self) -> str:
        rows = [(f"{self.figure}, {amount(self.samples, 'sample')}", "percent (95 % interval)")]
        rows += [(name, str(estimate)) for name, estimate in zip(self.names, self.estimates, strict=True)]
        correction = [f"{self.correction} Comparisons by other figures are not counted."] if self.correction else []
        return "\n".join([*columns(rows), "", *map(str, self.differences), "", *self.notes, *correction, LIMITS])

    @property
    def correction(self) -> str:
        """For what p was corrected and what that promises, in words; nothing where there was one test."""
        tests = self.differences[0].tests
        if tests == 1:
            return ""
        return (
            f"Of many tests some succeed by luck. So p is corrected for all {tests} tests here together, by Holm's "
            "method: the chance that even one difference is called real by luck alone stays below 5 %. An interval is "
            "that of its difference by itself."
        )

    def to_json(self) -> str:
        """Every figure, with the verdicts and sentences."""
        document = asdict(self)
        for written, difference in zip(document["differences"], self.differences, strict=True):
            written |= {"verdict": difference.verdict, "sentence": str(difference)}
        return json.dumps({**document, "correction": self.correction, "limits": LIMITS}, indent=1, ensure_ascii=False)


def compare(
    *evaluations: Evaluation, method: str = "knn", metric: str = "top1", draws: int = 1000, seed: int = 0
) -> Comparison:
    """Paired bootstrap of every pair's difference, with an exact test beside it; p is corrected for all pairs.

    Args:
        evaluations: two or more, of the same test samples in the same order.
        method: a classifier that all of them ran, or `"retrieval"`.
        metric: `"top1"`, `"top5"`, `"balanced"` of a classifier; `"map@r"`, `"r_precision"`, `"recall@K"` of retrieval.
        draws: of the bootstrap.
        seed: of the draws.
    """
    _check_comparable(evaluations)
    names = distinct_names([evaluation.name for evaluation in evaluations])
    figure = figure_in_words(method, metric)
    values = torch.stack([per_sample(evaluation, method, metric) for evaluation in evaluations], dim=1)
    if metric == "balanced":
        labels, classes = torch.tensor(evaluations[0].labels, device="cpu"), len(evaluations[0].class_names)
        means = [balanced_accuracy(column, labels, classes=classes) for column in values.T]
        resampled = resampled_class_means(values, labels, classes=classes, draws=draws, seed=seed).nanmean(dim=2)
        values = values.double() * balancing_weights(labels).unsqueeze(1)
    else:
        means = values.double().mean(dim=0).tolist()
        resampled = resampled_means(values, draws=draws, seed=seed)
    pairs = list(combinations(range(len(names)), 2))
    tests = [paired_test(values[:, a], values[:, b], seed=seed) for a, b in pairs]
    differences = tuple(
        Difference(
            first=names[a],
            second=names[b],
            figure=figure,
            samples=values.shape[0],
            estimate=estimated(means[a] - means[b], resampled[:, a] - resampled[:, b]),
            test=test,
            p_holm=test.p,
        )
        for (a, b), test in zip(pairs, tests, strict=True)
    )
    own = tuple(estimated(mean, column) for mean, column in zip(means, resampled.T, strict=True))
    notes = tuple(_unlike_probes(names, evaluations, method))
    return corrected_together([Comparison(names, figure, values.shape[0], own, differences, draws, seed, notes)])[0]


def corrected_together(found: Sequence[Comparison]) -> list[Comparison]:
    """Comparisons that are read together, as on one page: p is corrected for every test of all of them.

    Whoever looks through several figures for a difference has made as many tests as there are pairs and figures, and
    each figure by itself could be called real by luck. Holm's method holds however much the figures have in common.
    """
    every = [difference for one in found for difference in one.differences]
    corrected = iter(holm([difference.test.p for difference in every]))
    return [
        replace(one, differences=tuple(replace(d, p_holm=next(corrected), tests=len(every)) for d in one.differences))
        for one in found
    ]


def per_sample(found: Evaluation, method: str, metric: str) -> Tensor:
    """The figure of each sample: bool where all are right or wrong, float64 otherwise."""
    if method == "retrieval":
        if found.retrieval is None:
            raise OptionError(f"{found.name!r} was evaluated without retrieval: evaluate it again with it.")
        by_name: dict[str, Sequence[bool] | Sequence[float]] = {
            "map@r": found.retrieval.average_precisions,
            "r_precision": found.retrieval.precisions,
            **{f"recall@{k}": hits for k, hits in found.retrieval.hits.items()},
        }
    else:
        result = found.classifier(method)
        correct = found.correct(method).tolist()
        by_name = {"top1": correct, "balanced": correct}
        if result.in_top5 is not None:
            by_name["top5"] = result.in_top5
    check_choice("metric", metric, by_name)
    values = torch.tensor(by_name[metric], device="cpu")
    values = as_hits(values) if metric.startswith("recall@") else values
    return values if values.dtype == torch.bool else values.double()


def balancing_weights(labels: Tensor) -> Tensor:
    """What one sample counts in balanced accuracy, (n,): with these weights its mean is the mean over classes."""
    counts = torch.bincount(labels)
    return len(labels) / (counts[labels].double() * (counts > 0).sum())


def figure_in_words(method: str, metric: str) -> str:
    """`k-NN top-1 accuracy`, `MAP@R`."""
    words = {
        "top1": "top-1 accuracy",
        "top5": "top-5 accuracy",
        "balanced": "balanced accuracy",
        "map@r": "MAP@R",
        "r_precision": "R-precision",
    }.get(metric, metric)
    titles = {"knn": "k-NN", "class_means": "class-mean", "linear": "linear-probe", "linear_paper": "paper's-probe"}
    return words if method == "retrieval" else f"{titles.get(method, method)} {words}"


def _check_comparable(evaluations: Sequence[Evaluation]) -> None:
    if len(evaluations) < 2:
        several = bool(evaluations) and isinstance(evaluations[0], (list, tuple))
        advice = " Unpack the list: compare(*evaluations)." if several else ""
        raise InputError(f"compare takes two evaluations or more: got {len(evaluations)}.{advice}")
    if strange := [one for one in evaluations if not isinstance(one, Evaluation)]:
        raise InputError(
            "compare takes evaluations, which `evaluate(train, test)` makes of sets of embeddings: got "
            f"{type(strange[0]).__name__}."
        )
    first = evaluations[0]
    for other in evaluations[1:]:
        others = other_samples(first.samples, other.samples)
        if other.class_names == first.class_names and other.labels == first.labels and not others:
            continue
        if len(other.labels) != len(first.labels):
            came = f"{first.name!r} has {len(first.labels)} and {other.name!r} {len(other.labels)}"
        elif other.class_names != first.class_names:
            came = f"{first.name!r} and {other.name!r} have other classes"
        elif other.labels == first.labels:
            came = f"the labels of {first.name!r} and {other.name!r} agree, but their inputs are others"
        else:
            unlike = sum(a != b for a, b in zip(first.labels, other.labels, strict=True))
            came = f"{unlike} of {len(first.labels)} labels of {first.name!r} and {other.name!r} differ"
        raise InputError(
            f"the evaluations must be of the same test samples in the same order: {came}. "
            "Evaluate both on the same data and the same split; data.seed decides how runs split theirs."
        )


def _unlike_probes(names: Sequence[str], evaluations: Sequence[Evaluation], method: str) -> Iterator[str]:
    """Where linear probes were not fitted alike, what that says of the difference."""
    if method not in ("linear", "linear_paper"):
        return
    settings = [evaluation.classifier(method).settings for evaluation in evaluations]
    # The paper's probe has neither, and records of before there was a choice do not name what was fitted on.
    seen = [
        f"the {'unit ' if LENGTH in one else ''}{one['on']} of {one.get('fitted_on', 'the training samples')}"
        for one in settings
    ]
    if len(set(seen)) > 1:
        yield (
            f"Note: the linear probes were fitted on different things ({_by_name(names, seen)}), so part of a "
            "difference may be the probes' and not the models'. Evaluate all of them alike."
        )
    chosen = [_strength(one) for one in settings]
    if len(set(chosen)) > 1:
        yield (
            f"Note: the linear probes' L2 was not chosen in the same way ({_by_name(names, chosen)}), which can make a "
            "difference, too."
        )


def _strength(settings: dict[str, Setting]) -> str:
    """How the strength of L2 came about; two that were given are alike if they are the same."""
    origin = str(settings.get("l2_origin", ""))
    return f"given, {settings['l2']:g}" if origin == "given" else origin


def _by_name(names: Sequence[str], words: Sequence[str]) -> str:
    return "; ".join(f"{name}: {one}" for name, one in zip(names, words, strict=True))


def distinct_names(names: Sequence[str]) -> tuple[str, ...]:
    """Names that can be told apart: a second `run` becomes `run (2)`, or the next number that nobody has."""
    found: list[str] = []
    for name in names:
        numbered = (f"{name} ({number})" for number in count(2))
        free = (one for one in numbered if one not in found and one not in names)
        found.append(next(free) if name in found else name)
    return tuple(found)


def _points(share: float) -> str:
    return f"{round(100 * share, 2) or 0.0:.2f}".replace("-", "−")  # no −0.00
