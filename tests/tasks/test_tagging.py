"""Tagging: entities as seqeval counts them, files of words and of spans, tokens of words, and that it learns."""

import json
from collections import UserList
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow
import pytest
import torch
from pyarrow import parquet
from torch import nn

from regard import load
from regard.data.records import Records, records_of
from regard.errors import InputError
from regard.maps.alignment import Alignment
from regard.metrics import Entity, entity_metrics, find_entities, to_bio
from regard.models.bert import BertConfig, BertPointerConfig, PointingHead
from regard.models.catalog import TAGGERS
from regard.models.classifier import RecurrentTaggerConfig
from regard.runs import run_file
from regard.runs import train as launch
from regard.runs.recipes import path_of
from regard.tasks.tagging.data import (
    Names,
    Tagged,
    TaggedFiles,
    Tagging,
    describe_unread_scheme,
    of_spans,
    of_words,
    space_out,
    word_places,
)
from regard.tasks.tagging.run import (
    TaggingRun,
    TextPart,
    choose_tags,
    find_first_tokens,
    shade_entities,
    split_text,
    warn_cut,
)
from regard.text import Tokenizer, TokenizerSettings
from regard.text.kinds import END, IGNORED, PAD, START

QUICK = ["training.steps=150", "training.batch_tokens=800", "training.learning_rate=5e-3", "training.warmup=10"]
QUICK += ["training.validate_every=0", "training.threads=1", "training.precision=fp32"]
BERT = BertConfig(layers=2, width=8, heads=2, hidden=8, context=12, dropout=0.0)
RECURRENT = RecurrentTaggerConfig(embedding=5, width=4, heads=2, dropout=0.0)


def test_the_example_of_seqeval():
    """The first example of its README: f1 0.50, accuracy 0.80."""
    expected = [["O", "O", "O", "B-MISC", "I-MISC", "I-MISC", "O"], ["B-PER", "I-PER", "O"]]
    predicted = [["O", "O", "B-MISC", "I-MISC", "I-MISC", "I-MISC", "O"], ["B-PER", "I-PER", "O"]]
    found = entity_metrics(predicted, expected)
    assert found == pytest.approx({"f1": 50, "precision": 50, "recall": 50, "accuracy": 80})
    assert find_entities(["B-PER", "I-PER", "O", "B-LOC"]) == [(0, 2, "PER"), (3, 4, "LOC")]  # that of get_entities


@pytest.mark.parametrize(
    ("tags", "found"),
    [
        ("I-A I-A O I-B", [(0, 2, "A"), (3, 4, "B")]),  # IOB1, where B- only parts two of a kind
        ("I-A B-A I-A", [(0, 1, "A"), (1, 3, "A")]),
        ("I-A I-B", [(0, 1, "A"), (1, 2, "B")]),
        ("B-A I-B I-B", [(0, 1, "A"), (1, 3, "B")]),
        ("S-A B-A I-A E-A S-B", [(0, 1, "A"), (1, 4, "A"), (4, 5, "B")]),  # BIOES
        ("U-A B-A I-A L-A U-B", [(0, 1, "A"), (1, 4, "A"), (4, 5, "B")]),  # BILOU
        ("B-A M-A E-A S-B W-B", [(0, 3, "A"), (3, 4, "B"), (4, 5, "B")]),  # BMES and BMEWO
        ("B-A E-A I-A", [(0, 2, "A"), (2, 3, "A")]),
        ("E-A O E-A", [(0, 1, "A"), (2, 3, "A")]),
        ("NOUN NOUN O VERB", [(0, 1, "NOUN"), (1, 2, "NOUN"), (3, 4, "VERB")]),
        ("B-date-of-birth I-date-of-birth", [(0, 2, "date-of-birth")]),
        ("O O", []),
    ],
)
def test_entities_of_every_scheme(tags: str, found: list[tuple[int, int, str]]):
    assert find_entities(tags.split()) == found
    assert find_entities(to_bio(tags.split())) == found


def test_no_entity_is_no_division():
    assert entity_metrics([["O"]], [["O"]]) == {"f1": 0, "precision": 0, "recall": 0, "accuracy": 100}
    with pytest.raises(ValueError, match="zip"):
        entity_metrics([["O"]], [["O", "O"]])


