"""sqlglot, wrapped: the only module that knows it. Everything else takes `exp`, tokens and these functions from here.

The dialect is Spark's with three differences:
- every ordinary function call stays as it was written (an `exp.Anonymous`), so that no rewriting between dialects can
  change its meaning; only calls with a syntax of their own (CAST, EXTRACT, TRIM, ...) are understood;
- `GROUP BY window(ts, '10 seconds'), k` parses: sqlglot takes a leading `window` for the WINDOW clause;
- a doubled quote in a string is one quote, as in Spark 4.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ErrorLevel, ParseError, TokenError
from sqlglot.generators.spark import SparkGenerator
from sqlglot.parsers.spark import SparkParser
from sqlglot.tokenizer_core import Token, TokenType

from planner.sql.source import Source
from planner.values.errors import SqlSyntaxError
from planner.values.literals import quoted_name, quoted_text, text_of

__all__ = ["Token", "TokenType", "end_of", "exp", "offset_of", "parse_select_tree", "render", "snippet", "tokenize"]

MAX_STATEMENT_CHARS = 65_536
MAX_SCRIPT_CHARS = 1_000_000
MAX_DEPTH = 30
"""Deepest nesting of brackets and CASE; sqlglot descends about twenty Python frames for each."""

MAX_CHAIN = 300
"""Deepest syntax tree, so the most operators in one chain; Spark's own analysis overflows its stack some way above."""

MAX_RETREATS_PER_TOKEN = 50
MAX_FREE_RETREATS = 20_000
"""Tokens that the parser may read again. It tries `date(` in two ways, the levels below in both: the time doubles."""

_OPENING = {TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE, TokenType.CASE}
_CLOSING = {TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE, TokenType.END}
OWN_SYNTAX = ("CAST", "TRY_CAST", "EXTRACT", "TRIM", "POSITION", "OVERLAY", "SUBSTRING", "SUBSTR")


class _ParseFailureError(ParseError):
    """A parse error that knows its token."""

    def __init__(self, message: str, token: Token | None) -> None:
        super().__init__(message)
        self.description = message
        self.token = token


class _TooManyWaysError(Exception):
    """The parser has gone back too often. No ParseError: the parser takes that for one more way that did not work."""


class _Parser(SparkParser):
    FUNCTIONS: ClassVar[Any] = {}
    FUNCTION_PARSERS: ClassVar[Any] = {name: SparkParser.FUNCTION_PARSERS[name] for name in OWN_SYNTAX}
    QUERY_MODIFIER_TOKENS: ClassVar[Any] = SparkParser.QUERY_MODIFIER_TOKENS - {TokenType.WINDOW}
    ARRAY_CONSTRUCTORS: ClassVar[Any] = {}
    NO_PAREN_FUNCTIONS: ClassVar[Any] = {}
    # `any(x)` is an aggregate; behind LIKE it is none.
    NO_PAREN_FUNCTION_PARSERS: ClassVar[Any] = {
        name: parse for name, parse in SparkParser.NO_PAREN_FUNCTION_PARSERS.items() if name != "ANY"
    }
    PIPE_SYNTAX_TRANSFORM_PARSERS: ClassVar[Any] = {}

    def reset(self) -> None:
        super().reset()
        self._retreats = 0

    def _retreat(self, index: int) -> None:
        self._retreats += max(int(self._index) - index, 0)
        if self._retreats > MAX_RETREATS_PER_TOKEN * len(self._tokens) + MAX_FREE_RETREATS:
            raise _TooManyWaysError
        super()._retreat(index)

    def raise_error(self, message: str, token: Any = None) -> None:
        raise _ParseFailureError(message, token or self._curr or None)

    def _parse_select_query(self, *arguments: Any, **options: Any) -> exp.Expr | None:
        """Marks each query with the offset of its first token; see `planner.sql.blocks`."""
        first = self._curr
        query: exp.Expr | None = super()._parse_select_query(*arguments, **options)
        if first is not None and isinstance(query, exp.Query):
            query.meta["first"] = first.start
            leftmost: exp.Expr = query
            while isinstance(leftmost, exp.SetOperation):
                leftmost = leftmost.this
                leftmost.meta.setdefault("first", first.start)
        return query


class _Generator(SparkGenerator):
    """Writes names and strings so that Spark reads the same ones, whatever characters they contain."""

    def identifier_sql(self, expression: exp.Identifier) -> str:
        return quoted_name(expression.name) if expression.quoted or not _is_word(expression.name) else expression.name

    def anonymous_sql(self, expression: exp.Anonymous) -> str:
        name = expression.this if isinstance(expression.this, str) else expression.this.name
        written: str = self.func(name if _is_word(name) else quoted_name(name), *expression.expressions)
        return written

    def literal_sql(self, expression: exp.Literal) -> str:
        return quoted_text(expression.name) if expression.is_string else expression.name

    def rawstring_sql(self, expression: exp.RawString) -> str:
        return quoted_text(expression.name)


