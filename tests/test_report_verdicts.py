"""What a report says of its figures: grades, notes and sentences, of cases made by hand."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.stats import beta

from report_subjects import CHECKS, EPOCHS, clouds, two_runs
from sincere.embeddings import EmbeddingSet
from sincere.evaluate import Estimate
from sincere.geometry.record import PairSimilarity
from sincere.report import subject_of
from sincere.report.pictures.accuracy import _against_guessing, accuracy_grade, accuracy_picture
from sincere.report.pictures.class_pairs import class_pairs_picture
from sincere.report.pictures.confusion import confusion_picture
from sincere.report.pictures.curves import curves_picture
from sincere.report.pictures.histograms import histograms_picture
from sincere.report.pictures.point_map import point_map_picture
from sincere.report.pictures.simplex import simplex_picture
from sincere.report.projections import point_map


@pytest.mark.parametrize(("between", "grade", "end"), [(0.45, "good", "itself, by far."), (0.6, "mixed", "itself.")])
def test_classes_are_far_apart_where_another_is_less_than_half_as_close(between, grade, end):
    rows = torch.tensor([[1.0, 0.0], [between, (1 - between**2) ** 0.5]]).repeat_interleave(3, dim=0)
    found = subject_of(EmbeddingSet.from_arrays(rows, [*"aaabbb"], name="two"))
    verdict = class_pairs_picture(found).verdict
    assert (verdict.grade, verdict.sentence.endswith(f"every class is closest to {end}")) == (grade, True)


def test_two_classes_that_share_a_direction_are_enough_to_say_so():
    angles = torch.deg2rad(torch.tensor([0.0, 20.0, 180.0])).repeat_interleave(2)
    rows = torch.stack([angles.cos(), angles.sin()], dim=1)
    verdict = simplex_picture(subject_of(EmbeddingSet.from_arrays(rows, [*"aabbcc"], name="three"))).verdict
    assert (verdict.grade, verdict.sentence.endswith("share much of their direction.")) == ("poor", True)
    assert "some classes share" in verdict.sentence


@pytest.mark.parametrize(("wrong", "grade"), [(2, "good"), (4, "mixed"), (10, "mixed"), (12, "poor")])
def test_accuracy_is_graded_by_what_is_left_of_the_errors_of_guessing(wrong, grade):
    """Of 40 samples in two classes of 20, guessing is wrong on 20."""
    found = subject_of(clouds("ab"))
    labels = found.test.labels.tolist()
    said = tuple(1 - label if place < wrong else label for place, label in enumerate(labels))
    knn = replace(found.evaluation.classifiers[0], predicted=said)
    second = replace(knn, method="class_means", predicted=tuple(1 - label for label in labels))  # not graded
    assert accuracy_grade(replace(found, evaluation=replace(found.evaluation, classifiers=(knn, second)))) == grade


@pytest.mark.parametrize(("classes", "grade"), [(10, "poor"), (20, "mixed")])
def test_up_to_a_tenth_of_the_classes_may_be_as_close_to_another(classes, grade):
    means = np.where(np.eye(classes, dtype=bool), 0.9, 0.0)
    means[0, 1] = means[1, 0] = 0.9
    names, ones = tuple(f"class {c}" for c in range(classes)), ((1,) * classes,) * classes
    record = PairSimilarity(names, tuple(map(tuple, means.tolist())), ones)
    plain, _ = two_runs()
    verdict = class_pairs_picture(replace(plain, geometry=replace(plain.geometry, similarity=record))).verdict
    assert verdict.grade == grade
    assert verdict.sentence.endswith("class 0, class 1 are as close to another class as to themselves.")


def test_of_no_mistake_the_largest_share_that_would_be_no_surprise_is_told():
    """The exact one-sided bound: with more errors than that, none in 40 samples has a chance below 5 %."""
    sentence = accuracy_picture(subject_of(clouds("ab", noise=0.01))).verdict.sentence
    bound = 100 * beta.ppf(0.95, 1, 40)
    assert f"is right on all 40 samples (errors below {bound:.1f} % with 95 % confidence)" in sentence


def test_few_epochs_can_still_fall():
    plain, _ = two_runs()
    falling = tuple({**record, "loss": 9.0 - place} for place, record in enumerate(EPOCHS[:5]))
    assert "still falling" in curves_picture(replace(plain, metrics=falling)).verdict.sentence
    high = tuple({**record, "loss": 100.0 - place} for place, record in enumerate(EPOCHS[:5]))  # a floor far above 0
    assert "still falling" in curves_picture(replace(plain, metrics=high)).verdict.sentence


@pytest.mark.parametrize(
    ("interval", "words"),
    [
        (Estimate(0.45, 0.35, 0.55), "not to be told from guessing"),
        (Estimate(0.35, 0.25, 0.45), "not to be told from guessing"),
        (Estimate(0.5, 0.41, 0.59), "better than guessing, with most of its errors left"),
        (Estimate(0.3, 0.21, 0.39), "worse than guessing"),
    ],
)
def test_guessing_is_beaten_by_a_whole_interval(interval, words):
    assert _against_guessing(interval, 0.4) == words


def test_five_classes_in_a_plane_are_no_simplex_and_that_is_said():
    verdict = simplex_picture(subject_of(clouds("abcde", dim=2))).verdict
    assert verdict.grade == "open"
    assert "with so few dimensions no embedding could reach it" in verdict.sentence


def test_a_set_of_one_class_has_no_accuracy():
    found = subject_of(clouds("a"))
    assert found.evaluation.classifiers == ()
    assert found.evaluation.retrieval is None
    assert "all samples are of one class, 'a'" in found.evaluation.notes[0]


def test_a_draw_of_pairs_is_said():
    plain, _ = two_runs()
    some = replace(plain.geometry, histograms=replace(plain.geometry.histograms, sampled=1234))
    sentence = histograms_picture(replace(plain, geometry=some)).verdict.sentence
    assert "pairs of 1,234 samples drawn at random" in sentence
    assert "drawn at random" not in histograms_picture(plain).verdict.sentence


def test_a_point_less_of_validation_is_no_sign_of_too_long_a_training():
    plain, _ = two_runs()
    checks = [{**CHECKS[0], "knn_accuracy": share, "samples": 10**6} for share in (0.9, 0.89)]
    assert "too long" not in curves_picture(replace(plain, metrics=(*EPOCHS, *checks))).verdict.sentence


def test_of_ten_points_nine_others_can_be_near():
    for per_class, words in ((10, "counting as many as its class has other points"), (11, "of a point's ten nearest")):
        found = subject_of(clouds("ab", per_class=per_class))
        assert words in point_map_picture(found, point_map(found)).verdict.sentence


def test_alone_a_set_is_judged_by_all_but_one():
    assert subject_of(clouds("ab")).evaluation.train_samples == 39


@pytest.mark.parametrize(("alone", "words"), [("", None), ("c", "1 sample is the only one"), ("cd", "2 samples are")])
def test_only_classes_of_one_sample_are_noted(alone, words):
    """And not a class that is named and has no sample here."""
    labels = torch.tensor([0] * 5 + [1] * 5 + [2 + place for place in range(len(alone))])
    rows = torch.randn(len(labels), 3)
    found = subject_of(EmbeddingSet.from_arrays(rows, labels, class_names=("a", "b", "c", "d", "e"), name="some"))
    noted = [note for note in found.evaluation.notes if "only one" in note]
    assert len(noted) == (0 if words is None else 1)
    assert words is None or noted[0].startswith(words)
    hopeless = {"": None, "c": "1 class has no other sample and", "cd": "2 classes have no other sample and"}[alone]
    sentence = confusion_picture(found).verdict.sentence
    assert sentence.count("cannot be right") == (hopeless is not None)
    assert hopeless is None or hopeless in sentence
