"""Functions that most expressions do without: their modules are imported where one of them is named."""

from __future__ import annotations

from paimon_pyds.sql.expression import time_units
from paimon_pyds.sql.expression.array_functions import ARRAY_FUNCTIONS
from paimon_pyds.sql.expression.array_items import ITEM_FUNCTIONS
from paimon_pyds.sql.expression.code_functions import CODE_FUNCTIONS
from paimon_pyds.sql.expression.hash_functions import HASH_FUNCTIONS
from paimon_pyds.sql.expression.json_functions import JSON_FUNCTIONS
from paimon_pyds.sql.expression.json_rows import JSON_ROW_FUNCTIONS
from paimon_pyds.sql.expression.lambda_functions import LAMBDA_FUNCTIONS
from paimon_pyds.sql.expression.lenient import LENIENT_FUNCTIONS
from paimon_pyds.sql.expression.made_arrays import MADE_FUNCTIONS
from paimon_pyds.sql.expression.map_functions import MAP_FUNCTIONS
from paimon_pyds.sql.expression.math_functions import MATH_FUNCTIONS
from paimon_pyds.sql.expression.nodes import Function
from paimon_pyds.sql.expression.number_texts import NUMBER_TEXT_FUNCTIONS
from paimon_pyds.sql.expression.regex_functions import REGEX_FUNCTIONS
from paimon_pyds.sql.expression.time_functions import TIME_FUNCTIONS

MORE_FUNCTIONS: dict[str, Function] = {
    **REGEX_FUNCTIONS,
    **TIME_FUNCTIONS,
    **ITEM_FUNCTIONS,
    **ARRAY_FUNCTIONS,
    **MADE_FUNCTIONS,
    **MAP_FUNCTIONS,
    **LAMBDA_FUNCTIONS,
    **JSON_FUNCTIONS,
    **JSON_ROW_FUNCTIONS,
    **HASH_FUNCTIONS,
    **MATH_FUNCTIONS,
    **NUMBER_TEXT_FUNCTIONS,
    **CODE_FUNCTIONS,
    **LENIENT_FUNCTIONS,
    "timestampadd": Function((3, 3), time_units.added),
    "timestampdiff": Function((3, 3), time_units.between),
}
