"""`regard.train` and `regard.fit`: training from Python."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import regard
from regard.attention import Attend
from regard.attention.memory import Memory
from regard.attention.scores import ScaledDot
from regard.data.records import Records, records_of
from regard.errors import InputError, RunError
from regard.runs import run_file
from regard.runs.interface import list_overrides
from regard.storage import run_folder
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
    opened: Any = regard.load(tmp_path / "run")
    again = opened.restore(Reader(), lookup())
    assert all(torch.equal(one, other) for one, other in zip(model.parameters(), again.parameters(), strict=True))
    assert opened.evaluate() == run.evaluate()
    batch = collate(rows(2))
    with regard.record(again) as maps:
        again(**batch)
    (weights,) = maps.values()
    assert torch.equal(batch["keys"].gather(1, weights.squeeze(1).argmax(-1, keepdim=True))[:, 0], batch["query"])


def test_loaders_and_a_loss_are_enough(tmp_path: Path):
    torch.manual_seed(1)
    inputs = torch.randn(64, 3)
    data = TensorDataset(inputs, inputs.sum(-1, keepdim=True))
    loaders = [DataLoader(data, batch_size=8), DataLoader(data, batch_size=16)]
    model, quiet = nn.Linear(3, 1), {"learning_rate": 0.1, **QUIET}
    settings = {**quiet, "epochs": 12.0, "validate_every": 0}
    run = regard.fit(model, loaders[0], tmp_path / "run", loss=nn.MSELoss(), valid=loaders[1], training=settings)
    assert run.evaluate()["loss"] < 0.05
    with pytest.raises(InputError, match="needs loss="):
        regard.fit(model, loaders[0], tmp_path / "other", epochs=1)
    with pytest.raises(InputError, match="epochs and training are both given"):
        regard.fit(model, lookup(), tmp_path / "other", training=quiet, epochs=1)
    with pytest.raises(InputError, match="loss and valid belong to a DataLoader"):
        regard.fit(model, lookup(), tmp_path / "other", loss=nn.MSELoss())


def test_opening_a_custom_run_reads_its_weights_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    model, _ = fitted(tmp_path / "run", 2)
    read: list[Path] = []
    monkeypatch.setattr(
        run_folder, "read_tensors", lambda path, plain=run_folder.read_tensors: read.append(path) or plain(path)
    )
    opened: Any = regard.load(tmp_path / "run")
    assert [path.name for path in read] == ["weights.safetensors"]
    kept = opened.tensors
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
    (expected,) = run.predict(["14 July 1989"])
    assert run.predict("14 July 1989").text == run("14 July 1989").text == expected.text
    assert run(["14 July 1989"])[0].text == expected.text
    drawn = run.attribute("14 July 1989").weights.weights
    for shown in (run.show("14 July 1989"), regard.show(tmp_path / "run", "14 July 1989")):
        np.testing.assert_allclose(shown.weights.weights, drawn, rtol=1e-6)
    with pytest.raises(TypeError, match="expected show\\(run_or_folder, text\\)"):
        regard.show(run)
    with pytest.raises(InputError, match="there are 2 texts"):
        regard.show(run, "14 July", "1989")
    assert run.config.training.steps == 2
    with pytest.raises(InputError, match=r"^training\.stepps: unknown key"):
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


MODEL = {"name": "bert", "layers": 1, "width": 8, "heads": 2, "hidden": 8, "context": 16}
TINY = {"steps": 2, "warmup": 0, "batch_tokens": 64, "validate_every": 0, "precision": "fp32"}
ROWS = [{"review": f"it is {word} {n}", "stars": n % 2} for n in range(20) for word in ("good", "bad")]


class Table:
    """What pandas and polars have in common."""

    def __init__(self, rows: list[dict[str, Any]]):
        self.content = {name: np.array([row[name] for row in rows], dtype=object) for name in rows[0]}
        self.columns = list(self.content)

    def __getitem__(self, name: str) -> Any:
        return self.content[name]


class Labels:
    names = ("bad", "good")


class Set:
    """What `datasets` has: rows, and the names of classes."""

    features: ClassVar[dict[str, Any]] = {"review": None, "stars": Labels()}

    def __len__(self) -> int:
        return len(ROWS)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(ROWS)


def test_what_holds_records():
    assert records_of(ROWS) is ROWS
    assert records_of(Table(ROWS)) == ROWS
    named = records_of(Set())
    assert named is not None
    assert [each["stars"] for each in named[:3]] == ["bad", "bad", "good"]
    for other in ("a.csv", {"train": "a.csv"}, ["a.txt", "b.txt"], [], None, 3, np.zeros((2, 2)), iter(ROWS)):
        assert records_of(other) is None


def trained_on(data: Any, folder: Path, **settings: Any) -> Any:
    kept: dict[str, Any] = {"tokenizer": {"kind": "word", "size": 50}, "model": MODEL, "training": TINY}
    return regard.train("classify", folder, data=data, **kept | settings)


@pytest.mark.parametrize("rows", [Table(ROWS), Set()], ids=["frame", "set"])
def test_training_and_evaluation(rows: Any, tmp_path: Path):
    test = ROWS[:4] if isinstance(rows, Table) else rows
    run = trained_on({"train": rows, "test": test}, tmp_path / "run")  # using its usual columns
    assert tuple(run.outputs.labels) == (("0", "1") if isinstance(rows, Table) else ("bad", "good"))
    assert set(run.evaluate()) == set(run.evaluate(rows)) == {"accuracy", "macro-f1"}
    saved = regard.load(tmp_path / "run")
    assert saved.config.data.train == "train.memory"
    with pytest.raises(InputError, match=r"test.memory: were rows in memory, which are not saved with a run"):
        saved.evaluate()
    assert run_file.read(tmp_path / "run" / "config.yaml") == saved.config


def test_resuming_with_the_same_rows_and_with_others(tmp_path: Path):
    rows = [{"text": each["review"], "label": str(each["stars"])} for each in ROWS]
    trained_on(rows, tmp_path / "run")
    longer: dict[str, Any] = {"training": TINY | {"steps": 4}}
    with pytest.raises(InputError, match=r"training.steps: 2 in the run, 4 now"):
        trained_on(rows, tmp_path / "run", resume=True, **longer)
    with pytest.raises(InputError, match="cannot resume: data: "):
        trained_on(rows[:-2], tmp_path / "run", resume=True)
    trained_on(rows, tmp_path / "run", resume=True)


def test_the_kind_of_data_follows_the_rows(tmp_path: Path):
    rows = [{"source": f"{n}", "target": f"{n} {n}"} for n in range(20)]
    model = {"name": "bahdanau", "embedding": 4, "width": 4, "attention": 4, "maxout": 4}
    run = regard.train("dates", tmp_path / "run", data=rows, model=model, training=TINY | {"batch_tokens": 32})
    assert (run.config.data.kind, run.predict(["3"])[0].text is not None) == ("table", True)


def test_rows_that_do_not_fit(tmp_path: Path):
    with pytest.raises(InputError, match=r"train.memory:1: no column 'text' and 'label', there are"):
        trained_on([{"a": "b"}], tmp_path / "run")
    with pytest.raises(InputError, match=r"data.train: expected rows that are dictionaries .*; found \('a', 'b'\)"):
        trained_on([("a", "b")], tmp_path / "run")
    with pytest.raises(InputError, match=r"train.memory:2: column 'text' is float, expected text"):
        trained_on([{"text": "a", "label": "b"}, {"text": float("nan"), "label": "b"}], tmp_path / "run")
    assert not (tmp_path / "run").exists()
    assert str(Records("a", ROWS)) == "a.memory"
