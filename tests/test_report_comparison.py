"""Runs side by side: what is called real holds for the whole page."""

from dataclasses import replace
from itertools import chain

import numpy as np

from evaluated import with_correct
from report_subjects import two_runs
from sincere.evaluate import compare
from sincere.evaluate.paired import holm
from sincere.report.pictures.comparison import comparisons, differences_picture
from sincere.report.sections import difference_sentences
from sincere.report.writing import _told_apart


def three_runs():
    plain, noisy = two_runs()
    between = replace(noisy, name="again", evaluation=replace(noisy.evaluation, name="again"))
    return plain, noisy, between


def test_every_test_of_the_page_is_corrected_with_all_others():
    subjects = three_runs()
    found = comparisons(subjects)
    every = list(chain(*(one.differences for one in found.values())))
    assert len(found) > 2
    assert len(every) == 3 * len(found)
    alone = [compare(*(s.evaluation for s in subjects), method=m, metric=f) for m, f in found]
    assert [d.test for d in every] == [d.test for one in alone for d in one.differences]
    assert [d.p_holm for d in every] == holm([d.test.p for d in every])
    assert {d.tests for d in every} == {len(every)}


def test_the_page_says_for_how_many_tests_and_what_compare_does():
    for subjects in (two_runs(), three_runs()):
        found = comparisons(subjects)
        tests = len(found) * len(subjects) * (len(subjects) - 1) // 2
        words = difference_sentences(found)
        assert f"corrected for all {tests} tests here together, by Holm&#x27;s method" in words
        assert "<code>sincere compare</code> tests one figure" in words
        assert f"of {tests} here." in differences_picture(found).verdict.sentence


def test_a_page_of_one_test_is_not_corrected():
    base = np.arange(60) % 4 != 0
    found = {("knn", "top1"): compare(with_correct(base, name="a"), with_correct(~base, name="b"))}
    assert "Holm" not in difference_sentences(found)


def test_a_name_that_only_one_run_has_stays_its_own():
    """Whoever reads of `run (2)` has a folder of that name in mind."""
    plain = two_runs()[0]
    shown = _told_apart([replace(plain, name=name) for name in ("run", "run", "run (2)")])
    assert [one.name for one in shown] == ["run", "run (3)", "run (2)"]
    assert [one.evaluation.name for one in shown] == [one.name for one in shown]
