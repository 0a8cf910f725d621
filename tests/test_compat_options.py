"""Distance, reducer and regulariser of pytorch-metric-learning: its numbers where we take one, words where not."""

import math

import pytest
import torch
from pytorch_metric_learning import distances, miners, reducers, regularizers
from pytorch_metric_learning import losses as pml

from sincere.compat import metric_learning
from sincere.errors import OptionError

LABELS = torch.tensor([0, 0, 0, 1, 1, 2, 2, 3, -1])
EACH_LOSS = pytest.mark.parametrize("name", ["SupConLoss", "NTXentLoss"])
PAIR_SUMS = {"mean": reducers.MeanReducer, "sum": reducers.SumReducer, "per anchor": reducers.PerAnchorReducer}
OF_BOTH = {
    "cosine": lambda: {"distance": distances.CosineSimilarity()},
    "dot, normalised": lambda: {"distance": distances.DotProductSimilarity()},
    "dot": lambda: {"distance": distances.DotProductSimilarity(normalize_embeddings=False)},
    "regulariser": lambda: {"embedding_regularizer": regularizers.LpRegularizer()},
    "weighed regulariser": lambda: {"embedding_regularizer": regularizers.LpRegularizer(), "embedding_reg_weight": 0.3},
    "no statistics": lambda: {"collect_stats": False},
    **{name: (lambda make=make: {"reducer": make()}) for name, make in PAIR_SUMS.items()},
    "sum per anchor": lambda: {"reducer": reducers.PerAnchorReducer(reducers.SumReducer())},
    "mean of non-zeros per anchor": lambda: {"reducer": reducers.PerAnchorReducer(reducers.AvgNonZeroReducer())},
    "several": lambda: {
        "distance": distances.DotProductSimilarity(normalize_embeddings=False),
        "reducer": reducers.SumReducer(),
        "embedding_regularizer": regularizers.ZeroMeanRegularizer(),
        "embedding_reg_weight": 2,
    },
}
CASES = [(name, option) for name in ("SupConLoss", "NTXentLoss") for option in OF_BOTH]
OF_SUPCON = {
    "mean of non-zeros": lambda: {"reducer": reducers.AvgNonZeroReducer()},
    "above 0": lambda: {"reducer": reducers.ThresholdReducer(low=0)},
}
CASES += [("SupConLoss", option) for option in OF_SUPCON]


def rows(count=9):
    return torch.randn(count, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) * 0.7


def value_and_gradient(loss, z, *arguments):
    z = z.clone().requires_grad_()
    value = loss(z, *arguments)
    return value.detach(), torch.autograd.grad(value, z)[0]


@pytest.mark.parametrize(("name", "option"), CASES)
def test_options_give_the_numbers_of_the_library(name, option):
    given = ({**OF_BOTH, **OF_SUPCON})[option]
    ours, theirs = (getattr(module, name)(temperature=0.3, **given()) for module in (metric_learning, pml))
    z = rows()
    mined = miners.MultiSimilarityMiner()(z, LABELS)
    lonely = torch.arange(9)  # no positive at all
    one_class = torch.zeros(9, dtype=torch.int64)
    for arguments in (
        (LABELS,),
        (LABELS, mined),
        (None, mined),
        (LABELS, None, z.flip(1), LABELS),
        (lonely,),
        (one_class,),
    ):
        found, expected = (value_and_gradient(loss, z, *arguments) for loss in (ours, theirs))
        torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(("name", "option"), CASES)
def test_of_triplets_that_repeat_pairs_the_values_are_the_same(name, option):
    """Not the gradients of PerAnchorReducer: the library's writes a pair's value several times into one place, and each
    time counts in its gradient."""
    given = ({**OF_BOTH, **OF_SUPCON})[option]
    ours, theirs = (getattr(module, name)(temperature=0.3, **given()) for module in (metric_learning, pml))
    mined = miners.TripletMarginMiner(margin=2)(rows(), LABELS)
    assert len(mined[0]) > len(torch.stack(mined[:2]).unique(dim=1).T)
    torch.testing.assert_close(ours(rows(), LABELS, mined), theirs(rows(), LABELS, mined), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("reducer", ["MeanReducer", "AvgNonZeroReducer"])
def test_a_mean_of_each_anchor_counts_a_pair_once_however_often_it_was_mined(reducer):
    """And some pairs more often than others; the negatives in the sum count as often as they were mined."""
    once = (
        torch.tensor([0, 0, 1, 3]),
        torch.tensor([1, 2, 2, 4]),
        torch.tensor([0, 1, 3, 3]),
        torch.tensor([5, 6, 7, 8]),
    )
    mined = tuple(torch.cat([one, one[-1:], one[:1], one[:1]]) for one in once)
    options = {"temperature": 0.3, "reducer": reducers.PerAnchorReducer(getattr(reducers, reducer)())}
    ours, theirs = (module.NTXentLoss(**options)(rows(), None, mined) for module in (metric_learning, pml))
    torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-12)


