from __future__ import annotations

import os
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from selat.local.identity import ProcessIdentity
from selat.wan.record import Record, Records
from tests.unit.selat.wan.build import LAYOUT, LINK, LINKS

SLOTS = {"us": 2, "eu": 1, "asia": 1}


def test_a_record_is_found_again(tmp_path: Path) -> None:
    records = Records(tmp_path)
    changed = LINKS | {("us", "eu"): replace(LINK, severed=True, jitter=timedelta(milliseconds=1))}
    record = Record(LAYOUT, "tun", "/t.yaml", SLOTS, LINKS, changed, 0.5, ProcessIdentity.of(os.getpid()))
    records.write(record)
    assert records.find("lab") == record
    assert records.all() == (record,)
    records.forget("lab")
    assert records.find("lab") is None


def test_numbers_are_free_ones(tmp_path: Path) -> None:
    records = Records(tmp_path)
    assert records.free_number() == 0
    records.write(Record(replace(LAYOUT, number=0), "tun", "", SLOTS, LINKS, LINKS))
    assert records.free_number() == 1
