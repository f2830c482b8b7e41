"""Groups that find their commands by dotted name, and how a function becomes a command.

A command's module is imported when the command is used, so a help page imports none of them.
"""

from __future__ import annotations

import gc
import inspect
import os
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import is_dataclass
from typing import Annotated, Any, TypeVar

import typer
from typer.core import CompletionItem, TyperCommand, TyperGroup  # type: ignore[attr-defined]
from typer.main import get_command_from_info, get_group
from typer.models import CommandInfo

from bullpen.by_name import load
from bullpen.doors.cli.commands import (
    ADVANCED,
    AGENTS_MAY_TYPE,
    COMMANDS,
    CONFIGURED,
    HIDDEN,
    OTHER_WORDS,
    PANELS,
    CommandEntry,
    GroupEntry,
)
from bullpen.doors.cli.options.option import argument, flag, option
from bullpen.doors.cli.options.plain_words import taking_plain_words

F = TypeVar("F", bound=Callable[..., None])

EVERYWHERE = "Common options"
"""The panel of the options that every command has."""

# What marks an agent's processes; importing it from where it belongs would slow every `--help`.
_NONCE = "BULLPEN_NONCE"

# What people call the lead; the same holds for it.
_SHORT_LEAD = "lead"

_NEW_OBJECTS = 10_000
"""How many there are before garbage is looked for. With Python's 700, long lists take longer."""

_OWN = "Options"
_ARGUMENTS = "Arguments"
_LIST_ALL = "bullpen.list_all"


def load_command(entry: CommandEntry | GroupEntry) -> Any:
    """The function that runs a command of the table."""
    return load(f"bullpen.doors.cli.{entry.target}")


def fit_to_keep(texts: Sequence[str]) -> list[str]:
    """What somebody says, as it may be kept: an agent's words without its secrets.

    People's words stay as they are.
    """
    if not os.environ.get(_NONCE):
        return list(texts)
    redactor = load("bullpen.agents.system.secrets:redactor_of")(os.environ)
    return [*map(redactor.text, texts)]


def _offers(name: str) -> Callable[[typer.Context], list[tuple[str, str]]]:
    """The shell completion of that name, imported when a shell asks."""

    def offer(context: typer.Context) -> list[tuple[str, str]]:
        found: list[tuple[str, str]] = load(f"bullpen.doors.cli.options.completion:{name}")(context)
        return found

    return offer


def _every_command(
    *,
    home: Annotated[
        str | None,
        option(
            "Where the teams live [env: BULLPEN_HOME; default: ~/.bullpen]",
            "DIR",
            "--home",
            panel=EVERYWHERE,
        ),
    ] = None,
    store: Annotated[
        str | None,
        option(
            "Use a NATS server instead of local files [env: BULLPEN_STORE]",
            "URL",
            "--store",
            panel=EVERYWHERE,
        ),
    ] = None,
    common_team: Annotated[
        str | None,
        option(
            "The team [env: BULLPEN_TEAM; default: the latest here]",
            "NAME",
            "-t",
            "--team",
            complete=_offers("team_names"),
            panel=EVERYWHERE,
        ),
    ] = None,
    common_as: Annotated[
        str | None,
        option(
            "The member you act as [env: BULLPEN_AGENT; default: the lead]",
            "NAME",
            "--as",
            complete=_offers("member_names"),
            panel=EVERYWHERE,
        ),
    ] = None,
    common_json: Annotated[
        bool, flag("Print one JSON object, at the end", "--json", panel=EVERYWHERE)
    ] = False,
    common_jsonl: Annotated[
        bool, flag("Print one JSON object per line, at once", "--jsonl", panel=EVERYWHERE)
    ] = False,
) -> None:
    """The options of every command and every group."""


_COMMON = tuple(inspect.signature(_every_command, eval_str=True).parameters.values())
_CONTEXT = inspect.Parameter(
    "context", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context
)


def given(context: typer.Context, name: str) -> Any:
    """The value of a common option; the one nearest to the command wins. None if not given."""
    level: Any = context
    while level is not None:
        value = level.params.get(name)
        if value not in (None, False):
            return value
        level = level.parent
    return None


