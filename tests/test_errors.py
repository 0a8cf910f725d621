"""Bad input: the error says what must hold, what came, and what to do."""

import numpy as np
import pytest
import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

import sincere
import sincere.functional as SF
from sincere.checks import check_finite
from sincere.embeddings import EmbeddingSet, References
from sincere.embeddings.nearest_class import nearest_class
from sincere.errors import InputError, OptionError

Z, Y = torch.randn(6, 3), torch.tensor([0, 0, 1, 1, 2, 2])
HOT = torch.ones(6, 4, dtype=torch.int64)
NAMES = ["cat", "cat", "dog", "dog", "eel", "eel"]
KNOWN = References(EmbeddingSet.from_arrays(Z, NAMES, name="pets"))
NUMBERED = "torch.as_tensor(np.unique(labels, return_inverse=True)[1])"


def told(new=Z, **options):
    """The classes of embeddings, as a model tells them."""
    return nearest_class(new, KNOWN, **{"method": "class_means", "k": None, "top": 5, **options})


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: SF.sincere(Z.numpy(), Y), InputError, ["embeddings", "torch.Tensor", "ndarray"]),
        (lambda: SF.sincere(Z.long(), Y), InputError, ["floating-point", "int64", ".float()"]),
        (lambda: SF.sincere(Z, Y + 0.5), InputError, ["integers or booleans", ".long()", "RankNContrastLoss"]),
        (lambda: SF.sincere(Z[0], Y), InputError, ["(n, d)", "(b, v, d)", "(3,)"]),
        (lambda: SF.sincere(Z[:, :0], Y), InputError, ["at least one dimension", "(6, 0)"]),
        (lambda: SF.sincere(Z, Y[:3]), InputError, ["(6,)", "(3,)", "For 2 views pass embeddings as (3, 2, d)"]),
        (lambda: SF.sincere(Z, Y[:, None].expand(6, 1)[:4]), InputError, ["(6,)", "(4, 1)"]),
        (lambda: SF.sincere(Z, Y.tolist()), InputError, ["labels", "list", "torch.as_tensor"]),
        (
            lambda: SF.sincere(Z, Y[:, None]),
            InputError,
            ["(6, 1)", "column of class numbers", ".squeeze(1)", ".bool()"],
        ),
        (lambda: SF.sincere(Z, HOT[:, :0]), InputError, ["at least one class", "(6, 0)"]),
        (lambda: SF.soft_label(Z, HOT[:, :0].float()), InputError, ["(6, classes)", "(6, 0)"]),
        (lambda: SF.sincere(Z, Y.float()), InputError, ["integers", "float32", ".long()"]),
        (lambda: SF.sincere(Z, HOT.float()), InputError, ["float32", ".bool()", "SoftLabelLoss"]),
        (lambda: SF.sincere(Z, Y.to("meta")), InputError, ["device", "cpu", "meta", ".to('cpu')"]),
        (lambda: SF.sincere(Z, Y, Z), InputError, ["go together", "contrast_labels is missing"]),
        (lambda: SF.sincere(Z, Y, 0.1), InputError, ["Options are given by name, temperature=0.1"]),
        (lambda: SF.sincere(Z, Y, sincere.LabelQueue(4, 3)), InputError, ["a queue as *queue.contrasts()"]),
        (lambda: SF.sincere(Z, Y, Z[:, :2], Y), InputError, ["dimension", "(m, 3)", "(6, 2)"]),
        (lambda: SF.sincere(Z, Y, Z, HOT), InputError, ["one kind", "(6,)", "(6, 4)"]),
        (lambda: SF.sincere(Z, Y, include_batch=True), OptionError, ["include_batch", "contrast_embeddings"]),
        (lambda: SF.sincere(Z, Y, temperature=0), OptionError, ["positive", "got 0", "0.1"]),
        (lambda: SF.sincere(Z, Y, temperature=-0.1), OptionError, ["positive", "-0.1"]),
        (lambda: SF.sincere(Z, Y, temperature=float("nan")), OptionError, ["finite", "nan"]),
        (lambda: SF.sincere(Z, Y, temperature="low"), OptionError, ["temperature", "str"]),
        (lambda: SF.sincere(Z, Y, temperature=torch.ones(2)), OptionError, ["one floating-point number", "(2,)"]),
        (
            lambda: (SF.sincere(Z, Y, temperature=1), SF.sincere(Z, Y, temperature=True)),
            OptionError,
            ["number", "bool"],
        ),
        (lambda: SF.sincere(Z, Y, ignore_label=None), OptionError, ["ignore_label", "integer", "None", "-1"]),
        (lambda: SF.sincere(Z, Y, ignore_label=0.5), OptionError, ["ignore_label", "integer", "0.5"]),
        (
            lambda: SF.infonce(Z.view(3, 2, 3), ignore_label=0),
            OptionError,
            ["negative", "no labels", "0 would be left"],
        ),
        (lambda: SF.sincere(Z, Y, temprature=0.1), OptionError, ["'temprature'", "Did you mean 'temperature'?"]),
        (lambda: SF.sincere(Z, Y, reduction="avg"), OptionError, ["'mean'", "'class_mean'", "'avg'"]),
        (lambda: SF.sincere(Z, Y, backend="cuda"), OptionError, ["backend", "'tiled'", "'cuda'"]),
        (lambda: SF.sincere(Z, Y, similarity="l2"), OptionError, ["similarity", "'euclidean'", "'l2'"]),
        (lambda: SF.sincere(Z, HOT, positives="all"), OptionError, ["positives", "'jaccard'", "'all'"]),
        (lambda: SF.sincere(Z, Y, weights=torch.ones(5)), InputError, ["one number per sample", "(6,)", "(5,)"]),
        (lambda: SF.sincere(Z, Y, weights=[1.0] * 6), InputError, ["weights", "list"]),
        (
            lambda: SF.sincere(Z, Y, similarity=lambda a, c: a, backend="dense"),
            InputError,
            ["one number per pair", "(6, 6)", "(6, 3)"],
        ),
        (lambda: SF.sincere(Z, Y, similarity=lambda a, c: 3), InputError, ["one number per pair", "(6, 6)", "int"]),
        (
            lambda: SF.sincere(Z, Y, similarity=torch.matmul, backend="tiled"),
            OptionError,
            ["tile by tile", 'backend="dense"'],
        ),
        (lambda: SF.supcon(Z, Y, form="inside"), OptionError, ["form", "'out'", "'inside'"]),
        (
            lambda: SF.infonce(Z.view(3, 2, 3), positives="jaccard"),
            OptionError,
            ["no labels", "positives='jaccard'", "drop"],
        ),
        (lambda: SF.infonce(Z.view(3, 2, 3), ignored_as_negatives=True), OptionError, ["no labels", "ignored_as_neg"]),
        (
            lambda: SF.soft_label(Z, torch.ones(6, 6), targets="pairs", ignored_as_negatives=True),
            OptionError,
            ["ignored_as_negatives", 'targets="pairs"', "Drop"],
        ),
        (lambda: SF.soft_label(Z, torch.ones(6, 4), ignore_label=3), OptionError, ["ignore_label=3", "negative entry"]),
        (lambda: SF.sincere(Z, HOT, ignore_label=255), OptionError, ["ignore_label=255", "multi-hot", "masked_fill"]),
        (lambda: SF.infonce(Z), InputError, ["two views", "(b, v, d)", "(6, 3)"]),
        (lambda: SF.infonce(Z, Z[:4]), InputError, ["own row", "at least 6", "(4, 3)"]),
        (lambda: SF.spread(Z, Y), InputError, ["two views", "(6, 3)"]),
        (lambda: SF.spread(Z.view(3, 2, 3), Y[::2], alpha=2), OptionError, ["alpha", "between 0 and 1", "2"]),
        (lambda: SF.spread(Z.view(3, 2, 3), Y[::2], Z, Y), OptionError, ["other view", "include_batch=True"]),
        (lambda: SF.eps_supinfonce(Z, Y, epsilon=-1), OptionError, ["epsilon", "≥ 0", "-1"]),
        (lambda: SF.set_nce(Z, Y, method="fast"), OptionError, ["method", "'saddle'", "'fast'"]),
        (lambda: SF.set_nce(Z, Y, backend="triton", method="exact"), OptionError, ['method="saddle"']),
        (lambda: SF.set_nce(Z, HOT, positives="jaccard"), OptionError, ["members", 'positives="any"']),
        (lambda: SF.set_nce(Z, HOT, positives="per_label"), OptionError, ["members", 'another loss with "per_label"']),
        (lambda: SF.soft_label(Z, Y), InputError, ["class probabilities", "(6, classes)", "SupConLoss"]),
        (lambda: SF.rank_n_contrast(Z, Y.tolist()), InputError, ["torch.Tensor of numbers", "list", "as_tensor"]),
        (lambda: SF.rank_n_contrast(Z, None), InputError, ["torch.Tensor of numbers", "NoneType"]),
        (
            lambda: SF.rank_n_contrast(Z, Y[:3]),
            InputError,
            ["(6,) or (6, k)", "got (3,)", "as (3, 2, d)"],
        ),
        (lambda: SF.rank_n_contrast(Z, Z[:, :0]), InputError, ["(6, k)", "got (6, 0)"]),
        (lambda: SF.rank_n_contrast(Z, HOT.bool()), InputError, ["real numbers", "bool", "SINCERELoss"]),
        (lambda: SF.rank_n_contrast(Z, Y.to("meta")), InputError, ["device", "cpu", "meta"]),
        (lambda: SF.rank_n_contrast(Z, Y, Z, Z), InputError, ["one kind", "(6, 1)", "(6, 3)"]),
        (lambda: SF.rank_n_contrast(Z, Y, ignore_label=0), OptionError, ["ignore_label=0", "NaN"]),
        (lambda: SF.rank_n_contrast(Z, Y, ignored_as_negatives=True), OptionError, ["how far away", "drop"]),
        (lambda: SF.rank_n_contrast(Z, Y, positives="jaccard"), OptionError, ["multi-hot", "leave it out"]),
        (lambda: SF.rank_n_contrast(Z, Y, reduction="class_mean"), OptionError, ["needs classes", '"mean"']),
        (lambda: SF.rank_n_contrast(Z, Y, ties="spare"), OptionError, ["ties", "'compete', 'spared'"]),
        (lambda: SF.rank_n_contrast(Z, Y, backend="triton"), OptionError, ["triton", "no single classes", "auto"]),
        (lambda: SF.soft_label(Z, HOT, targets="pairs"), InputError, ["per pair", "(6, 6)", "(6, 4)"]),
        (
            lambda: SF.soft_label(Z, torch.ones(6, 4), torch.ones(4, 2), targets="pairs"),
            InputError,
            ["dimension", "(m, 3)", "(4, 2)"],
        ),
        (
            lambda: SF.soft_label(Z, torch.ones(6, 4), torch.ones(4, 3, device="meta"), targets="pairs"),
            InputError,
            ["contrast_embeddings", "device", "meta"],
        ),
        (
            lambda: SF.soft_label(Z, torch.ones(6, 6), targets="pairs", gather=True),
            OptionError,
            ["other processes", 'targets="classes"'],
        ),
        (
            lambda: SF.soft_label(Z, torch.ones(6, 6), targets="pairs", reduction="class_mean"),
            OptionError,
            ["needs classes", '"mean"'],
        ),
        (lambda: sincere.SINCERELoss(weights=torch.ones(3)), OptionError, ["weights", "call"]),
        (
            lambda: sincere.SINCERELoss(temperature=0.01, learnable_temperature=True),
            OptionError,
            ["above temperature_floor", "0.01"],
        ),
        (lambda: sincere.SINCERELoss(reduction="avg"), OptionError, ["reduction", "'avg'"]),
        (lambda: sincere.LabelQueue(0, 3), OptionError, ["size", "0"]),
        (lambda: sincere.LabelQueue(4.5, 3), OptionError, ["size", "integers", "4.5"]),
        (lambda: sincere.LabelQueue(4, 3, classes=1), OptionError, ["classes", "at least 2", "got 1", "Leave it out"]),
        (lambda: sincere.LabelQueue(4, 2).enqueue(Z, Y), InputError, ["(n, 2)", "(6, 3)"]),
        (
            lambda: sincere.cached_backward(torch.nn.Identity(), [], len, chunk_size=2),
            InputError,
            ["inputs", "first dimension"],
        ),
        (
            lambda: sincere.cached_backward(torch.nn.Identity(), Z, len, chunk_size=0),
            OptionError,
            ["chunk_size", "0"],
        ),
        (
            lambda: sincere.cached_backward(torch.nn.Identity(), Z, len, chunk_size=2.5),
            OptionError,
            ["chunk_size", "integer", "2.5"],
        ),
        (
            lambda: sincere.cached_backward(torch.nn.Identity(), 5, len, chunk_size=2),
            InputError,
            ["inputs", "first dimension"],
        ),
        (
            lambda: sincere.cached_backward(torch.nn.Identity(), Z, lambda z: z.sum(1), chunk_size=2),
            InputError,
            ["one number", "(6,)"],
        ),
        (lambda: sincere.diagnose(Z.numpy(), Y), InputError, ["embeddings", "torch.Tensor", "ndarray"]),
        (
            lambda: sincere.diagnose(Z, HOT),
            InputError,
            ["integer class", "(6, 4)", "labels.int().argmax(dim=1)", "one class at a time", "labels[:, c].long()"],
        ),
        (lambda: sincere.diagnose(Z, Y[:, None]), InputError, ["integer class", "(6, 1)", ".squeeze(1)"]),
        (lambda: sincere.diagnose(Y, Z), InputError, ["embeddings come first", "Swap"]),
        (lambda: sincere.SINCERELoss()(Z), InputError, ["labels must be given", "one class per sample", "InfoNCELoss"]),
        (lambda: sincere.SINCERELoss()(Z, NAMES), InputError, ["list of names", NUMBERED]),
        (lambda: sincere.SINCERELoss()(Z, tuple(NAMES)), InputError, ["tuple of names", NUMBERED]),
        (lambda: SF.sincere(Z, np.array(NAMES)), InputError, ["ndarray of names", NUMBERED]),
        (lambda: SF.sincere(Z, np.array(NAMES, dtype=object)), InputError, ["ndarray of names", NUMBERED]),
        (lambda: SF.sincere(Z, Y.numpy()), InputError, ["got ndarray. Use torch.as_tensor(...)."]),
        (lambda: SF.sincere(Z, []), InputError, ["got list. Use torch.as_tensor(...)."]),
        (lambda: SF.sincere(Y, Z), InputError, ["embeddings come first", "int64 numbers (6,)", "(6, 3)", "Swap"]),
        (lambda: SF.supcon(Y.int(), Z.view(6, 1, 3)), InputError, ["embeddings come first", "int32", "(6, 1, 3)"]),
        (lambda: SF.spread(Y[:3], Z.view(3, 2, 3)), InputError, ["embeddings come first", "Swap"]),
        (lambda: SF.soft_label(Y, Z), InputError, ["embeddings come first", "Swap"]),
        (lambda: SF.sincere(Z, Y, Y, Z), InputError, ["contrast_embeddings come first", "Swap"]),
        (lambda: sincere.LabelQueue(4, 3).enqueue(Y, Z), InputError, ["embeddings come first", "Swap"]),
        (lambda: SF.sincere(Y, Y), InputError, ["floating-point", ".float()"]),
        (lambda: SF.infonce(Z.view(3, 2, 3), Y[:3]), InputError, ["no labels", "int64 (3,)", "SINCERELoss"]),
        (
            lambda: SF.sincere(torch.randn(2, 6, 3), Y),
            InputError,
            ["expected (2,)", "got (6,)", "(v, b, d), 2 views of 6 samples", ".transpose(0, 1)"],
        ),
        (lambda: SF.sincere(torch.randn(2, 6, 3), HOT), InputError, ["got (6, 4)", ".transpose(0, 1)"]),
        (lambda: SF.soft_label(torch.randn(2, 6, 3), HOT.float()), InputError, ["(6, 4)", ".transpose(0, 1)"]),
        (lambda: SF.sincere(Z.view(3, 2, 3), Y), InputError, ["expected (3,)", "one label a sample", "2 views"]),
        (lambda: SF.soft_label(Z.view(3, 2, 3), HOT.float()), InputError, ["(3, classes)", "one label a sample"]),
        (lambda: sincere.LabelQueue(4, 3).enqueue(Z.view(3, 2, 3), Y), InputError, ["one label a sample"]),
        (
            lambda: SF.sincere(Z.view(3, 2, 3), Y.view(3, 2)),
            InputError,
            ["(3, 2)", "class numbers of views", "labels[:, 0]", ".bool() on multi-hot rows"],
        ),
        (lambda: SF.soft_label(Z, HOT, positives="jaccard"), OptionError, ["multi-hot", "leave it out", "pairs"]),
        (lambda: SF.soft_label(Z, HOT.float().to("meta")), InputError, ["labels", "device", "meta", ".to('cpu')"]),
        (lambda: SF.soft_label(Z, torch.ones(6, 4, 2)), InputError, ["expected (6, classes)", "got (6, 4, 2)"]),
        (lambda: SF.rank_n_contrast(Z, torch.ones(6, 2, 2)), InputError, ["(6,) or (6, k)", "got (6, 2, 2)"]),
        (lambda: SF.rank_n_contrast(Z, torch.tensor(3.0)), InputError, ["(6,) or (6, k)", "got ()"]),
        (lambda: SF.rank_n_contrast(Z, Y.cfloat()), InputError, ["real numbers", "complex64", "SINCERELoss"]),
        (lambda: SF.rank_n_contrast(Z.view(3, 2, 3), Y.float()), InputError, ["one label a sample", "2 views"]),
        (lambda: SF.sincere(Z, HOT, ignore_label=0), OptionError, ["ignore_label=0", "a negative entry", "Drop"]),
        (lambda: SF.sincere(Z, HOT, ignore_label=2), OptionError, ["ignore_label=2", "a negative entry", "Drop"]),
        (lambda: sincere.SoftLabelLoss(positives="jaccard"), OptionError, ["multi-hot", "leave it out", "pairs"]),
        (lambda: told(method="means"), OptionError, ["method", "'class_means', 'knn'", "'means'"]),
        (lambda: told(k=3), OptionError, ["k belongs to method='knn'", "got k=3 and 'class_means'"]),
        (lambda: told(method="knn", k=0), OptionError, ["k must be a whole number from 1", "got 0"]),
        (lambda: told(top=0), OptionError, ["top must be a whole number from 1", "got 0"]),
        (lambda: told(Z[:, :2]), InputError, ["references", "dimension", "2: 'pets' has 3", "with this model"]),
        (lambda: References("known.npz"), InputError, ["an EmbeddingSet: got str", "EmbeddingSet.load(path)"]),
        (
            lambda: References(EmbeddingSet.from_arrays(Z, Y * 0, name="x")),
            InputError,
            ["two classes or more", "'x' has one, '0'", "Embed labelled data"],
        ),
    ],
)
def test_message(call, error, words):
    with pytest.raises(error) as raised:
        call()
    for word in words:
        assert word in str(raised.value)


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_check_finite_names_the_rows(bad):
    z = Z.clone()
    z[4, 1] = bad
    with pytest.raises(InputError, match=r"1 of 6 rows.*rows 4\)"):
        SF.sincere(z, Y, check_finite=True)
    with pytest.raises(InputError, match="contrast_embeddings must be finite"):
        SF.sincere(Z, Y, z, Y, check_finite=True)


