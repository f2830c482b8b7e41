"""Records: typed, frozen views of JSON objects."""

from bullpen.protocol.record.readers import OrAbsent, OrDefault, Otherwise, StrictBool
from bullpen.protocol.record.wire import Wire, camel, default, field

__all__ = ["OrAbsent", "OrDefault", "Otherwise", "StrictBool", "Wire", "camel", "default", "field"]
