"""Evaluation inside a training loop: whatever torch was set to there, whatever form the embeddings have."""

import math

import numpy as np
import pytest
import torch

import sincere
import sincere.geometry as geometry
from sincere.embeddings import EmbeddingSet
from sincere.errors import InputError
from sincere.evaluate import EvaluationOptions, compare, evaluate, quick_figures
from sincere.evaluate.retrieval import retrieve
from sincere.nearest.class_means import class_mean_scores, class_means
from sincere.nearest.neighbours import nearest

generator = torch.Generator().manual_seed(0)
CENTRES = torch.randn(5, 8, generator=generator)
LABELS = torch.randint(0, 5, (90,), generator=generator)
ROWS = CENTRES[LABELS] + torch.randn(90, 8, generator=generator)
NEW = CENTRES[LABELS] + torch.randn(90, 8, generator=generator)
NAMES = ["ant", "bee", "cat", "dog", "eel"]
OPTIONS = EvaluationOptions(methods=("knn", "class_means", "linear", "linear_paper", "retrieval"), draws=100)


def every_figure():
    """Of everything that evaluates, as text."""
    train, test = EmbeddingSet.from_arrays(ROWS, LABELS), EmbeddingSet.from_arrays(NEW, LABELS)
    signs = EmbeddingSet.from_arrays(NEW.sign(), LABELS)  # with many ties
    first = evaluate(train, test, options=OPTIONS, name="first")
    second = evaluate(train, signs, options=OPTIONS, validation=test, name="second")
    asked = [("knn", "top1"), ("knn", "balanced"), ("retrieval", "map@r"), ("retrieval", "recall@1")]
    return {
        "evaluation": first.to_json(),
        "with ties": second.to_json(),
        "confusion": str(first.confusion("knn").tolist()),
        **{f"{a} {b}": str(compare(first, second, method=a, metric=b)) for a, b in asked},
        "geometry": geometry.describe(test, train=train).to_json(),
        "robustness": str(geometry.head_robustness(train, test)),
        "histograms": str(geometry.similarity_histograms(test, sample=40)),
        "readings": str(geometry.loss_readings(test, batch=32)),
        "others": str(geometry.out_of_class(test, EmbeddingSet.from_arrays(ROWS[:20].flip(1), LABELS[:20]))),
        "quick": str(quick_figures(NEW, LABELS, ROWS, LABELS)),
        "diagnosis": str(sincere.diagnose(NEW, LABELS)),
    }


@pytest.fixture(scope="module")
def plain():
    return every_figure()


class Default:
    """A default of torch's, put back afterwards."""

    def __init__(self, setter, value, before):
        self.setter, self.value, self.before = setter, value, before

    def __enter__(self):
        self.setter(self.value)

    def __exit__(self, *_):
        self.setter(self.before)


@pytest.mark.parametrize(
    "surrounding",
    [
        pytest.param(lambda: torch.autocast("cpu", dtype=torch.bfloat16), id="autocast"),
        pytest.param(lambda: Default(torch.set_default_dtype, torch.float64, torch.float32), id="float64 by default"),
        # Where a script says "cuda"; here a device whose tensors hold nothing, so that none may come of it.
        pytest.param(lambda: Default(torch.set_default_device, "meta", None), id="another device by default"),
        pytest.param(torch.inference_mode, id="inference mode"),
        pytest.param(lambda: Default(torch.use_deterministic_algorithms, True, False), id="deterministic"),
    ],
)
def test_no_figure_depends_on_what_the_loop_set(surrounding, plain):
    with surrounding():
        found = every_figure()
    assert {name for name in plain if found[name] != plain[name]} == set()


# Loops from the definitions.


def cosines(queries, gallery):
    queries, gallery = (np.asarray(rows, dtype=np.float64) for rows in (queries, gallery))
    norms = np.linalg.norm(queries, axis=1)[:, None] * np.linalg.norm(gallery, axis=1)
    return queries @ gallery.T / norms


def right_by_neighbours(near, labels, own, k):
    """Does the class of `own` have most of the k nearest, or as many and the larger sum of cosines?"""
    order = np.argsort(-near)[:k]
    votes = {}
    for place in order:
        count, total = votes.get(labels[place], (0, 0.0))
        votes[labels[place]] = (count + 1, total + near[place])
    return max(votes, key=votes.get) == own


def retrieved(queries, labels):
    """Recall@1, R-precision and MAP@R among the other queries."""
    found = []
    similar = cosines(queries, queries)
    for i, own in enumerate(labels):
        others = [j for j in np.argsort(-similar[i]) if j != i]
        r = sum(labels[j] == own for j in others)
        if r:
            hits = [labels[j] == own for j in others[:r]]
            average = sum(sum(hits[: j + 1]) / (j + 1) for j in range(r) if hits[j]) / r
            found.append((labels[others[0]] == own, sum(hits) / r, average))
    return np.mean(found, axis=0)


