"""What a report writes into a run, and what it says of what it could not write."""

import json
import os
import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from command_line import FAST, blobs, done, parsed
from sincere.cli import report
from sincere.evaluate import Evaluation
from sincere.geometry import Geometry
from sincere.report import keep_records, read_subject, write_report, writing
from sincere.report.subject import subject_of
from sincere.runs import RunFolder, WriteError, files
from sincere.runs.files import not_kept


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    """A short run with an evaluation and a geometry, which every test copies."""
    folder = tmp_path_factory.mktemp("runs")
    done("train", blobs(folder / "blobs.npz"), *FAST, "--out", folder / "run", "--quiet")
    assert keep_records(read_subject(folder / "run")) == {}
    return folder / "run"


@pytest.fixture
def run(original, tmp_path):
    return RunFolder(shutil.copytree(original, tmp_path / "run"))


@pytest.fixture
def written(monkeypatch):
    """How often each file was written, through the one function that all writing of files goes through."""
    counts, write = Counter(), files.write_durably

    def counting(path, content):
        counts[path.name.removesuffix(files.TEMPORARY)] += 1
        write(path, content)

    monkeypatch.setattr(files, "write_durably", counting)
    return counts


@pytest.fixture
def quick_page(monkeypatch):
    """The page of `sincere report` without its pictures, which take their time."""

    def page(subjects, place, **more):
        files.write_atomically(Path(place), subjects[0].name.encode())
        return Path(place)

    monkeypatch.setattr(report, "write_report", page)


@pytest.fixture
def quick_pictures(monkeypatch):
    """The real `write_report`, with the panel of each run left blank."""
    monkeypatch.setattr(
        writing, "_panel", lambda writer, subject, number: writing.Panel(subject.name, ("overview",), "")
    )


def forbid(monkeypatch, folder, *, names=None, reason="Permission denied", number=13):
    """Nothing, or nothing of these names, can be written within a folder."""
    turn = files._turn  # the first that touches a folder

    def forbidding(beside):
        if beside.is_relative_to(folder) and (names is None or beside.name.removesuffix(files.TEMPORARY) in names):
            raise OSError(number, reason, str(beside))
        return turn(beside)

    monkeypatch.setattr(files, "_turn", forbidding)


def outdate(run: RunFolder) -> None:
    """Leave a geometry of other samples."""
    document = json.loads(run.geometry.read_text())
    document["samples"] += 1
    document["uniformity"] = -123.0
    run.geometry.write_text(json.dumps(document))


def state(folder: Path) -> dict[str, tuple[int, int, bytes]]:
    """Everything in a folder: when it changed last, which file it is, what is in it."""
    found = {}
    for place in [folder, *folder.rglob("*")]:
        about = place.stat()
        content = b"" if place.is_dir() else place.read_bytes()
        found[str(place.relative_to(folder))] = (about.st_mtime_ns, about.st_ino, content)
    return found


@pytest.mark.parametrize("case", ["both there", "neither", "no evaluation", "no geometry", "outdated geometry"])
def test_reading_leaves_a_run_untouched_and_keeping_writes_what_it_lacked(run, case, written):
    truth = Geometry.from_json(run.geometry.read_text())
    expected = {
        "both there": (),
        "neither": (run.evaluation, run.geometry),
        "no evaluation": (run.evaluation,),
        "no geometry": (run.geometry,),
        "outdated geometry": (run.geometry,),
    }[case]
    if case == "outdated geometry":
        outdate(run)
    else:
        for place in expected:
            place.unlink()
    before = state(run.path)
    subject = read_subject(run.path)
    assert state(run.path) == before
    assert tuple(subject.unkept) == expected
    assert subject.geometry == truth
    assert not written

    assert keep_records(subject) == {}
    assert written == Counter(place.name for place in expected)
    after = state(run.path)
    names = {place.name for place in expected}
    assert {name for name in after if name != "." and after[name] != before.get(name)} == names
    assert Geometry.from_json(run.geometry.read_text()) == truth
    assert Evaluation.from_json(run.evaluation.read_text()) == subject.evaluation
    assert not read_subject(run.path).unkept


def test_what_is_kept_bears_the_name_of_the_run(run):
    run.evaluation.unlink()
    subject = read_subject(run.path)
    keep_records(replace(subject, name="run (2)", evaluation=replace(subject.evaluation, name="run (2)")))
    assert Evaluation.from_json(run.evaluation.read_text()).name == "run", "not what a page calls it beside another"


def test_nothing_is_kept_of_embeddings_without_a_run(tmp_path, original):
    test = read_subject(original).test
    assert keep_records(subject_of(test)) == {}
    test.save(tmp_path / "rows.npz")
    subject = read_subject(tmp_path / "rows.npz")
    assert not subject.unkept
    assert keep_records(subject) == {}
    assert [place.name for place in tmp_path.iterdir()] == ["rows.npz"]


def test_what_is_refused_is_returned_and_leaves_what_was_there(run, monkeypatch):
    run.evaluation.unlink()
    outdate(run)
    before, subject = state(run.path), read_subject(run.path)
    with monkeypatch.context() as patch:
        forbid(patch, run.path, names={"geometry.json"}, number=28, reason="No space left on device")
        refused = keep_records(subject)
    assert list(refused) == [run.geometry]
    assert isinstance(refused[run.geometry], WriteError)
    after = state(run.path)
    assert after.keys() - before.keys() == {"evaluation.json"}
    assert after["geometry.json"] == before["geometry.json"]
    assert not_kept(refused) == [f"geometry.json could not be kept in {run.path}: No space left on device."]


