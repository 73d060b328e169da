"""Records as plain values and back, derived from their fields: a new field is one line."""

from sigmascope.records.encoding.columns import Column, columns, is_array, is_record, wide
from sigmascope.records.encoding.plain import built, encoded, strict
from sigmascope.records.encoding.schemas import object_of, schema_of

__all__ = [
    "Column",
    "built",
    "columns",
    "encoded",
    "is_array",
    "is_record",
    "object_of",
    "schema_of",
    "strict",
    "wide",
]
