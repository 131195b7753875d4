"""A sentence-transformers folder (Reimers and Gurevych 2019, 1908.10084): modules that make one vector of the states of
a text. No module of another library is loaded, and none runs code of its own."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, cast

import torch
from tokenizers.normalizers import Lowercase
from torch import Tensor, nn
from torch.nn import functional

from regard.errors import InputError
from regard.hub.any_model.inputs import (
    MODULES,
    PROMPTS,
    Example,
    Inputs,
    Loaded,
    cut_inputs,
    inputs_of,
    list_modules,
    module_folder,
)
from regard.shapes import Float
from regard.storage.published_folder import CONFIG, WEIGHTS, PublishedFolder

FAMILIES = (
    "bert",
    "roberta",
    "distilbert",
    "camembert",
    "albert",
    "xlm-roberta",
    "xlnet",
)
"""Each may give its name to the file of the first module's settings."""
OWN = "sentence_transformers."
"""What the names of the library's own modules begin with."""
POOLING = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}
"""Keys of older files, in the order of the vector's parts, and the names of today's."""
ACTIVATIONS: Mapping[str, type[nn.Module]] = {
    each.__name__: each
    for each in (nn.Identity, nn.Tanh, nn.ReLU, nn.GELU, nn.Sigmoid, nn.SiLU)
}
VECTOR = "sentence_embedding"
Vector = Float[Tensor, " component"]
Step = Callable[[Vector], Vector]


@dataclass(frozen=True)
class Pooling:
    """One vector of the states of a text: the vectors of the `modes`, one after another. `prompted`: the states of the
    prompt count too."""

    modes: tuple[str, ...]
    prompted: bool = True

    def __call__(self, states: Float[Tensor, "token width"], prompt: int) -> Vector:
        """Pool the states, of which the first `prompt` are a prompt's. Raises InputError where no other is left."""
        kept = states if self.prompted else states[prompt:]
        if not len(kept):
            raise InputError("the text has no token beside the prompt; write a text")
        return torch.cat(
            [_pooled(mode, kept, len(states) - len(kept)) for mode in self.modes]
        )


@dataclass(frozen=True)
class SentenceModules:
    """How a folder makes vectors: texts are cut to `longest` tokens, in small letters with `lower`; `pooling` and then
    the `steps`; `prompts` by name, of which `default` precedes a text."""

    pooling: Pooling
    steps: tuple[Step, ...] = ()
    longest: int | None = None
    lower: bool = False
    prompts: Mapping[str, str] = field(default_factory=dict)
    default: str | None = None

    def prompt(self, name: str | None) -> str:
        """The prompt of this name, or the default's. Raises InputError for an unknown name."""
        chosen = name or self.default
        if chosen is not None and chosen not in self.prompts:
            known = ", ".join(self.prompts) or "none"
            raise InputError(f"prompt is {chosen!r}; the model's prompts are: {known}")
        return "" if chosen is None else self.prompts[chosen]

    def vector(self, states: Float[Tensor, "token width"], prompt: int) -> Vector:
        """The vector of a text's states, of which the first `prompt` are a prompt's."""
        values = self.pooling(states.float(), prompt)
        for step in self.steps:
            values = step(values)
        return values


def read_modules(folder: PublishedFolder) -> SentenceModules | None:
    """The modules of a folder; None in a folder without them. Raises InputError for a module that regard does not
    compute."""
    if not folder.has(MODULES):
        return None
    kinds = [
        (_kind(item, folder), module_folder(folder, item))
        for item in list_modules(folder)
    ]
    if [kind for kind, _ in kinds[:2]] != ["Transformer", "Pooling"]:
        first = ", ".join(kind for kind, _ in kinds[:2])
        raise InputError(
            f"{folder.path / MODULES}: begins with {first}; regard computes Transformer and Pooling, then Dense, "
            "LayerNorm and Normalize"
        )
    steps = tuple(STEPS[_known(kind, folder)](place) for kind, place in kinds[2:])
    texts = _optional(folder, PROMPTS)
    prompts = {
        str(name): text
        for name, text in (texts.values.get("prompts") or {}).items()
        if text is not None
    }
    longest, lower = _limits(kinds[0][1])
    return SentenceModules(
        _pooling(kinds[1][1]),
        steps,
        longest,
        lower,
        prompts,
        texts.values.get("default_prompt_name"),
    )


