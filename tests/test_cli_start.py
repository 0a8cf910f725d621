"""What the command line imports before it knows what is asked for."""

import subprocess
import sys

import pytest
import typer

from sincere.cli.app import VERBS, verb_called
from sincere.cli.help import flowing

CODE = """
import sys
from sincere.cli import main
sys.argv = ["sincere", *sys.argv[1:]]
try:
    main()
finally:
    print("torch" in sys.modules, file=sys.stderr)
"""


@pytest.mark.parametrize("words", [["--help"], ["--version"], []], ids=["help", "version", "nothing"])
def test_a_list_of_verbs_does_not_wait_for_torch(words):
    found = subprocess.run([sys.executable, "-c", CODE, *words], capture_output=True, text=True, timeout=300)
    assert found.stderr.splitlines()[-1] == "False", found.stderr
    assert found.stdout.strip()


@pytest.mark.parametrize("name", VERBS)
def test_a_verb_is_listed_with_the_words_it_begins_with(name):
    verb = verb_called(name)
    words = str(verb.info.help) if isinstance(verb, typer.Typer) else flowing(verb.__doc__)
    assert words.partition("\n\n")[0] == VERBS[name].words
