"""What every store has to do. A test class for an implementation derives from StoreContract and gives `store`."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from contract.tasks import TaskState
from master.records.access import TokenRecord
from master.records.model import (
    AssignmentMark,
    BatchState,
    BatchTask,
    ChannelCounter,
    Progress,
    QueryState,
    ResultStatus,
    StateChange,
)
from master.store import INCARNATIONS_KEPT, LeaseUpdate, Store, StoredLeases
from planner.access.grants import Grant, Owner
from planner.batch import TaskPhase
from planner.leases import Framework, Lease, Slot
from planner.relations.catalog import Column, Function
from planner.values.privileges import Privilege
from tests.unit.master.build import (
    CLICKS,
    CLICKS_EU,
    CLICKS_US,
    PAGES,
    QUERY_ID,
    START,
    batch_query,
    query,
    site_record,
    status,
)

ACCEPTED = StateChange(QUERY_ID, None, QueryState.DEPLOYING, "", START)


class StoreContract:
    """Every test gets an empty store."""

    def test_a_new_store_takes_the_proposed_cluster_id_and_keeps_it(self, store: Store) -> None:
        assert store.cluster("c-one").id == "c-one"
        assert store.cluster("c-two").id == "c-one"
        assert store.cluster("c-two").version == 0

    def test_query_numbers_are_consecutive_from_one(self, store: Store) -> None:
        store.cluster("c")
        assert [store.next_query_number() for _ in range(3)] == [1, 2, 3]

    def test_relations_come_back_equal_and_ordered_by_name(self, store: Store) -> None:
        store.put_relation(PAGES)
        store.put_relation(replace(CLICKS, created_at=START, comment='it\'s a "stream"'))
        clicks, pages = store.relations()
        assert clicks == replace(CLICKS, created_at=START, comment='it\'s a "stream"')
        assert pages == PAGES

    def test_a_relation_is_replaced_and_deleted_without_regard_to_case(self, store: Store) -> None:
        store.put_relation(CLICKS)
        store.put_relation(replace(CLICKS, name="Clicks", comment="new"))
        assert [(r.name, r.comment) for r in store.relations()] == [("Clicks", "new")]
        store.delete_relation("CLICKS")
        assert store.relations() == ()

    def test_a_query_comes_back_equal_with_its_plan(self, store: Store) -> None:
        record = replace(query(name="top"), started_at=START + timedelta(seconds=1), reason="because")
        store.put_query(record, ACCEPTED, {})
        assert store.queries() == (record,)

    def test_what_became_of_batch_tasks_is_stored_by_itself_and_unknown_queries_are_ignored(self, store: Store) -> None:
        record = batch_query(BatchState((BatchTask(), BatchTask())))
        store.put_query(record, ACCEPTED, {})
        assert store.queries() == (record,)
        placed = BatchTask(TaskPhase.RUNNING, "us", 1, 17, START, None, 2.5, local=True)
        done = replace(placed, phase=TaskPhase.DONE, ended_at=START + timedelta(seconds=3))
        state = BatchState((placed, done), BatchTask())
        store.put_batch(QUERY_ID, state)
        store.put_batch("q-0099-000000", state)
        assert store.queries() == (replace(record, batch=state),)

    def test_queries_are_ordered_by_submission(self, store: Store) -> None:
        late = replace(query("q-0002-000000"), submitted_at=START + timedelta(seconds=1))
        store.put_query(late, replace(ACCEPTED, query_id=late.id), {})
        store.put_query(query(), ACCEPTED, {})
        assert [q.id for q in store.queries()] == [QUERY_ID, late.id]

    def test_progress_is_stored_by_itself_and_unknown_queries_are_ignored(self, store: Store) -> None:
        store.put_query(query(), ACCEPTED, {})
        progress = Progress(
            tasks={CLICKS_US: status(CLICKS_US, TaskState.RETRYING, rows_in=7, busy_ratio=0.5, watermark_us=3)},
            counters=(ChannelCounter(CLICKS_EU, "us", "eu", "eu-a", current_bytes=10, earlier_bytes=5),),
            result=ResultStatus(QUERY_ID, rows=2, complete=True, watermark_us=9),
            complete_since=START,
        )
        store.put_progress({QUERY_ID: progress, "q-0099-000000": progress})
        assert [q.progress for q in store.queries()] == [progress]

    def test_changes_are_a_log_in_order(self, store: Store) -> None:
        running = StateChange(QUERY_ID, QueryState.DEPLOYING, QueryState.RUNNING, "", START + timedelta(seconds=2))
        store.put_query(query(), ACCEPTED, {})
        store.put_query(query(state=QueryState.RUNNING), running, {})
        other = query("q-0002-000000")
        store.put_query(other, replace(ACCEPTED, query_id=other.id), {})
        assert store.changes(QUERY_ID) == (ACCEPTED, running)
        assert store.changes("q-0099-000000") == ()

    def test_sites_remember_every_incarnation(self, store: Store) -> None:
        store.put_site(site_record("us", "a"))
        store.put_site(replace(site_record("us", "b"), last_report_at=START))
        assert store.sites() == (replace(site_record("us", "b"), last_report_at=START),)
        assert store.incarnation_seen("us", "us-a")
        assert store.incarnation_seen("us", "us-b")
        assert not store.incarnation_seen("eu", "us-a")

    def test_last_reports_are_stored_by_themselves(self, store: Store) -> None:
        store.put_site(site_record("us"))
        store.put_last_reports({"us": START, "nowhere": START})
        assert [(s.name, s.last_report_at) for s in store.sites()] == [("us", START)]

    def test_assignment_marks_move_the_cluster_version_forward_only(self, store: Store) -> None:
        store.cluster("c")
        store.put_assignment_marks([AssignmentMark("us", 5, "x"), AssignmentMark("eu", 5, "y")])
        store.put_assignment_marks([AssignmentMark("eu", 4, "z")])
        assert store.assignment_marks() == (AssignmentMark("eu", 4, "z"), AssignmentMark("us", 5, "x"))
        assert store.cluster("c").version == 5

    def test_functions_come_back_equal_and_are_replaced_without_regard_to_case(self, store: Store) -> None:
        made = Function(
            "Cell", (Column("x", "INT"),), "STRING", "cell", "geo.py", "def cell(x): ...", True, "ab", START
        )
        store.put_function(made)
        store.put_function(replace(made, name="area"))
        assert store.functions() == (replace(made, name="area"), made)
        store.put_function(replace(made, name="cell", digest="cd"))
        store.delete_function("AREA")
        assert store.functions() == (replace(made, name="cell", digest="cd"),)

    def test_deleted_queries_are_gone_with_their_logs_and_no_number_comes_back(self, store: Store) -> None:
        store.cluster("c")
        assert store.last_query_number() == 0
        assert store.next_query_number() == 1
        other = query("q-0002-000000")
        store.put_query(query(), ACCEPTED, {})
        store.put_query(other, replace(ACCEPTED, query_id=other.id), {})
        store.delete_queries([QUERY_ID, "q-0099-000000"], [])
        assert store.queries() == (other,)
        assert store.changes(QUERY_ID) == ()
        assert len(store.changes(other.id)) == 1
        assert store.last_query_number() == 1

    def test_the_oldest_incarnations_of_a_site_are_forgotten(self, store: Store) -> None:
        store.put_site(replace(site_record("eu"), incarnation="other"))
        for number in range(INCARNATIONS_KEPT + 5):
            store.put_site(replace(site_record("us"), incarnation=f"i{number}"))
        seen = [n for n in range(INCARNATIONS_KEPT + 5) if store.incarnation_seen("us", f"i{n}")]
        assert seen == list(range(5, INCARNATIONS_KEPT + 5))
        assert store.incarnation_seen("eu", "other")

    def test_draining_sites_come_back_until_they_are_undrained(self, store: Store) -> None:
        assert store.draining() == {}
        store.put_draining("us", START)
        store.put_draining("eu", START + timedelta(seconds=1))
        store.put_draining("us", START + timedelta(seconds=2))
        assert store.draining() == {"eu": START + timedelta(seconds=1), "us": START + timedelta(seconds=2)}
        store.put_draining("us", None)
        store.put_draining("us", None)
        assert store.draining() == {"eu": START + timedelta(seconds=1)}

    def test_a_state_that_was_not_restored_is_settled(self, store: Store) -> None:
        assert store.restored_from() is None
        store.settle_restored()
        assert store.restored_from() is None

    def test_leases_and_their_mark_come_back_equal(self, store: Store) -> None:
        assert store.leases() == StoredLeases()
        first, second = lease("us", 0, fencing=7), lease("eu", 3, fencing=8)
        store.put_leases(LeaseUpdate((first, second), (), 8, START))
        assert store.leases() == StoredLeases((second, first), 8, START)

        renewed = replace(first, expires_at=START + timedelta(hours=2))
        store.put_leases(LeaseUpdate((renewed,), (second.slot, Slot("ap", 9)), 9, START + timedelta(seconds=1)))
        assert store.leases() == StoredLeases((renewed,), 9, START + timedelta(seconds=1))

    def test_frameworks_come_back_equal_and_ordered_by_name(self, store: Store) -> None:
        streaming, batch = Framework("streaming", START), Framework("batch", START, 3, "nightly")
        store.put_framework(streaming)
        store.put_framework(batch)
        assert store.frameworks() == (batch, streaming)
        store.put_framework(replace(batch, quota=None))
        assert store.frameworks()[0].quota is None

    def test_tokens_come_back_equal_and_are_replaced_by_id(self, store: Store) -> None:
        token = TokenRecord("t-2", "digest", "ann", ("analysts", "reader"), START, "root", (), START, None)
        member = TokenRecord("t-1", "other", "eu", ("site",), START, bound=("eu",))
        store.put_token(token)
        store.put_token(member)
        assert store.tokens() == (member, token)
        store.put_token(replace(token, revoked_at=START))
        assert store.tokens() == (member, replace(token, revoked_at=START))

    def test_grants_and_owners_go_with_their_relation(self, store: Store) -> None:
        one = Grant("clicks", Privilege.SELECT, "analysts", "root", START)
        two = Grant("pages", Privilege.SELECT, "analysts")
        for grant in (two, one, one):
            store.put_grant(grant)
        store.put_owner("clicks", Owner("ann", ("submitter",)))
        store.put_owner("pages", Owner("bob"))
        assert store.grants() == (one, two)
        assert store.owners() == {"clicks": Owner("ann", ("submitter",)), "pages": Owner("bob")}
        store.forget_relation("clicks")
        assert store.grants() == (two,)
        assert store.owners() == {"pages": Owner("bob")}
        store.delete_grant("pages", Privilege.SELECT, "analysts")
        assert store.grants() == ()

    def test_a_query_keeps_its_owner(self, store: Store) -> None:
        record = replace(query(), owner="ann")
        store.put_query(record, ACCEPTED, {})
        assert store.queries() == (record,)


def lease(site: str, index: int, *, fencing: int) -> Lease:
    return Lease(Slot(site, index), "batch", fencing, START, START + timedelta(minutes=1), timedelta(seconds=20))