def test_words_of_texts():
    text = "Anna's U.N. visit (1,000.5 km), 東京 e.g. Berlin-based!"
    words = [text[start:end] for start, end in word_places(text)]
    assert words[:9] == ["Anna", "'s", "U.N.", "visit", "(", "1,000.5", "km", ")", ","]
    assert words[9:] == ["東", "京", "e.g.", "Berlin", "-", "based", "!"]


@pytest.mark.parametrize("word", ["e-mail", "किताब", "cafe\u0301", "می\u200cروم", "北京", "don't"])
def test_a_file_has_the_words_of_a_prediction(word: str):
    read = of_words([word, "x"], ["B-A", "O"])
    assert read.words == word_places(read.text)
    assert find_entities(read.tags) == [(0, len(read.words) - 1, "A")]


def test_a_file_of_words(tmp_path: Path):
    lines = ["-DOCSTART- -X- O O", "", "EU NNP B-NP I-ORG", "rejects VBZ B-VP O", "", "# text = x", "Ann X Y I-PER", ""]
    (tmp_path / "a.conll").write_text("\n".join(lines), encoding="utf-8")
    first, second = TaggedFiles().read(str(tmp_path / "a.conll"))
    assert first == Tagged("EU rejects", ((0, 2), (3, 10)), ("B-ORG", "O"), f"{tmp_path}/a.conll:3")
    assert (second.text, second.tags, second.place) == ("Ann", ("B-PER",), f"{tmp_path}/a.conll:7")
    plain = TaggedFiles(tag=2).read(str(tmp_path / "a.conll"))
    assert plain[0].tags == ("NNP", "VBZ")


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (["B-PER", "I-PER", "B-LOC", "O", "NN", "NN-S"], []),
        (["PER-B", "PER-I", "O"], ["PER-B and PER-I", "B-PER and I-PER"]),
        (["B_PER", "I_PER", "O"], ["B_PER and I_PER", "B-PER and I-PER"]),
        (["B", "I", "O"], ["B and I", "B-NAME and I-NAME"]),
    ],
)
def test_tags_of_a_scheme_that_is_not_read_are_said(labels: list[str], expected: list[str]):
    found = describe_unread_scheme(labels)
    assert len(found) == bool(expected)
    assert all(part in message for message in found for part in expected)


@pytest.mark.parametrize(
    ("lines", "words", "tags"),
    [
        (["#\tn-tv.de vom 26.02.2005\t[2005]", "1\tAnn\tB-PER\tO", "2\tsagt\tO\tO"], "Ann sagt", ("B-PER", "O")),
        (["1 Ann _ PROPN\t_", "2 runs _ VERB\t_"], "Ann runs", ("PROPN", "VERB")),
        (["1\tNew York\tB-LOC\tO", "2\truns\tO\tO"], "New York runs", ("B-LOC", "I-LOC", "O")),
    ],
)
def test_columns_of_a_sentence(tmp_path: Path, lines: list[str], words: str, tags: tuple[str, ...]):
    (tmp_path / "a.conll").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (found,) = TaggedFiles(word=2, tag=4 if "PROPN" in lines[0] else 3).read(str(tmp_path / "a.conll"))
    assert (found.text, found.tags) == (words, tags)


def test_a_word_that_is_a_tab_is_refused(tmp_path: Path):
    (tmp_path / "a.conll").write_text("Ann B-PER\n\t O\n", encoding="utf-8")
    with pytest.raises(InputError, match="word 2 has 1 columns"):
        TaggedFiles().read(str(tmp_path / "a.conll"))


def test_a_file_of_spans(tmp_path: Path):
    rows = [
        {"text": "Ann met Bo Li.", "spans": [{"start": 0, "end": 3, "label": "PER"}, [8, 13, "PER"]]},
        {"text": "no names", "spans": None},
    ]
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    first, second = TaggedFiles().read(str(tmp_path / "a.jsonl"))
    assert first.tags == ("B-PER", "O", "B-PER", "I-PER", "O")
    assert second.tags == ("O", "O")
    rows = [{"tokens": ["EU", "rejects"], "ner_tags": ["B-ORG", "O"]}]
    found = TaggedFiles(text="tokens", spans="ner_tags").read(Records("more", rows))
    assert (found[0].text, found[0].tags) == ("EU rejects", ("B-ORG", "O"))


