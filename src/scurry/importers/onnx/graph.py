"""Graph: what an ONNX file holds, as far as tree ensembles need it; `read_graph` and `write_graph`.

Numbers of fields are those of onnx-ml.proto (https://github.com/onnx/onnx). Subgraphs, sparse and external tensors are
left out: no converter of trees writes them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scurry.errors import FormatError, UnsupportedModelError
from scurry.importers.onnx.protobuf import Message, encode_bytes, encode_floats, encode_number, encode_numbers

FLOAT, UINT8, INT32, INT64, STRING, BOOL, DOUBLE = 1, 2, 6, 7, 8, 9, 11
"""Types of tensors' entries."""
_DTYPES: dict[int, str] = {FLOAT: "<f4", UINT8: "u1", INT32: "<i4", INT64: "<i8", BOOL: "?", DOUBLE: "<f8"}
_CODES = {np.dtype(dtype): code for code, dtype in _DTYPES.items()}
TREES = "ai.onnx.ml"
"""The domain of the operators of classical models."""
_MAX_BYTES = 2**31  # protobuf's own limit for a message


@dataclass(frozen=True)
class Value:
    """An input or an output: its name, the type of its entries (0 if it is no tensor), its shape (None if unknown)."""

    name: str
    dtype: int
    shape: tuple[int | None, ...] | None


@dataclass(frozen=True)
class Node:
    """An operator. Attributes are ints, floats, texts (bytes), tensors, or arrays or lists of these."""

    op: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    domain: str = ""


@dataclass(frozen=True)
class Graph:
    """Operators in the order they run, and the constants, inputs and outputs they are connected to."""

    nodes: tuple[Node, ...]
    constants: Mapping[str, NDArray[Any]]
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    opsets: Mapping[str, int]


def read_graph(data: bytes) -> Graph:
    """Return the graph of an ONNX file.

    Raises
    ------
    FormatError
        If it is no ONNX file, or a damaged one.
    """
    model = Message(data)
    if 7 not in model or 8 not in model:
        raise FormatError("it has no graph, or no versions of its operators")
    graph = model.message(7)
    if 25 in model or 15 in graph:
        raise UnsupportedModelError("it has functions or sparse tensors, which no converter of trees writes")
    constants = dict(_read_tensor(tensor) for tensor in graph.messages(5))
    nodes = tuple(_read_node(node) for node in graph.messages(1))
    for node in nodes:
        if node.op == "Constant" and isinstance(value := node.attributes.get("value"), np.ndarray):
            constants[node.outputs[0] if node.outputs else ""] = value
    return Graph(
        nodes=tuple(node for node in nodes if node.op != "Constant"),
        constants=constants,
        # Old versions list constants among the inputs.
        inputs=tuple(value for value in map(_read_value, graph.messages(11)) if value.name not in constants),
        outputs=tuple(_read_value(value) for value in graph.messages(12)),
        opsets={opset.text(1): opset.number(2) for opset in model.messages(8)},
    )


def _read_value(value: Message) -> Value:
    tensor = value.message(2).message(1)
    dims = tensor.message(2).messages(1)
    sizes = tuple(dim.number(1) if 1 in dim else None for dim in dims)
    return Value(value.text(1), tensor.number(1), sizes if 2 in tensor else None)


def _read_node(node: Message) -> Node:
    attributes = dict(_read_attribute(attribute) for attribute in node.messages(5))
    return Node(node.text(4), tuple(node.texts(1)), tuple(node.texts(2)), attributes, node.text(7))


def _read_attribute(attribute: Message) -> tuple[str, Any]:
    """Return an attribute's name and value; None for a subgraph and whatever else trees do not have."""
    kind = attribute.number(20)
    if kind == 0:  # the first files did not say: the field that is there tells
        kind = next((k for k, number in enumerate((2, 3, 4, 5, 6, 7, 8, 9), 1) if number in attribute), 0)
    value: Any = None
    match kind:
        case 1:
            single = attribute.floats(2)
            value = float(single[-1]) if len(single) else 0.0
        case 2:
            value = attribute.number(3)
        case 3:
            value = (attribute.parts(4) or [b""])[-1]
        case 4:
            value = _read_tensor(attribute.message(5))[1]
        case 6:
            value = attribute.floats(7)
        case 7:
            value = attribute.numbers(8)
        case 8:
            value = attribute.parts(9)
    return attribute.text(1), value


