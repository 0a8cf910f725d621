"""Texts with a class each, and TREC's lines of them."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sincere.data.labelled import Form, check_room_for
from sincere.data.options import Settings
from sincere.data.samples import Classes, Note, Rendered, listed, number_classes
from sincere.data.text import has_words, hash_texts, tokens, words_for
from sincere.errors import InputError
from sincere.tables import amount
from sincere.types import Kind

TREC_LINE = re.compile(r"(?P<coarse>[A-Za-z]+):(?P<fine>[A-Za-z]+)\s+(?P<question>\S.*)")


@dataclass(frozen=True, eq=False)
class Texts:
    """Texts of any length.

    notes: how they were found, to be told with what is done to them.
    """

    texts: tuple[str, ...]
    classes: Classes
    notes: tuple[Note, ...] = ()

    @property
    def kind(self) -> Kind:
        return "text"

    @property
    def shown(self) -> tuple[str, ...]:
        return self.texts

    def form(self, settings: Settings) -> Form:
        words = settings.words or words_for(self.texts)
        return Form("text", (words, settings.pieces), buckets=settings.buckets)

    def render(self, form: Form) -> Rendered:
        assert form.buckets is not None  # Form requires it of text
        words, pieces = form.shape
        check_room_for(len(self.texts), form, "Read fewer at once, or less of each: words=….")
        hashed = hash_texts(self.texts, words=words, pieces=pieces, buckets=form.buckets)
        full = hashed[:, -1, 0].nonzero().flatten().tolist()
        cut = sum(len(tokens(self.texts[i])) > words for i in full)
        long = f"{cut:,} of {len(self.texts):,} texts are longer than {amount(words, 'word')} and were cut there"
        too_long = (Note(long, "the option words keeps more"),) if cut else ()
        return Rendered(hashed, notes=(*self.notes, *too_long))


def texts_from(texts: Sequence[str], labels: Sequence[str], lines: Sequence[int], what: str) -> Texts:
    """Texts that hold at least one word each; refuses others and says on which lines they are."""
    if empty := [line for line, text in zip(lines, texts, strict=True) if not has_words(text)]:
        raise InputError(
            f"every text of {what} must hold a word: {len(empty):,} of {len(texts):,} hold none, lines "
            f"{listed(empty, 5)}. Remove them, or choose another column: input_column='…'."
        )
    return Texts(tuple(texts), number_classes(labels))


def read_trec(path: Path, settings: Settings) -> Texts:
    """Lines `COARSE:fine question` in Latin-1, as Li and Roth (2002) publish them; coarse classes unless chosen."""
    questions, labels, numbers = [], [], []
    for number, line in enumerate(path.read_text(encoding="latin-1").split("\n"), start=1):
        if not line.strip():
            continue
        match = TREC_LINE.fullmatch(line.strip())
        if match is None:
            raise InputError(f"{path} must hold lines like 'NUM:dist How far is it ?': line {number} is {line[:60]!r}.")
        # A fine class is told apart by both names: ENTY:other is not DESC:other.
        labels.append(match["coarse"] if settings.level != "fine" else f"{match['coarse']}:{match['fine']}")
        questions.append(match["question"])
        numbers.append(number)
    if not questions:
        raise InputError(f"{path} is empty: expected lines like 'NUM:dist How far is it ?'.")
    return texts_from(questions, labels, numbers, str(path))