class LargestResult(TorchDispatchMode):
    """The number of elements of the largest tensor that an operation makes, views left out."""

    def __init__(self):
        super().__init__()
        self.elements = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        if not func.is_view:
            made = [tensor for tensor in pytree.tree_leaves(result) if isinstance(tensor, torch.Tensor)]
            self.elements = max([self.elements, *(tensor.numel() for tensor in made)])
        return result


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.uint8])
def test_check_finite_makes_no_array_as_large_as_what_is_finite(dtype):
    numbers = torch.ones(50, 2, 3, dtype=dtype)
    with LargestResult() as seen:
        check_finite("numbers", numbers.requires_grad_(dtype.is_floating_point))
        check_finite("numbers", numbers[:0])
    assert 0 < seen.elements < 10


@pytest.mark.parametrize("shape", [(9000,), (9000, 2), (9000, 2, 2)])
@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_check_finite_finds_rows_anywhere(bad, shape):
    numbers = torch.zeros(shape, dtype=torch.bfloat16)
    numbers[4095], numbers[8999] = bad, bad
    with pytest.raises(InputError, match=r"2 of 9000 rows.*rows 4095, 8999\)"):
        check_finite("numbers", numbers)
    check_finite("numbers without values", torch.empty(shape, device="meta"))


def test_errors_are_value_errors():
    assert issubclass(InputError, ValueError)
    assert issubclass(OptionError, ValueError)


