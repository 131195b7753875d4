"""A task and its runs: a trained model with its run file, and the verbs of all tasks."""

import logging
from abc import ABC
from collections.abc import (
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
    Sized,
)
from contextlib import contextmanager, nullcontext
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from pkgutil import resolve_name
from shutil import copyfile
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Generic,
    Literal,
    Protocol,
    TypeVar,
    overload,
    runtime_checkable,
)

import numpy as np
import torch
from torch import Tensor, nn

from regard.attention.record import Maps
from regard.attribution.effects import (
    MapCut,
    Plan,
    apply_cuts,
    plan_cuts,
    record_places,
)
from regard.data.records import Records, records_of
from regard.errors import InputError, RunError
from regard.extras import how_to_install
from regard.metrics import Metrics
from regard.storage.run_folder import WEIGHTS, RunDirectory
from regard.storage.tensors import load_into
from regard.tasks.options import (
    AttributionOptions,
    EvaluationOptions,
    Json,
    Options,
    Prediction,
    PredictOptions,
    StreamOptions,
    Verb,
    list_options,
    options_of,
)
from regard.tasks.summary import origin_of
from regard.text.kinds import REPLACEMENT
from regard.training.settings import Training, count_parameters
from regard.work import check_output

if TYPE_CHECKING:
    from regard.attribution.kinds import Kind
    from regard.decoding.streaming import StreamEvent
    from regard.tasks.attribution import Attribution
    from regard.text import Tokenizer


E = TypeVar("E")
P = TypeVar("P", bound=Prediction)
R = TypeVar("R", bound="Run[Any, Any]")
UNKNOWN_LIMIT = 0.5
"""Share of unknown words or characters above which a text gets a warning."""
OPTIMISTIC = (
    "no test set: evaluated on the validation examples, which also "
    "selected the checkpoint (optimistic)"
)
EXPORT = "regard.hub.exports:export_folder"
"""The function that writes the model of a run's folder for other libraries."""
OPTIONS: dict[Verb, type[Options]] = {
    "predict": PredictOptions,
    "stream": StreamOptions,
    "evaluate": EvaluationOptions,
    "attribute": AttributionOptions,
}
CAPABILITIES = {
    "align": ("align words", "translate-rnn"),
    "score": ("score given targets", "translate-rnn"),
    "fill": ("predict masked words", "bert"),
    "embed": ("embed texts", "bert"),
    "prompts": ("embed texts behind a prompt", "bert"),
    "token_states": ("compare texts token by token", "bert"),
    "embed_words": ("embed words", "elmo"),
    "conversation": ("converse", "dialogue"),
}
"""Each method in words, and a recipe whose runs have it."""
log = logging.getLogger("regard")


@dataclass(frozen=True)
class ScoredOutput:
    """An output that is compared with the one under cuts.

    Attributes:
        pieces: The output in pieces.
        names: What has a score: tokens of the output, classes, or tags.
        score: Computes the scores, log-probabilities unless `is_number`.
        predict: Predicts again; returns the new pieces and the prediction.
        first_query: The position in the model of the output's first query.
        largest: The number of the greatest scores to keep, in order; None keeps all.
        is_number: Whether the scores are the predicted numbers themselves.
        plan: Makes cuts in the model of cuts by the positions of an attribution.
    """

    pieces: Sequence[str]
    names: Sequence[str]
    score: Callable[[], Tensor]
    predict: Callable[[], tuple[Sequence[str], Prediction]]
    first_query: int = 0
    largest: int | None = None
    is_number: bool = False
    plan: "Callable[[Maps, Sequence[MapCut]], Plan]" = plan_cuts


