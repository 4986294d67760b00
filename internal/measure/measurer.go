// Package measure answers what the pods use now of a signal, and what a pod's end should free, with the
// time of each figure. It decides nothing: what is missing or too old is decide's to judge.
package measure

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/kubeletconfig"
	"github.com/evictd/evictd/internal/nodepods"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/usage"
)

// Sources of readings, for [Options.Fault].
const (
	// SourceUsage are the pods' cgroups.
	SourceUsage = "Usage"
	// SourceDisk is the pods' disk use, from either source.
	SourceDisk = "Disk"
	// SourceImages is what images hold that no pod uses.
	SourceImages = "Images"
)

// Cgroups reads what the pods use.
type Cgroups interface {
	// Collect returns one entry of memory and tasks for each pod that was read; an error names the others.
	Collect(into []usage.Pod, standIn usage.StandIn) ([]usage.Pod, error)
	// Stalls returns how long each pod has waited for memory, and how often it met
	// its own limits; an error names pods that are missing.
	Stalls() ([]usage.Stall, error)
	// Present reports whether the pod's cgroup is still there.
	Present(uid string) (bool, error)
}

// Disk measures what is on the node's disks. It may take seconds; an error means that nothing is known.
type Disk interface {
	// Measure returns the pods' disk use by the UIDs of their cgroups.
	Measure(ctx context.Context, pods []*nodepods.Pod) (map[string]usage.DiskUse, error)
	// Unused counts what images hold that no pod of the node uses.
	Unused(ctx context.Context, pods []*nodepods.Pod) (UnusedImages, error)
}

// Options are where a Measurer reads.
type Options struct {
	Cgroups Cgroups
	Disk    Disk
	// Fault receives the error of each source that could not be read.
	Fault func(source string, err error)
}

// Measurer answers what the pods use now. It belongs to one goroutine; what takes long is
// read by goroutines of its own, and nothing waits for them.
type Measurer struct {
	options    Options
	definition pressure.MemoryDefinition

	read        []usage.Pod                      // what was read last; the next reading writes over it
	fault       error                            // of that
	readAt      time.Time                        // when that was
	wholeAt     time.Time                        // when nothing stood in for a pod
	lastRead    map[string]datedPod              // by the UIDs of the cgroups; what is too old to stand in is forgotten
	podsBefore  earlier[map[string]datedPod]     // the same, for how much each has grown
	unreadTimes [pressure.PIDKind + 1]unreadTime // of memory and of PIDs
	stalls      [2]stallReading                  // the two last, so that recent stalls can be distinguished from older ones
	disk        source[map[string]usage.DiskUse]
	diskBefore  earlier[map[string]usage.DiskUse]
	images      imageCount
	measured    chan func() // holds an answer of each source
}

// New returns a Measurer that has read nothing.
func New(options Options) *Measurer {
	return &Measurer{
		options: options, lastRead: map[string]datedPod{}, measured: make(chan func(), 2),
		disk:   source[map[string]usage.DiskUse]{name: SourceDisk, timeout: decide.DiskTimeout},
		images: imageCount{source: source[UnusedImages]{name: SourceImages, timeout: decide.ImagesTimeout}},
	}
}

// Reading is what a source says that takes long. The zero value knows nothing.
type Reading[T any] struct {
	// Figures are nothing where there is an Err.
	Figures T
	Err     error
	// At is when it was requested; the zero time is no reading.
	At time.Time
}

// source is what takes long to read. It has one question at a time: one that hangs is not asked again.
type source[T any] struct {
	name    string // for [Options.Fault]
	timeout time.Duration
	asked   time.Time // when it was asked last; long ago before
	pending bool      // it has not answered since
	last    Reading[T]
	known   Reading[T] // the last without an error
}

// ask asks on a goroutine of its own, because a measurement must not delay the loop, unless an answer is pending or the
// last question is younger than every.
func (s *source[T]) ask(
	ctx context.Context, m *Measurer, now time.Time, every time.Duration, pods []*nodepods.Pod,
	read func(context.Context, []*nodepods.Pod) (T, error),
) {
	if s.pending || now.Sub(s.asked) < every {
		return
	}
	s.asked, s.pending = now, true
	go func() {
		bounded, cancel := context.WithTimeout(ctx, s.timeout)
		defer cancel()
		figures, err := read(bounded, pods)
		m.measured <- func() { s.take(Reading[T]{figures, err, now}, m.options.Fault) }
	}()
}

