"""Published translation models: the same as transformers in every number and every token, there and back."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from regard import load
from regard.attention.record import record
from regard.data.pair import Pair
from regard.decoding.search import Search
from regard.errors import InputError
from regard.hub import export_run, import_run
from regard.hub.formats import families
from regard.hub.formats.folder import Folder
from regard.runs import run_file
from regard.runs import train as launch
from regard.tasks.seq2seq.run import Seq2SeqRun
from regard.text import SpecialTokens
from tests.hub.translator import POSITIONS, SIZES, marian

configurations = pytest.mark.parametrize("sizes", SIZES, ids=lambda sizes: f"width-{sizes['d_model']}")
TEXTS = ["the cat sat on the mat.", "a cat", ">>de<< the thin man"]


def imported(folder: Path, sizes: dict[str, Any]) -> tuple[Seq2SeqRun, Any]:
    """The run, and the model as transformers runs it."""
    theirs = marian(folder / "published", **sizes)
    import_run(str(folder / "published"), folder / "run")
    return load(folder / "run", "cpu", task=Seq2SeqRun), theirs


@contextmanager
def states_of(layers: Any) -> Iterator[list[Tensor]]:
    """What the first layer is given, and what every one gives."""
    found: list[Tensor] = []
    hooks = [layers[0].register_forward_pre_hook(lambda _, given: found.append(given[0]))]
    hooks += [
        layer.register_forward_hook(lambda _, __, out: found.append(out[0] if isinstance(out, tuple) else out))
        for layer in layers
    ]
    yield found
    for hook in hooks:
        hook.remove()


@configurations
@torch.no_grad()
def test_states_maps_and_logits_are_those_of_transformers(sizes: dict[str, Any], tmp_path: Path):
    run, theirs = imported(tmp_path, sizes)
    generator = torch.Generator().manual_seed(2)
    lengths = torch.tensor([POSITIONS, 7, 1])
    real = torch.arange(POSITIONS) < lengths[:, None]
    start = theirs.config.pad_token_id
    source = torch.randint(start, (3, POSITIONS), generator=generator).where(real, start)
    target = torch.randint(start, (3, 13), generator=generator)
    target[:, 0] = start
    wanted = theirs(
        input_ids=source,
        attention_mask=real.long(),
        decoder_input_ids=target,
        output_attentions=True,
        output_hidden_states=True,
    )
    model: Any = run.model
    with states_of(model.encoder.layers) as encoded, states_of(model.decoder.layers) as decoded, record(model) as maps:
        logits = model(source, lengths, target)
    assert (len(encoded), len(decoded)) == (sizes["encoder_layers"] + 1, sizes["decoder_layers"] + 1)
    assert len(maps) == sizes["encoder_layers"] + 2 * sizes["decoder_layers"]
    for ours, expected in zip(encoded, wanted.encoder_hidden_states, strict=True):  # ours without padding
        torch.testing.assert_close(ours, expected[real], rtol=1e-5, atol=1e-5)
    for ours, expected in zip(decoded, wanted.decoder_hidden_states, strict=True):
        torch.testing.assert_close(ours, expected, rtol=1e-5, atol=1e-5)
    for number, expected in enumerate(wanted.encoder_attentions):
        rows = real[:, None, :, None].expand_as(expected)
        ours = maps[f"encoder.layers.{number}.self_attention"]
        torch.testing.assert_close(ours[rows], expected[rows], rtol=1e-5, atol=1e-5)
    for name, both in (("self", wanted.decoder_attentions), ("cross", wanted.cross_attentions)):
        for number, expected in enumerate(both):
            ours = maps[f"decoder.layers.{number}.{name}_attention"]
            torch.testing.assert_close(ours, expected, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(logits, wanted.logits, rtol=1e-5, atol=1e-5)
    assert run.tokenizers.special == (SpecialTokens(start, 1, start, 0),) * 2


@configurations
@pytest.mark.parametrize(("beam", "penalty"), [(1, 1.0), (3, 0.0), (3, 1.0), (5, 0.6)])
@torch.no_grad()
def test_outputs_are_those_of_transformers(sizes: dict[str, Any], beam: int, penalty: float, tmp_path: Path):
    search = {"num_beams": beam, "length_penalty": penalty, "early_stopping": False} if beam > 1 else {}
    search |= {"no_repeat_ngram_size": 1}  # without which drawn weights say one thing again and again
    theirs = marian(tmp_path / "published", search=search, **sizes)
    for name, parameter in theirs.named_parameters():
        if name.endswith("bias"):
            parameter.zero_()
    theirs.final_logits_bias[0, 0] = 0.0 if sizes["d_model"] == 10 else 0.7  # texts that end after some tokens
    theirs.save_pretrained(tmp_path / "published")
    import_run(str(tmp_path / "published"), tmp_path / "run")
    run = load(tmp_path / "run", "cpu", task=Seq2SeqRun)
    wanted = Search(beam, penalty, length_offset=0.0, no_repeat=1, length_ratio=0.0, length_extra=16)
    assert run.config.search == wanted
    ended = []
    for text in TEXTS:
        ids = run.tokenizers.ended_source(run.tokenizers.source.encode(text))
        [given] = theirs.generate(torch.tensor([ids]), do_sample=False)
        [found] = run.predict([text])
        written = given.tolist()[1:]
        ended.append(len(found.tokens) if found.finished else 0)
        assert found.tokens == tuple(run.tokenizers.target.pieces(written))
    assert max(ended) > 2


@configurations
def test_there_and_back_is_the_same(sizes: dict[str, Any], tmp_path: Path):
    imported(tmp_path, sizes)
    assert export_run(tmp_path / "run", tmp_path / "exported") == ["the files as regard reads them", "transformers"]
    import_run(str(tmp_path / "exported"), tmp_path / "again")
    for name in ("weights.safetensors", "source.tokenizer.json", "target.tokenizer.json", "config.yaml"):
        assert (tmp_path / "run" / name).read_bytes() == (tmp_path / "again" / name).read_bytes(), name
    published, exported = (Folder(tmp_path / name) for name in ("published", "exported"))
    assert published.json("vocab.json") == exported.json("vocab.json")
    before, after = published.tensors(), exported.tensors()
    assert set(before) == set(after)
    for name, tensor in before.items():
        assert torch.equal(tensor, after[name]), name


def test_all_that_a_run_can_do(tmp_path: Path):
    run, _ = imported(tmp_path, SIZES[0])
    pairs = [Pair("the cat", "die Katze", "a:1"), Pair("a mat.", "M.", "a:2")]
    assert set(run.evaluate(pairs)) == {"bleu", "chrf"}
    assert [len(row) for row in run.score(pairs)] == [
        len(run.tokenizers.target.encode(each.target)) + 1 for each in pairs
    ]
    [alignment, _] = run.align(pairs)
    assert alignment.weights.shape == (2, 2)
    [shown] = run.predict(["the cat"])
    assert shown.attention is not None
    assert shown.attention.source[-1] == "</s>"
    with pytest.raises(InputError, match="there is no test set in the run file and no examples are given"):
        run.evaluate()
    with pytest.raises(InputError, match="text 1"):
        run.predict(["cat " * POSITIONS])


def test_a_run_is_trained_on(tmp_path: Path):
    run, _ = imported(tmp_path, SIZES[1])
    (tmp_path / "en.txt").write_text("the cat\n" * 60, encoding="utf-8")
    (tmp_path / "de.txt").write_text("die Katze\n" * 60, encoding="utf-8")
    files = f"[{tmp_path / 'en.txt'}, {tmp_path / 'de.txt'}]"
    more = [f"training.start={tmp_path / 'run'}", f"data.train={files}", f"data.valid={files}", "training.steps=150"]
    more += ["model.dropout=0", "training.learning_rate=1e-2", "training.batch_tokens=92", "training.threads=1"]
    launch.train(run_file.read(tmp_path / "run" / "config.yaml", more), tmp_path / "tuned")
    tuned = load(tmp_path / "tuned", "cpu", task=Seq2SeqRun)
    assert tuned.tokenizers.source.digest == run.tokenizers.source.digest
    assert tuned.predict(["the cat"])[0].text == "die Katze"
    export_run(tmp_path / "tuned", tmp_path / "exported")


def test_a_transformer_of_another_kind_is_not_exported(tmp_path: Path):
    run, _ = imported(tmp_path, SIZES[0])
    opened = families.read(Folder(tmp_path / "published"))
    other = replace(opened, config=replace(run.config.model, norm="before", align="sparsemax"))
    with pytest.raises(InputError, match="norm is 'before', align is 'sparsemax'"):
        families.write(other)
