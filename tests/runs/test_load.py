"""Opening a run's folder: what comes back is what was put in, and anything else is named and refused."""

from pathlib import Path

import pytest
import torch
from torch import Tensor

import regard
from regard.data.pairs import Pair
from regard.errors import InputError, RunError
from regard.nn.decoders import EncoderDecoder
from regard.runs import run_file
from regard.runs import train as launch
from regard.runs.run_file import apply_average
from regard.storage.run_folder import WEIGHTS, RunDirectory
from regard.tasks.seq2seq.run import Seq2Seq, Seq2SeqRun
from regard.tasks.seq2seq.training import setup

PAIRS = [Pair("abc", "cba", "1"), Pair("de", "ed", "2"), Pair("fgaa", "aagf", "3")]
SETTINGS = """task: seq2seq
data: {kind: parallel, train: [a, b], valid: [a, b]}
tokenizers: {source: {kind: character}, target: {kind: character}}
model: {name: luong, embedding: 5, width: 7}
metrics: [exact-match]
training: {batch_tokens: 9}
search: {beam: 3, length_ratio: 1, length_extra: 2}
"""


def make(folder: Path, *, weights: bool = True, settings: str = SETTINGS) -> tuple[Path, EncoderDecoder]:
    """A run as training leaves it, with the weights that a model begins with."""
    for name, texts in (("a", [pair.source for pair in PAIRS]), ("b", [pair.target for pair in PAIRS])):
        (folder / name).write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
    file = folder / "file.yaml"
    file.write_text(settings.replace("[a, b]", f"[{folder}/a, {folder}/b]"), encoding="utf-8")
    config = run_file.read(file)
    assert isinstance(config, Seq2Seq)
    with RunDirectory.create(folder / "run") as run:
        prepared = setup(config, run, 1)
        launch.describe(run, config, launch.identify(config, prepared, 1), prepared)
        if weights:
            run.save_tensors(WEIGHTS, prepared.model.state_dict())
    assert isinstance(prepared.model, EncoderDecoder)
    return folder / "run", prepared.model


def test_what_was_saved_comes_back(tmp_path: Path):
    path, model = make(tmp_path)
    run = regard.load(path)
    assert not run.model.training
    for name, tensor in model.state_dict().items():
        assert torch.equal(run.model.state_dict()[name], tensor)
    assert run.config == run_file.read(tmp_path / "file.yaml")


def test_predictions_have_all_their_parts(tmp_path: Path):
    run = regard.load(make(tmp_path)[0])
    texts = ["abc", "", "gag"]
    found = run.predict(texts, beam=3, n_best=2)
    assert len(found) == len(texts)
    for text, one in zip(texts, found, strict=True):
        (other,) = one.alternatives
        assert other.score <= one.score
        assert one.attention is not None
        assert one.attention.source == (*text, "</s>")
        assert one.attention.target == tuple("\ufffd" if each == "<unk>" else each for each in one.tokens)
        assert (one.tokens[-1:] == ("</s>",)) == one.finished or not one.tokens
    assert [one.text for one in run.predict(texts)] == [one.text for one in found]
    assert run.predict("abc").text == found[0].text
    with pytest.raises(TypeError, match="examples is one bytes"):
        run.predict(b"abc")
    assert all(one.attention is None for one in run.predict(texts, attention=False))


def test_evaluate_gives_the_run_s_metrics(tmp_path: Path):
    run = regard.load(make(tmp_path)[0])
    outputs = [one.text for one in run.predict([pair.source for pair in PAIRS])]
    equal = [Pair(pair.source, output, pair.place) for pair, output in zip(PAIRS, outputs, strict=True)]
    assert run.evaluate(equal) == {"exact-match": 100.0}
    assert run.evaluate([Pair("abc", "none", "1")]) == {"exact-match": 0.0}
    with pytest.raises(InputError, match="there is no test set"):
        run.evaluate([])


def test_a_run_is_saved_with_its_present_weights(tmp_path: Path):
    run = regard.load(make(tmp_path)[0], task=Seq2SeqRun)
    with torch.no_grad():
        run.model.decoder.output.weight.neg_()
    run.save(tmp_path / "copy")
    copy = regard.load(tmp_path / "copy").model.state_dict()
    assert all(torch.equal(tensor, copy[name]) for name, tensor in run.model.state_dict().items())
    with pytest.raises(InputError, match="already holds a run"):
        run.save(tmp_path / "copy")
    with pytest.raises(InputError, match="is a model named luong; regard exports bert"):
        run.export(tmp_path / "exported")
    run.folder = None
    for write in (run.save, run.export):
        with pytest.raises(InputError, match="this run has no folder"):
            write(tmp_path / "other")
    assert not (tmp_path / "other").exists()


def test_a_shared_tokenizer_is_loaded_once(tmp_path: Path):
    shared = SETTINGS.replace("target: {kind: character}", "shared: true")
    run = regard.load(make(tmp_path, settings=shared)[0])
    assert run.tokenizers.source is run.tokenizers.target


