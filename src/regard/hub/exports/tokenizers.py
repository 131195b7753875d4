"""What lies beside an exported model."""

import json
from pathlib import Path
from typing import Any

from regard.nn.encoder_decoder import EncoderDecoder


def write_tokenizers(run: Any, folder: Path) -> None:
    """The run's tokenizers as Hugging Face's library reads them: tokenizer.json, or one a side."""
    if isinstance(run.model, EncoderDecoder):
        named = {"source.tokenizer.json": run.tokenizers.source, "target.tokenizer.json": run.tokenizers.target}
    else:
        named = {"tokenizer.json": run.tokenizer}
    for name, tokenizer in named.items():
        (folder / name).write_text(json.dumps(tokenizer.backend, ensure_ascii=False) + "\n", encoding="utf-8")
