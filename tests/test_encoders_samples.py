"""Encoders of arrays, texts and sound, against formulas and what must not matter to them."""

import math

import numpy as np
import pytest
import torch

from sincere.encoders import MLP, LogMel, SoundEncoder, TextEncoder
from sincere.encoders.mel import hertz, mel, mel_filters
from sincere.errors import InputError, OptionError


def test_mlp_is_linear_layers_normalised():
    torch.manual_seed(0)
    encoder, arrays = MLP((6,), width=8, depth=2), torch.randn(9, 6)
    expected = arrays
    for layer in encoder.layers:
        expected = expected @ layer[0].weight.T
        expected = (expected - expected.mean(dim=0)) / (expected.var(dim=0, correction=0) + 1e-5).sqrt()
        expected = expected.clamp(min=0)
    torch.testing.assert_close(encoder(arrays), expected, atol=1e-5, rtol=1e-5)
    assert encoder.feature_dim == 8


def test_residual_adds_the_input_from_the_second_layer_on():
    encoder, arrays = MLP((6,), width=8, depth=3, residual=True).eval(), torch.randn(4, 6)
    first = encoder.layers[0](arrays)
    second = first + encoder.layers[1](first)
    torch.testing.assert_close(encoder(arrays), second + encoder.layers[2](second))


def texts(n=5):
    made = torch.randint(1, 2**17, (n, 6, 4), dtype=torch.int32, generator=torch.Generator().manual_seed(0))
    made[0, 3:] = 0
    made[1, :, 2:] = 0
    return made


@pytest.fixture
def text_encoder():
    torch.manual_seed(0)
    encoder = TextEncoder((6, 4), width=8, dim=6, rows=500, rate=0.5).eval()
    with torch.no_grad():
        encoder.pieces.weight[1:].normal_()  # as if trained; they start near 0
    return encoder


def test_nothing_added_changes_nothing(text_encoder):
    features = text_encoder(texts())
    assert features.shape == (5, text_encoder.feature_dim)
    padded = torch.nn.functional.pad(texts(), (0, 3, 0, 5))
    torch.testing.assert_close(text_encoder(padded), features)
    torch.testing.assert_close(text_encoder(texts().long()), features)


def test_a_text_of_nothing_has_features_and_gradients(text_encoder):
    features = text_encoder(torch.zeros(3, 6, 4, dtype=torch.int32))
    assert features.isfinite().all()
    mixed = texts()
    mixed[2] = 0
    text_encoder(mixed).square().sum().backward()
    for parameter in text_encoder.parameters():
        assert parameter.grad.isfinite().all()
    assert (text_encoder.pieces.weight.grad[0] == 0).all(), "nothing stays nothing"


def test_a_word_is_the_sum_of_its_pieces(text_encoder):
    words, present = text_encoder.word_vectors(texts())
    table = text_encoder.pieces.weight
    for i, j in ((0, 0), (1, 4), (4, 5)):
        pieces = [1 + (piece - 1) % 499 for piece in texts()[i, j].tolist() if piece]
        torch.testing.assert_close(words[i, j], 0.5 * sum(table[p] for p in pieces) / len(pieces) ** 0.5)
    assert present.squeeze(2)[0].tolist() == [True] * 3 + [False] * 3
    assert (words[0, 3:] == 0).all()


def test_what_is_exported_is_what_was_trained(text_encoder, monkeypatch):
    features = text_encoder(texts())
    monkeypatch.setattr(torch.compiler, "is_exporting", lambda: True)
    monkeypatch.setattr(text_encoder.pieces, "forward", None)  # the bag, which ONNX does not have
    torch.testing.assert_close(text_encoder(texts()), features)


def test_a_text_is_the_weighted_mean_and_the_maximum_of_its_words(text_encoder):
    words = text_encoder.word_vectors(texts())[0][0, :3].detach()  # three words, then nothing
    kernel, bias = text_encoder.neighbours.weight, text_encoder.neighbours.bias
    nothing = torch.zeros(1, 6)
    padded = torch.cat([nothing, words, nothing])
    around = [sum(kernel[:, :, k] @ padded[i + k] for k in range(3)) + bias for i in range(3)]
    words = torch.stack([word + extra.clamp(min=0) for word, extra in zip(words, around, strict=True)])
    weights = torch.softmax(words @ text_encoder.score.weight[0], dim=0)
    pooled = torch.cat([(weights.unsqueeze(1) * words).sum(dim=0), words.max(dim=0).values])
    torch.testing.assert_close(text_encoder(texts())[0], text_encoder.layers(pooled))