class Run(ABC, Generic[E, P]):
    """A trained model with its run file and tokenizers.

    The public verbs `predict`, `stream`, `evaluate` and `attribute` check their options,
    guard the model against NaN and call the method of a task: `_predict`, `_stream`,
    `compute_metrics` and `_attribute`. A task implements those that it lists in
    `supports`, and never handles options of other verbs, gradients or finiteness itself.

    Attributes:
        config: The run file.
        model: The model, in evaluation mode.
        supports: Names of the options of each supported verb; of `evaluate` also `files`.
        inputs: Keys of an example in JSON with their types: `bytes` are in base64, a key
            that may be None is optional.
        unit: What an evaluation counts, in the plural.
        data_hint: What to do where an evaluation has no examples.
        does: What a prediction is, in a sentence for the page of a server.
        checks_finite: Whether calls of the model are checked for NaN and infinity.
        folder: The folder that the run was opened from, if any.
    """

    config: Any
    model: Any
    supports: Mapping[Verb, Collection[str]]
    inputs: Mapping[str, Any] = {"text": str}
    unit: str = "examples"
    data_hint: ClassVar[str] = "set data.test"
    checks_finite: ClassVar[bool] = True
    does: ClassVar[str] = ""
    folder: "RunDirectory | None" = None

    def __repr__(self) -> str:
        count = count_parameters(self.model)
        model = type(self.model).__name__
        return f"<{type(self).__name__}: {self.config.task}, {model}, {count:,} parameters>"

    @property
    def device(self) -> torch.device:
        """The device of the model."""
        return next(self.model.parameters()).device

    def with_model(self: R, model: Any) -> R:
        """Return the run around another model of the same kind."""
        run = copy(self)
        run.model = model
        return run

    def save(self, out: Path | str) -> None:
        """Write the run, with its present weights, to a new folder for `regard.load`.

        Raises:
            InputError: The run was not opened from a folder, or `out` is in use.
        """
        if self.folder is None:
            raise InputError(
                "this run has no folder to copy; `regard import` makes one of a published "
                "model"
            )
        with RunDirectory.create(Path(out)) as copy:
            try:
                for name, digests in self.folder.manifest.files.items():
                    if digests and name != WEIGHTS:  # logs have no digests
                        with copy.writing(name) as temporary:
                            copyfile(self.folder.file(name), temporary)
                copy.save_tensors(WEIGHTS, self.model.state_dict())
            except BaseException:
                copy.withdraw()
                raise

    def export(
        self,
        out: Path | str,
        to: Literal["huggingface", "onnx", "ctranslate2"] = "huggingface",
    ) -> Path:
        """Write the model of the run's folder for other libraries.

        The export computes the same as the run, which is checked.

        Args:
            out: Folder of the exported model.
            to: The form to write.

        Returns:
            The folder of the exported model.

        Raises:
            InputError: The run lacks a folder, the form lacks its model, or `out`
                exists.
            RunError: The export computes other values; it is removed.
        """
        if self.folder is None:
            raise InputError("this run has no folder; save it first")
        # Exports are of a higher level, which no import of this one may reach.
        resolve_name(EXPORT)(self.folder.path, Path(out), to)
        return Path(out)

    def use_engine(self, folder: "RunDirectory", *, int8: bool = False) -> None:
        """Decode by CTranslate2 where it supports the model; by default nowhere.

        Args:
            folder: The folder of the run, to which the converted weights are written.
            int8: Whether to multiply in 8-bit integers.

        Raises:
            InputError: `int8` for a model that CTranslate2 doesn't support, or where it
                isn't installed.
        """
        if int8:
            raise InputError(
                f"{folder.path}: --int8 needs CTranslate2 and a Transformer encoder-decoder "
                "with scaled dot products, softmax and absolute positions, on a CPU. "
                f"Remove --int8, or install it with {how_to_install('ctranslate2')}."
            )

    def warnings(self, example: E, /) -> list[str]:
        """Return reasons why the prediction for an example may mean nothing.

        Each is a sentence: the text is empty, or mostly unknown to the model.
        """
        return []

    def cut(self, example: E, /) -> str:
        """Return a sentence on how the model cuts an example, empty for a whole one."""
        return ""

    def prediction_warnings(self, prediction: P, /) -> list[str]:
        """Return what a reader of a prediction may miss, a sentence each."""
        return output_warnings(prediction.text)

    def parse(self, line: str, place: str = "text 1") -> Any:
        """Return the example that a line of text describes, by default the line itself.

        Args:
            line: The example itself, JSON, the path of an image, or numbers.
            place: What to call the line in an error.

        Raises:
            InputError: The line describes no example of this task.
        """
        return line

    def parse_arguments(self, texts: Sequence[str]) -> list[Any]:
        """Return the examples of the arguments of a command, by default one of each.

        Raises:
            InputError: As `parse`.
        """
        numbered = enumerate(texts, 1)
        return [self.parse(text, f"text {number}") for number, text in numbered]

    def parse_one(self, texts: Sequence[str]) -> Any:
        """Return the one example of arguments. Raises InputError for several."""
        example, *rest = self.parse_arguments(texts)
        if rest:
            raise InputError(
                f"there are {len(texts)} texts, and a picture shows one; give one, in quotes"
            )
        return example

    def example(self, values: Json, /) -> E:
        """Return the example of values from the network, one for each key of `inputs`.

        No value may name a file.

        Raises:
            InputError: The values describe no example of this task.
        """
        return self.parse(values["text"])

    def record(self, example: Any) -> Json:
        """Return the example as plain values, which precede its prediction in JSON."""
        return {"text": example}

    @overload
    def predict(
        self, examples: str, options: PredictOptions | None = None, /, **settings: Any
    ) -> P: ...
    @overload
    def predict(
        self,
        examples: Sequence[E],
        options: PredictOptions | None = None,
        /,
        **settings: Any,
    ) -> list[P]: ...
    def predict(
        self,
        examples: Any,
        options: PredictOptions | None = None,
        /,
        **settings: Any,
    ) -> Any:
        """Predict for each example, or for one text or path.

        Args:
            examples: Examples of the task, or one as on the command line.
            options: Options of the prediction.
            **settings: Fields of `PredictOptions`, instead of `options`.

        Raises:
            TypeError: `examples` is one array instead of a list; an unknown setting.
            InputError: The run does not support an option, or the model cannot take an
                example.
        """
        if isinstance(examples, str):
            return self.predict([self.parse(examples)], options, **settings)[0]
        refuse_one(examples)
        chosen = self._check_options("predict", options, settings)
        with self._guard(is_chosen=bool(chosen.chosen())), torch.no_grad():
            return self._predict(examples, chosen)

    def __call__(self, examples: Any, /, **settings: Any) -> Any:
        """Predict, as `predict` does."""
        return self.predict(examples, **settings)

    def show(self, example: Any, /, **settings: Any) -> "Attribution":
        """Return the attention of the prediction for an example, as `attribute`.

        A notebook displays its page, and `write` makes it a file. Two texts are a tuple.

        Raises:
            InputError: As `attribute`; there are two texts, and the model takes one.
        """
        if isinstance(example, str):
            example = (example,)
        if type(example) in (tuple, list):
            example = self.parse_one(example)
        return self.attribute(example, **settings)

    def stream(
        self,
        examples: Sequence[E],
        options: StreamOptions | None = None,
        /,
        *,
        active: "Callable[[int], bool]" = lambda number: True,
        **settings: Any,
    ) -> "Iterator[StreamEvent]":
        """Predict token by token, all examples at each step.

        Args:
            examples: Examples of the task.
            options: Options of the prediction.
            active: Called with the index of an example before each step; the example
                continues while it returns True.
            **settings: Fields of `StreamOptions`, instead of `options`.

        Raises:
            TypeError: As `predict`.
            InputError: As `predict`.
        """
        refuse_one(examples)
        chosen = self._check_options("stream", options, settings)
        events = self._stream(examples, chosen, active)

        def guard() -> "Iterator[StreamEvent]":
            with self._guard(is_chosen=bool(chosen.chosen())):
                yield from events

        return guard()

    def evaluate(
        self,
        examples: Any = None,
        options: EvaluationOptions | None = None,
        /,
        **settings: Any,
    ) -> Metrics:
        """Return the metrics of the run.

        Args:
            examples: Examples or rows in memory as `regard.train` takes them. By default
                the run's own test set.
            options: Options of the evaluation.
            **settings: Fields of `EvaluationOptions`, instead of `options`.

        Raises:
            InputError: The run does not support an option, or there are neither examples
                nor a test set.
        """
        chosen = self._check_options("evaluate", options, settings)
        records = records_of(examples)
        if records:
            examples = self.read([Records("rows", records)], chosen)
        with self._guard(is_chosen=bool(chosen.chosen())):
            return self._evaluate(examples, chosen)

    def attribute(
        self, example: E, options: AttributionOptions | None = None, /, **settings: Any
    ) -> "Attribution":
        """Return the prediction for an example with its attribution.

        Args:
            example: An example of the task.
            options: Options of the attribution.
            **settings: Fields of `AttributionOptions`, instead of `options`.

        Raises:
            InputError: The run does not support an option, or its model does not attend.
        """
        chosen = self._check_options("attribute", options, settings)
        with self._guard(is_chosen=bool(chosen.chosen())):
            return self._attribute(example, chosen)

    def read(self, files: Sequence[Path | Records], options: EvaluationOptions) -> Any:
        """Read the examples of files for `evaluate`.

        Raises:
            InputError: A file's format differs from the run's data, or the task
                evaluates on its own test set only.
        """
        raise InputError(
            f"a run of the task {self.config.task} is scored on its own test set only; "
            "leave the file out"
        )

    def load_weights(
        self, tensors: Mapping[str, Tensor], *, allow_missing: bool = False
    ) -> None:
        """Load weights into the model.

        Args:
            tensors: The weights by the names of their parameters.
            allow_missing: Whether parameters without weights keep their initial values.

        Raises:
            InputError: The weights do not fit.
        """
        load_into(self.model, tensors, allow_missing=allow_missing)

    def samples(self, options: PredictOptions) -> bool:
        """Return whether predictions are random, so that they depend on their batch.

        A run that supports a temperature has a `search` in its run file.
        """
        sampled = "temperature" in self.supports.get("predict", ())
        return sampled and options.search(self.config.search).temperature is not None

    @property
    def kinds(self) -> "Sequence[Kind]":
        """The kinds of attribution, of which the first is the default."""
        return ("weights",) if "attribute" in self.supports else ()

    @property
    def effect_modules(self) -> Sequence[str]:
        """Patterns of the modules whose attention an audit changes; empty for none."""
        return ()

    def input_of(self, example: Any) -> Any:
        """Return what is predicted for of an example with a known answer."""
        return example

    @property
    def cut_modules(self) -> Sequence[str]:
        """Patterns of the modules that `compare_cuts` changes; empty for none."""
        return self.effect_modules

    @torch.no_grad()
    def compare_cuts(
        self,
        example: E,
        cuts: "Sequence[MapCut]",
        options: AttributionOptions,
        *,
        forced: int = 0,
    ) -> Json:
        """Predict again where the model may not attend along some edges.

        Args:
            example: An example of the task.
            cuts: The edges, by the positions and the numbers of heads of an attribution.
            options: The output before the cuts, predicted or forced.
            forced: The number of its tokens that the new prediction begins with.

        Returns:
            The `tokens`, classes or tags that have a score; their log-probabilities
            `before` and `after` the cuts (or with `number` predicted numbers); the
            pieces of the `output` and of the new one, `changed`; and the `prediction`.

        Raises:
            InputError: A cut is not of this model or output.
        """
        output = self._find_output(example, options, forced)
        first = output.first_query
        shifted = [
            cut._replace(queries=cut.queries and [first + item for item in cut.queries])
            for cut in cuts
        ]
        with self._guard(is_chosen=True):
            with record_places(self.model, self.cut_modules) as maps:
                before = output.score()
            plan = output.plan(maps, shifted)
            with apply_cuts(self.model, plan):
                after = output.score()
            with apply_cuts(self.model, plan, strict=False):
                pieces, prediction = output.predict()
        order = torch.arange(len(before))
        if output.largest is not None:
            greatest = before.maximum(after).topk(min(output.largest, len(before)))
            order = greatest.indices.cpu()
        return {
            "tokens": [output.names[place] for place in order.tolist()],
            "before": before.cpu()[order].tolist(),
            "after": after.cpu()[order].tolist(),
            "number": output.is_number,
            "output": list(output.pieces),
            "changed": list(pieces),
            "prediction": prediction.to_json(),
        }

    def description(self) -> Json:
        """Return the run in plain values, for a page.

        Its keys are the `kind` of its examples and predictions (`plain`: a field for each
        of its `inputs`, and a text), its task and its model; depending on the kind also
        `classes`, `beam` and `temperature` of its search, and the `end` token.
        """
        return {
            "kind": "plain",
            "task": self.config.task,
            "model": type(self.model).__name__,
            "kinds": self.kinds,
            "does": self.does,
        }

    def parts(self) -> "Mapping[str, Run[Any, Any]]":
        """Return runs by name that a server offers instead of this one."""
        return {}

    def check_size(self, example: E, options: AttributionOptions, largest: int) -> None:
        """Check that the attribution of an example fits on a page.

        By default the context of the model is limit enough.

        Raises:
            InputError: Example and target have more than `largest` tokens.
        """

    def convention(self) -> str | None:
        """Return a line on the convention of metrics that have several conventions."""
        return None

    def check_supported(self, verb: Verb, options: Options) -> None:
        """Raise InputError for a verb or an option that the run does not support."""
        if verb not in self.supports:
            raise InputError(
                f"a run of the task {self.config.task} does not {verb}; it can "
                f"{', '.join(self.supports)}"
            )
        supported = self.supports[verb]
        for name in sorted(options.chosen().keys() - supported):
            flag = list_options(type(options))[name].flag or name.replace("_", "-")
            names = ", ".join(sorted(supported)).replace("_", "-") or "none"
            raise InputError(
                f"the option {flag} is not supported by {verb} for a run of the task "
                f"{self.config.task}; supported: {names}"
            )

    def compute_metrics(self, examples: Any, options: EvaluationOptions) -> Metrics:
        """Return the metrics on examples, for `evaluate` and for validation.

        An objective validates through the run around its model, so that training and
        evaluation share one implementation.

        Raises:
            InputError: An example is longer than the model takes, or has an unknown class.
        """
        raise self._not_implemented("evaluate")

    def log_examples(self, examples: Any) -> None:
        """Log what a reader of the metrics on examples should know, by default nothing."""

    def _load_test_set(self, data: Any) -> Any:
        """Return the test examples of a `data:` section, empty without a test set."""
        return data.tests()

    def _load_validation_set(self, data: Any) -> Any:
        """Return the validation examples of a `data:` section.

        The section of an imported run names no files, so it gives no examples.
        """
        return () if data.train is None else data.load().valid

    def _evaluate(self, examples: Any, options: EvaluationOptions, /) -> Metrics:
        """Compute the metrics on examples, by default the run's own held-out set."""
        if examples is None:
            data = self.config.data
            name = "test"
            if options.columns is not None or options.skip_bad:
                raise InputError("columns and skip-bad are for files; name one")
            examples = self._load_test_set(data)
            if not examples:
                examples = self._load_validation_set(data)
                name = "valid"
                if examples:
                    log.warning(OPTIMISTIC)
            if examples:
                log.info(describe_examples(examples, origin_of(data, name), self.unit))
        if not examples:
            raise InputError(
                "there is no test set in the run file and no examples are given; "
                f"{self.data_hint}"
            )
        self.log_examples(examples)
        with torch.no_grad():
            return self.compute_metrics(examples, options)

    def _check_options(
        self,
        verb: Verb,
        options: Options | None,
        settings: Mapping[str, Any],
    ) -> Any:
        """Return the options of a verb, checked.

        Raises:
            TypeError: Options and settings are both given.
            InputError: As `check_supported`.
        """
        checked = options_of(OPTIONS[verb], options, settings)
        self.check_supported(verb, checked)
        checked.check()
        return checked

    @contextmanager
    def _guard(self, *, is_chosen: bool) -> Iterator[None]:
        """Raise FloatingPointError if the model gives NaN.

        A ValueError is an InputError where the user chose an option.
        """
        guard: Any = nullcontext()
        if self.checks_finite and isinstance(self.model, nn.Module):
            guard = check_output(self.model)
        try:
            with guard:
                yield
        except (InputError, RunError):
            raise
        except ValueError as error:
            if not is_chosen:
                raise
            raise InputError(str(error)) from error

    def _predict(self, examples: Sequence[E], options: PredictOptions, /) -> list[P]:
        """Predict for each example, without gradients, where the output is checked."""
        raise self._not_implemented("predict")

    def _stream(
        self,
        examples: Sequence[E],
        options: StreamOptions,
        active: "Callable[[int], bool]",
        /,
    ) -> "Iterator[StreamEvent]":
        """Yield an event for each token of each example."""
        raise self._not_implemented("stream")

    def _attribute(self, example: E, options: AttributionOptions, /) -> "Attribution":
        """Attribute the prediction for an example, where the output is checked."""
        raise self._not_implemented("attribute")

    def _find_output(
        self, example: E, options: AttributionOptions, forced: int, /
    ) -> ScoredOutput:
        """Return the output that cuts change, with its scores."""
        raise self._not_implemented("attribute")

    def _not_implemented(self, verb: Verb) -> AssertionError:
        """Return the error of a class that supports a verb without implementing it."""
        return AssertionError(f"{type(self).__name__} does not implement {verb!r}")


