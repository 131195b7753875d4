"""A trained run: a model with its run file and tokenizers, and the verbs that all tasks share."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np
from torch import Tensor

from regard.data.memory import Records, records_of
from regard.errors import InputError, RunError
from regard.storage.tensors import load_into
from regard.tasks.options import (
    AttributionOptions,
    EvaluationOptions,
    Options,
    PredictOptions,
    StreamOptions,
    Verb,
    options_of,
)
from regard.tasks.prediction import Prediction
from regard.text.special import REPLACEMENT

if TYPE_CHECKING:
    from regard.attribution.kinds import Kind
    from regard.decoding.streaming import StreamEvent
    from regard.maps.greatest import GreatestWeights
    from regard.tasks.attribution import Attribution
    from regard.text import Tokenizer


E = TypeVar("E")
P = TypeVar("P", bound=Prediction)
Chosen = TypeVar("Chosen", bound=Options)
MOSTLY = 0.5
"""The share of unknown words or characters beyond which a text gets a warning."""


class Run(ABC, Generic[E, P]):
    """A trained model with its run file and tokenizers. A task implements the underscored methods of the verbs that
    `supports` names. The public methods check options first and refuse unsupported ones.

    config: its run file.
    model: its model, in evaluation mode.
    supports: the names of the options of each supported verb; of `evaluate` also `files`.
    """

    config: Any
    model: Any
    supports: Mapping[Verb, frozenset[str]]
    inputs: Mapping[str, Any] = {"text": str}
    """The keys of an example in JSON with their types: `bytes` are in base64, a key that may be None is optional."""
    unit: str = "examples"
    """What an evaluation counts, in the plural."""

    def __repr__(self) -> str:
        parameters = sum(each.numel() for each in self.model.parameters())
        return f"<{type(self).__name__}: {self.config.task}, {type(self.model).__name__}, {parameters:,} parameters>"

    def warnings(self, example: E, /) -> list[str]:
        """Why the prediction for an example may mean nothing, a sentence each: its text is empty, or mostly unknown to
        the model. By default none."""
        return []

    def cut(self, example: E, /) -> str:
        """How an example is cut to what the model reads, a sentence; empty for one that is read as a whole."""
        return ""

    def prediction_warnings(self, prediction: P, /) -> list[str]:
        """What a reader of a prediction may miss, a sentence each: by default that it is empty or has unknown parts."""
        return output_warnings(prediction.text)

    @abstractmethod
    def parse(self, line: str, place: str = "text 1") -> E:
        """The example that a line of text describes: itself, JSON, the path of an image, numbers.

        Raises:
            InputError: the line describes no example of this task; it names the `place`.
        """

    def example(self, values: Mapping[str, Any], /) -> E:
        """The example of some values, one for each key of `inputs`; by default that of a line `text`. Values come from
        the network, so none may name a file.

        Raises:
            InputError: the values describe no example of this task.
        """
        return self.parse(values["text"])

    def record(self, example: Any) -> dict[str, Any]:
        """The example as plain values, which stand before its prediction in JSON."""
        return {"text": example}

    def predict(
        self,
        examples: Sequence[E],
        options: PredictOptions | None = None,
        /,
        **settings: Any,
    ) -> list[P]:
        """The prediction for each example. `settings` are fields of `PredictOptions`.

        Raises:
            TypeError: `examples` is one example; put it in a list. An unknown setting.
            InputError: an option that the run does not support, or an example that the model cannot take.
        """
        refuse_one(examples)
        chosen = self._options("predict", PredictOptions, options, settings)
        with fitting(chosen):
            return self._predict(examples, chosen)

    def stream(
        self,
        examples: Sequence[E],
        options: StreamOptions | None = None,
        /,
        *,
        active: "Callable[[int], bool]" = lambda number: True,
        **settings: Any,
    ) -> "Iterator[StreamEvent]":
        """The predictions token by token, all examples at each step. `active(number)`, called before each step, is
        whether that example continues.

        Raises:
            TypeError and InputError: as `predict`.
        """
        refuse_one(examples)
        return self._stream(
            examples, self._options("stream", StreamOptions, options, settings), active
        )

    def evaluate(
        self,
        examples: Any = None,
        options: EvaluationOptions | None = None,
        /,
        **settings: Any,
    ) -> dict[str, float]:
        """The run's metrics on examples, by default its own test set; examples may be rows in memory, as `regard.train`
        takes them. `settings` are fields of `EvaluationOptions`.

        Raises:
            InputError: an option that the run does not support, or there are neither examples nor a test set.
        """
        chosen = self._options("evaluate", EvaluationOptions, options, settings)
        records = records_of(examples)
        if records:
            examples = self.read([Records("rows", records)], chosen)
        with fitting(chosen):
            return self._evaluate(examples, chosen)

    def attribute(
        self, example: E, options: AttributionOptions | None = None, /, **settings: Any
    ) -> "Attribution":
        """The prediction for an example and its attribution. `settings` are fields of `AttributionOptions`.

        Raises:
            InputError: an option that the run does not support, or a model that attends to nothing.
        """
        chosen = self._options("attribute", AttributionOptions, options, settings)
        with fitting(chosen):
            return self._attribute(example, chosen)

    def greatest(
        self,
        example: E,
        count: int,
        options: AttributionOptions | None = None,
        /,
        **settings: Any,
    ) -> "GreatestWeights":
        """The `count` greatest weights of each query in every layer and head, of the attribution's first lookups.
        `settings` are fields of `AttributionOptions`.

        Raises InputError as `attribute`, and for a count below 1.
        """
        chosen = self._options("attribute", AttributionOptions, options, settings)
        with fitting(chosen):
            return self._greatest(example, count, chosen)

    def read(self, files: Sequence[Path | Records], options: EvaluationOptions) -> Any:
        """The examples of files for `evaluate`. Raises InputError for a file in another format than the run's data."""
        raise InputError(
            f"a file is named, but a run of the task {self.config.task} is scored on its own test set only"
        )

    def load_weights(
        self, tensors: Mapping[str, Tensor], *, allow_missing: bool = False
    ) -> None:
        """Load the run's weights into its model; with `allow_missing`, parameters that they lack stay as initialised.
        Raises InputError for weights that do not fit."""
        load_into(self.model, tensors, allow_missing=allow_missing)

    def samples(self, options: PredictOptions) -> bool:
        """Whether predictions are sampled, so that they depend on which examples are predicted together. A run that
        supports a temperature has a `search` in its run file."""
        sampled = "temperature" in self.supports.get("predict", frozenset())
        return sampled and options.search(self.config.search).temperature is not None

    @property
    def kinds(self) -> "Sequence[Kind]":
        """The kinds of attribution, of which the first is the default."""
        return ("weights",) if "attribute" in self.supports else ()

    def description(self) -> dict[str, Any]:
        """The run in plain values, for a page: the `kind` of its examples and predictions (`plain`: a field for each of
        its `inputs`, and a text), its task and its model; depending on the kind also `classes`, `beam` and
        `temperature` of its search, and the `end` token."""
        return {
            "kind": "plain",
            "task": self.config.task,
            "model": type(self.model).__name__,
            "kinds": self.kinds,
        }

    def parts(self) -> "Mapping[str, Run[Any, Any]]":
        """Runs by name that a server offers instead of this one; by default none."""
        return {}

    def check_size(self, example: E, options: AttributionOptions, most: int) -> None:
        """Raises InputError for an example and a target of more tokens than `most`, whose lookups would not fit on a
        page; by default the model's own context is limit enough."""

    def convention(self) -> str | None:
        """The convention of its metrics in a line, for metrics with several conventions."""
        return None

    def check_supported(self, verb: Verb, options: Options) -> None:
        """Raises InputError for a verb or an option that the run does not support."""
        if verb not in self.supports:
            known = ", ".join(self.supports)
            raise InputError(
                f"a run of the task {self.config.task} does not {verb}; it can {known}"
            )
        for name in options.chosen():
            self.require(verb, name)

    def require(self, verb: Verb, name: str) -> None:
        """Raises InputError for an option of the verb that the run does not support."""
        supported = self.supports.get(verb, frozenset())
        if name not in supported:
            known = ", ".join(map(dashed, sorted(supported))) or "none"
            raise InputError(
                f"the option {dashed(name)} is not supported where a run of the task {self.config.task} "
                f"{verb}s; supported: {known}"
            )

    def _options(
        self,
        verb: Verb,
        kind: type[Chosen],
        options: Chosen | None,
        settings: Mapping[str, Any],
    ) -> Chosen:
        """The options of a verb, checked. Raises TypeError for options and settings at once, InputError as
        `check_supported`."""
        chosen = options_of(kind, options, settings)
        self.check_supported(verb, chosen)
        return chosen

    def _predict(self, examples: Sequence[E], options: PredictOptions, /) -> list[P]:
        raise self._missing("predict")

    def _stream(
        self,
        examples: Sequence[E],
        options: StreamOptions,
        active: "Callable[[int], bool]",
        /,
    ) -> "Iterator[StreamEvent]":
        raise self._missing("stream")

    @abstractmethod
    def _evaluate(
        self, examples: Any, options: EvaluationOptions, /
    ) -> dict[str, float]: ...

    def _attribute(self, example: E, options: AttributionOptions, /) -> "Attribution":
        raise self._missing("attribute")

    def _greatest(
        self, example: E, count: int, options: AttributionOptions, /
    ) -> "GreatestWeights":
        return self._attribute(example, options).greatest(count)

    def _missing(self, verb: Verb) -> AssertionError:
        """`supports` names a verb that the class does not implement: a mistake of its author."""
        return AssertionError(
            f"{type(self).__name__} supports {verb!r} but does not implement _{verb}"
        )


