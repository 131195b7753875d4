"""The laws of attention."""

from collections.abc import Collection
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from regard.attention.masks import as_mask, causal, padding
from regard.attention.memory import Memory
from regard.attention.record import record
from regard.testing.laws import TOLERANCES, Pairs, hold


def check_attention(
    module: nn.Module,
    *,
    widths: tuple[int | None, int | None, int | None] | None = None,
    queries: int = 127,
    keys: int = 131,
    without: Collection[str] = (),
    dtype: torch.dtype = torch.float64,
    tolerance: float | None = None,
) -> None:
    """Test a module against the laws of attention.

    The module has the signature `module(query, memory) -> context`, such as `Attend` and
    `MultiHead`.

    Args:
        widths: Of queries, keys and values, None for any. Default `module.widths`, else
            any.
        queries: Largest number of queries, at least 1.
        keys: Largest number of keys, at least 7. The default is large enough for windows.
        without: Laws that the module breaks on purpose:
            `the_order_of_keys_changes_nothing` if it uses the positions of keys,
            `a_key_hidden_from_one_query_is_inert_for_it` if a query depends on earlier
            ones, `rows_of_weights_sum_to_one` if its weights do not or it gives none to
            `record`.
        dtype: The dtype of the test.
        tolerance: Absolute and relative. Default `regard.testing.laws.TOLERANCES`:
            1e-12 in float64, 1e-5 in float32, 5e-3 in float16, 5e-2 in bfloat16.

    Raises:
        AssertionError: A law is broken; the message names it.
        ValueError: `without` names no law.
    """
    laws = {law.__name__: law for law in LAWS}
    unknown = sorted({*without} - {*laws})
    if unknown:
        names = ", ".join(laws)
        raise ValueError(f"without names {unknown}; the laws are {names}")
    query, key, value = widths or getattr(module, "widths", (None, None, None))
    filled = query or key or 8, key or query or 8, value or 8
    copied = deepcopy(module).to(dtype).eval()
    subject = Subject(copied, filled, (queries, keys), dtype)
    for name in without:
        laws.pop(name, None)
    if tolerance is None:
        tolerance = TOLERANCES[dtype]
    hold([*laws.values()], subject, tolerance)


