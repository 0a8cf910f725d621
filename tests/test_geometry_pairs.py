"""Everything that looks at pairs: against loops over all pairs, in float64, and against NumPy and scikit-learn."""

import math
from threading import Barrier

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics.pairwise import cosine_similarity

from embedded import cosines, made, pairs, simplex, unit
from sincere.embeddings import EmbeddingSet
from sincere.errors import InputError, OptionError
from sincere.geometry import (
    alignment,
    class_margins,
    class_means,
    describe,
    similarity_by_class_pair,
    similarity_histograms,
    uniformity,
)
from sincere.geometry.directions import directions_of
from sincere.geometry.margins import sample_margins
from sincere.geometry.pair_pass import listen
from sincere.losses.backends import class_layout


@pytest.fixture(params=[4, 16, 512], ids=["classes in pieces", "few classes a block", "one block"])
def block(request, monkeypatch):
    monkeypatch.setattr(class_layout, "BLOCK", request.param)


@pytest.fixture(params=[1, 3], ids=["one thread", "three threads"])
def threads(request):
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield
    assert torch.get_num_threads() == request.param
    torch.set_num_threads(before)


def uneven():
    """Classes of 40, 13, 5, 1 and 0 samples, a duplicate and a zero vector among them."""
    counts = (40, 13, 5, 1, 0)
    labels = torch.tensor([number for number, count in enumerate(counts) for _ in range(count)])
    rows = torch.randn(len(labels), 4, generator=torch.Generator().manual_seed(3)) + labels.unsqueeze(1) * 0.3
    rows[7] = 3 * rows[2]
    rows[45] = 0
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(1))
    return EmbeddingSet(rows[order].contiguous(), labels[order], tuple("abcde"), "uneven")


SETS = {"clusters": made, "uneven": uneven, "one class": lambda: made(classes=1), "loose": lambda: made(noise=5.0)}


@pytest.fixture(params=SETS)
def found(request):
    return SETS[request.param]()


