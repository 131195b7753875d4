"""`regard chat`: replies with earlier turns as context."""

from dataclasses import replace
from pathlib import Path

import pytest

from regard.data.texts import TURN, Dialogue, context
from regard.errors import InputError
from regard.runs.run_file import load
from regard.tasks.options import PredictOptions
from regard.tasks.seq2seq.run import Seq2SeqRun
from tests.cli.command import finish, start, tiny


@pytest.fixture(scope="module")
def talking(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("chat")
    text = "\n\n".join(f"A:\nSpeech number {number} is a short one." for number in range(60))
    (folder / "talk.txt").write_text(text, encoding="utf-8")
    data = f"{{kind: dialogue, train: {folder / 'talk.txt'}, turns: 2}}"
    options = tiny(data=data, tokenizers__source__size="300", model__encoder_width="13")
    code, _, errors = finish(start("train", "dialogue", "--out", str(folder / "run"), *options))
    assert code == 0, errors
    return folder / "run"


def test_each_line_has_a_reply_and_a_blank_one_begins_anew(talking: Path):
    code, output, errors = finish(start("chat", str(talking), "--beam", "1"), "Hello.\nWhy?\n\nHello.\n")
    assert (code, errors) == (0, "")
    replies = output.splitlines()
    assert len(replies) == 3
    assert replies[0] == replies[2]


def test_what_was_said_is_the_source(
    talking: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    from regard.cli import predict as commands
    from regard.cli.main import main
    from regard.tasks.options import GeneratedText

    asked = []

    def predict(self, texts, options):
        asked.extend(texts)
        return [GeneratedText(f"reply\n{len(asked)}", 0.0, True, ())]

    monkeypatch.setattr(Seq2SeqRun, "_predict", predict)
    monkeypatch.setattr(commands, "open_standard_input", lambda: None)
    lines = [["one"], ["two"], [" "], ["three"]]
    monkeypatch.setattr(commands, "iterate_chunks", lambda stream, limit: iter(lines))
    assert main(["chat", str(talking)]) == 0
    assert capsys.readouterr().out == "reply 1\nreply 2\nreply 3\n"
    assert asked == [f"one {TURN}", f"reply 1 {TURN} two {TURN}", f"three {TURN}"]


@pytest.mark.parametrize(("most", "turns"), [(None, 3), (14, 3), (13, 2), (9, 2), (8, 1), (6, 1)])
def test_the_oldest_turns_are_left_out_until_the_model_can_take_the_rest(most: int | None, turns: int, talking: Path):
    run = load(talking, task=Seq2SeqRun)
    assert isinstance(run.config.data, Dialogue)
    run.config = replace(run.config, data=replace(run.config.data, turns=3))
    conversation = run.conversation(PredictOptions())
    conversation.turns = turns_before = ["a b c", "d e", "f", "g h"]
    run.model.max_source = most
    sizes = {count: len(run.tokenizers.source_ids(context(turns_before, count, 40))) + 1 for count in (1, 2, 3)}
    assert sizes == {1: 6, 2: 9, 3: 14}
    assert conversation.source("standard input:5") == context(turns_before, turns, 40)
    run.model.max_source = 5
    with pytest.raises(InputError, match=r"standard input:5: 5 tokens and 1 special token, but the model takes 5"):
        conversation.source("standard input:5")


def test_what_has_no_chat(run: Path, talking: Path):
    code, output, errors = finish(start("chat", str(run)), "Hello.\n")
    assert (code, output) == (2, "")
    assert errors.endswith("was trained on data of kind dates; a chat needs one trained on dialogue\n")
    code, _, errors = finish(start("chat", str(talking), "--n-best", "3"), "")
    assert (code, "a chat has one" in errors) == (2, True)
