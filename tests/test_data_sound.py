"""WAV files: every width, channels, rates; against plain arithmetic and scipy."""

import struct

import numpy as np
import pytest
import scipy.signal
import torch

from data_files import write_wav
from sincere.data import open_data, read_data
from sincere.data.sound import resample
from sincere.data.wav import read_wav
from sincere.errors import InputError

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("width", [1, 2, 3, 4])
@pytest.mark.parametrize("channels", [1, 2])
def test_widths_and_channels(tmp_path, width, channels):
    top = 2 ** (8 * width - 1)
    samples = RNG.integers(-top, top, (50, channels))
    samples[:2] = [[-top], [top - 1]]
    write_wav(tmp_path / "a.wav", samples + (top if width == 1 else 0), width=width)
    clip, rate, *_ = read_wav(tmp_path / "a.wav")
    assert rate == 8000
    assert clip.dtype == np.float32
    np.testing.assert_allclose(clip, samples.mean(axis=1) / top, atol=1e-7)
    assert clip[0] == -1


@pytest.mark.parametrize("length", [100, 101])
@pytest.mark.parametrize(
    ("rate", "wanted"), [(8000, 16000), (16000, 8000), (44100, 16000), (8000, 11025), (8000, 4000)]
)
def test_resampling_is_scipys(length, rate, wanted):
    clip = (0.2 * RNG.normal(size=length)).clip(-0.4, 0.4).astype(np.float32)
    expected = scipy.signal.resample(clip.astype(np.float64), round(length * wanted / rate))
    np.testing.assert_allclose(resample(clip, rate, wanted), expected.clip(-1, 1), atol=1e-5)


def test_a_tone_keeps_its_pitch_and_one_too_high_vanishes():
    time = np.arange(16000) / 16000
    low = resample(np.sin(2 * np.pi * 440 * time).astype(np.float32), 16000, 8000)
    np.testing.assert_allclose(low, np.sin(2 * np.pi * 440 * np.arange(8000) / 8000), atol=1e-3)
    assert np.abs(resample(np.sin(2 * np.pi * 6000 * time).astype(np.float32), 16000, 8000)).max() < 1e-3


@pytest.fixture
def folder(tmp_path):
    for c, name in enumerate(("hum", "hiss")):
        for i in range(6):
            write_wav(tmp_path / name / f"{i}.wav", np.full(80 + 10 * i, 1000 * c + i))
    return tmp_path


def test_a_folder_of_clips(folder):
    data, notes = read_data(folder)
    assert (data.kind, data.class_names, data.sample_rate) == ("sound", ("hiss", "hum"), 8000)
    assert notes == ()
    assert data.form.shape == (130,)
    for clip, path in zip(data.inputs.numpy(), data.shown, strict=True):
        length = 80 + 10 * int(path[-5])
        assert np.all(clip[length:] == 0)
        np.testing.assert_allclose(clip[:length], (1000 * ("hiss" in path) + int(path[-5])) / 32768)


def test_rates_and_lengths_are_brought_to_one_and_it_is_said(folder):
    write_wav(folder / "hum" / "other.wav", np.full(320, 500), rate=16000)
    data, notes = read_data(folder)
    assert "1 of 13 clips were resampled from 16000 to 8000 Hz" in notes[0]
    clip = data.inputs[data.shown.index(str(folder / "hum" / "other.wav"))]
    np.testing.assert_allclose(clip[:160].numpy(), 500 / 32768, atol=1e-6)
    data, notes = read_data(folder, sample_rate=16000, seconds=0.01)
    assert (data.form.shape, data.sample_rate) == ((160,), 16000)
    assert notes[0].startswith("12 of 13 clips were resampled from 8000 to 16000 Hz")
    assert "11 of 13 clips are longer than 0.01 s" in notes[1]