def test_unseen_pieces_say_nothing_at_first():
    encoder = TextEncoder((6, 4), dim=6, rows=500)
    assert encoder.word_vectors(texts())[0].abs().max() < 0.01


def test_pitch_and_its_inverse():
    assert mel(1000) == pytest.approx(1000, abs=0.1), "the scale is made so"
    assert hertz(mel(440)) == pytest.approx(440)


@pytest.mark.parametrize(("bands", "bins", "rate"), [(40, 101, 8000), (20, 257, 16000), (64, 33, 8000)])
def test_filters_are_triangles_in_pitch(bands, bins, rate):
    filters = mel_filters(bands, bins, rate).numpy()
    assert filters.shape == (bins, bands)
    corners = [700 * (10 ** (i * mel(rate / 2) / (bands + 1) / 2595) - 1) for i in range(bands + 2)]
    for band in range(bands):
        low, middle, high = corners[band : band + 3]
        frequencies = np.linspace(0, rate / 2, bins)
        expected = np.interp(frequencies, [low, middle, high], [0, 1, 0])
        if not expected.any():  # a band between two bins hears the nearer
            expected[np.abs(frequencies - middle).argmin()] = 1
        np.testing.assert_allclose(filters[:, band], expected, atol=1e-5)


def test_spectrogram_is_torchs_short_time_fourier_transform():
    spectrogram = LogMel(8000, bands=20)
    waveforms = torch.randn(3, 1300, generator=torch.Generator().manual_seed(0))
    spectra = torch.stft(
        waveforms, 200, hop_length=80, window=torch.hann_window(200), center=False, return_complex=True
    )
    power = torch.einsum("bft,fm->bmt", spectra.abs().square(), spectrogram.filters)
    decibels = 10 * power.log10()
    expected = (1 + 2 * (decibels - decibels.amax(dim=(1, 2), keepdim=True)) / 80).clamp(min=-1)
    found = spectrogram(waveforms)
    assert found.shape == (3, 20, spectrogram.frames(1300))
    torch.testing.assert_close(found, expected, atol=1e-3, rtol=0)


def test_a_tone_is_heard_in_its_band_however_loud():
    spectrogram = LogMel(8000, bands=40)
    tone = torch.sin(2 * math.pi * 1500 * torch.arange(4000) / 8000).unsqueeze(0)
    found = spectrogram(tone)
    corners = [hertz(i * mel(4000) / 41) for i in range(42)]
    loudest = int(found.mean(dim=2).argmax())
    assert corners[loudest] < 1500 < corners[loudest + 2]
    torch.testing.assert_close(spectrogram(0.01 * tone), found, atol=1e-3, rtol=0)
    assert (spectrogram(torch.zeros(1, 4000)) == 1).all(), "silence: everything is as loud as the loudest"


@pytest.mark.parametrize("samples", [1, 150, 200, 2777])
def test_sound_of_any_length(samples):
    torch.manual_seed(0)
    encoder = SoundEncoder((2777,), sample_rate=8000, width=4, bands=12)
    features = encoder(torch.randn(3, samples))
    assert features.shape == (3, encoder.feature_dim) == (3, 32)
    features.sum().backward()
    assert all(p.grad.isfinite().all() for p in encoder.parameters())


def test_decibels_are_not_rounded_under_autocast():
    spectrogram, waveforms = LogMel(8000), torch.randn(2, 1000)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = spectrogram(waveforms)
    assert torch.equal(found, spectrogram(waveforms))


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: MLP((3, 4)), OptionError, ["(features)", "(3, 4)"]),
        (lambda: MLP((3,), depth=0), OptionError, ["depth", "at least 1", "0"]),
        (lambda: MLP((3,))(torch.randn(2, 4)), InputError, ["(b, 3)", "(2, 4)"]),
        (lambda: TextEncoder((3,)), OptionError, ["(words, pieces)", "(3,)"]),
        (lambda: TextEncoder((3, 4), rows=1), OptionError, ["rows", "at least 2"]),
        (lambda: TextEncoder((3, 4), rate=0), OptionError, ["rate", "above 0", "0"]),
        (lambda: TextEncoder((3, 4))(torch.rand(2, 3, 4)), InputError, ["whole numbers", "float32"]),
        (lambda: SoundEncoder((800,)), OptionError, ["sample_rate=…"]),
        (lambda: SoundEncoder((800,), sample_rate=0), OptionError, ["sample_rate", "at least 1"]),
        (lambda: SoundEncoder((800,), sample_rate=8000)(torch.rand(2, 1, 800)), InputError, ["(b, samples)"]),
    ],
)
def test_errors(call, error, words):
    with pytest.raises(error) as caught:
        call()
    assert all(word in str(caught.value) for word in words), caught.value
