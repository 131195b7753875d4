"""The check of an export: it notices every change in the files, and nothing else."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from regard import load
from regard.errors import RunError
from regard.hub import export_run, import_run
from regard.hub.formats import families
from regard.hub.formats.pretrained_model import PretrainedModel
from regard.hub.parity import ParityBatch, check_parity, outputs, run_by_transformers
from regard.hub.text_runs import context, pretrained_of_run
from regard.hub.tolerances import SHAPES
from tests.hub.published import BERTS, CONFIGURATIONS, filler, gpt2, quiet
from tests.hub.test_bert_heads import CLASSES, SPANS, headed
from tests.hub.translator import SIZES, marian

MAKERS = {
    "bert": lambda folder: filler(folder, "bert", **BERTS[0]),
    "distilbert": lambda folder: filler(folder, "distilbert", **BERTS[0]),
    "classes": lambda folder: headed(folder, "bert", CLASSES, BERTS[0]),
    "spans": lambda folder: headed(folder, "bert", SPANS, BERTS[0]),
    "gpt2": lambda folder: gpt2(folder, **CONFIGURATIONS[0]),
    "marian": lambda folder: marian(folder, **SIZES[0]),
}
UNREAD = ("key.bias", "k_lin.bias", "k_proj.bias")
"""What is added to all scores of a query alike, which no softmax sees."""


def spoilt(tensor: Tensor) -> Tensor:
    """With another second half, by amounts that differ along each row: a norm would not see a constant."""
    found, half = tensor.clone(), len(tensor) // 2
    found[half:] += 5 * torch.linspace(1, 2, found[0].numel()).view_as(found[0])
    return found


@pytest.mark.parametrize("family", MAKERS)
def test_every_tensor_that_is_not_what_was_written_is_noticed(family: str, tmp_path: Path):
    MAKERS[family](tmp_path / "published")
    import_run(str(tmp_path / "published"), tmp_path / "run")
    out = tmp_path / "out"
    export_run(tmp_path / "run", out)
    run = load(tmp_path / "run", "cpu")
    opened = pretrained_of_run(run, tmp_path / "run")
    assert isinstance(opened, PretrainedModel)
    files, most = families.write(opened), context(opened.config)
    examples = [ParityBatch.of(texts, min(tokens, most), run.model, opened.tokenizer) for texts, tokens in SHAPES]
    expected = [outputs(run.model, each) for each in examples]
    tensors, unnoticed = load_file(out / "model.safetensors"), []
    for name in tensors:
        save_file(tensors | {name: spoilt(tensors[name])}, out / "model.safetensors", {"format": "pt"})
        with pytest.raises(RunError, match=f"{name} differs in the written files"):
            check_parity(run.model, most, out, files, opened.tokenizer)
        try:
            for kind in expected[0]:
                run_by_transformers(examples, expected, kind, out)
        except RunError:
            continue
        unnoticed.append(name)
    assert [name for name in unnoticed if not name.endswith(UNREAD)] == []


def test_nothing_is_said_while_it_is_checked(tmp_path: Path, capfd: pytest.CaptureFixture[str]):
    said = quiet().utils.logging
    filler(tmp_path / "published", "bert", **BERTS[0])
    import_run(str(tmp_path / "published"), tmp_path / "run")
    capfd.readouterr()
    said.enable_progress_bar()
    try:
        export_run(tmp_path / "run", tmp_path / "out")
        assert said.is_progress_bar_enabled()
    finally:
        said.disable_progress_bar()
    assert capfd.readouterr() == ("", "")
    assert said.get_verbosity() == said.WARNING
