"""The figures of a report: in its tables, on its page and in what is touched, against the embeddings themselves."""

import html
import json
import re
from collections import Counter
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
import torch

import sincere.report.projections as projections
from report_subjects import CHECKS, EPOCHS, _measured, clouds, digits, two_runs
from sincere.embeddings import EmbeddingSet
from sincere.evaluate.paired import holm
from sincere.report import subject_of, write_report
from sincere.report.mistakes import worst_mistakes
from sincere.report.pictures.accuracy import accuracy_picture
from sincere.report.pictures.class_pairs import class_pairs_picture
from sincere.report.pictures.comparison import comparisons, differences_picture, runs_picture
from sincere.report.pictures.confusion import confusion_picture
from sincere.report.pictures.curves import curves_picture
from sincere.report.pictures.histograms import histograms_picture
from sincere.report.pictures.point_map import point_map_picture
from sincere.report.pictures.simplex import simplex_picture
from sincere.report.projections import point_map
from sincere.report.sections import about, mistakes_section, runs_table, summary, tiles

ROUNDING = 1e-6  # of cosines of float32 rows


def unit_rows(found):
    rows = found.embeddings.double().numpy()
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def pairs_of(found):
    """Cosine and the two labels, the smaller first, of every pair of samples."""
    rows, labels = unit_rows(found), found.labels.tolist()
    return [(rows[i] @ rows[j], *sorted((labels[i], labels[j]))) for i, j in combinations(range(len(labels)), 2)]


def plain_words(markup):
    """What a reader sees of a piece of the page."""
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", markup)).replace("\xa0", " ").split())


def test_class_pairs_hold_mean_cosines_and_how_many_pairs_they_are_of():
    plain, _ = two_runs()
    names, pairs = plain.test.class_names, pairs_of(plain.test)
    rows = class_pairs_picture(plain).table.rows
    assert [row[:2] for row in rows] == [(names[a], names[b]) for a in range(10) for b in range(a, 10)]
    for one, other, mean, count in rows:
        cosines = [cosine for cosine, a, b in pairs if (names[a], names[b]) == (one, other)]
        assert count == len(cosines)
        assert mean == pytest.approx(np.mean(cosines), abs=2 * ROUNDING)
    apart = {row[:2]: row[2] for row in rows if row[0] != row[1]}
    (one, other), closest = max(apart.items(), key=lambda item: item[1])
    sentence = class_pairs_picture(plain).verdict.sentence
    assert f"the closest two are {one} and {other} ({closest:.2f})" in sentence


def test_hills_hold_the_pairs_of_each_bin():
    plain, _ = two_runs()
    pairs = pairs_of(plain.test)
    within, between = (np.array([cosine for cosine, a, b in pairs if (a == b) is same]) for same in (True, False))
    picture = histograms_picture(plain)
    rows = picture.table.rows
    assert f"({len(pairs):,} pairs)" in picture.verdict.sentence.replace("0 is best; ", "")
    for place, cosines in ((2, within), (3, between)):
        assert sum(row[place] for row in rows) == len(cosines)
        hill = picture.figure.axes[0].patches[2 * (place - 2)].get_data().values
        assert hill == pytest.approx([100 * row[place] / len(cosines) for row in rows])
        for row in rows:  # a cosine on an edge may fall to either side of it
            surely = ((cosines > row[0] + ROUNDING) & (cosines < row[1] - ROUNDING)).sum()
            perhaps = ((cosines > row[0] - ROUNDING) & (cosines < row[1] + ROUNDING)).sum()
            assert surely <= row[place] <= perhaps


def test_confusions_count_who_was_taken_for_whom():
    _, noisy = two_runs()
    names, labels = noisy.test.class_names, noisy.test.labels.tolist()
    said = noisy.evaluation.classifiers[0].predicted
    counts, sizes = Counter(zip(labels, said, strict=True)), Counter(labels)
    expected = [(names[a], names[b], count, count / sizes[a]) for (a, b), count in sorted(counts.items())]
    picture = confusion_picture(noisy)
    assert list(picture.table.rows) == expected
    wrong = {pair: count for pair, count in counts.items() if pair[0] != pair[1]}
    first = re.search(r"most often (\S+) for (\S+) \((\d+)\)", picture.verdict.sentence)
    assert wrong[names.index(first[1]), names.index(first[2])] == int(first[3]) == max(wrong.values())
    assert f"{sum(wrong.values())} of 120 samples" in picture.verdict.sentence


