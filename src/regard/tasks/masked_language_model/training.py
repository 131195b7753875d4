"""Training of masked language models: batches, the loss and the set-up."""

from dataclasses import replace
from itertools import chain
from typing import Any

from torch.nn import functional

from regard.data.splits import Splits
from regard.errors import InputError
from regard.models.catalog import MASKED_MODELS
from regard.storage.run_folder import RunDirectory
from regard.tasks.base import (
    TOKENIZER,
    Setup,
    TextsObjective,
    check_mask,
    digest_splits,
    load_or_train,
    setup_task,
)
from regard.tasks.masked_language_model.config import (
    MaskedBatch,
    MaskedLanguageModelling,
)
from regard.tasks.masked_language_model.run import (
    mask_documents,
    measure_masked,
    predict_next,
)
from regard.tasks.summary import describe_rows, summarize_text
from regard.training.objectives import Carried, Loss


class MaskedObjective(TextsObjective[MaskedBatch]):
    """The cross-entropy of masked tokens, and of whether the second text follows."""

    metric = "masked-accuracy"
    higher_is_better = True
    measure = staticmethod(measure_masked)

    def loss(
        self,
        model: Any,
        batch: MaskedBatch,
        update: int,
        carried: Carried | None = None,
    ) -> Loss:
        states = model(batch.tokens, batch.lengths, batch.segments)
        count = len(batch.places)
        features = model.predictions.features(states.flatten(0, 1)[batch.places])
        total, _ = model.predictions.output.loss(features[None], batch.expected[None])
        if (pair := predict_next(model, states, batch)) is not None:
            pairs = functional.cross_entropy(*pair, reduction="sum")
            total = total + pairs * (count / len(batch.tokens))
        return Loss(total, count, read=int(batch.lengths.sum()))


def setup(
    config: MaskedLanguageModelling, folder: RunDirectory, processes: int
) -> Setup:
    """Read the documents and build tokenizer, model and objective.

    Raises:
        InputError: The documents, the tokenizer or the model are invalid.
    """
    if not config.model.predictions:
        raise InputError(
            "model.predictions is false, so this model fills no blanks and cannot be "
            "trained"
        )
    splits = config.data.load()
    sentences = Splits(*(list(chain(*group)) for group in splits.by_name.values()))
    assert config.tokenizer is not None
    tokenizer = load_or_train(folder, config.tokenizer, sentences.train)
    check_mask(tokenizer)
    paired = config.model.next_sentence
    seed = config.training.seed
    train, valid = (
        mask_documents(
            documents,
            tokenizer,
            config,
            seed,
            paired=paired,
        )
        for documents in (splits.train, splits.valid)
    )
    return setup_task(
        MASKED_MODELS[config.model.name](tokenizer.size, config.model),
        MaskedObjective(train, valid, config.training),
        splits,
        digest_splits(sentences, "{}\n".format),
        replace(
            summarize_text(config.data, sentences, tokenizer),
            unit="documents",
            rows=describe_rows(config.data, splits),
        ),
        counts=[f"in {len(train):,} texts"],
        details=[f"a vocabulary of {tokenizer.size:,}"],
        tokenizers={TOKENIZER: tokenizer},
    )
