"""The files beside an exported graph that prepare its inputs."""

from pathlib import Path
from typing import Any

from regard.errors import InputError
from regard.hub.exporting import published_form, write_json, write_preparation
from regard.nn.encoder_decoder import EncoderDecoder
from regard.storage.published_folder import CONFIG


def write_inputs(run: Any, out: Path, *, described: bool = True) -> None:
    """Write the files of a run's published family, such as tokenizer.json.

    A model of no family has its tokenizers in the format of the tokenizers library.

    Args:
        run: The run.
        out: The folder of the export.
        described: Whether to write config.json and generation_config.json too.
    """
    try:
        document, _ = published_form(run)
        write_preparation(run, out, described=described)
    except InputError:  # no published family computes this model; other runtimes do
        if isinstance(run.model, EncoderDecoder):
            sides = run.tokenizers
            write_json(out / "source.tokenizer.json", sides.source.backend)
            write_json(out / "target.tokenizer.json", sides.target.backend)
        else:
            write_json(out / "tokenizer.json", run.tokenizer.backend)
        return
    if described:
        write_json(out / CONFIG, document)
