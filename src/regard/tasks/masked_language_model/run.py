"""A trained masked language model: `load(folder).predict(texts)` and `load(folder).embed(texts)`."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from regard.attribution.aggregation import single_map
from regard.attribution.available import LAYERED
from regard.attribution.gradients import log_probabilities_of
from regard.attribution.kinds import Kind
from regard.attribution.self_attention import attribute_within, contributed
from regard.data.batching import padded
from regard.data.memory import Records
from regard.data.texts import with_column
from regard.data.token_words import side
from regard.errors import InputError, quoted
from regard.maps.alignment import Alignment
from regard.maps.heads import Side
from regard.maps.lookups import Lookups, beside
from regard.models.bert import Bert
from regard.nonfinite import guarded
from regard.shapes import Float
from regard.storage.run_folder import RunDirectory
from regard.tasks.attribution import Attribution
from regard.tasks.evaluation import for_evaluation
from regard.tasks.masked_language_model.config import MaskedLanguageModelling
from regard.tasks.masked_language_model.data import Document
from regard.tasks.masked_language_model.training import SEED, figures, masked_texts
from regard.tasks.options import AttributionOptions, EvaluationOptions, PredictOptions
from regard.tasks.prediction import ShortRepr, TextPrediction, flat
from regard.tasks.run import Run, refuse_one, text_warnings
from regard.tasks.tokenizer_file import TOKENIZER, check_mask
from regard.text import Tokenizer
from regard.work import checkpoint

BLANK = "[MASK]"
"""The default blank in a text."""
ROWS = 64
"""Texts in one batch of inference."""
Pool = Literal["mean", "first"]


@dataclass(frozen=True)
class FilledBlank:
    """A way to fill one blank of a text: the `token`, readable, its probability, and the text with it in place, the
    other blanks filled with their most likely tokens."""

    text: str
    token: str
    probability: float

    def to_json(self) -> dict[str, Any]:
        """Plain values for JSON."""
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
        """The text; of several ways a line each: the blank's number, the probability, the token and the text."""
        if all(len(ways) == 1 for ways in self.blanks):
            return [flat(self.text)]
        return self.rows()

    def rows(self) -> list[str]:
        """A line for each way to fill each blank."""
        rows = [
            (number, way) for number, ways in enumerate(self.blanks, 1) for way in ways
        ]
        return [
            f"{number}\t{way.probability:.4f}\t{way.token}\t{flat(way.text)}"
            for number, way in rows
        ]

    def to_json(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "filled": self.text,
            "blanks": [[way.to_json() for way in ways] for ways in self.blanks],
        }


