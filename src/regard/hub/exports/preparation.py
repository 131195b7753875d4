"""The files beside an exported model that prepare its inputs and describe it, as its published family has them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from regard.errors import InputError
from regard.hub.folders import write
from regard.hub.formats import families
from regard.hub.formats.folder import CONFIG
from regard.hub.formats.generation import GENERATION
from regard.hub.text_runs import pretrained_of_run
from regard.nn.encoder_decoder import EncoderDecoder


def write_preparation(
    run: Any, path: Path, folder: Path, *, described: bool = True
) -> None:
    """Write what prepares the inputs of the run at `path`: the files of its published family, such as tokenizer.json,
    source.spm or preprocessor_config.json, and if it is `described` config.json and generation_config.json."""
    for name, document in documents(run, path).items():
        if described or name not in (CONFIG, GENERATION):
            write(folder / name, document)


def documents(run: Any, path: Path) -> Mapping[str, Mapping[str, Any] | bytes]:
    """The files of a run's family; of a model that no family has, its tokenizers in the format of the tokenizers
    library: tokenizer.json, or one file per side."""
    try:
        return families.write(pretrained_of_run(run, path)).documents
    except InputError:  # no published family computes this model; other runtimes do
        if isinstance(run.model, EncoderDecoder):
            sides = run.tokenizers
            return {
                f"{side}.tokenizer.json": getattr(sides, side).backend
                for side in ("source", "target")
            }
        return {"tokenizer.json": run.tokenizer.backend}
