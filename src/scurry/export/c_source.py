"""The C source of a lowered model: header, tables and functions.

Tables: constant arrays as C, each in the narrowest type that holds it, and how many bytes they take.

Breadcrumb trees: if-else code that leaves the number of every node it comes to, so that it can be stopped anywhere.

D. Biebert et al., "Jump Like A Squirrel", arXiv:2603.01588 (2026), §V, keep the state of an anytime forest as an array
of node indices that a loop over tables advances, and name an if-else form as future work: leaving a tree and coming
back means to jump into the middle of its code. Here a step order is cut into *runs*, maximal stretches of steps in one
tree. A run is a function; as the order is fixed, it always begins at the same level of its tree, and a ``switch`` over
the nodes of that level is the jump. Inside a run nothing is looked up: a test, a branch, and one store that publishes
the node. An interrupt reads the stores; the stop flag is looked at between runs.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from string import Template
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scurry.errors import InputError
from scurry.export import c_text
from scurry.export.lowered import Lowered
from scurry.export.replay import policy_bounds
from scurry.export.values import ExitTables, LeadTables


class CSource:
    """A lowered model as C.

    Attributes
    ----------
    header, source : str
    table_bytes : int
        What the constant tables take.
    """

    def __init__(self, lowered: Lowered, name: str, classes: Sequence[object]) -> None:
        self.lowered, self.tables = lowered, Tables()
        self._words = self._names(name)
        self._add_tables()
        body = [self._quantize(), *self._functions()]
        self.header = self._header(classes)
        inner = f"#define N_INNER {lowered.n_inner} /* nodes from here on are leaves */\n"
        self.source = "\n".join([f'#include "{name}.h"\n', inner, str(self.tables), "", *body])
        self.table_bytes = self.tables.n_bytes

    def _fill(self, text: str, **words: str) -> str:
        return Template(text).substitute(self._words | words)

    def _names(self, name: str) -> dict[str, str]:
        lowered = self.lowered
        policies = isinstance(lowered.stop, ExitTables) and len(lowered.stop.weights) > 1
        own = lowered.values.kind == "own"
        n_units = len(lowered.runs) if lowered.layout.if_else else len(lowered.order)
        return {
            "name": name,
            "NAME": name.upper(),
            "index": f"uint{lowered.index_bits}_t",
            "index_bits": str(lowered.index_bits),
            "n_units": str(n_units),
            "unit": "run" if lowered.layout.if_else else "step",
            "tree_index": integer_type(lowered.n_trees - 1),
            "column_index": integer_type(len(lowered.columns.feature)),
            "tree_argument": ", tree" if own else "",
            "tree_parameter": ", uint16_t tree" if own else "",
            "draw_used": ", draw" if policies else "",
            "draw_parameter": ", uint16_t draw" if policies else "",
            "draw_meaning": " draw is a random number: the plan mixes policies, and it chooses one."
            if policies
            else "",
            "policy_member": "    uint16_t policy;\n" if policies else "",
            "policy_index": "[state->policy]" if policies else "[0]",
            "limit": str(lowered.values.limit),
        }

    def _header(self, classes: Sequence[object]) -> str:
        lowered, quantised = self.lowered, self.lowered.columns.is_quantised
        usage, state, functions = (
            (c_text.ANYTIME_USAGE, c_text.ANYTIME_STATE, c_text.ANYTIME_FUNCTIONS)
            if lowered.is_anytime
            else (c_text.EXIT_USAGE, c_text.EXIT_STATE, c_text.EXIT_FUNCTIONS)
        )
        margin = lowered.values.kind == "margin"
        counts = f"#define {self._words['NAME']}_N_STEPS {self._words['n_units']}\n" if lowered.is_anytime else ""
        return Template(c_text.HEADER).substitute(
            self._words,
            usage=self._fill(usage),
            state=self._fill(state),
            functions=self._fill(functions),
            classes="\n".join(f" * class {k}: {comment_text(label)}" for k, label in enumerate(classes)),
            n_features=lowered.n_features,
            n_columns=len(lowered.columns.feature),
            n_classes=len(classes),
            n_sums=lowered.values.n_sums,
            n_trees=lowered.n_trees,
            counts=counts,
            raw="uint32_t" if quantised else "float",
            raw_meaning="the bits of an IEEE 754 single precision number" if quantised else "a feature",
            input="int16_t" if quantised else "float",
            sums_meaning=f"class 1 from {lowered.values.limit} on, else class 0" if margin else "the largest wins",
        )

    def _add_tables(self) -> None:
        lowered, columns, tables = self.lowered, self.lowered.columns, self.tables
        tables.array("column_feature", columns.feature)
        tables.array("column_missing", columns.missing, None if columns.is_quantised else "float")
        if columns.shift is not None and columns.offset is not None:
            tables.array("column_shift", columns.shift)
            tables.array("column_offset", columns.offset)
        tables.array("roots", lowered.root)
        if not lowered.layout.if_else:
            self._add_node_table()
            tables.array("steps", lowered.order, self._words["tree_index"])
        value_type = f"uint{lowered.layout.value_bits}_t" if lowered.layout.value_bits < 32 else "int32_t"
        first = lowered.n_inner if lowered.layout.value_in_node or not lowered.is_anytime else 0
        tables.array(
            "values", lowered.codes[first:] if lowered.codes.shape[1] > 1 else lowered.codes[first:, 0], value_type
        )
        if lowered.values.kind == "own":
            tables.array("outputs", lowered.output)
        if lowered.values.start.any():
            tables.array("start", lowered.values.start)
        self._add_stop_tables()

    def _add_node_table(self) -> None:
        lowered = self.lowered
        threshold_type = "float" if lowered.layout.float_thresholds else "int16_t"
        fields = {
            "threshold": (threshold_type, lowered.threshold),
            "left": (self._words["index"], lowered.left),
            "right": (self._words["index"], lowered.right),
            "column": (integer_type(lowered.column), lowered.column),
        }
        if lowered.layout.value_in_node and lowered.is_anytime:
            fields["value"] = ("uint8_t", lowered.codes[: lowered.n_inner, 0])
        self.tables.structs("nodes", fields)

    def _add_stop_tables(self) -> None:
        lowered, tables = self.lowered, self.tables
        of_tree = np.ones(lowered.n_trees, np.int64)
        np.maximum.at(of_tree, lowered.tree, np.abs(lowered.codes).max(axis=1))
        largest = int(of_tree.sum()) + int(np.abs(lowered.values.start).max()) + 1
        match lowered.stop:
            case ExitTables(pieces=[]) as stop:
                tables.array("lower", np.clip(stop.lower, -largest, largest))
                tables.array("upper", np.clip(stop.upper, -largest, largest))
                if len(stop.weights) > 1:
                    tables.array("policy_bound", policy_bounds(stop), "uint32_t")
            case ExitTables() as stop:
                edges, sides = zip(*stop.pieces, strict=True)
                tables.array("piece_offset", np.cumsum([0, *map(len, edges)]))
                tables.array("piece_edge", np.clip(np.concatenate(edges), -largest, largest))
                tables.array("piece_side", np.concatenate(sides))
            case LeadTables(need=[]) as stop:
                tables.array("lead", np.clip(stop.lead, -largest, largest))
            case LeadTables() as stop:
                tables.array("need_offset", np.cumsum([0, *map(len, stop.need)])[:-1])
                tables.array("need", np.clip(np.concatenate(stop.need), 0, largest))

    def _quantize(self) -> str:
        if self.lowered.columns.is_quantised:
            return self._fill(c_text.QUANTIZE_INTEGER)
        return self._fill(c_text.QUANTIZE_FLOAT)

    def _functions(self) -> list[str]:
        lowered = self.lowered
        at = "at" if lowered.is_anytime and not lowered.layout.value_in_node else "at - N_INNER"
        value = f"values[{at}]"
        if lowered.layout.value_in_node and lowered.is_anytime:
            value = f"(at < N_INNER ? nodes[at].value : {value})"
        match lowered.values.kind:
            case "margin":
                add = f"    sums[0] += {value};"
            case "own":
                add = f"    sums[outputs[tree]] += {value};"
            case "vote":
                add = f"    ++sums[{value}];"
            case _:
                add = self._fill(
                    "    uint16_t k;\n    for (k = 0; k < ${NAME}_N_SUMS; ++k) sums[k] += $value[k];", value=value
                )
        label = c_text.LABEL_MARGIN if lowered.values.kind == "margin" else c_text.LABEL_LARGEST
        shared = [self._fill(c_text.ADD, add_body=add), self._fill(label)]
        if not lowered.is_anytime:
            return [self._fill(c_text.NEXT), *shared, self._exit_run()]
        read = self._fill(c_text.ANYTIME_READ, start_sums=self._start("sums"))
        if lowered.layout.if_else:
            walk = breadcrumb_functions(lowered, self._words["name"])
            step = "    runs[position](state, x);"
        else:
            walk, step = self._fill(c_text.NEXT + "\n" + c_text.MAKE_STEP), c_text.TABLE_STEP
        return [walk, *shared, self._fill(c_text.ANYTIME_TABLE, make_step=step.replace("\n", "\n    ")), read]

    def _start(self, sums: str) -> str:
        value = "start[k]" if self.lowered.values.start.any() else "0"
        if self.lowered.values.n_sums == 1:
            return f"    {sums}[0] = {value.replace('k', '0')};"
        head = "{ uint16_t k; for (k = 0; k < ${NAME}_N_SUMS; ++k) "
        return self._fill(f"    {head}{sums}[k] = {value}; }}")

    def _exit_run(self) -> str:
        match self.lowered.stop:
            case ExitTables(pieces=[]):
                test = c_text.THRESHOLD_TEST
            case ExitTables():
                test = c_text.PIECE_TEST
            case LeadTables() as stop:
                ahead = (
                    "state->sums[first] >= need[need_offset[round] + (uint32_t)state->sums[second]]"
                    if stop.need
                    else "state->sums[first] - state->sums[second] >= lead[round]"
                )
                test = Template(c_text.LEAD_TEST).safe_substitute(per_round=stop.trees_per_round, is_ahead=ahead)
            case None:
                test = ""
        draw = ""
        if self._words["draw_parameter"]:
            n_bounds = len(policy_bounds(self.lowered.stop)) if isinstance(self.lowered.stop, ExitTables) else 0
            draw = (
                "    state->policy = 0;\n"
                f"    while (state->policy < {n_bounds} && draw >= policy_bound[state->policy]) ++state->policy;\n"
            )
        return self._fill(
            c_text.EXIT_RUN,
            test=self._fill(test),
            every_declaration="    uint8_t every_tree = 0;\n" if "every_tree" in test else "",
            draw_policy=draw,
            start_sums=self._start("state->sums"),
        )


_BYTES = {"uint8_t": 1, "int8_t": 1, "uint16_t": 2, "int16_t": 2, "uint32_t": 4, "int32_t": 4, "float": 4}
_LINE = 112
# Narrow types first, then signed 32 bits: what is compared with a signed sum must not be unsigned and as wide.
_RANGES = {
    "uint8_t": (0, 2**8 - 1),
    "int8_t": (-(2**7), 2**7 - 1),
    "uint16_t": (0, 2**16 - 1),
    "int16_t": (-(2**15), 2**15 - 1),
    "int32_t": (-(2**31), 2**31 - 1),
    "uint32_t": (0, 2**32 - 1),
}


def integer_type(*values: Any) -> str:
    """The narrowest C type that holds all of `values`; raises rather than wrap."""
    low = min(int(np.min(v, initial=0)) for v in values)
    high = max(int(np.max(v, initial=0)) for v in values)
    for ctype, (least, most) in _RANGES.items():
        if least <= low and high <= most:
            return ctype
    raise InputError(f"numbers from {low} to {high} do not fit the 32 bits the C export has; use a smaller model")


def float_literal(value: float) -> str:
    """A finite float32 as C; nine digits bring back the same number."""
    text = f"{np.float32(value):.9g}"
    return f"{text}f" if "." in text or "e" in text else f"{text}.0f"


def comment_text(value: object) -> str:
    """Any text such that it stays inside a C comment and on its line."""
    return json.dumps(str(value)).replace("/", "\\u002f").replace("?", "\\u003f").replace("*", "\\u002a")


class Tables:
    """The constant arrays of one source file."""

    def __init__(self) -> None:
        self._declarations: list[str] = []
        self.n_bytes = 0

    def array(self, name: str, values: NDArray[Any], ctype: str | None = None) -> None:
        """Add an array of one or two dimensions; an empty one has a single 0, as C has none that are empty."""
        values = np.asarray(values) if np.size(values) else np.zeros(1, np.int64)
        ctype = ctype or integer_type(values)
        literal = float_literal if ctype == "float" else _integer_literal
        sizes = "".join(f"[{n}]" for n in values.shape)
        rows = [[literal(v) for v in row] for row in np.atleast_2d(values)]
        items = [f"{{ {', '.join(row)} }}" for row in rows] if values.ndim == 2 else rows[0]
        self._add(f"static const {ctype} {name}{sizes}", items, values.size * _BYTES[ctype])

    def structs(self, name: str, fields: dict[str, tuple[str, NDArray[Any]]]) -> None:
        """Add an array of structs; `fields` (wide ones first, so that none is padded inside) have types and values."""
        members = "".join(f" {ctype} {field};" for field, (ctype, _) in fields.items())
        columns = [
            [float_literal(v) if ctype == "float" else _integer_literal(v) for v in values]
            for ctype, values in fields.values()
        ]
        items = [f"{{{','.join(row)}}}" for row in zip(*columns, strict=True)]
        sizes = [_BYTES[ctype] for ctype, _ in fields.values()]
        padded = -(-sum(sizes) // max(sizes)) * max(sizes)
        self._declarations.append(f"struct {name[:-1]} {{{members} }};")
        self._add(f"static const struct {name[:-1]} {name}[{len(items)}]", items, padded * len(items))

    def _add(self, declaration: str, items: Iterable[str], n_bytes: int) -> None:
        lines, line = [], "   "
        for item in items:
            if len(line) + len(item) > _LINE:
                lines.append(line)
                line = "   "
            line += f" {item},"
        self._declarations.append("\n".join([f"{declaration} = {{", *lines, line, "};"]))
        self.n_bytes += n_bytes

    def __str__(self) -> str:
        return "\n".join(self._declarations)


def _integer_literal(value: Any) -> str:
    number = int(value)
    return "(-2147483647 - 1)" if number == -(2**31) else str(number)


def breadcrumb_functions(lowered: Lowered, name: str) -> str:
    """One function per run, and the table of them."""
    runs = lowered.runs
    functions = [
        f"/* Publishes a node: one store, which an interrupt sees at once. */\n#ifndef {name.upper()}_AT\n"
        f"#define {name.upper()}_AT(state, tree, at) (*(volatile uint16_t *)&(state)->node[tree] = (at))\n#endif\n"
    ]
    for number, (tree, first, last) in enumerate(runs):
        inner = slice(lowered.n_inner)
        entries = np.flatnonzero((lowered.tree[inner] == tree) & (lowered.level[inner] == first))
        writer = _RunWriter(lowered, name, tree, last)
        functions.append(
            f"static void run_{number}({name}_state *state, const {name}_input *x)\n{{\n{writer.body(entries)}\n}}\n"
        )
    table = ", ".join(f"run_{number}" for number in range(len(runs)))
    functions.append(f"static void (*const runs[])({name}_state *, const {name}_input *) = {{ {table} }};\n")
    return "\n".join(functions)


class _RunWriter:
    """The code of one run: from given nodes of a tree down to a level."""

    def __init__(self, lowered: Lowered, name: str, tree: int, last_level: int) -> None:
        self.lowered, self.tree, self.last_level = lowered, tree, last_level
        self.store = f"{name.upper()}_AT(state, {tree}, "

    def body(self, entries: np.ndarray[tuple[int], np.dtype[np.int64]]) -> str:
        if len(entries) == 1 and entries[0] == self.lowered.root[self.tree]:
            return self._test(int(entries[0]))
        cases = [f"case {at}:\n{self._test(int(at))}\nbreak;" for at in entries]
        return "\n".join([f"switch (state->node[{self.tree}]) {{", *cases, "default: break;", "}"])

    def _test(self, at: int) -> str:
        lowered = self.lowered
        over, under = self._arrive(int(lowered.right[at])), self._arrive(int(lowered.left[at]))
        return f"if (x[{lowered.column[at]}] > {lowered.threshold[at]}) {{\n{over}\n}} else {{\n{under}\n}}"

    def _arrive(self, at: int) -> str:
        store = f"{self.store}{at});"
        if at >= self.lowered.n_inner or self.lowered.level[at] == self.last_level:
            return store
        return f"{store}\n{self._test(at)}"
