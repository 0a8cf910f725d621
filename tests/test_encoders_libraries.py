"""Encoders of timm, torchvision and sentence-transformers with the libraries themselves, where they are installed."""

import csv
import importlib
from urllib.error import URLError

import numpy as np
import pytest
import torch

from command_line import call, done
from sincere.embeddings import load
from sincere.encoders import build_encoder
from sincere.errors import InputError, OptionError


def library(name):
    try:
        return importlib.import_module(name)
    except (ImportError, RuntimeError) as error:
        pytest.skip(f"{name} does not import here: {error}")


@pytest.fixture
def timm():
    return library("timm")


@pytest.fixture
def torchvision():
    return library("torchvision")


WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "card", "lost", "paid", "twice", "my", "was"]


@pytest.fixture(scope="module")
def sentences(tmp_path_factory):
    """A folder with a BERT of two layers and eleven words, which nobody trained."""
    # torch lists the functions that mind `torch.device("meta")` once, at first use, and transformers swaps one of them
    # while it loads: without this line, other tests would build half of a sound encoder on the CPU.
    with torch.device("meta"):
        torch.empty(1)
    library("sentence_transformers")
    transformers = library("transformers")
    modules = library("sentence_transformers.sentence_transformer.modules")
    bert, folder = tmp_path_factory.mktemp("bert"), tmp_path_factory.mktemp("sentences")
    (bert / "vocab.txt").write_text("\n".join(WORDS))
    config = transformers.BertConfig(
        vocab_size=len(WORDS),
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=24,
    )
    transformers.BertModel(config).save_pretrained(bert)
    transformers.BertTokenizerFast(str(bert / "vocab.txt")).save_pretrained(bert)
    transformer = modules.Transformer(str(bert))
    model = importlib.import_module("sentence_transformers").SentenceTransformer(
        modules=[transformer, modules.Pooling(16)], device="cpu"
    )
    model.save(str(folder))
    return folder


def built(name, shape=(3, 32, 32), kind="image", **options):
    return build_encoder(name, kind=kind, shape=shape, generator=torch.Generator().manual_seed(0), **options)


@pytest.mark.parametrize("name", ["mobilenet_v3_small", "shufflenet_v2_x0_5", "squeezenet1_1"])
def test_torchvisions_models_give_features(torchvision, name):
    encoder = built(f"torchvision:{name}")
    features = encoder.train()(torch.randn(2, 3, 32, 32))
    assert features.shape == (2, encoder.feature_dim)
    assert encoder.feature_dim != 1000, "the classifier is gone"


@pytest.mark.filterwarnings("ignore:The default weight initialization of GoogleNet:FutureWarning")
def test_classifiers_half_way_are_left_out(torchvision):
    encoder = built("torchvision:googlenet", init_weights=False)
    assert encoder.train()(torch.randn(2, 3, 32, 32)).shape == (2, 1024)


def test_timms_models_give_features(timm):
    for name, shape, options in (
        ("test_resnet", (1, 8, 8), {}),
        ("test_resnet.r160_in1k", (3, 32, 32), {}),
        ("test_vit", (3, 32, 32), {"img_size": 32}),
    ):
        encoder = built(f"timm:{name}", shape, **options)
        assert encoder.train()(torch.randn(2, *shape)).shape == (2, encoder.feature_dim)
        again = built(f"timm:{name}", shape, **options)
        assert all(torch.equal(a, b) for a, b in zip(encoder.parameters(), again.parameters(), strict=True))


