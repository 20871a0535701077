"""The request that a newcomer sends first: a state, and one question of each type."""

import json

REQUEST = {
    "state": "The parcel arrived broken and nobody answers my mails. I want my money back before Friday!",
    "questions": {
        "refund": {"type": "noul", "instructions": "Does the customer want money back?"},
        "topic": {
            "type": "choice",
            "instructions": "What is the message about?",
            "criteria": {"billing": "Invoices and charges", "delivery": "Parcels and carriers", "other": None},
        },
        "urgency": {
            "type": "score",
            "instructions": "How urgent is it?",
            "criteria": ["It can wait", "This week", "Today"],
        },
    },
}


def curl(url: str) -> str:
    """A command line that sends the request to the frontend at `url`; it can be pasted into a shell as it is."""
    body = json.dumps(REQUEST, indent=1)
    if "'" in body:
        raise ValueError("the request holds a single quote, which ends the shell's string")
    return f"curl -s {url}/v1/systemone -H 'Content-Type: application/json' -d '{body}'"
