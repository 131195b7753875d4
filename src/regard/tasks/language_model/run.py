"""Language modelling: the run file, the training, and the trained run."""

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from random import Random
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from regard.attention.memory import Memory
from regard.attribution.gradients import select_log_probabilities
from regard.data.batches import Batch, Order, batch_rows
from regard.data.batches import Consecutive as ConsecutiveBatches
from regard.data.batches import Shuffled as ShuffledBatches
from regard.data.texts import RunningText
from regard.data.tokens import side
from regard.decoding.search import (
    DecodingConstraints,
    Search,
    writable,
)
from regard.decoding.streaming import (
    StepOptions,
    StreamEvent,
    StreamSource,
    check_prefixes,
)
from regard.errors import InputError, quote
from regard.maps.lookups import select_rows
from regard.metrics import Metrics
from regard.models.catalog import LANGUAGE_MODELS, LanguageModelConfig
from regard.models.language_model import LanguageModel, check_smoothing
from regard.models.sizes import Size
from regard.nn.decoders import Before, Prompted
from regard.shapes import Float, Int
from regard.storage.run_folder import RunDirectory
from regard.tasks.attribution import Attribution
from regard.tasks.base import (
    Explained,
    Setup,
    TextRun,
    attribute_tokens,
    check_beam,
    digest_splits,
    load_or_train,
    setup_task,
)
from regard.tasks.language_model.likelihood import (
    TokenStream,
    measure_texts,
    token_stream,
)
from regard.tasks.options import (
    SEARCHING,
    AttributionOptions,
    EvaluationOptions,
    GeneratedText,
    Json,
    PredictOptions,
    StreamOptions,
    TextPrediction,
    rank_distinct,
)
from regard.tasks.run import ScoredOutput, Task, check_one_text, text_warnings
from regard.tasks.summary import summarize_text
from regard.text import Tokenizer, TokenizerSettings
from regard.training.objectives import Carried, Loss
from regard.training.settings import Training


@dataclass(frozen=True, kw_only=True)
class LanguageModelling:
    """The run file of a language model.

    The model's state is carried from one window to the next, without a gradient.
    """

    task: Literal["language-model"] = "language-model"
    data: RunningText
    model: LanguageModelConfig
    tokenizer: TokenizerSettings | None = None
    window: Size = 70
    """Tokens of a window; a batch has as many as fit in `training.batch_tokens`."""
    training: Training = field(default_factory=Training)
    search: Search = field(default_factory=lambda: Search(temperature=1.0))
    before: Before = "end"
    """The token before a text to continue: an end, the start, or nothing."""
    tokens: Size = 100
    """The most tokens of a continuation."""

    def __post_init__(self) -> None:
        if self.training.batch_tokens < self.window:
            raise ValueError(
                f"training.batch_tokens is {self.training.batch_tokens}, less than the "
                f"window of {self.window} tokens; raise it or shorten the window"
            )
        check_smoothing(self.model.softmax, self.training.label_smoothing)
        check_one_text(self)


VOCABULARY = "(vocabulary)"
"""The label of a copying model's entry for its vocabulary."""
SearchInputs = tuple[Prompted, Memory, Tensor, DecodingConstraints]
"""Decoder, memory, limit and constraints of a search that continues prompts."""


