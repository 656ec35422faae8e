"""Parts of graphs for message passing. MXNet leaves what follows the last vertex of a part undefined, so the parts that are
drawn here hold exactly as many vertices as there is room for."""

import numpy as np

from cases import OpCase


def cases():
    yield from drawn()
    yield from cut_out()


def call(op, inputs, stypes, **attrs):
    return OpCase(op, inputs, attrs, imperative=True, stypes=tuple(stypes), nameless=True)


def graph(n, keep=lambda u, v: u != v):
    """The edges that are kept, numbered from 1."""
    edges = np.array([[keep(u, v) for v in range(n)] for u in range(n)])
    return (np.cumsum(edges) * edges.ravel()).reshape(n, n).astype("int64")


def vertices(*numbers):
    return np.array(numbers, "int64")


def drawn():
    """All neighbors are taken, or there is one only, so that nothing depends on chance."""
    ring = graph(6, lambda u, v: v == (u + 1) % 6)
    weights = np.array([0.9, 0.8, 0.2, 0.4, 0.1, 0.7], "float32")
    for weighted in (False, True):
        op = f"_contrib_dgl_csr_neighbor_{'non_' if weighted else ''}uniform_sample"

        def sample(g, *seeds, **attrs):
            inputs = [g] + [weights[: len(g)]] * weighted + list(seeds)
            return call(op, inputs, ["csr"] + ["default"] * (len(inputs) - 1), num_args=len(inputs), **attrs)

        yield sample(graph(5), vertices(0), num_neighbor=9, max_num_vertices=5)
        yield sample(graph(5), vertices(0, 1, 2, 3, 4), max_num_vertices=5)
        yield sample(graph(5), vertices(3, 1), num_neighbor=4, max_num_vertices=5)
        yield sample(graph(5), vertices(0), vertices(4), num_neighbor=4, max_num_vertices=5)
        yield sample(ring, vertices(2), num_hops=2, num_neighbor=1, max_num_vertices=3)
        yield sample(ring, vertices(5), num_hops=3, num_neighbor=1, max_num_vertices=4)
        yield sample(ring, vertices(1, 1), num_hops=1, num_neighbor=3, max_num_vertices=2)


def cut_out():
    some = graph(5, lambda u, v: (u * 3 + v * 2) % 4 != 0)
    for mapping in (True, False):
        def subgraph(*parts):
            stypes = ["csr"] + ["default"] * len(parts)
            return call("_contrib_dgl_subgraph", [some, *parts], stypes, num_args=1 + len(parts), return_mapping=mapping)

        yield subgraph(vertices(0, 1, 2))
        yield subgraph(vertices(1, 4), vertices(0, 1, 2, 3, 4), vertices(2))
    yield call("_contrib_dgl_adjacency", [some], ["csr"])
    part = np.zeros((6, 5), "int64")
    part[1, 1], part[1, 4], part[2, 3] = 14, 16, 17
    listed = vertices(1, 3, 4, 0, 0, 0, 3)
    yield call("_contrib_dgl_graph_compact", [part, listed], ["csr", "default"], num_args=2, return_mapping=False,
               graph_sizes="(3,)")
    yield call("_contrib_dgl_graph_compact", [part, part, listed, listed], ["csr", "csr", "default", "default"], num_args=4,
               return_mapping=False, graph_sizes="(3, 3)")
