"""Names that fit, words that hold, and tables that stay small."""

import csv
import io
from dataclasses import replace
from itertools import combinations_with_replacement

import numpy as np
import pytest
import torch

from report_subjects import EPOCHS, clouds
from sincere.embeddings import EmbeddingSet
from sincere.report.picture import short_names
from sincere.report.pictures.accuracy import accuracy_picture
from sincere.report.pictures.class_pairs import class_pairs_picture
from sincere.report.pictures.curves import curves_picture
from sincere.report.pictures.histograms import histograms_picture
from sincere.report.pictures.point_map import point_map_picture
from sincere.report.pictures.simplex import simplex_picture
from sincere.report.projections import point_map
from sincere.report.subject import subject_of


def test_names_that_differ_at_their_ends_stay_different():
    names = [f"northern goshawk {number}" for number in range(26)]
    shown = short_names(names, 14)
    assert len(set(shown)) == 26
    assert max(map(len, shown)) <= 14
    assert shown[25].endswith(" 25")
    assert short_names(["northern goshawk", "finch", "finch$"], 12) == ["northern go…", "finch", r"finch\$"]


def test_rows_and_columns_can_be_told_apart():
    subject = subject_of(clouds([f"quite a long name {number}" for number in range(7)], dim=8))
    for picture, axis in ((class_pairs_picture(subject), "x"), (simplex_picture(subject), "y")):
        ticks = getattr(picture.figure.axes[0], f"get_{axis}ticklabels")()
        assert len({tick.get_text() for tick in ticks}) == 7


def test_names_on_the_still_map_can_be_told_apart():
    subject = subject_of(clouds([f"quite a long name {number}" for number in range(7)], dim=8))
    figure = point_map_picture(subject, point_map(subject)).figure
    names = [text.get_text() for text in figure.texts if text.get_transform() == figure.axes[0].transAxes]
    assert len(set(names)) == len(names) == 7


def test_far_better_than_guessing_is_not_called_hardly_better():
    """Two of three right where guessing gives a hundredth: more errors than not are left, and much is learned."""
    random = np.random.default_rng(0)
    labels = np.repeat(np.arange(40), 10)
    rows = np.eye(40)[labels]
    confused = random.random(400) < 0.6
    rows[confused] = random.normal(size=(int(confused.sum()), 40)) * 0.2
    found = accuracy_picture(subject_of(EmbeddingSet.from_arrays(rows, labels))).verdict
    assert found.grade == "poor"
    assert found.sentence.endswith("better than guessing, with most of its errors left.")
    noise = EmbeddingSet.from_arrays(random.normal(size=(60, 4)), np.arange(60) % 2)
    assert accuracy_picture(subject_of(noise)).verdict.sentence.endswith("not to be told from guessing.")


def test_an_interval_below_guessing_is_worse_than_guessing():
    """Every sample lies beside one of the other class."""
    random = np.random.default_rng(0)
    rows = np.repeat(random.normal(size=(60, 8)), 2, axis=0)
    found = subject_of(EmbeddingSet.from_arrays(rows, np.arange(120) % 2))
    top1 = found.evaluation.classifiers[0].top1
    assert top1.high < 0.5
    assert accuracy_picture(found).verdict.sentence.endswith(": worse than guessing.")


@pytest.mark.parametrize(("cosine", "shared"), [(-0.5, False), (0.0, False), (0.5, True)])
def test_classes_at_right_angles_share_no_direction(cosine, shared):
    ends = np.array([[1.0, 0.0], [cosine, (1 - cosine**2) ** 0.5]])
    found = simplex_picture(subject_of(EmbeddingSet.from_arrays(ends[np.arange(40) % 2], np.arange(40) % 2))).verdict
    assert found.grade == "poor"
    assert ("some classes share much of their direction" in found.sentence) is shared
    assert ("no two classes share much of their direction" in found.sentence) is not shared


@pytest.mark.parametrize(
    ("labels", "there"), [([0], "Neither"), ([0, 1], "Only one"), ([0, 0], "Only one")], ids=["one", "apart", "same"]
)
def test_hills_that_do_not_exist(labels, there):
    found = histograms_picture(subject_of(EmbeddingSet.from_arrays(np.eye(2)[: len(labels)], labels))).verdict
    assert found.sentence.startswith(f"{there} of the two hills exists")