class LanguageModelRun(TextRun[GeneratedText]):
    """A trained model with its tokenizer and its run file. Examples are prompts."""

    does = "Continues the beginning of a text."
    config: LanguageModelling
    model: LanguageModel
    supports = {
        "predict": ("beam", "n_best", *SEARCHING, "tokens"),
        "stream": (*SEARCHING, "tokens", "prefix", "prefix_tokens", "candidates"),
        "evaluate": ("files", "columns"),
        "attribute": ("kinds", "maps", "cut", "target", "finished", "target_tokens"),
    }
    data_hint = "give a file of text"

    @staticmethod
    def build(config: LanguageModelling, tokenizer: Tokenizer) -> LanguageModel:
        model = LANGUAGE_MODELS.build(config.model, tokenizer.size)
        model.special = tokenizer.special
        return model

    def warnings(self, text: str) -> list[str]:
        return text_warnings(self.tokenizer, {"prompt": text} if text.strip() else {})

    def record(self, example: str) -> Json:
        return {"prompt": example}

    def description(self) -> Json:
        return super().description() | {
            "kind": "prompt",
            "model": self.config.model.name,
            "temperature": self.config.search.temperature,
            "end": self.tokenizer.special.end,
        }

    def check_size(
        self, example: str, options: AttributionOptions, largest: int
    ) -> None:
        target = self._encode_target(options) or ()
        size = 1 + len(self.tokenizer.encode(example)) + len(target)
        if size > largest:
            raise InputError(
                f"the text has {size} tokens; a page shows at most {largest}"
            )

    def compute_metrics(
        self, examples: Sequence[str], options: EvaluationOptions
    ) -> Metrics:
        """Return the perplexity of consecutive texts."""
        return measure_texts(self.model, self.tokenizer, examples)

    def _predict(
        self, prompts: Sequence[str], options: PredictOptions
    ) -> list[GeneratedText]:
        return self._continue(prompts, options) if prompts else []

    def _continue(
        self,
        prompts: Sequence[str],
        options: PredictOptions,
        prefix: tuple[int, ...] = (),
    ) -> list[GeneratedText]:
        """Continue each prompt by at most `tokens` tokens, first by `prefix`.

        A text that reaches the end of the model's context is not finished.
        """
        tokenizer = self.tokenizer
        search = options.search(self.config.search)
        count = options.count_hypotheses(search)
        inputs = self._prepare(prompts, options, count, prefix)
        predictions = []
        for prompt, forced, hypotheses in zip(
            prompts, inputs[-1].prompts, search(*inputs), strict=True
        ):
            texts = []
            for hypothesis in hypotheses:
                tokens = hypothesis.tokens[forced:]
                ids = (*tokens, *[tokenizer.special.end] * hypothesis.finished)
                text = GeneratedText(
                    text_behind(prompt, tokens, tokenizer),
                    hypothesis.score,
                    hypothesis.finished,
                    tuple(tokenizer.pieces(ids)),
                    prompt=prompt,
                    ids=ids,
                )
                texts.append(text)
            predictions.append(rank_distinct(texts, options.n_best))
        return predictions

    def _stream(
        self,
        prompts: Sequence[str],
        options: StreamOptions,
        active: Callable[[int], bool],
    ) -> Iterator[StreamEvent]:
        """Yield continuations with weights on the tokens before, the start first."""
        tokenizer = self.tokenizer
        search = options.search(self.config.search)
        prefix = options.encode_prefix(partial(writable, tokenizer))
        check_prefixes([prefix], tokenizer.size, tokenizer.special)
        inputs = self._prepare(prompts, options, 1, prefix)
        growth = options.tokens or self.config.tokens
        sources = [
            StreamSource(
                tokenizer.pieces(self._ids(text)), forced=len(prefix), growth=growth
            )
            for text in prompts
        ]
        model = self.model
        steps = StepOptions(model, model.self_attention, options.candidates, active)
        read = inputs[0].prompts.shape[1]
        for step in search.stream(*inputs, steps):
            forced = inputs[-1].prompts[step.row]
            if len(step.tokens) <= forced:
                continue
            text = text_behind(prompts[step.row], step.tokens[forced:], tokenizer)
            if step.attention is not None:
                # without a copying model's entry for its vocabulary; a tape lacks the
                # last token
                count = read + len(step.tokens) - 1
                lacking = max(0, count - step.attention.shape[-1])
                weights = np.pad(step.attention, ((0, 0), (0, 0), (0, lacking)))
                step = replace(step, attention=weights[..., -count:])
            yield StreamEvent.of(step, sources[step.row], text, tokenizer.pieces)

    def _prepare(
        self,
        prompts: Sequence[str],
        options: PredictOptions,
        n_best: int,
        prefix: tuple[int, ...] = (),
    ) -> SearchInputs:
        """Prepare a search: the shortest prompt is read in one pass, others are forced.

        Raises:
            InputError: A prompt does not fit the model.
        """
        ids = [self._ids(prompt) for prompt in prompts]
        read = min(map(len, ids))
        tokens = options.tokens or self.config.tokens
        ends = [min(len(row) + tokens, self._context + 1) for row in ids]
        rows = [row[:read] for row in ids]
        forced = [row[read:] for row in ids]
        empty = torch.zeros(len(ids), 0, 1, device=self.device)
        constraints = DecodingConstraints(
            n_best,
            tuple((*row, *prefix) for row in forced),
            before=tuple(map(tuple, rows)),
            prompts=tuple(map(len, forced)),
        )
        return (
            Prompted(self.model, torch.tensor(rows, device=self.device)),
            Memory(empty, empty),
            torch.tensor(ends, device=self.device) - read,
            constraints,
        )

    @torch.no_grad()
    def _attribute(self, example: str, options: AttributionOptions) -> Attribution:
        """Attribute the prediction of each token to the tokens before it.

        The start of the text is the first token; the entry of a copying model for its
        vocabulary precedes it. A forced continuation has a row for each of its tokens
        only.
        """
        tokenizer = self.tokenizer
        target = self._encode_target(options)
        ids = self._ids(example, (target or ())[:-1])
        labels = side(tokenizer, ids, texts=[example] if example else [])
        if target is None:
            following = int(self._logits(ids)[-1].argmax())
            text = tokenizer.pieces([following])[0]
        else:
            following = target[-1]
            text = text_behind(example, target, tokenizer)

        explained = Explained(
            labels.pieces, [*ids[1:], following], lambda: self._logits(ids)
        )
        lookups, weights = attribute_tokens(
            self.model, labels, explained, options, before=VOCABULARY
        )
        if target is not None:
            rows = slice(len(ids) - len(target), None)
            names = side(tokenizer, target)
            lookups = select_rows(lookups, rows, names.pieces, names.words)
            chosen = weights.weights[rows]
            weights = replace(weights, weights=chosen, target=names.pieces)
        prediction = TextPrediction(text)
        return Attribution(
            prediction, example, (lookups,), weights, options, has_heads=True
        )

    def _find_output(
        self, example: str, options: AttributionOptions, forced: int
    ) -> ScoredOutput:
        target = self._encode_target(options)
        if target is None:
            raise InputError(
                "cuts need the continuation that they change; give a target"
            )
        ids = self._ids(example, target[:-1])
        first = len(ids) - len(target)
        pieces = self.tokenizer.pieces(target)
        prefix = tuple(target[:forced])
        check_prefixes([prefix], self.tokenizer.size, self.tokenizer.special)

        def predict() -> tuple[Sequence[str], GeneratedText]:
            search = PredictOptions(tokens=len(target), beam=1)
            (text,) = self._continue([example], search, prefix)
            return text.tokens, text

        return ScoredOutput(
            pieces,
            pieces,
            lambda: select_log_probabilities(self._logits(ids)[first:], target),
            predict,
            first,
        )

    def _encode_target(self, options: AttributionOptions) -> list[int] | None:
        """Return the tokens of a forced continuation. Raises InputError for none."""
        tokens = options.encode_target(
            self.tokenizer.encode, self.tokenizer.special.end
        )
        if tokens == []:
            raise InputError(
                "the target is empty and not finished, so there is nothing to attribute; "
                "give a text"
            )
        return tokens

    def _logits(self, ids: Sequence[int]) -> Float[Tensor, "position vocabulary"]:
        """Return the logits of the token after each token of a text."""
        inputs = torch.tensor([ids], device=self.device)
        return self.model(inputs, self.model.begin(1))[0][0]

    @property
    def _context(self) -> int:
        """The most tokens that the model reads."""
        return self.model.context or sys.maxsize

    def _ids(self, text: str, target: Sequence[int] = ()) -> list[int]:
        """Encode a text with the token before it and a target behind it.

        An empty text always has a token before it.

        Raises:
            InputError: They are more than the model reads.
        """
        ids = [*self.tokenizer.encode(text)]
        special = self.tokenizer.special
        if self.config.before != "nothing" or not ids:
            ids.insert(
                0, special.start if self.config.before == "start" else special.end
            )
        ids += target
        if len(ids) > self._context:
            raise InputError(
                f"the prompt {quote(text)}, with its continuation if there is one, has "
                f"{len(ids)} tokens, but the model reads {self._context} at once; shorten it"
            )
        return ids


