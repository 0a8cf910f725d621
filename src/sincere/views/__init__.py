"""Views: samples -> random variants of each, made in batches on the inputs' device from one explicit generator."""

from sincere.views.colour import Blur, ColourJitter, Greyscale
from sincere.views.geometry import Flip, ResizedCrop, ShiftedCrop, Warp
from sincere.views.masking import BlankPixels, FeatureMask, FeatureNoise, Hole, PixelNoise
from sincere.views.pipeline import StagedViews, Views
from sincere.views.presets import PRESETS, build_views, default_views
from sincere.views.sound import FrequencyMask, Gain, SoundNoise, TimeMask, TimeShift
from sincere.views.stages import Stage
from sincere.views.statistics import Statistics
from sincere.views.text import PieceDropout, WordDropout
from sincere.views.trivial import TrivialAugment

__all__ = [
    "PRESETS",
    "BlankPixels",
    "Blur",
    "ColourJitter",
    "FeatureMask",
    "FeatureNoise",
    "Flip",
    "FrequencyMask",
    "Gain",
    "Greyscale",
    "Hole",
    "PieceDropout",
    "PixelNoise",
    "ResizedCrop",
    "ShiftedCrop",
    "SoundNoise",
    "Stage",
    "StagedViews",
    "Statistics",
    "TimeMask",
    "TimeShift",
    "TrivialAugment",
    "Views",
    "Warp",
    "WordDropout",
    "build_views",
    "default_views",
]
