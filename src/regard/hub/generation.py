"""The search of a published model, generation_config.json, in both directions."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from regard.decoding.search import Search
from regard.errors import InputError
from regard.hub.families.weights import Keys
from regard.models.published import first_line, quiet_library, require_transformers
from regard.storage.published_folder import PublishedFolder

GENERATION = "generation_config.json"
NEUTRAL = {
    "encoder_no_repeat_ngram_size": 0,
    "encoder_repetition_penalty": 1.0,
    "begin_suppress_tokens": [],
    "guidance_scale": 1,
    "penalty_alpha": 0,
    "num_beam_groups": 1,
    "diversity_penalty": 0.0,
    "num_return_sequences": 1,
    "token_healing": False,
    **dict.fromkeys(
        (
            "constraints",
            "dola_layers",
            "exponential_decay_length_penalty",
            "force_words_ids",
            "max_time",
            "sequence_bias",
            "stop_strings",
            "watermarking_config",
        )
    ),
}
"""Settings that regard does not compute, with the values that change nothing."""
SAMPLED = {
    "typical_p": 1.0,
    "epsilon_cutoff": 0.0,
    "eta_cutoff": 0.0,
    "min_p": 0.0,
    "top_h": None,
    "num_beams": 1,
}
"""The same for settings that matter where tokens are sampled only."""
FIELDS = {
    "no_repeat": ("no_repeat_ngram_size", 0),
    "repetition_penalty": ("repetition_penalty", 1.0),
    "first_token": ("forced_bos_token_id", None),
    "renormalize": ("renormalize_logits", False),
}
SAMPLING = {
    "temperature": ("temperature", 1.0),
    "top_k": ("top_k", 50),
    "top_p": ("top_p", 1.0),
}
"""The published key and default of fields of a search, and of one that samples."""


@dataclass(frozen=True)
class Generation:
    """The search of a published model.

    Attributes:
        search: The settings.
        ends: The ids that end a text.
        tokens: The most tokens of an output, if they are published.
    """

    search: Search
    ends: tuple[int, ...]
    tokens: int | None


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
    kind = require_transformers(str(folder.path)).GenerationConfig
    try:
        with quiet_library():
            if folder.has(GENERATION):
                config = kind.from_pretrained(folder.path)
            else:
                config = kind.from_model_config(values)
        settings = {
            key: value for key, value in config.to_dict().items() if value is not None
        }
        ends = _ids(settings, "eos_token_id") or _ids(values.to_dict(), "eos_token_id")
        search = _read_search(settings, ends, encodes)
        tokens = settings.get("max_new_tokens")
        if tokens is None and encodes and "max_length" in settings:
            tokens = settings["max_length"] - 1  # there the start is counted
        size = values.get_text_config().vocab_size
        for ids in (ends, _ids(settings, "forced_bos_token_id"), *search.banned):
            if ids and not 0 <= min(ids) <= max(ids) < size:
                raise ValueError(f"{ids} has the id {max(ids)}, of {size} tokens")
    except (OSError, ValueError, TypeError, OverflowError) as error:
        raise InputError(f"{folder.path / GENERATION}: {first_line(error)}") from error
    return Generation(search, ends, None if tokens is None else max(1, int(tokens)))


def _read_search(values: Keys, ends: tuple[int, ...], encodes: bool) -> Search:
    """Convert settings. Raise ValueError for one that regard does not compute."""
    samples = bool(values.get("do_sample", False))
    neutral = {**NEUTRAL, **(SAMPLED if samples else {})}
    for key, value in neutral.items():
        if values.get(key, value) != value:
            raise ValueError(f"{key} is {values[key]!r}, which regard does not compute")
    least = values.get("min_length", 0)
    new = values.get("min_new_tokens", 0)
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
    table = FIELDS | SAMPLING if samples else FIELDS
    fields = {name: values.get(key, default) for name, (key, default) in table.items()}
    if not samples:
        beam = values.get("num_beams", 1)
        early = values.get("early_stopping", False)
        if beam > 1 and early not in (False, True):
            raise ValueError(
                f"early_stopping is {early!r}; regard supports true and false"
            )
        fields |= {
            "beam": beam,
            "length_penalty": values.get("length_penalty", 1.0),
            "length_offset": 0.0,
            "early_stopping": early is True and beam > 1,
        }
    words = map(tuple, values.get("bad_words_ids", []))
    banned = [word for word in words if word not in {(end,) for end in ends}]
    banned += [(index,) for index in _ids(values, "suppress_tokens")]
    return Search(
        **fields,
        min_length=max(least, new + 1 if new else 0),
        banned=tuple(banned),
        end_at_limit=bool(forced),
    )


def _ids(values: Keys, key: str) -> tuple[int, ...]:
    """Return the tokens of a setting. Raise ValueError if they are no integers."""
    value = values.get(key)
    if value is None:
        return ()
    tokens = value if isinstance(value, list) else [value]
    if not all(isinstance(token, int) for token in tokens):
        raise ValueError(f"{key} is {value!r}; expected the number of a token")
    return tuple(tokens)


def write_generation(search: Search, ends: Sequence[int], *, encodes: bool) -> Keys:
    """Return the settings of a search that transformers computes equally."""
    samples = bool(search.temperature)
    least = search.min_length
    document: Keys = {
        "num_beams": search.beam if search.temperature is None else 1,
        "do_sample": samples,
        "early_stopping": search.early_stopping,
        "eos_token_id": ends[0] if len(ends) == 1 else list(ends),
        "forced_eos_token_id": ends[0] if search.end_at_limit else None,
        "bad_words_ids": [list(ids) for ids in search.banned] or None,
        "min_length": least if encodes else None,
        "min_new_tokens": least - 1 if least and not encodes else None,
    }
    for name, (key, _) in (FIELDS | SAMPLING if samples else FIELDS).items():
        document[key] = getattr(search, name)
    penalty = search.length_penalty
    divides = not search.length_offset and penalty != 1
    is_plain = not (penalty and search.length_offset)
    if divides or (search.beam > 1 and is_plain):
        document["length_penalty"] = penalty
    return {key: value for key, value in document.items() if value is not None}
