"""How a function becomes a command: the common options, and examples under the help text."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import is_dataclass
from functools import cached_property
from typing import Annotated, Any, Concatenate, ParamSpec

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command_from_info, get_group
from typer.models import CommandInfo

from bullpen.cli import complete
from bullpen.cli.session import Session

P = ParamSpec("P")

Home = Annotated[
    str | None,
    typer.Option(
        "--home",
        metavar="DIR",
        help="Where the teams live. [env: BULLPEN_HOME; else ~/.bullpen]",
        show_default=False,
    ),
]
Store = Annotated[
    str | None,
    typer.Option(
        "--store",
        metavar="URL",
        help="Teams that are not in the home: nats://HOST:4222. [env: BULLPEN_STORE]",
        show_default=False,
    ),
]
CommonTeam = Annotated[
    str | None,
    typer.Option(
        "-t",
        "--team",
        metavar="NAME",
        help="The team. [env: BULLPEN_TEAM; else the only one there is]",
        show_default=False,
        autocompletion=complete.team_names,
    ),
]
CommonAs = Annotated[
    str | None,
    typer.Option(
        "--as",
        metavar="NAME",
        help="Who you are. [env: BULLPEN_AGENT; else team-lead]",
        show_default=False,
        autocompletion=complete.member_names,
    ),
]
CommonJson = Annotated[
    bool, typer.Option("--json", help="Answer with JSON on standard output.", show_default=False)
]


def _common(
    *,
    home: Home = None,
    store: Store = None,
    common_team: CommonTeam = None,
    common_as: CommonAs = None,
    common_json: CommonJson = False,
) -> None:
    """The options that every command and every group has."""


_COMMON = tuple(inspect.signature(_common, eval_str=True).parameters.values())
_CONTEXT = inspect.Parameter(
    "context", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context
)


class Group(TyperGroup):
    """A group that shows its help when no command is named, unless it does something itself."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the words of a command line, if there are any."""
        if not args and not ctx.resilient_parsing and not self.invoke_without_command:
            if ctx.parent is not None and Session.of(ctx.parent).json:
                raise typer.BadParameter("no command is named.", ctx=ctx)
            typer.echo(ctx.get_help(), err=True)
            raise typer.Exit(2)
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: Any) -> list[str]:
        """The names of its commands that people use, groups of them first."""
        shown = [name for name, command in self.commands.items() if not command.hidden]
        return sorted(shown, key=lambda name: not isinstance(self.commands[name], Group))


class Noun:
    """Commands under one name. They are built when that name is first used.

    Building all commands takes longer than showing the names of the groups they are in.
    """

    def __init__(self, help_text: str, *, examples: Sequence[str] = ()) -> None:
        self.commands = commands = typer.Typer(rich_markup_mode=None)

        class Late(Group):
            def get_command(self, ctx: Any, cmd_name: str) -> Any:
                self._build()
                return super().get_command(ctx, cmd_name)

            def list_commands(self, ctx: Any) -> list[str]:
                self._build()
                return super().list_commands(ctx)

            def _build(self) -> None:
                if not self.commands:
                    self.commands.update(get_group(commands).commands)

        self.app = group(help_text, cls=Late, examples=examples)

    def itself(self, function: Callable[..., None]) -> None:
        """Let the name alone do something, when none of its commands is named."""
        own = _parameters(function)[1:]

        def run(context: typer.Context, **values: Any) -> None:
            if context.invoked_subcommand is None:
                session = Session.of(context)
                function(session, **{each.name: values[each.name] for each in own})
                session.page.flush()

        self.app.callback(invoke_without_command=True)(_taking(run, (_CONTEXT, *own, *_COMMON)))


class LateCommand(TyperCommand):
    """A command whose options are made when somebody first asks for them.

    Making those of all commands takes longer than showing the names of the commands.
    """

    def build(self) -> Any:
        """The command as it is when it is used."""
        raise NotImplementedError

    @cached_property
    def _built(self) -> Any:
        return self.build()

    @property
    def params(self) -> Any:
        """The options and arguments."""
        return self._built.params

    @params.setter
    def params(self, _: Any) -> None:
        """What is set before they are made counts for nothing."""

    @property
    def callback(self) -> Any:
        """What is called with the values of the options."""
        return self._built.callback

    @callback.setter
    def callback(self, _: Any) -> None:
        """What is set before it is made counts for nothing."""


def group(
    help_text: str,
    *,
    cls: type[Group] = Group,
    options: Sequence[inspect.Parameter] = (),
    examples: Sequence[str] = (),
) -> typer.Typer:
    """Commands under one name, with the common options before them too."""
    app = typer.Typer(
        cls=cls,
        help=help_text,
        epilog=_epilog(examples),
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_taking(lambda **_: None, (*options, *_COMMON)))
    return app


def command(
    app: typer.Typer, name: str, *, examples: Sequence[str] = (), any_words: bool = False
) -> Callable[[Callable[Concatenate[Session, P], None]], Callable[Concatenate[Session, P], None]]:
    """Make a function of a session and its own options a command of `app`.

    The docstring is the help text. With `any_words`, options that it does not know are taken for
    words that are meant for it.
    """

    def register(
        function: Callable[Concatenate[Session, P], None],
    ) -> Callable[Concatenate[Session, P], None]:
        class Late(LateCommand):
            def build(self) -> Any:
                return get_command_from_info(
                    CommandInfo(name=name, callback=_running(function)),
                    pretty_exceptions_short=True,
                    rich_markup_mode=None,
                )

        late = app.command(
            name,
            cls=Late,
            help=function.__doc__,
            epilog=_epilog(examples),
            context_settings={"ignore_unknown_options": True} if any_words else None,
        )
        late(lambda: None)
        return function

    return register


def _running(function: Callable[..., None]) -> Callable[..., None]:
    """The function with the common options before its own, as typer reads them.

    A parameter whose type is a dataclass stands for its fields: options that several commands
    share.
    """
    own = _parameters(function)[1:]
    bundles: dict[str, Callable[..., Any]] = {
        each.name: each.annotation
        for each in own
        if isinstance(each.annotation, type) and is_dataclass(each.annotation)
    }
    shared = {name: _parameters(bundle) for name, bundle in bundles.items()}
    single = [each for each in own if each.name not in bundles]

    def run(context: typer.Context, **values: Any) -> None:
        session = Session.of(context)
        given = {each.name: values[each.name] for each in single}
        for name, fields in shared.items():
            given[name] = bundles[name](**{each.name: values[each.name] for each in fields})
        function(session, **given)
        session.page.flush()

    unfolded = [field for each in own for field in shared.get(each.name, (each,))]
    return _taking(run, (_CONTEXT, *unfolded, *_COMMON))


def _parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    return list(inspect.signature(function, eval_str=True).parameters.values())


def _epilog(examples: Sequence[str]) -> str | None:
    # A paragraph that begins with this character keeps its lines.
    return "\n".join(["\b", "Examples:", *(f"  {line}" for line in examples)]) if examples else None


def _taking(
    function: Callable[..., None], parameters: Sequence[inspect.Parameter]
) -> Callable[..., None]:
    """Tell typer which parameters a function takes; their types are resolved already."""
    ordered = sorted(parameters, key=lambda parameter: parameter.kind)
    function.__signature__ = inspect.Signature(ordered)  # type: ignore[attr-defined]
    function.__annotations__ = {}
    return function
