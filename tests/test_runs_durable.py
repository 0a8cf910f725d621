"""What a power cut, a full disk or a killed process leaves of a run's files, and how refusals are worded."""

import errno
import fcntl
import json
import os
import pickle
import re
import resource
import shutil
import signal
from contextlib import contextmanager
from threading import Event, Thread
from time import sleep

import pytest
import torch
from safetensors import safe_open

import sincere.runs.files as files
from sincere.embeddings import EmbeddingSet
from sincere.errors import InputError, OptionError
from sincere.runs import (
    MetricsLog,
    RunFolder,
    WriteError,
    load_tensors,
    load_weights,
    newest_checkpoint,
    read_json,
    read_metrics,
    save_checkpoint,
    save_model,
    save_tensors,
    write_json,
)
from sincere.runs.files import replaced, write_atomically
from sincere.runs.lock import only_here
from sincere.runs.model import model_description
from sincere.runs.tensor_files import load_into


def write_bytes_of(path):
    write_atomically(path, b"second")


def write_set_of(path):
    EmbeddingSet.from_arrays([[1.0, 0.0]], [0]).save(path)


@pytest.fixture
def events(monkeypatch):
    """What became durable and what was renamed, in order: ("fsync", inode) and ("rename", inode)."""
    seen = []
    fsync, rename, replace = os.fsync, os.rename, os.replace

    def noted_fsync(handle):
        fsync(handle)
        seen.append(("fsync", os.fstat(handle).st_ino))

    def noted(move):
        def moved(source, target):
            seen.append(("rename", os.stat(source).st_ino))
            move(source, target)

        return moved

    monkeypatch.setattr(os, "fsync", noted_fsync)
    monkeypatch.setattr(os, "rename", noted(rename))
    monkeypatch.setattr(os, "replace", noted(replace))
    return seen


def test_a_file_is_durable_before_it_gets_its_name_and_its_name_afterwards(tmp_path, events):
    write_json(tmp_path / "a.json", {"a": 1})
    file, folder = (tmp_path / "a.json").stat().st_ino, tmp_path.stat().st_ino
    assert events == [("fsync", file), ("rename", file), ("fsync", folder)]


def test_all_of_a_file_is_there_when_the_disk_is_asked_to_keep_it(tmp_path, monkeypatch):
    """What Python still holds back at that moment would be lost."""
    sizes = []
    monkeypatch.setattr(os, "fsync", lambda handle: sizes.append(os.fstat(handle).st_size))
    write_atomically(tmp_path / "a", b"whole")
    assert sizes[0] == 5


def test_files_may_be_read_by_whoever_may_read_others(tmp_path):
    (tmp_path / "plain").touch()
    write_json(tmp_path / "a.json", {})
    assert (tmp_path / "a.json").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_a_checkpoint_is_durable_before_it_gets_its_name_and_its_name_before_the_old_one_goes(
    tmp_path, events, monkeypatch
):
    old = save_checkpoint(tmp_path, 3, {"a": torch.ones(2)}, {})
    events.clear()
    remove = shutil.rmtree

    def noted(place, **options):
        events.append(("removed", place.stat().st_ino))
        remove(place, **options)

    monkeypatch.setattr(shutil, "rmtree", noted)
    gone = old.stat().st_ino
    new = save_checkpoint(tmp_path, 4, {"a": torch.ones(2)}, {})
    tensors, state = ((new / name).stat().st_ino for name in ("tensors.safetensors", "state.json"))
    assert set(events[:2]) == {("fsync", tensors), ("fsync", state)}
    assert events[2:] == [("rename", new.stat().st_ino), ("fsync", tmp_path.stat().st_ino), ("removed", gone)]


def test_writing_leaves_no_file_open(tmp_path):
    def next_handle():
        handle = os.dup(0)
        os.close(handle)
        return handle

    before = next_handle()
    write_json(tmp_path / "a.json", {})
    save_checkpoint(tmp_path / "c", 1, {}, {})
    with only_here(tmp_path / "run"):
        pass
    assert next_handle() == before