def test_the_edge_at_zero_reads_zero():
    table = histograms_picture(subject_of(clouds("ab"))).table
    assert [row[:2] for row in table.rows[49:51]] == [(-0.02, 0.0), (0.0, 0.02)]


@pytest.mark.parametrize("lengths", [np.ones(40), np.linspace(0.1, 7, 40)])
def test_samples_that_differ_by_rounding_are_one_point(lengths):
    row = np.random.default_rng(3).normal(size=6)
    found = point_map(subject_of(EmbeddingSet.from_arrays(lengths[:, None] * row, np.arange(40) % 4)))
    assert found.projections[0].note == "All samples lie on one point."
    assert not found.projections[0].points.any()


def test_every_two_classes_stand_in_the_table_once():
    subject = subject_of(clouds("abcde", dim=8))
    rows = list(csv.reader(io.StringIO(class_pairs_picture(subject).table.as_csv())))[1:]
    assert [tuple(row[:2]) for row in rows] == list(combinations_with_replacement("abcde", 2))
    unit = torch.nn.functional.normalize(subject.test.embeddings.double(), dim=1).numpy()
    labels = subject.test.labels.numpy()
    for a, b, mean, pairs in rows:
        one, other = (unit[labels == "abcde".index(name)] for name in (a, b))
        cosines = one @ other.T
        cosines = cosines[np.triu_indices(len(one), 1)] if a == b else cosines.flatten()
        assert float(mean) == pytest.approx(cosines.mean(), abs=1e-6)
        assert len(mean.strip("-'")) <= 8
        assert int(pairs) == len(cosines)
    assert all(
        len(row[2].strip("-'")) <= 8
        for row in csv.reader(io.StringIO(simplex_picture(subject).table.as_csv()))
        if row[0] != "class"
    )


@pytest.mark.parametrize("shares", [(0.961,), (0.9, 1.0), (0.2, 0.3)])
def test_no_axis_of_accuracy_goes_beyond_a_hundred(shares):
    checks = [{"kind": "validation", "step": e, "epoch": e, "knn_accuracy": s} for e, s in enumerate(shares, start=1)]
    drawn = curves_picture(replace(subject_of(clouds("ab")), metrics=(*EPOCHS, *checks)))
    low, high = drawn.figure.axes[-1].get_ylim()
    assert low < 100 * min(shares) <= 100 * max(shares) <= high <= 100.5


def test_the_last_accuracy_stands_beside_its_line():
    checks = [{"kind": "validation", "step": e, "epoch": e, "knn_accuracy": s} for e, s in enumerate((0.99, 0.2), 1)]
    drawn = curves_picture(replace(subject_of(clouds("ab")), metrics=(*EPOCHS, *checks)))
    drawn.figure.draw_without_rendering()
    axes = drawn.figure.axes[-1]
    (number,) = axes.texts
    assert number.get_window_extent().x0 > axes.lines[0].get_window_extent().x1


def test_the_legend_of_a_loss_that_hardly_fell_does_not_lie_on_it():
    flat = [{**record, "loss": 3.0} for record in EPOCHS]
    drawn = curves_picture(replace(subject_of(clouds("ab")), metrics=flat))
    drawn.figure.draw_without_rendering()
    axes = drawn.figure.axes[0]
    assert axes.get_legend().get_window_extent().y0 >= axes.get_window_extent().y1


def test_guessing_a_class_is_no_measure_of_retrieval():
    rows = torch.randn(40, 4, generator=torch.Generator().manual_seed(0))
    noise = EmbeddingSet.from_arrays(rows, [0] * 30 + [1] * 10)
    axes = accuracy_picture(subject_of(noise)).figure.axes[0]
    titles = dict(zip((text.get_text() for text in axes.get_yticklabels()), axes.get_yticks(), strict=True))
    (line,) = axes.collections
    (share, low), (_, high) = line.get_segments()[0]
    assert share == 75
    assert titles["recall@1"] < low < min(place for title, place in titles.items() if "k-NN" in title) < high
    assert "guessing" in [text.get_text() for text in axes.texts]
