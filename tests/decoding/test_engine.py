"""CTranslate2 writes the same texts as the searches in PyTorch, and serves nothing that it would write differently."""

import os
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest
import torch
from torch.nn import functional

from regard.attention.intervene import Cut, intervene
from regard.attention.record import record
from regard.data.tokens import Tokenizers
from regard.decoding.converted import predict
from regard.decoding.engine import Engine, can_convert, supports_search
from regard.decoding.search import DecodingConstraints, Search
from regard.decoding.texts import search_ids
from regard.errors import InputError
from regard.models.luong import Luong, LuongConfig
from regard.models.transformer import Transformer, TransformerConfig
from regard.storage.verified_files import Manifest, sha256
from regard.text import Tokenizer, TokenizerSettings

pytest.importorskip("ctranslate2")
LETTERS = "abcdefghij"


@pytest.fixture(scope="module")
def tokenizers() -> Tokenizers:
    tokenizer = Tokenizer.train(TokenizerSettings("character", 50), [LETTERS])
    return Tokenizers(tokenizer, tokenizer)


def words(count: int, seed: int) -> list[str]:
    random = Random(seed)
    return ["".join(random.choices(LETTERS, k=random.randint(3, 11))) for _ in range(count)]


@pytest.fixture(scope="module")
def model(tokenizers: Tokenizers) -> Transformer:
    """A Transformer that has begun to learn how to reverse words, so that beams often disagree with greedy search."""
    torch.manual_seed(1)
    config = TransformerConfig(layers=2, width=32, heads=2, hidden=64, dropout=0.0)
    model = Transformer(*tokenizers.sizes, config)
    optimizer = torch.optim.Adam(model.parameters(), 3e-3)
    encode = tokenizers.source.encode
    for step in range(60):
        batch = model.collate([(encode(word), encode(word[::-1])) for word in words(64, step)])
        logits = model(batch.source, batch.source_lengths, batch.target_in)
        optimizer.zero_grad()
        functional.cross_entropy(logits.flatten(0, 1), batch.target_out.flatten()).backward()
        optimizer.step()
    return model.eval()


@pytest.fixture
def engine(model: Transformer, tokenizers: Tokenizers, tmp_path: Path) -> Engine:
    assert can_convert(model, tokenizers)
    return Engine(model, tokenizers, tmp_path, "key")


@pytest.mark.parametrize(
    "search",
    [
        Search(),
        Search(beam=4),
        Search(length_penalty=1.0),
        Search(beam=4, early_stopping=True),
        Search(beam=4, early_stopping=True, length_penalty=1.4),
        Search(beam=4, length_ratio=0.5, length_extra=2),
    ],
    ids=str,
)
def test_texts_and_scores_are_those_of_pytorch(search: Search, model: Transformer, engine: Engine):
    ids = [engine.tokenizers.source_ids(word) for word in ["", *words(150, 1000)]]
    (expected,) = search_ids([model], ids, search)
    (found,) = search_ids([model], ids, search, engine=engine)
    assert engine.supports(search)
    assert sum(best is not None for best in engine.search(ids, search)) > 50
    for (best,), (plain,) in zip(found, expected, strict=True):
        assert (best.tokens, best.finished) == (plain.tokens, plain.finished)
        assert best.score == pytest.approx(plain.score, abs=1e-4)


@pytest.mark.parametrize(
    "search",
    [
        Search(beam=4, length_penalty=1.0),
        Search(min_length=3),
        Search(no_repeat=2),
        Search(temperature=1.0),
        Search(logits_processors=("no-unknown",)),
    ],
)
def test_other_searches_stay_in_pytorch(search: Search):
    assert not supports_search(search)


def test_constraints_stay_in_pytorch(model: Transformer, tokenizers: Tokenizers, tmp_path: Path):
    constraints = DecodingConstraints(prefixes=((5,),))
    assert not supports_search(Search(), constraints)
    engine = Engine(model, tokenizers, tmp_path, "key", int8=True)
    assert engine.supports(Search())
    with pytest.raises(InputError, match="--int8"):
        engine.supports(Search(), constraints)


