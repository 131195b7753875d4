"""Export of Transformers to CTranslate2."""

from pathlib import Path

import torch

from regard.data.batches import collate
from regard.decoding.engine import MAX_POSITIONS, save_transformer
from regard.errors import InputError
from regard.hub.exporting import write_inputs
from regard.hub.families.weights import require
from regard.hub.model_card import write_card
from regard.hub.parity import SHAPES, compare
from regard.models.attention import RELATIVE_POSITIONS
from regard.models.transformer import Transformer
from regard.runs.run_file import load
from regard.storage.atomic import explain_errors, new_folder
from regard.text import Tokenizer


def export_ctranslate2(path: Path, out: Path) -> list[str]:
    """Export a run's Transformer for CTranslate2, and compare both.

    CTranslate2 puts the end behind each source by itself.

    Returns:
        The runtimes that checked the export.

    Raises:
        InputError: The run's model is another one or has another score, alignment or
            output, or `out` exists.
        RunError: The export computes other values; it is removed.
    """
    run = load(path, "cpu")
    model = run.model
    config = run.config.model
    if not isinstance(model, Transformer):
        raise InputError(
            f"{path}: is a model named {config.name}; ctranslate2 takes transformer. "
            "Export a gpt2 or llama to huggingface, which its own converter reads."
        )
    require(config)
    if config.positions in RELATIVE_POSITIONS:
        raise InputError(
            f"{path}: model.positions is {config.positions!r}; ctranslate2 takes "
            "absolute ones"
        )
    sides = run.tokenizers
    with new_folder(out), explain_errors(out):
        write_card(path, out, "CTranslate2")
        write_inputs(run, out, described=False)
        save_transformer(model, sides.source, sides.target, out)
        check(model, sides.source, sides.target, out)
    return ["CTranslate2"]


@torch.no_grad()
def check(model: Transformer, source: Tokenizer, target: Tokenizer, out: Path) -> None:
    """Compare the log-probabilities of given targets at three sizes.

    Raises:
        RunError: They differ.
    """
    from ctranslate2 import Translator

    translator = Translator(
        str(out), device="cpu", compute_type="float32", intra_threads=1
    )
    limit = (model.max_source or MAX_POSITIONS) - 1  # followed by the end
    for texts, tokens in SHAPES:
        order = torch.arange(texts * min(tokens, limit)).view(texts, -1)
        rows = []
        pieces = []
        for side in (source, target):
            entries = side.vocabulary.items()
            usual = [entry for entry in entries if entry[1] not in side.special.all]
            places = (order % len(usual)).tolist()
            rows.append([[usual[place][1] for place in row] for row in places])
            pieces.append([[usual[place][0] for place in row] for row in places])
        pairs = list(zip(*rows, strict=True))
        batch = collate(pairs, source.special, target.special)
        logits = model(batch.source, batch.source_lengths, batch.target_in)
        scores = logits.log_softmax(-1).gather(-1, batch.target_out[..., None])[..., 0]
        results = translator.score_batch(*pieces)
        compare(scores, torch.tensor([result.log_probs for result in results]), out)
