"""Programs that set torch's default device or dtype, or whose embeddings require gradients: every measure, experiment,
report and estimator is the same."""

import inspect
import re
import threading
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch

import sincere.embeddings as embeddings
import sincere.evaluate as evaluate
import sincere.geometry as geometry
import sincere.report as report
import sincere.theory as theory
from embedded import made
from report_subjects import clouds
from sincere.defaults import usual_defaults
from sincere.embeddings.embed import embed, embed_views
from sincere.encoders import EmbeddingModel, ProjectionHead, build_encoder
from sincere.estimators import ContrastiveClassifier, ContrastiveTransformer
from sincere.evaluate.bootstrap import resampled_class_means, resampled_means
from sincere.evaluate.linear import stratified_folds
from sincere.evaluate.paired import sign_flip
from sincere.train import train
from sincere.views import Statistics, build_views
from small_runs import small_config, small_splits

TEST, TRAIN = made(seed=1), made()
OPTIONS = evaluate.EvaluationOptions(methods=("knn", "class_means", "linear", "linear_paper", "retrieval"), draws=100)
EVALUATED = [evaluate.evaluate(TRAIN, TEST, options=OPTIONS, name=name) for name in ("first", "second")]
POINTS = theory.simplex(3, 2).repeat_interleave(3, dim=0)
LABELS = torch.arange(3).repeat_interleave(3)
SOME = {"steps": 20}  # of a minimisation: as good as any number


def rows_with(labels_as):
    """Embeddings and labels of both sets, as the functions take them that want no sets."""
    return [part for one in (TEST, TRAIN) for part in (one.embeddings, labels_as(one.labels.tolist()))]


def hot_rows(labels):
    return [[int(label == column) for column in range(5)] for label in labels]


MEASURES = {
    evaluate: {
        "evaluate": lambda: evaluate.evaluate(TRAIN, TEST, options=OPTIONS).to_json(),
        "compare": lambda: str(
            [evaluate.compare(*EVALUATED, method="knn", metric=metric, draws=100) for metric in ("top1", "balanced")]
        ),
        "corrected_together": lambda: str(
            evaluate.corrected_together([evaluate.compare(*EVALUATED, method="knn", draws=100) for _ in range(2)])
        ),
        "evaluate_multi_hot": lambda: repr(evaluate.evaluate_multi_hot(*rows_with(hot_rows), draws=100)),
        "evaluate_numbers": lambda: repr(evaluate.evaluate_numbers(*rows_with(list), draws=100)),
        "quick_figures": lambda: str(evaluate.quick_figures(TEST.embeddings, TEST.labels, k=3)),
    },
    geometry: {
        "alignment": lambda: str([geometry.alignment(TEST, power=power) for power in (1, 2)]),
        "class_margins": lambda: str(geometry.class_margins(TEST, draws=100)),
        "class_means": lambda: str(geometry.class_means(TEST.embeddings, TEST.labels, classes=5).tolist()),
        "describe": lambda: geometry.describe(TEST, train=TRAIN, draws=100).to_json(),
        "head_robustness": lambda: str(geometry.head_robustness(TRAIN, TEST, draws=100)),
        "kl_bounds": lambda: str([geometry.kl_bounds(TEST, temperature=tau) for tau in (0.02, 0.1)]),
        "linear_cka": lambda: str(geometry.linear_cka(TEST.embeddings, TRAIN.embeddings)),
        "loss_readings": lambda: str(geometry.loss_readings(TEST, batch=32)),
        "neural_collapse": lambda: str(geometry.neural_collapse(TEST, weights=TRAIN.embeddings[:5])),
        "out_of_class": lambda: str(
            [geometry.out_of_class(TEST, TRAIN, score=score, draws=100) for score in ("knn", "nearest_mean")]
        ),
        "repulsion": lambda: str(geometry.repulsion(TEST)),
        "similarity_by_class_pair": lambda: str(geometry.similarity_by_class_pair(TEST)),
        "similarity_histograms": lambda: str(geometry.similarity_histograms(TEST, sample=40)),
        "simplex_conditions": lambda: str(geometry.simplex_conditions(TEST)),
        "spectrum": lambda: str(geometry.spectrum(TEST)),
        "uniformity": lambda: str(geometry.uniformity(TEST)),
    },
    theory: {
        "all_batches": lambda: str(theory.all_batches(5, 3).tolist()),
        "arrangement": lambda: theory.arrangement(POINTS, LABELS, 3).to_json(),
        "batch_minimisers": lambda: known(theory.batch_minimisers(batch=3, members=2, starts=1, **SOME)),
        "cross_entropy_bound": lambda: str(theory.cross_entropy_bound(classes=4, radius=1.0, weight_norm=2.0)),
        "cross_entropy_optimum": lambda: known(theory.cross_entropy_optimum(points=12, **SOME)),
        "density_ratio_fit": lambda: str(
            [known(theory.density_ratio_fit(family=family, samples=50, **SOME)) for family in ("tabular", "mlp")]
        ),
        "gradient_ranges": lambda: known(theory.gradient_ranges(batches=2)),
        "imbalance_optimum": lambda: known(theory.imbalance_optimum(ratios=(2,), **SOME)),
        "kl_bound_ceiling": lambda: str(theory.kl_bound_ceiling(classes=4, negatives=9, temperature=0.1)),
        "kl_bound_on_gaussians": lambda: known(theory.kl_bound_on_gaussians(samples=50, negatives=(1, 4))),
        "lemma2_by_enumeration": lambda: known(theory.lemma2_by_enumeration(samples=4)),
        "number_of_batches": lambda: str(theory.number_of_batches(5, 3)),
        "pairs_with_members": lambda: str(theory.pairs_with_members((2, 3), 3)),
        "projection_optimum": lambda: known(theory.projection_optimum(starts=1, **SOME)),
        "random_labels": lambda: known(theory.random_labels(seeds=2, samples=32, max_steps=20)),
        "repulsion_by_positives": lambda: known(theory.repulsion_by_positives(positives=(2,), batches=2)),
        "repulsion_dynamics": lambda: known(theory.repulsion_dynamics(steps=5)),
        "similarity_optimum": lambda: known(theory.similarity_optimum(points=12, starts=1, **SOME)),
        "simplex": lambda: str(theory.simplex(4, 3).tolist()),
        "single_positive": lambda: known(theory.single_positive()),
        "sphere_optimum": lambda: str(
            [known(theory.sphere_optimum(loss, points=12, **SOME)) for loss in ("set_nce", "cross_entropy")]
        ),
        "supcon_bound_over_batches": lambda: str(theory.supcon_bound_over_batches((3, 3), 3)),
        "supcon_over_batches": lambda: str(float(theory.supcon_over_batches(POINTS, LABELS, LABELS[None] + 3))),
        "supcon_sum": lambda: str(theory.supcon_sum(POINTS, (3, 3, 3), 3)),
        "weight_radius": lambda: str(theory.weight_radius(classes=4, radius=1.0, weight_decay=0.01)),
    },
}


