"""Runs of tasks whose names serve does not know: what their room describes is enough."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import httpx
import numpy as np
import pytest

from regard.errors import InputError
from regard.maps.lookups import Lookups
from regard.models.pointer_network import PointerNetwork, PointerNetworkConfig
from regard.models.snail import FewShotSnail
from regard.models.turing_machine import TuringMachine, TuringMachineConfig
from regard.pictures.page import build_payload
from regard.tasks.algorithmic import Algorithmic, AlgorithmicRun, Copy
from regard.tasks.attribution import Attribution
from regard.tasks.custom import CustomRun
from regard.tasks.few_shot import FewShot, FewShotExample, FewShotRun, FolderEpisodes
from regard.tasks.meta_rl import Bandits, MetaRL, MetaRLRun
from regard.tasks.options import AttributionOptions, PredictOptions
from regard.tasks.pointer import Pointer, PointerRun, Sorting
from regard.tasks.prediction import TextPrediction
from regard.tasks.run import Run
from tests.serve.serving import serving
from tests.serve.test_runs import image, of, pixels, post


def pointer() -> PointerRun:
    config = Pointer(data=Sorting(), model=PointerNetworkConfig(width=6, attention=5))
    return PointerRun(config, PointerNetwork(1, config.model).eval())


def machine() -> AlgorithmicRun:
    config = Algorithmic(data=Copy(width=2), model=TuringMachineConfig(width=5, rows=7, tape_width=3))
    data = config.data
    return AlgorithmicRun(config, TuringMachine(data.input_width, data.output_width, config.model).eval())


def agent() -> MetaRLRun:
    config = MetaRL(data=Bandits(arms=3, pulls=5))
    return MetaRLRun(config, config.build_actor().eval())


@pytest.mark.parametrize(
    ("make", "text", "wrong"),
    [(pointer, "0.3 0.1 0.2", "a b"), (machine, "01 11", "21"), (agent, "0.2 0.9 0.5", "0.2")],
)
def test_a_task_that_reads_lines(make: Any, text: str, wrong: str):
    run = make()
    with serving(of(run)) as address:
        (about,) = httpx.get(address + "/api/runs").json()["runs"]
        predicted = post(address, "predict", {"text": text}).json()
        attended = post(address, "attention", {"text": text}).json()
        refused = post(address, "predict", {"text": wrong})
    assert (about["kind"], about["inputs"]) == ("plain", {"text": "text"})
    assert about["operations"] == ["predict", "attention"]
    (expected,) = run.predict([text])
    assert set(predicted) == set(expected.to_json())
    assert {name: attended[name] for name in predicted} == predicted
    assert attended["view"] == build_payload(list(run.attribute(text).lookups))
    assert refused.status_code == 422


def episodes() -> FewShotRun:
    config = FewShot(data=FolderEpisodes(train="images", ways=2, shots=1))
    return FewShotRun(config, FewShotSnail(2, 1, config.model).eval())


def test_episodes_of_images():
    """Images come as bytes: a path in a request is no image of this machine."""
    run = episodes()
    one, other = image()["image"], image("JPEG")["image"]
    body = {"examples": {"a": [one], "b": [other]}, "image": one}
    with serving(of(run)) as address:
        predicted = post(address, "predict", body).json()
        paths = post(address, "predict", {**body, "image": "/etc/hostname"})
        line = post(address, "predict", {"text": '{"examples": {"a": ["1.png"]}, "image": "2.png"}'})
    channels = run.config.model.channels
    example = FewShotExample({"a": [pixels(one, channels)], "b": [pixels(other, channels)]}, pixels(one, channels))
    (expected,) = run.predict([example])
    assert predicted == {"label": expected.label, "probabilities": pytest.approx(expected.probabilities, rel=1e-5)}
    assert (paths.status_code, line.status_code) == (422, 422)


@dataclass(frozen=True)
class Sides:
    """The example of a task of somebody else."""

    left: str
    right: str | None


class OtherRun(Run[Sides, TextPrediction]):
    """A run of a task of somebody else: it joins two words."""

    def __init__(self) -> None:
        self.config, self.model = SimpleNamespace(task="joining"), None
        self.supports = {"predict": frozenset({"n_best"}), "attribute": frozenset({"kinds"})}
        self.inputs = {"left": str, "right": str | None}

    def parse(self, line: str, place: str = "text 1") -> Sides:
        return Sides(line, None)

    def example(self, values: Mapping[str, Any], /) -> Sides:
        if not values["left"]:
            raise InputError("left is empty")
        return Sides(**values)

    def _evaluate(self, examples: Any, options: Any, /) -> dict[str, float]:
        return {}

    def _predict(self, examples: Sequence[Sides], options: PredictOptions, /) -> list[TextPrediction]:
        return [TextPrediction(f"{each.left}-{each.right or ''}" * options.n_best) for each in examples]

    def _attribute(self, example: Sides, options: AttributionOptions, /) -> Attribution:
        (prediction,) = self._predict([example], PredictOptions())
        lookups = Lookups(np.ones((1, 1, 1, 2)) / 2, (example.left, example.right or ""), (prediction.text,))
        return Attribution(prediction, prediction.text, (lookups,), None, options)


def test_a_user_task():
    with serving(of(OtherRun())) as address:
        (about,) = httpx.get(address + "/api/runs").json()["runs"]
        answers = [
            post(address, "predict", body)
            for body in (
                {"left": "a", "right": "b"},
                {"left": "a", "n_best": 2},
                {"left": ""},
                {"left": "a", "beam": 2},
                {"right": "a"},
                {"left": "a", "n_best": 65},
            )
        ]
        view = post(address, "attention", {"left": "a", "right": "b"}).json()["view"]
    assert {name: about[name] for name in ("kind", "task", "kinds", "inputs", "operations")} == {
        "kind": "plain",
        "task": "joining",
        "kinds": ["weights"],
        "inputs": {"left": "text", "right": "text"},
        "operations": ["predict", "attention"],
    }
    assert [each.json() for each in answers[:2]] == [{"prediction": "a-b"}, {"prediction": "a-a-"}]
    assert [each.json()["error"] for each in answers[2:]] == [
        "left is empty",
        "beam: Extra inputs are not permitted",
        "left: Field required",
        "n_best: Input should be less than or equal to 64",
    ]
    assert view["lookups"][0]["source"] == ["a", "b"]


def test_a_run_without_predictions_is_refused():
    run = CustomRun.__new__(CustomRun)
    run.config = SimpleNamespace(task="custom")
    with pytest.raises(InputError, match=r"task custom cannot be served\. It supports evaluate"):
        of(run)