def test_the_rare_long_clip_does_not_set_the_length(tmp_path):
    for c in "ab":
        for i in range(50):
            write_wav(tmp_path / c / f"{i}.wav", np.full(40 if (c, i) != ("a", 0) else 4000, 5))
    data, notes = read_data(tmp_path)
    assert data.form.shape == (40,)
    assert "1 of 100 clips are longer than 0.01 s and were cut there; the option seconds keeps more" in notes[0]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "the file is empty"),
        (b"RIFF", "ends too early"),
        (b"some text that is no sound", "RIFF"),
    ],
    ids=["empty", "cut", "text"],
)
def test_unreadable_clips_are_named(folder, content, reason):
    (folder / "hum" / "bad.wav").write_bytes(content)
    with pytest.raises(InputError, match=rf"1 of 13 are not: .*hum/bad\.wav \(.*{reason}"):
        open_data(folder)
    data, notes = read_data(folder, unreadable="skip")
    assert len(data) == 12
    assert "bad.wav" in notes[0]


def test_no_readable_clip_at_all(tmp_path):
    for name in "ab":
        (tmp_path / name).mkdir()
        (tmp_path / name / "0.wav").write_bytes(b"")
    with pytest.raises(InputError, match=r"none of the 2 sound files can be read; the first is .*0\.wav \(the file is"):
        open_data(tmp_path, unreadable="skip")


def test_clips_without_samples_are_unreadable(folder):
    write_wav(folder / "hiss" / "void.wav", np.zeros(0))
    with pytest.raises(InputError, match=r"void\.wav \(the file holds no samples\)"):
        open_data(folder)


def test_a_length_that_nobody_knew_is_not_believed(tmp_path):
    """Programs that write into a pipe leave the largest length there is in the header."""
    for name in "ab":
        for number in range(3):
            place = tmp_path / "clips" / name / f"{number}.wav"
            write_wav(place, RNG.integers(-3000, 3000, (400, 1)))
            content = bytearray(place.read_bytes())
            content[4:8] = content[40:44] = b"\xff" * 4
            place.write_bytes(content)
    data, notes = read_data(tmp_path / "clips")
    assert data.form.shape == (400,)
    assert not notes


@pytest.mark.parametrize(
    ("place", "value", "words"),
    [(24, 0, "0 samples per second"), (16, 2**31, "the parts of the file do not have the lengths")],
)
def test_broken_headers_are_skipped_or_named(tmp_path, place, value, words):
    for name in "ab":
        for number in range(3):
            write_wav(tmp_path / "clips" / name / f"{number}.wav", RNG.integers(-3000, 3000, (50, 1)))
    broken = tmp_path / "clips" / "a" / "0.wav"
    content = bytearray(broken.read_bytes())
    content[place : place + 4] = struct.pack("<I", value)
    broken.write_bytes(content)
    with pytest.raises(InputError, match=words):
        open_data(tmp_path / "clips")
    assert len(read_data(tmp_path / "clips", unreadable="skip")[0]) == 5


def test_of_a_clip_beyond_measure_what_is_kept_is_resampled(folder, monkeypatch):
    """Hours at another rate, or a header that says 1 Hz, must not become as long as they say."""
    wave = 9000 * np.sin(2 * np.pi * 200 * np.arange(8000) / 16000)
    write_wav(folder / "hum" / "long.wav", wave.astype(int), rate=16000)
    whole, notes = read_data(folder, sample_rate=8000, seconds=0.05)
    lengths = []

    def noted(clip, rate, wanted):
        lengths.append(len(clip))
        return resample(clip, rate, wanted)

    monkeypatch.setattr("sincere.data.sound.resample", noted)
    monkeypatch.setattr("sincere.data.sound.MOST_RESAMPLED", 1000)
    some, same = read_data(folder, sample_rate=8000, seconds=0.05)
    assert lengths == [2 * 400 * 2]
    assert same == notes
    assert "1 of 13 clips are longer than 0.05 s and were cut there" in notes[1]
    torch.testing.assert_close(some.inputs[:, 40:], whole.inputs[:, 40:], rtol=0, atol=1e-3)  # but for the very start
