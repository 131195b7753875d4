from dataclasses import replace

import numpy as np
import pytest

from regard.errors import InputError
from regard.maps import Alignment, DocumentWeights
from regard.maps.alignment import Words
from regard.maps.lookups import (
    AlternativeMap,
    Lookups,
    Patches,
    lookups_from_alignment,
    lookups_from_document,
    mean_alignment,
    patch_labels,
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
    patches = Patches(np.zeros((2, 2, 3), np.uint8), 2, 2)
    assert patch_labels(patches.rows, patches.columns)[1:3] == ("row 1, column 2", "row 2, column 1")
