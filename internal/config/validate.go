package config

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/evictd/evictd/pkg/rank"
)

// The bounds of sampling. Faster than a millisecond, a sample costs more than the
// time between two; slower than ten seconds is the kubelet's own polling.
const (
	minIntervalLowest  = time.Millisecond
	maxIntervalHighest = 10 * time.Second
)

// The bounds of a stall's window. Within half a second a single reclaim is a stall;
// a minute is what the signal of available memory is for.
const (
	stallWindowShortest = 500 * time.Millisecond
	stallWindowLongest  = time.Minute
)

// softJitterLongest is as long as a jitter may be. After it the nodes of a large cluster
// are apart enough, and all of them are still waiting for relief.
const softJitterLongest = time.Minute

// Validate returns nil, or an *[InvalidError] with every fault of the values. It
// completes nothing: an empty field that a file could leave out is a fault here.
func (c *EvictdConfiguration) Validate() error {
	v := &validator{c: c}
	v.validate()
	return invalid(v.faults)
}

// validator collects the faults of a configuration's values.
type validator struct {
	c *EvictdConfiguration
	// broken holds the paths of values that the file has and that could not be
	// decoded; nil when there was no file.
	broken map[string]bool
	faults field.ErrorList
}

// validate checks every block, in the order of the fields of EvictdConfiguration.
func (v *validator) validate() {
	v.header()
	v.thresholds()
	v.gracePeriods()
	v.memory()
	v.sampling()
	v.disruptionBudgets()
	v.protect()
	v.queues()
	v.limits()
	v.disk()
}

func (v *validator) add(fault *field.Error) { v.faults = append(v.faults, fault) }

// isBroken reports whether the file has the value, or what holds it, and it could
// not be decoded.
func (v *validator) isBroken(name, key string) bool {
	path := field.NewPath(name)
	return v.broken[path.String()] || v.broken[path.Key(key).String()]
}

func (v *validator) header() {
	v.mustBe(field.NewPath("apiVersion"), v.c.APIVersion, APIVersion)
	v.mustBe(field.NewPath("kind"), v.c.Kind, Kind)
}

func (v *validator) mustBe(path *field.Path, is, must string) {
	switch {
	case is == must || v.broken[path.String()]:
	case is == "":
		v.add(field.Required(path, "must be "+must))
	default:
		v.add(field.Invalid(path, is, "must be "+must+": this is not a file for this version of evictd"))
	}
}

func (v *validator) gracePeriods() {
	if d := v.c.EvictionPressureTransitionPeriod.Duration; d < 0 {
		v.add(field.Invalid(field.NewPath("evictionPressureTransitionPeriod"), d.String(), "must not be negative"))
	}
	v.notNegative("evictionMaxPodGracePeriod", v.c.EvictionMaxPodGracePeriod)
	v.notNegative("evictionHardPodGracePeriod", v.c.EvictionHardPodGracePeriod)
	v.notNegative("evictionOverdueGracePeriod", v.c.EvictionOverdueGracePeriod)
}

func (v *validator) notNegative(name string, seconds int32) {
	if seconds < 0 {
		v.add(field.Invalid(field.NewPath(name), seconds, "must not be negative: 0 leaves the pod its own grace period"))
	}
}

func (v *validator) memory() {
	switch v.c.MemoryAvailable {
	case MemoryKernel, MemoryWorkingSet:
	default:
		v.add(field.NotSupported(field.NewPath("memoryAvailable"), v.c.MemoryAvailable,
			[]MemoryAvailable{MemoryKernel, MemoryWorkingSet}))
	}
	if v.c.MemoryStall != nil {
		v.memoryStall(field.NewPath("memoryStall"), v.c.MemoryStall)
	}
}

