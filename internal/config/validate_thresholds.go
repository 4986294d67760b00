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

// thresholds checks the four eviction maps, each for itself and then against each
// other.
func (v *validator) thresholds() {
	hard := v.values(hardField, v.c.EvictionHard, parseThreshold)
	soft := v.values(softField, v.c.EvictionSoft, parseThreshold)
	v.softAheadOfHard(soft, hard)
	v.graces(soft)
	reclaims := v.values(reclaimField, v.c.EvictionMinimumReclaim, parseReclaim)
	v.reclaimsNeedThresholds()
	v.reclaimsEnd(reclaims, hardField, hard)
	v.reclaimsEnd(reclaims, softField, soft)
}

// values returns the entries of one map that are well-formed; the others become
// faults.
func (v *validator) values(name string, texts map[string]string, parse func(string) (value, error)) map[string]value {
	good := map[string]value{}
	for _, signal := range slices.Sorted(maps.Keys(texts)) {
		path := field.NewPath(name).Key(signal)
		if err := usable(signal); err != nil {
			v.add(field.Invalid(path, texts[signal], err.Error()))
			continue
		}
		parsed, err := parse(texts[signal])
		if err != nil {
			v.add(field.Invalid(path, texts[signal], err.Error()))
			continue
		}
		good[signal] = parsed
	}
	return good
}

// usable returns nil for a signal that a threshold may name. The fault says what
// to do instead.
func usable(name string) error {
	signal, err := pressure.ParseSignal(name)
	if err != nil {
		return errors.New("unknown signal: must be one of " + strings.Join(usableSignals(), ", "))
	}
	switch {
	case signal.Filesystem() == pressure.ContainerFS:
		// The kubelet takes these, replaces them by those of nodefs or imagefs and only
		// logs it (UpdateContainerFsThresholds, pkg/kubelet/eviction/helpers.go).
		return errors.New("containerfs is always the same filesystem as nodefs or imagefs: set that one, and remove this")
	case signal == pressure.MemoryStall:
		return errors.New("memory stalls are set by the field memoryStall: move it there")
	default:
		return nil
	}
}

func usableSignals() []string {
	var signals []string
	for _, signal := range pressure.Signals() {
		if name := signal.String(); usable(name) == nil {
			signals = append(signals, name)
		}
	}
	return signals
}

// softAheadOfHard refuses soft thresholds that the hard one always overtakes.
func (v *validator) softAheadOfHard(soft, hard map[string]value) {
	for _, signal := range slices.Sorted(maps.Keys(soft)) {
		limit, found := hard[signal]
		if !found || soft[signal].aheadOf(limit) {
			continue
		}
		v.add(field.Invalid(field.NewPath(softField).Key(signal), v.c.EvictionSoft[signal],
			fmt.Sprintf("must be above the hard threshold %s of the same signal, which acts first otherwise: raise it or remove it",
				v.c.EvictionHard[signal])))
	}
}

// graces checks the grace periods, and that thresholds and grace periods come in
// pairs.
func (v *validator) graces(soft map[string]value) {
	path := field.NewPath(graceField)
	for _, signal := range slices.Sorted(maps.Keys(v.c.EvictionSoftGracePeriod)) {
		text := v.c.EvictionSoftGracePeriod[signal]
		_, paired := v.c.EvictionSoft[signal]
		duration, err := time.ParseDuration(text)
		switch {
		case usable(signal) != nil:
			v.add(field.Invalid(path.Key(signal), text, usable(signal).Error()))
		case err != nil:
			v.add(field.Invalid(path.Key(signal), text, `must be a duration with a unit, like "30s" or "1m30s"`))
		case duration < 0:
			v.add(field.Invalid(path.Key(signal), text, "must not be negative"))
		case !paired && !v.isBroken(softField, signal):
			v.add(field.Invalid(path.Key(signal), text, "has no soft threshold: add one to evictionSoft or remove this"))
		}
	}
	for _, signal := range slices.Sorted(maps.Keys(v.c.EvictionSoft)) {
		_, paired := v.c.EvictionSoftGracePeriod[signal]
		if paired || soft[signal].off || usable(signal) != nil || v.isBroken(graceField, signal) {
			continue
		}
		v.add(field.Required(path.Key(signal), "the soft threshold of this signal needs a grace period: add one"))
	}
}

// reclaimsNeedThresholds refuses minimum reclaims that could never matter.
func (v *validator) reclaimsNeedThresholds() {
	for _, signal := range slices.Sorted(maps.Keys(v.c.EvictionMinimumReclaim)) {
		_, hard := v.c.EvictionHard[signal]
		_, soft := v.c.EvictionSoft[signal]
		if hard || soft || usable(signal) != nil || v.isBroken(hardField, signal) || v.isBroken(softField, signal) {
			continue
		}
		v.add(field.Invalid(field.NewPath(reclaimField).Key(signal), v.c.EvictionMinimumReclaim[signal],
			"has no threshold: add one to evictionHard or evictionSoft, or remove this"))
	}
}

// reclaimsEnd refuses a reclaim that, on top of the threshold, is the whole node:
// such a pressure would never be over.
func (v *validator) reclaimsEnd(reclaims map[string]value, name string, thresholds map[string]value) {
	for _, signal := range slices.Sorted(maps.Keys(reclaims)) {
		reclaim, threshold := reclaims[signal], thresholds[signal]
		if !reclaim.relative || !threshold.relative || reclaim.fraction+threshold.fraction < 1 {
			continue
		}
		v.add(field.Invalid(field.NewPath(reclaimField).Key(signal), v.c.EvictionMinimumReclaim[signal],
			fmt.Sprintf("must be less than 100%% together with %s %s, or a pressure would never be over",
				name, thresholdTexts(v.c, name)[signal])))
	}
}

// thresholdTexts returns one of the two threshold maps by its name.
func thresholdTexts(c *EvictdConfiguration, name string) map[string]string {
	if name == softField {
		return c.EvictionSoft
	}
	return c.EvictionHard
}
