"""Weights of all layers and heads, what they are made of, and parts of them."""

import math
from dataclasses import replace

import numpy as np
import pytest
from numpy.random import default_rng

from regard.errors import InputError
from regard.maps import Alignment, DocumentWeights
from regard.maps.alignment import Side, Words
from regard.maps.heads import HeadMaps
from regard.maps.lookups import (
    AlternativeMap,
    Breakdown,
    ImagePatches,
    Lookups,
    is_softmax,
    lookups_from_alignment,
    lookups_from_document,
    mean_alignment,
    patch_labels,
    select_rows,
    with_maps,
)

WEIGHTS = np.random.default_rng(3).dirichlet(np.ones(7), size=(2, 3, 5))
SOURCE, TARGET = tuple("abcdefg"), tuple("vwxyz")


def test_the_mean_of_all_maps_or_of_some():
    lookups = Lookups(WEIGHTS, SOURCE, TARGET)
    np.testing.assert_allclose(mean_alignment(lookups).weights, WEIGHTS.mean((0, 1)), atol=1e-7)
    some = mean_alignment(lookups, [4, 1])
    np.testing.assert_allclose(some.weights, (WEIGHTS[1, 1] + WEIGHTS[0, 1]) / 2, atol=1e-7)
    assert (some.source, some.target, lookups.layers) == (SOURCE, TARGET, ("layer 0", "layer 1"))
    with pytest.raises(InputError, match="map 6 is not there"):
        mean_alignment(lookups, [6])


def test_an_alignment_is_one_head_of_one_layer():
    alignment = Alignment(WEIGHTS[0, 0], SOURCE, TARGET)
    lookups = lookups_from_alignment(alignment, name="n")
    assert (lookups.weights.shape, lookups.name, lookups.source) == ((1, 1, 5, 7), "n", SOURCE)
    np.testing.assert_array_equal(lookups.weights[0, 0], WEIGHTS[0, 0].astype(np.float32))
    with pytest.raises(ValueError, match="read-only"):
        lookups.weights[0] = 0


def test_a_documents_weights_are_those_of_sentence_and_word():
    words = (np.array([0.5, 0.5]), np.array([]), np.array([0.25, 0.75]))
    lookups = lookups_from_document(DocumentWeights((("a", "b"), (), ("c", "d")), np.array([0.2, 0.0, 0.8]), words))
    np.testing.assert_allclose(lookups.weights.ravel(), [0.1, 0.1, 0.2, 0.6], atol=1e-7)
    assert (lookups.source, lookups.sentences, lookups.target) == (("a", "b", "c", "d"), (0, 0, 2, 2), ("document",))
    assert lookups_from_document(DocumentWeights((), np.zeros(0), ())).weights.shape == (1, 1, 1, 0)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"weights": WEIGHTS[0]}, r"weights have shape \(3, 5, 7\); expected \(layer, head"),
        ({"weights": WEIGHTS[:0]}, "hold no layer or no head"),
        ({"weights": -WEIGHTS}, "expected finite and not negative"),
        ({"weights": WEIGHTS * np.nan}, "weights have nan"),
        ({"source": TARGET}, r"have shape \(2, 3, 5, 7\); expected \(layer, head, 5, 5\)"),
        ({"layers": ("one",)}, "do not fit 1 layers"),
        (
            {"alternatives": {"x": AlternativeMap(WEIGHTS[..., :3])}},
            r"x of shape \(2, 3, 5, 3\) do not fit 2 layers, 5 target and 7 source labels",
        ),
        (
            {"alternatives": {"x": AlternativeMap(WEIGHTS, target=("one",))}},
            "do not fit 2 layers, 1 target and 7 source labels",
        ),
        ({"alternatives": {"x": AlternativeMap(WEIGHTS, ("one",))}}, "x of shape .* do not fit 1 layers"),
        ({"alternatives": {"x": AlternativeMap(WEIGHTS[:, :0])}}, "x of shape .* hold no layer or no head"),
        ({"source_words": Words(("x",), (0, 0))}, "2 source_words for 7 labels"),
        ({"notes": ("a",)}, "1 notes for 5 labels"),
        ({"images": np.zeros((6, 2, 2, 1), np.uint8)}, "6 images for 7 labels"),
    ],
)
def test_what_does_not_fit_is_named(change: dict, said: str):
    with pytest.raises(ValueError, match=said):
        Lookups(**({"weights": WEIGHTS, "source": SOURCE, "target": TARGET} | change))


