from launch.triton_log import SHOWN_LINES, summary

PREFIX = '2026-11-29T19:33:36Z E 25112 model_lifecycle.cc:642] "failed to load'
FAILED = rf"""2026-11-29T19:33:29Z I 25112 model_lifecycle.cc:472] "loading: clef_model:1"
{PREFIX} 'clef_model' version 1: Internal: ReleaseError: config.json: cannot be read\n\nAt:\n  /srv/model.py(6): load\n"
{PREFIX} 'clef_postprocess' version 1: Not found: no such file"
2026-11-29T19:33:36Z I 25112 model_lifecycle.cc:777] "failed to load 'clef_model'"
error: creating server: Internal - failed to load all models
"""
NOISE = """2026-11-29T19:12:25Z I 7410 server.cc:604]
+------------------+------+
| Repository Agent | Path |
+------------------+------+

"""


def test_models_that_did_not_load_are_named_with_their_reasons_and_nothing_else() -> None:
    assert summary(FAILED).splitlines() == [
        "clef_model: ReleaseError: config.json: cannot be read",
        "clef_postprocess: Not found: no such file",
    ]


def test_otherwise_the_last_lines_without_information_and_tables() -> None:
    log = NOISE + "\n".join(f"2026-11-29T19:12:25Z E 7410 x.cc:{i}] trouble" for i in range(99)) + "\n" + NOISE
    lines = summary(log).splitlines()
    assert len(lines) == SHOWN_LINES
    assert lines[-1].endswith("x.cc:98] trouble")
