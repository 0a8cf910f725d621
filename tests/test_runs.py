"""What a run leaves on disk: whole or not at all, readable by people, and never a pickle."""

import json
import pickle
import resource
import shutil
import signal
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from sincere.errors import InputError
from sincere.runs import (
    MetricsLog,
    RunFolder,
    WriteError,
    load_tensors,
    newest_checkpoint,
    newest_step,
    provenance,
    read_json,
    read_metrics,
    save_checkpoint,
    save_tensors,
    write_json,
)
from sincere.runs.tensor_files import load_into


@pytest.fixture
def small_disk():
    """Files cannot grow beyond 100 kB, as on a disk that is full: the system itself refuses to write."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    signal.signal(signal.SIGXFSZ, before)


def test_a_checkpoint_comes_back_and_replaces_the_one_before(tmp_path):
    channels_last = torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last)
    tensors = {
        "a": channels_last,
        "b": torch.arange(3),
        "half": torch.ones(2, dtype=torch.bfloat16),
        "s": torch.tensor(2.5),
    }
    assert newest_checkpoint(tmp_path / "c") is None
    save_checkpoint(tmp_path / "c", 5, {"old": torch.zeros(1)}, {"epoch": 0})
    save_checkpoint(tmp_path / "c", 12, tensors, {"epoch": 1, "meter": {"loss": 0.1}})
    assert [place.name for place in (tmp_path / "c").iterdir()] == ["step-000000012"]
    found = newest_checkpoint(tmp_path / "c")
    assert found.step == newest_step(tmp_path / "c") == 12
    assert found.state["meter"] == {"loss": 0.1}
    assert found.tensors.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert torch.equal(found.tensors[name], tensor)
        assert found.tensors[name].dtype == tensor.dtype
    assert load_file(tmp_path / "c" / "step-000000012" / "tensors.safetensors").keys() == tensors.keys()


def test_an_unfinished_checkpoint_is_not_one(tmp_path):
    save_checkpoint(tmp_path, 3, {"a": torch.ones(2)}, {})
    (tmp_path / "step-000000009.unfinished").mkdir()
    (tmp_path / "step-000000009.unfinished" / "state.json").write_text("{")
    assert newest_checkpoint(tmp_path).step == 3
    save_checkpoint(tmp_path, 4, {"a": torch.ones(2)}, {})
    assert [place.name for place in tmp_path.iterdir()] == ["step-000000004"]


def test_of_several_checkpoints_the_newest_counts(tmp_path):
    """As a process leaves them that is killed between writing one and deleting those before; in any order on disk."""
    steps = [999_999_999, 7, 1_000_000_000, *range(100, 130)]
    for step in steps:
        save_checkpoint(tmp_path / str(step), step, {"a": torch.full((2,), float(step))}, {})
        shutil.copytree(tmp_path / str(step), tmp_path / "all", dirs_exist_ok=True)
    assert newest_step(tmp_path / "all") == newest_checkpoint(tmp_path / "all").step == 1_000_000_000
    assert newest_checkpoint(tmp_path / "all").tensors["a"][0] == 1e9
    shutil.rmtree(tmp_path / "all" / "step-1000000000")
    assert newest_step(tmp_path / "all") == 999_999_999
    save_checkpoint(tmp_path / "all", 1_000_000_001, {}, {})
    assert [place.name for place in (tmp_path / "all").iterdir()] == ["step-1000000001"]


def test_a_full_disk_leaves_the_old_checkpoint(tmp_path, small_disk):
    save_checkpoint(tmp_path, 3, {"a": torch.ones(2)}, {"epoch": 1})
    with pytest.raises(WriteError, match=r"could not write .*step-000000004.*It needs 0.4 MB.*intact.*resume"):
        save_checkpoint(tmp_path, 4, {"a": torch.ones(100_000)}, {})
    assert [place.name for place in tmp_path.iterdir()] == ["step-000000003"]
    assert newest_checkpoint(tmp_path).state["epoch"] == 1
    save_tensors(tmp_path / "w.safetensors", {"a": torch.zeros(3)})
    with pytest.raises(WriteError):
        save_tensors(tmp_path / "w.safetensors", {"a": torch.zeros(100_000)})
    assert torch.equal(load_tensors(tmp_path / "w.safetensors")["a"], torch.zeros(3))
    assert not list(tmp_path.glob("*.unfinished"))


class Payload:
    def __reduce__(self):
        return print, ("code of a checkpoint was run",)


@pytest.mark.parametrize("write", ["pickle", "torch.save", "old torch.save"])
def test_a_pickle_is_refused_and_its_code_not_run(tmp_path, write, capsys):
    save_checkpoint(tmp_path, 3, {"a": torch.ones(2)}, {})
    path = tmp_path / "step-000000003" / "tensors.safetensors"
    if write == "pickle":
        path.write_bytes(pickle.dumps(Payload()))
    else:
        torch.save({"a": Payload()}, path, _use_new_zipfile_serialization=write == "torch.save")
    with pytest.raises(InputError, match="it is a pickle"):
        newest_checkpoint(tmp_path)
    with pytest.raises(InputError, match="it is a pickle"):
        load_tensors(path)
    assert "was run" not in capsys.readouterr().out


def test_damage_is_noticed(tmp_path):
    save_checkpoint(tmp_path, 3, {"a": torch.ones(200)}, {})
    path = tmp_path / "step-000000003" / "tensors.safetensors"
    content = path.read_bytes()
    path.write_bytes(content[:-9] + b"123456789")
    with pytest.raises(InputError, match=r"not what state\.json beside it describes"):
        newest_checkpoint(tmp_path)
    path.write_bytes(content[:-9])
    with pytest.raises(InputError, match="whole safetensors file"):
        newest_checkpoint(tmp_path)


@pytest.mark.parametrize("damage", ["no state", "empty state", "torn state", "no tensors", "empty tensors", "a file"])
def test_a_checkpoint_that_is_not_whole_is_refused_with_what_to_do(tmp_path, damage):
    """As an interrupted copy leaves it; the one before is still there, and the run goes on from it."""
    save_checkpoint(tmp_path, 3, {"a": torch.ones(200)}, {"epoch": 0})
    newer, what = tmp_path / "step-000000009", damage.split()[-1]
    if what == "file":
        newer.touch()
    else:
        shutil.copytree(tmp_path / "step-000000003", newer)
        place = newer / {"state": "state.json", "tensors": "tensors.safetensors"}[what]
        place.unlink() if damage.startswith("no") else place.write_text("" if "empty" in damage else '{"epoch"')
    advice = r"step-000000009 must be a whole checkpoint: .* Restore that folder from a copy, or delete it"
    with pytest.raises(InputError, match=advice):
        newest_checkpoint(tmp_path)
    newer.unlink() if what == "file" else shutil.rmtree(newer)
    assert newest_checkpoint(tmp_path).step == 3


def test_weights_that_do_not_fit(tmp_path):
    linear = torch.nn.Linear(2, 3)
    with pytest.raises(InputError, match=r"missing: bias; not in the model: extra; of another shape: weight"):
        load_into(linear, {"weight": torch.zeros(3, 3), "extra": torch.zeros(1)}, tmp_path / "w")


def test_metrics_are_cut_to_the_checkpoint_and_torn_lines_dropped(tmp_path):
    log = MetricsLog(tmp_path / "metrics.jsonl")
    for step in (1, 2, 2, 3):
        log.append({"kind": "train", "step": step, "loss": 1 / step})
    with open(log.path, "a") as file:
        file.write('{"kind": "train", "ste')
    assert [record["step"] for record in read_metrics(log.path)] == [1, 2, 2, 3]
    log.cut_after(2)
    assert [record["step"] for record in read_metrics(log.path)] == [1, 2, 2]
    assert read_metrics(log.path)[1]["loss"] == 0.5
    log.path.write_text('{"kind": "train"}\n')
    with pytest.raises(InputError, match="line 1"):
        read_metrics(log.path)


def test_metrics_refuse_what_json_has_no_word_for(tmp_path):
    with pytest.raises(ValueError, match="JSON"):
        MetricsLog(tmp_path / "m").append({"step": 1, "loss": float("nan")})


def test_json_files(tmp_path):
    write_json(tmp_path / "a.json", {"τ": 0.1})
    assert read_json(tmp_path / "a.json") == {"τ": 0.1}
    (tmp_path / "a.json").write_text("[1]")
    with pytest.raises(InputError, match="JSON object"):
        read_json(tmp_path / "a.json")


def test_the_folder_explains_every_file_it_names(tmp_path):
    folder = RunFolder(tmp_path / "new" / "run")
    folder.create()
    text = folder.readme.read_text()
    for place in (folder.config, folder.provenance, folder.metrics, folder.checkpoint, folder.weights, folder.model):
        assert place.name in text
    for place in (folder.evaluation, folder.tensorboard, folder.embeddings("train").parent):
        assert place.name in text
    assert not folder.started


def test_provenance_outside_of_git(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    monkeypatch.setattr(sys, "orig_argv", ["/bin/python3", "-m", "sincere", "train", "my data.csv"])
    found = json.loads(json.dumps(provenance(seed=7)))
    assert found["commit"] is None
    assert found["seed"] == 7
    assert found["command"] == "python3 -m sincere train 'my data.csv'"
    assert found["versions"]["torch"] == torch.__version__


def test_provenance_names_an_installed_script_as_people_type_it(monkeypatch):
    script = str(Path(sys.executable).parent / "sincere")
    monkeypatch.setattr(sys, "orig_argv", [sys.executable, script, "reproduce", "table-2"])
    assert provenance(seed=0)["command"] == "sincere reproduce table-2"
    monkeypatch.setattr(sys, "orig_argv", ["/usr/bin/python3", "train.py"])
    assert provenance(seed=0)["command"] == "python3 train.py"


def test_provenance_in_a_repository(tmp_path, monkeypatch):
    def git(*arguments):
        command = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-C", str(tmp_path), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    git("init")
    (tmp_path / "x").write_text("1")
    git("add", "x")
    git("commit", "-m", "one")
    monkeypatch.chdir(tmp_path)
    commit = git("rev-parse", "HEAD")
    assert provenance(seed=0)["commit"] == commit
    git("tag", "-a", "v1", "-m", "a name that describes it, and moves")
    found = provenance(seed=0)
    assert found["commit"] == commit
    assert found["sincere_commit"] != commit  # of the library, wherever it is used
    (tmp_path / "x").write_text("2")
    assert provenance(seed=0)["commit"] == commit + "+"


def test_provenance_inside_of_another_program(monkeypatch):
    """Python in R or Julia was started by no command: a run could not even begin there."""
    monkeypatch.setattr(sys, "orig_argv", [])
    assert provenance(seed=0)["command"] == "python"
    monkeypatch.setattr(sys, "orig_argv", ["R", "train.R"])
    monkeypatch.setattr(sys, "executable", None)
    assert provenance(seed=0)["command"] == "R train.R"


def test_provenance_says_when_and_where():
    found = provenance(seed=0)
    started = datetime.fromisoformat(found["started"])
    assert started.utcoffset() == timedelta(0)
    assert abs(datetime.now(UTC) - started) < timedelta(minutes=5)
    information = Path("/proc/cpuinfo")
    lines = information.read_text().splitlines() if information.exists() else []
    names = {line.partition(":")[2].strip() for line in lines if line.startswith("model name")}
    assert not names or found["hardware"]["processor"] in names


class Killed(BaseException):
    """What a SIGKILL would be, at a moment of our choosing."""


TOUCHES = ("open", "os.rename", "os.mkdir", "os.remove", "os.rmdir", "shutil.rmtree", "os.listdir", "os.scandir")
KILL_AT: list[int] = []  # the one audit hook of the process counts this down; hooks cannot be taken off


def count_down(event, _):
    if KILL_AT and event in TOUCHES:
        KILL_AT[0] -= 1
        if KILL_AT[0] == 0:
            KILL_AT.clear()
            raise Killed


sys.addaudithook(count_down)


@pytest.mark.parametrize("second", [6, 3], ids=["a later step", "the same step"])
def test_there_is_a_whole_checkpoint_whenever_it_is_killed(tmp_path, second):
    """Killed at every single touch of the disk, one after another."""
    for moment in range(1, 100):
        folder = tmp_path / str(moment)
        save_checkpoint(folder, 3, {"a": torch.full((4,), 3.0)}, {})
        KILL_AT.append(moment)
        try:
            save_checkpoint(folder, second, {"a": torch.full((4,), float(second))}, {})
        except Killed:
            finished = False
        else:
            finished = True
        finally:
            KILL_AT.clear()  # whatever went wrong: the next touch of the disk would be the test runner's
        found = newest_checkpoint(folder)
        assert found.step in (3, second)
        assert found.tensors["a"].tolist() == [found.step] * 4
        if finished:
            return
        save_checkpoint(folder, 9, {"a": torch.zeros(4)}, {})
        assert [place.name for place in folder.iterdir()] == ["step-000000009"]
    pytest.fail("it never came to its end")


def test_metrics_may_hold_any_text(tmp_path):
    """U+2028 ends a line for Python, and not for JSON."""
    log = MetricsLog(tmp_path / "metrics.jsonl")
    log.append({"step": 1, "note": "one\u2028two\x85three"})
    log.append({"step": 2})
    assert read_metrics(log.path) == [{"step": 1, "note": "one\u2028two\x85three"}, {"step": 2}]