def test_lines_of_conll_u_that_are_no_words(tmp_path: Path):
    lines = ["# newdoc", "# sent_id = 1", "1 He PRON", "2-3 don't _", "2 do AUX", "3 not PART", "3.1 eat VERB", ""]
    rows = [line if line.startswith("#") else line.replace(" ", "\t") + "\t_" * 7 * bool(line) for line in lines]
    (tmp_path / "a.conllu").write_text("\n".join([*rows, *rows[1:]]), encoding="utf-8")
    first, second = TaggedFiles(word=2, tag=3).read(str(tmp_path / "a.conllu"))
    assert (first.text, first.tags, second.text) == ("He do not", ("PRON", "AUX", "PART"), "He do not")
    assert (first.place, second.place) == (f"{tmp_path}/a.conllu:3", f"{tmp_path}/a.conllu:10")
    (tmp_path / "a.conll").write_text("1 NUM\n4-5 NUM\n# SYM\n", encoding="utf-8")
    assert TaggedFiles().read(str(tmp_path / "a.conll"))[0].text == "1 4-5 #"


def test_tags_that_parquet_and_data_sets_have_as_numbers(tmp_path: Path):
    tags = {"feature": {"names": ["O", "B-ORG"], "_type": "ClassLabel"}, "_type": "List"}
    metadata = {b"huggingface": json.dumps({"info": {"features": {"ner_tags": tags}}}).encode()}
    columns = {"id": ["0", "1"], "tokens": [["EU", "rejects"], ["it"]], "ner_tags": [[1, 0], [0]]}
    parquet.write_table(pyarrow.table(columns).replace_schema_metadata(metadata), tmp_path / "a.parquet")
    section = TaggedFiles(text="tokens", spans="ner_tags")
    found = section.read(str(tmp_path / "a.parquet"))
    assert [(each.text, each.tags) for each in found] == [("EU rejects", ("B-ORG", "O")), ("it", ("O",))]
    parquet.write_table(pyarrow.table(columns), tmp_path / "b.parquet")
    with pytest.raises(InputError, match=r"b\.parquet:1: expected .* list of their tags, such as 'B-PER'"):
        section.read(str(tmp_path / "b.parquet"))

    class Data(UserList[object]):
        features: Mapping[str, object]

    data = Data([{"tokens": ["EU"], "ner_tags": [1]}])
    data.features = {"ner_tags": SimpleNamespace(feature=SimpleNamespace(names=["O", "B-ORG"])), "tokens": None}
    assert records_of(data) == [{"tokens": ["EU"], "ner_tags": ["B-ORG"]}]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.conll", "a O\nb\n", r"a\.conll:1: word 2 has 1 columns; expected at least 2, a word and its tag"),
        ("a.conll", "a\n", r"a\.conll:1: word 1 has 1 columns"),
        ("a.jsonl", '{"text": 3, "spans": []}\n', r"a\.jsonl:1: expected a text and the list of its spans"),
        (
            "a.jsonl",
            '{"text": "a", "spans": [{"start": 0}]}\n',
            r"a\.jsonl:1: a span is .* expected \[start, end",
        ),
        ("a.jsonl", '{"text": "a", "spans": [{"start": 0, "end": 1, "labels": ["X", "Y"]}]}\n', r":1: a span is "),
        (
            "a.jsonl",
            '{"text": "Berlins", "spans": [[0, 6, "X"]]}\n',
            "0 to 6, 'Berlin', does not begin and end with",
        ),
        ("a.jsonl", '{"text": "a b", "spans": [[0, 3, "X"], [2, 3, "Y"]]}\n', "the span 2 to 3, 'b', overlaps another"),
        ("a.jsonl", '{"text": ["a"], "spans": [0]}\n', r"a\.jsonl:1: expected .* list of their tags"),
        ("a.jsonl", '{"text": ["a"], "spans": ["O", "O"]}\n', r"a\.jsonl:1: 1 words, 2 tags"),
        ("a.jsonl", '{"text": " ", "spans": []}\n', r"a\.jsonl:1: the text is empty"),
    ],
)
def test_records_that_are_wrong(name: str, text: str, message: str, tmp_path: Path):
    (tmp_path / name).write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=message):
        TaggedFiles().read(str(tmp_path / name))
    good = '{"text": "a", "spans": []}\n' if name.endswith("jsonl") else "\nx O\n"
    (tmp_path / name).write_text(f"{text}{good}", encoding="utf-8")
    assert len(TaggedFiles(skip_bad=True).read(str(tmp_path / name))) == 1


