"""Folders of sentence-transformers: vectors, cuts and prompts as its modules compute them, written out in NumPy."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from regard.__main__ import main
from regard.errors import InputError
from regard.hub.open_run import open_run
from tests.hub.tiny_folders import tiny_folder

TEXTS = ["the old cat sat", "the cat\ta dog", "the old cat sat on the mat and the dog read a book", ""]
WIDTH, LONGEST = 12, 9
OLD, NEW = "sentence_transformers.models.", "sentence_transformers.base.modules.some."


def sentence_folder(folder: Path, *more: str, pooling: dict[str, Any], prefix: str = OLD, **prompts: Any) -> Any:
    """A random BERT with modules after it, and it as transformers runs it with its tokenizer."""
    transformers = pytest.importorskip("transformers")
    tiny_folder("bert", folder)
    names = ["Transformer", "Pooling", *more]
    modules = [
        {"idx": place, "name": str(place), "path": f"{place}_{name}" if place else "", "type": prefix + name}
        for place, name in enumerate(names)
    ]
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": LONGEST, "do_lower_case": False}))
    (folder / "config_sentence_transformers.json").write_text(json.dumps(prompts))
    for place, name in enumerate(names[1:], 1):
        (folder / f"{place}_{name}").mkdir()
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(pooling))
    model = transformers.AutoModelForMaskedLM.from_pretrained(folder).base_model.eval()
    return model, transformers.AutoTokenizer.from_pretrained(folder)


def dense(folder: Path, rows: int, columns: int) -> tuple[np.ndarray, np.ndarray]:
    """The weights of a Dense module, which it writes."""
    weight, bias = torch.randn(rows, columns), torch.randn(rows)
    save_file({"linear.weight": weight, "linear.bias": bias}, folder / "model.safetensors")
    sizes = {"in_features": columns, "out_features": rows, "bias": True}
    activation = {"activation_function": "torch.nn.modules.activation.Tanh"}
    (folder / "config.json").write_text(json.dumps(sizes | activation))
    return weight.numpy(), bias.numpy()


@torch.no_grad()
def states(parts: Any, text: str) -> np.ndarray:
    """The states of a text that is cut to `LONGEST` tokens, the last of which is [SEP]."""
    model, tokenizer = parts
    ids = tokenizer(text)["input_ids"]
    ids = ids if len(ids) <= LONGEST else [*ids[: LONGEST - 1], ids[-1]]
    return model(torch.tensor([ids])).last_hidden_state[0].numpy()


MODES = {
    "cls": lambda found: found[0],
    "lasttoken": lambda found: found[-1],
    "max": lambda found: found.max(0),
    "mean": lambda found: found.mean(0),
}


@pytest.mark.parametrize("mode", MODES)
def test_the_vector_of_each_mode_of_pooling(mode: str, tmp_path: Path):
    parts = sentence_folder(tmp_path, pooling={"pooling_mode": mode, "embedding_dimension": WIDTH}, prefix=NEW)
    expected = np.stack([MODES[mode](states(parts, text)) for text in TEXTS])
    np.testing.assert_allclose(open_run(tmp_path).embed(TEXTS).numpy(), expected, atol=1e-5)


def test_older_keys_join_the_modes_and_modules_follow(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """Pooling of two modes, a dense layer with tanh, and a length of 1, on the command line."""
    pooling = {"word_embedding_dimension": WIDTH, "pooling_mode_cls_token": True, "pooling_mode_mean_tokens": True}
    parts = sentence_folder(tmp_path, "Dense", "Dropout", "Normalize", pooling=pooling)
    weight, bias = dense(tmp_path / "2_Dense", 7, 2 * WIDTH)
    assert main(["embed", str(tmp_path), *TEXTS]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    for line, text in zip(lines, TEXTS, strict=True):
        found = states(parts, text)
        mapped = np.tanh(weight @ np.concatenate([found[0], found.mean(0)]) + bias)
        np.testing.assert_allclose(line["vector"], mapped / np.linalg.norm(mapped), atol=1e-5)


def test_a_prompt_precedes_a_text(tmp_path: Path):
    pooling = {"pooling_mode": "mean", "include_prompt": True}
    prompts = {"query": "the cat ", "document": ""}
    parts = sentence_folder(tmp_path, pooling=pooling, prompts=prompts, default_prompt_name="query")
    run = open_run(tmp_path)
    expected = states(parts, "the cat sat on").mean(0)
    for found in (run.embed(["sat on"]), run.embed(["sat on"], prompt="query")):
        np.testing.assert_allclose(found[0].numpy(), expected, atol=1e-5)
    plain = states(parts, "sat on").mean(0)
    np.testing.assert_allclose(run.embed(["sat on"], prompt="document")[0].numpy(), plain, atol=1e-5)
    with pytest.raises(InputError, match="prompt is 'passage'; the model's prompts are: query, document"):
        run.embed(["sat on"], prompt="passage")
    with pytest.raises(InputError, match="leave --prompt or --pool out"):
        run.embed(["sat on"], prompt="query", pool="mean")


def test_a_pool_of_ones_own_leaves_the_modules_out(tmp_path: Path):
    parts = sentence_folder(tmp_path, "Normalize", pooling={"pooling_mode": "mean"})
    expected = states(parts, TEXTS[0])
    found = open_run(tmp_path)
    np.testing.assert_allclose(found.embed(TEXTS[:1], pool="first")[0].numpy(), expected[0], atol=1e-5)
    assert float(found.embed(TEXTS[:1])[0].norm()) == pytest.approx(1.0, abs=1e-6)


def change(folder: Path, name: str, **values: Any) -> None:
    path = folder / name
    path.write_text(json.dumps((json.loads(path.read_text()) if path.exists() else {}) | values))


def modules(folder: Path, place: int, **values: Any) -> None:
    found = json.loads((folder / "modules.json").read_text())
    found[place] |= values
    (folder / "modules.json").write_text(json.dumps(found))


WRONG = {
    "a module of its own": (lambda at: modules(at, 2, type="mine.Head"), "'mine.Head' needs code of its own"),
    "another first module": (lambda at: modules(at, 0, type=OLD + "CLIPModel"), "has the modules CLIPModel, Pooling"),
    "another last module": (lambda at: modules(at, 2, type=OLD + "LSTM"), "Pooling, LSTM; regard computes"),
    "a path outside": (lambda at: modules(at, 2, path="../other"), "other"),
    "no list": (lambda at: (at / "modules.json").write_text("{}"), "expected a JSON list, found dict"),
    "another mode": (lambda at: change(at, "1_Pooling/config.json", pooling_mode="median"), "pooling_mode is 'median'"),
    "no prompt": (lambda at: change(at, "1_Pooling/config.json", include_prompt=False), "include_prompt is False"),
    "another old mode": (
        lambda at: change(at, "1_Pooling/config.json", pooling_mode_weightedmean_tokens=True),
        "pooling_mode_weightedmean_tokens is True",
    ),
    "another activation": (
        lambda at: change(at, "2_Dense/config.json", activation_function="mine.Swish"),
        "activation_function is 'mine.Swish'; regard computes torch.nn",
    ),
    "another task": (
        lambda at: change(at, "sentence_bert_config.json", transformer_task="fill-mask"),
        "transformer_task is 'fill-mask'",
    ),
    "no weights": (lambda at: (at / "2_Dense" / "model.safetensors").unlink(), "2_Dense: has no model.safetensors"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_folder_that_regard_does_not_compute_is_refused(case: str, tmp_path: Path):
    sentence_folder(tmp_path, "Dense", pooling={"pooling_mode": "mean"})
    dense(tmp_path / "2_Dense", 7, WIDTH)
    spoil, message = WRONG[case]
    spoil(tmp_path)
    with pytest.raises(InputError, match=message):
        open_run(tmp_path).embed(TEXTS)


def test_a_prompt_of_a_run_without_prompts(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    pytest.importorskip("transformers")
    tiny_folder("bert", tmp_path)
    assert main(["embed", str(tmp_path), "the cat", "--prompt", "query"]) == 2
    assert "has no prompt for such a vector" in capsys.readouterr().err
