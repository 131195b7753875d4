"""Any model of the transformers library as a run: its attention is shown without an import."""
