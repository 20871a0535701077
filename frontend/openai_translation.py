"""From a request of OpenAI's Decisions API to SystemOne's, and back from the answer.

A conversation is the state; a question's name is its id. One user message is asked like the text or the parts in it, so
that both spellings of an input agree.
"""

import json
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from frontend.dialects import Loc, dumps
from frontend.openai_types import (
    ARRAY,
    TEXT,
    ChoiceQuestion,
    CustomToolCallOutput,
    DecisionRequest,
    FunctionCallOutput,
    InputImage,
    InputJson,
    InputText,
    Item,
    Message,
    OutputText,
    Part,
    Parts,
    PredicateQuestion,
    Question,
    Refusal,
    ScoreLevel,
    ScoreQuestion,
)
from preprocess.errors import ValidationFailed
from preprocess.issues import issues


@dataclass(frozen=True, slots=True)
class Translation:
    """The request for the ensemble, the questions as they were asked, and the place of each image."""

    body: bytes
    questions: tuple[Question, ...]
    ids: tuple[str, ...]
    places: tuple[Loc, ...]

    def move(self, loc: Loc) -> Loc:
        """From a place in the ensemble's request to the one in the client's."""
        match loc:
            case ["body", "images", int(k), *_] if k < len(self.places):
                return self.places[k]
            case ["body", "questions", str(name), _, "criteria", *_] if name in self.ids:
                index = self.ids.index(name)
                return ["body", "questions", index, "levels" if self.questions[index].type == "score" else "choices"]
            case ["body", "questions", str(name), *_] if name in self.ids:
                return ["body", "questions", self.ids.index(name)]
        return loc


def speaks(body: dict[str, Any]) -> bool:
    """Whether this is a body of OpenAI's: it has `input`, and an array of questions or neither them nor `state`."""
    questions = body.get("questions")
    return "input" in body and (isinstance(questions, list) or ("state" not in body and not questions))


def to_systemone(body: dict[str, Any]) -> Translation:
    """The request for the ensemble. Raises ValidationFailed."""
    try:
        asked = DecisionRequest.model_validate(body)
    except ValidationError as error:
        raise ValidationFailed(_issue(issue) for issue in issues(error, "body")) from None
    images = _Images()
    ids = _ids(asked.questions)
    request: dict[str, Any] = {
        "state": _state(asked.input, images),
        "questions": {name: _question(k, asked.questions[k], images) for k, name in enumerate(ids)},
        "images": images.references,
        **{name: body[name] for name in ("x_independent", "x_truncate") if name in body},
    }
    if asked.model is not None:
        request["model"] = asked.model
    return Translation(dumps(request), tuple(asked.questions), tuple(ids), tuple(images.places))


class _Images:
    """The images met so far; each leaves its number in its place."""

    def __init__(self) -> None:
        self.references: list[str] = []
        self.places: list[Loc] = []

    def take(self, image: InputImage, place: Loc) -> str:
        self.references.append(image.image_url)
        self.places.append([*place, "image_url"])
        return f"image {len(self.references)}"


def _state(value: str | list[Item], images: _Images) -> Any:
    if isinstance(value, str):
        return value
    items = [_item(item, images, ["body", "input", k]) for k, item in enumerate(value)]
    alone = len(value) == 1 and isinstance(value[0], Message) and value[0].role == "user"
    return items[0]["content"] if alone else items


def _item(item: Item, images: _Images, place: Loc) -> dict[str, Any]:
    if isinstance(item, Message):
        return {"role": item.role, "content": _content(item.content, images, [*place, "content"])}
    if isinstance(item, FunctionCallOutput | CustomToolCallOutput):
        output = _content(item.output, images, [*place, "output"])
        return {"type": item.type, "call_id": item.call_id, "output": output}
    return item.model_dump()


def _content(content: str | Parts, images: _Images, place: Loc) -> Any:
    if isinstance(content, str):
        return content
    parts = [_part(part, images, [*place, k]) for k, part in enumerate(content)]
    return parts[0] if len(parts) == 1 else parts


