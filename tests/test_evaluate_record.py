"""evaluate → Evaluation: figures, intervals, records, tables."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import stats

from evaluated import EVERYTHING, made
from sincere.errors import InputError, OptionError
from sincere.evaluate import Estimate, Evaluation, EvaluationOptions, bootstrap, evaluate
from sincere.evaluate.bootstrap import percentile_interval, resampled_class_means, resampled_counts, resampled_means
from sincere.evaluate.packing import pack, unpack


@pytest.fixture(scope="module")
def found():
    options = EvaluationOptions(methods=EVERYTHING, draws=200)
    steps = []
    result = evaluate(
        made(210, 0), made(140, 1), validation=made(70, 2), options=options, name="model", on_step=steps.append
    )
    assert steps == ["knn", "class means", "linear", "linear paper", "retrieval", "intervals"]
    return result


def test_every_figure_is_that_of_the_predictions(found):
    assert found.methods == ("knn", "class_means", "linear", "linear_paper")
    labels = torch.tensor(found.labels)
    for result in found.classifiers:
        correct = found.correct(result.method)
        assert result.top1.value == pytest.approx(correct.double().mean().item())
        assert found.confusion(result.method).sum() == 140
        assert found.confusion(result.method).trace() == correct.sum()
        per_class = [correct[labels == label].double().mean().item() for label in range(7)]
        assert [one.value for one in result.per_class] == pytest.approx(per_class)
        assert result.balanced.value == pytest.approx(np.mean(per_class))
        assert result.top5.value == np.mean(result.in_top5) >= result.top1.value
        for estimate in (result.top1, result.balanced, result.top5, *result.per_class):
            assert 0 <= estimate.low <= estimate.value <= estimate.high <= 1
    assert found.classifier("linear").settings["l2_origin"] == "chosen on the validation set"
    assert found.dims == {"embeddings": 6, "features": 10}


def test_features_are_for_probes_and_embeddings_for_neighbours():
    train, test = made(140, 0), made(70, 1)
    options = EvaluationOptions(methods=("knn", "linear"), draws=100)
    full = evaluate(train, test, options=options)
    bare = evaluate(replace(train, features=None), replace(test, features=None), options=options)
    assert full.classifier("knn").predicted == bare.classifier("knn").predicted
    assert full.classifier("linear").settings["on"] == "features"
    assert bare.classifier("linear").settings["on"] == "embeddings"
    swapped = evaluate(train, test, options=replace(options, neighbours_on="features", probes_on="embeddings"))
    assert swapped.classifier("linear").predicted == bare.classifier("linear").predicted
    assert swapped.classifier("knn").predicted != full.classifier("knn").predicted
    with pytest.raises(InputError, match="must hold features"):
        evaluate(train, replace(test, features=None), options=options)


def test_nothing_is_chosen_on_the_test_set():
    """The test labels can change every figure, but no prediction and no setting."""
    train, validation, test = made(140, 0, noise=2), made(70, 2, noise=2), made(70, 1, noise=2)
    for held_out in (validation, None):
        options = EvaluationOptions(methods=EVERYTHING[:4], draws=100)
        first = evaluate(train, test, validation=held_out, options=options)
        shuffled = replace(test, labels=test.labels.flip(0))
        second = evaluate(train, shuffled, validation=held_out, options=options)
        for a, b in zip(first.classifiers, second.classifiers, strict=True):
            assert (a.predicted, a.settings) == (b.predicted, b.settings)
            assert a.top1 != b.top1


def test_k_comes_from_validation_or_the_caller():
    train, test = made(30, 0, noise=3), made(70, 1, noise=3)
    chosen = evaluate(train, test, validation=made(70, 2, noise=3), options=EvaluationOptions(("knn",), draws=100))
    assert chosen.classifier("knn").settings["k_origin"] == "chosen on the validation set"
    default = evaluate(made(210, 0), test, options=EvaluationOptions(("knn",), draws=100)).classifier("knn")
    assert (default.settings["k"], default.settings["k_origin"]) == (20, "default")
    given = evaluate(train, test, options=EvaluationOptions(("knn",), k=99, draws=100))
    assert given.classifier("knn").settings["k"] == 30
    assert any("all 30 voted" in note for note in given.notes)


def test_the_record_survives_json(found):
    text = found.to_json()
    assert Evaluation.from_json(text) == found
    document = json.loads(text)  # plain JSON, with the figures to be read as they are
    assert document["classifiers"][0]["top1"]["value"] == found.classifiers[0].top1.value
    assert len(text) < 16_000
    few = evaluate(made(30, 0, classes=3), made(30, 1, classes=3), options=EvaluationOptions(("knn",), draws=100))
    assert few.classifiers[0].top5 is None
    assert Evaluation.from_json(few.to_json()) == few
    for broken in ("", "[]", "{}", '{"format": "sincere.evaluation/1"}', text.replace("zlib64", "zlib65", 1)):
        with pytest.raises(InputError):
            Evaluation.from_json(broken)


@pytest.mark.parametrize("values", [[], [True] * 9, [False, True, True], [3, -1, 70_000], [0.1, 1 / 3, 1e-300]])
def test_packed_lists_come_back(values):
    assert unpack(json.loads(json.dumps(pack(values)))) == values
    if values:
        with pytest.raises(InputError, match="as many values"):
            unpack({**pack(values), "count": 99})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d["class_names"].pop(), "labels must lie between 0 and 5"),
        (lambda d: d["class_names"].append("more"), "knn must have a figure for each class"),
        (lambda d: d["classifiers"][0]["per_class"].pop(), "knn must have a figure for each class"),
        (lambda d: d["classifiers"][1].update(predicted=pack([9] * 140)), "class_means must lie between 0 and 6"),
        (lambda d: d["classifiers"][1].update(predicted=pack([1] * 139)), "class_means must predict 140"),
        (lambda d: d["classifiers"][2].update(in_top5=pack([True] * 3)), "linear must have .* a top-5 hit for each"),
        (lambda d: d["retrieval"].update(precisions=pack([0.5])), "retrieval must have a value of every metric"),
        (lambda d: d["retrieval"]["recall"].pop("1"), "retrieval must have a value of every metric"),
    ],
)
def test_a_record_that_was_edited_is_refused(found, change, message):
    document = json.loads(found.to_json())
    change(document)
    with pytest.raises(InputError, match=message):
        Evaluation.from_json(json.dumps(document))


def test_table_and_sentences(found):
    table, summary = str(found), found.summary
    for words in ("model on made", "210 training and 140 test samples", "k-NN (k = ", "class means", "MAP@R"):
        assert words in table
    knn = found.classifiers[0]
    assert f"{100 * knn.top1.value:.2f} ({100 * knn.top1.low:.1f}–{100 * knn.top1.high:.1f})" in table
    right = int(found.correct("knn").sum())
    assert f"right on {right} of 140 test samples" in summary[0]
    confusion = found.confusion("knn").fill_diagonal_(0)
    row, column = divmod(int(confusion.argmax()), 7)
    assert f"({int(confusion.max())})" in next(words for words in summary if words.startswith("Most often"))
    assert int(confusion[row, column]) > 0
    alone = replace(found, classifiers=(), retrieval=None)
    assert alone.summary == ()


def test_a_test_set_without_errors_is_not_called_certain():
    perfect = evaluate(made(70, 0, noise=0.01), made(70, 1, noise=0.01), options=EvaluationOptions(("knn",)))
    assert perfect.classifier("knn").top1 == Estimate(1.0, 1.0, 1.0)
    assert "below 4.2 %" in perfect.summary[0]  # 1 − 0.05^(1/70)


def test_sets_are_matched_by_class_name():
    train, test = made(70, 0), made(70, 1)
    order = tuple(reversed(train.class_names))
    renumbered = replace(test, labels=6 - test.labels, class_names=order)
    options = EvaluationOptions(("knn", "class_means"), draws=100)
    assert evaluate(train, renumbered, options=options) == evaluate(train, test, options=options)


def test_evaluate_says_what_is_wrong():
    train, test = made(70, 0), made(70, 1)
    with pytest.raises(InputError, match="test must have the training set's dimension, 6: got 5"):
        evaluate(train, replace(test, embeddings=test.embeddings[:, :5].contiguous()))
    with pytest.raises(InputError, match="is empty"):
        evaluate(train, test.subset(torch.tensor([], dtype=torch.int64)))
    with pytest.raises(InputError, match="'class 6x'"):
        evaluate(train, replace(test, class_names=(*test.class_names[:6], "class 6x")))
    with pytest.raises(OptionError, match="methods must be one of"):
        EvaluationOptions(methods=("magic",))
    with pytest.raises(OptionError, match="each once"):
        EvaluationOptions(methods=("knn", "knn"))
    with pytest.raises(OptionError, match="k must be at least 1"):
        EvaluationOptions(k=0)
    with pytest.raises(OptionError, match=r"k must be a whole number: got 2\.5"):
        EvaluationOptions(k=2.5)
    with pytest.raises(OptionError, match="draws must be at least 100: got 99"):
        EvaluationOptions(draws=99)
    with pytest.raises(OptionError, match="recall_at must be at least 1: got 0"):
        EvaluationOptions(recall_at=(1, 0))
    with pytest.raises(OptionError, match="recall_at must hold at least one"):
        EvaluationOptions(recall_at=())
    with pytest.raises(OptionError, match=r"recall_at must hold at least one .*, such as \(1, 5\): got 5"):
        EvaluationOptions(recall_at=5)
    for seed in (0.5, None, "0", True):
        with pytest.raises(OptionError, match=f"seed must be a whole number: got {seed!r}"):
            EvaluationOptions(seed=seed)
    with pytest.raises(OptionError, match="options must be an EvaluationOptions: got dict"):
        evaluate(train, test, options={"k": 3})
    features = torch.zeros(70, 3)
    with pytest.raises(InputError, match="test must have features of the training set's dimension, 3: got 2"):
        evaluate(replace(train, features=features), replace(test, features=features[:, :2].contiguous()))
    with pytest.raises(InputError, match="a class with two test samples"):
        evaluate(train, test.subset(torch.arange(7)), options=EvaluationOptions(("retrieval",)))
    with pytest.raises(OptionError, match="one that was evaluated, knn: got 'linear'"):
        evaluate(train, test, options=EvaluationOptions(("knn",), draws=100)).classifier("linear")


def test_one_test_sample_a_class_is_enough_for_all_but_retrieval():
    train, test = made(70, 0), made(70, 1).subset(torch.arange(7))
    found = evaluate(train, test, options=EvaluationOptions(("knn", "retrieval"), draws=100))
    assert found.retrieval is None
    assert "retrieval was left out: every test sample is the only one of its class" in found.notes
    alone = evaluate(train, test, options=EvaluationOptions(("knn",), draws=100))
    assert found.classifier("knn") == alone.classifier("knn")
    assert Evaluation.from_json(found.to_json()) == found


def test_notes_on_classes_without_samples():
    train, test = made(70, 0), made(70, 1)
    train, test = train.subset((train.labels != 2).nonzero().flatten()), test.subset(torch.arange(13))
    found = evaluate(train, test, options=EvaluationOptions(draws=100))
    assert found.classifier("knn").per_class[2].value == 0
    assert "1 class has no training sample and cannot be predicted: 'class 2'" in found.notes
    assert "1 test sample is the only one of its class: retrieval leaves it out as a query" in found.notes
    only_zero = test.subset((test.labels == 0).nonzero().flatten())
    found = evaluate(train, only_zero, options=EvaluationOptions(("knn",), draws=100))
    assert found.classifiers[0].per_class[1] is None
    assert "6 classes have no test sample to judge by, such as 'class 1'" in found.notes


def test_draws_are_resamples_and_repeat(monkeypatch):
    counts = torch.cat(list(resampled_counts(30, draws=500, seed=1)))
    assert counts.shape == (500, 30)
    assert (counts.sum(dim=1) == 30).all()
    expected = 30 * stats.binom.pmf(range(4), 30, 1 / 30)  # samples that come 0, 1, 2, 3 times
    seen = [(counts == times).sum(dim=1).double().mean() for times in range(4)]
    np.testing.assert_allclose(seen, expected, rtol=0.08)
    monkeypatch.setattr(bootstrap, "CELLS", 100)  # many small blocks
    blocks = list(resampled_counts(30, draws=500, seed=1))
    assert torch.equal(torch.cat(blocks), counts)
    assert max(block.numel() for block in blocks) == 90  # three draws, and a fourth would not fit
    monkeypatch.setattr(bootstrap, "CELLS", 10)
    assert {len(block) for block in resampled_counts(30, draws=500, seed=1)} == {1}
    with pytest.raises(OptionError, match="at least 100"):
        list(resampled_counts(30, draws=10, seed=1))
    for draws in (150.0, True, "200"):
        with pytest.raises(OptionError, match="draws must be a whole number"):
            list(resampled_counts(30, draws=draws, seed=1))
    assert len(torch.cat(list(resampled_counts(30, draws=np.int64(150), seed=1)))) == 150


def test_means_of_draws_are_those_of_a_loop():
    generator = torch.Generator().manual_seed(0)
    values, labels = torch.rand(40, 3, generator=generator), torch.randint(3, (40,), generator=generator)
    values = 1e-6 * values.double() + 1 / 3  # float32 would keep two digits of what varies
    counts = torch.cat(list(resampled_counts(40, draws=100, seed=2)))
    means = resampled_means(values, draws=100, seed=2)
    classes = resampled_class_means(values, labels, classes=4, draws=100, seed=2)
    for draw in (0, 57, 99):
        rows = torch.arange(40).repeat_interleave(counts[draw].long())
        torch.testing.assert_close(means[draw], values[rows].mean(dim=0), rtol=1e-14, atol=0)
        for label in range(3):
            own = rows[labels[rows] == label]
            torch.testing.assert_close(classes[draw, :, label], values[own].mean(dim=0), rtol=1e-14, atol=0)
    assert means.dtype == classes.dtype == torch.float64
    assert classes[:, :, 3].isnan().all()
    assert all(np.isnan(percentile_interval(classes[:, 0, 3])))


def test_intervals_are_scipys_and_cover_the_truth():
    correct = torch.rand(200, generator=torch.Generator().manual_seed(0)) < 0.8
    ours = percentile_interval(resampled_means(correct.unsqueeze(1), draws=5000, seed=0)[:, 0])
    theirs = stats.bootstrap(
        (correct.double().numpy(),), np.mean, n_resamples=5000, method="percentile", rng=0
    ).confidence_interval
    assert ours == pytest.approx((theirs.low, theirs.high), abs=0.007)
    held = 0
    for seed in range(300):
        sample = torch.rand(200, generator=torch.Generator().manual_seed(seed)) < 0.8
        low, high = percentile_interval(resampled_means(sample.unsqueeze(1), draws=200, seed=seed)[:, 0])
        held += low <= 0.8 <= high
    assert 0.90 <= held / 300 <= 0.98


def test_the_seed_decides_the_draws(found):
    other = evaluate(made(210, 0), made(140, 1), options=EvaluationOptions(("knn",), draws=200, seed=1))
    same = evaluate(made(210, 0), made(140, 1), options=EvaluationOptions(("knn",), draws=200, seed=1))
    assert other == same
    different = evaluate(made(210, 0), made(140, 1), options=EvaluationOptions(("knn",), draws=200, seed=2))
    assert other.classifier("knn").predicted == different.classifier("knn").predicted
    assert other.classifier("knn").per_class != different.classifier("knn").per_class