// take takes an answer.
func (s *source[T]) take(reading Reading[T], fault func(source string, err error)) {
	if s.last, s.pending = reading, false; reading.Err != nil {
		fault(s.name, reading.Err)
		return
	}
	s.known = reading
}

// Measured returns the channel of the answers. The loop calls each of them: it takes what was measured.
func (m *Measurer) Measured() <-chan func() { return m.measured }

// Adopt puts in force how memory.available is measured, and the configuration of the kubelet, which says when it removes
// images; no pod waits for that by the zero one.
func (m *Measurer) Adopt(definition pressure.MemoryDefinition, kubelet kubeletconfig.Configuration) {
	m.definition, m.images.kubelet = definition, kubelet
}

// Uses returns what the pods use of the pressed resource, as far as it is known.
func (m *Measurer) Uses(ctx context.Context, s *decide.Situation) *decide.Uses {
	if s.Pressure.Threshold.Signal.OnDisk() {
		return m.disks(ctx, s)
	}
	return m.cgroups(s)
}

// Held returns what each pod's end should free of memory and tasks, by the UID of its cgroup, without a
// replacement for one that could not be read: then there is an error.
func (m *Measurer) Held(now time.Time) (map[string]pressure.Amounts, error) {
	m.collect(now, nil)
	held := make(map[string]pressure.Amounts, len(m.read))
	for i := range m.read {
		held[m.read[i].UID] = Expected(&m.read[i], m.definition)
	}
	return held, m.fault
}

// Present reports whether a pod's cgroup is there; known is false where that could not be read.
func (m *Measurer) Present(uid string) (there, known bool) {
	there, err := m.options.Cgroups.Present(uid)
	if err != nil {
		m.options.Fault(SourceUsage, err)
	}
	return there, err == nil
}

// Recent returns what the pods' cgroups say, or said at most that long ago, as for a decision. The result is valid until
// the next reading.
func (m *Measurer) Recent(now time.Time, age time.Duration) ([]usage.Pod, error) {
	if now.Sub(m.readAt) > age {
		m.collect(now, nil)
	}
	return m.read, m.fault
}

// collect reads the pods' cgroups.
func (m *Measurer) collect(now time.Time, standIn usage.StandIn) {
	if m.readAt = now; standIn == nil {
		m.wholeAt = now
	}
	if m.read, m.fault = m.options.Cgroups.Collect(m.read[:0], standIn); m.fault != nil {
		m.options.Fault(SourceUsage, m.fault)
	}
	for i := range m.read {
		if !m.read[i].Earlier {
			m.lastRead[m.read[i].UID] = datedPod{pod: m.read[i], at: now}
		}
	}
	if standIn == nil {
		m.podsBefore.note(now, func() map[string]datedPod { return maps.Clone(m.lastRead) })
	}
	maps.DeleteFunc(m.lastRead, func(_ string, r datedPod) bool { return now.Sub(r.at) >= decide.ReadingMaxAge })
}

// cgroups reads the pods' cgroups. Pods that could not be read and that no earlier reading
// stands in for are left out, and so protected.
func (m *Measurer) cgroups(s *decide.Situation) *decide.Uses {
	m.collect(s.Pressure.SampleTime, m.standIns(s))
	read, missing := m.bridge(slices.Clip(m.read), m.fault, s.Pods)
	if m.fault != nil && len(read) == 0 {
		return &decide.Uses{Err: m.fault}
	}
	uses := CgroupUses(s.Pressure.Threshold.Signal, m.definition, s.Pods, read)
	uses.Unread = m.unread(s, missing)
	before, part := m.podsBefore.before(s.Pressure.SampleTime)
	addGrowth(uses, s.Pods, part, func(uid string) (amount int64, known bool) {
		had, read := before[uid]
		amount, known = amountOf(s.Pressure.Threshold.Signal, m.definition, &had.pod)
		return amount, known && read
	})
	return uses
}

// WarmUp reads the pods' cgroups without a decision, once every [decide.ReadingMaxAge]. Otherwise the first
// decision of a process, which may come after a month, would open three files for each pod just when the node
// has no memory left, no reading would stand in for one that fails, and what cannot be read would be noticed
// only then. It goes on under pressure: a disk's may last for days, and its decisions read no cgroups.
func (m *Measurer) WarmUp(now time.Time) {
	if now.Sub(m.wholeAt) >= decide.ReadingMaxAge {
		m.collect(now, nil)
	}
}