def known(record):
    """A record of theory as text, from memory and read back, without how long it took."""
    back = type(record).from_json(record.to_json())
    timeless = re.compile(r'"seconds": [^,\n]*|, [\d.]+ s$', re.MULTILINE)
    return timeless.sub("", "\n".join([record.to_json(), str(record), back.to_json(), str(back)]))


@cache
def plain(package, name):
    """The figure of a program that sets nothing."""
    return MEASURES[package][name]()


@pytest.mark.parametrize(
    ("package", "name"), [(package, name) for package, calls in MEASURES.items() for name in calls]
)
def test_a_figure_is_the_same(package, name, set_default):
    assert set_default(MEASURES[package][name]) == plain(package, name)


@pytest.mark.parametrize("package", list(MEASURES))
def test_every_public_function_is_called_here(package):
    functions = {name for name in package.__all__ if inspect.isfunction(getattr(package, name))}
    assert functions == set(MEASURES[package])


MEASURED = [(package, name) for package in (evaluate, geometry) for name in MEASURES[package] if name != "class_means"]


@pytest.mark.parametrize(("package", "name"), MEASURED)  # of geometry.class_means a loss may want the gradient
def test_no_graph_is_kept_of_embeddings_that_require_gradients(package, name, monkeypatch):
    expected, kept = plain(package, name), []
    for place, given in (("TEST", TEST), ("TRAIN", TRAIN)):
        rows = given.embeddings.clone().requires_grad_()
        monkeypatch.setitem(globals(), place, replace(given, embeddings=rows))
    with torch.autograd.graph.saved_tensors_hooks(kept.append, lambda saved: saved):
        found = MEASURES[package][name]()
    assert (found, len(kept)) == (expected, 0)


def test_functions_that_take_tensors(set_default):
    """Which `evaluate` is made of, and which are called by themselves, too."""
    right = TEST.labels % 2 == 0

    def asked():
        means = resampled_means(right.unsqueeze(1), draws=100, seed=0)
        by_class = resampled_class_means(right.unsqueeze(1), TEST.labels, classes=5, draws=100, seed=0)
        folds = stratified_folds(TEST.labels, 3, seed=0)
        flipped = sign_flip(right.double() - 0.4, seed=0)
        return means.tolist(), str(by_class.tolist()), folds.tolist(), flipped

    assert set_default(asked) == asked()