def test_the_sentences_of_several_runs_and_reasons():
    full, forbidden = OSError(28, "No space left on device"), PermissionError(13, "Permission denied")
    explained = WriteError(13, "could not write a/geometry.json: and so on, at length")
    explained.__cause__ = forbidden
    a, b = RunFolder(Path("a")), RunFolder(Path("b"))
    assert not_kept({}) == []
    refused = {a.evaluation: full, a.geometry: explained, a.report: forbidden, b.geometry: OSError("as it is")}
    assert not_kept(refused) == [
        "evaluation.json could not be kept in a: No space left on device.",
        "geometry.json, report.html could not be kept in a: Permission denied.",
        "geometry.json could not be kept in b: as it is.",
    ]


def test_the_command_keeps_once_what_was_missing(run, tmp_path, written, quick_page):
    run.evaluation.unlink()
    run.geometry.unlink()
    told = done("report", run.path, run.path, "--out", tmp_path / "page.html")
    assert told.stderr == ""
    assert written == {"evaluation.json": 1, "geometry.json": 1, "page.html": 1}, "also of a run that is named twice"
    before = state(run.path)
    assert done("report", run.path, "--out", tmp_path / "page.html").stderr == ""
    assert written == {"evaluation.json": 1, "geometry.json": 1, "page.html": 2}
    assert state(run.path) == before


def test_the_command_replaces_an_outdated_geometry(run, written, quick_page):
    truth = run.geometry.read_text()
    outdate(run)
    evaluation = state(run.path)["evaluation.json"]
    assert done("report", run.path).stderr == ""
    assert run.geometry.read_text() == truth
    assert written == {"geometry.json": 1, "report.html": 1}
    assert state(run.path)["evaluation.json"] == evaluation


def test_the_command_says_that_an_outdated_geometry_stays(run, tmp_path, monkeypatch, quick_page):
    outdate(run)
    before = state(run.path)
    forbid(monkeypatch, run.path)
    monkeypatch.chdir(tmp_path)
    told = done("report", run.path)
    assert told.stderr == f"note: geometry.json, report.html could not be kept in {run.path}: Permission denied.\n"
    assert (tmp_path / "run-report.html").read_text() == "run"
    told = done("report", run.path, "--out", tmp_path / "page.html")
    assert told.stderr == f"note: geometry.json could not be kept in {run.path}: Permission denied.\n"
    summary = parsed("report", run.path, "--out", tmp_path / "page.html")["summary"]["run"]
    assert summary == [*(found := read_subject(run.path)).evaluation.summary, *found.geometry.summary]
    assert found.geometry.uniformity != -123.0
    assert state(run.path) == before


def test_two_runs_one_of_which_may_only_be_read(run, tmp_path, monkeypatch, quick_page):
    other = RunFolder(shutil.copytree(run.path, tmp_path / "other"))
    for one in (run, other):
        one.geometry.unlink()
    forbid(monkeypatch, other.path)
    told = done("report", run.path, other.path, "--out", tmp_path / "page.html")
    assert told.stderr == f"note: geometry.json could not be kept in {other.path}: Permission denied.\n"
    assert run.geometry.exists()
    assert not other.geometry.exists()


def test_records_outlive_a_page_that_fails(run, tmp_path, monkeypatch):
    run.evaluation.unlink()
    run.geometry.unlink()

    def failing(*subjects, **options):
        raise ArithmeticError("of a picture")

    monkeypatch.setattr(report, "write_report", failing)
    with pytest.raises(ArithmeticError):
        done("report", run.path)
    assert not read_subject(run.path).unkept


def test_write_report_keeps_the_records_of_a_folder_and_none_of_a_subject(run, tmp_path, written, quick_pictures):
    run.geometry.unlink()
    before = state(run.path)
    write_report(read_subject(run.path), tmp_path / "page.html")
    assert state(run.path) == before
    write_report(run.path, tmp_path / "page.html")
    write_report([str(run.path)], tmp_path / "page.html")
    assert written == {"page.html": 3, "geometry.json": 1}
    assert not read_subject(run.path).unkept


def test_write_report_warns_of_what_could_not_be_kept(run, tmp_path, monkeypatch, quick_pictures):
    outdate(run)
    forbid(monkeypatch, run.path)
    words = f"geometry.json could not be kept in {run.path}: Permission denied."
    with pytest.warns(UserWarning, match="could not be kept") as seen:
        page = write_report(run.path, tmp_path / "page.html")
    assert [str(one.message) for one in seen] == [words]
    assert seen[0].filename == __file__, "the caller's line, not ours"
    assert page.is_file()


def test_a_folder_that_the_system_protects(run, tmp_path, monkeypatch, quick_page):
    run.evaluation.unlink()
    outdate(run)
    before = state(run.path)
    monkeypatch.chdir(tmp_path)
    run.path.chmod(0o555)
    try:
        if os.access(run.path, os.W_OK):
            pytest.skip("who runs this, as root does, may write anywhere")
        told = done("report", run.path)
        assert state(run.path) == before
    finally:
        run.path.chmod(0o755)
    files_refused = "evaluation.json, geometry.json, report.html"
    assert told.stderr == f"note: {files_refused} could not be kept in {run.path}: Permission denied.\n"


def test_compare_keeps_a_missing_evaluation_once(run, tmp_path, written):
    other = RunFolder(shutil.copytree(run.path, tmp_path / "other"))
    other.evaluation.unlink()
    assert done("compare", run.path, other.path).stderr == ""
    assert written == {"evaluation.json": 1}
    found, known = (Evaluation.from_json(one.evaluation.read_text()) for one in (other, run))
    assert (found.name, found.labels) == ("other", known.labels)
