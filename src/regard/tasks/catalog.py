"""The names of tasks, and what they stand for: each is loaded when a run is of it."""

from regard.config.registry import Named

RUN_FILES = Named(
    "regard.tasks",
    {
        "text-to-text": "seq2seq.config:TextToText",
        "text-to-texts": "multi_target.config:TextToTexts",
        "language-model": "language_model.config:LanguageModelling",
        "masked-language-model": "masked_language_model.config:MaskedLanguageModelling",
        "bidirectional-language-model": "bidirectional_language_model.config:BidirectionalLanguageModelling",
        "classification": "classification.config:Classification",
        "span-answers": "extractive_qa.config:SpanAnswers",
        "image-classification": "image_classification.config:ImageClassification",
        "image-captioning": "image_captioning.config:ImageCaptioning",
        "pointing": "pointer.config:Pointing",
        "bit-sequences": "algorithmic.config:BitSequencing",
        "few-shot": "few_shot.config:FewShot",
        "acting": "meta_rl.config:Acting",
    },
)
"""What the run file of each says."""
RUNS = Named(
    "regard.tasks",
    {
        "text-to-text": "seq2seq.run:TextToTextRun",
        "text-to-texts": "multi_target.run:TextToTextsRun",
        "language-model": "language_model.run:LanguageModelRun",
        "masked-language-model": "masked_language_model.run:MaskedLanguageModelRun",
        "bidirectional-language-model": "bidirectional_language_model.run:ElmoRun",
        "classification": "classification.run:ClassificationRun",
        "span-answers": "extractive_qa.run:SpanAnswersRun",
        "image-classification": "image_classification.run:ImageClassificationRun",
        "image-captioning": "image_captioning.run:ImageCaptioningRun",
        "pointing": "pointer.run:PointingRun",
        "bit-sequences": "algorithmic.run:BitSequencesRun",
        "few-shot": "few_shot.run:FewShotRun",
        "acting": "meta_rl.run:ActingRun",
    },
)
"""A trained run of each."""
