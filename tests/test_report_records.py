"""What a report is made of: leave-one-out figures, mistakes, projections, sheets of thumbnails, pictures and files."""

import base64
import csv
import io
import json
import re
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image
from sklearn.decomposition import PCA
from sklearn.metrics.pairwise import cosine_similarity

from report_subjects import CHECKS, EPOCHS, HOSTILE, clouds, digits, hostile, two_runs
from sincere.embeddings import EmbeddingSet
from sincere.errors import InputError, OptionError
from sincere.report import write_report
from sincere.report.elements import json_island
from sincere.report.leave_one_out import evaluate_alone
from sincere.report.map_names import island_of, places_of_names
from sincere.report.mistakes import worst_mistakes
from sincere.report.picture import Table
from sincere.report.pictures.accuracy import accuracy_picture, guessing
from sincere.report.pictures.class_pairs import class_pairs_picture
from sincere.report.pictures.confusion import confusion_picture
from sincere.report.pictures.curves import curves_picture
from sincere.report.pictures.histograms import histograms_picture
from sincere.report.pictures.point_map import point_map_picture
from sincere.report.pictures.simplex import _regular_simplex, simplex_picture
from sincere.report.projections import MOST_POINTS, drawn_samples, point_map, principal_components
from sincere.report.subject import subject_of
from sincere.report.svg import inlined
from sincere.report.thumbnails import sheet_of
from sincere.report.writing import PICTURES


def test_leave_one_out_is_that_of_a_loop():
    found = clouds("abcd", noise=1.2, per_class=25)
    rows, labels = found.embeddings.double().numpy(), found.labels.tolist()
    cosines = cosine_similarity(rows)
    expected = []
    for i in range(len(rows)):
        others = sorted((j for j in range(len(rows)) if j != i), key=lambda j: -cosines[i, j])[:20]
        votes = {
            c: (sum(labels[j] == c for j in others), sum(cosines[i, j] for j in others if labels[j] == c))
            for c in range(4)
        }
        expected.append(max(votes, key=lambda c: votes[c]))
    made = evaluate_alone(found, name="alone")
    result = made.classifier("knn")
    assert list(result.predicted) == expected
    right = np.array(expected) == np.array(labels)
    assert result.top1.value == right.mean()
    assert result.top1.low <= right.mean() <= result.top1.high
    assert result.balanced.value == pytest.approx(np.mean([right[np.array(labels) == c].mean() for c in range(4)]))
    nearest = [max((j for j in range(len(rows)) if j != i), key=lambda j: cosines[i, j]) for i in range(len(rows))]
    assert made.retrieval.recall[1].value == np.mean([labels[j] == labels[i] for i, j in enumerate(nearest)])
    assert any("among all the others" in note for note in made.notes)


def test_nobody_else_to_be_judged_by():
    made = evaluate_alone(EmbeddingSet.from_arrays([[1.0, 2.0]], ["a"]), name="one")
    assert (made.classifiers, made.retrieval) == ((), None)
    pair = evaluate_alone(EmbeddingSet.from_arrays([[1.0, 2.0], [2.0, 1.0]], ["a", "b"]), name="two")
    assert pair.classifier("knn").top1.value == 0  # the only other one is of the other class
    assert pair.retrieval is None


def test_a_set_by_itself_does_not_depend_on_the_order_of_equal_samples():
    codes = torch.randint(2, (60, 4), generator=torch.Generator().manual_seed(0)) * 2.0 - 1
    labels = torch.arange(60) % 3
    orders = [torch.randperm(60, generator=torch.Generator().manual_seed(seed)) for seed in range(5)]
    made = [evaluate_alone(EmbeddingSet.from_arrays(codes[o], labels[o]), name="codes") for o in orders]
    for kind in (lambda one: one.classifier("knn").top1.value, lambda one: one.retrieval.map_at_r.value):
        assert len({round(kind(one), 12) for one in made}) == 1
    # Chances where samples tie for a place, and truth values where none do.
    assert {type(hit) for hit in made[0].retrieval.hits[1]} == {float}
    plain = evaluate_alone(EmbeddingSet.from_arrays(torch.randn(20, 4), torch.arange(20) % 2), name="plain")
    assert {type(hit) for hit in plain.retrieval.hits[1]} == {bool}


