package sim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evictd/evictd/internal/agent"
	"github.com/evictd/evictd/internal/config"
	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/status"
	"github.com/evictd/evictd/pkg/evict"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/rank"
	"github.com/evictd/evictd/pkg/usage"
)

const stallWindow = 2 * time.Second

// stalls makes the node one whose tasks wait for memory by such a share of the window, and evicts when that is more
// than a tenth. Ten times a second, for a while, what grows in it grows.
func (n *world) stalls(share *float64, during time.Duration, grow func()) {
	n.memory(10_000)
	n.policy.Thresholds = []pressure.Threshold{{Signal: pressure.MemoryStall, Quantity: pressure.Fraction(0.9), Hard: true}}
	n.sampled = func(s *pressure.Sample) {
		window := stallWindow.Microseconds()
		s.Observations[pressure.MemoryStall] = pressure.Observation{
			State: pressure.Known, Available: window - int64(*share*float64(window)), Capacity: window,
		}
	}
	for at := time.Duration(0); at < during; at += 100 * time.Millisecond {
		n.After(at, grow)
	}
}

// What is missing of a window is time, and what pods hold is bytes: the two are not compared. A window in which the
// victim was still running does not show the time after it.
func TestStallTakesPodsInTheirOrder(t *testing.T) {
	cases(t, nil, map[string]func(n *world){
		"the first of the order, and the window is measured anew after its end": func(n *world) {
			n.ends = time.Second
			n.runs("greedy 500/100", "modest 300/100")
			share := 0.3
			n.stalls(&share, 10*time.Second, func() {
				n.pod("modest").waited += 50 * time.Millisecond
				if len(n.pods) == 1 && share > 0 {
					share -= 0.015 // the window slides out of the stall in two seconds
				}
			})
			n.evicts(10*time.Second, "greedy")
		},
		"one that uses only page cache, which may be what thrashes": func(n *world) {
			n.ends = time.Hour
			n.Run("thrashing", 0, 0).cache = 500 * Mebi
			n.stalls(new(0.9), 0, nil)
			n.evicts(10*time.Second, "thrashing")
		},
		"what a protected pod uses is no part of a window": func(n *world) {
			n.Run("bare", 500, 100, bare)
			n.stalls(new(0.3), 0, nil)
			n.evicts(10 * time.Second)
			if d := n.says(decide.HoldNoCandidates); strings.Contains(d.Detail, "shop/bare") {
				n.t.Errorf("detail %q has an amount", d.Detail)
			}
		},
	})
}

// Nor is a pod warned of it, while a grace period runs.
func TestPodThatThrashesAloneIsNotTheNodesPressure(t *testing.T) {
	const ms, own = time.Millisecond, decide.HoldStalledWithinOwnLimits
	greedy := []string{"greedy"}
	type variant struct { // within a tenth of a second
		hits         int64 // of bound's own limit
		bound, other time.Duration
		v1           bool  // cgroup v1 does not tell how long a pod waited
		fault        error // of the reading
		want         []string
		hold         decide.Hold
	}
	stories(t, map[string]variant{
		"alone in its limit":          {5, 90 * ms, 0, false, nil, nil, own},
		"and another stalls too":      {5, 90 * ms, 20 * ms, false, nil, greedy, ""},
		"and another stalls a little": {5, 0, 5 * ms, false, nil, nil, own},
		"on cgroup v1":                {1, 0, 90 * ms, true, nil, nil, own},
		"no pod met a limit":          {0, 0, 0, true, nil, greedy, ""},
		"it is not known":             {0, 0, 0, false, errPlanted(), nil, decide.HoldUsageUnknown},
	}, func(n *world, _ string, c variant) {
		n.ends, n.noPodStalls, n.unstalled = time.Hour, c.v1, c.fault
		n.runs("greedy 500/100", "bound 300/300", "other 300/300")
		n.stalls(new(0.3), 20*time.Second, func() {
			n.pod("bound").limitHits += c.hits
			n.pod("bound").waited += c.bound
			n.pod("other").waited += c.other
		})
		n.threshold(pressure.MemoryStall, pressure.Fraction(0.9), false, softGrace)
		hard := n.policy.Thresholds
		n.policy.Thresholds = hard[1:]
		if n.watch(10 * time.Second); (len(n.warned) > 0) != (c.want != nil) {
			n.t.Errorf("warned: %v", n.warned)
		}
		n.policy.Thresholds = hard[:1]
		if n.evicts(10*time.Second, c.want...); c.hold == "" {
			return
		}
		if d := n.says(c.hold); c.hold == own && !strings.Contains(d.Detail, "shop/bound") {
			n.t.Errorf("detail %q does not say which pod", d.Detail)
		}
	})
}

