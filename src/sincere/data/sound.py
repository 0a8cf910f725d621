"""WAV files: one rate, one channel, one length."""

import math
import wave
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import torch

from sincere.data.labelled import Form, check_room_for
from sincere.data.options import Settings
from sincere.data.samples import Classes, Note, Rendered, legible
from sincere.errors import InputError
from sincere.types import Kind

LONGEST = 10.0  # seconds, where the caller names no length
MOST_RESAMPLED = 2**26  # samples of a clip at the new rate: 25 minutes at 44,100 Hz
HEADER = 44  # bytes, at least, before the samples
Clip = npt.NDArray[np.float32]
T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class SoundFiles:
    """WAV files of any rates, lengths and channels."""

    paths: tuple[Path, ...]
    classes: Classes

    @property
    def kind(self) -> Kind:
        return "sound"

    @property
    def shown(self) -> tuple[str, ...]:
        return tuple(map(legible, self.paths))

    def form(self, settings: Settings) -> Form:
        """The most common rate, and the length that leaves 98 of 100 clips whole, up to `LONGEST`."""
        headers = [header for header in map(_attempt(_header), self.paths) if not isinstance(header, Exception)]
        if not headers:
            reason = _attempt(read_wav)(self.paths[0])
            raise InputError(
                f"none of the {len(self.paths)} sound files can be read; the first is {self.paths[0]} ({reason})."
            )
        rate = settings.sample_rate or Counter(rate for rate, _ in headers).most_common(1)[0][0]
        whole = float(np.quantile([seconds for _, seconds in headers], 0.98, method="inverted_cdf"))
        seconds = settings.seconds or min(whole, LONGEST)
        return Form("sound", (max(round(seconds * rate), 1),), sample_rate=rate)

    def render(self, form: Form) -> Rendered:
        assert form.sample_rate is not None  # Form requires it of sound
        (length,), rate = form.shape, form.sample_rate
        check_room_for(len(self.paths), form, "Read fewer at once, or less of each: seconds=….")
        inputs = np.zeros((len(self.paths), length), np.float32)
        other_rates: Counter[int] = Counter()
        cut, unreadable = 0, {}
        for index, read in enumerate(map(_attempt(read_wav), self.paths)):
            if isinstance(read, Exception):
                unreadable[index] = str(read)
                continue
            clip, own_rate = read
            if own_rate != rate:
                other_rates[own_rate] += 1
                if len(clip) * rate > MOST_RESAMPLED * own_rate:  # hours, or a rate of 1 Hz: not all of it, then
                    clip = _beginning(clip, own_rate, rate, 2 * length)
                clip = resample(clip, own_rate, rate)
            cut += len(clip) > length
            inputs[index, : len(clip)] = clip[:length]
        return Rendered(torch.from_numpy(inputs), unreadable, _notes(other_rates, cut, len(self.paths), form))


def _beginning(clip: Clip, rate: int, wanted: int, length: int) -> Clip:
    """What `length` samples of the wanted rate come from, in whole periods of both rates: others would stretch time."""
    period = rate // math.gcd(rate, wanted)
    return clip[: math.ceil(length * rate / (wanted * period)) * period]


def _notes(other_rates: Counter[int], cut: int, clips: int, form: Form) -> tuple[Note, ...]:
    notes = [
        Note(
            f"{count} of {clips} clips were resampled from {other} to {form.sample_rate} Hz",
            "the option sample_rate chooses another",
        )
        for other, count in sorted(other_rates.items())
    ]
    if cut:
        seconds = form.shape[0] / (form.sample_rate or 1)
        long = f"{cut} of {clips} clips are longer than {seconds:.2f} s and were cut there"
        notes.append(Note(long, "the option seconds keeps more"))
    return tuple(notes)


def _attempt(function: Callable[[Path], T]) -> Callable[[Path], T | Exception]:
    """`function`, returning what a broken file raises, so that one does not stop the others."""

    def attempt(path: Path) -> T | Exception:
        try:
            return function(path)
        except MemoryError:
            raise
        except Exception as error:  # as of images: a broken header leads the reader into anything
            return error

    return attempt


def _header(path: Path) -> tuple[int, float]:
    """Rate and length in seconds."""
    with wave.open(str(path), "rb") as file:
        # Who writes into a pipe does not know the length, and leaves the largest number there is.
        frame = file.getsampwidth() * file.getnchannels()
        frames = min(file.getnframes(), max(path.stat().st_size - HEADER, 0) // frame)
        return file.getframerate(), frames / file.getframerate()


def read_wav(path: Path) -> tuple[Clip, int]:
    """A PCM file of 8, 16, 24 or 32 bits as float32 (samples,) in [−1, 1], its channels averaged; and its rate."""
    if path.stat().st_size == 0:
        raise ValueError("the file is empty")
    try:
        with wave.open(str(path), "rb") as file:
            rate, channels, width = file.getframerate(), file.getnchannels(), file.getsampwidth()
            frames = file.readframes(file.getnframes())
    except EOFError as error:
        raise ValueError("the file ends too early") from error
    except RuntimeError as error:  # of `wave`, without a word
        raise ValueError("the parts of the file do not have the lengths that it says") from error
    if rate < 1:
        raise ValueError("the file says 0 samples per second")
    if not frames:
        raise ValueError("the file holds no samples")
    frames = frames[: len(frames) - len(frames) % (width * channels)]
    if width == 1:
        values = np.frombuffer(frames, np.uint8).astype(np.float32) - 128
    elif width == 3:  # numpy has no such integer: put three bytes at the top of four, the sign comes along
        wide = np.zeros((len(frames) // 3, 4), np.uint8)
        wide[:, 1:] = np.frombuffer(frames, np.uint8).reshape(-1, 3)
        values = (wide.view("<i4")[:, 0] >> 8).astype(np.float32)
    elif width in (2, 4):
        values = np.frombuffer(frames, f"<i{width}").astype(np.float32)
    else:
        raise ValueError(f"samples have {8 * width} bits; save it as PCM with 8, 16, 24 or 32")
    return values.reshape(-1, channels).mean(axis=1) / np.float32(2 ** (8 * width - 1)), rate


def resample(clip: Clip, rate: int, wanted: int) -> Clip:
    """The clip at another rate, its spectrum cut or padded with zeros: no frequency is folded onto another."""
    length = max(round(len(clip) * wanted / rate), 1)
    spectrum = np.fft.rfft(clip)
    kept = np.zeros(length // 2 + 1, spectrum.dtype)
    common = min(len(spectrum), len(kept))
    kept[:common] = spectrum[:common]
    shorter = min(length, len(clip))
    if shorter % 2 == 0 and length != len(clip):
        # The frequency in the middle stands for itself and its mirror image, of which one side has only one.
        kept[shorter // 2] *= 2.0 if length < len(clip) else 0.5
    resampled: Clip = np.clip(np.fft.irfft(kept, length) * (length / len(clip)), -1, 1).astype(np.float32)
    return resampled
