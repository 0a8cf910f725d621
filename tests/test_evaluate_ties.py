"""Samples that are equally near: every figure is the mean over all orders of them, and no order of the rows matters."""

from fractions import Fraction
from itertools import groupby, permutations, product
from statistics import fmean

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import hypergeom

from sincere.embeddings import EmbeddingSet
from sincere.errors import OptionError
from sincere.evaluate import Evaluation, EvaluationOptions, compare, evaluate
from sincere.evaluate.comparison import per_sample
from sincere.evaluate.retrieval import retrieve
from sincere.nearest import cosines, neighbours
from sincere.nearest.cosines import copies
from sincere.nearest.neighbours import Neighbours, choose_k, cosine_tiles, nearest, vote


def signed_square(a, b):
    """The square of the cosine with the cosine's sign, as a fraction: it has the same order, and nothing is rounded."""
    dot, squares = sum(x * y for x, y in zip(a, b, strict=True)), sum(x * x for x in a) * sum(y * y for y in b)
    return Fraction(dot * abs(dot), squares) if squares else Fraction(0)


def every_order(query, gallery):
    """All rankings of the gallery's places that the cosines allow."""
    near = {place: signed_square(query, row) for place, row in gallery.items()}
    groups = [list(found) for _, found in groupby(sorted(near, key=lambda j: -near[j]), key=near.__getitem__)]
    for orders in product(*(permutations(group) for group in groups)):
        yield [place for order in orders for place in order], near


def retrieval_by_orders(rows, labels, ks):
    """R-precision, average precision at R and recall@k of each query by definition, means over every order."""
    found = {}
    for i, query in enumerate(rows):
        gallery = {j: row for j, row in enumerate(rows) if j != i}
        total = sum(labels[j] == labels[i] for j in gallery)
        if not total:
            continue
        values = []
        for ranking, _ in every_order(query, gallery):
            hits = [labels[j] == labels[i] for j in ranking]
            precision = [sum(hits[: j + 1]) / (j + 1) for j in range(total) if hits[j]]
            values.append((sum(hits[:total]) / total, sum(precision) / total, *(any(hits[:k]) for k in ks)))
        found[i] = [fmean(column) for column in zip(*values, strict=True)]
    return found


def votes_by_orders(orders, labels, classes, k):
    """Means over every order: each class's votes among the k nearest, in fractions; their cosines; e^(2 cosine)."""
    counts, sums, weights = [0] * classes, [[] for _ in range(classes)], np.zeros(classes)
    for ranking, near in orders:
        for place in ranking[:k]:
            counts[labels[place]] += 1
            sums[labels[place]].append(near[place] / len(orders))
            weights[labels[place]] += np.exp(near[place] / 0.5) / len(orders)
    return [Fraction(count, len(orders)) for count in counts], [sum(sorted(parts)) for parts in sums], weights


def orders_and_cosines(query, rows):
    """All rankings of the rows, each with the cosine of every row."""
    orders = list(every_order(query, dict(enumerate(rows))))
    squares = orders[0][1]
    near = {place: (1 if square > 0 else -1) * abs(float(square)) ** 0.5 for place, square in squares.items()}
    return [(ranking, near) for ranking, _ in orders]


whole_rows = st.integers(1, 3).flatmap(lambda d: st.lists(st.tuples(*[st.integers(-2, 2)] * d), min_size=2, max_size=6))


@given(rows=whole_rows, data=st.data())
@settings(deadline=None, max_examples=300)
def test_retrieval_is_the_mean_over_every_order(rows, data):
    labels = data.draw(st.lists(st.integers(0, 2), min_size=len(rows), max_size=len(rows)))
    expected = retrieval_by_orders(rows, labels, (1, 2, 4))
    found = retrieve(torch.tensor(rows).float(), torch.tensor(labels), ks=(1, 2, 4))
    assert found.queries.tolist() == list(expected)
    columns = [found.r_precision, found.average_precision, *found.recall.values()]
    for column, wanted in zip(columns, zip(*expected.values(), strict=True), strict=False):
        np.testing.assert_allclose(column, wanted, atol=1e-12)


