"""Every export has a model card, and can be uploaded."""

from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from huggingface_hub import HfApi
from huggingface_hub.errors import HfHubHTTPError, LocalTokenNotFoundError

from regard.errors import InputError, RunError
from regard.hub.card import card
from regard.hub.upload import check_name, push
from regard.storage.run_folder import RunDirectory
from tests.hub.test_faults import answer

CONFIG = """task: seq2seq
data: {kind: parallel, train: [/secret/a, /secret/b]}
model: {name: transformer, width: 128}
training: {steps: 700, start: /secret/run}
"""


@pytest.fixture
def run(tmp_path: Path) -> Path:
    with RunDirectory.create(tmp_path / "run") as folder:
        folder.write_text("config.yaml", CONFIG)
        folder.write_json("result.json", {"valid/bleu": 31.25, "test/bleu": 30.5, "steps": 700, "parameters": 12})
        rows = {"train": {"count": 29000, "origin": "/secret/a, /secret/b"}}
        folder.write_json("data.json", {"unit": "pairs", "rows": rows})
    return tmp_path / "run"


def test_a_card_has_figures_data_and_settings_and_no_path(run: Path):
    text = card(run, "de-en", "ONNX")
    header = yaml.safe_load(text.split("---\n")[1])
    assert header["tags"] == ["regard", "attention", "seq2seq", "transformer"]
    (index,) = header["model-index"]
    (results,) = index["results"]
    assert [(each["type"], each["value"]) for each in results["metrics"]] == [("bleu", 31.25), ("bleu", 30.5)]
    for part in ("# de-en", "exported for ONNX", "| test/bleu | 30.5 |", "| train | 29,000 pairs |", "steps: 700"):
        assert part in text
    assert "secret" not in text


class Api:
    """A hub that records what it gets."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, Any]] = []

    def create_repo(self, api: HfApi, name: str, **options: Any) -> str:
        self.calls.append(("create", (name, options)))
        return f"hub/{name}"

    def upload_folder(self, api: HfApi, **options: Any) -> None:
        self.calls.append(("upload", options))


def test_an_export_is_uploaded_as_a_private_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    hub = Api()
    monkeypatch.setattr(HfApi, "create_repo", lambda *a, **o: hub.create_repo(*a, **o))
    monkeypatch.setattr(HfApi, "upload_folder", lambda *a, **o: hub.upload_folder(*a, **o))
    assert push(tmp_path, "me/model") == "hub/me/model"
    (_, (name, options)), (_, uploaded) = hub.calls
    assert (name, options) == ("me/model", {"private": True, "exist_ok": True})
    assert (uploaded["repo_id"], uploaded["folder_path"]) == ("me/model", tmp_path)


def refusal(code: int) -> HfHubHTTPError:
    return HfHubHTTPError("", response=answer(code))


@pytest.mark.parametrize(
    ("error", "kind", "said"),
    [
        (LocalTokenNotFoundError("none"), InputError, "nobody is logged in to the hub; log in with `hf auth login`"),
        (refusal(403), InputError, r"does not let you write there \(HTTP 403\); log in"),
        (refusal(500), RunError, r"the upload failed \(HTTP 500\); the export is in .*, push it again"),
        (OSError("no route"), RunError, r"the upload failed \(no route\); the export is in"),
        (httpx.ConnectError("no such name"), RunError, r"the upload failed \(no such name\); the export is in"),
    ],
)
def test_a_refused_upload_is_one_line(error: Exception, kind: type, said: str, tmp_path: Path, monkeypatch):
    def fail(*arguments: object, **options: object) -> None:
        raise error

    monkeypatch.setattr(HfApi, "create_repo", fail)
    with pytest.raises(kind, match=said):
        push(tmp_path, "me/model")


@pytest.mark.parametrize("name", ["model", "a b/c", "a/b/c", ""])
def test_a_name_without_an_owner_is_refused_before_the_export(name: str):
    with pytest.raises(InputError, match="expected OWNER/NAME on the hub"):
        check_name(name)
