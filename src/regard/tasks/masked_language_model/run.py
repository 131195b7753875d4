"""A trained masked language model: `load(folder).predict(texts)`."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn import functional

from regard.attribution.aggregation import LAYERED
from regard.attribution.gradients import select_log_probabilities
from regard.attribution.kinds import Kind
from regard.data.batches import pad_rows, token_batches
from regard.data.records import Records
from regard.data.texts import with_column
from regard.data.tokens import side
from regard.errors import InputError, quote
from regard.metrics import perplexity
from regard.models.bert import Bert
from regard.nonfinite import check_output
from regard.shapes import Float
from regard.storage.run_folder import RunDirectory
from regard.tasks.attribution import Attribution
from regard.tasks.base import Explanation, TextAttribution
from regard.tasks.masked_language_model.config import (
    Document,
    MaskedLanguageModelling,
    MaskedTexts,
)
from regard.tasks.options import AttributionOptions, EvaluationOptions, PredictOptions
from regard.tasks.prediction import ShortRepr, TextPrediction, flat
from regard.tasks.run import Run, refuse_one, text_warnings
from regard.tasks.tokenizers import TOKENIZER, check_mask
from regard.text import Tokenizer
from regard.text.kinds import INSIDE
from regard.work import checkpoint, compute_batches

BLANK = "[MASK]"
"""The default blank in a text."""
BATCH_ROWS = 64
"""Texts in one batch of inference."""
SEED = 0
"""The seed of the masks in held-out texts."""
SPACES = ("Ġ", "▁")
"""How entries begin that have a space before them: byte pairs, SentencePiece."""
Pool = Literal["mean", "first"]


@dataclass(frozen=True)
class FilledBlank:
    """A way to fill one blank of a text."""

    text: str
    """The text, with the other blanks filled with their most likely tokens."""
    token: str
    probability: float

    def to_json(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return dict(vars(self))


@dataclass(frozen=True, repr=False)
class FilledText(ShortRepr):
    """For each blank of a text the ways to fill it, the most likely first."""

    blanks: Sequence[Sequence[FilledBlank]]

    @property
    def text(self) -> str:
        """The text with each blank filled in the most likely way."""
        return self.blanks[0][0].text

    def lines(self) -> list[str]:
        """Return the text, or with several ways a line for each."""
        if all(len(ways) == 1 for ways in self.blanks):
            return [flat(self.text)]
        return self.rows()

    def rows(self) -> list[str]:
        """Return the blank's number, probability, token and text of each way."""
        rows = []
        for number, ways in enumerate(self.blanks, 1):
            for way in ways:
                text = flat(way.text)
                rows.append(f"{number}\t{way.probability:.4f}\t{way.token}\t{text}")
        return rows

    def to_json(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        blanks = [[way.to_json() for way in ways] for ways in self.blanks]
        return {"filled": self.text, "blanks": blanks}


class MaskedLanguageModelRun(Run[str, FilledText]):
    """A trained model with its tokenizer and its run file. Examples have blanks."""

    config: MaskedLanguageModelling
    model: Bert
    supports = {
        "predict": frozenset({"n_best"}),
        "evaluate": frozenset({"files", "columns"}),
        "attribute": frozenset({"kinds", "maps"}),
    }
    data_hint = "give a file of documents"

    def __init__(
        self, config: MaskedLanguageModelling, model: Bert, tokenizer: Tokenizer
    ):
        self.config, self.model, self.tokenizer = config, model, tokenizer

    @classmethod
    def open(
        cls, run: RunDirectory, config: MaskedLanguageModelling
    ) -> "MaskedLanguageModelRun":
        """Open the run in a folder, its model with initial weights."""
        tokenizer = Tokenizer.load(run.file(TOKENIZER))
        check_mask(tokenizer)
        return cls(config, Bert(tokenizer.size, config.model), tokenizer)

    @property
    def kinds(self) -> tuple[Kind, ...]:
        return LAYERED

    def warnings(self, text: str) -> list[str]:
        return text_warnings(self.tokenizer, {"text": text})

    def parse(self, line: str, place: str = "text 1") -> str:
        return line

    def read(
        self, files: Sequence[Path | Records], options: EvaluationOptions
    ) -> list[Document]:
        data = with_column(self.config.data, options.columns)
        return [document for file in files for document in data.read(str(file))]

    def compute_metrics(
        self, examples: Sequence[Document], options: EvaluationOptions
    ) -> dict[str, float]:
        """Return the accuracy on masked tokens, which a fixed seed chooses.

        Raises:
            InputError: The model was published without predictions.
        """
        self._require_predictions()
        paired = self.config.model.next_sentence and len(examples) > 1
        texts = mask_documents(
            examples, self.tokenizer, self.config, paired=paired, seed=SEED
        )
        return measure_masked(self.model, texts, self.config.training.batch_tokens)

    def _predict(
        self, texts: Sequence[str], options: PredictOptions
    ) -> list[FilledText]:
        return [FilledText(blanks) for blanks in self.fill(texts, best=options.n_best)]

    @torch.no_grad()
    def fill(
        self, texts: Sequence[str], *, best: int = 5, blank: str = BLANK
    ) -> list[list[list[FilledBlank]]]:
        """Fill blanks.

        Args:
            texts: Texts with blanks.
            best: The number of ways to fill each blank.
            blank: How a blank is written.

        Returns:
            For each text, for each blank in it, the ways to fill it, most likely first.

        Raises:
            TypeError: `texts` is one text; put it in a list.
            InputError: A text has no blank or is too long, or the run fills no blanks.
        """
        refuse_one(texts, "texts")
        self._require_predictions()
        if not 1 <= best <= self.tokenizer.size:
            raise InputError(
                f"best is {best}; expected 1 to {self.tokenizer.size}, the entries of the "
                "vocabulary"
            )
        return [self._fill(text, best, blank) for text in texts]

    @torch.no_grad()
    def embed(
        self, texts: Sequence[str], *, pool: Pool = "mean"
    ) -> Float[Tensor, "text width"]:
        """Return a vector for each text: the mean of its last states, or the first.

        Raises:
            TypeError: `texts` is one text; put it in a list.
            InputError: A text is too long.
        """
        refuse_one(texts, "texts")
        ids = [self._with_special(text, self.tokenizer.encode(text)) for text in texts]
        vectors = [torch.zeros(0, self.config.model.width)]
        for first in range(0, len(ids), BATCH_ROWS):
            checkpoint()
            rows = ids[first : first + BATCH_ROWS]
            for row, states in zip(rows, self._states(rows).cpu(), strict=True):
                states = states[: len(row)] if pool == "mean" else states[:1]
                vectors.append(states.mean(0)[None])
        return torch.cat(vectors)

    @torch.no_grad()
    def layers(self, text: str) -> tuple[list[str], Float[Tensor, "layer token width"]]:
        """Return the tokens of a text, and the states of each in every layer.

        The first layer is the input.

        Raises:
            InputError: The text is too long.
        """
        ids = self.tokenizer.encode(text)
        tokens, lengths = pad_rows([self._with_special(text, ids)])
        layers = self.model.encoder.run_layers(
            tokens.to(self.device), lengths.to(self.device)
        )
        with check_output(self.model):
            states = torch.cat(list(layers))
        return self.tokenizer.pieces(ids), states[:, 1:-1].cpu()

    @torch.no_grad()
    def _attribute(self, example: str, options: AttributionOptions) -> Attribution:
        """Attribute a text's tokens to each other, special tokens included.

        A gradient is of the log-probability of each token that fills a blank.
        """
        text = example
        if BLANK in text and self.model.predictions is not None:
            text = self._fill(example, 1, BLANK)[0][0].text
        ids = self._encode_blanks(example, BLANK)

        def explain() -> Explanation:
            self._require_predictions()
            positions = self._blanks(ids)
            if not positions:
                raise InputError(
                    f"{quote(example)} has no blank, and a gradient is of the token that "
                    f"fills one; write {BLANK} there"
                )
            logits = self._logits(ids, positions)
            tokens = self._fill_ordinary(logits, -torch.inf).argmax(-1).tolist()
            return self.tokenizer.pieces(tokens), lambda: select_log_probabilities(
                self._logits(ids, positions), tokens
            )

        *parts, last = example.split(BLANK)
        texts = [*(part.rstrip() for part in parts), last]
        labels = side(self.tokenizer, ids, texts=texts)
        attribution = TextAttribution(
            self.model, labels, lambda: self._states([ids]), explain
        )
        lookups, weights = attribution.collect(options)
        return Attribution(
            TextPrediction(text), example, (lookups,), weights, options, has_heads=True
        )

    def _blanks(self, ids: Sequence[int]) -> list[int]:
        mask = self.tokenizer.special.mask
        return [position for position, token in enumerate(ids) if token == mask]

    def _fill_ordinary(self, scores: Tensor, least: float) -> Tensor:
        """Give ids that never fill a blank the score `least`."""
        special, size = self.tokenizer.special, self.tokenizer.size
        tokens = [*special.all, *range(size - special.unused, size)]
        indices = torch.tensor(tokens, device=scores.device)
        return scores.index_fill(-1, indices, least)

    def _logits(
        self, ids: Sequence[int], positions: Sequence[int]
    ) -> Float[Tensor, "place vocabulary"]:
        """Return the logits at some positions of a text with special tokens."""
        assert self.model.predictions is not None
        return self.model.predictions(self._states([ids])[0, positions])

    def _fill(self, text: str, best: int, blank: str) -> list[list[FilledBlank]]:
        if blank not in text:
            raise InputError(f"{quote(text)} has no blank; write {blank} where one is")
        ids = self._encode_blanks(text, blank)
        positions = self._blanks(ids)
        probabilities = self._logits(ids, positions).softmax(-1).cpu()
        probabilities = self._fill_ordinary(probabilities, 0.0)
        filled = list(ids)
        for position, token in zip(
            positions, probabilities.argmax(-1).tolist(), strict=True
        ):
            filled[position] = token
        blanks = []
        for position, row in zip(positions, probabilities, strict=True):
            checkpoint()
            top, ways = row.topk(best), []
            for probability, token in zip(*map(Tensor.tolist, top), strict=True):
                tokens = [*filled[1:position], token, *filled[position + 1 : -1]]
                piece = self.tokenizer.pieces([token])[0]
                decoded = self.tokenizer.decode(tokens)
                ways.append(FilledBlank(decoded, piece, probability))
            blanks.append(ways)
        return blanks

    def _states(self, rows: Sequence[Sequence[int]]) -> Tensor:
        """Return the last states of texts, `(text, position, width)`."""
        tokens, lengths = pad_rows(rows)
        with check_output(self.model):
            return self.model(tokens.to(self.device), lengths.to(self.device))

    def _encode_blanks(self, text: str, blank: str) -> list[int]:
        """Encode a text with blanks, special tokens included.

        Raises:
            InputError: The text is too long.
        """
        mask = self.tokenizer.special.mask
        assert mask is not None  # as `check_mask` found
        *parts, last = text.split(blank)
        ids: list[int] = []
        for part in parts:
            # what fills a blank brings its own space
            ids += [*self.tokenizer.encode(part.rstrip()), mask]
        return self._with_special(text, [*ids, *self.tokenizer.encode(last)])

    def _with_special(self, text: str, ids: Sequence[int]) -> list[int]:
        context = self.config.model.context
        if len(ids) + 2 > context:
            raise InputError(
                f"{quote(text)} has {len(ids)} tokens and two special tokens, but the model "
                f"takes {context}; shorten it"
            )
        return [self.tokenizer.special.start, *ids, self.tokenizer.special.end]

    def _require_predictions(self) -> None:
        if self.model.predictions is None:
            raise InputError(
                "this model fills no blanks: it was published without that part; use "
                "`regard embed`"
            )


def mask_documents(
    documents: Sequence[Document],
    tokenizer: Tokenizer,
    config: MaskedLanguageModelling,
    *,
    paired: bool,
    seed: int,
) -> MaskedTexts:
    """Return documents as masked texts. Raises InputError where there are too few."""
    ids = [list(map(tokenizer.encode, document)) for document in documents]
    if tokenizer.backend["model"].get("type") == "WordPiece":
        inside = [entry.startswith(INSIDE) for entry in tokenizer.vocabulary]
    else:
        inside = [not entry.startswith(SPACES) for entry in tokenizer.vocabulary]
    return MaskedTexts(
        ids,
        inside,
        config.masking,
        config.model.context,
        paired=paired,
        seed=seed,
        special=tokenizer.special,
    )


def cut_batches(
    texts: MaskedTexts, tokens: int, seed: int, epoch: int
) -> Sequence[list[int]]:
    """Return an epoch's batches of texts."""
    lengths = [texts.length(epoch, example) for example in range(len(texts))]
    return token_batches([(length, length) for length in lengths], tokens, seed, epoch)


@torch.no_grad()
def measure_masked(model: Bert, texts: MaskedTexts, tokens: int) -> dict[str, float]:
    """Return accuracy, in per cent, and perplexity of masked tokens.

    For a model that predicts it, `next-sentence` is the accuracy of whether one text
    follows another.
    """
    device = next(model.parameters()).device

    def count(examples: list[int]) -> tuple[float, int, int, int, int]:
        batch = texts.batch(0, examples).to(device)
        states = model(batch.tokens, batch.lengths, batch.segments)
        assert model.predictions is not None
        logits = model.predictions(states.flatten(0, 1)[batch.places])
        total = functional.cross_entropy(logits, batch.expected, reduction="sum")
        right = int((logits.argmax(-1) == batch.expected).sum())
        following = predict_next(model, states)
        if following is None or batch.follows is None:
            return float(total), right, len(batch.places), 0, 0
        right_pairs = int((following.argmax(-1) == batch.follows).sum())
        return float(total), right, len(batch.places), right_pairs, len(batch.follows)

    counts = compute_batches(count, cut_batches(texts, tokens, SEED, 0))
    sums = map(sum, zip(*counts, strict=True))
    total, right, places, right_pairs, pairs = sums
    metrics = {
        "masked-accuracy": 100 * right / places,
        "perplexity": perplexity(total / places),
    }
    if pairs:
        metrics["next-sentence"] = 100 * right_pairs / pairs
    return metrics


def predict_next(model: Bert, states: Tensor) -> Tensor | None:
    """Return the logits of whether B follows A, None for a model without them."""
    if model.next_sentence is None or model.pooler is None:
        return None
    return model.next_sentence(model.pooler(states))
