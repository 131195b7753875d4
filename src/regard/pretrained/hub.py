"""Published models that are fetched from the Hugging Face hub, each at one commit that is written down."""

import re
from pathlib import Path

from huggingface_hub import snapshot_download
from huggingface_hub.errors import (
    GatedRepoError,
    HfHubHTTPError,
    HFValidationError,
    LocalEntryNotFoundError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

from regard.errors import InputError, RunError
from regard.pretrained import elmo
from regard.pretrained.folder import Folder

WANTED = ["config.json", "generation_config.json", "preprocessor_config.json"]
WANTED += ["*.safetensors", "*.safetensors.index.json", "tokenizer*", "vocab*", "merges.txt", "*.spm"]
WANTED += [f"*{elmo.OPTIONS}", f"*{elmo.WEIGHTS}"]
"""The files that are read; pickles and code are not even fetched."""
NAME = re.compile(r"[\w.-]+(/[\w.-]+)?")


def fetch(name: str, revision: str | None) -> tuple[Folder, str]:
    """The files of `name` at a branch, tag or commit, and the commit they are of. Without a network the copy of an
    earlier time serves, if it is whole.

    Raises:
        InputError: there is no such model or revision, or it may not be read.
        RunError: the hub does not answer, or not now.
    """
    if not NAME.fullmatch(name):
        raise InputError(f"{name}: no such folder, nor the name of a model on the hub, as OWNER/NAME")
    at = "" if revision is None else f" at {revision}"
    try:
        path = Path(snapshot_download(name, revision=revision, allow_patterns=WANTED))
    except GatedRepoError as error:
        raise InputError(f"{name}: its publisher wants you to agree to terms first; do so, and log in") from error
    except RevisionNotFoundError as error:
        raise InputError(f"{name}: has no revision {revision}; give a branch, tag or commit that it has") from error
    except RepositoryNotFoundError as error:
        raise InputError(f"{name}: no such folder here, and no such model on the hub that you may read") from error
    except HFValidationError as error:
        raise InputError(f"{name}: is not the name of a model on the hub, as OWNER/NAME") from error
    except LocalEntryNotFoundError as error:
        raise RunError(
            f"{name}{at}: the hub does not answer and there is no whole copy here; try again later"
        ) from error
    except HfHubHTTPError as error:
        code = error.response.status_code
        why = "too many requests" if code == 429 else f"HTTP {code}"
        raise RunError(f"{name}{at}: the hub refuses for now ({why}); try again later") from error
    return Folder(path, root=path.parents[1]), path.name  # a snapshot's files are links into the cache's own folder
