"""Print a shell completion script for commands and flags.

  bash: nanopace completion bash > ~/.local/share/bash-completion/completions/nanopace
  zsh: nanopace completion zsh > ~/.zsh/completions/_nanopace

For zsh, put fpath+=~/.zsh/completions before compinit.
"""

from __future__ import annotations

import argparse
import importlib
from typing import cast

from nanopace.cli.main import COMMANDS, Command


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=("bash", "zsh", "tcsh"), help="the shell to print it for")


def run(args: argparse.Namespace) -> int:
    import shtab

    print(shtab.complete(_whole_parser(), shell=args.shell))
    return 0


def _whole_parser() -> argparse.ArgumentParser:
    """All commands in one parser. The command line itself imports only the requested one."""
    import shtab

    parser = argparse.ArgumentParser(prog="nanopace")
    parser.add_argument("--version", action="store_true")
    parser.add_argument("--lang", choices=("en", "de", "fr", "es"))
    commands = parser.add_subparsers()
    for name, about in COMMANDS.items():
        command = cast(Command, importlib.import_module(f"nanopace.cli.commands.{name}"))
        own = commands.add_parser(name, help=about, description=about)
        command.add_arguments(own)
        for action in own._actions:
            if action.nargs != 0 and not action.choices:
                action.complete = shtab.FILE  # type: ignore[attr-defined]  # as the shell does where nothing is known
    return parser
