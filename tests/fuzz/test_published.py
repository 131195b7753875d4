"""The same for every file in the folder of a published model, read as `regard import` and `regard show` read it."""

import json
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("transformers")

from regard.hub.any_model.folder import check_config, check_memory, read_config
from regard.hub.formats import families
from regard.hub.formats.folder import Folder
from tests.fuzz.targets import Target, attempt
from tests.hub.published import BERTS, CONFIGURATIONS, byte_pairs, filler, gpt2, word_pieces
from tests.hub.published_images import VITS, classifier
from tests.hub.test_elmo import publish
from tests.hub.test_llama import MORE, SIZES, published
from tests.hub.translator import SIZES as TRANSLATORS
from tests.hub.translator import marian
from tests.oracle import elmo

ABOUT = {"add_bos_token": False, "add_prefix_space": False, "do_lower_case": True, "separate_vocabs": False}


def _gpt2(folder: Path) -> None:
    gpt2(folder, **CONFIGURATIONS[0])


def _lists(folder: Path) -> None:
    """With vocab.json and merges.txt in place of tokenizer.json."""
    _gpt2(folder)
    (folder / "tokenizer.json").unlink()
    entries, merges = byte_pairs(283).get_vocab(), json.loads(byte_pairs(283).to_str())["model"]["merges"]
    (folder / "vocab.json").write_text(json.dumps(entries), encoding="utf-8")
    (folder / "merges.txt").write_text("\n".join(map(" ".join, merges)), encoding="utf-8")


def _word_list(folder: Path) -> None:
    """With vocab.txt in place of tokenizer.json."""
    filler(folder, "bert", **BERTS[0])
    (folder / "tokenizer.json").unlink()
    word_pieces().model.save(str(folder))


def _elmo(folder: Path) -> None:
    folder.mkdir()
    publish(folder, elmo.ODD[0])


MAKERS: dict[str, tuple[Callable[[Path], Any], tuple[str, ...]]] = {
    "gpt2": (_gpt2, ("config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json")),
    "gpt2-lists": (_lists, ("vocab.json", "merges.txt")),
    "bert": (lambda folder: filler(folder, "bert", **BERTS[0]), ("config.json", "tokenizer.json")),
    "bert-list": (_word_list, ("vocab.txt", "tokenizer_config.json")),
    "roberta": (lambda folder: filler(folder, "roberta", **BERTS[0]), ("config.json", "tokenizer.json")),
    "llama": (lambda folder: published(folder, "Llama", SIZES[3] | MORE[3]), ("config.json", "tokenizer.json")),
    "mistral": (lambda folder: published(folder, "Mistral", SIZES[2] | MORE[2]), ("config.json",)),
    "vit": (lambda folder: classifier(folder, "vit", **VITS[0]), ("config.json", "preprocessor_config.json")),
    "marian": (
        lambda folder: marian(folder, **TRANSLATORS[0]),
        ("config.json", "generation_config.json", "vocab.json", "source.spm", "tokenizer_config.json"),
    ),
    "elmo": (_elmo, ("small_options.json",)),
}
"""For each model how its folder is made, and the files that are changed."""
CASES = [pytest.param(name, file, id=f"{name}-{file}") for name, (_, files) in MAKERS.items() for file in files]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("published")
    for name, (make, files) in MAKERS.items():
        make(root / name)
        if "tokenizer_config.json" in files:
            (root / name / "tokenizer_config.json").write_text(json.dumps(ABOUT), encoding="utf-8")
    return {name: root / name for name in MAKERS}


@pytest.mark.parametrize(("name", "file"), CASES)
def test_a_changed_file_of_a_published_model_is_read_or_refused(
    name: str, file: str, folders: dict[str, Path], tmp_path: Path
):
    folder = Path(shutil.copytree(folders[name], tmp_path / "model"))
    path = folder / file
    attempt(Target(path.name, path.read_bytes(), lambda path: families.read(Folder(path.parent))), folder)


def configured(path: Path) -> None:
    """The checks before transformers loads a folder."""
    check_config(path.parent, read_config(path.parent))


@pytest.mark.parametrize(
    ("file", "content", "read"),
    [
        ("config.json", {"model_type": "bert", "auto_map": {"AutoModel": "own.Model"}}, configured),
        ("model.safetensors.index.json", {"metadata": {"total_size": 12}, "weight_map": {}}, None),
    ],
)
def test_a_changed_file_of_any_model_is_read_or_refused(
    file: str, content: dict[str, Any], read: Callable[[Path], Any] | None, tmp_path: Path
):
    (tmp_path / "model.safetensors").write_bytes(b"")
    sizes = partial(check_memory, available=1 << 30)
    attempt(Target(file, json.dumps(content).encode(), read or (lambda path: sizes(path.parent))), tmp_path)
