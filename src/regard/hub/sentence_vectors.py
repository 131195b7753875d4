"""Sentence-transformers folders (Reimers and Gurevych 2019, 1908.10084).

Their modules turn the states of a text into one vector: pooling, then dense layers and
norms. Only modules of sentence-transformers itself are read, and regard computes them
itself: no code of the folder or of that library runs.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from regard.errors import InputError
from regard.shapes import Float
from regard.storage.published_folder import CONFIG, WEIGHTS, PublishedFolder

MODULES, PROMPTS = "modules.json", "config_sentence_transformers.json"
LIMITS = "sentence_bert_config.json"
PUBLISHER = "sentence_transformers."
"""The beginning of the names of the library's own modules."""
Vector = Float[Tensor, " component"]
Step = Callable[[Vector], Vector]

POOLING: Mapping[str, Callable[[Tensor], Tensor]] = {
    "cls": lambda states: states[0],
    "max": lambda states: states.amax(0),
    "mean": lambda states: states.mean(0),
    "lasttoken": lambda states: states[-1],
}
"""The ways to pool the states of a text, by their names in files."""
OLD_NAMES = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_lasttoken": "lasttoken",
}
"""Keys of older files and their modes, in the order of the vector's parts."""
ACTIVATIONS = {
    f"torch.nn.modules.activation.{kind.__name__}": kind
    for kind in (nn.Tanh, nn.ReLU, nn.GELU, nn.Sigmoid, nn.SiLU)
} | {"torch.nn.modules.linear.Identity": nn.Identity}
STEPS = ("Dense", "Normalize", "Dropout")
"""The modules after pooling; dropout changes nothing outside training."""


@dataclass(frozen=True)
class SentenceModules:
    """The modules of a folder.

    Attributes:
        modes: The ways to pool states; their vectors are joined.
        steps: The functions applied to the pooled vector, in order.
        longest: The maximum number of tokens of a text; None: the tokenizer's.
        lower: Whether texts are lowercased.
        prompts: The prompts by name.
        default: The name of the prompt that precedes a text by default.
        is_mean: Whether the vector is the mean of the states, or its direction.
    """

    modes: tuple[str, ...]
    steps: tuple[Step, ...]
    longest: int | None
    lower: bool
    prompts: Mapping[str, str]
    default: str | None
    is_mean: bool

    def prompt(self, name: str | None) -> str:
        """Return the prompt of a name; without one, the default prompt, if any.

        Raises:
            InputError: There is no such prompt.
        """
        name = name or self.default
        if name is not None and name not in self.prompts:
            names = ", ".join(self.prompts) or "none"
            raise InputError(f"prompt is {name!r}; the model's prompts are: {names}")
        return "" if name is None else self.prompts[name]

    def encode(self, run: Any, text: str) -> Any:
        """Return the inputs of a text, cut at the maximum number of tokens."""
        limit = run.tokenizer.model_max_length
        limit = min(self.longest or limit, limit)
        text = text.lower() if self.lower else text
        # a tokenizer without a limit reports about 1e30, more than it accepts itself
        batch = run.tokenizer(
            text, return_tensors="pt", truncation=True, max_length=min(limit, 10**9)
        )
        return run.read_text(batch, text)

    def vector(self, states: Float[Tensor, "token width"]) -> Vector:
        """Return the vector of the states of a text with its prompt."""
        vector = torch.cat([POOLING[mode](states.float()) for mode in self.modes])
        for step in self.steps:
            vector = step(vector)
        return vector


