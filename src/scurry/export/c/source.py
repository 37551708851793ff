"""C source: the header, tables and functions of a lowered model.

Trees are tables that a loop walks or, in the layout "breadcrumb", if-else code that records every node it reaches.
D. Biebert et al., "Jump Like A Squirrel", arXiv:2603.01588 (2026), §V, keep the state of an anytime forest as an array
of node indices that a loop over tables advances. They name an if-else form as future work, because to leave a tree and
come back means to jump into the middle of its code. Here a step order is cut into *runs*, maximal stretches of steps in
one tree. A run is a function. As the order is fixed, it always begins at the same level of its tree, and a ``switch``
over the nodes of that level is the jump. A run looks nothing up: it has a test, a branch, and one store that publishes
the node. An interrupt reads the stores; the stop flag is checked between runs.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from string import Template
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scurry.errors import InputError
from scurry.export.c import text as c_text
from scurry.export.c.sizes import count_work, estimate_time
from scurry.export.comparisons import CellTables, ExitTables, LeadTables, SentinelTables
from scurry.export.lowered import Compact, Lowered
from scurry.forest import ZERO, Forest
from scurry.version import read_version

_LINE_LENGTH = 112
_NO_WORD = re.compile("[^A-Z0-9]+", re.ASCII)
_MAX_WORD_LENGTH = 36  # C99 compilers tell names apart by 63 characters; the others are the model's own
_BYTES = {"uint8_t": 1, "int8_t": 1, "uint16_t": 2, "int16_t": 2, "uint32_t": 4, "int32_t": 4, "float": 4}
# Narrow types first. Signed 32 bits come before unsigned, because C would compare a signed sum with an unsigned number
# of the same width as if both were unsigned.
_RANGES = {
    "uint8_t": (0, 2**8 - 1),
    "int8_t": (-(2**7), 2**7 - 1),
    "uint16_t": (0, 2**16 - 1),
    "int16_t": (-(2**15), 2**15 - 1),
    "int32_t": (-(2**31), 2**31 - 1),
    "uint32_t": (0, 2**32 - 1),
}


class CSource:
    """A lowered model as C.

    Attributes
    ----------
    header, source : str
    table_bytes : int
        Bytes of the constant tables.
    """

    def __init__(self, lowered: Lowered, name: str, forest: Forest) -> None:
        self._lowered, self._tables, self._forest = lowered, Tables(), forest
        self._total: int | None = None
        columns = lowered.columns
        takes_draw, is_own = lowered.takes_draw, lowered.values.kind == "own"
        n_units = len(lowered.runs) if lowered.layout.if_else else len(lowered.order)
        self._words = {
            "name": name,
            "NAME": name.upper(),
            "index": f"uint{lowered.index_bits}_t",
            "index_bits": str(lowered.index_bits),
            "n_units": str(n_units),
            "unit": "run" if lowered.layout.if_else else "step",
            "tree_index": choose_type(lowered.n_trees - 1),
            "column_index": choose_type(len(columns.feature)),
            "prepare": "" if columns.is_integer else f"{name}_quantize(row, x); ",
            "row": "row" if columns.is_integer else "x",
            "answer": name_answer(forest),
            "answer_type": "uint16_t" if forest.is_classifier else "int32_t",
            "tree_argument": ", tree" if is_own else "",
            "tree_parameter": ", uint16_t tree" if is_own else "",
            "draw_used": ", draw" if takes_draw else "",
            "draw_parameter": ", uint16_t draw" if takes_draw else "",
            "draw_meaning": " draw is a random number that chooses one of the plan's policies." if takes_draw else "",
            "policy_index": "[state->policy]" if takes_draw else "[0]",
            "limit": str(lowered.values.limit),
        }
        self._add_model_tables()
        functions = self._write_anytime() if lowered.is_anytime else self._write_exits()
        inner = f"#define N_INNER {lowered.n_inner} /* nodes from here on are leaves */\n"
        parts = [f'#include "{name}.h"\n', inner, str(self._tables), "", self._write_quantize()]
        parts += [self._write_member(), *functions]
        self.header = self._write_header()
        self.source = "\n".join(part for part in parts if part)
        self.table_bytes = self._tables.n_bytes

    def _fill(self, text: str, **words: object) -> str:
        return Template(text).substitute(self._words | words)

    def _write_header(self) -> str:
        lowered, forest, columns = self._lowered, self._forest, self._lowered.columns
        usage, state, functions = (
            (c_text.ANYTIME_USAGE, c_text.ANYTIME_STATE, c_text.ANYTIME_FUNCTIONS)
            if lowered.is_anytime
            else (c_text.EXIT_USAGE, c_text.EXIT_STATE, c_text.EXIT_FUNCTIONS)
        )
        raw_meanings = {
            "int16_t": "a whole number",
            "uint32_t": "the bits of an IEEE 754 single precision number",
            "float": "a feature",
        }
        sums_meanings = {
            "margin": f"class 1 from {lowered.values.limit} on, else class 0, once all trees are evaluated",
            "value": "the value of all trees evaluated so far",
        }
        value = f"the value by the work done so far, times 2**{self._words['NAME']}_FRACTION_BITS"
        if forest.link != "identity":
            value = f"the score by the work done so far, times 2**{self._words['NAME']}_FRACTION_BITS. The model's "
            value += f"prediction is a function of it ({forest.link}), which is left to the caller"
        return self._fill(
            c_text.HEADER,
            usage=self._fill(usage),
            state=self._fill(state, **self._write_members()),
            functions=self._fill(functions),
            quantize="" if columns.is_integer else self._fill(c_text.QUANTIZE),
            digest=forest.digest,
            version=read_version(),
            max_tests=lowered.max_tests,
            max_cycles=self._write_cycles(),
            names=self._write_names(),
            n_features=lowered.n_features,
            n_columns=len(columns.feature),
            n_classes=forest.n_classes,
            n_sums=lowered.values.n_sums,
            n_trees=lowered.n_trees,
            constants=self._write_constants(),
            raw=columns.raw_type,
            raw_meaning=raw_meanings[columns.raw_type],
            input=columns.input_type,
            answer_meaning="the class by the work done so far, as a number from 0" if forest.is_classifier else value,
            sums_meaning=sums_meanings.get(lowered.values.kind, "the largest wins"),
        )

    def _write_cycles(self) -> str:
        """Return the most cycles that a row can take; README.md says under which conditions."""
        most, line = estimate_time(count_work(self._lowered)), "#define ${NAME}_MAX_CYCLES"
        text = f"{line} {most.m4} /* of a row, at most: on a Cortex-M4, without wait states; see README.md */\n"
        if not self._lowered.layout.float_thresholds:
            text += f"{line}_M0 {most.m0} /* the same on a Cortex-M0 */\n"
        return self._fill(text)

    def _write_constants(self) -> str:
        lowered, lines = self._lowered, []
        if lowered.is_anytime:
            lines.append("#define ${NAME}_N_STEPS $n_units\n")
        if not self._forest.is_classifier:
            lines.append(f"#define ${{NAME}}_FRACTION_BITS {lowered.values.fraction_bits}\n")
        return self._fill("".join(lines))

    def _write_names(self) -> str:
        """Return constants for classes and features by name; features without names have none."""
        forest, name = self._forest, self._words["NAME"]
        text = ""
        if forest.classes is not None:
            labels = forest.classes.tolist()
            members = zip(make_identifiers(labels), labels, strict=True)
            lines = [f"    {name}_CLASS_{word} = {k}, /* {escape_comment(v)} */" for k, (word, v) in enumerate(members)]
            text += "\n".join([f"enum {self._words['name']}_class {{", *lines, "};\n\n"])
        if forest.feature_names is not None:
            features = zip(make_identifiers(forest.feature_names), forest.feature_names, strict=True)
            lines = [
                f"#define {name}_FEATURE_{word} {j} /* {escape_comment(v)} */" for j, (word, v) in enumerate(features)
            ]
            text += "\n".join([*lines, "\n"])
        return text

    def _write_members(self) -> dict[str, str]:
        """Return the members of a state that depend on the stop rule: wide ones, then narrow ones."""
        lanes = more = ""
        match self._lowered.values.stop:
            case SentinelTables() as stop:
                lanes, more = f"    int32_t lanes[{stop.n_lanes}];\n", "    uint8_t sentinel; /* the next one */\n"
            case CellTables():
                more = "    uint16_t cell;\n"
            case LeadTables() as stop if stop.trees_per_round > 1:
                more = "    uint16_t round, round_begins; /* the next one, and at how many trees */\n"
            case ExitTables() if self._lowered.takes_draw:
                more = "    uint16_t policy;\n"
            case _:
                pass
        return {"lane_members": lanes, "more_members": more}

    def _write_quantize(self) -> str:
        columns = self._lowered.columns
        if columns.is_integer:
            return ""
        zero_test = ""
        if columns.zero_is_missing.any():
            zero_test = f" || (column_zero[c] && size <= 0x{int(np.float32(ZERO).view(np.uint32)):x}u)"
        case = ""
        if columns.is_category.any() and columns.is_quantised:
            floor = "size < 0x3f800000u ? 0 :" if columns.truncates else ""
            case = self._fill(c_text.CATEGORY_INTEGER, category_floor=floor)
        elif columns.is_category.any():
            case = self._fill(c_text.CATEGORY_FLOAT, category_floor="> -1.0f" if columns.truncates else ">= 0.0f")
        text = c_text.QUANTIZE_INTEGER if columns.is_quantised else c_text.QUANTIZE_FLOAT
        return self._fill(text, zero_test=zero_test, category_case=case)

    def _add_model_tables(self) -> None:
        """Add the columns, the nodes and their values."""
        lowered, columns, tables = self._lowered, self._lowered.columns, self._tables
        layout, codes = lowered.layout, lowered.codes
        if not columns.is_integer:
            tables.add_array("column_feature", columns.feature)
            tables.add_array("column_missing", columns.missing, None if columns.is_quantised else "float")
        for flag, flags in (("column_zero", columns.zero_is_missing), ("column_category", columns.is_category)):
            if flags.any():
                tables.add_array(flag, flags)
        if self._lowered.has_sets:
            tables.add_array("set_start", lowered.sets.start)
            tables.add_array("set_words", lowered.sets.words, "uint32_t")
        if columns.shift is not None and columns.offset is not None:
            tables.add_array("column_shift", columns.shift)
            tables.add_array("column_offset", columns.offset)
        if layout.is_compact:
            self._add_compact_tables(Compact.of(lowered))
            return
        if lowered.levels is not None:
            threshold_type = "float" if layout.float_thresholds else "int16_t"
            offset, column, threshold = lowered.levels
            fields = {"threshold": (threshold_type, threshold), "column": (choose_type(column), column)}
            tables.add_array("first_question", offset)
            tables.add_structs("questions", fields)
            tables.add_array("steps", lowered.order, self._words["tree_index"])
        else:
            tables.add_array("roots", lowered.root)
        if lowered.levels is not None or lowered.lanes is not None:
            tables.add_array("first_leaf", lowered.first_leaf)
        if lowered.levels is None and not layout.if_else:
            fields = {
                "threshold": ("float" if layout.float_thresholds else "int16_t", lowered.threshold),
                "left": (self._words["index"], lowered.left),
                "right": (self._words["index"], lowered.right),
                "column": (choose_type(lowered.column), lowered.column),
            }
            if layout.value_in_node and lowered.is_anytime:
                fields["value"] = ("uint8_t", codes[: lowered.n_inner, 0])
            tables.add_structs("nodes", fields)
            if not lowered.n_cells:
                tables.add_array("steps", lowered.order, self._words["tree_index"])
        # Only anytime models read inner nodes, and they may find those values in the nodes themselves.
        first = lowered.n_inner if layout.value_in_node or not lowered.is_anytime else 0
        value_type = f"uint{layout.value_bits}_t" if layout.value_bits < 32 else "int32_t"
        last = lowered.n_nodes - lowered.n_cells  # the router's leaves are worth nothing
        tables.add_array("values", codes[first:last] if codes.shape[1] > 1 else codes[first:last, 0], value_type)
        self._add_sum_tables()

    def _add_compact_tables(self, compact: Compact) -> None:
        """Add nodes that share thresholds, and values that leaves share."""
        lowered, tables = self._lowered, self._tables
        tables.add_array("roots", compact.root)
        tables.add_array("thresholds", compact.threshold, "int16_t")
        tables.add_array("first_threshold", compact.first_threshold)
        fields = {
            "left": (self._words["index"], compact.left),
            "right": (self._words["index"], compact.right),
            "column": ("uint8_t", lowered.column),
            "threshold": ("uint8_t", compact.threshold_id),
        }
        tables.add_structs("nodes", fields)
        tables.add_array("steps", lowered.order, self._words["tree_index"])
        values = compact.values if compact.values.shape[1] > 1 else compact.values[:, 0]
        tables.add_array("values", values, f"uint{lowered.layout.value_bits}_t")
        self._total = compact.total
        self._add_sum_tables()

    def _add_sum_tables(self) -> None:
        """Add which sum a tree adds to, and what sums are before the first tree."""
        lowered, tables = self._lowered, self._tables
        if lowered.values.kind == "own":
            tables.add_array("outputs", lowered.output)
        if lowered.values.start.any():
            tables.add_array("start", lowered.values.start)

    def _write_anytime(self) -> list[str]:
        if self._lowered.layout.if_else:
            walk, step = write_runs(self._lowered, self._words["name"]), "    runs[position](state, x);"
        else:
            walk, step = self._write_next() + "\n" + self._fill(c_text.MAKE_STEP), c_text.TABLE_STEP
        return [
            walk,
            *self._write_sums(),
            self._fill(c_text.ANYTIME_TABLE, make_step=step.replace("\n", "\n    ")),
            self._fill(c_text.ANYTIME_READ, start_sums=self._write_start("sums")),
        ]

    def _write_next(self) -> str:
        if self._lowered.layout.is_compact:
            return self._fill(c_text.NEXT_COMPACT)
        return self._fill(c_text.NEXT, member_test=self._fill(c_text.MEMBER_TEST) if self._lowered.has_sets else "")

    def _write_leaf(self) -> str:
        """Return the function that finds the leaf of a tree of levels."""
        over = "x[q->column] > q->threshold"
        if self._lowered.has_sets:
            column, n = "q->column", f"{self._words['NAME']}_N_COLUMNS"
            member = f"!is_member((int32_t)x[{column} - {n}], (int32_t)q->threshold)"
            over = f"({column} >= {n} ? {member} : {over})"
        return self._fill(c_text.LEAF_OF, is_over=over)

    def _write_member(self) -> str:
        """Return the function that looks for a category in a set, if a node does. Integers are never missing."""
        if not self._lowered.has_sets:
            return ""
        words = ("", "0") if self._lowered.columns.is_integer else ("; -2 is in every set", "category == -2")
        return self._fill(c_text.MEMBER, every_set=words[0], if_negative=words[1])

    def _write_exits(self) -> list[str]:
        lowered, stop = self._lowered, self._lowered.values.stop
        test, draw, start, lanes = self._add_stop_test(), "", "", ""
        next_tree, guess = "steps[state->trees]", "answer_of(state->sums)"
        if lowered.values.kind in ("margin", "value") and not lowered.n_cells:
            self._tables.add_array("rest", lowered.expected_rest)
            guess = "state->sums[0] + rest[state->trees]"
            guess += f" >= {lowered.values.limit}" if lowered.values.kind == "margin" else ""
        if lowered.takes_draw and stop is not None:
            below = f"state->policy < {stop.n_policies - 1}"
            draw = "    state->policy = 0;\n"
            draw += f"    while ({below} && draw >= policy_bound[state->policy]) ++state->policy;\n"
        if isinstance(stop, SentinelTables):
            start = f"    {{ uint16_t k; for (k = 0; k < {stop.n_lanes}; ++k) state->lanes[k] = 0; }}\n"
            start += "    state->sentinel = 0;\n"
            lanes = "        add_lanes(state->lanes, at, tree);\n"
        if isinstance(stop, LeadTables) and stop.trees_per_round > 1:
            start = "    state->round = 0;\n    state->round_begins = 0;\n"
        if isinstance(stop, CellTables):
            start, next_tree = "    state->cell = 0;\n", "cell_order[state->cell][state->trees]"
            bounds = " + ".join(f"{side}[state->cell][state->trees]" for side in ("lower", "upper"))
            guess = f"2 * (int64_t)state->sums[0] > (int64_t){bounds}"
        run = self._fill(
            c_text.EXIT_RUN,
            test=test,
            draw_policy=draw,
            start_sums=self._write_start("state->sums"),
            start_more=start,
            next_tree=next_tree,
            find_leaf=c_text.WALK if lowered.levels is None else "        const uint32_t at = leaf_of(tree, x);\n",
            add_lanes=lanes,
            guess=guess,
        )
        more = [self._fill(c_text.ADD_LANES, n_lanes=stop.n_lanes)] if isinstance(stop, SentinelTables) else []
        walk = self._write_next() if lowered.levels is None else self._write_leaf()
        return [walk, *self._write_sums(), *more, run]

    def _add_stop_test(self) -> str:
        """Add the tables of the stop rule; return the test a row makes before each tree."""
        lowered, tables = self._lowered, self._tables
        # No sum reaches `largest`. Clipping thresholds there changes no comparison and gives them narrow types.
        of_tree = np.ones(len(lowered.root), np.int64)
        np.maximum.at(of_tree, lowered.tree, np.abs(lowered.codes).max(axis=1))
        largest = int(of_tree.sum()) + int(np.abs(lowered.values.start).max()) + 1
        match lowered.values.stop:
            case ExitTables(rule=rule) if rule.has_pieces:
                tables.add_array("piece_offset", rule.piece_offset)
                tables.add_array("piece_edge", np.clip(rule.piece_edges, -largest, largest))
                tables.add_array("piece_side", rule.piece_sides)
                return self._fill(c_text.PIECE_TEST)
            case ExitTables(rule=rule) as stop:
                tables.add_array("lower", np.clip(rule.lower, -largest, largest))
                tables.add_array("upper", np.clip(rule.upper, -largest, largest))
                if stop.n_policies > 1:
                    tables.add_array("policy_bound", stop.policy_bounds, "uint32_t")
                return self._fill(c_text.THRESHOLD_TEST)
            case LeadTables() as stop:
                if stop.need:
                    tables.add_array("need_offset", np.cumsum([0, *map(len, stop.need)])[:-1])
                    tables.add_array("need", np.clip(np.concatenate(stop.need), 0, largest))
                    ahead = "state->sums[first] >= need[need_offset[round] + (uint32_t)state->sums[second]]"
                else:
                    tables.add_array("lead", np.clip(stop.lead, -largest, largest))
                    ahead = "state->sums[first] - state->sums[second] >= lead[round]"
                words = {"if_round_begins": "", "round": "state->trees", "next_round": ""}
                if (n := stop.trees_per_round) > 1:
                    words = {
                        "if_round_begins": "if (state->trees == state->round_begins) ",
                        "round": "state->round++",
                        "next_round": f"        state->round_begins = (uint16_t)(state->round_begins + {n});\n",
                    }
                return self._fill(c_text.LEAD_TEST, is_ahead=ahead, **words)
            case SentinelTables() as stop:
                return self._add_sentinels(stop)
            case CellTables() as stop:
                tables.add_array("cell_order", stop.order)
                tables.add_array("lower", np.clip(stop.lower, -largest, largest))
                tables.add_array("upper", np.clip(stop.upper, -largest, largest))
                return self._fill(c_text.CELL_TEST, first_cell=lowered.n_nodes - lowered.n_cells)
            case None:
                return ""

    def _add_sentinels(self, stop: SentinelTables) -> str:
        """Add the lanes and the tests at sentinels; return the test a row makes before each tree."""
        lowered, tables = self._lowered, self._tables
        # A tree has the lanes of the sentinels behind it: the last ones, as lanes are sorted by their last sentinel.
        place = np.argsort(lowered.order)
        first_lane = np.searchsorted(stop.lane_ends, place, side="right")
        is_leaf = np.arange(lowered.n_nodes) >= lowered.n_inner
        rows = [stop.codes[is_leaf & (lowered.tree == t), first_lane[t] :] for t in range(lowered.n_trees)]
        codes = np.concatenate([row.ravel() for row in rows])
        tables.add_array("first_lane", first_lane)
        tables.add_array("lane_offset", np.cumsum([0, *(row.size for row in rows)])[:-1])
        tables.add_array("lane_codes", codes)
        tables.add_array("sentinel_trees", stop.trees)
        tables.add_array("sentinel_lane", stop.lane)
        tables.add_array("limit", stop.limit)
        find, interval, spread = "", "j", "0"
        if len(stop.edge):
            tables.add_array("edge_offset", stop.edge_offset)
            tables.add_array("edge", stop.edge)
            find, interval = c_text.FIND_INTERVAL, "i + j"
        if stop.spread_lane >= 0:
            spread = f"state->lanes[{stop.spread_lane}]"
        if stop.square.any():
            tables.add_array("square", stop.square, "uint32_t")
            tables.add_array("centre", stop.centre)
            find += self._fill(c_text.SQUARE_OF_DISTANCE, square_shift=stop.square_shift)
            spread += " - square_part"
        if len(stop.slope):
            tables.add_array("estimate_base", stop.base)
            tables.add_array("estimate_slope", stop.slope, "int32_t")
            product = f"(int64_t)estimate_slope[j] * sum / ((int64_t)1 << {stop.slope_shift})"
            estimate = f"(int32_t)(estimate_base[j] + {product})"
        else:
            tables.add_array("cut", stop.cut)
            estimate = "sum >= cut[j]"
        return self._fill(
            c_text.SENTINEL_TEST,
            n_sentinels=len(stop.trees),
            find_interval=find,
            spread=spread,
            interval=interval,
            estimate=estimate,
        )

    def _write_sums(self) -> list[str]:
        """Return the function that adds a node's value to the sums, and the one that reads a label from them."""
        lowered = self._lowered
        at = "at" if lowered.is_anytime and not lowered.layout.value_in_node else "at - N_INNER"
        value = f"values[{at}]"
        if lowered.layout.value_in_node and lowered.is_anytime:
            value = f"(at < N_INNER ? nodes[at].value : {value})"
        match lowered.values.kind:
            case "margin" | "value":
                body = f"    sums[0] += {value};"
            case "own":
                body = f"    sums[outputs[tree]] += {value};"
            case "vote":
                body = f"    ++sums[{value}];"
            case _ if self._total is not None:
                body = self._fill(c_text.ADD_BUT_LAST, value=value, total=self._total)
            case _:
                body = self._fill(
                    "    uint16_t k;\n    for (k = 0; k < ${NAME}_N_SUMS; ++k) sums[k] += $value[k];", value=value
                )
        answers = {"margin": c_text.ANSWER_MARGIN, "value": c_text.ANSWER_VALUE}
        answer = answers.get(lowered.values.kind, c_text.ANSWER_LARGEST)
        return [self._fill(c_text.ADD, add_body=body), self._fill(answer)]

    def _write_start(self, sums: str) -> str:
        """Return the statement that sets `sums` to what they are before the first tree."""
        value = "start[k]" if self._lowered.values.start.any() else "0"
        if self._lowered.values.n_sums == 1:
            return f"    {sums}[0] = {value.replace('k', '0')};"
        head = "{ uint16_t k; for (k = 0; k < ${NAME}_N_SUMS; ++k) "
        return self._fill(f"    {head}{sums}[k] = {value}; }}")


