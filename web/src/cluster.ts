// Clusters of heads: average linkage by the chain of nearest neighbours, which takes n² steps.

export interface Tree {
  members: number[];
  height: number;
  parts?: [Tree, Tree];
}

export function cluster(distance: (a: number, b: number) => number, n: number): Tree {
  const trees: (Tree | null)[] = Array.from({ length: n }, (_, i) => ({ members: [i], height: 0 }));
  const d = Array.from({ length: n }, (_, i) => Float64Array.from({ length: n }, (_, j) => distance(i, j)));
  const alive = new Set(trees.keys()),
    chain: number[] = [];
  while (alive.size > 1) {
    if (chain.length === 0) chain.push(alive.values().next().value!);
    const top = chain[chain.length - 1],
      before = chain[chain.length - 2];
    let nearest = before ?? -1;
    for (const other of alive) {
      if (other !== top && (nearest < 0 || d[top][other] < d[top][nearest])) nearest = other;
    }
    if (nearest !== before) {
      chain.push(nearest);
      continue;
    }
    chain.length -= 2;
    const a = Math.min(top, nearest),
      b = Math.max(top, nearest),
      one = trees[a]!,
      two = trees[b]!;
    trees[a] = { members: [...one.members, ...two.members], height: d[a][b], parts: [one, two] };
    trees[b] = null;
    alive.delete(b);
    const na = one.members.length,
      nb = two.members.length;
    for (const other of alive)
      if (other !== a) d[a][other] = d[other][a] = (na * d[a][other] + nb * d[b][other]) / (na + nb);
  }
  return trees[alive.values().next().value!]!;
}
