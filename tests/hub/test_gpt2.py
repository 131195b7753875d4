"""Published GPT-2s: the same as transformers in every number and every token, there and back."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer as Backend
from torch import Tensor

from regard import load
from regard.attention.record import record
from regard.errors import InputError
from regard.hub import export_run, import_run
from regard.hub.folders import write_run
from regard.hub.formats import families
from regard.hub.formats.folder import Folder
from regard.hub.formats.pretrained_model import Continues, PretrainedModel
from regard.models.gpt2 import GPT2Config
from regard.models.softmax import AdaptiveSoftmax
from regard.runs import run_file
from regard.runs import train as launch
from regard.tasks.language_model.run import LanguageModelRun
from regard.text import SPECIAL, Tokenizer, TokenizerSettings
from regard.text.special import NAMES
from tests.hub.published import CONFIGURATIONS, TEXTS, gpt2, written

configurations = pytest.mark.parametrize("sizes", CONFIGURATIONS, ids=lambda sizes: f"width-{sizes['n_embd']}")

PROMPTS = ["", "the", "the cat", "the cat sat"]
ENDING = {6: -3.0, 10: -2.0, 21: -3.0}
"""By the width: what the embedding of the end is multiplied with, so that some texts end."""


def imported(folder: Path, sizes: dict[str, Any]) -> tuple[LanguageModelRun, Any]:
    theirs = gpt2(folder / "published", **sizes)
    import_run(str(folder / "published"), folder / "run")
    return load(folder / "run", "cpu", task=LanguageModelRun), theirs


@contextmanager
def states_of(model: Any) -> Iterator[list[Tensor]]:
    """What every block of a model is given, and what the norm makes of the last one's."""
    found: list[Tensor] = []
    hooks = [block.register_forward_pre_hook(lambda _, given: found.append(given[0])) for block in model.blocks]
    hooks.append(model.norm.register_forward_hook(lambda _, __, output: found.append(output)))
    yield found
    for hook in hooks:
        hook.remove()


