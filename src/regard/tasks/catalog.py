"""The tasks by name, each imported on use."""

from regard.config.registry import Registry

TASKS = Registry(
    "regard.tasks",
    {
        "seq2seq": "seq2seq:TASK",
        "multi-target": "multi_target:TASK",
        "language-model": "language_model:TASK",
        "masked-language-model": "masked_language_model:TASK",
        "bidirectional-language-model": "bidirectional_language_model:TASK",
        "classification": "classification:TASK",
        "regression": "regression:TASK",
        "multi-label": "multi_label:TASK",
        "tagging": "tagging:TASK",
        "extractive-qa": "extractive_qa:TASK",
        "image-classification": "image_classification:TASK",
        "image-captioning": "image_captioning:TASK",
        "speech": "speech:TASK",
        "pointer": "pointer:TASK",
        "algorithmic": "algorithmic:TASK",
        "few-shot": "few_shot:TASK",
        "meta-rl": "meta_rl:TASK",
        "custom": "custom:TASK",
    },
    group="regard.tasks",
)
