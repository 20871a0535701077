"""The request that a newcomer sends first: a state, and one question of each type."""

BODY = """{
  "state": "The parcel arrived broken and nobody answers my mails. I want my money back before Friday!",
  "questions": {
    "refund": {"type": "noul", "instructions": "Does the customer want money back?"},
    "topic": {"type": "choice", "instructions": "What is the message about?",
              "criteria": {"billing": "Invoices and charges", "delivery": "Parcels and carriers", "other": null}},
    "urgency": {"type": "score", "instructions": "How urgent is it?",
                "criteria": ["It can wait", "This week", "Today"]}
  }
}"""


def curl(url: str) -> str:
    """A command line that sends the request to the frontend at `url`; it can be pasted into a shell as it is."""
    return f"curl -s {url}/v1/systemone -H 'Content-Type: application/json' -d '{BODY}'"
