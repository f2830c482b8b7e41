"""The page of a repository is found from the remote of a clone, without anybody's token."""

from __future__ import annotations

from bullpen.runs.forge.remote import page_of
from support.rows import each_row


@each_row(
    ("remote", "page"),
    [
        ("https://github.com/acme/shop.git", "https://github.com/acme/shop"),
        ("https://x-access-token:hunter2@github.com/acme/shop", "https://github.com/acme/shop"),
        ("git@github.com:acme/shop.git", "https://github.com/acme/shop"),
        ("ssh://git@git.example:2222/acme/shop.git", "https://git.example/acme/shop"),
        ("http://127.0.0.1:3000/acme/shop.git", "http://127.0.0.1:3000/acme/shop"),
        ("git.example:acme/shop", "https://git.example/acme/shop"),
        ("/srv/git/shop.git", None),
        ("../shop", None),
        ("file:///srv/shop", None),
        ("", None),
        ("ext::sh -c x", None),
    ],
)
def test_a_remote_names_a_page(remote: str, page: str | None) -> None:
    assert page_of(remote) == page
