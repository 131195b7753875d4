"""What an evaluation scores: the examples, by default the test set or else the validation set, and the search."""

import logging
from collections.abc import Callable, Mapping, Sequence, Sized
from typing import Any, TypeVar, cast

from regard.errors import InputError
from regard.tasks.options import EvaluationOptions
from regard.tasks.summary import origin_of

Set = TypeVar("Set", bound=Sized)
log = logging.getLogger("regard")
OPTIMISTIC = "there is no test set: scored on the validation examples, which chose the checkpoint; new ones are fairer"


def for_evaluation(
    examples: Set | None,
    data: Any,
    instead: str,
    *,
    tests: Callable[[], Set] | None = None,
    valid: Callable[[], Set] | None = None,
    unit: str = "examples",
) -> Set:
    """The examples, by default those of the test set of a `data:` section, or without one those of validation, by
    default those of the section. The log has which ones and how many, by their `unit`. Raises InputError where there
    are none, with what to do `instead`."""
    if examples is None:
        name, found = "test", data.tests() if tests is None else tests()
        if not found and (found := validation_of(data) if valid is None else valid()):
            name = "valid"
            log.warning(OPTIMISTIC)
        if found:
            log.info(scored(found, origin_of(data, name), unit))
        examples = cast(Set, found)
    if not examples:
        raise InputError(
            f"there is no test set in the run file and no examples are given; {instead}"
        )
    return examples


def scored(examples: Sized, origin: str, unit: str = "examples") -> str:
    """A line on what is scored; a running text is one example. `unit` names several examples."""
    count = (
        len(next(iter(examples.values()), ()))
        if isinstance(examples, Mapping)
        else len(examples)
    )
    return f"scored: {f'{count:,} {unit}, ' if count > 1 else ''}{origin}"


def searched(run: Any, options: EvaluationOptions) -> str | None:
    """A line on the search of an evaluation, for a comparison with validation in training; None where the metrics are
    of no outputs."""
    if "beam" not in run.supports.get("evaluate", ()):
        return None
    if getattr(run.config, "metrics", None) == (
        "perplexity",
    ):  # a task of another package may have no metrics
        return None
    search = run.config.search.searching(options.beam)
    if search.beam == 1 and search.temperature is None:
        return f"search: {search.summary}, as in validation during training"
    return f"search: {search.summary}; validation during training is greedy, and --beam 1 compares with it"


def validation_of(data: Any) -> Sequence[Any]:
    """The validation examples of a `data:` section of files, or none of a run that was imported. Raises InputError as
    its `load` does."""
    return () if data.train is None else data.load().valid
