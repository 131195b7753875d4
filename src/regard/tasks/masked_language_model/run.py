"""Masked language models: the trained run, the loss and the set-up."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn import functional

from regard.attribution.gradients import select_log_probabilities
from regard.attribution.kinds import WHOLE_MODEL
from regard.data.batches import pad_rows
from regard.data.splits import Splits
from regard.data.tokens import side
from regard.errors import InputError, quote
from regard.metrics import Metrics, perplexity
from regard.models.bert import Bert
from regard.models.catalog import MASKED_MODELS
from regard.models.pretrained import PretrainedMaskedLM
from regard.shapes import Float
from regard.storage.run_folder import RunDirectory
from regard.tasks.attribution import Attribution
from regard.tasks.base import (
    Explained,
    Setup,
    TextRun,
    TextsObjective,
    attribute_tokens,
    check_mask,
    digest_splits,
    load_or_train,
    setup_task,
)
from regard.tasks.masked_language_model.config import (
    Document,
    MaskedBatch,
    MaskedLanguageModelling,
    MaskedTexts,
)
from regard.tasks.options import (
    AttributionOptions,
    EvaluationOptions,
    Json,
    PredictOptions,
    ShortRepr,
    TextPrediction,
    flat,
)
from regard.tasks.run import ScoredOutput, Task, refuse_one
from regard.tasks.summary import describe_rows, summarize_text
from regard.text import Tokenizer
from regard.training.objectives import Carried, Loss
from regard.work import check_output, checkpoint, compute_batches

BLANK = "[MASK]"
"""The default blank in a text."""
BATCH_ROWS = 64
"""Texts in one batch of inference."""
SEED = 0
"""The seed of the masks in held-out texts."""
Pool = Literal["mean", "first"]


@dataclass(frozen=True)
class FilledBlank:
    """A way to fill one blank of a text."""

    text: str
    """The text, with the other blanks filled with their most likely tokens."""
    token: str
    probability: float

    def to_json(self) -> Json:
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
        """Return the text, or with several ways number, probability, token and text."""
        if all(len(ways) == 1 for ways in self.blanks):
            return [flat(self.text)]
        return [
            f"{number}\t{way.probability:.4f}\t{way.token}\t{flat(way.text)}"
            for number, ways in enumerate(self.blanks, 1)
            for way in ways
        ]

    def to_json(self) -> Json:
        """Return plain values for JSON."""
        blanks = [[way.to_json() for way in ways] for ways in self.blanks]
        return {"filled": self.text, "blanks": blanks}


class MaskedLanguageModelRun(TextRun[FilledText]):
    """A trained model with its tokenizer and its run file. Examples have blanks."""

    does = "Fills each [MASK] in a text."
    config: MaskedLanguageModelling
    model: Bert | PretrainedMaskedLM
    supports = {
        "predict": ("n_best",),
        "evaluate": ("files", "columns"),
        "attribute": ("kinds", "maps", "cut"),
    }
    data_hint = "give a file of documents"

    @staticmethod
    def build(
        config: MaskedLanguageModelling, tokenizer: Tokenizer
    ) -> Bert | PretrainedMaskedLM:
        check_mask(tokenizer)
        return MASKED_MODELS[config.model.name](tokenizer.size, config.model)

    def compute_metrics(
        self, examples: Sequence[Document], options: EvaluationOptions
    ) -> Metrics:
        """Return the accuracy on masked tokens, which a fixed seed chooses.

        Raises:
            InputError: The model was published without predictions.
        """
        self._require_predictions()
        paired = self.config.model.next_sentence and len(examples) > 1
        texts = self.mask(examples, SEED, paired=paired)
        tokens = self.config.training.batch_tokens
        return measure_masked(self.model, texts, tokens)

    def mask(
        self, documents: Sequence[Document], seed: int, *, paired: bool
    ) -> MaskedTexts:
        """Return documents as masked texts. Raises InputError for too few."""
        return MaskedTexts(
            [list(map(self.tokenizer.encode, document)) for document in documents],
            self.tokenizer.size,
            self.config.masking,
            self.config.model.context,
            paired=paired,
            seed=seed,
            special=self.tokenizer.special,
        )

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
        results = []
        for text in texts:
            ids, positions = self._encode_blanks(text, blank)
            if not positions:
                raise InputError(
                    f"{quote(text)} has no blank; write {blank} where one is"
                )
            rows = self._probabilities(ids, positions)
            for position, row in zip(positions, rows, strict=True):
                ids[position] = int(row.argmax())
            blanks = []
            for position, row in zip(positions, rows, strict=True):
                checkpoint()
                ways = []
                for probability, token in zip(*row.topk(best), strict=True):
                    filled = [*ids[1:position], int(token), *ids[position + 1 : -1]]
                    (piece,) = self.tokenizer.pieces([int(token)])
                    decoded = self.tokenizer.decode(filled)
                    ways.append(FilledBlank(decoded, piece, float(probability)))
                blanks.append(ways)
            results.append(blanks)
        return results

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
        rows = [self._with_special(text, self.tokenizer.encode(text)) for text in texts]
        model = self.model
        read = model.states if isinstance(model, PretrainedMaskedLM) else model
        vectors = []
        for first in range(0, len(rows), BATCH_ROWS):
            checkpoint()
            batch = rows[first : first + BATCH_ROWS]
            states = self._read(batch, read).cpu()
            for row, vector in zip(batch, states, strict=True):
                size = len(row) if pool == "mean" else 1
                vectors.append(vector[:size].mean(0))
        if not vectors:
            return torch.zeros(0, getattr(self.config.model, "width", 0))
        return torch.stack(vectors)

    @torch.no_grad()
    def token_states(self, text: str) -> tuple[list[str], Float[Tensor, "token width"]]:
        """Return the tokens of a text, special ones included, and their last states.

        Raises:
            InputError: The text is too long.
        """
        ids = self._with_special(text, self.tokenizer.encode(text))
        model = self.model
        read = model.states if isinstance(model, PretrainedMaskedLM) else model
        return self.tokenizer.pieces(ids), self._read([ids], read)[0].cpu()

    @torch.no_grad()
    def layers(self, text: str) -> tuple[list[str], Float[Tensor, "layer token width"]]:
        """Return the tokens of a text, and the states of each in every layer.

        The first layer is the input.

        Raises:
            InputError: The text is too long.
        """
        if isinstance(self.model, PretrainedMaskedLM):
            raise InputError("a pretrained model has no states of every layer here")
        ids = self.tokenizer.encode(text)
        layers = self._read(
            [self._with_special(text, ids)], self.model.encoder.run_layers
        )
        return self.tokenizer.pieces(ids), torch.cat(list(layers))[:, 1:-1].cpu()

    @torch.no_grad()
    def _attribute(self, example: str, options: AttributionOptions) -> Attribution:
        """Attribute a text's tokens to each other, special tokens included.

        A gradient is of the log-probability of each token that fills a blank.
        """
        ids, positions = self._encode_blanks(example, BLANK)
        text = example
        tokens: list[int] = []
        if positions and self.model.predictions is not None:
            tokens = self._probabilities(ids, positions).argmax(-1).tolist()
            filled = torch.tensor(ids)
            filled[positions] = torch.tensor(tokens)
            text = self.tokenizer.decode(filled[1:-1].tolist())

        if WHOLE_MODEL.intersection(options.kinds):
            self._require_predictions()
        explained = Explained(
            self.tokenizer.pieces(tokens),
            tokens,
            lambda: self._logits(ids, positions),
            f"{quote(example)} has no blank, and a gradient is of the token that fills "
            f"one; write {BLANK} there",
        )
        *parts, last = example.split(BLANK)
        texts = [*(part.rstrip() for part in parts), last]
        labels = side(self.tokenizer, ids, texts=texts)
        lookups, weights = attribute_tokens(
            self.model,
            labels,
            explained,
            options,
            lambda: self._read([ids], self.model),
        )
        return Attribution(
            TextPrediction(text), example, (lookups,), weights, options, has_heads=True
        )

    def _find_output(
        self, example: str, options: AttributionOptions, forced: int
    ) -> ScoredOutput:
        self._require_predictions()
        ids, positions = self._encode_blanks(example, BLANK)

        def predict() -> tuple[list[str], FilledText]:
            (text,) = self._predict([example], PredictOptions())
            return [ways[0].token for ways in text.blanks], text

        pieces, _ = predict()
        tokens = self._probabilities(ids, positions).argmax(-1).tolist()
        return ScoredOutput(
            pieces,
            pieces,
            lambda: select_log_probabilities(self._logits(ids, positions), tokens),
            predict,
        )

    def _logits(
        self, ids: Sequence[int], positions: Sequence[int]
    ) -> Float[Tensor, "place vocabulary"]:
        """Return the logits at some positions of a text with special tokens."""
        assert self.model.predictions is not None
        return self.model.predictions(self._read([ids], self.model)[0, positions])

    def _probabilities(
        self, ids: Sequence[int], positions: Sequence[int]
    ) -> Float[Tensor, "place vocabulary"]:
        """Return the probabilities at blanks, 0 for ids that never fill one."""
        special = self.tokenizer.special
        size = self.tokenizer.size
        probabilities = self._logits(ids, positions).softmax(-1).cpu()
        probabilities[:, [*special.all, *range(size - special.unused, size)]] = 0.0
        return probabilities

    def _read(
        self, rows: Sequence[Sequence[int]], read: Callable[[Tensor, Tensor], Any]
    ) -> Any:
        """Return what a part of the model makes of texts with special tokens."""
        tokens, lengths = pad_rows(rows)
        with check_output(self.model):
            return read(tokens.to(self.device), lengths.to(self.device))

    def _encode_blanks(self, text: str, blank: str) -> tuple[list[int], list[int]]:
        """Encode a text with blanks, special tokens included.

        Returns:
            The tokens, and the positions of the blanks.

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
        ids = self._with_special(text, [*ids, *self.tokenizer.encode(last)])
        return ids, [index for index, token in enumerate(ids) if token == mask]

    def _with_special(self, text: str, ids: Sequence[int]) -> list[int]:
        context = self.config.model.context
        special = self.tokenizer.special
        if len(ids) + 2 > context:
            raise InputError(
                f"{quote(text)} has {len(ids)} tokens and two special tokens, but the model "
                f"takes {context}; shorten it"
            )
        return [special.start, *ids, special.end]

    def _require_predictions(self) -> None:
        if self.model.predictions is None:
            raise InputError(
                "this model fills no blanks: it was published without that part; use "
                "`regard embed`"
            )


