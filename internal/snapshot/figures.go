package snapshot

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/evictd/evictd/internal/config"
)

// largest is 1 PiB, in bytes, inodes or tasks: more than any pod uses, and small
// enough that the sum over all pods of a node stays an int64.
const largest = int64(1) << 50

// checkTree looks at the document as it is written: what must be there, since a
// missing figure would be read as 0, and amounts, which the decoder of pods reports
// without their place.
func checkTree(tree map[string]any) error {
	for _, name := range []string{"evictdVersion", "time", "nodeName", "configuration", "pods", "usage"} {
		if tree[name] == nil {
			return fmt.Errorf("%s: is missing; save the snapshot again", name)
		}
	}
	if err := checkTime(tree["time"]); err != nil {
		return err
	}
	for _, list := range [][]string{
		{"signals", "name", "state"},
		{"usage", "uid", "workingSet", "anonymous", "shared"},
		{"disk", "uid", "nodefs", "imagefs"},
		{"budgets", "uid", "outcome"},
	} {
		if err := required(list[0], tree[list[0]], list[1:]); err != nil {
			return err
		}
	}
	return checkAmounts("pods", tree["pods"], false)
}

func checkTime(v any) error {
	text, ok := v.(string)
	if _, err := time.Parse(time.RFC3339, text); !ok || err != nil {
		return fmt.Errorf("time: %s is no time such as 2026-01-02T15:04:05Z; save the snapshot again", shown(v))
	}
	return nil
}

// required makes sure that every entry of a list has those fields.
func required(path string, list any, names []string) error {
	items, ok := list.([]any)
	if !ok {
		return nil // the decoder says what it is instead
	}
	for i, item := range items {
		entry, ok := item.(map[string]any)
		if !ok {
			return fmt.Errorf("%s: holds no fields; save the snapshot again", at(path, i))
		}
		for _, name := range names {
			if entry[name] == nil {
				return fmt.Errorf("%s.%s: is missing, and missing is not 0; leave the whole entry out where it is not known", at(path, i), name)
			}
		}
	}
	return nil
}

// checkAmounts looks for resource amounts in pods: the values of requests, limits and
// the like.
func checkAmounts(path string, v any, amounts bool) error {
	switch v := v.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			if err := checkAmounts(below(path, name), v[name], amounts || holdsAmounts(name)); err != nil {
				return err
			}
		}
	case []any:
		for i, item := range v {
			if err := checkAmounts(at(path, i), item, amounts); err != nil {
				return err
			}
		}
	case string:
		if amounts {
			return checkAmount(path, v)
		}
	case json.Number:
		if amounts {
			return checkAmount(path, v.String())
		}
	}
	return nil
}

// holdsAmounts knows every field of a pod with amounts in it, also those that no snapshot
// may have: the decoder reads them before they are refused. It does not look at case.
func holdsAmounts(name string) bool {
	fields := []string{"requests", "limits", "overhead", "allocatedResources", "sizeLimit", "divisor"}
	return slices.ContainsFunc(fields, func(field string) bool { return strings.EqualFold(field, name) })
}

// checkAmount refuses what no pod can ask for.
func checkAmount(path, text string) error {
	amount, err := config.ParseQuantity(text)
	if err != nil {
		return fmt.Errorf("%s: %s is no amount that a node has; save the snapshot again", path, shown(text))
	}
	if amount.Sign() < 0 {
		return fmt.Errorf("%s: %s is negative; save the snapshot again", path, shown(text))
	}
	return nil
}

// figure refuses a figure that no pod has.
func figure(path string, n int64) error {
	switch {
	case n < 0:
		return fmt.Errorf("%s: %d is negative; save the snapshot again", path, n)
	case n > largest:
		return fmt.Errorf("%s: %d is more than any node has; save the snapshot again", path, n)
	}
	return nil
}
