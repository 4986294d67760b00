package config

import (
	"errors"
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

// softJitterLongest is as long as a jitter may be. After it the nodes of a large cluster
// are apart enough, and all of them are still waiting for relief.
const softJitterLongest = time.Minute

// The bounds of a walk through the files. With less CPU its figures would be stale before it ends.
const (
	walkCPULowest      = 10 // thousandths of a core
	walkWorkersHighest = 16
)

// Validate returns nil, or an *[InvalidError] with every fault of the values. It
// completes nothing: an empty field that a file could leave out is a fault here.
func (c *EvictdConfiguration) Validate() error {
	f := &faults{}
	f.validate(c)
	return f.err()
}

// validate checks every block, nearly in the order of the fields of EvictdConfiguration.
func (f *faults) validate(c *EvictdConfiguration) {
	f.header(c.APIVersion, c.Kind)
	f.lines(c)
	f.gracePeriods(c)
	oneOf(f, field.NewPath("memoryAvailable"), c.MemoryAvailable, MemoryKernel, MemoryWorkingSet)
	f.sampling(field.NewPath("sampling"), &c.Sampling)
	oneOf(f, field.NewPath("disruptionBudgets"), c.DisruptionBudgets, BudgetsBestEffort, BudgetsRespect)
	f.protect(field.NewPath("protect"), &c.Protect)
	f.queues(field.NewPath("queues"), c.Queues, nil, 1)
	f.limits(field.NewPath("limits"), &c.Limits)
	f.disk(field.NewPath("disk"), &c.Disk)
}

func (f *faults) header(apiVersion, kind string) {
	oneOf(f, field.NewPath("apiVersion"), apiVersion, APIVersion)
	oneOf(f, field.NewPath("kind"), kind, Kind)
}

func (f *faults) gracePeriods(c *EvictdConfiguration) {
	const own = ": 0 leaves the pod its own grace period"
	atLeast(f, field.NewPath("evictionPressureTransitionPeriod"), c.EvictionPressureTransitionPeriod.Duration, 0, "")
	atLeast(f, field.NewPath("evictionMaxPodGracePeriod"), c.EvictionMaxPodGracePeriod, 0, own)
	atLeast(f, field.NewPath("evictionHardPodGracePeriod"), c.EvictionHardPodGracePeriod, 0, own)
	atLeast(f, field.NewPath("evictionOverdueGracePeriod"), c.EvictionOverdueGracePeriod, 0, ": 0 asks no victim again")
}

func (f *faults) sampling(path *field.Path, s *Sampling) {
	low := s.MinInterval.Duration
	between(f, path.Child("minInterval"), low, minIntervalLowest, maxIntervalHighest, "")
	between(f, path.Child("maxInterval"), s.MaxInterval.Duration, min(max(low, minIntervalLowest), maxIntervalHighest), maxIntervalHighest,
		", and not shorter than minInterval")
}

func (f *faults) protect(path *field.Path, p *Protect) {
	between(f, path.Child("priorityAtLeast"), p.PriorityAtLeast, 1, rank.SystemCriticalPriority,
		"; a pod of a higher priority is protected in any case")
	for i, namespace := range p.Namespaces {
		if wrong := validation.IsDNS1123Label(namespace); len(wrong) > 0 {
			f.invalid(path.Child("namespaces").Index(i), namespace,
				"must be the name of a namespace, without patterns: "+strings.Join(wrong, "; "))
		}
	}
	oneOf(f, path.Child("withinRequests"), p.WithinRequests, WithinRequestsAlways, WithinRequestsNever, WithinRequestsUntilExhaustion)
	f.selector(path.Child("podSelector"), &p.PodSelector)
	f.namespacePatterns(path.Child("annotationNamespaces"), p.AnnotationNamespaces, nil)
}

func (f *faults) limits(path *field.Path, l *Limits) {
	atLeast(f, path.Child("evictionsPerMinute"), l.EvictionsPerMinute, 1, ": use dryRun to evict no pod")
	atLeast(f, path.Child("perOwnerPerHour"), l.PerOwnerPerHour, 1, ": use dryRun to evict no pod")
	between(f, path.Child("softJitter"), l.SoftJitter.Duration, 0, softJitterLongest,
		"; a soft threshold that should wait longer has a longer grace period")
}

func (f *faults) disk(path *field.Path, d *Disk) {
	oneOf(f, path.Child("source"), d.Source, DiskSummary, DiskNode)
	between(f, path.Child("workers"), d.Workers, 1, walkWorkersHighest, "")
	if _, err := d.milliCPU(); err != nil {
		f.invalid(path.Child("cpu"), d.CPU, err.Error())
	}
}

func (d *Disk) milliCPU() (int64, error) {
	cpu, err := ParseQuantity(d.CPU)
	if err != nil {
		return 0, errors.New(`must be an amount of CPU, such as "200m"`)
	}
	const milliPerWorker = 1000
	workers := int64(max(d.Workers, 1))
	if milli := cpu.MilliValue(); milli >= walkCPULowest && milli <= workers*milliPerWorker {
		return milli, nil
	}
	return 0, fmt.Errorf("must be between %dm and %d, one core for each of disk.workers", walkCPULowest, workers)
}

// WalkCores returns disk.cpu in cores. A value that is not valid is one core.
func (c *EvictdConfiguration) WalkCores() float64 {
	const thousandths = 1000
	milli, err := c.Disk.milliCPU()
	if err != nil {
		return 1
	}
	return float64(milli) / thousandths
}
