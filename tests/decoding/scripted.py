"""A decoder whose logits a test writes down: what a search does with them can be known in full."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random

import torch
from torch import Tensor

from regard.attention.memory import Memory
from regard.nn.decoders import Decoder, State
from regard.nn.layers import Output
from regard.text.kinds import END

Text = tuple[int, ...]
Script = Callable[[int, Text], list[float]]
"""Source row and the tokens written so far -> the logits of the next token."""
NO = -math.inf


@dataclass(frozen=True, eq=False)
class Written(State):
    """The source `row (batch,)` and `text (batch, length)`, START included."""

    row: Tensor
    text: Tensor


class Scripted(Decoder[Written]):
    """Looks its logits up. `rows` counts the sequences of each step."""

    def __init__(self, vocabulary: int, script: Script) -> None:
        super().__init__()
        self.output = Output(1, vocabulary)
        self.script = script
        self.rows: list[int] = []

    def start(self, memory: Memory) -> Written:
        row = memory.value[:, 0, 0].long()
        return Written(row, row.new_empty(len(row), 0))

    def advance(self, tokens: Tensor, state: Written) -> tuple[Tensor, Written]:
        text = torch.cat([state.text, tokens[:, None]], 1)
        self.rows.append(len(tokens))
        logits = [
            self.script(row, tuple(text[1:])) for row, text in zip(state.row.tolist(), text.tolist(), strict=True)
        ]
        return torch.tensor(logits), Written(state.row, text)

    def step(self, tokens: Tensor, state: Written) -> tuple[Tensor, Written]:
        return self.advance(tokens, state)


def sources(count: int) -> Memory:
    """A memory of `count` rows that hold their own number."""
    return Memory.of(torch.arange(count, dtype=torch.float32)[:, None, None])


def spell(vocabulary: int, texts: list[Text]) -> Scripted:
    """Row r writes `texts[r]`, then END, with logits that leave no doubt."""

    def script(row: int, text: Text) -> list[float]:
        wanted = (*texts[row], END)[min(len(text), len(texts[row]))]
        return [9.0 * (token == wanted) for token in range(vocabulary)]

    return Scripted(vocabulary, script)


class Language:
    """Texts over a few words, each with a probability of its own; all other tokens are impossible."""

    def __init__(self, words: Text, vocabulary: int, seed: int) -> None:
        self.words, self.vocabulary, self.seed = words, vocabulary, seed

    def script(self, row: int, text: Text) -> list[float]:
        random = Random(f"{self.seed}/{row}/{text}")
        logits = [NO] * self.vocabulary
        for token in (*self.words, END):
            logits[token] = random.gauss(0, 1.5)
        return logits

    def log_probabilities(self, row: int, text: Text) -> dict[int, float]:
        logits = {token: logit for token, logit in enumerate(self.script(row, text)) if logit > NO}
        total = math.log(sum(map(math.exp, logits.values())))
        return {token: logit - total for token, logit in logits.items()}

    def everything(
        self, row: int, limit: int, text: Text = (), score: float = 0.0
    ) -> Iterator[tuple[Text, float, bool]]:
        """Every text of at most `limit` tokens, END included: its words, log-probability, and whether it ended."""
        for token, more in self.log_probabilities(row, text).items():
            if token == END:
                yield text, score + more, True
            elif len(text) + 1 == limit:
                yield (*text, token), score + more, False
            else:
                yield from self.everything(row, limit, (*text, token), score + more)
