"""Words predicted from the words before and behind them: ELMo (Peters 2018)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Annotated, Any, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from regard.data.batches import (
    SpelledBatch,
    SpelledTexts,
    batch_rows,
    spell_vocabulary,
    stack_words,
    token_batches,
    words_of,
)
from regard.data.order import Consecutive
from regard.data.records import Records
from regard.data.texts import RunningText, with_column
from regard.errors import InputError
from regard.metrics import perplexity
from regard.models.elmo import (
    Elmo,
    ElmoConfig,
    ElmoEmbedding,
    StacksState,
    run_continuing,
    word_states,
)
from regard.models.language_model import check_smoothing
from regard.nonfinite import check_output
from regard.shapes import Float
from regard.storage.run_folder import RunDirectory
from regard.tasks.base import Setup, digest
from regard.tasks.options import EvaluationOptions
from regard.tasks.prediction import Prediction
from regard.tasks.run import Run, refuse_one, text_warnings
from regard.tasks.summary import summarize_text
from regard.tasks.task import LazyTask
from regard.tasks.tokenizers import TOKENIZER, load_or_train
from regard.text import Tokenizer, TokenizerSettings
from regard.text.kinds import WHOLE_WORDS
from regard.text.special import IGNORED
from regard.text.words import spell
from regard.training.devices import count_parameters
from regard.training.objectives import Carried, Loss
from regard.training.settings import Training
from regard.work import checkpoint, compute_batches

TASK = LazyTask(
    __name__,
    ":BidirectionalLanguageModelling",
    ":setup",
    ":ElmoRun",
    command="regard embed {} TEXT --words",
)


@dataclass(frozen=True, kw_only=True)
class BidirectionalLanguageModelling:
    """A run file.

    `tokenizer` defines the words and the vocabulary of the output; the input is their
    characters. Training cuts texts longer than `window` words into parts. `states`:
    each part is read by itself (`fresh`), or after the last state of the part before
    it, in rows of parts in the order of the text (`carried`, as the released model was
    trained).
    """

    task: Literal["bidirectional-language-model"] = "bidirectional-language-model"
    data: RunningText
    tokenizer: TokenizerSettings
    model: ElmoConfig
    window: Annotated[int, Field(ge=1)] = 100
    states: Literal["fresh", "carried"] = "fresh"
    training: Training = field(default_factory=Training)

    def __post_init__(self) -> None:
        if self.tokenizer.kind not in WHOLE_WORDS:
            raise ValueError(
                f"tokenizer.kind is {self.tokenizer.kind}; ELMo reads words, expected {' or '.join(WHOLE_WORDS)}"
            )
        if self.training.batch_tokens <= self.window:
            raise ValueError(
                f"training.batch_tokens is {self.training.batch_tokens}, too few for a window of {self.window} words "
                "and a mark; raise it or shorten the window"
            )
        check_smoothing(self.model.softmax, self.training.label_smoothing)
        if (
            self.training.teacher_forcing < 1
            or self.training.teacher_forcing_end not in (None, 1.0)
        ):
            raise ValueError(
                "training.teacher_forcing is for seq2seq; a language model reads the text alone"
            )


Losses = tuple[Float[Tensor, ""], Float[Tensor, "batch position"]]


@dataclass(frozen=True)
class Rows:
    """Parts of texts in their order, as `rows` rows for each of `processes`: a batch goes on where the batch before it
    of the same process ends. `total` is the number of parts.

    Raises:
        InputError: there are fewer parts than rows.
    """

    total: int
    rows: int
    seed: int
    processes: int = 1

    def __post_init__(self) -> None:
        if self.total < self.rows * self.processes:
            raise InputError(
                f"training text: has {self.total} parts, fewer than the {self.rows * self.processes} rows of a batch; "
                "lower training.batch_tokens or window, or set states to fresh"
            )

    @property
    def length(self) -> int:
        """The number of parts in a row."""
        return self.total // (self.rows * self.processes)

    def batches(self) -> Consecutive:
        """Return an epoch's batches as lists of examples."""
        count = self.length * self.processes
        return Consecutive(count, self.rows)

    def turn(self, examples: Sequence[int]) -> int:
        """Return which batch of its process it is."""
        return examples[0] // (self.rows * self.processes)

    def parts(self, epoch: int, examples: Sequence[int]) -> list[int]:
        """Return the parts of these examples.

        Every epoch begins at another one of those that are left over.
        """
        entries = self.rows * self.processes
        first = Random(f"{self.seed}/{epoch}").randrange(
            self.total - entries * self.length + 1
        )
        return [
            first + row * self.length + turn
            for turn, row in (divmod(example, entries) for example in examples)
        ]