def wants_json(context: typer.Context) -> bool:
    """Whether a program reads the answer."""
    return bool(given(context, "common_json") or given(context, "common_jsonl"))


def examples(*lines: str, any_words: bool = False) -> Callable[[F], F]:
    """Show these lines under the help of a command.

    With `any_words`, the command takes options that it does not know as words.
    """

    def note(function: F) -> F:
        vars(function).update(examples=lines, any_words=any_words)
        return function

    return note


class CommandsByName(Mapping[str, Any]):
    """The commands of one group. Each is imported when somebody takes it."""

    def __init__(self, group: str = "") -> None:
        self._prefix = f"{group} " if group else ""
        below = [path.removeprefix(self._prefix) for path in COMMANDS if self._is_below(path)]
        self._names = _in_panels(below) if not group else below
        self._built: dict[str, Any] = {}

    def _is_below(self, path: str) -> bool:
        return path.startswith(self._prefix) and " " not in path.removeprefix(self._prefix)

    def __getitem__(self, name: str) -> Any:
        if name not in self._names:
            raise KeyError(name)
        if name not in self._built:
            self._built[name] = _build(f"{self._prefix}{name}", name)
        return self._built[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def help_of(self, name: str) -> str:
        """The line that lists a command."""
        return COMMANDS[f"{self._prefix}{name}"].help


def _in_panels(names: Sequence[str]) -> list[str]:
    shown = [name for panel in PANELS.values() for name in panel]
    return [*shown, *(name for name in names if name not in shown)]


class _Command(TyperCommand):
    """A command whose options stand in panels."""

    path = ""
    """Its name, after those of its groups."""

    def get_params(self, ctx: Any) -> Any:
        """The parameters, of which most take plain words."""
        return taking_plain_words(super().get_params(ctx))

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the words of a command line; what they leave out may be configured."""
        rest = super().parse_args(ctx, args)
        if self.path in CONFIGURED and not ctx.resilient_parsing:
            load("bullpen.doors.cli.options.configured:fill_in")(ctx)
        return rest

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """The usage line; dots would look as if something was cut."""
        return [piece.removesuffix("...") for piece in super().collect_usage_pieces(ctx)]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the options panel by panel."""
        _write_panels(self, ctx, formatter)


class Group(TyperGroup):
    """A group that shows its help when no command is named, unless it does something itself."""

    commands: Any

    def __init__(self, **settings: Any) -> None:
        super().__init__(**{**settings, "subcommand_metavar": "COMMAND [ARGS]"})
        self.commands = CommandsByName()

    def get_params(self, ctx: Any) -> Any:
        """The parameters, of which most take plain words."""
        return taking_plain_words(super().get_params(ctx))

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the words of a command line, if there are any."""
        ctx.meta[_LIST_ALL] = "--all" in args
        if not args and not ctx.resilient_parsing and not self.invoke_without_command:
            if ctx.parent is not None and wants_json(ctx.parent):
                raise typer.BadParameter("no command is named.", ctx=ctx)
            typer.echo(ctx.get_help(), err=True)
            raise typer.Exit(2)
        rest = super().parse_args(ctx, args)
        if not (ctx._protected_args or ctx.resilient_parsing or self.invoke_without_command):
            lists = f" To list them: {ctx.command_path} list" if "list" in self.commands else ""
            ctx.fail(f"No command is named.{lists}")
        return rest

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find a command; words of other programs are answered with ours."""
        typed = " ".join([*ctx.command_path.split()[1:], args[0]])
        if typed in OTHER_WORDS:
            ctx.fail(f"No such command {args[0]!r}. Did you mean '{OTHER_WORDS[typed]}'?")
        return super().resolve_command(ctx, args)

    def list_commands(self, ctx: Any) -> list[str]:
        """The names of the commands that people use."""
        return [name for name in self.commands if name not in HIDDEN]

    def shell_complete(self, ctx: Any, incomplete: str) -> Any:
        """What a shell may offer: options, and commands without importing them."""
        return [
            *(
                CompletionItem(name, help=self.commands.help_of(name))
                for name in self.list_commands(ctx)
                if name.startswith(incomplete)
            ),
            *super(TyperGroup, self).shell_complete(ctx, incomplete),
        ]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the commands, then the options."""
        self.format_commands(ctx, formatter)
        _write_panels(self, ctx, formatter)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write a line for each command."""
        self._write_commands(formatter, "Commands", self.list_commands(ctx))

    def _write_commands(self, formatter: Any, title: str, names: Sequence[str]) -> None:
        with formatter.section(title):
            formatter.write_dl([(name, self.commands.help_of(name)) for name in names])


class TopGroup(Group):
    """The root command. Its help groups the commands by purpose."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the commands panel by panel; the advanced ones only with `--all`."""
        for title, names in PANELS.items():
            self._write_commands(formatter, title, names)
        if ctx.meta.get(_LIST_ALL):
            everyday = {name for names in PANELS.values() for name in names}
            rest = [name for name in self.list_commands(ctx) if name not in everyday]
            self._write_commands(formatter, ADVANCED, rest)


def group(
    entry: GroupEntry,
    *,
    path: str = "",
    cls: type[Group] = Group,
    options: Sequence[inspect.Parameter] = (),
) -> typer.Typer:
    """A group with the common options."""
    app = typer.Typer(
        cls=cls,
        help="\n\n".join(filter(None, (entry.help, entry.about))),
        epilog=_epilog(entry.examples),
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    if not entry.target:
        app.callback()(_taking(lambda **_: None, (*options, *_COMMON)))
        return app
    if not path:
        _at_the_top(app, entry, options)
        return app
    run = _running(path, load_command(entry))
    own = inspect.signature(run).parameters

    def run_alone(context: typer.Context, **values: Any) -> None:
        if context.invoked_subcommand is None:
            run(context, **values)

    app.callback(invoke_without_command=True)(_taking(run_alone, [*own.values()]))
    return app


def _at_the_top(app: typer.Typer, entry: GroupEntry, options: Sequence[inspect.Parameter]) -> None:
    """Let the program do something without a command; other commands do not import that."""

    def run_alone(context: typer.Context, **values: Any) -> None:
        if context.invoked_subcommand is None:
            if context.meta[_LIST_ALL]:
                raise typer.BadParameter("--all works only with --help.", ctx=context)
            _running("", load_command(entry))(context, **values)

    app.callback(invoke_without_command=True)(_taking(run_alone, (_CONTEXT, *options, *_COMMON)))


def _build(path: str, name: str) -> Any:
    entry = COMMANDS[path]
    if isinstance(entry, GroupEntry):
        built = get_group(group(entry, path=path))
        built.name = name
        built.commands = CommandsByName(path)  # type: ignore[assignment]
        return built
    return _command(path, entry, name)


def _command(path: str, entry: CommandEntry, name: str) -> Any:
    function = _function_of(entry)
    about = vars(function)
    built: Any = get_command_from_info(
        CommandInfo(
            name=name,
            cls=_Command,
            callback=_running(path, function),
            help=_help_text(function),
            epilog=_epilog(about.get("examples", ())),
            context_settings={"ignore_unknown_options": True} if about.get("any_words") else None,
        ),
        pretty_exceptions_short=True,
        rich_markup_mode=None,
    )
    built.path = path
    return built


def _function_of(entry: CommandEntry) -> Callable[..., None]:
    """The function of a command; one that refuses if an extra that it needs is not installed."""
    try:
        found: Callable[..., None] = load_command(entry)
        return found
    except ModuleNotFoundError as error:
        refusal = load("bullpen.doors.cli.screens.extras:without_extra")(error)
        if refusal is None:
            raise

    @examples(any_words=True)
    def refuse(session: Any, words: Any = None) -> None:
        raise refusal

    refuse.__doc__ = f"{entry.help}.\n\n{refusal.message} {refusal.remedy}"
    refuse.__annotations__ = {
        "session": load("bullpen.doors.cli.session:Session"),
        "words": Annotated[list[str] | None, argument("Known once it is installed", "[ARGS]")],
    }
    return refuse


def _help_text(function: Callable[..., None]) -> str:
    """The docstring, whose first line is a heading in a help and has no full stop there."""
    first, *rest = (function.__doc__ or "").split("\n", 1)
    return "\n".join([first.removesuffix("."), *rest])


def _running(path: str, function: Callable[..., None]) -> Callable[..., None]:
    """The function with the common options after its own, as typer reads them.

    Agents are refused before it does anything, unless the table says that they may type it.

    The type of its first parameter makes the session from the context of the command. A parameter
    whose type is a dataclass stands for its fields: options that several commands share.
    """
    session_type, *own = _parameters(function)
    bundles: dict[str, Callable[..., Any]] = {
        each.name: each.annotation
        for each in own
        if isinstance(each.annotation, type) and is_dataclass(each.annotation)
    }
    shared = {name: _parameters(bundle) for name, bundle in bundles.items()}
    single = [each for each in own if each.name not in bundles]
    unfolded = [field for each in own for field in shared.get(each.name, (each,))]

    def run(context: typer.Context, **values: Any) -> None:
        session = session_type.annotation.of(context)
        if path and path not in AGENTS_MAY_TYPE:
            load("bullpen.doors.cli.permissions.people_only:refuse_agents")(session, path)
        if any(_SHORT_LEAD in value for value in values.values() if isinstance(value, str | list)):
            named = load("bullpen.doors.cli.options.short_name:with_lead_named")
            values = named(session, values, unfolded)
        chosen = {each.name: values[each.name] for each in single}
        for name, fields in shared.items():
            chosen[name] = bundles[name](**{each.name: values[each.name] for each in fields})
        _collect_garbage_again()
        with _interruptible():
            function(session, **chosen)
        session.page.flush()

    return _taking(run, (_CONTEXT, *unfolded, *_COMMON))


def _collect_garbage_again() -> None:
    """Turn garbage collection on, if it was off for the imports (see `bullpen.__main__`)."""
    if not gc.isenabled():
        gc.freeze()
        gc.set_threshold(_NEW_OBJECTS)
        gc.enable()


@contextmanager
def _interruptible() -> Iterator[None]:
    """Let Ctrl-C be an exception while a command runs, so that the command can clean up.

    Before and after it, the signal ends the process (see `bullpen.__main__`).
    """
    if signal.getsignal(signal.SIGINT) is not signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def _parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    return list(inspect.signature(function, eval_str=True).parameters.values())


def _epilog(lines: Sequence[str]) -> str | None:
    # A paragraph that begins with this character keeps its lines.
    return "\n".join(["\b", "Examples:", *(f"  {line}" for line in lines)]) if lines else None


def _taking(
    function: Callable[..., None], parameters: Sequence[inspect.Parameter]
) -> Callable[..., None]:
    """Tell typer which parameters a function takes; their types are resolved already."""
    ordered = sorted(parameters, key=lambda parameter: parameter.kind)
    function.__signature__ = inspect.Signature(ordered)  # type: ignore[attr-defined]
    function.__annotations__ = {}
    return function


def _write_panels(command: Any, ctx: Any, formatter: Any) -> None:
    """Write the options of a command, those of every command last."""
    panels: dict[str, list[tuple[str, str]]] = {_ARGUMENTS: [], _OWN: []}
    for param in command.get_params(ctx):
        record = param.get_help_record(ctx)
        if record is not None:
            is_argument = param.param_type_name == "argument"
            usual = EVERYWHERE if param.name == "help" else _ARGUMENTS if is_argument else _OWN
            panel = getattr(param, "rich_help_panel", None) or usual
            panels.setdefault(panel, []).append(record)
    panels[EVERYWHERE] = panels.pop(EVERYWHERE, [])
    for title, records in panels.items():
        if records:
            with formatter.section(title):
                formatter.write_dl(records)
