"""Stages for small images, arrays, texts and sound: what they change, by how much, and what they leave alone."""

import numpy as np
import pytest
import torch
from scipy import stats

from sincere.errors import OptionError
from sincere.views import (
    BlankPixels,
    FeatureMask,
    FeatureNoise,
    FrequencyMask,
    Gain,
    PieceDropout,
    PixelNoise,
    SoundNoise,
    TimeMask,
    TimeShift,
    WordDropout,
)
from sincere.views.stages import gaussian, whole

ENOUGH = 1e-3


def numbers_for(stage, samples, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(len(samples), stage.numbers(tuple(samples.shape[1:])), generator=generator)


def test_gaussian_is_standard_normal_and_finite():
    drawn = gaussian(torch.rand(20_000, generator=torch.Generator().manual_seed(0)))
    assert stats.kstest(drawn.numpy(), stats.norm.cdf).pvalue > ENOUGH
    ends = gaussian(torch.tensor([0.0, 1 - 2**-24]))
    assert ends.isfinite().all()
    assert ends.abs().max() > 5


def test_whole_numbers_are_equally_likely_and_in_range():
    drawn = whole(torch.rand(9000, generator=torch.Generator().manual_seed(0)), 9)
    assert stats.chisquare(torch.bincount(drawn.long()).numpy()).pvalue > ENOUGH
    assert whole(torch.tensor([1 - 2**-24]), 33).item() == 32, "a product that rounds up stays inside"


def test_features_are_masked_to_the_mean():
    arrays = torch.rand(2000, 5) + 1
    masked = FeatureMask(0.3)(arrays, numbers_for(FeatureMask(0.3), arrays))
    assert ((masked == arrays) | (masked == 0)).all()
    assert stats.binomtest(int((masked == 0).sum()), 10_000, 0.3).pvalue > ENOUGH


def test_noise_on_features_and_pixels():
    for stage, samples in ((FeatureNoise(0.2), torch.rand(2000, 6)), (PixelNoise(0.2), torch.rand(500, 2, 4, 3))):
        noise = (stage(samples, numbers_for(stage, samples)) - samples).flatten().numpy()
        assert stats.kstest(noise, stats.norm(0, 0.2).cdf).pvalue > ENOUGH


def test_blank_pixels_are_black_in_every_channel():
    images = torch.rand(300, 3, 6, 6) + 0.1
    blanked = BlankPixels(0.25)(images, numbers_for(BlankPixels(0.25), images))
    black = blanked == 0
    assert (black.all(dim=1) == black.any(dim=1)).all()
    assert stats.binomtest(int(black[:, 0].sum()), 300 * 36, 0.25).pvalue > ENOUGH


def texts(n=400):
    generator = torch.Generator().manual_seed(3)
    made = torch.randint(1, 1000, (n, 8, 3), dtype=torch.int32, generator=generator)
    made[:, 5:] = 0
    made[:, 2, 1:] = 0
    return made


def test_words_go_as_a_whole_and_one_stays():
    dropped = WordDropout(0.4)(texts(), numbers_for(WordDropout(0.4), texts()))
    gone = (dropped == 0) & (texts() != 0)
    assert dropped.dtype == torch.int32
    words = gone.any(dim=2)
    assert ((gone | (texts() == 0)).all(dim=2)[:, :5] == words[:, :5]).all()
    # Of five words with a probability of 0.4 each, all would go with 0.4⁵; then one stays.
    expected = 0.4 - 0.4**5 / 5
    assert stats.binomtest(int(words.sum()), 2000, expected).pvalue > ENOUGH
    nearly_all = WordDropout(1.0)(texts(), numbers_for(WordDropout(1.0), texts()))
    assert ((nearly_all != 0).any(dim=2).sum(dim=1) == 1).all()
    assert (WordDropout(0.5)(torch.zeros_like(texts()), numbers_for(WordDropout(0.5), texts())) == 0).all()


def test_pieces_go_one_by_one():
    dropped = PieceDropout(0.2)(texts(), numbers_for(PieceDropout(0.2), texts()))
    gone = int(((dropped == 0) & (texts() != 0)).sum())
    assert ((dropped == texts()) | (dropped == 0)).all()
    assert stats.binomtest(gone, int((texts() != 0).sum()), 0.2).pvalue > ENOUGH


def test_tokens_of_one_piece_go_as_words_alone():
    tokens = texts()[:, :, :1]
    assert PieceDropout(0.2).numbers((6, 1)) == 0
    assert torch.equal(PieceDropout(0.9)(tokens, torch.rand(len(tokens), 0)), tokens)


def test_a_shift_in_time_brings_silence():
    clip = torch.rand(1, 20) + 0.5
    later = TimeShift(share=0.25, speed=0.0)(clip, torch.tensor([[1.0, 0.5]]))
    torch.testing.assert_close(later, torch.cat([torch.zeros(1, 5), clip[:, :15]], dim=1))
    earlier = TimeShift(share=0.25, speed=0.0)(clip, torch.tensor([[0.0, 0.5]]))
    torch.testing.assert_close(earlier, torch.cat([clip[:, 5:], torch.zeros(1, 5)], dim=1))


def test_between_samples_a_shifted_clip_is_a_straight_line():
    clip = torch.rand(1, 50)
    made = TimeShift(share=0.1, speed=0.1)(clip, torch.tensor([[0.27, 0.8]]))
    places = (np.arange(50) - (0.2 * 0.27 - 0.1) * 50) * (0.9 + 0.2 * 0.8)
    expected = np.interp(places, np.arange(-1, 51), [0, *clip[0].tolist(), 0])  # into silence, too
    np.testing.assert_allclose(made[0].numpy(), expected, atol=1e-4)


def test_speed_moves_the_pitch():
    time = torch.arange(4000) / 4000
    tone = torch.sin(2 * np.pi * 200 * time).unsqueeze(0)
    faster = TimeShift(share=0.0, speed=0.1)(tone, torch.tensor([[0.5, 1.0]]))
    loudest = torch.fft.rfft(faster[0, :3600]).abs().argmax().item() * 4000 / 3600
    assert loudest == pytest.approx(220, abs=1.2)
    assert (faster[0, 3640:] == 0).all(), "a faster clip ends earlier"


def test_gain_and_noise_are_in_decibels():
    clips = torch.rand(300, 500) - 0.5
    louder = Gain(6.0)(clips, torch.ones(300, 1))
    torch.testing.assert_close(louder, clips * 10 ** (6 / 20))
    stage = SoundNoise((20.0, 20.0))
    clips[:, 250:] = 0
    noise = stage(clips, numbers_for(stage, clips)) - clips
    ratio = 10 * torch.log10(clips[:, :250].square().mean(dim=1) / noise.square().mean(dim=1))
    assert ratio.mean().item() == pytest.approx(20, abs=0.2)
    assert SoundNoise()(torch.zeros(2, 9), torch.rand(2, 10)).abs().max() == 0, "silence has no power to add noise by"


def test_a_stretch_of_silence():
    clips = torch.ones(3000, 200)
    made = TimeMask(0.3)(clips, numbers_for(TimeMask(0.3), clips))
    share = (made == 0).float().mean(dim=1)
    assert stats.kstest(share.numpy(), stats.uniform(0, 0.3).cdf).statistic < 0.03
    edges = (made[:, 1:] != made[:, :-1]).sum(dim=1)
    assert edges.max() <= 2, "in one piece"
    assert (made == 0).float().mean(dim=0)[80:120].mean() > (made == 0).float().mean(dim=0)[:10].mean()


def test_a_band_of_frequencies_goes():
    clips = torch.randn(200, 256, generator=torch.Generator().manual_seed(0))
    made = FrequencyMask(0.4)(clips, numbers_for(FrequencyMask(0.4), clips))
    before, after = torch.fft.rfft(clips).abs(), torch.fft.rfft(made).abs()
    gone = after < 1e-3 * before.mean()
    kept = ~gone
    torch.testing.assert_close(after[kept], before[kept], atol=1e-3, rtol=1e-3)
    assert ((gone[:, 1:] != gone[:, :-1]).sum(dim=1) <= 2).all()
    share = gone.float().mean(dim=1)
    assert share.min() >= 0.0
    assert share.max() < 0.75
    assert 0.1 < share.mean() < 0.3


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: FeatureMask(1.1), ["share", "1.1"]),
        (lambda: FeatureNoise(-1), ["strength", "at least 0"]),
        (lambda: PixelNoise(float("nan")), ["deviation", "nan"]),
        (lambda: BlankPixels(True), ["share", "True"]),
        (lambda: WordDropout(-0.1), ["share", "-0.1"]),
        (lambda: PieceDropout("a"), ["share", "'a'"]),
        (lambda: TimeShift(speed=2), ["speed", "2"]),
        (lambda: Gain(-3), ["decibels", "-3"]),
        (lambda: SoundNoise((30.0, 10.0)), ["decibels", "low ≤ high"]),
        (lambda: TimeMask(2), ["share", "2"]),
        (lambda: FrequencyMask(2), ["share", "2"]),
    ],
)
def test_errors(make, words):
    with pytest.raises(OptionError) as caught:
        make()
    assert all(word in str(caught.value) for word in words), caught.value


