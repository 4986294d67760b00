package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/evictd/evictd/internal/strictyaml"
	"github.com/evictd/evictd/pkg/pressure"
)

// The bounds of a stall's window. Within half a second a single reclaim is a stall;
// a minute is what the signal of available memory is for.
const (
	stallWindowShortest = 500 * time.Millisecond
	stallWindowLongest  = time.Minute
)

// Thresholds returns the thresholds that the configuration sets, hard before soft and then in the
// order of the signals, without those that are switched off. There are none where a value is at fault, as in no
// configuration that [Load] or [Parse] returned.
func (c *EvictdConfiguration) Thresholds() []pressure.Threshold {
	f := &faults{}
	lines := f.lines(c)
	if f.Err("invalid configuration") != nil {
		return nil
	}
	all := make([]pressure.Threshold, 0, len(lines))
	for i := range lines {
		all = append(all, lines[i].Threshold)
	}
	slices.SortStableFunc(all, pressure.Threshold.Compare)
	return all
}

// line is a threshold that is switched on, and the path of its field.
type line struct {
	pressure.Threshold
	path *field.Path
}

// lines returns every threshold that is switched on, and checks the fields that set them. Where there
// are faults, what it returns is of no use.
func (f *faults) lines(c *EvictdConfiguration) (lines []line) {
	signals := sets.KeySet(c.EvictionHard).Union(sets.KeySet(c.EvictionSoft)).Union(sets.KeySet(c.EvictionSoftGracePeriod))
	for _, signal := range sets.List(signals.Union(sets.KeySet(c.EvictionMinimumReclaim))) {
		lines = append(lines, f.linesOf(signal, c)...)
	}
	return append(lines, f.stall(c)...)
}

// setting is what one of the four eviction maps has for a signal.
type setting struct {
	path *field.Path
	text string
	set  bool
}

// linesOf checks what the four maps have for one signal.
func (f *faults) linesOf(name string, c *EvictdConfiguration) (lines []line) {
	in := func(mapName string, texts map[string]string) setting {
		text, set := texts[name]
		return setting{field.NewPath(mapName).Key(name), text, set}
	}
	hard, soft := in("evictionHard", c.EvictionHard), in("evictionSoft", c.EvictionSoft)
	period, set := c.EvictionSoftGracePeriod[name]
	grace := setting{field.NewPath("evictionSoftGracePeriod").Key(name), period.Duration.String(), set}
	reclaim := in("evictionMinimumReclaim", c.EvictionMinimumReclaim)
	signal, err := usable(name)
	if err != nil {
		for _, s := range []setting{hard, soft, grace, reclaim} {
			if s.set {
				f.Invalid(s.path, s.text, err.Error())
			}
		}
		return nil
	}
	minimum := f.quantity(reclaim, parseReclaim)
	add := func(s setting, grace time.Duration) {
		if q := f.quantity(s, ParseThreshold); !q.IsZero() {
			// A soft threshold without a grace period is a hard one
			// (isHardEvictionThreshold, pkg/kubelet/eviction/helpers.go).
			t := pressure.Threshold{Signal: signal, Quantity: q, Written: s.text, MinReclaim: minimum, Hard: grace == 0, Grace: grace}
			lines = append(lines, line{t, s.path})
		}
	}
	add(hard, 0)
	add(soft, period.Duration)
	f.pair(soft, grace, period.Duration)
	if len(lines) == 2 && isShare(hard.text) == isShare(soft.text) && lines[1].Quantity.Of(largest) <= lines[0].Quantity.Of(largest) {
		f.Invalid(soft.path, soft.text, fmt.Sprintf(
			"must be above the hard threshold %s of the same signal, which acts first otherwise: raise it, or remove it and its grace period", hard.text))
	}
	if reclaim.set && !hard.set && !soft.set {
		f.Invalid(reclaim.path, reclaim.text, "has no threshold: add one to evictionHard or evictionSoft, or remove this")
	}
	f.reclaimEnds(reclaim, lines)
	return lines
}

// quantity returns what a setting means; 0 where it is not set, cannot be read or switches a threshold off.
func (f *faults) quantity(s setting, parse func(string) (pressure.Quantity, error)) pressure.Quantity {
	if !s.set {
		return pressure.Quantity{}
	}
	q, err := parse(s.text)
	if err != nil {
		f.Invalid(s.path, s.text, err.Error())
	}
	return q
}

// usable returns the signal that a threshold may name. The error says what to do instead.
func usable(name string) (pressure.Signal, error) {
	signal, err := pressure.ParseSignal(name)
	switch {
	case err != nil:
		return signal, errors.New("unknown signal: " + strictyaml.Meant(name, usableSignals(), "must be one of "+strings.Join(usableSignals(), ", ")))
	case signal.Filesystem() == pressure.ContainerFS:
		// The kubelet takes these, replaces them by those of nodefs or imagefs and only
		// logs it (UpdateContainerFsThresholds, pkg/kubelet/eviction/helpers.go).
		return signal, errors.New("containerfs is always the same filesystem as nodefs or imagefs: set that one, and remove this")
	case signal == pressure.MemoryStall:
		return signal, errors.New("memory stalls have a field of their own: set memoryStall.threshold, and remove this")
	}
	return signal, nil
}

func usableSignals() (names []string) {
	for _, signal := range pressure.Signals() {
		if _, err := usable(signal.String()); err == nil {
			names = append(names, signal.String())
		}
	}
	return names
}

// pair checks that a soft threshold and its grace period come as a pair.
func (f *faults) pair(soft, grace setting, period time.Duration) {
	off := !soft.set || soft.text == "0%" || soft.text == "100%"
	switch {
	case !grace.set && !off:
		f.AddAt(soft.path, field.Required(grace.path, "the soft threshold of this signal needs a grace period: add one, like \"1m\""))
	case !grace.set:
	case !soft.set:
		f.Invalid(grace.path, grace.text, "has no soft threshold: add one to evictionSoft or remove this")
	case period < 0:
		f.Invalid(grace.path, grace.text, "must not be negative")
	}
}

// reclaimEnds refuses a minimum reclaim that is the whole node on top of a threshold: such a pressure would
// never be over.
func (f *faults) reclaimEnds(reclaim setting, lines []line) {
	for i := range lines {
		if part := share(reclaim.text); part > 0 && part < 1 && isShare(lines[i].Written) && part+share(lines[i].Written) >= 1 {
			f.Invalid(reclaim.path, reclaim.text, fmt.Sprintf(
				"must be less than 100%% together with %s %s, or a pressure would never be over", lines[i].path.Root(), lines[i].Written))
		}
	}
}

// stall checks memoryStall and returns its threshold.
func (f *faults) stall(c *EvictdConfiguration) []line {
	if c.MemoryStall == nil {
		return nil
	}
	path, m := field.NewPath("memoryStall"), c.MemoryStall
	strictyaml.OneOf(&f.Faults, path.Child("type"), m.Type, StallSome, StallFull)
	available, err := parseStall(m.Threshold)
	if err != nil {
		f.Invalid(path.Child("threshold"), m.Threshold, err.Error())
	}
	pause := min(c.Sampling.MaxInterval.Duration, maxIntervalHighest)
	strictyaml.Between(&f.Faults, path.Child("window"), m.Window.Duration, max(stallWindowShortest, pause), stallWindowLongest,
		", and not shorter than sampling.maxInterval: there would be no sample in between")
	return []line{{pressure.Threshold{Signal: pressure.MemoryStall, Quantity: available, Written: m.Threshold, Hard: true}, path}}
}