func (v *validator) memoryStall(path *field.Path, stall *MemoryStall) {
	if stall.Type != StallSome && stall.Type != StallFull {
		v.add(field.NotSupported(path.Child("type"), stall.Type, []StallType{StallSome, StallFull}))
	}
	switch _, err := parseStall(stall.Threshold); {
	case err == nil || v.broken[path.Child("threshold").String()]:
	case stall.Threshold == "":
		v.add(field.Required(path.Child("threshold"), `a percentage of the window, such as "10%"`))
	default:
		v.add(field.Invalid(path.Child("threshold"), stall.Threshold, err.Error()))
	}
	switch window, pause := stall.Window.Duration, v.c.Sampling.MaxInterval.Duration; {
	case window < stallWindowShortest || window > stallWindowLongest:
		v.add(field.Invalid(path.Child("window"), window.String(),
			fmt.Sprintf("must be between %s and %s", stallWindowShortest, stallWindowLongest)))
	case window < pause:
		v.add(field.Invalid(path.Child("window"), window.String(),
			fmt.Sprintf("must not be shorter than sampling.maxInterval, %s: there would be no sample in between", pause)))
	}
}

func (v *validator) sampling() {
	path := field.NewPath("sampling")
	low, high := v.c.Sampling.MinInterval.Duration, v.c.Sampling.MaxInterval.Duration
	if low < minIntervalLowest {
		v.add(field.Invalid(path.Child("minInterval"), low.String(), "must be at least "+minIntervalLowest.String()))
	}
	switch {
	case high < minIntervalLowest:
		v.add(field.Invalid(path.Child("maxInterval"), high.String(), "must be at least "+minIntervalLowest.String()))
	case high > maxIntervalHighest:
		v.add(field.Invalid(path.Child("maxInterval"), high.String(), "must be at most "+maxIntervalHighest.String()))
	case high < low:
		v.add(field.Invalid(path.Child("maxInterval"), high.String(),
			fmt.Sprintf("must not be shorter than minInterval, %s", low)))
	}
}

func (v *validator) disruptionBudgets() {
	switch v.c.DisruptionBudgets {
	case BudgetsRespect, BudgetsBestEffort:
	default:
		v.add(field.NotSupported(field.NewPath("disruptionBudgets"), v.c.DisruptionBudgets,
			[]DisruptionBudgets{BudgetsBestEffort, BudgetsRespect}))
	}
}

func (v *validator) protect() {
	path := field.NewPath("protect")
	if p := v.c.Protect.PriorityAtLeast; p <= 0 || p > rank.SystemCriticalPriority {
		v.add(field.Invalid(path.Child("priorityAtLeast"), p,
			fmt.Sprintf("must be between 1 and %d; from %[1]d on a pod is protected in any case", rank.SystemCriticalPriority)))
	}
	for i, namespace := range v.c.Protect.Namespaces {
		if faults := validation.IsDNS1123Label(namespace); len(faults) > 0 {
			v.add(field.Invalid(path.Child("namespaces").Index(i), namespace,
				"must be the name of a namespace, without patterns: "+strings.Join(faults, "; ")))
		}
	}
	switch v.c.Protect.WithinRequests {
	case WithinRequestsUntilExhaustion, WithinRequestsAlways, WithinRequestsNever:
	default:
		v.add(field.NotSupported(path.Child("withinRequests"), v.c.Protect.WithinRequests,
			[]WithinRequests{WithinRequestsAlways, WithinRequestsNever, WithinRequestsUntilExhaustion}))
	}
	v.labelSelector(path.Child("podSelector"), &v.c.Protect.PodSelector)
	v.namespacePatterns(path.Child("annotationNamespaces"), v.c.Protect.AnnotationNamespaces, nil)
}

func (v *validator) limits() {
	path := field.NewPath("limits")
	v.atLeastOne(path.Child("evictionsPerMinute"), v.c.Limits.EvictionsPerMinute)
	v.atLeastOne(path.Child("perOwnerPerHour"), v.c.Limits.PerOwnerPerHour)
	if d := v.c.Limits.SoftJitter.Duration; d < 0 || d > softJitterLongest {
		v.add(field.Invalid(path.Child("softJitter"), d.String(),
			fmt.Sprintf("must be between 0s and %s; a soft threshold that should wait longer has a longer grace period", softJitterLongest)))
	}
}

func (v *validator) atLeastOne(path *field.Path, n int32) {
	if n < 1 {
		v.add(field.Invalid(path, n, "must be at least 1: use dryRun to evict no pod"))
	}
}