class BidirectionalObjective:
    """Maximum likelihood of each word given those before it, and of each given those behind it."""

    metric, higher_is_better = "perplexity", False

    def __init__(
        self,
        train: SpelledTexts,
        valid: SpelledTexts,
        settings: Training,
        rows: Rows | None = None,
    ):
        """`rows`: rows of parts that carry their states.

        None for parts that are read by themselves.
        """
        self.train, self.valid, self.settings, self.rows = train, valid, settings, rows

    def batches(self, epoch: int) -> Sequence[list[int]]:
        if self.rows is not None:
            return self.rows.batches()
        return cut(self.train, self.settings.batch_tokens, self.settings.seed, epoch)

    def batch(self, epoch: int, indices: list[int]) -> SpelledBatch:
        if self.rows is None:
            return self.train.batch(indices)
        return replace(
            self.train.batch(self.rows.parts(epoch, indices)),
            fresh=self.rows.turn(indices) == 0,
        )

    def loss(
        self,
        model: nn.Module,
        batch: SpelledBatch,
        update: int,
        carried: Carried | None = None,
    ) -> Loss:
        assert isinstance(model, Elmo)
        state = None
        if self.rows is not None:
            state = (
                model.begin(len(batch.lengths))
                if batch.fresh or carried is None
                else carried["state"]
            )
        (forward, _), (backward, _), after = losses(
            model, batch, self.settings.label_smoothing, state
        )
        words, retained = (
            count_words(batch),
            None if state is None else {"state": after.detach()},
        )
        return Loss(forward + backward, 2 * words, retained, read=words)

    def validate(self, model: nn.Module) -> dict[str, float]:
        assert isinstance(model, Elmo)
        return compute_metrics(model, self.valid, self.settings.batch_tokens)


def losses(
    model: Elmo,
    batch: SpelledBatch,
    smoothing: float = 0.0,
    state: StacksState | None = None,
) -> tuple[Losses, Losses, StacksState]:
    """The losses of each word given those before it, and of each given those behind it, as `Output.loss` returns them,
    and the state for the next part of each text."""
    assert model.output is not None
    ahead, back, after_part = model.features(batch.characters, batch.lengths, state)
    after, before = (
        batch.tokens[:, 1:],
        batch.tokens[:, :-1].where(batch.tokens[:, 1:] != IGNORED, IGNORED),
    )
    return (
        model.output.loss(ahead, after, smoothing),
        model.output.loss(back, before, smoothing),
        after_part,
    )


def cut(texts: SpelledTexts, tokens: int, seed: int, epoch: int) -> Sequence[list[int]]:
    """Return an epoch's batches of parts of texts."""
    return token_batches(
        [(length, length) for length in texts.lengths], tokens, seed, epoch
    )


def count_words(batch: SpelledBatch) -> int:
    """Return the number of words that each direction predicts."""
    return int((batch.tokens[:, 1:] != IGNORED).sum())


@torch.no_grad()
def compute_metrics(model: Elmo, texts: SpelledTexts, tokens: int) -> dict[str, float]:
    """Return the perplexity of words and ends of texts.

    Forward-perplexity given the words before, backward-perplexity given the words
    behind (which counts the beginnings of texts), perplexity of the mean loss of both.
    """
    device = next(model.parameters()).device

    def sums(examples: list[int]) -> tuple[int, float, float]:
        batch = texts.batch(examples).to(device)
        (ahead, _), (back, _), _ = losses(model, batch)
        return count_words(batch), float(ahead), float(back)

    count, forward, backward = map(
        sum, zip(*compute_batches(sums, cut(texts, tokens, 0, 0)), strict=True)
    )
    return {
        "perplexity": perplexity((forward + backward) / (2 * count)),
        "forward-perplexity": perplexity(forward / count),
        "backward-perplexity": perplexity(backward / count),
    }


def setup(
    config: BidirectionalLanguageModelling, folder: RunDirectory, processes: int
) -> Setup:
    """Read the text and build tokenizer, model and objective.

    A tokenizer in the folder is reused.

    Raises:
        InputError: the text or the model is invalid.
    """
    if not config.model.predictions:
        raise InputError(
            "model.predictions is false, so this model predicts no words and cannot be trained"
        )
    splits = config.data.load()
    tokenizer = load_or_train(folder, config.tokenizer, splits.train)
    model = Elmo(tokenizer.size, config.model)
    train, valid = (
        SpelledTexts(tokenizer, texts, config.model.characters, config.window)
        for texts in (splits.train, splits.valid)
    )
    rows = None
    if config.states == "carried":
        rows = Rows(
            len(train.parts),
            rows_of(len(train.parts), config, processes),
            config.training.seed,
            processes,
        )
    return Setup(
        model,
        BidirectionalObjective(train, valid, config.training, rows),
        digest(f"{text}\n" for text in (*splits.train, *splits.valid)),
        f"{sum(train.lengths) - len(train.parts):,} words to train on, ends of texts counted; a vocabulary of "
        f"{tokenizer.size:,}; {count_parameters(model):,} parameters",
        {TOKENIZER: tokenizer},
        splits.test,
        data=summarize_text(config.data, splits, tokenizer),
    )


def rows_of(parts: int, config: BidirectionalLanguageModelling, processes: int) -> int:
    """The rows of a batch, or a quarter of the parts where the text has fewer than one batch."""
    reason = f"the training text has {parts:,} parts, fewer than one batch"
    return batch_rows(
        parts, config.window + 1, config.training.batch_tokens, reason, processes
    )


