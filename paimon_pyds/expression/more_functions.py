"""Functions that most expressions do without: their modules are imported where one of them is named."""

from __future__ import annotations

from paimon_pyds.expression import time_units
from paimon_pyds.expression.array_functions import ARRAY_FUNCTIONS
from paimon_pyds.expression.array_items import ITEM_FUNCTIONS
from paimon_pyds.expression.code_functions import CODE_FUNCTIONS
from paimon_pyds.expression.hash_functions import HASH_FUNCTIONS
from paimon_pyds.expression.json_functions import JSON_FUNCTIONS
from paimon_pyds.expression.lambda_functions import LAMBDA_FUNCTIONS
from paimon_pyds.expression.lenient import LENIENT_FUNCTIONS
from paimon_pyds.expression.made_arrays import MADE_FUNCTIONS
from paimon_pyds.expression.map_functions import MAP_FUNCTIONS
from paimon_pyds.expression.math_functions import MATH_FUNCTIONS
from paimon_pyds.expression.nodes import Function
from paimon_pyds.expression.regex_functions import REGEX_FUNCTIONS
from paimon_pyds.expression.time_functions import TIME_FUNCTIONS

MORE_FUNCTIONS: dict[str, Function] = {
    **REGEX_FUNCTIONS,
    **TIME_FUNCTIONS,
    **ITEM_FUNCTIONS,
    **ARRAY_FUNCTIONS,
    **MADE_FUNCTIONS,
    **MAP_FUNCTIONS,
    **LAMBDA_FUNCTIONS,
    **JSON_FUNCTIONS,
    **HASH_FUNCTIONS,
    **MATH_FUNCTIONS,
    **CODE_FUNCTIONS,
    **LENIENT_FUNCTIONS,
    "timestampadd": Function((3, 3), time_units.added),
    "timestampdiff": Function((3, 3), time_units.between),
}
