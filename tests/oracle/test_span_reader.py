"""The span reader and the encoder that compares words of one text, in NumPy with loops, one word at a time."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from regard.attention.record import record
from regard.data.questions import Question
from regard.models.span_reader import FILTERS, SpanEncoder, SpanReader, SpanReaderConfig
from regard.nn.encoders import MatchingEncoder
from regard.nn.layers import TokenEmbedding
from regard.tasks.extractive_qa.data import ExtractiveQA, Questions, WindowSplitter
from regard.text import Tokenizer, TokenizerSettings
from tests.oracle import reference
from tests.oracle.reference import Array, Parameters

CONFIG = SpanReaderConfig(embedding=7, width=5, layers=2, characters=6, dropout=0.0)
QUESTIONS, CONTEXTS = [[5, 7, 6], [8]], [[9, 5, 10, 11, 7], [4, 8]]


def drawn(characters: int = CONFIG.characters) -> SpanReader:
    torch.manual_seed(2)
    model = SpanReader(13, replace(CONFIG, characters=characters)).double().eval()
    for name, parameter in model.named_parameters():
        nn.init.normal_(parameter, std=0.1 if name.startswith("characters") else 0.5)
    return model


def spelled(tokens: torch.Tensor, characters: int = CONFIG.characters) -> torch.Tensor:
    """Characters of each token, the same for equal tokens."""
    return (tokens[..., None] * torch.arange(3, 3 + characters)) % 11 + 1


def inputs(rows: list[int], characters: int = CONFIG.characters) -> tuple[torch.Tensor, ...]:
    """A batch of some rows."""
    generator = torch.Generator().manual_seed(5)
    features = [torch.rand(len(each), 6, generator=generator, dtype=torch.float64) for each in CONTEXTS]

    def padded(some: list[list[int]]) -> tuple[torch.Tensor, torch.Tensor]:
        longest = max(map(len, some))
        whole = torch.tensor([[*each, *[0] * (longest - len(each))] for each in some])
        return whole, torch.tensor([len(each) for each in some])

    question, question_lengths = padded([QUESTIONS[row] for row in rows])
    context, lengths = padded([CONTEXTS[row] for row in rows])
    together = nn.utils.rnn.pad_sequence([features[row] for row in rows], batch_first=True)
    spellings = [spelled(tokens, characters) for tokens in (question, context)]
    return question, question_lengths, context, lengths, together, *spellings


def mixed(query: Array, keys: list[Array], values: list[Array]) -> Array:
    return reference.lookup(reference.dot, query, np.array(keys), np.array(values))[0]


def relu(p: Parameters, name: str, x: Array) -> Array:
    return np.maximum(0, p[f"{name}.0.weight"] @ x + p[f"{name}.0.bias"])


def spelling_of(p: Parameters, token: int) -> Array:
    """Convolutions over the characters of a token, the largest of each filter, and a projection."""
    letters = p["characters.0.table.weight"][spelled(torch.tensor(token)).numpy()]
    found = []
    for number, (size, filters) in enumerate(FILTERS):
        weight, bias = (p[f"characters.0.convolutions.{number}.{name}"] for name in ("weight", "bias"))
        places = [letters[first : first + size].T for first in range(len(letters) - size + 1)]
        for filter in range(filters):
            found.append(max(0.0, max(float((weight[filter] * each).sum() + bias[filter]) for each in places)))
    return p["characters.0.projection.weight"] @ np.array(found) + p["characters.0.projection.bias"]


def vector_of(p: Parameters, token: int) -> Array:
    word = p["embedding.table.weight"][token] * CONFIG.embedding**0.5
    return np.concatenate([word, spelling_of(p, token)]) if "characters.0.table.weight" in p else word


def logits_of(p: Parameters, question: list[int], context: list[int], features: Array) -> Array:
    words, read = [vector_of(p, each) for each in question], [vector_of(p, each) for each in context]
    keys = [relu(p, "alike", each) for each in words]
    aligned = [mixed(relu(p, "alike", each), keys, words) for each in read]
    rows = [np.concatenate(each) for each in zip(read, aligned, features, strict=True)]
    states = reference.both_ways(p, "question", words, CONFIG.layers)
    compared = []
    for state in reference.both_ways(p, "context", rows, CONFIG.layers):
        other = mixed(state, states, states)
        compared.append(relu(p, "compared", np.concatenate([state, other, state - other, state * other])))
    summary = mixed(p["summary"], states, states)
    ends = np.split(p["output.weight"] @ summary, 2)
    found = [[float(state @ end) for end in ends] for state in reference.both_ways(p, "composed", compared)]
    return np.array([p["none.weight"] @ summary + p["none.bias"], *found])


@pytest.mark.parametrize("characters", [0, CONFIG.characters])
def test_logits_are_those_of_loops(characters: int):
    model = drawn(characters)
    batch = inputs([0, 1], characters)
    found = model(*batch).detach().numpy()
    for row, (question, context) in enumerate(zip(QUESTIONS, CONTEXTS, strict=True)):
        expected = logits_of(reference.parameters(model), question, context, batch[4][row, : len(context)].numpy())
        np.testing.assert_allclose(found[row, : 1 + len(context)], expected, rtol=1e-12, atol=1e-12)
        assert np.isneginf(found[row, 1 + len(context) :]).all()


def test_padding_and_the_rest_of_the_batch_change_nothing():
    model = drawn()
    together, alone = model(*inputs([0, 1])), model(*inputs([1]))
    torch.testing.assert_close(together[1, : alone.shape[1]], alone[0], rtol=1e-12, atol=1e-12)
    question, lengths, context, *rest, spellings, context_spellings = inputs([0, 1])
    question[1, 1:], spellings[1, 1:], context_spellings[1, 2:] = 12, 3, 4
    changed = model(question, lengths, context, *rest, spellings, context_spellings)
    torch.testing.assert_close(changed, together, rtol=1e-12, atol=1e-12)


def test_recorded_equals_unrecorded_and_rows_sum_to_one():
    model = drawn()
    plain = model(*inputs([0, 1]))
    with record(model, only=["align", "compare", "summarise"]) as maps:
        recorded = model(*inputs([0, 1]))
    torch.testing.assert_close(recorded, plain, rtol=1e-12, atol=1e-12)
    for name in ("align", "compare", "summarise"):
        assert maps[name].shape[-1] == 3
        torch.testing.assert_close(maps[name].sum(-1), torch.ones_like(maps[name].sum(-1)))
        assert not maps[name][1, :, 1:].any()


def test_derivatives():
    model = drawn(0)
    question, question_lengths, context, lengths, features, *spellings = inputs([0], 0)

    def scores(described: torch.Tensor) -> torch.Tensor:
        return model(question, question_lengths, context, lengths, described, *spellings).softmax(1)

    assert torch.autograd.gradcheck(scores, (features.requires_grad_(),))


def test_every_parameter_learns():
    model = drawn()
    model(*inputs([0, 1]))[..., :3, :].logsumexp(1).sum().backward()
    assert [name for name, each in model.named_parameters() if each.grad is None or not each.grad.any()] == []


def test_half_precision_is_near_full_precision():
    model = drawn().float()
    batch = [each.float() if each.is_floating_point() else each for each in inputs([0, 1])]
    with torch.autocast("cpu", torch.bfloat16):
        found = model(*batch)
    torch.testing.assert_close(found.float(), model(*batch), rtol=0.05, atol=0.3)


TEXTS = [[5, 7, 6, 5], [8, 4, 9], [6]]


def drawn_encoder() -> MatchingEncoder:
    torch.manual_seed(3)
    return reference.drawn(MatchingEncoder(TokenEmbedding(11, 3), 2), 0.7)


def batch() -> tuple[torch.Tensor, torch.Tensor]:
    tokens = nn.utils.rnn.pad_sequence([torch.tensor(each) for each in TEXTS], batch_first=True)
    return tokens, torch.tensor([len(each) for each in TEXTS])


def states_of(p: Parameters, text: list[int]) -> list[Array]:
    words = [p["embedding.table.weight"][token] * 3**0.5 for token in text]
    keys = [np.maximum(0, p["alike.0.weight"] @ word + p["alike.0.bias"]) for word in words]
    rows = []
    for place, word in enumerate(words):
        others = [other for other in range(len(words)) if other != place]
        chosen = np.array([keys[other] for other in others]), np.array([words[other] for other in others])
        matched = reference.lookup(reference.dot, keys[place], *chosen)[0] if others else 0 * word
        rows.append(np.concatenate([word, matched]))
    return reference.both_ways(p, "reader", rows)


def test_states_are_those_of_loops():
    encoder = drawn_encoder()
    memory, p = encoder(*batch()), reference.parameters(encoder)
    for row, text in enumerate(TEXTS):
        found = memory.value[row, : len(text)].detach().numpy()
        np.testing.assert_allclose(found, np.array(states_of(p, text)), rtol=1e-10, atol=1e-12)
    assert memory.summary is not None
    ahead, back = memory.value[0, 3, :2], memory.value[0, 0, 2:]
    torch.testing.assert_close(memory.summary[0], torch.cat([ahead, back]))


def test_a_rare_word_finds_itself():
    """With one map for queries and keys a word is more like itself than like others."""
    encoder = MatchingEncoder(TokenEmbedding(11, 16), 2).eval()
    with record(encoder) as maps:
        encoder(torch.tensor([[5, 7, 6, 4, 8, 5]]), torch.tensor([6]))
    weights = maps["attend"][0]
    assert weights[0].argmax() == 5
    assert weights[5].argmax() == 0
    assert not weights.diagonal().any()


def test_gradients_of_the_encoder():
    encoder = drawn_encoder()
    tokens, lengths = batch()
    table = encoder.embedding
    assert isinstance(table, TokenEmbedding)

    def read(weight: torch.Tensor) -> torch.Tensor:
        memory = torch.func.functional_call(encoder, {"embedding.table.weight": weight}, (tokens, lengths))
        return memory.value

    assert torch.autograd.gradcheck(read, table.table.weight.detach().clone().requires_grad_())


def test_a_span_reader_as_encoder_reads_one_text_as_a_question_and_its_context():
    """Its states are those of the reader, with u and v by the shares of the ends; without a mark all is asked."""
    question, context = "Who won the game in June?", "The Broncos won The Game in 1894 and Lions won nothing in june."
    settings = TokenizerSettings("word")
    tokenizer = Tokenizer.train(settings, [question, context, f"{question} {context}"])
    torch.manual_seed(2)
    encoder = SpanEncoder(tokenizer.size, sizes := SpanReaderConfig(embedding=7, width=5)).double().eval()
    encoder.describe(tokenizer.pieces(range(tokenizer.size)))
    source = [*tokenizer.encode(f"{question} {context}"), tokenizer.special.end]
    splitter = WindowSplitter(tokenizer, ExtractiveQA(data=Questions(train="a"), tokenizer=settings, model=sizes))
    (window,) = splitter.split(Question(question, context, (), ""))
    count = len(window.question)
    window = window._replace(question=source[:count])  # a mark before a word is another token than one at the end
    words, lengths, read, read_lengths, features, *_ = splitter.collate([window]).inputs
    inputs = encoder.embedding(words), lengths, encoder.embedding(read), read_lengths, features.double()
    states, summary, composed, logits = encoder.compose(*inputs)
    wanted = composed + logits[:, 1:].softmax(1) @ encoder.edges
    plain = source[: count - 1]
    rows = nn.utils.rnn.pad_sequence([torch.tensor(source), torch.tensor(plain)], batch_first=True)
    memory = encoder(rows, torch.tensor([len(source), len(plain)]))
    torch.testing.assert_close(memory.value[0, :count], states[0])
    torch.testing.assert_close(memory.value[0, count:-1], wanted[0, : len(window.part)])
    torch.testing.assert_close(memory.summary[0], summary[0])
    torch.testing.assert_close(
        encoder(rows[1:, : len(plain)], torch.tensor([len(plain)])).value[0], memory.value[1, : len(plain)]
    )
    assert not memory.value[1, len(plain) :].any()