class _Dialect(Spark):
    class Tokenizer(Spark.Tokenizer):
        STRING_ESCAPES: ClassVar[Any] = ["\\", "'", '"']
        COMMANDS: ClassVar[Any] = frozenset()

    Parser = _Parser
    Generator = _Generator


_DIALECT = _Dialect()
_RESERVED = frozenset(word for word in _Dialect.Tokenizer.KEYWORDS if word.isalpha())


def tokenize(source: Source) -> list[Token]:
    """Tokens of a script.

    Raises:
        SqlSyntaxError: too long, or a quote or comment is not closed.
    """
    if len(source.text) > MAX_SCRIPT_CHARS:
        raise SqlSyntaxError(
            f"the text has {len(source.text)} characters; at most {MAX_SCRIPT_CHARS} are possible",
            position=source.origin,
            hint="Send it in several parts.",
        )
    try:
        tokens = list(_DIALECT.tokenize(source.text))
    except (TokenError, ValueError) as error:
        raise _unclosed(source) from error
    for token in tokens:
        if token.token_type in (TokenType.STRING, TokenType.RAW_STRING):
            token.text = _text(token, source)
    return tokens


def _text(token: Token, source: Source) -> str:
    """The text that Spark reads in the string; its escapes differ from sqlglot's."""
    text = text_of(source.text[token.start : token.end + 1])
    if text is None:
        raise SqlSyntaxError(
            "this string has an invalid escape",
            position=source.position(token.start),
            found=source.text[token.start : token.end + 1][:60],
            hint="Write a backslash twice, and a quote within a string with a backslash in front.",
        )
    return text


def check_size(tokens: Sequence[Token], source: Source) -> None:
    """Refuse a statement too long or too deeply nested to be parsed safely.

    Raises:
        SqlSyntaxError: says which limit.
    """
    length = tokens[-1].end + 1 - tokens[0].start
    if length > MAX_STATEMENT_CHARS:
        raise SqlSyntaxError(
            f"the statement has {length} characters; at most {MAX_STATEMENT_CHARS} are possible",
            position=source.position(tokens[0].start),
            hint="Say it in several statements.",
        )
    depth = 0
    for token in tokens:
        depth = max(depth + (token.token_type in _OPENING) - (token.token_type in _CLOSING), 0)
        if depth > MAX_DEPTH:
            raise _too_deep(source, token.start, token.text)


def parse_select_tree(source: Source, read: Callable[[Sequence[Token]], list[Token]] = list) -> exp.Expr:
    """The syntax tree of one query; `read` gives the tokens as the parser is to read them.

    Raises:
        SqlSyntaxError: with the place in the script.
    """
    tokens = tokenize(source)
    check_size(tokens, source)
    _check_commas(tokens, source)
    try:
        trees = _DIALECT.parser(error_level=ErrorLevel.IMMEDIATE).parse(read(tokens), source.text)
    except _ParseFailureError as failure:
        raise _syntax_error(failure, tokens, source) from failure
    except (ParseError, TokenError) as error:
        # The parser takes the text of some types apart once more, and that may have no end.
        raise SqlSyntaxError(
            "this is not a statement", position=source.origin, hint="docs/sql.md has the grammar."
        ) from error
    except RecursionError as error:
        raise _too_deep(source, tokens[0].start, tokens[0].text) from error
    except _TooManyWaysError as error:
        raise _too_tangled(source, tokens[0]) from error
    tree = trees[0] if len(trees) == 1 else None
    if tree is None:
        raise SqlSyntaxError("this is not one statement", position=source.origin)
    _check_chains(tree, source)
    return tree


def parse_template(sql: str) -> exp.Expr | None:
    """The syntax tree of SQL that is a constant of ours; None when it cannot be read."""
    try:
        trees = _DIALECT.parser(error_level=ErrorLevel.IMMEDIATE).parse(list(_DIALECT.tokenize(sql)), sql)
    except (ParseError, TokenError, ValueError, RecursionError, _TooManyWaysError):
        return None
    return trees[0] if len(trees) == 1 else None


def _check_chains(tree: exp.Expr, source: Source) -> None:
    level = [tree]
    for _ in range(MAX_CHAIN):
        level = [child for node in level for child in node.iter_expressions()]
        if not level:
            return
    offset = offset_of(level[0]) or 0
    raise SqlSyntaxError(
        f"an expression has too many operators; at most {MAX_CHAIN} in one chain are possible",
        position=source.position(offset),
        found=source.text[offset : offset + 20],
        hint="Use IN (...) for many alternatives, or fewer operators.",
    )


def render(node: exp.Expr) -> str:
    """Spark SQL of a tree, on one line, without comments."""
    return node.sql(dialect=_DIALECT, comments=False, normalize_functions=False)


def _is_word(name: str) -> bool:
    return name.isascii() and name.isidentifier()


def name_node(name: str) -> exp.Identifier:
    """An identifier, back-quoted where Spark needs it."""
    plain = _is_word(name) and name.upper() not in _RESERVED
    return exp.Identifier(this=name, quoted=not plain)


