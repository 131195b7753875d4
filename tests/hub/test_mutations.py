"""A wrong configuration is one line of error: no traceback, no memory, no unreadable run."""

import copy
import json
import random
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from regard import load
from regard.errors import InputError
from regard.hub import import_run
from regard.hub.formats.settings import Settings
from tests.hub.published import BERTS, CONFIGURATIONS, filler, gpt2
from tests.hub.published_images import VITS, classifier
from tests.hub.translator import SIZES, marian

VALUES = [None, True, 0, -1, 1.5, 10**12, float("nan"), "", "x", "\ud800", [], [1], ["a b"], {}, {"a": 1}]
TRIED = 60
HUGE = 10**9


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A published model of each family."""
    root = tmp_path_factory.mktemp("families")
    gpt2(root / "gpt2", **CONFIGURATIONS[0])
    filler(root / "bert", "bert", **BERTS[0])
    filler(root / "distilbert", "distilbert", **BERTS[0])
    classifier(root / "vit", "vit", **VITS[0])
    marian(root / "marian", **SIZES[0])
    return {path.name: path for path in root.iterdir()}


@pytest.fixture
def published(request: pytest.FixtureRequest, folders: dict[str, Path], tmp_path: Path) -> Path:
    return Path(shutil.copytree(folders[request.param], tmp_path / "published"))


def mutated(given: Any, draw: random.Random) -> Any:
    """With one value somewhere in it lost, or another."""
    whole = copy.deepcopy(given)
    place = whole
    while True:
        key = draw.choice(list(place) if isinstance(place, dict) else range(len(place)))
        if place[key] and isinstance(place[key], dict | list) and draw.random() < 0.8:
            place = place[key]
            continue
        if draw.random() < 0.2:
            del place[key]
        else:
            place[key] = draw.choice(VALUES)
        return whole


@pytest.mark.parametrize("name", ["tokenizer.json", "config.json"])
@pytest.mark.parametrize("published", ["gpt2", "bert"], indirect=True)
def test_row_35_any_value_is_refused_or_read(published: Path, name: str, tmp_path: Path):
    given = json.loads((published / name).read_text(encoding="utf-8"))
    draw, out, imported = random.Random(5), tmp_path / "run", 0
    for _ in range(TRIED):
        (published / name).write_text(json.dumps(mutated(given, draw)))
        with suppress(InputError):
            import_run(str(published), out)
            load(out, "cpu")
            shutil.rmtree(out)
            imported += 1
        assert not out.exists()
    assert 0 < imported < TRIED


@pytest.mark.parametrize(
    ("published", "values", "message"),
    [
        ("gpt2", {"n_head": 4}, "width 6 is not divisible by heads 4"),
        ("gpt2", {"model_type": ["gpt2"]}, r"is a model of type \['gpt2'\]; regard reads"),
        ("bert", {"num_attention_heads": 4}, "width 6 is not divisible by heads 4"),
        ("bert", {"layer_norm_eps": 0}, "layer_norm_eps is 0.0; expected a number above 0"),
        ("vit", {"layer_norm_eps": 0}, "layer_norm_eps is 0.0; expected a number above 0"),
        ("gpt2", {"n_layer": HUGE}, "n_layer is 1000000000, and there are 16 tensors"),
        ("gpt2", {"n_embd": 3 * HUGE}, "n_embd is 3000000000, and wte.weight has 6"),
        ("gpt2", {"n_positions": HUGE}, "n_positions is 1000000000, and wpe.weight has 11"),
        ("gpt2", {"n_inner": HUGE}, "n_inner is 1000000000, and h.0.mlp.c_fc.weight has 24"),
        ("gpt2", {"vocab_size": HUGE}, "vocab_size is 1000000000, and wte.weight has"),
        ("bert", {"num_hidden_layers": HUGE}, "num_hidden_layers is 1000000000, and there are"),
        ("bert", {"hidden_size": 3 * HUGE}, "hidden_size is 3000000000, and embeddings.word_embeddings.weight has 6"),
        ("bert", {"intermediate_size": HUGE}, "intermediate_size is .*, and encoder.layer.0.intermediate.dense.weight"),
        ("bert", {"max_position_embeddings": HUGE}, "and embeddings.position_embeddings.weight has 19"),
        ("bert", {"type_vocab_size": HUGE}, "and embeddings.token_type_embeddings.weight has 2"),
        ("distilbert", {"hidden_dim": HUGE}, "and transformer.layer.0.ffn.lin1.weight has 5"),
        ("vit", {"num_hidden_layers": HUGE}, "num_hidden_layers is 1000000000, and there are"),
        ("vit", {"intermediate_size": HUGE}, "and encoder.layer.0.intermediate.dense.weight has"),
        ("marian", {"encoder_layers": HUGE}, "encoder_layers is 1000000000, and there are"),
        ("marian", {"decoder_layers": HUGE}, "decoder_layers is 1000000000, and there are"),
        (
            "marian",
            {"encoder_ffn_dim": HUGE, "decoder_ffn_dim": HUGE},
            "encoder_ffn_dim is 1000000000, and model.encoder.layers.0.fc1.weight has",
        ),
    ],
    indirect=["published"],
)
def test_row_37_sizes_that_the_weights_do_not_have(
    published: Path, values: dict[str, Any], message: str, tmp_path: Path
):
    path = published / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text(encoding="utf-8")) | values))
    with pytest.raises(InputError, match=message) as caught:
        import_run(str(published), tmp_path / "run")
    assert len(str(caught.value).splitlines()) == 1
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("published", ["bert"], indirect=True)
def test_keys_of_the_first_years_that_do_nothing(published: Path, tmp_path: Path):
    path, sizes = published / "config.json", {"fc_size": 768, "num_attention_heads": 12, "num_fc_layers": 3}
    pooler = {f"pooler_{key}": value for key, value in (sizes | {"size_per_head": 128, "type": "first"}).items()}
    given = json.loads(path.read_text(encoding="utf-8")) | pooler | {"directionality": "bidi"}
    import_run(str(published), tmp_path / "plain")
    path.write_text(json.dumps(given))
    import_run(str(published), tmp_path / "run")
    for name in ("weights.safetensors", "tokenizer.json", "config.yaml"):
        assert (tmp_path / "run" / name).read_bytes() == (tmp_path / "plain" / name).read_bytes()


@pytest.mark.parametrize("published", ["vit"], indirect=True)
def test_a_run_file_that_could_not_be_read_is_not_written(
    published: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(Settings, "above", Settings.share)
    path = published / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text(encoding="utf-8")) | {"layer_norm_eps": 0}))
    with pytest.raises(InputError, match=r"the imported run file:\d+: model.epsilon"):
        import_run(str(published), tmp_path / "run")
    assert not (tmp_path / "run").exists()
