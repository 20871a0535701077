"""The clients that work by their base URL alone: how each is pointed here, what is asked, what it raises.

The README's table is written from this: `python -m tests.clients.registry`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from launch.triton import REPOSITORY_ROOT

REQUIREMENTS = REPOSITORY_ROOT / "requirements" / "clients"
_KEY = "any-key-will-do"
_ACCOUNT = "0123456789abcdef"


@dataclass(frozen=True)
class Client:
    """A package on PyPI; its environment is `requirements/clients/NAME.txt`, its script `scripts/use_NAME.py`."""

    name: str
    setting: str
    """What its user changes; `URL` stands for the frontend's root."""
    dialect: str
    calls: str
    errors: tuple[str, ...]
    """The classes of its own that the script must meet: of a wrong request, and of a wrong key where it sends one."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """The setting as environment variables; `{url}` is the frontend's root. The script has the URL otherwise."""
    quick: bool = True
    """Whether it installs in a few seconds, and so runs in every test run; `make test-clients` runs the others too."""

    @property
    def version(self) -> str:
        first, *_ = (REQUIREMENTS / f"{self.name}.txt").read_text("utf-8").splitlines()
        return first.partition("==")[2]


_TYPESAFE = {"TYPESAFE_BASE_URL": "{url}", "TYPESAFE_API_KEY": _KEY}
_WORKERS_AI = {"CLEF_BASE_URL": "{url}/client/v4", "CLEF_ACCOUNT_ID": _ACCOUNT, "CLEF_API_TOKEN": _KEY}

CLIENTS = (
    Client(
        "typesafe-sdk",
        "`TYPESAFE_BASE_URL=URL`",
        "SystemOne",
        "all types, images, zstd bodies, models, retries; sync and async",
        ("TypeSafeBadRequestError", "TypeSafeAuthenticationError"),
        _TYPESAFE,
    ),
    Client(
        "jevcompat",
        "`jevcompat test URL`",
        "SystemOne",
        "its whole suite (`docs/jevcompat.md`)",
        ("Abort",),
    ),
    Client(
        "langchain-typesafe",
        "`TYPESAFE_BASE_URL=URL`",
        "SystemOne",
        "all types over text and messages; invoke, batch, ainvoke",
        ("TypeSafeUnprocessableEntityError", "TypeSafeAuthenticationError"),
        _TYPESAFE,
        quick=False,
    ),
    Client(
        "typesafe-haystack",
        "`TYPESAFE_BASE_URL=URL`",
        "SystemOne",
        "document classifier, text router",
        ("TypeSafeBadRequestError", "TypeSafeAuthenticationError"),
        _TYPESAFE | {"HAYSTACK_TELEMETRY_ENABLED": "False"},
        quick=False,
    ),
    Client(
        "pydecide",
        "`TYPESAFE_BASE_URL=URL`; `base_url=URL/api`, `base_url=URL/v1`",
        "SystemOne, OpenRouter, OpenAI",
        "all types, a batch, an image; sync and async",
        ("BackendError", "AuthError"),
        _TYPESAFE | {"DECIDE_BACKENDS": "typesafe"},
    ),
    Client(
        "jev-grep",
        "`JEV_GATEWAY_URL=URL/v1/systemone`",
        "SystemOne",
        "`jgrep` over a file; all types with an image through its runtime",
        ("ProviderError", "ProviderFatal"),
        {"JEV_GATEWAY_URL": "{url}/v1/systemone", "JEV_GATEWAY_API_KEY": _KEY, "JEV_API": "gateway"},
    ),
    Client(
        "system-one",
        "`SYSTEM_ONE_BASE_URL=URL`",
        "SystemOne, OpenRouter",
        "all types, an image; sync and async",
        ("APIError", "AuthenticationError"),
        {"SYSTEM_ONE_BASE_URL": "{url}", "SYSTEM_ONE_MODEL": "jev-latest"},
    ),
    Client(
        "clef-router",
        "`base_url=URL/client/v4`",
        "Workers AI",
        "all types, images, a routed prompt; sync and async",
        ("ClefAPIError", "ClefAuthError"),
    ),
    Client(
        "clef-evals",
        "`CLEF_BASE_URL=URL/client/v4`",
        "Workers AI",
        "all types, an image; sync and async",
        ("ClefAPIError", "ClefAuthError"),
        _WORKERS_AI,
    ),
    Client(
        "clef-compactor",
        "`CLEF_BASE_URL=URL/client/v4`",
        "Workers AI",
        "passages compacted, all types, an image; sync and async",
        ("ClefAPIError", "ClefAuthError"),
        _WORKERS_AI,
    ),
    Client(
        "clef-rag",
        "`CLEF_BASE_URL=URL`; `base_url=URL/client/v4/accounts/{account_id}/ai/run/@cf/cloudflare`",
        "SystemOne, Workers AI",
        "all types",
        ("ClefError",),
        {"CLEF_BASE_URL": "{url}", "CLOUDFLARE_API_TOKEN": _KEY},
    ),
    Client(
        "trustcall-system-one",
        "`TRUSTCALL_S1_BASE_URL=URL/client/v4/accounts/ID`",
        "Workers AI",
        "all types, images, both models",
        ("BadRequestError", "AuthError"),
        {
            "TRUSTCALL_S1_BASE_URL": f"{{url}}/client/v4/accounts/{_ACCOUNT}",
            "CLOUDFLARE_API_TOKEN": _KEY,
        },
    ),
    Client(
        "openrouter",
        "`server_url=URL` per call",
        "OpenRouter, SystemOne",
        "all types, an image; sync and async",
        ("BadRequestResponseError", "UnauthorizedResponseError"),
    ),
    Client(
        "openai",
        "`OPENAI_BASE_URL=URL/v1`",
        "OpenAI Decisions",
        "all types, messages with an image and JSON; sync and async",
        ("UnprocessableEntityError", "AuthenticationError"),
        {"OPENAI_BASE_URL": "{url}/v1", "OPENAI_API_KEY": _KEY},
    ),
    Client(
        "ollama",
        "`OLLAMA_HOST=URL`",
        "Ollaya",
        "list, show, ps; sync and async",
        ("ResponseError",),
        {"OLLAMA_HOST": "{url}"},
    ),
)


def _names(errors: tuple[str, ...]) -> str:
    return ", ".join(f"`{error}`" for error in errors)


def table() -> str:
    """The clients as rows of a Markdown table."""
    rows = [
        f"| `{each.name}` {each.version} | {each.setting} | {each.dialect} | {each.calls} | {_names(each.errors)} |"
        for each in CLIENTS
    ]
    return "\n".join(
        ["| client | setting | dialect | what was asked | exceptions met |", "|---|---|---|---|---|", *rows]
    )


if __name__ == "__main__":
    print(table())
