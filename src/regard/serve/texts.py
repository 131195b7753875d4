"""Runs that make texts of texts: whole outputs, outputs as they are written, and given ones."""

from collections.abc import Hashable, Iterator, Sequence
from functools import partial
from typing import Any

from regard.attribution.available import kinds_of
from regard.data.pair import Pair
from regard.decoding.constraints import encode_constraints
from regard.maps.links import strongest
from regard.pictures.payload import payload
from regard.serve.legacy import Looked, Streamed, Width, viewed
from regard.serve.operation import Active, Operation, ResponsePart, ServedRun, at_once
from regard.serve.request import RequestBody
from regard.tasks.seq2seq.run import Seq2SeqRun


class Predict(RequestBody):
    """The best outputs for a text, by the run's own search or one with this beam."""

    text: str
    beam: Width | None = None
    n_best: Width = 1
    prefix: str = ""
    phrases: tuple[str, ...] = ()
    attention: bool = True

    def together(self) -> Hashable:
        """All but the text."""
        return self.beam, self.n_best, self.prefix, self.phrases, self.attention


class Stream(Streamed):
    """The output for a text, token by token."""

    text: str


class Given(RequestBody):
    """A text, and the target that the model is made to write."""

    text: str
    target: str


def texts(name: str, run: Seq2SeqRun) -> ServedRun:
    """A run of this kind, to be served."""
    operations = {
        "predict": Operation(Predict, at_once(partial(_predict, run)), Predict.together),
        "stream": Operation(Stream, partial(_stream, run), Stream.together, streams=True),
    }
    if run.model.decoder.source_attention is not None:
        operations["align"] = Operation(Given, at_once(partial(_align, run)), lambda ask: None)
        operations["attention"] = Operation(Looked, at_once(partial(_attention, run)))
    about = {
        "kind": "text",
        "kinds": kinds_of(run.model),
        "task": "seq2seq",
        "model": run.config.model.name,
        "beam": run.config.search.beam,
    }
    return ServedRun(name, about, operations)


def _predict(run: Seq2SeqRun, asks: Sequence[Predict]) -> list[dict[str, Any]]:
    one, given = asks[0], [ask.text for ask in asks]
    wanted = {"n_best": one.n_best, "prefix": one.prefix, "phrases": one.phrases, "attention": one.attention}
    return [each.to_json() for each in run.predict(given, beam=one.beam, **wanted)]


def _stream(run: Seq2SeqRun, asks: Sequence[Stream], wanted: Active) -> Iterator[ResponsePart]:
    one, given, prefixes = asks[0], [ask.text for ask in asks], [_prefix(run, ask) for ask in asks]
    search = one.search(run.config.search)
    grown = run.write(given, search=search, prefixes=prefixes, candidates=one.candidates, wanted=wanted)
    return viewed(grown, asks, kinds_of(run.model), lambda number, *seen: run.lookups_written(given[number], *seen))


def _align(run: Seq2SeqRun, asks: Sequence[Given]) -> list[dict[str, Any]]:
    pairs = [Pair(ask.text, ask.target, f"text {number}") for number, ask in enumerate(asks, 1)]
    return [
        {
            "source": list(each.source),
            "target": list(each.target),
            "weights": each.weights.round(5).tolist(),
            "links": sorted(strongest(each.weights)),
            "log_probabilities": scores,
        }
        for each, scores in zip(run.align(pairs), run.score(pairs), strict=True)
    ]


def _attention(run: Seq2SeqRun, asks: Sequence[Looked]) -> list[dict[str, Any]]:
    pairs = [Pair(ask.text, ask.target, "the text") for ask in asks]
    found = [run.lookups_of(pair, ask.kinds, finished=ask.finished) for pair, ask in zip(pairs, asks, strict=True)]
    return [payload([each]) for each in found]


def _prefix(run: Seq2SeqRun, ask: Stream) -> Sequence[int]:
    """The tokens that the output begins with. Raises InputError for a text that the vocabulary cannot write."""
    return ask.begun(lambda prefix: encode_constraints(run.tokenizers, [ask.text], 1, prefix).prefixes[0])
