"""The same for every file in the folder of a published model, read as `regard import` and `regard show` read it."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("transformers")

from regard.hub.generation import read_generation
from regard.hub.importing import read_source
from regard.hub.sentencepiece import read_sides
from regard.models.published import check_weights, convert_tokenizer, load_part
from regard.models.published_images import read_preparation
from regard.storage.published_folder import PublishedFolder
from tests.fuzz.targets import Target, attempt
from tests.hub.published import BERTS, CONFIGURATIONS, VITS, classifier, filler, gpt2
from tests.hub.translator import SIZES, marian


def read_text_model(path: Path) -> None:
    folder = PublishedFolder(path.parent)
    source = read_source(folder, "model", None)
    read_generation(folder, source.values, encodes=False)
    convert_tokenizer(load_part(folder, "AutoTokenizer"), source.values.vocab_size, str(path))


def read_image_model(path: Path) -> None:
    folder = PublishedFolder(path.parent)
    read_source(folder, "model", None)
    read_preparation(folder, 12)


def read_translator(path: Path) -> None:
    folder = PublishedFolder(path.parent)
    source = read_source(folder, "model", None)
    found = read_generation(folder, source.values, encodes=True)
    read_sides(folder, source.values.vocab_size, source.values.decoder_start_token_id, found.ends)


MAKERS: dict[str, tuple[Callable[[Path], Any], tuple[str, ...], Callable[[Path], None]]] = {
    "gpt2": (
        lambda folder: gpt2(folder, **CONFIGURATIONS[0]),
        ("config.json", "generation_config.json", "tokenizer.json"),
        read_text_model,
    ),
    "bert": (lambda folder: filler(folder, **BERTS[0]), ("config.json",), read_text_model),
    "vit": (
        lambda folder: classifier(folder, "vit", **VITS[0]),
        ("config.json", "preprocessor_config.json"),
        read_image_model,
    ),
    "marian": (
        lambda folder: marian(folder, **SIZES[0]),
        ("config.json", "generation_config.json", "vocab.json", "source.spm"),
        read_translator,
    ),
}
"""For each model how its folder is made, the files that are changed, and how they are read."""
CASES = [pytest.param(name, file, id=f"{name}-{file}") for name, (_, files, _) in MAKERS.items() for file in files]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("published")
    for name, (make, _, _) in MAKERS.items():
        make(root / name)
    return {name: root / name for name in MAKERS}


@pytest.mark.parametrize(("name", "file"), CASES)
def test_a_changed_file_of_a_published_model_is_read_or_refused(
    name: str, file: str, folders: dict[str, Path], tmp_path: Path
):
    folder = Path(shutil.copytree(folders[name], tmp_path / "model"))
    path = folder / file
    attempt(Target(path.name, path.read_bytes(), MAKERS[name][2]), folder)


def test_a_changed_index_is_read_or_refused(tmp_path: Path):
    content = {"metadata": {"total_size": 12}, "weight_map": {}}

    def read(path: Path) -> None:
        check_weights(PublishedFolder(path.parent), {}, 1 << 30)

    attempt(Target("model.safetensors.index.json", json.dumps(content).encode(), read), tmp_path)
