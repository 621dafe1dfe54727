"""Declarations: CREATE, ALTER, DROP, SHOW, DESCRIBE, CANCEL, PAUSE, RESUME, GRANT, REVOKE. Grammar: docs/sql.md."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta

from planner.relations.catalog import ARRIVED, SITE_COLUMN, Binding, Column, Relation, RelationKind, is_arrival
from planner.relations.connectors.table import check_binding, connectors_for
from planner.relations.options import CONNECTOR
from planner.sql.cursor import Cursor
from planner.sql.dialect import TokenType
from planner.sql.function_ddl import (
    at_create_function,
    parse_create_function,
    parse_describe_function,
    parse_drop_function,
)
from planner.sql.grant_ddl import parse_grant, parse_revoke
from planner.sql.intervals import parse_interval
from planner.sql.option_ddl import Place, WrittenOptions, at_option, parse_options, values_of
from planner.sql.statements import (
    AlterBinding,
    CancelQuery,
    CreateRelation,
    Describe,
    DropRelation,
    PauseQuery,
    ResumeQuery,
    SetOption,
    Show,
    ShowTarget,
    Statement,
)
from planner.sql.types import parse_type
from planner.values.errors import InvalidDefinitionError, Position

KIND_HINT = "CREATE STREAM, CREATE TABLE, CREATE VIEW, CREATE SINK and CREATE FUNCTION are possible."
WATERMARK_FORM = "WATERMARK FOR ts AS ts - INTERVAL '5 seconds'"
MAX_NAME_CHARS = 128


def parse_create(cursor: Cursor) -> Statement:
    if at_create_function(cursor):
        return parse_create_function(cursor)
    position = cursor.position
    cursor.expect("CREATE")
    kind = _kind(cursor)
    if kind is None:
        raise cursor.error("STREAM, TABLE, VIEW, SINK or FUNCTION is expected", hint=KIND_HINT)
    if_not_exists = cursor.take("IF", "NOT", "EXISTS")
    name = relation_name(cursor, kind)
    columns, watermark = _body(cursor, kind)
    by_arrival = watermark is not None and is_arrival(watermark[0], (column.name for column in columns))
    comment = cursor.string("the comment") if cursor.take("COMMENT") else ""
    shared = parse_options(cursor) if cursor.take("WITH") else {}
    place, found = cursor.position, cursor.found
    written = _bindings(cursor, shared, kind)
    bindings = tuple(Binding(site, values_of(options)) for site, (_, options) in written.items())
    if kind is RelationKind.SINK and len(bindings) > 1:
        raise InvalidDefinitionError(
            "a sink is at one site", position=place, found=found, hint="Leave one AT, or create one sink for each site."
        )
    relation = Relation(
        name=name,
        kind=kind,
        columns=(*columns, ARRIVED) if by_arrival else columns,
        bindings=bindings,
        event_time=watermark[0] if watermark else None,
        watermark_delay=watermark[1] if watermark else timedelta(0),
        by_arrival=by_arrival,
        comment=comment,
    )
    for binding, (at, options) in zip(bindings, written.values(), strict=True):
        with at_option(options, at):
            check_binding(relation, binding.options)
    cursor.finish()
    return CreateRelation(relation, if_not_exists, position)


def parse_drop(cursor: Cursor) -> Statement:
    if cursor.at("DROP", "FUNCTION"):
        return parse_drop_function(cursor)
    position = cursor.position
    cursor.expect("DROP")
    kind = _kind(cursor)
    if kind is None:
        raise cursor.error(
            "STREAM, TABLE, VIEW, SINK or FUNCTION is expected",
            hint="DROP STREAM, DROP TABLE, DROP VIEW, DROP SINK and DROP FUNCTION, each with a name, are possible.",
        )
    if_exists = cursor.take("IF", "EXISTS")
    name = cursor.name("a name")
    cursor.finish()
    return DropRelation(name, kind, if_exists, position)


def parse_alter(cursor: Cursor) -> Statement:
    position = cursor.position
    cursor.expect("ALTER")
    if cursor.at("VIEW") or _kind(cursor) is None:
        raise cursor.error(
            "STREAM, TABLE or SINK is expected", hint="ALTER STREAM name [AT site] SET ('k' = 'v') is possible."
        )
    name = cursor.name("a name")
    site = cursor.name("a site's name") if cursor.take("AT") else None
    cursor.expect("SET", hint="Only connector options can be changed: ALTER STREAM name [AT site] SET ('k' = 'v').")
    written = parse_options(cursor)
    cursor.finish()
    return AlterBinding(name, site, values_of(written), position, written)


def parse_show(cursor: Cursor) -> Statement:
    position = cursor.position
    cursor.expect("SHOW")
    for target in ShowTarget:
        if cursor.take(target.name):
            cursor.finish()
            return Show(target, position)
    raise cursor.error("it cannot be shown", hint=f"SHOW {', SHOW '.join(t.name for t in ShowTarget)} are possible.")


def parse_describe(cursor: Cursor) -> Statement:
    if len(cursor.tokens) > 2 and (cursor.at("DESC", "FUNCTION") or cursor.at("DESCRIBE", "FUNCTION")):
        return parse_describe_function(cursor)
    position = cursor.position
    if not cursor.take("DESC"):
        cursor.expect("DESCRIBE")
    kind = None if len(cursor.tokens) - cursor.index == 1 else _kind(cursor)
    name = cursor.name("a stream's, table's, view's or sink's name")
    cursor.finish()
    return Describe(name, kind, position)


def parse_cancel(cursor: Cursor) -> Statement:
    position = cursor.position
    cursor.expect("CANCEL")
    cursor.expect("QUERY", hint="CANCEL QUERY id is possible.")
    return CancelQuery(query_reference(cursor), position)


def parse_pause(cursor: Cursor) -> Statement:
    position = cursor.position
    cursor.expect("PAUSE")
    cursor.expect("QUERY", hint="PAUSE QUERY id is possible.")
    return PauseQuery(query_reference(cursor), position)


def parse_resume(cursor: Cursor) -> Statement:
    position = cursor.position
    cursor.expect("RESUME")
    cursor.expect("QUERY", hint="RESUME QUERY id is possible.")
    return ResumeQuery(query_reference(cursor), position)


def query_reference(cursor: Cursor) -> str:
    """Id, beginning of an id or name, which ends the statement."""
    start = cursor.current
    if start is None:
        raise cursor.error("a query's id or name is expected")
    if start.token_type in (TokenType.STRING, TokenType.IDENTIFIER):
        cursor.index += 1
        cursor.finish()
        return start.text
    # An id such as q-0001-a1b2c3 is several tokens, but has no blank in it.
    text = cursor.source.text[start.start : cursor.tokens[-1].end + 1]
    word = text.split()[0]
    cursor.index = next(
        (i for i, token in enumerate(cursor.tokens) if token.start >= start.start + len(word)), len(cursor.tokens)
    )
    cursor.finish()
    return word


def relation_name(cursor: Cursor, kind: RelationKind) -> str:
    place, found = cursor.position, cursor.found
    name = cursor.name(f"the {kind.value}'s name")
    _check_name(name, place, found)
    return name


def _kind(cursor: Cursor) -> RelationKind | None:
    return next((kind for kind in RelationKind if cursor.take(kind.name)), None)


def _body(cursor: Cursor, kind: RelationKind) -> tuple[tuple[Column, ...], tuple[str, timedelta] | None]:
    if kind is RelationKind.SINK and not cursor.at("("):
        return (), None
    place, found = cursor.position, cursor.found
    cursor.expect("(", hint="The columns come first: CREATE STREAM name (column TYPE, ...).")
    columns: dict[str, Column] = {}
    watermark: tuple[str, timedelta, Position] | None = None
    while True:
        if cursor.at("WATERMARK", "FOR"):
            if watermark is not None:
                raise _invalid(cursor, "there is a watermark already", "A stream has one event-time column.")
            watermark = _watermark(cursor)
        else:
            _add_column(cursor, columns, kind)
        if not cursor.take(","):
            break
    cursor.expect(
        ")", hint="Columns are `name TYPE`, parted by commas; NOT NULL, DEFAULT and COMMENT are not possible."
    )
    if not columns:
        raise InvalidDefinitionError("there is no column", position=place, found=found, hint="Declare at least one.")
    return tuple(columns.values()), _event_time(kind, columns, watermark, (place, found))


def _add_column(cursor: Cursor, columns: dict[str, Column], kind: RelationKind) -> None:
    place, found = cursor.position, cursor.found
    name = cursor.name("a column's name")
    _check_name(name, place, found)
    if name.lower() == SITE_COLUMN and kind is not RelationKind.SINK:
        raise InvalidDefinitionError(
            f"no column can be called {name}",
            position=place,
            found=found,
            hint="`site` is a column of every stream and table already: where the row was born.",
        )
    if name.lower() in columns:
        raise InvalidDefinitionError(
            f"column {name} is declared twice", position=place, found=found, hint="Names are compared without case."
        )
    columns[name.lower()] = Column(name, parse_type(cursor))


def _watermark(cursor: Cursor) -> tuple[str, timedelta, Position]:
    cursor.expect("WATERMARK", "FOR")
    place = cursor.position
    name = cursor.name("the event-time column")
    if not cursor.take("AS"):
        return name, timedelta(0), place
    again = cursor.name("the event-time column")
    if again.lower() != name.lower():
        cursor.index -= 1
        raise cursor.error(f"{name} is expected", hint=f"The form is {WATERMARK_FORM}.")
    if not cursor.take("-"):
        return name, timedelta(0), place
    return name, _interval(cursor), place


def _interval(cursor: Cursor) -> timedelta:
    cursor.expect("INTERVAL", hint=f"The form is {WATERMARK_FORM}.")
    place, found = cursor.position, cursor.found
    token = cursor.current
    text = token.text if token is not None else ""
    cursor.index += 1
    if not cursor.at(",") and not cursor.at(")") and cursor.current is not None:
        text += " " + cursor.name("a unit")
    length = parse_interval(text)
    if length is None:
        raise InvalidDefinitionError(
            f"{text!r} is no interval of fixed length",
            position=place,
            found=found,
            hint="Intervals are such as '500 milliseconds', '5 seconds', '2 minutes', '1 hour', '1 day'.",
        )
    return length


def _event_time(
    kind: RelationKind,
    columns: Mapping[str, Column],
    watermark: tuple[str, timedelta, Position] | None,
    body: tuple[Position, str],
) -> tuple[str, timedelta] | None:
    if watermark is None:
        if kind is not RelationKind.STREAM:
            return None
        raise InvalidDefinitionError(
            "a stream needs an event-time column",
            position=body[0],
            found=body[1],
            hint=f"Add `{WATERMARK_FORM}` to the columns; for data without a time, CREATE TABLE.",
        )
    name, delay, place = watermark
    column = columns.get(name.lower())
    if kind is not RelationKind.STREAM:
        raise InvalidDefinitionError(
            f"a {kind.value} has no watermark", position=place, found=name, hint="Leave it out, or CREATE STREAM."
        )
    if column is None and name.lower() == ARRIVED.name:
        if delay:
            raise InvalidDefinitionError(
                "rows do not arrive late",
                position=place,
                found=name,
                hint=f"WATERMARK FOR {ARRIVED.name}, without a delay.",
            )
        return ARRIVED.name, delay
    if column is None or column.type != "TIMESTAMP":
        raise InvalidDefinitionError(
            f"{name} is not a TIMESTAMP column of the stream" if column else f"the stream has no column {name}",
            position=place,
            found=name,
            hint="The event-time column is one of the stream's columns and a TIMESTAMP; for rows without a time, "
            f"WATERMARK FOR {ARRIVED.name} takes the time at which they arrive.",
        )
    return column.name, delay


def _bindings(cursor: Cursor, shared: WrittenOptions, kind: RelationKind) -> Mapping[str, tuple[Place, WrittenOptions]]:
    """The options of each site's binding, and where the site is named."""
    bindings: dict[str, tuple[Place, WrittenOptions]] = {}
    choice = " or ".join(f"'{CONNECTOR}' = '{name}'" for name in connectors_for(kind))
    cursor.expect("AT", hint="Say where its rows are: AT site WITH ('connector' = '...', ...).")
    while True:
        place, found = cursor.position, cursor.found
        site = cursor.name("a site's name")
        options = {**shared, **(parse_options(cursor) if cursor.take("WITH") else {})}
        if site in bindings:
            raise InvalidDefinitionError(
                f"it is bound at {site} twice", position=place, found=found, hint="One binding per site is possible."
            )
        if CONNECTOR not in options:
            raise InvalidDefinitionError(
                f"the binding at {site} has no connector",
                position=place,
                found=found,
                hint=f"Add {choice} to its WITH, or to the shared one.",
            )
        bindings[site] = ((place, found), options)
        comma = cursor.take(",")
        if not cursor.take("AT"):
            if comma:
                raise cursor.error("AT is expected")
            return bindings


