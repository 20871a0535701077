"""Measurements: each ratio side by side in one run on one machine."""
