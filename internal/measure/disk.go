package measure

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/nodepods"
	"github.com/evictd/evictd/internal/wording"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/usage"
)

// LastDisk returns the last measurement of the pods' disk use, by the UIDs of their cgroups; the zero value before the
// first.
func (m *Measurer) LastDisk() Reading[map[string]usage.DiskUse] { return m.disk.last }

// disks returns what the last measurement says, where it serves the decision. Unless it is new it requests
// another one.
func (m *Measurer) disks(ctx context.Context, s *decide.Situation) *decide.Uses {
	p, every, last := &s.Pressure, decide.DiskEvery, &m.disk.last
	serves := s.DiskServes(last.At)
	if !serves {
		every = 0
	}
	m.RefreshDisk(ctx, p.SampleTime, s.Pods, every)
	if !serves || last.Err != nil {
		return &decide.Uses{Requested: last.At, Err: last.Err}
	}
	uses, signal := DiskUses(p, s.Pods, last.Figures, s.Required()), p.Threshold.Signal
	before, part := m.diskBefore.before(last.At)
	addGrowth(uses, s.Pods, part, func(uid string) (amount int64, known bool) {
		had, was := before[uid]
		amount, known = amountUsed(signal, filesystemOf(signal, &had).Sum())
		return amount, known && was
	})
	uses.Requested = last.At
	return uses
}

// outdated names a pod whose figures are from before the pressure, with the age of these; "" for another. A time that
// is zero, or in the future because the clock was set back, is ignored.
func outdated(p *pressure.Pressure, pod *nodepods.Pod, at time.Time) string {
	if at.After(p.SampleTime) {
		at = time.Time{}
	}
	switch {
	case !latest(at).Before(p.Since):
		return ""
	case at.IsZero():
		return pod.Key() + " of unknown age"
	default:
		return fmt.Sprintf("%s %v old", pod.Key(), p.SampleTime.Sub(at).Round(time.Second))
	}
}

// latest returns the last moment at which a figure may have been taken. The times in a
// Summary have whole seconds, as the API's JSON has them: one without a part of a second was
// taken at any moment of it. The zero time stays zero.
func latest(at time.Time) time.Time {
	if at.IsZero() || at.Nanosecond() != 0 {
		return at
	}
	return at.Add(time.Second - time.Nanosecond)
}

// RefreshDisk requests a measurement of the disks when the last one is as old as every, or older, and none is
// under way.
func (m *Measurer) RefreshDisk(ctx context.Context, now time.Time, pods []*nodepods.Pod, every time.Duration) {
	m.disk.ask(ctx, m, now, every, pods, m.options.Disk.Measure)
	m.diskBefore.note(m.disk.known.At, func() map[string]usage.DiskUse { return m.disk.known.Figures })
}

// LastOnDisk returns what the end of the pod with that cgroup should free of the disks by the last
// measurement, however old; nothing where it was not measured.
func (m *Measurer) LastOnDisk(cgroupUID string) pressure.Amounts {
	u := m.disk.last.Figures[cgroupUID]
	return diskExpected(&u)
}

// DiskUses joins what was measured with the pods. Enough is what one pod must return to do alone, in the
// signal's unit; 0 where that is not the question. A pod of whose disk use only a part was counted is
// known when that suffices.
func DiskUses(p *pressure.Pressure, pods []*nodepods.Pod, measured map[string]usage.DiskUse, enough int64) *decide.Uses {
	signal, uses := p.Threshold.Signal, &decide.Uses{ByUID: make(map[string]decide.Use, len(pods))}
	for _, pod := range pods {
		u, known := measured[pod.CgroupUID]
		if known {
			uses.ByUID[pod.UID] = diskUse(signal, &u, enough)
		}
		if pod.Finished {
			continue
		}
		uses.Disk = append(uses.Disk, u)
		if _, exact := amountUsed(signal, filesystemOf(signal, &u).Sum()); !exact {
			uses.Incomplete = append(uses.Incomplete, pod.Key()+": "+whyUnmeasured(&u, known))
		} else if before := outdated(p, pod, u.Time); before != "" {
			uses.Outdated = append(uses.Outdated, before)
		}
	}
	slices.Sort(uses.Incomplete)
	slices.Sort(uses.Outdated)
	uses.Breakdown = breakdown(p, uses)
	return uses
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
// all that it uses there: its layers, logs and local volumes go with it.
func diskUse(signal pressure.Signal, u *usage.DiskUse, enough int64) decide.Use {
	amount, exact := amountUsed(signal, filesystemOf(signal, u).Sum())
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
		if amount, exact := amountUsed(signal, filesystemOf(signal, u).Sum()); exact {
			expected = expected.With(signal, amount)
		}
	}
	return expected
}

// breakdown returns where what is used of a disk is; nil where the figures contradict each other.
func breakdown(p *pressure.Pressure, uses *decide.Uses) decide.Breakdown {
	signal, b, hidden := p.Threshold.Signal, decide.Breakdown{}, false
	names := [...]decide.Part{
		usage.Layers: decide.PartLayers, usage.Logs: decide.PartLogs, usage.Volumes: decide.PartEmptyDirs, usage.Deleted: decide.PartDeleted,
	}
	for i := range uses.Disk {
		for part, used := range filesystemOf(signal, &uses.Disk[i]) {
			n, known := amountUsed(signal, used)
			b[names[part]] += n
			hidden = hidden || !known && names[part] == decide.PartDeleted
		}
	}
	exact := len(uses.Incomplete) == 0
	if exact && hidden {
		delete(b, decide.PartDeleted) // they are among the others
	}
	rest := p.Observed.Capacity - p.Observed.Available
	for _, used := range b {
		rest -= used
	}
	switch {
	case rest < 0:
		return nil // the pods' figures are older than the disk's
	case exact:
		b[decide.PartOther] = rest
	default:
		// A lower bound of zero carries no information.
		maps.DeleteFunc(b, func(_ decide.Part, used int64) bool { return used == 0 })
	}
	return b
}

// filesystemOf returns what a pod uses of the signal's filesystem. Containerfs is where the writable layers are.
func filesystemOf(signal pressure.Signal, u *usage.DiskUse) *usage.Parts {
	filesystem := signal.Filesystem()
	if filesystem == pressure.ImageFS || filesystem == pressure.ContainerFS && !u.SplitLayers {
		return &u.ImageFS
	}
	return &u.NodeFS
}

// amountUsed returns bytes or inodes, as the signal counts, and whether they are exact.
func amountUsed(signal pressure.Signal, used usage.FSUse) (amount int64, exact bool) {
	if signal.Kind() == pressure.InodeKind {
		return used.Inodes, used.InodesKnown
	}
	return used.Bytes, used.BytesKnown
}
