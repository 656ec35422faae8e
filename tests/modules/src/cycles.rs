//! Finds cycles in a dependency graph.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// For each pair of nodes, the items of the second that the first uses.
pub(crate) type Uses = BTreeMap<(String, String), BTreeSet<String>>;

/// For each strongly connected set of nodes, a shortest cycle through its first node, with the items that each node uses of the next.
pub(crate) fn cycles(uses: &Uses) -> Vec<String> {
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    let mut found = Vec::new();
    for (node, _) in uses.keys() {
        if seen.contains(node.as_str()) {
            continue;
        }
        let Some(cycle) = shortest_cycle(uses, node) else { continue };
        seen.extend(&cycle);
        let mut line = node.clone();
        for pair in cycle.windows(2) {
            let items = &uses[&(pair[0].into(), pair[1].into())];
            let listed: Vec<&str> = items.iter().take(3).map(String::as_str).collect();
            line += &format!(" -> {} ({})", pair[1], listed.join(", "));
        }
        found.push(line);
    }
    found
}

/// The nodes of a shortest path from a node to itself.
fn shortest_cycle<'u>(uses: &'u Uses, start: &'u str) -> Option<Vec<&'u str>> {
    let mut users: BTreeMap<&str, &str> = BTreeMap::new();
    let mut queue = VecDeque::from([start]);
    while let Some(node) = queue.pop_front() {
        for (_, to) in uses.keys().filter(|(from, _)| from == node) {
            if to == start {
                let back = std::iter::successors(Some(node), |node| users.get(node).copied());
                let mut path: Vec<&str> = back.collect();
                path.reverse();
                path.push(start);
                return Some(path);
            }
            if !users.contains_key(to.as_str()) {
                users.insert(to, node);
                queue.push_back(to);
            }
        }
    }
    None
}
