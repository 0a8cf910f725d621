"""EmbeddingSet: what it refuses, what a file holds, and arrays that somebody else made."""

import pickle
import zipfile
from dataclasses import replace

import numpy as np
import pytest
import torch

from sincere.data import LabelledData
from sincere.embeddings import EmbeddingSet, embed
from sincere.embeddings.identity import other_samples, samples_fingerprint
from sincere.encoders import EmbeddingModel, ProjectionHead, build_encoder
from sincere.errors import InputError, OptionError
from sincere.runs import WriteError
from sincere.views import Statistics, build_views


def example(**changes):
    values = {
        "embeddings": torch.randn(5, 3),
        "labels": torch.tensor([0, 1, 1, 0, 2]),
        "class_names": ("cat", "dög", "a word, with comma"),
        "name": "pets",
        "features": torch.randn(5, 7),
        "shown": ("a", "b\nc", "", "naïve", "x" * 5000),
        "images": torch.arange(5 * 4 * 6, dtype=torch.uint8).view(5, 4, 6),
    }
    return EmbeddingSet(**{**values, **changes})


def assert_same(a, b):
    assert torch.equal(a.embeddings, b.embeddings)
    assert torch.equal(a.labels, b.labels)
    assert (a.class_names, a.name, a.shown, a.samples) == (b.class_names, b.name, b.shown, b.samples)
    assert (a.features is None) == (b.features is None)
    if a.features is not None:
        assert torch.equal(a.features, b.features)
    assert (a.images is None) == (b.images is None)
    if a.images is not None:
        assert torch.equal(a.images, b.images)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"features": None},
        {"shown": None},
        {"features": None, "shown": None, "images": None},
        {"images": torch.full((5, 16, 32, 3), 7, dtype=torch.uint8)},
        {"samples": "image-3×32×32 abc"},
    ],
)
def test_a_saved_set_comes_back(tmp_path, changes):
    made = example(**changes)
    path = made.save(tmp_path / "new" / "folder" / "test.npz")
    assert_same(EmbeddingSet.load(path), made)
    assert [file.name for file in path.parent.iterdir()] == ["test.npz"]
    assert path.stat().st_size < 20_000  # one long text does not make room for itself in every row


def test_the_file_needs_no_library_of_ours(tmp_path):
    made = example()
    with np.load(made.save(tmp_path / "test.npz"), allow_pickle=False) as file:
        np.testing.assert_array_equal(file["embeddings"], made.embeddings.numpy())
        assert file["class_names"].tolist() == list(made.class_names)
        assert str(file["name"]) == "pets"


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    path = example().save(tmp_path / "test.npz")
    before = path.read_bytes()

    def full(file, **arrays):
        file.write(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "savez", full)
    with pytest.raises(WriteError, match=r"test.npz: No space left on device"):
        example().save(path)
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["test.npz"]


def test_save_wants_the_suffix_it_reads(tmp_path):
    with pytest.raises(OptionError, match=r"must end in \.npz"):
        example().save(tmp_path / "test.npy")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"embeddings": torch.randn(5, 3).double()}, "float32 tensor .* got torch.float64"),
        ({"embeddings": torch.randn(5)}, r"shape \(n, d\)"),
        ({"embeddings": [[1.0]]}, "got list"),
        ({"labels": torch.tensor([0, 1])}, "one class per sample"),
        ({"labels": torch.tensor([0, 1, 1, 0, 2], dtype=torch.int32)}, "int64"),
        ({"labels": torch.tensor([0, 1, 1, 0, 3])}, "between 0 and 2.*got 0 to 3"),
        ({"labels": torch.tensor([0, 1, 1, 0, -1])}, "got -1 to 1"),
        ({"class_names": ("cat", "cat", "dog")}, "comes twice"),
        ({"features": torch.randn(4, 7)}, "features must hold 5 rows"),
        ({"shown": ("a",)}, "shown must hold 5 texts"),
        ({"images": np.zeros((5, 4, 6), np.uint8)}, "images must be uint8 .* got ndarray"),
        ({"images": torch.zeros(5, 4, 6)}, "images must be uint8 .* got torch.float32"),
        ({"images": torch.zeros(4, 4, 6, dtype=torch.uint8)}, r"\(5, h, w\) .* got .*\(4, 4, 6\)"),
        ({"images": torch.zeros(5, 3, 6, 6, dtype=torch.uint8)}, r"got .*\(5, 3, 6, 6\)"),
        ({"images": torch.zeros(5, 33, 6, dtype=torch.uint8)}, "no side above 32.*makes thumbnails"),
    ],
)
def test_what_it_refuses(changes, message):
    with pytest.raises(InputError, match=message):
        example(**changes)


