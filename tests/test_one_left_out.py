"""Intervals over test samples of figures over pairs, against really leaving samples out."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from sklearn.metrics import roc_auc_score

from sincere.claims.auroc import auroc, auroc_left_out
from sincere.claims.one_left_out import separation_left_out, similarities_left_out, with_jackknife
from sincere.embeddings import EmbeddingSet
from sincere.geometry import similarity_by_class_pair, similarity_histograms


def some_set(seed=0):
    """Four classes of unequal size around their own directions."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.tensor([0] * 9 + [1] * 14 + [2] * 5 + [3] * 11)[torch.randperm(39, generator=generator)]
    centres = torch.randn(4, 6, generator=generator)
    rows = centres[labels] + 0.7 * torch.randn(39, 6, generator=generator)
    return EmbeddingSet(rows, labels, ("a", "b", "c", "d"), "four")


def without(found, i):
    return found.subset(torch.tensor([j for j in range(len(found)) if j != i]))


def in_class_order(found):
    """The order of `separation_left_out` and `similarities_left_out`: by class."""
    return torch.sort(found.labels, stable=True).indices.tolist()


def own_class_first(found, chosen):
    """The order of what is of one class: its samples, then all others."""
    order = in_class_order(found)
    return [i for i in order if found.labels[i] == chosen] + [i for i in order if found.labels[i] != chosen]


def test_mean_cosines_without_each_sample():
    found = some_set()
    left_out = similarities_left_out(found)
    for place, i in enumerate(in_class_order(found)):
        pairs = similarity_by_class_pair(without(found, i))
        assert float(left_out["within"][place]) == pytest.approx(pairs.within, abs=1e-6)
        assert float(left_out["between"][place]) == pytest.approx(pairs.between, abs=1e-6)
        assert float(left_out["between − within"][place]) == pytest.approx(pairs.between - pairs.within, abs=1e-6)


@pytest.mark.parametrize("chosen", [0, 2, 3])
def test_separation_of_a_class_without_each_sample(chosen):
    found = some_set()
    left_out = separation_left_out(found, chosen)
    for place, i in enumerate(own_class_first(found, chosen)):
        seen = similarity_histograms(without(found, i))
        assert float(left_out["overlap"][place]) == pytest.approx(seen.overlap_by_class[chosen], abs=1e-12)
        counts = np.array(seen.between_by_class[chosen])
        middles = (np.array(seen.edges[1:]) + np.array(seen.edges[:-1])) / 2
        assert float(left_out["noise"][place]) == pytest.approx((counts * middles).sum() / counts.sum(), abs=1e-12)
        for name, histogram in (("target", seen.within_by_class), ("noise", seen.between_by_class)):
            cosines = np.repeat(middles, histogram[chosen])
            assert float(left_out[name][place]) == pytest.approx(cosines.mean(), abs=1e-12)
            assert float(left_out[f"{name} spread"][place]) == pytest.approx(cosines.std(), abs=1e-9)


def area(found, chosen=None):
    """By scikit-learn, from a list of all pairs."""
    z = F.normalize(found.embeddings.double(), dim=1)
    a, b = torch.triu_indices(len(found), len(found), offset=1)
    same = found.labels[a] == found.labels[b]
    kept = torch.ones_like(same)
    if chosen is not None:
        kept = (found.labels[a] == chosen) | (found.labels[b] == chosen)
    return roc_auc_score(same[kept].numpy(), (z[a] * z[b]).sum(dim=1)[kept].numpy())


def test_the_auroc_of_pairs_is_that_of_all_pairs():
    found = some_set()
    assert auroc(found) == pytest.approx(area(found), abs=1e-9)
    for chosen in range(4):
        assert auroc(found, chosen) == pytest.approx(area(found, chosen), abs=1e-9)
    equal = EmbeddingSet(torch.ones(6, 2), torch.arange(6) % 2, ("a", "b"), "equal")
    assert auroc(equal) == auroc(equal, 1) == 0.5  # ties count half


@pytest.mark.parametrize("chosen", [0, 2, 3])
def test_the_auroc_of_a_class_without_each_sample(chosen):
    found = some_set()
    left_out = auroc_left_out(found, chosen)
    expected = [area(without(found, i), chosen) for i in own_class_first(found, chosen)]
    assert left_out.tolist() == pytest.approx(expected, abs=1e-9)


def test_the_interval_of_a_mean_is_the_textbooks():
    values = torch.randn(1500, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    left_out = (values.sum() - values) / 1499
    found = with_jackknife("mean", float(values.mean()), left_out, paper="0.1")
    half = 1.959964 * float(values.std()) / 1500**0.5
    assert (found.low, found.high) == pytest.approx((float(values.mean()) - half, float(values.mean()) + half))
    assert (found.what, found.n, found.paper) == ("mean", "1,500 test samples × 1 seed", "0.1")


def test_intervals_cover_the_truth_as_often_as_they_say():
    """The mean cosine of pairs, whose samples are not independent of each other: 300 sets of 60 samples."""
    generator = torch.Generator().manual_seed(2)
    centres = torch.tensor([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])

    def draw(n):
        labels = torch.arange(n) % 2
        rows = centres[labels] + 0.6 * torch.randn(n, 3, generator=generator)
        return EmbeddingSet(rows, labels, ("a", "b"), "two")

    truth = similarity_by_class_pair(draw(200_000)).within
    covered = 0
    for _ in range(300):
        found = draw(60)
        interval = with_jackknife(
            "within", similarity_by_class_pair(found).within, similarities_left_out(found)["within"]
        )
        covered += interval.low <= truth <= interval.high
    assert 0.91 <= covered / 300 <= 0.98
