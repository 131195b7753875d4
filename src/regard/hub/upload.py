"""Upload of an export to the Hugging Face hub."""

from pathlib import Path

from huggingface_hub import HfApi
from huggingface_hub.errors import (
    HfHubHTTPError,
    LocalTokenNotFoundError,
)

from regard.errors import InputError, RunError
from regard.models.published import first_line
from regard.storage.hub_download import NAME

REFUSED = (401, 403)


def check_name(name: str) -> None:
    """Raise InputError for a text that is no name of a model on the hub."""
    if not NAME.fullmatch(name) or "/" not in name:
        raise InputError(f"--push {name}: expected OWNER/NAME on the hub")


def push(folder: Path, name: str) -> str:
    """Upload the files of a folder as a model, and return its address.

    A model that the hub does not have yet is created as a private one.

    Raises:
        InputError: Nobody is logged in, or the owner's models may not be written.
        RunError: The hub does not answer.
    """
    api = HfApi()
    try:
        address = api.create_repo(name, private=True, exist_ok=True)
        api.upload_folder(
            repo_id=name, folder_path=folder, commit_message="Export of a regard run"
        )
    except LocalTokenNotFoundError as error:
        raise InputError(
            f"{name}: nobody is logged in to the hub; log in with `hf auth login`"
        ) from error
    # transfers fail with the transport's own errors, and its library varies
    except Exception as error:
        is_answer = isinstance(error, HfHubHTTPError)
        code = error.response.status_code if is_answer else None
        if code in REFUSED:
            raise InputError(
                f"{name}: the hub does not let you write there (HTTP {code}); log in "
                "with `hf auth login`, or choose an owner that you may write to"
            ) from error
        reason = f"HTTP {code}" if code else first_line(error)
        raise RunError(
            f"{name}: the upload failed ({reason}); the export is in {folder}, push it "
            "again"
        ) from error
    return str(address)
