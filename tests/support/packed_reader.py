"""A reader of packed forests in plain Python, written from docs/format.md: slow, and without scurry's own code."""

import struct

import numpy as np


def numbers(data: np.ndarray, n: int, width: int) -> list[int]:
    """The bits of a list of numbers, the lowest first."""
    whole = int.from_bytes(data.tobytes(), "little")
    assert whole >> (n * width) == 0
    assert len(data) == (n * width + 7) // 8
    return [(whole >> (i * width)) & ((1 << width) - 1) for i in range(n)]


def bits(n_rows: int) -> int:
    return max(1, (n_rows - 1).bit_length())


def thresholds(arrays: dict[str, np.ndarray]) -> list[float]:
    counts, found, at = arrays["feature_splits"].tolist(), [], 0
    whole = int.from_bytes(arrays["threshold_delta"].tobytes(), "little")
    for count, first in zip(counts, arrays["first_threshold"].tolist(), strict=True):
        (raw,) = struct.unpack("<Q", struct.pack("<d", first))
        key = raw ^ (2**64 - 1) if raw >> 63 else raw | 2**63
        for _ in range(count):
            block = len(found) // 32
            shift, width = int(arrays["threshold_shift"][block]), int(arrays["threshold_width"][block])
            key = ((key >> shift) + ((whole >> at) & ((1 << width) - 1))) << shift
            at += width
            raw = key ^ 2**63 if key >> 63 else key ^ (2**64 - 1)
            found.append(struct.unpack("<d", struct.pack("<Q", raw))[0])
    assert whole >> at == 0
    return found


def column(about: dict, arrays: dict, kind: str, name: str, n: int) -> list:
    """What all splits or leaves have in common, or the array of what each has."""
    common = about["at_splits" if kind == "split" else "at_leaves"]
    if name in common:
        return [common[name]] * n
    stored = arrays[f"{kind}_{name}"]
    return [bool(bit) for bit in numbers(stored, n, 1)] if name == "default_left" else stored.tolist()


def read(header: dict, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The arrays of version 1 that a packed forest stands for."""
    about, sizes = header["packed"], arrays["tree_nodes"].tolist()
    n_nodes, n_trees = sum(sizes), len(sizes)
    n_inner = (n_nodes - n_trees) // 2
    n_leaves = n_inner + n_trees
    table, n_splits = arrays["leaf_table"].astype(np.float64), int(arrays["feature_splits"].sum())
    is_split = numbers(arrays["topology"], n_nodes, 1)
    split_rows = numbers(arrays["split_id"], n_inner, bits(n_splits))
    leaf_rows = numbers(arrays["leaf_id"], n_leaves, bits(len(table))) if "leaf_id" in arrays else list(range(n_leaves))
    splits = {
        name: column(about, arrays, "split", name, n_splits) for name in ("default_left", "missing", "category_set")
    }
    splits["feature"] = np.repeat(arrays["feature_used"], arrays["feature_splits"]).tolist()
    splits["threshold"] = thresholds(arrays)
    leaves = {name: column(about, arrays, "leaf", name, n_leaves) for name in splits}
    out = {name: [None] * n_nodes for name in (*splits, "left", "right")}
    level, of_inner, of_leaf, start = [], [], [], 0
    for size in sizes:
        # Places in level order first, numbers of the forest after that.
        children, known = {}, 1
        for place in range(size):
            if is_split[start + place]:
                children[place], known = (known, known + 1), known + 2
        assert known == size
        if about["node_order"] == "level":
            number = list(range(size))
        elif about["node_order"] == "listed":
            listed = numbers(arrays["node_number"], n_nodes, bits(max(sizes)))
            number = listed[start : start + size]
        else:
            number, waiting = [0] * size, [0]
            for count in range(size):
                place = waiting.pop()
                number[place] = count
                waiting += reversed(children.get(place, ()))
        for place in range(size):
            node = start + number[place]
            level.append(node)
            if place in children:
                out["left"][node], out["right"][node] = (start + number[child] for child in children[place])
                row = split_rows[len(of_inner)]
                for name, values in splits.items():
                    out[name][node] = values[row]
                of_inner.append(node)
            else:
                out["left"][node] = out["right"][node] = -1
                for name, values in leaves.items():
                    out[name][node] = values[len(of_leaf)]
                of_leaf.append(node)
        start += size
    found = {name: np.array(values, _TYPES[name]) for name, values in out.items()}
    found["tree_offset"] = np.cumsum([0, *sizes]).astype(np.int64)
    found["base_score"] = arrays["base_score"]
    found["tree_output"] = arrays.get("tree_output", np.full(n_trees, -1, np.int32))
    found["category_offset"] = arrays.get("category_offset", np.zeros(1, np.int64))
    found["category_bits"] = arrays.get("category_bits", np.zeros(0, np.uint32))
    found["value"], found["cover"] = values_and_covers(
        about, arrays, found, (level, of_inner, of_leaf), table[leaf_rows]
    )
    return found


def values_and_covers(about, arrays, found, nodes, of_leaves):
    level, of_inner, of_leaf = nodes
    left, right = found["left"], found["right"]
    value, cover = np.zeros((len(level), of_leaves.shape[1])), np.full(len(level), np.nan)
    value[of_leaf] = of_leaves
    if about["values"]["leaves"] == "counts":
        for node in reversed(level):
            if left[node] >= 0:
                value[node] = value[left[node]] + value[right[node]]
        cover = value.sum(axis=1)
        return value / cover[:, None], cover
    if about["cover"] != "unknown":
        cover[of_leaf] = arrays["leaf_cover"]
    if about["cover"] == "nodes":
        cover[of_inner] = arrays["inner_cover"]
    elif about["cover"] == "leaves":
        for node in reversed(level):
            if left[node] >= 0:
                cover[node] = cover[left[node]] + cover[right[node]]
    if about["values"]["inner"] == "stored":
        value[of_inner] = arrays["inner_value"]
        return value, cover
    weight = cover.copy() if (cover[of_leaf] > 0).all() else np.ones(len(level))
    for node in reversed(level):
        if left[node] >= 0:
            low, high = left[node], right[node]
            weight[node] = weight[low] + weight[high]
            value[node] = value[low] + (value[high] - value[low]) * (weight[high] / weight[node])
    return value, cover


_TYPES = {
    "feature": np.int32, "threshold": np.float64, "left": np.int32, "right": np.int32, "default_left": np.bool_,
    "missing": np.uint8, "category_set": np.int32,
}  # fmt: skip
