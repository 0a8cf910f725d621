"""Encoders by name: ours, a user's factory, other libraries' (stand-ins of them), heads and whole models."""

import sys
import types

import pytest
import torch
from torch import nn

from sincere.encoders import ENCODERS, EmbeddingModel, ProjectionHead, build_encoder, default_encoder, seeded
from sincere.encoders.external import starts_from_weights, without_classifier, without_starting_weights
from sincere.errors import InputError, OptionError

SHAPES = {"image": (3, 9, 9), "array": (5,), "text": (4, 3), "sound": (900,)}
OPTIONS = {"text": {"rows": 50}, "sound": {"sample_rate": 8000}, "resnet18": {"width": 0.125}}


def inputs_of(kind, b=3):
    if kind == "text":
        return torch.randint(0, 50, (b, *SHAPES[kind]), dtype=torch.int32)
    return torch.randn(b, *SHAPES[kind])


def built(name, generator=None):
    kind = ENCODERS[name][0]
    return build_encoder(name, kind=kind, shape=SHAPES[kind], generator=generator, **OPTIONS.get(name, {}))


@pytest.mark.parametrize("name", [name for name in ENCODERS if name not in ("resnet34", "resnet50")])
def test_every_name_and_its_generator(name):
    before = torch.get_rng_state()
    first, second, third = (built(name, torch.Generator().manual_seed(seed)) for seed in (0, 0, 1))
    assert torch.equal(before, torch.get_rng_state()), "the global generator is as it was"
    for a, b in zip(first.parameters(), second.parameters(), strict=True):
        assert torch.equal(a, b)
    assert any(not torch.equal(a, b) for a, b in zip(first.parameters(), third.parameters(), strict=True))
    features = first(inputs_of(ENCODERS[name][0]))
    assert features.shape == (3, first.feature_dim)
    with torch.device("meta"):
        assert all(p.is_meta for p in built(name).parameters())


def test_a_model_built_on_meta_is_whole_once_loaded():
    trained = built("sound").eval()
    with torch.device("meta"):
        empty = built("sound").eval()
    empty.load_state_dict(trained.state_dict(), assign=True)
    waveforms = inputs_of("sound")
    assert torch.equal(empty(waveforms), trained(waveforms))


def test_defaults_exist_for_every_kind():
    assert default_encoder("image", (1, 8, 8)) == "small_cnn"
    assert default_encoder("image", (3, 32, 32)) == "resnet18"
    on_cpu = [default_encoder("image", (3, side, side + 1), gpu=False) for side in (16, 17, 95, 96)]
    assert on_cpu == ["small_cnn", "short_cnn", "short_cnn", "resnet18"]
    assert [default_encoder(kind, SHAPES[kind]) for kind in ("array", "text", "sound")] == ["mlp", "text", "sound"]


def test_without_a_generator_the_global_one_decides():
    torch.manual_seed(0)
    first, then = built("mlp"), torch.rand(1)
    torch.manual_seed(0)
    with seeded(None):
        second = built("mlp")
    assert torch.equal(first.layers[0][0].weight, second.layers[0][0].weight)
    assert torch.equal(then, torch.rand(1))


@pytest.fixture
def own_module(monkeypatch):
    module = types.ModuleType("own_package_for_tests")

    def with_width(shape, *, width=7):
        network = nn.Sequential(nn.Flatten(), nn.Linear(shape[0] * shape[1] * shape[2], width))
        network.feature_dim = width
        return network

    module.with_width = with_width
    module.measured = lambda shape: nn.Sequential(nn.Conv2d(shape[0], 6, 3), nn.BatchNorm2d(6), nn.Flatten())
    module.grid = lambda shape: nn.Conv2d(shape[0], 6, 3)
    module.words = lambda shape: nn.EmbeddingBag(50, 11)
    module.nothing = lambda shape: "network"
    monkeypatch.setitem(sys.modules, module.__name__, module)
    return module.__name__


def test_a_factory_of_the_users_own(own_module):
    named = build_encoder(f"{own_module}:with_width", kind="image", shape=(3, 8, 8), width=9)
    assert named.feature_dim == 9
    measured = build_encoder(f"{own_module}:measured", kind="image", shape=(3, 8, 8))
    assert measured.feature_dim == 6 * 6 * 6
    assert measured(torch.randn(2, 3, 8, 8)).shape == (2, 216)
    assert measured.training
    assert measured.network[1].num_batches_tracked == 1, "measuring left the running statistics alone"


