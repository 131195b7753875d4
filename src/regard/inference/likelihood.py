"""How likely a language model finds a text, token by token."""

import torch
from torch import Tensor

from regard.inference.cache import Cache
from regard.models.language_model import LanguageModel
from regard.shapes import Float, Int

STRETCH = 512
"""Tokens that are read at a time where nothing limits them."""


@torch.no_grad()
def losses(
    model: LanguageModel, tokens: Int[Tensor, " position"], cache: Cache | None = None
) -> Float[Tensor, " rest"]:
    """-log p of each of the tokens but the first, given those before it, `(position - 1,)`.

    A model that carries its state reads the whole, perhaps with a cache beside it; one with a limited context reads it
    in windows that overlap by half, so that all but the first tokens are given at least half a context.

    Raises:
        ValueError: a cache for a model that has a limited context, or copies by itself.
    """
    device = next(model.parameters()).device
    tokens = tokens.to(device)
    if model.context is None:
        return _whole(model, tokens, cache)
    if cache is not None:
        raise ValueError("a cache needs a model that reads on and on; this one has a limited context")
    return _windowed(model, tokens, model.context)


def _whole(model: LanguageModel, tokens: Tensor, cache: Cache | None) -> Tensor:
    state, past, found = model.begin(1), None, []
    for start in range(0, len(tokens) - 1, STRETCH):
        part = tokens[start : start + STRETCH + 1][None]
        features, state = model.run(part[:, :-1], state)
        _, each = model.output.loss(features, part[:, 1:])
        if cache is not None:
            if not isinstance(features, Tensor):
                raise ValueError("a cache is for models that do not copy; this one does so by itself")
            each, past = cache.mix(each, features, part[:, 1:], past or cache.empty(features))
        found.append(each[0])
        state = model.carried(state) or state
    return torch.cat(found) if found else model.nothing(0)


def _windowed(model: LanguageModel, tokens: Tensor, context: int) -> Tensor:
    step = max(1, context // 2)
    ends = [*range(min(context, len(tokens) - 1), len(tokens) - 1, step), len(tokens) - 1]
    found, done = model.nothing(len(tokens) - 1), 0
    for end in ends:
        start = max(0, end - context)
        part = tokens[start : end + 1][None]
        (_, each), _ = model(part[:, :-1], model.begin(1), expected=part[:, 1:])
        found[done:end] = each[0, done - start :]
        done = end
    return found
