"""Every model computes on a GPU what it computes on a CPU: outputs, gradients, weights and searches."""

from collections.abc import Callable
from copy import deepcopy
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from regard import intervene, record
from regard.attention.intervene import Cut
from regard.attention.masks import causal
from regard.attention.memory import Memory
from regard.decoding.beam import Beam
from regard.decoding.sampling import greedy
from regard.models.attention import ALIGNS, AlignName, make_attend
from regard.nn.decoders import EncoderDecoder
from tests.laws import cases, test_captioners, test_classifiers, test_language_models

DEVICE = "cuda"
if not torch.cuda.is_available():
    pytest.skip("no GPU here", allow_module_level=True)

Case = tuple[nn.Module, tuple[Any, ...]]
CLOSE: dict[str, Any] = {"rtol": 1e-8, "atol": 1e-8}


def translate(name: str) -> tuple[EncoderDecoder, tuple[Tensor, ...]]:
    batch = cases.sentences()
    return cases.MODELS[name]().double(), (batch.tokens, batch.lengths, batch.target)


def continue_text(name: str) -> Case:
    model = test_language_models.make(name)
    return model, (test_language_models.words(2, 7), model.begin(2))


def classify(name: str) -> Case:
    model, inputs, examples = test_classifiers.drawn(name)
    return model, inputs(examples)


def describe(name: str) -> Case:
    return test_captioners.drawn(name), (*test_captioners.source(name), test_captioners.TARGET)


FAMILIES: dict[str, tuple[Callable[[str], Case], Any]] = {
    "seq2seq": (translate, cases.MODELS),
    "language": (continue_text, test_language_models.CONFIGS),
    "class": (classify, test_classifiers.MODELS),
    "source": (describe, test_captioners.MODELS),
}
CASES = {f"{family}-{name}": partial(make, name) for family, (make, names) in FAMILIES.items() for name in names}


def move(given: Any) -> Any:
    """The same tensors on the GPU, whatever holds them."""
    return given.to(DEVICE) if isinstance(given, Tensor) else deepcopy(given)


def learn(model: nn.Module, inputs: tuple[Any, ...]) -> tuple[Tensor, dict[str, Tensor | None]]:
    output = model(*inputs)
    output = output[0] if isinstance(output, tuple) else output
    output.sin().sum().backward()
    return output, {name: parameter.grad for name, parameter in model.named_parameters()}


def assert_same(on_gpu: Any, on_cpu: Any) -> None:
    torch.testing.assert_close(on_gpu, on_cpu, check_device=False, **CLOSE)


@pytest.mark.parametrize("name", CASES)
def test_outputs_and_gradients(name: str):
    model, inputs = CASES[name]()
    model.eval()
    moved: Any = deepcopy(model).to(DEVICE)
    if name.startswith("language"):
        moved_inputs = (move(inputs[0]), moved.begin(2))
    else:
        moved_inputs = tuple(map(move, inputs))
    expected, gradients = learn(model, inputs)
    output, moved_gradients = learn(moved, moved_inputs)
    assert output.device.type == DEVICE
    assert_same(output, expected)
    for parameter, gradient in gradients.items():
        other = moved_gradients[parameter]
        assert (gradient is None) == (other is None), parameter
        if gradient is not None:
            assert_same(other, gradient)


@pytest.mark.parametrize("search", [greedy, Beam(3)], ids=["greedy", "beam"])
@pytest.mark.parametrize("name", cases.MODELS)
def test_searches(name: str, search: Any):
    model, (tokens, lengths, _) = translate(name)
    model.eval()
    moved = deepcopy(model).to(DEVICE)
    texts = [
        [best.tokens for [best] in search(one.decoder, one.encoder(*inputs), max_length=9)]
        for one, inputs in ((model, (tokens, lengths)), (moved, (move(tokens), move(lengths))))
    ]
    assert texts[0] == texts[1]


@pytest.mark.parametrize("align", ALIGNS)
@pytest.mark.parametrize("score", cases.SCORES)
def test_weights_and_cuts(score: str, align: AlignName):
    made, (query, key, value) = cases.score(score)
    reader = make_attend(made, cases.align(align, query), None).double().eval()
    given = [torch.randn(2, *size).double() for size in ((3, query), (6, key), (6, value))]
    results = []
    for one, device in ((reader, "cpu"), (deepcopy(reader).to(DEVICE), DEVICE)):
        queries, keys, values = (each.to(device) for each in given)
        memory = Memory(keys, values, causal(3, 6))
        with record(one) as maps:
            whole = one(queries, memory)
        with intervene(one, Cut(keys=[1])):
            cut = one(queries, memory)
        results.append([whole, cut, *(each for weights in maps.values() for each in weights)])
    for on_gpu, on_cpu in zip(results[1], results[0], strict=True):
        assert_same(on_gpu, on_cpu)
