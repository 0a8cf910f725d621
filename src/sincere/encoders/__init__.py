"""Encoders: views -> features, and heads: features -> embeddings."""

from sincere.encoders.build import ENCODERS, build_encoder, default_encoder
from sincere.encoders.external import SentenceEncoder
from sincere.encoders.head import EmbeddingModel, ProjectionHead
from sincere.encoders.mel import LogMel
from sincere.encoders.mlp import MLP
from sincere.encoders.resnet import ResNet
from sincere.encoders.seeding import seeded
from sincere.encoders.short_cnn import ShortCNN
from sincere.encoders.short_resnet import ShortResNet
from sincere.encoders.small_cnn import SmallCNN
from sincere.encoders.sound import SoundEncoder
from sincere.encoders.text import TextEncoder
from sincere.encoders.wide_resnet import WideResNet

__all__ = [
    "ENCODERS",
    "MLP",
    "EmbeddingModel",
    "LogMel",
    "ProjectionHead",
    "ResNet",
    "SentenceEncoder",
    "ShortCNN",
    "ShortResNet",
    "SmallCNN",
    "SoundEncoder",
    "TextEncoder",
    "WideResNet",
    "build_encoder",
    "default_encoder",
    "seeded",
]
