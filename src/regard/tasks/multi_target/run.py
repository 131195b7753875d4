"""A trained run that makes texts in several languages of a text."""

from collections.abc import Mapping, Sequence

from regard.data.pair import Pair
from regard.data.sources import Parallel
from regard.data.tokenizer_pair import Tokenizers
from regard.decoding.texts import search_ids, source_ids
from regard.errors import InputError
from regard.models.catalog import build
from regard.models.one_to_many import OneToMany
from regard.nonfinite import guarded
from regard.storage.run_folder import RunDirectory
from regard.tasks.multi_target.config import MultiTarget
from regard.tasks.multi_target.training import of_all
from regard.tasks.run import Run, refuse_one_text
from regard.tasks.seq2seq.config import Seq2Seq, TokenizerPair
from regard.tasks.seq2seq.prediction import Prediction
from regard.tasks.seq2seq.run import SOURCE, Seq2SeqRun
from regard.text import Tokenizer


def target_file(language: str) -> str:
    """The file that keeps a language's tokenizer."""
    return f"target.{language}.tokenizer.json"


def load_tokenizers(run: RunDirectory, config: MultiTarget) -> dict[str, Tokenizers]:
    """The run's own. Raises InputError for a file that is damaged or not a tokenizer."""
    source = Tokenizer.load(run.file(SOURCE))
    return {name: Tokenizers(source, Tokenizer.load(run.file(target_file(name)))) for name in config.data.languages}


def build_many(config: MultiTarget, tokenizers: Mapping[str, Tokenizers]) -> OneToMany:
    """The model, with fresh weights."""
    return OneToMany({name: build(config.model, *each.sizes, each.special) for name, each in tokenizers.items()})


class MultiTargetRun(Run):
    """A trained model with its tokenizers, by language, and its run file."""

    def __init__(self, config: MultiTarget, model: OneToMany, tokenizers: Mapping[str, Tokenizers]):
        self.config, self.model, self.tokenizers = config, model, tokenizers

    @classmethod
    def open(cls, run: RunDirectory, config: MultiTarget) -> "MultiTargetRun":
        """The run in a folder, its model with fresh weights. Raises InputError for a damaged tokenizer."""
        tokenizers = load_tokenizers(run, config)
        return cls(config, build_many(config, tokenizers), tokenizers)

    def of(self, language: str) -> Seq2SeqRun:
        """The run of one language, which shares its weights with this one and can do all that such a run can.

        Raises:
            InputError: the run has no such language.
        """
        config = self.config
        if language not in config.data.languages:
            raise InputError(f"{language!r} is not a language of this run; it has {', '.join(config.data.languages)}")
        place = config.data.languages.index(language) + 1
        train, valid = ((paths[0], paths[place]) for paths in (config.data.train, config.data.valid))
        test = (config.data.test[0], config.data.test[place]) if config.data.test else None
        alone = Seq2Seq(
            data=Parallel(train=train, valid=valid, test=test),
            tokenizers=TokenizerPair(config.source, config.target),
            model=config.model,
            metrics=config.metrics,
            training=config.training,
            search=config.search,
            truncate=config.truncate,
        )
        return Seq2SeqRun(alone, self.model.of(language).eval(), self.tokenizers[language])

    def predict(
        self, texts: Sequence[str], *, beam: int | None = None, attention: bool = True
    ) -> dict[str, list[Prediction]]:
        """The output for each text, by language; each text is encoded once.

        Raises:
            TypeError: `texts` is one text; put it in a list.
            InputError: a text is longer than the model can take.
        """
        refuse_one_text(texts)
        runs = [self.of(name) for name in self.tokenizers]
        ids = source_ids(self.model.max_source, runs[0].tokenizers, texts)
        with guarded(self.model):
            found = search_ids([run.model for run in runs], ids, runs[0].search(beam))
        said = [run.predictions(texts, each, attention=attention) for run, each in zip(runs, found, strict=True)]
        return dict(zip(self.tokenizers, said, strict=True))

    def evaluate(
        self, examples: Mapping[str, Sequence[Pair]] | None = None, *, beam: int | None = None
    ) -> dict[str, float]:
        """The run's metrics on pairs by language, by default its own test set: their means, and each language's as
        `metric/language`.

        Raises:
            InputError: the run has no test set and no pairs are given, or not for each of its languages.
        """
        if examples is None:
            examples = {name: splits.test for name, splits in self.config.data.load().items()}
        if missing := [name for name in self.tokenizers if not examples.get(name)]:
            raise InputError(f"there are no pairs to measure {missing[0]} on; name a test set in data.test")
        return of_all({name: self.of(name).evaluate(examples[name], beam=beam) for name in self.tokenizers})