def test_worst_mistakes_are_those_of_a_loop():
    _, noisy = two_runs()
    cosines = cosine_similarity(noisy.test.embeddings.double(), noisy.train.embeddings.double())
    labels, gallery = noisy.test.labels.numpy(), noisy.train.labels.numpy()
    predicted = np.array(noisy.evaluation.classifier("knn").predicted)
    margins = {
        i: max(cosines[i][gallery == predicted[i]]) - max(cosines[i][gallery == labels[i]])
        for i in range(len(labels))
        if predicted[i] != labels[i]
    }
    assert len(margins) > 8, "the test needs mistakes to choose from"
    found = worst_mistakes(noisy)
    assert [one.sample for one in found] == sorted(margins, key=lambda i: -margins[i])[:8]
    for one in found:
        assert one.margin == pytest.approx(margins[one.sample], abs=1e-5)
        assert [near.sample for near in one.neighbours] == np.argsort(-cosines[one.sample])[:5].tolist()
        assert [near.label for near in one.neighbours] == gallery[[near.sample for near in one.neighbours]].tolist()


def test_a_sample_is_no_neighbour_of_itself():
    alone = subject_of(clouds("abc", noise=2.0))
    for one in worst_mistakes(alone):
        assert one.sample not in [near.sample for near in one.neighbours]


def test_principal_components_are_scikit_learns():
    rows = np.random.default_rng(0).normal(size=(40, 6)) * [5, 3, 1, 1, 1, 1]
    model = PCA(2).fit(rows)
    points, shares = principal_components(rows)
    assert np.allclose(np.abs(points), np.abs(model.transform(rows)))
    assert np.allclose(shares, model.explained_variance_ratio_)
    flat, _ = principal_components(np.ones((4, 1)))
    assert flat.shape == (4, 2)


@pytest.mark.parametrize(
    ("dim", "keys"), [(1, ["pca"]), (2, ["circle"]), (3, ["sphere", "pca", "neighbours"]), (5, ["pca", "neighbours"])]
)
def test_projections_by_dimension(dim, keys):
    found = point_map(subject_of(clouds("ab", dim=dim, per_class=8)))
    assert [one.key for one in found.projections] == keys
    for one in found.projections:
        assert np.isfinite(one.points).all()
    if dim in (2, 3):
        assert np.allclose(np.linalg.norm(found.projections[0].points, axis=1), 1)
        assert found.first == 0


def test_agreement_is_that_of_a_loop_and_the_map_is_the_same_every_time():
    subject = subject_of(clouds("abc", noise=1.0, per_class=15))
    found, again = point_map(subject), point_map(subject)
    assert np.array_equal(found.projections[1].points, again.projections[1].points)
    labels = subject.test.labels.numpy()
    cosines = cosine_similarity(subject.test.embeddings.double())
    np.fill_diagonal(cosines, -2)
    near = np.argsort(-cosines, axis=1)[:, :10]
    assert found.agreement == pytest.approx((labels[near] == labels[:, None]).mean())
    assert found.first == int(np.argmax([found.agreements[one.key] for one in found.projections]))


def test_many_samples_are_drawn_without_order_or_repetition():
    assert drawn_samples(10).tolist() == list(range(10))
    drawn = drawn_samples(2 * MOST_POINTS).tolist()
    assert len(set(drawn)) == MOST_POINTS
    assert drawn == sorted(drawn)
    assert max(drawn) > 1.9 * MOST_POINTS


@pytest.mark.parametrize("shape", [(7, 8, 8), (5, 9, 6, 3)])
def test_a_sheet_holds_every_thumbnail(shape):
    images = torch.randint(256, shape, dtype=torch.uint8)
    made = sheet_of(images)
    head, _, code = made.uri.partition(",")
    assert head == "data:image/png;base64"
    sheet = np.array(Image.open(io.BytesIO(base64.b64decode(code))))
    for place, image in enumerate(images.numpy()):
        top, left = place // made.columns * made.tile, place % made.columns * made.tile
        assert np.array_equal(sheet[top : top + made.height, left : left + made.width], image)


def test_a_large_sheet_is_a_jpeg_that_looks_the_same():
    smooth = torch.linspace(0, 255, 32).view(1, 32, 1, 1).expand(200, 32, 32, 3).to(torch.uint8)
    made = sheet_of(smooth)
    head, _, code = made.uri.partition(",")
    assert head == "data:image/jpeg;base64"
    sheet = np.array(Image.open(io.BytesIO(base64.b64decode(code)))).astype(int)
    assert np.abs(sheet[:32, :32] - smooth[0].numpy()).max() < 12


@pytest.mark.parametrize(("corners", "space"), [(2, 2), (3, 2), (4, 3)])
def test_the_simplex_that_is_drawn_is_regular(corners, space):
    drawn = _regular_simplex(corners, space)
    wanted = np.full((corners, corners), -1 / (corners - 1))
    np.fill_diagonal(wanted, 1)
    assert np.allclose(drawn @ drawn.T, wanted)


