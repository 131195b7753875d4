"""What an evaluation says beside its figures: which examples are scored, by which search, in which units."""

import io
import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from regard.cli import predict
from regard.cli.main import main
from regard.cli.predict import iterate_predictions
from regard.data.generated.pairs import Dates
from regard.data.pairs import Multiparallel, Pair
from regard.data.tokens import Limit, Tokenizers, count_together, limit_lengths, report_cut
from regard.decoding.search import Search
from regard.errors import InputError
from regard.metrics import ERROR_RATES, METRICS, describe_units
from regard.models.bert import BertConfig, BertSpans
from regard.models.catalog import CLASSIFIERS
from regard.models.gpt2 import GPT2Config
from regard.models.one_to_many import OneToMany
from regard.models.pointer_generator import PointerConfig
from regard.models.transformer import TransformerConfig
from regard.serve.operations import build_operations
from regard.serve.worker import Replicas
from regard.tasks.classification.data import Labelled, LabelledTables
from regard.tasks.classification.inputs import Classification
from regard.tasks.classification.run import ClassificationRun, ClassOutputs
from regard.tasks.extractive_qa.data import ExtractiveQA, Questions
from regard.tasks.extractive_qa.run import ExtractiveQARun
from regard.tasks.multi_target import MultiTarget, MultiTargetRun
from regard.tasks.options import EvaluationOptions, PredictOptions
from regard.tasks.run import Run, describe_examples, describe_search
from regard.tasks.seq2seq.run import Seq2Seq, Seq2SeqRun, TokenizerPair, build_model
from regard.text import Tokenizer, TokenizerSettings
from tests.attribution.untrained import TEXT, going_on, writing

DATES = str(Path(__file__).parents[1] / "data" / "runs" / "dates")


def data(test: str | None = None, count: int = 0) -> Any:
    valid = SimpleNamespace(valid=["v"] * 1200)
    return SimpleNamespace(
        train="a.csv", valid=None, test=test, split_seed=7, tests=lambda: ["t"] * count, load=lambda: valid
    )


class CountingRun(Run[str, Any]):
    """A run whose metric is the number of examples."""

    supports = {"evaluate": frozenset()}  # noqa: RUF012
    data_hint = "give files"

    def __init__(self, section: Any) -> None:
        self.config, self.model = SimpleNamespace(data=section), None

    def parse(self, line: str, place: str = "text 1") -> str:
        return line

    def compute_metrics(self, examples: Any, options: EvaluationOptions) -> dict[str, float]:
        return {"count": float(len(examples))}


def test_the_test_set_or_the_validation_examples_are_scored(caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.INFO, "regard")
    assert CountingRun(data("test.csv", 13)).evaluate() == {"count": 13}
    assert CountingRun(data()).evaluate() == {"count": 1200}
    assert CountingRun(data()).evaluate(["x"]) == {"count": 1}
    assert caplog.messages == [
        "evaluated on 13 examples: test.csv",
        "no test set: evaluated on the validation examples, which also selected the checkpoint (optimistic)",
        "evaluated on 1,200 examples: held out of a.csv by data.split_seed 7",
    ]
    with pytest.raises(InputError, match="no examples are given; give files"):
        CountingRun(data()).evaluate([])


def test_a_running_text_is_not_counted_and_languages_are_counted_once():
    assert describe_examples(["all of it"], "text.txt") == "evaluated on text.txt"
    assert describe_examples([1, 2], "letters", "images") == "evaluated on 2 images: letters"
    assert describe_examples({"de": [1, 2], "fr": [3, 4]}, "three.csv") == "evaluated on 2 examples: three.csv"


def test_the_search_of_an_evaluation():
    run = SimpleNamespace(
        config=SimpleNamespace(search=Search(beam=4, length_penalty=0.6)), supports={"evaluate": {"beam"}}
    )
    assert describe_search(run, EvaluationOptions()) == "decoding: beam 4, length penalty 0.6"
    assert describe_search(run, EvaluationOptions(beam=1)) == "decoding: greedy"
    assert describe_search(SimpleNamespace(supports={"evaluate": {"files"}}), EvaluationOptions()) is None


def test_every_metric_has_a_unit():
    assert describe_units([*METRICS, *ERROR_RATES]).count(":") == 4
    assert describe_units(["accuracy", "accuracy/de", "of-my-own", "f1", "loss"]) == (
        "accuracy, f1: in per cent, higher is better; loss: the mean negative log-probability of a token, lower is "
        "better"
    )
    assert describe_units(["of-my-own"]) == ""


