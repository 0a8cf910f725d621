"""Links among class folders: followed, each folder once, and named where they lead nowhere."""

import os

import pytest

from data_files import write_images
from sincere.data import class_folders, open_data, read_data
from sincere.errors import InputError


@pytest.fixture
def pets(tmp_path):
    write_images(tmp_path / "pets", {"cat": 3, "dog": 3})
    write_images(tmp_path / "more", {"cats": 4})
    return tmp_path / "pets"


def counts(data):
    return dict(zip(data.class_names, data.class_counts().tolist(), strict=True))


def test_images_behind_links_are_read(pets):
    (pets / "cat" / "extra").symlink_to(pets.parent / "more" / "cats")
    (pets / "dog" / "one.png").symlink_to(pets.parent / "more" / "cats" / "0.png")
    (pets / "bird").symlink_to(pets.parent / "more")  # as a class, with a folder in it
    data, notes = read_data(pets)
    assert counts(data) == {"bird": 4, "cat": 7, "dog": 4}
    assert notes == ()
    assert str(pets / "cat" / "extra" / "3.png") in data.shown


def test_links_in_a_ring_end(pets):
    inner = pets / "cat" / "young"
    write_images(inner, {"white": 2})
    (inner / "ring").symlink_to(pets / "cat")
    (inner / "all").symlink_to(pets)  # a folder above the classes: its other classes are no cats
    (inner / "itself").symlink_to(".")
    (pets / "cat" / "a").symlink_to(inner / "white")  # by its own name it comes later, and under that it is kept
    for name in ("b", "c"):
        (pets / "cat" / name).symlink_to(pets.parent / "more" / "cats")  # one folder twice
    data, _ = read_data(pets)
    assert counts(data) == {"cat": 3 + 2 + 4, "dog": 3}
    folders = {os.path.relpath(os.path.dirname(path), pets) for path in data.shown}
    assert folders == {"cat", "cat/b", "cat/young/white", "dog"}


def test_hidden_links_are_left_alone(pets):
    (pets / "cat" / ".extra").symlink_to(pets.parent / "more" / "cats")
    (pets / "cat" / ".gone.png").symlink_to("nowhere")
    assert counts(read_data(pets)[0]) == {"cat": 3, "dog": 3}


@pytest.mark.parametrize("place", ["cat/gone.png", "cat/extra", "bird"])
def test_links_that_lead_nowhere_are_unreadable(pets, place):
    """A file, a folder of a class, a class: on a disk that is not there one looks like the other."""
    (pets / place).symlink_to("/no/such/place")
    with pytest.raises(InputError, match=rf"1 of 7 are not: \S*pets/{place} \(a link to /no/such/place, where nothing"):
        open_data(pets)
    data, notes = read_data(pets, unreadable="skip")
    assert counts(data) == {"cat": 3, "dog": 3}
    assert f"1 of 7 files were skipped: {pets / place} (a link to /no/such/place" in notes[-1]


def test_a_link_to_itself_is_unreadable(pets):
    (pets / "cat" / "self.png").symlink_to("self.png")
    with pytest.raises(InputError, match=r"1 of 7 are not: \S*self\.png \(a link to self\.png, where nothing is"):
        open_data(pets)


def test_a_folder_that_is_closed_is_unreadable(pets, monkeypatch):
    closed = pets / "cat" / "closed"
    write_images(closed, {"white": 2})
    entries = class_folders._entries

    def of_open_folders(folder):
        if folder == closed:
            raise PermissionError(13, "Permission denied", str(folder))
        return entries(folder)

    monkeypatch.setattr(class_folders, "_entries", of_open_folders)  # root may enter every folder
    with pytest.raises(InputError, match=r"1 of 7 are not: \S*cat/closed"):
        open_data(pets)


def test_files_beside_the_classes_are_named(pets):
    (pets / "README.md").write_text("pets")
    (pets / "gone.txt").symlink_to("nowhere")
    (pets / ".DS_Store").write_text("")
    notes = read_data(pets)[1]
    assert notes == (
        f"2 files of {pets} are no image files and were left out: {pets / 'README.md'}, {pets / 'gone.txt'}.",
    )
