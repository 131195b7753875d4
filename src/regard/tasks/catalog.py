"""The tasks by name, each imported on use."""

from regard.config.loader import Registry

TASKS = Registry(
    "regard.tasks",
    {
        "seq2seq": "seq2seq.training:TASK",
        "multi-target": "multi_target:TASK",
        "language-model": "language_model.run:TASK",
        "masked-language-model": "masked_language_model.run:TASK",
        "bidirectional-language-model": "bidirectional_language_model:TASK",
        "classification": "classification.run:TASK",
        "regression": "regression:TASK",
        "multi-label": "multi_label:TASK",
        "tagging": "tagging.run:TASK",
        "extractive-qa": "extractive_qa.run:TASK",
        "image-classification": "image_classification:TASK",
        "image-captioning": "image_captioning.run:TASK",
        "speech": "speech.run:TASK",
        "pointer": "pointer:TASK",
        "algorithmic": "algorithmic:TASK",
        "few-shot": "few_shot:TASK",
        "meta-rl": "meta_rl:TASK",
        "custom": "custom:TASK",
    },
    group="regard.tasks",
)
