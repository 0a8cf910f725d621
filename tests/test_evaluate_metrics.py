"""k-NN, class means, retrieval and accuracy, against scikit-learn, pytorch-metric-learning and plain loops."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from sklearn import metrics
from sklearn.neighbors import KNeighborsClassifier, NearestCentroid

from evaluated import made
from sincere.errors import InputError, OptionError
from sincere.evaluate import EvaluationOptions, evaluate
from sincere.evaluate.accuracy import balanced_accuracy, confusion_matrix, per_class_accuracy, top_k_hits
from sincere.evaluate.retrieval import retrieve
from sincere.nearest import neighbours
from sincere.nearest.class_means import class_mean_scores, class_means
from sincere.nearest.neighbours import choose_k, nearest, vote
from sincere.nearest.precision import full_precision


def clusters(n=300, classes=6, dim=8, noise=1.0, seed=0):
    generator = torch.Generator().manual_seed(seed)
    centres = torch.randn(classes, dim, generator=torch.Generator().manual_seed(99))
    labels = torch.randint(classes, (n,), generator=generator)
    scale = torch.rand(n, 1, generator=generator) + 0.5  # cosine must not care
    return scale * (centres[labels] + noise * torch.randn(n, dim, generator=generator)), labels


@pytest.fixture(params=[1, 40, 10**6], ids=["a row a tile", "few rows a tile", "one tile"])
def tile(request, monkeypatch):
    monkeypatch.setitem(neighbours.TILE, "cpu", request.param)


def test_neighbours_are_those_of_brute_force(tile):
    (train, labels), (test, _) = clusters(), clusters(50, seed=1)
    found = nearest(test, train, labels, k=7)
    unit_train, unit_test = (F.normalize(x.double(), dim=1).numpy() for x in (train, test))
    cosines = unit_test @ unit_train.T
    order = np.argsort(-cosines, axis=1)[:, :7]
    np.testing.assert_array_equal(found.labels.numpy(), labels.numpy()[order])
    np.testing.assert_allclose(found.cosines.numpy(), np.take_along_axis(cosines, order, axis=1), atol=1e-6)


@pytest.mark.parametrize("k", [1, 5, 20])
def test_votes_are_scikit_learns(k):
    (train, labels), (test, _) = clusters(), clusters(200, seed=1)
    found = nearest(test, train, labels, k=k)
    unit_train, unit_test = F.normalize(train, dim=1).numpy(), F.normalize(test, dim=1).numpy()
    plain = KNeighborsClassifier(k).fit(unit_train, labels.numpy())
    scores = vote(found, classes=6, k=k)
    shares = plain.predict_proba(unit_test)
    clear = np.sort(shares, axis=1)[:, -1] > np.sort(shares, axis=1)[:, -2]  # ties are broken another way
    assert clear.mean() > 0.8
    np.testing.assert_array_equal(scores.argmax(dim=1).numpy()[clear], plain.predict(unit_test)[clear])

    def weights(distances):  # of unit vectors: |a − b|² = 2 − 2 cos
        return np.exp((1 - distances**2 / 2 - 1) / 0.07)

    weighted = KNeighborsClassifier(k, weights=weights).fit(unit_train, labels.numpy())
    scores = vote(found, classes=6, k=k, voting="similarity", temperature=0.07)
    shares = (scores / scores.sum(dim=1, keepdim=True)).numpy()
    np.testing.assert_allclose(shares, weighted.predict_proba(unit_test), atol=1e-4)


def test_a_tie_goes_to_the_closer_class_and_never_beats_a_vote():
    found = neighbours.Neighbours(
        torch.tensor([[0.9, 0.8, 0.7, 0.1], [1.0, -0.9, -0.9, -1.0]]), torch.tensor([[2, 1, 1, 2], [0, 1, 1, 2]])
    )
    assert vote(found, classes=3, k=4).argmax(dim=1).tolist() == [1, 1]
    assert vote(found, classes=3, k=2).argmax(dim=1).tolist() == [2, 0]


def test_k_is_chosen_by_accuracy_and_the_smaller_of_equals():
    (train, labels), (held_out, truth) = clusters(noise=2.0), clusters(100, noise=2.0, seed=2)
    found = nearest(held_out, train, labels, k=50)
    right = {k: (vote(found, classes=6, k=k).argmax(1) == truth).sum() for k in (1, 3, 10, 30)}
    chosen = choose_k(found, truth, (30, 1, 3, 10, 3), classes=6)
    assert right[chosen] == max(right.values())
    assert choose_k(found, found.labels[:, 0], (5, 1, 2), classes=6) == 1
    assert choose_k(found, truth, (400,), classes=6) == 50  # no more than there are


def predicted_by_similarity(train, test, k, *, on):
    """e^(cosine/0.07) for each of the k nearest, by a loop in float64."""
    gallery, queries = (F.normalize(getattr(found, on).double(), dim=1) for found in (train, test))
    predicted = []
    for cosines in queries @ gallery.T:
        scores = torch.zeros(len(train.class_names), dtype=torch.float64)
        for place in cosines.argsort(descending=True)[:k]:
            scores[train.labels[place]] += (cosines[place] / 0.07).exp()
        predicted.append(int(scores.argmax()))
    return predicted


@pytest.mark.parametrize("on", ["embeddings", "features"])
def test_votes_are_counted_as_the_options_say(on):
    train, test = made(140, 0, noise=2.0), made(70, 1, noise=2.0)
    options = {"methods": ("knn",), "k": 60, "neighbours_on": on, "draws": 100}
    weighted = evaluate(train, test, options=EvaluationOptions(**options, voting="similarity")).classifier("knn")
    assert list(weighted.predicted) == predicted_by_similarity(train, test, 60, on=on)
    assert weighted.predicted != evaluate(train, test, options=EvaluationOptions(**options)).classifier("knn").predicted


def test_k_is_chosen_by_the_votes_that_count():
    """Where votes are weighed by similarity, k is the best of those votes, not of plain ones."""
    train, test, validation = made(100, 0, noise=2.5), made(7, 1), made(105, 2, noise=2.5)
    chosen = {}
    for voting in ("count", "similarity"):
        options = EvaluationOptions(methods=("knn",), voting=voting, draws=100)
        chosen[voting] = evaluate(train, test, validation=validation, options=options).classifier("knn").settings["k"]
    right = {
        k: sum(np.equal(predicted_by_similarity(train, validation, k, on="embeddings"), validation.labels.numpy()))
        for k in (1, 3, 5, 10, 20, 50, 100)
    }
    assert chosen["similarity"] == max(right, key=lambda k: (right[k], -k))
    assert chosen["similarity"] != chosen["count"]


def test_neighbours_refuse_what_cannot_be():
    train, labels = clusters(10)
    with pytest.raises(OptionError, match="between 1 and the 10 samples"):
        nearest(train, train, labels, k=11)
    for k in (2.0, True, "3"):
        with pytest.raises(OptionError, match=f"k must be a whole number between 1 and .*: got {k!r}"):
            nearest(train, train, labels, k=k)
    assert nearest(train, train, labels, k=np.int64(3)).k == 3
    with pytest.raises(InputError, match="share a dimension: got 3 and 8"):
        nearest(torch.randn(2, 3), train, labels, k=1)
    with pytest.raises(OptionError, match="voting must be one of"):
        vote(nearest(train, train, labels, k=1), classes=6, k=1, voting="loud")
    with pytest.raises(OptionError, match="temperature"):
        vote(nearest(train, train, labels, k=1), classes=6, k=1, voting="similarity", temperature=0.0)


@pytest.mark.parametrize(("columns", "step"), [(5, 4), (20, 1), (21, 1), (0, 20)])
def test_a_tile_holds_no_more_similarities_than_there_is_room_for(columns, step, monkeypatch):
    monkeypatch.setitem(neighbours.TILE, "cpu", 20)
    tiles = list(neighbours.row_tiles(10, columns, torch.device("cpu")))
    assert [place for tile in tiles for place in range(10)[tile]] == list(range(10))
    assert [tile.stop for tile in tiles] == [min(start + step, 10) for start in range(0, 10, step)]


def test_class_means_are_nearest_centroids_of_unit_vectors():
    (train, labels), (test, _) = clusters(), clusters(200, seed=1)
    means = class_means(train, labels, classes=7)  # the seventh has no sample
    unit = F.normalize(train.double(), dim=1).numpy()
    theirs = NearestCentroid().fit(unit, labels.numpy()).centroids_
    theirs /= np.linalg.norm(theirs, axis=1, keepdims=True)
    np.testing.assert_allclose(means[:6].numpy(), theirs, atol=1e-6)
    scores = class_mean_scores(test, means)
    np.testing.assert_allclose(scores[:, :6].numpy(), F.normalize(test.double(), dim=1).numpy() @ theirs.T, atol=1e-6)
    assert scores[:, 6].tolist() == [-torch.inf] * 200


def retrieval_by_loops(queries, labels):
    """MAP@R, R-precision and recall@k by their definitions, one query at a time, in float64."""
    rows = []
    for i, (query, label) in enumerate(zip(queries.double(), labels.tolist(), strict=True)):
        others = [j for j in range(len(queries)) if j != i]
        cosines = {j: float(torch.cosine_similarity(query, queries[j].double(), dim=0)) for j in others}
        ranked = [int(labels[j]) == label for j in sorted(others, key=lambda j: -cosines[j])]
        total = sum(ranked)
        if total:
            precision = [sum(ranked[: j + 1]) / (j + 1) for j in range(total)]
            average = sum(p for p, hit in zip(precision, ranked[:total], strict=True) if hit) / total
            rows.append((i, sum(ranked[:total]) / total, average, any(ranked[:1]), any(ranked[:4])))
    return rows


def test_retrieval_is_its_definition(tile):
    vectors, labels = clusters(40, noise=2.0)
    labels[7] = 11  # alone in its class
    found = retrieve(vectors, labels, ks=(1, 4, 100))
    rows = retrieval_by_loops(vectors, labels)
    assert found.queries.tolist() == [row[0] for row in rows] == [i for i in range(40) if i != 7]
    np.testing.assert_allclose(found.r_precision, [row[1] for row in rows], atol=1e-12)
    np.testing.assert_allclose(found.average_precision, [row[2] for row in rows], atol=1e-12)
    assert found.recall[1].tolist() == [row[3] for row in rows]
    assert found.recall[4].tolist() == [row[4] for row in rows]
    assert found.recall[100].all()


def test_retrieval_is_that_of_pytorch_metric_learning():
    from pytorch_metric_learning.distances import CosineSimilarity
    from pytorch_metric_learning.utils.accuracy_calculator import AccuracyCalculator
    from pytorch_metric_learning.utils.inference import CustomKNN

    vectors, labels = clusters(200, noise=1.5)
    calculator = AccuracyCalculator(
        include=("precision_at_1", "r_precision", "mean_average_precision_at_r"),
        k="max_bin_count",
        device=torch.device("cpu"),
        knn_func=CustomKNN(CosineSimilarity()),
    )
    theirs = calculator.get_accuracy(vectors, labels)
    ours = retrieve(vectors, labels)
    assert float(ours.recall[1].double().mean()) == pytest.approx(theirs["precision_at_1"], abs=1e-6)
    assert float(ours.r_precision.mean()) == pytest.approx(theirs["r_precision"], abs=1e-6)
    assert float(ours.average_precision.mean()) == pytest.approx(theirs["mean_average_precision_at_r"], abs=1e-6)


def test_retrieval_may_have_nothing_to_find():
    vectors, labels = clusters(10)
    with pytest.raises(OptionError, match="ks must hold"):
        retrieve(vectors, labels, ks=(0, 1))
    assert retrieve(vectors, torch.arange(10)).queries.numel() == 0


def test_retrieval_takes_class_numbers_of_any_type():
    """A byte is no mask, and a large number asks for no room."""
    vectors, labels = torch.randn(12, 3, generator=torch.Generator().manual_seed(0)), torch.arange(12) % 2
    plain = retrieve(vectors, labels)
    for same in (labels.bool(), labels.to(torch.uint8), labels.to(torch.uint16), labels.int(), labels * 10**15):
        found = retrieve(vectors, same)
        assert torch.equal(found.average_precision, plain.average_precision)
        assert torch.equal(found.r_precision, plain.r_precision)
    with pytest.raises(InputError, match=r"labels must be class numbers from 0: got -1\. Leave unlabelled samples out"):
        retrieve(vectors, labels - 1)


def test_accuracies_are_scikit_learns():
    generator = torch.Generator().manual_seed(0)
    scores, labels = torch.randn(500, 9, generator=generator), torch.randint(8, (500,), generator=generator)
    scores[:, :8] += F.one_hot(labels, 8)
    predicted = scores.argmax(dim=1)
    correct = predicted == labels
    theirs = metrics.confusion_matrix(labels, predicted, labels=range(9))
    np.testing.assert_array_equal(confusion_matrix(predicted, labels, classes=9), theirs)
    recall = metrics.recall_score(labels, predicted, average=None, labels=range(8))
    np.testing.assert_allclose(per_class_accuracy(correct, labels, classes=9)[:8], recall)
    assert per_class_accuracy(correct, labels, classes=9)[8].isnan()
    assert balanced_accuracy(correct, labels, classes=9) == pytest.approx(np.mean(recall))
    for k in (1, 2, 5):
        theirs = metrics.top_k_accuracy_score(labels, scores, k=k, labels=range(9))
        assert float(top_k_hits(scores, labels, k).double().mean()) == pytest.approx(theirs)


def test_classes_without_a_vote_are_no_hit():
    votes = torch.tensor([[3.0, 0, 0, 0, 0, 0, 0], [3, 1, 0, 0, 0, 0, 0], [1, 1, 1, 1, 1, 1, 1]])
    assert top_k_hits(votes, torch.tensor([1, 1, 0]), 5).tolist() == [False, True, True]


def test_full_precision_comes_and_goes():
    matmul = torch.backends.cuda.matmul
    before = matmul.fp32_precision

    @full_precision()
    def inside():
        assert matmul.fp32_precision == "ieee"
        assert not torch.is_autocast_enabled("cpu")
        raise ZeroDivisionError

    try:
        matmul.fp32_precision = "tf32"
        with torch.autocast("cpu"), pytest.raises(ZeroDivisionError):
            inside()
        assert matmul.fp32_precision == "tf32"
    finally:
        matmul.fp32_precision = before


def test_recall_at_the_same_number_twice_is_once():
    vectors, labels = clusters(40)
    found = retrieve(vectors, labels, ks=(4, 1, 4))
    assert list(found.recall) == [1, 4]
    assert torch.equal(found.recall[4], retrieve(vectors, labels, ks=(4,)).recall[4])


def test_shares_are_float64():
    """A third in float32 differs from a third in the eighth digit."""
    vectors, labels = torch.tensor([[1.0, 0.0], [1.0, 0.1], [0.0, 1.0], [-1.0, 0.0], [1.0, 0.2]]), torch.zeros(5).long()
    labels[1] = 1
    found = retrieve(vectors, labels)
    assert found.queries.tolist() == [0, 2, 3, 4]
    assert found.r_precision[0].item() == 2 / 3


def test_retrieval_of_duplicates_leaves_out_the_query_alone():
    """Four copies of each of two points: a query finds its three copies first, and never itself."""
    vectors = torch.tensor([[1.0, 0.0], [0.0, 1.0]]).repeat(4, 1)
    labels = torch.tensor([0, 1]).repeat(4)
    found = retrieve(vectors, labels, ks=(1, 3))
    assert found.r_precision.tolist() == found.average_precision.tolist() == [1.0] * 8
    alone = retrieve(vectors, torch.tensor([0, 1, 0, 1, 2, 3, 4, 5]), ks=(7,))
    assert alone.queries.tolist() == [0, 1, 2, 3]
    assert alone.recall[7].all()


@pytest.mark.parametrize("size", [1e-37, 1e-30, 1e-14, 1e18, 1e25, 1e37])
def test_cosines_do_not_care_how_long_vectors_are(size):
    """Squares of float32 numbers beyond 1e19 and below 1e-23 leave its range, and a norm below 1e-12 is no zero."""
    (train, labels), (test, _) = clusters(), clusters(60, seed=1)
    train, test = train / train.abs().max(), test / test.abs().max()
    unit_train, unit_test = (
        x.double().numpy() / np.linalg.norm(x.double().numpy(), axis=1)[:, None] for x in (train, test)
    )
    found = nearest(test * size, train * size, labels, k=5)
    cosines = unit_test @ unit_train.T
    np.testing.assert_allclose(found.cosines.numpy(), -np.sort(-cosines, axis=1)[:, :5], atol=1e-6)
    sums = np.stack([unit_train[labels.numpy() == c].sum(axis=0) for c in range(6)])
    wanted = unit_test @ (sums / np.linalg.norm(sums, axis=1)[:, None]).T
    scores = class_mean_scores(test * size, class_means(train * size, labels, classes=6))
    np.testing.assert_allclose(scores.numpy(), wanted, atol=1e-6)
    relevant = retrieve(test * size, clusters(60, seed=1)[1])
    assert torch.equal(relevant.average_precision, retrieve(test, clusters(60, seed=1)[1]).average_precision)
