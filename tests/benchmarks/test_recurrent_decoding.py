"""The benchmark of recurrent models that write, with models of few numbers."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch

from benchmarks import recurrent_decoding
from regard.decoding import Beam
from regard.nn.decoders.protocol import Decoder


@pytest.mark.parametrize("system", [each for each in recurrent_decoding.SYSTEMS if each.startswith("regard")])
def test_every_text_has_all_tokens(system: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(recurrent_decoding, "VOCABULARY", 17)
    for own, (name, sizes) in recurrent_decoding.OURS.items():
        small = {key: 8 if key in ("embedding", "width", "encoder_width") else size for key, size in sizes.items()}
        monkeypatch.setitem(recurrent_decoding.OURS, own, (name, small))
    texts: list[int] = []

    class Counting(Beam):
        def __call__(self, decoder: Decoder, *arguments: Any, **more: Any) -> Any:
            found = super().__call__(decoder, *arguments, **more)
            texts.extend(len(best.tokens) for best, *_ in found)
            return found

    monkeypatch.setattr(recurrent_decoding, "Beam", Counting)
    recurrent_decoding.SYSTEMS[system]()([[5, 7, 11], [5]], 3)
    assert texts == [recurrent_decoding.TOKENS] * 2


def test_sources_are_enough():
    sources = recurrent_decoding.sources()
    torch.testing.assert_close(sources, recurrent_decoding.sources())
    assert len(sources) == 64
    assert {len(each) for each in sources} <= {*range(recurrent_decoding.SHORTEST, recurrent_decoding.LONGEST + 1)}


def test_aims_are_costs_of_a_sentence(monkeypatch: pytest.MonkeyPatch):
    class Answering:
        def __init__(self, system: str):
            self.system = system

        def seconds(self, batch: int, width: int) -> float:
            return max(batch, recurrent_decoding.SENTENCES) * (0.01 if self.system == "regard, Luong GRU" else 0.02)

    @contextmanager
    def workers(systems: list[str], sources: list[list[int]], module: str) -> Iterator[list[Answering]]:
        assert module == recurrent_decoding.__name__
        yield [Answering(system) for system in systems]

    monkeypatch.setattr(recurrent_decoding, "workers", workers)
    found = recurrent_decoding.aims()
    assert [aim.met for aim in found] == [True, False, False, False, False, False] * 4
    assert found[0].ours == pytest.approx(10.0)
    assert found[0].what == "decoding, Luong GRU, 1 sentences, beam 1"