def test_keys_that_no_object_has(tmp_path: Path):
    rows = [{"text": "Ann met Bo.", "label": [[0, 3, "PER"]]}, {"text": "no names", "label": []}]
    for name, text in (("a.jsonl", "\n".join(map(json.dumps, rows))), ("a.json", json.dumps(rows))):
        (tmp_path / name).write_text(text, encoding="utf-8")
        path = str(tmp_path / name)
        for skip_bad in (False, True):
            with pytest.raises(InputError) as caught:
                TaggedFiles(skip_bad=skip_bad).read(path)
            expected = f"{path}:1: no column 'spans', there are 'text', 'label'; name yours with --set data.spans="
            assert expected in str(caught.value)
        assert TaggedFiles(spans="label").read(path)[0].tags == ("B-PER", "O", "O", "O")
    rows = [{"doc": {"body": "Ann met Bo.", "names": [[0, 3, "PER"]]}}]
    assert TaggedFiles(text="doc.body", spans="doc.names").read(Records("rows", rows))[0].tags[0] == "B-PER"


def test_a_column_that_counts_the_words_is_refused(tmp_path: Path):
    path = tmp_path / "a.conll"
    path.write_text("1 Anna B-PER\n2 sleeps O\n\n1 Bonn B-LOC\n2 is O\n3 big O\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"a.conll:1: column 1 counts the words .*: --set data.word=2"):
        TaggedFiles().read(str(path))
    assert [each.text for each in TaggedFiles(word=2).read(str(path))] == ["Anna sleeps", "Bonn is big"]
    path.write_text("id,text,entities\n1,Anna sleeps,\"[('Anna', 'PER')]\"\n", encoding="utf-8")
    with pytest.raises(InputError, match="a table with a text a row"):
        TaggedFiles().read(str(path))


def test_generated_sentences_have_their_spans():
    train, valid, test = Names(train=200, valid=20, test=30).sentences()
    assert len({each.text for each in (*train, *valid, *test)}) == 250
    assert {label for each in train for _, _, label in each.spans} == {"PER", "LOC", "ORG"}
    assert not any("<" in each.text or "{" in each.text for each in train)
    assert all(isinstance(of_spans(each.text, each.spans), Tagged) for each in train)


def untrained(config: BertConfig | RecurrentTaggerConfig = BERT) -> TaggingRun:
    tokenizer = Tokenizer.train(TokenizerSettings("word", 50), ["a b c"])
    model = TAGGERS.build(config, 11, 3).double().eval()
    return TaggingRun(Tagging(data=Names(), tokenizer=tokenizer.settings, model=config), model, tokenizer, list("abc"))


def test_the_first_token_stands_for_a_word():
    assert find_first_tokens([(0, 6), (7, 9)], [(0, 3), (3, 6), (6, 8), (8, 9)]) == {0: 0, 1: 2}
    assert find_first_tokens([(0, 2), (2, 4)], [(0, 4)]) == {0: 0}  # one token for two words
    assert find_first_tokens([(0, 1), (2, 3)], [(2, 3)]) == {1: 0}


@pytest.mark.parametrize("text", ["สมชายอยู่กรุงเทพ", "トムとパリ U.N. e-mail"])
def test_each_word_of_a_script_without_spaces_has_a_token(text: str):
    tagger = untrained()
    tagger.tokenizer = Tokenizer.train(TokenizerSettings("wordpiece", 99), [text])
    words = word_places(text)
    assert [word for part in tagger.split(text, words) for word in part.words] == [*range(len(words))]
    spaced, places = space_out(text, words)
    assert spaced.replace(" ", "") == text.replace(" ", "")
    assert [spaced[slice(*place)] for place in places] == [text[slice(*place)] for place in words]


def test_a_long_text_has_several_parts():
    text = " ".join("abcdefgh")
    tokenizer = Tokenizer.train(TokenizerSettings("word", 50), [text])
    found = split_text(tokenizer, 5, text, word_places(text))
    assert [each.words for each in found] == [[0, 1, 2], [3, 4, 5], [6, 7]]
    assert all((each.ids[0], each.ids[-1]) == (START, END) and len(each.ids) <= 5 for each in found)
    assert all(each.positions == list(range(1, len(each.words) + 1)) for each in found)
    assert split_text(tokenizer, 5, "", ()) == [TextPart([START, END], [], [], [])]
    letters = Tokenizer.train(TokenizerSettings("character", 50), [text])
    (long, short) = pieces = split_text(letters, 6, "abcdefgh a", word_places("abcdefgh a"))
    assert (long.words, short.words, len(long.ids)) == ([0], [1], 6)
    (warning,) = warn_cut([pieces, [short]], 6)
    assert warning.startswith("1 of the words of 2 texts are longer than the model's maximum of 6 tokens")
    assert warn_cut([[short]], 6) == []


def test_a_batch_has_the_tags_of_find_first_tokens():
    batch = untrained().collate(
        [TextPart([START, 7, 8, 9, END], [0, 2], [1, 3], [5, 4]), TextPart([START, 7, END], [], [], [])]
    )
    assert batch.inputs[0].tolist() == [[START, 7, 8, 9, END], [START, 7, END, PAD, PAD]]
    assert batch.targets.tolist() == [[IGNORED, 5, IGNORED, 4, IGNORED], [IGNORED] * 5]
    assert batch.size == 2
    assert choose_tags(torch.tensor([[0.1, 0.9], [0.0, 0.0]]), ["B-X", "I-X"]) == ["I-X", "O"]  # a word without a token


@pytest.mark.parametrize("config", [BERT, RECURRENT], ids=lambda each: each.name)
def test_padding_and_the_rest_of_the_batch_change_nothing(config: BertConfig | RecurrentTaggerConfig):
    run = untrained(config)
    model = run.model
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.5)
    rows = [[2, 7, 5, 9, 3], [2, 3], [2, 10, 8, 3]]
    batch = run.collate([TextPart(row, [], [], []) for row in rows])
    whole = model(*batch.inputs)
    assert whole.shape == (3, 5, 3)
    for row, found in zip(rows, whole, strict=True):
        alone = model(torch.tensor([row]), torch.tensor([len(row)]))[0]
        torch.testing.assert_close(found[: len(row)], alone, rtol=1e-12, atol=1e-12)


