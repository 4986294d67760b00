package config

import (
	"cmp"
	"maps"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/rank"
)

// stallWindowDefault is the shortest window of the kernel's own triggers without
// privileges, and long enough that one reclaim is no pressure.
const stallWindowDefault = 2 * time.Second

// Default returns the whole default configuration, a new one at each call. Its thresholds lie
// before the kubelet's own defaults for Linux (memory.available 100Mi, of which it makes
// allocatableMemory.available 100Mi where the pods' cgroup has a limit, nodefs.available 10%,
// nodefs.inodesFree 5%, imagefs.available 15%, imagefs.inodesFree 5%), which remain as the
// backstop. The default of imagefs.available is not met before the kubelet collects images by
// default (imageGCHighThresholdPercent 85, a whole percentage), so that the collection has begun,
// or begins within five minutes, when evictd holds because unused images cover what is missing.
// Whatever the threshold is, a pod is evicted for what they hold only if the kubelet does not
// remove them in time, or if what they hold is not known (internal/measure/images.go).
func Default() *EvictdConfiguration {
	return &EvictdConfiguration{
		APIVersion: APIVersion,
		Kind:       Kind,
		DryRun:     true,
		EvictionHard: map[string]string{
			"memory.available":            "5%",
			"allocatableMemory.available": "5%",
			"nodefs.available":            "12%",
			"nodefs.inodesFree":           "6%",
			"imagefs.available":           "16%",
			"imagefs.inodesFree":          "6%",
		},
		EvictionSoft: map[string]string{"memory.available": "10%", "allocatableMemory.available": "10%"},
		EvictionSoftGracePeriod: map[string]metav1.Duration{
			"memory.available": {Duration: 30 * time.Second}, "allocatableMemory.available": {Duration: 30 * time.Second},
		},
		EvictionMinimumReclaim: map[string]string{},
		// The kubelet's default, which it also takes 0 for (SetDefaults_KubeletConfiguration,
		// pkg/kubelet/apis/config/v1beta1).
		EvictionPressureTransitionPeriod: metav1.Duration{Duration: 5 * time.Minute},
		EvictionOverdueGracePeriod:       60,
		MemoryAvailable:                  pressure.Kernel,
		Sampling: Sampling{
			MinInterval: metav1.Duration{Duration: 10 * time.Millisecond},
			MaxInterval: metav1.Duration{Duration: time.Second},
		},
		DisruptionBudgets: BudgetsRespect,
		Protect: Protect{
			DaemonSets:      true,
			BarePods:        true,
			PinnedPods:      true,
			Annotations:     AnnotationsSoft,
			PriorityAtLeast: rank.SystemCriticalPriority,
			Namespaces:      []string{"kube-system"},
			WithinRequests:  decide.WithinRequestsUntilExhaustion,
		},
		Limits: Limits{
			EvictionsPerMinute: 6, PerOwnerPerHour: 5,
			SoftJitter: metav1.Duration{Duration: 5 * time.Second},
		},
		TaintNode: TaintOff,
		Disk:      Disk{Source: DiskSummary, CPU: "200m"},
	}
}

// base is what a file is decoded over: the defaults, without those for which
// "not in the file" and "empty in the file" differ. complete fills these in.
func base() *EvictdConfiguration {
	c := Default()
	c.APIVersion, c.Kind = "", ""
	c.EvictionHard, c.EvictionSoft, c.EvictionSoftGracePeriod = nil, nil, nil
	c.Sampling = Sampling{}
	return c
}

// complete fills in what the file left out. A nil map is one that the file does not have, or has as null.
func (c *EvictdConfiguration) complete() {
	defaults := Default()
	c.EvictionPressureTransitionPeriod = cmp.Or(c.EvictionPressureTransitionPeriod, defaults.EvictionPressureTransitionPeriod)
	if c.MemoryStall != nil {
		c.MemoryStall.Type = cmp.Or(c.MemoryStall.Type, StallFull)
		c.MemoryStall.Window = cmp.Or(c.MemoryStall.Window, metav1.Duration{Duration: stallWindowDefault})
	}
	// The bound of sampling that the file left out gives way to the one that it has.
	low, high := &c.Sampling.MinInterval.Duration, &c.Sampling.MaxInterval.Duration
	*high = cmp.Or(*high, min(max(defaults.Sampling.MaxInterval.Duration, *low), maxIntervalHighest))
	*low = cmp.Or(*low, max(min(defaults.Sampling.MinInterval.Duration, *high), minIntervalLowest))
	// The maps of thresholds belong together: a default beside values of the user's could contradict
	// them, so there are soft thresholds by default only where all thresholds are the defaults.
	// Hard ones stand in for a missing evictionHard as in the kubelet.
	if c.EvictionHard != nil || c.EvictionSoft != nil {
		defaults.EvictionSoft, defaults.EvictionSoftGracePeriod = map[string]string{}, map[string]metav1.Duration{}
	}
	if c.EvictionHard == nil {
		c.EvictionHard = hardBelow(defaults.EvictionHard, c.EvictionSoft)
	}
	if c.EvictionSoft == nil {
		c.EvictionSoft = defaults.EvictionSoft
	}
	// A file may lengthen the grace period of one default threshold and leave out the others. These
	// keep theirs; otherwise the default would make the file invalid.
	maps.Copy(defaults.EvictionSoftGracePeriod, c.EvictionSoftGracePeriod)
	c.EvictionSoftGracePeriod = defaults.EvictionSoftGracePeriod
}

// hardBelow returns the default hard thresholds without those that might act
// before a soft threshold that the user chose for the same signal. A percentage
// and an amount cannot be compared without a node, so there the user's stands
// alone; the kubelet's own hard threshold is behind it.
func hardBelow(hard, soft map[string]string) map[string]string {
	maps.DeleteFunc(hard, func(signal, text string) bool {
		q, err := ParseThreshold(soft[signal]) // an error where there is none
		return err == nil && !q.IsZero() && share(soft[signal]) <= share(text)
	})
	return hard
}
