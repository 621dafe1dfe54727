"""Planning of one query, as a value: it says what Spark is to be asked, takes the answers, and gives a typed draft.

    views, each after those it uses --> the user's text        an answer against these is the user's error
    UNION ALLs in FROM, one by one  --> stages, each after     an answer against these is about the planner's parts,
                                        those it reads         and counts once the text is known to be right

All questions of `Planning.questions` may be asked side by side, for each is a round trip to a site.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Self

from planner.graph.clientplan import ClientQuery
from planner.graph.plan import Analysis, DraftPlan
from planner.graph.whole import Scanned, WholeQuery
from planner.planning.drafts import draft_query, with_columns, with_texts
from planner.planning.questions import (
    analyses_of_combines,
    analyses_of_union,
    analyses_of_views,
    analysis_of_query,
    analysis_of_stage,
    analysis_of_view,
    columns_of_view,
    invalid_expression,
    original_place,
)
from planner.relations.catalog import Catalog, Column, Relation
from planner.rules.bins import with_checked_bins
from planner.rules.draft import client_draft, whole_draft, with_scans
from planner.rules.sinks import find_sink, with_sink
from planner.sql.queries import parse_query
from planner.sql.source import START, Source
from planner.sql.statements import SelectQuery, SinkTarget
from planner.values.errors import InvalidDefinitionError, InvalidExpressionError, PlannerError, UnsupportedSqlError
from planner.values.names import BIN_COLUMN


class Part(Enum):
    """What of a query is asked about."""

    VIEW = "view"
    """The definition of a view that it uses."""
    TEXT = "text"
    """What the user wrote."""
    UNION = "union"
    """A UNION ALL in FROM, or one of its branches."""
    STAGE = "stage"
    COMBINE = "combine"
    """Of a stage that merges: the statement that makes fewer partials of many."""


CLIENT_TEXT = "SELECT * FROM plan"
"""Stands for the text of a query whose plan a client made."""


@dataclass(frozen=True, slots=True)
class Question:
    """A statement for Spark to check over empty views."""

    part: Part
    name: str
    """Of the view, the union's branch, or the stage; with a number for the combines of a stage."""
    analysis: Analysis


@dataclass(frozen=True, slots=True)
class Refusal:
    """Spark does not accept a statement."""

    message: str
    line: int = 0
    """In the statement's text, from 1, as `column`; 0: Spark gave no place."""
    column: int = 0
    fragment: str = ""
    """The piece of text that Spark speaks of."""
    condition: str = ""
    """The name under which Spark lists the error."""


Answer = tuple[Column, ...] | Scanned | Refusal
"""The columns of a statement's output, beside them what scans must deliver if that was asked, or why there are none."""

_Known = Mapping[str, tuple[Column, ...]]


