"""Encoders from elsewhere: a user's own factory, timm, torchvision, sentence-transformers."""

import importlib
import inspect
from collections.abc import Callable, Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn

from sincere.checks import did_you_mean, imported_factory, shape_of
from sincere.encoders.shapes import IMAGE, check_batch, check_shape, check_whole
from sincere.errors import InputError, OptionError


class External(nn.Module):
    """A network of somebody else's, with the number of features that comes out of it."""

    def __init__(self, network: nn.Module, shape: tuple[int, ...], *, whole_numbers: bool = False) -> None:
        super().__init__()
        self.network, self.shape = network, tuple(shape)
        self.feature_dim = measured_features(network, self.shape, whole_numbers=whole_numbers)
        for own in ("start_from", "tokenize"):  # what the trainer looks for
            if hasattr(network, own):
                setattr(self, own, getattr(network, own))

    def forward(self, inputs: Tensor) -> Tensor:
        return cast(Tensor, self.network(inputs))


def measured_features(network: nn.Module, shape: tuple[int, ...], *, whole_numbers: bool) -> int:
    """The width of what the network returns for two empty samples."""
    training = network.training
    sample = next((p for p in network.parameters()), torch.empty(0))
    inputs = torch.zeros(2, *shape, device=sample.device, dtype=torch.int32 if whole_numbers else None)
    try:
        with torch.no_grad():
            features = network.eval()(inputs)
    except (RuntimeError, TypeError, ValueError, IndexError) as error:
        raise InputError(
            f"an encoder must take views of shape (b, {', '.join(map(str, shape))}), {inputs.dtype}: "
            f"{type(network).__name__} fails on two of them. {error}"
        ) from error
    network.train(training)
    if not _are_features(features):
        came = f"{shape_of(features)}, {features.dtype}" if isinstance(features, Tensor) else type(features).__name__
        raise InputError(
            f"an encoder must turn (b, {', '.join(map(str, shape))}) into features (b, feature_dim): "
            f"for a batch of 2 it gave {came}. Flatten or pool its output."
        )
    return int(features.shape[1])


def _are_features(found: object) -> bool:
    if not isinstance(found, Tensor) or not found.is_floating_point():
        return False
    return found.ndim == 2 and found.shape[0] == 2 and found.shape[1] > 0


def made_by(what: str, make: Callable[..., object], *arguments: object, **options: Any) -> Any:
    """What `make` returns; an option that it does not know is refused in words, its other errors stay as they are."""
    try:
        return make(*arguments, **options)
    except TypeError as error:
        wrong = next((name for name in options if f"unexpected keyword argument {name!r}" in str(error)), None)
        if wrong is None:
            raise
        hint = did_you_mean(wrong, inspect.signature(make).parameters) if inspect.isroutine(make) else ""
        raise OptionError(f"{what} does not take the option {wrong!r}: {error}.{hint}") from error


def from_factory(name: str, shape: tuple[int, ...], *, whole_numbers: bool, **options: Any) -> nn.Module:
    """`package.module:factory` is called as factory(shape, **options) and returns an nn.Module."""
    factory = imported_factory(name, "encoder")
    if not callable(factory):
        raise OptionError(f"{name} must be a function or class, called with the shape: got {type(factory).__name__}.")
    network = made_by(name, factory, tuple(shape), **options)
    if not isinstance(network, nn.Module):
        raise OptionError(f"{name} must return a torch.nn.Module: got {type(network).__name__}.")
    known = getattr(network, "feature_dim", None)
    if isinstance(known, int):
        check_whole(f"feature_dim of what {name} returns", known)
        return network
    return External(network, shape, whole_numbers=whole_numbers)


def from_timm(name: str, shape: tuple[int, ...], **options: Any) -> nn.Module:
    """A timm model without its classifier; `pretrained=True` downloads its weights."""
    check_shape(f"timm:{name}", shape, IMAGE)
    timm = installed("timm", extra="vision")
    network = made_by(f"timm:{name}", timm.create_model, name, in_chans=shape[0], num_classes=0, **options)
    return External(network, shape)


def from_torchvision(name: str, shape: tuple[int, ...], **options: Any) -> nn.Module:
    """A torchvision model without its classifier; `weights="DEFAULT"` downloads its weights."""
    check_shape(f"torchvision:{name}", shape, IMAGE)
    if shape[0] != 3:
        raise OptionError(f"torchvision's models take three channels: got shape={tuple(shape)}. Use timm or resnet18.")
    models = installed("torchvision.models", extra="vision")
    return External(without_classifier(made_by(f"torchvision:{name}", models.get_model, name, **options)), shape)


def without_classifier(network: nn.Module) -> nn.Module:
    """The network with its last linear layer, whatever holds it, replaced by the identity."""
    holder = next((part for part in ("fc", "classifier", "head", "heads") if hasattr(network, part)), None)
    if holder is None:
        raise OptionError(f"{type(network).__name__} has no classifier to take off. Wrap it in a factory of your own.")
    classifier = getattr(network, holder)
    if isinstance(classifier, nn.Linear):
        setattr(network, holder, nn.Identity())
        return network
    linear = [path for path, module in classifier.named_modules() if isinstance(module, nn.Linear)]
    if not linear:
        raise OptionError(f"the classifier of {type(network).__name__} has no linear layer to take off.")
    parent, _, last = linear[-1].rpartition(".")
    setattr(classifier.get_submodule(parent), last, nn.Identity())
    return network


class SentenceEncoder(nn.Module):
    """A sentence-transformers model on numbers of its own tokens, int (b, tokens, 1); 0 where there is none.

    Its numbers come from its own tokenizer and not from `hash_texts`: call `tokenize`. Word dropout then works as ever.
    """

    def __init__(self, network: Any, tokens: int) -> None:
        super().__init__()
        self.network, self.tokens = network, tokens
        self.feature_dim = int(network.get_sentence_embedding_dimension())

    def tokenize(self, texts: Sequence[str]) -> Tensor:
        """The model's token numbers plus one, int32 (n, tokens, 1)."""
        found = self.network.tokenizer(
            list(texts), padding="max_length", truncation=True, max_length=self.tokens, return_tensors="pt"
        )
        numbers: Tensor = (found["input_ids"] + 1) * found["attention_mask"]
        return numbers.to(torch.int32).unsqueeze(2)

    def forward(self, texts: Tensor) -> Tensor:
        check_batch("this sentence encoder", texts, ("tokens", 1), floating=False)
        numbers = texts.squeeze(2).long()
        present = (numbers > 0).long()
        found = self.network({"input_ids": (numbers - 1).clamp(min=0), "attention_mask": present})
        return cast(Tensor, found["sentence_embedding"])


def from_sentence_transformers(name: str, shape: tuple[int, ...], **options: Any) -> nn.Module:
    """A sentence-transformers model by its name on Hugging Face or its folder."""
    check_shape(f"sentence-transformers:{name}", shape, ("tokens", "pieces"))
    sentence_transformers = installed("sentence_transformers", extra="text")
    make = sentence_transformers.SentenceTransformer
    return SentenceEncoder(made_by(f"sentence-transformers:{name}", make, name, **options), shape[0])


def installed(module: str, *, extra: str) -> Any:
    """A module that `pip install sincere` does not bring."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        package = module.partition(".")[0].replace("_", "-")
        raise OptionError(
            f'encoders of {package} need that package, which is not installed: pip install "sincere[{extra}]".'
        ) from error
    except RuntimeError as error:  # a torchvision that was built for another torch
        raise OptionError(f"{module} is installed and does not import beside this torch: {error}") from error
