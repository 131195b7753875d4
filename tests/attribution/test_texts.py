"""Lists of texts: outputs in the order of the inputs, and texts that are too long for a model."""

from random import Random

import pytest
import torch

from regard.data.tokens import Tokenizers
from regard.decoding.search import DecodingConstraints, Search
from regard.decoding.texts import check_lengths, search_texts
from regard.errors import InputError
from regard.models.luong import Luong, LuongConfig
from regard.models.transformer import Transformer, TransformerConfig
from regard.nn.decoders import EncoderDecoder
from regard.text import Tokenizer, TokenizerSettings
from regard.text.kinds import END

LETTERS = "abcdefg"


@pytest.fixture(scope="module")
def tokenizers() -> Tokenizers:
    one = Tokenizer.train(TokenizerSettings("character"), [LETTERS])
    return Tokenizers(one, one)


def luong(max_source: int = 100) -> EncoderDecoder:
    """The same one each time."""
    torch.manual_seed(0)
    model = Luong(11, 11, LuongConfig(embedding=3, width=5, score="location", max_source=max_source)).eval()
    with torch.no_grad():
        model.decoder.output.weight *= 7
        model.get_parameter("encoder.embedding.table.weight").mul_(3)
        model.decoder.output.bias[END] -= 3
    return model


def words(count: int) -> list[str]:
    """Texts of 0 to 13 letters, in no order of length."""
    random = Random(1)
    return ["".join(random.choices(LETTERS, k=random.randint(0, 13))) for _ in range(count)]


@pytest.mark.parametrize("size", [1, 29, 4096])
@pytest.mark.parametrize("search", [Search(length_ratio=1.0), Search(beam=3, length_penalty=0.5, length_ratio=1.0)])
def test_outputs_come_in_the_order_of_the_inputs(
    tokenizers: Tokenizers, search: Search, size: int, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("regard.decoding.texts.BATCH", size)
    model, texts = luong(), words(17)
    together = search_texts(model, tokenizers, texts, search)
    alone = [search_texts(model, tokenizers, [text], search)[0] for text in texts]
    assert [found[0].tokens for found in together] == [found[0].tokens for found in alone]
    assert len({found[0].tokens for found in alone}) > 5
    scores = [found[0].score for found in alone]
    assert [found[0].score for found in together] == pytest.approx(scores, rel=1e-4)


def test_no_texts(tokenizers: Tokenizers):
    assert search_texts(luong(), tokenizers, [], Search()) == []


def test_the_limit_grows_with_the_source(tokenizers: Tokenizers):
    model = luong()
    with torch.no_grad():
        model.decoder.output.bias[END] = -1e9
    found = search_texts(model, tokenizers, ["", "abc", "abcde"], Search(length_ratio=1.5, length_extra=2))
    assert [len(each[0].tokens) for each in found] == [int(1.5 * size) + 2 for size in (1, 4, 6)]
    assert not any(each[0].finished for each in found)


def test_n_best_needs_a_beam(tokenizers: Tokenizers):
    found = search_texts(luong(), tokenizers, ["a", "b"], Search(beam=3), constraints=DecodingConstraints(3))
    assert [len(each) for each in found] == [3, 3]
    with pytest.raises(ValueError, match="n_best 2"):
        search_texts(luong(), tokenizers, ["a"], Search(), constraints=DecodingConstraints(2))


def test_the_place_of_a_text_that_is_too_long(tokenizers: Tokenizers):
    """Of the 7 positions END takes one."""
    texts, places = ["abcdef", "abcdefg"], ["data.tsv:1", "data.tsv:3"]
    with pytest.raises(InputError, match=r"text 2: 7 tokens and 1 special token, but the model takes 7"):
        search_texts(luong(7), tokenizers, texts, Search())
    with pytest.raises(InputError, match=r"data\.tsv:3: 7 tokens"):
        search_texts(luong(7), tokenizers, texts, Search(), places=places)
    found = search_texts(luong(7), tokenizers, texts, Search(), places=places, truncate=True)
    assert found[1][0].tokens == search_texts(luong(7), tokenizers, ["abcdef"], Search())[0][0].tokens


def test_a_model_without_a_maximum_takes_all():
    ids = [[4] * 1009]
    assert check_lengths(None, ids, ["text 1"]) == (ids, 0)


def test_an_output_ends_at_the_model_s_maximum(tokenizers: Tokenizers):
    config = TransformerConfig(layers=1, width=6, hidden=5, heads=2, positions="learned", max_length=7)
    model = Transformer(11, 11, config).eval()
    with torch.no_grad():
        model.decoder.output.bias[END] = -1e9
    for search in (Search(length_extra=101), Search(beam=3, length_extra=101)):
        (found,) = search_texts(model, tokenizers, ["abc"], search)
        assert (len(found[0].tokens), found[0].finished) == (7, False)