// Half of a tenth of the time begins the readings of the pods' stalls.
func TestCalmNodeReadsNoPodsStalls(t *testing.T) {
	stories(t, map[float64]bool{0.04: false, 0.06: true}, func(n *world, share float64, want bool) {
		n.runs("greedy 500/100")
		n.stalls(&share, 0, nil)
		n.evicts(10 * time.Second)
		if got := n.stallReads > 0; got != want || n.stallReads > 11 {
			n.t.Errorf("the pods' stalls were read %d times in 10 s", n.stallReads)
		}
	})
}

// Two readings that are far apart do not show the current stall.
func TestStallsThatWereReadLongAgoAreReadAnew(t *testing.T) {
	story(t, func(n *world) {
		n.runs("greedy 500/100")
		share := 0.06
		n.stalls(&share, 0, nil)
		n.watch(time.Millisecond)
		time.Sleep(time.Hour)
		share = 0.3
		n.goesOn(time.Millisecond)
		n.says(decide.HoldUsageUnknown)
		time.Sleep(stallWindow / 2)
		n.goesOn(time.Millisecond, "greedy")
	})
}

// Pods that end all the time, of a tenth of the first candidate's memory or less, starved a stall for as long as they
// came.
func TestFaultChurnStarvesNoStall(t *testing.T) {
	each(t, []int64{1, 1000}, func(n *world, memory int64) {
		n.ends = 20 * time.Second
		n.runs("greedy 5000/100")
		n.stalls(new(1.0), 0, nil)
		n.memory(100_000)
		n.churn(memory, 10*time.Second, 3*time.Minute)
		n.evicts(decide.HardPatience+5*time.Second, "greedy")
	})
}

// Nor does the end of such a pod restart the window in which the stall is measured.
func TestFaultEndOfATinyPodRestartsNoWindow(t *testing.T) {
	story(t, func(n *world) {
		n.ends = 500 * time.Millisecond
		n.runs("greedy 5000/100")
		n.churn(1, 900*time.Millisecond, time.Minute)
		n.answer = func(evict.Request) evict.Result {
			n.answer = nil
			return evict.Result{Outcome: evict.BlockedByBudget}
		}
		share := 1.0
		n.stalls(&share, 30*time.Second, func() {
			if greedy := n.pod("greedy"); greedy == nil || greedy.leaving != nil {
				share = 0
			}
		})
		n.memory(100_000)
		n.evicts(30*time.Second, "greedy", "greedy")
		if slices.Contains(n.Holds(), decide.HoldAwaitingNewerSample) {
			t.Errorf("holds %v: a window was restarted", n.Holds())
		}
	})
}

// hogAndModest is a node that a pod takes whole; a neighbour is a little over its request. Some cgroups cannot be
// read, or not even be listed, at a time.
func (n *world) hogAndModest(unread func() []string, unlisted func() bool) {
	n.ends = time.Minute
	n.runs("hog 900/100", "modest 50/10")
	n.collected = func(read []usage.Pod) ([]usage.Pod, error) {
		uids := unread()
		if len(uids) == 0 {
			return read, nil
		}
		fault := &usage.UnreadError{Pods: uids, Faults: []error{errPlanted()}}
		if unlisted != nil && unlisted() {
			fault.Pods, fault.ListingFailed = nil, true
		}
		return slices.DeleteFunc(read, func(p usage.Pod) bool { return slices.Contains(uids, p.UID) }), fault
	}
}