def pointing() -> TaggingRun:
    tokenizer = Tokenizer.train(TokenizerSettings("wordpiece", 50), ["the dog saw it"])
    config = BertPointerConfig(layers=1, width=8, heads=2, hidden=11, context=16, dropout=0.0)
    model = TAGGERS.build(config, tokenizer.size, 1).eval()
    return TaggingRun(Tagging(data=Names(), tokenizer=tokenizer.settings, model=config), model, tokenizer, ["O"])


def test_tags_of_a_pointer_are_words_of_the_text():
    run, text = pointing(), "the dogs saw it"
    tagged = of_spans(text, [(13, 15, "dogs")])
    tags = run.index_tags(tagged)
    assert tags == [0, 0, 0, 2]  # the start, or a word, from 1
    (part,) = run.split(text, tagged.words, tags)
    assert len(part.ids) > 6  # dogs has several pieces
    batch = run.collate([part, part])
    assert batch.targets[0, part.positions].tolist() == [0, 0, 0, part.positions[1]]
    outputs = run.model(*batch.inputs)
    assert outputs.shape == (2, len(part.ids), len(part.ids))
    torch.testing.assert_close(outputs.exp().sum(-1), torch.ones_like(outputs[..., 0]))
    (rows,) = run.compute_probabilities([[part]], [4])
    torch.testing.assert_close(rows.sum(-1), torch.ones(4))
    with pytest.raises(InputError, match="'cat' isn't a word of the text, and the model bert-pointer points to words"):
        run.index_tags(of_spans(text, [(13, 15, "cat")]))


def test_a_pointing_head_by_its_formula():
    head = PointingHead(6).double()
    states, lengths = torch.randn(2, 5, 6, dtype=torch.float64), torch.tensor([5, 3])
    found = head(states, lengths).exp().detach().numpy()
    arrays = {name: value.detach().numpy() for name, value in head.named_parameters()}
    for row, length in enumerate(lengths.tolist()):
        rows = states[row, :length].numpy()
        query = rows @ arrays["query.weight"].T + arrays["query.bias"]
        key = rows @ arrays["key.weight"].T + arrays["key.bias"]
        shares = np.exp(query @ key.T / np.sqrt(6))
        np.testing.assert_allclose(found[row, :length, :length], shares / shares.sum(-1, keepdims=True), rtol=1e-12)
        assert found[row, :, length:].max(initial=0) < 1e-300


