"""Search by a model that was converted to CTranslate2, without PyTorch.

A run that was converted before answers without PyTorch, whose import takes longer than a
prediction.
"""

import json
import math
from collections.abc import Sequence
from ctypes import c_float
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from regard.decoding.hypothesis import Hypothesis, LengthPenalty, NoTokenError
from regard.errors import InputError
from regard.storage.verified_files import MANIFEST, Manifest
from regard.text import Tokenizer
from regard.text.kinds import REPLACEMENT

FOLDER = "ctranslate2"
"""The folder of converted weights inside the folder of a run."""
SETTINGS = "regard.json"
"""The file beside converted weights with the run's search and its files."""


@dataclass(frozen=True)
class SearchSettings:
    """The settings of a search that CTranslate2 knows.

    Attributes:
        max_source: The most tokens of a source, the end included.
        max_target: The most tokens of an output.

    The others are those of `regard.decoding.search.Search`.
    """

    beam: int
    early_stopping: bool
    length_penalty: float
    length_offset: float
    length_ratio: float
    length_extra: int
    max_source: int
    max_target: int

    def limit(self, length: int) -> int:
        """Return the most tokens of an output for a source, as PyTorch rounds it."""
        product = c_float(length * c_float(self.length_ratio).value).value
        return int(product) + self.length_extra


class ConvertedModel:
    """A converted model with its tokenizers."""

    def __init__(
        self,
        folder: Path,
        source: Tokenizer,
        target: Tokenizer,
        *,
        int8: bool = False,
        threads: int = 0,
    ) -> None:
        """Open a model.

        Args:
            folder: The folder of the converted weights.
            source: The tokenizer of sources.
            target: The tokenizer of outputs.
            int8: Whether to multiply in 8-bit integers.
            threads: The number of threads; 0 is CTranslate2's choice.
        """
        from ctranslate2 import Translator

        self.source, self.target = source, target
        self._source_names = [*source.vocabulary]
        self._target_ids = target.vocabulary
        self._translator: Any = Translator(
            str(folder),
            device="cpu",
            compute_type="int8" if int8 else "float32",
            intra_threads=threads,
        )

    def search(
        self, ids: Sequence[list[int]], settings: SearchSettings
    ) -> list[Hypothesis | None]:
        """Search for the best text of each source.

        Args:
            ids: The tokens of each source, without the end.
            settings: The settings of the search.

        Returns:
            A hypothesis for each source. None where the output reaches its limit or has
            a token that no text contains: the search in PyTorch knows how to go on.

        Raises:
            InputError: CT2_FORCE_CPU_ISA names what this processor lacks.
        """
        limits = [settings.limit(len(tokens) + 1) for tokens in ids]
        rows = [
            row
            for row, limit in enumerate(limits)
            if 0 < len(ids[row]) < settings.max_source and limit <= settings.max_target
        ]
        results: list[Hypothesis | None] = [None] * len(ids)
        if not rows:
            return results
        # Without a penalty, CTranslate2 ends a beam once its best hypothesis has ended;
        # with the slightest one, once as many hypotheses have ended as it is wide.
        exponent = 1e-6 if settings.early_stopping else 0
        names = self._source_names
        try:
            outputs = self._translator.translate_batch(
                [[names[token] for token in ids[row]] for row in rows],
                beam_size=settings.beam,
                num_hypotheses=settings.beam if settings.early_stopping else 1,
                length_penalty=exponent,
                min_decoding_length=0,
                max_input_length=0,
                max_decoding_length=max(limits[row] for row in rows),
                return_scores=True,
                return_end_token=True,
            )
        except ValueError as error:
            raise InputError(
                f"CTranslate2: {error}; correct or remove the variable CT2_FORCE_CPU_ISA"
            ) from error
        penalty = LengthPenalty(settings.length_penalty, settings.length_offset)
        special = self.target.special
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


def write_settings(
    folder: Path, settings: SearchSettings | None, files: Sequence[str]
) -> None:
    """Write what `predict` reads: the run's search, and its files of tokenizers.

    Args:
        folder: The folder of the converted weights.
        settings: The run's own search; None if CTranslate2 lacks one of its settings.
        files: The names of the files that a prediction depends on, with the
            tokenizers of sources and outputs first.
    """
    search = None if settings is None else asdict(settings)
    values = {"search": search, "files": list(files)}
    (folder / SETTINGS).write_text(json.dumps(values), encoding="utf-8")


def predict(path: Path, texts: Sequence[str]) -> list[str] | None:
    """Predict for texts by the search of a run that was converted before.

    Returns:
        The predictions, or None where the run is not converted, or a text or its
        prediction is worth a warning: then it is loaded to predict and to say so.

    Raises:
        InputError: A file of the run was changed.
    """
    if not (path / MANIFEST).is_file():
        return None
    manifest = Manifest.read(path)
    folder = path / FOLDER / manifest.digest
    settings = folder / SETTINGS
    if not settings.is_file() or find_spec("ctranslate2") is None:
        return None
    values = json.loads(settings.read_text(encoding="utf-8"))
    if values["search"] is None:
        return None
    for name in values["files"]:
        manifest.check(name)
    names = values["files"][:2]
    tokenizers = {name: Tokenizer.load(path / name) for name in {*names}}
    source, target = (tokenizers[name] for name in names)
    if not all(text.strip() and not source.unknown(text)[0] for text in texts):
        return None
    model = ConvertedModel(folder, source, target)
    ids = [source.encode(text) for text in texts]
    predictions = []
    for hypothesis in model.search(ids, SearchSettings(**values["search"])):
        if hypothesis is None:
            return None
        text = target.decode(hypothesis.tokens)
        if not text.strip() or REPLACEMENT in text:
            return None
        predictions.append(text)
    return predictions
