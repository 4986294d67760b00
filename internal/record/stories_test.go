package record_test

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/evictd/evictd/internal/acting"
	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/incident"
	"github.com/evictd/evictd/internal/kubeletconfig"
	"github.com/evictd/evictd/internal/nodepods"
	"github.com/evictd/evictd/internal/record"
	"github.com/evictd/evictd/internal/taint"
	"github.com/evictd/evictd/pkg/evict"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/rank"
	"github.com/evictd/evictd/pkg/usage"
)

// ofSignals are the families with a series for each signal from the first sample on. They have a test of their
// own.
var ofSignals = regexp.MustCompile(`^evictd_(signal_|pressure|threshold_line_)`)

// show writes what was logged and told since it was last called, and what changed in the metrics.
func (r *rig) show() {
	r.t.Helper()
	r.showed()
	r.out.WriteString("\n")
}

// showed is [rig.show] without the empty line. It reports whether there was anything to show.
func (r *rig) showed() bool {
	r.t.Helper()
	before := r.out.Len()
	for line := range strings.Lines(r.log.String()) {
		r.out.WriteString(regexp.MustCompile(`"ts":"[^"]*",`).ReplaceAllString(line, ""))
	}
	for _, e := range r.events.all {
		fmt.Fprintf(r.out, "%s %s on %s: %s\n", e.kind, e.reason, e.object, e.message)
	}
	now := r.series()
	maps.DeleteFunc(now, func(name string, _ float64) bool { return ofSignals.MatchString(name) })
	for _, name := range slices.Sorted(maps.Keys(now)) {
		if was, is := r.shown[name]; !is || was != now[name] {
			fmt.Fprintf(r.out, "%s %v\n", name, now[name])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(r.shown)) {
		if _, is := now[name]; !is {
			fmt.Fprintf(r.out, "%s has gone\n", name)
		}
	}
	r.log.Reset()
	r.events.all, r.shown = nil, now
	return r.out.Len() > before
}

// TestStories: what each report leaves in the log, in Events and in the metrics. The names say what to look
// for in testdata/stories.golden; a step ends with an empty line, and the last one with the story.
func TestStories(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	for _, s := range slices.Concat(decisionStories(), signalStories(), victimStories(), nodeStories(), ownStories()) {
		r := newRig(t)
		r.show() // the beginning
		r.out = &out
		fmt.Fprintf(&out, "## %s\n\n", s.name)
		s.tell(r)
		if r.showed() {
			out.WriteString("\n")
		}
	}
	compare(t, "testdata/stories.golden", out.String())
}

type story struct {
	name string
	tell func(r *rig)
}

// changed is a decision with one change.
func changed(change func(*decide.Decision)) *decide.Decision {
	d := decision()
	change(d)
	return d
}

// one is a decision with one attempt, which has that result.
func one(result evict.Result) *decide.Decision {
	return changed(func(d *decide.Decision) {
		d.Attempts = d.Attempts[:1]
		d.Attempts[0].Result = result
	})
}

func decisionStories() []story {
	return []story{
		{"a request is announced without its outcome; the decision is one line, one Event for each pod, and counted", func(r *rig) {
			d := decision()
			r.Intent(d, &d.Attempts[1])
			r.show()
			r.Decision(decision())
		}},
		{"what is forced is named before it happens, and counted: a repeated request for a victim is no second eviction", func(r *rig) {
			past, again := bypassedBudget(), escalated(evict.Evicted)
			r.Intent(past, &past.Attempts[0])
			r.Intent(past, &past.Attempts[1])
			r.Intent(again, &again.Attempts[0])
			r.show()
			r.Decision(past)
			r.show()
			r.Decision(again)
			r.show()
			unread := held(decide.HoldBudgetUnknown)
			unread.DryRun = true
			r.Decision(unread)
		}},
		{"an outcome that was found out later is one more outcome, and no request that took no time", func(r *rig) {
			r.Decision(changed(func(d *decide.Decision) {
				for i := range d.Attempts {
					d.Attempts[i].Result.Sent, d.Attempts[i].Result.Took = time.Time{}, 0
				}
			}))
		}},
		{"a queue and the priority that it makes of the pod's", func(r *rig) {
			r.Decision(fenced())
		}},
		{"a forecast of zero is one, never and not known are none; exhaustion is in both lines", func(r *rig) {
			for _, f := range []pressure.Forecast{
				{Known: true, After: 1500 * time.Millisecond},
				{Known: true},
				{Known: true, After: pressure.Never},
				{},
				{Known: true, Rate: 1 << 27, Exhausted: 4 * time.Second},
			} {
				d := changed(func(d *decide.Decision) { d.Pressure.Forecast = f })
				r.Intent(d, &d.Attempts[0])
			}
			r.Decision(pressed())
		}},
		{"what the admission policy says is in the Event and in the attempt, in its words", func(r *rig) {
			r.Decision(one(evict.Result{Outcome: evict.Denied, Message: `evictd on node "a" may evict only pods of that node, and pod shop/web is on node "b"`}))
		}},
		{"a dry run says why evictd does not act", func(r *rig) {
			d := one(evict.Result{Outcome: evict.WouldEvict})
			d.DryRun, d.DryRunWhy = true, "a ConfigMap stops it"
			r.Decision(d)
		}},
		{"figures that read the same say how far they are apart", func(r *rig) {
			for _, available := range []int64{22*gi - 3<<19, 22*gi + 3<<19, 22 * gi, 21 * gi} {
				d := one(evict.Result{Outcome: evict.Evicted})
				d.Pressure = pressureOn(pressure.MemoryAvailable, pressure.Absolute(22*gi), available, 40*gi)
				d.Pressure.Target, d.Pressure.Threshold.Written = 22*gi, "22Gi"
				r.Decision(d)
			}
		}},
		{"the node has an Event of each eviction, with the incident, and of no refusal or shorter grace period", func(r *rig) {
			inIncident := func(d *decide.Decision) *decide.Decision {
				d.Incident = "memory.available-20260304T050607.008Z"
				return d
			}
			r.Decision(inIncident(decision()))
			r.show()
			r.Decision(inIncident(one(evict.Result{Outcome: evict.Denied})))
			r.show()
			r.Decision(inIncident(escalated(evict.Evicted)))
			r.show()
			r.Decision(inIncident(held(decide.HoldNoCandidates)))
		}},
		{"the node has an Event of each hold that is recorded, and of none that needs no attention", func(r *rig) {
			for range 3 {
				r.Decision(held(decide.HoldNoCandidates))
			}
			r.show()
			r.Decision(held(decide.HoldIncompleteReading))
			r.Decision(held(decide.HoldAwaitingNewerSample))
			r.Decision(held(decide.HoldNoCandidates))
		}},
		{"a hold is said when it begins, when it changes and after 30 s, for each signal by itself; what acted always is, and the hold after it", func(r *rig) {
			const memory, disk = pressure.MemoryAvailable, pressure.NodeFSAvailable
			for _, d := range []*decide.Decision{
				decisionAbout(memory, true, 0, decide.HoldAwaitingNewerSample),
				decisionAbout(memory, true, time.Second, decide.HoldAwaitingNewerSample), // the same
				decisionAbout(disk, true, time.Second, decide.HoldAwaitingNewerSample),
				decisionAbout(memory, true, 2*time.Second, decide.HoldLimitReached),
				decisionAbout(memory, false, 3*time.Second, decide.HoldLimitReached),
				decisionAbout(memory, false, 3*time.Second+record.AgainAfter-1, decide.HoldLimitReached), // too early
				decisionAbout(memory, false, 3*time.Second+record.AgainAfter, decide.HoldLimitReached),
				decisionAbout(memory, false, 34*time.Second, decide.HoldNone),
				decisionAbout(memory, false, 34*time.Second, decide.HoldLimitReached),
				decisionAbout(memory, false, 34*time.Second, decide.HoldNone),
				decisionAbout(disk, true, 34*time.Second, decide.HoldLimitReached),
			} {
				r.Recorder.Decision(d)
				r.show()
			}
		}},
	}
}

// told is a story of samples with a second between them: of memory.available, which has another reading, or
// under these pressures.
func (r *rig) told(other *pressure.Observation, pressures ...pressure.Pressure) {
	s := sampleOf(r.now.Add(time.Second))
	if other != nil {
		s.Observations[pressure.MemoryAvailable] = *other
	}
	*r.now = s.Time
	r.Sample(s, &pressure.Verdict{Time: s.Time, Pressures: pressures})
}

func signalStories() []story {
	empty, absent := unknown("meminfo is empty"), pressure.Observation{State: pressure.Absent, Err: errors.New("btrfs")}
	return []story{
		{"a signal that cannot be read, or is not there, is logged", func(r *rig) {
			r.told(nil)
			r.told(&empty)
			r.told(&empty)
			r.told(nil)
			r.told(nil)
			r.told(&absent)
		}},
		{"a lasting fault is logged every half minute, whatever the reason, and so is a file that comes and goes", func(r *rig) {
			r.told(nil)
			for range 20 {
				r.told(&empty)
				r.told(nil)
			}
			*r.now = r.now.Add(time.Minute)
			r.told(&empty)
			*r.now = r.now.Add(time.Hour)
			r.told(&empty)
			other := unknown("MemTotal is 0")
			r.told(&other)
			r.told(nil)
		}},
		{"of the first sample only what is not there is logged, and nothing that no threshold asks for", func(r *rig) {
			s := sampleOf(start)
			s.Observations[pressure.PIDAvailable] = unknown("no loadavg")
			s.Observations[pressure.MemoryStall] = pressure.Observation{State: pressure.Absent, Err: errors.New("no PSI")}
			s.Observations[pressure.ImageFSAvailable] = pressure.Observation{State: pressure.Absent, Err: pressure.ErrUnasked}
			r.Sample(s, &pressure.Verdict{Time: start})
		}},
		{"a stale sample changes nothing", func(r *rig) {
			s := sampleOf(start)
			s.Observations[pressure.PIDAvailable] = unknown("x")
			r.Sample(s, &pressure.Verdict{Time: start, Stale: true})
		}},
		{"a forecast that is not known is missing, and never is no number of seconds", func(r *rig) {
			verdict := pressure.Verdict{Time: start}
			verdict.Forecasts[pressure.MemoryAvailable] = pressure.Forecast{Known: true, After: 90 * time.Second}
			verdict.Forecasts[pressure.NodeFSAvailable] = pressure.Forecast{Known: true, After: pressure.Never}
			verdict.Forecasts[pressure.PIDAvailable] = pressure.Forecast{Known: true}
			r.Sample(sampleOf(start), &verdict)
		}},
	}
}

func victimStories() []story {
	return []story{
		{"the first candidate is told until when it can do something, and in a dry run that nothing happens", func(r *rig) {
			d := forecast()
			d.Incident = "memory.available-20260304T050606.008Z"
			first := decide.Attempt{Entry: d.Ranking.Candidates[0]}
			r.Likely(d, &first)
			r.show()
			d.DryRun, d.DryRunWhy = true, "dryRun is true"
			r.Likely(d, &first)
		}},
		{"a stuck victim is told once, on the pod where evictd evicted it; one that is stuck anew is told anew", func(r *rig) {
			own, others, forgotten := ended().Victim, ended().Victim, ended().Victim
			others.Name, others.UID, others.Signal = "drained", "uid-drained", ""
			forgotten.Namespace, forgotten.Name, forgotten.UID = "", "", "uid-forgotten"
			all := []decide.Victim{own, others, forgotten}
			r.Ledger(own.Deadline, all, 3, 4)
			r.show()
			for i := range 3 {
				r.Ledger(own.Deadline.Add(time.Duration(i+1)*time.Second), all, 3, 4)
			}
			r.show()
			late := own.Deadline.Add(time.Hour)
			r.Ledger(late, nil, 0, 0)
			r.Ledger(late, all[:1], 0, 0)
		}},
		{"a victim that ended: what is not known is not 0, and less than nothing may have come back", func(r *rig) {
			first := ended()
			first.Victim.Held = usage.Detail{"slab": uint64(9 * mi)}
			r.VictimEnded(first)
			r.show()
			unknown := ended()
			unknown.Victim.Ended, unknown.Signal = start.Add(45*time.Second), pressure.NodeFSAvailable
			unknown.Last, unknown.Freed = nil, nil
			r.VictimEnded(unknown)
			r.show()
			less := ended()
			less.Last, less.Freed = new(mi), new(-mi)
			r.VictimEnded(less)
		}},
		{"an incident's last line: what evictd, the kubelet and the kernel did", func(r *rig) {
			everything := incident.Incident{
				ID: "memory.available-20260304T050607.008Z", Signal: pressure.MemoryAvailable, Began: start, Short: start.Add(90 * time.Second), Lowest: 7,
				Victims:  []incident.Victim{{Pod: "shop/a", UID: "a"}, {Pod: "shop/b", UID: "b", DryRun: true}},
				OOMKills: 2, Kubelets: []string{"shop/c"},
			}
			nothing, dry, unread, many := everything, everything, everything, everything
			for _, i := range []*incident.Incident{&nothing, &dry, &unread, &many} {
				i.OOMKills, i.Kubelets = 0, nil
			}
			nothing.Victims, dry.Victims, unread.Victims = nil, everything.Victims[1:], everything.Victims[:1]
			unread.OOMKills, many.More = -1, 5
			r.Incidents([]incident.Incident{everything}, nil)
			r.Incidents(nil, []incident.Incident{everything, nothing, dry, unread, many})
		}},
		{"each kill by the kernel is a line, and of each pod an Event a minute at most", func(r *rig) {
			kill := func(pod, container string, limit int64) {
				killed := &nodepods.Pod{Pod: rank.Pod{Namespace: "shop", Name: pod, UID: "uid-" + pod}}
				r.OOMKilled(killed, nodepods.OOMKilled{Container: container, MemoryLimit: limit})
			}
			kill("hog", "main", 512*mi)
			kill("hog", "sidecar", 64*mi)
			kill("other", "main", 0)
			r.show()
			*r.now = r.now.Add(time.Minute - 1)
			kill("hog", "main", 512*mi)
			r.show()
			*r.now = r.now.Add(1)
			kill("hog", "sidecar", 64*mi)
		}},
	}
}

func nodeStories() []story {
	return []story{
		{"what the kernel counts is shown while it can be read", func(r *rig) {
			r.kills, r.age = 43, 90*time.Second
			r.show()
			r.unread = errors.New("unread")
			r.show()
			r.kills, r.unread = 44, nil
		}},
		{"before which of evictd's thresholds the kubelet's are met, while that is known", func(r *rig) {
			r.KubeletThresholds([]kubeletconfig.Finding{
				{Signal: pressure.MemoryAvailable, First: true}, {Signal: pressure.NodeFSAvailable, Maybe: true}, {Signal: pressure.ImageFSAvailable},
			})
			r.show()
			r.KubeletThresholds(nil)
		}},
		{"taints: a dry run has changed nothing", func(r *rig) {
			r.Tainted([]string{"evictd.dev/memory-pressure"}, []string{"evictd.dev/disk-pressure"}, false)
			r.show()
			r.Tainted([]string{"evictd.dev/disk-pressure"}, nil, true)
		}},
		{"wake-ups are a state with a line for each change, and events that are only counted", func(r *rig) {
			r.Wakeups(pressure.WakeState{Source: pressure.WakeNode, Path: "/proc/pressure/memory", Window: 2 * time.Second})
			r.Wakeups(pressure.WakeState{Source: pressure.WakeKubepods, Err: errors.New("read-only file system")})
			for range 3 {
				r.Woken(pressure.WakeNode)
			}
			r.show()
			r.Wakeups(pressure.WakeState{Source: pressure.WakeNode, Err: errors.New("it has gone")})
		}},
	}
}

func ownStories() []story {
	return []story{
		{"whether evictd acts is told once for each change: a line, the metrics, and an Event where it is stopped", func(r *rig) {
			unknown := acting.State{Reason: acting.StopUnknown, Why: "no right", Do: "apply the Role"}
			stopped := acting.State{Reason: acting.Stopped, Why: "a ConfigMap stops it", Do: "delete it"}
			for _, s := range []acting.State{
				{Reason: acting.StopUnknown, Why: "not known yet"}, unknown, unknown, stopped, stopped, {}, {Reason: acting.Configured, Why: "dryRun is true"}, {},
			} {
				r.Acting(s)
				r.show()
			}
		}},
		{"a refused configuration is told on the node, cut to 1024 bytes", func(r *rig) {
			fault := errors.New("limits: x; protect: y" + strings.Repeat(" and so on", 200))
			r.Refused(fault, "the one before stays in force")
			r.show()
			r.Refused(fault, "no pod is evicted until the file is valid")
			r.show()
			r.InForce(nil, true)
		}},
		{"each failure is counted, and logged every half minute", func(r *rig) {
			for _, what := range []string{record.FailedWatch, taint.Failure, record.FailedState, "Usage", record.FailedHost} {
				for range 3 {
					r.Failed(what, errors.New("planted"))
				}
				*r.now = r.now.Add(2 * time.Minute)
				r.Failed(what, errors.New("planted"))
				r.show()
			}
		}},
		{"a check that is not ok is one line; whether evictd is confined has no series before it is known", func(r *rig) {
			r.Check("state-dir", "missing", "no such directory", "limits begin anew", "mount a volume")
			r.Confined(false)
			r.show()
			r.Confined(true)
		}},
		{"a tick", func(r *rig) {
			r.Tick(start, 250*time.Millisecond)
		}},
	}
}