@pytest.mark.parametrize("k", [1, 7])
def test_quick_figures_are_those_of_the_definitions(k):
    labels, similar = LABELS.tolist(), cosines(NEW, ROWS)
    found = quick_figures(NEW, LABELS, ROWS, LABELS, k=k)
    assert found["knn"] == np.mean([right_by_neighbours(similar[i], labels, labels[i], k) for i in range(90)])
    unit = ROWS.double().numpy() / np.linalg.norm(ROWS.double().numpy(), axis=1, keepdims=True)
    means = np.stack([unit[LABELS.numpy() == c].mean(axis=0) for c in range(5)])
    assert found["class_means"] == np.mean(cosines(NEW, means).argmax(axis=1) == LABELS.numpy())
    names = ["recall_at_1", "r_precision", "map_at_r"]
    assert [found[name] for name in names] == pytest.approx(retrieved(NEW, labels), abs=1e-12)
    alone = quick_figures(NEW, LABELS, k=k)
    itself = cosines(NEW, NEW)
    np.fill_diagonal(itself, -np.inf)
    assert alone["knn"] == np.mean([right_by_neighbours(itself[i], labels, labels[i], k) for i in range(90)])
    assert list(alone) == ["knn", *names]
    assert [alone[name] for name in names] == [found[name] for name in names]


def test_quick_figures_are_those_of_an_evaluation():
    found = quick_figures(NEW, LABELS, ROWS, LABELS)
    train, test = EmbeddingSet.from_arrays(ROWS, LABELS), EmbeddingSet.from_arrays(NEW, LABELS)
    whole = evaluate(train, test, options=OPTIONS)
    assert found == {
        "knn": whole.classifier("knn").top1.value,
        "class_means": whole.classifier("class_means").top1.value,
        "recall_at_1": whole.retrieval.recall[1].value,
        "r_precision": whole.retrieval.r_precision.value,
        "map_at_r": whole.retrieval.map_at_r.value,
    }


@pytest.mark.parametrize(
    "embeddings",
    [
        pytest.param(lambda: NEW.clone().requires_grad_() * 2, id="with a graph"),
        pytest.param(lambda: NEW.double(), id="float64"),
        pytest.param(lambda: NEW.T.contiguous().T, id="not contiguous"),
        pytest.param(lambda: NEW.numpy(), id="array"),
        pytest.param(lambda: NEW.tolist(), id="lists"),
    ],
)
@pytest.mark.parametrize(
    "labels",
    [
        pytest.param([NAMES[c] for c in LABELS], id="names"),
        pytest.param(np.array([NAMES[c] for c in LABELS], dtype=object), id="objects"),
        pytest.param(LABELS.numpy(), id="array"),
        pytest.param(LABELS.to(torch.int32), id="int32"),
    ],
)
def test_embeddings_and_labels_of_any_form(embeddings, labels):
    assert quick_figures(embeddings(), labels) == quick_figures(NEW, LABELS)


def test_unlabelled_samples_are_left_out():
    partly = torch.where(torch.arange(90) < 15, -1, LABELS)
    assert quick_figures(NEW, partly, ROWS, partly) == quick_figures(NEW[15:], LABELS[15:], ROWS[15:], LABELS[15:])


def test_what_cannot_be_asked_is_left_out():
    assert quick_figures(NEW[:1], LABELS[:1]) == {}
    assert set(quick_figures(NEW[:5], torch.arange(5))) == {"knn"}
    assert quick_figures(NEW[:5], torch.full((5,), -1)) == {}
    with pytest.raises(InputError, match="come together"):
        quick_figures(NEW, LABELS, ROWS)


HALF = [torch.bfloat16, torch.float16]


@pytest.mark.parametrize("dtype", HALF)
def test_half_precision_is_compared_in_float32(dtype):
    short, rest = NEW.to(dtype), ROWS
    found, expected = nearest(short, rest, LABELS, k=5), nearest(short.float(), rest, LABELS, k=5)
    assert found.cosines.dtype == torch.float32
    assert torch.equal(found.cosines, expected.cosines)
    assert torch.equal(retrieve(short, LABELS).average_precision, retrieve(short.float(), LABELS).average_precision)
    means = class_means(rest, LABELS, classes=5)
    assert torch.equal(class_mean_scores(short, means), class_mean_scores(short.float(), means))
    assert nearest(NEW.double(), rest, LABELS, k=5).cosines.dtype == torch.float64


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: evaluate((NEW, LABELS), (NEW, LABELS)), r"train must be an EmbeddingSet: got tuple. .*from_arrays"),
        (lambda: evaluate("train.npz", "test.npz"), r"train must be an EmbeddingSet: got str. .*EmbeddingSet\.load"),
        (lambda: geometry.alignment(NEW), r"must be an EmbeddingSet: got Tensor. .*from_arrays"),
        (lambda: geometry.similarity_by_class_pair(NEW), r"must be an EmbeddingSet: got Tensor"),
        (
            lambda: nearest(NEW.view(45, 2, 8), None, LABELS, k=1),
            r"\(n, d\): got torch.float32, \(45, 2, 8\).*\[:, 0\]",
        ),
        (lambda: nearest(NEW, ROWS.tolist(), LABELS, k=1), r"gallery must be .*got list"),
        (lambda: nearest(NEW, None, LABELS.tolist(), k=1), r"labels must be a torch.Tensor: got list"),
        (lambda: retrieve(NEW, [NAMES[c] for c in LABELS]), r"got list of names. Number the classes"),
    ],
)
def test_what_does_not_fit_is_told_in_words(call, words):
    with pytest.raises(InputError, match=words):
        call()


def test_a_figure_is_a_share():
    assert all(0 <= value <= 1 and not math.isnan(value) for value in quick_figures(NEW, LABELS).values())
