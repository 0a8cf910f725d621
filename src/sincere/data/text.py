"""Text as numbers, without a vocabulary: words and their pieces, hashed alike on every machine."""

import hashlib
import re
import unicodedata
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from sincere.checks import check_whole
from sincere.errors import InputError

WORDS = 64  # at most, where the caller names no number: a sentence or two
PIECES = 12
BUCKETS = 2**17
PLAIN = re.compile(r"[^\W_]+(?:['’][^\W_]+)*|[^\w\s]|_")  # all that ASCII needs, in a third of the time
# Letters of scripts that put no space between words, without their digits: a whole sentence would be one word.
UNSPACED = (
    "\u3005-\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # Han
    "\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff\uff66-\uff9f\U0001aff0-\U0001b16f"  # kana
    "\u0e01-\u0e30\u0e32\u0e33\u0e40-\u0e46\u0e81-\u0eb0\u0eb2\u0eb3\u0ebd-\u0ec6\u0edc-\u0edf"  # Thai, Lao
    "\u1000-\u102a\u103f\u1050-\u1055\u105a-\u105d\u1061\u1065\u1066\u106e-\u1070\u1075-\u1081\u108e"  # Burmese
    "\ua9e0-\ua9e4\ua9e6-\ua9ef\ua9fa-\ua9fe\uaa60-\uaa76\uaa7a\uaa7e\uaa7f\u1780-\u17b3\u17d7\u17dc"  # …, Khmer
)
# Accents and vowel signs belong to the letter before them, though Python's \w has none of them. Those that choose how a
# sign is drawn (U+FE00 to U+FE0F, as after many an emoji) belong to no word.
MARKS = "".join(
    character
    for character in map(chr, range(0x300, 0x20000))
    if unicodedata.category(character) in ("Mn", "Mc") and not "\ufe00" <= character <= "\ufe0f"
)
MARKED = f"(?:[{MARKS}][\u200c\u200d]?)"  # conjuncts of Indian scripts have a joiner after their mark
WORD = rf"[^\W_{UNSPACED}]+(?:{MARKED}+[^\W_{UNSPACED}]*)*"
# Letters and digits, with apostrophes inside (`don't`); or one letter of a script without spaces; or one other sign.
TOKEN = re.compile(rf"{WORD}(?:['’]{WORD})*|[{UNSPACED}]{MARKED}*|[^\w\s]|_")


def tokens(text: str) -> list[str]:
    """Lower-cased words, and punctuation marks as words of their own; in scripts without spaces, single letters.

    >>> tokens("Haven't I paid £5?"), tokens("我的卡 lost")
    (["haven't", 'i', 'paid', '£', '5', '?'], ['我', '的', '卡', 'lost'])
    """
    if text.isascii():
        return PLAIN.findall(text.lower())
    # Composed, as most text is: names of files from a Mac have their accents apart.
    return TOKEN.findall(unicodedata.normalize("NFC", text.lower()))


def piece_number(piece: str, buckets: int) -> int:
    """The number of a piece, 1 to buckets − 1, from BLAKE2: the same in every process (`hash` is salted)."""
    digest = hashlib.blake2b(piece.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return 1 + int.from_bytes(digest, "little") % (buckets - 1)


def character_grams(word: str) -> list[str]:
    """Runs of 3 to 5 characters of `<word>`, the whole left out; the marks tell beginnings and ends apart.

    >>> character_grams("card")
    ['<ca', 'car', 'ard', 'rd>', '<car', 'card', 'ard>', '<card', 'card>']
    """
    marked = f"<{word}>"
    return [marked[i : i + n] for n in (3, 4, 5) if n < len(marked) for i in range(len(marked) - n + 1)]


def gram_numbers(word: str, places: int, buckets: int) -> tuple[int, ...]:
    """Numbers of the word's runs of characters, at most `places`.

    A long word has more runs than places; they are then taken at even distances, so that its end counts too.
    """
    grams = character_grams(word)
    if len(grams) > places:
        grams = [grams[i * len(grams) // places] for i in range(places)]
    return tuple(piece_number(f"gram {gram}", buckets) for gram in grams)


@lru_cache(maxsize=1 << 16)
def word_numbers(word: str, pieces: int, buckets: int) -> tuple[int, ...]:
    """At most `pieces` numbers: the word itself, 0 where its pair belongs, and its runs of characters."""
    alone = (piece_number(f"word {word}", buckets), 0)
    return alone[:pieces] + gram_numbers(word, max(pieces - 2, 0), buckets)


def pair_numbers(words: Sequence[str], buckets: int) -> list[int]:
    """The number of each word with the one before it."""
    return [piece_number(f"pair {before} {word}", buckets) for before, word in zip(["", *words], words, strict=False)]


def has_words(text: str) -> bool:
    """Whether a text has any of `tokens`; found at the first."""
    return TOKEN.search(text.lower()) is not None


def words_for(texts: Sequence[str]) -> int:
    """How many words to keep: 98 of 100 texts stay whole, up to `WORDS`."""
    lengths = [len(tokens(text)) for text in texts]
    return int(min(max(np.quantile(lengths, 0.98, method="inverted_cdf"), 1), WORDS)) if lengths else 1


def hash_texts(texts: Sequence[str], *, words: int, pieces: int = PIECES, buckets: int = BUCKETS) -> Tensor:
    """Texts as int32 (n, words, pieces): the numbers of each word's pieces, 0 where there is none.

    Piece 0 of a word is the word itself, piece 1 the word with the one before it (word order, even for an encoder
    that only adds up), the others are its runs of 3 to 5 characters, so that a word never seen in training still has
    parts that were. Numbers lie between 1 and buckets − 1: an `nn.EmbeddingBag(buckets, …, padding_idx=0)` over the
    pieces gives each word's vector. The same text gives the same numbers in every process and on every machine; words
    after the first `words` are cut.

    >>> hash_texts(["Card lost!", "lost"], words=4)[:, :, 0].tolist()
    [[100044, 44448, 100808, 0], [44448, 0, 0, 0]]
    """
    for name, value, least in (("words", words, 1), ("pieces", pieces, 1), ("buckets", buckets, 2)):
        check_whole(name, value, least)
    if isinstance(texts, str):
        raise InputError("texts must be a list of texts: got one text. Put it in brackets: [text].")
    places: dict[str, int] = {}  # of each word in `numbers`, whose row 0 stands for none: texts repeat their words
    found, pairs = (np.zeros((len(texts), words), np.int32) for _ in range(2))
    for row, text in enumerate(texts):
        if not isinstance(text, str):
            raise InputError(f"texts must be strings: got {type(text).__name__}, {text!r}.")
        some = tokens(text)[:words]
        found[row, : len(some)] = [places.setdefault(word, len(places) + 1) for word in some]
        pairs[row, : len(some)] = pair_numbers(some, buckets)
    numbers = np.zeros((len(places) + 1, pieces), np.int32)
    for word, place in places.items():
        own = word_numbers(word, pieces, buckets)
        numbers[place, : len(own)] = own
    hashed = numbers[found]
    if pieces > 1:
        hashed[:, :, 1] = pairs
    return torch.from_numpy(hashed)