def _part(part: Part, images: _Images, place: Loc) -> Any:
    match part:
        case InputText() | OutputText():
            return part.text
        case InputImage():
            return images.take(part, place)
        case InputJson():
            return part.data
        case Refusal():
            return part.refusal


def _ids(questions: list[Question]) -> list[str]:
    names = [question.name for question in questions if question.name]
    if len(set(names)) != len(names):
        raise ValidationFailed.at(["body", "questions"], "Two questions have the same name", "repeated_name")
    taken = set(names)
    return [question.name or _free(f"question_{number}", taken) for number, question in enumerate(questions, 1)]


def _free(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "_"
    return name


def _question(index: int, question: Question, images: _Images) -> dict[str, Any]:
    instructions = question.instructions
    if instructions is not None:
        instructions = _content(instructions, images, ["body", "questions", index, "instructions"])
    match question:
        case PredicateQuestion():
            return {"type": "noul", "instructions": instructions}
        case ChoiceQuestion():
            options = _options(question, index)
            described = [choice.description for choice in question.choices]
            criteria = dict(zip(options, described, strict=True))
            return {"type": "choice", "instructions": instructions, "criteria": criteria}
        case ScoreQuestion():
            return {"type": "score", "instructions": instructions, "criteria": list(map(_level, question.levels))}


def _options(question: ChoiceQuestion, index: int) -> list[str]:
    """An option id for each value: booleans as JSON writes them, told apart where a string says the same."""
    strings = {choice.value for choice in question.choices if isinstance(choice.value, str)}
    options = [
        choice.value if isinstance(choice.value, str) else _free("true" if choice.value else "false", strings)
        for choice in question.choices
    ]
    if len(set(options)) != len(options):
        raise ValidationFailed.at(["body", "questions", index, "choices"], "Two values are the same", "repeated_value")
    return options


def _level(level: ScoreLevel) -> str:
    return level.label if level.description is None else f"{level.label}: {level.description}"


def from_systemone(response: bytes, asked: Translation) -> bytes:
    """The ensemble's answer as OpenAI writes it: an array in the order of the questions."""
    answer = json.loads(response)
    tokens = answer["usage"]["input_tokens"]
    content = {
        "answers": [
            _answer(question, answer["answers"][name])
            for name, question in zip(asked.ids, asked.questions, strict=True)
        ],
        "model": answer["model"],
        "usage": {
            "input_tokens": tokens,
            "input_tokens_details": {"cache_write_tokens": 0, "cached_tokens": 0},
            "output_tokens": 0,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": tokens,
        },
    }
    return dumps(content | {name: value for name, value in answer.items() if name.startswith("x_")})


def _answer(question: Question, answer: dict[str, Any]) -> dict[str, Any]:
    head = {"type": question.type, "name": question.name}
    if isinstance(question, PredicateQuestion):
        return head | {"probability": answer["noul"]}
    probabilities = list(answer["probabilities"].values())
    if isinstance(question, ChoiceQuestion):
        values = [choice.value for choice in question.choices]
        chosen = list(answer["probabilities"]).index(answer["choice"])
        return head | {
            "choice": values[chosen],
            "confidence": answer["confidence"],
            "probabilities": [
                {"value": value, "probability": probability}
                for value, probability in zip(values, probabilities, strict=True)
            ],
        }
    return head | {
        "score": answer["score"],
        "confidence": answer["confidence"],
        "probabilities": [
            {"label": level.label, "value": index, "probability": probability}
            for index, (level, probability) in enumerate(zip(question.levels, probabilities, strict=True))
        ],
    }


def _issue(issue: dict[str, Any]) -> dict[str, Any]:
    loc = issue["loc"]
    # Brackets mark a branch of text or array; after an index stands its item's type, save where there is one type only.
    place = [
        item
        for before, item in zip(["", *loc], loc, strict=False)
        if isinstance(item, int)
        or not (item in (TEXT, ARRAY) or (isinstance(before, int) and item not in ("value", "label", "description")))
    ]
    known = {"union_tag_invalid": "This type is not known here", "union_tag_not_found": "The type is missing"}
    return {"loc": place, "msg": known.get(issue["type"], issue["msg"]), "type": issue["type"]}
