"""Encoders from elsewhere: a user's own factory, timm, torchvision, sentence-transformers."""

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from textwrap import shorten
from typing import Any, cast

import torch
from torch import Tensor, hub, nn

from sincere.checks import check_choice, check_flag, did_you_mean, imported_factory, shape_of
from sincere.encoders.shapes import IMAGE, check_batch, check_shape, check_size, check_state
from sincere.errors import InputError, OptionError
from sincere.optional import bring

FIXED_SIZE = (
    " If it is made for images of another size, have them read at that size, image_size='…', or give it its own option "
    "for the size, which many call img_size or image_size."
)


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
    except (RuntimeError, TypeError, ValueError, IndexError, AssertionError) as error:
        raise InputError(
            f"an encoder must take views of shape (b, {', '.join(map(str, shape))}), {inputs.dtype}: "
            f"{type(network).__name__} fails on two of them. {_sentence(error)}"
            + (FIXED_SIZE if len(shape) == len(IMAGE) else "")
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
    check_state(name, network)
    known = getattr(network, "feature_dim", None)
    if isinstance(known, int):
        check_size(f"feature_dim of what {name} returns", known)
        return network
    return External(network, shape, whole_numbers=whole_numbers)


def from_library(
    what: str, make: Callable[..., object], name: str, options: Mapping[str, object], **ours: object
) -> Any:
    """What a library's `make` returns; whatever it raises is refused in words, for its traceback helps nobody."""
    try:
        return made_by(what, make, name, **ours, **options)
    except OptionError:
        raise
    except Exception as error:  # networks, hubs, files and assertions: no list of what libraries raise is complete
        given = f" with {', '.join(f'{option}={value!r}' for option, value in options.items())}" if options else ""
        came = _sentence(f"{type(error).__name__}: {error}")
        raise OptionError(f"{what} cannot be built{given}. {came} {_advice(error, what, options)}") from error


def _advice(error: Exception, what: str, options: Mapping[str, object]) -> str:
    """What to do where a library could not build a network."""
    if options.get("checkpoint_path"):
        return (
            "checkpoint_path must be a file of this network's weights, as torch.save(network.state_dict(), …) has it."
        )
    if not isinstance(error, OSError):
        return "Look at its name and options."
    elsewhere = {
        "timm": " Weights in a file of yours need no host: checkpoint_path=FILE in place of pretrained.",
        "torchvision": f" A file of weights that you fetch elsewhere is found in {hub.get_dir()}/checkpoints.",
    }.get(what.partition(":")[0], "")
    return f"What is not on this machine is downloaded: is the name right, and can its host be reached?{elsewhere}"


def _sentence(error: object) -> str:
    """What another library says, on one line and with a full stop; a list of all weights would hide what follows."""
    return shorten(str(error), 400, placeholder=" …").rstrip(".:") + "."


def unknown_model(library: str, name: str, models: Iterable[str]) -> OptionError:
    """For a name that a library does not have."""
    return OptionError(
        f"{library} has no model {name!r} that makes features of images.{did_you_mean(name, models)} "
        f"All names: {library}.{'models.' if library == 'torchvision' else ''}list_models()."
    )


def from_timm(name: str, shape: tuple[int, ...], **options: Any) -> nn.Module:
    """A timm model without its classifier; `pretrained=True` downloads its weights, `checkpoint_path` has them."""
    check_shape(f"timm:{name}", shape, IMAGE)
    timm = bring("timm", extra="vision", purpose=f"the encoder timm:{name}")
    if ":" not in name and not timm.is_model(name):  # with a colon it lies on a hub or in a folder
        raise unknown_model("timm", name, timm.list_models())
    for ours in ("in_chans", "num_classes"):
        if ours in options:
            raise OptionError(
                f"timm:{name} is built for the channels of the data and without a classifier, so that {ours} is no "
                f"option: got {ours}={options[ours]!r}. Leave it out."
            )
    check_flag(f"pretrained of timm:{name}", options.get("pretrained", False))
    if "weights" in options:
        raise OptionError(
            f"timm's models take pretrained=true, or checkpoint_path=FILE, and torchvision's take weights: got "
            f"weights={options['weights']!r} for timm:{name}."
        )
    make = timm.create_model if not options.get("checkpoint_path") else partial(_from_file, timm)
    return External(from_library(f"timm:{name}", make, name, options, in_chans=shape[0], num_classes=0), shape)


def _from_file(timm: Any, name: str, *, checkpoint_path: str, **options: Any) -> nn.Module:
    """A timm model with the weights of a file, which may have a classifier and other channels or sizes of images.

    timm adapts weights that it downloads, and takes those of `checkpoint_path` as they are: where these do not fit,
    they are given to it in place of a download. It then ignores names that it does not find, which we do not.
    """
    try:
        return cast(nn.Module, timm.create_model(name, checkpoint_path=checkpoint_path, **options))
    except RuntimeError as error:
        if "Error(s) in loading state_dict" not in str(error):
            raise
    options["pretrained"] = False
    plain: Any = timm.create_model(name, **options)
    classifier = plain.pretrained_cfg.get("classifier") or ()
    dropped = {classifier} if isinstance(classifier, str) else set(classifier)
    found = {key for key in timm.models.load_state_dict(checkpoint_path) if key.rpartition(".")[0] not in dropped}
    wrong = sorted(key for key in plain.state_dict().keys() ^ found if not key.endswith("num_batches_tracked"))
    if wrong:
        raise OptionError(
            f"{checkpoint_path} must hold the weights of timm:{name} under timm's names: {len(wrong):,} names are in "
            f"one of the two alone, as {wrong[0]!r}. Name the network that the file is of."
        )
    asked = options.pop("pretrained_cfg_overlay", None) or {}
    here = {**asked, "file": checkpoint_path, "custom_load": False}
    return cast(nn.Module, timm.create_model(name, **{**options, "pretrained": True, "pretrained_cfg_overlay": here}))


def from_torchvision(name: str, shape: tuple[int, ...], **options: Any) -> nn.Module:
    """A torchvision model without its classifier; `weights="DEFAULT"` downloads its weights."""
    check_shape(f"torchvision:{name}", shape, IMAGE)
    if shape[0] != 3:
        raise OptionError(f"torchvision's models take three channels: got shape={tuple(shape)}. Use timm or resnet18.")
    models = bring("torchvision.models", extra="vision", purpose=f"the encoder torchvision:{name}")
    if name.lower() not in (known := models.list_models(module=models)):  # without those that find or cut out things
        raise unknown_model("torchvision", name, known)
    if "pretrained" in options:
        raise OptionError(
            f"torchvision's models take weights='DEFAULT', and timm's take pretrained: got "
            f"pretrained={options['pretrained']!r} for torchvision:{name}."
        )
    if (weights := options.get("weights")) is not None:
        choices = models.get_model_weights(name).__members__
        check_choice(f"weights of torchvision:{name}", str(weights).rpartition(".")[2], choices)
    network = from_library(f"torchvision:{name}", models.get_model, name, options)
    return External(without_classifier(without_auxiliaries(network)), shape)


def starts_from_weights(encoder: str, options: Mapping[str, Any]) -> bool:
    """Does a network of images begin with weights that somebody trained?"""
    library = encoder.partition(":")[0]
    named = {"timm": ("pretrained", "checkpoint_path"), "torchvision": ("weights",)}.get(library, ())
    return any(options.get(option) for option in named)


def without_starting_weights(encoder: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """The options to build an encoder with whose weights are at hand: those that it once started from are not."""
    library, _, name = encoder.partition(":")
    if library == "timm":
        return {option: value for option, value in options.items() if option not in ("pretrained", "checkpoint_path")}
    if library != "torchvision" or not options.get("weights"):
        return dict(options)
    # These two prepare their inputs in another way if they have torchvision's weights.
    way = {"transform_input": True} if name.lower() in ("googlenet", "inception_v3") else {}
    return {**way, **options, "weights": None}


def without_auxiliaries(network: nn.Module) -> nn.Module:
    """The network without the classifiers half-way that GoogLeNet and Inception have while they train."""
    for part in ("aux1", "aux2", "AuxLogits"):
        if hasattr(network, part):
            setattr(network, part, None)
    if hasattr(network, "aux_logits"):
        network.aux_logits = False  # type: ignore[assignment]
    return network


def without_classifier(network: nn.Module) -> nn.Module:
    """The network with its last linear layer, whatever holds it, replaced by the identity; a 1×1 convolution is one."""
    holder = next((part for part in ("fc", "classifier", "head", "heads") if hasattr(network, part)), None)
    if holder is None:
        raise OptionError(f"{type(network).__name__} has no classifier to take off. Wrap it in a factory of your own.")
    classifier = getattr(network, holder)
    if isinstance(classifier, nn.Linear):
        setattr(network, holder, nn.Identity())
        return network
    linear = [path for path, module in classifier.named_modules() if _is_linear(module)]
    if not linear:
        raise OptionError(
            f"the classifier of {type(network).__name__} has no linear layer to take off. Wrap it in a factory of "
            "your own."
        )
    parent, _, last = linear[-1].rpartition(".")
    setattr(classifier.get_submodule(parent), last, nn.Identity())
    return network


def _is_linear(module: nn.Module) -> bool:
    return isinstance(module, nn.Linear) or (isinstance(module, nn.Conv2d) and module.kernel_size == (1, 1))


class SentenceEncoder(nn.Module):
    """A sentence-transformers model on numbers of its own tokens, int (b, tokens, 1); 0 where there is none.

    Its numbers come from its own tokenizer and not from `hash_texts`: call `tokenize`. Word dropout then works as ever.
    """

    def __init__(self, network: Any, tokens: int) -> None:
        super().__init__()
        self.network, self.tokens = network, min(tokens, network.max_seq_length or tokens)
        self.truncated = getattr(network, "truncate_dim", None)  # which the network itself minds in `encode` alone
        self.feature_dim = measured_features(self, (self.tokens, 1), whole_numbers=True)

    def tokenize(self, texts: Sequence[str]) -> Tensor:
        """The model's token numbers plus one, int32 (n, tokens, 1)."""
        if not len(texts):  # tokenizers do not agree on what to make of none
            return torch.zeros(0, self.tokens, 1, dtype=torch.int32)
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
        return cast(Tensor, found["sentence_embedding"])[:, : self.truncated]


def from_sentence_transformers(name: str, shape: tuple[int, ...], **options: Any) -> nn.Module:
    """A sentence-transformers model by its name on Hugging Face or its folder."""
    what = f"sentence-transformers:{name}"
    check_shape(what, shape, ("tokens", "pieces"))
    sentence_transformers = bring("sentence_transformers", extra="text", purpose=f"the encoder {what}")
    # Left alone it takes the first GPU, whichever device the run is for.
    ours = {} if "device" in options else {"device": "cpu"}
    network = from_library(what, sentence_transformers.SentenceTransformer, name, options, **ours)
    if not callable(getattr(network, "tokenizer", None)):
        kind = type(getattr(network, "tokenizer", None)).__name__
        raise OptionError(f"{what} must be a transformer whose tokenizer turns texts into numbers: it has a {kind}.")
    return SentenceEncoder(network, shape[0])
