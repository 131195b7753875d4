"""A trained ELMo: `load(folder).embed_words(texts)` and `load(folder).embed(texts)`."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from regard.data.char_words import SpelledTexts, spell_vocabulary, stacked, words_of
from regard.data.memory import Records
from regard.data.texts import with_column
from regard.errors import InputError
from regard.models.elmo import Elmo, StacksState
from regard.models.elmo_embedding import ElmoEmbedding, continued_states, word_states
from regard.nonfinite import guarded
from regard.shapes import Float
from regard.storage.run_folder import RunDirectory
from regard.tasks.bidirectional_language_model.config import (
    BidirectionalLanguageModelling,
)
from regard.tasks.bidirectional_language_model.training import figures
from regard.tasks.evaluation import for_evaluation
from regard.tasks.options import EvaluationOptions
from regard.tasks.prediction import Prediction
from regard.tasks.run import Run, refuse_one, text_warnings
from regard.tasks.tokenizer_file import TOKENIZER
from regard.text import Tokenizer
from regard.text.spelling import spell
from regard.work import checkpoint

ROWS = 16
"""Texts in one batch of inference."""


@dataclass(frozen=True, eq=False)
class Words:
    """The words of a text, and the states of each in all layers, `(layer, word, width)`, h_0 first."""

    words: Sequence[str]
    states: Float[Tensor, "layer word width"]

    def vectors(self, layer: int | None = None) -> Float[Tensor, "word width"]:
        """A vector a word: the mean of its layers, or one layer's."""
        return self.states.mean(0) if layer is None else self.states[layer]

    def to_json(self) -> list[dict[str, Any]]:
        """Plain values for JSON: each word with the mean of its layers."""
        pairs = zip(self.words, self.vectors().tolist(), strict=True)
        return [{"word": word, "vector": vector} for word, vector in pairs]


class ElmoRun(Run[str, Prediction]):
    """A trained model with its tokenizer and its run file. It embeds texts and words, and predicts nothing."""

    config: BidirectionalLanguageModelling
    model: Elmo
    supports = {"evaluate": frozenset({"files", "columns"})}

    def __init__(
        self, config: BidirectionalLanguageModelling, model: Elmo, tokenizer: Tokenizer
    ):
        self.config, self.model, self.tokenizer = config, model, tokenizer

    @classmethod
    def open(
        cls, run: RunDirectory, config: BidirectionalLanguageModelling
    ) -> "ElmoRun":
        """The run in a folder, its model with fresh weights. Raises InputError for a damaged tokenizer."""
        tokenizer = Tokenizer.load(run.file(TOKENIZER))
        return cls(config, Elmo(tokenizer.size, config.model), tokenizer)

    def warnings(self, text: str) -> list[str]:
        return (
            [] if text.strip() else text_warnings(self.tokenizer, {"text": text})
        )  # words are read by characters

    def parse(self, line: str, place: str = "text 1") -> str:
        return line

    def read(
        self, files: Sequence[Path | Records], options: EvaluationOptions
    ) -> list[str]:
        data = with_column(self.config.data, options.columns)
        return [each for file in files for each in data.read(str(file))]

    def _evaluate(
        self, examples: Sequence[str] | None, options: EvaluationOptions
    ) -> dict[str, float]:
        """The perplexity of texts in both directions.

        Raises:
            InputError: there are neither texts nor a test set, or the model was published without predictions.
        """
        if self.model.output is None:
            raise InputError(
                "this model predicts no words: it was published without that part; use `regard embed`"
            )
        texts = for_evaluation(examples, self.config.data, "give a file of text")
        spelled = SpelledTexts(
            self.tokenizer, texts, self.config.model.characters, self.config.window
        )
        with guarded(self.model):
            return figures(self.model, spelled, self.config.training.batch_tokens)

    def convention(self) -> str:
        return (
            "perplexity counts every word, forwards the end of every text and backwards its beginning; texts are read "
            f"in parts of at most {self.config.window} words, each by itself"
        )

    def embed_words(self, texts: Sequence[str]) -> list[Words]:
        """The words of each text with their states; a text is read as a whole, however long it is.

        Raises:
            TypeError: `texts` is one text; put it in a list.
        """
        refuse_one(texts, "texts")
        cut = [words_of(self.tokenizer, text) for text in texts]
        return [
            Words(words, states)
            for words, states in zip(cut, self._states(cut), strict=True)
        ]

    def continue_words(
        self, texts: Sequence[str], state: StacksState | None = None
    ) -> tuple[list[Words], StacksState]:
        """The words of one batch of texts, read after the `state` of earlier batches, and the state after them: text i
        goes on where text i of the batch before ended, as the released model reads. None is an empty state.

        Raises:
            TypeError: `texts` is one text; put it in a list.
        """
        refuse_one(texts, "texts")
        cut = [words_of(self.tokenizer, text) for text in texts]
        with guarded(self.model):
            states, after = continued_states(self.model, *self._spelled(cut), state)
        return [
            Words(words, states[:, row, : len(words)].cpu())
            for row, words in enumerate(cut)
        ], after

    def layers(
        self, text: str
    ) -> tuple[Sequence[str], Float[Tensor, "layer word width"]]:
        """The words of a text, and the states of each, `(layer, word, width)`, the static embedding first."""
        (found,) = self.embed_words([text])
        return found.words, found.states

    def embed(
        self, texts: Sequence[str], *, pool: Literal["mean", "first"] = "mean"
    ) -> Float[Tensor, "text width"]:
        """A vector for each text, `(text, width)`: the mean over its words of the mean of their layers, zeros where
        there is no word.

        Raises:
            TypeError: `texts` is one text; put it in a list.
            InputError: another pool than the mean.
        """
        if pool != "mean":
            raise InputError(
                "the pool is first, for models whose first state is a mark; ELMo's vectors are of words"
            )
        found = [torch.zeros(0, self.model.width)]
        for each in self.embed_words(texts):
            vectors = each.vectors()
            found.append(vectors.sum(0, keepdim=True) / max(1, len(vectors)))
        return torch.cat(found)

    def embedding(
        self, tokenizer: Tokenizer | None = None, dropout: float = 0.0
    ) -> ElmoEmbedding:
        """The model in place of another's token embedding, for the words of a vocabulary, by default its own."""
        spelled = spell_vocabulary(
            tokenizer or self.tokenizer, self.config.model.characters
        )
        return ElmoEmbedding(self.model, spelled, dropout)

    def _states(self, texts: Sequence[Sequence[str]]) -> Iterator[Tensor]:
        """The states of each text's words, `(layer, word, width)`."""
        for first in range(0, len(texts), ROWS):
            checkpoint()
            rows = texts[first : first + ROWS]
            with guarded(self.model):
                states = word_states(self.model, *self._spelled(rows))
            yield from (
                states[:, row, : len(words)].cpu() for row, words in enumerate(rows)
            )

    def _spelled(self, texts: Sequence[Sequence[str]]) -> tuple[Tensor, Tensor]:
        """The characters of each text's words, and the number of its words."""
        device, size = (
            next(self.model.parameters()).device,
            self.config.model.characters,
        )
        spelled = [[spell(word, size) for word in words] for words in texts]
        return stacked(spelled, size).to(device), torch.tensor(
            list(map(len, texts)), device=device
        )