class MaskedLanguageModelRun(Run[str, FilledText]):
    """A trained model with its tokenizer and its run file. Examples are texts with blanks."""

    config: MaskedLanguageModelling
    model: Bert
    supports = {
        "predict": frozenset({"n_best"}),
        "evaluate": frozenset({"files", "columns"}),
        "attribute": frozenset({"kinds", "maps"}),
    }

    def __init__(
        self, config: MaskedLanguageModelling, model: Bert, tokenizer: Tokenizer
    ):
        self.config, self.model, self.tokenizer = config, model, tokenizer

    @classmethod
    def open(
        cls, run: RunDirectory, config: MaskedLanguageModelling
    ) -> "MaskedLanguageModelRun":
        """The run in a folder, its model with fresh weights. Raises InputError for a damaged tokenizer."""
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
        return [each for file in files for each in data.read(str(file))]

    def _evaluate(
        self, examples: Sequence[Document] | None, options: EvaluationOptions
    ) -> dict[str, float]:
        """The accuracy on the masked tokens of documents; a fixed seed chooses them.

        Raises:
            InputError: there are neither documents nor a test set, or the model was published without predictions.
        """
        self._require_predictions()
        documents = for_evaluation(
            examples, self.config.data, "give a file of documents"
        )
        model = self.config.model
        paired = model.next_sentence and len(documents) > 1
        texts = masked_texts(
            documents,
            self.tokenizer,
            self.config.masking,
            model.context,
            paired=paired,
            seed=SEED,
        )
        with guarded(self.model):
            return figures(self.model, texts, self.config.training.batch_tokens)

    def _predict(
        self, texts: Sequence[str], options: PredictOptions
    ) -> list[FilledText]:
        """Each text with its blanks filled; of `n_best` ways for each blank the most likely."""
        return [FilledText(blanks) for blanks in self.fill(texts, best=options.n_best)]

    @torch.no_grad()
    def fill(
        self, texts: Sequence[str], *, best: int = 5, blank: str = BLANK
    ) -> list[list[list[FilledBlank]]]:
        """For each text, for each `blank` in it, the `best` ways to fill it, the most likely first.

        Raises:
            TypeError: `texts` is one text; put it in a list.
            InputError: a text has no blank or is too long, or the run fills in no blanks.
        """
        refuse_one(texts, "texts")
        self._require_predictions()
        if not 1 <= best <= self.tokenizer.size:
            raise InputError(
                f"best is {best}; expected 1 to {self.tokenizer.size}, the entries of the vocabulary"
            )
        return [self._fill(text, best, blank) for text in texts]

    @torch.no_grad()
    def embed(
        self, texts: Sequence[str], *, pool: Pool = "mean"
    ) -> Float[Tensor, "text width"]:
        """A vector for each text, `(text, width)`: the mean of its last states, special tokens included, or the first.

        Raises:
            TypeError: `texts` is one text; put it in a list.
            InputError: a text is too long.
        """
        refuse_one(texts, "texts")
        ids = [self._marked(text, self.tokenizer.encode(text)) for text in texts]
        found = [torch.zeros(0, self.config.model.width)]
        for first in range(0, len(ids), ROWS):
            checkpoint()
            rows = ids[first : first + ROWS]
            states = self._states(rows).cpu()
            for row, each in zip(rows, states, strict=True):
                found.append(
                    (each[: len(row)].mean(0) if pool == "mean" else each[0])[None]
                )
        return torch.cat(found)

    @torch.no_grad()
    def layers(self, text: str) -> tuple[list[str], Float[Tensor, "layer token width"]]:
        """The tokens of a text, readable, and the states of each, `(layer, token, width)`: the input of the first layer
        and the output of each. Raises InputError for a text that is too long."""
        ids = self.tokenizer.encode(text)
        device = next(self.model.parameters()).device
        tokens = torch.tensor([self._marked(text, ids)], device=device)
        found = self.model.encoder.layered(
            tokens, torch.tensor([len(ids) + 2], device=device)
        )
        with guarded(self.model):
            return self.tokenizer.pieces(ids), torch.cat(list(found))[:, 1:-1].cpu()

    @torch.no_grad()
    def _attribute(self, example: str, options: AttributionOptions) -> Attribution:
        """The attention between a text's tokens, special tokens included; for the kind gradient, gradient x input of
        the log-probability of each token that fills a blank.

        Raises:
            InputError: the text is too long, or the model has no such map; for a gradient, there is no blank or the
                model fills none.
        """
        text = example
        if BLANK in text and self.model.predictions is not None:
            text = self._fill(example, 1, BLANK)[0][0].text
        ids = self._blanked(example, BLANK)
        found = [
            self._kind(example, ids, options.maps, kind) for kind in options.each_kind()
        ]
        lookups = beside(*(each for each, _ in found))
        return Attribution(
            TextPrediction(text),
            example,
            (lookups,),
            found[0][1],
            options,
            has_heads=True,
        )

    def _kind(
        self, text: str, ids: Sequence[int], maps: Sequence[int] | None, kind: Kind
    ) -> tuple[Lookups, Alignment]:
        """One kind of attribution: every layer and head, and the one map of those chosen."""
        if kind == "gradient":
            gradient = self._gradient(text, ids, maps)
            return single_map(gradient, kind), gradient
        names, read = self.model.self_attention, self._side(text, ids)
        return attribute_within(
            self.model, names, read, lambda: self._states([ids]), maps, kind=kind
        )

    def _side(self, text: str, ids: Sequence[int]) -> Side:
        """The labels of a text with blanks, special tokens included."""
        *before, last = text.split(BLANK)
        return side(
            self.tokenizer, ids, texts=[*(part.rstrip() for part in before), last]
        )

    def _gradient(
        self, text: str, ids: Sequence[int], maps: Sequence[int] | None
    ) -> Alignment:
        """Gradient x input of the tokens that fill the blanks. Raises InputError for a text without a blank, and for a
        model without predictions."""
        self._require_predictions()
        places = [place for place, index in enumerate(ids) if index == self._mask]
        if not places:
            raise InputError(
                f"{quoted(text)} has no blank, and a gradient is of the token that fills one; write {BLANK} there"
            )
        filling = (
            self._ordinary(self._logits(ids, places), -torch.inf).argmax(-1).tolist()
        )
        return contributed(
            self.model,
            self._side(text, ids).pieces,
            self.tokenizer.pieces(filling),
            lambda: log_probabilities_of(self._logits(ids, places), filling),
            maps,
        )

    @property
    def _mask(self) -> int:
        mask = self.tokenizer.special.mask
        assert mask is not None  # as `check_mask` found
        return mask

    def _ordinary(self, scores: Tensor, least: float) -> Tensor:
        """Scores `(place, vocabulary)` with `least` for special tokens and unused ids, which never fill a blank."""
        special = self.tokenizer.special
        never = [
            *special.all,
            *range(self.tokenizer.size - special.unused, self.tokenizer.size),
        ]
        return scores.index_fill(-1, torch.tensor(never, device=scores.device), least)

    def _logits(
        self, ids: Sequence[int], places: Sequence[int]
    ) -> Float[Tensor, "place vocabulary"]:
        """The logits at some places of a text with special tokens."""
        assert self.model.predictions is not None
        return self.model.predictions(self._states([ids])[0, places])

    def _fill(self, text: str, best: int, blank: str) -> list[list[FilledBlank]]:
        if blank not in text:
            raise InputError(f"{quoted(text)} has no blank; write {blank} where one is")
        marked = self._blanked(text, blank)
        ids = marked[1:-1]
        places = [place for place, index in enumerate(marked) if index == self._mask]
        probabilities = self._ordinary(
            self._logits(marked, places).softmax(-1).cpu(), 0.0
        )
        likely = probabilities.argmax(-1).tolist()
        found = []
        for place, row in enumerate(probabilities):
            checkpoint()
            ways = []
            for probability, token in zip(
                *(each.tolist() for each in row.topk(best)), strict=True
            ):
                whole = [*likely[:place], token, *likely[place + 1 :]]
                ways.append(self._filled(ids, whole, token, probability))
            found.append(ways)
        return found

    def _filled(
        self, ids: Sequence[int], chosen: Sequence[int], token: int, probability: float
    ) -> FilledBlank:
        left = iter(chosen)
        whole = [next(left) if index == self._mask else index for index in ids]
        return FilledBlank(
            self.tokenizer.decode(whole), self.tokenizer.pieces([token])[0], probability
        )

    def _states(self, rows: Sequence[Sequence[int]]) -> Tensor:
        """The last states of texts, `(text, position, width)`."""
        device = next(self.model.parameters()).device
        tokens, lengths = padded(rows)
        with guarded(self.model):
            return self.model(tokens.to(device), lengths.to(device))

    def _blanked(self, text: str, blank: str) -> list[int]:
        """The tokens of a text with blanks, special tokens included. Raises InputError for one that is too long."""
        *before, last = text.split(blank)
        parts = [
            self.tokenizer.encode(part.rstrip()) for part in before
        ]  # what fills a blank brings its own space
        ids = [index for part in parts for index in (*part, self._mask)]
        return self._marked(text, [*ids, *self.tokenizer.encode(last)])

    def _marked(self, text: str, ids: Sequence[int]) -> list[int]:
        """The tokens of a text, special tokens included. Raises InputError for a text that is too long."""
        context = self.config.model.context
        if len(ids) + 2 > context:
            raise InputError(
                f"{quoted(text)} has {len(ids)} tokens and two special tokens, but the model takes {context}; "
                "shorten it"
            )
        return [self.tokenizer.special.start, *ids, self.tokenizer.special.end]

    def _require_predictions(self) -> None:
        if self.model.predictions is None:
            raise InputError(
                "this model fills no blanks: it was published without that part; use `regard embed`"
            )
