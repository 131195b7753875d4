"""Runs: trained, resumed and loaded by their folders."""
