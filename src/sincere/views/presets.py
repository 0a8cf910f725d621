"""Views by name: the papers' presets, and ours for small grey images, arrays, texts and sound."""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any

from sincere.checks import check_choice, did_you_mean
from sincere.errors import OptionError
from sincere.types import Kind
from sincere.views.colour import Blur, ColourJitter, Greyscale
from sincere.views.geometry import Flip, ResizedCrop, ShiftedCrop, Warp
from sincere.views.masking import BlankPixels, FeatureMask, FeatureNoise, Hole, PixelNoise
from sincere.views.pipeline import StagedViews
from sincere.views.sound import FrequencyMask, Gain, SoundNoise, TimeMask, TimeShift
from sincere.views.stages import Stage
from sincere.views.statistics import Statistics
from sincere.views.text import PieceDropout, WordDropout
from sincere.views.trivial import TrivialAugment

# Khosla et al.'s code for CIFAR; their paper (arXiv 2004.11362, Section 4) describes others, for ImageNet. Feeney and
# Hughes (arXiv 2309.14277, Sections 4 and 4.3) follow that code.
_OF_CIFAR: tuple[Stage, ...] = (
    ResizedCrop(scale=(0.2, 1.0)),
    Flip(0.5),
    ColourJitter(0.4, 0.4, 0.4, 0.1, p=0.8),
    Greyscale(0.2),
)

PRESETS: dict[Kind, dict[str, tuple[Stage, ...]]] = {
    "image": {
        "sincere": _OF_CIFAR,
        "supcon": _OF_CIFAR,
        # Chen et al., 2020, arXiv 2002.05709, Appendix A: ImageNet, full strength, with blur. For CIFAR they halve the
        # jitter and leave the blur out (Appendix B.9).
        "simclr": (
            ResizedCrop(scale=(0.08, 1.0)),
            Flip(0.5),
            ColourJitter(0.8, 0.8, 0.8, 0.2, p=0.8),
            Greyscale(0.2),
            Blur((0.1, 2.0), kernel=0.1, p=0.5),
        ),
        # Ours: what supervised CIFAR networks train with.
        # Shift and hole follow the size of smaller images: 4 and 12 pixels at CIFAR's 32, and above.
        "plain": (ShiftedCrop(), Flip(0.5), Hole()),
        # Müller and Hutter, 2021, arXiv 2103.10158: crop, flip, TrivialAugment (wide) and a hole, for CIFAR. In their
        # code the hole has 16 pixels and may hang over the edge, and crop and flip come after the operation, with black
        # edges. Here it is "plain" and one stage more, in the order of torchvision's training scripts.
        "trivial": (ShiftedCrop(), Flip(0.5), TrivialAugment(), Hole()),
        # Ours: nothing that would turn a 6 into a 9 or a 2 into an S.
        "digits": (Warp(), BlankPixels(0.02), PixelNoise(0.05)),
        "none": (),
    },
    "array": {"array": (FeatureMask(0.05), FeatureNoise(0.05)), "none": ()},
    "text": {"text": (WordDropout(0.1), PieceDropout(0.1)), "none": ()},
    "sound": {
        "sound": (TimeShift(), Gain(), FrequencyMask(), SoundNoise(), TimeMask()),
        "none": (),
    },
}


LARGE = 96  # pixels of the shorter side from which a shift by 4 and a hole of 12 change next to nothing


def default_views(kind: Kind, shape: tuple[int, ...]) -> str:
    """The preset for those who name none: for samples of this shape, (channels, height, width) if they are images.

    Grey images are often digits or letters, so they are not mirrored. Nobody can see from a shape whether others are
    read from left to right; say flip=False where they are.
    """
    check_choice("kind", kind, PRESETS)
    if kind != "image":
        return kind
    if shape[0] == 1:
        return "digits"
    return "plain" if min(shape[1:]) < LARGE else "supcon"


def build_views(name: str, *, kind: Kind, statistics: Statistics, **changes: Any) -> StagedViews:
    """Views by the name of a preset, with single stages changed or left out.

    >>> changes = {"flip": False, "shift": {"pixels": 2}, "hole": {"pixels": 4}}
    >>> build_views("plain", kind="image", statistics=Statistics((0.5,), (0.25,)), **changes)
    StagedViews(image, ShiftedCrop(pixels=2), Hole(pixels=4))

    Args:
        name: of `PRESETS[kind]`.
        kind: of the data.
        statistics: of the training inputs, to normalise by.
        changes: by the name of a stage: its options as a mapping, or False to leave the stage out.
    """
    check_choice("kind", kind, PRESETS)
    check_choice(f"views of kind {kind!r}", name, PRESETS[kind])
    stages = {stage.name: stage for stage in PRESETS[kind][name]}
    for stage_name, change in changes.items():
        if stage_name not in stages:
            known = ", ".join(map(repr, stages)) or "no stages"
            raise OptionError(
                f"views {name!r} have {known}: got a change of {stage_name!r}.{did_you_mean(stage_name, stages)}"
            )
        if change is False:
            del stages[stage_name]
        else:
            stages[stage_name] = _changed(stages[stage_name], change)
    return StagedViews(tuple(stages.values()), kind=kind, statistics=statistics)


def _changed(stage: Stage, change: object) -> Stage:
    assert is_dataclass(stage)
    known = [field.name for field in fields(stage)]
    unknown = [key for key in change if key not in known] if isinstance(change, Mapping) else []
    if not isinstance(change, Mapping) or unknown:
        takes = f"the options {', '.join(map(repr, known))} as a mapping" if known else "no options, {}"
        hint = "".join(did_you_mean(key, known) for key in unknown[:1])
        raise OptionError(f"stage {stage.name!r} takes {takes}, or False to leave it out: got {change!r}.{hint}")
    # JSON has lists where the stages want pairs.
    options = {key: tuple(value) if isinstance(value, list) else value for key, value in change.items()}
    return replace(stage, **options)