@torch.no_grad()
def measure_masked(model: Any, texts: MaskedTexts, tokens: int) -> Metrics:
    """Return accuracy, in percent, and perplexity of masked tokens.

    For a model that predicts it, `next-sentence` is the accuracy of whether one text
    follows another.
    """
    device = next(model.parameters()).device

    def count(examples: list[int]) -> list[float]:
        batch = texts.batch(0, examples).to(device)
        states = model(batch.tokens, batch.lengths, batch.segments)
        logits = model.predictions(states.flatten(0, 1)[batch.places])
        total = functional.cross_entropy(logits, batch.expected, reduction="sum")
        hits = logits.argmax(-1) == batch.expected
        counts = [float(total), int(hits.sum()), len(hits)]
        if (pair := predict_next(model, states, batch)) is not None:
            counts += [int((pair[0].argmax(-1) == pair[1]).sum()), len(pair[1])]
        return counts

    counts = compute_batches(count, texts.batches(tokens, SEED, 0))
    total, right, places, *pairs = map(sum, zip(*counts, strict=True))
    metrics = {
        "masked-accuracy": 100 * right / places,
        "perplexity": perplexity(total / places),
    }
    if pairs:
        metrics["next-sentence"] = 100 * pairs[0] / pairs[1]
    return metrics