def test_nan_is_refused_with_its_rows():
    rows = torch.zeros(5, 3)
    rows[1, 0], rows[4, 2] = torch.nan, torch.inf
    with pytest.raises(InputError, match=r"2 of 5 rows .*\(rows 1, 4\)"):
        example(embeddings=rows)
    with pytest.raises(InputError, match="features must be finite"):
        example(features=rows)
    with pytest.raises(InputError, match="rows 0"):  # what float32 cannot hold
        EmbeddingSet.from_arrays(np.array([[1e300, 0.0]]), [0])


@pytest.mark.parametrize(
    ("labels", "class_names", "numbers", "names"),
    [
        ([3, 10, 3], None, [0, 1, 0], ("3", "10")),
        (["dog", "cat", "dog"], None, [1, 0, 1], ("cat", "dog")),
        (np.array([2.0, 0.0, 2.0]), None, [1, 0, 1], ("0", "2")),
        (torch.tensor([1, 0, 1]), ("cat", "dog"), [1, 0, 1], ("cat", "dog")),
        (["dog", "cat", "dog"], ("dog", "cat"), [0, 1, 0], ("dog", "cat")),
        (np.array(["dog", "cat", "dog"], dtype=object), None, [1, 0, 1], ("cat", "dog")),  # as pandas has them
        (np.array([10, np.int16(3), 10], dtype=object), None, [1, 0, 1], ("3", "10")),
        (np.array([True, False, True], dtype=object), None, [1, 0, 1], ("False", "True")),
    ],
)
def test_labels_of_any_kind(labels, class_names, numbers, names):
    made = EmbeddingSet.from_arrays(np.zeros((3, 2)), labels, class_names=class_names)
    assert made.labels.tolist() == numbers
    assert made.class_names == names


@pytest.mark.parametrize(
    "labels",
    [
        *([0.5, 1, 1], [np.nan, 1, 1], [np.inf, 1, 1], [2.0**63, 1, 1], [2**70, 1, 2]),
        *([[1], [2], [3]], [None, 1, 2], [None, "a", "b"]),
    ],
)
def test_labels_that_are_no_classes(labels):
    with pytest.raises(InputError, match="labels must"):
        EmbeddingSet.from_arrays(np.zeros((3, 2)), np.array(labels))


@pytest.mark.parametrize("keys", [("x", "y"), ("X", "Y"), ("features", "labels"), ("embeddings", "y")])
def test_arrays_of_somebody_else(tmp_path, keys):
    rows = np.random.default_rng(0).normal(size=(4, 3))
    np.savez(tmp_path / "theirs.npz", **{keys[0]: rows, keys[1]: np.array([7, 8, 7, 8])})
    found = EmbeddingSet.load(tmp_path / "theirs.npz")
    np.testing.assert_array_equal(found.embeddings.numpy(), rows.astype(np.float32))
    assert (found.class_names, found.labels.tolist(), found.name) == (("7", "8"), [0, 1, 0, 1], "theirs")
    assert found.features is None


def test_labels_in_a_file_of_their_own(tmp_path):
    rows = np.eye(3, dtype=np.float16)
    np.save(tmp_path / "rows.npy", rows)
    np.save(tmp_path / "labels.npy", np.array(["b", "a", "b"]))
    (tmp_path / "names.txt").write_text("b\na\nb\n", encoding="utf-8")
    (tmp_path / "numbers.txt").write_text("10\n9\n10\n", encoding="utf-8")
    for file, names in (("labels.npy", ("a", "b")), ("names.txt", ("a", "b")), ("numbers.txt", ("9", "10"))):
        found = EmbeddingSet.load(tmp_path / "rows.npy", labels=tmp_path / file, name="mine")
        assert (found.class_names, found.labels.tolist(), found.name) == (names, [1, 0, 1], "mine")
    with pytest.raises(InputError, match="without labels"):
        EmbeddingSet.load(tmp_path / "rows.npy")


class Bomb:
    def __reduce__(self):
        return (pytest.fail, ("a pickled object was loaded",))