@pytest.mark.parametrize("write", [write_bytes_of, write_set_of], ids=["bytes", "embeddings"])
def test_who_writes_the_same_file_takes_turns(tmp_path, write):
    """The second begins while the first has half of it: neither fails, and whoever reads finds one of them whole."""
    path = tmp_path / "a.npz"
    with replaced(path, 0) as beside:
        beside.write_bytes(b"first, h")
        other = Thread(target=write, args=(path,))
        other.start()
        other.join(timeout=0.3)
        assert other.is_alive()
        assert beside.read_bytes() == b"first, h"
        beside.write_bytes(b"first, half and whole")
    first = path.open("rb")  # stays what it is, whatever gets its name now
    other.join(timeout=30)
    assert not other.is_alive()
    assert first.read() in (b"first, half and whole", path.read_bytes())
    first.close()
    assert path.read_bytes().startswith((b"second", b"PK"))
    assert [place.name for place in tmp_path.iterdir()] == ["a.npz"]


def test_who_has_waited_for_a_turn_has_it_alone(tmp_path):
    """The lock that it waited for went away with the first writer's file: a third must wait for the second's."""
    path, holding, leave = tmp_path / "a", Event(), Event()

    def hold():
        with replaced(path, 0) as beside:
            beside.write_bytes(b"held")
            holding.set()
            leave.wait(30)

    second, third = Thread(target=hold), Thread(target=write_bytes_of, args=(path,))
    with replaced(path, 0) as beside:
        beside.write_bytes(b"first")
        second.start()
        assert not holding.wait(0.3)
    try:
        assert holding.wait(30)
        third.start()
        third.join(timeout=0.3)
        assert third.is_alive()
        assert path.read_bytes() == b"first"
    finally:
        leave.set()
    for thread in (second, third):
        thread.join(timeout=30)
    assert path.read_bytes() == b"second"


def test_nobody_waits_for_a_writer_that_hangs(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "PATIENCE", 0.2)
    path = tmp_path / "a.json"
    path.write_text("before")
    with replaced(path, 0) as beside:
        beside.write_bytes(b"half")
        with pytest.raises(WriteError, match=r"could not write .*a\.json: another process is writing it") as refused:
            write_json(path, {})
        assert beside.read_bytes() == b"half", "it is the other one's still"
        beside.write_bytes(b"whole")
    assert f"End that process if it hangs (lsof {beside} tells its number)." in refused.value.strerror
    assert path.read_bytes() == b"whole"


def test_a_writer_that_gets_on_is_waited_for(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "PATIENCE", 0.5)
    path = tmp_path / "a"
    with replaced(path, 0) as beside:
        other = Thread(target=write_bytes_of, args=(path,))
        other.start()
        for size in range(8):  # longer than anybody's patience with one who hangs
            beside.write_bytes(b"x" * size)
            sleep(0.15)
        assert other.is_alive()
    other.join(timeout=30)
    assert path.read_bytes() == b"second"


def test_what_a_killed_process_left_is_written_over(tmp_path):
    (tmp_path / "a.json.unfinished").write_text("longer than what comes now, by far")
    write_json(tmp_path / "a.json", {})
    assert [(place.name, place.read_text()) for place in tmp_path.iterdir()] == [("a.json", "{}\n")]


