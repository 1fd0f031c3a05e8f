"""The quick look before the long expression: it lets through whatever the expression finds."""

from __future__ import annotations

import pytest

from postmortem.report.secrets import VALUE, may_hold_value

QUERY_NAMES = (
    "X-Amz-Signature X-Amz-Credential X-Amz-Security-Token X-Goog-Signature X-Goog-Credential"
    " AWSAccessKeyId Signature sig secret scret client_secret token access_token auth_token"
    " refresh_token id_token api_key api-key apikey key password passwd code"
).split()
LONG = "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"

VALUES = (
    *(f"https://host/path?x=1&{name}=0123456789" for name in QUERY_NAMES),
    *(f"GET /path;{name}=0123456789" for name in QUERY_NAMES),
    '{"type": "service_account", "private_key_id": "0"}',
    *(f"gh{kind}_{LONG}" for kind in "pousr"),
    f"github_pat_{LONG}",
    *(f"gl{kind}-{LONG}" for kind in ("pat", "dt", "rt", "cbt", "ptt", "soat")),
    f"hf_{LONG}",
    f"api_org_{LONG}",
    f"sk-{LONG}",
    *(f"{kind}k_{mode}_{LONG}" for kind in "sr" for mode in ("live", "test")),
    *(f"{kind}ABCDEFGHIJ012345" for kind in ("AKIA", "ASIA", "ABIA", "ACCA")),
    f"AIza{LONG}",
    f"ya29.{LONG}",
    f"xoxb-{LONG}",
    f"xapp-{LONG}",
    f"https://hooks.slack.com/services/{LONG}",
    f"npm_{LONG}",
    f"pypi-{LONG}",
    *(f"{kind}_v1_0123456789abcdef0" for kind in ("dop", "doo", "dor")),
    f"dckr_pat_{LONG}",
    f"nvapi-{LONG}",
    f"r8_{LONG}",
    f"wandb_v1_{LONG}",
    f"hvs.{LONG}",
    f"hvb.{LONG}",
    f"SG.{LONG}.{LONG}",
    "eyJhbGciOi.eyJzdWIiOi.abc",
    "ewog" + 90 * "A",
    f"bearer {LONG}",
    "AUTHORIZATION: Basic dXNlcjpwYXNz",
    "redis://:password@host",
    "postgres://user:p@ss@host/db",
    f"https://{LONG}@host/",
)


@pytest.mark.parametrize("text", VALUES)
def test_what_is_found_was_let_through(text: str) -> None:
    assert VALUE.search(text)
    assert may_hold_value(text)


@pytest.mark.parametrize(
    "text",
    [
        "https://pytorch.org/docs/stable/torch_nccl_environment_variables.html",
        "run again with NCCL_DEBUG=INFO; which rank was it?",
        "std::vector<int, std::allocator<int> >::push_back(int const&)",
    ],
)
def test_ordinary_text_is_not(text: str) -> None:
    assert not may_hold_value(text)