def test_nothing_in_a_file_is_run(tmp_path):
    rows, objects = np.zeros((2, 2)), np.array([Bomb(), Bomb()], dtype=object)
    with zipfile.ZipFile(tmp_path / "objects.npz", "w") as archive:
        for name, array in (("x.npy", rows), ("y.npy", objects)):
            with archive.open(name, "w") as file:
                np.lib.format.write_array(file, array, allow_pickle=True)
    (tmp_path / "pickle.npy").write_bytes(pickle.dumps(Bomb()))
    for name in ("objects.npz", "pickle.npy"):
        with pytest.raises(InputError, match="never loaded") as caught:
            EmbeddingSet.load(tmp_path / name)
        assert "unsafely" not in str(caught.value)  # NumPy's advice is to load it all the same


def test_names_of_files_may_be_in_capitals(tmp_path):
    np.save(tmp_path / "a.npy", np.eye(4))
    np.save(tmp_path / "b.npy", np.arange(4) % 2)
    np.savez(tmp_path / "c.npz", x=np.eye(4), y=np.arange(4) % 2)
    for name in "abc":
        (path,) = tmp_path.glob(f"{name}.np?")
        path.rename(path.with_suffix(path.suffix.upper()))
    found = EmbeddingSet.load(tmp_path / "a.NPY", labels=tmp_path / "b.NPY")
    assert found.labels.tolist() == EmbeddingSet.load(tmp_path / "c.NPZ").labels.tolist() == [0, 1, 0, 1]


def test_files_that_are_something_else(tmp_path):
    (tmp_path / "broken.npz").write_bytes(b"PK\x03\x04 and no more")
    (tmp_path / "text.csv").write_text("1,2")
    torch.save(torch.eye(3), tmp_path / "theirs.pt")
    np.savez(tmp_path / "other.npz", weights=np.zeros(3))
    np.savez(tmp_path / "unlabelled.npz", x=np.zeros((3, 2)))
    for name, message in (
        ("broken.npz", "cannot be read"),
        ("text.csv", r"\.npz or an \.npy"),
        ("theirs.pt", r"theirs\.pt\. Save arrays called embeddings and labels by numpy\.savez\."),
        ("other.npz", "must hold embeddings .*it holds weights"),
        ("unlabelled.npz", "must hold labels .*it holds x.*in a file of their own, labels=…"),
        ("missing.npz", "there is no file"),
    ):
        with pytest.raises(InputError, match=message):
            EmbeddingSet.load(tmp_path / name)
    np.savez(tmp_path / "ages.npz", x=np.eye(3), y=np.array([31.5, 40, 52]))
    with pytest.raises(InputError, match=r"ages\.npz: labels must be whole numbers or texts"):
        EmbeddingSet.load(tmp_path / "ages.npz")
    with pytest.raises(InputError, match=r"\(n, d\).*Flatten"):
        EmbeddingSet.from_arrays(np.zeros((2, 3, 4)), [0, 1])


def test_subsets_counts_and_other_lists_of_classes():
    made = example()
    part = made.subset(torch.tensor([4, 0]))
    assert (part.labels.tolist(), part.shown) == ([2, 0], ("x" * 5000, "a"))
    assert torch.equal(part.images, made.images[[4, 0]])
    assert torch.equal(part.features, made.features[[4, 0]])
    assert made.class_counts() == {"cat": 2, "dög": 2, "a word, with comma": 1}
    moved = part.with_classes(("a word, with comma", "none of these", "cat"))
    assert moved.labels.tolist() == [0, 2]
    assert torch.equal(moved.images, part.images)
    with pytest.raises(InputError, match=r"1 is not \('cat'\)"):
        part.with_classes(("a word, with comma",))
    assert_same(made.to("cpu"), made)


@pytest.mark.parametrize("layout", ["first", "last"])
def test_large_images_are_averaged_down(tmp_path, layout):
    pictures = np.random.default_rng(0).integers(0, 256, (3, 64, 96, 3), dtype=np.uint8)
    given = pictures.transpose(0, 3, 1, 2) if layout == "first" else pictures
    np.savez(tmp_path / "theirs.npz", x=np.eye(3), y=[0, 1, 1], images=given)
    for found in (
        EmbeddingSet.load(tmp_path / "theirs.npz"),
        EmbeddingSet.from_arrays(np.eye(3), [0, 1, 1], images=given),
    ):
        assert found.images.shape == (3, 21, 32, 3)
        columns = pictures[:, :, 3:6].astype(float).mean(axis=2)  # 96 → 32: every third column starts a new pixel
        rows = columns[:, 3:7].mean(axis=1)  # 64 → 21: pixel 1 covers rows 3 to 6
        assert np.abs(found.images[:, 1, 1].numpy() - rows).max() <= 0.5


