"""`python -m jaxrb`: a demo and benchmarks."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from . import __version__, bench
from .cli import demo


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command.

    Args:
        argv: the words of the command line; those of the process by default.

    Returns:
        The exit status. Words that are not understood exit with status 2.
    """
    parser = _parser()
    args = parser.parse_args(argv)
    if args.command is None:
        parser.print_help()
        return 0
    return args.run(args)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m jaxrb", description="Differentiable rigid-body physics with exact impacts."
    )
    parser.add_argument("--version", action="version", version=f"jaxrb {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    for name, module, text in (
        ("demo", demo, "simulate a case, print its impacts, draw its energies"),
        ("bench", bench, "measure speed, side by side with other engines"),
    ):
        command = commands.add_parser(
            name, help=text, description=(module.__doc__ or "").split("\n")[0]
        )
        module.add_arguments(command)
        command.set_defaults(run=module.run)
    return parser


if __name__ == "__main__":
    sys.exit(main())