// during returns the UID of the hog while the time since the start is in that span.
func (n *world) during(from, to time.Duration) func() []string {
	return func() []string {
		if since := time.Since(n.began); from <= since && since < to {
			return []string{"uid-hog"}
		}
		return nil
	}
}

// One failed read of the pod that takes the node's memory must not evict its neighbour. A cgroup that is not there is no
// failure: its pod has ended.
func TestFaultOneFailedReadTakesNoNeighbour(t *testing.T) {
	type variant struct {
		unread   func(n *world) func() []string
		listing  bool // fails
		unlisted bool
	}
	hog := func(n *world) func() []string { return n.during(0, 30*time.Millisecond) }
	ended := func(n *world) func() []string {
		n.Run("ended", 0, 0).noCgroup = true
		return func() []string { return []string{"uid-ended"} }
	}
	stories(t, map[string]variant{
		"its files cannot be read":   {hog, false, true},
		"its class cannot be listed": {hog, true, true},
		"that of a pod that ended":   {ended, false, false},
	}, func(n *world, _ string, c variant) {
		n.hogAndModest(c.unread(n), func() bool { return c.listing })
		n.evicts(500*time.Millisecond, "hog")
		if first := &n.decisions[0]; c.unlisted {
			n.isHold(first, decide.HoldUsageUnknown, "shop/hog")
		} else if first.Verb() != decide.Acted {
			n.t.Errorf("the first decision %+v, want the eviction", first)
		}
	})
}

// A reading of a moment ago stands in for one that fails, for as long as it is young: also where a disk was short for
// an hour, and nothing read the cgroups for it.
func TestFaultLastReadingStandsIn(t *testing.T) {
	type variant struct {
		short, unread time.Duration
		disk          bool
	}
	stories(t, map[string]variant{
		"a calm node":          {20 * time.Second, 10 * time.Second, false},
		"a disk that is short": {time.Hour, time.Hour - time.Second, true},
	}, func(n *world, _ string, c variant) {
		n.hogAndModest(n.during(c.unread, c.short+3*time.Second), nil)
		if n.host = -500 * Mebi; c.disk { // calm
			n.filesystem(nodefs, always(50))
			n.policy.Thresholds = append(HardPolicy().Thresholds, n.policy.Thresholds...)
		}
		n.After(c.short, func() { n.host = 0 })
		n.evicts(c.short+2*time.Second, "hog")
		if unknown := n.decided(func(d *decide.Decision) bool {
			return d.Hold == decide.HoldUsageUnknown && d.Pressure.Threshold.Signal == pressure.MemoryAvailable
		}); len(unknown) > 0 {
			n.t.Errorf("held although a reading of a moment ago was there: %+v", unknown[0])
		}
	})
}

// A pod that can never be read holds a decision for a second, and then concerns itself alone; so do one after the
// other that are made and deleted.
func TestFaultUnreadPodsStarveNoEviction(t *testing.T) {
	all := map[string]time.Duration{"one for ever": time.Hour, "another each 0.3 s": 300 * time.Millisecond}
	stories(t, all, func(n *world, _ string, another time.Duration) {
		unread := func() []string { // the one that is there was never read before: nothing stands in
			there := fmt.Sprintf("uid-tiny-%d", time.Since(n.began)/another)
			for uid, p := range n.pods {
				p.noCgroup = strings.HasPrefix(uid, "uid-tiny") && uid != there
			}
			return []string{there}
		}
		n.hogAndModest(unread, nil)
		for i := range 8 {
			n.Run(fmt.Sprintf("tiny-%d", i), 1, 0)
		}
		unread()
		n.evicts(2*time.Second, "hog")
		if took := n.evictedAt()[0]; took < decide.UnreadWait || took > decide.UnreadWait+100*time.Millisecond {
			n.t.Errorf("it was evicted after %v, want %v", took, decide.UnreadWait)
		}
	})
}