def test_the_advice_about_labels_works():
    numbered = torch.as_tensor(np.unique(NAMES, return_inverse=True)[1])
    assert torch.equal(SF.sincere(Z, numbered), SF.sincere(Z, Y))
    one_hot = torch.nn.functional.one_hot(Y)
    for rows in (one_hot, one_hot.bool()):
        assert sincere.diagnose(Z, rows.int().argmax(dim=1)) == sincere.diagnose(Z, Y)
        assert sincere.diagnose(Z, rows[:, 1].long()).class_counts == {0: 4, 1: 2}
    stacked, y = torch.randn(2, 6, 3), Y
    assert SF.sincere(stacked.transpose(0, 1), y).isfinite()
    views, per_view = stacked.transpose(0, 1), torch.stack([y, y], dim=1)
    assert torch.equal(SF.sincere(views, per_view[:, 0]), SF.sincere(views, y))
    two_classes = torch.stack([y == 0, y > 0], dim=1)
    assert torch.allclose(SF.sincere(views, two_classes), SF.sincere(views, (y > 0).long()))
    unlabelled = torch.arange(6) == 4
    marked = one_hot.int().masked_fill(unlabelled.unsqueeze(1), -1)
    assert torch.allclose(SF.sincere(Z, marked), SF.sincere(Z[~unlabelled], Y[~unlabelled]))


@pytest.mark.parametrize("labels", [Y[:5], torch.arange(4), HOT[:3], torch.zeros(2, 2, 2), torch.tensor(1)])
def test_no_hint_about_views_where_views_do_not_explain_the_labels(labels):
    with pytest.raises(InputError) as raised:
        SF.sincere(torch.randn(9, 7, 3), labels)
    assert str(raised.value).endswith(f"got {tuple(labels.shape)}.")


def test_a_scalar_of_numpy_gets_advice():
    with pytest.raises(OptionError, match=r"must be a number or a tensor: got float32\. Use float\(temperature\)\."):
        sincere.SINCERELoss(temperature=np.float32(0.1))
    with pytest.raises(OptionError, match=r"got str\.$"):
        sincere.SINCERELoss(temperature="0.1")
