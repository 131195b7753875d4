"""From a recipe to predictions, metrics and pictures, through the commands only."""

import gzip
import json
import shutil
import signal
import subprocess
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from torch import Tensor

from regard.attribution.kinds import KIND_NAMES, Kind
from regard.data.pairs import Parallel
from regard.data.tokens import Tokenizers
from regard.decoding.search import Search
from regard.maps.alignment import Alignment
from regard.models.bottleneck import Bottleneck, BottleneckConfig
from regard.runs import run_file
from regard.runs.recipes import path_of
from regard.storage.run_folder import WEIGHTS, RunDirectory
from regard.tasks.options import GeneratedText
from regard.tasks.seq2seq.run import Seq2Seq, Seq2SeqRun
from regard.text import Tokenizer, TokenizerSettings
from tests.cli.command import finish, start, tiny

PAIRS = [("14 July 1989", "1989-07-14"), ("3 May 2018", "2018-05-03")]


def test_a_resume_by_the_recipe_needs_no_setting_again(regard, copy: Path):
    code, _, errors = regard("train", "dates", "--out", str(copy), "--resume")
    assert code == 0, errors
    assert f"the run continues with its own settings, from {copy / 'config.yaml'}" in errors


@pytest.fixture
def copy(run: Path, tmp_path: Path) -> Path:
    """The run again, to do things to."""
    return Path(shutil.copytree(run, tmp_path / "copy"))


def rewrite(run: Path, tensors: dict[str, Tensor]) -> None:
    """Put other weights into a run."""
    with RunDirectory.create(run, resume=True) as directory:
        directory.save_tensors(WEIGHTS, tensors)


def test_resume_with_other_data(regard, copy: Path):
    more = tiny(data="{kind: dates, train: 211, valid: 11, test: 13}", training__steps="5")
    code, _, errors = regard("train", "dates", "--out", str(copy), "--resume", *more)
    refused = [line for line in errors.splitlines() if "cannot resume" in line]
    told = [line.removeprefix("regard: cannot resume: ") for line in refused]
    assert code == 2
    assert [line.split(":")[0] for line in told] == ["data", "configuration.data.train", "configuration.training.steps"]
    code, _, errors = regard("train", "dates", "--out", str(copy), "--resume", "--allow-change", *more)
    assert code == 0
    assert "resuming with a change: configuration.data.train: 200 in the run, 211 now" in errors
    assert json.loads((copy / "result.json").read_text(encoding="utf-8"))["steps"] == 5


def test_weights_that_lack_a_tensor(regard, copy: Path):
    tensors = RunDirectory.open(copy).load_tensors(WEIGHTS)
    del tensors["decoder.attend.score.energy"]
    rewrite(copy, tensors)
    code, _, errors = regard("predict", str(copy), "14 July 1989")
    assert (code, len(errors.splitlines())) == (2, 1)
    assert "1 missing: decoder.attend.score.energy; --allow-missing leaves" in errors
    for command in (["predict", str(copy), "14 July 1989"], ["evaluate", str(copy)]):
        assert regard(*command, "--allow-missing")[0] == 0


def test_debug_names_the_layer(regard, copy: Path):
    tensors = RunDirectory.open(copy).load_tensors(WEIGHTS)
    tensors["decoder.attend.score.energy"].fill_(3e38)  # its products overflow
    rewrite(copy, tensors)
    for command in (["predict", str(copy), "14 July 1989"], ["evaluate", str(copy)]):
        code, _, errors = regard(*command, "--debug")
        assert code == 1
        assert errors.splitlines()[-1].startswith("regard: the output of decoder.attend.score has ")


