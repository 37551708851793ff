"""Breadcrumb trees: if-else code that leaves the number of every node it comes to, so that it can be stopped anywhere.

D. Biebert et al., "Jump Like A Squirrel", arXiv:2603.01588 (2026), §V, keep the state of an anytime forest as an array
of node indices that a loop over tables advances, and name an if-else form as future work: leaving a tree and coming
back means to jump into the middle of its code. Here a step order is cut into *runs*, maximal stretches of steps in one
tree. A run is a function; as the order is fixed, it always begins at the same level of its tree, and a ``switch`` over
the nodes of that level is the jump. Inside a run nothing is looked up: a test, a branch, and one store that publishes
the node. An interrupt reads the stores; the stop flag is looked at between runs.
"""

from __future__ import annotations

import numpy as np

from scurry.export.lowered import Lowered


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
