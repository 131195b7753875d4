"""The search of a published model: generation_config.json, or in older models the same keys of config.json."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from regard.decoding.search import Search
from regard.errors import InputError
from regard.hub.formats.folder import CONFIG, Folder
from regard.hub.formats.settings import GENERATION_KEYS, Settings

GENERATION = "generation_config.json"
NEUTRAL: Mapping[str, tuple[Any, ...]] = {
    "encoder_no_repeat_ngram_size": (0,),
    "encoder_repetition_penalty": (1,),
    "exponential_decay_length_penalty": (),
    "begin_suppress_tokens": ([],),
    "sequence_bias": (),
    "guidance_scale": (1,),
    "penalty_alpha": (0,),
    "dola_layers": (),
    "num_beam_groups": (1,),
    "diversity_penalty": (0,),
    "constraints": (),
    "force_words_ids": (),
    "watermarking_config": (),
    "stop_strings": (),
    "max_time": (),
    "num_return_sequences": (1,),
    "token_healing": (False,),
}
"""Settings that regard does not compute, with the values, beside null, that change nothing."""
SAMPLED: Mapping[str, tuple[Any, ...]] = {
    "typical_p": (1,),
    "epsilon_cutoff": (0,),
    "eta_cutoff": (0,),
    "min_p": (0,),
    "top_h": (),
}
"""The same for settings that matter where tokens are sampled only."""
USED = frozenset(
    (
        *(
            "num_beams",
            "length_penalty",
            "early_stopping",
            "no_repeat_ngram_size",
            "repetition_penalty",
        ),
        *(
            "min_length",
            "min_new_tokens",
            "max_length",
            "max_new_tokens",
            "bad_words_ids",
            "suppress_tokens",
        ),
        *(
            "forced_bos_token_id",
            "forced_eos_token_id",
            "renormalize_logits",
            "do_sample",
            "temperature",
        ),
        *("top_k", "top_p", "eos_token_id", "decoder_start_token_id"),
    )
)
IGNORED = frozenset(
    (
        *(
            "remove_invalid_values",
            "output_scores",
            "output_logits",
            "return_dict_in_generate",
            "low_memory",
        ),
        *(
            "cache_implementation",
            "cache_config",
            "max_cache_len",
            "compile_config",
            "disable_compile",
            "use_mtp",
        ),
        *(
            "is_assistant",
            "num_assistant_tokens",
            "num_assistant_tokens_schedule",
            "assistant_confidence_threshold",
        ),
        *(
            "prompt_lookup_num_tokens",
            "max_matching_ngram_size",
            "assistant_early_exit",
            "assistant_lookbehind",
        ),
        *(
            "target_lookbehind",
            "assistant_ensemble_weight",
            "speculation_type",
            "continuous_batching_config",
        ),
        *("prefill_chunk_size", "_from_model_config", "trust_remote_code"),
    )
)
"""Settings of memory, speed and what is returned, which never change a text."""


@dataclass(frozen=True)
class Generation:
    """The search of a model, the ids that end a text, of which the first is `end`, and the most tokens of an output,
    if they are published."""

    search: Search
    ends: tuple[int, ...]
    most: int | None

    def check(self, size: int, folder: Folder) -> None:
        """Raises InputError for an id beyond a vocabulary of `size` entries."""
        first = () if self.search.first_token is None else (self.search.first_token,)
        ids = [
            *self.ends,
            *first,
            *(index for sequence in self.search.banned for index in sequence),
        ]
        if wrong := [index for index in ids if index >= size]:
            place = folder.path / (GENERATION if folder.has(GENERATION) else CONFIG)
            raise InputError(
                f"{place}: has the id {wrong[0]}; the vocabulary has 0 to {size - 1}"
            )


def read(folder: Folder, start: int | None = None) -> Generation:
    """Read the search of a language model, or of a model that encodes a source and begins its outputs with the id
    `start`, as transformers uses it. Raises InputError for a setting that regard does not compute."""
    settings, encodes = _settings(folder), start is not None
    values, place = settings.values, settings.place
    sampled, beam = values.get("do_sample", False), settings.size("num_beams", 1)
    neutral = {**NEUTRAL, **(SAMPLED if sampled else {})}
    neutral |= {"decoder_start_token_id": (start,)} if encodes else {}
    settings.check((*USED, *(SAMPLED if not sampled else ())), neutral, IGNORED)
    if sampled and beam > 1:
        raise InputError(
            f"{place}: do_sample is true and num_beams is {beam}; regard samples without a beam only"
        )
    if "forced_bos_token_id" in values and not encodes:
        raise InputError(
            f"{place}: forced_bos_token_id is {values['forced_bos_token_id']}; transformers forces it behind a prompt "
            "of one token only, which regard does not compute; remove it"
        )
    ends = _ids(settings, "eos_token_id")
    chosen: dict[str, Any] = {
        "no_repeat": settings.index("no_repeat_ngram_size", 0),
        "repetition_penalty": settings.number("repetition_penalty", 1.0),
        "min_length": _least(settings, encodes=encodes),
        "banned": _banned(settings, ends),
        "first_token": None
        if "forced_bos_token_id" not in values
        else settings.index("forced_bos_token_id"),
        "end_at_limit": _ends_at_limit(settings, ends),
        "renormalize": settings.switch("renormalize_logits"),
        **(_sampling(settings) if sampled else _beam(settings, beam)),
    }
    most = settings.size("max_new_tokens") if "max_new_tokens" in values else None
    if most is None and encodes and "max_length" in values:
        most = max(1, settings.size("max_length") - 1)  # there START is counted
    return Generation(settings.build(Search, **chosen), ends, most)


def write(
    search: Search, ends: Sequence[int], banned: Sequence[Sequence[int]] = ()
) -> dict[str, Any]:
    """Return the settings of a search that transformers computes equally; `banned` are more sequences of ids."""
    divides = not search.length_offset and search.length_penalty != 1
    comparable = divides or (
        search.beam > 1 and not (search.length_penalty and search.length_offset)
    )
    every = [*map(list, banned), *map(list, search.banned)]
    sampling = {
        "temperature": search.temperature,
        "top_k": search.top_k,
        "top_p": search.top_p,
    }
    return {
        "num_beams": search.beam if search.temperature is None else 1,
        "do_sample": bool(search.temperature),
        **(sampling if search.temperature else {}),
        **({"length_penalty": search.length_penalty} if comparable else {}),
        **({"early_stopping": True} if search.early_stopping else {}),
        **({"no_repeat_ngram_size": search.no_repeat} if search.no_repeat else {}),
        **(
            {"repetition_penalty": search.repetition_penalty}
            if search.repetition_penalty != 1
            else {}
        ),
        **({"bad_words_ids": every} if every else {}),
        **(
            {}
            if search.first_token is None
            else {"forced_bos_token_id": search.first_token}
        ),
        **({"forced_eos_token_id": ends[0]} if search.end_at_limit else {}),
        **({"renormalize_logits": True} if search.renormalize else {}),
        "eos_token_id": ends[0] if len(ends) == 1 else list(ends),
    }


def least_key(search: Search, *, encodes: bool) -> dict[str, int]:
    """Return the minimal length of a search in transformers' terms."""
    if not search.min_length:
        return {}
    return (
        {"min_length": search.min_length}
        if encodes
        else {"min_new_tokens": max(0, search.min_length - 1)}
    )