def test_grey_images_stay_as_they_are():
    pictures = np.random.default_rng(0).integers(0, 256, (2, 8, 9), dtype=np.uint8)
    for given in (pictures, pictures[..., None], pictures[:, None]):
        assert np.array_equal(EmbeddingSet.from_arrays(np.eye(2), [0, 1], images=given).images.numpy(), pictures)


@pytest.mark.parametrize("images", [np.zeros((2, 8, 8)), np.zeros((3, 8, 8), np.uint8), np.zeros((2, 8), np.uint8)])
def test_what_is_no_picture_is_left_out_of_a_file_and_refused_of_a_caller(tmp_path, images):
    np.savez(tmp_path / "theirs.npz", x=np.eye(2), y=[0, 1], images=images)
    assert EmbeddingSet.load(tmp_path / "theirs.npz").images is None
    with pytest.raises(InputError, match="images must be uint8"):
        EmbeddingSet.from_arrays(np.eye(2), [0, 1], images=images)


@pytest.mark.parametrize("kind", ["image", "array", "named rows"])
def test_embed_keeps_what_a_person_would_want_to_see(kind):
    pixels = torch.randint(256, (4, 1, 8, 8), dtype=torch.uint8)
    rows = torch.tensor([[1.5, 2, 3, 4, 5, 6, 7]] * 4)
    inputs, form = (pixels, "image") if kind == "image" else (rows, "array")
    shown = ("a", "b", "c", "d") if kind == "named rows" else None
    data = LabelledData(inputs, torch.tensor([0, 1, 0, 1]), ("a", "b"), form, "made", shown)
    encoder = build_encoder("mlp", kind="array", shape=(inputs[0].numel(),), width=8)
    flat = torch.nn.Sequential(torch.nn.Flatten(), encoder)
    flat.feature_dim = 8
    model = EmbeddingModel(flat, ProjectionHead(8, dim=2))
    views = build_views("none", kind=form, statistics=Statistics.of(inputs, kind=form))
    found = embed(model, views, data)
    assert (found.images is None) == (kind != "image")
    if kind == "image":
        assert torch.equal(found.images, pixels[:, 0])
    expected = {"image": None, "array": ("1.5, 2, 3, 4, 5, 6, … (7 values)",) * 4, "named rows": shown}
    assert found.shown == expected[kind]
    plain = embed(model, views, data, visible=False)
    assert (plain.images, plain.shown) == (None, shown)


class Watching(torch.nn.Module):
    """Flattens, and notes whether cuDNN would search for algorithms."""

    feature_dim, searched = 4, None

    def forward(self, inputs):
        self.searched = torch.backends.cudnn.benchmark
        return inputs.flatten(1)


@pytest.mark.parametrize("before", [True, False])
def test_convolutions_are_not_tuned_for_the_few_batches_of_an_embedding(before, monkeypatch):
    monkeypatch.setattr(torch.backends.cudnn, "benchmark", before)
    encoder = Watching()
    data = LabelledData(torch.rand(6, 4), torch.arange(6) % 2, ("a", "b"), "array", "made")
    views = build_views("none", kind="array", statistics=Statistics.of(data.inputs, kind="array"))
    embed(EmbeddingModel(encoder, ProjectionHead(4, dim=2)), views, data)
    assert encoder.searched is False
    assert torch.backends.cudnn.benchmark is before


def test_arrays_that_nobody_may_write_to(tmp_path):
    """Memory-mapped ones, and those of pandas; torch warns of them, and a warning is an error here."""
    np.save(tmp_path / "rows.npy", np.arange(6, dtype=np.float32).reshape(3, 2))
    rows = np.load(tmp_path / "rows.npy", mmap_mode="r")
    labels = np.array([0, 1, 0])
    images = np.zeros((3, 4, 4), dtype=np.uint8)
    labels.flags.writeable = images.flags.writeable = False
    found = EmbeddingSet.from_arrays(rows, labels, features=rows, images=images, class_names=("a", "b"))
    assert found.embeddings.tolist() == found.features.tolist() == [[0, 1], [2, 3], [4, 5]]
    assert found.labels.tolist() == [0, 1, 0]