@contextmanager
def fitting(options: Options) -> Iterator[None]:
    """Where the user chose an option, a ValueError about numbers becomes an InputError."""
    try:
        yield
    except (InputError, RunError):
        raise
    except ValueError as error:
        if not options.chosen():
            raise
        raise InputError(str(error)) from error


def text_warnings(tokenizer: "Tokenizer", texts: Mapping[str, str]) -> list[str]:
    """A sentence for each text, by its name, that is empty or mostly unknown to the tokenizer."""
    warnings: list[str] = []
    for name, text in texts.items():
        unknown, count = tokenizer.unknown(text)
        if not text.strip() or not count:
            warnings.append(f"the {name} is empty, so the prediction means nothing")
        elif unknown > MOSTLY * count:
            found = f"{unknown} of {count} {tokenizer.unknown_unit} of the {name} are unknown to the model"
            warnings.append(f"{found}; do not trust it here")
    return warnings


def output_warnings(text: str, name: str = "the prediction") -> list[str]:
    """A sentence on an output that is empty or has the mark of the unknown token."""
    if not text.strip():
        return [f"{name} is empty; if many are, train longer"]
    if REPLACEMENT not in text:
        return []
    return [
        f"{name} has {REPLACEMENT}, which stands for what the vocabulary lacks (<unk> among its tokens)"
    ]


def refuse_one(examples: object, name: str = "examples") -> None:
    """Raises TypeError for a single example instead of a list: a text would be read letter by letter."""
    if isinstance(examples, str | bytes | Path | np.ndarray):
        raise TypeError(f"{name} is one {type(examples).__name__}; put it in a list")


def dashed(name: str) -> str:
    """An option's name as the command line writes it."""
    return SINGULAR.get(name, name).replace("_", "-")


SINGULAR = {
    "phrases": "phrase",
    "maps": "map",
    "kinds": "kind",
    "banned": "ban",
    "mbr": "least_risk",
}
"""The command line's names of repeatable options."""
