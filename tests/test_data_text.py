"""Hashed text: the same numbers on every machine, checked against the definition written out."""

import hashlib
import re
import unicodedata

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sincere.data import Form, hash_texts
from sincere.data.text import BUCKETS, has_words, tokens, words_for
from sincere.data.texts import texts_from
from sincere.errors import InputError, OptionError


def number(piece: str, buckets: int) -> int:
    return 1 + int.from_bytes(hashlib.blake2b(piece.encode(), digest_size=8).digest(), "little") % (buckets - 1)


def test_numbers_are_pinned():
    """Trained models depend on these; whoever changes them has to retrain every text model."""
    assert hash_texts(["Where's my card?"], words=5, pieces=4).tolist() == [
        [
            [59020, 120235, 56559, 2428],
            [29935, 102500, 26654, 32872],
            [100044, 13696, 66846, 17397],
            [26088, 19864, 0, 0],
            [0, 0, 0, 0],
        ]
    ]


def test_pieces_are_the_word_the_pair_and_its_characters():
    hashed = hash_texts(["Lost card"], words=3, pieces=16)[0].tolist()
    grams = ["<ca", "car", "ard", "rd>", "<car", "card", "ard>", "<card", "card>"]
    expected = ["word card", "pair lost card", *(f"gram {gram}" for gram in grams)]
    assert hashed[1] == [number(piece, BUCKETS) for piece in expected] + [0] * (16 - len(expected))
    assert hashed[0][:2] == [number("word lost", BUCKETS), number("pair  lost", BUCKETS)]
    assert hashed[2] == [0] * 16


@pytest.mark.parametrize("pieces", [1, 2, 3])
def test_a_word_that_comes_again_has_its_own_pair_each_time(pieces):
    texts = ["my card my", "", "card card my card"]
    hashed = hash_texts(texts, words=3, pieces=pieces).tolist()
    for text, rows in zip(texts, hashed, strict=True):
        words = text.split()[:3]
        for place, word in enumerate(words):
            before = words[place - 1] if place else ""
            expected = [f"word {word}", f"pair {before} {word}", f"gram <{word[:2]}"]
            assert rows[place] == [number(piece, BUCKETS) for piece in expected[:pieces]]
        assert rows[len(words) :] == [[0] * pieces] * (3 - len(words))


def test_a_long_word_keeps_runs_from_its_beginning_to_its_end():
    word = "cryptocurrency"
    hashed = hash_texts([word], words=1, pieces=8)[0, 0].tolist()
    runs = [f"<{word}>"[i : i + n] for n in (3, 4, 5) for i in range(len(word) + 3 - n)]
    kept = [runs[i * len(runs) // 6] for i in range(6)]
    assert hashed[2:] == [number(f"gram {gram}", BUCKETS) for gram in kept]
    assert any(gram.endswith("y>") or "ncy" in gram for gram in kept)


@given(st.lists(st.text(max_size=15), max_size=3), st.integers(1, 8), st.integers(1, 6), st.integers(2, 50))
def test_any_text_gives_numbers_in_range_and_nothing_after_nothing(texts, words, pieces, buckets):
    hashed = hash_texts(texts, words=words, pieces=pieces, buckets=buckets)
    assert hashed.shape == (len(texts), words, pieces)
    assert hashed.dtype == torch.int32
    assert not len(texts) or 0 <= int(hashed.min()) <= int(hashed.max()) < buckets
    lengths = (hashed[:, :, 0] > 0).sum(1).tolist()
    assert lengths == [min(len(tokens(text)), words) for text in texts]
    one_by_one = [hash_texts([text], words=words, pieces=pieces, buckets=buckets) for text in texts]
    assert not texts or torch.equal(hashed, torch.cat(one_by_one))


@given(st.text(alphabet=st.characters(codec="ascii"), max_size=60))
def test_tokens_lose_nothing_but_space_and_case(text):
    assert "".join(tokens(text)) == re.sub(r"[\s\x1c-\x1f]", "", text.lower())
    assert has_words(text) == bool(tokens(text))


def test_tokens_of_other_scripts():
    assert tokens("Où est l’œuf?") == ["où", "est", "l’œuf", "?"]
    assert tokens("한국어 문장") == ["한국어", "문장"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("我的iPhone丢了12次。", ["我", "的", "iphone", "丢", "了", "12", "次", "。"]),
        ("コードを送る", [*"コードを送る"]),
        ("สวัสดี ๒๕๖๓", ["ส", "วั", "ส", "ดี", "๒๕๖๓"]),
        ("ភាសា", ["ភា", "សា"]),
    ],
)
def test_a_sentence_without_spaces_is_more_than_one_word(text, expected):
    assert tokens(text) == expected


@pytest.mark.parametrize("text", ["हिन्दी में", "ශ්\u200dරී ලංකා", "مُحَمَّد هنا", "x\u0331 y"])
def test_marks_stay_in_their_words(text):
    assert tokens(text) == text.split()


def test_accents_may_be_spelt_either_way():
    text = "Café naïve Việt が"
    assert tokens(unicodedata.normalize("NFD", text)) == tokens(text) == ["café", "naïve", "việt", "が"]


def test_signs_of_emoji_are_no_part_of_words():
    assert tokens("ok❤️ 1️⃣") == ["ok", "❤", "\ufe0f", "1", "\ufe0f", "\u20e3"]


@given(st.text(alphabet=st.characters(max_codepoint=0x24F, exclude_characters="İ"), max_size=60))
def test_latin_text_keeps_the_words_that_saved_models_know(text):
    assert tokens(text) == re.findall(r"[^\W_]+(?:['’][^\W_]+)*|[^\w\s]|_", text.lower())


def test_words_hold_98_of_100_texts_whole():
    texts = ["w " * length for length in range(1, 51)]
    assert words_for(texts) == 50 - 1
    assert np.mean([len(tokens(text)) <= words_for(texts) for text in texts]) >= 0.98
    assert words_for(["w " * 1000]) == 64
    assert words_for([]) == words_for([""]) == 1


def test_refuses_what_is_no_list_of_texts():
    with pytest.raises(InputError, match=r"Put it in brackets: \[text\]"):
        hash_texts("one text", words=4)
    with pytest.raises(InputError, match=r"float, 1\.5"):
        hash_texts([1.5], words=4)
    with pytest.raises(OptionError, match="words must be a whole number of at least 1: got 0"):
        hash_texts(["a"], words=0)
    with pytest.raises(OptionError, match="buckets must be a whole number of at least 2: got 1"):
        hash_texts(["a"], words=1, buckets=1)


def test_a_text_that_just_fits_is_not_cut():
    samples = texts_from(["one two", "one two three", "one two !", "one"], list("abab"), range(4), "made up")
    assert samples.render(Form("text", (3, 2), buckets=50)).notes == ()
    (note,) = samples.render(Form("text", (2, 2), buckets=50)).notes
    assert note.words.startswith("2 of 4 texts are longer than 2 words")


def test_notes_write_thousands_as_all_other_figures_do():
    samples = texts_from(["one two"] * 1200, ["a", "b"] * 600, range(1200), "made up")
    (note,) = samples.render(Form("text", (1, 2), buckets=50)).notes
    assert note.words.startswith("1,200 of 1,200 texts are longer than 1 word")
