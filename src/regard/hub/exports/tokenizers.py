"""The files beside an exported model that prepare its inputs: of tokenizers, or of images."""

import json
from pathlib import Path
from typing import Any

from regard.hub.formats import preprocessor
from regard.hub.formats.folder import CONFIG
from regard.hub.formats.settings import label_keys
from regard.models.vit import Vit
from regard.nn.encoder_decoder import EncoderDecoder


def write_preparation(run: Any, folder: Path) -> None:
    """Write the run's tokenizers for Hugging Face's library: tokenizer.json, or one file per side; of a model of images
    their preprocessor_config.json, and the labels in config.json."""
    if isinstance(run.model, Vit):
        (folder / CONFIG).write_text(json.dumps(label_keys(run.labels), ensure_ascii=False) + "\n", encoding="utf-8")
        document = preprocessor.preprocessor_config(run.config.images, run.config.model)
        (folder / preprocessor.PREPROCESSOR).write_text(json.dumps(document) + "\n", encoding="utf-8")
        return
    if isinstance(run.model, EncoderDecoder):
        named = {"source.tokenizer.json": run.tokenizers.source, "target.tokenizer.json": run.tokenizers.target}
    else:
        named = {"tokenizer.json": run.tokenizer}
    for name, tokenizer in named.items():
        (folder / name).write_text(json.dumps(tokenizer.backend, ensure_ascii=False) + "\n", encoding="utf-8")
