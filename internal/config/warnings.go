package config

import (
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/evictd/evictd/internal/wording"
	"github.com/evictd/evictd/pkg/pressure"
)

// mostOfIt is the share of a capacity above which a threshold can only be a mistake: a node
// that must keep four fifths of a resource free is under pressure as soon as it is used.
const mostOfIt = 0.8

// moreThanMemory is a threshold on memory that no node of ordinary size regains. It replaces the
// capacity, which is not in the file.
const moreThanMemory = 1 << 40

// systemNamespace is where the cluster's own pods are.
const systemNamespace = "kube-system"

// Warnings returns what is valid and probably not meant, one sentence each, with the
// path of the field. Where the node's capacities are known too, [EvictdConfiguration.WarningsOn]
// says more.
func (c *EvictdConfiguration) Warnings() []string {
	warnings := append(c.lineWarnings(hardField, c.EvictionHard), c.lineWarnings(softField, c.EvictionSoft)...)
	warnings = append(warnings, c.hardWarnings()...)
	warnings = append(warnings, c.budgetWarnings()...)
	warnings = append(warnings, c.namespaceWarnings()...)
	return append(warnings, offsetWarnings(field.NewPath("queues"), c.Queues, 0)...)
}

// WarningsOn returns what is probably not meant on a node of these capacities, in the signals'
// units, besides what Warnings says; 0 is a capacity that is not known.
func (c *EvictdConfiguration) WarningsOn(capacity func(pressure.Signal) int64) []string {
	var warnings []string
	for _, one := range []struct {
		name  string
		texts map[string]string
	}{{hardField, c.EvictionHard}, {softField, c.EvictionSoft}} {
		for _, name := range slices.Sorted(maps.Keys(one.texts)) {
			line, signal, ok := lineOf(name, one.texts[name])
			if !ok || line.relative || tooMuch(signal, line) {
				continue // Warnings has said it
			}
			if all := capacity(signal); all > 0 && float64(line.absolute) > mostOfIt*float64(all) {
				warnings = append(warnings, tooHigh(one.name, name, one.texts[name], "of the "+wording.Amount(signal, all)+" that this node has"))
			}
		}
	}
	return append(warnings, c.reclaimWarnings(capacity)...)
}

// reclaimWarnings names the signals whose target is more than the node has: their pressure
// would never end.
func (c *EvictdConfiguration) reclaimWarnings(capacity func(pressure.Signal) int64) []string {
	thresholds, err := c.Thresholds()
	if err != nil {
		return nil
	}
	var warnings []string
	for _, name := range slices.Sorted(maps.Keys(c.EvictionMinimumReclaim)) {
		at := slices.IndexFunc(thresholds, func(t pressure.Threshold) bool { return t.Signal.String() == name })
		if at < 0 {
			continue
		}
		t := &thresholds[at]
		if all := capacity(t.Signal); all > 0 && t.Quantity.Of(all)+t.MinReclaim.Of(all) > all {
			warnings = append(warnings, fmt.Sprintf("%s: the threshold and %s together are more than the %s that this node has: the pressure never ends",
				field.NewPath(reclaimField).Key(name), c.EvictionMinimumReclaim[name], wording.Amount(t.Signal, all)))
		}
	}
	return warnings
}

// lineWarnings names the thresholds that are higher than any node can mean.
func (c *EvictdConfiguration) lineWarnings(name string, texts map[string]string) []string {
	var warnings []string
	for _, entry := range slices.Sorted(maps.Keys(texts)) {
		line, signal, ok := lineOf(entry, texts[entry])
		switch {
		case !ok:
		case line.relative && line.fraction > mostOfIt:
			warnings = append(warnings, tooHigh(name, entry, texts[entry], "of the capacity"))
		case tooMuch(signal, line):
			warnings = append(warnings, tooHigh(name, entry, texts[entry], "of what most nodes have"))
		}
	}
	return warnings
}

// lineOf reads one threshold; ok is false where it is switched off or cannot be read.
func lineOf(name, text string) (line value, signal pressure.Signal, ok bool) {
	signal, err := pressure.ParseSignal(name)
	if err != nil {
		return value{}, signal, false
	}
	line, err = parseThreshold(text)
	return line, signal, err == nil && !line.off
}

func tooMuch(signal pressure.Signal, line value) bool {
	return signal.Kind() == pressure.MemoryKind && !line.relative && line.absolute >= moreThanMemory
}

func tooHigh(name, signal, text, all string) string {
	const percent = 100
	return fmt.Sprintf("%s: %s is more than %.0f%% %s: below it pods are evicted, and that is nearly always",
		field.NewPath(name).Key(signal), text, mostOfIt*percent, all)
}

// hardWarnings says where nothing is done at once, however little is left.
func (c *EvictdConfiguration) hardWarnings() []string {
	thresholds, err := c.Thresholds()
	if err != nil || slices.ContainsFunc(thresholds, func(t pressure.Threshold) bool { return t.Hard }) {
		return nil
	}
	if len(thresholds) == 0 {
		return []string{hardField + ": there is no threshold at all: evictd evicts no pod"}
	}
	return []string{hardField + ": there is no hard threshold: however fast the node runs out, pods are evicted after a grace period only, or by the kubelet"}
}

// namespaceWarnings says where the cluster's own pods are candidates.
func (c *EvictdConfiguration) namespaceWarnings() []string {
	if slices.Contains(c.Protect.Namespaces, systemNamespace) {
		return nil
	}
	return []string{"protect.namespaces: " + systemNamespace + " is not among them: pods of the cluster itself, such as its DNS, may be evicted"}
}
