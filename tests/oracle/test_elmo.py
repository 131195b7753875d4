"""ELMo against the formulas in NumPy, and what holds of it whatever its weights are."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from regard.data.batches import SpelledBatch, stack_words
from regard.models.elmo import ORIGINAL, Elmo, ElmoConfig
from regard.storage.tensors import load_into
from regard.tasks.bidirectional_language_model import compute_losses
from regard.text.special import IGNORED
from regard.text.words import TEXT_BEGINS, TEXT_ENDS, spell, spell_mark
from tests.oracle import elmo
from tests.oracle.elmo_tensors import convert_tensors

TEXTS = ["", "naïve cats", "a of of incomprehensibilities 日本 x", "dog"]
every = pytest.mark.parametrize("options", elmo.ODD, ids=["plain", "cut", "small"])


def config(options: dict[str, Any], **more: Any) -> ElmoConfig:
    lstm, words = options["lstm"], options["char_cnn"]
    return ElmoConfig(
        characters=words["max_characters_per_token"],
        character_width=words["embedding"]["dim"],
        filters=tuple((size, count) for size, count in words["filters"]),
        activation=words["activation"],
        highways=words["n_highway"],
        projection=lstm["projection_dim"],
        cell=lstm["dim"],
        layers=lstm["n_layers"],
        cell_clip=lstm["cell_clip"] and float(lstm["cell_clip"]),
        projection_clip=lstm["proj_clip"] and float(lstm["proj_clip"]),
        **{"predictions": False, **more},
    )


def make(options: dict[str, Any]) -> Elmo:
    model = Elmo(0, config(options)).double().eval()
    given = {name: torch.from_numpy(array) for name, array in elmo.weights(options).items()}
    load_into(model, convert_tensors(config(options), given))
    return model


def spelled(text: str, size: int) -> list[list[int]]:
    words = [spell(word, size) for word in text.split()]
    return [spell_mark(TEXT_BEGINS, size), *words, spell_mark(TEXT_ENDS, size)]


def batch(texts: list[str], size: int) -> tuple[Tensor, Tensor]:
    rows = [spelled(text, size) for text in texts]
    return stack_words(rows, size), torch.tensor(list(map(len, rows)))


@every
@torch.no_grad()
def test_states_of_all_layers(options: dict[str, Any]):
    size = options["char_cnn"]["max_characters_per_token"]
    found = make(options)(*batch(TEXTS, size)).numpy()
    given = elmo.weights(options)
    for row, text in enumerate(TEXTS):
        wanted = elmo.states(options, given, spelled(text, size))
        np.testing.assert_allclose(found[:, row, : wanted.shape[1]], wanted, rtol=1e-10, atol=1e-10)
        assert not found[:, row, wanted.shape[1] :].any()


@torch.no_grad()
def test_the_cut_off_is_reached():
    """Else the test above says nothing of it."""
    options = elmo.ODD[1]
    given = elmo.weights(options)
    far = options | {"lstm": options["lstm"] | {"cell_clip": None}}
    near = options | {"lstm": options["lstm"] | {"proj_clip": None}}
    ids = spelled(TEXTS[1], 13)
    wanted = elmo.states(options, given, ids)
    assert not np.allclose(elmo.states(far, given, ids), wanted)
    assert not np.allclose(elmo.states(near, given, ids), wanted)


@every
@torch.no_grad()
def test_padding_and_the_rest_of_the_batch_change_nothing(options: dict[str, Any]):
    model, size = make(options), options["char_cnn"]["max_characters_per_token"]
    together = model(*batch(TEXTS, size))
    for row, text in enumerate(TEXTS):
        characters, lengths = batch([text], size)
        alone = model(characters, lengths)
        torch.testing.assert_close(together[:, row, : lengths[0]], alone[:, 0], rtol=1e-12, atol=1e-12)
        more = torch.cat([characters, torch.randint(1, 262, (1, 5, size))], 1)
        longer = model(more, lengths)
        torch.testing.assert_close(longer[:, 0, : lengths[0]], alone[:, 0], rtol=1e-12, atol=1e-12)
        assert not longer[:, 0, lengths[0] :].any()


@torch.no_grad()
def test_neither_direction_sees_what_it_tells():
    """A word changes the states forwards from it on, and those backwards up to it."""
    model, (characters, lengths) = make(elmo.ODD[0]), batch(["a b c d e"], 50)
    changed = characters.clone()
    changed[0, 3] = torch.tensor(spell("other"))
    ahead, back = (model(changed, lengths) != model(characters, lengths))[1:, 0].chunk(2, -1)
    assert ahead.any(-1).any(0).tolist() == [place >= 3 for place in range(7)]
    assert back.any(-1).any(0).tolist() == [place <= 3 for place in range(7)]


def test_losses_are_those_of_the_neighbours():
    """Forwards of what follows, backwards of what is before, padding left out; both by one output layer."""
    model = Elmo(11, config(elmo.ODD[0], predictions=True)).double().eval()
    characters, lengths = batch(["a b c", "d"], 50)
    tokens = torch.tensor([[2, 5, 7, 4, 3], [2, 9, 3, IGNORED, IGNORED]])
    (forward, each), (backward, other) = compute_losses(model, SpelledBatch(characters, tokens, lengths))
    last = model(characters, lengths)[-1]
    assert model.output is not None
    ahead, back = (model.output(half).log_softmax(-1) for half in last.chunk(2, -1))
    wanted = [-sum(ahead[row, at, tokens[row, at + 1]] for at in range(n - 1)) for row, n in enumerate(lengths)]
    torch.testing.assert_close(forward, wanted[0] + wanted[1])
    wanted = [-sum(back[row, at, tokens[row, at - 1]] for at in range(1, n)) for row, n in enumerate(lengths)]
    torch.testing.assert_close(backward, wanted[0] + wanted[1])
    assert (each != 0).tolist() == (other != 0).tolist() == [[True] * 4, [True, True, False, False]]
    (forward + backward).backward()
    assert all(parameter.grad is not None for parameter in model.parameters())


def test_the_size_that_was_released():
    """93.6 million parameters, what tells words not counted."""
    with torch.device("meta"):
        model = Elmo(0, replace(ORIGINAL, predictions=False))
    assert round(sum(parameter.numel() for parameter in model.parameters()) / 1e6, 1) == 93.6
