package config

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/evictd/evictd/pkg/pressure"
)

// The names of the four eviction maps, in paths and in sentences.
const (
	hardField    = "evictionHard"
	softField    = "evictionSoft"
	graceField   = "evictionSoftGracePeriod"
	reclaimField = "evictionMinimumReclaim"
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
	if f.err() != nil {
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
func (f *faults) lines(c *EvictdConfiguration) []line {
	signals := map[string]settings{}
	for mapName, texts := range map[string]map[string]string{
		hardField: c.EvictionHard, softField: c.EvictionSoft, graceField: c.EvictionSoftGracePeriod, reclaimField: c.EvictionMinimumReclaim,
	} {
		for signal, text := range texts {
			if signals[signal] == nil {
				signals[signal] = settings{}
			}
			signals[signal][mapName] = text
		}
	}
	var lines []line
	for _, signal := range slices.Sorted(maps.Keys(signals)) {
		lines = append(lines, f.linesOf(signal, signals[signal])...)
	}
	return append(lines, f.stall(c)...)
}

// settings is what the eviction maps have for one signal, by the name of the map.
type settings map[string]string

func (s settings) has(mapName string) bool {
	_, found := s[mapName]
	return found
}

// linesOf checks what the four maps have for one signal.
func (f *faults) linesOf(name string, s settings) (lines []line) {
	signal, err := usable(name)
	if err != nil {
		for _, mapName := range slices.Sorted(maps.Keys(s)) {
			f.invalid(field.NewPath(mapName).Key(name), s[mapName], err.Error())
		}
		return nil
	}
	hard, soft := f.quantity(name, hardField, s, ParseThreshold), f.quantity(name, softField, s, ParseThreshold)
	grace := f.grace(field.NewPath(graceField).Key(name), s)
	reclaim := f.quantity(name, reclaimField, s, parseReclaim)
	add := func(mapName string, q pressure.Quantity, grace time.Duration) {
		if !q.IsZero() {
			// A soft threshold without a grace period is a hard one
			// (isHardEvictionThreshold, pkg/kubelet/eviction/helpers.go).
			t := pressure.Threshold{Signal: signal, Quantity: q, Written: s[mapName], MinReclaim: reclaim, Hard: grace == 0, Grace: grace}
			lines = append(lines, line{t, field.NewPath(mapName).Key(name)})
		}
	}
	add(hardField, hard, 0)
	add(softField, soft, grace)
	if isShare(s[hardField]) == isShare(s[softField]) && len(lines) == 2 && soft.Of(largest) <= hard.Of(largest) {
		f.invalid(lines[1].path, s[softField], fmt.Sprintf(
			"must be above the hard threshold %s of the same signal, which acts first otherwise: raise it or remove it", s[hardField]))
	}
	f.reclaimEnds(field.NewPath(reclaimField).Key(name), s, lines)
	return lines
}

// quantity returns what one of the maps has for a signal; 0 where it has nothing, nothing that can be
// read, or what switches a threshold off.
func (f *faults) quantity(signal, mapName string, s settings, parse func(string) (pressure.Quantity, error)) pressure.Quantity {
	if !s.has(mapName) {
		return pressure.Quantity{}
	}
	q, err := parse(s[mapName])
	if err != nil {
		f.invalid(field.NewPath(mapName).Key(signal), s[mapName], err.Error())
	}
	return q
}

// usable returns the signal that a threshold may name. The error says what to do instead.
func usable(name string) (pressure.Signal, error) {
	signal, err := pressure.ParseSignal(name)
	switch {
	case err != nil:
		return signal, errors.New("unknown signal: must be one of " + strings.Join(usableSignals(), ", "))
	case signal.Filesystem() == pressure.ContainerFS:
		// The kubelet takes these, replaces them by those of nodefs or imagefs and only
		// logs it (UpdateContainerFsThresholds, pkg/kubelet/eviction/helpers.go).
		return signal, errors.New("containerfs is always the same filesystem as nodefs or imagefs: set that one, and remove this")
	case signal == pressure.MemoryStall:
		return signal, errors.New("memory stalls are set by the field memoryStall: move it there")
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

// grace returns the grace period of a soft threshold, and checks that the two come as a pair.
func (f *faults) grace(path *field.Path, s settings) time.Duration {
	if !s.has(graceField) {
		off := s[softField] == "0%" || s[softField] == "100%"
		if s.has(softField) && !off {
			f.add(field.Required(path, "the soft threshold of this signal needs a grace period: add one"))
		}
		return 0
	}
	grace, err := time.ParseDuration(s[graceField])
	switch {
	case err != nil:
		f.invalid(path, s[graceField], mustBeDuration)
	case grace < 0:
		f.invalid(path, s[graceField], "must not be negative")
	case !s.has(softField):
		f.invalid(path, s[graceField], "has no soft threshold: add one to evictionSoft or remove this")
	}
	return grace
}

// reclaimEnds refuses a minimum reclaim that could never matter, and one that is the whole node on
// top of a threshold: such a pressure would never be over.
func (f *faults) reclaimEnds(path *field.Path, s settings, lines []line) {
	if s.has(reclaimField) && !s.has(hardField) && !s.has(softField) {
		f.invalid(path, s[reclaimField], "has no threshold: add one to evictionHard or evictionSoft, or remove this")
	}
	for i := range lines {
		if part := share(s[reclaimField]); part > 0 && part < 1 && isShare(lines[i].Written) && part+share(lines[i].Written) >= 1 {
			f.invalid(path, s[reclaimField], fmt.Sprintf(
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
	oneOf(f, path.Child("type"), m.Type, StallSome, StallFull)
	available, err := parseStall(m.Threshold)
	if err != nil {
		f.invalid(path.Child("threshold"), m.Threshold, err.Error())
	}
	pause := min(c.Sampling.MaxInterval.Duration, maxIntervalHighest)
	between(f, path.Child("window"), m.Window.Duration, max(stallWindowShortest, pause), stallWindowLongest,
		", and not shorter than sampling.maxInterval: there would be no sample in between")
	return []line{{pressure.Threshold{Signal: pressure.MemoryStall, Quantity: available, Written: m.Threshold, Hard: true}, path}}
}
