"""Words that only one source has."""

from regard.data.tokens import Tokenizers, replace_absent_copies
from regard.text import Tokenizer, TokenizerSettings
from regard.text.special import END, UNKNOWN

ONE = Tokenizer.train(TokenizerSettings("word"), ["the cat sat on the mat"])
COPYING, PLAIN = Tokenizers(ONE, ONE, copying=True), Tokenizers(ONE, ONE)
SOURCE = "the zebra sat, the gnu on the zebra"


def test_a_source_s_own_words_have_ids_in_the_order_of_their_places():
    the, sat, on = (ONE.encode(word)[0] for word in ("the", "sat", "on"))
    zebra, comma, gnu = range(ONE.size, ONE.size + 3)
    assert COPYING.own_words(SOURCE) == ["zebra", ", ", "gnu"]
    assert COPYING.source_ids(SOURCE) == [the, zebra, sat, comma, the, gnu, on, the, zebra]
    assert COPYING.target_ids("gnu sat on dog zebra", SOURCE) == [gnu, sat, on, UNKNOWN, zebra]
    assert PLAIN.source_ids(SOURCE) == ONE.encode(SOURCE)
    assert PLAIN.target_ids("gnu sat", SOURCE) == [UNKNOWN, sat]
    assert PLAIN.own_words(SOURCE) == []


def test_what_was_written_is_read_back():
    ids = COPYING.target_ids("the gnu sat, the zebra sat", SOURCE)
    assert COPYING.text(ids, SOURCE) == "the gnu sat, the zebra sat"
    assert COPYING.target_pieces([*ids, END], SOURCE) == ["the", "gnu", "sat", ",", "the", "zebra", "sat", "</s>"]
    assert COPYING.source_pieces(COPYING.source_ids(SOURCE)[:2], SOURCE) == ["the", "zebra"]
    assert PLAIN.text(PLAIN.target_ids("the gnu", SOURCE), SOURCE) == "the \ufffd"


def test_an_own_word_that_was_cut_off_is_unknown():
    source, target = COPYING.source_ids(SOURCE)[:3], COPYING.target_ids("zebra gnu cat", SOURCE)
    assert replace_absent_copies(target, source, ONE) == [ONE.size, UNKNOWN, ONE.encode("cat")[0]]