def test_sincere_takes_them_as_well():
    """It is their NT-Xent with each anchor counted once."""
    for option in ("dot", "regulariser"):
        theirs = pml.NTXentLoss(temperature=0.3, reducer=reducers.PerAnchorReducer(), **OF_BOTH[option]())
        ours = metric_learning.SINCERELoss(temperature=0.3, reducer=reducers.MeanReducer(), **OF_BOTH[option]())
        found, expected = (value_and_gradient(loss, rows(), LABELS) for loss in (ours, theirs))
        torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-12)


def test_a_regulariser_is_part_of_the_module():
    class Learned(torch.nn.Linear):
        def forward(self, z):
            return super().forward(z).square().mean()

    loss = metric_learning.SupConLoss(embedding_regularizer=Learned(6, 1))
    assert {name for name, _ in loss.named_parameters()} == {
        "embedding_regularizer.weight",
        "embedding_regularizer.bias",
    }
    assert loss(rows().float(), LABELS).requires_grad


class Mine(distances.CosineSimilarity):
    """A distance of the caller's own."""


REFUSED = {
    "Lp": ({"distance": distances.LpDistance()}, r"distance must be CosineSimilarity.*got LpDistance.*similarity="),
    "own": ({"distance": Mine()}, r"distance must be.*got Mine.*similarity="),
    "power": ({"distance": distances.CosineSimilarity(power=2)}, r"power=1.*got CosineSimilarity\(power=2\)"),
    "p": ({"distance": distances.DotProductSimilarity(p=1)}, r"p=2.*got DotProductSimilarity\(p=1\)"),
    "a class": ({"distance": distances.CosineSimilarity}, r"distance must be.*got the class CosineSimilarity"),
    "text": ({"distance": "cosine"}, r"distance must be.*got str"),
    "nothing": ({"reducer": reducers.DoNothingReducer()}, r'reducer must be.*got DoNothingReducer.*reduction="none"'),
    "weights": (
        {"reducer": reducers.ClassWeightedReducer(torch.ones(4))},
        r"reducer must be.*got ClassWeightedReducer.*weights=",
    ),
    "threshold": ({"reducer": reducers.ThresholdReducer(low=0.5)}, r"reducer must be.*got ThresholdReducer\(low=0.5"),
    "upper threshold": (
        {"reducer": reducers.ThresholdReducer(low=0, high=2.5)},
        r"reducer must be.*got ThresholdReducer\(low=0, high=2.5\)",
    ),
    "aggregation": (
        {"reducer": reducers.PerAnchorReducer(aggregation_func=lambda x, _: x.sum(dim=1))},
        r"reducer must be.*got PerAnchorReducer with an aggregation_func",
    ),
    "regulariser": ({"embedding_regularizer": 0.1}, "embedding_regularizer must be a module or a function.*got float"),
    "weight": (
        {"embedding_regularizer": regularizers.LpRegularizer(), "embedding_reg_weight": "1"},
        "embedding_reg_weight must be a number: got str",
    ),
    "statistics": ({"collect_stats": True}, r"collect_stats.*sincere\.diagnose"),
    "ours": ({"reduction": "sum"}, r"unknown option 'reduction'.*sincere\.SupConLoss"),
    "slip": ({"distnace": None}, "unknown option 'distnace'. Did you mean 'distance'"),
}


@pytest.mark.parametrize(("options", "message"), REFUSED.values(), ids=REFUSED)
def test_what_is_not_taken_is_refused_in_words(options, message):
    with pytest.raises(OptionError, match=message):
        metric_learning.SupConLoss(**options)


def test_ntxent_cannot_leave_out_single_pairs():
    with pytest.raises(OptionError, match=r"reducer must be.*got AvgNonZeroReducer"):
        metric_learning.NTXentLoss(reducer=reducers.AvgNonZeroReducer())


def test_an_anchor_whose_loss_is_zero_is_left_out_of_the_mean_of_non_zeros():
    """Anchor 0 was mined with its positive alone, so its fraction is 1; anchor 2 has a negative too."""
    z = torch.randn(5, 3, dtype=torch.float64)
    mined = tuple(torch.tensor(indices) for indices in ([0, 2], [1, 3], [2], [4]))
    unit = torch.nn.functional.normalize(z, dim=1)
    positive, negative = (math.exp(float(unit[2] @ unit[other]) / 0.1) for other in (3, 4))
    expected = -math.log(positive / (positive + negative))
    for loss in (metric_learning.SupConLoss(temperature=0.1), pml.SupConLoss(temperature=0.1)):
        assert loss(z, None, mined).item() == pytest.approx(expected, rel=1e-12)