def test_errors_of_factories(own_module):
    cases = [
        (f"{own_module}:grid", InputError, ["features (b, feature_dim)", "(2, 6, 6, 6)", "pool"]),
        (f"{own_module}:nothing", OptionError, ["torch.nn.Module", "str"]),
        (f"{own_module}:missing", OptionError, ["'missing'", own_module]),
        ("no_such_package_anywhere:net", OptionError, ["no_such_package_anywhere", "PYTHONPATH"]),
    ]
    for name, error, words in cases:
        with pytest.raises(error) as caught:
            build_encoder(name, kind="image", shape=(3, 8, 8))
        assert all(word in str(caught.value) for word in words), caught.value


@pytest.mark.parametrize(
    ("name", "kind", "module", "extra"),
    [
        ("timm:resnet10t", "image", "timm", "vision"),
        ("torchvision:resnet18", "image", "torchvision.models", "vision"),
        ("sentence-transformers:all-MiniLM-L6-v2", "text", "sentence_transformers", "text"),
    ],
)
def test_a_missing_library_is_named_with_its_extra(name, kind, module, extra, monkeypatch):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(OptionError, match=rf'pip install "sincere\[{extra}\]"'):
        build_encoder(name, kind=kind, shape=SHAPES[kind])


def test_timm(monkeypatch):
    calls = {}

    def create_model(name, **options):
        calls.update(options, name=name)
        return nn.Sequential(nn.Conv2d(options["in_chans"], 5, 8), nn.Flatten())

    library = types.SimpleNamespace(create_model=create_model, is_model="net".__eq__, list_models=lambda: ["net"])
    monkeypatch.setitem(sys.modules, "timm", library)
    encoder = build_encoder("timm:net", kind="image", shape=(1, 8, 8), pretrained=False)
    assert calls == {"name": "net", "in_chans": 1, "num_classes": 0, "pretrained": False}
    assert encoder.feature_dim == 5
    assert encoder(torch.randn(2, 1, 8, 8)).shape == (2, 5)
    with pytest.raises(OptionError, match=r"timm has no model 'nett'.* Did you mean 'net'\?"):
        build_encoder("timm:nett", kind="image", shape=(1, 8, 8))
    for ours in ("in_chans", "num_classes"):
        with pytest.raises(OptionError, match=f"got {ours}=3. Leave it out"):
            build_encoder("timm:net", kind="image", shape=(1, 8, 8), **{ours: 3})
    with pytest.raises(OptionError, match="pretrained of timm:net must be True or False: got 'no'"):
        build_encoder("timm:net", kind="image", shape=(1, 8, 8), pretrained="no")
    with pytest.raises(OptionError, match=r"timm's models take pretrained=true.* got weights='DEFAULT'"):
        build_encoder("timm:net", kind="image", shape=(1, 8, 8), weights="DEFAULT")


def test_torchvision(monkeypatch):
    def get_model(name, *, weights=None):
        if weights is not None:
            raise ConnectionError("no route\nto the host.")
        network = nn.Sequential()
        network.add_module("flat", nn.Flatten())
        network.add_module("fc", nn.Linear(192, 1000))
        return network

    library = types.SimpleNamespace(
        get_model=get_model,
        list_models=lambda module: ["net"],
        get_model_weights=lambda name: types.SimpleNamespace(__members__={"V1": 1, "DEFAULT": 1}),
    )
    monkeypatch.setitem(sys.modules, "torchvision.models", library)
    assert built_for("torchvision:Net").feature_dim == 192
    with pytest.raises(OptionError, match="three channels"):
        build_encoder("torchvision:net", kind="image", shape=(1, 8, 8))
    with pytest.raises(OptionError, match=r"has no model 'ent'.* torchvision\.models\.list_models"):
        built_for("torchvision:ent")
    with pytest.raises(OptionError, match=r"must be one of 'V1', 'DEFAULT': got 'DEFALT'"):
        built_for("torchvision:net", weights="DEFALT")
    with pytest.raises(
        OptionError, match=r"with weights='Net\.V1'\. ConnectionError: no route to the host\. What is not"
    ):
        built_for("torchvision:net", weights="Net.V1")
    with pytest.raises(OptionError, match=r"found in .*checkpoints\.$"):
        built_for("torchvision:net", weights="V1")
    with pytest.raises(OptionError, match="must be one of 'V1', 'DEFAULT': got 'True'"):
        built_for("torchvision:net", weights=True)
    with pytest.raises(OptionError, match=r"take weights='DEFAULT', .* got pretrained=True"):
        built_for("torchvision:net", pretrained=True)