@given(rows=whole_rows, data=st.data())
@settings(deadline=None, max_examples=300)
def test_votes_are_the_mean_over_every_order(rows, data):
    labels = data.draw(st.lists(st.integers(0, 2), min_size=len(rows), max_size=len(rows)))
    known = data.draw(st.integers(1, len(rows)))  # neighbours that were looked for, of which k vote
    gallery = torch.tensor(rows).float()
    found = nearest(gallery, gallery, torch.tensor(labels), k=known)
    orders = [orders_and_cosines(query, rows) for query in rows]
    for k in range(1, known + 1):
        scores = vote(found, classes=4, k=k)
        weighted = vote(found, classes=4, k=k, voting="similarity", temperature=0.5)
        for ranked, row, weights in zip(orders, scores, weighted, strict=True):
            votes, sums, expected = votes_by_orders(ranked, labels, 4, k)
            np.testing.assert_allclose(row, [float(v) for v in votes], atol=0.5)
            best = max(votes)
            leading = [c for c in range(4) if votes[c] == best]
            most = max(sums[c] for c in leading)
            assert int(row.argmax()) in [c for c in leading if sums[c] > most - 1e-6]
            assert (row == 0).tolist() == [vote == 0 for vote in votes]
            np.testing.assert_allclose(weights / weights.sum(), expected / expected.sum(), atol=1e-6)


KINDS = ["all equal", "few points", "one-hot", "codes", "codes of norm one", "whole numbers", "half of them twice"]


