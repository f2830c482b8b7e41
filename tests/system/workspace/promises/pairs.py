"""Pairs of features that two members build at the same time.

Each conflicting pair merges without a textual conflict and breaks the project's suite. Its harmless
twin has the same promises and fits together.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from bullpen.team.promises.rules import PromiseDraft

Files = Mapping[str, str]
Found = Literal["at once", "hand-in", "queue"]
"""When a conflict is found: while promising, when work is handed in, or in the merge queue."""


@dataclass(frozen=True, slots=True)
class Pair:
    """Two features. Ann promises and hands in first, unless `bob_first`."""

    name: str
    base: Files
    ann: Files
    bob: Files
    suite: str
    promise: PromiseDraft
    # What bob promises in turn, and whether he relies on ann's promise.
    counter: PromiseDraft | None = None
    relies: bool = False
    bob_first: bool = False
    # Whether ann's work is merged before bob hands in.
    apart: bool = False
    found: Found = "queue"


def _signature(text: str) -> PromiseDraft:
    return PromiseDraft(f"lib has {text}", "signature", path="lib.py", signature=text)


def _path(pattern: str) -> PromiseDraft:
    return PromiseDraft(f"only I edit {pattern}", "path", path=pattern)


def _command(code: str) -> PromiseDraft:
    return PromiseDraft("it gives what it gave", "command", run=f'python3 -B -c "{code}"')


# Function, how it is, how ann promises it, how bob would have it, a call of each.
_FUNCTIONS = (
    ("parse", "text", "text, strict=False", "text, mode='lax'", "strict=True", "mode='lax'"),
    ("render", "page", "page, *, width=80", "page, *, columns=80", "width=40", "columns=40"),
    ("load", "name", "name, cache=True", "name, fresh=False", "cache=False", "fresh=True"),
    ("send", "body", "body, to=None", "body, address=None", "to='x'", "address='x'"),
    ("sort", "rows", "rows, key=None", "rows, by=None", "key=1", "by=1"),
    ("open_db", "url", "url, timeout=5", "url, seconds=5", "timeout=1", "seconds=1"),
    ("search", "word", "word, limit=10", "word, top=10", "limit=3", "top=3"),
    ("log", "line", "line, level='info'", "line, severity='info'", "level='x'", "severity='x'"),
    ("price", "item", "item, *, tax=0", "item, *, vat=0", "tax=7", "vat=7"),
    ("route", "path", "path, method='GET'", "path, verb='GET'", "method='PUT'", "verb='PUT'"),
)


def _signature_pair(index: int, *, harmless: bool) -> Pair:
    name, was, promised, other, call, wrong = _FUNCTIONS[index]
    lib = f"def {name}({{}}):\n    return {was}\n"
    use = f"from lib import {name}\n\n\ndef use():\n    return {name}('x', {{}})\n"
    suite = "import ann_use, bob_use; ann_use.use(); bob_use.use()"
    ann = {"lib.py": lib.format(promised), "ann_use.py": use.format(call)}
    bob = {"bob_use.py": use.format(call if harmless else wrong)}
    base = {"lib.py": lib.format(was), "ann_use.py": "def use(): ...\n"}
    pair = Pair(f"signature-{name}", base, ann, bob, suite, _signature(f"{name}({promised})"))
    kind = index % 3
    if harmless:
        own = PromiseDraft("use takes nothing", "signature", path="bob_use.py", signature="use()")
        counter = own if kind == 0 else None
        return _but(pair, counter=counter, relies=kind != 0, bob_first=kind == 2)
    if kind == 0:
        return _but(pair, counter=_signature(f"{name}({other})"), found="at once")
    if kind == 1:
        # Ann changes her mind and does not say so; bob builds on what she promised.
        ann = {"lib.py": lib.format(other), "ann_use.py": use.format(wrong)}
        bob = {"bob_use.py": use.format(call)}
        return _but(pair, ann=ann, bob=bob, relies=True, found="hand-in")
    # It is as promised from the start, and bob, who relies on nothing, renames the parameter.
    base = {**base, "lib.py": lib.format(promised)}
    ann = {"ann_use.py": use.format(call)}
    bob = {"lib.py": lib.format(other), "bob_use.py": use.format(wrong)}
    return _but(pair, base=base, ann=ann, bob=bob, apart=index == 5)


# The pattern that ann promises, the file, and what bob promises in turn.
_PATHS = (
    ("routes.py", "routes.py", None),
    ("app/**", "app/routes.py", None),
    ("app/", "app/deep/routes.py", "app/*/routes.py"),
    ("**/*.json.py", "conf/limits.json.py", None),
    ("conf/limit?.py", "conf/limits.py", "conf/*.py"),
    ("app", "app/routes.py", None),
    ("*.py", "routes.py", None),
    ("app/r*", "app/routes.py", "app/routes.py"),
    ("conf/**/limits.py", "conf/limits.py", None),
    ("ROUTES.py", "routes.py", None),
)
_TABLE = "LIMIT = {}\n" + "# -\n" * 8 + "TABLE = {}\n"


def _path_pair(index: int, *, harmless: bool) -> Pair:
    pattern, file, counter = _PATHS[index]
    base = {file: _TABLE.format(9, 1), "mine.txt": "-\n"}
    ann = {file: _TABLE.format(9, 8)}
    bob = {"mine.txt": "bob's\n"} if harmless else {file: _TABLE.format(5, 1)}
    suite = f"import runpy; t = runpy.run_path('{file}'); assert t['TABLE'] <= t['LIMIT']"
    pair = Pair(f"path-{pattern}-{index}", base, ann, bob, suite, _path(pattern))
    if harmless:
        return _but(pair, counter=_path("mine.txt"), relies=index % 2 == 0, bob_first=index > 5)
    if counter is not None:
        return _but(pair, counter=_path(counter), found="at once")
    return _but(
        pair, bob_first=index % 2 == 1, apart=index == 6, found="hand-in" if index != 6 else "queue"
    )


# What a rate is, what is made of it, and to what bob changes it.
_RATES = (
    ("2", "n * RATE", "3"),
    ("'.'", "RATE.join(map(str, range(n)))", "','"),
    ("10", "n % RATE", "3"),
    ("[1, 2]", "RATE * n", "(1, 2)"),
    ("True", "n if RATE else -n", "False"),
    ("0.5", "n * RATE", "0.25"),
    ("'utf-8'", "len(('ä' * n).encode(RATE))", "'latin-1'"),
    ("3", "n ** RATE", "2"),
    ("{'a': 1}", "RATE['a'] + n", "{'b': 1}"),
    ("str.upper", "RATE('n' * n)", "str.lower"),
)


def _behaviour_pair(index: int, *, harmless: bool) -> Pair:
    rate, made, other = _RATES[index]
    namespace: dict[str, object] = {}
    exec(f"RATE = {rate}\nn = 4\nresult = {made}", namespace)
    expected = namespace["result"]
    code = f"import price; assert price.price(4) == {expected!r}"
    source = f"from rates import RATE\n\n\ndef price(n):\n    return {made}\n"
    base = {"rates.py": f"RATE = {rate}\n", "price.py": source}
    ann = {"invoice.py": "from price import price\n\n\ndef invoice():\n    return price(4)\n"}
    bob = {"rates.py": f"RATE = {other}\n"}
    if harmless:
        bob = {"rates.py": f"# As agreed.\nRATE = {rate}\n"}
    suite = f"import invoice; assert invoice.invoice() == {expected!r}"
    pair = Pair(f"behaviour-{index}", base, ann, bob, suite, _command(code))
    if harmless:
        return _but(pair, relies=index % 2 == 0, bob_first=index % 3 == 0, apart=index == 5)
    if index % 3 == 1:
        # Ann breaks it herself, and bob relies on it.
        return _but(
            pair,
            ann={**ann, **bob},
            bob={"use.py": ann["invoice.py"]},
            relies=True,
            found="hand-in",
        )
    return _but(pair, relies=index % 3 == 2, apart=index == 3, bob_first=index == 6)


def _but(pair: Pair, **changes: object) -> Pair:
    fields = {name: getattr(pair, name) for name in Pair.__slots__}
    return Pair(**{**fields, **changes})


_KINDS = (_signature_pair, _path_pair, _behaviour_pair)
CONFLICTS = [make(index, harmless=False) for index in range(10) for make in _KINDS]
HARMLESS = [make(index, harmless=True) for index in range(10) for make in _KINDS]
SAMPLE = 6
"""How many of each list run every time: the first of each kind and of each way to find it."""
