"""Metrics of texts, answers and likelihoods."""