def test_a_run_that_has_no_weights_yet(tmp_path: Path):
    path, _ = make(tmp_path, weights=False)
    with pytest.raises(InputError, match=rf"has no {WEIGHTS} yet; finish its training with .* --resume"):
        regard.load(path)


def stopped(folder: Path, best: list[int], *, decay: float = 0.0) -> tuple[RunDirectory, dict[str, Tensor]]:
    """A run with checkpoints of updates 2, 4 and 6, whose weights are halved from one to the next, with averages that
    are their negatives, and the weights of the first; it is locked, as while it is trained."""
    path, model = make(folder, weights=False, settings=SETTINGS.replace("9}", f"9, average_decay: {decay}}}"))
    weights = model.state_dict()
    run = RunDirectory.create(path, resume=True)
    state = {"selection": {"best": [{"update": update} for update in best]}}
    for number, update in enumerate((2, 4, 6)):
        groups = {"model": {name: each / 2**number for name, each in weights.items()}}
        groups["average"] = {name: -each for name, each in groups["model"].items()}
        run.checkpoints.save(update, groups if decay else {"model": groups["model"]}, state)
    return run, weights


@pytest.mark.parametrize(
    ("best", "decay", "which", "factor"),
    [([4, 2], 0.0, "best checkpoint, of update 4", 0.5), ([], 0.9, "newest checkpoint, of update 6", -0.25)],
)
def test_an_unfinished_run_has_the_weights_of_a_checkpoint(
    best: list[int], decay: float, which: str, factor: float, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    run, weights = stopped(tmp_path, best, decay=decay)
    before = {each: each.stat().st_mtime_ns for each in run.path.rglob("*")}
    found = regard.load(run.path)
    assert {each: each.stat().st_mtime_ns for each in run.path.rglob("*")} == before
    for name, tensor in weights.items():
        assert torch.equal(found.model.state_dict()[name], factor * tensor), name
    (line,) = [each.getMessage() for each in caplog.records]
    assert line == (
        f"{run.path}: this run is unfinished: its {which}, is used; regard train --out {run.path} --resume continues it"
    )
    assert found.predict(["abc"])
    run.close()


def test_tied_weights_of_a_checkpoint_have_one_average():
    own = {"embed": torch.ones(2), "fixed": torch.zeros(2), "output": torch.ones(2)}
    found = apply_average(own, {"embed": torch.full((2,), 5.0)})
    assert {name: each.tolist() for name, each in found.items()} == {"embed": [5, 5], "fixed": [0, 0], "output": [5, 5]}


@pytest.mark.parametrize("broken", [torch.nan, torch.inf, -torch.inf])
def test_weights_that_are_no_numbers(broken: float, tmp_path: Path):
    path, model = make(tmp_path)
    tensors = model.state_dict()
    name = next(name for name in tensors if "attend" in name)
    tensors[name].flatten()[2] = broken
    with RunDirectory.create(path, resume=True) as run:
        run.save_tensors(WEIGHTS, tensors)
    with pytest.raises(InputError, match=rf"^{path}: {name}: 1 of \d+ weights are NaN or infinite") as caught:
        regard.load(path)
    assert "\n" not in str(caught.value)


def test_large_weights_are_numbers(tmp_path: Path):
    """Their sum overflows, and no search finds a token; that is one line, too."""
    path, model = make(tmp_path)
    largest = {name: torch.full_like(each, 3e38) for name, each in model.state_dict().items()}
    with RunDirectory.create(path, resume=True) as run:
        run.save_tensors(WEIGHTS, largest)
    run = regard.load(path)
    with pytest.raises(RunError, match="no token is possible"):
        run.predict(["abc"], beam=1)


POINTER = SETTINGS.replace("target: {kind: character}", "shared: true").replace(
    "{name: luong, embedding: 5, width: 7}", "{name: pointer-generator, embedding: 5, width: 7, attention: 3}"
)
LONG = POINTER.replace("length_extra: 2", "length_extra: 60")


@pytest.fixture
def run(tmp_path: Path) -> Seq2SeqRun:
    """A model that copies, and knows the letters from a to g."""
    return regard.load(make(tmp_path, settings=LONG)[0], task=Seq2SeqRun)


def test_a_prefix_of_words_that_each_source_has_for_itself(run: Seq2SeqRun):
    texts = ["axb", "ayxccc", "zabx"]
    for beam in (1, 3):
        assert [each.text[:2] for each in run.predict(texts, beam=beam, prefix="bx")] == ["bx"] * 3
    drawn = run.predict(texts, temperature=1.0, n_best=2, prefix="bx")
    assert all(each.text.startswith("bx") for one in drawn for each in (one, *one.alternatives))


def test_a_word_that_neither_the_vocabulary_nor_the_source_has(run: Seq2SeqRun):
    with pytest.raises(
        InputError, match=r"^text 2: '\w+' has pieces that are neither in the vocabulary nor in the text"
    ):
        run.predict(["ax", "ay"], prefix="x")