def test_int8_multiplies_in_bytes(model: Transformer, tokenizers: Tokenizers, engine: Engine):
    small = Engine(model, tokenizers, engine.parent.parent, "key", int8=True)
    ids = [tokenizers.source_ids(word) for word in words(20, 3)]
    pairs = zip(engine.search(ids, Search()), small.search(ids, Search()), strict=True)
    scores = [(best.score, rounded.score) for best, rounded in pairs if best and rounded]
    assert any(score != rounded for score, rounded in scores)


@pytest.mark.parametrize(
    "more", [{"align": "sparsemax"}, {"self_align": "entmax"}, {"score": "cosine"}, {"positions": "alibi"}]
)
def test_other_attention_stays_in_pytorch(more: dict, tokenizers: Tokenizers):
    config = TransformerConfig(layers=1, width=8, heads=2, hidden=8, **more)
    assert not can_convert(Transformer(*tokenizers.sizes, config), tokenizers)
    assert not can_convert(Luong(*tokenizers.sizes, LuongConfig(embedding=4, width=4)), tokenizers)


def test_an_observed_or_changed_model_stays_in_pytorch(tokenizers: Tokenizers, tmp_path: Path):
    model = Transformer(*tokenizers.sizes, TransformerConfig(layers=1, width=8, heads=2, hidden=8)).eval()
    engine = Engine(model, tokenizers, tmp_path, "key")
    with record(model, may_be_empty=True):
        assert not engine.supports(Search())
    with pytest.raises(ValueError, match="nothing was changed"), intervene(model, Cut(keys=[0])):
        assert not engine.supports(Search())
    hook = model.encoder.get_submodule("norm").register_forward_hook(lambda *_: None)
    assert not engine.supports(Search())
    hook.remove()
    assert engine.supports(Search())
    with torch.no_grad():
        model.decoder.output.bias[5] += 1
    assert not engine.supports(Search())


def test_weights_are_converted_once_and_again_when_they_change(model: Transformer, engine: Engine):
    engine.search([[5]], Search())
    (folder,) = engine.parent.iterdir()
    before = (folder / "model.bin").stat().st_mtime_ns
    Engine(model, engine.tokenizers, engine.parent.parent, "key").search([[5]], Search())
    assert (folder / "model.bin").stat().st_mtime_ns == before
    Engine(model, engine.tokenizers, engine.parent.parent, "other").search([[5]], Search())
    assert [path.name for path in engine.parent.iterdir()] == ["other"]


def test_a_folder_that_cannot_be_written_leaves_pytorch(model: Transformer, tokenizers: Tokenizers, tmp_path: Path):
    folder = tmp_path / "file"
    folder.write_text("not a folder")
    assert not Engine(model, tokenizers, folder, "key").supports(Search())


def test_a_converted_run_predicts_without_pytorch(model: Transformer, tokenizers: Tokenizers, tmp_path: Path):
    tokenizers.source.save(tmp_path / "letters.json")
    manifest = Manifest(tmp_path, "run", {"letters.json": [sha256(tmp_path / "letters.json")]})
    manifest.write()
    texts, search = words(20, 7), Search(beam=4, early_stopping=True, length_ratio=2.3)
    assert predict(tmp_path, texts) is None
    engine = Engine(model, tokenizers, tmp_path, manifest.digest, search=search, files=("letters.json",) * 2)
    results = engine.search([tokenizers.source_ids(text) for text in texts], search)
    texts = [text for text, best in zip(texts, results, strict=True) if best]
    expected = [tokenizers.text(best.tokens, "") for best in results if best]
    assert predict(tmp_path, texts) == expected
    assert predict(tmp_path, [*texts, "\u4e2d"]) is None
    assert predict(tmp_path, [" "]) is None
    program = (
        "import sys; from regard.cli.main import main; assert not main(sys.argv[1:]); print('torch' in sys.modules)"
    )
    command = [sys.executable, "-c", program, "predict", str(tmp_path), *texts]
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    assert lines == [*expected, "False"]
    command[1:3], changed = ["-m", "regard"], os.environ | {"CT2_FORCE_CPU_ISA": "fast"}
    failed = subprocess.run(command, check=False, capture_output=True, text=True, env=changed)
    assert (failed.returncode, len(failed.stderr.splitlines())) == (2, 1)
    assert failed.stderr.endswith("correct or remove the variable CT2_FORCE_CPU_ISA\n")
    (tmp_path / "letters.json").write_text("{}")
    with pytest.raises(InputError, match="SHA-256 mismatch"):
        predict(tmp_path, texts)
