"""Language models: how a text goes on."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Annotated, Any, Literal

from pydantic import Field

from regard.attribution.available import kinds_within
from regard.attribution.kinds import Kind
from regard.decoding.constraints import writable
from regard.errors import InputError
from regard.maps.lookups import Lookups
from regard.pictures.payload import payload
from regard.pictures.write import LABELS
from regard.serve.legacy import Drawn, Looked, Streamed, Width, viewed
from regard.serve.operation import Active, Operation, ResponsePart, ServedRun, at_once
from regard.tasks.language_model.run import LanguageModelRun

Count = Annotated[int, Field(ge=1, le=2000)]


class Stream(Streamed):
    """How a text goes on by at most so many `tokens`, one by one; `beyond` says what happens where it outgrows the
    model's context."""

    text: str
    tokens: Count = 100
    beyond: Literal["stop", "slide"] = "stop"


class Predict(Drawn):
    """The same as a whole."""

    text: str
    tokens: Count = 100
    beyond: Literal["stop", "slide"] = "stop"
    beam: Width | None = None
    n_best: Width = 1


def language(name: str, run: LanguageModelRun) -> ServedRun:
    """A run of this kind, to be served."""
    kinds = kinds_within(run.model, run.model.self_attention)
    stream, apart = partial(_stream, run, kinds), lambda ask: (ask.together(), ask.tokens, ask.beyond)
    operations = {
        "predict": Operation(Predict, at_once(partial(_predict, run))),
        "stream": Operation(Stream, stream, apart, streams=True),
    }
    if run.model.self_attention is not None:
        operations["attention"] = Operation(Looked, at_once(partial(_attention, run)))
    about = {
        "kind": "prompt",
        "task": "language-model",
        "model": run.config.model.name,
        "kinds": kinds,
        "end": run.tokenizer.special.end,
    }
    about |= {"temperature": run.config.search.temperature, "end": run.tokenizer.special.end}
    return ServedRun(name, about, operations)


def _predict(run: LanguageModelRun, asks: Sequence[Predict]) -> list[dict[str, Any]]:
    (ask,) = asks
    names = ("temperature", "top_k", "top_p", "seed") if ask.beam is None and ask.temperature is not None else ()
    search = {name: getattr(ask, name) for name in names} or {"beam": ask.beam or 1}
    (prediction,) = run.predict([ask.text], tokens=ask.tokens, n_best=ask.n_best, beyond=ask.beyond, **search)
    return [prediction.to_json()]


def _stream(
    run: LanguageModelRun, kinds: Sequence[Kind], asks: Sequence[Stream], wanted: Active
) -> Iterator[ResponsePart]:
    one, prefixes = asks[0], [ask.begun(partial(writable, run.tokenizer)) for ask in asks]
    grown = run.write(
        [ask.text for ask in asks],
        tokens=one.tokens,
        search=one.search(run.config.search),
        beyond=one.beyond,
        prefixes=prefixes,
        candidates=one.candidates,
        wanted=wanted,
    )

    def seen(number: int, tokens: Sequence[int], asked: Sequence[Kind]) -> Lookups:
        _check_size(1 + len(run.tokenizer.encode(asks[number].text)) + len(tokens))
        return run.attribute(asks[number].text, target_tokens=tokens, kinds=asked).lookups[0]

    return viewed(grown, asks, kinds, seen)


def _attention(run: LanguageModelRun, asks: Sequence[Looked]) -> list[dict[str, Any]]:
    (ask,) = asks
    _check_size(1 + ask.finished + sum(len(run.tokenizer.encode(text)) for text in (ask.text, ask.target)))
    return [payload(run.attribute(ask.text, target=ask.target, kinds=ask.kinds, finished=ask.finished).lookups)]


def _check_size(tokens: int) -> None:
    """Raises InputError for more than are seen at once."""
    if tokens > LABELS:
        raise InputError(f"the text has {tokens} tokens; at most {LABELS} are seen at once")
