"""What the command line prints names options as they are typed there; what Python raises names them as Python does."""

import ast
import re
import warnings
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from command_line import FAST, blobs, call, refused
from sincere.cli.app import verb_called
from sincere.cli.hints import as_typed, flags_of
from sincere.cli.notes import warnings_as_notes
from sincere.data import open_data
from sincere.data.options import DataOptions
from sincere.errors import OptionError
from sincere.train import TrainConfig

SOURCE = Path(__file__).parent.parent / "src" / "sincere"
OF_TRAIN = flags_of(verb_called("train"))
OF_EMBED = flags_of(verb_called("embed"))


@pytest.fixture
def photos(tmp_path, monkeypatch):
    """Squares of 8 and of 12 pixels, of two classes; the current folder holds them."""
    random = np.random.default_rng(0)
    for number in range(30):
        place = tmp_path / "photos" / ("dark", "light")[number % 2]
        place.mkdir(parents=True, exist_ok=True)
        side = 12 if number % 5 == 0 else 8
        pixels = random.integers(0, 128, (side, side)) + 127 * (number % 2)
        Image.fromarray(pixels.astype(np.uint8)).save(place / f"{number}.png")
    monkeypatch.chdir(tmp_path)
    return tmp_path / "photos"


def test_a_note_names_the_flag_on_the_terminal_and_the_option_in_python(photos):
    (noted,) = (note for note in open_data(photos).note if "scaled" in note)
    assert "; the option image_size chooses another." in noted
    told = call("train", photos, "--epochs", "1", "--batch", "16", "--device", "cpu", "--out", "run").stderr
    (line,) = (line for line in told.splitlines() if line.startswith("note: ") and "scaled" in line)
    assert line.endswith("; --image-size chooses another.")


@pytest.mark.parametrize(
    ("words", "subject"),
    [
        (("--dim", "0"), "--dim must be at least 1: got 0."),
        (("--batch", "1"), "--batch must be at least 4"),
        (("--optimizer", "rprop"), "--optimizer must be one of 'sgd'"),
        (("--temperature", "-1"), "--temperature must be positive"),
        (("--image-size", "0"), "--image-size must be a whole number"),
        (("--device", "tpu"), "--device must be 'auto'"),
        (("--set", "head.hidden=0"), "head.hidden must be at least 1"),
        (("--set", "encoder.options.width=0"), "encoder.options.width must be a whole number"),
        (("--set", "loss.options.reduction=none"), "loss.options.reduction must be one of 'mean'"),
        (("--set", "data.test_share=0"), "data.test_share must be above 0"),
        (("--set", "data.options.words=0"), "data.options.words must be a whole number"),
        (("--set", "schedule.end_lr=9"), "schedule.warmup_start_lr and schedule.end_lr must not exceed --lr, 0.5"),
    ],
    ids=lambda value: value[-1] if isinstance(value, tuple) else "",
)
def test_train_refuses_in_the_words_that_were_typed(words, subject, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert refused("train", blobs(tmp_path / "blobs.npz"), *words, "--out", "run").startswith(f"error: {subject}")


def test_so_do_other_verbs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert refused("bench", "--dim", "1") == "error: --dim must be an integer, at least 2: got 1."
    assert refused("report", "run", "--out", "page.txt").startswith("error: ")
    call("train", blobs(tmp_path / "blobs.npz"), *FAST, "--out", "run")
    again = refused("train", "blobs.npz", "--out", "run")
    assert again == "error: run holds a run already: choose another folder, or resume it: --resume RUN."
    assert "(--lr: " in refused("train", "--resume", "run", "--lr", "7")
    assert refused("evaluate", "run", "--probe-views", "-1").startswith("error: --probe-views must be at least 0")
    assert refused("report", "run", "--out", "page.txt") == "error: --out must end in .html: got page.txt."


def test_python_keeps_its_names(photos):
    with pytest.raises(OptionError, match=r"^image_size must be a whole number"):
        open_data(photos, image_size=0)
    with pytest.raises(OptionError, match=r"^head: dim must be at least 1"):
        TrainConfig.from_json({"head": {"dim": 0}})


@pytest.mark.parametrize(
    ("words", "typed"),
    [
        ("hole={'pixels': 3}, or hole=False.", "--set views.options.hole.pixels=3, or --set views.options.hole=false."),
        ("resume it: resume=True.", "resume it: --resume RUN."),
        ("Set head.dim.", "Set --dim."),
        ("test='my data'", "--test 'my data'"),
        ("labels must be whole numbers", "labels must be whole numbers"),
        ("data must be digits or a file", "data must be digits or a file"),
        ("In proportion: --set schedule.warmup_epochs=0.2", "In proportion: --set schedule.warmup_epochs=0.2"),
        ("there is no runs/seed=3/x.csv, 'image_size'", "there is no runs/seed=3/x.csv, 'image_size'"),
        ("pass views=model.embed_views(data)", "pass views=model.embed_views(data)"),
        ("optimizer: nesterov is of sgd and muon", "optimizer.nesterov is of sgd and muon"),
        ("loss: unknown option 'seed'.", "loss: unknown option 'seed'."),
    ],
)
def test_which_words_are_options(words, typed):
    assert as_typed(words, OF_TRAIN) == typed


def test_what_a_verb_does_not_take_stays():
    assert as_typed("the option words keeps more; unreadable='skip'", OF_EMBED) == (
        "the option words keeps more; --unreadable skip"
    )


def test_our_warnings_are_notes_and_others_stay_warnings(capsys):
    def warn(words: str, file: str) -> None:
        with warnings_as_notes(OF_TRAIN):
            warnings.warn_explicit(words, RuntimeWarning, file, 3)

    with pytest.warns(RuntimeWarning, match="theirs"):
        warn("theirs", "elsewhere.py")
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warn("compute.compile='graphs': no", str(SOURCE / "train" / "x.py"))
    assert capsys.readouterr().err == "note: --set compute.compile=graphs: no\n"


def sentences(path: Path) -> list[str]:
    """Every string of a file with a space in it, values as …; without docstrings."""
    tree = ast.parse(path.read_text())
    passed_over = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    passed_over |= {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    found = []
    for node in ast.walk(tree):
        if id(node) in passed_over:
            continue
        if isinstance(node, ast.JoinedStr):
            found.append("".join(one.value if isinstance(one, ast.Constant) else "…" for one in node.values))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.append(node.value)
    return [text for text in found if " " in text]


def test_no_sentence_about_data_leaves_a_name_of_python():
    """However it is put, `sincere train` must find the option in it: nobody types image_size there."""
    names = "|".join(name for name in DataOptions.__annotations__ if "_" in name)
    named = re.compile(rf"(?<![\w.])({names})\b")
    texts = [text for path in (SOURCE / "data").glob("*.py") for text in sentences(path) if named.search(text)]
    assert len(texts) > 10
    assert not [typed for typed in (as_typed(text, OF_TRAIN) for text in texts) if named.search(typed)]
