from __future__ import annotations

import grpc
import grpc.aio

from contract.trailers import ERROR_TRAILER, detail, received_detail, shortened


def test_long_texts_are_cut_at_a_whole_character() -> None:
    assert shortened("x" * 200, 200) == "x" * 200
    assert shortened("x" * 201, 200) == "x" * 197 + "…"
    assert shortened("é" * 200, 200) == "é" * 98 + "…"
    told = detail("CODE", "m" * 9000, hint="h" * 9000, ids={"name": "i" * 9000}, found="f" * 9000)
    assert len(told.SerializeToString()) < 3000


def received(*trailer: tuple[str, str | bytes]) -> grpc.aio.AioRpcError:
    return grpc.aio.AioRpcError(grpc.StatusCode.NOT_FOUND, grpc.aio.Metadata(), grpc.aio.Metadata(*trailer), "", "")


def test_a_detail_is_read_from_the_trailer() -> None:
    told = detail("GONE", "gone", ids={"first_epoch": "4"})
    assert received_detail(received(("other", "x"), (ERROR_TRAILER, told.SerializeToString()))) == told
    assert received_detail(received()) is None
    assert received_detail(received((ERROR_TRAILER, b"\xff\xff"))) is None
