import numpy as np
import pytest

from regard.errors import InputError
from regard.maps.alignment import Words
from regard.maps.heads import HeadMaps, Side
from regard.maps.lookups import Lookups

SOURCE = Side(("Wirt", "schaft", "."), Words(("Wirtschaft", "."), (0, 0, 1)))
TARGET = Side.of(("economy", "</s>"))


def maps() -> HeadMaps:
    weights = np.random.default_rng(2).dirichlet(np.ones(3), size=(2, 3, 2))
    return HeadMaps.of(Lookups(weights, SOURCE.pieces, TARGET.pieces, source_words=SOURCE.words))


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
    assert SOURCE.prepend("(vocabulary)", 1).words == (("(vocabulary)", "Wirtschaft", "."), (0, 1, 1, 2))
    assert SOURCE.prepend("x", 0) == SOURCE
