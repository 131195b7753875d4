"""Words predicted from the words before and behind them: ELMo (Peters 2018)."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor

from regard.data.batches import (
    SpelledBatch,
    SpelledTexts,
    stack_words,
    words_of,
)
from regard.data.texts import RunningText
from regard.errors import InputError
from regard.metrics import Metrics, perplexity
from regard.models.elmo import Elmo, ElmoConfig, word_states
from regard.models.language_model import check_smoothing
from regard.models.sizes import Size
from regard.shapes import Float
from regard.storage.run_folder import RunDirectory
from regard.tasks.base import (
    TOKENIZER,
    Setup,
    TextRun,
    TextsObjective,
    digest_splits,
    load_or_train,
    setup_task,
)
from regard.tasks.options import EvaluationOptions, Json, Prediction
from regard.tasks.run import Task, refuse_one, refuse_teacher_forcing
from regard.tasks.summary import summarize_text
from regard.text import Tokenizer, TokenizerSettings
from regard.text.kinds import IGNORED, WHOLE_WORDS
from regard.text.words import spell
from regard.training.objectives import Carried, Loss
from regard.training.settings import Training
from regard.work import check_output, checkpoint, compute_batches


@dataclass(frozen=True, kw_only=True)
class BidirectionalLanguageModelling:
    """A run file."""

    task: Literal["bidirectional-language-model"] = "bidirectional-language-model"
    data: RunningText
    tokenizer: TokenizerSettings
    """It defines the words and the vocabulary of the output; the input is characters."""
    model: ElmoConfig
    window: Size = 100
    """Words of a part; training cuts longer texts into parts, each read by itself."""
    training: Training = field(default_factory=Training)

    def __post_init__(self) -> None:
        if self.tokenizer.kind not in WHOLE_WORDS:
            raise ValueError(
                f"tokenizer.kind is {self.tokenizer.kind}; ELMo reads words, expected "
                f"{' or '.join(WHOLE_WORDS)}"
            )
        if self.training.batch_tokens <= self.window:
            raise ValueError(
                f"training.batch_tokens is {self.training.batch_tokens}, too few for a "
                f"window of {self.window} words and a mark; raise it or shorten the window"
            )
        check_smoothing(self.model.softmax, self.training.label_smoothing)
        refuse_teacher_forcing(self.training)


Losses = tuple[Float[Tensor, ""], Float[Tensor, "batch position"]]


def compute_losses(
    model: Elmo, batch: SpelledBatch, smoothing: float = 0.0
) -> tuple[Losses, Losses]:
    """Return the losses of words given those before, and those behind (`Output.loss`)."""
    assert model.output is not None
    ahead, back = model.features(batch.characters, batch.lengths)
    after = batch.tokens[:, 1:]
    before = batch.tokens[:, :-1].where(after != IGNORED, IGNORED)
    return (
        model.output.loss(ahead, after, smoothing),
        model.output.loss(back, before, smoothing),
    )


def count_words(batch: SpelledBatch) -> int:
    """Return the number of words that each direction predicts."""
    return int((batch.tokens[:, 1:] != IGNORED).sum())


@torch.no_grad()
def compute_metrics(model: Elmo, texts: SpelledTexts, tokens: int) -> Metrics:
    """Return the perplexity of words and ends of texts.

    Returns:
        forward-perplexity: given the words before.
        backward-perplexity: given the words behind; it counts the beginnings of texts.
        perplexity: of the mean loss of both.
    """
    device = next(model.parameters()).device

    def measure(examples: list[int]) -> tuple[int, float, float]:
        batch = texts.batch(0, examples).to(device)
        (ahead, _), (back, _) = compute_losses(model, batch)
        return count_words(batch), float(ahead), float(back)

    results = compute_batches(measure, texts.batches(tokens, 0, 0))
    count, forward, backward = map(sum, zip(*results, strict=True))
    return {
        "perplexity": perplexity((forward + backward) / (2 * count)),
        "forward-perplexity": perplexity(forward / count),
        "backward-perplexity": perplexity(backward / count),
    }


class BidirectionalObjective(TextsObjective[SpelledBatch]):
    """Maximum likelihood of each word given the words before it, and those behind it."""

    metric = "perplexity"
    higher_is_better = False
    measure = staticmethod(compute_metrics)

    def loss(
        self,
        model: Any,
        batch: SpelledBatch,
        update: int,
        carried: Carried | None = None,
    ) -> Loss:
        smoothing = self.settings.label_smoothing
        (forward, _), (backward, _) = compute_losses(model, batch, smoothing)
        words = count_words(batch)
        return Loss(forward + backward, 2 * words, read=words)


def setup(
    config: BidirectionalLanguageModelling, folder: RunDirectory, processes: int
) -> Setup:
    """Read the text and build tokenizer, model and objective.

    Raises:
        InputError: The text or the model is invalid.
    """
    if not config.model.predictions:
        raise InputError(
            "model.predictions is false, so this model predicts no words and cannot be "
            "trained"
        )
    splits = config.data.load()
    tokenizer = load_or_train(folder, config.tokenizer, splits.train)
    train, valid = (
        SpelledTexts(tokenizer, texts, config.model.characters, config.window)
        for texts in (splits.train, splits.valid)
    )
    return setup_task(
        Elmo(tokenizer.size, config.model),
        BidirectionalObjective(train, valid, config.training),
        splits,
        digest_splits(splits, "{}\n".format),
        summarize_text(config.data, splits, tokenizer),
        details=[f"a vocabulary of {tokenizer.size:,}"],
        tokenizers={TOKENIZER: tokenizer},
    )


ROWS = 16
"""Texts in one batch of inference."""


@dataclass(frozen=True, eq=False)
class WordStates:
    """The words of a text, and the states of each in all layers, h_0 first."""

    words: Sequence[str]
    states: Float[Tensor, "layer word width"]

    def vectors(self) -> Float[Tensor, "word width"]:
        """Return a vector for each word: the mean of its layers."""
        return self.states.mean(0)

    def to_json(self) -> list[Json]:
        """Return each word with its vector, for JSON."""
        pairs = zip(self.words, self.vectors().tolist(), strict=True)
        return [{"word": word, "vector": vector} for word, vector in pairs]


class ElmoRun(TextRun[Prediction]):
    """A trained model with its tokenizer and its run file.

    It embeds texts and words, and predicts nothing.
    """

    config: BidirectionalLanguageModelling
    model: Elmo
    supports = {"evaluate": ("files", "columns")}
    data_hint = "give a file of text"

    @staticmethod
    def build(config: BidirectionalLanguageModelling, tokenizer: Tokenizer) -> Elmo:
        return Elmo(tokenizer.size, config.model)

    def warnings(self, text: str) -> list[str]:
        # unknown words are read by their characters
        return [] if text.strip() else super().warnings(text)

    def compute_metrics(
        self, examples: Sequence[str], options: EvaluationOptions
    ) -> Metrics:
        """Return the perplexity of texts in both directions.

        Raises:
            InputError: The model was published without predictions.
        """
        if self.model.output is None:
            raise InputError(
                "this model predicts no words: it was published without that part; use "
                "`regard embed`"
            )
        characters = self.config.model.characters
        texts = SpelledTexts(self.tokenizer, examples, characters, self.config.window)
        return compute_metrics(self.model, texts, self.config.training.batch_tokens)

    def convention(self) -> str:
        return (
            "perplexity counts every word, forwards the end of every text and backwards "
            f"its beginning; texts are read in parts of at most {self.config.window} words, "
            "each by itself"
        )

    def embed_words(self, texts: Sequence[str]) -> list[WordStates]:
        """Return the words of each text with their states.

        A text is read as a whole, however long it is.

        Raises:
            TypeError: `texts` is one text; put it in a list.
        """
        refuse_one(texts, "texts")
        size = self.config.model.characters
        results = []
        for first in range(0, len(texts), ROWS):
            checkpoint()
            rows = [
                words_of(self.tokenizer, text) for text in texts[first : first + ROWS]
            ]
            spelled = [[spell(word, size) for word in words] for words in rows]
            characters = stack_words(spelled, size).to(self.device)
            lengths = torch.tensor(list(map(len, rows)), device=self.device)
            with check_output(self.model):
                states = word_states(self.model, characters, lengths)
            for row, words in enumerate(rows):
                results.append(WordStates(words, states[:, row, : len(words)].cpu()))
        return results

    def layers(
        self, text: str
    ) -> tuple[Sequence[str], Float[Tensor, "layer word width"]]:
        """Return the words of a text and their states, the static embedding first."""
        (result,) = self.embed_words([text])
        return result.words, result.states

    def embed(
        self, texts: Sequence[str], *, pool: Literal["mean", "first"] = "mean"
    ) -> Float[Tensor, "text width"]:
        """Return a vector for each text: the mean of its words, zeros without any.

        Raises:
            TypeError: `texts` is one text; put it in a list.
            InputError: Another pool than the mean.
        """
        if pool != "mean":
            raise InputError(
                "the pool is first, for models whose first state is a mark; ELMo's vectors "
                "are of words"
            )
        vectors = [torch.zeros(0, self.model.width)]
        for words in self.embed_words(texts):
            total = words.vectors().sum(0, keepdim=True)
            vectors.append(total / max(1, len(words.words)))
        return torch.cat(vectors)


TASK = Task(
    BidirectionalLanguageModelling,
    setup,
    ElmoRun,
    command="regard embed {} TEXT --words",
)