def test_tensors_as_training_has_them(tmp_path):
    """In bfloat16, which NumPy does not know, and with a graph."""
    rows = torch.arange(6.0).reshape(3, 2)
    found = EmbeddingSet.from_arrays(rows.bfloat16(), [0, 1, 0], features=rows.half())
    assert torch.equal(found.embeddings, rows)
    assert torch.equal(found.features, rows)
    attached = replace(found, embeddings=(2 * rows.requires_grad_()))
    assert torch.equal(EmbeddingSet.load(attached.save(tmp_path / "a.npz")).embeddings, 2 * rows.detach())


@pytest.mark.parametrize("kind", ["savez", "savez_compressed", "save"])
def test_damaged_files_are_refused_in_words(kind, tmp_path):
    """Bytes changed at random: it is read, or refused as an input; NumPy's own errors are of a dozen kinds."""
    rows, labels = np.random.default_rng(0).normal(size=(20, 3)).astype(np.float32), np.arange(20) % 2
    path = tmp_path / ("rows.npy" if kind == "save" else "rows.npz")
    if kind == "save":
        np.save(path, rows)
        np.save(tmp_path / "labels.npy", labels)
    else:
        getattr(np, kind)(path, x=rows, y=labels)
    content, chance, refused = path.read_bytes(), np.random.default_rng(1), 0
    for _ in range(300):
        damaged = bytearray(content)
        for place in chance.integers(0, len(content), 3):
            damaged[place] = chance.integers(256)
        path.write_bytes(damaged[: chance.integers(1, 2 * len(content))])
        try:
            EmbeddingSet.load(path, labels=tmp_path / "labels.npy" if kind == "save" else None)
        except InputError:
            refused += 1
    assert refused > 100


def test_a_set_knows_which_samples_it_is_of():
    """By what went in, or what was written: other inputs are others, the same in another form are not."""
    rows = torch.arange(12.0).view(4, 3)
    data = LabelledData(rows, torch.tensor([0, 1, 0, 1]), ("a", "b"), "array", "rows")
    known = samples_fingerprint(data)
    assert known == samples_fingerprint(replace(data, inputs=rows.clone(), name="again"))
    assert other_samples(known, samples_fingerprint(replace(data, inputs=rows.flip(0))))
    assert not other_samples(known, samples_fingerprint(replace(data, inputs=rows[:, :2])))
    assert not other_samples(known, None)
    assert not other_samples(known, known)
    assert known.startswith("array-3 ")
    assert other_samples(known, samples_fingerprint(data.subset(range(3)))), "fewer of them"
    moved = replace(data, shown=("new/1", "new/2", "new/3", "new/4"))
    assert known == samples_fingerprint(moved), "files may lie elsewhere"
    words = ("one", "two", "three", "four")
    numbers = torch.arange(8, dtype=torch.int32).view(4, 2, 1)
    texts = LabelledData(numbers, data.labels, ("a", "b"), "text", "texts", words, buckets=99)
    written = samples_fingerprint(texts)
    assert written == samples_fingerprint(replace(texts, inputs=numbers + 1)), "cut into other pieces"
    assert other_samples(written, samples_fingerprint(replace(texts, shown=words[::-1])))
    assert other_samples(written, samples_fingerprint(replace(texts, shown=("on", "etwo", *words[2:]))))
    unseen = [samples_fingerprint(replace(texts, shown=None, inputs=numbers + more)) for more in (0, 1)]
    assert other_samples(*unseen), "of texts that nobody kept, by their numbers"
    encoder = build_encoder("mlp", kind="array", shape=(3,), width=4)
    views = build_views("none", kind="array", statistics=Statistics.of(rows, kind="array"))
    made = embed(EmbeddingModel(encoder, ProjectionHead(4, dim=2)), views, data)
    assert made.samples == known
    assert made.to("cpu").with_classes(("b", "a")).samples == known
    assert made.subset([0, 1]).samples is None
    arrays = {"embeddings": made.embeddings, "samples": "mine"}
    assert EmbeddingSet.from_arrays(labels=[0, 1, 0, 1], **arrays).samples == "mine"
    assert EmbeddingSet.from_arrays(labels=[0, 1, -1, 1], unlabelled="drop", **arrays).samples is None


def test_somebody_elses_array_of_samples_is_no_fingerprint(tmp_path):
    np.savez(tmp_path / "theirs.npz", embeddings=np.eye(3), labels=np.arange(3), samples=np.eye(3))
    assert EmbeddingSet.load(tmp_path / "theirs.npz").samples is None
