"""A pointer network learns to sort in seconds, and what it points to is what its picture shows."""

from pathlib import Path

import pytest

from regard.errors import InputError
from regard.models.pointer_network import PointerNetworkConfig
from regard.runs import train as launch
from regard.runs.load import load
from regard.tasks.pointer import ConvexHull, Pointer, PointerRun, Sorting
from regard.training.settings import Training


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    config = Pointer(
        data=Sorting(train=2000, valid=50, test=100, least=2, most=4),
        model=PointerNetworkConfig(width=32, attention=32, max_elements=5),
        training=Training(
            steps=250, batch_tokens=512, learning_rate=1e-2, warmup=20, schedule="linear", validate_every=0
        ),
    )
    out = tmp_path_factory.mktemp("sorting") / "run"
    result = launch.train(config, out)
    assert result["test/exact-match"] > 85
    assert result["test/places"] > 95
    return out


def test_it_sorts_what_it_has_not_seen(folder: Path):
    run = load(folder)
    assert isinstance(run, PointerRun)
    (found,) = run.predict([[(0.9,), (0.1,), (0.5,)]])
    assert found.values["places"] == (1, 2, 0)
    assert found.values["score"] > -1
    attention = run.attribute([(0.9,), (0.1,), (0.5,)]).weights
    assert attention.target == ("0.1", "0.5", "0.9", "</s>")
    assert attention.source == ("</s>", "0.9", "0.1", "0.5")
    assert [int(row.argmax()) for row in attention.weights] == [2, 3, 1, 0]
    assert run.evaluate()["exact-match"] > 85


def test_commands(regard, folder: Path, tmp_path: Path):
    assert regard("predict", str(folder), "0.9 0.1 0.5", "0.2 0.7") == (0, "1 2 0\n0 1\n", "")
    code, output, _ = regard("show", str(folder), "0.9 0.1 0.5", "--out", str(tmp_path / "x.svg"))
    assert code == 0
    assert output.startswith("1 2 0\n")
    assert (tmp_path / "x.svg").stat().st_size > 1000
    assert regard("evaluate", str(folder))[0] == 0
    assert '"places": [1, 2, 0]' in regard("predict", str(folder), "0.9 0.1 0.5", "--json")[1]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("predict", "{}", "0.5 x"), "'x' is no element; expected numbers"),
        (("predict", "{}", "0.5 nan"), "'nan' is no element"),
        (("predict", "{}", "0.5,0.1 0.2"), "text 1: has 2 elements of [1, 2] numbers; the model takes"),
        (("predict", "{}", ""), "text 1: has 0 elements"),
        (("predict", "{}", "1 2 3 4 5 6"), "text 1: has 6 elements of [1] numbers; the model takes 1 to 5"),
        (
            ("predict", "{}", "1", "--beam", "2"),
            "option beam is not supported where a run of the task pointer",
        ),
        (("evaluate", "{}", "file"), "a run of the task pointer is scored on its own test set only"),
        (("generate", "{}", "1"), "does not continue prompts, but one of the recipe characters-gpt2 does"),
    ],
)
def test_what_does_not_fit(regard, folder: Path, arguments: tuple[str, ...], said: str):
    code, _, errors = regard(*(each.format(folder) for each in arguments))
    assert (code, len(errors.splitlines())) == (2, 1)
    assert said in errors


def test_more_elements_than_the_model_has_places_for():
    with pytest.raises(ValueError, match=r"data.most is 10, more than model.max_elements, 9; raise that"):
        Pointer(data=ConvexHull(), model=PointerNetworkConfig(max_elements=9))
    with pytest.raises(ValueError, match="label_smoothing"):
        Pointer(data=ConvexHull(), training=Training(label_smoothing=0.1))


def test_no_test_set(folder: Path):
    run = load(folder)
    with pytest.raises(InputError, match="there is no test set"):
        run.evaluate([])