@dataclass(frozen=True, slots=True)
class Planning:
    """One query, the catalog that it is planned on, and the answers so far."""

    select: SelectQuery
    catalog: Catalog
    draft: DraftPlan
    """As far as it is known: without the types of columns, until `result`."""
    target: SinkTarget | None = None
    """Of an INSERT."""
    sink: Relation | None = None
    """What the target names."""
    parts: int = 1
    """Of each MERGE, where it can have parts."""
    known: Mapping[Part, _Known] = field(default_factory=dict)
    """The answers, by name."""
    failure: PlannerError | None = None
    """What is wrong with the planner's parts; the user's text counts before it."""

    @classmethod
    def of(cls, select: SelectQuery, catalog: Catalog, target: SinkTarget | None = None, *, parts: int = 1) -> Self:
        """The beginning.

        Args:
            select: the query as parsed.
            catalog: all streams, tables, views, sinks and functions.
            target: the sink of an INSERT.
            parts: of each MERGE, where it can have parts.

        Raises:
            PlannerError: a leaf with the place, what was found and what is possible.
        """
        sink = None if target is None else find_sink(target, catalog)
        return cls(select, catalog, draft_query(select, catalog, parts=parts), target, sink, parts)

    @classmethod
    def of_client(cls, query: ClientQuery, catalog: Catalog, target: SinkTarget | None = None) -> Self:
        """The beginning of a query whose plan a client made. Raises PlannerError as `of` does.

        Args:
            query: the plan.
            catalog: all streams, tables, views, sinks and functions.
            target: the sink that its rows go into, whose columns it has.
        """
        sink = None if target is None else find_sink(target, catalog)
        select = SelectQuery(CLIENT_TEXT, START, parse_query(Source(CLIENT_TEXT)))
        return cls(select, catalog, client_draft(query, select, catalog), target, sink)

    @property
    def reads_nothing(self) -> bool:
        """Return whether a client's plan reads no table: it has no stages, and one site's Spark can run it as it is,
        unless its rows go into a sink."""
        whole = self.draft.whole
        return self.sink is None and whole is not None and whole.plan is not None and not whole.tables

    @property
    def questions(self) -> tuple[Question, ...]:
        """All that can be asked now and has no answer; none when the query is planned, or is refused."""
        asked = (*self._of_text(), *(self._of_parts() if self.failure is None else ()))
        return tuple(question for question in asked if question.name not in self._known(question.part))

    @property
    def views(self) -> frozenset[str]:
        """Lower-case names of the views that the query uses, through others too."""
        return frozenset(text.view for text in analyses_of_views(self.draft))

    def answered(self, question: Question, answer: Answer) -> Self:
        """With the answer to one of the questions.

        Raises:
            InvalidExpressionError: Spark refuses what a user wrote.
        """
        if question.part is Part.TEXT:
            return self._with_text(question, answer)
        if isinstance(answer, Scanned):
            answer = answer.columns
        if question.part is Part.VIEW:
            return self._with(question, self._view(question, answer))
        if question.part is Part.COMBINE and not isinstance(answer, Refusal):
            answer = _combined(question.analysis, answer)
        if isinstance(answer, Refusal):
            return self._refused_part(question, answer)
        found = self._with(question, answer)
        return found._with_union() if question.part is Part.UNION else found

    def result(self) -> DraftPlan:
        """The draft with types; of an INSERT it ends in the sink.

        Raises:
            PlannerError: Spark refused a part of it, or its columns do not fit those of the sink.
            ValueError: there are questions left.
        """
        if self.questions:
            raise ValueError("Spark has not answered all questions")
        if self.failure is not None:
            raise self.failure
        (columns,) = self._known(Part.TEXT).values()
        draft = with_columns(self.draft, self._known(Part.STAGE), columns)
        draft = with_texts(with_checked_bins(draft))
        if self.target is None or self.sink is None:
            return draft
        return with_texts(with_sink(draft, self.target, self.sink))

    def _known(self, part: Part) -> _Known:
        return self.known.get(part, {})

    def _with(self, question: Question, columns: tuple[Column, ...]) -> Self:
        part = {**self._known(question.part), question.name: columns}
        return replace(self, known={**self.known, question.part: part})

    def _of_text(self) -> Iterator[Question]:
        """The next view, for its definition may name those before; then the text."""
        views = self._known(Part.VIEW)
        for view in analyses_of_views(self.draft):
            if view.view not in views:
                yield Question(Part.VIEW, view.view, analysis_of_view(self.draft, view, self.catalog, views))
                return
        if not self._known(Part.TEXT):
            yield Question(Part.TEXT, "", analysis_of_query(self.draft, self.catalog, views))

    def _of_parts(self) -> Iterator[Question]:
        unions = analyses_of_union(self.draft, self._known(Part.UNION))
        if unions:
            yield from (Question(Part.UNION, name, analysis) for name, analysis in unions.items())
            return
        known = self._known(Part.STAGE)
        for stage in self.draft.stages:
            if all(item.stage in known for item in stage.inputs):
                if stage.id not in known and stage.client is None:
                    yield Question(Part.STAGE, stage.id, analysis_of_stage(self.draft, stage.id, known))
                for number, combine in enumerate(analyses_of_combines(self.draft, stage.id, known)):
                    yield Question(Part.COMBINE, f"{stage.id} {number}", combine)

    def _with_union(self) -> Self:
        """With a new draft once all branches of a union have types, because casts depend on them."""
        known = self._known(Part.UNION)
        if not all(name in known for union in self.draft.unions.values() if known.keys() & union for name in union):
            return self
        try:
            return replace(self, draft=draft_query(self.select, self.catalog, known, parts=self.parts))
        except PlannerError as error:
            return replace(self, failure=error)

    def _with_text(self, question: Question, answer: Answer) -> Self:
        """With the columns of the text; of a query that runs whole, with its stages. Raises PlannerError."""
        if isinstance(answer, Refusal):
            raise self._refused_text(question.analysis, answer)
        scanned = answer if isinstance(answer, Scanned) else Scanned(answer, None)
        found = self._with(question, scanned.columns)
        if self.draft.whole is None:
            return found
        if self.draft.whole.plan is None:
            _check_names(scanned.columns, self.select, self.draft.whole)
        return replace(found, draft=with_texts(with_scans(self.draft, scanned)))

    def _refused_part(self, question: Question, refusal: Refusal) -> Self:
        """The failure, or the query run whole in place of in parts."""
        failure = self.failure or _refused_part(question, refusal)
        whole = whole_draft(self.select, self.catalog, failure) if self.draft.batch and not self.draft.whole else None
        if whole is None:
            return replace(self, failure=failure)
        return replace(self, draft=whole, known={Part.VIEW: self._known(Part.VIEW)})

    def _view(self, question: Question, answer: tuple[Column, ...] | Refusal) -> tuple[Column, ...]:
        """The columns of a view. Raises InvalidExpressionError; definitions are bound anew with every use."""
        view = next(text for text in analyses_of_views(self.draft) if text.view == question.name)
        if isinstance(answer, Refusal):
            raise InvalidExpressionError(
                f"in view {view.view}: {answer.message}",
                position=view.position,
                found=answer.fragment,
                hint=f"define it anew: CREATE OR REPLACE VIEW {view.view} AS ...",
                ids={"relation": view.view},
            )
        return columns_of_view(view, self.catalog, answer)

    def _refused_text(self, analysis: Analysis, refusal: Refusal) -> PlannerError:
        whole = self.draft.whole
        if whole is not None and not isinstance(whole.refusal, UnsupportedSqlError):
            # It was refused before Spark was asked, for a reason that is said better.
            return whole.refusal
        if whole is not None and whole.plan is not None:
            # Spark's clients show the condition, and programs look for it.
            ids = {"condition": refusal.condition} if refusal.condition else {}
            return InvalidExpressionError(refusal.message, found=refusal.fragment, ids=ids)
        line, column = original_place(analysis, self.select.text, refusal.line, refusal.column)
        return invalid_expression(
            self.select, line=line, column=column, message=refusal.message, fragment=refusal.fragment
        )


