"""Training of masked language models: batches, the loss and the set-up."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain

from torch import nn
from torch.nn import functional

from regard.data.splits import Splits
from regard.errors import InputError
from regard.models.bert import Bert
from regard.models.catalog import MASKED_MODELS
from regard.models.pretrained import PretrainedMaskedLM
from regard.storage.run_folder import RunDirectory
from regard.tasks.base import Setup, digest, setup_task
from regard.tasks.masked_language_model.config import (
    Document,
    MaskedBatch,
    MaskedLanguageModelling,
    MaskedTexts,
)
from regard.tasks.masked_language_model.run import (
    mask_documents,
    measure_masked,
    predict_next,
)
from regard.tasks.summary import DataSummary, Lengths, describe_rows, summarize_text
from regard.tasks.tokenizers import TOKENIZER, check_mask, load_or_train
from regard.text import Tokenizer
from regard.training.objectives import Carried, Loss
from regard.training.settings import Training


class MaskedObjective:
    """The cross-entropy of masked tokens, and of whether the second text follows."""

    metric = "masked-accuracy"
    higher_is_better = True

    def __init__(self, train: MaskedTexts, valid: MaskedTexts, settings: Training):
        self.train = train
        self.valid = valid
        self.settings = settings

    def batches(self, epoch: int) -> Sequence[list[int]]:
        tokens = self.settings.batch_tokens
        seed = self.settings.seed
        return self.train.batches(tokens, seed, epoch)

    def batch(self, epoch: int, indices: list[int]) -> MaskedBatch:
        return self.train.batch(epoch, indices)

    def loss(
        self,
        model: nn.Module,
        batch: MaskedBatch,
        update: int,
        carried: Carried | None = None,
    ) -> Loss:
        assert isinstance(model, Bert | PretrainedMaskedLM)
        assert model.predictions is not None
        states = model(batch.tokens, batch.lengths, batch.segments)
        count = len(batch.places)
        features = model.predictions.features(states.flatten(0, 1)[batch.places])
        total, _ = model.predictions.output.loss(features[None], batch.expected[None])
        following = predict_next(model, states)
        if following is not None and batch.follows is not None:
            pairs = functional.cross_entropy(following, batch.follows, reduction="sum")
            total = total + pairs * (count / len(batch.tokens))
        return Loss(total, count, read=int(batch.lengths.sum()))

    def validate(self, model: nn.Module) -> dict[str, float]:
        assert isinstance(model, Bert | PretrainedMaskedLM)
        return measure_masked(model, self.valid, self.settings.batch_tokens)


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
    assert config.tokenizer is not None
    tokenizer = load_or_train(
        folder, config.tokenizer, list(chain.from_iterable(splits.train))
    )
    check_mask(tokenizer)
    model = MASKED_MODELS[config.model.name](tokenizer.size, config.model)
    paired = config.model.next_sentence
    seed = config.training.seed
    train, valid = (
        mask_documents(documents, tokenizer, config, paired=paired, seed=seed)
        for documents in (splits.train, splits.valid)
    )
    sentences = chain.from_iterable((*splits.train, *splits.valid))
    return setup_task(
        model,
        MaskedObjective(train, valid, config.training),
        splits,
        digest(f"{sentence}\n" for sentence in sentences),
        summarize(config, splits, tokenizer),
        counts=[f"in {len(train):,} texts"],
        details=[f"a vocabulary of {tokenizer.size:,}"],
        tokenizers={TOKENIZER: tokenizer},
    )


def summarize(
    config: MaskedLanguageModelling, splits: Splits[Document], tokenizer: Tokenizer
) -> DataSummary:
    """Summarize the documents by their sentences."""
    sets = splits.train, splits.valid, splits.test
    sentences = Splits(*(list(chain.from_iterable(documents)) for documents in sets))
    summary = summarize_text(config.data, sentences, tokenizer)
    lengths = {
        "sentence": summary.lengths["text"],
        "document in sentences": Lengths.of(list(map(len, splits.train))),
    }
    counts = describe_rows(config.data, splits)
    return replace(summary, unit="documents", rows=counts, lengths=lengths)
