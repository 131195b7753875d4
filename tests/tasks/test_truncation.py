"""A run trained with `truncate` cuts long texts wherever it predicts, and counts them in one line."""

import io
import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch

from regard.cli import predict
from regard.cli.predict import iterate_predictions
from regard.data.generated.pairs import Dates
from regard.data.pairs import Pair
from regard.data.tokens import Tokenizers
from regard.errors import InputError
from regard.models.bert import BertConfig, BertSpans
from regard.models.catalog import build, build_classifier
from regard.models.gpt2 import GPT2Config
from regard.models.pointer_generator import PointerConfig
from regard.models.transformer import TransformerConfig
from regard.serve.operations import build_operations
from regard.serve.worker import Replicas
from regard.tasks.classification.config import Classification
from regard.tasks.classification.data import Labelled, LabelledTables
from regard.tasks.classification.run import ClassificationRun
from regard.tasks.classification.training import ClassOutputs
from regard.tasks.extractive_qa.data import ExtractiveQA, Questions
from regard.tasks.extractive_qa.run import ExtractiveQARun
from regard.tasks.multi_target.data import Multiparallel, MultiTarget
from regard.tasks.multi_target.run import MultiTargetRun, build_many
from regard.tasks.options import PredictOptions
from regard.tasks.seq2seq.config import Seq2Seq, TokenizerPair
from regard.tasks.seq2seq.run import Seq2SeqRun
from regard.text import Tokenizer, TokenizerSettings

WORDS = TokenizerSettings("word", minimum_count=1)
TOKENIZER = Tokenizer.train(WORDS, ["a b c d e f g"])
LONG, READ = "g f e d c b a zork", "g f e d"
SOURCES = "cut to the model's maximum of 5 tokens, as in training; shorten {}, or train with a larger model.max_source"
TEXTS = "cut to the model's maximum of {} tokens, as in training; shorten {}, or train with a larger model.context"


def translator(*, truncate: bool = True, pointer: bool = False) -> Seq2SeqRun:
    """Reads four words and the end of a source."""
    torch.manual_seed(3)
    model: Any = TransformerConfig(layers=1, width=8, hidden=8, heads=2, positions="learned", max_length=5)
    if pointer:
        model = PointerConfig(embedding=3, width=5, attention=7, max_source=5)
    both = Tokenizers(TOKENIZER, TOKENIZER, copying=pointer)
    config = Seq2Seq(
        data=Dates(), tokenizers=TokenizerPair(WORDS, shared=True), model=model, metrics=("rouge-l",), truncate=truncate
    )  # fmt: skip
    return Seq2SeqRun(config, build(model, *both.sizes, both.special).eval(), both)


def classifier(model: Any, *, truncate: bool = True) -> ClassificationRun:
    torch.manual_seed(3)
    config = Classification(data=LabelledTables(train="t.tsv"), tokenizer=WORDS, model=model, truncate=truncate)
    return ClassificationRun(
        config, build_classifier(model, TOKENIZER.size, 2).eval(), TOKENIZER, ClassOutputs(("yes", "no"))
    )


BERT = BertConfig(layers=1, width=8, heads=2, hidden=8, context=6, dropout=0.0)
CLASSIFIERS = {"bert": (BERT, 6), "gpt2": (GPT2Config(layers=1, width=8, heads=2, context=4), 4)}


@pytest.mark.parametrize("pointer", [False, True])
def test_row_18_a_source_is_cut_wherever_it_is_read(pointer: bool, caplog: pytest.LogCaptureFixture):
    run = translator(pointer=pointer)
    found, _, whole = run.predict([LONG, "a", READ])
    assert (found.text, found.score) == (whole.text, pytest.approx(whole.score))
    assert found.attention is not None
    assert found.attention.source == ("g", "f", "e", "d", "</s>")
    assert run.attribute(LONG).weights.source == found.attention.source
    assert run.attribute(LONG, target="a b").weights.weights.shape == (3, 5)
    run.evaluate([Pair(LONG, "a", "f:1"), Pair("a", "a", "f:2")])
    assert caplog.messages == [
        f"1 of 3 sources were {SOURCES.format('them')}",
        *[f"the source was {SOURCES.format('it')}"] * 2,
        f"1 of 2 sources were {SOURCES.format('them')}",
    ]
    assert [event.text for event in run.stream([LONG])] == [event.text for event in run.stream([READ])]