def test_means_by_class_pair_are_those_of_the_cells(found):
    similarity = similarity_by_class_pair(found)
    matrix = cosine_similarity(found.embeddings.double().numpy())
    labels = found.labels.numpy()
    off = ~np.eye(len(labels), dtype=bool)
    for a in range(len(found.class_names)):
        for b in range(len(found.class_names)):
            cell = matrix[np.ix_(labels == a, labels == b)][off[np.ix_(labels == a, labels == b)]]
            assert similarity.counts[a][b] == (cell.size // 2 if a == b else cell.size)
            if cell.size:
                assert similarity.means[a][b] == pytest.approx(cell.mean(), abs=1e-12)
            else:
                assert similarity.means[a][b] is None
    within, between = cosines(found)
    assert similarity.within == pytest.approx(within.mean(), abs=1e-12)
    assert (similarity.between is None) == (between.size == 0)
    if between.size:
        assert similarity.between == pytest.approx(between.mean(), abs=1e-12)


def near_an_edge(values, edges):
    return int((np.abs(values[:, None] - edges).min(axis=1) < 1e-6).sum()) if values.size else 0


@pytest.mark.parametrize("bins", [7, 255, 256])
def test_histograms_count_every_pair(found, block, threads, bins):
    histograms = similarity_histograms(found, bins=bins)
    edges = np.linspace(-1, 1, bins + 1)
    np.testing.assert_allclose(histograms.edges, edges, atol=1e-15)
    for counts, values in zip((histograms.within, histograms.between), cosines(found), strict=True):
        truth = np.histogram(np.clip(values, -1, 1), edges)[0]
        assert sum(counts) == values.size
        # float32 may put a pair that lies on an edge into the bin beside it
        assert np.abs(np.array(counts) - truth).sum() <= 2 * near_an_edge(values, edges)
    assert histograms.pairs_within == sum(histograms.within)
    assert histograms.pairs_between == sum(histograms.between)
    assert histograms.sampled is None


@pytest.mark.parametrize("bins", [2, 20, 100, 256])
def test_the_middle_edge_is_zero(bins):
    edges = similarity_histograms(made(n=20), bins=bins).edges
    assert (edges[0], edges[bins // 2], edges[-1]) == (-1, 0, 1)
    assert edges == tuple(-edge for edge in reversed(edges))


def test_histograms_by_class(found, block, threads):
    histograms = similarity_histograms(found, bins=20)
    labels, edges = found.labels.tolist(), np.linspace(-1, 1, 21)
    for number in range(len(found.class_names)):
        mine = [(cos, same) for i, j, cos, same in pairs(found) if number in (labels[i], labels[j])]
        rows = histograms.within_by_class[number], histograms.between_by_class[number]
        truths = []
        for counts, wanted in zip(rows, (True, False), strict=True):
            values = np.array([cos for cos, same in mine if same is wanted])
            truths.append(np.histogram(np.clip(values, -1, 1), edges)[0])
            assert np.abs(np.array(counts) - truths[-1]).sum() <= 2 * near_an_edge(values, edges)
        if truths[0].sum() and truths[1].sum():
            counts = [np.array(row) / sum(row) for row in rows]
            shared = np.minimum(*counts).sum()
            assert histograms.overlap_by_class[number] == pytest.approx(shared, abs=1e-12)
        else:
            assert histograms.overlap_by_class[number] is None


def test_overlap_means_and_medians():
    found = made(n=150)
    histograms, (within, between) = similarity_histograms(found, bins=200), cosines(found)
    assert histograms.mean_within == pytest.approx(within.mean(), abs=1e-12)
    assert histograms.mean_between == pytest.approx(between.mean(), abs=1e-12)
    assert histograms.median_within == pytest.approx(np.median(within), abs=0.01)  # a bin's width
    assert histograms.median_between == pytest.approx(np.median(between), abs=0.01)
    shares = [np.histogram(values, np.linspace(-1, 1, 201))[0] / values.size for values in (within, between)]
    assert histograms.overlap == pytest.approx(np.minimum(*shares).sum(), abs=1e-3)
    apart = similarity_histograms(simplex())
    assert apart.overlap == 0
    assert apart.within[-1] == apart.pairs_within  # cosine 1 is in the last bin, whatever rounding does


def test_a_sample_is_drawn_only_when_asked_and_said():
    found = made(n=120)
    drawn = similarity_histograms(found, sample=30, seed=1)
    assert drawn.sampled == 30
    assert drawn.pairs_within + drawn.pairs_between == 30 * 29 // 2
    assert drawn == similarity_histograms(found, sample=30, seed=1)
    assert drawn != similarity_histograms(found, sample=30, seed=2)
    assert similarity_histograms(found, sample=500) == similarity_histograms(found)


@pytest.mark.parametrize("power", [1, 2, 3.5])
def test_alignment_is_the_mean_over_pairs_of_a_class(found, block, threads, power):
    rows, labels = unit(found), found.labels.tolist()
    distances = [
        np.linalg.norm(rows[i] - rows[j]) ** power
        for i in range(len(labels))
        for j in range(i)
        if labels[i] == labels[j]
    ]
    assert alignment(found, power=power) == pytest.approx(np.mean(distances), rel=1e-5)


@pytest.mark.parametrize("t", [0.5, 2, 10])
def test_uniformity_is_the_log_of_the_mean_potential(found, block, threads, t):
    rows = unit(found)
    potentials = [math.exp(-t * float(((rows[i] - rows[j]) ** 2).sum())) for i in range(len(rows)) for j in range(i)]
    assert uniformity(found, t=t) == pytest.approx(math.log(np.mean(potentials)), abs=2e-6)


def test_class_means_are_means_of_unit_vectors(found):
    means = class_means(found.embeddings, found.labels, classes=len(found.class_names)).numpy()
    rows, labels = unit(found), found.labels.numpy()
    for number, mean in enumerate(means):
        if (labels == number).any():
            np.testing.assert_allclose(mean, rows[labels == number].mean(axis=0), atol=1e-7)
        else:
            assert np.isnan(mean).all()


def margin_of(found, i):
    """From the definition, leaving sample i out of its own class."""
    rows, labels = unit(found), found.labels.numpy()

    def cosine_with(members):
        total = members.sum(axis=0)
        return float(rows[i] @ total / np.linalg.norm(total)) if np.linalg.norm(total) else 0.0

    others = [cosine_with(rows[labels == c]) for c in set(labels.tolist()) - {labels[i]}]
    mine = (labels == labels[i]) & (np.arange(len(labels)) != i)
    return cosine_with(rows[mine]) - max(others) if mine.any() and others else math.nan


def test_margins_leave_the_sample_out(found):
    truth = np.array([margin_of(found, i) for i in range(len(found))])
    np.testing.assert_allclose(sample_margins(found).numpy(), truth, atol=1e-6)
    margins, labels = class_margins(found, draws=200), found.labels.numpy()
    for number in range(len(found.class_names)):
        mine = truth[(labels == number) & ~np.isnan(truth)]
        if not mine.size:
            assert margins.margins[number] is None
            assert margins.negative[number] is None
            continue
        estimate = margins.margins[number]
        assert estimate.value == pytest.approx(mine.mean(), abs=1e-6)
        assert estimate.low <= estimate.value <= estimate.high
        assert margins.negative[number] == pytest.approx((mine < 0).mean())
    usable = truth[~np.isnan(truth)]
    assert (margins.overall is None) == (margins.overall_negative is None) == (not usable.size)
    if usable.size:
        assert margins.overall.value == pytest.approx(usable.mean(), abs=1e-6)
        assert margins.overall.low <= margins.overall.value <= margins.overall.high
        assert margins.overall_negative == pytest.approx((usable < 0).mean())


def test_margins_that_do_not_vary_have_an_interval_of_no_width():
    for one in class_margins(simplex(), draws=100).margins:  # of a class, whose samples are one point
        assert (one.low, one.high) == pytest.approx((one.value, one.value), rel=1e-12)


def test_a_class_without_samples_is_nobodys_nearest():
    """Not even where all others are on the other side."""
    rows, names = [[1.0, 0.0], [1.0, 0.1], [-1.0, 0.0], [-1.0, -0.1]], ("a", "b", "never seen")
    found = EmbeddingSet.from_arrays(rows, [0, 0, 1, 1], class_names=names)
    assert class_margins(found, draws=100).nearest == ("b", "a", None)


def test_margin_intervals_are_the_bootstraps():
    found = made(n=200, noise=1.5)
    margins, labels = class_margins(found, draws=4000), found.labels.numpy()
    truth = sample_margins(found).numpy()
    random = np.random.default_rng(0)
    for number in range(5):
        mine = truth[labels == number]
        draws = random.choice(mine, size=(4000, mine.size)).mean(axis=1)
        low, high = np.percentile(draws, [2.5, 97.5])
        # Theirs hold the class's size fixed; the difference is far smaller than the width.
        assert margins.margins[number].low == pytest.approx(low, abs=0.08 * (high - low))
        assert margins.margins[number].high == pytest.approx(high, abs=0.08 * (high - low))
    rows = unit(found)
    means = np.stack([rows[labels == c].mean(axis=0) for c in range(5)])
    across = cosine_similarity(means) - 2 * np.eye(5)
    assert margins.nearest == tuple(found.class_names[c] for c in across.argmax(axis=1))


@given(st.integers(0, 10**6), st.integers(2, 40), st.integers(1, 6), st.integers(2, 5))
def test_what_no_turn_renaming_or_order_changes(seed, n, classes, dim):
    found = made(n=n, classes=classes, dim=dim, seed=seed)
    generator = torch.Generator().manual_seed(seed)
    rotation = torch.linalg.qr(torch.randn(dim, dim, generator=generator, dtype=torch.float64))[0]
    order, renamed = torch.randperm(n, generator=generator), torch.randperm(classes, generator=generator)
    other = EmbeddingSet(
        (2 * found.embeddings.double() @ rotation).float()[order],
        renamed[found.labels][order],
        tuple(f"class {number}" for number in renamed.argsort().tolist()),
        "made",
    )
    a, b = (similarity_by_class_pair(one) for one in (found, other))
    where = renamed.tolist()
    for i in range(classes):
        for j in range(classes):
            one, two = a.means[i][j], b.means[where[i]][where[j]]
            assert one is two if one is None or two is None else one == pytest.approx(two, abs=1e-5)
            assert a.counts[i][j] == b.counts[where[i]][where[j]]
    assert uniformity(found) == pytest.approx(uniformity(other), abs=1e-5)
    one, two = (similarity_histograms(one, bins=1) for one in (found, other))
    assert (one.within, one.between) == (two.within, two.between)


def test_mistakes_are_explained():
    found = made()
    empty = EmbeddingSet(torch.empty(0, 3), torch.empty(0, dtype=torch.int64), ("a",), "nothing")
    with pytest.raises(InputError, match="at least one sample: 'nothing' is empty"):
        describe(empty)
    with pytest.raises(OptionError, match="bins must lie between 1 and"):
        similarity_histograms(found, bins=0)
    with pytest.raises(OptionError, match="sample must be at least 2"):
        similarity_histograms(found, sample=1)
    with pytest.raises(OptionError, match="t must lie above 0"):
        uniformity(found, t=0)
    for power in (-1, 0, np.inf):
        with pytest.raises(OptionError, match="power must be positive"):
            alignment(found, power=power)
    with pytest.raises(OptionError, match=r"draws must be a whole number of at least 100 .*: got 10"):
        class_margins(found, draws=10)
    with pytest.raises(InputError, match="labels must lie between 0 and 2"):
        class_means(found.embeddings, found.labels, classes=3)
    lonely = EmbeddingSet(torch.ones(1, 3), torch.zeros(1, dtype=torch.int64), ("a",), "one")
    assert alignment(lonely) is None
    assert uniformity(lonely) is None
    assert class_margins(lonely).overall is None


def test_options_of_a_wrong_type_are_refused():
    found = made()
    for bad in (2.5, True, "9"):
        with pytest.raises(OptionError, match="bins must lie between"):
            similarity_histograms(found, bins=bad)
    with pytest.raises(OptionError, match="sample must be at least 2"):
        similarity_histograms(found, sample=2.5)
    with pytest.raises(OptionError, match="t must be a number"):
        uniformity(found, t=None)
    with pytest.raises(OptionError, match="power must be a number"):
        alignment(found, power="2")


class Meeting:
    """A listener that lets no thread go before another has come."""

    def __init__(self, barrier):
        self.barrier = barrier

    def fresh(self):
        return Meeting(self.barrier)

    def join(self, other):
        pass

    def add(self, tile):
        if not self.barrier.broken:
            self.barrier.wait(timeout=10)


def test_threads_leave_the_setting_of_products_as_it_was(monkeypatch):
    """Each suspends TF32: the one that found it suspended already must not be the last to put it back."""
    monkeypatch.setattr(class_layout, "BLOCK", 4)
    rows, matmul = directions_of(made(n=40, classes=10)), torch.backends.cuda.matmul
    before, threads = matmul.fp32_precision, torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        matmul.fp32_precision = "tf32"
        for _ in range(20):
            listen(rows, [Meeting(Barrier(2))], within_only=True)
            assert matmul.fp32_precision == "tf32"
    finally:
        torch.set_num_threads(threads)
        matmul.fp32_precision = before
