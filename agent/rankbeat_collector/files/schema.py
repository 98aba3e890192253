"""rows.proto as message classes, made at import: no generated file that binds one version of the runtime.

A test holds this table to what protoc makes of rows.proto.
"""

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

PACKAGE = "rankbeat.v1"
FILE = "rankbeat_collector/files/rows.proto"
MESSAGES = {
    "Row": (
        ("step", 1, "INT64"),
        ("time", 2, "DOUBLE"),
        ("rank", 3, "SINT32"),
        ("attempt", 4, "INT32"),
        ("run", 5, "STRING"),
        ("segment", 6, "INT32"),
        ("layer", 7, "SINT32"),
        ("head", 8, "SINT32"),
        ("values", 9, "repeated Value"),
        ("extra", 10, "Extra"),
    ),
    "Value": (("name", 1, "STRING"), ("value", 2, "DOUBLE")),
    "Extra": (("kind", 1, "STRING"), ("name", 2, "STRING"), ("content", 3, "BYTES"), ("masked", 4, "STRING")),
}


def file_descriptor() -> Any:
    """The FileDescriptorProto of rows.proto."""
    file = descriptor_pb2.FileDescriptorProto(name=FILE, package=PACKAGE, syntax="proto3")
    for name, fields in MESSAGES.items():
        message = file.message_type.add(name=name)
        for field, number, kind in fields:
            added = message.field.add(name=field, number=number)
            repeated, _, bare = kind.rpartition(" ")
            added.label = added.LABEL_REPEATED if repeated else added.LABEL_OPTIONAL
            if bare in MESSAGES:
                added.type, added.type_name = added.TYPE_MESSAGE, f".{PACKAGE}.{bare}"
            else:
                added.type = getattr(added, f"TYPE_{bare}")
    return file


def _row_class() -> Any:
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(file_descriptor().SerializeToString())
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{PACKAGE}.Row"))


ROW = _row_class()