def quoted(name: str) -> str:
    return render(name_node(name))


def parts_of(column: exp.Column) -> list[exp.Identifier]:
    """A dotted name's parts, outermost qualifier first."""
    return [part for part in column.parts if isinstance(part, exp.Identifier)]


def _spans(node: exp.Expr) -> Iterator[tuple[int, int]]:
    for part in node.walk():
        start = part.meta.get("start") if part.meta else None
        if isinstance(start, int):
            yield start, int(part.meta["end"])


def offset_of(node: exp.Expr) -> int | None:
    """Where a node begins in the text it was parsed from; None for nodes that we made."""
    return min((start for start, _ in _spans(node)), default=None)


def end_of(node: exp.Expr) -> int | None:
    return max((end for _, end in _spans(node)), default=None)


def snippet(node: exp.Expr, text: str, limit: int = 60) -> str:
    """The node's own words, as far as they are known."""
    if isinstance(node, exp.Anonymous | exp.Func) and "start" in node.meta:
        return text[node.meta["start"] : node.meta["end"] + 1]
    start, end = offset_of(node), end_of(node)
    found = render(node) if start is None or end is None else text[start : end + 1]
    return found if len(found) <= limit else found[:limit] + "..."


def _check_commas(tokens: Sequence[Token], source: Source) -> None:
    """sqlglot lets `a,, b` and `a, FROM` pass."""
    enders = {TokenType.COMMA, TokenType.FROM, TokenType.R_PAREN, TokenType.WHERE, TokenType.HAVING, TokenType.QUALIFY}
    for token, following in zip(tokens, [*tokens[1:], None], strict=True):
        if token.token_type is TokenType.COMMA and (following is None or following.token_type in enders):
            place = following or token
            raise SqlSyntaxError(
                "an expression is missing after the comma",
                position=source.position(place.start),
                found=place.text if following else "end of statement",
                hint="Remove the comma, or add the expression.",
            )


def _syntax_error(failure: _ParseFailureError, tokens: Sequence[Token], source: Source) -> SqlSyntaxError:
    token = failure.token if failure.token is not None and failure.token in tokens else None
    if token is None:
        last = tokens[-1]
        return SqlSyntaxError(
            f"the statement ends too early: {_plain(failure.description)}",
            position=source.position(last.end + 1),
            found="end of statement",
            hint="docs/sql.md has the grammar.",
        )
    found = source.text[token.start : token.end + 1]
    return SqlSyntaxError(
        f"unexpected {found}: {_plain(failure.description)}",
        position=source.position(token.start),
        found=found,
        hint="docs/sql.md has the grammar; names that are keywords are written in back-quotes.",
    )


def _plain(description: str) -> str:
    if description.startswith("Expecting "):
        return f"{description.removeprefix('Expecting ')} is expected"
    if description.startswith("Expected table name"):
        return "a stream's name is expected"
    if description.startswith("Expected TYPE"):
        return "a type is expected"
    if description.startswith("Required keyword"):
        return "an expression is expected"
    return "an operator, a comma or the next clause is expected"


def _too_deep(source: Source, offset: int, found: str) -> SqlSyntaxError:
    return SqlSyntaxError(
        f"the statement is nested too deeply; at most {MAX_DEPTH} levels are possible",
        position=source.position(offset),
        found=found[:60],
        hint="Use fewer brackets, CASE or NOT inside one another.",
    )


def _too_tangled(source: Source, first: Token) -> SqlSyntaxError:
    return SqlSyntaxError(
        "the statement could be read in too many ways",
        position=source.position(first.start),
        found=first.text[:60],
        hint="Write CAST(x AS INT) for int(x), and nest fewer of struct(...), date(...) and other names of types.",
    )


def _unclosed(source: Source) -> SqlSyntaxError:
    offset = _open_quote(source.text)
    found = source.text[offset : offset + 20]
    what = "comment" if found.startswith("/*") else "quoted name" if found.startswith("`") else "string"
    return SqlSyntaxError(
        f"the {what} that begins here is not closed",
        position=source.position(offset),
        found=found,
        hint=f"Close it with {'*/' if what == 'comment' else found[:1]}.",
    )


def _open_quote(text: str) -> int:
    """Offset of the first quote or comment that is never closed."""
    at = 0
    while at < len(text):
        end = _skip(text, at)
        if end is None:
            return at
        at = end
    return 0


def _skip(text: str, at: int) -> int | None:
    """The offset behind the lexical unit at `at`; None when it does not end."""
    if text.startswith("--", at):
        newline = text.find("\n", at)
        return len(text) if newline < 0 else newline + 1
    if text.startswith("/*", at):
        close = text.find("*/", at + 2)
        return None if close < 0 else close + 2
    quote = text[at]
    if quote not in "'\"`":
        return at + 1
    index = at + 1
    while index < len(text):
        if text[index] == "\\" and quote != "`":
            index += 2
        elif text[index] == quote:
            return index + 1
        else:
            index += 1
    return None
