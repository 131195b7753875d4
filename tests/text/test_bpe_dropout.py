"""BPE-dropout: repeatable, exact at its ends, and distributed as the paper says."""

import json
import time
from collections import Counter
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from regard.text import Tokenizer, TokenizerSettings
from regard.text.tokenizer import VARIANTS, MergeDropout, segment

from .conftest import CORPUS

_TEXT = "the lowest of the lower cats läuft größer, नमस्ते"


def _ranks(tokenizer: Tokenizer, folder: Path) -> dict[tuple[str, str], int]:
    tokenizer.save(folder / "t.json")
    merges = json.loads((folder / "t.json").read_text("utf-8"))["tokenizer"]["model"]["merges"]
    return {(left, right): rank for rank, (left, right) in enumerate(merges)}


def test_same_seed_same_ids(dropping: Tokenizer) -> None:
    fresh = Tokenizer.train(dropping.settings, CORPUS)
    fresh.encode_with_dropout("another text first, the cat", 5)
    for seed in (-3, 0, 2, 2**70):
        assert fresh.encode_with_dropout(_TEXT, seed) == dropping.encode_with_dropout(_TEXT, seed)


def test_seeds_and_texts_differ(dropping: Tokenizer) -> None:
    assert len({tuple(dropping.encode_with_dropout(_TEXT, seed)) for seed in range(11)}) > 7
    firsts = {tuple(dropping.encode_with_dropout("lowest " + other, 3)[:3]) for other in CORPUS}
    assert len(firsts) > 1


@given(text=st.text(max_size=23), seed=st.integers())
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_decodes_to_the_text(dropping: Tokenizer, text: str, seed: int) -> None:
    assert dropping.decode(dropping.encode_with_dropout(text, seed)) == text


def test_surrogates(dropping: Tokenizer) -> None:
    assert dropping.decode(dropping.encode_with_dropout("a\ud800", 2)) == "a\ufffd"


def test_without_dropout_it_is_encode(tokenizer: Tokenizer) -> None:
    assert tokenizer.encode_with_dropout(_TEXT, 7) == tokenizer.encode(_TEXT)


def test_skipping_nothing_is_encode(bpe: Tokenizer, tmp_path: Path) -> None:
    ranks = _ranks(bpe, tmp_path)
    draw = Random(13)
    words = ["".join(draw.choices("thelowrcasnd", k=draw.randint(1, 17))) for _ in range(211)]
    for word in [*words, "lowestlowest", "ooooooo"]:
        pieces = segment("Ġ" + word, ranks, lambda: False)
        assert [piece.removeprefix("Ġ") or "·" for piece in pieces] == bpe.pieces(bpe.encode(word))


def test_skipping_everything_leaves_bytes(bpe: Tokenizer, tmp_path: Path) -> None:
    assert segment("Ġlowest", _ranks(bpe, tmp_path), lambda: True) == list("Ġlowest")


def test_distribution_is_that_of_the_paper() -> None:
    """Against a direct transcription of the paper's algorithm 1, which draws for every merge at every step."""
    ranks = {("a", "b"): 0, ("b", "c"): 1, ("ab", "c"): 2, ("a", "bc"): 3, ("abc", "abc"): 4}
    draw = Random(17).random

    def reference() -> tuple[str, ...]:
        pieces = list("abcabc")
        while True:
            pairs = list(pairwise(pieces))
            kept = [(ranks[pair], i) for i, pair in enumerate(pairs) if pair in ranks and draw() >= 0.4]
            if not kept:
                return tuple(pieces)
            _, i = min(kept)
            pieces[i : i + 2] = [pieces[i] + pieces[i + 1]]

    trials = 1511
    ours = Counter(tuple(segment("abcabc", ranks, lambda: draw() < 0.4)) for _ in range(trials))
    theirs = Counter(reference() for _ in range(trials))
    assert set(ours) | set(theirs) == set(theirs)
    assert all(abs(ours[pieces] - theirs[pieces]) < 5 * (2 * theirs[pieces] + 1) ** 0.5 for pieces in theirs)


def test_a_word_has_many_segmentations() -> None:
    ids = {"a": 4, "b": 5, "c": 6, "ab": 7, "abc": 8}
    dropout = MergeDropout([("a", "b"), ("ab", "c")], ids, 0.5)
    counts = Counter(tuple(dropout.encode(["abc"], "abc", seed)) for seed in range(997))
    assert set(counts) == {(8,), (7, 6), (4, 5, 6)}
    assert VARIANTS >= 16


@pytest.mark.parametrize("long", ["a" * 3001, "漢字" * 503])
def test_long_words_do_not_take_long(long: str) -> None:
    trained = Tokenizer.train(TokenizerSettings("bpe", size=280, dropout=0.1), [long, "x y"])
    begun = time.perf_counter()
    assert trained.decode(trained.encode_with_dropout(long, 2)) == long
    assert time.perf_counter() - begun < 5