def predict_next(
    model: Any, states: Tensor, batch: MaskedBatch
) -> tuple[Tensor, Tensor] | None:
    """Return the logits of whether B follows A, and whether it does, if there is a B."""
    if model.next_sentence is None or model.pooler is None or batch.follows is None:
        return None
    return model.next_sentence(model.pooler(states)), batch.follows


class MaskedObjective(TextsObjective[MaskedBatch]):
    """The cross-entropy of masked tokens, and of whether the second text follows."""

    metric = "masked-accuracy"
    higher_is_better = True
    measure = staticmethod(measure_masked)

    def loss(
        self,
        model: Any,
        batch: MaskedBatch,
        update: int,
        carried: Carried | None = None,
    ) -> Loss:
        states = model(batch.tokens, batch.lengths, batch.segments)
        count = len(batch.places)
        features = model.predictions.features(states.flatten(0, 1)[batch.places])
        total, _ = model.predictions.output.loss(features[None], batch.expected[None])
        if (pair := predict_next(model, states, batch)) is not None:
            pairs = functional.cross_entropy(*pair, reduction="sum")
            total = total + pairs * (count / len(batch.tokens))
        return Loss(total, count, read=int(batch.lengths.sum()))


def setup(
    config: MaskedLanguageModelling, folder: RunDirectory, processes: int
) -> Setup:
    """Read the documents and build tokenizer, model and objective.

    Raises:
        InputError: The documents, the tokenizer or the model are invalid.
    """
    if not config.model.predictions:
        raise InputError(
            "model.predictions is false, so this model fills no blanks and cannot be "
            "trained"
        )
    splits = config.data.load()
    sentences = Splits(*(list(chain(*group)) for group in splits.by_name.values()))
    assert config.tokenizer is not None
    tokenizer = load_or_train(folder, config.tokenizer, sentences.train)
    model = MaskedLanguageModelRun.build(config, tokenizer)
    run = MaskedLanguageModelRun(config, model, tokenizer)
    train, valid = (
        run.mask(documents, config.training.seed, paired=config.model.next_sentence)
        for documents in (splits.train, splits.valid)
    )
    return setup_task(
        run,
        MaskedObjective(train, valid, config.training),
        splits,
        digest_splits(sentences, "{}\n".format),
        replace(
            summarize_text(config.data, sentences, tokenizer),
            unit="documents",
            rows=describe_rows(config.data, splits),
        ),
        counts=[f"in {len(train):,} texts"],
    )


TASK = Task(
    MaskedLanguageModelling,
    setup,
    MaskedLanguageModelRun,
    command="regard fill {} 'TEXT WITH A [MASK]', or regard embed {} TEXT",
)
