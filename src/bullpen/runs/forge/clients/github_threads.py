"""Threads on lines of pull requests: only GitHub's GraphQL says which are resolved."""

from __future__ import annotations

from typing import Any

from bullpen.errors import NotFound
from bullpen.runs.forge.clients import github_records as records
from bullpen.runs.forge.clients.github_connection import GitHubConnection
from bullpen.runs.forge.contract import LOOK_THERE
from bullpen.team.forge.shown import Thread

_COMMENTS = """
nodes { fullDatabaseId author { login } authorAssociation body url createdAt state }
pageInfo { hasNextPage endCursor }
"""

THREADS = f"""
query($owner: String!, $name: String!, $number: Int!, $size: Int!, $after: String) {{
  repository(owner: $owner, name: $name) {{
    pullRequest(number: $number) {{
      reviewThreads(first: $size, after: $after) {{
        nodes {{
          id path line originalLine isResolved
          comments(first: $size) {{ {_COMMENTS} }}
        }}
        pageInfo {{ hasNextPage endCursor }}
      }}
    }}
  }}
}}
"""

MORE_COMMENTS = f"""
query($thread: ID!, $size: Int!, $after: String) {{
  node(id: $thread) {{
    ... on PullRequestReviewThread {{ comments(first: $size, after: $after) {{ {_COMMENTS} }} }}
  }}
}}
"""

RESOLVE = """
mutation($thread: ID!) {
  resolveReviewThread(input: {threadId: $thread}) { thread { id isResolved } }
}
"""

VIEWER = "query { viewer { login } }"


async def threads(
    connection: GitHubConnection, owner: str, name: str, number: int, size: int
) -> list[Thread]:
    """Return all threads of a pull request with all their comments."""
    found: list[Thread] = []
    after: str | None = None
    while True:
        variables = {"owner": owner, "name": name, "number": number, "size": size, "after": after}
        repository = (await connection.graphql(THREADS, variables)).get("repository")
        pull = repository and repository.get("pullRequest")
        if not pull:
            raise NotFound(f"{owner}/{name} has no pull request {number}.", remedy=LOOK_THERE)
        page = pull["reviewThreads"]
        for each in page["nodes"]:
            thread = records.thread(each, await _all_comments(connection, each, size))
            if thread is not None:
                found.append(thread)
        if not page["pageInfo"]["hasNextPage"]:
            return found
        after = page["pageInfo"]["endCursor"]


async def _all_comments(
    connection: GitHubConnection, shown: dict[str, Any], size: int
) -> list[dict[str, Any]]:
    page = shown["comments"]
    found: list[dict[str, Any]] = list(page["nodes"])
    while page["pageInfo"]["hasNextPage"]:
        variables = {"thread": shown["id"], "size": size, "after": page["pageInfo"]["endCursor"]}
        node = (await connection.graphql(MORE_COMMENTS, variables)).get("node")
        if not node:
            raise NotFound(
                f"The thread {shown['id']} was deleted while it was read.", remedy=LOOK_THERE
            )
        page = node["comments"]
        found += page["nodes"]
    return found


async def resolve(connection: GitHubConnection, thread_id: str) -> None:
    """Mark a thread as resolved."""
    await connection.graphql(RESOLVE, {"thread": thread_id})


async def viewer(connection: GitHubConnection) -> str:
    """Return whose token it is, for a token that is not a user's."""
    data = await connection.graphql(VIEWER, {})
    return str(data["viewer"]["login"])
