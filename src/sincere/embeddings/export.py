"""A trained model for other programs: ONNX, checked against torch, and a plain state dict."""

import importlib.util
import io
import json
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from sincere.defaults import usual_defaults
from sincere.embeddings.embed import device_of, in_evaluation
from sincere.embeddings.loaded import LoadedModel
from sincere.errors import InputError, OptionError
from sincere.runs import save_tensors
from sincere.runs.files import write_atomically

TOLERANCE = 1e-3  # of the largest component: two libraries' float32 convolutions add up in another order


class RawInputsToEmbeddings(nn.Module):
    """Preparation and model as one graph: raw inputs of the model's form in, embeddings out."""

    def __init__(self, loaded: LoadedModel) -> None:
        super().__init__()
        self.model, self.views = loaded.model, loaded.views

    def forward(self, inputs: Tensor) -> Tensor:
        # ONNX's embedding bag takes 64-bit numbers alone.
        wide = inputs.long() if inputs.dtype == torch.int32 else inputs
        embeddings: Tensor = self.model(self.views.plain(wide))
        return embeddings


def export_safetensors(loaded: LoadedModel, path: str | Path) -> Path:
    """Write the weights as a plain state dict: `encoder.…` and `head.…`, with the model's description in the header."""
    place = _with_suffix(path, ".safetensors")
    description = json.dumps(loaded.description.to_json(), ensure_ascii=False)
    metadata = {"format": "pt", "encoder": loaded.description.encoder, "description": description}
    save_tensors(place, loaded.model.state_dict(), metadata=metadata)
    return place


@usual_defaults()
def export_onnx(loaded: LoadedModel, path: str | Path) -> Path:
    """Write one ONNX file that takes raw inputs (any number of them) and gives embeddings; weights inside.

    The file is run once by onnxruntime on made-up inputs of two sizes and compared with torch before it gets its name.
    """
    place = _with_suffix(path, ".onnx")
    device = device_of(loaded.model)
    whole = RawInputsToEmbeddings(loaded).cpu()
    try:
        with in_evaluation(whole), torch.no_grad():
            content = _onnx_bytes(whole, _made_up(loaded, 3))
            for count in (1, 5):
                _check_agreement(content, whole, _made_up(loaded, count), place)
    finally:
        whole.to(device)
    write_atomically(place, content)
    return place


def _onnx_bytes(module: nn.Module, example: Tensor) -> bytes:
    if any(importlib.util.find_spec(name) is None for name in ("onnx", "onnxscript")):  # torch.onnx needs both
        raise _missing()
    with _exporter_silenced():
        try:
            program: Any = torch.onnx.export(
                module,
                (example,),
                dynamo=True,
                dynamic_shapes=({0: torch.export.Dim("samples", min=1)},),
                input_names=["inputs"],
                output_names=["embeddings"],
                verbose=False,
            )
        except torch.onnx.errors.OnnxExporterError as error:
            reason = str(error.__cause__ or error).strip().partition("\n")[0]
            raise InputError(
                f"this encoder cannot be written as ONNX: {reason.rstrip('.')}. torch's exporter must be able to "
                "follow its operations; --debug shows where it stopped. Its weights can be had as .safetensors."
            ) from error
    stream = io.BytesIO()
    program.save(stream)
    return stream.getvalue()


@contextmanager
def _exporter_silenced() -> Iterator[None]:
    """Hold back what the exporter says about itself: deprecated calls inside it, packages that it could do without."""
    loggers = [logging.getLogger(name) for name in ("torch.onnx", "onnxscript", "onnx_ir")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


def _check_agreement(content: bytes, module: nn.Module, inputs: Tensor, place: Path) -> None:
    try:
        import onnxruntime  # type: ignore[import-untyped]
    except ImportError as error:
        raise _missing() from error
    try:
        session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
        (given,) = session.run(["embeddings"], {"inputs": inputs.numpy()})
    except Exception as error:  # its errors have no base of their own
        reason = str(error).strip().partition("\n")[0]
        raise InputError(
            f"{place} was not written: onnxruntime cannot run it on {len(inputs)} samples: {reason.rstrip('.')}. "
            "--debug shows where. The weights can be had as .safetensors."
        ) from error
    expected = module(inputs).numpy()
    off = float(np.abs(given - expected).max()) if given.shape == expected.shape else float("inf")
    if not off <= TOLERANCE * max(float(np.abs(expected).max()), 1e-6):
        raise InputError(
            f"{place} was not written: onnxruntime's embeddings differ from torch's by {off:.1e} of "
            f"{float(np.abs(expected).max()):.1e}. The encoder uses an operation that ONNX computes otherwise."
        )


def _made_up(loaded: LoadedModel, count: int) -> Tensor:
    """Inputs of the model's form; what they show does not matter."""
    form = loaded.description.form
    generator = torch.Generator().manual_seed(0)
    shape = (count, *(loaded.description.inputs_shape if form.kind == "text" else form.shape))
    if form.kind == "image":
        return torch.randint(0, 256, shape, dtype=torch.uint8, generator=generator)
    if (tokenize := getattr(loaded.model.encoder, "tokenize", None)) is not None:
        tokens: Tensor = tokenize([f"text {number}" for number in range(count)])  # how many tokens it knows, it knows
        return tokens
    if form.kind == "text":
        return torch.randint(0, form.buckets or 2, shape, dtype=torch.int32, generator=generator)
    return torch.rand(shape, generator=generator) * 2 - 1


def _with_suffix(path: str | Path, suffix: str) -> Path:
    place = Path(path)
    if place.suffix != suffix:
        raise OptionError(f"path must end in {suffix}: got {place}.")
    if not place.parent.is_dir():
        raise InputError(f"there is no folder {place.parent} to write {place.name} into.")
    return place


def _missing() -> OptionError:
    return OptionError('export to ONNX needs onnx, onnxruntime and onnxscript: pip install "sincere[onnx]".')