def test_the_command_says_what_it_scored(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    for name, lines in (("source", "14 July 1989\n5 May 2001\n"), ("target", "1989-07-14\n2001-05-05\n")):
        (tmp_path / name).write_text(lines, encoding="utf-8")
    assert main(["evaluate", DATES, str(tmp_path / "source"), str(tmp_path / "target"), "--beam", "3"]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("exact-match")
    assert f"regard: evaluated on 2 examples: {tmp_path / 'source'}, {tmp_path / 'target'}\n" in err
    assert "regard: decoding: beam 3" in err
    assert "regard: exact-match: in per cent, higher is better\n" in err


def texts(found) -> list[str]:
    """Those of a prediction and its alternatives, best first."""
    return [each.text for each in (found, *found.alternatives)]


def test_n_best_predictions_have_different_texts():
    run = writing()
    (best,) = run.predict([TEXT], PredictOptions(beam=16))
    (found,) = run.predict([TEXT], PredictOptions(beam=16, n_best=16))
    (four,) = run.predict([TEXT], PredictOptions(beam=16, n_best=4))
    assert 4 <= len(texts(found)) == len(set(texts(found))) < 16
    assert texts(four) == texts(found)[:4]
    assert best.text == found.text


def test_sampled_continuations_have_different_texts():
    run = going_on()
    (found,) = run.predict(["the cat"], PredictOptions(n_best=30, temperature=1.0, seed=1, tokens=1))
    assert len(texts(found)) == len(set(texts(found))) < 30


def test_sacrebleu_logs_no_warning(caplog: pytest.LogCaptureFixture):
    with caplog.at_level(logging.WARNING):
        METRICS["bleu"](["a cat ."] * 100, [["a cat ."]] * 100)
    assert not caplog.messages


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
    return Seq2SeqRun(config, build_model(model, both).eval(), both)


def classifier(model: Any, *, truncate: bool = True) -> ClassificationRun:
    torch.manual_seed(3)
    config = Classification(data=LabelledTables(train="t.tsv"), tokenizer=WORDS, model=model, truncate=truncate)
    return ClassificationRun(
        config, CLASSIFIERS.build(model, TOKENIZER.size, 2).eval(), TOKENIZER, ClassOutputs(("yes", "no"))
    )


BERT = BertConfig(layers=1, width=8, heads=2, hidden=8, context=6, dropout=0.0)
SIZES = {"bert": (BERT, 6), "gpt2": (GPT2Config(layers=1, width=8, heads=2, context=4), 4)}


@pytest.mark.parametrize("pointer", [False, True])
def test_a_source_is_cut_wherever_it_is_read(pointer: bool, caplog: pytest.LogCaptureFixture):
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
def test_a_run_that_cuts_nothing_refuses(use: Callable[[Any], Any]):
    run = translator(truncate=False)
    expected = r"text 1: 8 tokens and 1 special token, but the model takes 5; shorten it, or train with a "
    with pytest.raises(InputError, match=expected + r"larger model.max_source \(--set truncate=true"):
        use(run)
    with pytest.raises(InputError, match="text 1: 8 tokens and 2 special tokens, but the model takes 6"):
        use(classifier(BERT, truncate=False))


@pytest.mark.parametrize("name", SIZES)
def test_a_text_with_a_class_is_cut_aloud(name: str, caplog: pytest.LogCaptureFixture):
    model, most = SIZES[name]
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


def test_a_question_is_cut_aloud(caplog: pytest.LogCaptureFixture):
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


def test_several_languages_cut_their_source_once(caplog: pytest.LogCaptureFixture):
    model = TransformerConfig(layers=1, width=8, hidden=8, heads=2, positions="learned", max_length=5, shared=False)
    data = Multiparallel(languages=("de", "fr"), train=("a", "b", "c"))
    config = MultiTarget(data=data, source=WORDS, target=WORDS, model=model, metrics=("rouge-l",), truncate=True)
    both = {name: Tokenizers(TOKENIZER, TOKENIZER) for name in data.names}
    models = {name: build_model(model, sides) for name, sides in both.items()}
    run = MultiTargetRun(config, OneToMany(models).eval(), both)
    run.predict([LONG, "a"])
    run.evaluate({name: [Pair(LONG, "a", "f:1")] for name in data.names})
    assert caplog.messages == [
        f"1 of 2 sources were {SOURCES.format('them')}",
        f"the source was {SOURCES.format('it')}",
    ]


def test_one_line_for_all_of_standard_input(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture):
    monkeypatch.setattr(predict, "CHUNK", 1)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(f"{LONG}\na\n{LONG}\n".encode()))))
    run: Any = translator()
    assert len(list(iterate_predictions(run, (), PredictOptions()))) == 3
    assert caplog.messages == [f"2 of 3 sources were {SOURCES.format('them')}"]


@pytest.mark.parametrize("name", ["predict", "attention"])
def test_an_answer_of_the_server_has_the_warning(name: str, caplog: pytest.LogCaptureFixture):
    operation: Any = build_operations(Replicas(translator()))[name]
    answers = [part.data for part in operation.respond([operation.request(text=LONG)], lambda number: True)]
    assert answers[0]["warnings"][-1] == f"the source was {SOURCES.format('it')}"
    assert not caplog.messages


LIMIT = Limit(5, 2, "model.context")
ADVICE = "cut to the model's maximum of 5 tokens, as in training; shorten"


def test_a_sequence_longer_than_the_maximum():
    sequences, places = [[1, 2, 3], [4] * 5, [], [6] * 7], ["f:1", "f:2", "f:3", "f:4"]
    assert limit_lengths(Limit(7, 0, "model.context"), sequences, places) == (sequences, 0)
    with pytest.raises(InputError, match=r"f:2: 5 tokens and 2 special tokens, but the model takes 5; .*truncate=true"):
        limit_lengths(LIMIT, sequences, places)


def test_truncation_is_counted():
    sequences = [[1, 2, 3], [4, 5, 6, 7], [], [8, 9, 10, 11, 12]]
    limited, cut = limit_lengths(LIMIT, sequences, ["a", "b", "c", "d"], truncate=True)
    assert (limited, cut) == ([[1, 2, 3], [4, 5, 6], [], [8, 9, 10]], 2)
    assert len(sequences[1]) == 4


def test_one_line_of_several_calls(caplog: pytest.LogCaptureFixture):
    report_cut(LIMIT, 0, 3)
    assert not caplog.messages
    report_cut(LIMIT, 1, 1)
    with count_together():
        for cut in (1, 0, 2):
            report_cut(LIMIT, cut, 7)
    with count_together(logged=False):
        report_cut(LIMIT, 1, 1)
    assert caplog.messages == [
        f"the text was {ADVICE} it, or train with a larger model.context",
        f"3 of 21 texts were {ADVICE} them, or train with a larger model.context",
    ]
