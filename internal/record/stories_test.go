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

// ofSignals are the families with a series for each signal from the first sample on. They have a story of their
// own.
var ofSignals = regexp.MustCompile(`^evictd_(signal_|pressure|threshold_line_)`)

// show writes what was logged and told since it was last called, and what changed in the metrics.
func (r *rig) show() {
	r.t.Helper()
	r.showed()
	r.out.WriteString("\n")
}

// comeAndGo are the families whose series are there while they are known. All others have their series from the start,
// so that the first eviction is an increase.
var comeAndGo = regexp.MustCompile(`^evictd_(signal_|pressure|threshold_line_|forecast|confined|kubelet_acts_first|oom_kills|watch_age)`)

// showed is [rig.show] without the empty line. It reports whether there was anything to show. A line that says that
// something works, or why nothing is wrong, has no key error, for which one searches the log.
func (r *rig) showed() bool {
	r.t.Helper()
	before := r.out.Len()
	for line := range strings.Lines(r.log.String()) {
		if strings.HasPrefix(line, `{"level":"info"`) && strings.Contains(line, `"error":`) {
			r.t.Errorf("an error that is none: %s", line)
		}
		if !r.brief {
			r.out.WriteString(regexp.MustCompile(`"ts":"[^"]*",`).ReplaceAllString(line, ""))
		}
	}
	for _, e := range r.events.all {
		fmt.Fprintf(r.out, "%s %s on %s: %s\n", e.kind, e.reason, e.object, e.message)
	}
	now, hidden := r.series(), func(name string) bool { return r.brief || !r.signals && ofSignals.MatchString(name) }
	for _, name := range slices.Sorted(maps.Keys(now)) {
		was, is := r.shown[name]
		if !is && r.shown != nil && !comeAndGo.MatchString(name) {
			r.t.Errorf("%s was not there before", name)
		}
		if (!is || was != now[name]) && !hidden(name) {
			fmt.Fprintf(r.out, "%s %v\n", name, now[name])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(r.shown)) {
		if _, is := now[name]; !is && !hidden(name) {
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
	tell(t, "testdata/stories.golden", false, decisionStories(), signalStories(), victimStories(), nodeStories(), ownStories())
}

// tell tells stories, brief ones of Events alone, and compares them with a file.
func tell(t *testing.T, file string, brief bool, stories ...[]story) {
	t.Helper()
	var out strings.Builder
	for _, s := range slices.Concat(stories...) {
		r := newRig(t)
		r.show() // the beginning
		r.out, r.brief = &out, brief
		fmt.Fprintf(&out, "## %s\n\n", s.name)
		s.tell(r)
		if r.showed() {
			out.WriteString("\n")
		}
	}
	compare(t, file, out.String())
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

// filledElsewhere is a decision that knows what uses a disk's space.
func filledElsewhere() *decide.Decision {
	d := held(decide.HoldInsufficientReclaim)
	d.Breakdown = decide.Breakdown{
		decide.PartLayers: 10, decide.PartLogs: 20, decide.PartEmptyDirs: 30, decide.PartDeleted: 0, decide.PartOther: 40,
	}
	return d
}

// takenByTheHost is a decision that knows what uses the node's memory outside the pods.
func takenByTheHost() *decide.Decision {
	d := held(decide.HoldInsufficientReclaim)
	d.Pressure = decision().Pressure
	d.Breakdown = decide.Breakdown{}
	for i, part := range []decide.Part{
		"Anonymous", "Shared", "PageCache", "Buffers", "SlabReclaimable", "SlabUnreclaimable", "PageTables", "HugePages", decide.PartOther,
	} {
		d.Breakdown[part] = int64(i) * 100 * mi
	}
	d.Outside = []decide.Process{{Name: "leak", Unit: "leak.service", RSS: 9 * gi}, {Name: "by hand", RSS: gi}}
	return d
}

// forecast is a decision on a soft threshold whose hard one is near.
func forecast() *decide.Decision {
	d := decision()
	d.Pressure.Threshold.Hard, d.Pressure.Threshold.Grace = false, 30*time.Second
	d.Pressure.Forecast = pressure.Forecast{Known: true, Rate: 1 << 30, After: 1500 * time.Millisecond}
	return d
}

// ended is a victim that has ended a second after its deadline.
func ended() *decide.Ended {
	expected := 300 * mi
	return &decide.Ended{
		Victim: decide.Victim{
			Namespace: "shop", Name: "over", UID: "uid-over", Signal: "memory.available",
			Accepted: start, Deadline: start.Add(45 * time.Second), Ended: start.Add(46 * time.Second),
		},
		Signal: pressure.MemoryAvailable, Expected: &expected,
		Last: new(290 * mi), Freed: new(310 * mi),
	}
}

// askedHost counts the queries to it, by the figure that it answers, and knows the processes after so many of them.
type askedHost struct{ pending, asked, processes int }

func (h *askedHost) Memory() decide.Breakdown {
	h.asked++
	return decide.Breakdown{"Anonymous": int64(h.asked)}
}

func (h *askedHost) Processes(time.Time) ([]decide.Process, bool) {
	h.processes++
	return []decide.Process{{Name: "leak"}}, h.processes <= h.pending
}

// decisionAbout is one of a hold; HoldNone is one that evicts a pod.
func decisionAbout(signal pressure.Signal, hard bool, at time.Duration, why decide.Hold) *decide.Decision {
	p := pressureOn(signal, pressure.Fraction(.05), 1, 100)
	p.Threshold.Hard = hard
	d := &decide.Decision{Time: start.Add(at), Pressure: p, Hold: why}
	if why == decide.HoldNone {
		d.Attempts = decision().Attempts[1:]
	}
	return d
}

// asks begins with a recorder that asks this host.
func (r *rig) asks(host record.Host) {
	r.settings.Host = host
	r.start()
	r.shown = r.series()
}

// resourceOf says what pods are ranked by for each signal.
func resourceOf(s pressure.Signal) rank.Resource {
	return map[pressure.Kind]rank.Resource{
		pressure.MemoryKind: rank.Memory, pressure.PIDKind: rank.PIDs, pressure.SpaceKind: rank.Disk, pressure.InodeKind: rank.Inodes,
	}[s.Kind()]
}

// TestEventTexts has one text for each kind of signal and one for each outcome.
func TestEventTexts(t *testing.T) {
	t.Parallel()
	var all []story
	show := func(title string, d *decide.Decision) {
		all = append(all, story{title, func(r *rig) { r.Decision(d) }})
	}
	for _, signal := range pressure.Signals() {
		d := decision()
		d.Pressure = pressureOn(signal, pressure.Fraction(.1), 30000, 400000)
		if signal.Unit() == pressure.Bytes {
			d.Pressure = pressureOn(signal, pressure.Fraction(.1), 700*mi, 16*gi)
		}
		ranked := pods()
		if signal.Unit() == pressure.Inodes || signal.Unit() == pressure.Tasks {
			for i := range ranked {
				ranked[i].Usage, ranked[i].Request = ranked[i].Usage/mi, 0
			}
		}
		d.Ranking = rank.Order(resourceOf(signal), ranked, rank.Rules{})
		d.Attempts = d.Attempts[1:]
		d.Attempts[0].Entry = d.Ranking.Candidates[0]
		show(signal.String(), d)
	}
	for _, dryRun := range []bool{false, true} {
		for _, outcome := range evict.Outcomes() {
			d := one(evict.Result{Outcome: outcome, Message: "as the API server says it."})
			d.DryRun = dryRun
			d.Pressure.Threshold.Hard, d.Pressure.Threshold.Quantity = false, pressure.Absolute(gi)
			d.Pressure.Line, d.Pressure.Target = gi, gi
			if outcome == evict.Deleted || outcome == evict.WouldDelete {
				d.Attempts[0].Bypassed = &evict.Budget{Name: "hog-pdb", Desired: 3, Healthy: 3}
			}
			show(fmt.Sprintf("%s, dry run %t", outcome, dryRun), d)
		}
	}
	show("a victim that is evicted again, and refused", escalated(evict.Denied))
	show("a victim that would be evicted again", escalated(evict.WouldEvict))
	show("a bare pod", changed(func(d *decide.Decision) {
		d.Attempts = d.Attempts[1:]
		d.Attempts[0].Entry.Pod.Owner, d.Attempts[0].GraceSeconds = "", nil
	}))
	for _, hold := range decide.Holds() {
		show(string(hold), held(hold))
	}
	unknown := filledElsewhere()
	delete(unknown.Breakdown, decide.PartDeleted)
	show("a disk whose deleted files are not known", unknown)
	partly, nothing := filledElsewhere(), filledElsewhere()
	partly.Breakdown = decide.Breakdown{decide.PartLayers: 10, decide.PartEmptyDirs: 30}
	show("a disk of which not all pods are measured", partly)
	nothing.Breakdown = decide.Breakdown{}
	show("a disk of which no pod is measured", nothing)
	before := filledElsewhere()
	before.Notes = []string{"the figures of 2 pods are from before the pressure: shop/api 4m0s old, shop/web 4m0s old"}
	show("a disk by old figures", before)
	show("a long answer leaves the figures", one(evict.Result{Outcome: evict.Denied, Message: strings.Repeat("né", 300)}))
	tell(t, "testdata/events.golden", true, all)
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
			d := decision()
			d.Ranking = rank.Order(rank.Memory, pods(), rank.Rules{Queues: []rank.Queue{{
				Name: "shop", Fence: true, Offset: 7, Holds: func(namespace string, _ map[string]string) bool { return namespace == "shop" },
			}}})
			for i := range d.Attempts {
				d.Attempts[i].Entry = d.Ranking.Candidates[i]
			}
			r.Decision(d)
		}},
		{"an answer that says when to ask again", func(r *rig) {
			r.Decision(one(evict.Result{Outcome: evict.Denied, RetryAfter: 10 * time.Second}))
		}},
		{"what is not known is missing", func(r *rig) {
			r.Decision(&decide.Decision{Hold: decide.HoldBackingOff})
		}},
		{"where the space of a disk and the node's memory are, and the largest processes outside the pods", func(r *rig) {
			r.Decision(filledElsewhere())
			r.Decision(takenByTheHost())
		}},
		{"only a decision about the whole node's memory reads what the host uses of it", func(r *rig) {
			r.asks(&askedHost{})
			for _, signal := range pressure.Signals() {
				r.Recorder.Decision(decisionAbout(signal, true, 0, decide.HoldLimitReached))
			}
		}},
		{"a hold without candidates waits for the processes outside the pods; an eviction, and a decision about a disk, does not", func(r *rig) {
			r.asks(&askedHost{pending: 2})
			for at := range 3 {
				r.Recorder.Decision(decisionAbout(pressure.MemoryAvailable, true, time.Duration(at)*time.Second, decide.HoldNoCandidates))
				r.show()
			}
			disk := decisionAbout(pressure.NodeFSAvailable, true, 0, decide.HoldNoCandidates)
			disk.Breakdown = decide.Breakdown{decide.PartLogs: 7}
			r.Recorder.Decision(disk)
			r.show()
			r.Recorder.Decision(decisionAbout(pressure.MemoryAvailable, true, 0, decide.HoldNone))
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
			r.Decision(changed(func(d *decide.Decision) {
				d.Pressure.Forecast = pressure.Forecast{Known: true, Rate: 1 << 27, Exhausted: 4 * time.Second}
			}))
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
		{"a signal that is not known has no figure", func(r *rig) {
			r.signals = true
			r.InForce([]pressure.Threshold{
				{Signal: pressure.MemoryAvailable, Quantity: pressure.Fraction(.5), Hard: true},
				{Signal: pressure.MemoryAvailable, Quantity: pressure.Absolute(70), Grace: time.Minute},
				{Signal: pressure.PIDAvailable, Quantity: pressure.Fraction(.5), Hard: true},
			}, false)
			s := &pressure.Sample{Time: start}
			s.Observations[pressure.MemoryAvailable] = pressure.Observation{State: pressure.Known, Available: 0, Capacity: 100}
			s.Observations[pressure.AllocatableMemoryAvailable] = pressure.Observation{State: pressure.Known, Available: -5, Capacity: 90}
			s.Observations[pressure.MemoryStall] = pressure.Observation{State: pressure.Known, Available: 1500, Capacity: 2e6}
			s.Observations[pressure.NodeFSAvailable].State = pressure.Absent
			hard := pressureOn(pressure.MemoryAvailable, pressure.Fraction(.5), 0, 100)
			r.Sample(s, &pressure.Verdict{Time: start, Pressures: []pressure.Pressure{hard}})
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
			r.Woken(pressure.WakeKubepods)
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
			for _, what := range []string{record.FailedWatch, taint.Failure, record.FailedState, record.FailedRecord, "Usage", "Disk", "Images", record.FailedHost} {
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