// A pod of which it is not known whether it stalls holds memory.stall for a moment only.
func TestFaultUnreadStallStarvesNoEviction(t *testing.T) {
	story(t, func(n *world) {
		n.ends = time.Minute
		n.runs("hog 900/100", "modest 50/10", "tiny 1/0")
		n.unstalled = &usage.UnreadError{Pods: []string{"uid-tiny"}, Faults: []error{errPlanted()}}
		n.stalls(new(0.3), 0, nil)
		n.evicts(10*time.Second, "hog")
		n.held(decide.HoldUsageUnknown, decide.HoldReclaimInProgress)
	})
}

// dry makes the node one of a dry run, with a transition period.
func (n *world) dry() { n.policy.DryRun, n.policy.Transition = true, time.Minute }

// One incident of a dry run names each pod once that it would have evicted, and ends when it would have ended. Its
// last line names the pods that would have been evicted.
func TestFaultDryRunNamesAPodAgain(t *testing.T) {
	cases(t, func(n *world) {
		n.runs("greedy 500/100")
		n.host = 350 * Mebi
		n.dry()
	}, map[string]func(n *world){
		// The leak continues in the second pod: the end of the first would not have helped for long.
		"it would not have helped for long": func(n *world) {
			n.runs("next 300/100")
			n.host -= 200 * Mebi
			n.After(80*time.Second, func() { n.pod("next").memory += 480 * Mebi })
			n.evicts(20*time.Minute, "greedy", "next")
			if n.oneIncident("shop/greedy", "shop/next"); len(n.ended) > 0 {
				n.t.Errorf("ended: %+v, but a dry run frees nothing", n.ended)
			}
		},
		// Its disk space counts as reclaimed too.
		"a disk": func(n *world) {
			n.pods = map[string]*Pod{}
			n.largeAndSmall(nodefs, always(90))
			n.collectsAfter(time.Hour)
			n.policy.Pacing.Min = 100 * time.Millisecond
			n.evicts(20*time.Minute, "large")
			n.oneIncident("shop/large")
		},
		// It counts with what it holds now: the rest of the node is not shorter of memory because of it.
		"the would-be victim grows": func(n *world) {
			n.runs("next 100/50")
			n.After(time.Minute, func() { n.pod("greedy").memory += 48 * Mebi })
			n.live(time.Minute + 30*time.Second)
			n.live(8 * time.Minute) // a restart names no pod again either
			n.evicted("greedy")
		},
		// What it held is really available and counts no more.
		"the would-be victim really ends": func(n *world) {
			n.runs("next 100/50")
			n.After(time.Minute, func() { n.terminate("uid-greedy") })
			n.takes(2*time.Minute, 490) // short again, by what greedy held
			n.evicts(3*time.Minute, "greedy", "next")
		},
	})
}

// One shortage is one incident. It does not end because the threshold is only just met, because the hard threshold
// follows the soft one, after an edit, or after two readings that fail. Its last line names the pods that were
// evicted and what others did.
func TestOneShortageIsOneIncident(t *testing.T) {
	story(t, func(n *world) {
		n.runs("greedy 400/10", "killed 20/10")
		n.host = 490 * Mebi
		n.jittery(0)
		n.policy.Transition = time.Minute
		n.kills = 3
		n.takes(2*time.Second, -110) // the line is touched
		n.takes(3*time.Second, 110)
		n.After(5*time.Second, func() { n.unknown = errPlanted() })
		n.After(7*time.Second, func() { n.unknown = nil })
		n.reloads(9*time.Second, func(*agent.Policy) {})
		n.takes(12*time.Second, 60) // hard
		n.After(14*time.Second, func() {
			n.kills = 5
			n.changed("killed", byKubelet)
			n.pod("killed").noCgroup = true
		})
		n.evicts(3*time.Minute, "greedy")
		n.oneIncident("shop/greedy")
		i := &n.incidents[0]
		if i.OOMKills != 2 || !slices.Equal(i.Kubelets, []string{"shop/killed"}) {
			t.Errorf("got %+v", i)
		}
		if others := n.decided(func(d *decide.Decision) bool { return d.Incident != i.ID }); len(others) > 0 {
			t.Errorf("a decision of incident %q, want %q", others[0].Incident, i.ID)
		}
	})
}

