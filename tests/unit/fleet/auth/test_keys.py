"""Key pairs, signed claims and credentials files, without a server."""

from __future__ import annotations

import base64

import pytest

from bullpen.errors import Invalid
from bullpen.fleet.auth.keys import KeyPair, Kind, claims_of, creds_text, signed
from support.fleet.creds import read_creds


@pytest.mark.parametrize(
    ("kind", "public", "seed"),
    [(Kind.OPERATOR, "O", "SO"), (Kind.ACCOUNT, "A", "SA"), (Kind.USER, "U", "SU")],
)
def test_a_key_tells_its_kind_by_its_first_letters(kind: Kind, public: str, seed: str) -> None:
    pair = KeyPair.generate(kind)

    assert pair.public.startswith(public)
    assert pair.seed.startswith(seed)
    assert len(pair.public) == 56
    assert len(pair.seed) == 58


def test_a_seed_gives_the_same_key_again() -> None:
    pair = KeyPair.generate(Kind.USER)

    assert KeyPair(pair.seed).public == pair.public


def test_no_two_keys_are_the_same() -> None:
    assert len({KeyPair.generate(Kind.USER).public for _ in range(50)}) == 50


def test_a_seed_is_not_shown() -> None:
    pair = KeyPair.generate(Kind.USER)

    assert pair.seed not in f"{pair} {pair!r} {pair._pair!r}"


@pytest.mark.parametrize("at", [0, 1, 20, 57])
def test_a_seed_with_one_letter_wrong_is_refused_and_not_repeated(at: int) -> None:
    seed = KeyPair.generate(Kind.USER).seed
    wrong = seed[:at] + ("A" if seed[at] != "A" else "B") + seed[at + 1 :]

    with pytest.raises(Invalid) as caught:
        KeyPair(wrong)

    assert seed[2:20] not in str(caught.value)
    assert caught.value.__cause__ is None


@pytest.mark.parametrize("text", ["", "x", "SU", "ä" * 58, "S" * 58, "UAAA"])
def test_what_is_no_seed_is_refused(text: str) -> None:
    with pytest.raises(Invalid):
        KeyPair(text)


def test_claims_come_back_as_they_were_signed() -> None:
    issuer = KeyPair.generate(Kind.ACCOUNT)

    claims = claims_of(signed({"sub": "U", "name": "ä", "nats": {"tags": ["a"]}}, issuer))

    assert (claims["sub"], claims["name"], claims["nats"]) == ("U", "ä", {"tags": ["a"]})
    assert claims["iss"] == issuer.public
    assert claims["jti"]


def test_claims_that_were_changed_are_refused() -> None:
    issuer = KeyPair.generate(Kind.ACCOUNT)
    head, _, signature = signed({"name": "one"}, issuer).split(".")
    _, other, _ = signed({"name": "two"}, issuer).split(".")

    with pytest.raises(Invalid):
        claims_of(f"{head}.{other}.{signature}")


def test_claims_of_another_algorithm_are_refused_though_the_signature_is_right() -> None:
    issuer = KeyPair.generate(Kind.ACCOUNT)
    good, body, _ = signed({"name": "one"}, issuer).split(".")

    def under(head: str) -> str:
        signature = base64.urlsafe_b64encode(issuer.sign(f"{head}.{body}".encode())).decode()
        return f"{head}.{body}.{signature.rstrip('=')}"

    assert claims_of(under(good))["name"] == "one"
    for head in ("eyJ0eXAiOiJKV1QiLCJhbGciOiJub25lIn0", "e30"):
        with pytest.raises(Invalid):
            claims_of(under(head))


@pytest.mark.parametrize("text", ["", "a.b", "a.b.c", "....", "e30.e30.e30", "[].[].[]"])
def test_what_is_no_signed_claim_is_refused(text: str) -> None:
    with pytest.raises(Invalid):
        claims_of(text)


def test_credentials_come_back_as_they_were_written() -> None:
    user = KeyPair.generate(Kind.USER)
    token = signed({"sub": user.public}, KeyPair.generate(Kind.ACCOUNT))

    again, pair = read_creds(creds_text(token, user))

    assert (again, pair.seed) == (token, user.seed)