def test_a_long_complaint_of_a_library_is_cut_before_the_advice(monkeypatch):
    """A network of a hundred layers is complained about a hundred times."""

    def create_model(name, **options):
        raise RuntimeError("size mismatch for layer.weight. " * 100)

    library = types.SimpleNamespace(create_model=create_model, is_model="net".__eq__)
    monkeypatch.setitem(sys.modules, "timm", library)
    with pytest.raises(OptionError, match=r"size mismatch for .* …\. Look at its name and options\.$") as caught:
        build_encoder("timm:net", kind="image", shape=(1, 8, 8))
    assert len(str(caught.value)) < 600


@pytest.mark.parametrize(
    ("encoder", "options", "weights"),
    [
        ("timm:net", {"pretrained": True}, True),
        ("timm:net", {"checkpoint_path": "net.pth"}, True),
        ("timm:net", {"pretrained": False, "checkpoint_path": ""}, False),
        ("timm:net", {}, False),
        ("torchvision:net", {"weights": "DEFAULT"}, True),
        ("torchvision:net", {"weights": None}, False),
        ("package:factory", {"pretrained": True, "weights": "DEFAULT"}, False),
    ],
)
def test_whether_a_network_starts_from_weights(encoder, options, weights):
    assert starts_from_weights(encoder, options) is weights
    assert not starts_from_weights(encoder, without_starting_weights(encoder, options))


def test_a_library_that_fails_while_it_is_imported_is_not_called_missing(monkeypatch, tmp_path):
    """As one that was built for another torch, and one that hides why."""
    (tmp_path / "torchvision").mkdir()
    (tmp_path / "torchvision" / "__init__.py").write_text('raise RuntimeError("operator nms does not exist")')
    (tmp_path / "sentence_transformers.py").write_text(
        "try:\n    import torchvision\nexcept RuntimeError as error:\n    raise ModuleNotFoundError('?') from error\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    for name in [name for name in sys.modules if name.partition(".")[0] in ("torchvision", "sentence_transformers")]:
        monkeypatch.delitem(sys.modules, name)
    for name, kind in (("torchvision:resnet18", "image"), ("sentence-transformers:net", "text")):
        with pytest.raises(
            OptionError, match=r"is installed and does not import.*operator nms does not exist\. Install"
        ):
            build_encoder(name, kind=kind, shape=SHAPES[kind])


def test_the_last_layer_goes_whatever_holds_it():
    network = nn.Module()
    network.classifier = nn.Sequential(nn.Dropout(), nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))
    assert isinstance(without_classifier(network).classifier[3], nn.Identity)
    assert isinstance(network.classifier[1], nn.Linear)
    for bad, words in ((nn.Conv2d(1, 1, 1), "no classifier"), (nn.Module(), "no classifier")):
        with pytest.raises(OptionError, match=words):
            without_classifier(bad)
    network.classifier = nn.Sequential(nn.Conv2d(4, 3, 1), nn.AdaptiveAvgPool2d(1))  # as SqueezeNet has it
    assert isinstance(without_classifier(network).classifier[0], nn.Identity)
    network.classifier = nn.Sequential(nn.ReLU())
    with pytest.raises(OptionError, match="no linear layer"):
        without_classifier(network)


class FakeSentences(nn.Module):
    """As much of sentence-transformers as is used: a tokenizer, a length, a call on tokens and a mask."""

    max_seq_length = 20

    def __init__(self, name, *, device, truncate_dim=None):
        super().__init__()
        assert device == "cpu", "and not the first GPU"
        self.table, self.truncate_dim = nn.Embedding(30, 6), truncate_dim

    def tokenizer(self, texts, *, padding, truncation, max_length, return_tensors):
        assert (padding, truncation, return_tensors) == ("max_length", True, "pt")
        rows = [[len(word) for word in text.split()][:max_length] for text in texts]
        numbers = torch.tensor([row + [0] * (max_length - len(row)) for row in rows])
        mask = torch.tensor([[1] * len(row) + [0] * (max_length - len(row)) for row in rows])
        return {"input_ids": numbers, "attention_mask": mask}

    def forward(self, features):
        mask = features["attention_mask"].unsqueeze(2)
        summed = (self.table(features["input_ids"]) * mask).sum(dim=1)
        return {"sentence_embedding": summed / mask.sum(dim=1).clamp(min=1)}


