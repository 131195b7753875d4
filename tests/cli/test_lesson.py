"""`regard lesson`: the page of a run, and runs that it is not made of."""

import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from regard.errors import InputError
from regard.lesson import MAX_WEIGHTS, check_run
from regard.models.bahdanau import Bahdanau, BahdanauConfig
from regard.storage.run_folder import RunDirectory
from tests.attribution.untrained import going_on, writing


def test_the_page_of_a_run(run: Path, regard, tmp_path: Path):
    out = tmp_path / "lesson.html"
    code, output, errors = regard("lesson", str(run), "May <9>, 2018", "1 May 2001", "--out", str(out))
    assert (code, errors, output.startswith(f"The lesson is {out}, 0.")) == (0, "", True)
    page = out.read_text(encoding="utf-8")
    assert len(page) < 2e6
    assert 'value="May &lt;9&gt;, 2018"' in page
    assert "<option>1 May 2001</option>" in page
    assert "http:" not in page.replace("http://www.w3.org/2000/svg", "")


def test_without_a_run_or_texts(run: Path, regard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    said = "runs/dates: no such run; `regard train dates --out runs/dates` makes it in about a minute"
    assert regard("lesson") == (2, "", f"regard: {said}\n")
    said = "a.png: the lesson is a page; name a file ending in .html"
    assert regard("lesson", str(run), "--out", "a.png") == (2, "", f"regard: {said}\n")
    code, _, errors = regard("lesson", str(run), "x" * 61)
    assert (code, errors.endswith("has 61 characters; expected 1 to 60\n")) == (2, True)
    shutil.copytree(run, "runs/files")
    with RunDirectory.create(Path("runs/files"), resume=True) as folder:
        data, _, rest = folder.read_text("config.yaml").partition("\nmodel:")
        files = "data: {kind: table, train: a.tsv, source: a, target: b}"
        folder.write_text("config.yaml", f"{data.partition('data:')[0]}{files}\nmodel:{rest}")
    code, _, errors = regard("lesson", "runs/files")
    assert "Give texts for the lesson: regard lesson runs/files 'A TEXT' 'ANOTHER'" in errors


def of(kind: str = "character", **settings: Any) -> Any:
    """A run of Bahdanau's model, without its data."""
    sizes: dict[str, Any] = {"width": 7, "embedding": 5, "attention": 6, "maxout": 3}
    config = BahdanauConfig(**sizes | settings)
    side = SimpleNamespace(settings=SimpleNamespace(kind=kind))
    model = Bahdanau(11, 13, config)
    return SimpleNamespace(
        model=model, config=SimpleNamespace(model=config), tokenizers=SimpleNamespace(source=side, target=side)
    )


@pytest.mark.parametrize(
    ("run", "reason"),
    [
        (writing(), "has a Transformer"),
        (going_on(), "has a "),
        (of(align="hard"), "has model.align: hard; expected softmax"),
        (of(history="coverage"), "has model.history: coverage; expected null"),
        (of("word"), "has tokens of the kind word; expected character or space"),
        (of(width=400, embedding=5), rf"has [\d,]+ weights; a page of 2 MB has at most {MAX_WEIGHTS:,}"),
    ],
)
def test_other_runs_are_refused_with_the_reason(run: Any, reason: str):
    with pytest.raises(InputError, match=f"^name: {reason}.*The lesson computes a small model like that of"):
        check_run(run, "name")
