"""The names of tasks, and what they stand for: each is loaded when a run is of it."""

from regard.named import Named

RUN_FILES = Named(
    "regard.tasks",
    {
        "text-to-text": "text_to_text.run_file:TextToText",
        "text-to-texts": "text_to_texts.run_file:TextToTexts",
        "language-model": "language_model.run_file:LanguageModelling",
        "masked-language-model": "masked_language_model.run_file:MaskedLanguageModelling",
        "bidirectional-language-model": "bidirectional_language_model.run_file:BidirectionalLanguageModelling",
        "classification": "classification.run_file:Classification",
        "span-answers": "span_answers.run_file:SpanAnswers",
        "image-classification": "image_classification.run_file:ImageClassification",
        "image-captioning": "image_captioning.run_file:ImageCaptioning",
        "pointing": "pointing.run_file:Pointing",
        "bit-sequences": "bit_sequences.run_file:BitSequencing",
        "few-shot": "few_shot.run_file:FewShot",
        "acting": "acting.run_file:Acting",
    },
)
"""What the run file of each says."""
RUNS = Named(
    "regard.tasks",
    {
        "text-to-text": "text_to_text.run:TextToTextRun",
        "text-to-texts": "text_to_texts.run:TextToTextsRun",
        "language-model": "language_model.run:LanguageModelRun",
        "masked-language-model": "masked_language_model.run:MaskedLanguageModelRun",
        "bidirectional-language-model": "bidirectional_language_model.run:ElmoRun",
        "classification": "classification.run:ClassificationRun",
        "span-answers": "span_answers.run:SpanAnswersRun",
        "image-classification": "image_classification.run:ImageClassificationRun",
        "image-captioning": "image_captioning.run:ImageCaptioningRun",
        "pointing": "pointing.run:PointingRun",
        "bit-sequences": "bit_sequences.run:BitSequencesRun",
        "few-shot": "few_shot.run:FewShotRun",
        "acting": "acting.run:ActingRun",
    },
)
"""A trained run of each."""
