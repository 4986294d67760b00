package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/evictd/evictd/internal/wording"
	"github.com/evictd/evictd/pkg/rank"
)

// similarShown is how many names are shown in place of one that is not there.
const similarShown = 5

// notOnNode says that a pod is not there, and which ones are that could be meant.
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

// similar returns the keys that key may be a slip of, the nearest first: a few
// characters differ, or the name without what its controller added, or the namespace.
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

// edits counts the characters to insert, remove or replace between two words
// (Levenshtein). Words of very different length are told apart by that alone.
func edits(a, b string) int {
	const longest = 320 // a namespace, a slash and a pod's name
	if len(a) > longest || len(b) > longest {
		return longest
	}
	return wording.Distance(a, b)
}