def test_the_simplex_holds_the_cosines_of_class_means():
    plain, _ = two_runs()
    rows, labels = unit_rows(plain.test), plain.test.labels.numpy()
    means = np.stack([rows[labels == c].mean(axis=0) for c in range(10)])
    means /= np.linalg.norm(means, axis=1, keepdims=True)
    expected = {(a, b): means[a] @ means[b] for a, b in combinations(range(10), 2)}
    picture = simplex_picture(plain)
    names = plain.test.class_names
    assert [row[:2] for row in picture.table.rows] == [(names[a], names[b]) for a, b in expected]
    for row, cosine in zip(picture.table.rows, expected.values(), strict=True):
        assert row[2] == pytest.approx(cosine, abs=2 * ROUNDING)
        assert row[3] == pytest.approx(-1 / 9, abs=ROUNDING)
    off = np.abs(np.array([*expected.values()]) + 1 / 9)
    near = replace(plain.geometry.simplex, mean_deviation=0.05, largest_deviation=0.9)
    near = simplex_picture(replace(plain, geometry=replace(plain.geometry, simplex=near))).verdict
    assert (near.grade, near.sentence.endswith("close to a regular simplex.")) == ("good", True)
    assert f"off by {off.mean():.2f} in the mean and by {off.max():.2f} at most" in picture.verdict.sentence


def test_accuracies_lie_within_their_intervals_and_are_shares_of_the_right():
    subjects = two_runs()
    for subject in subjects:
        rows = accuracy_picture(subject).table.rows
        assert [row[0] for row in rows][:2] == [
            f"{(knn := subject.evaluation.classifiers[0]).title}",
            f"{knn.title}, balanced",
        ]
        assert all(low <= value <= high for _, value, low, high in rows)
        assert all(low < high for _, _, low, high in rows)
    labels = subjects[0].test.labels.numpy()
    runs = runs_picture(subjects).table.rows
    assert all(low <= value <= high for *_, value, low, high in runs)
    for subject in subjects:
        for title, one in (
            ("k-NN", subject.evaluation.classifiers[0]),
            ("class means", subject.evaluation.classifiers[1]),
        ):
            right = (np.array(one.predicted) == labels).mean()
            (value,) = [row[2] for row in runs if row[:2] == (subject.name, title)]
            assert value == pytest.approx(right, abs=1e-12)


def test_differences_are_the_first_less_the_second():
    first, second = subjects = (two_runs()[0], _measured("a little noise", *digits(noise=2.5)))
    labels, found = first.test.labels.numpy(), comparisons(subjects)
    rows = differences_picture(found).table.rows
    accuracies = [[(np.array(c.predicted) == labels).mean() for c in s.evaluation.classifiers] for s in subjects]
    for place in range(2):
        assert rows[place][:2] == (first.name, second.name)
        assert rows[place][3] == pytest.approx(accuracies[0][place] - accuracies[1][place], abs=1e-12)
    assert all(row[4] <= row[3] <= row[5] for row in rows)
    for row, dot in zip(rows, differences_picture(found).figure.axes[0].lines[2::2], strict=True):
        assert dot.get_xdata() == pytest.approx([100 * row[3]])
    every = [difference for one in found.values() for difference in one.differences]
    assert [row[7] for row in rows] == holm([one.test.p for one in every])
    real = sum(one.verdict == "real" for one in every)
    assert 0 < real < len(every)
    assert f": {real} of {len(every)} here." in differences_picture(found).verdict.sentence


def drawn(monkeypatch, subject, most=40):
    """A map of a draw of the samples, whose places are not those among all samples."""
    monkeypatch.setattr(projections, "MOST_POINTS", most)
    found = point_map(subject)
    assert found.chosen.tolist() == sorted(set(found.chosen.tolist())) != list(range(most))
    return found