def test_sentence_transformers(monkeypatch):
    library = types.SimpleNamespace(SentenceTransformer=FakeSentences)
    monkeypatch.setitem(sys.modules, "sentence_transformers", library)
    encoder = build_encoder("sentence-transformers:net", kind="text", shape=(4, 1))
    texts = encoder.tokenize(["a bc", "def g hijk lmnop q"])
    assert texts.dtype == torch.int32
    assert texts.squeeze(2).tolist() == [[2, 3, 0, 0], [4, 2, 5, 6]]
    table = encoder.network.table.weight
    torch.testing.assert_close(encoder(texts)[0], (table[1] + table[2]) / 2)
    with pytest.raises(InputError, match=r"\(b, tokens, 1\)"):
        encoder(torch.zeros(2, 4, 3, dtype=torch.int32))
    short = build_encoder("sentence-transformers:net", kind="text", shape=(40, 1), truncate_dim=2)
    assert short.tokenize(["a bc"]).shape == (1, 20, 1), "no more tokens than the model takes"
    assert short(short.tokenize(["a bc"])).shape == (1, short.feature_dim) == (1, 2)


def test_heads():
    torch.manual_seed(0)
    features = torch.randn(4, 6)
    head = ProjectionHead(6, hidden=9, dim=3)
    first, _, second = head.layers
    expected = torch.relu(features @ first.weight.T + first.bias) @ second.weight.T + second.bias
    torch.testing.assert_close(head(features), expected)
    with torch.device("meta"):
        paper = ProjectionHead(2048)
    assert [tuple(p.shape) for p in paper.parameters()] == [(2048, 2048), (2048,), (128, 2048), (128,)]
    assert ProjectionHead(6, layers="linear", dim=3)(features).shape == (4, 3)
    assert torch.equal(ProjectionHead(6, layers="none")(features), features)
    assert [ProjectionHead(6, layers=layers, dim=3).dim for layers in ("mlp", "linear", "none")] == [3, 3, 6]


def test_an_embedding_model_is_head_of_encoder():
    encoder = built("mlp")
    model = EmbeddingModel(encoder, ProjectionHead(encoder.feature_dim, dim=4)).eval()
    arrays = inputs_of("array")
    assert torch.equal(model.features(arrays), encoder(arrays))
    assert torch.equal(model(arrays), model.head(encoder(arrays)))


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: built_for("resnet101"), OptionError, ["'resnet18'", "'timm:NAME'", "package.module:factory"]),
        (lambda: built_for("resnet18", kind="text"), OptionError, ["'resnet18'", "'image'", "kind='text'"]),
        (lambda: built_for("timm:net", kind="sound"), OptionError, ["'image'", "'sound'"]),
        (lambda: built_for("small_cnn", depth=3), OptionError, ["'small_cnn'", "'width'", "'depth'"]),
        (lambda: built_for("mlp", kind="array"), OptionError, ["(features)", "(3, 8, 8)"]),
        (lambda: default_encoder("video", (1,)), OptionError, ["kind", "'video'"]),
        (lambda: ProjectionHead(6, layers="deep"), OptionError, ["layers", "'linear'", "'deep'"]),
        (lambda: ProjectionHead(6, dim=0), OptionError, ["dim", "at least 1"]),
        (lambda: ProjectionHead(6)(torch.randn(2, 5)), InputError, ["this head", "(b, 6)", "(2, 5)"]),
        (lambda: EmbeddingModel(nn.Linear(2, 2), ProjectionHead(2)), OptionError, ["feature_dim", "missing"]),
        (lambda: EmbeddingModel(built("mlp"), ProjectionHead(2)), OptionError, ["256", "2"]),
    ],
)
def test_errors(call, error, words):
    with pytest.raises(error) as caught:
        call()
    assert all(word in str(caught.value) for word in words), caught.value


def built_for(name, kind="image", **options):
    return build_encoder(name, kind=kind, shape=(3, 8, 8), **options)


@pytest.mark.parametrize("name", ENCODERS)
def test_a_misspelt_option_is_refused_with_a_guess(name):
    kind = ENCODERS[name][0]
    wrong, meant = ("chanels", "channels") if name == "short_cnn" else ("widht", "width")
    with pytest.raises(OptionError, match=f"got '{wrong}'. Did you mean '{meant}'"):
        build_encoder(name, kind=kind, shape=SHAPES[kind], **{wrong: 8})


