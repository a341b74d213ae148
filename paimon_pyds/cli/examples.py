"""What the help of each command ends with: lines that can be typed. The tests run them in this order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

EXAMPLES: Mapping[str, Sequence[str]] = {
    "create-database": ["paimon-pyds create-database /wh shop"],
    "create": [
        "paimon-pyds create /wh/shop.db/orders 'id BIGINT NOT NULL, color STRING, price DECIMAL(10, 2), day DATE'"
        " --partition-by day --option file-index.bitmap.columns=color",
        "paimon-pyds create /wh/shop.db/customers 'id BIGINT, name STRING' --primary-key id --option bucket=4",
    ],
    "migrate": [
        "paimon-pyds migrate events /wh/shop.db/events --dry-run",
        "paimon-pyds migrate events /wh/shop.db/linked --mode link --partition-by day=STRING",
    ],
    "write": [
        "paimon-pyds write /wh/shop.db/orders orders.csv",
        "paimon-pyds write /wh/shop.db/items items.parquet --create --partition-by day",
        "paimon-pyds write /wh/shop.db/orders today.csv --mode overwrite --partition day=2026-11-22",
        "paimon-pyds read /wh/shop.db/orders --output csv | paimon-pyds write /wh/shop.db/copy - --input-format csv"
        " --create --types 'price DECIMAL(10, 2)'",
    ],
    "read": [
        "paimon-pyds read /wh/shop.db/orders --where \"color = 'red' AND price < 10\" --columns id,price --limit 10",
        "paimon-pyds read /wh/shop.db/orders --topn 'price desc, 3' --output json",
        "paimon-pyds read /wh/shop.db/orders --snapshot 1 --out orders.parquet",
        "paimon-pyds read /wh/shop.db/orders --output csv --null NULL --delimiter ';' | head",
    ],
    "count": ["paimon-pyds count /wh/shop.db/orders --where \"color = 'red'\" --how"],
    "exists": ["paimon-pyds exists /wh/shop.db/orders --where \"color = 'red'\""],
    "distinct": ["paimon-pyds distinct /wh/shop.db/orders color --output csv"],
    "min": ["paimon-pyds min /wh/shop.db/orders day"],
    "max": ["paimon-pyds max /wh/shop.db/orders price --where \"color = 'red'\""],
    "sum": ["paimon-pyds sum /wh/shop.db/orders price"],
    "explain": ["paimon-pyds explain /wh/shop.db/orders --where \"color = 'red'\" --analyze --html explain.html"],
    "layout": ["paimon-pyds layout /wh/shop.db/orders --columns id,price"],
    "describe": ["paimon-pyds describe /wh/shop.db/orders", "paimon-pyds describe /wh/shop.db/orders --all-options"],
    "snapshots": ["paimon-pyds snapshots /wh/shop.db/orders"],
    "system": [
        "paimon-pyds system /wh/shop.db/orders files --where 'level > 0' --output markdown",
        "paimon-pyds system --warehouse /wh all_table_options",
    ],
    "update": ["paimon-pyds update /wh/shop.db/orders --set 'price = price * 0.9' --where \"color = 'red'\""],
    "delete": [
        "paimon-pyds delete /wh/shop.db/orders --where \"color = 'blue'\"",
        "paimon-pyds delete /wh/shop.db/orders --matching gone.csv",
    ],
    "merge": [
        "paimon-pyds merge /wh/shop.db/orders --source changes.csv --on id --when-matched update"
        " --when-not-matched insert"
    ],
    "compact": [
        "paimon-pyds compact /wh/shop.db/orders --full",
        "paimon-pyds compact /wh/shop.db/orders --order-by color --dry-run",
    ],
    "rescale": ["paimon-pyds rescale /wh/shop.db/customers 8 --dry-run"],
    "lookup": ["paimon-pyds lookup /wh/shop.db/customers '{\"id\": 7}'"],
    "alter": [
        "paimon-pyds alter /wh/shop.db/orders --set file-index.bloom-filter.columns=id --unset target-file-size",
        "paimon-pyds alter /wh/shop.db/orders --add-columns 'note STRING, tags ARRAY<STRING>'",
        "paimon-pyds alter /wh/shop.db/orders --rename-column note=remark --drop-column tags --comment 'all orders'",
    ],
    "index rewrite": ["paimon-pyds index rewrite /wh/shop.db/orders"],
    "index dump": ["paimon-pyds index dump /wh/shop.db/orders"],
    "index verify": ["paimon-pyds index verify /wh/shop.db/orders"],
    "index cost": [
        "paimon-pyds index cost /wh/shop.db/orders --option file-index.bitmap.columns=color --filter \"color = 'red'\""
    ],
    "index eval": ["paimon-pyds index eval data-1.parquet.index --table /wh/shop.db/orders --where \"color = 'red'\""],
    "index advise": [
        "paimon-pyds index advise /wh/shop.db/orders --filters filters.txt",
        "paimon-pyds index advise /wh/shop.db/orders --filter \"color = 'red'\"",
    ],
    "advise partition": ["paimon-pyds advise partition /wh/shop.db/orders --filters filters.txt"],
    "tag create": ["paimon-pyds tag create /wh/shop.db/orders before-sale --snapshot 1"],
    "tag rename": ["paimon-pyds tag rename /wh/shop.db/orders before-sale first"],
    "tag list": ["paimon-pyds tag list /wh/shop.db/orders"],
    "tag create-due": [
        "paimon-pyds tag create-due /wh/shop.db/orders --option tag.automatic-creation=process-time --dry-run"
    ],
    "consumer reset": ["paimon-pyds consumer reset /wh/shop.db/orders nightly --next-snapshot 2"],
    "consumer list": ["paimon-pyds consumer list /wh/shop.db/orders"],
    "consumer clear": ["paimon-pyds consumer clear /wh/shop.db/orders --including 'night.*'"],
    "tag expire": ["paimon-pyds tag expire /wh/shop.db/orders"],
    "branch create": ["paimon-pyds branch create /wh/shop.db/orders trial --tag first"],
    "branch rename": ["paimon-pyds branch rename /wh/shop.db/orders trial test"],
    "branch list": ["paimon-pyds branch list /wh/shop.db/orders"],
    "branch fast-forward": ["paimon-pyds branch fast-forward /wh/shop.db/orders test --yes"],
    "branch delete": ["paimon-pyds branch delete /wh/shop.db/orders test --yes"],
    "rollback": ["paimon-pyds rollback /wh/shop.db/orders --tag first --yes"],
    "tag delete": ["paimon-pyds tag delete /wh/shop.db/orders first --yes"],
    "verify": ["paimon-pyds verify /wh/shop.db/orders", "paimon-pyds verify /wh/shop.db/orders --deep --output json"],
    "repair": ["paimon-pyds repair /wh/shop.db/orders --dry-run", "paimon-pyds repair /wh/shop.db/orders"],
    "remove-unexisting-files": [
        "paimon-pyds remove-unexisting-files /wh/shop.db/orders --dry-run",
        "paimon-pyds remove-unexisting-files /wh/shop.db/orders --yes",
    ],
    "diff": ["paimon-pyds diff /wh/shop.db/orders 1 --output csv", "paimon-pyds diff /wh/shop.db/orders 1 --summary"],
    "orphans": [
        "paimon-pyds orphans /wh/shop.db/orders --dry-run",
        "paimon-pyds orphans /wh/shop.db/orders --older-than '2 d' --yes",
    ],
    "expire": ["paimon-pyds expire /wh/shop.db/orders --retain-max 10 --dry-run"],
    "expire-changelogs": ["paimon-pyds expire-changelogs /wh/shop.db/orders --retain-max 100 --dry-run"],
    "expire-partitions": [
        "paimon-pyds expire-partitions /wh/shop.db/orders --option 'partition.expiration-time=365 d' --dry-run"
    ],
    "compact-manifests": ["paimon-pyds compact-manifests /wh/shop.db/orders --dry-run"],
    "analyze": ["paimon-pyds analyze /wh/shop.db/orders --columns id,color"],
    "clone": ["paimon-pyds clone /wh/shop.db/orders /wh/shop.db/orders_2026 --dry-run"],
    "purge": ["paimon-pyds purge /wh/shop.db/orders --named-states --dry-run"],
    "mark-done": ["paimon-pyds mark-done /wh/shop.db/orders day=2026-11-22"],
    "drop-partitions": ["paimon-pyds drop-partitions /wh/shop.db/orders --where \"day < '2020-01-01'\" --dry-run"],
    "truncate": ["paimon-pyds truncate /wh/shop.db/orders --dry-run"],
    "tables": ["paimon-pyds tables /wh", "paimon-pyds tables /wh --database shop --output json"],
    "rename": ["paimon-pyds rename /wh/shop.db/items articles"],
    "drop": ["paimon-pyds drop /wh/shop.db/articles --yes"],
    "drop-database": ["paimon-pyds drop-database /wh shop --cascade --yes"],
    "completion": ['eval "$(paimon-pyds completion bash)"', "paimon-pyds completion fish | source"],
}
