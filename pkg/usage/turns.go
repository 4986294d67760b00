package usage

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/evictd/evictd/internal/filetree"
)

// turn is how the count of a tree ended. Trees are counted the next time in the order of
// these values.
type turn uint8

const (
	// notReached also applies to a tree that is new.
	notReached turn = iota
	// walked: read completely, or with a fault that more time would not fix.
	walked
	// tooLong: its share of the time did not suffice. Such a tree comes last, with all the
	// time that the others leave, and delays none of them.
	tooLong
)

// turns are the turns of one measurement, by name.
type turns map[string]turn

// turnOf returns the turn for the reason why a count is partial.
func turnOf(partial error) turn {
	switch {
	case errors.Is(partial, filetree.ErrNotReached):
		return notReached
	case errors.Is(partial, filetree.ErrSilent),
		errors.Is(partial, context.DeadlineExceeded), errors.Is(partial, context.Canceled):
		return tooLong
	default:
		return walked
	}
}

// note records the turns of some trees.
func (t turns) note(trees []filetree.Tree, counts []filetree.Count) {
	for i := range trees {
		t[trees[i].Name] = turnOf(counts[i].Partial)
	}
}

// order sorts named items by their last turn, and otherwise keeps their order.
func order[T any](items []T, last turns, name func(item T) string) {
	slices.SortStableFunc(items, func(a, b T) int { return cmp.Compare(last[name(a)], last[name(b)]) })
}
