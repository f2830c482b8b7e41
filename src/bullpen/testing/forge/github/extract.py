"""Cut what the stand-in uses out of GitHub's published descriptions.

python -m bullpen.testing.forge.github.extract FOLDER

FOLDER has the npm packages `@octokit/openapi`, `@octokit/graphql-schema`,
`@octokit/webhooks-examples` and `@octokit/webhooks-schemas` in `node_modules`. The result is in
`published/` beside this file.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from graphql import (
    GraphQLEnumType,
    GraphQLInputObjectType,
    GraphQLInterfaceType,
    GraphQLObjectType,
    GraphQLScalarType,
    GraphQLSchema,
    build_schema,
    get_named_type,
    print_schema,
)

PUBLISHED = Path(__file__).with_name("published")

_REPO = "/repos/{owner}/{repo}"
OPERATIONS = (
    ("get", "/user"),
    ("get", "/search/issues"),
    ("get", _REPO),
    ("get", f"{_REPO}/collaborators/{{username}}/permission"),
    ("get", f"{_REPO}/issues"),
    ("get", f"{_REPO}/issues/{{issue_number}}"),
    ("patch", f"{_REPO}/issues/{{issue_number}}"),
    ("get", f"{_REPO}/issues/{{issue_number}}/comments"),
    ("post", f"{_REPO}/issues/{{issue_number}}/comments"),
    ("patch", f"{_REPO}/issues/comments/{{comment_id}}"),
    ("get", f"{_REPO}/issues/{{issue_number}}/dependencies/blocked_by"),
    ("get", f"{_REPO}/issues/{{issue_number}}/sub_issues"),
    ("get", f"{_REPO}/milestones"),
    ("get", f"{_REPO}/labels/{{name}}"),
    ("post", f"{_REPO}/labels"),
    ("get", f"{_REPO}/issues/{{issue_number}}/labels"),
    ("post", f"{_REPO}/issues/{{issue_number}}/labels"),
    ("delete", f"{_REPO}/issues/{{issue_number}}/labels/{{name}}"),
    ("get", f"{_REPO}/git/ref/{{ref}}"),
    ("delete", f"{_REPO}/git/refs/{{ref}}"),
    ("get", f"{_REPO}/pulls"),
    ("post", f"{_REPO}/pulls"),
    ("get", f"{_REPO}/pulls/{{pull_number}}"),
    ("patch", f"{_REPO}/pulls/{{pull_number}}"),
    ("put", f"{_REPO}/pulls/{{pull_number}}/merge"),
    ("get", f"{_REPO}/pulls/{{pull_number}}/reviews"),
    ("post", f"{_REPO}/pulls/{{pull_number}}/reviews"),
    ("post", f"{_REPO}/pulls/{{pull_number}}/comments/{{comment_id}}/replies"),
    ("get", f"{_REPO}/commits/{{ref}}/check-runs"),
    ("get", f"{_REPO}/commits/{{ref}}/statuses"),
    ("get", f"{_REPO}/actions/jobs/{{job_id}}"),
    ("get", f"{_REPO}/actions/jobs/{{job_id}}/logs"),
)

FIELDS = {
    "Query": ("repository", "node", "viewer"),
    "Mutation": ("resolveReviewThread",),
    "Repository": ("id", "pullRequest", "nameWithOwner"),
    "PullRequest": ("id", "number", "reviewThreads"),
    "PullRequestReviewThreadConnection": ("nodes", "pageInfo", "totalCount"),
    "PullRequestReviewThread": (
        *("id", "isResolved", "isOutdated", "path", "line", "originalLine", "comments"),
        *("pullRequest", "repository"),
    ),
    "PullRequestReviewCommentConnection": ("nodes", "pageInfo", "totalCount"),
    "PullRequestReviewComment": (
        *("id", "fullDatabaseId", "author", "authorAssociation", "body", "url", "createdAt"),
        "state",
    ),
    "PageInfo": ("endCursor", "hasNextPage"),
    "ResolveReviewThreadPayload": ("thread", "clientMutationId"),
    "User": ("id", "login"),
    "Actor": ("login",),
    "Node": ("id",),
}

EVENTS = {
    "issues": ("opened", "edited", "closed", "reopened", "labeled", "unlabeled", "assigned"),
    "issue_comment": ("created", "edited", "deleted"),
    "pull_request": ("opened", "edited", "closed", "reopened", "synchronize", "labeled"),
    "pull_request_review": ("submitted", "dismissed"),
    "pull_request_review_comment": ("created", "edited", "deleted"),
    "pull_request_review_thread": ("resolved", "unresolved"),
    "check_run": ("created", "completed", "rerequested"),
    "check_suite": ("completed", "requested"),
    "status": ("",),
    "push": ("",),
}

_UNUSED = {
    "description",
    "externalDocs",
    "example",
    "examples",
    "title",
    "x-github",
    "tags",
    "tsType",
}


def main(folder: Path) -> None:
    """Write all extracts."""
    modules = folder / "node_modules" / "@octokit"
    PUBLISHED.mkdir(exist_ok=True)
    described = read(modules / "openapi" / "generated" / "api.github.com.json")
    write("openapi.json", openapi(described))
    schema = (modules / "graphql-schema" / "schema.graphql").read_text(encoding="utf-8")
    (PUBLISHED / "schema.graphql").write_text(graphql(schema), encoding="utf-8")
    recorded = read(modules / "webhooks-examples" / "api.github.com" / "index.json")
    shapes = read(modules / "webhooks-schemas" / "schema.json")
    write("webhooks.json", webhooks(recorded, shapes))
    (PUBLISHED / "ORIGIN.txt").write_text(_origin(modules), encoding="utf-8")


def _origin(modules: Path) -> str:
    """Return the versions that everything is from, and their licenses."""
    parts = []
    for name in ("openapi", "graphql-schema", "webhooks-examples", "webhooks-schemas"):
        package = read(modules / name / "package.json")
        parts.append(f"{package['name']} {package['version']}, {package['license']}\n")
        parts += [
            f"\n{each.read_text(encoding='utf-8').strip()}\n\n"
            for each in sorted((modules / name).glob("LICENSE*"))
        ]
    return "".join(parts)


def openapi(described: dict[str, Any]) -> dict[str, Any]:
    """Return the operations that we use, with all that they refer to, as JSON Schema."""
    components = described["components"]
    operations = [_operation(described, method, path, components) for method, path in OPERATIONS]
    schemas = _closure(operations, components["schemas"], "#/components/schemas/")
    return {
        "version": described["info"]["version"],
        "operations": operations,
        "schemas": {name: _schema(components["schemas"][name]) for name in sorted(schemas)},
    }


def _operation(
    described: dict[str, Any], method: str, path: str, components: dict[str, Any]
) -> dict[str, Any]:
    found = described["paths"][path][method]
    parameters = [_resolved(each, components) for each in found.get("parameters", ())]
    body = found.get("requestBody", {}).get("content", {}).get("application/json", {})
    responses = {}
    for status, each in found["responses"].items():
        response = _resolved(each, components)
        content = response.get("content", {})
        media: dict[str, Any] = next(
            (content[kind] for kind in content if kind.endswith("json")), {}
        )
        one: dict[str, Any] = {}
        if "schema" in media:
            one["schema"] = _schema(media["schema"])
        if "examples" in media and status.startswith("2"):
            first = next(iter(media["examples"].values()))
            one["example"] = _resolved(first, components)["value"]
        responses[status] = one
    return {
        "id": found["operationId"],
        "method": method,
        "path": path,
        "parameters": [
            {
                "name": each["name"],
                "in": each["in"],
                "required": each.get("required", False),
                "schema": _schema(each["schema"]),
            }
            for each in parameters
        ],
        **({"body": _schema(body["schema"])} if body else {}),
        "body_required": found.get("requestBody", {}).get("required", False),
        "responses": responses,
    }


def _resolved(value: dict[str, Any], components: dict[str, Any]) -> dict[str, Any]:
    if "$ref" not in value:
        return value
    kind, name = value["$ref"].removeprefix("#/components/").split("/")
    return _resolved(components[kind][name], components)


def _schema(value: Any) -> Any:
    """Return a schema of OpenAPI 3.0 as one of JSON Schema, without what only people read."""
    if isinstance(value, list):
        return [_schema(each) for each in value]
    if not isinstance(value, dict):
        return value
    if "$ref" in value:
        return {"$ref": "#/schemas/" + value["$ref"].rpartition("/")[2]}
    made = {}
    for key, each in value.items():
        if key == "properties":
            made[key] = {name: _schema(one) for name, one in each.items()}
        elif key not in _UNUSED and key not in {"nullable", "discriminator"}:
            made[key] = each if key in {"enum", "required", "default"} else _schema(each)
    if value.get("nullable"):
        return {"anyOf": [{"type": "null"}, made]}
    return made


def _closure(start: Any, schemas: dict[str, Any], prefix: str) -> set[str]:
    """Return the names of all schemas that something refers to."""
    found: set[str] = set()
    waiting = list(_references(start))
    while waiting:
        name = waiting.pop().rpartition("/")[2]
        if name not in found:
            found.add(name)
            waiting += _references(schemas[name])
    return found


def _references(value: Any) -> Iterator[str]:
    if isinstance(value, list):
        for each in value:
            yield from _references(each)
    elif isinstance(value, dict):
        for key, each in value.items():
            if key == "$ref" and isinstance(each, str):
                yield each
            elif key != "example":
                yield from _references(each)


def graphql(text: str) -> str:
    """Return the types and fields that our queries use, with every argument and input of them."""
    schema = build_schema(text, assume_valid=True)
    kept: dict[str, Any] = {}
    waiting = list(FIELDS)
    while waiting:
        name = waiting.pop()
        kind = schema.type_map[name]
        if name in kept:
            continue
        kept[name] = kind
        kind.description = None
        if isinstance(kind, GraphQLObjectType | GraphQLInterfaceType):
            fields = {each: kind.fields[each] for each in FIELDS[name]}
            kind.fields = fields
            kind.interfaces = tuple(
                each
                for each in kind.interfaces
                if set(FIELDS.get(each.name, ("?",))) <= fields.keys()
            )
            for field in fields.values():
                field.description = None
                waiting.append(get_named_type(field.type).name)
                for argument in field.args.values():
                    argument.description = None
                    waiting.append(get_named_type(argument.type).name)
        elif isinstance(kind, GraphQLInputObjectType):
            for each in kind.fields.values():
                each.description = None
                waiting.append(get_named_type(each.type).name)
        elif isinstance(kind, GraphQLEnumType):
            for value in kind.values.values():
                value.description = None
        else:
            assert isinstance(kind, GraphQLScalarType), name
    small = GraphQLSchema(
        query=kept["Query"], mutation=kept["Mutation"], types=list(kept.values()), directives=()
    )
    return print_schema(small) + "\n"


def webhooks(recorded: list[dict[str, Any]], shapes: dict[str, Any]) -> dict[str, Any]:
    """Return one recorded example and the shape of each event that we send."""
    examples, events = {}, {}
    for event, actions in EVENTS.items():
        bodies = next(each["examples"] for each in recorded if each["name"] == event)
        for action in actions:
            name = f"{event}.{action}" if action else event
            shape = name.replace(".", "$") if action else f"{event}$event"
            events[name] = {"$ref": f"#/definitions/{shape}"}
            fitting = [each for each in bodies if each.get("action", "") == action]
            if fitting:
                examples[name] = fitting[-1]
    definitions = shapes["definitions"]
    names = _closure(events, definitions, "#/definitions/")
    return {
        "examples": examples,
        "events": events,
        "definitions": {name: _pruned(definitions[name]) for name in sorted(names)},
    }


def _pruned(value: Any) -> Any:
    """Return a shape without what only people and other programs read."""
    if isinstance(value, list):
        return [_pruned(each) for each in value]
    if not isinstance(value, dict):
        return value
    return {
        key: {name: _pruned(one) for name, one in each.items()}
        if key == "properties"
        else _pruned(each)
        for key, each in value.items()
        if key not in _UNUSED
    }


def read(path: Path) -> Any:
    """Return the content of a JSON file."""
    return json.loads(path.read_text(encoding="utf-8"))


def write(name: str, value: Any) -> None:
    """Write an extract, small, with one line for each entry."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=False)
    (PUBLISHED / name).write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
