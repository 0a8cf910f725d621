"""Figures of samples with several labels, against scikit-learn and loops."""

from fractions import Fraction

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score, f1_score

from sincere.errors import InputError, OptionError
from sincere.evaluate import evaluate_multi_hot
from sincere.evaluate.bootstrap import resampled_counts
from sincere.evaluate.label_probe import fit_labels, fit_labels_with_folds
from sincere.evaluate.linear import STRENGTHS
from sincere.evaluate.neighbour_shares import neighbour_shares
from sincere.evaluate.ranking import Ranking

GENERATOR = np.random.default_rng(0)
KNOWN, NEW = GENERATOR.normal(size=(150, 8)).astype("float32"), GENERATOR.normal(size=(60, 8)).astype("float32")
DIRECTIONS = GENERATOR.normal(size=(8, 4))


def carried(rows):
    return (rows @ DIRECTIONS + GENERATOR.normal(size=(len(rows), 4)) > 1).astype(int)


KNOWN_HOT, HOT = carried(KNOWN), carried(NEW)


def standardised(rows):
    return (rows - KNOWN.mean(0, dtype=float)) / KNOWN.std(0, dtype=float)


def sklearn_scores(l2):
    fits = [LogisticRegression(C=1 / (l2 * len(KNOWN)), tol=1e-8).fit(standardised(KNOWN), y) for y in KNOWN_HOT.T]
    return np.stack([one.decision_function(standardised(NEW)) for one in fits], axis=1)


def test_average_precision_is_scikit_learns_with_ties_and_in_every_draw():
    for _ in range(100):
        n = GENERATOR.integers(1, 30)
        scores, relevant, counts = (GENERATOR.integers(0, most, size) for most, size in ((8, n), (2, n), (4, (3, n))))
        ranking = Ranking(torch.tensor(scores), torch.tensor(relevant))
        found = [ranking.average_precision(), *ranking.average_precision(torch.tensor(counts).double()).split(1)]
        for one, drawn in zip(found, [np.ones(n, int), *counts], strict=True):
            places = np.repeat(np.arange(n), drawn)
            wanted = average_precision_score(relevant[places], scores[places]) if relevant[places].any() else np.nan
            assert one.item() == pytest.approx(wanted, nan_ok=True)


@pytest.mark.parametrize("l2", [1.0, 0.01])
def test_probe_has_the_minimum_of_scikit_learns(l2):
    fitted = fit_labels(torch.tensor(KNOWN), torch.tensor(KNOWN_HOT), l2=l2)
    np.testing.assert_allclose(fitted.scores(torch.tensor(NEW)).numpy(), sklearn_scores(l2), atol=2e-3)


def test_strength_is_that_of_least_held_out_cross_entropy():
    """Every strength by itself, without the fits before it and without the end of the search."""
    rows, hot = torch.tensor(KNOWN), torch.tensor(KNOWN_HOT)
    _, chosen = fit_labels_with_folds(rows, hot, seed=3)
    alone = {l2: fit_labels_with_folds(rows, hot, seed=3, strengths=(l2,)) for l2 in STRENGTHS}
    assert {l2: found[1] for l2, found in alone.items()} == {l2: l2 for l2 in STRENGTHS}
    from sincere.evaluate.linear import stratified_folds

    fold = stratified_folds(torch.zeros(len(rows), dtype=torch.int64), 3, seed=3)
    losses = {}
    for l2 in STRENGTHS:
        losses[l2] = 0.0
        for held in range(3):
            scores = fit_labels(rows[fold != held], hot[fold != held], l2=l2).scores(rows[fold == held]).double()
            losses[l2] += np.logaddexp(0, np.where(hot[fold == held], -scores, scores)).sum()
    assert chosen == min(losses, key=losses.get)


def test_figures_against_scikit_learn_and_loops():
    found = evaluate_multi_hot(NEW, HOT, KNOWN, KNOWN_HOT, label_names="abcd", k=5, l2=0.1)
    scores = sklearn_scores(0.1)
    wanted = [average_precision_score(HOT[:, label], scores[:, label]) for label in range(4)]
    assert [one.linear.value for one in found.labels] == pytest.approx(wanted)
    assert found.linear_map.value == pytest.approx(np.mean(wanted))
    assert found.macro_f1.value == pytest.approx(f1_score(HOT, scores > 0, average="macro"))
    assert found.micro_f1.value == pytest.approx(f1_score(HOT, scores > 0, average="micro"))
    votes, shared = np.zeros(HOT.shape), []
    for place, row in enumerate(NEW):
        order = np.argsort(-(KNOWN @ row) / np.linalg.norm(KNOWN, axis=1))
        votes[place] = KNOWN_HOT[order[:5]].sum(0)
        if HOT[place].any():
            other = KNOWN_HOT[order[0]]
            shared.append((HOT[place] & other).sum() / (HOT[place] | other).sum())
    by_votes = [average_precision_score(HOT[:, label], votes[:, label]) for label in range(4)]
    assert [one.knn.value for one in found.labels] == pytest.approx(by_votes)
    assert found.neighbour_jaccard.value == pytest.approx(np.mean(shared))
    assert [(one.name, one.samples, one.references) for one in found.labels] == [
        (name, HOT[:, label].sum(), KNOWN_HOT[:, label].sum()) for label, name in enumerate("abcd")
    ]
    table = str(found)
    assert "150 references, 60 samples" in table
    listed = [line[0] for line in table.split("lowest first\n")[1].splitlines()]
    assert listed == ["abcd"[label] for label in np.argsort(wanted)]
    assert f"{100 * found.linear_map.value:.2f}" in table