def describe_examples(examples: Sized, origin: str, unit: str = "examples") -> str:
    """Return a line on the examples of an evaluation; a running text is one example.

    Args:
        examples: The examples, or a mapping of names to equally many examples.
        origin: Where they come from.
        unit: What to call them, in the plural.
    """
    count = len(examples)
    if isinstance(examples, Mapping):
        count = len(next(iter(examples.values()), ()))
    number = f"{count:,} {unit}: " if count > 1 else ""
    return f"evaluated on {number}{origin}"


def describe_search(run: Any, options: EvaluationOptions) -> str | None:
    """Return a line on the search of an evaluation; None without a search."""
    if "beam" not in run.supports.get("evaluate", ()):
        return None
    return f"decoding: {run.config.search.with_beam(options.beam).summary}"


def text_warnings(tokenizer: "Tokenizer", texts: Mapping[str, str]) -> list[str]:
    """Return a sentence for each named text that is empty or mostly unknown."""
    warnings: list[str] = []
    for name, text in texts.items():
        unknown, count = tokenizer.unknown(text)
        if not text.strip() or not count:
            warnings.append(f"the {name} is empty, so the prediction means nothing")
        elif unknown > UNKNOWN_LIMIT * count:
            warnings.append(
                f"{unknown} of {count} {tokenizer.unknown_unit} of the {name} are unknown "
                "to the model; do not trust it here"
            )
    return warnings


