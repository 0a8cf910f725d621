"""Ctrl-C at any moment of a command: a line and 130, never a traceback."""

import os
import subprocess
import sys

import pytest

SCRIPT = "import sys\nfrom sincere.cli import main\nsys.exit(main())\n"  # what an installer writes
# Presses Ctrl-C when a module is about to be imported, or when Python is about to end.
PRESSING = """
import atexit, os, signal, sys
moment = os.environ["MOMENT"]
def press(*_):
    os.kill(os.getpid(), signal.SIGINT)
def watch(event, values):
    if event == "import" and values[0] == moment:
        press()
# Said in any case: whoever runs the tests in the background may have them ignore it.
signal.signal(signal.SIGINT, signal.SIG_IGN if os.environ.get("IGNORED") else signal.default_int_handler)
atexit.register(press) if moment == "the end" else sys.addaudithook(watch)
"""


def pressed(moment, folder, *words, **environment):
    (folder / "sitecustomize.py").write_text(PRESSING)
    (folder / "sincere").write_text(SCRIPT)
    known = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(folder), "MOMENT": moment, **environment}
    command = [sys.executable, *(words or (str(folder / "sincere"),)), "recipes"]
    return subprocess.run(command, env=known, capture_output=True, text=True, timeout=300, check=False)


WAYS = {"script": (), "module": ("-m", "sincere")}


@pytest.mark.parametrize(
    ("moment", "way"),
    [
        ("torch", "script"),
        ("numpy", "script"),
        ("sincere.cli.refusals", "script"),
        ("torch", "module"),
        ("typer", "module"),
    ],
)
def test_while_the_command_is_imported(moment, way, tmp_path):
    found = pressed(moment, tmp_path, *WAYS[way])
    assert (found.returncode, found.stdout, found.stderr) == (130, "", "error: interrupted.\n")


@pytest.mark.parametrize("way", WAYS)
def test_when_all_is_told(way, tmp_path):
    found = pressed("the end", tmp_path, *WAYS[way])
    assert (found.returncode, found.stderr) == (130, "error: interrupted.\n")
    assert "letter" in found.stdout


def test_a_command_that_shall_not_hear_it_goes_on(tmp_path):
    found = pressed("typer", tmp_path, IGNORED="1")
    assert (found.returncode, found.stderr) == (0, "")
    assert "letter" in found.stdout


def test_importing_the_library_leaves_signals_alone(tmp_path):
    code = (
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler);"
        "import sincere.functional, sincere.cli;"
        "print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=True)
    assert found.stdout == "True\n"


def test_the_command_is_there_before_torch():
    code = "import sys, sincere.cli; print(*{'torch', 'numpy', 'typer'} & set(sys.modules))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=True)
    assert found.stdout == "\n"