def _kind(module: Mapping[str, Any], folder: PublishedFolder) -> str:
    """The name of a module's class. Raises InputError for one of another library."""
    name = str(module.get("type"))
    if not name.startswith(OWN):
        raise InputError(
            f"{folder.path / MODULES}: the module {name!r} needs code of its own, which regard never runs"
        )
    return name.rpartition(".")[2]


def _known(kind: str, folder: PublishedFolder) -> str:
    if kind not in STEPS:
        raise InputError(
            f"{folder.path / MODULES}: has the module {kind} after Pooling; regard computes {', '.join(STEPS)}"
        )
    return kind


@dataclass(frozen=True)
class ModuleSettings:
    """The values of a module's file; `place` names the file in messages."""

    values: Mapping[str, Any]
    place: str

    def read(self, key: str, kind: type) -> Any:
        """Return a value, or None. Raises InputError for one of another type."""
        value = self.values.get(key)
        if value is not None and type(value) is not kind:
            raise InputError(
                f"{self.place}: {key} is {value!r}; expected a {kind.__name__}"
            )
        return value


def _optional(folder: PublishedFolder, name: str) -> ModuleSettings:
    """Return the settings in a file; none without it."""
    values = folder.json(name) if folder.has(name) else {}
    return ModuleSettings(values, str(folder.path / name))


def _limits(folder: PublishedFolder) -> tuple[int | None, bool]:
    """The most tokens of a text and whether it is put in small letters. Raises InputError for a model that reads
    something else than texts."""
    names = [f"sentence_{family}_config.json" for family in FAMILIES]
    values = _optional(
        folder, next((name for name in names if folder.has(name)), names[0])
    )
    task = values.values.get("transformer_task", "feature-extraction")
    if task != "feature-extraction":
        raise InputError(
            f"{values.place}: transformer_task is {task!r}; regard computes 'feature-extraction' only"
        )
    longest = values.read("max_seq_length", int)
    return longest, bool(values.read("do_lower_case", bool))


def _pooling(folder: PublishedFolder) -> Pooling:
    values = _optional(folder, CONFIG)
    older = tuple(mode for key, mode in POOLING.items() if values.values.get(key))
    named = values.values.get("pooling_mode", older or "mean")
    modes = (named,) if isinstance(named, str) else tuple(named)
    if unknown := [mode for mode in modes if mode not in POOLING.values()]:
        raise InputError(
            f"{values.place}: pooling_mode is {unknown[0]!r}; regard computes {', '.join(POOLING.values())}"
        )
    prompted = values.values.get("include_prompt", True)
    return Pooling(modes, prompted is not False)


def _pooled(mode: str, states: Float[Tensor, "token width"], before: int) -> Vector:
    """The vector of one mode; `before` is the number of states in front that do not count."""
    match mode:
        case "cls":
            return states[0]
        case "lasttoken":
            return states[-1]
        case "max":
            return states.amax(0)
        case "mean":
            return states.mean(0)
        case "mean_sqrt_len_tokens":
            return states.sum(0) / len(states) ** 0.5
        case _:
            weights = (
                torch.arange(
                    1, len(states) + 1, device=states.device, dtype=states.dtype
                )
                + before
            )
            return weights @ states / weights.sum()


def _dense(folder: PublishedFolder) -> Step:
    values, weights = _optional(folder, CONFIG), _weights(folder, "linear.weight")
    _reads_vector(values)
    name = str(
        values.values.get("activation_function", "torch.nn.modules.activation.Tanh")
    )
    kind = name.rpartition(".")[2]
    if not name.startswith("torch.nn.") or kind not in ACTIVATIONS:
        raise InputError(
            f"{values.place}: activation_function is {name!r}; regard computes {', '.join(ACTIVATIONS)}"
        )
    activation = ACTIVATIONS[kind]()
    weight, bias = weights["linear.weight"], weights.get("linear.bias")
    across = weights.get("residual.weight")

    def dense(vector: Vector) -> Float[Tensor, " mapped"]:
        mapped = activation(functional.linear(vector, weight, bias))
        if not values.values.get("use_residual"):
            return mapped
        return mapped + (
            vector if across is None else functional.linear(vector, across)
        )

    return dense