def output_warnings(text: str, name: str = "the prediction") -> list[str]:
    """Return a sentence on an output that is empty or contains the unknown token."""
    if not text.strip():
        return [f"{name} is empty; if many are, train longer"]
    unknown = f"{name} has {REPLACEMENT}, which stands for what the vocabulary lacks"
    return [f"{unknown} (<unk> among its tokens)"] if REPLACEMENT in text else []


def refuse_one(examples: object, name: str = "examples") -> None:
    """Raise TypeError for one example instead of a list, which would be split into letters."""
    is_one = isinstance(examples, str | bytes | Path | np.ndarray)
    if is_one or not isinstance(examples, Iterable):
        raise TypeError(f"{name} is one {type(examples).__name__}; put it in a list")


def require_method(run: Any, name: str, path: Path | str) -> Any:
    """Return a method of a run.

    Raises:
        InputError: As `missing_capability`.
    """
    method = getattr(run, name, None)
    if method is None:
        raise missing_capability(run, *CAPABILITIES[name], path)
    return method


def missing_capability(
    run: Any, verb: str, recipe: str, path: Path | str
) -> InputError:
    """Return the error of a run in a folder that lacks a capability.

    Args:
        verb: The capability in words.
        recipe: A recipe whose runs have it.
        path: The folder of the run.
    """
    return InputError(
        f"{path}: a run of the task {run.config.task} does not {verb}, but one of the "
        f"recipe {recipe} does; it can {', '.join(run.supports)}"
    )


