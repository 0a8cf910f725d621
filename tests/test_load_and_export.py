"""A trained model back in Python and out to other programs: the same embeddings everywhere."""

import json
import pickle
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import nn

import sincere.embeddings.export as export
from sincere.data import Form, LabelledData, Splits, hash_texts, split_arrays
from sincere.embeddings import (
    EmbeddingSet,
    LoadedModel,
    ModelDescription,
    embed,
    export_onnx,
    export_safetensors,
    load,
)
from sincere.embeddings.embed import embed_views
from sincere.encoders import EmbeddingModel, ProjectionHead
from sincere.errors import InputError, OptionError
from sincere.train import EncoderConfig, ViewsConfig, train
from sincere.views import Statistics
from small_runs import small_config, small_splits


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trained") / "run"
    config = small_config(encoder=EncoderConfig("mlp", {"width": 16}))
    train(config, run=folder, data=small_splits(), show="off")
    return folder


def made_model(kind, **changes):
    """An untrained model of each kind."""
    forms = {
        "image": Form("image", (3, 8, 8)),
        "array": Form("array", (5,)),
        "text": Form("text", (6, 4), buckets=50),
        "sound": Form("sound", (800,), sample_rate=4000),
    }
    form = forms[kind]
    size = {"image": 3, "array": 5}.get(kind, 0)
    encoders = {"image": "small_cnn", "array": "mlp", "text": "text", "sound": "sound"}
    options = {"image": {"width": 4}, "array": {"width": 8}, "text": {"width": 8, "dim": 4, "rows": 40}}
    statistics = Statistics((0.4,) * size, (0.3,) * size)
    description = ModelDescription(
        form, ("a", "b"), statistics, encoders[kind], form.shape, options.get(kind, {"width": 4}), dim=7, **changes
    )
    model = description.build_model(torch.Generator().manual_seed(0)).eval()
    return LoadedModel(model, description.build_views(), description)


def test_load_gives_the_embeddings_that_the_run_saved(run):
    loaded, splits = load(run, device="cpu"), small_splits()
    saved = EmbeddingSet.load(run / "embeddings" / "test.npz")
    torch.testing.assert_close(loaded(splits.test.inputs), saved.embeddings)
    torch.testing.assert_close(loaded(splits.test.inputs.numpy().astype(np.float64)), saved.embeddings)
    torch.testing.assert_close(loaded.features(splits.test.inputs), saved.features)
    again = loaded.embed(splits.test, batch=4)
    torch.testing.assert_close(again.embeddings, saved.embeddings)
    assert again.class_names == loaded.class_names == ("ant", "bee", "cat")
    assert torch.equal(again.labels, splits.test.labels)


