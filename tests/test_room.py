"""What has no room in memory is refused in words, before the system ends the process without one."""

import numpy as np
import pytest
import torch

from data_files import write_images, write_wav
from sincere import checks
from sincere.bench.memory import available_bytes
from sincere.checks import check_room, free_memory
from sincere.data import open_data
from sincere.encoders import ENCODERS, ProjectionHead, build_encoder
from sincere.errors import OptionError
from test_data_readers import Shapes, torchvision_stub

SHAPES = {"image": (3, 12, 12), "array": (4,), "text": (5, 3), "sound": (800,)}
SECOND = ("memory.max", "memory.current", "active_file {}\ninactive_file {}\nanon 7\n")
FIRST = (
    "memory.limit_in_bytes",
    "memory.usage_in_bytes",
    "inactive_file 1\ntotal_active_file {}\ntotal_inactive_file {}",
)


def machine(monkeypatch, folder, *, lines="MemTotal: 9 kB\nMemAvailable: 5 kB\nSwapFree: 2 kB\n", container=None):
    """A system that says what is free, in /proc or for a container in either way; `container`: (names, figures)."""
    (folder / "meminfo").write_text(lines)
    monkeypatch.setattr(checks, "MACHINE", str(folder / "meminfo"))
    places = [folder / str(number) for number in range(len(checks.CONTAINERS))]
    monkeypatch.setattr(
        checks, "CONTAINERS", [(place, *one[1:]) for place, one in zip(places, checks.CONTAINERS, strict=True)]
    )
    if container is not None:
        names, (limit, used, lent) = container
        place = places[names is FIRST]
        place.mkdir()
        (place / names[0]).write_text(f"{limit}\n")
        (place / names[1]).write_text(f"{used}\n")
        (place / "memory.stat").write_text(names[2].format(*lent))


@pytest.mark.parametrize(
    ("system", "free"),
    [
        ({}, 7 * 1024),
        ({"lines": "MemAvailable: 5 kB\n"}, 5 * 1024),
        ({"lines": "MemTotal: 9 kB\n"}, None),  # a Linux of before 2014
        ({"lines": ""}, None),
        ({"container": (SECOND, (4000, 3000, (0, 0)))}, 1000),
        ({"container": (SECOND, (4000, 3900, (1000, 500)))}, 1600),  # most of it was lent to files
        ({"container": (FIRST, (4000, 3900, (1000, 500)))}, 1600),
        ({"container": (FIRST, (2**63 - 4096, 3000, (0, 0)))}, 7 * 1024),  # no limit, in version 1
        ({"container": (SECOND, ("max", 3000, (0, 0)))}, 7 * 1024),  # and in version 2
        ({"container": (SECOND, (4000, 4100, (0, 0)))}, 0),
    ],
)
def test_what_is_free_is_what_the_system_says(monkeypatch, tmp_path, system, free):
    machine(monkeypatch, tmp_path, **system)
    assert free_memory() == free


def test_a_benchmark_keeps_to_the_memory_of_its_container(monkeypatch, tmp_path):
    """n×n code that fits the machine and not the container would end the process."""
    machine(monkeypatch, tmp_path, container=(SECOND, (4000, 3000, (0, 0))))
    assert available_bytes("cpu") == 1000
    machine(monkeypatch, tmp_path)
    (tmp_path / "0" / "memory.max").write_text("max\n")
    assert available_bytes("cpu") == 5 * 1024, "swap is no memory to time in"


def test_nobody_is_refused_where_nothing_is_known(monkeypatch, tmp_path):
    machine(monkeypatch, tmp_path)
    check_room(7 * 1024, "it", "Do.")
    with pytest.raises(OptionError, match=r"it must fit into memory: 9\.0 GB are needed, and 0\.0 GB are free\. Do\."):
        check_room(9 * 10**9, "it", "Do.")
    with torch.device("meta"):
        check_room(9 * 10**9, "what is made on another device", "")
    (tmp_path / "meminfo").unlink()
    check_room(10**18, "on another system", "")


@pytest.fixture
def full(monkeypatch):
    """A machine with a hundred bytes left."""
    monkeypatch.setattr(checks, "free_memory", lambda: 100)


@pytest.mark.parametrize("name", ENCODERS)
def test_encoders_without_room_are_refused(name, full):
    kind, options = ENCODERS[name][0], {"sample_rate": 8000} if name == "sound" else {}
    state = torch.get_rng_state()
    with pytest.raises(OptionError, match=rf"the [\d,]+ weights of the encoder '{name}' must fit into memory"):
        build_encoder(name, kind=kind, shape=SHAPES[kind], **options)
    assert torch.equal(torch.get_rng_state(), state)
    with torch.device("meta"):  # where there is no need of any
        build_encoder(name, kind=kind, shape=SHAPES[kind], **options)


def test_an_encoder_of_more_than_any_machine_is_refused_at_once():
    if free_memory() is None:
        pytest.skip("this system does not say what is free")
    with pytest.raises(OptionError, match=r"the 200,\d+,\d+,\d+ weights of the encoder 'mlp'"):
        build_encoder("mlp", kind="array", shape=(4,), width=10**5, depth=21)


def test_heads_without_room_are_refused(full):
    for layers, weights in (("mlp", "48"), ("linear", "32")):
        with pytest.raises(OptionError, match=f"the {weights} weights of the head must fit"):
            ProjectionHead(4, layers=layers, hidden=4, dim=8)
    ProjectionHead(4, layers="none")


def photographs(folder):
    return write_images(folder / "photographs", {"a": 4, "b": 4})


def arrays_of_images(folder):
    np.savez(folder / "x.npz", x=np.zeros((8, 6, 6), np.uint8), y=np.arange(8) % 2)
    return folder / "x.npz"


def clips(folder):
    for i in range(6):
        write_wav(folder / "clips" / "ab"[i % 2] / f"{i}.wav", np.arange(80), rate=800)
    return folder / "clips"


def texts(folder):
    (folder / "t.csv").write_text("text,label\n" + "some words,a\nother words,b\n" * 4)
    return folder / "t.csv"


@pytest.mark.parametrize(
    ("write", "options", "message"),
    [
        (photographs, {}, "8 samples of image, 3×6×5 must fit into memory"),
        (arrays_of_images, {"image_size": 9}, "8 samples of image, 1×9×9 must fit"),
        (clips, {}, "6 samples of sound, 80 must fit"),
        (texts, {}, "8 samples of text, 2×12 must fit"),
    ],
)
def test_samples_without_room_are_refused(tmp_path, full, write, options, message):
    with pytest.raises(OptionError) as error:
        open_data(write(tmp_path), **options)
    assert message in str(error.value)
    assert "Read fewer at once, or " in str(error.value)


def test_what_is_in_memory_already_needs_no_more(tmp_path, full):
    assert len(open_data(arrays_of_images(tmp_path)).train) > 0


def test_torchvision_sets_without_room_are_refused(monkeypatch, tmp_path, full):
    torchvision_stub(monkeypatch, Shapes=Shapes)
    (tmp_path / "shapes").mkdir()
    with pytest.raises(OptionError, match="8 samples of image, 3×6×6 must fit"):
        open_data(f"torchvision:Shapes:{tmp_path}")
