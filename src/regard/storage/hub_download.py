"""Fetch published models from the Hugging Face hub, each at a recorded commit."""

import re
from pathlib import Path

from huggingface_hub import snapshot_download
from huggingface_hub.errors import (
    DisabledRepoError,
    GatedRepoError,
    HfHubHTTPError,
    HFValidationError,
    LocalEntryNotFoundError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

from regard.errors import InputError, RunError
from regard.storage.atomic import FULL, REFUSED
from regard.storage.published_folder import PublishedFolder

FILES = ["config.json", "generation_config.json", "preprocessor_config.json"]
FILES += [
    "*.safetensors",
    "*.safetensors.index.json",
    "tokenizer*",
    "vocab*",
    "merges.txt",
    "*.spm",
    "spiece.model",
    "sentencepiece*.model",
]
FILES += [
    "special_tokens_map.json",
    "added_tokens.json",
    "normalizer.json",
    "processor_config.json",
]
FILES += [
    "modules.json",
    "config_sentence_transformers.json",
    "sentence_*_config.json",
    "*/config.json",
]
"""The files to fetch; pickles and code are excluded."""
NAME = re.compile(r"[\w.-]+(/[\w.-]+)?")


def fetch(name: str, revision: str | None) -> tuple[PublishedFolder, str]:
    """Fetch the files of `name` at a branch, tag or commit. Returns the folder and the commit. Without a network, a
    complete cached copy is used.

    Raises:
        InputError: the model or revision does not exist or is not accessible.
        RunError: the hub does not answer, the transfer broke off, or the disk is full.
    """
    if not NAME.fullmatch(name):
        raise InputError(
            f"{name}: no such folder and no model on the hub; expected a folder or OWNER/NAME"
        )
    try:
        path = Path(snapshot_download(name, revision=revision, allow_patterns=FILES))
    except Exception as error:  # transfers fail with the transport's own errors, and its library varies
        raise _error(error, name, revision) from error
    return PublishedFolder(
        path, root=path.parents[1]
    ), path.name  # files of a snapshot are links into the cache's folder


def _error(error: Exception, name: str, revision: str | None) -> InputError | RunError:
    """Return an error with the cause and the remedy."""
    at = "" if revision is None else f" at {revision}"
    refused = (
        error.__cause__ if isinstance(error, LocalEntryNotFoundError) else None
    )  # why the cache was searched
    match refused if isinstance(refused, HfHubHTTPError) else error:
        case GatedRepoError():
            return InputError(
                f"{name}: its publisher wants you to agree to terms first; do so, and log in"
            )
        case DisabledRepoError():
            return InputError(
                f"{name}: the hub has disabled it, and there is no whole copy here; choose another model"
            )
        case RevisionNotFoundError():
            return InputError(
                f"{name}: has no revision {revision}; give a branch, tag or commit that it has"
            )
        case RepositoryNotFoundError():
            return InputError(
                f"{name}: no such folder here, and no such model on the hub that you may read"
            )
        case HFValidationError():
            return InputError(
                f"{name}: is not the name of a model on the hub, as OWNER/NAME"
            )
        case LocalEntryNotFoundError():
            return RunError(
                f"{name}{at}: the hub does not answer and there is no whole copy here; try again later"
            )
        case HfHubHTTPError() as answer:
            code = answer.response.status_code
            why = "too many requests" if code == 429 else f"HTTP {code}"
            return RunError(
                f"{name}{at}: the hub refuses for now ({why}); try again later"
            )
        case OSError(errno=code) if code in FULL:
            return RunError(
                f"{name}{at}: cannot be kept: {FULL[code]}; free some, or set HF_HOME to a roomier place"
            )
        case OSError(errno=code) if code in REFUSED:
            return RunError(
                f"{name}{at}: cannot be kept: {REFUSED[code]}; set HF_HOME to a folder you may write"
            )
    why = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}".removesuffix(
        ": "
    )
    return RunError(
        f"{name}{at}: the transfer broke off ({why}); run it again, what has arrived whole is kept"
    )