@runtime_checkable
class RunConfig(Protocol):
    """A run file of any task, a frozen dataclass; `config.dump` writes it as YAML."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def task(self) -> str: ...

    @property
    def data(self) -> Any: ...

    @property
    def model(self) -> Any: ...

    @property
    def training(self) -> Training: ...


@dataclass(frozen=True)
class Task:
    """A task: its run files, their set-up and its trained runs."""

    config: Any
    """The dataclass of its run files, whose `task` is a `Literal` of its name."""
    setup: Callable[[Any, RunDirectory, int], Any]
    """Returns model, data and objective of a run file, the run's folder (with its
    tokenizers) and the number of processes. Raises InputError where they do not fit."""
    run: Any
    """The class of its runs. Its `open(folder, config)` returns the run in a folder, its
    model with initial weights, or raises InputError for a damaged file."""
    command: str = "regard evaluate {}"
    """The command that uses a run, with `{}` for the run's folder; empty if it depends
    on the run file, which has it as `command`."""


def refuse_teacher_forcing(training: Training) -> None:
    """Raise ValueError for a run file that sets what only models with a source have."""
    if training.teacher_forcing < 1 or training.teacher_forcing_end not in (None, 1.0):
        raise ValueError(
            "training.teacher_forcing is for seq2seq; this model has only the text"
        )


def refuse_smoothing(training: Training) -> None:
    """Raise ValueError for label smoothing where the targets are not words."""
    if training.label_smoothing:
        raise ValueError("training.label_smoothing is not for this task; set it to 0")


def check_one_text(config: Any) -> None:
    """Check the tokenizer and the training of a model of one text.

    Raises:
        ValueError: The tokenizer is missing, or a setting is for models with a source.
    """
    if config.tokenizer is None and config.model.name != "pretrained":
        raise ValueError("tokenizer is missing; describe it")
    if config.tokenizer is not None and config.tokenizer.dropout:
        raise ValueError(
            "tokenizer.dropout is for seq2seq; this model is trained on one segmentation"
        )
    refuse_teacher_forcing(config.training)
