"""Language modelling in both directions: texts to batches, a loss, and the perplexities of held-out text."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random

import torch
from torch import Tensor, nn

from regard.data.char_words import SpelledBatch, SpelledTexts
from regard.data.order import Consecutive
from regard.data.token_batches import token_batches
from regard.errors import InputError
from regard.metrics.perplexity import perplexity
from regard.models.elmo import Elmo, StacksState
from regard.shapes import Float
from regard.text.special import IGNORED
from regard.training.objective import Carried, Loss
from regard.training.settings import Training
from regard.work import computed

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
        """An epoch's batches as lists of examples."""
        count = self.length * self.processes
        return Consecutive(count, self.rows)

    def turn(self, examples: Sequence[int]) -> int:
        """Which batch of its process it is."""
        return examples[0] // (self.rows * self.processes)

    def parts(self, epoch: int, examples: Sequence[int]) -> list[int]:
        """The parts of these examples. Every epoch begins at another one of those that are left over."""
        every = self.rows * self.processes
        first = Random(f"{self.seed}/{epoch}").randrange(
            self.total - every * self.length + 1
        )
        return [
            first + row * self.length + turn
            for turn, row in (divmod(example, every) for example in examples)
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
        """`rows`: rows of parts that carry their states; None for parts that are read by themselves."""
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
        words, kept = (
            count_words(batch),
            None if state is None else {"state": after.detach()},
        )
        return Loss(forward + backward, 2 * words, kept, read=words)

    def validate(self, model: nn.Module) -> dict[str, float]:
        assert isinstance(model, Elmo)
        return figures(model, self.valid, self.settings.batch_tokens)


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
    """An epoch's batches of parts of texts."""
    return token_batches(
        [(length, length) for length in texts.lengths], tokens, seed, epoch
    )


def count_words(batch: SpelledBatch) -> int:
    """The number of words that each direction predicts."""
    return int((batch.tokens[:, 1:] != IGNORED).sum())


@torch.no_grad()
def figures(model: Elmo, texts: SpelledTexts, tokens: int) -> dict[str, float]:
    """The perplexity of words and ends of texts: forward-perplexity given the words before, backward-perplexity given
    the words behind (which counts the beginnings of texts), perplexity of the mean loss of both."""
    device = next(model.parameters()).device

    def sums(examples: list[int]) -> tuple[int, float, float]:
        batch = texts.batch(examples).to(device)
        (ahead, _), (back, _), _ = losses(model, batch)
        return count_words(batch), float(ahead), float(back)

    count, forward, backward = map(
        sum, zip(*computed(sums, cut(texts, tokens, 0, 0)), strict=True)
    )
    return {
        "perplexity": perplexity((forward + backward) / (2 * count)),
        "forward-perplexity": perplexity(forward / count),
        "backward-perplexity": perplexity(backward / count),
    }
