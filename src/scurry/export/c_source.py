"""The C source of a lowered model: header, tables and functions."""

from __future__ import annotations

from collections.abc import Sequence
from string import Template

import numpy as np

from scurry.export import c_text
from scurry.export.c_breadcrumb import breadcrumb_functions
from scurry.export.c_tables import Tables, comment_text, integer_type
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
