"""The losses as modules: options that are declared, checked when the module is made, and remembered."""

import copy
import inspect
import io
import pickle

import pytest
import torch

import sincere
import sincere.functional as SF
from sincere.errors import OptionError
from sincere.losses.contrastive_loss import ContrastiveLoss
from sincere.losses.options import DEFAULTS

MODULES = {
    sincere.SINCERELoss: SF.sincere,
    sincere.SupConLoss: SF.supcon,
    sincere.InfoNCELoss: SF.infonce,
    sincere.EpsSupInfoNCELoss: SF.eps_supinfonce,
    sincere.DecoupledLoss: SF.decoupled,
    sincere.SpreadLoss: SF.spread,
    sincere.SoftLabelLoss: SF.soft_label,
    sincere.SetLoss: SF.set_nce,
    sincere.RankNContrastLoss: SF.rank_n_contrast,
}
EACH_MODULE = pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
OF_MODULES = ("learnable_temperature", "temperature_floor")
OWN_SIMILARITY = torch.matmul
FLAGS = ("ignored_as_negatives", "class_balanced", "include_batch", "gather", "check_finite")
BAD = {
    "temperature": [0, -0.1, float("nan"), float("inf"), "low", None, True, torch.ones(2), torch.tensor(1), [0.1]],
    "reduction": ["avg", "Mean", None, 1, ["mean"]],
    "similarity": ["l2", None, 2],
    "backend": ["cuda", "tile", None, 64],
    "positives": ["all", None, True],
    "ignore_label": [None, 0.5, "none", True],
    **{flag: ["no", None, 1, 0] for flag in FLAGS},
}
BAD_OF_ONE = {
    sincere.SupConLoss: {"form": ["outt", "inside", None, True]},
    sincere.InfoNCELoss: {"ignore_label": [0, 3]},
    sincere.EpsSupInfoNCELoss: {"epsilon": [-1, float("nan"), float("inf"), "small", None, True]},
    sincere.SpreadLoss: {"alpha": [3, -0.1, float("nan"), "half", None, True]},
    sincere.SoftLabelLoss: {"targets": ["pair", None, 2]},
    sincere.SetLoss: {"method": ["fast", None, 1]},
    sincere.RankNContrastLoss: {"ties": ["spare", None, True], "distance": ["L1", None, 2], "ignore_label": [0, 3]},
}
BAD_TOGETHER = [
    *[(module, {"similarity": OWN_SIMILARITY, "backend": "tiled"}) for module in MODULES],
    *[(module, {"similarity": OWN_SIMILARITY, "backend": "triton"}) for module in MODULES],
    (sincere.SoftLabelLoss, {"targets": "pairs", "gather": True}),
    (sincere.SoftLabelLoss, {"targets": "pairs", "include_batch": True}),
    (sincere.SoftLabelLoss, {"targets": "pairs", "reduction": "class_mean"}),
    (sincere.RankNContrastLoss, {"reduction": "class_mean"}),
    (sincere.RankNContrastLoss, {"ignored_as_negatives": True}),
    (sincere.RankNContrastLoss, {"positives": "jaccard"}),
]
CASES = [
    *[(module, {name: value}) for module in MODULES for name, values in BAD.items() for value in values],
    *[
        (module, {name: value})
        for module, bad in BAD_OF_ONE.items()
        for name, values in bad.items()
        for value in values
    ],
    *BAD_TOGETHER,
]


def own_options(function):
    """The options that no other loss has."""
    parameters = inspect.signature(function).parameters.values()
    return [p.name for p in parameters if p.kind is p.KEYWORD_ONLY and p.name not in DEFAULTS]


def batch_for(module, options):
    """What a good call of this loss looks like."""
    z = torch.randn(6, 2, 3)
    if module is sincere.InfoNCELoss:
        return (z,)
    if module is sincere.SoftLabelLoss:
        return z, torch.rand(6, 6 if options.get("targets") == "pairs" else 4)
    return z, torch.arange(6) // 2


