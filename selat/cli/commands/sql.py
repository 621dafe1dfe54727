"""`selat sql`: statements from an argument, a file, standard input or a prompt."""

from __future__ import annotations

import sys
from typing import TextIO

import click

from selat.cli.base.app import App, pass_app, remember_sql
from selat.cli.base.options import settings_options
from selat.cli.commands.statements import Submission, run_text


@click.command()
@settings_options
@click.argument("statement", required=False)
@click.option("-f", "--file", "script", type=click.File("r", encoding="utf-8"), help="Read statements from a file.")
@click.option("--name", default="", help="Name for the query, when there is exactly one.")
@click.option("--follow", "then", flag_value="follow", default=True, help="Follow the last query (default).")
@click.option("--no-follow", "then", flag_value="leave", help="Leave every query running and print its id.")
@click.option(
    "--detach", "then", flag_value="detach", help="Leave the query running and print its bare id, for scripts."
)
@pass_app
def sql(app: App, statement: str | None, script: TextIO | None, name: str, then: str) -> None:
    """Run SQL: STATEMENT, a file, `-` for standard input, or a prompt when alone.

    A SELECT is submitted, and its results are printed until the query is over. Ctrl-C cancels the query. Of an INSERT
    INTO the id is printed, and the query is followed until it is over. In a script only a query that is the last
    statement is followed; the others run on and their ids are printed. --no-follow lets the last one run on as well;
    --detach does so too and prints nothing but the id.

    \b
    Examples:
      selat sql "SELECT page, user_id FROM clicks WHERE site = 'us'"
      selat sql -f setup.sql
      echo "SHOW STREAMS" | selat sql - -o json
      id=$(selat sql --detach --name visits "SELECT ...")
      selat sql
    """
    if statement is not None and script is not None:
        raise click.UsageError("give either STATEMENT or --file")
    submission = Submission(follow=then == "follow", name=name, bare_ids=then == "detach")
    text = _text(statement, script)
    if text is None:
        from selat.cli.commands.prompt import run_prompt  # only the prompt needs prompt_toolkit

        with app.connect() as client:
            run_prompt(app, client)
        return
    remember_sql(text)
    with app.connect() as client:
        run_text(app, client, text, submission)


def _text(statement: str | None, script: TextIO | None) -> str | None:
    """The text to run; None: start the prompt."""
    if script is not None:
        return script.read()
    if statement == "-" or (statement is None and not sys.stdin.isatty()):
        return sys.stdin.read()
    return statement
