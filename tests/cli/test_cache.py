"""Training on sets on disk as a user starts it: the cache, an exact resume, a full disk."""

import resource
from pathlib import Path
from random import Random

import pytest

from tests.cli.command import environment, finish, start
from tests.training.toy import digest

pytest.importorskip("pyarrow")
COUNT = 160_000
"""Short pairs: more than one chunk of an epoch, and more than 8 MB."""
SETTINGS = {
    "tokenizers": "{source: {kind: word, size: 60}, shared: true}",
    "model": "{name: transformer, layers: 1, width: 8, hidden: 8, heads: 2}",
    "metrics": "[perplexity]",
    "training.steps": "9",
    "training.batch_tokens": "400000",
    "training.warmup": "0",
    "training.validate_every": "0",
    "training.checkpoint_every": "3",
    "training.keep_best": "9",
    "training.threads": "1",
    "training.precision": "fp32",
    "training.average_decay": "0",
}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder, dice = tmp_path_factory.mktemp("texts"), Random(1)
    words = [f"word{number}" for number in range(50)]
    for name in ("a", "b"):
        lines = (" ".join(dice.choices(words, k=dice.randint(1, 9))) for _ in range(COUNT))
        (folder / name).write_text("\n".join(lines) + "\n")
        (folder / f"{name}.valid").write_text("word1 word2\nword3\n")
    return folder / "a", folder / "b"


def train(files: tuple[Path, Path], out: Path, cache: Path) -> tuple[int, str, str]:
    data = {"data.train": f"[{files[0]}, {files[1]}]", "data.valid": f"[{files[0]}.valid, {files[1]}.valid]"}
    every = SETTINGS | data
    options = [part for key, value in every.items() for part in ("--set", f"{key}={value}")]
    return finish(start("train", "translate-transformer", "--out", str(out), *options, "--cache", str(cache)))


@pytest.mark.slow
def test_a_run_of_a_set_on_disk_resumes_exactly(files: tuple[Path, Path], tmp_path: Path):
    cache = tmp_path / "cache"
    code, _, errors = train(files, tmp_path / "whole", cache)
    assert code == 0, errors
    assert len(list(cache.glob("sets/*/source/*.arrow"))) == 3
    built = {path: path.stat().st_mtime_ns for path in cache.rglob("*.arrow")}
    (tmp_path / "whole" / "checkpoints" / "step-00000009" / "manifest.json").unlink()  # as of a killed run
    before = digest(tmp_path / "whole")
    (tmp_path / "whole" / "weights.safetensors").unlink()
    code, _, errors = finish(
        start("train", "--resume", "--out", str(tmp_path / "whole"), env=environment(REGARD_CACHE=str(cache)))
    )
    assert code == 0, errors
    assert "going on after update 6" in errors
    assert digest(tmp_path / "whole") == before
    assert {path: path.stat().st_mtime_ns for path in cache.rglob("*.arrow")} == built


@pytest.mark.slow
def test_row_75_a_full_disk_while_encoding(files: tuple[Path, Path], tmp_path: Path):
    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))

    arguments = ["--set", f"data.train=[{files[0]}, {files[1]}]", "--cache", str(tmp_path / "cache")]
    out = tmp_path / "run"
    code, _, errors = finish(start("train", "translate-transformer", "--out", str(out), *arguments, preexec_fn=limited))
    assert code == 1
    assert "000000.arrow: cannot be written: no space" in errors.splitlines()[-1]
    assert "Traceback" not in errors
    assert not out.exists()
    assert [path.name for path in tmp_path.glob("cache/sets/*/source/*") if path.name[0] != "."] == ["begun.json"]


def test_the_cache_is_shown_and_cleared(tmp_path: Path):
    surroundings = environment(REGARD_CACHE=str(tmp_path))
    folder = tmp_path / "sets" / "abc" / "source"
    folder.mkdir(parents=True)
    (folder / "begun.json").write_text('{"stamp": {"sources": [["a.de", 1, 2], ["a.en", 3, 4]]}}')
    (folder / "000000.arrow").write_bytes(bytes(1944))
    code, output, _ = finish(start("cache", env=surroundings))
    assert code == 0
    assert "2,000 bytes in 1 sets" in output
    assert "a.de, a.en" in output
    code, output, _ = finish(start("info", env=surroundings))
    assert "2,000 bytes in 1 sets" in output
    code, output, _ = finish(start("cache", "--clear", env=surroundings))
    assert output == f"removed 2,000 bytes from {tmp_path / 'sets'}\n"
    assert not (tmp_path / "sets").exists()
