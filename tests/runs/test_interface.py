"""`regard.train` and `regard.fit`: training from Python."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import regard
from regard.attention import Attend
from regard.attention.memory import Memory
from regard.attention.scores import ScaledDot
from regard.errors import InputError, RunError
from regard.runs.interface import list_overrides
from regard.storage import tensors
from regard.tasks.custom import CustomRun
from regard.training.objectives import Objective

QUIET = {"tensorboard": False, "threads": 1}


class Reader(nn.Module):
    """Finds the value that stands beside a key."""

    def __init__(self, keys: int = 5) -> None:
        super().__init__()
        self.embed = nn.Embedding(keys, 7)
        self.attend = Attend(ScaledDot())

    def forward(self, query: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        return self.attend(self.embed(query)[:, None], Memory(self.embed(keys), values[..., None]))[:, 0, 0]


def rows(count: int) -> list[tuple[Tensor, Tensor, Tensor]]:
    random = torch.Generator().manual_seed(3)
    made = []
    for _ in range(count):
        keys = torch.randperm(5, generator=random)
        made.append((keys[torch.randint(5, (), generator=random)], keys, torch.randn(5, generator=random)))
    return made


def collate(examples: list[Any]) -> dict[str, Tensor]:
    query, keys, values = map(torch.stack, zip(*examples, strict=True))
    return {"query": query, "keys": keys, "values": values}


def loss(model: nn.Module, batch: dict[str, Tensor]) -> Tensor:
    right = batch["values"][batch["keys"] == batch["query"][:, None]]
    return (model(**batch) - right).square().mean()


def lookup(**settings: Any) -> regard.Supervised:
    return regard.Supervised(train=rows(300), valid=rows(50), collate=collate, loss_of=loss, **settings)


def fitted(out: Path, steps: int, **more: Any) -> tuple[Reader, CustomRun]:
    torch.manual_seed(1)
    model = Reader()
    settings = {"steps": steps, "learning_rate": 3e-2, "checkpoint_every": 20, **QUIET}
    return model, regard.fit(model, lookup(), out, training=settings, **more)


def test_an_own_model_learns_and_its_run_opens(tmp_path: Path):
    model, run = fitted(tmp_path / "run", 150)
    assert isinstance(lookup(), Objective)
    assert run.evaluate()["loss"] < 0.05
    opened = regard.load(tmp_path / "run")
    again = opened.restore(Reader(), lookup())
    assert all(torch.equal(one, other) for one, other in zip(model.parameters(), again.parameters(), strict=True))
    assert opened.evaluate() == run.evaluate()
    batch = collate(rows(2))
    with regard.record(again) as maps:
        again(**batch)
    (weights,) = maps.values()
    assert torch.equal(batch["keys"].gather(1, weights.squeeze(1).argmax(-1, keepdim=True))[:, 0], batch["query"])


def test_opening_a_custom_run_reads_its_weights_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    model, _ = fitted(tmp_path / "run", 2)
    read: list[Path] = []
    monkeypatch.setattr(tensors, "read", lambda path, plain=tensors.read: read.append(path) or plain(path))
    opened = regard.load(tmp_path / "run")
    assert [path.name for path in read] == ["weights.safetensors"]
    kept = opened.model.tensors
    assert all(torch.equal(kept[name], value) for name, value in model.state_dict().items())


def test_a_stopped_fit_resumes_to_the_same_weights(tmp_path: Path):
    whole, _ = fitted(tmp_path / "whole", 40)

    def broken(model: nn.Module, batch: dict[str, Tensor]) -> Tensor:
        seen.append(1)
        return loss(model, batch) * (torch.nan if len(seen) > 25 else 1)

    seen: list[int] = []
    torch.manual_seed(1)
    settings = {"steps": 40, "learning_rate": 3e-2, "checkpoint_every": 20, "maximum_bad_updates": 2, **QUIET}
    parts = regard.Supervised(train=rows(300), valid=rows(50), collate=collate, loss_of=broken)
    with pytest.raises(RunError):
        regard.fit(Reader(), parts, tmp_path / "run", training=settings)
    settings["maximum_bad_updates"] = 10
    with pytest.raises(InputError, match="maximum_bad_updates"):
        regard.fit(Reader(), lookup(), tmp_path / "run", training=settings, resume=True)
    settings["maximum_bad_updates"] = 2
    model = Reader()
    regard.fit(model, lookup(), tmp_path / "run", training=settings, resume=True)
    assert all(torch.equal(one, other) for one, other in zip(whole.parameters(), model.parameters(), strict=True))


def test_metrics_of_ones_own_choose_the_weights(tmp_path: Path):
    objective = lookup(evaluate=lambda model: {"error": 1.5}, metric="error", seed=2)
    run = regard.fit(Reader(), objective, tmp_path / "run", training={"steps": 2, **QUIET})
    assert run.evaluate() == {"error": 1.5}


def test_what_a_custom_run_cannot_do(tmp_path: Path, request: pytest.FixtureRequest):
    command = request.getfixturevalue("regard")
    folder = tmp_path / "run"
    fitted(folder, 2)
    opened = regard.load(folder)
    with pytest.raises(InputError, match=r"holds the weights of a tests\.runs\.test_interface\.Reader, not its class"):
        opened.evaluate()
    with pytest.raises(InputError, match="a run of the task custom does not predict; it can evaluate"):
        opened.predict(["x"])
    with pytest.raises(InputError, match="give your own"):
        opened.model()
    with pytest.raises(InputError, match="misshaped"):
        opened.restore(Reader(keys=6))
    with pytest.raises(InputError, match=r"training: .*unexpected keyword argument .step"):
        regard.fit(Reader(), lookup(), tmp_path / "other", training={"step": 1})
    with pytest.raises(InputError, match="batch_size is 0"):
        lookup(batch_size=0)
    with pytest.raises(InputError, match="0 examples to train on"):
        regard.Supervised(train=[], valid=[], collate=collate, loss_of=loss)
    code, _, errors = command("evaluate", str(folder))
    assert (code, "holds the weights of a" in errors.splitlines()[-1]) == (2, True)
    code, _, errors = command("train", str(folder), "--out", str(tmp_path / "more"))
    assert (code, "train it with regard.fit" in errors) == (2, True)


def test_a_recipe_is_trained_and_opened(tmp_path: Path):
    data, model = {"train": 60, "valid": 3, "test": 3}, {"width": 8, "embedding": 8}
    run = regard.train("dates", tmp_path / "run", data=data, model=model, training={"steps": 2, "warmup": 0, **QUIET})
    assert len(run.predict(["14 July 1989"])) == 1
    assert run.config.training.steps == 2
    with pytest.raises(InputError, match=r"--set training\.stepps"):
        regard.train("dates", tmp_path / "other", training={"stepps": 2})
    with pytest.raises(InputError, match="neither a recipe nor a file"):
        regard.train("date")


def test_settings_become_overrides():
    data = {"kind": "parallel", "train": [Path("a"), "b"]}
    assert list(list_overrides({"training": {"steps": 2}, "data": data, "truncate": True})) == [
        "training.steps=2",
        'data={"kind": "parallel", "train": ["a", "b"]}',
        "truncate=true",
    ]
