"""Search by CTranslate2, which is faster than PyTorch on a CPU."""

import logging
import math
import os
import threading
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import nn

from regard.attention.observer import current_observer
from regard.data.tokens import Tokenizers
from regard.decoding.constraints import DecodingConstraints
from regard.decoding.hypothesis import Hypothesis, LengthPenalty, NoTokenError
from regard.decoding.search import Search
from regard.errors import InputError, RunError
from regard.nn.ctranslate2 import MAX_POSITIONS, save_transformer, supports_model
from regard.nn.decoders import EncoderDecoder
from regard.nonfinite import is_debugging
from regard.storage.atomic import discard, explain_errors

FOLDER = "ctranslate2"
"""The folder of converted weights inside the folder of a run."""
log = logging.getLogger(__name__)


class Engine:
    """A trained Transformer converted to CTranslate2.

    The weights are converted at the first search that the engine supports, into
    `folder/ctranslate2/KEY`. They are used until a weight is changed in memory.
    """

    def __init__(
        self,
        model: EncoderDecoder,
        tokenizers: Tokenizers,
        folder: Path,
        key: str,
        *,
        int8: bool = False,
    ) -> None:
        """Prepare a model for which `can_convert` is true.

        Args:
            model: The model.
            tokenizers: Its tokenizers.
            folder: The folder of the run.
            key: A digest of the run's files.
            int8: Whether to multiply in 8-bit integers.
        """
        self.model = model
        self.tokenizers = tokenizers
        self.int8 = int8
        self.parent = folder / FOLDER
        self.key = key
        self._source_names = [*tokenizers.source.vocabulary]
        self._target_ids = tokenizers.target.vocabulary
        self._versions = weight_versions(model)
        self._lock = threading.Lock()
        self._translator: Any = None
        self._failed = False

    def supports(
        self,
        search: Search,
        constraints: DecodingConstraints | None = None,
    ) -> bool:
        """Whether the engine finds the same texts as the search in PyTorch.

        It knows no constraints, processors or penalties but that of the length. Nobody
        may observe the model, whose weights must be those of the run.

        Raises:
            InputError: The engine must be used, because it has 8-bit weights, and
                it doesn't support the search.
        """
        is_supported = supports_search(search, constraints)
        if self.int8 and not is_supported:
            raise InputError(
                "--int8 supports greedy and beam search for one text without further "
                "settings. Remove --int8 or the other options."
            )
        return (
            is_supported
            and not is_observed(self.model)
            and weight_versions(self.model) == self._versions
            and self._open() is not None
        )

    @torch.no_grad()
    def search(
        self,
        ids: Sequence[list[int]],
        search: Search,
    ) -> list[Hypothesis | None]:
        """Search for the best text of each source.

        Args:
            ids: The tokens of each source, without the end.
            search: Settings that `supports` accepts.

        Returns:
            A hypothesis for each source. None where the output reaches its limit or has
            a token that no text contains: the search in PyTorch knows how to go on.
        """
        lengths = torch.tensor([len(tokens) + 1 for tokens in ids])
        limits = search.limit(lengths).tolist()
        max_source = self.model.max_source or MAX_POSITIONS
        max_target = self.model.max_target or MAX_POSITIONS
        rows = [
            row
            for row, limit in enumerate(limits)
            if 0 < len(ids[row]) < max_source and limit <= max_target
        ]
        results: list[Hypothesis | None] = [None] * len(ids)
        if not rows:
            return results
        # Without a penalty, CTranslate2 ends a beam once its best hypothesis has ended;
        # with the slightest one, once as many hypotheses have ended as it is wide.
        exponent = 1e-6 if search.early_stopping else 0
        names = self._source_names
        outputs = self._open().translate_batch(
            [[names[token] for token in ids[row]] for row in rows],
            beam_size=search.beam,
            num_hypotheses=search.beam if search.early_stopping else 1,
            length_penalty=exponent,
            min_decoding_length=0,
            max_input_length=0,
            max_decoding_length=max(limits[row] for row in rows),
            return_scores=True,
            return_end_token=True,
        )
        penalty = LengthPenalty(search.length_penalty, search.length_offset)
        special = self.tokenizers.target.special
        for row, output in zip(rows, outputs, strict=True):
            hypotheses = []
            for names, score in zip(output.hypotheses, output.scores, strict=True):
                if not math.isfinite(score):
                    raise NoTokenError
                *tokens, last = [self._target_ids[name] for name in names]
                is_usable = last == special.end and len(names) <= limits[row]
                if is_usable and {*special.unwritten}.isdisjoint(tokens):
                    score = penalty(score * len(names) ** exponent, len(names))
                    hypotheses.append(Hypothesis(tuple(tokens), score, finished=True))
            if len(hypotheses) == len(output.scores):
                results[row] = max(hypotheses, key=lambda item: item.score)
        return results

    def _open(self) -> Any:
        """Return CTranslate2's translator, or None if it can't be written.

        Weights are converted first if necessary.
        """
        from ctranslate2 import Translator

        folder = self.parent / self.key
        with self._lock:
            if self._translator is None and not self._failed:
                try:
                    if not folder.is_dir():
                        self._convert(folder)
                    self._translator = Translator(
                        str(folder),
                        device="cpu",
                        compute_type="int8" if self.int8 else "float32",
                        intra_threads=torch.get_num_threads(),
                    )
                except RunError as error:
                    self._failed = True
                    if self.int8:
                        raise
                    log.warning("%s\nDecoding continues in PyTorch.", error)
            return self._translator

    def _convert(self, folder: Path) -> None:
        """Write the weights and remove those of earlier weights of the run.

        Raises:
            RunError: The folder can't be written.
        """
        temporary = self.parent / f"{self.key}.{os.getpid()}.tmp"
        with explain_errors(self.parent):
            try:
                temporary.mkdir(parents=True, exist_ok=True)
                tokenizers = self.tokenizers
                sides = tokenizers.source, tokenizers.target
                save_transformer(self.model, *sides, temporary)
                for path in list(self.parent.iterdir()):
                    if path.suffix != ".tmp" and path != folder:
                        discard(path)
                if not folder.is_dir():  # another process may have been faster
                    temporary.rename(folder)
            finally:
                discard(temporary)