def _read_tensor(tensor: Message) -> tuple[str, NDArray[Any]]:
    name, kind, shape = tensor.text(8), tensor.number(2), tensor.numbers(1).tolist()
    if tensor.number(14) or 13 in tensor:
        raise UnsupportedModelError(f"its tensor {name!r} is in another file; save the model as one file")
    values: NDArray[Any]
    if kind == STRING:
        values = np.array(tensor.texts(6), object)
    elif kind not in _DTYPES:
        raise UnsupportedModelError(f"its tensor {name!r} has entries of type {kind}, which trees do not need")
    elif 9 in tensor:
        raw, dtype = b"".join(tensor.parts(9)), np.dtype(_DTYPES[kind])
        if len(raw) % dtype.itemsize:
            raise FormatError(f"its tensor {name!r} ends within an entry")
        values = np.frombuffer(raw, dtype)
    elif kind == FLOAT:
        values = tensor.floats(4)
    elif kind == DOUBLE:
        values = tensor.floats(10, "<f8")
    else:
        values = tensor.numbers(7 if kind == INT64 else 5).astype(_DTYPES[kind])
    try:
        if min(shape, default=0) < 0:
            raise ValueError("a size is negative")  # numpy would take it for whatever fits
        return name, values.reshape(shape)
    except ValueError as error:
        raise FormatError(
            f"its tensor {name!r} has {len(values)} entries, which do not fit the shape {shape[:8]}"
        ) from error


def write_graph(graph: Graph, producer: str, version: str) -> bytes:
    """Return the bytes of an ONNX file.

    Parameters
    ----------
    graph : Graph
    producer, version : str
        What made it.
    """
    body = b"".join(encode_bytes(1, _write_node(node)) for node in graph.nodes) + encode_bytes(2, producer)
    body += b"".join(encode_bytes(5, _write_tensor(values, name)) for name, values in graph.constants.items())
    body += b"".join(encode_bytes(11, _write_value(value)) for value in graph.inputs)
    body += b"".join(encode_bytes(12, _write_value(value)) for value in graph.outputs)
    opsets = [encode_bytes(1, domain) + encode_number(2, number) for domain, number in graph.opsets.items()]
    head = encode_number(1, 10) + encode_bytes(2, producer) + encode_bytes(3, version)
    data = head + encode_bytes(7, body) + b"".join(encode_bytes(8, opset) for opset in opsets)
    if len(data) >= _MAX_BYTES:
        raise UnsupportedModelError(f"the model takes {len(data)} bytes, an ONNX file less than {_MAX_BYTES}")
    return data


def _write_value(value: Value) -> bytes:
    dims = b"".join(encode_bytes(1, b"" if size is None else encode_number(1, size)) for size in value.shape or ())
    tensor = encode_number(1, value.dtype) + encode_bytes(2, dims)
    return encode_bytes(1, value.name) + encode_bytes(2, encode_bytes(1, tensor))


def _write_node(node: Node) -> bytes:
    return (
        b"".join(encode_bytes(1, name) for name in node.inputs)
        + b"".join(encode_bytes(2, name) for name in node.outputs)
        + encode_bytes(3, f"{node.op} {node.outputs[0]}")
        + encode_bytes(4, node.op)
        + b"".join(encode_bytes(5, _write_attribute(name, value)) for name, value in node.attributes.items())
        + encode_bytes(7, node.domain)
    )


def _write_attribute(name: str, value: Any) -> bytes:
    """Return an attribute. Arrays of int64 and float32 of one dimension are lists, other arrays are tensors."""
    head = encode_bytes(1, name)
    if isinstance(value, int):
        return head + encode_number(3, value) + encode_number(20, 2)
    if isinstance(value, bytes):
        return head + encode_bytes(4, value) + encode_number(20, 3)
    if isinstance(value, list):
        return head + b"".join(encode_bytes(9, part) for part in value) + encode_number(20, 8)
    if value.dtype == np.int64:
        return head + encode_numbers(8, value) + encode_number(20, 7)
    if value.dtype == np.float32 and name in _FLOAT_LISTS:
        return head + encode_floats(7, value) + encode_number(20, 6)
    return head + encode_bytes(5, _write_tensor(value, name)) + encode_number(20, 4)


_FLOAT_LISTS = frozenset(("nodes_values", "target_weights", "class_weights", "base_values"))


def _write_tensor(values: NDArray[Any], name: str) -> bytes:
    head = encode_numbers(1, np.array(values.shape, np.int64))
    if values.dtype.kind in "UO":
        texts = b"".join(encode_bytes(6, str(text)) for text in values.ravel().tolist())
        return head + encode_number(2, STRING) + texts + encode_bytes(8, name)
    code = _CODES[values.dtype]
    raw = np.ascontiguousarray(values, _DTYPES[code]).tobytes()
    return head + encode_number(2, code) + encode_bytes(8, name) + encode_bytes(9, raw)