def test_pictures_hold_the_figures_of_the_records():
    plain, _ = two_runs()
    for picture, rows in (
        (class_pairs_picture(plain), 55),
        (histograms_picture(plain), 100),
        (simplex_picture(plain), 45),
        (curves_picture(plain), 20),
    ):
        assert len(picture.table.rows) == rows
        assert len(picture.verdict.sentence) > 40
    confusion = confusion_picture(plain)
    assert sum(row[2] for row in confusion.table.rows) == len(plain.test)
    figures = {row[0]: row[1:] for row in accuracy_picture(plain).table.rows}
    top1 = plain.evaluation.classifier("class_means").top1
    assert figures["class means"] == (top1.value, top1.low, top1.high)
    assert guessing(plain.evaluation) == max(torch.bincount(plain.test.labels).tolist()) / len(plain.test)
    assert [row[2] for row in curves_picture(plain).table.rows] == pytest.approx([0.25] * 20)


def test_the_name_of_a_class_stands_where_it_lies_closest_together():
    """And not in the middle of the two places where it lies, where another class may be."""
    spread = np.random.default_rng(0).normal(size=(60, 2))
    split = np.concatenate([spread[:40] / 10, spread[40:] / 10 + 8])
    points, labels = np.concatenate([split, spread / 10 + 4]), np.repeat([3, 5], 60)
    names = places_of_names(points, labels)
    assert set(names) == {3, 5}
    assert np.abs(np.array(names[3])).max() < 0.4
    assert np.abs(np.array(names[5]) - 4).max() < 0.4
    assert island_of(points[:1]).tolist() == points[:1].tolist()


def test_better_embeddings_get_better_words():
    order = {"good": 0, "mixed": 1, "poor": 2}
    tight, loose = (subject_of(clouds("abcde", noise=n, dim=8, per_class=30)) for n in (0.1, 4.0))
    for make in (accuracy_picture, histograms_picture, class_pairs_picture, confusion_picture):
        good, bad = make(tight).verdict, make(loose).verdict
        assert order[good.grade] < order[bad.grade], (good, bad)
    assert accuracy_picture(tight).verdict.sentence.startswith(
        "k-NN, leave-one-out (k = 20) is right on all 150 samples"
    )


def checked(share, samples):
    return {**CHECKS[0], "knn_accuracy": share, "samples": samples}


@pytest.mark.parametrize(
    ("records", "grade", "words"),
    [
        (EPOCHS + CHECKS, "good", "levelled off; where the learning rate fell to its end, a longer run may gain still"),
        (EPOCHS[:3], "open", "too few"),
        (tuple({**r, "loss": 21.0 - r["epoch"]} for r in EPOCHS), "mixed", "still falling"),
        (tuple({**r, "loss": float(r["epoch"])} for r in EPOCHS), "poor", "did not fall"),
        ((*EPOCHS, {**CHECKS[0], "knn_accuracy": 0.99}, CHECKS[0]), "mixed", "too long"),
        ((*EPOCHS, *(checked(share, 2000) for share in (0.39, 0.35))), "mixed", "too long"),
        ((*EPOCHS, *(checked(share, 49) for share in (0.39, 0.35))), "good", "levelled off"),  # two samples
        (
            tuple({**r, "loss": 3 + 2.0**-i, "excess": 2.7 + 2.0**-i} for i, r in enumerate(EPOCHS)),
            "mixed",
            "It had levelled off with 73.0 % of what was above the floor still there.",
        ),
    ],
)
def test_what_curves_say(records, grade, words):
    plain, _ = two_runs()
    verdict = curves_picture(replace(plain, metrics=records)).verdict
    assert (verdict.grade, words in verdict.sentence) == (grade, True), verdict
    assert curves_picture(replace(plain, metrics=())) is None


def test_inlined_pictures_share_no_ids_and_no_fixed_ink(tmp_path):
    plain, _ = two_runs()
    ids = []
    for prefix in ("one", "two"):
        svg = inlined(histograms_picture(plain).save(tmp_path, prefix), prefix=prefix, label='a "label" <b>')
        own = re.findall(r'\bid="([^"]+)"', svg)
        ids += own
        for target in re.findall(r'(?:href="#|url\(#)([^")]+)', svg):
            assert target in own
        assert "var(--ink)" in svg
        assert "#1b1e23" not in svg
        assert "DejaVu" not in svg
        assert 'aria-label="a &quot;label&quot; &lt;b&gt;"' in svg
        assert "cosine of two embeddings</text>" in svg
    assert len(ids) == len(set(ids))


