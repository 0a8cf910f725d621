"""WAV files in every form that programs write, against scipy's reader, and against Python's for what that reads."""

import struct
import wave

import numpy as np
import pytest
import scipy.io.wavfile

from data_files import write_wav
from sincere.data import open_data, read_data
from sincere.data.wav import read_header, read_wav
from sincere.errors import InputError

RNG = np.random.default_rng(0)
OF_A_NUMBER = b"\0\0\0\0\x10\0\x80\0\0\xaa\0\x38\x9b\x71"  # ends the identifiers of formats that have a number


def part(name: bytes, content: bytes, *, size: int | None = None, pad: bytes = b"\0") -> bytes:
    filled = content + pad * (len(content) % 2)
    return name + struct.pack("<I", len(content) if size is None else size) + filled


def form(number: int, bits: int, channels: int = 1, *, extensible: bool = False, ending: bytes = OF_A_NUMBER) -> bytes:
    frame = channels * (bits // 8)
    content = struct.pack("<HHIIHH", 0xFFFE if extensible else number, channels, 8000, 8000 * frame, frame, bits)
    if extensible:
        content += struct.pack("<HHIH", 22, bits, 0, number) + ending
    return part(b"fmt ", content)


def riff(*parts: bytes, size: int | None = None) -> bytes:
    content = b"WAVE" + b"".join(parts)
    return b"RIFF" + struct.pack("<I", len(content) if size is None else size) + content


def rf64(*parts: bytes, of_samples: int, name: bytes = b"RF64") -> bytes:
    """The lengths, 64 bits each, come before all else: of the whole, of the samples, and how many frames there are."""
    lengths = struct.pack("<QQQI", 4 + 36 + sum(map(len, parts)), of_samples, of_samples // 4, 0)
    return name + riff(part(b"ds64", lengths), *parts, size=2**32 - 1)[4:]


def samples(number: int, bits: int, channels: int, count: int = 51) -> bytes:
    """An odd number of them, so that some need a byte to be filled up."""
    if number == 3:
        return RNG.uniform(-1, 1, count * channels).astype(f"<f{bits // 8}").tobytes()
    return RNG.bytes(count * channels * bits // 8)


def expected_by_scipy(path) -> np.ndarray:
    """Means of channels in [−1, 1], in float64; scipy puts 24 bits at the top of 32."""
    _, values = scipy.io.wavfile.read(path)
    scale = 1 if values.dtype.kind == "f" else 2.0 ** (8 * values.dtype.itemsize - 1)
    centre = 128 if values.dtype == np.uint8 else 0
    return (values.reshape(len(values), -1).astype(np.float64) - centre).mean(axis=1) / scale


def read_by_python(path) -> np.ndarray:
    """As it was read when Python's reader did it."""
    with wave.open(str(path), "rb") as file:
        channels, width = file.getnchannels(), file.getsampwidth()
        content = file.readframes(file.getnframes())
    content = content[: len(content) - len(content) % (width * channels)]
    whole = [content[i : i + width] for i in range(0, len(content), width)]
    values = [int.from_bytes(one, "little", signed=width > 1) - (128 if width == 1 else 0) for one in whole]
    means = np.array(values, np.int64).astype(np.float32).reshape(-1, channels).mean(axis=1)
    return means / np.float32(2 ** (8 * width - 1))


@pytest.mark.filterwarnings("ignore:Chunk")  # scipy's, of parts that it does not know
@pytest.mark.parametrize("channels", [1, 2, 3])
@pytest.mark.parametrize("extensible", [False, True], ids=["plain", "extensible"])
@pytest.mark.parametrize(("number", "bits"), [(1, 8), (1, 16), (1, 24), (1, 32), (3, 32), (3, 64)])
def test_every_form_is_read_as_by_scipy(tmp_path, number, bits, extensible, channels):
    content = samples(number, bits, channels)
    (tmp_path / "a.wav").write_bytes(
        riff(
            part(b"LIST", b"INFOodd"),
            form(number, bits, channels, extensible=extensible),
            part(b"fact", struct.pack("<I", 51)),
            part(b"data", content),
            part(b"LIST", b"INFOISFT"),
        )
    )
    sound = read_wav(tmp_path / "a.wav")
    assert (sound.rate, sound.cut, sound.loud, sound.clip.dtype, len(sound.clip)) == (
        8000,
        False,
        False,
        np.float32,
        51,
    )
    np.testing.assert_allclose(sound.clip, expected_by_scipy(tmp_path / "a.wav"), rtol=0, atol=1.2e-7)
    if number == 1 and not extensible:
        np.testing.assert_array_equal(sound.clip, read_by_python(tmp_path / "a.wav"))


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.int32, np.float32, np.float64])
def test_what_scipy_writes_is_read(tmp_path, dtype):
    values = RNG.uniform(-1, 1, (40, 2))
    stored = values * 100 + 100 if dtype == np.uint8 else values * 1000 if np.dtype(dtype).kind == "i" else values
    scipy.io.wavfile.write(tmp_path / "a.wav", 16000, stored.astype(dtype))
    sound = read_wav(tmp_path / "a.wav")
    assert sound.rate == 16000
    np.testing.assert_allclose(sound.clip, expected_by_scipy(tmp_path / "a.wav"), rtol=0, atol=1e-7)


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("extensible", [False, True], ids=["plain", "extensible"])
@pytest.mark.parametrize(("number", "bits"), [(1, 8), (1, 16), (1, 24), (1, 32), (3, 32), (3, 64)])
def test_the_high_byte_first_is_the_same_sound(tmp_path, number, bits, extensible, channels):
    """RIFX, written number by number from the same content."""
    content, width = samples(number, bits, channels), bits // 8
    (tmp_path / "low.wav").write_bytes(
        riff(form(number, bits, channels, extensible=extensible), part(b"data", content))
    )
    turned = b"".join(content[i : i + width][::-1] for i in range(0, len(content), width))
    frame = channels * width
    fmt = struct.pack(">HHIIHH", 0xFFFE if extensible else number, channels, 8000, 8000 * frame, frame, bits)
    if extensible:
        fmt += struct.pack(">HHI", 22, bits, 0) + struct.pack(">IHH", number, 0, 0x10) + OF_A_NUMBER[6:]
    parts = b"".join(name + struct.pack(">I", len(held)) + held for name, held in ((b"fmt ", fmt), (b"data", turned)))
    (tmp_path / "high.wav").write_bytes(b"RIFX" + struct.pack(">I", len(parts) + 4) + b"WAVE" + parts)
    low, high = read_wav(tmp_path / "low.wav"), read_wav(tmp_path / "high.wav")
    assert (high.rate, high.cut, len(high.clip)) == (8000, False, 51)
    np.testing.assert_array_equal(high.clip, low.clip)
    if not extensible:
        np.testing.assert_allclose(high.clip, expected_by_scipy(tmp_path / "high.wav"), rtol=0, atol=1.2e-7)


CONTENT = samples(1, 16, 2, 30)
LISTED = part(b"LIST", b"INFOISFT\x05\0\0\0made")
FORM = form(1, 16, 2)
ODD = {
    # name: file, frames, whether it is cut off
    "plain": (riff(FORM, part(b"data", CONTENT)), 30, False),
    "cut off": (riff(FORM, part(b"data", CONTENT))[:-50], 17, True),
    "ends within a frame": (riff(FORM, part(b"data", CONTENT))[:-3], 29, True),
    "half a frame too many": (riff(FORM, part(b"data", CONTENT + b"ab")), 30, False),
    "the whole ends among samples": (riff(FORM, part(b"data", CONTENT), size=76), 10, True),
    "piped": (riff(LISTED, FORM, part(b"data", CONTENT, size=2**32 - 1), size=2**32 - 1), 30, False),
    "piped by another": (riff(FORM, part(b"data", CONTENT, size=0x7FFFF000), size=0x7FFFF024), 30, False),
    "junk is odd": (riff(part(b"JUNK", b"abc"), FORM, part(b"data", CONTENT)), 30, False),
    "filled up with a letter": (riff(part(b"JUNK", b"abc", pad=b"x"), FORM, part(b"data", CONTENT)), 30, False),
    "says no length of a frame": (riff(FORM[:20] + b"\0\0" + FORM[22:], part(b"data", CONTENT)), 30, False),
    "12 bits in two bytes": (riff(FORM[:22] + b"\x0c\0", part(b"data", CONTENT)), 30, False),
}
NEW = {
    "RF64": (rf64(FORM, part(b"data", CONTENT, size=2**32 - 1), LISTED, of_samples=120), 30, False),
    "BW64": (rf64(FORM, part(b"data", CONTENT), LISTED, of_samples=120, name=b"BW64"), 30, False),
    "RF64, cut off": (rf64(FORM, part(b"data", CONTENT, size=2**32 - 1), of_samples=120)[:-50], 17, True),
    "RF64, far too short": (rf64(FORM, part(b"data", CONTENT, size=2**32 - 1), of_samples=2**33), 30, True),
    "RF64 whose lengths are no lengths": (
        b"RF64" + riff(part(b"ds64", b"abc"), FORM, part(b"data", CONTENT, size=2**32 - 1), size=2**32 - 1)[4:],
        30,
        False,
    ),
    "zeros for lengths": (riff(FORM, part(b"data", CONTENT, size=0), size=0), 30, False),
    "lengths of an empty file": (riff(LISTED, FORM, part(b"data", CONTENT, size=0), size=60), 30, False),
    "zero for samples alone": (riff(FORM, part(b"data", CONTENT, size=0), size=2**32 - 1), 30, False),
    "zero for the whole": (riff(FORM, part(b"data", CONTENT), size=0), 30, False),
    "nothing fills up before a list": (
        riff(part(b"JUNK", b"abc", pad=b""), LISTED, FORM, part(b"data", CONTENT)),
        30,
        False,
    ),
    "nothing fills up": (riff(part(b"LIST", b"INFO+", pad=b""), FORM, part(b"data", CONTENT)), 30, False),
}


@pytest.mark.parametrize("case", [*ODD, *NEW])
def test_odd_files_are_read(tmp_path, case):
    content, frames, cut = (ODD | NEW)[case]
    (tmp_path / "a.wav").write_bytes(content)
    sound = read_wav(tmp_path / "a.wav")
    assert (len(sound.clip), sound.cut) == (frames, cut)
    assert read_header(tmp_path / "a.wav").frames == frames
    whole = np.frombuffer(CONTENT, "<i2").reshape(-1, 2)[:frames].astype(np.float32).mean(axis=1) / np.float32(2**15)
    np.testing.assert_array_equal(sound.clip, whole)
    if case in ODD:
        np.testing.assert_array_equal(sound.clip, read_by_python(tmp_path / "a.wav"))


def test_a_recording_of_more_than_four_gigabytes_has_all_of_its_frames(tmp_path):
    """Its lengths stand in ds64; the file is a hole behind its header, and takes no room."""
    frames = 2**30 + 1000
    whole = rf64(FORM, part(b"data", b"", size=2**32 - 1), of_samples=4 * frames)
    lengths = struct.pack("<QQ", len(whole) - 8 + 4 * frames, 4 * frames)
    with (tmp_path / "long.wav").open("wb") as file:
        file.write(whole[:20] + lengths + whole[36:])
        file.truncate(len(whole) + 4 * frames)
    header = read_header(tmp_path / "long.wav")
    assert (header.frames, header.cut) == (frames, False)


DATA = part(b"data", CONTENT)
REFUSED = {
    # name: file, words of the reason
    "A-law": (riff(form(6, 8), DATA), r"the file holds A-law \(6\); convert it to 16-bit PCM, .*pcm_s16le"),
    "extensible µ-law": (riff(form(7, 8, extensible=True), DATA), r"holds µ-law \(7\); convert"),
    "ADPCM": (riff(form(2, 8), DATA), r"holds ADPCM \(2\)"),
    "MP3": (riff(form(0x55, 0), DATA), r"holds MP3 \(85\)"),
    "unheard of": (riff(form(0x4242, 16), DATA), r"holds something else \(16962\)"),
    "no number": (riff(form(1, 16, extensible=True, ending=b"another ending"), DATA), r"something else \(65534\)"),
    "extensible, cut": (riff(part(b"fmt ", form(1, 16, extensible=True)[8:26]), DATA), "does not say how its samples"),
    "12 bytes": (riff(form(1, 96), DATA), "8, 16, 24 or 32 bits.* the file says 96 bits"),
    "half floats": (riff(form(3, 16), DATA), "with 32 or 64: the file says 16 bits"),
    "no bits": (riff(form(1, 0), DATA), "says 0 bits"),
    "no channels": (riff(form(1, 16, 0), DATA), "says 0 channels"),
    "wide frames": (riff(form(3, 32, 2)[:20] + b"\x10\0" + form(3, 32, 2)[22:], DATA), "must have 8 bytes.*it has 16"),
    "wide frames, extensible": (
        riff(form(1, 16, 2, extensible=True)[:20] + b"\x10\0" + form(1, 16, 2, extensible=True)[22:], DATA),
        "must have 4 bytes.*it has 16",
    ),
    "samples first": (riff(DATA, FORM), "before they come"),
    "no samples": (riff(FORM), "ends too early, before its samples"),
    "an empty part": (riff(FORM, part(b"data", b""), LISTED), "holds no samples"),
    "less than a frame": (riff(FORM, part(b"data", b"abc")), "holds no samples"),
    "no form": (riff(part(b"fmt ", b"short"), DATA), "ends too early"),
    "cut in the list": (riff(LISTED, FORM, DATA)[:30], "do not have the lengths"),
    "another container": (b"FORM" + riff(FORM, DATA)[4:], "begins with RIFF, RIFX or RF64, and this one with b'FORM'"),
    "RF64 without lengths": (b"RF64" + riff(part(b"ds64", b"abc"), FORM, size=2**32 - 1)[4:], "ends too early"),
    "a video": (b"RIFF\0\0\0\0AVI LIST", "no WAV file but holds b'AVI '"),
    "NaN": (riff(form(3, 32), part(b"data", struct.pack("<2f", np.nan, 0))), "must be finite: it holds NaN"),
    "infinity": (riff(form(3, 64), part(b"data", struct.pack("<2d", 0, -np.inf))), "must be finite"),
    "integers in floats": (
        riff(form(3, 32), part(b"data", struct.pack("<2f", -20000, 3))),
        r"lie in \[−1, 1\]: the largest is 20000; divide",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_read_is_told(tmp_path, case):
    content, words = REFUSED[case]
    (tmp_path / "a.wav").write_bytes(content)
    with pytest.raises(ValueError, match=words):
        read_wav(tmp_path / "a.wav")


@pytest.mark.parametrize("cut", range(1, 80))
def test_a_file_that_is_cut_anywhere_is_read_or_refused_in_words(tmp_path, cut):
    whole = riff(form(1, 24, extensible=True), part(b"data", samples(1, 24, 1, 8)))
    (tmp_path / "a.wav").write_bytes(whole[:cut])
    if cut < 68 + 3:
        with pytest.raises(
            ValueError, match=r"begins with|too early|lengths that it says|holds no samples|not say how"
        ):
            read_wav(tmp_path / "a.wav")
    else:
        sound = read_wav(tmp_path / "a.wav")
        assert (len(sound.clip), sound.cut) == ((cut - 68) // 3, True)


@pytest.fixture
def folder(tmp_path):
    for name in ("hum", "hiss"):
        for i in range(3):
            write_wav(tmp_path / name / f"{i}.wav", np.arange(100))
    return tmp_path


def test_files_that_end_early_or_are_too_loud_are_named(folder):
    (folder / "hum" / "cut.wav").write_bytes(ODD["cut off"][0])
    loud = np.array([0.5, -1.5, 1.25], "<f4")
    (folder / "hum" / "loud.wav").write_bytes(riff(form(3, 32), part(b"data", loud.tobytes())))
    data, notes = read_data(folder)
    assert data.inputs[data.shown.index(str(folder / "hum" / "loud.wav"))][:4].tolist() == [0.5, -1, 1, 0]
    assert notes == (
        "1 of 8 clips end before their samples do, by their own account, and were read as far as they go: "
        f"{folder / 'hum' / 'cut.wav'}.",
        f"1 of 8 clips hold samples beyond ±1, which were cut there: {folder / 'hum' / 'loud.wav'}.",
    )


@pytest.mark.parametrize(("values", "loud"), [((1, -1), False), ((0.5, -1.5), True), ((1.5, 0.5), True)])
def test_full_scale_is_not_too_loud(tmp_path, values, loud):
    (tmp_path / "a.wav").write_bytes(riff(form(3, 32), part(b"data", struct.pack("<2f", *values))))
    assert read_wav(tmp_path / "a.wav").loud == loud


def test_a_refused_file_is_named_with_what_to_do(folder):
    (folder / "hum" / "call.wav").write_bytes(REFUSED["A-law"][0])
    with pytest.raises(InputError, match=r"1 of 7 are not: .*call\.wav \(.*A-law \(6\); convert it to 16-bit PCM"):
        open_data(folder)