@dataclass(frozen=True)
class Subject:
    """The module under test and a source of its inputs."""

    module: nn.Module
    widths: tuple[int, int, int]
    largest: tuple[int, int]
    dtype: torch.dtype
    generator: torch.Generator = field(
        default_factory=lambda: torch.Generator().manual_seed(0)
    )

    @property
    def device(self) -> torch.device:
        for parameter in self.module.parameters():
            return parameter.device
        return torch.device("cpu")

    def draw(
        self,
        batch: int,
        queries: int,
        keys: int,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Query, key and value from a normal distribution."""
        query_width, key_width, value_width = self.widths
        query = self._draw_normal(batch, queries, query_width)
        key = self._draw_normal(batch, keys, key_width)
        value = self._draw_normal(batch, keys, value_width)
        return query, key, value

    def _draw_normal(self, *shape: int) -> Tensor:
        drawn = torch.randn(shape, generator=self.generator, dtype=torch.float64)
        return drawn.to(self.device, self.dtype)

    def mask(self, batch: int, queries: int, keys: int) -> Tensor:
        """Return a random mask under which every query may attend to the first key."""
        allowed = torch.rand(batch, queries, keys, generator=self.generator) < 0.6
        allowed[..., :1] = True
        return allowed.to(self.device)

    def read(
        self, query: Tensor, key: Tensor, value: Tensor, mask: Any = None
    ) -> Tensor:
        allowed = None if mask is None else as_mask(mask)
        return self.module(query, Memory(key, value, allowed))

    def outcome(
        self, query: Tensor, key: Tensor, value: Tensor, mask: Any = None
    ) -> list[Tensor]:
        """Return the context and the gradients of a weighted sum of it."""
        query = query.detach().requires_grad_()
        key = key.detach().requires_grad_()
        value = value.detach().requires_grad_()
        context = self.read(query, key, value, mask)
        parameters = self.module.parameters()
        leaves = [query, key, value]
        leaves += [leaf for leaf in parameters if leaf.requires_grad]
        pull = torch.linspace(-1, 1, context.numel())
        pull = pull.view_as(context).to(context)
        gradients = torch.autograd.grad(context, leaves, pull, materialize_grads=True)
        return [context.detach(), *gradients]


def a_key_hidden_from_all_is_inert(subject: Subject) -> Pairs:
    """Its content has no effect on values and gradients, even NaN and infinity."""
    query, key, value = subject.draw(2, 3, 7)
    mask = subject.mask(2, 3, 7)
    mask[..., [2, 6]] = False
    hidden = ~mask.any(1)[..., None]
    broken_key = key.masked_fill(hidden, torch.nan)
    broken_value = value.masked_fill(hidden, torch.inf)
    broken = subject.outcome(query, broken_key, broken_value, mask)
    intact = subject.outcome(query, key, value, mask)
    yield from zip(broken, intact, strict=True)


def a_key_hidden_from_one_query_is_inert_for_it(subject: Subject) -> Pairs:
    """Check that the query's result does not depend on this key and its value.

    Other queries may attend to them.
    """
    query, key, value = subject.draw(2, 5, 7)
    mask = subject.mask(2, 5, 7)
    mask[:, 0, 3] = False
    mask[:, 1, 3] = True
    before = subject.read(query, key, value, mask)
    _, new_key, new_value = subject.draw(2, 5, 7)
    changed = torch.arange(7, device=key.device) == 3
    changed = changed[:, None]
    key = torch.where(changed, new_key, key)
    value = torch.where(changed, new_value, value)
    after = subject.read(query, key, value, mask)
    blind = ~mask[:, :, 3]
    yield after[blind], before[blind]


def a_query_that_may_read_nothing_gets_a_constant(subject: Subject) -> Pairs:
    """Check that it gets zero, or the bias of the output layer if there is one.

    Gradients are finite.
    """
    mask = subject.mask(2, 3, 5)
    mask[0, 1] = False
    mask[1] = False
    blind = ~mask.any(-1)
    context, *gradients = subject.outcome(*subject.draw(2, 3, 5), mask)
    again, *_ = subject.outcome(*subject.draw(2, 3, 5), mask)
    constant = context[blind]
    yield constant, again[blind]
    yield constant, constant[:1].expand_as(constant)
    of_blind = gradients[0][blind]
    yield of_blind, torch.zeros_like(of_blind)
    for gradient in gradients:
        yield gradient * 0, torch.zeros_like(gradient)


def padding_and_batch_size_change_nothing(subject: Subject) -> Pairs:
    """Compare each row of a padded batch, an empty one included, with itself alone."""
    query, key, value = subject.draw(4, 3, 7)
    lengths = [5, 1, 7, 0]
    mask = padding(torch.tensor(lengths, device=query.device), 7)
    together = subject.read(query, key, value, mask)
    for row, length in enumerate(lengths):
        rows = slice(row, row + 1)
        row_key = key[rows, :length]
        row_value = value[rows, :length]
        alone = subject.read(query[rows], row_key, row_value)
        yield together[rows], alone


def no_position_sees_its_future(subject: Subject) -> Pairs:
    """With a causal mask no output depends on a later key or value.

    Structured and dense masks agree.
    """
    sides = [side.requires_grad_() for side in subject.draw(2, 5, 5)]
    mask = causal(5, device=subject.device)
    query, key, value = sides
    context = subject.read(query, key, value, mask)
    dense = mask.dense()
    yield context, subject.read(query, key, value, dense)
    for now in range(1, 5):
        past = context[:, :now].sum()
        gradients = torch.autograd.grad(
            past, sides, retain_graph=True, materialize_grads=True
        )
        for gradient in gradients:
            future = gradient[:, now:]
            yield future, torch.zeros_like(future)


def recording_changes_nothing(subject: Subject) -> Pairs:
    """Unrecorded, a large memory may use a fused kernel.

    Recorded, the weights are computed. Both agree.
    """
    sizes = dict.fromkeys(((3, 7), subject.largest))
    for queries, keys in sizes:
        inputs = subject.draw(2, queries, keys)
        lengths = torch.tensor([keys, keys - 2], device=subject.device)
        padded = padding(lengths, keys)
        mask = subject.mask(2, queries, keys)
        mask[1, 0] = False
        for limits in (None, padded, mask):
            unrecorded = subject.outcome(*inputs, limits)
            with record(subject.module, may_be_empty=True):
                recorded = subject.outcome(*inputs, limits)
                yield from zip(recorded, unrecorded, strict=True)


def every_size_works(subject: Subject) -> Pairs:
    """No sequence, no query, no key, and one of each: context and gradients are finite."""
    sizes = (0, 3, 5), (2, 0, 5), (2, 3, 0), (1, 1, 1)
    for batch, queries, keys in sizes:
        inputs = subject.draw(batch, queries, keys)
        results = subject.outcome(*inputs)
        context = results[0]
        shape = context.shape[2:]
        yield context, context.view(batch, queries, *shape)
        for result in results:
            yield result * 0, torch.zeros_like(result)


def the_order_of_keys_changes_nothing(subject: Subject) -> Pairs:
    """Permute keys, values and mask."""
    query, key, value = subject.draw(2, 3, 7)
    mask = subject.mask(2, 3, 7)
    order = torch.randperm(7, generator=subject.generator).to(key.device)
    context = subject.read(query, key, value, mask)
    key, value, mask = key[:, order], value[:, order], mask[..., order]
    yield subject.read(query, key, value, mask), context


def rows_of_weights_sum_to_one(subject: Subject) -> Pairs:
    """Check that weights are not negative, 0 where masked, and sum to 1 elsewhere."""
    mask = subject.mask(2, 3, 7)
    mask[0, 1] = False
    inputs = subject.draw(2, 3, 7)
    with record(subject.module, may_be_empty=True) as maps:
        subject.read(*inputs, mask)
    if not maps:
        raise AssertionError(
            "rows of weights sum to one: the module handed none to regard.record; leave the law out"
        )
    for weights in maps.values():
        allowed = mask if weights.ndim == mask.ndim else mask[:, None]
        totals = allowed.any(-1).to(weights)
        sums = weights.sum(-1)
        yield sums, totals.expand(sums.shape)
        positive = weights.clamp(min=0)
        yield positive * allowed, weights


LAWS = (
    a_key_hidden_from_all_is_inert,
    a_key_hidden_from_one_query_is_inert_for_it,
    a_query_that_may_read_nothing_gets_a_constant,
    padding_and_batch_size_change_nothing,
    no_position_sees_its_future,
    recording_changes_nothing,
    every_size_works,
    the_order_of_keys_changes_nothing,
    rows_of_weights_sum_to_one,
)
