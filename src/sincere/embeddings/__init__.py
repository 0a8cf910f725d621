"""Model + data → `EmbeddingSet`; nothing after this needs the model."""

from sincere.embeddings.description import ModelDescription
from sincere.embeddings.embed import embed
from sincere.embeddings.embedding_set import EmbeddingSet
from sincere.embeddings.export import export_onnx, export_safetensors
from sincere.embeddings.loaded import LoadedModel, load

__all__ = [
    "EmbeddingSet",
    "LoadedModel",
    "ModelDescription",
    "embed",
    "export_onnx",
    "export_safetensors",
    "load",
]
