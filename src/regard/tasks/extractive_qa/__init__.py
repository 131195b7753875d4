"""Answers to questions that are spans of their context."""
