"""The WAV format: a file's header and samples. Python's own reader knows PCM alone, and not every form of that.

RIFF has numbers of 32 bits, the low byte first; RIFX has the high byte first; RF64 and BW64, for long recordings, have
lengths of 64 bits in a part of their own, ds64.
"""

import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

PCM, FLOAT, EXTENSIBLE = 1, 3, 0xFFFE
# How the identifier of an extensible file's format ends, where it begins with the number of a usual one.
OF_A_NUMBER = (0, 0x10, bytes.fromhex("800000aa00389b71"))
ORDERS: dict[bytes, Literal["<", ">"]] = {b"RIFF": "<", b"RIFX": ">", b"RF64": "<", b"BW64": "<"}
IN_DS64 = 0xFFFFFFFF  # in place of a length that ds64 has
OTHERS = {2: "ADPCM", 6: "A-law", 7: "µ-law", 0x11: "IMA ADPCM", 0x31: "GSM 6.10", 0x50: "MPEG", 0x55: "MP3"}
ADVICE = "convert it to 16-bit PCM, for instance with ffmpeg -i a.wav -c:a pcm_s16le b.wav"
# Who writes into a pipe does not know how much will come, and leaves 0 or the largest number that seems safe.
UNKNOWN = 0x7FFFF000
# Names that may follow a part of odd length at once. They should follow a byte that fills it up, which some forget.
PARTS = (b"fmt ", b"data", b"LIST", b"fact", b"bext", b"PEAK", b"JUNK", b"cue ", b"smpl", b"id3 ")
LOUDEST = 16.0  # of floating-point samples: no recording exceeds its full scale so far; integers in floats do
Clip = npt.NDArray[np.float32]


class Format(NamedTuple):
    """How samples are stored."""

    rate: int
    channels: int
    width: int  # bytes of a sample
    floating: bool
    order: Literal["<", ">"]  # of bytes


class Header(NamedTuple):
    """What a file says of its samples, and how many there are."""

    format: Format
    start: int  # byte of the first
    frames: int  # samples of every channel
    cut: bool  # there should be more


class Sound(NamedTuple):
    """A file's samples (n,) in [−1, 1], its channels averaged.

    cut: the file ends before its samples do, by its own account.
    loud: some samples lay beyond ±1, and were put there.
    """

    clip: Clip
    rate: int
    cut: bool
    loud: bool


def read_header(path: Path) -> Header:
    """The header of a file; ValueError with the reason where its samples cannot be read."""
    with path.open("rb") as file:
        return _header(file)


def read_wav(path: Path) -> Sound:
    """A file of PCM with 8, 16, 24 or 32 bits or of floating-point samples with 32 or 64; ValueError for others."""
    with path.open("rb") as file:
        header = _header(file)
        file.seek(header.start)
        rate, channels, width, floating, order = header.format
        content = file.read(header.frames * channels * width)
    if not content:
        raise ValueError("the file holds no samples")
    if not floating:
        values = _whole_numbers(content, width, order)
        clip = values.reshape(-1, channels).mean(axis=1) / np.float32(2 ** (8 * width - 1))
        return Sound(clip, rate, header.cut, loud=False)
    samples = np.frombuffer(content, f"{order}f{width}")
    if not (peak := float(np.abs(samples).max())) <= LOUDEST:
        raise ValueError(
            f"samples must lie in [−1, 1]: the largest is {peak:g}; divide them by their full scale and save it again"
            if np.isfinite(peak)
            else "samples must be finite: it holds NaN or infinity; save it again without"
        )
    clip = samples.reshape(-1, channels).mean(axis=1).astype(np.float32)
    return Sound(clip.clip(-1, 1), rate, header.cut, loud=bool(np.abs(clip).max() > 1))