def write_runs(lowered: Lowered, name: str) -> str:
    """Return the if-else code of an anytime model: one function per run, and the table of them."""
    parts = [
        f"/* Publishes a node: one store, which an interrupt sees at once. */\n#ifndef {name.upper()}_AT\n"
        f"#define {name.upper()}_AT(state, tree, at) (*(volatile uint16_t *)&(state)->node[tree] = (at))\n#endif\n"
    ]
    runs, tree_of, level_of = lowered.runs, lowered.tree[: lowered.n_inner], lowered.level[: lowered.n_inner]
    for number, (tree, first, last) in enumerate(runs):
        entries = np.flatnonzero((tree_of == tree) & (level_of == first))
        codes = {int(at): _write_test(lowered, f"{name.upper()}_AT(state, {tree}, ", int(at), last) for at in entries}
        if lowered.root[tree] in codes:
            body = codes[int(lowered.root[tree])]
        else:
            cases = [f"case {at}:\n{code}\nbreak;" for at, code in codes.items()]
            # A row that reached a leaf above this level has no case, and stays.
            body = "\n".join([f"switch (state->node[{tree}]) {{", *cases, "default: break;", "}"])
        parts.append(f"static void run_{number}({name}_state *state, const {name}_input *x)\n{{\n{body}\n}}\n")
    table = ", ".join(f"run_{number}" for number in range(len(runs)))
    parts.append(f"static void (*const runs[])({name}_state *, const {name}_input *) = {{ {table} }};\n")
    return "\n".join(parts)