def test_intervals_are_those_of_the_figures_in_each_draw():
    found = evaluate_multi_hot(NEW, HOT, KNOWN, KNOWN_HOT, l2=0.1, draws=200, seed=5)
    counts = torch.cat(list(resampled_counts(len(NEW), draws=200, seed=5))).long().numpy()
    scores = sklearn_scores(0.1)
    drawn = [np.repeat(np.arange(len(NEW)), one) for one in counts]
    maps = [np.mean([average_precision_score(HOT[some, one], scores[some, one]) for one in range(4)]) for some in drawn]
    f1 = [f1_score(HOT[some], scores[some] > 0, average="micro") for some in drawn]
    for estimate, values in ((found.linear_map, maps), (found.micro_f1, f1)):
        assert (estimate.low, estimate.high) == pytest.approx(tuple(np.quantile(values, [0.025, 0.975])))
    nearest = KNOWN_HOT[(NEW @ (KNOWN / np.linalg.norm(KNOWN, axis=1, keepdims=True)).T).argmax(1)]
    shared = ((HOT & nearest).sum(1) / np.maximum((HOT | nearest).sum(1), 1))[HOT.any(1)]  # of those with any label
    counts = torch.cat(list(resampled_counts(len(shared), draws=200, seed=5))).numpy()
    low_high = found.neighbour_jaccard.low, found.neighbour_jaccard.high
    assert low_high == pytest.approx(tuple(np.quantile(counts @ shared / len(shared), [0.025, 0.975])))


def test_a_draw_without_a_rare_label_is_the_mean_of_the_others():
    hot, scores = HOT.copy(), sklearn_scores(0.1)
    hot[:, 0] = 0
    hot[np.argmin(scores[:, 0]), 0] = 1  # one sample, and the least likely: its label lowers what it is part of
    found = evaluate_multi_hot(NEW, hot, KNOWN, KNOWN_HOT, l2=0.1, draws=100, seed=5)
    maps = []
    for counts in torch.cat(list(resampled_counts(len(NEW), draws=100, seed=5))).long().numpy():
        some = np.repeat(np.arange(len(NEW)), counts)
        there = hot[some].any(axis=0)
        maps.append(average_precision_score(hot[some][:, there], scores[some][:, there], average="macro"))
    assert (found.linear_map.low, found.linear_map.high) == pytest.approx(tuple(np.quantile(maps, [0.025, 0.975])))


def test_equally_near_references_share_and_their_order_is_nothing():
    gallery = torch.tensor([[1.0, 0.0]] * 3 + [[0.0, 1.0], [-1.0, 0.0]])
    ((_, shares),) = neighbour_shares(torch.tensor([[2.0, 0.1]]), gallery, k=2)
    assert shares.tolist() == [[pytest.approx(2 / 3)] * 3 + [0.0, 0.0]]
    ((_, shares),) = neighbour_shares(torch.tensor([[2.0, 0.1]]), gallery, k=4)
    assert shares.tolist() == [[1.0, 1.0, 1.0, 1.0, 0.0]]
    signs, new = np.sign(KNOWN[:, :3]), np.sign(NEW[:, :3])  # eight directions, with many copies
    order = GENERATOR.permutation(len(KNOWN))
    one = evaluate_multi_hot(new, HOT, signs, KNOWN_HOT, l2=1.0)
    other = evaluate_multi_hot(new, HOT, signs[order], KNOWN_HOT[order], l2=1.0)
    assert one.knn_map.value == pytest.approx(other.knn_map.value, abs=1e-12)
    assert one.neighbour_jaccard.value == pytest.approx(other.neighbour_jaccard.value, abs=1e-6)


def test_samples_with_equal_votes_tie_whatever_the_order_of_the_references():
    """Shares are thirds and sevenths, whose float32 sums depend on the order; here fractions, and scikit-learn."""
    for _ in range(10):
        known, new = np.sign(GENERATOR.normal(size=(150, 3))), np.sign(GENERATOR.normal(size=(60, 3)))
        orders = np.arange(150), GENERATOR.permutation(150)
        one, other = (evaluate_multi_hot(new, HOT, known[o], KNOWN_HOT[o], k=17, l2=1.0, draws=100) for o in orders)
        assert one.knn_map == other.knn_map
        places = np.zeros(HOT.shape)
        for label in range(4):
            votes = [fraction_of_votes(row, known, KNOWN_HOT[:, label], 17) for row in new]
            places[:, label] = [sorted(set(votes)).index(vote) for vote in votes]
        wanted = [average_precision_score(HOT[:, label], places[:, label]) for label in range(4)]
        assert [found.knn.value for found in one.labels] == pytest.approx(wanted, abs=1e-9)