// Thousands of pods that the kubelet evicted before an incident may still be listed: the state keeps the incident all
// the same, and counts none of them as evicted during it.
func TestFaultOldKubeletVictimsPushTheIncidentOutOfTheState(t *testing.T) {
	story(t, func(n *world) {
		const old = 1200 // with long UIDs, for 7000
		n.runs("greedy 200/10")
		evictedAt := func(at time.Time) func(*corev1.Pod) {
			return func(p *corev1.Pod) {
				byKubelet(p)
				p.UID = types.UID(fmt.Sprintf("%s-%0240d", p.UID, 0))
				p.CreationTimestamp = metav1.NewTime(n.began.Add(-time.Hour))
				p.Status.Conditions[1].LastTransitionTime = metav1.NewTime(at)
			}
		}
		for i := range old {
			n.Run(fmt.Sprintf("old%d", i), 0, 0, evictedAt(n.began.Add(-time.Duration(i+1)*time.Second))).noCgroup = true
		}
		n.host = 750 * Mebi
		time.AfterFunc(3*time.Second, func() { n.Run("during", 0, 0, evictedAt(time.Now())) })
		n.policy.Transition = 5 * time.Second
		var killed *File
		time.AfterFunc(time.Second, func() { killed = n.file.Copy() })
		n.live(1100 * time.Millisecond)
		n.file = killed
		if open := n.kept().Incidents; len(open) != 1 {
			t.Fatalf("%d incidents are kept, want the one that is open", len(open))
		}
		n.live(12 * time.Second)
		if len(n.incidents) != 1 || !slices.Equal(n.incidents[0].Kubelets, []string{"shop/during"}) {
			t.Errorf("%d incidents ended: %.300v, want one in which one pod was evicted", len(n.incidents), n.incidents)
		}
	})
}

// How much of a stall a simulated victim's end would have removed is not known. It is waited for like a real one, for
// as long and a window more. Then a stall that continues names the next pod, once each, and is not reported as over; one
// that has ended names none. A would-be victim that counts as ended does not stall on behalf of another pod: what remains
// are pods in limits of their own, and evicting another would not help those.
func TestFaultDryRunHidesAStall(t *testing.T) {
	cases(t, func(n *world) {
		n.runs("greedy 500/100", "next 400/100")
		n.dry()
	}, map[string]func(n *world){
		"it continues": func(n *world) {
			n.runs("last 300/100")
			n.stalls(new(0.3), 0, nil)
			n.evicts(10*time.Minute, "greedy", "next", "last")
			if len(n.incidents) != 0 {
				n.t.Errorf("incidents %+v have ended, want none while the node stalls", n.incidents)
			}
			const relied = 30*time.Second + decide.DeadlineMargin + stallWindow
			named := n.evictedAt()
			for i := 1; i < len(named); i++ {
				if after := named[i] - named[i-1]; after < relied || after > relied+2*time.Second {
					n.t.Errorf("the next pod was named after %v, want %v: the victim's time and a window", after, relied)
				}
			}
		},
		"it ends": func(n *world) {
			share := 0.3
			n.After(30*time.Second, func() { share = 0 })
			n.stalls(&share, 0, nil)
			n.evicts(10*time.Minute, "greedy")
			n.oneIncident("shop/greedy")
		},
		"what remains is another's own": func(n *world) {
			n.runs("bound 300/300")
			n.stalls(new(0.3), 5*time.Minute, func() {
				n.pod("greedy").waited += 50 * time.Millisecond
				n.pod("bound").limitHits += 5
			})
			n.evicts(5*time.Minute, "greedy")
			n.says(decide.HoldStalledWithinOwnLimits)
		},
	})
}

// documents runs an agent and returns its documents, each asked for so long after the one before. They have the
// configuration of a node where all pods may be evicted.
func (n *world) documents(disk bool, after ...time.Duration) (all []*status.Document) {
	n.t.Helper()
	n.start()
	defer n.background()()
	c := config.Default()
	c.Protect.WithinRequests = decide.WithinRequestsNever
	for _, wait := range after {
		time.Sleep(wait)
		d, err := n.agent.Status(n.t.Context(), disk)
		if err != nil {
			n.t.Fatal(err)
		}
		d.Configuration = c
		all = append(all, d)
	}
	return all
}