def test_what_records_and_sets_can_be_asked(set_default):
    def asked():
        found, images = EVALUATED[0], np.zeros((4, 40, 40), dtype=np.uint8)
        made_here = embeddings.EmbeddingSet.from_arrays([[1, 2]] * 4, list("abca"), images=images)
        return (
            found.confusion("knn").tolist(),
            found.correct("knn").tolist(),
            made_here.with_classes(("c", "b", "a", "z")).labels.tolist(),
            made_here.images.shape,
            made_here.class_counts(),
        )

    assert set_default(asked) == asked()


NAMES = ("one", "two", "three")
SHOWN, BESIDE = clouds(NAMES, noise=1.5, shown=tuple(map(str, range(60)))), clouds(NAMES, noise=1.5, seed=1)


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """A report, and the file of embeddings that it is of."""
    folder = tmp_path_factory.mktemp("report")
    return report.write_report(SHOWN, folder / "plain.html", train=BESIDE), SHOWN.save(folder / "shown.npz")


def test_a_report_is_the_same(set_default, page, tmp_path):
    plain, file = page
    other = set_default(report.write_report, SHOWN, tmp_path / "other.html", train=BESIDE)
    assert other.read_text().replace("other_files", "plain_files") == plain.read_text()
    expected, read = report.read_subject(file), set_default(report.read_subject, file)
    assert read.evaluation.to_json() == expected.evaluation.to_json()
    assert read.geometry.to_json() == expected.geometry.to_json()
    assert torch.equal(set_default(lambda: read.attainable), torch.ones(60, dtype=torch.bool))


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """A model and what was exported of it, each kind of file a function with its size."""
    folder = tmp_path_factory.mktemp("exported")
    train(small_config(epochs=1), run=folder / "run", data=small_splits(), show="off")
    loaded = embeddings.load(folder / "run", device="cpu")
    writers = (embeddings.export_safetensors, embeddings.export_onnx)
    return loaded, {writer: writer(loaded, folder / f"it.{writer.__name__[7:]}").stat().st_size for writer in writers}


@pytest.mark.parametrize("rule", ["knn", "class_means"])
def test_an_estimator_is_the_same(rule, set_default):
    rows, classes = TRAIN.embeddings.double().numpy(), TRAIN.labels.numpy()

    def fitted():
        model = ContrastiveClassifier(rule=rule, epochs=2, dim=4, width=8, random_state=0).fit(rows, classes)
        return model, model.predict_proba(rows), model.predict(rows), model.transform(rows.astype(np.float32))

    model, *plain = fitted()
    other, *found = set_default(fitted)
    assert {value.dtype for value in other.model_.parameters()} == {torch.float32}
    for expected, came in zip(plain, found, strict=True):
        np.testing.assert_array_equal(came, expected)
    np.testing.assert_array_equal(set_default(model.predict_proba, rows), plain[0])
    alone = ContrastiveTransformer(epochs=2, dim=4, width=8, random_state=0)
    np.testing.assert_array_equal(set_default(alone.fit_transform, rows, classes), alone.fit_transform(rows, classes))


def test_embedding_is_the_same(set_default):
    splits = small_splits()
    encoder = build_encoder("mlp", kind="array", shape=(6,), width=8, depth=2, generator=torch.Generator())
    model, data = EmbeddingModel(encoder, ProjectionHead(8, dim=4)).eval(), splits.test
    views = build_views("array", kind="array", statistics=Statistics.of(data.inputs, kind="array"))
    assert torch.equal(set_default(embed, model, views, data).embeddings, embed(model, views, data).embeddings)
    assert torch.equal(
        set_default(embed_views, model, views, data, count=2).embeddings,
        embed_views(model, views, data, count=2).embeddings,
    )


def test_exporting_is_the_same(set_default, exported, tmp_path):
    loaded, sizes = exported
    for writer, size in sizes.items():
        assert set_default(writer, loaded, tmp_path / f"it.{writer.__name__[7:]}").stat().st_size == size


def test_threads_that_overlap_leave_the_default_as_it_was():
    """The first to enter is the first to leave: neither may take the other's float32 for what was set before."""
    inside, seen = threading.Barrier(2, timeout=20), []

    def first():
        with usual_defaults():
            inside.wait()  # until the second is in, too
        inside.wait()

    def second():
        with usual_defaults():
            inside.wait()
            inside.wait()  # until the first has left
            seen.append(torch.get_default_dtype())

    torch.set_default_dtype(torch.float64)
    try:
        threads = [threading.Thread(target=run) for run in (first, second)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert (seen, torch.get_default_dtype()) == ([torch.float32], torch.float64)
    finally:
        torch.set_default_dtype(torch.float32)