@pytest.mark.parametrize(
    ("name", "options", "error", "words"),
    [
        ("torchvision:resnet81", {}, OptionError, "torchvision has no model 'resnet81'.* Did you mean 'resnet18'"),
        ("torchvision:fcn_resnet50", {}, OptionError, "no model 'fcn_resnet50' that makes features of images"),
        ("torchvision:resnet18", {"weights": "DEFALT"}, OptionError, "'IMAGENET1K_V1', 'DEFAULT': got 'DEFALT'"),
        ("torchvision:resnet18", {"widht": 3}, OptionError, "does not take the option 'widht'"),
        (
            "torchvision:mobilenet_v3_small",
            {"dropout": "x"},
            OptionError,
            "with dropout='x'. TypeError: .* Look at its",
        ),
        ("torchvision:vit_b_16", {}, InputError, "Wrong image height.* If it is made for images of"),
        ("timm:resnet81", {}, OptionError, "timm has no model 'resnet81'.* Did you mean 'resnet18'"),
        ("timm:test_resnet.nonsense", {}, OptionError, "RuntimeError: Invalid pretrained tag.* Look at its name"),
        ("timm:vit_tiny_patch16_224", {}, InputError, "Input height .32. doesn't match .* If it is made for images of"),
        ("timm:test_resnet", {"pretraned": True}, OptionError, "'pretraned'.* Did you mean 'pretrained'"),
        ("timm:test_resnet", {"num_classes": 3}, OptionError, "got num_classes=3. Leave it out"),
        ("timm:test_resnet", {"checkpoint_path": "/no/such.pth"}, OptionError, "FileNotFoundError. checkpoint_path"),
        ("timm:test_resnet", {"weights": "DEFAULT"}, OptionError, "timm's models take pretrained=true"),
        ("timm:test_resnet", {"pretrained": "yes"}, OptionError, "must be True or False: got 'yes'"),
        ("torchvision:resnet18", {"pretrained": True}, OptionError, "torchvision's models take weights='DEFAULT'"),
        ("torchvision:resnet18", {"weights": True}, OptionError, "'IMAGENET1K_V1', 'DEFAULT': got 'True'"),
        ("timm:local-dir:/no/such", {}, OptionError, "Config file not found: /no/such"),
    ],
)
def test_wrong_names_and_options_are_refused_in_words(name, options, error, words):
    library(name.partition(":")[0])
    with pytest.raises(error, match=words):
        built(name, **options)


def test_sentence_transformers_embeddings_are_its_own(sentences):
    encoder = built(f"sentence-transformers:{sentences}", (12, 1), "text").eval()
    texts = ["my card was lost", "paid twice", ""]
    with torch.no_grad():
        ours = encoder(encoder.tokenize(texts)).numpy()
    np.testing.assert_allclose(ours, encoder.network.encode(texts), atol=1e-6)
    assert encoder.feature_dim == 16
    assert encoder.tokenize([]).shape == (0, 12, 1)
    long = built(f"sentence-transformers:{sentences}", (100, 1), "text", truncate_dim=4)
    tokens = long.tokenize(["card " * 90])
    assert tokens.shape == (1, long.network.max_seq_length, 1), "no more tokens than the model takes"
    assert long(tokens).shape == (1, long.feature_dim) == (1, 4)


def test_sentence_transformers_that_are_not_there(sentences):
    with pytest.raises(
        OptionError, match=r"cannot be built\. FileNotFoundError: Path /no/such not found\. What is not"
    ):
        built("sentence-transformers:/no/such", (12, 1), "text")
    with pytest.raises(OptionError, match=r"with device='nowhere'\. RuntimeError"):
        built(f"sentence-transformers:{sentences}", (12, 1), "text", device="nowhere")


def test_from_a_table_of_texts_to_onnx(sentences, tmp_path, monkeypatch):
    """Tokens of the model's own go through all verbs; ONNX knows as many as the model does, not as hashing does."""
    onnxruntime = library("onnxruntime")
    monkeypatch.chdir(tmp_path)
    with open("bank.csv", "w", newline="") as file:
        rows = [("my card was lost", "lost"), ("lost my card", "lost"), ("was paid twice", "paid"), ("paid", "paid")]
        csv.writer(file).writerows([("text", "label"), *(rows * 6)])
    encoder = f"sentence-transformers:{sentences}"
    done(
        "train",
        "bank.csv",
        "--encoder",
        encoder,
        "--epochs",
        1,
        "--batch",
        8,
        "--dim",
        4,
        "--device",
        "cpu",
        "--out",
        "run",
    )
    done("embed", "run", "bank.csv", "--out", "new.npz")
    done("export", "run", "bank.onnx")
    model, texts = load("run", device="cpu"), ["my card", "paid twice twice", "lost"]
    session = onnxruntime.InferenceSession("bank.onnx", providers=["CPUExecutionProvider"])
    (given,) = session.run(None, {"inputs": model.prepared(texts).numpy()})
    np.testing.assert_allclose(given, model(texts).numpy(), rtol=1e-4, atol=1e-5)