// ranked fails the test unless these are the candidates of a document, in order, and the protected pods with why; or
// why there is none, under "".
func (n *world) ranked(d *status.Document, signal pressure.Signal, candidates []string, protected map[string]string) {
	n.t.Helper()
	d.Rank(signal)
	var got []string
	kept := map[string]string{}
	if d.Ranking == nil {
		kept[""] = d.Unranked
	} else {
		for _, e := range d.Ranking.Candidates {
			got = append(got, e.Name)
		}
		for _, e := range d.Ranking.Protected {
			kept[e.Name] = e.Protection
		}
	}
	same(n.t, signal.String()+": candidates", candidates, got)
	same(n.t, signal.String()+": protected", protected, kept)
}

// Under pressure the document has the signal and where its thresholds stand, what is in flight, and what was refused;
// and it ranks by all of them.
func TestStatusTellsWhatTheLoopKnows(t *testing.T) {
	story(t, func(n *world) {
		n.runs("blocked 400/100", "greedy 300/100", "next 250/100")
		n.stubborn = true
		n.answers(outcomes{"blocked": evict.BlockedByBudget})
		n.softAndHard()
		d := n.documents(false, time.Second)[0]
		thresholds := d.Signals[0].Thresholds
		if len(d.Signals) != 1 || *d.Signals[0].Available != 50*Mebi || !d.Signals[0].Under || len(thresholds) != 2 ||
			!thresholds[0].Holds || thresholds[0].Since.IsZero() || thresholds[0].Kind != "Hard" ||
			thresholds[1].Line == nil {
			t.Errorf("signals %+v", d.Signals)
		}
		if len(d.InFlight) != 1 || d.InFlight[0].Key() != "shop/greedy" || d.InFlight[0].Signal != "memory.available" ||
			d.InFlight[0].Expected.At(pressure.MemoryAvailable) != 300*Mebi {
			t.Errorf("in flight %+v", d.InFlight)
		}
		if len(d.BackOffs) != 1 || d.BackOffs[0].Name != "shop/blocked" ||
			!strings.Contains(d.BackOffs[0].Why, "PodDisruptionBudget blocked was BlockedByBudget") ||
			!d.BackOffs[0].Until.After(d.Time) {
			t.Errorf("back-offs %+v", d.BackOffs)
		}
		if age := d.Time.Sub(d.LastTick); !d.Enforcement.Acts() || age < 0 || age > time.Second {
			t.Errorf("enforcement %+v, looked %v before", d.Enforcement, age)
		}
		n.ranked(d, pressure.MemoryAvailable, []string{"next"}, map[string]string{"blocked": string(rank.ProtectedBackingOff), "greedy": string(rank.ProtectedTerminating)})
	})
}

// A pod whose request is in doubt is in flight in the document, and keeps its place in the ranking. A would-be victim
// of a dry run is in flight until it would have ended, and after that.
func TestStatusOfAVictim(t *testing.T) {
	each(t, []bool{false, true}, func(n *world, dryRun bool) {
		n.runs("victim 950/100")
		if n.policy.DryRun = dryRun; !dryRun {
			n.answer = lost
		}
		n.policy.Transition = time.Minute
		all := n.documents(false, 500*time.Millisecond, time.Minute)
		if len(all[0].InFlight) != 1 || all[0].Enforcement.Acts() == dryRun {
			n.t.Fatalf("in flight %+v, enforcement %+v", all[0].InFlight, all[0].Enforcement)
		}
		now := all[0].InFlight[0]
		if !dryRun {
			if now.Phase != decide.Requested || now.Key() != "shop/victim" || now.Accepted.IsZero() || now.Request != nil {
				n.t.Errorf("in flight %+v", now)
			}
			n.ranked(all[0], pressure.MemoryAvailable, []string{"victim"}, nil)
			return
		}
		if later := all[1].InFlight[0]; !now.DryRun || now.Phase == decide.Gone || !later.DryRun || later.Phase != decide.Gone {
			n.t.Errorf("in flight %+v, and later %+v", now, later)
		}
		if e := all[0].Enforcement; e.Reason != "Configured" {
			n.t.Errorf("enforcement %+v", e)
		}
	})
}

