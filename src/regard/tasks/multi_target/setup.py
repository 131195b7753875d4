"""Set up training: data, tokenizers, model and objective from a run file."""

from itertools import chain

from regard.data.pair import Pair
from regard.data.splits import Splits
from regard.data.stored import remembered
from regard.data.tokenizer_pair import Tokenizers
from regard.storage.run_folder import RunDirectory
from regard.tasks.multi_target.config import MultiTarget
from regard.tasks.multi_target.run import build_many, load_tokenizers, target_file
from regard.tasks.multi_target.training import MultiTargetObjective
from regard.tasks.seq2seq.metrics import Scoring
from regard.tasks.seq2seq.setup import check_search, sources_of, targets_of
from regard.tasks.seq2seq.summary import pairs_summary
from regard.tasks.setup import Setup, digest
from regard.tasks.summary import joined
from regard.tasks.tokenizer_file import SOURCE, trained_on
from regard.training.state import count_parameters


def setup(config: MultiTarget, folder: RunDirectory, processes: int) -> Setup:
    """Read the data and build tokenizers, model and objective; tokenizers in the folder are reused.

    Raises:
        InputError: the data, the model or the search is invalid.
    """
    splits = config.data.load()
    kept = folder.has(SOURCE) and all(folder.has(target_file(name)) for name in splits)
    tokenizers = (
        load_tokenizers(folder, config) if kept else make_tokenizers(config, splits)
    )
    model = build_many(config, tokenizers)
    for name, each in tokenizers.items():
        check_search(config.search, each.target.size, model.of(name))
    scoring = Scoring(config.metrics, config.search.searching(beam=1))
    task = MultiTargetObjective(
        splits,
        tokenizers,
        config.training,
        scoring,
        model=model,
        truncate=config.truncate,
    )
    if config.output_bias == "frequencies":
        for name, part in task.parts.items():
            model.of(name).decoder.output.start_from(part.frequencies())
    first = next(iter(splits.values()))
    return Setup(
        model,
        task,
        _digest(splits),
        f"{len(first.train):,} sources to train on, {len(first.valid):,} to validate, {len(first.test):,} to test, in "
        f"{', '.join(splits)}; {count_parameters(model):,} parameters",
        {SOURCE: next(iter(tokenizers.values())).source}
        | {target_file(name): each.target for name, each in tokenizers.items()},
        {name: each.test for name, each in splits.items()} if first.test else {},
        data=joined(
            [
                pairs_summary(config.data, each, tokenizers[name], target=name)
                for name, each in splits.items()
            ]
        ),
    )


def make_tokenizers(
    config: MultiTarget, splits: dict[str, Splits[Pair]]
) -> dict[str, Tokenizers]:
    """Train the tokenizers, as a function of the training texts only."""
    first = next(iter(splits.values())).train
    source = trained_on(first, config.source, "source", sources_of)
    return {
        name: Tokenizers(
            source, trained_on(each.train, config.target, "target", targets_of)
        )
        for name, each in splits.items()
    }


def _digest(splits: dict[str, Splits[Pair]]) -> str:
    """The digest of the training and the validation pairs of all languages."""
    valid = digest(_written(pair) for each in splits.values() for pair in each.valid)
    every = (chain(each.train, each.valid) for each in splits.values())
    train = next(iter(splits.values())).train
    return remembered(
        train,
        f"digest {[*splits]} {valid}",
        lambda: digest(map(_written, chain.from_iterable(every))),
    )


def _written(pair: Pair) -> str:
    return f"{pair.source}\0{pair.target}\n"
