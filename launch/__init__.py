"""Bringing the service up on one machine: a Triton server, the frontend, a development release, real releases."""