@pytest.mark.parametrize("share", [0.5, 1.0])
def test_of_a_text_at_least_one_piece_stays(share):
    """Texts of one short word have one piece or two: a view with nothing in it would be a positive of everything."""
    short = texts()
    short[:, 1:], short[:, 0, 2] = 0, 0
    stage = PieceDropout(share)
    numbers = numbers_for(stage, short)
    dropped = stage(short, numbers)
    assert (dropped != 0).flatten(1).any(dim=1).all()
    assert (stage(torch.zeros_like(short), numbers) == 0).all()
    # Where chance leaves something, it is left to chance: both of two pieces go with share², and then one stays.
    chance = numbers.reshape(short.shape)[:, 0, :2] >= share
    some = chance.any(dim=1)
    assert torch.equal((dropped[:, 0, :2] != 0)[some], chance[some])
    assert ((dropped != 0).flatten(1).sum(dim=1)[~some] == 1).all()
    assert int((~some).sum()) > 50


def test_what_is_silent_around_a_clip_stays_silent_and_noise_keeps_its_distance():
    """A band that is taken out rings on, and zeros that fill a clip up are no part of its power."""
    samples = torch.zeros(2, 4000)
    samples[0, 600:1000] = (0.3 * torch.arange(400)).sin() + 0.01
    generator = torch.Generator().manual_seed(0)
    for share in (0.0, 0.3):
        quieter = FrequencyMask(share)(samples, torch.rand(2, 2, generator=generator))
        assert not quieter[0, :600].any()
        assert not quieter[0, 1000:].any()
        assert not quieter[1].any()
        assert quieter[0, 600:1000].abs().max() > 0.1
        numbers = torch.rand(2, 4001, generator=generator)
        noise = (SoundNoise((20.0, 20.0))(quieter, numbers) - quieter)[0]
        power = quieter[0, 600:1000].square().mean()
        assert 10 * float((power / noise.square().mean()).log10()) == pytest.approx(20, abs=0.3)
