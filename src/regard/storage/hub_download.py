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

FILES = [
    "config.json",
    "generation_config.json",
    "preprocessor_config.json",
    "*.safetensors",
    "*.safetensors.index.json",
    "tokenizer*",
    "vocab*",
    "merges.txt",
    "*.spm",
    "spiece.model",
    "sentencepiece*.model",
    "special_tokens_map.json",
    "added_tokens.json",
    "normalizer.json",
    "processor_config.json",
    "modules.json",
    "config_sentence_transformers.json",
    "sentence_*_config.json",
    "*/config.json",
]
"""The files to fetch; pickles and code are excluded."""
NAME = re.compile(r"[\w.-]+(/[\w.-]+)?")
REASONS: dict[type[Exception], str] = {
    GatedRepoError: "its publisher wants you to agree to terms first; do so, and log in",
    DisabledRepoError: "the hub has disabled it; choose another model",
    RevisionNotFoundError: "has no such revision; give a branch, tag or commit",
    RepositoryNotFoundError: "no such folder here, and no such model on the hub that you "
    "may read",
    HFValidationError: "is not the name of a model on the hub, as OWNER/NAME",
}
"""Why there is no model, by the library's errors."""


def fetch(name: str, revision: str | None) -> tuple[PublishedFolder, str]:
    """Fetch a model and return its folder and its commit.

    Without a network, a complete cached copy is used.

    Args:
        name: The model's name on the hub.
        revision: A branch, tag or commit; by default the newest commit.

    Raises:
        InputError: The model or revision does not exist or is not accessible.
        RunError: The hub does not answer, the transfer broke off, or the disk is full.
    """
    if not NAME.fullmatch(name):
        raise InputError(
            f"{name}: no such folder and no model on the hub; expected a folder or "
            "OWNER/NAME"
        )
    try:
        path = Path(snapshot_download(name, revision=revision, allow_patterns=FILES))
    # transfers fail with the transport's own errors, and its library varies
    except Exception as error:
        title = name if revision is None else f"{name} at {revision}"
        raise explain(error, title) from error
    # files of a snapshot are links into the cache's folder
    return PublishedFolder(path, root=path.parents[1]), path.name


def explain(error: Exception, title: str) -> InputError | RunError:
    """Return the error of a failed download, with its cause and the remedy."""
    is_missing = isinstance(error, LocalEntryNotFoundError)
    # why the cache was searched
    cause = error.__cause__ if is_missing else error
    for kind, reason in REASONS.items():
        if isinstance(cause, kind):
            return InputError(f"{title}: {reason}")
    problem = " ".join(f"{type(error).__name__}: {error}".split())[:200]
    problem = f"the transfer broke off ({problem}); run it again, whole files are kept"
    code = error.errno if isinstance(error, OSError) else None
    if isinstance(cause, HfHubHTTPError):
        code = cause.response.status_code
        reason = "too many requests" if code == 429 else f"HTTP {code}"
        problem = f"the hub refuses for now ({reason}); try again later"
    elif is_missing:
        problem = "the hub does not answer and there is no whole copy here; try later"
    elif code in FULL or code in REFUSED:
        reason = FULL.get(code) or REFUSED[code]
        problem = f"cannot be kept: {reason}; free some, or set HF_HOME to a new folder"
    return RunError(f"{title}: {problem}")
