"""TPC-H: its data by the package tpchgen-cli, and its 22 questions, written in DuckDB's SQL from the specification.

(Source: TPC-H specification 3.0.1, section 2.4: the business questions, with the values of their validation.)
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

    import paimon_pyds as pp

TABLES = ("region", "nation", "supplier", "customer", "part", "partsupp", "orders", "lineitem")
_GENERATOR = Path(sys.executable).parent / "tpchgen-cli"


def generate(directory: Path, scale: float) -> dict[str, Path]:
    """Write the tables as Parquet; the file of each. Raises FileNotFoundError: tpchgen-cli is not installed."""
    command = [_GENERATOR, "parquet", "--quiet", "--scale-factor", str(scale), "--output-dir", directory]
    subprocess.run(command, check=True)
    return {table: directory / f"{table}.parquet" for table in TABLES}


def rows_of(path: Path) -> pa.Table:
    """The rows of a file, with types that tables of Paimon have."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pq.read_table(path)
    return table.cast(pa.schema([f.with_type(pa.string()) if _is_text(f.type) else f for f in table.schema]))


def _is_text(type_: pa.DataType) -> bool:
    import pyarrow as pa

    return type_ == pa.string_view() or pa.types.is_large_string(type_)


def load(
    catalog: pp.Catalog, database: str, files: Mapping[str, Path], options: Mapping[str, Mapping[str, str]]
) -> None:
    """Make the tables; ``options``: of each."""
    catalog.create_database(database)
    for table, path in files.items():
        catalog.create_table(f"{database}.{table}", rows_of(path), options=options.get(table))


def question(number: int, tables: Mapping[str, str], scale: float) -> str:
    """A question as SQL. ``tables``: how each is written in it."""
    return QUESTIONS[number].format(fraction=0.0001 / scale, **tables)


