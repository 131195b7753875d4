"""How a text goes on."""

from dataclasses import dataclass
from typing import Any

from regard.decoding.hypothesis import Hypothesis
from regard.text import Tokenizer
from regard.text.special import END


@dataclass(frozen=True)
class Continuation:
    """A prompt and what follows it, with the `tokens` of what follows as readable pieces, END among them if the text
    `finished` by itself. `score` is a log-probability, divided by the length penalty if the search has one."""

    prompt: str
    text: str
    score: float
    finished: bool
    tokens: tuple[str, ...]

    @classmethod
    def of(cls, prompt: str, found: Hypothesis, forced: int, tokenizer: Tokenizer) -> "Continuation":
        """From what a search found, whose first `forced` tokens belong to the prompt."""
        new = found.tokens[forced:]
        whole = tokenizer.decode([*tokenizer.encode(prompt), *new])
        begun = tokenizer.decode(tokenizer.encode(prompt))
        text = whole.removeprefix(begun) if whole.startswith(begun) else tokenizer.decode(new)
        ends = (END,) if found.finished else ()
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
