"""Language models: how a text goes on."""

from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Literal

from pydantic import Field

from regard.serve.operation import Operation, Said, Served, Wanted, at_once
from regard.serve.writing import Drawn, Tokens, Width, written
from regard.tasks.language_model.run import LanguageModelRun
from regard.text.special import END

Count = Annotated[int, Field(ge=1, le=2000)]


class Going(Drawn):
    """How a text goes on by at most so many `tokens`; `beyond` says what happens where it outgrows the model's
    context."""

    text: str
    tokens: Count = 100
    beyond: Literal["stop", "slide"] = "stop"


class Stream(Going):
    """How a text goes on, token by token; what follows begins with these tokens."""

    prefix_tokens: Tokens = ()


class Predict(Going):
    """How a text goes on, as a whole."""

    beam: Width | None = None
    n_best: Width = 1


def language(name: str, run: LanguageModelRun) -> Served:
    """A run of this kind, to be served."""

    def predict(asks: Sequence[Predict]) -> list[dict[str, Any]]:
        (ask,) = asks
        own = run.config.search
        search = own.searching(ask.beam) if ask.beam is not None else ask.search(own)
        (found,) = run.generate([ask.text], tokens=ask.tokens, search=search, n_best=ask.n_best, beyond=ask.beyond)
        first, *others = [each.to_json() for each in found]
        return [first | {"alternatives": others}]

    def stream(asks: Sequence[Stream], wanted: Wanted) -> Iterator[Said]:
        one = asks[0]
        grown = run.write(
            [ask.text for ask in asks],
            tokens=one.tokens,
            search=one.search(run.config.search),
            beyond=one.beyond,
            prefixes=[ask.prefix_tokens for ask in asks],
            candidates=one.candidates,
            wanted=wanted,
        )
        sources = [run.tokenizer.pieces([END, *run.tokenizer.encode(ask.text)]) for ask in asks]
        return written(grown, sources, [len(ask.prefix_tokens) for ask in asks], one.tokens)

    operations = {
        "predict": Operation(Predict, at_once(predict)),
        "stream": Operation(Stream, stream, lambda ask: (ask.together(), ask.tokens, ask.beyond), streams=True),
    }
    about = {"kind": "prompt", "task": "language-model", "model": run.config.model.name}
    about |= {"temperature": run.config.search.temperature}
    return Served(name, about, operations)