@pytest.mark.parametrize(
    ("module", "options"), CASES, ids=[f"{m.__name__}-{i}-{'-'.join(o)}" for i, (m, o) in enumerate(CASES)]
)
def test_bad_options_are_refused_when_the_module_is_made_in_the_words_of_the_call(module, options):
    with pytest.raises(OptionError) as of_call:
        MODULES[module](*batch_for(module, options), **options)
    with pytest.raises(OptionError) as of_module:
        module(**options)
    assert str(of_module.value) == str(of_call.value)


def test_no_option_is_left_out_of_the_bad_ones():
    assert set(BAD) == set(DEFAULTS) - {"weights"}
    for module, function in MODULES.items():
        assert set(own_options(function)) <= set(BAD_OF_ONE.get(module, {}))


@EACH_MODULE
@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"learnable_temperature": "yes"}, "learnable_temperature must be True or False: got 'yes'"),
        ({"learnable_temperature": 1}, "learnable_temperature must be True or False: got 1"),
        ({"temperature_floor": -1}, "temperature_floor must be positive and finite: got -1."),
        ({"temperature_floor": None}, "temperature_floor must be a number"),
        ({"learnable_temperature": True, "temperature": 0.2, "temperature_floor": 0.2}, "above temperature_floor"),
        ({"weights": torch.ones(6)}, "pass them to the call"),
        ({"temprature": 0.1}, "unknown option 'temprature'. Did you mean 'temperature'? Options: "),
        ({"temperature_flor": 0.1}, "Did you mean 'temperature_floor'?"),
    ],
)
def test_what_only_modules_have_is_checked_too(module, options, words):
    with pytest.raises(OptionError) as raised:
        module(**options)
    assert words in str(raised.value)


@EACH_MODULE
def test_a_module_declares_the_options_of_its_function(module):
    of_function = inspect.signature(MODULES[module]).parameters.values()
    of_module = inspect.signature(module).parameters
    expected = [p for p in of_function if p.kind is p.KEYWORD_ONLY and p.name != "weights"]
    assert list(of_module.values())[:-2] == expected  # names, order, defaults and types
    assert tuple(of_module)[-2:] == OF_MODULES
    assert all(p.kind is p.KEYWORD_ONLY and p.annotation is not p.empty for p in of_module.values())
    assert "self, *, " in str(inspect.signature(module.__init__))
    of_forward = inspect.signature(module.forward).parameters
    positional = [p.name for p in of_function if p.kind is not p.KEYWORD_ONLY]
    assert list(of_forward) == ["self", *positional, "weights"]


@EACH_MODULE
@pytest.mark.parametrize(
    ("given", "advice"), [(0.1, "temperature=0.1"), (1, "temperature=1"), ("in", "temperature=0.1")]
)
def test_options_are_given_by_name(module, given, advice):
    with pytest.raises(TypeError) as raised:
        module(given)
    name = module.__name__
    assert str(raised.value) == f"{name} takes its options by name: got {given!r} without one. Write {name}({advice})."


def test_repr_shows_what_was_given_and_what_only_this_loss_has():
    assert repr(sincere.SINCERELoss()) == "SINCERELoss()"
    assert repr(sincere.SINCERELoss(gather=True)) == "SINCERELoss(gather=True)"
    assert repr(sincere.SupConLoss(temperature=0.2)) == "SupConLoss(temperature=0.2, form='out')"


def test_a_model_without_values_can_be_printed_with_its_loss():
    with torch.device("meta"):
        model = torch.nn.Sequential(torch.nn.Linear(3, 2), sincere.SINCERELoss(learnable_temperature=True))
    assert "(1): SINCERELoss(temperature='learned')" in repr(model)


OWN = {
    sincere.SupConLoss: {"form": "in"},
    sincere.EpsSupInfoNCELoss: {"epsilon": 0.7},
    sincere.SpreadLoss: {"alpha": 0.2},
    sincere.SoftLabelLoss: {"targets": "pairs"},
    sincere.SetLoss: {"method": "saddle"},
}