@pytest.mark.parametrize("use", [lambda run: run.predict([LONG]), lambda run: run.attribute(LONG)])
def test_row_18_a_run_that_cuts_nothing_refuses(use: Callable[[Any], Any]):
    run = translator(truncate=False)
    expected = r"text 1: 8 tokens and 1 special token, but the model takes 5; shorten it, or train with a "
    with pytest.raises(InputError, match=expected + r"larger model.max_source \(--set truncate=true"):
        use(run)
    with pytest.raises(InputError, match="text 1: 8 tokens and 2 special tokens, but the model takes 6"):
        use(classifier(BERT, truncate=False))


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_row_18_a_text_with_a_class_is_cut_aloud(name: str, caplog: pytest.LogCaptureFixture):
    model, most = CLASSIFIERS[name]
    run = classifier(model)
    found, _, whole = run.predict([LONG, "a", READ])
    assert found.probabilities == pytest.approx(whole.probabilities)
    run.attribute(LONG)
    run.evaluate([Labelled((LONG,), "yes", "f:1"), Labelled(("a",), "no", "f:2")])
    assert [each.getMessage() for each in caplog.records if each.levelno >= logging.WARNING] == [
        f"1 of 3 texts were {TEXTS.format(most, 'them')}",
        f"the text was {TEXTS.format(most, 'it')}",
        f"1 of 2 texts were {TEXTS.format(most, 'them')}",
    ]


def test_row_18_a_question_is_cut_aloud(caplog: pytest.LogCaptureFixture):
    config = ExtractiveQA(
        data=Questions(train=("q.json",), valid=("q.json",)),
        tokenizer=WORDS,
        model=replace(BERT, context=16),
        longest_question=4,
    )
    run = ExtractiveQARun(config, BertSpans(TOKENIZER.size, replace(BERT, context=16)).eval(), TOKENIZER)
    run.predict([(LONG, "a b c"), (READ, "a b c")])
    run.attribute((LONG, "a b c"))
    cut = "cut to the model's maximum of 4 tokens, as in training; shorten"
    assert caplog.messages == [
        f"1 of 2 questions were {cut} them, or train with a larger longest_question",
        f"the question was {cut} it, or train with a larger longest_question",
    ]


def test_row_18_several_languages_cut_their_source_once(caplog: pytest.LogCaptureFixture):
    model = TransformerConfig(layers=1, width=8, hidden=8, heads=2, positions="learned", max_length=5, shared=False)
    data = Multiparallel(languages=("de", "fr"), train=("a", "b", "c"))
    config = MultiTarget(data=data, source=WORDS, target=WORDS, model=model, metrics=("rouge-l",), truncate=True)
    both = {name: Tokenizers(TOKENIZER, TOKENIZER) for name in data.names}
    run = MultiTargetRun(config, build_many(config, both).eval(), both)
    run.predict([LONG, "a"])
    run.evaluate({name: [Pair(LONG, "a", "f:1")] for name in data.names})
    assert caplog.messages == [
        f"1 of 2 sources were {SOURCES.format('them')}",
        f"the source was {SOURCES.format('it')}",
    ]


def test_row_18_one_line_for_all_of_standard_input(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture):
    monkeypatch.setattr(predict, "CHUNK", 1)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(f"{LONG}\na\n{LONG}\n".encode()))))
    run: Any = translator()
    assert len(list(iterate_predictions(run, (), PredictOptions()))) == 3
    assert caplog.messages == [f"2 of 3 sources were {SOURCES.format('them')}"]


@pytest.mark.parametrize("name", ["predict", "attention"])
def test_row_18_an_answer_of_the_server_has_the_warning(name: str, caplog: pytest.LogCaptureFixture):
    operation: Any = build_operations(Replicas(translator()))[name]
    answers = [part.data for part in operation.respond([operation.request(text=LONG)], lambda number: True)]
    assert answers[0]["warnings"][-1] == f"the source was {SOURCES.format('it')}"
    assert not caplog.messages
