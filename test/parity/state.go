package parity

import (
	"maps"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evictd/evictd/internal/config"
	"github.com/evictd/evictd/pkg/pressure"
)

// Layout says which filesystems the node has.
type Layout string

// The layouts.
const (
	// OneFS: nodefs, images and writable layers are one filesystem.
	OneFS Layout = "one"
	// ImageFS: images and writable layers have their own filesystem.
	ImageFS Layout = "images"
	// SplitFS: images have their own filesystem, writable layers are on nodefs. Only CRI-O
	// reports it.
	SplitFS Layout = "split"
)

// State is a node over a few readings: its configuration, its pods and the readings. It
// consists of plain values, so that a failing state can be printed.
type State struct {
	// Seed is the seed of a generated state; 0 for a handwritten one.
	Seed uint64 `json:"seed,omitempty"`
	// Thresholds are the texts of the configuration for both.
	Thresholds Thresholds `json:"thresholds"`
	Layout     Layout     `json:"layout"`
	// Protect are evictd's configured protections; Self is the name of evictd's own pod.
	Protect config.Protect `json:"protect"`
	Self    string         `json:"self,omitempty"`
	Pods    []Pod          `json:"pods"`
	// Readings are the readings of the node, in order.
	Readings []Reading `json:"readings"`
	// KubeletMemory says that evictd's thresholds on memory.available are thresholds on
	// kubeletMemory.available, beside its default measure of memory.
	KubeletMemory bool `json:"kubeletMemory,omitempty"`

	turn func(*oracle) // is called before each reading and after the last; nil is not
}

// Thresholds are the texts of one configuration, by signal, in the syntax of both.
type Thresholds struct {
	Hard    map[string]string `json:"evictionHard,omitempty"`
	Soft    map[string]string `json:"evictionSoft,omitempty"`
	Grace   map[string]string `json:"evictionSoftGracePeriod,omitempty"`
	Reclaim map[string]string `json:"evictionMinimumReclaim,omitempty"`
	// Transition is evictionPressureTransitionPeriod.
	Transition time.Duration `json:"transition"`
}

// unprotected is evictd's default without the protections that the kubelet does not have and a state may.
func unprotected() config.Protect {
	p := config.Default().Protect
	p.DaemonSets, p.BarePods, p.Namespaces = false, false, nil
	return p
}

// Reading is one reading of the node.
type Reading struct {
	// After is the time since the previous reading. 0 repeats the reading.
	After time.Duration `json:"after"`
	// Figures are the readings by signal; a signal that is missing is unknown.
	Figures map[string]Figure `json:"figures"`

	cleaned map[string]Figure // once unused images are removed; nil: there are none
}

// Figure is one signal's reading.
type Figure struct {
	Available int64 `json:"available"`
	Capacity  int64 `json:"capacity"`
}

// configuration returns the state's configuration as evictd loads it.
func (s *State) configuration() *config.EvictdConfiguration {
	c := config.Default()
	c.EvictionHard, c.EvictionSoft = s.Thresholds.Hard, s.Thresholds.Soft
	c.EvictionSoftGracePeriod, c.EvictionMinimumReclaim = durations(s.Thresholds.Grace), s.Thresholds.Reclaim
	c.EvictionPressureTransitionPeriod.Duration = s.Thresholds.Transition
	c.MemoryAvailable = pressure.WorkingSet // the kubelet's; see MemoryMeasure
	if s.KubeletMemory {
		c.MemoryAvailable = pressure.Kernel
		for _, texts := range []*map[string]string{&c.EvictionHard, &c.EvictionSoft, &c.EvictionMinimumReclaim} {
			*texts = onKubeletMemory(*texts)
		}
		c.EvictionSoftGracePeriod = onKubeletMemory(c.EvictionSoftGracePeriod)
	}
	c.Protect = s.Protect
	return c
}

// durations returns the durations that texts are, which a state has as the kubelet takes them.
func durations(texts map[string]string) map[string]metav1.Duration {
	all := map[string]metav1.Duration{}
	for signal, text := range texts {
		d, err := time.ParseDuration(text)
		if err != nil {
			panic(err)
		}
		all[signal] = metav1.Duration{Duration: d}
	}
	return all
}

// onKubeletMemory returns the values with that of memory.available for kubeletMemory.available.
func onKubeletMemory[V any](values map[string]V) map[string]V {
	memory := pressure.MemoryAvailable.String()
	value, found := values[memory]
	if !found {
		return values
	}
	values = maps.Clone(values)
	delete(values, memory)
	values[pressure.KubeletMemoryAvailable.String()] = value
	return values
}

// start is when every state starts. The value is arbitrary; a constant makes a state
// repeatable.
func start() time.Time { return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC) }

// sample returns the sample that evictd's sampler would make of a reading.
func (r *Reading) sample(at time.Time, signals []pressure.Signal) pressure.Sample {
	sample := pressure.Sample{Time: at}
	for i := range sample.Observations {
		sample.Observations[i] = pressure.Observation{State: pressure.Absent}
	}
	for _, signal := range signals {
		figure, known := r.Figures[kubelets(signal)]
		switch {
		case !known:
			sample.Observations[signal] = pressure.Observation{State: pressure.Unknown}
		case signal.Unit() == pressure.Inodes && figure.Capacity == 0:
			// A filesystem that does not count inodes reports 0 of 0
			// (pkg/pressure/filesystem.go).
			sample.Observations[signal] = pressure.Observation{State: pressure.Absent}
		default:
			sample.Observations[signal] = pressure.Observation{
				State: pressure.Known, Available: figure.Available, Capacity: figure.Capacity,
			}
		}
	}
	return sample
}