def _settings(folder: Folder) -> Settings:
    """The settings of the search without nulls; ids that generation_config.json lacks are those of config.json."""
    config = folder.json(CONFIG)
    separate = folder.has(GENERATION)
    values = (
        folder.json(GENERATION)
        if separate
        else {key: config[key] for key in config if key in GENERATION_KEYS}
    )
    values = {
        key: config.get(key) for key in ("eos_token_id", "decoder_start_token_id")
    } | {key: value for key, value in values.items() if value is not None}
    place = str(folder.path / (GENERATION if separate else CONFIG))
    return Settings(
        {key: value for key, value in values.items() if value is not None}, place
    )


def _ids(settings: Settings, key: str) -> tuple[int, ...]:
    """An id or several. Raises InputError for anything else."""
    value = settings.values.get(key, [])
    ids = value if isinstance(value, list) else [value]
    if any(type(index) is not int or index < 0 for index in ids):
        raise InputError(
            f"{settings.place}: {key} is {value!r}; expected an id of at least 0, or several"
        )
    return tuple(ids)


def _least(settings: Settings, *, encodes: bool) -> int:
    """The minimal length of an output, the end included. Raises InputError for one that counts the prompt."""
    new, whole = settings.index("min_new_tokens", 0), settings.index("min_length", 0)
    if whole and not encodes:
        raise InputError(
            f"{settings.place}: min_length is {whole}, with the tokens of the prompt; regard has a minimal length of "
            "what is written only, as min_new_tokens"
        )
    return max(whole, new + 1 if new else 0)


def _banned(settings: Settings, ends: Sequence[int]) -> tuple[tuple[int, ...], ...]:
    """The forbidden sequences of ids. Raises InputError for anything else."""
    words, single = (
        settings.values.get("bad_words_ids", []),
        _ids(settings, "suppress_tokens"),
    )
    right = isinstance(words, list) and all(
        isinstance(word, list) and word for word in words
    )
    if not right or any(
        type(index) is not int or index < 0 for word in words for index in word
    ):
        raise InputError(
            f"{settings.place}: bad_words_ids is {words!r}; expected lists of ids, none of them empty"
        )
    kept = [
        tuple(word) for word in words if word not in [[end] for end in ends]
    ]  # transformers drops these
    return (*kept, *((index,) for index in single))


def _ends_at_limit(settings: Settings, ends: Sequence[int]) -> bool:
    """Whether an output is ended at its limit. Raises InputError for an id that ends no text."""
    forced = _ids(settings, "forced_eos_token_id")
    if forced and forced != tuple(ends[:1]):
        raise InputError(
            f"{settings.place}: forced_eos_token_id is {list(forced)}; regard forces the end {list(ends[:1])} only"
        )
    return bool(forced)


def _beam(settings: Settings, beam: int) -> dict[str, Any]:
    """The settings of a search without sampling, where transformers divides by length^penalty."""
    early = settings.values.get("early_stopping", False)
    if beam > 1 and early not in (False, True):
        raise InputError(
            f"{settings.place}: early_stopping is {early!r}; regard supports true and false only"
        )
    penalty = settings.number("length_penalty", 1.0)
    return {
        "beam": beam,
        "length_penalty": penalty,
        "length_offset": 0.0,
        "early_stopping": early is True and beam > 1,
    }


def _sampling(settings: Settings) -> dict[str, Any]:
    """The settings of a search that samples, with transformers' defaults."""
    temperature = settings.number("temperature", 1.0)
    if not temperature:
        raise InputError(
            f"{settings.place}: temperature is 0 and do_sample is true; set do_sample to false instead"
        )
    return {
        "temperature": temperature,
        "top_k": settings.index("top_k", 50),
        "top_p": settings.number("top_p", 1.0),
    }
