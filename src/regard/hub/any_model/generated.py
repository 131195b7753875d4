"""What a transformers model writes: the library's own generation under the options of `predict`."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from regard.errors import InputError, quoted
from regard.hub.any_model.folder import Loaded
from regard.hub.any_model.inputs import Inputs, positions
from regard.tasks.options import PredictOptions
from regard.tasks.prediction import ShortRepr, ranked


@dataclass(frozen=True, repr=False)
class Generated(ShortRepr):
    """A text that a model wrote: behind the prompt, or for the source of an encoder-decoder.

    score: its log-probability, of a beam as the library ranks it.
    finished: whether the model ended it.
    tokens: its pieces, the end included if it is finished; `ids` are theirs.
    """

    prompt: str
    text: str
    score: float
    finished: bool
    tokens: tuple[str, ...]
    ids: tuple[int, ...]
    alternatives: "tuple[Generated, ...]" = ()
    missing: tuple[str, ...] = ()

    def lines(self) -> list[str]:
        """The prompt with its continuation."""
        return f"{self.prompt}{self.text}".split("\n")

    def to_json(self) -> dict[str, Any]:
        """Plain values for JSON."""
        others = [each.to_json() for each in self.alternatives]
        values = {
            name: value
            for name, value in vars(self).items()
            if name not in ("ids", "missing")
        }
        return {**values, "tokens": list(self.tokens), "alternatives": others}


@torch.no_grad()
def generated(
    loaded: Loaded, inputs: Inputs, prompt: str, options: PredictOptions
) -> Generated:
    """The best text of a model for one example, with the others of `n_best`. Raises InputError for more tokens than the
    model has positions, and for more texts than the beam finds."""
    model, pairs = loaded.model, loaded.model.config.is_encoder_decoder
    known = inputs.text or ()
    settings = settings_of(model, len(known), options)
    with torch.random.fork_rng(
        devices=[model.device] if model.device.type == "cuda" else []
    ):
        torch.manual_seed(1 if options.seed is None else options.seed)
        found = model.generate(
            **inputs.tensors,
            **settings,
            return_dict_in_generate=True,
            output_scores=True,
        )
    ends = ends_of(model)
    sequences = found.sequences[:, 1 if pairs else len(known) :].tolist()
    texts = [_cut(sequence, ends) for sequence in sequences]
    scores = _scores(model, found, [len(ids) for ids in texts])
    every = [
        _of(loaded, prompt, () if pairs else known, tuple(ids), score, ends)
        for ids, score in zip(texts, scores, strict=True)
    ]
    first, *rest = every
    ordered = sorted(rest, key=lambda one: (not one.finished, -one.score))
    return ranked([first, *ordered], options.n_best)


def settings_of(model: Any, known: int, options: PredictOptions) -> dict[str, Any]:
    """The library's settings for the options, with `known` tokens of a prompt. Raises InputError as `generated`."""
    options.check()
    own, chosen = model.generation_config, options.chosen()
    limit = None if model.config.is_encoder_decoder else positions(model)
    tokens = options.tokens or own.max_new_tokens or 20
    if limit is not None and known + tokens > limit:
        room = max(0, limit - known)
        raise InputError(
            f"the prompt has {known} tokens and {tokens} more are requested, but the model has {limit:,} positions; "
            f"shorten it, or request at most {room} (--tokens {room})"
        )
    names = {"beam": "num_beams", "no_repeat": "no_repeat_ngram_size"}
    same = ("beam", "no_repeat", "repetition_penalty", "length_penalty")
    found: dict[str, Any] = {
        names.get(name, name): chosen[name] for name in same if name in chosen
    }
    found |= {"max_new_tokens": tokens, "num_return_sequences": options.n_best}
    found |= {"pad_token_id": own.pad_token_id if own.pad_token_id is not None else 0}
    if options.min_length:
        found["min_new_tokens"] = options.min_length - 1  # the library counts no end
    if options.end_at_limit and ends_of(model):
        found["forced_eos_token_id"] = min(ends_of(model))
    if options.temperature:
        sampling = {
            "temperature": options.temperature,
            "top_k": options.top_k or 0,
            "top_p": options.top_p or 1.0,
        }
        return found | {"do_sample": True, "num_beams": 1} | sampling
    if options.sampling.keys() - {"temperature"}:
        raise InputError(
            f"{min(options.sampling)} is for sampling; give a temperature too"
        )
    found |= {"do_sample": False} if options.beam or options.temperature == 0 else {}
    beam = found.get("num_beams", own.num_beams or 1)
    if not (options.n_best <= beam or (own.do_sample and "do_sample" not in found)):
        raise InputError(
            f"n_best is {options.n_best}; expected at most the beam, {beam} (--beam {options.n_best})"
        )
    return found


def ends_of(model: Any) -> set[int]:
    """The tokens that end a text."""
    ends = model.generation_config.eos_token_id
    return set() if ends is None else {*ends} if isinstance(ends, list) else {ends}


def _cut(ids: Sequence[int], ends: set[int]) -> list[int]:
    """The ids up to the first end, which is kept."""
    last = next((place for place, each in enumerate(ids) if each in ends), len(ids) - 1)
    return list(ids[: last + 1])


def _scores(model: Any, found: Any, lengths: Sequence[int]) -> list[float]:
    """The score of each sequence: of a beam its own, otherwise the sum of its tokens' log-probabilities."""
    if "sequences_scores" in found:
        return found.sequences_scores.tolist()
    steps: Tensor = model.compute_transition_scores(
        found.sequences, found.scores, normalize_logits=True
    )
    return [
        float(row[:length].sum()) for row, length in zip(steps, lengths, strict=True)
    ]


def _of(
    loaded: Loaded,
    prompt: str,
    known: tuple[int, ...],
    ids: tuple[int, ...],
    score: float,
    ends: set[int],
) -> Generated:
    """The text of some tokens behind the `known` ones of a prompt."""
    tokenizer = loaded.tokenizer
    if tokenizer is None:
        raise InputError(
            f"{loaded.name} has no tokenizer for what it writes, {quoted(str(ids[:5]))}"
        )
    before, whole = (
        tokenizer.decode(each, skip_special_tokens=True)
        for each in (known, (*known, *ids))
    )
    text = (
        whole.removeprefix(before)
        if whole.startswith(before)
        else tokenizer.decode(ids, skip_special_tokens=True)
    )
    pieces = tuple(str(each) for each in tokenizer.convert_ids_to_tokens(list(ids)))
    finished = bool(ids) and ids[-1] in ends
    return Generated(
        prompt if known else "",
        text if known else text.strip(),
        score,
        finished,
        pieces,
        ids,
    )
