"""The page on small classes: no verdict on what no embedding could reach."""

import re
from dataclasses import replace

import numpy as np
import pytest
from sklearn.metrics.pairwise import cosine_similarity

from sincere.embeddings import EmbeddingSet
from sincere.report import write_report
from sincere.report.leave_one_out import evaluate_alone
from sincere.report.mistakes import worst_mistakes
from sincere.report.pictures.accuracy import accuracy_picture
from sincere.report.pictures.class_pairs import class_pairs_picture
from sincere.report.pictures.confusion import confusion_picture
from sincere.report.pictures.point_map import point_map_picture
from sincere.report.projections import point_map
from sincere.report.sections import mistakes_section, tiles
from sincere.report.subject import subject_of


def islands(sizes, *, noise=0.6, dim=32, seed=0):
    random = np.random.default_rng(seed)
    centres = random.normal(size=(len(sizes), dim))
    centres /= np.linalg.norm(centres, axis=1, keepdims=True)
    labels = np.repeat(np.arange(len(sizes)), sizes)
    rows = centres[labels] + noise * random.normal(size=(len(labels), dim)) / dim**0.5
    names = tuple(f"class {c}" for c in range(len(sizes)))
    return EmbeddingSet.from_arrays(rows, labels, class_names=names, name="islands")


@pytest.fixture(scope="module")
def many():
    """110 classes of 6."""
    return subject_of(islands([6] * 110))


@pytest.fixture(scope="module")
def lonely():
    """Three classes of 40, and two of one sample."""
    return subject_of(islands([40, 40, 40, 1, 1]))


def test_many_small_islands_are_good(many):
    found = point_map(many)
    for picture in (point_map_picture(many, found), accuracy_picture(many), confusion_picture(many)):
        assert picture.verdict.grade == "good", picture.verdict
    assert found.agreement > 0.9
    assert "as many as its class has other points and ten at most" in point_map_picture(many, found).verdict.sentence
    assert "k-NN, leave-one-out (k = 5, small classes)" in tiles(many)
    assert any("(5 other samples each)" in note for note in many.evaluation.notes)


def test_many_small_clouds_that_overlap_are_poor():
    subject = subject_of(islands([6] * 60, noise=3.0))
    found = point_map(subject)
    grades = [
        picture.verdict.grade
        for picture in (point_map_picture(subject, found), accuracy_picture(subject), confusion_picture(subject))
    ]
    assert grades == ["poor"] * 3


@pytest.mark.parametrize("sizes", [[6] * 20, [30, 12, 5, 2, 1], [40, 40]], ids=str)
def test_agreement_is_that_of_a_loop(sizes):
    test = islands(sizes, noise=1.8)
    labels, cosines = test.labels.numpy(), cosine_similarity(test.embeddings.double())
    shares = []
    for i, label in enumerate(labels):
        others = sorted((j for j in range(len(labels)) if j != i), key=lambda j: -cosines[i, j])
        depth = min(10, sum(labels[j] == label for j in others))
        if depth:
            shares.append(sum(labels[j] == label for j in others[:depth]) / depth)
    assert point_map(subject_of(test)).agreement == pytest.approx(np.mean(shares))


def map_of(test):
    subject = subject_of(test)
    found = point_map(subject)
    return found, point_map_picture(subject, found).verdict


@pytest.mark.parametrize("sizes", [[400, 12], [200, 4], [9, 2], [300, *[5] * 6]], ids=str)
def test_noise_has_a_poor_map_however_unequal_its_classes(sizes):
    labels = np.repeat(np.arange(len(sizes)), sizes)
    rows = np.random.default_rng(0).normal(size=(len(labels), 16))
    found, verdict = map_of(EmbeddingSet.from_arrays(rows, labels))
    assert verdict.grade == "poor", verdict
    assert "counting every class alike" in verdict.sentence
    assert found.judged < 0.6


@pytest.mark.parametrize("sizes", [[380, 20], [200, 4], [360, 36, 10]], ids=str)
def test_islands_have_a_good_map_however_unequal(sizes):
    assert map_of(islands(sizes))[1].grade == "good"


@pytest.mark.parametrize("noise", [0.6, 1.8, 3.0])
@pytest.mark.parametrize("sizes", [[40, 40], [6] * 20, [30] * 5], ids=str)
def test_of_equal_classes_the_map_is_judged_by_its_points(sizes, noise):
    found, verdict = map_of(islands(sizes, noise=noise))
    assert found.judged == pytest.approx(found.agreement)
    assert "alike" not in verdict.sentence


