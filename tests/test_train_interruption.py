"""Signals while a run listens: the first is remembered, the second leaves, and all handlers are put back."""

import signal
import subprocess
import sys
import threading

import pytest

from sincere.train.interruption import ECHO_SECONDS, Interruption

BOTH = (signal.SIGINT, signal.SIGTERM)


def handlers():
    return [signal.getsignal(number) for number in BOTH]


@pytest.fixture
def own():
    """Handlers of the caller's own, which note what they hear; those of the test runner come back afterwards."""
    before, heard = handlers(), []
    for number in BOTH:
        signal.signal(number, lambda number, frame: heard.append(number))
    yield heard
    for number, handler in zip(BOTH, before, strict=True):
        signal.signal(number, handler)


@pytest.mark.parametrize("number", BOTH)
def test_the_first_signal_is_remembered_and_told(own, number, capsys):
    with Interruption() as asked:
        assert asked.signal is None
        signal.raise_signal(number)
        assert asked.signal == number
    assert own == []
    assert f"{number.name}: finishing this step and saving; once more to leave" in capsys.readouterr().err


def test_a_quiet_one_says_nothing(own, capsys):
    with Interruption(quiet=True) as asked:
        signal.raise_signal(signal.SIGINT)
        assert asked.signal == signal.SIGINT
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(("number", "error"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, SystemExit)])
@pytest.mark.parametrize("first", BOTH)
def test_the_second_signal_leaves_as_it_would_have_without(own, first, number, error):
    before = handlers()
    with Interruption(quiet=True) as asked:
        signal.raise_signal(first)
        asked.asked_at -= 1.01 * ECHO_SECONDS
        with pytest.raises(error) as left:
            signal.raise_signal(number)
        assert handlers() == before  # a third one is the caller's, while the run still cleans up
    assert error is KeyboardInterrupt or left.value.code == 128 + number
    assert handlers() == before
    assert own == []


def test_an_echo_is_no_second_wish(own):
    """Ctrl-C reaches a process from the terminal, and once more from torchrun."""
    with Interruption(quiet=True) as asked:
        signal.raise_signal(signal.SIGINT)
        asked.asked_at -= 0.5 * ECHO_SECONDS
        signal.raise_signal(signal.SIGTERM)
        assert asked.signal == signal.SIGINT
    assert 0.5 <= ECHO_SECONDS <= 2  # longer, and somebody in earnest would have to press a third time


def test_handlers_are_put_back_whatever_happens_in_between(own):
    before, asked = handlers(), Interruption(quiet=True)
    with pytest.raises(ZeroDivisionError), asked:
        raise ZeroDivisionError
    assert handlers() == before
    signal.raise_signal(signal.SIGTERM)
    assert own == [signal.SIGTERM]


def test_in_another_thread_the_callers_handlers_stay(own):
    before, found = handlers(), []

    def listen():
        with Interruption(quiet=True):
            found.append(handlers())

    thread = threading.Thread(target=listen)
    thread.start()
    thread.join()
    assert found == [before]
    assert handlers() == before


# Python is told of handlers that were there before it, which is why `_signal` is imported once more.
INSIDE_ANOTHER_PROGRAM = """
import ctypes, signal, sys
heard = []
handler = ctypes.CFUNCTYPE(None, ctypes.c_int)(heard.append)
ctypes.CDLL(None).signal(int(signal.SIGTERM), handler)
del sys.modules["_signal"]
import _signal
assert signal.getsignal(signal.SIGTERM) is None
from sincere.train.interruption import Interruption
with Interruption(quiet=True) as asked:
    signal.raise_signal(signal.SIGTERM)
    assert asked.signal is None
signal.raise_signal(signal.SIGTERM)
print(heard)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there is no C library to ask for it by that name")
def test_a_handler_that_is_not_pythons_stays():
    """As of a program in C, R or Julia that Python runs in: a run ended with a TypeError, with nothing to restore."""
    command = [sys.executable, "-c", INSIDE_ANOTHER_PROGRAM]
    found = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert (found.stdout, found.stderr) == ("[15, 15]\n", "")
