"""WAV files: one rate, one channel, one length."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from sincere.data.attempts import attempted
from sincere.data.labelled import Form, check_room_for
from sincere.data.options import Settings
from sincere.data.samples import Classes, Note, Rendered, legible, listed
from sincere.data.wav import Clip, read_header, read_wav
from sincere.errors import InputError
from sincere.types import Kind

LONGEST = 10.0  # seconds, where the caller names no length
MOST_RESAMPLED = 2**26  # samples of a clip at the new rate: 25 minutes at 44,100 Hz


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
        headers = [found for found in map(attempted(_rate_and_seconds), self.paths) if not isinstance(found, Exception)]
        if not headers:
            reason = attempted(read_wav)(self.paths[0])
            raise InputError(
                f"none of the {len(self.paths):,} sound files can be read; the first is {self.paths[0]} ({reason})."
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
        ended: list[Path] = []
        loud: list[Path] = []
        for index, read in enumerate(map(attempted(read_wav), self.paths)):
            if isinstance(read, Exception):
                unreadable[index] = str(read)
                continue
            clip, own_rate = read.clip, read.rate
            if read.cut:
                ended.append(self.paths[index])
            if read.loud:
                loud.append(self.paths[index])
            if own_rate != rate:
                other_rates[own_rate] += 1
                if len(clip) * rate > MOST_RESAMPLED * own_rate:  # hours, or a rate of 1 Hz: not all of it, then
                    clip = _beginning(clip, own_rate, rate, 2 * length)
                clip = resample(clip, own_rate, rate)
            cut += len(clip) > length
            inputs[index, : len(clip)] = clip[:length]
        notes = (*_notes(other_rates, cut, len(self.paths), form), *_odd_files(ended, loud, len(self.paths)))
        return Rendered(torch.from_numpy(inputs), unreadable, notes)


def _beginning(clip: Clip, rate: int, wanted: int, length: int) -> Clip:
    """What `length` samples of the wanted rate come from, in whole periods of both rates: others would stretch time."""
    period = rate // math.gcd(rate, wanted)
    return clip[: math.ceil(length * rate / (wanted * period)) * period]


def _notes(other_rates: Counter[int], cut: int, clips: int, form: Form) -> tuple[Note, ...]:
    notes = [
        Note(
            f"{count:,} of {clips:,} clips were resampled from {other} to {form.sample_rate} Hz",
            "the option sample_rate chooses another",
        )
        for other, count in sorted(other_rates.items())
    ]
    if cut:
        seconds = form.shape[0] / (form.sample_rate or 1)
        long = f"{cut:,} of {clips:,} clips are longer than {seconds:.2f} s and were cut there"
        notes.append(Note(long, "the option seconds keeps more"))
    return tuple(notes)


def _odd_files(ended: Sequence[Path], loud: Sequence[Path], clips: int) -> tuple[Note, ...]:
    words = {
        "end before their samples do, by their own account, and were read as far as they go": ended,
        "hold samples beyond ±1, which were cut there": loud,
    }
    return tuple(
        Note(f"{len(some):,} of {clips:,} clips {what}: {listed([legible(path) for path in some], 5)}")
        for what, some in words.items()
        if some
    )


def _rate_and_seconds(path: Path) -> tuple[int, float]:
    header = read_header(path)
    return header.format.rate, header.frames / header.format.rate


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