def test_a_picture_is_the_same_every_time(tmp_path):
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        confusion_picture(two_runs()[0]).save(tmp_path / folder)
    for name in ("confusion.svg", "confusion.csv", "confusion.png"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_data_cannot_become_markup_or_a_formula(tmp_path):
    text = write_report(subject_of(hostile()), tmp_path / "r.html").read_text()
    assert text.count("</script>") == 3  # the points, plotly, and the page's own
    assert "<img src=x" not in text
    for name in HOSTILE[:2]:
        assert name not in text
    island = re.search(r'<script type="application/json" id="points">(.*?)</script>', text, flags=re.DOTALL)[1]
    assert json.loads(island)["runs"][0]["classes"] == list(HOSTILE)
    assert "'=1+1" in (tmp_path / "r_files" / "confusion.csv").read_text()
    assert Table(("a",), (("=1",), (-1.5,))).as_csv() == "a\n'=1\n-1.5\n"
    # A carriage return in a name ends no row.
    text = Table(("class", "n"), (("two\rlines", 3), ("plain", 4))).as_csv()
    assert list(csv.reader(io.StringIO(text, newline=""))) == [["class", "n"], ["two\rlines", "3"], ["plain", "4"]]
    assert "<" not in json_island("x", {"k": "</script>\u2028"}).removeprefix(
        '<script type="application/json" id="x">'
    ).removesuffix("</script>")


ODD = {
    "one class": clouds("a", per_class=12),
    "singletons": clouds("ab", per_class=1),
    "one sample": EmbeddingSet.from_arrays([[1.0, 2.0, 3.0, 4.0]], ["only"]),
    "zero vectors": EmbeddingSet.from_arrays(np.zeros((6, 3)), [0, 0, 0, 1, 1, 1]),
    "duplicates": EmbeddingSet.from_arrays(np.ones((30, 4)), np.arange(30) % 3),
    "many classes": clouds([f"class {i}" for i in range(40)], per_class=2, dim=3),
    "empty class": EmbeddingSet.from_arrays(np.eye(4), [0, 1, 1, 0], class_names=("a", "b", "never seen")),
}


@pytest.mark.parametrize("name", ODD)
def test_odd_sets_have_pictures_too(name):
    subject = subject_of(ODD[name])
    found = point_map(subject)
    pictures = [point_map_picture(subject, found), *(make(subject) for make in PICTURES)]
    for picture in filter(None, pictures):
        assert "nan" not in picture.verdict.sentence.lower().split(), picture.verdict
        for row in picture.table.rows:
            assert not any(isinstance(cell, float) and cell != cell for cell in row)


def test_odd_sets_side_by_side(tmp_path):
    subjects = [subject_of(ODD[name], name=name) for name in ("one class", "one sample", "zero vectors")]
    path = write_report(subjects, tmp_path / "r.html")
    assert "NaN" not in re.sub(r"<script>.*?</script>", "", path.read_text(), flags=re.DOTALL)


def test_what_is_refused(tmp_path):
    with pytest.raises(OptionError, match=r"must end in \.html"):
        write_report(two_runs()[0], tmp_path / "report.pdf")
    with pytest.raises(OptionError, match="something to report on"):
        write_report([], tmp_path / "report.html")
    with pytest.raises(InputError, match="empty"):
        subject_of(clouds("ab").subset(torch.tensor([], dtype=torch.int64)))
    with pytest.raises(InputError, match="no file"):
        write_report(tmp_path / "nothing.npz", tmp_path / "report.html")


@pytest.mark.parametrize("missing", ["plotly.offline", "matplotlib"])
def test_a_missing_library_is_named(tmp_path, monkeypatch, missing):
    import importlib

    real = importlib.import_module

    def without(name, *rest):
        if name == missing:
            raise ModuleNotFoundError(name, name=name)
        return real(name, *rest)

    monkeypatch.setattr(importlib, "import_module", without)
    package = missing.partition(".")[0]
    with pytest.raises(OptionError, match=rf'needs {package}, .*pip install "sincere\[lab\]"'):
        write_report(two_runs()[0], tmp_path / "report.html")


def test_sets_of_other_samples_stand_side_by_side_without_a_paired_comparison(tmp_path):
    few = [subject_of(clouds(names, per_class=3)) for names in ("ab", "abc")]
    text = write_report(few, tmp_path / "r.html").read_text()
    assert "No paired comparison: the evaluations must be of the same test samples" in text
    assert "clouds (2)" in text
    train, test = digits()
    with pytest.raises(InputError, match="dimension"):
        subject_of(test, train=clouds("ab"))
    assert len(train) == 280
