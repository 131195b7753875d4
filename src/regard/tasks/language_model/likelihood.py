"""The likelihood of a text under a language model, token by token."""

import torch
from torch import Tensor

from regard.models.language_model import LanguageModel
from regard.shapes import Float, Int
from regard.tasks.language_model.cache import Cache
from regard.work import computed

STRETCH = 512
"""Tokens in one pass of a model without a limited context."""
TOGETHER = 8
"""Windows in one pass of a model with a limited context."""


@torch.no_grad()
def losses(
    model: LanguageModel, tokens: Int[Tensor, " position"], cache: Cache | None = None
) -> Float[Tensor, " rest"]:
    """-log p of each token but the first, given those before it, `(position - 1,)`.

    A model with a carried state reads the whole text, optionally with a cache. A model with a limited context reads
    windows that overlap by half, so that all but the first tokens have at least half a context.

    Raises:
        ValueError: a cache for a model with a limited context or with a copy mechanism.
    """
    device = next(model.parameters()).device
    tokens = tokens.to(device)
    if model.context is None:
        return _whole(model, tokens, cache)
    if cache is not None:
        raise ValueError(
            "a cache needs a model with a carried state; this one has a limited context"
        )
    return _windowed(model, tokens, model.context)


def _whole(model: LanguageModel, tokens: Tensor, cache: Cache | None) -> Tensor:
    state, past, found = model.begin(1), None, []
    for start in range(0, len(tokens) - 1, STRETCH):
        part = tokens[start : start + STRETCH + 1][None]
        features, state = model.run(part[:, :-1], state)
        _, each = model.output.loss(features, part[:, 1:])
        if cache is not None:
            if not isinstance(features, Tensor):
                raise ValueError(
                    "a cache is for models that do not copy; this one has a copy mechanism"
                )
            each, past = cache.mix(
                each, features, part[:, 1:], past or cache.empty(features)
            )
        found.append(each[0])
        state = model.carried(state) or state
    return torch.cat(found) if found else model.zeros(0)


def _windowed(model: LanguageModel, tokens: Tensor, context: int) -> Tensor:
    count, step = len(tokens) - 1, max(1, context // 2)
    first = min(context, count)
    found, done = model.zeros(count), first
    if first:
        found[:first] = _last(model, tokens[None, : first + 1], first)[0]
    ends = [*range(first + step, count, step), count] if count > first else []

    def losses_of(some: list[int]) -> Tensor:
        windows = torch.stack([tokens[end - context : end + 1] for end in some])
        return _last(model, windows, step).cpu()

    groups = [ends[start : start + TOGETHER] for start in range(0, len(ends), TOGETHER)]
    for some, computed_losses in zip(groups, computed(losses_of, groups), strict=True):
        for end, each in zip(some, computed_losses, strict=True):
            found[done:end] = each[done - end :]
            done = end
    return found


def _last(
    model: LanguageModel, windows: Int[Tensor, "row position"], count: int
) -> Float[Tensor, "row last"]:
    """The losses of the last `count` tokens of each window, each window independent."""
    features, _ = model.run(windows[:, :-1], model.begin(len(windows)))
    assert isinstance(features, Tensor)
    return model.output.loss(features[:, -count:], windows[:, -count:])[1]