def test_a_few_stray_points_do_not_make_a_map_poor():
    """Too few to judge, as in the confusions; ten of them count as a class."""
    test = islands([60, 60])
    for stray, grade in ((4, "good"), (12, "mixed")):
        labels = test.labels.numpy().copy()
        labels[:: 120 // stray] = np.arange(stray) // 2 + 2  # pairs with nothing in common
        found, verdict = map_of(EmbeddingSet.from_arrays(test.embeddings.numpy(), labels))
        assert verdict.grade == grade, (found.judged, verdict)


def test_one_class_and_singles_have_no_map_to_judge():
    assert map_of(islands([40, 1]))[1].grade == "open"


def test_unequal_classes():
    subject = subject_of(islands([900, 90, 10]))
    assert subject.evaluation.classifier("knn").settings["k"] == 18
    assert subject.evaluation.classifier("knn").balanced.value == 1
    assert confusion_picture(subject).verdict.grade == "good"


def test_samples_without_another_of_their_class_are_no_fault(lonely):
    assert lonely.attainable.tolist() == [True] * 120 + [False] * 2
    accuracy, confusion = accuracy_picture(lonely).verdict, confusion_picture(lonely).verdict
    assert (accuracy.grade, confusion.grade) == ("good", "good")
    assert "leaves out 2 samples whose class has no other sample" in accuracy.sentence
    assert "every class of 10 samples or more is right; 2 classes have no other sample" in confusion.sentence
    assert "2 points without another of the same class are left out" in (
        point_map_picture(lonely, point_map(lonely)).verdict.sentence
    )
    assert worst_mistakes(lonely) == ()
    assert "made no mistake but on 2 samples whose class has no other sample" in mistakes_section(lonely, ())
    assert any(note.startswith("2 samples are the only ones of their class") for note in lonely.evaluation.notes)


def test_only_singles_have_no_verdict():
    subject = subject_of(islands([1] * 5))
    for picture in (
        accuracy_picture(subject),
        confusion_picture(subject),
        point_map_picture(subject, point_map(subject)),
    ):
        assert picture.verdict.grade == "open", picture.verdict
    assert "Fewer than two classes have other samples" in accuracy_picture(subject).verdict.sentence


def test_classes_without_training_samples_are_no_fault():
    found = islands([40, 40, 40])
    train = found.subset((found.labels < 2).nonzero().flatten())
    subject = subject_of(found, train=train)
    assert accuracy_picture(subject).verdict.grade == "good"
    assert "40 test samples whose class has no training sample" in accuracy_picture(subject).verdict.sentence
    assert "1 class has no training sample and cannot be right" in confusion_picture(subject).verdict.sentence


@pytest.mark.parametrize(
    ("sizes", "wrong", "grade", "words"),
    [
        ([60, 60, 3], {2: 3}, "good", "1 class of fewer than 10 samples is right in 0 of 3 (too few to judge)"),
        ([60, 60, 10], {2: 10}, "poor", "the hardest class, class 2, is right in only 0.0 % of its 10 samples"),
        ([60, 60, 5, 5], {2: 5}, "mixed", "2 classes of fewer than 10 samples are, taken together, right in 5 of 10"),
        ([60, 60], {0: 1}, "good", "1 of 120 samples, class 0 for class 1 (1); even the hardest class, class 0"),
        ([4, 4], {0: 1}, "open", "right in 7 of 8 (too few to judge)"),
    ],
)
def test_the_hardest_class_has_samples_to_be_judged_by(sizes, wrong, grade, words):
    subject = subject_of(islands(sizes))
    labels = list(subject.evaluation.labels)
    predicted = list(labels)
    for label, count in wrong.items():
        for place in [place for place, one in enumerate(labels) if one == label][:count]:
            predicted[place] = (label + 1) % len(sizes)
    first = replace(subject.evaluation.classifiers[0], predicted=tuple(predicted))
    changed = replace(subject, evaluation=replace(subject.evaluation, classifiers=(first,)))
    verdict = confusion_picture(changed).verdict
    assert (verdict.grade, words in verdict.sentence) == (grade, True), verdict


def test_a_matrix_of_many_classes_shows_its_diagonal(many, tmp_path):
    """At a pixel a class and less, cells of an image vanish."""
    from matplotlib.image import imread

    confusion_picture(many).save(tmp_path)
    drawn = imread(tmp_path / "confusion.png")[..., :3]
    blue = (drawn[..., 2] - drawn[..., 0] > 0.4).mean()
    assert 0.002 < blue < 0.1
    class_pairs_picture(many).save(tmp_path)
    drawn = imread(tmp_path / "class_pairs.png")[..., :3]
    assert (drawn[..., 2] - drawn[..., 0] > 0.4).mean() > 0.002


def test_one_sample_has_nobody(tmp_path):
    found = evaluate_alone(islands([1]), name="one")
    assert found.notes == ("there is one sample only, and nobody else to judge it by",)
    page = write_report(subject_of(islands([1])), tmp_path / "r.html").read_text()
    assert "All samples lie on one point." in page
    words = re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL)
    assert "1 sample, 1 class, embeddings of 32 dimensions" in words
    for wrong in ("1 samples", "1 classes", "1 points", "1 embeddings", "0 % of it"):
        assert wrong not in words
