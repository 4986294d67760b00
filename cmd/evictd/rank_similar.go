package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/evictd/evictd/internal/wording"
	"github.com/evictd/evictd/pkg/rank"
)

// similarShown is how many names are suggested in place of a missing one.
const similarShown = 5

// notOnNode says that a pod is not on the node, and which pods may be meant.
func notOnNode(seen *sight, key string) error {
	var keys []string
	for _, entries := range [][]rank.Entry{seen.ranking.Candidates, seen.ranking.Protected} {
		for i := range entries {
			keys = append(keys, entries[i].Pod.Key())
		}
	}
	near := similar(key, keys)
	if len(near) == 0 {
		return fmt.Errorf("--why %s: no such pod on node %s; evictd knows %d there, and lists them without --why", key, seen.node.NodeName, len(keys))
	}
	return fmt.Errorf("--why %s: no such pod on node %s; did you mean %s?", key, seen.node.NodeName, strings.Join(near, ", "))
}

// similar returns the keys for which key may be a typing error, the closest first: a few
// characters differ, or the controller's suffix or the namespace is missing.
func similar(key string, keys []string) []string {
	const slips = 3
	distance := map[string]int{}
	_, name, _ := strings.Cut(key, "/")
	for _, known := range keys {
		_, knownName, _ := strings.Cut(known, "/")
		switch n := edits(key, known); {
		case n <= slips:
			distance[known] = n
		case strings.Contains(known, key) || strings.Contains(knownName, name):
			distance[known] = slips + 1
		}
	}
	var near []string
	for known := range distance {
		near = append(near, known)
	}
	slices.SortFunc(near, func(a, b string) int { return cmp.Or(cmp.Compare(distance[a], distance[b]), cmp.Compare(a, b)) })
	return near[:min(len(near), similarShown)]
}

// edits counts the characters to insert, remove or replace between two words (Levenshtein).
// Words of very different length are not compared further.
func edits(a, b string) int {
	const longest = 320 // a namespace, a slash and a pod's name
	if len(a) > longest || len(b) > longest {
		return longest
	}
	return wording.Distance(a, b)
}