def test_maps_of_others_stand_beside_those_of_the_first():
    first = Lookups(WEIGHTS, SOURCE, TARGET, "run", alternatives={"owed": AlternativeMap(-WEIGHTS[:1])})
    norms = replace(first, weights=3 * WEIGHTS, alternatives={}, kind="norms", amounts=True)
    verbs = "depends on", "is depended on"
    told = Lookups(WEIGHTS[:1, :1, :1], SOURCE, ("class",), kind="gradient", layers=("gradient",), verbs=verbs)
    parted = Lookups(
        WEIGHTS[..., :6], SOURCE[:6], TARGET, kind="parted", alternatives={"weights": AlternativeMap(WEIGHTS[..., :6])}
    )
    found = with_maps(first, norms, told, parted)
    np.testing.assert_array_equal(found.weights, first.weights)
    assert (found.name, found.kind) == ("run", "weights")
    assert list(found.alternatives) == ["owed", "norms", "gradient", "parted"]
    assert {name: (each.source, each.target) for name, each in found.alternatives.items()} == {
        "owed": (None, None),
        "norms": (None, None),
        "gradient": (None, ("class",)),
        "parted": (SOURCE[:6], None),
    }
    assert [found.alternatives[name].amounts for name in ("norms", "gradient")] == [True, False]
    assert found.alternatives["gradient"].layers == ("gradient",)
    assert {name: each.verbs for name, each in found.alternatives.items() if each.verbs} == {"gradient": verbs}
    np.testing.assert_array_equal(found.alternatives["norms"].weights, norms.weights)


@pytest.mark.parametrize(
    ("given", "said"),
    [({"weights": WEIGHTS[0]}, r"weights have shape \(3, 5, 7\)"), ({"weights": WEIGHTS * np.inf}, "finite")],
)
def test_another_map_is_checked_too(given: dict, said: str):
    with pytest.raises(ValueError, match=said):
        AlternativeMap(**given)


def test_patches_have_labels():
    patches = ImagePatches(np.zeros((2, 2, 3), np.uint8), 2, 2)
    assert patch_labels(patches.rows, patches.columns)[1:3] == ("row 1, column 2", "row 2, column 1")


RANDOM = default_rng(3)
QUERY, KEY = RANDOM.normal(size=(2, 3, 5, 11)), RANDOM.normal(size=(2, 3, 7, 11))
ENERGY, VALUE = RANDOM.normal(size=(2, 3, 11)), RANDOM.normal(size=(2, 3, 7, 2))


def softmax(scores: np.ndarray, allowed: np.ndarray) -> np.ndarray:
    shares = np.exp(scores) * allowed
    total = shares.sum(-1, keepdims=True)
    return np.divide(shares, total, out=np.zeros_like(shares), where=total > 0)


@pytest.mark.parametrize("energy", [None, ENERGY])
def test_a_score_is_its_sum_one_by_one(energy: np.ndarray | None):
    found = Breakdown(value=VALUE, query=QUERY, key=KEY, scale=0.5, energy=energy).scores()
    assert found.shape == (2, 3, 5, 7)
    for layer, head, target, source in ((0, 0, 0, 0), (1, 2, 4, 6), (0, 1, 3, 2)):
        q, k = QUERY[layer, head, target], KEY[layer, head, source]
        if energy is None:
            expected = math.fsum(a * b for a, b in zip(q, k, strict=True))
        else:
            expected = math.fsum(v * math.tanh(a + b) for v, a, b in zip(energy[layer, head], q, k, strict=True))
        assert found[layer, head, target, source] == pytest.approx(0.5 * expected, abs=1e-12)