def trained(folder: Path, name: str, *settings: str) -> Path:
    launch.train(run_file.read(path_of(name), [*QUICK, *settings]), folder / "run")
    return folder / "run"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    sizes = "{name: recurrent-tagger, embedding: 24, width: 24, heads: 2, dropout: 0.0}"
    made = ["data.train=1200", "data.valid=60", "data.test=150", "tokenizer.size=300", f"model={sizes}"]
    return trained(tmp_path_factory.mktemp("names"), "names", *made)


def test_it_learns_names_that_it_never_saw(run: Path):
    result = json.loads((run / "result.json").read_text())
    assert result["test/f1"] > 90
    assert result["test/accuracy"] > 97
    data = json.loads((run / "data.json").read_text())
    assert set(data["classes"]) == {"PER", "LOC", "ORG"}
    assert data["classified"] == "entities"


def test_the_summary_of_plain_tags(regard, tmp_path: Path):
    sentence = "1 NUM\ncat NOUN\nsleeps VERB\n\n"
    (tmp_path / "a.conll").write_text(sentence * 30, encoding="utf-8")
    options = (f"data.train={tmp_path / 'a.conll'}", "training.steps=1", "tokenizer.size=40")
    arguments = [part for each in options for part in ("--set", each)]
    code, _, errors = regard("train", "tagging", "--out", str(tmp_path / "run"), *arguments)
    assert code == 0, errors
    assert "; 3 tags; a vocabulary" in errors
    assert "  3: NUM (27), NOUN (27), VERB (27)\n" in errors
    assert "  1 (NUM), cat (NOUN), sleeps (VERB)\n" in errors


def test_bert_is_trained_from_spans_and_exported(regard, tmp_path: Path):
    rows = [{"text": "dora lee lives in rome.", "spans": [[0, 8, "PER"], [18, 22, "LOC"]]}, {"text": "x", "spans": []}]
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, rows * 20)), encoding="utf-8")
    model = "model={name: bert, layers: 1, width: 32, heads: 4, hidden: 64, context: 48, dropout: 0.0}"
    few = "training.steps=30", "tokenizer.size=120", model
    run = trained(tmp_path, "tagging", f"data.train={tmp_path / 'a.jsonl'}", *few)
    assert json.loads((run / "result.json").read_text())["valid/f1"] > 90
    code, _, errors = regard("export", str(run), "--out", str(tmp_path / "export"))
    assert code == 0, errors
    config = json.loads((tmp_path / "export" / "config.json").read_text(encoding="utf-8"))
    assert config["architectures"] == ["BertForTokenClassification"]


def test_predictions_are_spans_of_characters(regard, run: Path, tmp_path: Path):
    text = "Dr Alrading teaches at Marwick University ."
    code, output, _ = regard("predict", str(run), text, "--json")
    found = json.loads(output)
    spans = [(each["start"], each["end"], each["label"]) for each in found["spans"]]
    assert (code, spans) == (0, [(3, 11, "PER"), (23, 41, "ORG")])
    assert all(text[each["start"] : each["end"]] == each["text"] for each in found["spans"])
    assert all(0.2 < each["probability"] <= 1 for each in found["spans"])
    marked = "Dr [Alrading PER] teaches at [Marwick University ORG] .\n"
    assert regard("predict", str(run), text)[1] == marked
    (tmp_path / "own.jsonl").write_text(output, encoding="utf-8")  # predictions are read as data
    code, output, _ = regard("evaluate", str(run), str(tmp_path / "own.jsonl"), "--json")
    assert (code, json.loads(output)["f1"]) == (0, 100)


@pytest.mark.parametrize(
    ("name", "content", "columns"),
    [
        ("own.tsv", "7\tB-PER\tAnna\n8\tO\tsleeps\n", "3,2"),
        ("own.tsv", "7\tB-PER\tAnna\n8\tO\tsleeps\n", "-1,-2"),
        ("own.jsonl", '{"body": "Anna sleeps", "names": [[0, 4, "PER"]]}\n', "body,names"),
    ],
)
def test_other_columns_in_evaluation(name: str, content: str, columns: str, tmp_path: Path):
    (path := tmp_path / name).write_text(content, encoding="utf-8")
    (found,) = TaggedFiles().with_columns(columns, str(path)).read(str(path))
    assert (found.text, found.tags) == ("Anna sleeps", ("B-PER", "O"))


