"""The search of a published model, generation_config.json, in both directions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from regard.decoding.search import Search
from regard.errors import InputError
from regard.models.published import first_line, quiet_library, require_transformers
from regard.storage.published_folder import PublishedFolder

GENERATION = "generation_config.json"
CONSUMED = frozenset(
    {
        "bad_words_ids",
        "decoder_start_token_id",
        "do_sample",
        "early_stopping",
        "eos_token_id",
        "forced_bos_token_id",
        "forced_eos_token_id",
        "length_penalty",
        "max_length",
        "max_new_tokens",
        "min_length",
        "min_new_tokens",
        "no_repeat_ngram_size",
        "num_beams",
        "renormalize_logits",
        "repetition_penalty",
        "suppress_tokens",
        "temperature",
        "top_k",
        "top_p",
    }
)
NEUTRAL: Mapping[str, Any] = {
    "encoder_no_repeat_ngram_size": 0,
    "encoder_repetition_penalty": 1.0,
    "begin_suppress_tokens": [],
    "guidance_scale": 1,
    "penalty_alpha": 0,
    "num_beam_groups": 1,
    "diversity_penalty": 0.0,
    "num_return_sequences": 1,
    "token_healing": False,
}
"""Settings that regard does not compute, with the values that change nothing."""
SAMPLED: Mapping[str, Any] = {
    "typical_p": 1.0,
    "epsilon_cutoff": 0.0,
    "eta_cutoff": 0.0,
    "min_p": 0.0,
    "top_h": None,
}
"""The same for settings that matter where tokens are sampled only."""
CHANGING = frozenset(
    {
        "constraints",
        "dola_layers",
        "exponential_decay_length_penalty",
        "force_words_ids",
        "max_time",
        "sequence_bias",
        "stop_strings",
        "watermarking_config",
    }
)
"""Settings that change a text whatever their value; all others never do."""


@dataclass(frozen=True)
class Generation:
    """The search of a published model.

    search: The settings.
    ends: The ids that end a text.
    tokens: The most tokens of an output, if they are published.
    """

    search: Search
    ends: tuple[int, ...]
    tokens: int | None

    def check(self, size: int, place: str) -> None:
        """Raise InputError for an id beyond a vocabulary of `size` entries."""
        first = () if self.search.first_token is None else (self.search.first_token,)
        banned = [index for sequence in self.search.banned for index in sequence]
        for index in (*self.ends, *first, *banned):
            if not 0 <= index < size:
                raise InputError(
                    f"{place}: has the id {index}; the vocabulary has 0 to {size - 1}"
                )


def read_generation(
    folder: PublishedFolder, values: Any, *, encodes: bool
) -> Generation:
    """Read the search of a published model.

    Args:
        folder: The folder of the model.
        values: The model's configuration; older models keep the search there.
        encodes: Whether the model has an encoder; outputs then have no prompt.

    Raises:
        InputError: A setting is invalid, or regard does not compute it.
    """
    library = require_transformers(str(folder.path))
    place = str(folder.path / GENERATION)
    try:
        with quiet_library():
            if folder.has(GENERATION):
                config = library.GenerationConfig.from_pretrained(folder.path)
            else:
                config = library.GenerationConfig.from_model_config(values)
    except (OSError, ValueError, TypeError) as error:
        raise InputError(f"{place}: {first_line(error)}") from error
    found = {key: value for key, value in config.to_dict().items() if value is not None}
    samples = bool(found.get("do_sample", False))
    _check(found, samples, place)
    ends = _ids(found, "eos_token_id") or _ids(values.to_dict(), "eos_token_id")
    try:
        search = Search(**_search(found, ends, samples, encodes))
    except (ValueError, TypeError) as error:
        raise InputError(f"{place}: {error}") from error
    tokens = found.get("max_new_tokens")
    if tokens is None and encodes and "max_length" in found:
        tokens = max(1, found["max_length"] - 1)  # there the start is counted
    return Generation(search, ends, tokens)


def _check(values: Mapping[str, Any], samples: bool, place: str) -> None:
    neutral = {**NEUTRAL, **(SAMPLED if samples else {})}
    for key, value in values.items():
        if key in CHANGING or (key in neutral and value != neutral[key]):
            raise InputError(
                f"{place}: {key} is {value!r}, which regard does not compute"
            )
    if samples and values.get("num_beams", 1) > 1:
        raise InputError(
            f"{place}: do_sample is true and num_beams is {values['num_beams']}; regard "
            "samples without a beam only"
        )


def _search(
    values: Mapping[str, Any], ends: tuple[int, ...], samples: bool, encodes: bool
) -> dict[str, Any]:
    """Return the fields of a search."""
    least, new = values.get("min_length", 0), values.get("min_new_tokens", 0)
    if not encodes and (least or "forced_bos_token_id" in values):
        raise ValueError(
            "min_length and forced_bos_token_id count the prompt of a language model, "
            "which regard does not; use min_new_tokens"
        )
    forced = _ids(values, "forced_eos_token_id")
    if forced and forced != ends[:1]:
        raise ValueError(
            f"forced_eos_token_id is {list(forced)}; regard forces the end {ends[:1]}"
        )
    banned = [tuple(word) for word in values.get("bad_words_ids", [])]
    single = [(index,) for index in _ids(values, "suppress_tokens")]
    dropped = {(end,) for end in ends}  # transformers drops these too
    fields: dict[str, Any] = {
        "no_repeat": values.get("no_repeat_ngram_size", 0),
        "repetition_penalty": values.get("repetition_penalty", 1.0),
        "min_length": max(least, new + 1 if new else 0),
        "banned": (*(word for word in banned if word not in dropped), *single),
        "first_token": values.get("forced_bos_token_id"),
        "end_at_limit": bool(forced),
        "renormalize": bool(values.get("renormalize_logits", False)),
    }
    if samples:
        return fields | {
            "temperature": values.get("temperature", 1.0),
            "top_k": values.get("top_k", 50),
            "top_p": values.get("top_p", 1.0),
        }
    beam, early = values.get("num_beams", 1), values.get("early_stopping", False)
    if beam > 1 and early not in (False, True):
        raise ValueError(f"early_stopping is {early!r}; regard supports true and false")
    return fields | {
        "beam": beam,
        "length_penalty": values.get("length_penalty", 1.0),
        "length_offset": 0.0,
        "early_stopping": early is True and beam > 1,
    }


def _ids(found: Mapping[str, Any], key: str) -> tuple[int, ...]:
    value = found.get(key)
    values = [] if value is None else value if isinstance(value, list) else [value]
    return tuple(values)


def write_generation(
    search: Search, ends: Sequence[int], *, encodes: bool
) -> dict[str, Any]:
    """Return the settings of a search that transformers computes equally."""
    divides = not search.length_offset and search.length_penalty != 1
    several = search.beam > 1 and not (search.length_penalty and search.length_offset)
    document: dict[str, Any] = {
        "num_beams": search.beam if search.temperature is None else 1,
        "do_sample": bool(search.temperature),
        "eos_token_id": ends[0] if len(ends) == 1 else list(ends),
    }
    if search.temperature:
        document["temperature"] = search.temperature
        document["top_k"], document["top_p"] = search.top_k, search.top_p
    if divides or several:
        document["length_penalty"] = search.length_penalty
    optional = {
        "early_stopping": search.early_stopping,
        "no_repeat_ngram_size": search.no_repeat,
        "bad_words_ids": [list(sequence) for sequence in search.banned],
        "renormalize_logits": search.renormalize,
    }
    document |= {key: value for key, value in optional.items() if value}
    if search.repetition_penalty != 1:
        document["repetition_penalty"] = search.repetition_penalty
    if search.first_token is not None:
        document["forced_bos_token_id"] = search.first_token
    if search.end_at_limit:
        document["forced_eos_token_id"] = ends[0]
    if search.min_length and encodes:
        document["min_length"] = search.min_length
    elif search.min_length:
        document["min_new_tokens"] = max(0, search.min_length - 1)
    return document
