package config

import (
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/strictyaml"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/rank"
)

// The bounds of sampling. Faster than a millisecond, a sample costs more than the
// time between two; slower than ten seconds is the kubelet's own polling.
const (
	minIntervalLowest  = time.Millisecond
	maxIntervalHighest = 10 * time.Second
)

// softJitterLongest is as long as a jitter may be. After it the nodes of a large cluster
// are apart enough, and all of them are still waiting for relief.
const softJitterLongest = time.Minute

// walkCoresLowest is the least CPU of a walk through the files. With less its figures would be stale before it ends.
const walkCoresLowest = 0.01

// validate checks every block, nearly in the order of the fields of EvictdConfiguration.
func (f *faults) validate(c *EvictdConfiguration) {
	strictyaml.OneOf(&f.Faults, field.NewPath("apiVersion"), c.APIVersion, APIVersion)
	strictyaml.OneOf(&f.Faults, field.NewPath("kind"), c.Kind, Kind)
	f.lines(c)
	f.gracePeriods(c)
	strictyaml.OneOf(&f.Faults, field.NewPath("memoryAvailable"), c.MemoryAvailable, pressure.Kernel, pressure.WorkingSet)
	f.sampling(field.NewPath("sampling"), &c.Sampling)
	strictyaml.OneOf(&f.Faults, field.NewPath("disruptionBudgets"), c.DisruptionBudgets, BudgetsBestEffort, BudgetsRespect)
	f.protect(field.NewPath("protect"), &c.Protect)
	f.queues(field.NewPath("queues"), c.Queues, nil, 1)
	f.limits(field.NewPath("limits"), &c.Limits)
	strictyaml.OneOf(&f.Faults, field.NewPath("taintNode"), c.TaintNode, TaintHard, TaintOff, TaintSoft)
	f.disk(field.NewPath("disk"), c)
}

func (f *faults) gracePeriods(c *EvictdConfiguration) {
	const own = ": 0 leaves the pod its own grace period"
	strictyaml.AtLeast(&f.Faults, field.NewPath("evictionPressureTransitionPeriod"), c.EvictionPressureTransitionPeriod.Duration, 0, "")
	strictyaml.AtLeast(&f.Faults, field.NewPath("evictionMaxPodGracePeriod"), c.EvictionMaxPodGracePeriod, 0, own)
	strictyaml.AtLeast(&f.Faults, field.NewPath("evictionHardPodGracePeriod"), c.EvictionHardPodGracePeriod, 0, own)
	strictyaml.AtLeast(&f.Faults, field.NewPath("evictionOverdueGracePeriod"), c.EvictionOverdueGracePeriod, 0, ": 0 asks no victim again")
}

func (f *faults) sampling(path *field.Path, s *Sampling) {
	low := s.MinInterval.Duration
	strictyaml.Between(&f.Faults, path.Child("minInterval"), low, minIntervalLowest, maxIntervalHighest, "")
	strictyaml.Between(&f.Faults, path.Child("maxInterval"), s.MaxInterval.Duration, min(max(low, minIntervalLowest), maxIntervalHighest), maxIntervalHighest,
		", and not shorter than minInterval")
}

func (f *faults) protect(path *field.Path, p *Protect) {
	strictyaml.Between(&f.Faults, path.Child("priorityAtLeast"), p.PriorityAtLeast, 1, rank.SystemCriticalPriority,
		"; a pod of a higher priority is protected in any case")
	strictyaml.OneOf(&f.Faults, path.Child("annotations"), p.Annotations, AnnotationsIgnore, AnnotationsSoft)
	strictyaml.AtLeast(&f.Faults, path.Child("minAge"), p.MinAge.Duration, 0, "")
	for i, namespace := range p.Namespaces {
		if wrong := validation.IsDNS1123Label(namespace); len(wrong) > 0 {
			f.Invalid(path.Child("namespaces").Index(i), namespace,
				"must be the name of a namespace, without patterns: "+strings.Join(wrong, "; "))
		}
	}
	strictyaml.OneOf(&f.Faults, path.Child("withinRequests"), p.WithinRequests, decide.WithinRequestsAlways, decide.WithinRequestsNever, decide.WithinRequestsUntilExhaustion)
	f.selector(path.Child("podSelector"), &p.PodSelector)
}

func (f *faults) limits(path *field.Path, l *Limits) {
	strictyaml.AtLeast(&f.Faults, path.Child("evictionsPerMinute"), l.EvictionsPerMinute, 1, ": use dryRun to evict no pod")
	strictyaml.AtLeast(&f.Faults, path.Child("perOwnerPerHour"), l.PerOwnerPerHour, 1, ": use dryRun to evict no pod")
	strictyaml.Between(&f.Faults, path.Child("softJitter"), l.SoftJitter.Duration, 0, softJitterLongest,
		"; a soft threshold that should wait longer has a longer grace period")
}

func (f *faults) disk(path *field.Path, c *EvictdConfiguration) {
	strictyaml.OneOf(&f.Faults, path.Child("source"), c.Disk.Source, DiskSummary, DiskNode)
	if cores := c.WalkCores(); cores < walkCoresLowest || cores > 1 {
		f.Invalid(path.Child("cpu"), c.Disk.CPU, `must be an amount of CPU between 10m and 1, such as "200m"`)
	}
}

// WalkCores returns disk.cpu in cores; 0 where it is no amount.
func (c *EvictdConfiguration) WalkCores() float64 {
	cpu, _ := quantityOf(c.Disk.CPU)
	return cpu.AsApproximateFloat64()
}
