package usage

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/evictd/evictd/internal/filetree"
)

// turn is what became of something to walk. The first ones are walked first the next
// time.
type turn uint8

const (
	// notReached is also what nobody has seen before.
	notReached turn = iota
	// walked, whole or with a fault that more time would not mend.
	walked
	// tooLong is what its share of the time did not suffice for. As the last one it gets
	// all that the others leave, and holds nobody up.
	tooLong
)

// turns are those of one measurement, by name.
type turns map[string]turn

// turnOf tells a turn by why its count is partial.
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

// note remembers what became of some trees.
func (t turns) note(trees []filetree.Tree, counts []filetree.Count) {
	for i := range trees {
		t[trees[i].Name] = turnOf(counts[i].Partial)
	}
}

// order orders what has names by its last turn, and leaves it as it is within that.
func order[T any](items []T, last turns, name func(item T) string) {
	slices.SortStableFunc(items, func(a, b T) int { return cmp.Compare(last[name(a)], last[name(b)]) })
}