def _whole_numbers(content: bytes, width: int, order: str) -> Clip:
    if width == 1:
        return np.frombuffer(content, np.uint8).astype(np.float32) - 128
    if width == 3:  # numpy has no such integer: put three bytes at the top of four, the sign comes along
        wide = np.zeros((len(content) // 3, 4), np.uint8)
        wide[:, 1:] = np.frombuffer(content, np.uint8).reshape(-1, 3)[:, :: 1 if order == "<" else -1]
        return (wide.view("<i4")[:, 0] >> 8).astype(np.float32)
    return np.frombuffer(content, f"{order}i{width}").astype(np.float32)


def _header(file: BinaryIO) -> Header:
    end = file.seek(0, os.SEEK_END)
    if not end:
        raise ValueError("the file is empty")
    file.seek(0)
    head = file.read(12)
    if (order := ORDERS.get(head[:4])) is None:
        raise ValueError(f"a WAV file begins with RIFF, RIFX or RF64, and this one with {head[:4]!r}: {ADVICE}")
    if len(head) < 12:
        raise ValueError("the file ends too early")
    if head[8:] != b"WAVE":
        raise ValueError(f"the file is no WAV file but holds {head[8:]!r}: {ADVICE}")
    (size_of_all,) = struct.unpack(f"{order}I", head[4:8])
    stored, long = None, IN_DS64
    for name, start, size in _parts(file, end, order):
        if name == b"ds64" and len(lengths := file.read(min(size, 16))) == 16:
            size_of_all, long = struct.unpack("<QQ", lengths)
        elif name == b"fmt ":
            stored = _format(file.read(min(size, 40)), order)
        elif name == b"data":
            if stored is None:
                raise ValueError("the file must say how its samples are stored before they come, and does not")
            size = long if size == IN_DS64 else size
            return Header(stored, start, *_extent(start, size, size_of_all, end, stored.channels * stored.width))
    raise ValueError("the file ends too early, before its samples")


def _parts(file: BinaryIO, end: int, order: str) -> Iterator[tuple[bytes, int, int]]:
    """Name, first byte and length of each part, with the file at its first byte."""
    place = 12
    while place + 8 <= end:
        file.seek(place)
        name, size = struct.unpack(f"{order}4sI", file.read(8))
        yield name, place + 8, size
        place += 8 + size
        if place > end:
            raise ValueError("the parts of the file do not have the lengths that it says")
        if size % 2:
            file.seek(place)
            place += file.read(4) not in PARTS


def _extent(start: int, size: int, size_of_all: int, end: int, frame: int) -> tuple[int, bool]:
    """How many frames there are, and whether there should be more."""
    whole_end = 8 + size_of_all
    if whole_end > start:  # else it was written before there were samples
        end = min(end, whole_end)
    open_ended = UNKNOWN <= size <= IN_DS64 or (size == 0 and (whole_end <= start or size_of_all >= UNKNOWN))
    frames = (end - start if open_ended else min(size, end - start)) // frame
    return frames, not open_ended and frames < size // frame


def _format(content: bytes, order: Literal["<", ">"]) -> Format:
    if len(content) < 16:
        raise ValueError("the file ends too early")
    number, channels, rate, _, frame, bits = struct.unpack(f"{order}HHIIHH", content[:16])
    plain = number == PCM
    if number == EXTENSIBLE:
        if len(content) < 40:
            raise ValueError(f"the file does not say how its samples are stored, as its kind (65534) must: {ADVICE}")
        known, *ending = struct.unpack(f"{order}IHH8s", content[24:40])
        number = known if tuple(ending) == OF_A_NUMBER else EXTENSIBLE
    if number not in (PCM, FLOAT):
        name = OTHERS.get(number, "something else")
        raise ValueError(f"samples must be PCM or floating-point numbers: the file holds {name} ({number}); {ADVICE}")
    if rate < 1:
        raise ValueError("the file says 0 samples per second")
    if channels < 1:
        raise ValueError("the file says 0 channels")
    width = (bits + 7) // 8
    if width not in ((1, 2, 3, 4) if number == PCM else (4, 8)):
        allowed = "8, 16, 24 or 32 bits, or of floating-point numbers with 32 or 64"
        raise ValueError(f"samples must be PCM with {allowed}: the file says {bits} bits; {ADVICE}")
    # Plain PCM is read whatever it says of its frames, as by others: there the number is never needed.
    if not plain and frame != channels * width:
        raise ValueError(f"a frame must have {channels * width} bytes, {bits} bits a channel: it has {frame}; {ADVICE}")
    return Format(rate, channels, width, number == FLOAT, order)