def tied_rows(kind, n, dim, generator):
    random = torch.randn(n, dim, generator=generator)
    few = torch.randint(3, (n,), generator=generator)
    return {
        "all equal": random[:1].expand(n, dim).contiguous(),
        "few points": torch.randn(3, dim, generator=generator)[few],
        "one-hot": torch.eye(max(dim, 3))[few],
        "codes": random.sign(),
        "codes of norm one": torch.nn.functional.normalize(random.sign(), dim=1),
        "whole numbers": (2 * random).round(),
        "half of them twice": torch.cat([random[: n // 2], random[: n - n // 2]]),
    }[kind]


@given(
    kind=st.sampled_from(KINDS),
    n=st.integers(4, 40),
    dim=st.integers(1, 20),
    seed=st.integers(0, 2**31),
    tile=st.sampled_from([1, 60, 10**6]),
)
@settings(deadline=None, max_examples=150)
def test_no_figure_depends_on_the_order_of_the_rows(kind, n, dim, seed, tile):
    generator = torch.Generator().manual_seed(seed)
    rows, labels = tied_rows(kind, n, dim, generator), torch.randint(3, (n,), generator=generator)
    queries = rows[: n // 2]
    order = torch.randperm(n, generator=generator)
    with pytest.MonkeyPatch.context() as patch:
        plain, near = retrieve(rows, labels, ks=(1, 3)), nearest(queries, rows, labels, k=max(1, n // 2))
        patch.setitem(neighbours.TILE, "cpu", tile)
        other, again = (
            retrieve(rows[order], labels[order], ks=(1, 3)),
            nearest(queries, rows[order], labels[order], k=near.k),
        )
    back = torch.full((n,), -1)
    back[order[other.queries]] = torch.arange(len(other.queries))
    assert sorted(order[other.queries].tolist()) == plain.queries.tolist()
    for name in ("r_precision", "average_precision"):
        torch.testing.assert_close(getattr(other, name)[back[plain.queries]], getattr(plain, name), rtol=0, atol=1e-12)
    for k in (1, 3):
        torch.testing.assert_close(other.recall[k][back[plain.queries]], plain.recall[k], rtol=0, atol=1e-12)
    for k in range(1, near.k + 1):
        votes, earlier = vote(again, classes=3, k=k), vote(near, classes=3, k=k)
        torch.testing.assert_close(votes, earlier, rtol=0, atol=1e-6)  # cosines are rounded by position
        assert torch.equal(votes.argmax(1), earlier.argmax(1))  # who wins is not
    assert choose_k(again, labels[: n // 2], (1, 3, 10), classes=3) == choose_k(
        near, labels[: n // 2], (1, 3, 10), classes=3
    )


def test_equal_embeddings_find_by_chance_alone():
    labels = torch.arange(400) // 100
    found = retrieve(torch.randn(1, 32).expand(400, 32).contiguous(), labels, ks=(1, 5, 150))
    for k in (1, 5, 150):  # 399 others, 99 of the class, k of them drawn
        np.testing.assert_allclose(found.recall[k], 1 - hypergeom.pmf(0, 399, 99, k), rtol=1e-12)
    np.testing.assert_allclose(found.r_precision, 99 / 399, rtol=1e-12)
    j = np.arange(1, 100)
    np.testing.assert_allclose(
        found.average_precision, np.sum(99 / 399 * (1 + (j - 1) * 98 / 398) / j) / 99, rtol=1e-12
    )


@pytest.mark.parametrize("gallery", [5, 17, 1001, 4099])
@pytest.mark.parametrize("queries", [1, 2, 3, 50])
@pytest.mark.parametrize("dim", [7, 16, 64, 513])
@pytest.mark.parametrize("large", [False, True], ids=["fractions", "large whole numbers"])
def test_copies_have_one_cosine_wherever_they_stand(queries, gallery, dim, large):
    """Products of these shapes have several kinds of columns, which are not all summed in one order."""
    generator = torch.Generator().manual_seed(0)
    rows = torch.randn(gallery, dim, generator=generator)
    rows = (rows * 2**18).round() if large else rows
    rows[::2] = rows[0] * torch.tensor([1.0, 4.0]).repeat(gallery)[: len(rows[::2]), None]  # direction alone counts
    new = torch.randn(queries, dim, generator=generator)
    ((_, found),) = cosine_tiles((new * 2**18).round() if large else new, rows)
    assert (found[:, ::2] == found[:, :1]).all()


def test_copies_are_found_even_where_keys_are_equal(monkeypatch):
    rows = torch.randn(40, 50, generator=torch.Generator().manual_seed(0))
    rows[:, :20] = 0.0  # no telling them apart by the first columns
    rows[[7, 20, 30]], rows[31] = rows[3].clone(), 2 * rows[5]
    rows[20, 0] = -0.0
    expected = ([7, 20, 30, 31], [3, 3, 3, 5])
    assert tuple(x.tolist() for x in copies(rows)) == expected
    assert tuple(x.tolist() for x in copies(rows.double())) == expected
    monkeypatch.setattr(cosines, "_keys", lambda rows: torch.zeros(len(rows), dtype=torch.int64))
    assert tuple(x.tolist() for x in copies(rows)) == expected
    monkeypatch.undo()
    monkeypatch.setattr(cosines, "CELLS", 64)
    assert tuple(x.tolist() for x in copies(rows)) == expected
    assert copies(torch.randn(40, 50)) == (None, None)


@pytest.mark.parametrize("size", [1, 100, 5000, 2**22])
def test_cosines_of_whole_numbers_are_right_however_large(size):
    """Up to sums of 2²⁴ products are exact, beyond they are rounded like all others."""
    generator = torch.Generator().manual_seed(0)
    rows = (torch.randn(30, 20, generator=generator) * size).round()
    ((_, found),) = cosine_tiles(rows[:9], rows[9:])
    unit = rows.double() / rows.double().norm(dim=1, keepdim=True)
    expected = (unit[:9] @ unit[9:].T).nan_to_num(0.0)
    torch.testing.assert_close(found.double(), expected, rtol=0, atol=1e-6 if size > 1000 else 1e-7)


def test_equal_fractions_are_equal_cosines():
    """1/√2 = 3/√18 = 5/√50: all have one cosine with the first axis."""
    rows = torch.tensor([[1.0, 1, 0], [3, 0, 3], [5, 3, 4], [7, 7, 0], [1, 0, -1]])
    ((_, found),) = cosine_tiles(torch.tensor([[1.0, 0, 0]]), rows)
    assert found[0].tolist() == [np.float32(0.5**0.5)] * 5


def test_a_share_of_a_vote_beats_any_cosine():
    """One near sample of class 0, then five equal ones for the places left: three of class 1, two of class 2."""
    rows = torch.tensor([[1.0, 0.1], *[[0.0, 1.0]] * 5])
    labels = torch.tensor([0, 1, 1, 1, 2, 2])
    found = nearest(torch.tensor([[1.0, 0.0]]), rows, labels, k=4)
    for k, expected in ((2, [1, 0.6, 0.4]), (3, [1, 1.2, 0.8]), (4, [1, 1.8, 1.2])):
        np.testing.assert_allclose(vote(found, classes=3, k=k)[0], expected, atol=0.1)
        assert int(vote(found, classes=3, k=k).argmax()) == int(np.argmax(expected))
    # Without knowing what lies beyond, only those that were kept can share.
    assert vote(Neighbours(found.cosines, found.labels), classes=3, k=4).sum() == pytest.approx(4, abs=0.5)


def test_nearest_of_the_other_queries():
    rows = torch.randn(30, 5, generator=torch.Generator().manual_seed(0))
    labels = torch.arange(30)
    found = nearest(rows, None, labels, k=29)
    unit = torch.nn.functional.normalize(rows.double(), dim=1)
    order = (unit @ unit.T).fill_diagonal_(-2).argsort(dim=1, descending=True)[:, :29]
    assert torch.equal(found.labels, order)
    assert found.tied is None
    with pytest.raises(OptionError, match="between 1 and the 29 samples"):
        nearest(rows, None, labels, k=30)


def by_chance(name, order, *, rows=None):
    """Test samples that coincide: recall is a chance."""
    labels = (torch.arange(60) % 3)[order]
    rows = torch.ones(60, 4) if rows is None else rows
    made = EmbeddingSet(rows, labels, ("a", "b", "c"), name)
    return evaluate(made, made, options=EvaluationOptions(("knn", "retrieval"), draws=100), name=name)


def test_a_record_of_chances():
    found, sorted_rows = by_chance("mixed", torch.arange(60)), by_chance("sorted", (torch.arange(60) % 3).argsort())
    for k in (1, 5, 10):
        assert set(found.retrieval.hits[k]) == set(sorted_rows.retrieval.hits[k])
        assert found.retrieval.recall[k].value == pytest.approx(1 - hypergeom.pmf(0, 59, 19, k))
    assert found.retrieval.map_at_r.value == pytest.approx(sorted_rows.retrieval.map_at_r.value, abs=1e-12)
    assert found.classifier("knn").top1.value == sorted_rows.classifier("knn").top1.value == pytest.approx(1 / 3)
    assert Evaluation.from_json(found.to_json()) == found
    rows = torch.randn(60, 4, generator=torch.Generator().manual_seed(0))
    clear = by_chance("clear", torch.arange(60), rows=rows)
    assert {type(hit) for hits in clear.retrieval.hits.values() for hit in hits} == {bool}
    for one, test in ((found, "sign-flip test"), (clear, "McNemar's exact test")):
        assert compare(one, clear, method="retrieval", metric="recall@1").differences[0].test.name == test
    assert per_sample(clear, "retrieval", "recall@1").dtype == torch.bool
    assert per_sample(found, "retrieval", "recall@1").dtype == torch.float64