ROWS = 16
"""Texts in one batch of inference."""


@dataclass(frozen=True, eq=False)
class Words:
    """The words of a text, and the states of each in all layers, `(layer, word, width)`, h_0 first."""

    words: Sequence[str]
    states: Float[Tensor, "layer word width"]

    def vectors(self, layer: int | None = None) -> Float[Tensor, "word width"]:
        """Return a vector a word: the mean of its layers, or one layer's."""
        return self.states.mean(0) if layer is None else self.states[layer]

    def to_json(self) -> list[dict[str, Any]]:
        """Plain values for JSON: each word with the mean of its layers."""
        pairs = zip(self.words, self.vectors().tolist(), strict=True)
        return [{"word": word, "vector": vector} for word, vector in pairs]


class ElmoRun(Run[str, Prediction]):
    """A trained model with its tokenizer and its run file.

    It embeds texts and words, and predicts nothing.
    """

    config: BidirectionalLanguageModelling
    model: Elmo
    supports = {"evaluate": frozenset({"files", "columns"})}
    data_hint = "give a file of text"

    def __init__(
        self, config: BidirectionalLanguageModelling, model: Elmo, tokenizer: Tokenizer
    ):
        self.config, self.model, self.tokenizer = config, model, tokenizer

    @classmethod
    def open(
        cls, run: RunDirectory, config: BidirectionalLanguageModelling
    ) -> "ElmoRun":
        """Return the run in a folder, its model with fresh weights.

        Raises:
            InputError: A damaged tokenizer.
        """
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
        return [item for file in files for item in data.read(str(file))]

    def compute_metrics(
        self, examples: Sequence[str], options: EvaluationOptions
    ) -> dict[str, float]:
        """Return the perplexity of texts in both directions.

        Raises:
            InputError: The model was published without predictions.
        """
        if self.model.output is None:
            raise InputError(
                "this model predicts no words: it was published without that part; use "
                "`regard embed`"
            )
        characters, window = self.config.model.characters, self.config.window
        texts = SpelledTexts(self.tokenizer, examples, characters, window)
        tokens = self.config.training.batch_tokens
        return compute_metrics(self.model, texts, tokens)

    def convention(self) -> str:
        return (
            "perplexity counts every word, forwards the end of every text and backwards its beginning; texts are read "
            f"in parts of at most {self.config.window} words, each by itself"
        )

    def embed_words(self, texts: Sequence[str]) -> list[Words]:
        """Return the words of each text with their states.

        A text is read as a whole, however long it is.

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
        with check_output(self.model):
            states, after = run_continuing(self.model, *self._spell(cut), state)
        return [
            Words(words, states[:, row, : len(words)].cpu())
            for row, words in enumerate(cut)
        ], after

    def layers(
        self, text: str
    ) -> tuple[Sequence[str], Float[Tensor, "layer word width"]]:
        """The words of a text, and the states of each, `(layer, word, width)`, the static embedding first."""
        (result,) = self.embed_words([text])
        return result.words, result.states

    def embed(
        self, texts: Sequence[str], *, pool: Literal["mean", "first"] = "mean"
    ) -> Float[Tensor, "text width"]:
        """Return a vector for each text, `(text, width)`.

        The mean over its words of the mean of their layers, zeros where there is no
        word.

        Raises:
            TypeError: `texts` is one text; put it in a list.
            InputError: another pool than the mean.
        """
        if pool != "mean":
            raise InputError(
                "the pool is first, for models whose first state is a mark; ELMo's vectors are of words"
            )
        results = [torch.zeros(0, self.model.width)]
        for word in self.embed_words(texts):
            vectors = word.vectors()
            results.append(vectors.sum(0, keepdim=True) / max(1, len(vectors)))
        return torch.cat(results)

    def embedding(
        self, tokenizer: Tokenizer | None = None, dropout: float = 0.0
    ) -> ElmoEmbedding:
        """The model in place of another's token embedding, for the words of a vocabulary, by default its own."""
        spelled = spell_vocabulary(
            tokenizer or self.tokenizer, self.config.model.characters
        )
        return ElmoEmbedding(self.model, spelled, dropout)

    def _states(self, texts: Sequence[Sequence[str]]) -> Iterator[Tensor]:
        """Return the states of each text's words, `(layer, word, width)`."""
        for first in range(0, len(texts), ROWS):
            checkpoint()
            rows = texts[first : first + ROWS]
            with check_output(self.model):
                states = word_states(self.model, *self._spell(rows))
            yield from (
                states[:, row, : len(words)].cpu() for row, words in enumerate(rows)
            )

    def _spell(self, texts: Sequence[Sequence[str]]) -> tuple[Tensor, Tensor]:
        """Return the characters of each text's words, and the number of its words."""
        device, size = (
            self.device,
            self.config.model.characters,
        )
        spelled = [[spell(word, size) for word in words] for words in texts]
        return stack_words(spelled, size).to(device), torch.tensor(
            list(map(len, texts)), device=device
        )
