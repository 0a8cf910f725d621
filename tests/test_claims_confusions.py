"""Claim 12: whether two confusion matrices differ, and by more than the luck of the test samples."""

import math

import pytest
import torch
import torch.nn.functional as F

from embedded import made
from sincere.claims.confusions import judged_confusions, largest_difference, taken_for
from sincere.evaluate import EvaluationOptions, evaluate


@pytest.mark.parametrize(
    ("more", "alone", "together"),
    [
        (0, "reproduced", "reproduced"),
        (8, "reproduced", "reproduced"),  # 4 points
        (14, "partly", "partly"),  # 7 points, and down to 3.5 by the luck of the samples
        (80, "not reproduced", "partly"),
    ],
)
def test_a_difference_is_told_from_luck(more, alone, together):
    """Two classes of 200: one loss takes so many of the first for the second, the other none."""
    labels = torch.arange(2).repeat_interleave(200)
    right = F.one_hot(labels, 2).double()
    other = right.clone()
    other[:more] = torch.tensor([0.0, 1.0], dtype=torch.float64)
    found = largest_difference(other - right, labels, seeds=3)
    share = more / 200
    assert found.value == pytest.approx(share)
    reach = found.high - found.value
    assert found.low == pytest.approx(max(0.0, share - reach))
    assert reach == pytest.approx(1.96 * math.sqrt(share * (1 - share) / 200), rel=0.15)
    assert found.n == "2² cells, 400 test samples × 3 seeds"
    assert judged_confusions(found, 0.0)[0] == alone
    assert judged_confusions(found, 0.6)[0] == together


def test_the_largest_cell_is_found_wherever_it_is():
    labels = torch.tensor([0] * 10 + [2] * 20)  # of class 1 there is no sample
    differences = torch.zeros(30, 3, dtype=torch.float64)
    differences[:2, 1] = 1.0
    differences[10:16, 0] = -1.0
    assert largest_difference(differences, labels, seeds=1).value == pytest.approx(6 / 20)


def test_samples_are_taken_for_classes_by_shares_of_runs():
    options = [EvaluationOptions(methods=("knn",), draws=100, k=k) for k in (1, 15)]
    found = [evaluate(made(), made(seed=1), options=one) for one in options]
    shares, labels = taken_for(found, "knn"), torch.tensor(found[0].labels)
    assert set(shares.unique().tolist()) == {0.0, 0.5, 1.0}
    mean = sum(one.confusion("knn").double() for one in found) / 2
    for row, cells in enumerate(mean):
        torch.testing.assert_close(shares[labels == row].sum(dim=0), cells)