def text_behind(prompt: str, tokens: Sequence[int], tokenizer: Tokenizer) -> str:
    """Return the text of tokens that follow a prompt, with the blank between if any."""
    ids = tokenizer.encode(prompt)
    text = tokenizer.decode([*ids, *tokens])
    beginning = tokenizer.decode(ids)
    if text.startswith(beginning):
        return text.removeprefix(beginning)
    return tokenizer.decode(tokens)


@dataclass(frozen=True, repr=False)
class WindowBatch(Batch):
    """Windows of a text, and the next token at each position."""

    inputs: Int[Tensor, "batch position"]
    expected: Int[Tensor, "batch position"]
    fresh: bool = True
    """Whether it starts from an empty state, or continues the batch before."""


@dataclass(frozen=True)
class Windows:
    """Windows, `size` tokens long, of a text of tokens, of which a batch has `rows`."""

    tokens: TokenStream | Tensor
    size: int
    rows: int
    seed: int
    processes: int = 1

    def divide(self, epoch: int) -> tuple[int, int]:
        """Sample where an epoch's first window starts; return it and the tokens left.

        They are enough for a window in each row of all processes.
        """
        count = len(self.tokens) - 1
        spare = max(0, count - self.rows * self.processes * self.size)
        first = Random(f"{self.seed}/{epoch}").randrange(min(self.size, spare + 1))
        return first, count - first

    def cut(self, starts: Sequence[int], length: int, *, fresh: bool) -> WindowBatch:
        """Return windows of `length` tokens that begin at `starts`."""
        rows = [self.tokens[start : start + length + 1] for start in starts]
        windows = torch.stack(rows)
        return WindowBatch(windows[:, :-1], windows[:, 1:], fresh)


