"""Searches as a whole beside searches in steps."""

from collections.abc import Callable

import pytest
import torch

from regard.attention.memory import Memory
from regard.decoding import beam, sampling
from regard.decoding.hypothesis import Hypothesis
from regard.decoding.whole_search import whole_search
from regard.nn.encoder_decoder import EncoderDecoder

Found = list[list[Hypothesis]]
Both = Callable[..., tuple[Found, Found]]


def in_both_ways(monkeypatch: pytest.MonkeyPatch) -> Both:
    """The results of a search as a whole, which must serve, and in steps."""

    def call(search: Callable[..., Found], made: EncoderDecoder, source: Memory, **settings) -> tuple[Found, Found]:
        served: list[bool] = []

        def whole(*arguments, **more):
            found = whole_search(*arguments, **more)
            served.append(found is not None)
            return found

        results = []
        for function in (whole, lambda *_, **__: None):
            for module in (beam, sampling):
                monkeypatch.setattr(module, "whole_search", function)
            results.append(search(made.decoder, source, **settings))
        assert served == [True]
        return results[0], results[1]

    return call


def check(found: Found, expected: Found) -> None:
    """The texts are equal, and the scores but for the last digits."""

    def texts(rows: Found) -> list[list[tuple[tuple[int, ...], bool]]]:
        return [[(each.tokens, each.finished) for each in row] for row in rows]

    assert texts(found) == texts(expected)
    scores = [torch.tensor([each.score for row in rows for each in row]) for rows in (found, expected)]
    torch.testing.assert_close(scores[0], scores[1], rtol=1e-5, atol=1e-4)