def through_torch_save(loss):
    file = io.BytesIO()
    torch.save(loss, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


@EACH_MODULE
@pytest.mark.parametrize("learnable", [False, True])
def test_copies_give_the_same(module, learnable):
    own = OWN.get(module, {})
    options = {"temperature": 0.3, "reduction": "sum", "learnable_temperature": learnable, **own}
    loss, batch = module(**options), batch_for(module, own)
    expected = loss(*batch)
    assert torch.isfinite(expected)
    for again in (pickle.loads(pickle.dumps(loss)), copy.deepcopy(loss), through_torch_save(loss)):
        assert repr(again) == repr(loss)
        assert torch.equal(again(*batch), expected)
    restored = module(**{**options, "temperature": 0.5})
    restored.load_state_dict(loss.state_dict())
    assert torch.equal(restored(*batch), expected) == learnable  # a fixed temperature is an option, and no state
    assert list(loss.state_dict()) == (["log_temperature"] if learnable else [])


@EACH_MODULE
def test_a_module_compiles_whole(module):
    own = OWN.get(module, {})
    loss, batch = module(learnable_temperature=True, **own), batch_for(module, own)
    torch.compiler.reset()
    compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(*batch), loss(*batch))


def test_a_loss_of_ones_own_may_add_options_and_parameters():
    class Scaled(sincere.SupConLoss):
        def __init__(self, *, scale, **options):
            super().__init__(**options)
            self.scale = torch.nn.Parameter(torch.tensor(float(scale)))

        def forward(self, *batch, **more):
            return self.scale * super().forward(*batch, **more)

    class Mine(ContrastiveLoss):
        function = staticmethod(SF.eps_supinfonce)

        def __init__(self, *, margin, **options):
            super().__init__(**options)
            self.own_options = {"epsilon": margin}

    z, y = batch_for(Scaled, {})
    torch.testing.assert_close(
        Scaled(scale=3, form="in", temperature=0.2)(z, y), 3 * SF.supcon(z, y, form="in", temperature=0.2)
    )
    assert torch.equal(Mine(margin=0.4)(z, y), SF.eps_supinfonce(z, y, epsilon=0.4))
    with pytest.raises(OptionError, match="form must be one of"):
        Scaled(scale=3, form="up")


class Learned(torch.nn.Module):
    """A similarity with a parameter."""

    def __init__(self):
        super().__init__()
        self.form = torch.nn.Parameter(torch.eye(4))

    def forward(self, a, c):
        return a @ self.form @ c.T


@pytest.mark.parametrize(
    ("options", "name"),
    [
        (lambda: {"similarity": Learned()}, "similarity.form"),
        (lambda: {"temperature": torch.nn.Parameter(torch.tensor(0.2))}, "given_temperature"),
    ],
)
def test_what_is_learned_in_an_option_is_found_by_optimizers_and_kept(options, name):
    z, y = torch.randn(6, 4), torch.tensor([0, 0, 1, 1, 2, 2])
    loss = sincere.SupConLoss(**options())
    found = dict(loss.named_parameters())
    assert list(found) == [name]
    assert list(loss.state_dict()) == [name]
    loss(z, y).backward()
    assert found[name].grad.any()
    before = loss(z, y)
    torch.optim.SGD(loss.parameters(), lr=1e-3).step()
    assert loss(z, y) != before
    twin = sincere.SupConLoss(**options())
    twin.load_state_dict(loss.state_dict())
    assert torch.equal(twin(z, y), loss(z, y))
    assert torch.equal(copy.deepcopy(loss)(z, y), loss(z, y))


@pytest.mark.parametrize("reduction", ["mean", "mean_all", "class_mean", "sum"])
def test_a_label_that_nobody_carries_changes_nothing(reduction):
    """The mean over labels is over those that somebody carries."""
    z = torch.randn(6, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    hot = torch.tensor([[1, 1, 0], [1, 0, 0], [0, 1, 0], [0, 1, 1], [1, 0, 1], [0, 0, 1]])
    wider = torch.cat([hot, torch.zeros(6, 2, dtype=torch.int64)], dim=1)
    loss = sincere.SINCERELoss(positives="any", reduction=reduction)
    assert loss(z, wider).item() == pytest.approx(loss(z, hot).item(), rel=1e-12)
