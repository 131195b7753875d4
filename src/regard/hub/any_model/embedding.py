"""The vector of a text, an image or a sound by a transformers model."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Literal

import torch
from tokenizers.normalizers import Lowercase
from torch import Tensor

from regard.errors import InputError
from regard.hub.any_model.folder import Loaded
from regard.hub.any_model.inputs import Example, Inputs, cut_inputs, inputs_of
from regard.hub.any_model.sentences import SentenceModules, prompt_tokens, read_modules


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
        found = []
        for each in examples:
            states = self._states(inputs_of(self.loaded, each))
            found.append(states[0] if pool == "first" else states.mean(0))
        return torch.stack(found).float()

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