// A calm node is ranked by what its pods use now, of the disks too where that is asked for: then they are measured,
// once for a while. Who asks often makes the loop read the pods once a second, and finished pods, which may be many, are
// left out.
func TestStatusRanksForEachSignal(t *testing.T) {
	story(t, func(n *world) {
		n.memory(2000)
		n.Run("finished", 0, 0, byKubelet)
		n.runs("self 500/0", "modest 100/200", "greedy 300/100", "unread 300/0")
		n.pod("self").self, n.pod("unread").noCgroup = true, true
		n.filesystem(nodefs, nil)
		n.policy.Thresholds, n.disk.slow = HardPolicy().Thresholds, time.Second
		n.disk.measured = map[string]usage.DiskUse{"uid-modest": onDisk(9, 9, 9, 9), "uid-greedy": onDisk(5, 5, 5, 5)}
		documents := n.documents(true, append(slices.Repeat([]time.Duration{100 * time.Millisecond}, 20), time.Minute)...)
		if n.collects > 8 { // four of them keep the cgroups warm
			t.Errorf("%d documents read the pods %d times", len(documents), n.collects)
		}
		last := documents[20]
		if len(last.Pods) != 4 {
			t.Errorf("pods %+v", last.Pods)
		}
		protected := map[string]string{"self": string(rank.ProtectedSelf), "unread": string(rank.ProtectedNoUsageSample)}
		n.ranked(last, pressure.MemoryAvailable, []string{"greedy", "modest"}, protected)
		n.ranked(last, pressure.PIDAvailable, []string{"greedy", "modest"}, protected)
		n.ranked(last, nodefs, []string{"modest", "greedy"}, protected)
		if n.disk.asked.Load() != 2 || last.DiskMeasured.IsZero() {
			t.Errorf("measured %d times for documents of now and of a minute later", n.disk.asked.Load())
		}
	})
}

// A document says why nothing can be ranked, and not that there is nothing.
func TestStatusWithoutAReading(t *testing.T) {
	story(t, func(n *world) {
		n.runs("a 1/0")
		n.unread, n.unknown, n.staleWatch = errPlanted(), errPlanted(), errPlanted()
		n.filesystem(nodefs, nil)
		n.policy.Thresholds, n.disk.err = HardPolicy().Thresholds, errPlanted()
		d := n.documents(true, time.Second)[0]
		n.ranked(d, pressure.MemoryAvailable, nil, map[string]string{"": "reading the pods' cgroups: planted"})
		n.ranked(d, nodefs, nil, map[string]string{"": "measuring the pods' disk use: planted"})
		if s := d.Signals[0]; s.State != "Unknown" || s.Available != nil || s.Reason != "planted" ||
			d.PodsUnknown != "planted" {
			t.Errorf("the signal is %+v, the pods are %q", s, d.PodsUnknown)
		}
	})
}

// Who asks a loop that does not run, or that waits for a disk, is not kept waiting.
func TestStatusOfALoopThatHangs(t *testing.T) {
	stories(t, map[string]bool{"it does not run": false, "it waits for a disk": true}, func(n *world, _ string, runs bool) {
		n.filesystem(nodefs, nil)
		n.disk.slow = time.Hour
		if n.start(); runs {
			defer n.background()()
		}
		ctx, cancel := context.WithCancelCause(n.t.Context())
		time.AfterFunc(5*time.Second, func() { cancel(errors.New("no answer within 5s")) })
		if d, err := n.agent.Status(ctx, true); d != nil || err == nil || err.Error() != "waiting for evictd's loop: no answer within 5s" {
			n.t.Errorf("%+v, %v", d, err)
		}
	})
}
