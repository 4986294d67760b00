package rank

import (
	"cmp"
	"slices"
)

// sortKey holds the values that decide most comparisons, without a pointer: sorting moves
// small values and does not burden the garbage collector.
type sortKey struct {
	// first is the exceeds step, where there is one, above the priority.
	first int64
	over  int64
	index int // in the entries that are sorted
}

// sortEntries puts entries in the resource's order, with the given priorities. Tests verify
// that the order is that of comparator.
func sortEntries(resource Resource, entries []*Entry, priority func(*Entry) int32) []*Entry {
	keys := make([]sortKey, len(entries))
	for i, e := range entries {
		keys[i] = sortKey{first: int64(priority(e)), over: e.Over, index: i}
		if resource != PIDs && !e.Exceeds {
			keys[i].first += 1 << 32 // behind every priority
		}
	}
	slices.SortFunc(keys, func(a, b sortKey) int {
		switch {
		case a.first != b.first:
			return cmp.Compare(a.first, b.first)
		case a.over != b.over:
			return cmp.Compare(b.over, a.over)
		default:
			order, _ := compareEqual(entries[a.index], entries[b.index])
			return order
		}
	})
	sorted := make([]*Entry, len(entries))
	for i := range keys {
		sorted[i] = entries[keys[i].index]
	}
	return sorted
}
