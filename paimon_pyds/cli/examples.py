"""What the help of each command ends with: lines that can be typed. The tests run them in this order."""

from __future__ import annotations

import re

_EXAMPLES = """
create-database warehouse shop
create warehouse/shop.db/pictures 'id BIGINT, name STRING, place ARRAY<FLOAT>' --option row-tracking.enabled=true --option data-evolution.enabled=true
create warehouse/shop.db/orders 'id BIGINT NOT NULL, color STRING, price DECIMAL(10, 2), day DATE' --partition-by day --option file-index.bitmap.columns=color
create warehouse/shop.db/customers 'id BIGINT, name STRING' --primary-key id --option bucket=4
migrate events warehouse/shop.db/events --dry-run
migrate events warehouse/shop.db/linked --mode link --partition-by day=STRING
append warehouse/shop.db/orders orders.csv
append warehouse/shop.db/items items.parquet --create --partition-by day
overwrite warehouse/shop.db/orders today.csv --partition day=2026-11-22
scan warehouse/shop.db/orders --where "color = 'red' AND price < 10" --columns id,price --limit 10
scan warehouse/shop.db/orders --top-n 'price desc, 3' --output json
scan warehouse/shop.db/orders --snapshot 1 --out orders.parquet
scan warehouse/shop.db/orders --output csv --null NULL --delimiter ';' | head
scan warehouse/shop.db/orders --output csv | paimon-pyds append warehouse/shop.db/copy - --input-format csv --create --types 'price DECIMAL(10, 2)'
follow warehouse/shop.db/orders --filter "color = 'red'" --output json --until latest
follow warehouse/shop.db/customers --from 1 --rowkind-column kind --output csv --consumer-id copy --until latest
count warehouse/shop.db/orders --where "color = 'red'" --how
exists warehouse/shop.db/orders --where "color = 'red'"
distinct warehouse/shop.db/orders color --output csv
min warehouse/shop.db/orders day
max warehouse/shop.db/orders price --where "color = 'red'"
sum warehouse/shop.db/orders price
explain warehouse/shop.db/orders --where "color = 'red'" --analyze --html explain.html
describe warehouse/shop.db/orders
describe warehouse/shop.db/orders --all-options
update warehouse/shop.db/orders --set 'price = price * 0.9' --where "color = 'red'"
delete warehouse/shop.db/orders --where "color = 'blue'"
delete warehouse/shop.db/orders --matching gone.csv
merge warehouse/shop.db/orders --source changes.csv --on id --when-matched update --when-not-matched insert
compact warehouse/shop.db/orders --full
compact warehouse/shop.db/orders --order-by color --dry-run
lookup warehouse/shop.db/customers '{"id": 7}'
alter warehouse/shop.db/orders --set file-index.bloom-filter.columns=id --unset target-file-size
alter warehouse/shop.db/orders --add-columns 'note STRING, tags ARRAY<STRING>'
alter warehouse/shop.db/orders --rename-column note=remark --drop-column tags --comment 'all orders'
iceberg warehouse/shop.db/orders
sql "SELECT count(*) AS n FROM shop.orders" --warehouse warehouse
system read warehouse/shop.db/orders files --where 'level > 0' --output markdown
system read --warehouse warehouse all_table_options
system audit-log warehouse/shop.db/orders --limit 3
system binlog warehouse/shop.db/orders --output json
index build warehouse/shop.db/orders
search warehouse/shop.db/pictures place --vector '[0.5, 1]' -k 3
index build-global warehouse/shop.db/pictures name
index drop-global warehouse/shop.db/pictures name
index dump warehouse/shop.db/orders
index verify warehouse/shop.db/orders
index cost warehouse/shop.db/orders --option file-index.bitmap.columns=color --filter "color = 'red'"
index evaluate warehouse/shop.db/orders data-1.parquet.index --where "color = 'red'"
index advise warehouse/shop.db/orders --filters filters.txt
index advise warehouse/shop.db/orders --filter "color = 'red'"
index advise-partition warehouse/shop.db/orders --filters filters.txt
index layout warehouse/shop.db/orders --columns id,price
tags create warehouse/shop.db/orders before-sale --snapshot 1
tags rename warehouse/shop.db/orders before-sale first
tags list warehouse/shop.db/orders
tags create-due warehouse/shop.db/orders --option tag.automatic-creation=process-time --dry-run
tags expire warehouse/shop.db/orders
branches create warehouse/shop.db/orders trial --tag first
branches rename warehouse/shop.db/orders trial test
branches list warehouse/shop.db/orders
branches fast-forward warehouse/shop.db/orders test --yes
branches delete warehouse/shop.db/orders test --yes
snapshots list warehouse/shop.db/orders
snapshots latest warehouse/shop.db/orders
snapshots rollback warehouse/shop.db/orders --tag first --yes
tags delete warehouse/shop.db/orders first --yes
snapshots diff warehouse/shop.db/orders 1 --output csv
snapshots diff warehouse/shop.db/orders 1 --summary
snapshots expire warehouse/shop.db/orders --retain-max 10 --dry-run
snapshots expire-changelogs warehouse/shop.db/orders --retain-max 100 --dry-run
maintenance verify warehouse/shop.db/orders
maintenance verify warehouse/shop.db/orders --deep --output json
maintenance repair warehouse/shop.db/orders --dry-run
maintenance repair warehouse/shop.db/orders
maintenance remove-orphan-files warehouse/shop.db/orders --dry-run
maintenance remove-orphan-files warehouse/shop.db/orders --older-than '2 d' --yes
maintenance remove-unexisting-files warehouse/shop.db/orders --dry-run
maintenance remove-unexisting-files warehouse/shop.db/orders --yes
maintenance analyze warehouse/shop.db/orders --columns id,color
maintenance statistics warehouse/shop.db/orders
maintenance clone warehouse/shop.db/orders warehouse/shop.db/orders_2026 --dry-run
maintenance reset-consumer warehouse/shop.db/orders nightly --next-snapshot 2
maintenance consumers warehouse/shop.db/orders
maintenance clear-consumers warehouse/shop.db/orders --including 'night.*'
maintenance compact-manifests warehouse/shop.db/orders --dry-run
maintenance expire-partitions warehouse/shop.db/orders --option 'partition.expiration-time=365 d' --dry-run
maintenance mark-partitions-done warehouse/shop.db/orders day=2026-11-22
maintenance rescale warehouse/shop.db/customers 8 --dry-run
maintenance purge warehouse/shop.db/orders --named-states --dry-run
maintenance drop-partitions warehouse/shop.db/orders --where "day < '2020-01-01'" --dry-run
truncate warehouse/shop.db/orders --dry-run
tables warehouse
tables warehouse --database shop --output json
repair-table shop.orders --catalog prod
rename warehouse/shop.db/items articles
drop warehouse/shop.db/articles --yes
drop-database warehouse shop --cascade --yes
"""  # noqa: E501 - a line is one command
EXAMPLES: dict[str, list[str]] = {}
"""By command, such as ``tags create``."""
_WIDTH_CHARACTERS = 76
"""Characters of a line in help, of the 80 of a usual terminal."""

for _line in _EXAMPLES.split("\n")[1:-1]:
    _first, _second, *_ = _line.split(" ")
    _group = _first in ("system", "index", "tags", "branches", "snapshots", "maintenance")
    EXAMPLES.setdefault(f"{_first} {_second}" if _group else _first, []).append(f"paimon-pyds {_line}")


def wrapped(line: str) -> str:
    """A line as a shell takes it in several lines."""
    first, *parts = re.split(r" (?=--|\||'id |warehouse/)", line)
    lines = [f"  {first}"]
    for part in parts:
        if len(lines[-1]) + len(part) + 1 > _WIDTH_CHARACTERS:
            lines.append(f"    {part}")
        else:
            lines[-1] += f" {part}"
    return " \\\n".join(lines)
