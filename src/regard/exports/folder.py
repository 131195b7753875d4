"""Where an export goes, and what lies there beside the model."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from regard.errors import InputError
from regard.tasks.text_to_text.run import TextToTextRun
from regard.training.atomic import replacing


@contextmanager
def writing(out: Path) -> Iterator[Path]:
    """A new folder that becomes `out` unless something fails. Raises InputError if `out` exists, RunError where the
    disk refuses."""
    if out.exists():
        raise InputError(f"{out}: exists; choose another --out")
    with replacing(out) as folder:
        folder.mkdir()
        yield folder


def write_tokenizers(run: Any, folder: Path) -> None:
    """The run's tokenizers as Hugging Face's library reads them: tokenizer.json, or one a side."""
    if isinstance(run, TextToTextRun):
        named = {"source.tokenizer.json": run.tokenizers.source, "target.tokenizer.json": run.tokenizers.target}
    else:
        named = {"tokenizer.json": run.tokenizer}
    for name, tokenizer in named.items():
        (folder / name).write_text(json.dumps(tokenizer.backend, ensure_ascii=False) + "\n", encoding="utf-8")
