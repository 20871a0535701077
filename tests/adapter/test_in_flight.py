from __future__ import annotations

import threading

from adapter.in_flight import InFlight


def test_counts_from_the_request_to_its_answer() -> None:
    in_flight, answers = InFlight(), []
    first, second = in_flight.until(answers.append), in_flight.until(answers.append)
    assert in_flight.count == 2
    second("b")
    assert (in_flight.count, answers) == (1, ["b"])
    first("a")
    assert (in_flight.count, answers) == (0, ["b", "a"])


def test_an_answer_that_fails_is_none_any_more() -> None:
    in_flight = InFlight()

    def fail(result: str) -> None:
        assert in_flight.count == 0
        raise RuntimeError(result)

    answer = in_flight.until(fail)
    try:
        answer("x")
    except RuntimeError:
        assert in_flight.count == 0


def test_threads_do_not_miscount() -> None:
    in_flight = InFlight()

    def work() -> None:
        for _ in range(2_000):
            in_flight.until(lambda result: None)(None)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert in_flight.count == 0
