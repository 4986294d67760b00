package agent

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
	"github.com/evictd/evictd/pkg/rank"
	"github.com/evictd/evictd/pkg/usage"
)

// Sources of readings, for Recorder.ReadError.
const (
	// SourceUsage are the pods' cgroups.
	SourceUsage = "usage"
	// SourceDisk is the pods' disk use, whoever measures it.
	SourceDisk = "disk"
	// SourceImages is what images hold that no pod uses.
	SourceImages = "images"
)

// diskFresh is how old a measurement of the pods' disk use may be when something
// is decided from it, and diskTimeout how long one may take. The kubelet itself
// computes these figures once a minute. One that is as old as diskRefresh is made again,
// and it is good until the next one is there, with a margin for the ticks at both ends: a
// pressure that lasts would otherwise be without one whenever a walk takes its time.
const (
	diskRefresh = 10 * time.Second
	diskTimeout = 10 * time.Second
	diskFresh   = diskRefresh + diskTimeout + 5*time.Second
)

// diskReading is one measurement of the pods' disk use.
type diskReading struct {
	uses    map[string]usage.DiskUse
	err     error
	at      time.Time
	pending bool
}

// use is what one pod uses of the resource in question and what its end should
// free, by signal.
type use struct {
	value    int64
	known    bool
	expected pressure.Amounts
	// emptied says that the cgroup is there and uses nothing: the use is not known, and what
	// is expected is.
	emptied bool
	// workingSet and reclaim are both figures of the pod's memory; 0 for a disk.
	workingSet, reclaim int64
}

// uses holds the pods' usage by the UID of the API server.
type uses struct {
	byUID map[string]use
	// unlisted are the cgroups that no pod of the list has, by their UID; nil for a disk.
	unlisted map[string]*usage.Pod
	// unread are the cgroups that could not be read, by their UID; nil for a disk.
	unread []string
	// disk is what was measured of a disk; incomplete are the pods of which not all was.
	// Finished pods have neither: nobody measures them, and nobody evicts them.
	disk       []usage.DiskUse
	incomplete []decide.Unmeasured
	// notes say what else is to be known of the figures; nil when there is nothing.
	notes []string
}

func (u *uses) of(pod *nodepods.Pod) use { return u.byUID[pod.UID] }

// measure reads what the pods use of the pressed resource.
func (a *Agent) measure(ctx context.Context, p *pressure.Pressure, pods []*nodepods.Pod) (*uses, decide.Hold, string) {
	if p.Threshold.Signal.OnDisk() {
		return a.measureDisk(ctx, p, pods)
	}
	uses, hold, detail := a.measureCgroups(p.Threshold.Signal, pods, p.SampleTime)
	if hold == decide.HoldNone {
		hold, detail = a.awaitUnread(p, pods, uses.unread)
	}
	return uses, hold, detail
}

// measureCgroups reads the pods' cgroups. Pods that could not be read and that no earlier
// reading stands in for are left out, and so protected, see unread.go.
func (a *Agent) measureCgroups(signal pressure.Signal, pods []*nodepods.Pod, now time.Time) (*uses, decide.Hold, string) {
	read, err := a.options.Cgroups.Collect(a.uses[:0])
	a.lastRead.remember(read, now)
	read, missing := a.bridge(read, err, pods, now)
	a.uses = read
	if err != nil {
		a.options.Recorder.ReadError(SourceUsage, err)
		if len(read) == 0 {
			return nil, decide.HoldUsageUnknown, err.Error()
		}
	}
	all := cgroupUses(signal, a.policy.MemoryAvailable, pods, read)
	all.unread = missing
	return all, decide.HoldNone, ""
}

// cgroupUses joins what was read with the pods.
func cgroupUses(signal pressure.Signal, definition pressure.MemoryDefinition, pods []*nodepods.Pod, read []usage.Pod) *uses {
	byCgroup := make(map[string]*usage.Pod, len(read))
	for i := range read {
		byCgroup[read[i].UID] = &read[i]
	}
	all := &uses{byUID: make(map[string]use, len(pods)), unlisted: byCgroup}
	for _, pod := range pods {
		uid := pod.CgroupUID
		if u := byCgroup[uid]; u != nil {
			used := cgroupUse(signal, definition, u)
			used.known, used.emptied = used.known && !u.Unused, u.Unused
			all.byUID[pod.UID] = used
			delete(byCgroup, uid)
		}
	}
	return all
}

