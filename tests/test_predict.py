"""The classes of new samples: those that evaluation finds, and those of a few lines of NumPy."""

import shutil
import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch

import sincere
from data_files import Frame
from sincere.data import LabelledData, Splits, open_data, split_arrays
from sincere.embeddings import EmbeddingSet, LoadedModel, Prediction, References, load
from sincere.embeddings.nearest_class import nearest_class
from sincere.errors import InputError, OptionError
from sincere.evaluate import EvaluationOptions, evaluate
from sincere.nearest import nearest, neighbours, vote
from sincere.nearest.neighbours import votes
from sincere.runs import RunFolder
from sincere.train import DataConfig, EncoderConfig, ReportingConfig, train
from small_runs import small_config

CLASSES = ("ant", "bee", "cat", "dog")


def mixed_splits():
    """Four clouds that overlap, so that classifiers err, and not all in the same way."""
    generator = torch.Generator().manual_seed(3)
    centres = 1.3 * torch.randn(len(CLASSES), 6, generator=generator)

    def part(count):
        labels = torch.arange(count) % len(CLASSES)
        inputs = centres[labels] + torch.randn(count, 6, generator=generator)
        return LabelledData(inputs, labels, CLASSES, "array", "clouds")

    return Splits(part(160), part(60), part(80))


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Trained on data in memory, embeddings kept."""
    folder = tmp_path_factory.mktemp("trained") / "run"
    train(small_config(encoder=EncoderConfig("mlp", {"width": 16})), run=folder, data=mixed_splits(), show="off")
    return folder


@pytest.fixture(scope="module")
def from_file(tmp_path_factory):
    """Trained on a file, embeddings not kept."""
    folder = tmp_path_factory.mktemp("from file")
    data = mixed_splits().train
    np.savez(folder / "clouds.npz", x=data.inputs.numpy(), y=np.array(CLASSES)[data.labels])
    config = small_config(
        data=DataConfig(str(folder / "clouds.npz"), test_share=0.3, seed=5),
        encoder=EncoderConfig("mlp", {"width": 16}),
        reporting=ReportingConfig(save_embeddings=False),
    )
    train(config, run=folder / "run", show="off")
    return folder


def kept(run, split):
    return EmbeddingSet.load(run / "embeddings" / f"{split}.npz")


def unit(rows):
    rows = rows.double().numpy()
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


@pytest.mark.parametrize("k", [None, 1, 5, 12])
def test_the_classes_are_those_that_evaluation_finds(run, k):
    sets = {split: kept(run, split) for split in ("train", "validation", "test")}
    options = EvaluationOptions(methods=("knn", "class_means"), k=k, draws=100)
    found = evaluate(sets["train"], sets["test"], validation=sets["validation"], options=options)
    knn, means = found.classifiers
    loaded, inputs = sincere.load(run, device="cpu"), mixed_splits().test.inputs
    for new in (inputs, inputs.numpy(), mixed_splits().test, sets["test"]):
        by_votes = loaded.predict(new, method="knn", k=k)
        assert tuple(by_votes.labels.tolist()) == knn.predicted
        assert by_votes.k == knn.settings["k"]
        assert tuple(loaded.predict(new).labels.tolist()) == means.predicted
    assert 0.4 < means.top1.value < 0.99, "where nothing is wrong, nothing is tested"
    assert k == 1 or knn.predicted != means.predicted


def test_class_means_by_hand(run):
    known, new = kept(run, "train"), kept(run, "test")
    rows = unit(known.embeddings)
    means = np.stack([rows[known.labels.numpy() == number].mean(axis=0) for number in range(4)])
    cosines = unit(new.embeddings) @ (means / np.linalg.norm(means, axis=1, keepdims=True)).T
    found = load(run, device="cpu").predict(mixed_splits().test.inputs)
    order = np.argsort(-cosines, axis=1)
    assert np.array_equal(found.labels, order[:, 0])
    assert np.array_equal(found.best, order), "five are asked for, and there are four"
    ranked = np.take_along_axis(cosines, order, axis=1)
    np.testing.assert_allclose(found.scores, ranked, atol=1e-5)
    np.testing.assert_allclose(found.cosine, ranked[:, 0], atol=1e-5)
    np.testing.assert_allclose(found.margin, ranked[:, 0] - ranked[:, 1], atol=1e-5)
    assert found.names == tuple(CLASSES[number] for number in order[:, 0])
    assert [name for name, _ in found.ranked(3)] == [CLASSES[number] for number in order[3]]


def test_votes_by_hand(run):
    known, new = kept(run, "train"), kept(run, "test")
    cosines = unit(new.embeddings) @ unit(known.embeddings).T
    found = load(run, device="cpu").predict(new, method="knn", k=7, top=2)
    for row, nearest_first in enumerate(np.argsort(-cosines, axis=1)[:, :7]):
        labels = known.labels.numpy()[nearest_first]
        counts = np.bincount(labels, minlength=4)
        shares = np.sort(counts)[::-1] / 7
        assert counts[found.labels[row]] == counts.max()
        np.testing.assert_allclose(found.scores[row], shares[:2], atol=1e-6)
        np.testing.assert_allclose(found.margin[row], shares[0] - shares[1], atol=1e-6)
        ours = cosines[row, nearest_first][labels == int(found.labels[row])]
        np.testing.assert_allclose(found.cosine[row], ours.max(), atol=1e-5)
        assert all(share > 0 for _, share in found.ranked(row))


def test_samples_that_are_equally_near_share_the_votes():
    gallery, labels = torch.tensor([[1.0, 0.0]] * 4 + [[0.0, 1.0]]), torch.tensor([0, 0, 0, 1, 2])
    near = nearest(torch.tensor([[2.0, 0.0]]), gallery, labels, k=2)
    assert votes(near, classes=3, k=2).tolist() == [[1.5, 0.5, 0.0]]
    known = References(EmbeddingSet.from_arrays(gallery, labels))
    found = nearest_class(torch.tensor([[2.0, 0.0]]), known, method="knn", k=2, top=3)
    assert (found.scores.tolist(), found.cosine.tolist()) == ([[0.75, 0.25, 0.0]], [1.0])
    assert found.labels.tolist() == vote(near, classes=3, k=2).argmax(dim=1).tolist() == [0]


def test_blocks_change_nothing(run, monkeypatch):
    loaded, new = load(run, device="cpu"), kept(run, "test")
    for method in ("class_means", "knn"):
        whole = loaded.predict(new, method=method)
        with monkeypatch.context() as patch:
            patch.setitem(neighbours.TILE, "cpu", 30)
            parts = loaded.predict(new, method=method)
        assert torch.equal(whole.best, parts.best)
        torch.testing.assert_close(whole.scores, parts.scores)


def test_no_samples_have_no_classes(run):
    loaded = load(run, device="cpu")
    for method in ("class_means", "knn"):
        found = loaded.predict(np.zeros((0, 6)), method=method)
        assert (len(found), found.names, str(found)) == (0, (), "no samples")


def test_predictions_know_which_sample_each_is(run):
    data = mixed_splits().test
    names = tuple(f"photo {number}.jpg" for number in range(len(data)))
    loaded = load(run, device="cpu")
    embedded = loaded.embed(replace(data, shown=names))
    for inputs in (replace(data, shown=names), embedded):
        assert loaded.predict(inputs).shown == names
    mixed = torch.randperm(len(data), generator=torch.Generator().manual_seed(0))
    assert loaded.predict(embedded.subset(mixed)).shown == tuple(names[place] for place in mixed.tolist())
    assert loaded.predict(replace(embedded, shown=None)).shown is None
    first = ", ".join(f"{value:.3g}" for value in data.inputs[5].tolist())
    assert loaded.predict(data).shown[5] == first, "rows without names are shown by their values"
    assert loaded.predict(data.inputs).shown is None


def test_one_best_class_still_has_a_margin(run):
    loaded, new = load(run, device="cpu"), kept(run, "test")
    assert torch.equal(loaded.predict(new, top=1).margin, loaded.predict(new).margin)
    assert loaded.predict(new, top=1).best.shape == (80, 1)


def test_other_references_bring_other_classes(run):
    loaded, data = load(run, device="cpu"), mixed_splits().test
    other = replace(loaded.embed(data), class_names=("w", "x", "y", "z"))
    found = loaded.predict(data, method="knn", k=1, references=other)
    assert found.class_names == ("w", "x", "y", "z")
    assert torch.equal(found.labels, data.labels), "each is nearest to itself"
    some = other.subset(other.labels < 2)
    assert set(loaded.predict(data, references=some).best.flatten().tolist()) == {0, 1}, "none was seen of the others"


def test_what_a_run_did_not_keep_is_embedded_once(from_file, tmp_path):
    copy = shutil.copytree(from_file / "run", tmp_path / "run")
    splits = open_data(from_file / "clouds.npz", test_share=0.3, seed=5)
    loaded = load(copy, device="cpu")
    found = loaded.predict(splits.test, method="knn")
    assert torch.equal(kept(copy, "train").labels, splits.train.labels)
    torch.testing.assert_close(kept(copy, "train").embeddings, loaded(splits.train.inputs))
    torch.testing.assert_close(kept(copy, "validation").embeddings, loaded(splits.validation.inputs))
    (from_file / "clouds.npz").rename(from_file / "moved.npz")
    try:
        again = load(copy, device="cpu").predict(splits.test, method="knn")
        assert (found.k, found.names) == (again.k, again.names)
        told = r"neither is the data, .*clouds\.npz\. Put the data, .*, or give .*references=…"
        with pytest.raises(InputError, match=told):
            load(from_file / "run", device="cpu").predict(splits.test)
    finally:
        (from_file / "moved.npz").rename(from_file / "clouds.npz")


def test_a_run_that_cannot_be_written_into_predicts_all_the_same(from_file, tmp_path):
    copy = shutil.copytree(from_file / "run", tmp_path / "run")
    (copy / "embeddings").write_text("in the way")
    with pytest.warns(
        UserWarning, match=r"train\.npz, validation\.npz could not be kept in .*: .*made again next time"
    ):
        assert len(load(copy, device="cpu").predict(np.zeros((3, 6)))) == 3


def test_other_data_than_the_run_was_trained_on_is_refused(run, from_file, tmp_path):
    copy = shutil.copytree(run, tmp_path / "in memory")
    shutil.rmtree(copy / "embeddings")
    with pytest.raises(InputError, match=r"digits is not what the run was trained on.*in memory alone"):
        load(copy, device="cpu").predict(np.zeros((3, 6)))
    labelled = load(copy, device="cpu").embed(mixed_splits().train)
    found = load(copy, device="cpu").predict(np.zeros((3, 6)), references=labelled)
    assert found.names == load(run, device="cpu").predict(np.zeros((3, 6))).names
    assert not RunFolder(copy).embeddings("train").exists(), "these are not the run's"


def test_a_model_without_a_run_asks_for_references(run):
    loaded = load(run, device="cpu")
    alone = LoadedModel(loaded.model, loaded.views, loaded.description)
    with pytest.raises(InputError, match=r"not loaded from one.*references=…"):
        alone.predict(np.zeros((1, 6)))
    assert "run" not in repr(alone)


def test_options_are_checked_before_anything_is_embedded(run, monkeypatch):
    loaded = load(run, device="cpu")
    monkeypatch.setattr("sincere.embeddings.loaded.embed_inputs", None)
    with pytest.raises(OptionError, match="k belongs to method='knn'"):
        loaded.predict(np.zeros((1, 6)), k=3)


def test_inputs_of_several_shapes_come_with_advice(run):
    with pytest.raises(InputError, match=r"must be of one shape: .*inhomogeneous.* Files are read .*model\.predict\."):
        load(run, device="cpu").predict([[1.0] * 6, [1.0] * 5])


def test_masked_inputs_are_refused(run):
    """NumPy would hand on what lies below the mask."""
    with pytest.raises(InputError, match="inputs of this model must have all their values: some are masked"):
        load(run, device="cpu").predict(np.ma.array(np.zeros((1, 6)), mask=[[0, 0, 1, 0, 0, 0]]))


def test_columns_of_a_frame_go_by_their_names(tmp_path):
    frame = Frame(mixed_splits().train.inputs.numpy(), "abcdef")
    splits = split_arrays(frame, mixed_splits().train.labels)
    train(small_config(encoder=EncoderConfig("mlp", {"width": 16})), run=tmp_path / "run", data=splits, show="off")
    model = load(tmp_path / "run", device="cpu")
    assert torch.equal(model(frame["fedcba"]), model(frame.values))
    assert torch.equal(model(Frame(frame.values, range(6))), model(frame.values))  # numbers are no names
    mixed = Frame(frame.values.astype(object), "abcdef")  # as of a frame that has columns of several types
    mixed.values[:, 1] = mixed.values[:, 1] > 0
    assert torch.equal(model(mixed), model(mixed.values.astype(np.float32)))
    with pytest.raises(InputError, match=r"the data frame's columns must be .* it lacks 'f' and it also has 'label'\."):
        model.predict(Frame(frame.values, [*"abcde", "label"]))


def test_what_is_no_labelled_data_is_told_of_the_call(run):
    with pytest.raises(InputError, match=r"labelled data, .* got ndarray\. Call the model on raw inputs"):
        load(run, device="cpu").embed(np.zeros((1, 6)))


@pytest.mark.parametrize("method", ["class_means", "knn"])
def test_samples_that_are_not_finite_have_no_class(run, method):
    inputs = np.zeros((3, 6))
    inputs[1:, 2] = np.nan, np.inf
    with pytest.raises(InputError, match=r"2 of 3 have not, first sample 2\. Look for NaN"):
        load(run).predict(inputs, method=method)


def test_numbers_of_numpy_are_whole_numbers(run):
    found = load(run).predict(np.ones((3, 6)), method="knn", k=np.int64(3), top=np.int64(2))
    assert type(found.k) is int
    assert found.best.shape == (3, 2)


def test_models_and_predictions_say_what_they_are_in_a_line(run):
    loaded = load(run, device="cpu")
    said = repr(loaded)
    assert said.startswith("LoadedModel(mlp, ")
    assert "array 6 → 5 dimensions; 4 classes, ant, bee, cat, …; run " in said
    assert str(run) in said
    assert len(said) - len(str(run)) < 120
    assert repr(loaded.predict(np.zeros((2, 6)))) == "Prediction(2 samples, by the nearest class mean of 4 classes)"


def made(count, **changes):
    """A prediction of classes a, b, a, b, …, the first the least sure."""
    best = torch.stack([torch.arange(count) % 2, 1 - torch.arange(count) % 2], dim=1)
    margin = torch.linspace(0.0, 0.5, count)
    scores = torch.stack([torch.full((count,), 0.9), 0.9 - margin], dim=1)
    return Prediction("class_means", ("a", "b"), best[:, 0], scores[:, 0], margin, best, scores, **changes)


def test_few_samples_are_listed_and_of_many_the_least_sure():
    few = str(made(2, shown=("x.png", "a folder of photographs/from the holidays in Lisbon/y.png"))).splitlines()
    assert few[0].split() == ["row", "sample", "class", "cosine", "margin", "second"]
    assert few[1].split() == ["1", "x.png", "a", "0.900", "0.000", "b"]
    assert few[2].startswith("  2  a folder of photographs…holidays in Lisbon/y.png  ")
    many = str(made(25)).splitlines()
    assert [line.split() for line in many[:3]] == [["class", "samples"], ["a", "13"], ["b", "12"]]
    assert many[4] == "the 10 least sure"
    assert [line.split()[0] for line in many[6:]] == [str(row) for row in range(1, 11)]


def test_nothing_is_warned_of_where_all_is_kept(run):
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        load(run, device="cpu").predict(np.zeros((3, 6)))
    assert told == []


def test_embeddings_of_another_model_are_refused_although_they_are_as_wide(run, from_file):
    """A cosine between spaces of two models means nothing, and gave classes that looked as sure as any."""
    loaded, other, data = load(run, device="cpu"), load(from_file / "run", device="cpu"), mixed_splits()
    theirs = other.embed(data.train)
    assert theirs.embeddings.shape[1] == loaded.embed(data.train).embeddings.shape[1]
    with pytest.raises(InputError, match="references must be embeddings of this model: 'clouds' were made by another"):
        loaded.predict(data.test, references=theirs)
    with pytest.raises(InputError, match="inputs must be embeddings of this model"):
        loaded.predict(theirs)
    with pytest.raises(InputError, match="test must be embeddings of the model of the training set"):
        evaluate(loaded.embed(data.train), theirs)
    with pytest.raises(InputError, match="views must be embeddings of the model of the training set"):
        evaluate(loaded.embed(data.train), kept(run, "test"), views=other.embed_views(data.train, count=2))


def test_whose_embeddings_they_are_is_kept(run, tmp_path):
    """What a run left, what its model makes when it is loaded, and what a file keeps of it, are of one model."""
    loaded, data = load(run, device="cpu"), mixed_splits()
    made = loaded.embed(data.test)
    assert made.model is not None
    assert kept(run, "train").model == kept(run, "test").model == made.model
    assert made.subset([0, 1]).model == made.with_classes(CLASSES[::-1]).model == made.model
    assert loaded.embed_views(data.test, count=1).model == made.model
    assert EmbeddingSet.load(made.save(tmp_path / "made.npz")).model == made.model
    unknown = EmbeddingSet.from_arrays(made.embeddings, made.labels)
    assert unknown.model is None
    assert loaded.predict(unknown).labels.equal(loaded.predict(made).labels)
    with torch.no_grad():
        next(loaded.model.parameters()).add_(1e-6)
    assert loaded.embed(data.test).model != made.model
