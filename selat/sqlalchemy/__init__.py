"""A dialect of SQLAlchemy over `selat.dbapi`, for programs that know databases by SQLAlchemy.

    from sqlalchemy import MetaData, Table, create_engine, func, select

    engine = create_engine("selat://127.0.0.1:7410")
    orders = Table("orders", MetaData(), autoload_with=engine)
    with engine.connect() as connection:
        connection.execute(select(orders.c.product, func.count()).group_by(orders.c.product)).all()

It reads: what changes rows or declares relations is refused when it is compiled. SQLAlchemy finds the dialect by an
entry point of the package, so nobody has to import this module.
"""

from __future__ import annotations

from selat.sqlalchemy.dialect import SelatDialect

__all__ = ["SelatDialect"]
