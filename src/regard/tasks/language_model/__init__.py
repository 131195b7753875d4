"""Texts that go on: language models."""