def test_an_interrupted_write_leaves_nothing(tmp_path):
    (tmp_path / "a").write_bytes(b"before")

    def interrupted():
        with replaced(tmp_path / "a", 1) as beside:
            beside.write_bytes(b"half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert [(place.name, place.read_bytes()) for place in tmp_path.iterdir()] == [("a", b"before")]


def test_room_is_spoken_of_only_where_it_lacks(tmp_path):
    (tmp_path / "a.json").mkdir()
    with pytest.raises(WriteError, match=r"a\.json: Is a directory\. What .*intact: mend that, or name another place"):
        write_json(tmp_path / "a.json", {})
    assert [place.name for place in tmp_path.iterdir()] == ["a.json"]


def test_whole_numbers_are_not_taken_for_weights(tmp_path):
    layer = torch.nn.Linear(2, 1)
    before = {name: value.clone() for name, value in layer.state_dict().items()}
    with pytest.raises(InputError, match=r"whole numbers for fractions, or the reverse: weight\)"):
        load_into(layer, {"weight": torch.ones(1, 2, dtype=torch.int8), "bias": torch.ones(1)}, "w")
    assert all(torch.equal(value, before[name]) for name, value in layer.state_dict().items())
    load_into(layer, {"weight": torch.ones(1, 2, dtype=torch.float16), "bias": torch.ones(1).double()}, "w")
    assert layer.weight.tolist() == [[1.0, 1.0]]


def test_a_step_whose_checkpoint_was_cut_off_can_be_saved_again(tmp_path):
    """A run that was killed while it wrote step 9 goes on from step 3 and comes to step 9 again."""
    save_checkpoint(tmp_path, 3, {"a": torch.ones(2)}, {})
    left = tmp_path / "step-000000009.unfinished"
    left.mkdir()
    (left / "tensors.safetensors").write_bytes(b"half of it")
    save_checkpoint(tmp_path, 9, {"a": torch.full((2,), 9.0)}, {})
    assert [place.name for place in tmp_path.iterdir()] == ["step-000000009"]
    assert newest_checkpoint(tmp_path).tensors["a"].tolist() == [9.0, 9.0]


def test_checkpoints_clear_away_nothing_but_checkpoints(tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("of somebody else")
    for step in (1, 2):
        save_checkpoint(tmp_path, step, {}, {})
    assert sorted(place.name for place in tmp_path.iterdir()) == ["mine", "step-000000002"]
    assert (tmp_path / "mine" / "notes.txt").read_text() == "of somebody else"


def test_a_state_without_a_digest_is_refused(tmp_path):
    place = save_checkpoint(tmp_path, 3, {"a": torch.ones(2)}, {}) / "state.json"
    state = json.loads(place.read_text())
    del state["digest"]
    place.write_text(json.dumps(state))
    with pytest.raises(InputError, match=r"not what state\.json beside it describes"):
        newest_checkpoint(tmp_path)


def test_a_file_where_checkpoints_should_be_holds_none(tmp_path):
    (tmp_path / "checkpoint").touch()
    assert newest_checkpoint(tmp_path / "checkpoint") is None


@contextmanager
def full_disk(limit=100_000):
    """No file can grow beyond `limit` bytes: the system itself refuses to write."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)


def test_metrics_that_cannot_be_cut_stay_as_they_were(tmp_path):
    log = MetricsLog(tmp_path / "metrics.jsonl")
    for step in range(1, 301):
        log.append({"step": step, "note": "x" * 500})
    before = log.path.read_bytes()
    with full_disk(), pytest.raises(WriteError):
        log.cut_after(290)
    assert log.path.read_bytes() == before
    log.cut_after(290)
    assert len(read_metrics(log.path)) == 290


def test_a_refused_write_says_why_and_how_much_room_there_is(tmp_path):
    with full_disk(), pytest.raises(WriteError) as refused:
        save_tensors(tmp_path / "w.safetensors", {"a": torch.zeros(1_000_000)})
    assert refused.value.errno == errno.EFBIG
    needed, free = (float(found.replace(",", "")) for found in re.findall(r"([\d,.]+) MB", str(refused.value)))
    assert needed == 4.0
    assert free == pytest.approx(shutil.disk_usage(tmp_path).free / 1e6, rel=0.02)
    assert "is intact: make room, then run the same command again" in str(refused.value)


@pytest.mark.parametrize(
    ("size", "error", "words"),
    [
        (2_000_000, OSError(errno.EDQUOT, "Disk quota exceeded"), r"exceeded\. It needs 2\.0 MB, and .* make room"),
        (700, OSError(errno.EDQUOT, "Disk quota exceeded"), r"exceeded\. It needs 700 bytes, and .* make room"),
        (9, OSError("it does not answer"), r"a: it does not answer\. What was there before is intact: mend that"),
    ],
    ids=["quota", "quota for a small file", "an error without a number"],
)
def test_other_reasons_why_a_write_is_refused(tmp_path, size, error, words):
    with pytest.raises(WriteError, match=words), replaced(tmp_path / "a", size):
        raise error


def test_the_room_on_a_disk_is_told_where_the_folder_could_not_be_made(tmp_path, monkeypatch):
    """It was said to be 0.0 MB, whatever the reason was."""

    def full(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "mkdir", full)
    with pytest.raises(WriteError, match="No space left on device") as refused:
        save_checkpoint(tmp_path / "none" / "checkpoint", 1, {}, {})
    (free,) = re.findall(r"([\d,.]+) MB", str(refused.value))
    assert float(free.replace(",", "")) == pytest.approx(shutil.disk_usage(tmp_path).free / 1e6, rel=0.02)


def test_json_is_for_people_and_has_no_nan(tmp_path):
    place = tmp_path / "a.json"
    write_json(place, {"τ": [0.1]})
    assert place.read_bytes() == '{\n  "τ": [\n    0.1\n  ]\n}\n'.encode()
    with pytest.raises(ValueError, match="JSON"):
        write_json(place, {"loss": float("nan")})
    assert read_json(place) == {"τ": [0.1]}
    place.write_bytes(b'{"a": "\xff"}')
    with pytest.raises(InputError, match="must be JSON"):
        read_json(place)
    with pytest.raises(InputError, match=r"must hold b\.json: there is none"):
        read_json(tmp_path / "b.json")


def test_a_line_that_was_torn_within_a_letter_is_left_out(tmp_path):
    log = MetricsLog(tmp_path / "metrics.jsonl")
    log.append({"step": 1, "note": "τ"})
    whole = log.path.read_bytes()
    log.append({"step": 2, "note": "τ"})
    torn = log.path.read_bytes()[:-4]  # τ has two bytes, of which one is left
    with pytest.raises(UnicodeDecodeError):
        torn.decode()
    log.path.write_bytes(torn)
    assert read_metrics(log.path) == [{"step": 1, "note": "τ"}]
    log.cut_after(1)
    assert log.path.read_bytes() == whole


@pytest.mark.parametrize("line", ["[1]", "7", "null", '{"step": null}', '{"step": "x"}', '{"step": 1e999}', '{"a": 1}'])
def test_a_line_without_a_step_is_named(tmp_path, line):
    (tmp_path / "m").write_text('{"step": 1}\n' + line + '\n{"step": 3}\n')
    with pytest.raises(InputError, match=r"m, line 2, must be a JSON object with a step"):
        read_metrics(tmp_path / "m")


def test_a_record_without_a_step_is_not_written(tmp_path):
    with pytest.raises(InputError, match=r"must say its step: got the keys \['kind', 'loss'\]"):
        MetricsLog(tmp_path / "m").append({"kind": "train", "loss": 1.0})
    assert not (tmp_path / "m").exists()


def test_where_the_disk_has_no_locks_nobody_is_refused(tmp_path, monkeypatch):
    def no_locks(handle, operation):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", no_locks)
    with only_here(tmp_path / "run"), only_here(tmp_path / "run"):
        assert (tmp_path / "run").is_dir()
    write_atomically(tmp_path / "a", b"written")
    assert (tmp_path / "a").read_bytes() == b"written"


def test_a_folder_is_held_until_its_end_and_no_longer(tmp_path):
    place = tmp_path / "run"
    for _ in range(2):
        with only_here(place), pytest.raises(OptionError, match="another one is at it"), only_here(place):
            pytest.fail("two at once")


def test_a_model_comes_back_with_its_description(tmp_path):
    folder = RunFolder(str(tmp_path))
    shared = torch.arange(6.0).reshape(2, 3)
    save_model(folder, {"dim": 3}, {"a": shared, "tied": shared, "turned": shared.T})
    assert model_description(folder) == {"dim": 3}
    found = load_weights(folder)
    assert all(torch.equal(found[name], tensor) for name, tensor in (("a", shared), ("tied", shared)))
    assert torch.equal(found["turned"], shared.T)
    with safe_open(folder.weights, "pt") as file:
        assert file.metadata() == {"format": "pt"}  # which other libraries ask for
    folder.model.unlink()
    assert load_weights(folder).keys() == found.keys()


def test_weights_are_the_last_file_of_a_model(tmp_path):
    """They are the sign of a run's end: where they cannot be written there is a description, and no end."""
    folder = RunFolder(tmp_path)
    with full_disk(), pytest.raises(WriteError):
        save_model(folder, {"dim": 3}, {"a": torch.zeros(100_000)})
    assert folder.model.exists()
    assert not folder.finished


def test_when_a_run_has_started_and_when_it_has_ended(tmp_path):
    folder = RunFolder(tmp_path)
    folder.metrics.touch()
    assert not folder.started  # it failed before its first line
    folder.metrics.write_text('{"step": 1}\n')
    assert folder.started
    folder.metrics.unlink()
    folder.checkpoint.mkdir()
    assert folder.started
    assert len({folder.embeddings(split) for split in ("train", "validation", "test")}) == 3


class Payload:
    def __reduce__(self):
        return print, ("code of a file was run",)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_no_pickle_is_read_whatever_its_protocol(tmp_path, protocol, capsys):
    content = pickle.dumps(Payload(), protocol=protocol)
    (tmp_path / "w").write_bytes(content)
    # The first two protocols have no mark of their own; to safetensors they are no file of theirs.
    with pytest.raises(InputError, match="it is a pickle" if protocol >= 2 else "whole safetensors file"):
        load_tensors(tmp_path / "w")
    assert "was run" not in capsys.readouterr().out


def test_names_that_do_not_fit_are_counted_to_three():
    module = torch.nn.ModuleDict({name: torch.nn.Linear(1, 1, bias=False) for name in "abcd"})
    whole = {name: torch.full_like(tensor, 2.0) for name, tensor in module.state_dict().items()}
    with pytest.raises(InputError, match=r"\(not in the model: extra\)"):
        load_into(module, {**whole, "extra": torch.zeros(1)}, "w")
    with pytest.raises(InputError, match=r"\(missing: b\.weight, c\.weight, d\.weight\)"):
        load_into(module, {"a.weight": whole["a.weight"]}, "w")
    with pytest.raises(InputError, match=r"\(missing: a\.weight, b\.weight, c\.weight …\)"):
        load_into(module, {}, "w")
    load_into(module, whole, "w")
    assert all(torch.equal(tensor, whole[name]) for name, tensor in module.state_dict().items())


def test_weights_of_as_many_numbers_in_another_shape_do_not_fit():
    with pytest.raises(InputError, match=r"does not fit the model \(of another shape: weight\)"):
        load_into(torch.nn.Linear(3, 5, bias=False), {"weight": torch.zeros(3, 5)}, "weights")


def test_tensors_that_share_memory_come_back_each_for_itself(tmp_path):
    whole = torch.arange(6.0)
    save_tensors(tmp_path / "t.safetensors", {"whole": whole, "same": whole, "part": whole[2:4]})
    found = load_tensors(tmp_path / "t.safetensors")
    assert {name: tensor.tolist() for name, tensor in found.items()} == {
        "whole": [0, 1, 2, 3, 4, 5], "same": [0, 1, 2, 3, 4, 5], "part": [2, 3]
    }  # fmt: skip