def test_a_map_of_some_samples_says_what_each_of_them_is(monkeypatch):
    _, noisy = two_runs()
    found, names = drawn(monkeypatch, noisy), noisy.test.class_names
    rows = point_map_picture(noisy, found).table.rows
    assert [row[0] for row in rows] == found.chosen.tolist()
    labels, said = noisy.test.labels.tolist(), noisy.evaluation.classifiers[0].predicted
    assert [row[1:3] for row in rows] == [(names[labels[i]], names[said[i]]) for i in found.chosen.tolist()]
    points = np.concatenate([one.points for one in found.projections], axis=1)
    np.testing.assert_allclose(np.array([row[3:] for row in rows]), points, atol=1e-5)
    wrong = [place for place, i in enumerate(found.chosen.tolist()) if labels[i] != said[i]]
    assert wrong
    for axes, one in zip(point_map_picture(noisy, found).figure.axes, found.projections, strict=True):
        np.testing.assert_allclose(axes.collections[-1].get_offsets(), one.points[wrong])  # the rings


def test_what_is_touched_is_what_was_drawn(monkeypatch, tmp_path):
    _, noisy = two_runs()
    texts = tuple(f"sample number {i}" for i in range(len(noisy.test)))
    shown = replace(noisy, test=replace(noisy.test, shown=texts, images=None))
    found = drawn(monkeypatch, shown)
    page = write_report(shown, tmp_path / "page.html").read_text(encoding="utf-8")
    island = json.loads(re.search(r'<script type="application/json" id="points">(.*?)</script>', page)[1])
    (run,), (content,) = island["runs"], island["contents"]
    chosen = found.chosen.tolist()
    assert run["samples"] == chosen
    assert run["labels"] == [noisy.test.labels.tolist()[i] for i in chosen]
    assert run["predicted"] == [noisy.evaluation.classifiers[0].predicted[i] for i in chosen]
    assert run["first"] == found.first
    assert content["texts"] == [texts[i] for i in chosen]
    for one, drawn_one in zip(run["projections"], found.projections, strict=True):
        np.testing.assert_allclose(np.array(one["points"]).T, drawn_one.points, atol=1e-4)
    assert "40 of 120 samples, drawn at random." in page


def test_the_tiles_and_the_table_of_runs_hold_what_was_measured():
    subjects = two_runs()
    for subject in subjects:
        words, pairs = plain_words(tiles(subject)), pairs_of(subject.test)
        knn = subject.evaluation.classifiers[0]
        right = 100 * (np.array(knn.predicted) == subject.test.labels.numpy()).mean()
        interval = f"95 % interval {100 * knn.top1.low:.1f} to {100 * knn.top1.high:.1f}"
        assert f"{knn.title} {right:.1f} % {interval}" in words
        retrieval = subject.evaluation.retrieval.map_at_r
        interval = f"95 % interval {100 * retrieval.low:.1f} to {100 * retrieval.high:.1f}"
        assert f"MAP@R {100 * retrieval.value:.1f} % {interval}" in words
        within, between = (np.mean([c for c, a, b in pairs if (a == b) is same]) for same in (True, False))
        assert f"Cosine within classes {within:.2f} between classes {between:.2f}" in words
    table = plain_words(runs_table(subjects))
    markup = runs_table(subjects)
    titles = [subject.evaluation.classifiers[0] for subject in subjects]
    better, worse = (f"{100 * one.top1.value:.2f} {100 * one.top1.low:.1f}–{100 * one.top1.high:.1f}" for one in titles)
    assert f"k-NN {better} {worse}" in table
    assert f"<b>{100 * titles[0].top1.value:.2f}</b>" in markup
    assert f"<b>{100 * titles[1].top1.value:.2f}</b>" not in markup
    for name, same in (("within", True), ("between", False)):
        means = [np.mean([c for c, a, b in pairs_of(s.test) if (a == b) is same]) for s in subjects]
        assert f"cosine {name} classes {means[0]:.2f} {means[1]:.2f}" in table
    off = [s.geometry.simplex.mean_deviation for s in subjects]
    assert f"off the simplex, mean {off[0]:.2f} {off[1]:.2f}" in table


