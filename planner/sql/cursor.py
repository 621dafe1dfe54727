"""A cursor over tokens for the statements that we parse ourselves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from planner.sql.dialect import Token, TokenType
from planner.sql.source import Source
from planner.values.errors import Position, SqlSyntaxError

_QUOTING = (TokenType.STRING, TokenType.NUMBER)


@dataclass(slots=True)
class Cursor:
    """The tokens of one statement and how far they are read."""

    tokens: Sequence[Token]
    source: Source
    index: int = 0

    @property
    def current(self) -> Token | None:
        return self.tokens[self.index] if self.index < len(self.tokens) else None

    @property
    def position(self) -> Position:
        """Where the next token begins, or where the statement ends."""
        token = self.current
        return self.source.position(self.tokens[-1].end + 1 if token is None else token.start)

    @property
    def found(self) -> str:
        token = self.current
        return "end of statement" if token is None else self.source.text[token.start : token.end + 1]

    def at(self, *words: str) -> bool:
        """Whether the next tokens are these words or symbols."""
        upcoming = self.tokens[self.index : self.index + len(words)]
        return len(upcoming) == len(words) and all(map(_is_word, upcoming, words))

    def take(self, *words: str) -> bool:
        """Skip these words or symbols if they come next."""
        if not self.at(*words):
            return False
        self.index += len(words)
        return True

    def expect(self, *words: str, hint: str = "") -> None:
        if not self.take(*words):
            raise self.error(f"{' '.join(words)} is expected", hint=hint)

    def name(self, what: str) -> str:
        """The next token as a name, back-quoted or not."""
        token = self.current
        if token is None or (token.token_type is not TokenType.IDENTIFIER and not _is_name(token)):
            raise self.error(f"{what} is expected")
        self.index += 1
        return token.text

    def string(self, what: str) -> str:
        token = self.current
        if token is None or token.token_type is not TokenType.STRING:
            raise self.error(f"{what} in quotes is expected")
        self.index += 1
        return token.text

    def finish(self) -> None:
        if self.current is not None:
            raise self.error("the statement should end here")

    def error(self, message: str, *, hint: str = "") -> SqlSyntaxError:
        """An error at the next token."""
        return SqlSyntaxError(
            f"unexpected {self.found}: {message}",
            position=self.position,
            found=self.found,
            hint=hint or "docs/sql.md has the grammar.",
        )


def _is_word(token: Token, word: str) -> bool:
    quoted = token.token_type in (TokenType.STRING, TokenType.IDENTIFIER)
    return not quoted and token.text.upper() == word


def _is_name(token: Token) -> bool:
    return token.token_type not in _QUOTING and token.text.replace("_", "a").isalnum()