def test_the_command_line_refuses_in_one_line(timm, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = call("train", "digits", "--encoder", "timm:resnt10t", "--device", "cpu", "--out", "run")
    assert result.exit_code == 2
    assert result.stderr.splitlines()[-1].startswith("error: timm has no model 'resnt10t'")


def test_a_run_is_loaded_without_the_weights_that_it_started_from(timm, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    start = tmp_path / "start.pth"
    torch.save(timm.create_model("test_resnet", num_classes=0).state_dict(), start)
    images = np.random.default_rng(0).integers(0, 256, (40, 32, 32, 3), dtype=np.uint8)
    np.savez("data.npz", x=images, y=np.arange(40) % 2)
    words = ("--encoder", "timm:test_resnet", "--set", f"encoder.options.checkpoint_path={start}", "--epochs", 1)
    done("train", "data.npz", *words, "--device", "cpu", "--out", "run")
    start.unlink()
    assert load("run")(images[:3]).shape == (3, 96), "the features: a pretrained network gets no new head"
    done("train", "--resume", "run")  # its last checkpoint has them all


class TestWeightsOfAFile:
    """`checkpoint_path`: whoever has weights has them with the classifier that they were trained with."""

    @pytest.fixture
    def kept(self, timm, tmp_path):
        network = timm.create_model("test_resnet", num_classes=7)
        torch.save(network.state_dict(), tmp_path / "kept.pth")
        return network, tmp_path / "kept.pth"

    def test_the_classifier_is_left_out(self, kept):
        network, path = kept
        encoder = built("timm:test_resnet", checkpoint_path=str(path)).eval()
        images = torch.randn(2, 3, 32, 32)
        network.eval().reset_classifier(0)
        assert torch.equal(encoder(images), network(images))

    def test_grey_images_are_seen_as_grey_ones_in_colour(self, kept):
        network, path = kept
        encoder = built("timm:test_resnet", (1, 32, 32), checkpoint_path=str(path)).eval()
        grey = torch.randn(2, 1, 32, 32)
        network.eval().reset_classifier(0)
        torch.testing.assert_close(encoder(grey), network(grey.expand(2, 3, 32, 32)), rtol=1e-4, atol=1e-5)

    def test_a_transformer_takes_images_of_another_size(self, timm, tmp_path):
        torch.save(timm.create_model("test_vit", num_classes=7).state_dict(), tmp_path / "kept.pth")
        encoder = built("timm:test_vit", checkpoint_path=str(tmp_path / "kept.pth"), img_size=32)
        assert encoder(torch.randn(2, 3, 32, 32)).shape == (2, encoder.feature_dim)

    @pytest.mark.parametrize("shape", [(3, 32, 32), (1, 32, 32)])
    def test_a_file_of_another_network_is_refused(self, timm, shape, tmp_path, caplog):
        """Also one that has all names of this one and more, and one with a prefix; timm would take both."""
        large, path = timm.create_model("resnet34", num_classes=7).state_dict(), tmp_path / "other.pth"
        torch.save(large, path)
        with pytest.raises(OptionError, match=r"weights of timm:resnet18 under timm's names: 80 names .*'layer1\.2"):
            built("timm:resnet18", shape, checkpoint_path=str(path))
        torch.save({"state_dict": {f"backbone.{name}": value for name, value in large.items()}}, path)
        with pytest.raises(OptionError, match=r"other\.pth must hold .*'backbone\.bn1\.bias'"):
            built("timm:resnet34", shape, checkpoint_path=str(path))
        assert not caplog.records, "one sentence, and no list of names before it"

    def test_what_is_no_file_of_weights_is_refused(self, timm, tmp_path):
        (tmp_path / "junk.pth").write_text("hello")
        with pytest.raises(OptionError, match=r"checkpoint_path must be a file of this network's weights"):
            built("timm:test_resnet", checkpoint_path=str(tmp_path / "junk.pth"))


def test_weights_that_cannot_be_downloaded(timm, torchvision, tmp_path, monkeypatch):
    """Both libraries, with no host to reach: a sentence that says what else can be done."""
    huggingface_hub = library("huggingface_hub")
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(OptionError, match=r"can its host be reached\? .* checkpoint_path=FILE in place of pretrained"):
        built("timm:resnet18", pretrained=True, cache_dir=str(tmp_path))

    def no_host(*given, **named):
        raise URLError("Name or service not known")

    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    monkeypatch.setattr(torch.hub, "download_url_to_file", no_host)
    with pytest.raises(OptionError, match=rf"URLError.* found in {tmp_path}/hub/checkpoints"):
        built("torchvision:resnet18", weights="DEFAULT")
