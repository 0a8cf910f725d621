"""compare: paired tests, corrections, and sentences that say what is true."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import stats

from evaluated import EVERYTHING, made, with_correct
from sincere.embeddings import EmbeddingSet
from sincere.errors import InputError, OptionError
from sincere.evaluate import Evaluation, EvaluationOptions, compare, corrected_together, evaluate
from sincere.evaluate.comparison import balancing_weights, per_sample
from sincere.evaluate.paired import holm, mcnemar_exact, paired_test, sign_flip


@pytest.fixture(scope="module")
def found():
    options = EvaluationOptions(methods=EVERYTHING, draws=100)
    return evaluate(made(210, 0), made(140, 1), validation=made(70, 2), options=options, name="model")


@pytest.mark.parametrize(("b", "c"), [(0, 0), (1, 0), (3, 9), (10, 10), (40, 80), (1500, 1700)])
def test_mcnemar_is_the_binomial_test(b, c):
    expected = stats.binomtest(b, b + c, 0.5).pvalue if b + c else 1.0
    assert mcnemar_exact(b, c) == pytest.approx(expected, rel=1e-9)
    assert mcnemar_exact(c, b) == mcnemar_exact(b, c)


def test_sign_flips_are_scipys_and_agree_with_mcnemar():
    generator = torch.Generator().manual_seed(0)
    differences = torch.randn(60, generator=generator) + 0.3
    theirs = stats.permutation_test(
        (differences.numpy(), np.zeros(60)),
        lambda a, b: np.mean(a - b),
        permutation_type="samples",
        vectorized=False,
        n_resamples=4000,
        rng=0,
    ).pvalue
    assert sign_flip(differences, seed=0) == pytest.approx(theirs, abs=0.012)
    coins = torch.tensor([1.0] * 14 + [-1.0] * 4 + [0.0] * 100)
    assert sign_flip(coins, seed=0) == pytest.approx(mcnemar_exact(14, 4), abs=0.01)
    assert sign_flip(torch.zeros(5), seed=0) == 1
    assert paired_test(coins > 0, coins < 0, seed=0).only_first == 14


def test_sign_flips_do_not_ask_which_model_came_first():
    generator = torch.Generator().manual_seed(1)
    differences = torch.randn(60, generator=generator) + 0.5
    p = sign_flip(differences, seed=0)
    assert p < 0.2, "where every choice of signs is as far, nothing is tested"
    assert sign_flip(-differences, seed=0) == p
    assert paired_test(torch.zeros(60), differences, seed=0).p == p
    assert paired_test(differences, torch.zeros(60), seed=4) == paired_test(torch.zeros(60), differences, seed=4)
    assert paired_test(differences, torch.zeros(60), seed=4).name == "sign-flip test"


def test_sign_flips_by_blocks_are_as_many_as_all_at_once():
    """1,000 coins take three blocks of signs; a single one has no choice that is less far, so that p is 1 exactly."""
    coins = torch.ones(1000)
    coins[:470] = -1
    assert sign_flip(coins, seed=0) == pytest.approx(mcnemar_exact(530, 470), abs=0.01)
    assert sign_flip(torch.tensor([2.0]), seed=0) == 1.0
    balanced = torch.ones(1000)
    balanced[:500] = -1
    assert sign_flip(balanced, seed=0) == 1.0


def test_holm_by_hand():
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.5, 0.9]) == [1.0, 1.0]
    assert holm([0.6, 0.7, 0.9]) == [1.0, 1.0, 1.0]  # 3 × 0.6 is no probability
    assert holm([0.2]) == [0.2]


def test_a_real_difference_is_called_real():
    base = np.arange(400) % 10 != 0  # 90 %
    better = base | (np.arange(400) % 20 == 0)  # 95 %, and never wrong where the other is right
    result = compare(with_correct(better, name="SINCERE"), with_correct(base, name="SupCon"))
    (difference,) = result.differences
    assert difference.verdict == "real"
    assert difference.estimate.value == pytest.approx(0.05)
    assert (difference.test.only_first, difference.test.only_second) == (20, 0)
    assert str(difference).startswith(
        "SINCERE is better than SupCon by 5.00 points of k-NN top-1 accuracy; 95 % interval"
    )
    swapped = compare(with_correct(base, name="SupCon"), with_correct(better, name="SINCERE"))
    assert str(swapped.differences[0]) == str(difference)  # whoever comes first
    assert [estimate.value for estimate in swapped.estimates] == pytest.approx([0.9, 0.95])


def test_luck_is_not_called_real():
    """Models that are equally good by construction: a difference is claimed in about one comparison of twenty."""
    verdicts = []
    for seed in range(100):
        chance = np.random.default_rng(seed).random((2, 300)) < 0.8
        result = compare(with_correct(chance[0], name="a"), with_correct(chance[1], name="b"), draws=200)
        verdicts.append(result.differences[0].verdict)
        if verdicts[-1] == "none":
            assert "No difference to be seen between a and b" in str(result)
            right = chance.sum(axis=1)
            ahead = "" if right[0] == right[1] else f" {'ab'[int(right.argmax())]} is ahead by"
            assert f"accuracy:{ahead} {abs(right[0] - right[1]) / 3:.2f} points, 95 % interval" in str(result)
    assert verdicts.count("real") <= 8
    assert verdicts.count("none") >= 90


def test_pairing_sees_what_two_intervals_do_not():
    """Two intervals overlap, and yet one model is better on the same samples."""
    base = np.arange(500) % 5 != 0
    better = base.copy()
    better[np.flatnonzero(~base)[:12]] = True
    a, b = with_correct(better, name="a"), with_correct(base, name="b")
    result = compare(a, b)
    assert result.estimates[0].low < result.estimates[1].high
    assert result.differences[0].verdict == "real"


def test_the_same_model_twice():
    one = with_correct(np.arange(50) % 3 != 0, name="run")
    result = compare(one, one)
    assert result.names == ("run", "run (2)")
    assert str(result.differences[0]) == ("run and run (2) agree on every one of 50 samples in k-NN top-1 accuracy.")


def test_interval_and_test_that_disagree_stay_open():
    base = np.arange(40) % 4 != 0
    better = base.copy()
    better[np.flatnonzero(~base)[:5]] = True  # McNemar's p = 2/2⁵
    (difference,) = compare(with_correct(better, name="a"), with_correct(base, name="b")).differences
    assert difference.test.p == pytest.approx(1 / 16)
    assert difference.estimate.low > 0
    assert difference.verdict == "unclear"
    assert "disagree" in str(difference)


def test_several_runs_are_corrected():
    generator = np.random.default_rng(3)
    runs = [with_correct(generator.random(300) < share, name=f"run {share}") for share in (0.7, 0.72, 0.9, 0.71)]
    result = compare(*runs)
    assert len(result.differences) == 6
    plain = [difference.test.p for difference in result.differences]
    assert [difference.p_holm for difference in result.differences] == pytest.approx(holm(plain))
    verdicts = {(d.first, d.second): d.verdict for d in result.differences}
    assert all((verdict == "real") == ("run 0.9" in pair) for pair, verdict in verdicts.items())
    assert all("after Holm's correction for 6 tests" in str(difference) for difference in result.differences)
    assert "corrected for all 6 tests here together" in str(result)
    document = json.loads(result.to_json())
    assert document["differences"][0]["sentence"] == str(result.differences[0])
    assert document["correction"] == result.correction


def test_one_test_is_not_corrected():
    one, other = (with_correct(np.arange(50) % step != 0, name=f"run {step}") for step in (3, 4))
    result = compare(one, other)
    assert result.differences[0].p_holm == result.differences[0].test.p
    assert result.correction == ""
    assert "Holm" not in str(result)


def test_what_is_read_together_is_corrected_together():
    """Six samples that only the first got right: p = 2/2⁶, which counts alone and not as one of two tests."""
    base = np.arange(60) % 4 != 0
    better = base.copy()
    better[np.flatnonzero(~base)[:6]] = True
    found = compare(with_correct(better, name="a"), with_correct(base, name="b"))
    assert found.differences[0].verdict == "real"
    both = corrected_together([found, compare(with_correct(base, name="a"), with_correct(base, name="b"))])
    (first,), (second,) = (one.differences for one in both)
    assert (first.p_holm, second.p_holm) == (pytest.approx(4 / 2**6), 1.0)
    assert (first.tests, second.tests) == (2, 2)
    assert first.verdict == "unclear"
    assert "p = 0.062 after Holm's correction for 2 tests: it would count if it were the only test" in str(first)
    assert corrected_together(both) == both  # from the tests' own p, so that twice is once


def test_every_metric_can_be_compared(found):
    other = evaluate(
        made(210, 0, noise=2),
        made(140, 1, noise=2),
        options=EvaluationOptions(methods=EVERYTHING, draws=100),
        name="other",
    )
    for method in found.methods:
        for metric in ("top1", "top5", "balanced"):
            result = compare(found, other, method=method, metric=metric)
            mine = getattr(found.classifier(method), metric)
            assert result.estimates[0].value == pytest.approx(mine.value)
            assert result.differences[0].estimate.value > 0
    for metric, mine in (("map@r", found.retrieval.map_at_r), ("recall@5", found.retrieval.recall[5])):
        result = compare(found, other, method="retrieval", metric=metric)
        assert result.estimates[0].value == pytest.approx(mine.value)
    weights = balancing_weights(torch.tensor(found.labels))
    mean = (per_sample(found, "knn", "balanced") * weights).mean()
    assert mean.item() == pytest.approx(found.classifier("knn").balanced.value)
    with pytest.raises(OptionError, match="metric must be one of"):
        compare(found, other, metric="loss")
    with pytest.raises(OptionError, match="without retrieval"):
        compare(replace(found, retrieval=None), other, method="retrieval", metric="map@r")


def probed(name, *, views=0, validation=True, **changes):
    train, test = made(210, 0), made(140, 1)
    seen = None
    if views:
        rows = [made(210, 0, noise=1 + number / 10) for number in range(views)]
        seen = replace(
            train,
            embeddings=torch.cat([one.embeddings for one in rows]),
            features=torch.cat([one.features for one in rows]),
            labels=train.labels.repeat(views),
        )
    options = EvaluationOptions(("knn", "linear"), draws=100, **changes)
    return evaluate(train, test, validation=made(70, 2) if validation else None, views=seen, options=options, name=name)


def test_probes_that_were_not_fitted_alike_are_named():
    plain, again = probed("plain"), probed("again")
    views, given = probed("views", views=2), probed("given", l2=0.01)
    assert compare(plain, again, method="linear").notes == ()
    (note,) = compare(plain, views, method="linear").notes
    assert "fitted on different things" in note
    assert "plain: the features of the training samples; views: the features of 2 views of each training sample" in note
    (note,) = compare(plain, given, method="linear").notes
    assert "(plain: chosen on the validation set; given: given, 0.01)" in note
    folds = probed("folds", validation=False)
    (note,) = compare(given, folds, method="linear").notes
    assert "given: given, 0.01; folds: chosen by cross-validation within the training set" in note
    (note,) = compare(given, probed("more", l2=0.1), method="linear").notes
    assert "given: given, 0.01; more: given, 0.1" in note
    (note,) = compare(plain, probed("embeddings", probes_on="embeddings"), method="linear").notes
    assert "embeddings: the embeddings of the training samples" in note
    both = compare(plain, again, probed("both", views=1, l2=0.01), method="linear")
    assert len(both.notes) == 2
    assert all(note in str(both) for note in both.notes)
    assert json.loads(both.to_json())["notes"] == list(both.notes)
    assert compare(plain, views, method="knn").notes == (), "k-NN knows nothing of probes"


def test_records_of_before_probes_could_see_views():
    """They do not say what they were fitted on: the training samples."""
    plain = probed("plain")
    settings = {name: value for name, value in plain.classifier("linear").settings.items() if name != "fitted_on"}
    old = replace(
        plain, classifiers=tuple(replace(one, settings=settings) for one in plain.classifiers if one.method == "linear")
    )
    assert compare(plain, old, method="linear").notes == ()
    assert len(compare(old, probed("views", views=2), method="linear").notes) == 1


def test_the_papers_probe_has_nothing_to_note(found):
    assert compare(found, found, method="linear_paper").notes == ()


def test_only_the_same_test_samples_can_be_compared(found):
    labels = list(found.labels)
    labels[3], labels[4] = labels[4], labels[3]
    with pytest.raises(InputError, match="2 of 140 labels of 'model' and 'model' differ"):
        compare(found, replace(found, labels=tuple(labels)))
    with pytest.raises(InputError, match="have other classes"):
        compare(found, replace(found, class_names=tuple("abcdefg")))
    with pytest.raises(InputError, match="two evaluations or more: got 1"):
        compare(found)
    short = evaluate(made(70, 0), made(70, 1), options=EvaluationOptions(("knn",), draws=100), name="short")
    with pytest.raises(InputError, match="'model' has 140 and 'short' 70"):
        compare(found, short)


def test_names_can_always_be_told_apart(found):
    names = ("run", "run (2)", "run", "run")
    result = compare(*(replace(found, name=name) for name in names), draws=100)
    assert result.names == ("run", "run (2)", "run (3)", "run (4)")


def test_other_inputs_under_the_same_labels_are_no_pair(found):
    """Test sets that are sorted by class have the same labels, whatever they hold."""
    easy, hard = (replace(found, name=name, samples=f"array-8 {name}") for name in ("easy", "hard"))
    with pytest.raises(InputError, match="'easy' and 'hard' agree, but their inputs are others"):
        compare(easy, hard)
    with pytest.raises(InputError, match="inputs are others"):
        compare(easy, easy, hard)
    for other in (replace(hard, samples=None), replace(hard, samples="array-9 hard"), replace(easy, name="again")):
        assert compare(easy, other).differences[0].verdict == "none"
    assert Evaluation.from_json(easy.to_json()) == easy
    document = json.loads(easy.to_json())
    del document["samples"]
    assert Evaluation.from_json(json.dumps(document)).samples is None, "a record of before"


def test_a_list_of_evaluations_is_to_be_unpacked(found):
    with pytest.raises(
        InputError, match=r"two evaluations or more: got 1\. Unpack the list: compare\(\*evaluations\)\."
    ):
        compare([found, found])
    with pytest.raises(InputError, match=r"two evaluations or more: got 1\.$"):
        compare(found)


def test_embeddings_are_to_be_evaluated_before_they_are_compared(found):
    """It was an error of torch's about sizes, from inside the comparison of labels."""
    embeddings = EmbeddingSet.from_arrays(np.eye(4), [0, 0, 1, 1])
    for pair in ((embeddings, embeddings), (found, embeddings)):
        with pytest.raises(InputError, match=r"takes evaluations.*evaluate\(train, test\).*got EmbeddingSet"):
            compare(*pair)
    with pytest.raises(InputError, match="got list"):
        compare([found], [found])
