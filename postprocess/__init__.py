"""Logits to SystemOne answers: numpy and the standard library only."""