def _write_test(lowered: Lowered, store: str, at: int, last_level: int) -> str:
    """Return the code of the test at an inner node, and of all tests below it down to `last_level`."""
    branches = []
    for child in (int(lowered.right[at]), int(lowered.left[at])):
        is_end = child >= lowered.n_inner or lowered.level[child] == last_level
        below = "" if is_end else "\n" + _write_test(lowered, store, child, last_level)
        branches.append(f"{store}{child});{below}")
    over, under = branches
    column, threshold, n_columns = int(lowered.column[at]), int(lowered.threshold[at]), len(lowered.columns.feature)
    test = f"x[{column}] > {threshold}"
    if column >= n_columns:
        test = f"!is_member(x[{column - n_columns}], {threshold})"
    return f"if ({test}) {{\n{over}\n}} else {{\n{under}\n}}"


class Tables:
    """The constant arrays of one source file, as C text.

    Attributes
    ----------
    n_bytes : int
        Bytes of all arrays.
    """

    def __init__(self) -> None:
        self._declarations: list[str] = []
        self.n_bytes = 0

    def add_array(self, name: str, values: NDArray[Any], ctype: str | None = None) -> None:
        """Add an array of one or two dimensions, by default in the narrowest type that holds it."""
        # C has no empty arrays: one that would be empty holds a single 0.
        values = np.asarray(values) if np.size(values) else np.zeros(1, np.int64)
        ctype = ctype or choose_type(values)
        sizes = "".join(f"[{n}]" for n in values.shape)
        rows = [[format_number(v, ctype) for v in row] for row in np.atleast_2d(values)]
        items = [f"{{ {', '.join(row)} }}" for row in rows] if values.ndim == 2 else rows[0]
        self._add(f"static const {ctype} {name}{sizes}", items, values.size * _BYTES[ctype])

    def add_structs(self, name: str, fields: dict[str, tuple[str, NDArray[Any]]]) -> None:
        """Add an array of structs. `fields` have types and values; wide ones come first, so that none is padded."""
        members = "".join(f" {ctype} {field};" for field, (ctype, _) in fields.items())
        columns = [[format_number(v, ctype) for v in values] for ctype, values in fields.values()]
        items = [f"{{{','.join(row)}}}" for row in zip(*columns, strict=True)]
        sizes = [_BYTES[ctype] for ctype, _ in fields.values()]
        padded = -(-sum(sizes) // max(sizes)) * max(sizes)
        self._declarations.append(f"struct {name[:-1]} {{{members} }};")
        self._add(f"static const struct {name[:-1]} {name}[{len(items)}]", items, padded * len(items))

    def _add(self, declaration: str, items: Iterable[str], n_bytes: int) -> None:
        lines, line = [], "   "
        for item in items:
            if len(line) + len(item) > _LINE_LENGTH:
                lines.append(line)
                line = "   "
            line += f" {item},"
        self._declarations.append("\n".join([f"{declaration} = {{", *lines, line, "};"]))
        self.n_bytes += n_bytes

    def __str__(self) -> str:
        return "\n".join(self._declarations)


def choose_type(values: Any) -> str:
    """Return the narrowest C type that holds all of `values`; raise if none does."""
    low, high = int(np.min(values, initial=0)), int(np.max(values, initial=0))
    for ctype, (smallest, largest) in _RANGES.items():
        if smallest <= low and high <= largest:
            return ctype
    raise InputError(f"numbers from {low} to {high} do not fit the 32 bits of the C export; use a smaller model")


def format_number(value: Any, ctype: str) -> str:
    """Return a finite number as a C constant."""
    if ctype != "float":
        number = int(value)
        # C reads -2147483648 as the negative of a number that 32 bits do not hold.
        return "(-2147483647 - 1)" if number == -(2**31) else str(number)
    text = f"{np.float32(value):.9g}"  # nine digits are enough to read back the same float
    return f"{text}f" if "." in text or "e" in text else f"{text}.0f"


def name_answer(forest: Forest) -> str:
    """Return what the function is called that answers: "score" where the prediction is a function of the score."""
    return "predict" if forest.is_classifier or forest.link == "identity" else "score"


def make_identifiers(names: Sequence[object]) -> list[str]:
    """Return a word of C for each name, each a different one.

    Examples
    --------
    >>> make_identifiers(["sits still", "walks", "walks!", "läuft", 7])
    ['SITS_STILL', 'WALKS', 'WALKS_2', 'L_UFT', '7']
    """
    words = [
        _NO_WORD.sub("_", str(name).upper()).strip("_")[:_MAX_WORD_LENGTH] or str(k) for k, name in enumerate(names)
    ]
    count = Counter(words)
    made: dict[str, None] = {}
    for k, word in enumerate(words):
        unique = word if word not in made else f"{word}_{k}"
        while unique in made or (unique != word and unique in count):
            unique += "_"
        made[unique] = None
    return list(made)


def escape_comment(value: object) -> str:
    """Return any text in a form that stays inside a C comment and on its line."""
    # "?" could begin a trigraph, which C99 compilers replace even in comments.
    return json.dumps(str(value)).replace("/", "\\u002f").replace("?", "\\u003f").replace("*", "\\u002a")
