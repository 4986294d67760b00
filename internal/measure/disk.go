package measure

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/nodepods"
	"github.com/evictd/evictd/internal/wording"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/usage"
)

// DiskFresh is how old a measurement of the pods' disk use may be for a decision, and DiskTimeout
// how long one may take. The kubelet itself computes these figures once a minute. A measurement as
// old as diskRefresh is repeated. It remains valid until the next one is there, with a margin for
// the ticks at both ends; otherwise a lasting pressure would be without a measurement whenever one
// takes long.
const (
	diskRefresh = 10 * time.Second
	DiskTimeout = 10 * time.Second
	DiskFresh   = diskRefresh + DiskTimeout + 5*time.Second
)

// Reading is one measurement of the pods' disk use. The zero value knows of no pod.
type Reading struct {
	// Uses is by the UID of the API server, or the one that the pod has on its node; nil
	// where there is an Err.
	Uses map[string]usage.DiskUse
	Err  error
	// At is when the measurement was requested.
	At time.Time
}

// diskReading is what is known of the pods' disk use: the last measurement, and whether another one is
// under way. The zero value has no measurement.
type diskReading struct {
	Reading

	asked bool
}

// Measured returns the channel of the requested measurements of the disks; each of them goes to
// [Measurer.Observe].
func (m *Measurer) Measured() <-chan Reading { return m.measured }

// Observe takes a measurement of the disks.
func (m *Measurer) Observe(reading Reading) {
	m.disk.Reading, m.disk.asked = reading, false
	if reading.Err != nil {
		m.options.Fault(SourceDisk, reading.Err)
	}
}

// disks uses the last measurement when it is fresh and newer than the query requires. Otherwise it
// requests a new one, because a measurement must not delay the loop.
func (m *Measurer) disks(ctx context.Context, q *Query) (*decide.Uses, decide.Hold, string) {
	if m.options.Disk == nil {
		return nil, decide.HoldUsageUnknown, "this agent has no source for the pods' disk use"
	}
	p := q.Pressure
	m.Prepare(ctx, q)
	if p.SampleTime.Sub(m.disk.At) >= DiskFresh || !m.current(q) {
		return nil, decide.HoldUsageUnknown, "measuring the pods' disk use"
	}
	if m.disk.Err != nil {
		return nil, decide.HoldUsageUnknown, fmt.Sprintf("measuring the pods' disk use: %v", m.disk.Err)
	}
	before := figuresBefore(p, q.Pods, m.disk.Uses)
	if hold, detail := before.awaitNewer(p); hold != decide.HoldNone {
		return nil, hold, detail
	}
	uses := DiskUses(p.Threshold.Signal, q.Pods, m.disk.Uses, q.Enough)
	if text := before.text(p); text != "" {
		uses.Notes = []string{text}
	}
	return uses, decide.HoldNone, ""
}

// Prepare requests the measurement that a decision about a disk needs, unless the last one serves. So it
// is there when a decision has waited for something else.
func (m *Measurer) Prepare(ctx context.Context, q *Query) {
	p, every := q.Pressure, diskRefresh
	if !p.Threshold.Signal.OnDisk() {
		return
	}
	if !m.current(q) {
		every = 0
	}
	m.RefreshDisk(ctx, p.SampleTime, q.Pods, every)
}

// current reports whether the last measurement was requested since the pressure began, and after what
// the query names.
func (m *Measurer) current(q *Query) bool {
	return m.disk.At.After(q.NewerThan) && !m.disk.At.Before(q.Pressure.Since)
}

// RefreshDisk requests a measurement of the disks when the last one is as old as every, or older.
func (m *Measurer) RefreshDisk(ctx context.Context, now time.Time, pods []*nodepods.Pod, every time.Duration) {
	if m.options.Disk != nil && now.Sub(m.disk.At) >= every {
		m.askDisk(ctx, now, pods)
	}
}

// askDisk starts a measurement unless one is under way.
func (m *Measurer) askDisk(ctx context.Context, now time.Time, pods []*nodepods.Pod) {
	if m.disk.asked {
		return
	}
	m.disk.asked = true
	go func() {
		bounded, cancel := context.WithTimeout(ctx, DiskTimeout)
		defer cancel()
		measured, err := m.options.Disk.Measure(bounded, pods)
		m.measured <- Reading{Uses: measured, Err: err, At: now}
	}()
}

// LastOnDisk returns what the end of a pod should free of the disks by the last measurement,
// however old; false where it was not measured. Its UIDs are the API server's and its cgroup's.
func (m *Measurer) LastOnDisk(uid, cgroup string) (pressure.Amounts, bool) {
	u, known := measuredOf(m.disk.Uses, uid, cgroup)
	if !known {
		return pressure.Amounts{}, false
	}
	return diskExpected(&u), true
}

// DiskUses joins what was measured with the pods. Enough is [Query.Enough].
func DiskUses(signal pressure.Signal, pods []*nodepods.Pod, measured map[string]usage.DiskUse, enough int64) *decide.Uses {
	uses := &decide.Uses{ByUID: make(map[string]decide.Use, len(pods))}
	for _, pod := range pods {
		u, known := measuredOf(measured, pod.UID, pod.CgroupUID)
		if known {
			uses.ByUID[pod.UID] = diskUse(signal, &u, enough)
		}
		if pod.Finished {
			continue
		}
		uses.Disk = append(uses.Disk, u)
		if _, exact := amountUsed(signal, filesystemOf(signal, &u)); !exact {
			uses.Incomplete = append(uses.Incomplete, decide.Unmeasured{
				Pod: pod.Key(), Why: whyUnmeasured(&u, known), Told: u.Reason != "",
			})
		}
	}
	slices.SortFunc(uses.Incomplete, func(a, b decide.Unmeasured) int { return strings.Compare(a.Pod, b.Pod) })
	return uses
}

// measuredOf returns what was measured of a pod: a static one has another UID on its node.
func measuredOf(measured map[string]usage.DiskUse, uid, cgroup string) (usage.DiskUse, bool) {
	if u, known := measured[uid]; known {
		return u, true
	}
	u, known := measured[cgroup]
	return u, known
}

// whyUnmeasured says why a pod was not measured: it cannot start, rights are missing, or the time
// was too short.
func whyUnmeasured(u *usage.DiskUse, known bool) string {
	switch {
	case !known:
		return "no figures, as of a pod that has not started"
	case u.Reason == "":
		return "the kubelet does not have all its figures yet"
	default:
		return wording.OneLine(u.Reason)
	}
}

// diskUse picks the filesystem that is pressed. What a pod's end frees there is
// all that it uses there: its layers, logs and local volumes go with it. A pod of which
// only a part was counted is known when that part is enough.
func diskUse(signal pressure.Signal, u *usage.DiskUse, enough int64) decide.Use {
	amount, exact := amountUsed(signal, filesystemOf(signal, u))
	expected := diskExpected(u)
	if !exact && enough > 0 && amount >= enough {
		exact, expected = true, expected.With(signal, amount)
	}
	return decide.Use{Value: amount, Known: exact, Expected: expected}
}

// diskExpected leaves out what is not known: it is not relied on.
func diskExpected(u *usage.DiskUse) pressure.Amounts {
	var expected pressure.Amounts
	for _, signal := range pressure.Signals() {
		if !signal.OnDisk() {
			continue
		}
		if amount, exact := amountUsed(signal, filesystemOf(signal, u)); exact {
			expected = expected.With(signal, amount)
		}
	}
	return expected
}
