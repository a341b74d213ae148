"""Does with pypaimon what each line of JSON says: a call, its warehouse, and the file through which its rows go.

pypaimon's own environment runs this: nothing of the project is imported.
"""

import json
import sys
import traceback
from contextlib import redirect_stdout
from functools import cache
from importlib.metadata import version

import pyarrow as pa
from pypaimon import CatalogFactory, Schema


@cache
def catalog_of(warehouse):
    return CatalogFactory.create({"warehouse": warehouse})


def rows(path):
    with pa.OSFile(path) as file:
        return pa.ipc.open_file(file).read_all()


def create(catalog, path, name, keys, partitions, options):
    catalog.create_database("db", True)
    columns = rows(path).schema
    schema = Schema.from_pyarrow_schema(columns, partition_keys=partitions, primary_keys=keys, options=options)
    catalog.create_table(f"db.{name}", schema, False)


def append(catalog, path, name):
    builder = catalog.get_table(f"db.{name}").new_batch_write_builder()
    writer, committer = builder.new_write(), builder.new_commit()
    writer.write_arrow(rows(path))
    committer.commit(writer.prepare_commit())
    writer.close()
    committer.close()


def update(catalog, path, name, column, value, values):
    builder = catalog.get_table(f"db.{name}").new_batch_write_builder()
    change, committer = builder.new_update(), builder.new_commit()
    found = change.new_predicate_builder().equal(column, value)
    committer.commit(change.update_by_predicate(found, values) if values else change.delete_by_predicate(found))
    committer.close()


def read(catalog, path, name, equal):
    builder = catalog.get_table(f"db.{name}").new_read_builder()
    for column, value in equal.items():
        builder = builder.with_filter(builder.new_predicate_builder().equal(column, value))
    found = builder.new_read().to_arrow(builder.new_scan().plan().splits())
    with pa.OSFile(path, "wb") as file, pa.ipc.new_file(file, found.schema) as writer:
        writer.write_table(found)


def index(catalog, path, name, column, index_type):
    catalog.get_table(f"db.{name}").create_global_index(column, index_type=index_type)


def search(catalog, path, name, column, wanted, k):
    table = catalog.get_table(f"db.{name}")
    if isinstance(wanted, str):
        builder = table.new_full_text_search_builder().with_query(column, wanted)
    else:
        builder = table.new_vector_search_builder().with_vector_column(column).with_query_vector(wanted)
    found = builder.with_limit(k).execute_local()
    score = found.score_getter()
    return {"hits": [[row, score(row)] for row in found.results()]}


CALLS = {"create": create, "append": append, "update": update, "read": read, "index": index, "search": search}
print(json.dumps({"version": version("pypaimon")}), flush=True)
for line in sys.stdin:
    call = json.loads(line)
    try:
        with redirect_stdout(sys.stderr):
            answer = CALLS[call.pop("call")](catalog_of(call.pop("warehouse")), call.pop("file"), **call) or {}
    except Exception:  # noqa: BLE001 - whoever asked raises it
        answer = {"error": traceback.format_exc()}
    print(json.dumps(answer), flush=True)
