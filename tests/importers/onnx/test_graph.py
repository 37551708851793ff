"""ONNX graphs: what is written is read again; files that lack parts, or have too many, are refused."""

import numpy as np
import pytest

from scurry.errors import FormatError, UnsupportedModelError
from scurry.importers.onnx.graph import DOUBLE, FLOAT, Graph, Node, Value, read_graph, write_graph
from scurry.importers.onnx.protobuf import Message, encode_bytes, encode_floats, encode_number, encode_numbers

ATTRIBUTES = {
    "axis": -1,
    "post_transform": b"NONE",
    "nodes_modes": [b"LEAF", b"BRANCH_LEQ"],
    "nodes_treeids": np.array([0, 2**40, -1]),
    "nodes_values": np.array([0.5, np.nan], np.float32),
    "nodes_splits": np.array([0.5, 1e300]),
    "modes": np.array([1, 6], np.uint8),
}
GRAPH = Graph(
    nodes=(Node("TreeEnsemble", ("X",), ("sums",), ATTRIBUTES, "ai.onnx.ml"), Node("Exp", ("sums",), ("out",), {})),
    constants={"labels": np.array(["ä", "b"], object), "one": np.array(1.0), "ints": np.arange(6).reshape(2, 3)},
    inputs=(Value("X", FLOAT, (None, 3)),),
    outputs=(Value("out", DOUBLE, (None,)),),
    opsets={"": 18, "ai.onnx.ml": 5},
)


def test_round_trip():
    again = read_graph(write_graph(GRAPH, "test", "1"))
    assert (again.inputs, again.outputs, again.opsets) == (GRAPH.inputs, GRAPH.outputs, GRAPH.opsets)
    assert [(node.op, node.domain, node.inputs) for node in again.nodes] == [
        (node.op, node.domain, node.inputs) for node in GRAPH.nodes
    ]
    for name, value in ATTRIBUTES.items():
        read = again.nodes[0].attributes[name]
        assert type(read) is type(value)
        np.testing.assert_array_equal(read, value)
    for name, value in GRAPH.constants.items():
        assert again.constants[name].dtype == value.dtype
        np.testing.assert_array_equal(again.constants[name], value)


def test_constants_may_be_operators_and_inputs():
    tensor = encode_numbers(1, np.array([1])) + encode_number(2, FLOAT) + encode_floats(4, np.array([2.5]))
    attribute = encode_bytes(1, "value") + encode_bytes(5, tensor) + encode_number(20, 4)
    node = encode_bytes(2, "c") + encode_bytes(4, "Constant") + encode_bytes(5, attribute)
    listed = encode_bytes(5, tensor + encode_bytes(8, "d")) + encode_bytes(11, encode_bytes(1, "d"))
    graph = read_graph(encode_bytes(7, encode_bytes(1, node) + listed) + encode_bytes(8, encode_number(2, 9)))
    assert graph.nodes == ()
    assert graph.inputs == ()
    assert {name: value.tolist() for name, value in graph.constants.items()} == {"c": [2.5], "d": [2.5]}


def test_attributes_without_a_type():
    attribute = encode_bytes(1, "ids") + encode_numbers(8, np.array([4, 5]))
    node = encode_bytes(4, "Op") + encode_bytes(5, attribute)
    graph = read_graph(encode_bytes(7, encode_bytes(1, node)) + encode_bytes(8, b""))
    assert graph.nodes[0].attributes["ids"].tolist() == [4, 5]


def tensor_of(*fields):
    model = encode_bytes(7, encode_bytes(5, b"".join(fields))) + encode_bytes(8, b"")
    return read_graph(model).constants[""]


@pytest.mark.parametrize(
    ("fields", "error", "message"),
    [
        ((encode_numbers(1, np.array([2**40, 2**40])), encode_number(2, FLOAT)), FormatError, "do not fit the shape"),
        ((encode_numbers(1, np.array([-1])), encode_number(2, FLOAT)), FormatError, "do not fit the shape"),
        ((encode_number(2, FLOAT), encode_bytes(9, b"abc")), FormatError, "ends within an entry"),
        ((encode_number(2, 10),), UnsupportedModelError, "entries of type 10"),
        ((encode_number(2, FLOAT), encode_number(14, 1)), UnsupportedModelError, "in another file"),
    ],
)
def test_damaged_tensors(fields, error, message):
    with pytest.raises(error, match=message):
        tensor_of(*fields)


def test_files_without_a_graph():
    with pytest.raises(FormatError, match="no graph"):
        read_graph(encode_number(1, 10))
    with pytest.raises(UnsupportedModelError, match="functions"):
        read_graph(encode_bytes(7, b"") + encode_bytes(8, b"") + encode_bytes(25, b""))
    assert Message(write_graph(GRAPH, "test", "1")).number(1) == 10
