"""The model alone in a loop: `python -m perf.bare_model RELEASE THREADS SECONDS BATCH...` prints records a second.

Records are made once; what is timed is what the model step computes of a micro-batch.
"""

from __future__ import annotations

import sys
import time
from itertools import cycle, islice
from pathlib import Path

import torch

from clef.batch import Record, split_records
from clef.model import ClefModel
from clef.settings import ModelSettings
from perf.load_data import shorts
from preprocess.preprocessor import Preprocessor
from preprocess.settings import Settings

RECORDS = 64
FEWEST_BATCHES = 3


def records(release: Path) -> list[Record]:
    """Those of short requests, as the preprocess step makes them."""
    preprocess = Preprocessor(Settings(release=release))
    return [record for body in shorts(RECORDS) for record in split_records(preprocess(body, None, {}))]


def per_second(model: ClefModel, batch: int, seconds: float, some: list[Record]) -> float:
    """Records a second, over `seconds` or a few batches."""
    endless = cycle(some)
    model.score(list(islice(endless, batch)))
    done, start = 0, time.perf_counter()
    while done < FEWEST_BATCHES * batch or time.perf_counter() - start < seconds:
        model.score(list(islice(endless, batch)))
        done += batch
    return done / (time.perf_counter() - start)


def main() -> None:
    release, threads, seconds, *batches = sys.argv[1:]
    torch.set_num_threads(int(threads))
    settings = ModelSettings(release=Path(release), state_cache_bytes=0)
    model = ClefModel.load(settings, "cpu")  # or where CLEF_DEVICE says
    model.warm_up()
    some = records(Path(release))
    print(f"{sum(record.length for record in some) / len(some):.0f} tokens a record", file=sys.stderr, flush=True)
    for batch in batches:
        print(batch, per_second(model, int(batch), float(seconds), some), flush=True)


if __name__ == "__main__":
    main()