def test_the_card_of_a_mistake_shows_the_sample_and_its_own_neighbours():
    _, noisy = two_runs()
    test = replace(noisy.test, images=None, shown=tuple(f"tested {i}" for i in range(len(noisy.test))))
    train = replace(noisy.train, images=None, shown=tuple(f"known {i}" for i in range(len(noisy.train))))
    subject = replace(noisy, test=test, train=train)
    found, names = worst_mistakes(subject), test.class_names
    cards = mistakes_section(subject, found).split('<li><div class="query">')[1:]
    cosines = unit_rows(test) @ unit_rows(train).T
    labels = train.labels.numpy()
    for mistake, card in zip(found, cards, strict=True):
        mine = cosines[mistake.sample]
        own, taken = (mine[labels == c].max() for c in (mistake.label, mistake.predicted))
        assert mistake.label == test.labels[mistake.sample]
        head, *near = card.split("<li class=")
        margin = f"{taken - own:.2f}".replace("-", "−")
        assert plain_words(f"<p{head}").startswith(
            f"tested {mistake.sample} {names[mistake.label]} taken for {names[mistake.predicted]} "
            f"sample {mistake.sample}, margin {margin}"
        )
        nearest = np.argsort(-mine)[: len(near)]
        for place, words in zip(nearest, near, strict=True):
            alike = "same" if labels[place] == mistake.label else "other"
            assert words.startswith(f'"{alike}"')
            assert f"known {place} {names[labels[place]]} cos {mine[place]:.2f}" in plain_words(f"<li class={words}")


def test_the_details_are_those_of_the_last_start():
    plain, _ = two_runs()
    starts = [{"command": f"sincere train {n}", "started": f"day {n}", "commit": f"c{n}", "seed": n} for n in (1, 2)]
    geometry = replace(plain.geometry, temperature=0.25)
    words = plain_words(about(replace(plain, provenance={"starts": starts}, geometry=geometry)))
    for line in (
        "command sincere train 2",
        "started day 2",
        "commit c2",
        "seed 2",
        "temperature of loss readings 0.25",
    ):
        assert line in words
    assert "sincere train 1" not in words
    sizes = sorted(Counter(plain.test.labels.tolist()).values())
    assert f"samples shown 120 in 10 classes, {sizes[0]} to {sizes[-1]} each" in words
    assert "judged by 280 training samples" in words
    alone = plain_words(about(subject_of(clouds("ab"))))
    assert "samples shown 40 in 2 classes, 20 each" in alone
    assert "judged by all the others (leave-one-out)" in alone


def test_validation_stands_beside_its_epoch():
    plain, _ = two_runs()
    known = {check["epoch"]: check["knn_accuracy"] for check in CHECKS}
    rows = curves_picture(plain).table.rows
    assert [(row[0], row[1], row[3]) for row in rows] == [
        (e["epoch"], e["loss"], known.get(e["epoch"])) for e in EPOCHS
    ]


def test_all_that_records_say_is_in_the_findings():
    subject = subject_of(clouds("abcde", dim=2))
    notes = replace(subject.geometry, notes=("a note of the geometry",))
    words = plain_words(summary(replace(subject, geometry=notes)))
    for sentence in (*subject.evaluation.summary, *subject.geometry.summary, "a note of the geometry"):
        assert " ".join(sentence.split()) in words
    assert f"Note: {subject.evaluation.notes[0]}." in words


def test_nobody_is_a_neighbour_of_itself_however_few_there_are():
    rows = torch.tensor([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0], [0.95, 0.05]])
    found = worst_mistakes(subject_of(EmbeddingSet.from_arrays(rows, ["a", "a", "b", "b"], name="few")))
    assert found
    for mistake in found:
        assert len(mistake.neighbours) == 3
        assert mistake.sample not in [one.sample for one in mistake.neighbours]
