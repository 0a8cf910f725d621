"""What one run leaves on disk: every file name, atomic writes, checkpoints, metrics, and where it all came from."""

from sincere.runs.checkpoints import Checkpoint, newest_checkpoint, newest_step, save_checkpoint
from sincere.runs.files import WriteError, read_json, write_json
from sincere.runs.folder import RunFolder
from sincere.runs.metrics import MetricsLog, read_metrics
from sincere.runs.model import load_weights, model_description, save_model
from sincere.runs.provenance import provenance
from sincere.runs.tensor_files import load_tensors, save_tensors

__all__ = [
    "Checkpoint",
    "MetricsLog",
    "RunFolder",
    "WriteError",
    "load_tensors",
    "load_weights",
    "model_description",
    "newest_checkpoint",
    "newest_step",
    "provenance",
    "read_json",
    "read_metrics",
    "save_checkpoint",
    "save_model",
    "save_tensors",
    "write_json",
]