def _layer_norm(folder: PublishedFolder) -> Step:
    weights = _weights(folder, "norm.weight", "norm.bias")
    weight, bias = weights["norm.weight"], weights["norm.bias"]
    return lambda vector: functional.layer_norm(vector, weight.shape, weight, bias)


def _normalize(folder: PublishedFolder) -> Step:
    _reads_vector(_optional(folder, CONFIG))
    return lambda vector: functional.normalize(vector, dim=-1)


def _same(folder: PublishedFolder) -> Step:
    """Dropout, which changes nothing outside training."""
    return lambda vector: vector


STEPS: Mapping[str, Callable[[PublishedFolder], Step]] = {
    "Dense": _dense,
    "LayerNorm": _layer_norm,
    "Normalize": _normalize,
    "Dropout": _same,
}
"""The modules after pooling."""


def _weights(folder: PublishedFolder, *needed: str) -> dict[str, Tensor]:
    """The tensors of a module in full precision. Raises InputError for a pickle, and where a needed one is missing."""
    values = folder.tensors()
    if missing := [name for name in needed if name not in values]:
        raise InputError(
            f"{folder.path / WEIGHTS}: has no tensor {missing[0]}; download it again"
        )
    return values


def _reads_vector(values: ModuleSettings) -> None:
    """Raises InputError for a module that reads or writes something else than the vector."""
    for key in ("module_input_name", "module_output_name"):
        if values.values.get(key) not in (None, VECTOR):
            raise InputError(
                f"{values.place}: {key} is {values.values[key]!r}; regard computes {VECTOR!r} only"
            )


def prompt_tokens(tokenizer: Any, ids: Sequence[int]) -> int:
    """The number of tokens of a prompt, encoded by itself, without a special token at its end."""
    special = cast("Sequence[int]", tokenizer.all_special_ids)
    return len(ids) - (len(ids) > 0 and ids[-1] in special)


class Embedding:
    """A vector for each example, `(example, width)`: of a sentence-transformers folder that of its modules, with one of
    its prompts; of another model, or with `pool`, the mean or the first of the last states.

    Raises:
        InputError: an example that the model cannot take, and a module or a prompt that there is not.
    """

    def __init__(self, loaded: Loaded):
        self.loaded = loaded

    @cached_property
    def modules(self) -> SentenceModules | None:
        """The modules of a sentence-transformers folder."""
        return None if self.loaded.folder is None else read_modules(self.loaded.folder)

    @property
    def prompts(self) -> Mapping[str, str]:
        """The prompts of a sentence-transformers folder by name."""
        return {} if self.modules is None else self.modules.prompts

    @torch.no_grad()
    def __call__(
        self,
        examples: Sequence[Example],
        *,
        pool: Literal["mean", "first"] | None = None,
        prompt: str | None = None,
    ) -> Tensor:
        """See the class."""
        modules = self.modules if pool is None else None
        if modules is not None:
            return torch.stack(
                [
                    self._sentence(modules, str(text), modules.prompt(prompt))
                    for text in examples
                ]
            )
        if prompt is not None:
            raise InputError(
                f"{self.loaded.name} has no prompt for such a vector; leave --prompt or --pool out"
            )
        values = []
        for item in examples:
            states = self._states(inputs_of(self.loaded, item))
            values.append(states[0] if pool == "first" else states.mean(0))
        return torch.stack(values).float()

    def _sentence(self, modules: SentenceModules, text: str, prompt: str) -> Tensor:
        """The vector of one text behind a prompt."""

        def inputs(text: str) -> Inputs:
            text = Lowercase().normalize_str(text) if modules.lower else text
            return cut_inputs(
                self.loaded.tokenizer, self.loaded.model, text, modules.longest
            )

        before = (
            prompt_tokens(self.loaded.tokenizer, inputs(prompt).text or ())
            if prompt
            else 0
        )
        return modules.vector(self._states(inputs(prompt + text)), before)

    def _states(self, inputs: Inputs) -> Tensor:
        """The last states of an example, `(token, width)`; of an encoder-decoder those of its encoder."""
        pairs = self.loaded.model.config.is_encoder_decoder
        model = inputs.model.get_encoder() if pairs else inputs.model.base_model
        return model(**inputs.tensors).last_hidden_state[0]
