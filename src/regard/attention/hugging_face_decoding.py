"""The searches of the transformers library: what they drop from their caches, observers drop too."""

from collections.abc import Callable
from copy import copy
from functools import wraps
from typing import Any

from torch import Tensor

from regard.attention.hugging_face_passes import passes
from regard.attention.observer import observers

Patch = Callable[[Callable[..., Any]], Callable[..., Any]]
"""A function to one that also reports what it does."""


def patches() -> list[tuple[Any, str, Patch]]:
    """Classes of the library, the names of their methods, and what goes around these."""
    from transformers.cache_utils import Cache
    from transformers.generation.utils import GenerationMixin

    return [
        (Cache, "update", updating),
        (Cache, "reorder_cache", reordering),
        (Cache, "crop", cropping),
        (GenerationMixin, "_beam_search", searching),
    ]


def updating(update: Callable[..., Any]) -> Callable[..., Any]:
    """Report where the keys begin that the cache returns: a sliding window forgets the first ones."""

    @wraps(update)
    def updated(
        self: Any,
        key_states: Tensor,
        value_states: Tensor,
        layer_idx: int,
        *args: Any,
        **options: Any,
    ) -> Any:
        keys, values = update(
            self, key_states, value_states, layer_idx, *args, **options
        )
        if observers():
            passes().updated(self, keys, int(self.get_seq_length(layer_idx)))
        return keys, values

    return updated


def reordering(reorder_cache: Callable[..., Any]) -> Callable[..., Any]:
    """Report which rows go on."""

    @wraps(reorder_cache)
    def reordered(self: Any, beam_idx: Tensor) -> Any:
        found = reorder_cache(self, beam_idx)
        if id(self) in passes().caches:
            for observer in observers():
                observer.reordered(beam_idx)
        return found

    return reordered


def cropping(crop: Callable[..., Any]) -> Callable[..., Any]:
    """Report how many of the last positions are rejected."""

    @wraps(crop)
    def cropped(self: Any, *args: Any, **options: Any) -> Any:
        if id(self) not in passes().caches:
            return crop(self, *args, **options)
        before = int(self.get_seq_length())
        found = crop(self, *args, **options)
        rejected = before - int(self.get_seq_length())
        for observer in observers() if rejected > 0 else ():
            observer.rejected(rejected)
        return found

    return cropped


def searching(beam_search: Callable[..., Any]) -> Callable[..., Any]:
    """Report which row each returned sequence had in each pass."""

    @wraps(beam_search)
    def searched(
        self: Any,
        input_ids: Tensor,
        logits_processor: Any,
        stopping_criteria: Any,
        generation_config: Any,
        **options: Any,
    ) -> Any:
        active = observers()
        if not active:
            return beam_search(
                self,
                input_ids,
                logits_processor,
                stopping_criteria,
                generation_config,
                **options,
            )
        whole = copy(generation_config)
        whole.return_dict_in_generate = True
        for observer in active:
            observer.search_started()
        found = beam_search(
            self, input_ids, logits_processor, stopping_criteria, whole, **options
        )
        for observer in active:
            observer.search_ended(found.beam_indices)
        return found if generation_config.return_dict_in_generate else found.sequences

    return searched