@pytest.mark.parametrize(
    ("name", "options", "most"),
    [
        ("mlp", {"depth": 2001}, "2,000"),
        ("mlp", {"width": 10**8 + 1}, "100,000,000"),
        ("wide_resnet", {"depth": 4 + 6 * 333}, "2,000"),
        ("sound", {"bands": 2001}, "2,000"),
        ("text", {"rows": 10**9}, "100,000,000"),
    ],
)
def test_slips_of_many_digits_are_refused(name, options, most):
    kind, ((option, value),) = ENCODERS[name][0], options.items()
    rate = {"sample_rate": 8000} if name == "sound" else {}
    with pytest.raises(OptionError, match=f"{option} must be a whole number of at most {most}: got {value:,}"):
        build_encoder(name, kind=kind, shape=SHAPES[kind], **options, **rate)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        *((name, {"width": bad}) for name in ("resnet9", "resnet18") for bad in ("8", None, True, [8], torch.nan)),
        ("resnet9", {"width": torch.inf}),
        ("wide_resnet", {"width": "10"}),
        ("resnet18", {"zero_last": "no"}),
        ("short_cnn", {"depth": 2.0}),
        ("mlp", {"residual": "no"}),
        ("text", {"rate": "x"}),
        ("text", {"rate": True}),
    ],
)
def test_options_of_a_wrong_type_are_refused_in_words(name, options):
    kind = ENCODERS[name][0]
    (option,) = options
    with pytest.raises(OptionError, match=f"^{option} must be"):
        build_encoder(name, kind=kind, shape=SHAPES[kind], **options)


def test_a_state_that_no_run_can_save_is_refused_before_it_starts(own_module):
    class Remembering(nn.Linear):
        feature_dim = 4

        def get_extra_state(self):
            return {"steps": 3}

        def set_extra_state(self, state):
            pass

    sys.modules[own_module].remembering = lambda shape: Remembering(3, 4)
    with pytest.raises(OptionError, match=r"state in tensors, .*'_extra_state' of its state_dict is a dict\. Register"):
        build_encoder(f"{own_module}:remembering", kind="array", shape=(3,))


def test_an_encoder_that_returns_no_tensor_is_told_so():
    class Several(nn.Linear):
        feature_dim = 4

        def forward(self, inputs):
            return super().forward(inputs), None

    with pytest.raises(InputError, match=r"this head takes a tensor: got tuple\. An encoder must return one"):
        EmbeddingModel(Several(3, 4), ProjectionHead(4))(torch.zeros(2, 3))


def test_nonsense_from_factories_is_refused_in_words(own_module):
    module = sys.modules[own_module]

    def with_dim(value):
        network = nn.Flatten()
        network.feature_dim = value
        return network

    class Levels(nn.Module):
        def forward(self, images):
            return images.flatten(1).long()

    module.value = 3
    module.true, module.zero = (lambda shape: with_dim(True)), (lambda shape: with_dim(0))
    module.whole, module.other = (lambda shape: Levels()), (lambda shape: nn.Linear(5, 5))
    cases = [
        ("value", {}, OptionError, "function or class.*got int"),
        ("true", {}, OptionError, "feature_dim.*got True"),
        ("zero", {}, OptionError, "feature_dim.*got 0"),
        ("whole", {}, InputError, "int64"),
        ("other", {}, InputError, "Linear fails on two of them"),
        ("with_width", {"widht": 3}, OptionError, "'widht'.*Did you mean 'width'"),
    ]
    for name, options, error, words in cases:
        with pytest.raises(error, match=words):
            build_encoder(f"{own_module}:{name}", kind="image", shape=(3, 8, 8), **options)

    def broken(shape):
        raise TypeError("inside")

    module.broken = broken
    with pytest.raises(TypeError, match=r"^inside$"):  # the user's own mistake, with its own traceback
        build_encoder(f"{own_module}:broken", kind="image", shape=(3, 8, 8))


@pytest.mark.parametrize("name", [None, 18, ":net", "package.module:"])
def test_names_that_are_none(name):
    with pytest.raises(OptionError, match="encoder must be one of"):
        build_encoder(name, kind="image", shape=(3, 8, 8))
