"""Answering questions with a span of their context."""