// measureDisk uses the last measurement when it is fresh and newer than the end of evictd's
// last victim (others end all the time, on a node of short jobs), and asks for a new one when it is not: a walk or a request must
// not hold up the loop.
func (a *Agent) measureDisk(ctx context.Context, p *pressure.Pressure, pods []*nodepods.Pod) (*uses, decide.Hold, string) {
	if a.options.Disk == nil {
		return nil, decide.HoldUsageUnknown, "this agent has no source for the pods' disk use"
	}
	age := p.SampleTime.Sub(a.disk.at)
	current := a.disk.at.After(a.ledger.LastOwnEnd()) && !a.disk.at.Before(p.Since)
	if age >= diskRefresh || !current {
		a.askDisk(ctx, p.SampleTime, pods)
	}
	if age >= diskFresh || !current {
		return nil, decide.HoldUsageUnknown, "measuring the pods' disk use"
	}
	if a.disk.err != nil {
		return nil, decide.HoldUsageUnknown, fmt.Sprintf("measuring the pods' disk use: %v", a.disk.err)
	}
	all := diskUses(p.Threshold.Signal, pods, a.disk.uses, a.required(p))
	before := figuresBefore(p, pods, a.disk.uses)
	if hold, detail := before.awaitNewer(p); hold != decide.HoldNone {
		return nil, hold, detail
	}
	all.notes = before.notes(p)
	return all, decide.HoldNone, ""
}

// diskUses joins what was measured with the pods. Enough is what one pod must return to
// do alone; 0 when that is not the question.
func diskUses(signal pressure.Signal, pods []*nodepods.Pod, measured map[string]usage.DiskUse, enough int64) *uses {
	all := &uses{byUID: make(map[string]use, len(pods))}
	for _, pod := range pods {
		u, known := measuredOf(pod, measured)
		if known {
			all.byUID[pod.UID] = diskUse(signal, &u, enough)
		}
		if pod.Finished {
			continue
		}
		all.disk = append(all.disk, u)
		if _, exact := amountUsed(signal, filesystemOf(signal, &u)); !exact {
			all.incomplete = append(all.incomplete, decide.Unmeasured{
				Pod: pod.Key(), Why: whyUnmeasured(&u, known), Told: u.Reason != "",
			})
		}
	}
	slices.SortFunc(all.incomplete, func(a, b decide.Unmeasured) int { return strings.Compare(a.Pod, b.Pod) })
	return all
}

func measuredOf(pod *nodepods.Pod, measured map[string]usage.DiskUse) (usage.DiskUse, bool) {
	if u, known := measured[pod.UID]; known {
		return u, true
	}
	u, known := measured[pod.CgroupUID] // a static pod has another UID on its node
	return u, known
}

// whyUnmeasured tells a pod that cannot start from rights that are missing and a time that
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

// askDisk starts a measurement unless one is under way.
func (a *Agent) askDisk(ctx context.Context, now time.Time, pods []*nodepods.Pod) {
	if a.disk.pending {
		return
	}
	a.disk.pending = true
	go func() {
		bounded, cancel := context.WithTimeout(ctx, diskTimeout)
		defer cancel()
		measured, err := a.options.Disk.Measure(bounded, pods)
		a.measured <- diskReading{uses: measured, err: err, at: now}
	}()
}

// noteDisk takes a measurement that was asked for.
func (a *Agent) noteDisk(reading diskReading) {
	a.disk = reading
	if reading.err != nil {
		a.options.Recorder.ReadError(SourceDisk, reading.err)
	}
}

// facts joins what the API server and the node know of each pod.
func (a *Agent) facts(p *pressure.Pressure, pods []*nodepods.Pod, all *uses) []rank.Pod {
	facts := factsOf(p.Threshold.Signal, pods, all, a.options.Self)
	for i := range facts {
		if a.ledger.Booked(facts[i].UID) || a.simulated.has(facts[i].UID) {
			facts[i].Marks.Terminating = true // accepted, and the watch has not told yet, or it never will
		}
	}
	return facts
}

func factsOf(signal pressure.Signal, pods []*nodepods.Pod, all *uses, self nodepods.Self) []rank.Pod {
	facts := make([]rank.Pod, 0, len(pods))
	for _, pod := range pods {
		f := pod.Facts(decide.RankedBy(signal), self)
		u := all.of(pod)
		f.Usage, f.Sampled = u.value, u.known
		f.WorkingSet, f.Reclaim = u.workingSet, u.reclaim
		facts = append(facts, f)
	}
	return facts
}

// diskUse picks the filesystem that is pressed. What a pod's end frees there is
// all that it uses there: its layers, logs and local volumes go with it. A pod of which
// only a part was counted is known when that part is enough.
func diskUse(signal pressure.Signal, u *usage.DiskUse, enough int64) use {
	amount, exact := amountUsed(signal, filesystemOf(signal, u))
	expected := diskExpected(u)
	if !exact && enough > 0 && amount >= enough {
		exact, expected = true, expected.With(signal, amount)
	}
	return use{value: amount, known: exact, expected: expected}
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