class ShuffledWindows(Windows):
    """Windows in random order, each independent."""

    def batches(self, epoch: int) -> Order:
        _, count = self.divide(epoch)
        name = f"{self.seed}/{epoch}"
        return ShuffledBatches(count // self.size, self.rows, name)

    def batch(self, epoch: int, indices: Sequence[int]) -> WindowBatch:
        first, _ = self.divide(epoch)
        starts = [first + index * self.size for index in indices]
        return self.cut(starts, self.size, fresh=True)


class ConsecutiveWindows(Windows):
    """The text in as many parts as all `processes` have rows, each read in order.

    A batch continues the one before it of the same process. The last batch of an epoch
    may be shorter.
    """

    def batches(self, epoch: int) -> Order:
        _, count = self.divide(epoch)
        length = count // (self.rows * self.processes)
        return ConsecutiveBatches(-(-length // self.size) * self.processes, self.rows)

    def batch(self, epoch: int, indices: Sequence[int]) -> WindowBatch:
        first, count = self.divide(epoch)
        parts = self.rows * self.processes
        length = count // parts
        done = indices[0] // parts * self.size
        starts = [first + index % parts * length + done for index in indices]
        return self.cut(starts, min(self.size, length - done), fresh=not done)


class LanguageModelObjective:
    """Maximum likelihood of each token given those before it."""

    metric = "perplexity"
    higher_is_better = False

    def __init__(
        self,
        windows: ShuffledWindows | ConsecutiveWindows,
        valid: Sequence[str],
        tokenizer: Tokenizer,
        settings: Training,
    ):
        self.batches = windows.batches
        self.batch = windows.batch
        self.valid = valid
        self.tokenizer = tokenizer
        self.settings = settings

    def loss(
        self, model: Any, batch: WindowBatch, update: int, carried: Carried | None
    ) -> Loss:
        state = model.begin(len(batch.inputs))
        if carried is not None and not batch.fresh:
            state = type(state)(**carried)
        features, state = model.run(batch.inputs, state)
        smoothing = self.settings.label_smoothing
        total, _ = model.output.loss(features, batch.expected, smoothing)
        after = model.detach_state(state)
        tensors = None if after is None else after.parts()
        return Loss(total, batch.expected.numel(), tensors)

    def validate(self, model: Any) -> Metrics:
        return measure_texts(model, self.tokenizer, self.valid)


def make_windows(
    tokens: TokenStream | Tensor,
    model: LanguageModel,
    settings: Training,
    window: int,
    processes: int,
) -> ShuffledWindows | ConsecutiveWindows:
    """Cut the training text: in order for a model with a carried state, else shuffled.

    Raises:
        InputError: The text is too short, or the window is not the model's context.
    """
    fits = model.context is None or (model.shorter_windows and window < model.context)
    if not fits and model.context != window:
        raise InputError(
            f"window is {window} and the model's context {model.context}; make them equal, "
            "so that all of its positions are trained and no others are used"
        )
    parts = (len(tokens) - 1) // window
    if not parts:
        raise InputError(
            f"training text: shorter than one batch: needed {window + 1} tokens, found "
            f"{len(tokens)}; add text or lower window"
        )
    reason = f"the training text of {len(tokens):,} tokens is shorter than one batch"
    rows = batch_rows(parts, window, settings.batch_tokens, reason)
    if model.detach_state(model.begin(1)) is None:
        return ShuffledWindows(tokens, window, rows, settings.seed)
    return ConsecutiveWindows(
        tokens,
        window,
        rows,
        settings.seed,
        processes,
    )


def setup(config: LanguageModelling, folder: RunDirectory, processes: int) -> Setup:
    """Read the text and build tokenizer, model and objective.

    Raises:
        InputError: The text, the model or the search is invalid.
    """
    splits = config.data.load()
    settings = config.training
    assert config.tokenizer is not None
    tokenizer = load_or_train(folder, config.tokenizer, splits.train)
    check_beam(config.search.beam, tokenizer.size, "vocabulary")
    model = LanguageModelRun.build(config, tokenizer)
    tokens = token_stream(tokenizer, splits.train)
    windows = make_windows(
        tokens,
        model,
        settings,
        config.window,
        processes,
    )
    return setup_task(
        LanguageModelRun(config, model, tokenizer),
        LanguageModelObjective(windows, splits.valid, tokenizer, settings),
        splits,
        digest_splits(splits, "{}\n".format),
        summarize_text(config.data, splits, tokenizer),
        details=[f"{len(tokens):,} tokens"],
    )


TASK = Task(
    LanguageModelling, setup, LanguageModelRun, command="regard generate {} PROMPT"
)