def test_a_first_layer_computed_from_data_travels_with_the_weights(tmp_path):
    """Loading needs no training image: the filters lie in the file, and they whiten what the run was trained on."""
    generator = torch.Generator().manual_seed(0)
    pixels = torch.randn(40, 3, 10, 10, generator=generator).cumsum(dim=2).cumsum(dim=3)
    images = (255 * (pixels - pixels.min()) / (pixels.max() - pixels.min())).byte()
    data = LabelledData(images, torch.arange(40) // 20, ("a", "b"), "image", "made")
    encoder = EncoderConfig("short_cnn", {"channels": [4, 6, 8], "activation": "relu"})
    config = small_config(epochs=1, encoder=encoder, views=ViewsConfig("plain", options={"hole": False}))
    train(config, run=tmp_path, data=Splits(data, None, data.subset(range(7, 20))), show="off")
    loaded, saved = load(tmp_path, device="cpu"), EmbeddingSet.load(tmp_path / "embeddings" / "test.npz")
    torch.testing.assert_close(loaded(images[7:20]), saved.embeddings)
    torch.testing.assert_close(loaded.features(images[7:20]), saved.features)
    weight = load_file(tmp_path / "model.safetensors")["encoder.stem.weight"]
    assert torch.equal(loaded.model.encoder.stem.weight, weight)
    assert not torch.equal(loaded.description.build_model().encoder.stem.weight, weight), "a new one starts at random"
    scaled = images.numpy() / 255
    plain = (scaled - scaled.mean((0, 2, 3), keepdims=True)) / scaled.std((0, 2, 3), keepdims=True)
    patches = np.stack([plain[:, :, y : y + 2, x : x + 2].reshape(40, 12) for y in range(9) for x in range(9)], axis=1)
    found = np.cov((patches.reshape(-1, 12) @ weight.double().numpy().reshape(24, 12).T).T)
    variances = np.linalg.eigvalsh(np.cov(patches.reshape(-1, 12).T))[::-1]
    whitened = np.diag(variances / (variances + 5e-4))
    np.testing.assert_allclose(found, np.block([[whitened, -whitened], [-whitened, whitened]]), atol=1e-4)


def test_embedding_is_by_hand_the_model_on_normalised_inputs(run):
    loaded, data = load(run, device="cpu"), small_splits().test
    train_inputs = small_splits().train.inputs.double()
    plain = (data.inputs.double() - train_inputs.mean(0)) / train_inputs.std(0, correction=0)
    with torch.no_grad():
        expected = loaded.model.head(loaded.model.encoder(plain.float()))
    torch.testing.assert_close(loaded(data.inputs), expected)


def test_embed_leaves_the_model_as_it_was_and_takes_nothing():
    loaded = made_model("array")
    loaded.model.train()
    loaded.model.encoder.eval()
    before = {key: value.clone() for key, value in loaded.model.state_dict().items()}
    data = LabelledData(torch.randn(9, 5), torch.arange(9) % 2, ("a", "b"), "array", "x")
    found = embed(loaded.model, loaded.views, data, batch=2)
    torch.testing.assert_close(found.embeddings, embed(loaded.model, loaded.views, data).embeddings)
    assert (loaded.model.training, loaded.model.encoder.training) == (True, False)
    assert all(torch.equal(value, before[key]) for key, value in loaded.model.state_dict().items())
    assert embed(loaded.model, loaded.views, data.subset([])).embeddings.shape == (0, 7)
    for wrong in (0, 2.5, "many", True):
        with pytest.raises(OptionError, match=f"batch must be a whole number of at least 1: got {wrong!r}"):
            embed(loaded.model, loaded.views, data, batch=wrong)
    with pytest.raises(OptionError, match=r"precision must be one of 'fp32', 'bf16', 'fp16': got 'bfp16'\. Did you"):
        embed(loaded.model, loaded.views, data, precision="bfp16")


class Numbered:
    """Views of one's own: each batch with the number of its call added to it."""

    def __init__(self):
        self.calls = 0

    def __call__(self, inputs, *, count, generator):
        assert count == 1
        self.calls += 1
        return (inputs + self.calls).unsqueeze(1)


def test_views_come_view_by_view_in_the_order_of_the_samples():
    model = made_model("array").model
    data = LabelledData(torch.randn(9, 5), torch.arange(9) % 3, ("a", "b", "c"), "array", "x")
    found = embed_views(model, Numbered(), data, count=2, batch=4)
    assert (found.embeddings.shape, found.features.shape) == ((18, 7), (18, 8))
    assert found.labels.tolist() == 2 * data.labels.tolist()
    assert found.class_names == data.class_names
    for row in range(18):
        view, sample = divmod(row, 9)
        call = 1 + 3 * view + sample // 4  # batches of 4, 4 and 1 samples
        with torch.no_grad():
            features = model.encoder(data.inputs[sample : sample + 1] + call)
            torch.testing.assert_close(found.features[row : row + 1], features)
            torch.testing.assert_close(found.embeddings[row : row + 1], model.head(features))


@pytest.mark.parametrize("kind", ["image", "array", "text", "sound"])
def test_views_are_random_and_repeat(kind):
    changes = {"views": "plain", "views_options": {"hole": False}} if kind == "image" else {"views": kind}
    loaded = made_model(kind, **changes)
    loaded.model.train()
    loaded.model.encoder.eval()
    before = {key: value.clone() for key, value in loaded.model.state_dict().items()}
    generator = torch.Generator().manual_seed(3)
    inputs = {
        "image": torch.randint(0, 256, (6, 3, 8, 8), dtype=torch.uint8, generator=generator),
        "array": torch.randn(6, 5, generator=generator),
        "text": hash_texts([f"one two {n} four five" for n in range(6)], words=6, pieces=4, buckets=50),
        "sound": torch.rand(6, 800, generator=generator) - 0.5,
    }[kind]
    form = loaded.description.form
    data = LabelledData(
        inputs, torch.arange(6) % 2, ("a", "b"), kind, "x", sample_rate=form.sample_rate, buckets=form.buckets
    )
    found, again, other = (loaded.embed_views(data, count=3, seed=seed) for seed in (1, 1, 2))
    assert torch.equal(found.features, again.features)
    assert torch.equal(found.embeddings, again.embeddings)
    first, second, third = found.features.split(6)
    plain = loaded.embed(data).features
    assert not any(torch.allclose(a, b) for a, b in [(first, second), (second, third), (first, plain)])
    assert not torch.allclose(found.features, other.features)
    assert (loaded.model.training, loaded.model.encoder.training) == (True, False)
    assert all(torch.equal(value, before[key]) for key, value in loaded.model.state_dict().items())
    assert loaded.embed_views(data.subset([]), count=2).embeddings.shape == (0, 7)
    assert loaded.embed(data.subset([])).features.shape == (0, plain.shape[1])
    for wrong in ({"count": 0}, {"count": -1}, {"count": 1, "batch": 0}):
        with pytest.raises(OptionError, match=r"(count|batch) must be a whole number of at least 1"):
            loaded.embed_views(data, **wrong)


def test_views_of_texts_leave_out_tokens_of_the_encoders_own():
    form = Form("text", (3, 4), buckets=100)
    description = ModelDescription(
        form, ("bad", "good"), Statistics((), ()), "small_runs:Lengths", (3, 4), dim=3, views="text"
    )
    model = description.build_model(torch.Generator().manual_seed(0)).eval()
    loaded = LoadedModel(model, description.build_views(), description)
    texts = ("good thing", "bad poor")
    inputs = hash_texts(list(texts), words=3, pieces=4, buckets=100)
    data = LabelledData(inputs, torch.tensor([1, 0]), ("bad", "good"), "text", "words", texts, buckets=100)
    assert torch.equal(loaded.embed(data).embeddings, loaded(texts))
    found = loaded.embed_views(data, count=100)
    for sample, words in enumerate(([4, 5], [3, 4])):
        left = torch.tensor([words, [words[0], 0], [0, words[1]], [0, 0]], dtype=torch.int32)
        with torch.no_grad():
            possible = loaded.model.encoder(left.unsqueeze(2))
        distances = (found.features[sample::2].unsqueeze(1) - possible).abs().amax(dim=2)
        assert distances.amin(dim=1).max() < 1e-6
        assert {0, 1, 2} <= set(distances.argmin(dim=1).tolist()), "both words, and each of them alone"
    with pytest.raises(InputError, match="data must keep its texts"):
        loaded.embed_views(replace(data, shown=None), count=1)


def test_raw_inputs_as_people_have_them():
    text, sound, image = made_model("text"), made_model("sound"), made_model("image")
    torch.testing.assert_close(
        text(["one two", "!"]), text(hash_texts(["one two", "!"], words=6, pieces=4, buckets=50))
    )
    assert text(np.array(["one two"])).shape == (1, 7)
    assert text([]).shape == (0, 7)
    short = torch.rand(2, 500)
    torch.testing.assert_close(sound(short), sound(torch.cat([short, torch.zeros(2, 300)], dim=1)))
    torch.testing.assert_close(
        sound(torch.cat([short, short], dim=1)), sound(torch.cat([short, short[:, :300]], dim=1))
    )
    pixels = torch.randint(0, 256, (2, 3, 8, 8), dtype=torch.uint8)
    torch.testing.assert_close(image(pixels.permute(0, 2, 3, 1).numpy()), image(pixels))


@pytest.mark.parametrize(
    ("kind", "inputs", "message"),
    [
        ("image", torch.rand(2, 3, 8, 8), r"uint8 of shape \(n, 3, 8, 8\).*got torch.float32"),
        (
            "image",
            torch.zeros(2, 3, 9, 8, dtype=torch.uint8),
            r"got torch.uint8 \(2, 3, 9, 8\).*read_data\(PATH, form=",
        ),
        ("image", ["photos/a.png"], r"must be numbers: got <U12.*read_data\(PATH, form="),
        ("array", torch.rand(2, 6), r"shape \(n, 5\): got \(2, 6\)"),
        ("array", [["a", "b", "c", "d", "e"]], "must be numbers: got <U1"),
        ("array", np.full((2, 5), None), "must hold numbers throughout: row 0, column 0, holds None"),
        ("text", "one text", "Put it in brackets"),
        ("text", ["a text", None], "must be a list of texts"),
    ],
)
def test_inputs_that_do_not_fit(kind, inputs, message):
    with pytest.raises(InputError, match=message):
        made_model(kind)(inputs)


def test_data_of_another_form_is_refused(run):
    other = LabelledData(torch.zeros(2, 7), torch.tensor([0, 1]), ("a", "b"), "array", "x")
    with pytest.raises(InputError, match="must have the form that the model was trained on"):
        load(run, device="cpu").embed(other)
    with pytest.raises(InputError, match="must have the form that the model was trained on"):
        load(run, device="cpu").embed_views(other, count=2)


def test_folders_that_hold_no_finished_run(tmp_path):
    with pytest.raises(InputError, match="no folder"):
        load(tmp_path / "none")
    with pytest.raises(InputError, match="Is it the folder of a run"):
        load(tmp_path)
    (tmp_path / "metrics.jsonl").write_text('{"step": 1}\n')
    with pytest.raises(InputError, match="Resume it first"):
        load(tmp_path)


def test_a_file_is_no_run(run):
    with pytest.raises(
        InputError, match=r"from the folder of its run: \S+model\.safetensors is a file\. Name its folder"
    ):
        load(run / "model.safetensors")


def test_a_run_with_pickled_weights_is_refused(run, tmp_path):
    (tmp_path / "model.json").write_text((run / "model.json").read_text())
    (tmp_path / "model.safetensors").write_bytes(pickle.dumps({"a": 1}))
    with pytest.raises(InputError, match="it is a pickle"):
        load(tmp_path)


def test_weights_that_are_not_the_runs_are_refused(run, tmp_path):
    """Cut at any place, or with one bit turned anywhere, header and weights alike."""
    copy = shutil.copytree(run, tmp_path / "copy")
    place = copy / "model.safetensors"
    content = place.read_bytes()
    random = np.random.default_rng(0)
    places = [0, 8, len(content) - 1, *random.integers(0, len(content), 40)]
    damaged = [content[:at] + bytes([content[at] ^ (1 << at % 8)]) + content[at + 1 :] for at in map(int, places)]
    damaged += [content[:at] for at in (0, 1, 100, len(content) // 2, len(content) - 1)] + [content + b"x"]
    for other in damaged:
        place.write_bytes(other)
        with pytest.raises(InputError, match=r"is not what model\.json beside it describes"):
            load(copy, device="cpu")
    place.write_bytes(content)
    assert load(copy, device="cpu").class_names == ("ant", "bee", "cat")


def test_weights_are_replaced_on_purpose_as_the_message_says(run, tmp_path):
    copy = shutil.copytree(run, tmp_path / "copy")
    doubled = {name: 2 * tensor for name, tensor in load_file(copy / "model.safetensors").items()}
    save_file(doubled, copy / "model.safetensors")
    with pytest.raises(InputError, match=r"on purpose: take weights_digest out of model\.json, and delete embeddings/"):
        load(copy, device="cpu")
    description = json.loads((copy / "model.json").read_text())
    del description["weights_digest"]
    (copy / "model.json").write_text(json.dumps(description))
    loaded = load(copy, device="cpu")
    assert all(torch.equal(tensor, doubled[name]) for name, tensor in loaded.model.state_dict().items())


def test_damaged_weights_come_back_from_the_checkpoint(run, tmp_path):
    copy = shutil.copytree(run, tmp_path / "copy")
    (copy / "model.safetensors").write_bytes(b"")
    config = small_config(encoder=EncoderConfig("mlp", {"width": 16}))
    assert train(config, run=copy, data=small_splits(), resume=True, show="off").finished
    assert (copy / "model.safetensors").read_bytes() == (run / "model.safetensors").read_bytes()
    load(copy, device="cpu")


@pytest.mark.parametrize("kind", ["image", "array", "text", "sound"])
def test_descriptions_survive_json(kind):
    description = made_model(kind, views="none", views_options={}).description
    assert ModelDescription.from_json(json.loads(json.dumps(description.to_json()))) == description
    with pytest.raises(InputError, match="format"):
        ModelDescription.from_json({})
    record = description.to_json()
    del record["encoder"]
    with pytest.raises(InputError, match="not a complete description"):
        ModelDescription.from_json(record)


def test_state_dict_for_other_programs(run, tmp_path):
    loaded = load(run, device="cpu")
    path = export_safetensors(loaded, tmp_path / "weights.safetensors")
    encoder = loaded.description.build_model().encoder
    fresh = EmbeddingModel(encoder, ProjectionHead(16, dim=5))
    fresh.load_state_dict(load_file(path))
    x = torch.randn(4, 6)
    torch.testing.assert_close(fresh.eval()(x), loaded.model(x))
    with pytest.raises(OptionError, match=r"must end in \.safetensors"):
        export_safetensors(loaded, tmp_path / "weights.pt")
    with pytest.raises(InputError, match="no folder"):
        export_safetensors(loaded, tmp_path / "none" / "w.safetensors")


@pytest.mark.parametrize("kind", ["array", "text"])
def test_onnx_takes_raw_inputs_of_any_number(kind, tmp_path, capfd):
    onnxruntime = pytest.importorskip("onnxruntime")
    loaded = made_model(kind)
    path = export_onnx(loaded, tmp_path / "model.onnx")
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    texts = hash_texts(["to be", "or not"] * 4, words=6, pieces=4, buckets=50)
    inputs = torch.randn(11, 5) if kind == "array" else texts
    (given,) = session.run(None, {"inputs": inputs.numpy()})
    np.testing.assert_allclose(given, loaded(inputs).numpy(), rtol=1e-4, atol=1e-5)
    assert [place.name for place in tmp_path.iterdir()] == ["model.onnx"]
    assert "Skipping" not in capfd.readouterr().err
    if kind == "array":
        assert_refused_if_it_disagrees(path)


class Branching(nn.Module):
    """An encoder whose way depends on what it sees: `test_load_and_export:Branching`."""

    feature_dim = 4

    def __init__(self, shape):
        super().__init__()
        self.layer = nn.Linear(shape[0], self.feature_dim)

    def forward(self, rows):
        features = self.layer(rows)
        return 2 * features if features.sum() > 0 else features


def test_an_encoder_that_onnx_cannot_have_is_refused_in_words(tmp_path):
    for name in ("onnx", "onnxscript", "onnxruntime"):
        pytest.importorskip(name)
    description = replace(made_model("array").description, encoder=f"{__name__}:Branching", encoder_options={})
    loaded = LoadedModel(description.build_model().eval(), description.build_views(), description)
    with pytest.raises(InputError, match=r"cannot be written as ONNX: .*data-dependent.* as \.safetensors\."):
        export_onnx(loaded, tmp_path / "model.onnx")
    assert not list(tmp_path.iterdir())


def test_onnx_is_tried_on_tokens_that_the_encoder_knows(tmp_path):
    """The hash of a piece goes up to `buckets`, which is more than a tokenizer of the encoder's own may know."""
    pytest.importorskip("onnxruntime")
    form = Form("text", (2, 4), buckets=5000)
    description = ModelDescription(form, ("a", "b"), Statistics((), ()), "small_runs:Lengths", (2, 1), dim=3)
    loaded = LoadedModel(description.build_model().eval(), description.build_views(), description)
    assert export._made_up(loaded, 3).tolist() == loaded.model.encoder.tokenize(["text 0", "text 1", "text 2"]).tolist()


def assert_refused_if_it_disagrees(path):
    """The file of one model must not pass for that of another."""
    other = made_model("array")
    content = path.read_bytes()
    with torch.no_grad(), pytest.MonkeyPatch.context() as patch:
        other.model.head.layers[-1].bias += 0.01
        patch.setattr(export, "_onnx_bytes", lambda module, example: content)
        with pytest.raises(InputError, match=r"was not written: onnxruntime's embeddings differ"):
            export_onnx(other, path.with_name("other.onnx"))
    assert not path.with_name("other.onnx").exists()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("form", "x"),
        ("form", {"kind": "array", "shape": [0]}),
        ("encoder", None),
        ("encoder", ["mlp"]),
        ("inputs_shape", []),
        ("inputs_shape", "x"),
        ("inputs_shape", [[6]]),
        ("encoder_options", None),
        ("views_options", [1]),
        ("statistics", 5),
    ],
)
def test_a_description_that_was_edited_is_refused_in_words(run, tmp_path, name, value):
    copy = shutil.copytree(run, tmp_path / "copy")
    description = json.loads((copy / "model.json").read_text())
    (copy / "model.json").write_text(json.dumps({**description, name: value}))
    with pytest.raises((InputError, OptionError)):
        load(copy, device="cpu")


def test_a_single_text_is_not_taken_for_its_letters(tmp_path):
    """With a tokenizer of the encoder's own, which would take every letter for a text."""
    data = LabelledData(
        torch.ones(4, 3, 4, dtype=torch.int32),
        torch.tensor([0, 1, 0, 1]),
        ("a", "b"),
        "text",
        "t",
        ("x y",) * 4,
        buckets=9,
    )
    config = small_config(epochs=1, encoder=EncoderConfig("small_runs:Lengths"))
    train(config, run=tmp_path, data=Splits(data, None, data), show="off")
    loaded = load(tmp_path, device="cpu")
    assert loaded(["good fine"]).shape == (1, 5)
    with pytest.raises(InputError, match="Put it in brackets"):
        loaded("good fine")


def test_the_header_of_exported_weights_describes_the_model(run, tmp_path):
    """The one file is enough to build the model again."""
    loaded = load(run, device="cpu")
    path = export_safetensors(loaded, tmp_path / "weights.safetensors")
    with safe_open(path, framework="pt") as file:
        description = ModelDescription.from_json(json.loads(file.metadata()["description"]))
    assert description == loaded.description
    model = description.build_model().eval()
    model.load_state_dict(load_file(path))
    rows = small_splits().test.inputs
    again = LoadedModel(model, description.build_views(), description)
    assert torch.equal(again(rows), loaded(rows))


def test_onnx_of_views_with_a_size_of_their_own(tmp_path):
    """Which resize images; and what onnxruntime cannot run is refused in words."""
    onnxruntime = pytest.importorskip("onnxruntime")
    random = np.random.default_rng(0)
    data = split_arrays(random.integers(0, 256, (40, 20, 20, 3), dtype=np.uint8), np.arange(40) % 4)
    config = small_config(
        epochs=1,
        encoder=EncoderConfig("small_cnn", {"width": 4}),
        views=ViewsConfig("supcon", options={"crop": {"size": 12}}),
    )
    train(config, run=tmp_path / "run", data=data, show="off")
    loaded = load(tmp_path / "run")
    path = export_onnx(loaded, tmp_path / "model.onnx")
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    (given,) = session.run(None, {"inputs": data.test.inputs.numpy()})
    np.testing.assert_allclose(given, loaded(data.test.inputs).numpy(), rtol=1e-4, atol=1e-5)
    with pytest.raises(InputError, match=r"m\.onnx was not written: onnxruntime cannot run it on 2 samples: "):
        export._check_agreement(path.read_bytes(), loaded, data.test.inputs[:2, :, :7], Path("m.onnx"))