def test_of_several_processes_each_says_which_it_is(regard, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("RANK", "3")
    assert regard("predict", "nowhere", "text")[2].startswith("regard: process 3: nowhere: no such folder")


def test_predict_json(regard, run: Path):
    code, output, _ = regard(
        "predict", str(run), "14 July 1989", "--json", "--attention", "--n-best", "3", "--beam", "3"
    )
    assert code == 0
    (answer,) = map(json.loads, output.splitlines())
    assert answer["source"] == "14 July 1989"
    assert len(answer["alternatives"]) == 2
    assert len(answer["attention"]["weights"]) == len(answer["tokens"])


def test_beam_above_the_vocabulary(regard, run: Path):
    code, output, errors = regard("predict", str(run), "14 July 1989", "--beam", "4999")
    assert (code, output, len(errors.splitlines())) == (2, "", 1)
    assert "4999" in errors
    assert "the vocabulary" in errors
    assert regard("evaluate", str(run), "--beam", "4999")[0] == 2


def test_evaluate_on_the_test_set_gives_the_figures_of_training(regard, run: Path):
    code, output, _ = regard("evaluate", str(run), "--json")
    result = json.loads((run / "result.json").read_text(encoding="utf-8"))
    assert code == 0
    assert {f"test/{name}": figure for name, figure in json.loads(output).items()}.items() <= result.items()


class Opened(Seq2SeqRun):
    checks_finite = False  # it has no model

    def __init__(self, data: Any = None):
        self.config: Any = SimpleNamespace(data=data, search=Search(beam=3), metrics=("bleu",))

    def _evaluate(self, pairs, options):
        seen = [(pair.source, pair.target) for pair in pairs or []]
        return {"seen": float(seen == PAIRS), "beam": options.beam or 0}


@pytest.mark.parametrize("path", ["/etc/hosts", "../a", "s3://bucket/a", "inner/../../a", "link", "lin*"])
def test_a_run_reads_its_own_data_only_here(regard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str):
    """A stranger's run file fetches nothing and reads no file outside the current folder."""
    monkeypatch.chdir(tmp_path)
    Path("link").symlink_to("/etc/hosts")
    monkeypatch.setattr("regard.runs.run_file.load", lambda *_, **__: Opened(Parallel(test=("a", path))))
    code, _, errors = regard("evaluate", "run")
    assert (code, errors.count("\n")) == (2, 1)
    assert f"run: its run file names {path!r}, a URL or a path outside the current folder" in errors
    assert regard("evaluate", "run", "--own-data")[0] == 0
    monkeypatch.setattr("regard.runs.run_file.load", lambda *_, **__: Opened(Parallel(test=("a", "inner/b"))))
    assert regard("evaluate", "run")[0] == 0


@pytest.mark.parametrize(
    "files", [["source.txt", "target.txt"], ["pairs.jsonl"], ["numbered.tsv.gz", "--columns", "2,1"]]
)
def test_evaluate_reads_files(regard, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, files: list[str]):
    monkeypatch.chdir(tmp_path)
    for side, name in enumerate(("source.txt", "target.txt")):
        Path(name).write_text("".join(f"{pair[side]}\n" for pair in PAIRS), encoding="utf-8")
    rows = (json.dumps({"source": source, "target": target}) for source, target in PAIRS)
    Path("pairs.jsonl").write_text("\n".join(rows), encoding="utf-8")
    Path("numbered.tsv.gz").write_bytes(gzip.compress("".join(f"{b}\t{a}\n" for a, b in PAIRS).encode()))
    monkeypatch.setattr("regard.runs.run_file.load", lambda path, **options: Opened())
    code, output, errors = regard("evaluate", "run", *files, "--beam", "7")
    assert (code, output) == (0, "seen  1\nbeam  7\n")
    assert errors.startswith(f"regard: evaluated on {len(PAIRS)} examples: {files[0]}")
    assert "\nregard: decoding: beam 7\n" in errors


@pytest.mark.parametrize("kind", ["weights", "gradient", "norms"])
def test_show_draws_what_an_answer_depended_on(regard, run: Path, tmp_path: Path, kind: Kind):
    code, output, _ = regard("show", str(run), "14 July 1989", "--kind", kind, "--out", str(tmp_path / "x.html"))
    assert (code, output.endswith("x.html.\n")) == (0, True)
    cut = "the output reached the length limit unfinished"  # which a model of a few updates always does
    page = (tmp_path / "x.html").read_text(encoding="utf-8")
    details = json.loads(page.partition('"title":"14 July 1989","details":')[2].partition("]")[0] + "]")
    assert {KIND_NAMES[kind], cut} <= {*details}
    assert details[-1].startswith(f"Model: {run.name}, ")


RECIPE = run_file.read(path_of("dates"))
assert isinstance(RECIPE, Seq2Seq)


class Script(Seq2SeqRun):
    """A run with fixed predictions."""

    config = RECIPE
    checks_finite = False  # it has no model

    def __init__(self, finished: bool = True, attention: Alignment | None = None) -> None:
        self.finished, self.attention = finished, attention

    def warnings(self, text: str) -> list[str]:
        return []

    def _predict(self, texts, options) -> list[GeneratedText]:
        others = tuple(GeneratedText(f"{n}\nth", -float(n), True, ()) for n in range(1, options.n_best))
        return [GeneratedText(text.upper(), -0.5, self.finished, (), self.attention, others) for text in texts]


def test_n_best_lines(regard, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("regard.runs.run_file.load", lambda path, **options: Script())
    code, output, _ = regard("predict", "run", "a", "b", "--n-best", "2")
    assert code == 0
    assert output == "1\t-0.5000\tA\n1\t-1.0000\t1 th\n2\t-0.5000\tB\n2\t-1.0000\t1 th\n"


def test_unfinished_answers_are_counted(regard, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("regard.runs.run_file.load", lambda path, **options: Script(finished=False))
    shown = regard("predict", "run", "a", "b")
    assert shown == (0, "A\nB\n", "regard: 2 of 2 predictions reached the length limit unfinished\n")
    assert json.loads(regard("predict", "run", "a", "--json")[1])["finished"] is False


def test_a_lone_surrogate_is_shown_as_an_escape(regard, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("regard.runs.run_file.load", lambda path, **options: Script())
    assert regard("predict", "run", "\ud83d") == (0, "\\ud83d\n", "")


def test_a_model_that_does_not_attend_has_no_picture(regard, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    tokenizer = Tokenizer.train(TokenizerSettings("character"), ["abc"])
    model = Bottleneck(tokenizer.size, tokenizer.size, BottleneckConfig(embedding=3, width=5)).eval()
    assert isinstance(RECIPE, Seq2Seq)
    without = Seq2SeqRun(RECIPE, model, Tokenizers(tokenizer, tokenizer))
    monkeypatch.setattr("regard.hub.open_run.open_run", lambda path, **options: without)
    code, _, errors = regard("show", "run", "a", "--out", str(tmp_path / "x.png"))
    assert errors == "regard: the run's model does not attend to its source, so there is nothing to draw\n"
    assert code == 2
    assert list(tmp_path.iterdir()) == []


def test_predict_answers_lines_as_they_come_and_ends_quietly(run: Path):
    process = start("predict", str(run), "-", "--json")
    assert process.stdin
    assert process.stdout
    for text, _ in PAIRS:
        process.stdin.write(f"{text}\n")
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["source"] == text  # while standard input is still open
    process.stdout.close()
    process.stdin.write(f"{PAIRS[0][0]}\n")
    process.stdin.flush()
    code = process.wait(timeout=60)
    assert process.stderr
    assert (code, process.stderr.read()) == (0, "")
    process.stderr.close()
    process.stdin.close()


def test_predict_reads_lines_and_names_the_bad_one(run: Path):
    code, output, errors = finish(start("predict", str(run), errors="surrogateescape"), "14 July 1989\n\nbad \udcff\n")
    assert (code, len(output.splitlines())) == (2, 2)
    assert errors.splitlines()[0] == "regard: text 2: the text is empty, so the prediction means nothing"
    assert errors.splitlines()[1].startswith("regard: standard input:3: byte 0xff")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_saves_and_says_how_to_go_on(tmp_path: Path, number: signal.Signals, code: int):
    folder = tmp_path / "run"
    options = tiny(training__steps="100000", training__log_every="1")
    process = start("train", "dates", "--out", str(folder), *options, stdout=subprocess.DEVNULL)
    wait_for(folder / "metrics.jsonl")
    process.send_signal(number)
    exit_code, _, errors = finish(process)
    assert exit_code == code
    assert errors.splitlines()[-1].startswith(f"regard: stopped by {number.name} after update ")
    assert errors.endswith(f"continue with `regard train --resume --out {folder}`\n")


def wait_for(path: Path) -> None:
    for _ in range(600):
        if path.exists() and path.stat().st_size:
            return
        time.sleep(0.1)
    pytest.fail(f"{path.name} was not written within a minute")


@pytest.mark.parametrize("written", [(), ("config.yaml",)])
def test_killed_before_it_was_described(regard, tmp_path: Path, written: tuple[str, ...]):
    with RunDirectory.create(tmp_path / "run") as run:
        for name in written:
            run.write_text(name, "")
    code, output, errors = regard("train", "dates", "--out", str(tmp_path / "run"), "--resume", *tiny())
    assert code == 0, errors
    assert "test/exact-match" in output


@pytest.mark.slow
def test_killed_before_the_first_checkpoint(regard, tmp_path: Path):
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    options = tiny(
        model__width="8",
        model__hidden="8",
        training__steps="120",
        training__batch_tokens="60",
        training__log_every="1",
        training__keep_best="0",
    )
    process = start("train", "dates-transformer", "--out", str(killed), *options, stdout=subprocess.DEVNULL)
    wait_for(killed / "metrics.jsonl")
    process.kill()
    assert finish(process)[0] == -signal.SIGKILL
    assert regard("train", "dates-transformer", "--out", str(killed), "--resume", *options)[0] == 0
    assert regard("train", "dates-transformer", "--out", str(whole), *options)[0] == 0
    weights = [(folder / "weights.safetensors").read_bytes() for folder in (whole, killed)]
    assert weights[0] == weights[1]


def test_a_run_with_checkpoints_and_no_identity_is_refused(regard, tmp_path: Path):
    run = tmp_path / "run"
    assert regard("train", "dates", "--out", str(run), *tiny())[0] == 0
    (run / "identity.json").unlink()
    code, _, errors = regard("train", "dates", "--out", str(run), "--resume", *tiny())
    assert code == 2
    assert "identity.json" in errors
