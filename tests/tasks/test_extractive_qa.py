"""Answering with spans: windows, the model's outputs, that it learns, and what it refuses."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from regard import load
from regard.data.questions import Answer, Question
from regard.errors import InputError
from regard.maps import Alignment, TextWeights
from regard.models.bert import BertConfig, BertSpans
from regard.models.span_reader import SpanReaderConfig
from regard.runs import run_file
from regard.runs import train as launch
from regard.runs.recipes import path_of
from regard.storage.run_folder import RunDirectory
from regard.tasks.extractive_qa.data import ExtractiveQA, Questions, Window, WindowSplitter, word_features
from regard.tasks.extractive_qa.run import AnswerSpan, ExtractiveQARun, draw_around, shade_window
from regard.tasks.fine_tuning import WordVectors, initialize_word_vectors
from regard.text import Tokenizer, TokenizerSettings
from regard.text.kinds import END, PAD, START
from regard.text.words import spell

TINY = BertConfig(layers=1, width=8, heads=2, hidden=8, context=12, dropout=0.0)
NAMES = ["anna", "bob", "carl", "dora", "emil", "fay"]
PLACES = ["rome", "paris", "oslo", "bern", "lima", "cairo"]


WORDS = TokenizerSettings("word", 50)
READER = SpanReaderConfig()


def tokenizer() -> Tokenizer:
    return Tokenizer.train(WORDS, [" ".join([*"abcdefghijklmnopq", "where", "is", "?"])])


def splitter(model: Any = TINY, context: int = 16, **settings: Any) -> WindowSplitter:
    model = replace(model, context=context)
    return WindowSplitter(tokenizer(), ExtractiveQA(data=Questions(), tokenizer=WORDS, model=model, **settings))


def reading(**settings: Any) -> ExtractiveQARun:
    split = splitter(**settings)
    return ExtractiveQARun(split.config, BertSpans(30, TINY).double(), split.tokenizer)


def windows(example: Question, context: int) -> list[Window]:
    return splitter(context=context).split(example)


def window(part: list[int], offsets: tuple[tuple[int, int], ...], answer: tuple[int, int] = (0, 0)) -> Window:
    words = [[0.0] * 6] * len(part), [[]], [[]] * len(part)
    return Window([7], part, 3, answer, words, offsets)


def asked(context: str, answer: str | None, question: str = "where is q ?") -> Question:
    answers = () if answer is None else (Answer(answer, context.index(answer)),)
    return Question(question, context, answers, "x:1")


def test_a_window_by_hand():
    split = splitter()
    (found,) = split.split(asked("a b c", "b c"))
    assert (len(found.question), found.first, len(found.part)) == (4, 6, 3)
    assert tuple(found.offsets) == ((0, 1), (2, 3), (4, 5))
    assert found.answer == (7, 8)
    batch = split.collate([found, window([8], ((0, 1),))])
    tokens, _, segments = (value.tolist() for value in batch.inputs)
    assert tokens[0] == [START, *found.question, END, *found.part, END]
    assert tokens[1] == [START, 7, END, 8, END, *[PAD] * 5]
    assert segments[0] == [0] * 6 + [1] * 4
    assert batch.targets.tolist() == [[7, 8], [0, 0]]


@pytest.mark.parametrize("answer", [None, "a", "c d", "h", "n o", "p"])
def test_windows_overlap_and_have_every_short_answer(answer: str | None):
    context = " ".join("abcdefghijklmnop")
    found = windows(asked(context, answer, "where ?"), 13)  # room for 8 tokens
    assert [len(each.part) for each in found] == [8, 8, 8]
    covered = {place for each in found for place in range(each.offsets[0][0], each.offsets[-1][1])}
    assert covered == set(range(len(context)))
    told = [each for each in found if each.answer != (0, 0)]
    assert bool(told) is (answer is not None)
    for each in told:
        first, last = (place - each.first for place in each.answer)
        assert context[each.offsets[first][0] : each.offsets[last][1]] == answer


def test_questions_that_cannot_be_cut():
    with pytest.raises(InputError, match=r"x:1: 4 tokens leave no room in a model.context of 8"):
        windows(asked("a", "a"), 8)
    with pytest.raises(InputError, match="x:1: the answer ' ' has no token"):
        windows(Question("where ?", "a b", (Answer(" ", 1),), "x:1"), 16)
    with pytest.raises(InputError, match="x:1: question or context has no token"):
        windows(Question("where ?", " ", (), "x:1"), 16)


def test_loss_is_the_mean_of_both_cross_entropies():
    torch.manual_seed(1)
    run = reading()
    batch = run.collate([window([8, 9], ((0, 1), (2, 3)), (3, 4)), window([8], ((0, 1),))])
    logits = run.model(*batch.inputs)
    assert logits[1, 5:].isneginf().all()
    begins, ends = logits.log_softmax(1).unbind(-1)
    expected = -(begins[0, 3] + ends[0, 4] + begins[1, 0] + ends[1, 0]) / 2
    torch.testing.assert_close(run.compute_loss(logits, batch).total, expected)


def test_the_best_span_against_all_spans():
    generator = torch.Generator().manual_seed(3)
    cut = window(list(range(6)), tuple((2 * place, 2 * place + 1) for place in range(6)))
    for longest in (1, 2, 6, 30):
        for _ in range(20):
            logits = torch.randn(10, 2, generator=generator)
            every = {
                (begin, end): float(logits[3 + begin, 0] + logits[3 + end, 1])
                for begin in range(6)
                for end in range(begin, min(6, begin + longest))
            }
            begin, end = max(every, key=every.__getitem__)
            found = reading(longest_answer=longest).best_span("a b c d e f", cut, logits)
            assert (found.start, found.end) == (2 * begin, 2 * end + 1)
            assert found.score == pytest.approx(every[begin, end])
            assert found.none == pytest.approx(float(logits[0].sum()))


@pytest.mark.parametrize(
    ("context", "offsets", "answer"),
    [
        ("mid-1990s", ((0, 3), (3, 4), (4, 9)), "1990s"),
        ("東京都", ((0, 1), (1, 2), (2, 3)), "都"),  # no blanks: any place may be between words
        ("riverside", ((0, 3), (3, 6), (6, 9)), "riverside"),
    ],
)
def test_an_answer_has_whole_words(context: str, offsets: tuple[tuple[int, int], ...], answer: str):
    logits = torch.zeros(7, 2)
    logits[4], logits[5] = 1.0, 9.0  # the last token alone, then the two last
    found = reading().best_span(context, window([5, 6, 7], offsets), logits)
    assert context[found.start : found.end].strip() == answer


def test_no_answer_is_what_every_window_says():
    question, cut = asked("a b c", None), window([8], ((0, 1),))
    spans = [AnswerSpan(cut, 0, 1, 2.0, 1.5), AnswerSpan(cut, 0, 3, 2.0, 2.5)]
    both, run = Questions(unanswerable=True), reading()
    for data, margin, texts in ((both, 0.0, ["a", ""]), (both, 1.0, ["", ""]), (Questions(), 1.0, ["a", "a b"])):
        run.config = replace(run.config, data=data, margin=margin)
        assert [run.choose_answer(question, [span])[0].text for span in spans] == texts


def told(seed: int, count: int, unanswerable: bool = False) -> dict:
    """Who lives where."""

    def draw(generator: torch.Generator) -> int:
        return int(torch.randint(6, (), generator=generator))

    generator = torch.Generator().manual_seed(seed)
    paragraphs = []
    for _ in range(count):
        one, where = NAMES[draw(generator)], PLACES[draw(generator)]
        context = f"these days {one} lives in {where} ." if draw(generator) < 3 else f"in {where} there is {one} ."
        question, answer = ("who ?", one) if draw(generator) < 3 else ("where ?", where)
        qas = [{"question": question, "answers": [{"text": answer, "answer_start": context.index(answer)}]}]
        qas += [{"question": "when ?", "answers": []}] if unanswerable else []
        paragraphs.append({"context": context, "qas": qas})
    return {"data": [{"paragraphs": paragraphs}]}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("spans")
    for name, seed, count in (("train", 1, 500), ("valid", 2, 60)):
        (folder / f"{name}.json").write_text(json.dumps(told(seed, count)), encoding="utf-8")
    launch.train(config(folder), folder / "run")
    return folder


def config(folder: Path, *settings: str) -> run_file.RunConfig:
    given = [
        f"data.train=[{folder / 'train.json'}]",
        f"data.valid=[{folder / 'valid.json'}]",
        "tokenizer.size=90",
        "model={name: bert, layers: 2, width: 32, heads: 4, hidden: 64, context: 32, dropout: 0.0}",
        "training.steps=300",
        "training.batch_tokens=1024",
        "training.learning_rate=3e-3",
        "training.warmup=50",
        "training.threads=1",
        "training.precision=fp32",
        "training.average_decay=0.9",
    ]
    return run_file.read(path_of("spans"), [*given, *settings])


def test_it_learns_and_answers(folder: Path, caplog: pytest.LogCaptureFixture):
    result = json.loads((folder / "run" / "result.json").read_text())
    assert result["valid/f1"] > 90
    run = load(folder / "run", "cpu", task=ExtractiveQARun)
    context = "these days bob lives in oslo ."
    found, again = run.predict([("where ?", context)] * 2)
    assert run.predict([("who ?", context)])[0].text == "bob"
    assert (found, found.text, context[found.start : found.end]) == (again, "oslo", "oslo")
    with pytest.raises(InputError, match="question 1: question or context has no token; give both"):
        run.predict([("where ?", " ")])
    assert run.evaluate()["f1"] == pytest.approx(result["valid/f1"])
    assert "no test set: evaluated on the validation examples" in caplog.text


def test_the_summary_counts_questions_that_are_left_out(folder: Path, tmp_path: Path):
    path = str(tmp_path / "both.json")
    Path(path).write_text(json.dumps(told(4, 20, unanswerable=True)), encoding="utf-8")
    for unanswerable in (False, True):
        settings = f"data.train=[{path}]", f"data.unanswerable={str(unanswerable).lower()}", "training.steps=1"
        launch.train(config(folder, *settings, "training.warmup=1"), tmp_path / str(unanswerable))
    left, kept = (json.loads((tmp_path / name / "data.json").read_text()) for name in ("False", "True"))
    assert left["warnings"][0] == (
        "20 of 40 (50 %) questions of train have no answer and are left out; data.unanswerable=true keeps them"
    )
    assert "left out" not in f"{left['rows']['valid']} {left['warnings'][1:]} {kept['rows']} {kept['warnings']}"


def test_what_a_question_and_its_context_read(folder: Path):
    run = load(folder / "run", "cpu", task=ExtractiveQARun)
    filler = "these days " * 20
    for context in ("these days emil lives in cairo .", f"{filler}emil lives in cairo ."):
        reading = run.attribute(("who ?", context))
        assert (reading.prediction.text, {"em", "il"} <= set(reading.weights.source)) == ("emil", True)
        assert len(reading.weights.target) <= (run.config.sizes.context or 0)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("predict", "who?"), """text 1: got 'who?'; expected {"question": "Who won?", "context": "The cat won."}"""),
        (("predict", '{"question": 1}'), 'text 1: expected {"question": "Who won?", "context": "The cat won."}'),
        (("predict", '{"question": '), 'text 1: character 14: not valid JSON (Expecting value); expected {"'),
    ],
)
def test_commands_refuse(regard, folder: Path, arguments: tuple[str, ...], said: str):
    command, *rest = arguments
    code, _, errors = regard(command, str(folder / "run"), *rest)
    assert (code, len(errors.splitlines())) == (2, 1)
    assert said in errors


def test_features_by_hand():
    context = ["The", "walks", "ended", "in", "1987", ",", "when"]
    found = np.array(word_features(["When", "did", "walking", "end", "?"], context))
    assert found[:, 0].tolist() == [0, 0, 0, 0, 0, 0, 1]
    assert found[:, 1].tolist() == [0, 1, 0, 0, 0, 0, 1]  # the stem of "end" has three letters
    assert found[:, 2].tolist() == [1, 0, 0, 0, 0, 0, 0]
    assert found[:, 3].tolist() == [0, 0, 0, 0, 1, 0, 0]
    assert found[:, 4].tolist() == [0, 0, 0, 0, 0, 1, 0]
    assert found[:, 5].tolist() == pytest.approx([1 / 7] * 7)


def test_a_window_of_two_sides():
    split = splitter(READER)
    (found,) = split.split(asked("a b c", "b c"))
    batch = split.collate([found, window([8], ((0, 1),))])
    assert (found.answer, batch.size) == ((2, 3), 9)
    question, lengths, context, context_lengths, features, *characters = batch.inputs
    assert (question[0].tolist(), lengths.tolist()) == (found.question, [4, 1])
    assert (context[0, :3].tolist(), context_lengths.tolist(), features.shape) == (found.part, [3, 1], (2, 16, 6))
    assert [each.shape for each in characters] == [(2, 4, 0), (2, 16, 0)]


def test_a_window_with_the_characters_of_its_words():
    split = splitter(replace(READER, characters=6))
    *_, question, context = split.collate(split.split(asked("a b c", "b c"))).inputs
    assert question[0].tolist() == [spell(word, 6) for word in ("where", "is", "q", "?")]
    assert context[0, :3].tolist() == [spell(word, 6) for word in "abc"]
    assert not context[0, 3:].any()


@pytest.fixture(scope="module")
def reader(folder: Path) -> Path:
    (folder / "company.txt").write_text("anna and bob met carl\nrome is far from paris and oslo\n" * 3)
    model = "model={name: span-reader, embedding: 16, width: 16, characters: 8, dropout: 0.0}"
    vectors = f"vectors={{cooccurrence: {folder}/company.txt, fixed: true}}"
    settings = "tokenizer.kind=word", model, vectors, "training.steps=150"
    launch.train(config(folder, *settings), folder / "reader")
    return folder / "reader"


def test_a_span_reader_learns_and_its_words_read_the_question(regard, folder: Path, reader: Path, tmp_path: Path):
    assert json.loads((reader / "result.json").read_text())["valid/f1"] > 90
    run = load(reader, "cpu", task=ExtractiveQARun)
    found = run.attribute(("where ?", "these days Bob lives in oslo ."))
    assert found.prediction.text == "oslo"
    assert (found.weights.source, found.weights.target[:4]) == (("where", "?"), ("these", "days", "Bob", "lives"))
    assert found.lookups[0].layers == ("words", "states")
    asked = json.dumps({"question": "who ?", "context": "these days emil lives in cairo ."})
    code, output, _ = regard("show", str(reader), asked, "--out", f"{tmp_path}/a.svg")
    assert (code, output) == (0, f"emil\nThe picture is {tmp_path}/a.svg.\n")
    code, _, errors = regard("show", str(reader), asked, "--kind", "gradient", "--out", f"{tmp_path}/b.svg")
    assert (code, "this run's model has no gradient; it has weights" in errors) == (2, True)


def test_fixed_vectors_are_not_trained(folder: Path, tmp_path: Path):
    (folder / "company.txt").write_text("anna and bob met carl\n")
    vectors = f"vectors={{cooccurrence: {folder}/company.txt, fixed: true}}"
    model = "model={name: span-reader, embedding: 8, width: 4}"
    settings = ["tokenizer.kind=word", model, vectors, "training.warmup=0"]
    runs = []
    for steps in (1, 3):
        launch.train(config(folder, *settings, f"training.steps={steps}"), tmp_path / str(steps))
        runs.append(load(tmp_path / str(steps), "cpu", task=ExtractiveQARun))
    tables, outputs = (
        [each.model.get_parameter(name) for each in runs] for name in ("embedding.table.weight", "output.weight")
    )
    assert torch.equal(*tables)
    assert not torch.equal(*outputs)
    going_on, vectors = RunDirectory.open(tmp_path / "3"), WordVectors("nowhere.txt", fixed=True)
    initialize_word_vectors(runs[1].model, vectors, runs[1].tokenizer, [], going_on)
    assert not tables[1].requires_grad


@pytest.mark.parametrize(
    ("file", "model", "expected"),
    [
        ("company.txt", "{name: span-reader, characters: 2}", "characters is 2, and a filter reads 5"),
        ("nowhere.txt", "{name: span-reader, embedding: 16, width: 16}", "nowhere.txt: no such file"),
        (
            "company.txt",
            "{name: span-reader, embedding: 300, width: 16}",
            "lower model.embedding, or raise",
        ),
        ("company.txt", "{name: bert, layers: 1, width: 16, heads: 2}", "vectors: the model has no table of word"),
    ],
)
def test_vectors_that_cannot_be_made(folder: Path, tmp_path: Path, file: str, model: str, expected: str):
    (folder / "company.txt").write_text("anna and bob met carl\n")
    settings = "tokenizer.kind=word", f"model={model}", f"vectors={{cooccurrence: {folder / file}}}"
    with pytest.raises(InputError, match=expected):
        launch.train(config(folder, *settings), tmp_path / "run")


def test_a_picture_has_the_answer_framed_in_what_it_reads():
    """The answer is the last two of four words; of the tokens the first and those between are special."""
    question = asked("a b c d", "c d", "where ?")
    split = splitter()
    (found,) = split.split(question)
    first, length = found.first, found.first + len(found.part) + 1
    weights = np.zeros((length, length))
    weights[first + 2, [0, 1, first]] = 0.4, 0.2, 0.4
    weights[first + 3, [1, first + 1]] = 0.6, 0.4
    labels = tuple(map(str, range(length)))

    def shade(window: Window, places: list[int], rows: np.ndarray) -> TextWeights:
        return shade_window(split.tokenizer, question, window, places, Alignment(rows, labels, labels))

    shown = shade(found, [2, 3], weights)
    assert (shown.labels, shown.texts) == (("where", "?", "a", "b", "c", "d"), (0, 0, 1, 1, 1, 1))
    assert shown.framed == {4, 5}
    np.testing.assert_allclose(shown.weights, [0.5, 0, 0.25, 0.25, 0, 0])
    none = shade(found, [], np.eye(length))
    assert (none.framed, float(none.weights.sum())) == (frozenset(), 0.0)
    shown = shade(found._replace(part=found.part[1:3], offsets=found.offsets[1:3]), [1], weights)
    assert shown.labels == ("where", "?", "…", "b", "c", "…")
    assert shown.framed == {4}


def test_a_picture_of_a_long_context_has_the_words_around_the_answer(monkeypatch: pytest.MonkeyPatch):
    weights = Alignment(np.arange(400.0).reshape(200, 2) / 400, ("who", "?"), tuple(map(str, range(200))))
    monkeypatch.setattr("regard.tasks.extractive_qa.run.heatmap", lambda shown, **_: shown)
    for places, expected in (([100, 101], (26, "88", "[100]")), ([], (25, "0", "12")), ([3], (16, "0", "12"))):
        shown: Any = draw_around(places, weights, "title")
        labels = shown.target
        assert (len(labels), labels[0], labels[12]) == expected


def test_generated_answers_start_from_a_span_reader(tmp_path: Path):
    """The encoder has its weights and its words, and another encoder does not fit."""
    places = [f"{name} is in {place}." for name, place in zip(NAMES, PLACES, strict=True)]
    rows = [
        {"question": f"where is {n}?", "context": " ".join(places), "answer": p}
        for n, p in zip(NAMES, PLACES, strict=True)
    ]
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    quick = [f"data.{part}={tmp_path / 'a.jsonl'}" for part in ("train", "valid")]
    quick += ["data.answer=answer", "training.steps=2", "training.warmup=1"]
    sizes = ["model.embedding=8", "model.width=6"]
    launch.train(run_file.read(path_of("span-reader"), [*quick, *sizes]), tmp_path / "reader")
    reader = load(tmp_path / "reader", "cpu").model.state_dict()
    decoder = [f"model.decoder.{name}=6" for name in ("embedding", "width", "attention")]
    quick += [f"training.start={tmp_path / 'reader'}", "training.learning_rate=1e-9", "search.beam=1", *decoder]
    sizes = ["model.encoder.embedding=8", "model.encoder.width=6"]
    launch.train(run_file.read(path_of("squad"), [*quick, *sizes]), tmp_path / "run")
    run = load(tmp_path / "run", "cpu")
    for name, value in reader.items():
        torch.testing.assert_close(run.model.encoder.state_dict()[name], value, atol=1e-6, rtol=0)
    assert run.predict(["where is bob? bob is in paris."])[0].text is not None
    with pytest.raises(InputError, match="weights do not fit SpanEncoder"):
        launch.train(run_file.read(path_of("squad"), [*quick, "model.encoder.width=5"]), tmp_path / "next")