@pytest.mark.parametrize(
    "breakdown",
    [
        Breakdown(value=VALUE, query=QUERY, key=KEY),
        Breakdown(value=VALUE, query=QUERY, key=KEY, energy=ENERGY),
        Breakdown(value=VALUE, plain=RANDOM.normal(size=(2, 3, 5, 7))),
    ],
)
def test_parts_and_places_behind(breakdown: Breakdown):
    rows = breakdown.select_rows(slice(1, 4))
    np.testing.assert_allclose(rows.scores(), breakdown.scores()[:, :, 1:4], atol=1e-12)
    more = replace(breakdown, allowed=np.tri(5, 7) > 0).pad_sources(2)
    assert (more.scores().shape, more.value.shape) == ((2, 3, 5, 9), (2, 3, 9, 2))
    np.testing.assert_allclose(more.scores()[..., :7], breakdown.scores(), atol=1e-12)
    np.testing.assert_array_equal(more.allowed, np.pad(np.tri(5, 7) > 0, [(0, 0), (0, 2)]))
    assert breakdown.pad_sources(2).allowed is not None


def test_no_rows_have_no_scores():
    assert Breakdown(value=VALUE, query=QUERY[:, :, :0], key=KEY, energy=ENERGY).scores().shape == (2, 3, 0, 7)


def test_what_a_softmax_is():
    scores = Breakdown(value=VALUE, query=QUERY, key=KEY).scores()
    allowed = np.tri(5, 7, -1) > 0  # the first query may read nothing
    weights = softmax(scores, allowed)
    assert not weights[:, :, 0].any()
    assert is_softmax(scores, allowed, weights)
    assert not is_softmax(scores, np.ones((5, 7), bool), weights)
    assert not is_softmax(2 * scores, allowed, weights)
    assert not is_softmax(scores, allowed, weights**2)


def test_rows_of_lookups_keep_their_breakdown():
    breakdown = Breakdown(value=VALUE, query=QUERY, key=KEY, energy=ENERGY, allowed=np.tri(5, 7) > 0)
    weights = softmax(breakdown.scores(), np.tri(5, 7) > 0)
    lookups = Lookups(weights, tuple("abcdefg"), tuple("vwxyz"), breakdown=breakdown)
    found = select_rows(lookups, slice(2, 4), ("x", "y"))
    assert found.breakdown is not None
    assert found.breakdown.allowed is not None
    np.testing.assert_allclose(softmax(found.breakdown.scores(), found.breakdown.allowed), found.weights, atol=1e-6)


PIECES = Side(("Wirt", "schaft", "."), Words(("Wirtschaft", "."), (0, 0, 1)))
WRITTEN = Side.of(("economy", "</s>"))


def maps() -> HeadMaps:
    weights = np.random.default_rng(2).dirichlet(np.ones(3), size=(2, 3, 2))
    return HeadMaps.of(Lookups(weights, PIECES.pieces, WRITTEN.pieces, source_words=PIECES.words))


def test_names_count_as_the_maps_do():
    found = maps()
    assert found.layers == (3, 3)
    assert found.names[2:4] == ("layer 0, head 2", "layer 1, head 0")
    assert [each.shape for each in found.by_layer()] == [(3, 2, 3), (3, 2, 3)]
    assert not found.is_self_attention


def test_some_maps_and_their_mean():
    found = maps()
    some = found.select([4, 0])
    assert (some.names, some.layers) == (("layer 1, head 1", "layer 0, head 0"), (2,))
    np.testing.assert_array_equal(some.weights, found.weights[[4, 0]])
    np.testing.assert_allclose(found.mean([4, 0]).weights, found.weights[[4, 0]].mean(0))
    for ask in (found.select, found.mean):
        with pytest.raises(InputError, match="map 6 is not there; the model has 6, from 0 to 5"):
            ask([6])


def test_between_words():
    found = maps().between_words()
    assert (found.source.pieces, found.target.pieces) == (("Wirtschaft", "."), ("economy", "</s>"))
    np.testing.assert_allclose(found.weights[:, :, 0], maps().weights[:, :, :2].sum(-1))
    np.testing.assert_allclose(found.between_words().weights, found.weights)


def test_a_part():
    found = maps().part(slice(1, 3), slice(0, 1))
    assert (found.source, found.target) == (Side.of(("schaft", ".")), Side.of(("economy",)))
    np.testing.assert_array_equal(found.weights, maps().weights[:, :1, 1:])


def test_pieces_before_the_first():
    assert PIECES.prepend("(vocabulary)", 1).words == (("(vocabulary)", "Wirtschaft", "."), (0, 1, 1, 2))
    assert PIECES.prepend("x", 0) == PIECES
