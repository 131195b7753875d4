"""One checkpoint gives the same texts by PyTorch, by CTranslate2 and compiled."""

import json
from pathlib import Path

import pytest
import torch

import regard
from regard.data.pairs import Pair
from regard.errors import InputError
from regard.storage.run_folder import WEIGHTS, RunDirectory
from regard.tasks.seq2seq.run import Seq2SeqRun
from tests import forked
from tests.cli.command import environment, finish
from tests.runs.test_load import SETTINGS, make

TEXTS = ["abc", "", "gagde", "fedcba", "aaaaaaaaaaaaaaaaa", "b"]
PAIRS = [Pair(text, text[::-1], "1") for text in TEXTS]
TRANSFORMER = SETTINGS.replace(
    "{name: luong, embedding: 5, width: 7}",
    "{name: transformer, layers: 2, width: 20, hidden: 23, heads: 5, shared: false}",
).replace("length_extra: 2", "length_extra: 13")


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


def test_by_ctranslate2(path: Path):
    pytest.importorskip("ctranslate2")
    run = regard.load(path, "cpu", task=Seq2SeqRun)
    assert run.engine is not None
    texts = written(run)
    figures = run.evaluate(PAIRS)
    run.engine = None
    assert written(run) == texts
    assert run.evaluate(PAIRS) == figures
    assert len({text for row in texts for text in row}) > 3
    assert written(regard.load(path, int8=True, task=Seq2SeqRun))


@pytest.mark.slow
def test_compiled(path: Path):
    code = "import sys; from tests.attribution import compiled_scores; compiled_scores.main(*sys.argv[1:])"
    status, output, errors = finish(forked.start(("-c", code, str(path), *TEXTS), environment()))
    assert status == 0, errors
    compiled = torch.tensor([each for scores in json.loads(output) for each in scores])
    plain = torch.tensor([each for scores in regard.load(path, "cpu").score(PAIRS) for each in scores])
    torch.testing.assert_close(compiled, plain, rtol=1e-5, atol=1e-5)


def test_int8_is_refused_where_the_engine_lacks_the_model_or_the_search(path: Path, tmp_path: Path):
    with pytest.raises(InputError, match="--int8 needs CTranslate2"):
        regard.load(make(tmp_path)[0], int8=True)
    run = regard.load(path, int8=True)
    with pytest.raises(InputError, match="--int8 supports greedy"):
        run.predict(TEXTS, prefix="a")
