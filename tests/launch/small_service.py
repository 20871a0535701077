"""A launcher of two small processes, `first` and `second`, for the supervisor's tests: python small_service.py FOLDER

Each process runs `FOLDER/NAME.py`; the service is warm when `FOLDER/warm` is there.
"""

import os
import sys
from pathlib import Path

from launch.errors import LaunchError
from launch.process import Child, block_signals
from launch.supervisor import Supervisor


def main() -> None:
    folder = Path(sys.argv[1])
    children = [
        Child(name, [sys.executable, str(folder / f"{name}.py")], os.environ, folder / f"{name}.log")
        for name in ("first", "second")
    ]
    block_signals()
    supervisor = Supervisor(
        children,
        is_warm=(folder / "warm").exists,
        say=lambda line: print(line, flush=True),
        start_timeout_s=float(os.environ.get("START_TIMEOUT_S", "20")),
        unhealthy_timeout_s=float(os.environ.get("UNHEALTHY_TIMEOUT_S", "20")),
        stop_timeout_s=float(os.environ.get("STOP_TIMEOUT_S", "20")),
    )
    try:
        supervisor.run(when_warm=lambda: print("warm", flush=True))
    except LaunchError as error:
        print(error, flush=True)
        sys.exit(1)


if __name__ == "__main__":
    main()