def fraction_of_votes(row, known, hot, k):
    """The k nearest that carry a label, among equally long rows of whole numbers; the equally near ones share."""
    cosines = (known @ row).astype(int)
    last = np.sort(cosines)[-k]
    nearer, tied = cosines > last, cosines == last
    return int(hot[nearer].sum()) + Fraction(int((k - nearer.sum()) * hot[tied].sum()), int(tied.sum()))


@pytest.mark.parametrize(("references", "k"), [(12, 12), (150, 20)])
def test_neighbours_are_twenty_or_all_of_fewer(references, k):
    assert evaluate_multi_hot(NEW, HOT, KNOWN[:references], KNOWN_HOT[:references], l2=1.0, draws=100).k == k


def test_a_label_that_no_sample_carries_is_wrong_to_be_said():
    hot = HOT.copy()
    hot[:, 0] = 0
    said = sklearn_scores(0.1) > 0
    assert said[:, 0].any()
    found = evaluate_multi_hot(NEW, hot, KNOWN, KNOWN_HOT, l2=0.1, draws=100)
    assert found.micro_f1.value == pytest.approx(f1_score(hot, said, average="micro"))
    assert found.macro_f1.value == pytest.approx(f1_score(hot[:, 1:], said[:, 1:], average="macro"))


def test_nothing_is_chosen_on_the_samples_and_unlabelled_ones_are_left_out():
    chosen = evaluate_multi_hot(NEW, HOT, KNOWN, KNOWN_HOT)
    assert evaluate_multi_hot(NEW, 1 - HOT, KNOWN, KNOWN_HOT).l2 == chosen.l2
    unlabelled = np.array([[1, 0, -1, 1]])  # one negative entry is enough
    more = evaluate_multi_hot(
        np.r_[NEW, NEW[:1]], np.r_[HOT, unlabelled], np.r_[KNOWN, KNOWN[:1]], np.r_[KNOWN_HOT, unlabelled]
    )
    assert more == chosen


def test_labels_that_nobody_carries_are_told():
    hot, known = HOT.copy(), KNOWN_HOT.copy()
    hot[:, 0], known[:, :2] = 0, 0
    found = evaluate_multi_hot(NEW, hot, KNOWN, known, label_names=["ash", "elm", "fir", "oak"], draws=100)
    assert [one.name for one in found.labels] == ["elm", "fir", "oak"]
    assert found.labels[0].knn.value == pytest.approx(hot[:, 1].mean())  # nothing tells it: all tie
    assert found.notes == (
        "No sample carries 'ash': no figures of it.",
        "No reference carries 'elm': nothing can tell it.",
    )
    hot[:, 2] = 0
    assert (
        "2 labels, such as 'ash'"
        in evaluate_multi_hot(NEW, hot, KNOWN, known, label_names=["ash", "elm", "fir", "oak"], draws=100).notes[0]
    )


@pytest.mark.parametrize(
    ("arguments", "options", "error", "said"),
    [
        ((NEW, HOT[:, 0], KNOWN, KNOWN_HOT), {}, InputError, "0 or 1 for each label of each sample, \\(60, labels\\)"),
        ((NEW, 2 * HOT, KNOWN, KNOWN_HOT), {}, InputError, "labels must be 0 or 1: got 2"),
        ((NEW, np.where(HOT, 1, np.nan), KNOWN, KNOWN_HOT), {}, InputError, "labels must be 0 or 1: got nan"),
        ((NEW, HOT, KNOWN, KNOWN_HOT[:, :3]), {}, InputError, "got embeddings of 8 and 8 dimensions, 4 and 3 labels"),
        ((NEW[:, :3], HOT, KNOWN, KNOWN_HOT), {}, InputError, "got embeddings of 3 and 8 dimensions, 4 and 4 labels"),
        ((NEW, HOT * 0, KNOWN, KNOWN_HOT), {}, InputError, "must carry a label"),
        ((NEW, HOT, KNOWN, KNOWN_HOT * 0), {}, InputError, "must carry a label"),
        ((NEW[:, None], HOT, KNOWN, KNOWN_HOT), {}, InputError, r"pass one, \[:, 0\]"),
        ((NEW * np.nan, HOT, KNOWN, KNOWN_HOT), {}, InputError, "embeddings"),
        ((NEW, HOT, KNOWN, KNOWN_HOT), {"label_names": "abc"}, OptionError, "each of 4 labels: got 3"),
        ((NEW, HOT, KNOWN, KNOWN_HOT), {"k": 151}, OptionError, "150 references: got 151"),
        ((NEW, HOT, KNOWN, KNOWN_HOT), {"l2": 0}, OptionError, "l2 must be positive"),
        ((NEW, HOT, KNOWN, KNOWN_HOT), {"l2": np.inf}, OptionError, "l2 must be positive and finite: got inf"),
    ],
)
def test_what_does_not_fit_is_refused(arguments, options, error, said):
    with pytest.raises(error, match=said):
        evaluate_multi_hot(*arguments, **options)
