"""Model + data → `EmbeddingSet`, and the classes of new data; nothing after this needs the model."""

from sincere.embeddings.description import ModelDescription
from sincere.embeddings.embed import embed
from sincere.embeddings.embedding_set import EmbeddingSet
from sincere.embeddings.export import export_onnx, export_safetensors
from sincere.embeddings.loaded import LoadedModel, load
from sincere.embeddings.prediction import Prediction
from sincere.embeddings.references import References

__all__ = [
    "EmbeddingSet",
    "LoadedModel",
    "ModelDescription",
    "Prediction",
    "References",
    "embed",
    "export_onnx",
    "export_safetensors",
    "load",
]
