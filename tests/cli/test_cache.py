"""Training on sets on disk as a user starts it: the cache, an exact resume, a full disk."""

from pathlib import Path
from random import Random

import pytest

from regard.data import batches, cache
from tests.cli.command import environment, finish, start, start_limited
from tests.training.toy import digest

SETTINGS = {
    "tokenizers": "{source: {kind: word, size: 60}, shared: true}",
    "model": "{name: transformer, layers: 1, width: 8, hidden: 8, heads: 2}",
    "metrics": "[perplexity]",
    "training.steps": "9",
    "training.batch_tokens": "4000",
    "training.warmup": "0",
    "training.validate_every": "0",
    "training.checkpoint_every": "3",
    "training.keep_best": "9",
    "training.threads": "1",
    "training.precision": "fp32",
    "training.average_decay": "0",
}


def options(folder: Path, count: int) -> list[str]:
    """Files of so many short pairs, the same thousand again and again, and the settings that name them."""
    dice, words = Random(1), [f"word{number}" for number in range(50)]
    for name in ("a", "b"):
        lines = "".join(" ".join(dice.choices(words, k=dice.randint(1, 9))) + "\n" for _ in range(1000))
        (folder / name).write_text(lines * (count // 1000))
        (folder / f"{name}.valid").write_text("word1 word2\nword3\n")
    data = {"data.train": f"[{folder}/a, {folder}/b]", "data.valid": f"[{folder}/a.valid, {folder}/b.valid]"}
    return [part for key, value in (SETTINGS | data).items() for part in ("--set", f"{key}={value}")]


@pytest.fixture
def small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """A set of 2,000 pairs is on disk, has four shards and more than one chunk of an epoch."""
    monkeypatch.setattr(cache, "SMALL", 1 << 13)
    monkeypatch.setattr(cache, "ROWS", 1 << 9)
    monkeypatch.setattr(batches, "CHUNK", 1 << 10)
    monkeypatch.setattr(batches, "BLOCK", 1 << 5)


@pytest.mark.usefixtures("small_limits")
def test_a_run_of_a_set_on_disk_resumes_exactly(regard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    cache, whole = tmp_path / "cache", tmp_path / "whole"
    arguments = ["--out", str(whole), *options(tmp_path, 2000), "--cache", str(cache)]
    code, _, errors = regard("train", "translate-transformer", *arguments)
    assert code == 0, errors
    assert len(list(cache.glob("sets/*/source/0?????"))) == 4
    built = {path: path.stat().st_mtime_ns for path in cache.rglob("*.npy")}
    (whole / "checkpoints" / "step-00000009" / "manifest.json").unlink()  # as of a killed run
    before = digest(whole)
    (whole / "weights.safetensors").unlink()
    monkeypatch.setenv("REGARD_CACHE", str(cache))
    code, _, errors = regard("train", "--resume", "--out", str(whole))
    assert code == 0, errors
    assert "going on after update 6" in errors
    assert digest(whole) == before
    assert {path: path.stat().st_mtime_ns for path in cache.rglob("*.npy")} == built


@pytest.mark.slow
def test_a_full_disk_while_encoding(tmp_path: Path):
    out, given = tmp_path / "run", options(tmp_path, 160_000)
    arguments = ["--out", str(out), *given, "--cache", str(tmp_path / "cache")]
    code, _, errors = finish(start_limited(100_000, "train", "translate-transformer", *arguments))
    assert code == 1
    assert "000000: cannot be written: no space" in errors.splitlines()[-1]
    assert "Traceback" not in errors
    assert not out.exists()
    assert [path.name for path in tmp_path.glob("cache/sets/*/source/*") if path.name[0] != "."] == ["begun.json"]


def test_the_cache_is_shown_and_cleared(tmp_path: Path):
    surroundings = environment(REGARD_CACHE=str(tmp_path))
    folder = tmp_path / "sets" / "abc" / "source"
    folder.mkdir(parents=True)
    (folder / "begun.json").write_text('{"stamp": {"sources": [["a.de", 1, 2], ["a.en", 3, 4]]}}')
    (folder / "000000").write_bytes(bytes(1944))
    code, output, _ = finish(start("cache", env=surroundings))
    assert code == 0
    assert "2,000 bytes in 1 sets" in output
    assert "a.de, a.en" in output
    code, output, _ = finish(start("info", env=surroundings))
    assert "2,000 bytes in 1 sets" in output
    code, output, _ = finish(start("cache", "--clear", env=surroundings))
    assert output == f"removed 2,000 bytes from {tmp_path / 'sets'}\n"
    assert not (tmp_path / "sets").exists()
