"""How a text goes on."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from regard.attention.memory import Memory
from regard.decoding.continuation import Prompted
from regard.decoding.hypothesis import Hypothesis
from regard.text import Tokenizer


@dataclass(frozen=True, eq=False)
class Begun:
    """Prompts for a search: the decoder that has them before it, as many empty sources, the most tokens of each, how
    many tokens of each are `read` at first, and the tokens that are left to be forced."""

    decoder: Prompted
    nothing: Memory
    limit: Tensor
    read: int
    rest: tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Continuation:
    """A prompt and what follows it, with the `tokens` of what follows as readable pieces, the end among them if the
    text `finished` by itself. `score` is a log-probability, divided by the length penalty if the search has one."""

    prompt: str
    text: str
    score: float
    finished: bool
    tokens: tuple[str, ...]

    @classmethod
    def of(cls, prompt: str, found: Hypothesis, forced: int, tokenizer: Tokenizer) -> "Continuation":
        """From what a search found, whose first `forced` tokens belong to the prompt."""
        new = found.tokens[forced:]
        ends = (tokenizer.special.end,) if found.finished else ()
        text = behind(prompt, new, tokenizer)
        return cls(prompt, text, found.score, found.finished, tuple(tokenizer.pieces((*new, *ends))))

    def to_json(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "prompt": self.prompt,
            "text": self.text,
            "score": self.score,
            "finished": self.finished,
            "tokens": list(self.tokens),
        }


def behind(prompt: str, tokens: Sequence[int], tokenizer: Tokenizer) -> str:
    """The text of tokens that follow a prompt, with the blank that is between them if there is one."""
    begun = tokenizer.encode(prompt)
    whole, before = tokenizer.decode([*begun, *tokens]), tokenizer.decode(begun)
    return whole.removeprefix(before) if whole.startswith(before) else tokenizer.decode(tokens)
