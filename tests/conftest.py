"""What holds for every test, and must be settled before torch and hypothesis are used."""

from __future__ import annotations

import os

import hypothesis

# Two workers with two threads each on two cores spend their time waiting for each other: ten times slower, measured.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# The same examples every time, and no failure for a machine that was busy.
hypothesis.settings.register_profile("tests", derandomize=True, deadline=None, database=None)
hypothesis.settings.load_profile("tests")
