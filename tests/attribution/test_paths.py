"""One checkpoint gives the same texts on every path: plain, fused, compiled; and in bytes nearly the same."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

import pytest
import torch

import regard
from regard.data.pair import Pair
from regard.errors import InputError
from regard.kernels.fused_layer import FusedLayers, library
from regard.models.pointer_generator import PointerConfig, PointerGenerator
from regard.models.transformer import Transformer, TransformerConfig
from regard.nn.fast_linear import Int8Linear, Int8Output
from regard.runs.load import quantised
from regard.storage.run_folder import WEIGHTS, RunDirectory
from regard.tasks.seq2seq.run import Seq2SeqRun
from regard.text.special import IGNORED
from tests import forked
from tests.cli.command import environment, finish
from tests.runs.test_load import SETTINGS, make

TEXTS = ["abc", "", "gagde", "fedcba", "aaaaaaaaaaaaaaaaa", "b"]
PAIRS = [Pair(text, text[::-1], "1") for text in TEXTS]
TRANSFORMER = SETTINGS.replace(
    "{name: luong, embedding: 5, width: 7}",
    "{name: transformer, layers: 2, width: 20, hidden: 23, heads: 5, shared: false}",
).replace("length_extra: 2", "length_extra: 13")
kernel = pytest.mark.skipif(library() is None, reason="no C++ compiler")


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that writes different texts and is sure of them."""
    torch.manual_seed(5)
    folder, model = make(tmp_path_factory.mktemp("paths"), settings=TRANSFORMER)
    tensors = {name: tensor * (6 if "output.weight" in name else 1) for name, tensor in model.state_dict().items()}
    with RunDirectory.create(folder, resume=True) as directory:
        directory.save_tensors(WEIGHTS, tensors)
    return folder


def written(run: Seq2SeqRun) -> list[list[str]]:
    """Greedily and by a beam, one text alone and all together."""
    together = [[each.text for each in run.predict(TEXTS, beam=beam)] for beam in (1, 4)]
    return [*together, [run.predict([text], beam=1)[0].text for text in TEXTS]]


@contextmanager
def plainly() -> Iterator[None]:
    """Without kernels."""
    with patch("regard.nn.fused.library", lambda: None), patch("regard.kernels.fused_layer.library", lambda: None):
        yield


def probabilities(run: Seq2SeqRun) -> torch.Tensor:
    """The logarithms of those of the tokens of given texts."""
    return torch.tensor([each for scores in run.score(PAIRS) for each in scores])


@kernel
def test_plain_fused_and_compiled(path: Path):
    run = regard.load(path, "cpu")
    with plainly():
        wanted, likely = written(run), probabilities(run)
    with patch.object(FusedLayers, "_run", autospec=True, side_effect=FusedLayers._run) as fused:
        assert written(run) == wanted
        torch.testing.assert_close(probabilities(run), likely, rtol=1e-5, atol=1e-5)
    assert fused.call_count
    assert len({text for texts in wanted for text in texts}) > 3
    code = "import sys; from tests.attribution import compiled_scores; compiled_scores.main(*sys.argv[1:])"
    status, output, errors = finish(forked.start(("-c", code, str(path), *TEXTS), environment()))
    assert status == 0, errors
    compiled = torch.tensor([each for scores in json.loads(output) for each in scores])
    torch.testing.assert_close(compiled, likely, rtol=1e-5, atol=1e-5)


@kernel
def test_in_bytes(path: Path):
    """A weight is off by half a 127th of its row's largest at most, so that what is added up is off by a hundredth."""
    plain, run = regard.load(path, "cpu"), regard.load(path, int8=True)
    fused, likely = probabilities(run), probabilities(plain)
    assert (fused - likely).abs().max() > 1e-4  # they are bytes
    assert (fused - likely).norm() < 0.03 * likely.norm()
    with plainly():
        assert (probabilities(run) - fused).norm() < 0.01 * likely.norm()
    pairs = [pair for both in zip(written(run), written(plain), strict=True) for pair in zip(*both, strict=True)]
    assert sum(one == other for one, other in pairs) >= 0.7 * len(pairs)


def test_what_becomes_bytes(path: Path):
    run = regard.load(path, int8=True)
    modules = dict(run.model.named_modules())
    assert isinstance(modules["decoder.output"], Int8Output)
    assert isinstance(modules["encoder.layers.0.self_attention.query"], Int8Linear)
    assert not [name for name, each in modules.items() if type(each) is torch.nn.Linear]
    assert all(name.endswith(("table.weight", "norm.weight", "norm.bias")) for name in run.model.state_dict())
    source, lengths, target = torch.tensor([[4, 5, 6, 3]]), torch.tensor([4]), torch.tensor([[2, 5, 7]])
    with torch.no_grad():
        logits = run.model(source, lengths, target)
        features = run.model.features(source, lengths, target)
        total, each = run.model.decoder.output.loss(features, torch.tensor([[5, 7, IGNORED]]))
    wanted = -logits.log_softmax(-1)[0, [0, 1], [5, 7]]
    torch.testing.assert_close(total, wanted.sum())
    torch.testing.assert_close(each[0], torch.cat([wanted, torch.zeros(1)]))


def test_a_recurrent_model_keeps_its_recurrent_weights(tmp_path: Path):
    folder = make(tmp_path)[0]
    run, plain = regard.load(folder, int8=True), regard.load(folder)
    assert isinstance(run.model.decoder.output, Int8Output)
    assert isinstance(run.model.decoder.combine, Int8Linear)
    kept, stays = run.model.state_dict(), plain.model.state_dict()
    recurrent = [name for name in stays if name.startswith("decoder.stack")]
    assert recurrent
    assert all(torch.equal(kept[name], stays[name]) for name in recurrent)
    assert [each.text for each in run.predict(TEXTS)]


def test_int8_is_refused_where_it_does_not_fit(tmp_path: Path):
    with pytest.raises(InputError, match=r"its model is a PointerGenerator; int8 is for Transformers .* leave it out"):
        quantised(PointerGenerator(7, 7, PointerConfig(embedding=3, width=4, attention=5)), "runs/a")
    model = Transformer(7, 7, TransformerConfig(layers=1, width=4, hidden=3, heads=2)).to("meta")
    with pytest.raises(InputError, match="runs/a: would be on meta, but int8 is for a CPU"):
        quantised(model, "runs/a")