@configurations
@torch.no_grad()
def test_states_maps_and_logits_are_those_of_transformers(sizes: dict[str, Any], tmp_path: Path):
    run, theirs = imported(tmp_path, sizes)
    ids = torch.randint(run.tokenizer.size, (3, sizes["n_positions"]), generator=torch.Generator().manual_seed(2))
    wanted = theirs(ids, output_attentions=True, output_hidden_states=True)
    with states_of(run.model) as states, record(run.model, only="blocks.*.self_attention") as maps:
        logits, _ = run.model(ids, run.model.begin(3))
    assert len(states) == len(maps) + 1 == sizes["n_layer"] + 1
    for found, expected in zip(states, wanted.hidden_states, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
    for found, expected in zip(maps.values(), wanted.attentions, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(logits, wanted.logits, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    "text", [*TEXTS, "", " ", "  two  blanks ", "<|endoftext|> and </s>", "\tnew\n\nlines\r\n", "日本 🙂"]
)
def test_text_is_cut_as_theirs(text: str, tmp_path: Path):
    run, _ = imported(tmp_path, CONFIGURATIONS[0])
    theirs = Backend.from_file(str(tmp_path / "published" / "tokenizer.json"))
    theirs.encode_special_tokens = True  # the name of a special token is plain text
    ours = run.tokenizer.encode(text)
    assert ours == theirs.encode(text).ids
    assert run.tokenizer.decode(ours) == text


@configurations
@pytest.mark.parametrize("beam", [1, 3])
def test_continuations_are_theirs_token_by_token(sizes: dict[str, Any], beam: int, tmp_path: Path):
    theirs = gpt2(tmp_path / "published", **sizes)
    with torch.no_grad():
        theirs.transformer.wte.weight[-1] *= ENDING[sizes["n_embd"]]  # texts that end after some tokens
    theirs.save_pretrained(tmp_path / "published")
    import_run(str(tmp_path / "published"), tmp_path / "run")
    run = load(tmp_path / "run", "cpu", task=LanguageModelRun)
    last = run.tokenizer.special.end
    room = sizes["n_positions"] - max(len(run.tokenizer.encode(prompt)) for prompt in PROMPTS)
    run.config = replace(run.config, search=replace(run.config.search, length_penalty=0.0))
    found = run.predict(PROMPTS, tokens=room, beam=beam)
    for prompt, ours in zip(PROMPTS, found, strict=True):
        expected = written(theirs, run.tokenizer.encode(prompt) or [last], tokens=room, beam=beam, end=last)
        assert ours.tokens == tuple(run.tokenizer.pieces(expected))
        assert ours.finished == (last in expected)
    assert any(ours.finished for ours in found)


@configurations
def test_there_and_back_is_the_same(sizes: dict[str, Any], tmp_path: Path):
    imported(tmp_path, sizes)
    assert export_run(tmp_path / "run", tmp_path / "exported") == ["the files as regard reads them", "transformers"]
    import_run(str(tmp_path / "exported"), tmp_path / "again")
    for name in ("weights.safetensors", "tokenizer.json", "config.yaml"):
        assert (tmp_path / "run" / name).read_bytes() == (tmp_path / "again" / name).read_bytes(), name
    before, after = (Backend.from_file(str(tmp_path / name / "tokenizer.json")) for name in ("published", "exported"))
    assert before.get_vocab() == after.get_vocab()


def test_weights_in_pieces_and_of_16_bits(tmp_path: Path):
    run, theirs = imported(tmp_path, CONFIGURATIONS[1])
    theirs.bfloat16().save_pretrained(tmp_path / "pieces", max_shard_size="4KB")
    assert (tmp_path / "pieces" / "model.safetensors.index.json").is_file()
    (tmp_path / "pieces" / "tokenizer.json").write_bytes((tmp_path / "published" / "tokenizer.json").read_bytes())
    import_run(str(tmp_path / "pieces"), tmp_path / "second")
    second = load(tmp_path / "second", "cpu", task=LanguageModelRun)
    for name, parameter in second.model.state_dict().items():
        torch.testing.assert_close(parameter, run.model.state_dict()[name].bfloat16().float(), rtol=0, atol=0)


def test_vocabulary_and_merges_in_files_of_their_own(tmp_path: Path):
    run, _ = imported(tmp_path, CONFIGURATIONS[0])
    folder = tmp_path / "published"
    backend = Backend.from_file(str(folder / "tokenizer.json"))
    backend.model.save(str(folder))
    vocabulary = (folder / "vocab.json").read_text(encoding="utf-8").rstrip("}")
    last = backend.get_vocab_size() - 1
    (folder / "vocab.json").write_text(f'{vocabulary},"<|endoftext|>":{last}}}', encoding="utf-8")
    (folder / "tokenizer.json").unlink()
    import_run(str(folder), tmp_path / "second")
    second = load(tmp_path / "second", "cpu", task=LanguageModelRun)
    assert second.tokenizer.digest == run.tokenizer.digest


def test_a_text_may_outgrow_the_context(tmp_path: Path):
    run, _ = imported(tmp_path, CONFIGURATIONS[0])
    assert run.model.context is not None
    room = run.model.context + 1 - len(run.tokenizer.encode("the"))
    with pytest.raises(InputError, match=rf"request at most {room} \(--tokens {room}\), or set beyond"):
        run.predict(["the"], tokens=40)
    [stopped] = run.predict(["the"], tokens=40, beyond="stop")
    [slid] = run.predict(["the"], tokens=40, beyond="slide")
    assert len(stopped.tokens) == room or stopped.finished
    assert slid.tokens[: len(stopped.tokens)] == stopped.tokens
    assert len(slid.tokens) == 40 or slid.finished
    long = "the cat " * run.model.context
    for beyond in (None, "stop"):
        with pytest.raises(
            InputError, match="leaves no room for another, for the model takes 11; shorten it, or set beyond to slide"
        ):
            run.predict([long], tokens=1, beyond=beyond)
    [behind] = run.predict([long], tokens=1, beyond="slide")
    assert len(behind.tokens) == 1


def test_a_run_is_trained_on(tmp_path: Path):
    run, _ = imported(tmp_path, CONFIGURATIONS[1])
    (tmp_path / "text.txt").write_text("the cat sat on the mat\n" * 60, encoding="utf-8")
    more = [f"training.start={tmp_path / 'run'}", f"data.train={tmp_path / 'text.txt'}", "training.steps=40"]
    more += ["training.learning_rate=1e-2", "training.batch_tokens=92", "training.threads=1"]
    config = run_file.read(tmp_path / "run" / "config.yaml", more)
    result = launch.train(config, tmp_path / "tuned")
    tuned = load(tmp_path / "tuned", "cpu", task=LanguageModelRun)
    assert tuned.tokenizer.digest == run.tokenizer.digest
    assert result["valid/loss"] < 0.5 * run.evaluate(["the cat sat on the mat"] * 6)["loss"]


def test_a_softmax_in_two_steps_is_not_exported(tmp_path: Path):
    gpt2(tmp_path / "published", **CONFIGURATIONS[0])
    opened = families.read(Folder(tmp_path / "published"))
    with pytest.raises(InputError, match=r"softmax\.kind is adaptive"):
        families.write(replace(opened, config=replace(opened.config, softmax=AdaptiveSoftmax())))


@pytest.mark.parametrize(("key", "value"), [("score", "cosine"), ("align", "sparsemax")])
def test_another_score_or_alignment_is_not_exported(tmp_path: Path, key: str, value: str):
    gpt2(tmp_path / "published", **CONFIGURATIONS[0])
    opened = families.read(Folder(tmp_path / "published"))
    with pytest.raises(InputError, match=f"model.{key} is '{value}'; published models have"):
        families.write(replace(opened, config=replace(opened.config, **{key: value})))


def test_a_run_that_an_older_version_imported(tmp_path: Path):
    """Its vocabulary begins with four special tokens, of which the first three are never predicted."""
    run, _ = imported(tmp_path, CONFIGURATIONS[1])
    end = run.tokenizer.special.end
    entries = [*NAMES, *list(run.tokenizer.vocabulary)[:end]]
    merges = [tuple(each) for each in run.tokenizer.backend["model"]["merges"]]
    vocabulary = {entry: index for index, entry in enumerate(entries)}
    older = Tokenizer.of(TokenizerSettings("gpt2", len(entries)), vocabulary, merges)
    table = run.model.state_dict()["embedding.table.weight"]
    rows = torch.cat([table.new_zeros(3, table.shape[1]), table[end:], table[:end]])
    tensors = run.model.state_dict() | {"embedding.table.weight": rows, "output.weight": rows}
    config = replace(run.config.model, closed=3)
    assert isinstance(config, GPT2Config)
    same = Continues(run.config.before)
    write_run(PretrainedModel(config, tensors, older, search=run.config.search, continues=same), {}, tmp_path / "older")
    again = load(tmp_path / "older", "cpu", task=LanguageModelRun)
    assert again.tokenizer.special == SPECIAL
    for ours, theirs in zip(*(each.predict(PROMPTS, tokens=5, beam=1) for each in (again, run)), strict=True):
        assert (ours.text, ours.score) == (theirs.text, pytest.approx(theirs.score, rel=1e-5))
    with pytest.raises(InputError, match="an older version of regard imported this run"):
        export_run(tmp_path / "older", tmp_path / "exported")


@pytest.mark.parametrize(
    "settings",
    [
        {"activation_function": "relu"},
        {"activation_function": "gelu", "layer_norm_epsilon": 0.1},
        {"activation_function": "silu", "layer_norm_epsilon": 1e-12},
        {"activation_function": "gelu_pytorch_tanh", "layer_norm_epsilon": 0.5},
    ],
    ids=lambda settings: "-".join(map(str, settings.values())),
)
@torch.no_grad()
def test_other_activations_and_norms(settings: dict[str, Any], tmp_path: Path):
    """Logits and greedy tokens, with the kernels of a loaded run, and the settings of an export."""
    theirs = gpt2(tmp_path / "published", **CONFIGURATIONS[1], **settings)
    import_run(str(tmp_path / "published"), tmp_path / "run")
    run = load(tmp_path / "run", "cpu", task=LanguageModelRun)
    tokens = torch.arange(2 * 19).view(2, -1) * 7 % run.tokenizer.size
    logits, _ = run.model(tokens, run.model.begin(2))
    torch.testing.assert_close(logits, theirs(tokens).logits, rtol=1e-5, atol=1e-5)
    ids, end = run.tokenizer.encode("the cat"), run.tokenizer.special.end
    expected = written(theirs, ids, tokens=9, beam=1, end=end)
    assert run.predict(["the cat"], tokens=9, beam=1)[0].tokens == tuple(run.tokenizer.pieces(expected))
    assert export_run(tmp_path / "run", tmp_path / "exported")[-1] == "transformers"
    found = json.loads((tmp_path / "exported" / "config.json").read_text())
    assert found["layer_norm_epsilon"] == theirs.config.layer_norm_epsilon