def can_convert(model: nn.Module, tokenizers: Tokenizers) -> bool:
    """Whether the model can run in CTranslate2, and CTranslate2 is installed."""
    if not isinstance(model, EncoderDecoder) or find_spec("ctranslate2") is None:
        return False
    kinds = {(weight.device.type, weight.dtype) for weight in model.parameters()}
    return (
        supports_model(model)
        and model.decoder.output.out_features == tokenizers.target.size
        and not tokenizers.target.special.more_ends
        and not tokenizers.copying
        and kinds == {("cpu", torch.float32)}
    )


def supports_search(
    search: Search,
    constraints: DecodingConstraints | None = None,
) -> bool:
    """Whether CTranslate2 has all settings of a search, and ends it by the same rule.

    Without `early_stopping` our beam may go on for a longer text that a penalty of the
    length prefers, which CTranslate2's doesn't.
    """
    usual = Search(
        beam=search.beam,
        length_penalty=search.length_penalty,
        length_offset=search.length_offset,
        length_ratio=search.length_ratio,
        length_extra=search.length_extra,
        early_stopping=search.early_stopping,
        seed=search.seed,
    )
    if search != usual or constraints not in (None, DecodingConstraints()):
        return False
    return search.beam == 1 or search.early_stopping or search.length_penalty == 0


def weight_versions(model: nn.Module) -> list[tuple[int, int]]:
    """Return the address and PyTorch's counter of changes of each weight."""
    return [(weight.data_ptr(), weight._version) for weight in model.parameters()]


def is_observed(model: EncoderDecoder) -> bool:
    """Whether steps of the model are recorded, changed or checked."""
    if is_debugging() or current_observer() is not None or model.training:
        return True
    _, *parts = model.modules()
    return any(part._forward_hooks or part._forward_pre_hooks for part in parts)