QUESTIONS: dict[int, str] = {
    1: """
        SELECT l_returnflag, l_linestatus, sum(l_quantity) AS quantity, sum(l_extendedprice) AS base_price,
            sum(l_extendedprice * (1 - l_discount)) AS discounted,
            sum(l_extendedprice * (1 - l_discount) * (1 + l_tax)) AS charged,
            avg(l_quantity) AS mean_quantity, avg(l_extendedprice) AS mean_price, avg(l_discount) AS mean_discount,
            count(*) AS orders
        FROM {lineitem} WHERE l_shipdate <= DATE '1998-12-01' - INTERVAL 90 DAY
        GROUP BY ALL ORDER BY ALL""",
    2: """
        WITH offers AS (
            SELECT ps_partkey, ps_supplycost, s_acctbal, s_name, n_name, s_address, s_phone, s_comment
            FROM {partsupp} JOIN {supplier} ON s_suppkey = ps_suppkey JOIN {nation} ON n_nationkey = s_nationkey
                JOIN {region} ON r_regionkey = n_regionkey
            WHERE r_name = 'EUROPE')
        SELECT s_acctbal, s_name, n_name, p_partkey, p_mfgr, s_address, s_phone, s_comment
        FROM {part} JOIN offers ON ps_partkey = p_partkey
        WHERE p_size = 15 AND p_type LIKE '%BRASS'
            AND ps_supplycost = (SELECT min(o.ps_supplycost) FROM offers o WHERE o.ps_partkey = p_partkey)
        ORDER BY s_acctbal DESC, n_name, s_name, p_partkey LIMIT 100""",
    3: """
        SELECT o_orderkey, sum(l_extendedprice * (1 - l_discount)) AS revenue, o_orderdate, o_shippriority
        FROM {customer} JOIN {orders} ON o_custkey = c_custkey JOIN {lineitem} ON l_orderkey = o_orderkey
        WHERE c_mktsegment = 'BUILDING' AND o_orderdate < DATE '1995-03-15' AND l_shipdate > DATE '1995-03-15'
        GROUP BY o_orderkey, o_orderdate, o_shippriority ORDER BY revenue DESC, o_orderdate, o_orderkey LIMIT 10""",
    4: """
        SELECT o_orderpriority, count(*) AS orders FROM {orders}
        WHERE o_orderdate >= DATE '1993-07-01' AND o_orderdate < DATE '1993-10-01'
            AND EXISTS (FROM {lineitem} WHERE l_orderkey = o_orderkey AND l_commitdate < l_receiptdate)
        GROUP BY ALL ORDER BY ALL""",
    5: """
        SELECT n_name, sum(l_extendedprice * (1 - l_discount)) AS revenue
        FROM {region} JOIN {nation} ON n_regionkey = r_regionkey JOIN {supplier} ON s_nationkey = n_nationkey
            JOIN {lineitem} ON l_suppkey = s_suppkey JOIN {orders} ON o_orderkey = l_orderkey
            JOIN {customer} ON c_custkey = o_custkey AND c_nationkey = s_nationkey
        WHERE r_name = 'ASIA' AND o_orderdate >= DATE '1994-01-01' AND o_orderdate < DATE '1995-01-01'
        GROUP BY ALL ORDER BY revenue DESC""",
    6: """
        SELECT sum(l_extendedprice * l_discount) AS revenue FROM {lineitem}
        WHERE l_shipdate >= DATE '1994-01-01' AND l_shipdate < DATE '1995-01-01'
            AND l_discount BETWEEN 0.05 AND 0.07 AND l_quantity < 24""",
    7: """
        SELECT s.n_name AS supplier, c.n_name AS customer, year(l_shipdate) AS of_year,
            sum(l_extendedprice * (1 - l_discount)) AS volume
        FROM {supplier} JOIN {lineitem} ON l_suppkey = s_suppkey JOIN {orders} ON o_orderkey = l_orderkey
            JOIN {customer} ON c_custkey = o_custkey JOIN {nation} s ON s.n_nationkey = s_nationkey
            JOIN {nation} c ON c.n_nationkey = c_nationkey
        WHERE (s.n_name, c.n_name) IN (('FRANCE', 'GERMANY'), ('GERMANY', 'FRANCE'))
            AND l_shipdate BETWEEN DATE '1995-01-01' AND DATE '1996-12-31'
        GROUP BY ALL ORDER BY ALL""",
    8: """
        SELECT year(o_orderdate) AS of_year,
            sum(l_extendedprice * (1 - l_discount)) FILTER (s.n_name = 'BRAZIL')
                / sum(l_extendedprice * (1 - l_discount)) AS share
        FROM {part} JOIN {lineitem} ON l_partkey = p_partkey JOIN {supplier} ON s_suppkey = l_suppkey
            JOIN {orders} ON o_orderkey = l_orderkey JOIN {customer} ON c_custkey = o_custkey
            JOIN {nation} c ON c.n_nationkey = c_nationkey JOIN {region} ON r_regionkey = c.n_regionkey
            JOIN {nation} s ON s.n_nationkey = s_nationkey
        WHERE r_name = 'AMERICA' AND p_type = 'ECONOMY ANODIZED STEEL'
            AND o_orderdate BETWEEN DATE '1995-01-01' AND DATE '1996-12-31'
        GROUP BY ALL ORDER BY of_year""",
    9: """
        SELECT n_name, year(o_orderdate) AS of_year,
            sum(l_extendedprice * (1 - l_discount) - ps_supplycost * l_quantity) AS profit
        FROM {part} JOIN {lineitem} ON l_partkey = p_partkey
            JOIN {partsupp} ON ps_partkey = l_partkey AND ps_suppkey = l_suppkey
            JOIN {supplier} ON s_suppkey = l_suppkey JOIN {orders} ON o_orderkey = l_orderkey
            JOIN {nation} ON n_nationkey = s_nationkey
        WHERE p_name LIKE '%green%' GROUP BY ALL ORDER BY n_name, of_year DESC""",
    10: """
        SELECT c_custkey, c_name, sum(l_extendedprice * (1 - l_discount)) AS revenue, c_acctbal, n_name, c_address,
            c_phone, c_comment
        FROM {customer} JOIN {orders} ON o_custkey = c_custkey JOIN {lineitem} ON l_orderkey = o_orderkey
            JOIN {nation} ON n_nationkey = c_nationkey
        WHERE o_orderdate >= DATE '1993-10-01' AND o_orderdate < DATE '1994-01-01' AND l_returnflag = 'R'
        GROUP BY ALL ORDER BY revenue DESC, c_custkey LIMIT 20""",
    11: """
        WITH stock AS (
            SELECT ps_partkey, sum(ps_supplycost * ps_availqty) AS worth
            FROM {partsupp} JOIN {supplier} ON s_suppkey = ps_suppkey JOIN {nation} ON n_nationkey = s_nationkey
            WHERE n_name = 'GERMANY' GROUP BY ps_partkey)
        SELECT ps_partkey, worth FROM stock WHERE worth > (SELECT sum(worth) * {fraction} FROM stock)
        ORDER BY worth DESC, ps_partkey""",
    12: """
        SELECT l_shipmode, count(*) FILTER (o_orderpriority IN ('1-URGENT', '2-HIGH')) AS urgent,
            count(*) FILTER (o_orderpriority NOT IN ('1-URGENT', '2-HIGH')) AS others
        FROM {orders} JOIN {lineitem} ON l_orderkey = o_orderkey
        WHERE l_shipmode IN ('MAIL', 'SHIP') AND l_shipdate < l_commitdate AND l_commitdate < l_receiptdate
            AND l_receiptdate >= DATE '1994-01-01' AND l_receiptdate < DATE '1995-01-01'
        GROUP BY ALL ORDER BY ALL""",
    13: """
        WITH each AS (
            SELECT c_custkey, count(o_orderkey) AS orders
            FROM {customer} LEFT JOIN {orders}
                ON o_custkey = c_custkey AND o_comment NOT LIKE '%special%requests%'
            GROUP BY c_custkey)
        SELECT orders, count(*) AS customers FROM each GROUP BY ALL ORDER BY customers DESC, orders DESC""",
    14: """
        SELECT 100.00 * sum(l_extendedprice * (1 - l_discount)) FILTER (p_type LIKE 'PROMO%')
            / sum(l_extendedprice * (1 - l_discount)) AS promoted
        FROM {lineitem} JOIN {part} ON p_partkey = l_partkey
        WHERE l_shipdate >= DATE '1995-09-01' AND l_shipdate < DATE '1995-10-01'""",
    15: """
        WITH earned AS (
            SELECT l_suppkey, sum(l_extendedprice * (1 - l_discount)) AS revenue FROM {lineitem}
            WHERE l_shipdate >= DATE '1996-01-01' AND l_shipdate < DATE '1996-04-01' GROUP BY l_suppkey)
        SELECT s_suppkey, s_name, s_address, s_phone, revenue FROM {supplier} JOIN earned ON l_suppkey = s_suppkey
        WHERE revenue = (SELECT max(revenue) FROM earned) ORDER BY s_suppkey""",
    16: """
        SELECT p_brand, p_type, p_size, count(DISTINCT ps_suppkey) AS suppliers
        FROM {partsupp} JOIN {part} ON p_partkey = ps_partkey
        WHERE p_brand <> 'Brand#45' AND p_type NOT LIKE 'MEDIUM POLISHED%' AND p_size IN (49, 14, 23, 45, 19, 3, 36, 9)
            AND ps_suppkey NOT IN (SELECT s_suppkey FROM {supplier} WHERE s_comment LIKE '%Customer%Complaints%')
        GROUP BY ALL ORDER BY suppliers DESC, p_brand, p_type, p_size""",
    17: """
        SELECT sum(l_extendedprice) / 7.0 AS a_year FROM {lineitem} JOIN {part} ON p_partkey = l_partkey
        WHERE p_brand = 'Brand#23' AND p_container = 'MED BOX'
            AND l_quantity < (SELECT 0.2 * avg(l.l_quantity) FROM {lineitem} l WHERE l.l_partkey = p_partkey)""",
    18: """
        SELECT c_name, c_custkey, o_orderkey, o_orderdate, o_totalprice, sum(l_quantity) AS quantity
        FROM {customer} JOIN {orders} ON o_custkey = c_custkey JOIN {lineitem} ON l_orderkey = o_orderkey
        WHERE o_orderkey IN (SELECT l_orderkey FROM {lineitem} GROUP BY l_orderkey HAVING sum(l_quantity) > 300)
        GROUP BY ALL ORDER BY o_totalprice DESC, o_orderdate, o_orderkey LIMIT 100""",
    19: """
        SELECT sum(l_extendedprice * (1 - l_discount)) AS revenue FROM {lineitem} JOIN {part} ON p_partkey = l_partkey
        WHERE l_shipmode IN ('AIR', 'AIR REG') AND l_shipinstruct = 'DELIVER IN PERSON' AND (
            p_brand = 'Brand#12' AND p_container IN ('SM CASE', 'SM BOX', 'SM PACK', 'SM PKG')
                AND l_quantity BETWEEN 1 AND 11 AND p_size BETWEEN 1 AND 5
            OR p_brand = 'Brand#23' AND p_container IN ('MED BAG', 'MED BOX', 'MED PKG', 'MED PACK')
                AND l_quantity BETWEEN 10 AND 20 AND p_size BETWEEN 1 AND 10
            OR p_brand = 'Brand#34' AND p_container IN ('LG CASE', 'LG BOX', 'LG PACK', 'LG PKG')
                AND l_quantity BETWEEN 20 AND 30 AND p_size BETWEEN 1 AND 15)""",
    20: """
        SELECT s_name, s_address FROM {supplier} JOIN {nation} ON n_nationkey = s_nationkey
        WHERE n_name = 'CANADA' AND s_suppkey IN (
            SELECT ps_suppkey FROM {partsupp}
            WHERE ps_partkey IN (SELECT p_partkey FROM {part} WHERE p_name LIKE 'forest%')
                AND ps_availqty > (
                    SELECT 0.5 * sum(l_quantity) FROM {lineitem} WHERE l_partkey = ps_partkey AND l_suppkey = ps_suppkey
                        AND l_shipdate >= DATE '1994-01-01' AND l_shipdate < DATE '1995-01-01'))
        ORDER BY s_name""",
    21: """
        SELECT s_name, count(*) AS waits
        FROM {supplier} JOIN {nation} ON n_nationkey = s_nationkey JOIN {lineitem} late ON l_suppkey = s_suppkey
            JOIN {orders} ON o_orderkey = l_orderkey
        WHERE n_name = 'SAUDI ARABIA' AND o_orderstatus = 'F' AND late.l_receiptdate > late.l_commitdate
            AND EXISTS (FROM {lineitem} other
                WHERE other.l_orderkey = late.l_orderkey AND other.l_suppkey <> late.l_suppkey)
            AND NOT EXISTS (FROM {lineitem} other
                WHERE other.l_orderkey = late.l_orderkey AND other.l_suppkey <> late.l_suppkey
                    AND other.l_receiptdate > other.l_commitdate)
        GROUP BY s_name ORDER BY waits DESC, s_name LIMIT 100""",
    22: """
        WITH chosen AS (
            SELECT c_custkey, c_acctbal, substr(c_phone, 1, 2) AS country FROM {customer}
            WHERE country IN ('13', '31', '23', '29', '30', '18', '17'))
        SELECT country, count(*) AS customers, sum(c_acctbal) AS balance FROM chosen
        WHERE c_acctbal > (SELECT avg(c_acctbal) FROM chosen WHERE c_acctbal > 0)
            AND NOT EXISTS (FROM {orders} WHERE o_custkey = c_custkey)
        GROUP BY ALL ORDER BY ALL""",
}