def list_modules(folder: PublishedFolder) -> list[tuple[str, PublishedFolder]]:
    """Return the name of each module's class, and its folder.

    Raises:
        InputError: The file has no list of modules, or one needs code of its own.
    """
    file = folder.path / MODULES
    entries = folder.json(MODULES, list)
    if not entries or not all(isinstance(entry, dict) for entry in entries):
        raise InputError(f"{file}: expected a list of modules")
    modules = []
    for entry in entries:
        name = str(entry.get("type"))
        if not name.startswith(PUBLISHER):
            raise InputError(
                f"{file}: the module {name!r} needs code of its own, which regard never "
                "runs"
            )
        path = folder.path / str(entry.get("path", ""))
        module = PublishedFolder(path, folder.root or folder.path)
        module.file(CONFIG)  # refuses a path that leads out of the folder
        modules.append((name.rpartition(".")[2], module))
    return modules


def read_modules(folder: PublishedFolder) -> SentenceModules | None:
    """Return the modules of a folder; None for a folder without them.

    Raises:
        InputError: A module computes something that regard does not.
    """
    if not folder.has(MODULES):
        return None
    modules = list_modules(folder)
    names = [name for name, _ in modules]
    if names[:2] != ["Transformer", "Pooling"] or {*names[2:]} - {*STEPS}:
        raise InputError(
            f"{folder.path / MODULES}: has the modules {', '.join(names)}; regard "
            f"computes Transformer and Pooling, then {', '.join(STEPS)}"
        )
    (_, transformer), (_, pooling), *later = modules
    limits = transformer.json(LIMITS) if transformer.has(LIMITS) else {}
    require(transformer, LIMITS, limits, transformer_task="feature-extraction")
    values = pooling.json(CONFIG) if pooling.has(CONFIG) else {}
    unknown = {
        key: False
        for key in values
        if key.startswith("pooling_mode_") and key not in OLD_NAMES
    }
    require(
        pooling,
        CONFIG,
        values,
        include_prompt=True,
        **unknown,
    )
    old_modes = [mode for key, mode in OLD_NAMES.items() if values.get(key)]
    modes = values.get("pooling_mode", old_modes or ["mean"])
    modes = [modes] if isinstance(modes, str) else modes
    for mode in modes:
        if mode not in POOLING:
            require(pooling, CONFIG, {"pooling_mode": mode}, pooling_mode="mean")
    about = folder.json(PROMPTS) if folder.has(PROMPTS) else {}
    prompts = about.get("prompts") or {}
    return SentenceModules(
        tuple(modes),
        tuple(build_step(name, module) for name, module in later),
        limits.get("max_seq_length"),
        bool(limits.get("do_lower_case")),
        {name: prompt for name, prompt in prompts.items() if prompt is not None},
        about.get("default_prompt_name"),
        modes == ["mean"] and "Dense" not in names,
    )


def require(
    folder: PublishedFolder, file: str, values: Mapping[str, Any], **supported: Any
) -> None:
    """Check that each setting in a file is missing or has the supported value.

    Raises:
        InputError: It has another value.
    """
    for key, value in supported.items():
        if values.get(key, value) != value:
            raise InputError(
                f"{folder.path / file}: {key} is {values[key]!r}; regard computes {value}"
            )


def build_step(name: str, folder: PublishedFolder) -> Step:
    """Return the function that a module after pooling applies to a vector.

    Raises:
        InputError: The module has an option that regard does not support, or no weight.
    """
    if name == "Dropout":
        return lambda vector: vector
    if name == "Normalize":
        return lambda vector: functional.normalize(vector, dim=-1)
    values = folder.json(CONFIG)
    require(folder, CONFIG, values, use_residual=False)
    activation = values.get("activation_function", next(iter(ACTIVATIONS)))
    if activation not in ACTIVATIONS:
        supported = ", ".join(ACTIVATIONS)
        require(folder, CONFIG, values, activation_function=supported)
    tensors = folder.tensors()
    if "linear.weight" not in tensors:
        raise InputError(f"{folder.path / WEIGHTS}: has no tensor linear.weight")
    function = ACTIVATIONS[activation]()
    weight = tensors["linear.weight"]
    bias = tensors.get("linear.bias")
    return lambda vector: function(functional.linear(vector, weight, bias))