@pytest.mark.parametrize(("name", "columns"), [("a.tsv", "word,tag"), ("a.tsv", "1"), ("a.jsonl", "text")])
def test_columns_that_do_not_fit(name: str, columns: str):
    with pytest.raises(InputError, match=f"columns is '{columns}'; expected the keys TEXT,SPANS of JSON, or the numb"):
        TaggedFiles().with_columns(columns, name)


def test_texts_of_nothing_and_of_many_parts(run: Path):
    loaded = load(run, "cpu", task=TaggingRun)
    assert [each.spans for each in loaded.predict(["", "   "])] == [(), ()]
    assert loaded.predict([]) == []
    short = "Light rain fell near Calbelston in April . "
    (long,) = loaded.predict([short * 100])
    assert len(long.spans) > 80
    assert all(each.text == (short * 100)[each.start : each.end] for each in long.spans)


def test_attention_and_gradients_of_entities(run: Path):
    text = "Dr Alrading teaches at Marwick University ."
    loaded = load(run, "cpu", task=TaggingRun)
    found = loaded.attribute(text, kinds=["gradient"])
    assert found.weights.target == ("PER: Alrading", "ORG: Marwick University")
    assert found.weights.weights.sum(-1) == pytest.approx(1, abs=1e-5)
    assert found.weights.source == loaded.attribute(text).weights.target
    with pytest.raises(InputError, match="no entity is predicted, and a gradient explains the tag of one"):
        loaded.attribute("", kinds=["gradient"])


def test_a_text_is_shaded_by_what_each_entity_reads():
    text = "Ann met Bo Li here"
    offsets = [(0, 3), (3, 7), (7, 10), (10, 12), (12, 13), (13, 18)]  # L and i
    part = TextPart([0, *range(5, 11), 1], [0, 1, 2, 3, 4], [1, 2, 3, 4, 6], [])
    found = [Entity(0, 1, "PER"), Entity(2, 4, "PER")]
    weights = np.zeros((8, 8))
    weights[1, [0, 2]] = 0.5, 0.5  # half of it on [CLS], which is left out
    weights[3, [4, 5]] = 0.25, 0.75
    weights[4, 1] = 1.0
    labels = tuple("01234567")
    drawn = shade_entities(text, offsets, part, found, Alignment(weights, labels, labels))
    assert drawn.labels == ("PER:", "Ann", "met", "Bo", "Li", "here") * 2
    assert drawn.texts == (0,) * 6 + (1,) * 6
    assert drawn.framed == {1, 9, 10}
    assert drawn.weights[:6] == pytest.approx([0, 0, 1, 0, 0, 0])
    assert drawn.weights[6:] == pytest.approx([0, 0.5, 0, 0, 0.25, 0])  # the mean of two rows, and of the pieces of Li
    gradient = Alignment(weights[[1, 3]], labels, ("PER: Ann", "PER: Bo Li"))
    assert shade_entities(text, offsets, part, found, gradient).weights[6:] == pytest.approx([0, 0, 0, 0, 0.5, 0])
    of_several = shade_entities(text, offsets, part, found[:1], gradient)  # the others are left out of the picture
    assert of_several.weights == pytest.approx([0, 0, 1, 0, 0, 0])
    cut = shade_entities(text, offsets, part._replace(ids=[0, 5, 6, 7, 1]), found[:1], gradient)
    assert cut.labels == ("PER:", "Ann", "met", "Bo", "…")


def test_run_files_that_fit_no_tagger(tmp_path: Path):
    with pytest.raises(InputError, match=r"data\.word and data\.tag count from 1"):
        TaggedFiles(tag=0)
    (tmp_path / "a.conll").write_text("a O\n\n" * 30, encoding="utf-8")
    none = run_file.read(path_of("tagging"), [f"data.train={tmp_path / 'a.conll'}", *QUICK])
    with pytest.raises(InputError, match="every tag is O; expected some of other kinds"):
        launch.train(none, tmp_path / "run")


def test_a_picture_says_that_no_entity_is_found(run: Path):
    loaded = load(run, "cpu", task=TaggingRun)
    text = "the the the ."
    assert not loaded.predict([text])[0].spans
    assert loaded.attribute(text).heading.splitlines()[1].startswith("no entity found; attention weights")
    assert "no entity" not in loaded.attribute("Shares of Marwick Steel fell .").heading
