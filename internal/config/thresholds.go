package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/evictd/evictd/pkg/pressure"
)

// Thresholds returns the thresholds that the configuration sets, hard before soft and then in the
// order of the signals, without those that are switched off. The error names a value that cannot be
// read; a configuration that [Load] or [Parse] returned, or that validates, has none.
func (c *EvictdConfiguration) Thresholds() ([]pressure.Threshold, error) {
	var all []pressure.Threshold
	for _, name := range slices.Sorted(maps.Keys(c.EvictionHard)) {
		threshold, on, err := c.threshold(name, c.EvictionHard[name])
		if err != nil {
			return nil, fmt.Errorf("reading %s[%s]: %w", hardField, name, err)
		}
		if on {
			threshold.Hard = true
			all = append(all, threshold)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.EvictionSoft)) {
		threshold, on, err := c.threshold(name, c.EvictionSoft[name])
		if err != nil {
			return nil, fmt.Errorf("reading %s[%s]: %w", softField, name, err)
		}
		if !on {
			continue
		}
		if threshold.Grace, err = time.ParseDuration(c.EvictionSoftGracePeriod[name]); err != nil {
			return nil, fmt.Errorf("reading %s[%s]: %w", graceField, name, err)
		}
		// A soft threshold without a grace period is a hard one
		// (isHardEvictionThreshold, pkg/kubelet/eviction/helpers.go).
		threshold.Hard = threshold.Grace == 0
		all = append(all, threshold)
	}
	if c.MemoryStall != nil {
		share, err := parseStall(c.MemoryStall.Threshold)
		if err != nil {
			return nil, fmt.Errorf("reading memoryStall.threshold: %w", err)
		}
		// What is available of the window is the part in which no task stalled.
		all = append(all, pressure.Threshold{Signal: pressure.MemoryStall, Quantity: pressure.Fraction(1 - share), Written: c.MemoryStall.Threshold, Hard: true})
	}
	slices.SortStableFunc(all, HardFirst)
	return all, nil
}

// HardFirst orders thresholds by what is dealt with first.
func HardFirst(a, b pressure.Threshold) int {
	if a.Hard != b.Hard {
		return strings.Compare(a.Kind(), b.Kind()) // "Hard" comes before "Soft"
	}
	return int(a.Signal) - int(b.Signal)
}

// threshold reads one entry, without what makes it hard or soft, and whether it is
// switched on.
func (c *EvictdConfiguration) threshold(name, text string) (_ pressure.Threshold, on bool, err error) {
	signal, err := pressure.ParseSignal(name)
	if err != nil {
		return pressure.Threshold{}, false, err
	}
	line, err := parseThreshold(text)
	if err != nil {
		return pressure.Threshold{}, false, err
	}
	threshold := pressure.Threshold{Signal: signal, Quantity: line.quantity(), Written: text}
	if text, found := c.EvictionMinimumReclaim[name]; found {
		reclaim, err := parseReclaim(text)
		if err != nil {
			return pressure.Threshold{}, false, fmt.Errorf("its minimum reclaim: %w", err)
		}
		threshold.MinReclaim = reclaim.quantity()
	}
	return threshold, !line.off, nil
}