def planned_with(planning: Planning, ask: Callable[[Analysis], Sequence[Column] | Scanned | Refusal]) -> DraftPlan:
    """The draft with types, where each question is answered at once.

    Raises:
        PlannerError: the query is refused.
    """
    while questions := planning.questions:
        for question in questions:
            answer = ask(question.analysis)
            planning = planning.answered(question, answer if isinstance(answer, Refusal | Scanned) else tuple(answer))
    return planning.result()


def _check_names(columns: tuple[Column, ...], select: SelectQuery, query: WholeQuery) -> None:
    """Raises InvalidDefinitionError when two columns have the same name."""
    names = [column.name.lower() for column in columns]
    double = next((column.name for column in columns if names.count(column.name.lower()) > 1), None)
    if double is None:
        return
    if isinstance(query.refusal, InvalidDefinitionError):
        raise query.refusal
    raise InvalidDefinitionError(
        f"two result columns are called {double}",
        position=select.position,
        found=double,
        hint=f"Rename one with AS, as in {double} AS other.",
    )


def _refused_part(question: Question, refusal: Refusal) -> InvalidExpressionError:
    stage = question.name.split()[0]
    union = question.part is Part.UNION
    return InvalidExpressionError(
        f"Spark refuses {'a UNION ALL' if union else f'stage {stage}'} of the plan: {refusal.message}",
        found=refusal.fragment,
        hint="the query is right as SQL, but does not run in parts; say it with other functions or types",
        ids={} if union else {"stage": stage},
    )


def _combined(combine: Analysis, found: tuple[Column, ...]) -> tuple[Column, ...] | Refusal:
    """The columns of a combine; a refusal when one differs in type from the partials that it reads."""
    (declared,) = combine.views.values()
    wanted, types = ({c.name: c.type.replace(" ", "").upper() for c in columns} for columns in (declared, found))
    for name, kind in types.items():
        if name != BIN_COLUMN and wanted.get(name) != kind:
            return Refusal(f"partials of {name} are {wanted.get(name)}, but {kind} when combined")
    return found