def _check_name(name: str, place: Position, found: str) -> None:
    if not name or len(name) > MAX_NAME_CHARS or name.startswith("_") or not name.isprintable():
        raise InvalidDefinitionError(
            f"{found[:40]} is not a possible name",
            position=place,
            found=found[:40],
            hint=f"Names have 1 to {MAX_NAME_CHARS} printable characters and do not begin with an underscore.",
        )


def _invalid(cursor: Cursor, message: str, hint: str) -> InvalidDefinitionError:
    return InvalidDefinitionError(message, position=cursor.position, found=cursor.found, hint=hint)


def parse_set(cursor: Cursor) -> Statement:
    position, hint = cursor.position, "SET sharing = 'sana' is possible; SHOW SETTINGS lists them."
    cursor.expect("SET")
    name = cursor.name("the setting's name")
    cursor.expect("=", hint=hint)
    return SetOption(name, _setting(cursor, hint), position)


def _setting(cursor: Cursor, hint: str) -> str:
    """A value in quotes, a number, or words with `-` between them."""
    token = cursor.current
    if token is None:
        raise cursor.error("a value is expected", hint=hint)
    if token.token_type is TokenType.STRING:
        value = cursor.string("the value")
        cursor.finish()
        return value
    value = cursor.source.text[token.start : cursor.tokens[-1].end + 1]
    if not value.replace("-", "a").replace("_", "a").replace(".", "0").isalnum():
        raise cursor.error("a word, or a value in quotes, is expected", hint=hint)
    return value


PARSERS: Mapping[str, Callable[[Cursor], Statement]] = {
    "CREATE": parse_create,
    "DROP": parse_drop,
    "ALTER": parse_alter,
    "SHOW": parse_show,
    "DESCRIBE": parse_describe,
    "DESC": parse_describe,
    "CANCEL": parse_cancel,
    "PAUSE": parse_pause,
    "RESUME": parse_resume,
    "SET": parse_set,
    "GRANT": parse_grant,
    "REVOKE": parse_revoke,
}
