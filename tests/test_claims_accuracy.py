"""Claims 11 and 28 on accuracies that are made up: top-1 and top-5 are both judged, and words follow the figures."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.stats
import torch

from sincere.claims import ClaimResult, other_modalities
from sincere.claims.objectives import Side, difference, over_samples
from sincere.claims.record import Measured
from sincere.claims.sincere_accuracy import by_another_probe, judged_accuracies
from sincere.evaluate import Evaluation

SAMPLES = 400
REPRODUCE = Path(__file__).parents[1] / "reproduce"


def side(name, shares, seed):
    """As many runs as there are shares of answers that are right at first; half of the others are among the top 5."""
    draw = np.random.default_rng(seed)
    evaluations = []
    for share in shares:
        first = draw.random(SAMPLES) < share
        among = first | (draw.random(SAMPLES) < 0.5)
        classifier = SimpleNamespace(in_top5=tuple(among.tolist()), top1=SimpleNamespace(value=first.mean()))
        evaluations.append(
            SimpleNamespace(
                correct=lambda method, first=first: torch.tensor(first),
                classifier=lambda method, classifier=classifier: classifier,
                labels=range(SAMPLES),
            )
        )
    return Side(name, tuple(shares), tuple(evaluations))


def answers(one, top):
    read = {1: lambda found: found.correct("linear").numpy(), 5: lambda found: found.classifier("linear").in_top5}
    return np.array([read[top](found) for found in one.evaluations], dtype=float)


@pytest.mark.parametrize("top", [1, 5])
def test_differences_are_of_the_answers_that_were_asked_for(top):
    a, b = side("a", (0.6, 0.7, 0.8), 0), side("b", (0.5, 0.6, 0.5), 1)
    changes = 100 * (answers(a, top) - answers(b, top))
    found = difference(a, b, "linear", top=top)
    assert found.value == pytest.approx(changes.mean())
    by_seed = changes.mean(axis=1)
    low, high = scipy.stats.t.interval(0.95, 2, by_seed.mean(), scipy.stats.sem(by_seed))
    assert (found.low, found.high) == pytest.approx((low, high))  # wider here than over samples
    alone = over_samples(a, b, "linear", top=top)
    reach = 1.96 * changes.mean(axis=0).std() / SAMPLES**0.5
    assert (alone.low, alone.high) == pytest.approx((changes.mean() - reach, changes.mean() + reach), abs=0.15 * reach)


def test_a_difference_in_the_top_5_is_a_difference():
    none, some = Measured("cifar10 top-1, points", 0.2, -0.1, 0.5), Measured("cifar10 top-5, points", 0.2, 0.1, 0.3)
    both_none, both_some = [none, none], [some, some]
    assert judged_accuracies(both_none, both_none)[0] == "reproduced"
    verdict, reason = judged_accuracies([none, some], [none, some])
    assert verdict == "partly"
    assert "It does not in cifar10 top-5." in reason
    assert "in cifar10" not in judged_accuracies(both_none, both_none)[1]
    assert judged_accuracies(both_some, both_some)[0] == "not reproduced"
    verdict, reason = judged_accuracies(both_none, [none, some])  # over seeds the interval is wider
    assert verdict == "reproduced"
    assert "Over test samples alone it does not" in reason


@pytest.mark.parametrize(
    ("low", "high", "words"),
    [(0.03, 0.84, "SINCERE is better"), (-0.84, -0.03, "SupCon is better"), (-0.1, 0.2, "no difference is shown")],
)
def test_another_probe_is_told_and_does_not_judge(low, high, words):
    ours = "top-1 by our linear probe, SINCERE − SupCon, points"
    one = Measured(f"cifar10 {ours}", (low + high) / 2, low, high)
    other = Measured(f"cifar100 {ours}", 0.1, -0.5, 0.7)
    reason = by_another_probe([one, other])
    assert "The judge is the paper's linear classifier; by our own linear probe, which is not judged," in reason
    assert reason.endswith(f" {words} on cifar10 and no difference is shown on cifar100.")
    assert by_another_probe([]) == ""


def test_the_kept_table_has_both_probes():
    """Of the runs that are kept: means of the answers that each classifier got right."""
    kept = ClaimResult.from_json((REPRODUCE / "table-2" / "full.json").read_text(encoding="utf-8"))
    values = {one.what: one.value for one in kept.measured}
    for data in ("cifar10", "cifar100"):
        for probe, words in (("linear_paper", "top-1"), ("linear", "top-1 by our linear probe")):
            top1 = {}
            for loss in ("sincere", "supcon"):
                text = (REPRODUCE / "light-runs" / f"{data}-{loss}-0" / "evaluation.json").read_text(encoding="utf-8")
                top1[loss] = 100 * float(Evaluation.from_json(text).correct(probe).double().mean())
            change = values[f"{data} {words}, SINCERE − SupCon, points"]
            assert change == pytest.approx(top1["sincere"] - top1["supcon"], abs=1e-9)


@pytest.mark.parametrize(("least", "carry"), [(89.0, True), (50.1, True), (49.0, False), (1.3, False)])
def test_losses_carry_over_only_where_they_do(least, carry):
    accuracies = [
        Measured(f"{name}, top-1 %", low + 1, low, low + 2)
        for name, low in (
            ("text SINCERE", 95.0),
            ("text SupCon", least),
            ("sound SINCERE", 95.0),
            ("sound SupCon", 95.0),
        )
    ]
    changes = [Measured("text SINCERE − SupCon", 0.1, -0.5, 0.7), Measured("sound SINCERE − SupCon", 0.9, 0.2, 1.6)]
    told = other_modalities.answer(changes, accuracies)
    assert told.startswith("The losses carry over: SINCERE reaches 96 % on text and 96 % on sound.") == carry
    assert ("do not carry over everywhere" in told) == (not carry)
    assert "0.1 points on text, no difference shown; 0.9 points on sound, a difference" in told
