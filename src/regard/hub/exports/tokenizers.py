"""The tokenizer files beside an exported model."""

import json
from pathlib import Path
from typing import Any

from regard.nn.encoder_decoder import EncoderDecoder


def write_tokenizers(run: Any, folder: Path) -> None:
    """Write the run's tokenizers for Hugging Face's library: tokenizer.json, or one file per side."""
    if isinstance(run.model, EncoderDecoder):
        named = {"source.tokenizer.json": run.tokenizers.source, "target.tokenizer.json": run.tokenizers.target}
    else:
        named = {"tokenizer.json": run.tokenizer}
    for name, tokenizer in named.items():
        (folder / name).write_text(json.dumps(tokenizer.backend, ensure_ascii=False) + "\n", encoding="utf-8")
