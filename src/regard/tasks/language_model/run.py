"""A trained language model, opened: `load(folder).generate(prompts)`."""

from collections.abc import Sequence

import torch

from regard.catalog import build_language_model
from regard.decoding.demand import Demand
from regard.decoding.prompted import Prompted
from regard.decoding.search import Search
from regard.errors import InputError
from regard.inference.cache import Cache
from regard.memory import Memory
from regard.models.language_model import LanguageModel
from regard.nonfinite import guarded
from regard.tasks.language_model.continuation import Continuation
from regard.tasks.language_model.run_file import LanguageModelling
from regard.tasks.language_model.task import figures
from regard.tasks.run import Run
from regard.text import Tokenizer
from regard.text.special import END
from regard.training.run_directory import RunDirectory

TOKENIZER = "tokenizer.json"


class LanguageModelRun(Run):
    """A trained model with its tokenizer and its run file."""

    def __init__(self, config: LanguageModelling, model: LanguageModel, tokenizer: Tokenizer):
        self.config, self.model, self.tokenizer = config, model, tokenizer

    @classmethod
    def open(cls, run: RunDirectory, config: LanguageModelling) -> "LanguageModelRun":
        """The run in a folder, its model with fresh weights. Raises InputError for a damaged tokenizer."""
        tokenizer = Tokenizer.load(run.file(TOKENIZER))
        return cls(config, build_language_model(config.model, tokenizer.size), tokenizer)

    def evaluate(self, examples: Sequence[str] | None = None, *, cache: Cache | None = None) -> dict[str, float]:
        """How well the model tells texts that follow one another, by default its own test set; with a `cache` beside
        it, if one is given.

        Raises:
            InputError: the run has no test set and no texts are given.
            ValueError: a cache for a model that has a limited context, or copies by itself.
        """
        texts = self.config.data.load().test if examples is None else examples
        if not texts:
            raise InputError("there is no test set in the run file and no file is given; give a file of text")
        with guarded(self.model):
            return figures(self.model, self.tokenizer, texts, cache)

    @torch.no_grad()
    def generate(
        self, prompts: Sequence[str], *, tokens: int = 100, search: Search | None = None, n_best: int = 1
    ) -> list[list[Continuation]]:
        """`n_best` ways to go on from each prompt by at most `tokens` tokens, best first. `search` replaces the run's
        own. Prompts of any lengths are read together.

        Raises:
            TypeError: `prompts` is one text; put it in a list.
            InputError: prompt and tokens are more than the model can take, or there is no room for a token.
            ValueError: the numbers of the search do not fit together.
        """
        if isinstance(prompts, str):
            raise TypeError("prompts is one str; give a list of them")
        if not prompts:
            return []
        search = self.config.search if search is None else search
        ids = [[END, *self.tokenizer.encode(prompt)] for prompt in prompts]
        self._check(prompts, ids, tokens)
        read = min(map(len, ids))  # all of the shortest in one pass; the rest of the others is forced
        rest = tuple(tuple(each[read:]) for each in ids)
        device = next(self.model.parameters()).device
        decoder = Prompted(self.model, torch.tensor([each[:read] for each in ids], device=device))
        limit = torch.tensor([len(each) + tokens for each in rest], device=device)
        nothing = torch.zeros(len(ids), 0, 1, device=device)
        with guarded(self.model):
            found = search(decoder, Memory(nothing, nothing), limit, Demand(n_best, rest))
        return [
            [Continuation.of(prompt, each, len(forced), self.tokenizer) for each in hypotheses]
            for prompt, forced, hypotheses in zip(prompts, rest, found, strict=True)
        ]

    def _check(self, prompts: Sequence[str], ids: Sequence[list[int]], tokens: int) -> None:
        """Raises InputError for what the model cannot take."""
        if tokens < 1:
            raise InputError(f"tokens is {tokens}; expected at least 1")
        context = self.model.context
        for prompt, each in zip(prompts, ids, strict=True):
            shown = prompt if len(prompt) < 40 else f"{prompt[:40]}..."
            if context is not None and len(each) + tokens - 1 > context:
                raise InputError(
                    f"the prompt {shown!r} has {len(each)} tokens and {tokens} are wanted behind it, but the model "
                    f"takes {context}; shorten it, or ask for at most {max(0, context - len(each) + 1)}"
                )
