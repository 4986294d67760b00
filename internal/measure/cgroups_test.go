package measure

import (
	"testing"
	"time"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/nodepods"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/rank"
	"github.com/evictd/evictd/pkg/usage"
)

// TestAmountIsWhatIsExpected: a pod is ranked by the amount that its end is expected to free and
// that is booked.
func TestAmountIsWhatIsExpected(t *testing.T) {
	t.Parallel()
	pod := usage.Pod{WorkingSet: 1000, Anonymous: 100, Shared: 20, Kernel: 3, KernelKnown: true, Tasks: 7, TasksKnown: true}
	for _, test := range []struct {
		signal     pressure.Signal
		definition pressure.MemoryDefinition
		want       int64
	}{
		{pressure.MemoryAvailable, pressure.Kernel, 123},
		{pressure.MemoryAvailable, pressure.WorkingSet, 1000},
		{pressure.KubeletMemoryAvailable, pressure.Kernel, 1000},
		{pressure.KubeletMemoryAvailable, pressure.WorkingSet, 1000},
		{pressure.AllocatableMemoryAvailable, pressure.Kernel, 123},
		{pressure.AllocatableMemoryAvailable, pressure.WorkingSet, 1000},
		{pressure.MemoryStall, pressure.Kernel, 123},
		{pressure.MemoryStall, pressure.WorkingSet, 1000},
		{pressure.PIDAvailable, pressure.Kernel, 7},
	} {
		use := CgroupUse(test.signal, test.definition, &pod)
		frees := test.want
		if test.signal == pressure.MemoryStall {
			frees = WholeStall
		}
		if !use.Known || use.Value != test.want || use.Expected.At(test.signal) != frees {
			t.Errorf("%s by %s: %+v, want %d", test.signal, test.definition, use, test.want)
		}
	}
	if use := CgroupUse(pressure.PIDAvailable, pressure.Kernel, &usage.Pod{Anonymous: 1}); use.Known {
		t.Errorf("tasks that were not read are known: %+v", use)
	}
	if reclaim := (&usage.Pod{Anonymous: 100, Shared: 20, Kernel: 3}).Reclaim(); reclaim != 120 {
		t.Errorf("kernel memory that is not known counts: %d", reclaim)
	}
	// A victim that has freed its memory ends no stall any more, and 0 replaces what was booked.
	if got, there := Expected(&usage.Pod{WorkingSet: 1 << 20}, pressure.Kernel).Of(pressure.MemoryStall); got != 0 || !there {
		t.Errorf("without memory: expected %d, %v", got, there)
	}
}

// groups are cgroups: what is charged to each pod, and what of it is anonymous, for each the same.
type groups struct {
	charged   map[string]int64
	anonymous int64
}

func (g *groups) Collect(into []usage.Pod, standIn usage.StandIn) ([]usage.Pod, error) {
	for uid, used := range g.charged {
		pod := usage.Pod{UID: uid, Used: used, Anonymous: g.anonymous}
		if standIn != nil {
			if earlier, stands := standIn(uid, used); stands {
				pod.Anonymous, pod.Earlier = earlier.Anonymous, true
			}
		}
		into = append(into, pod)
	}
	return into, nil
}
func (*groups) Stalls() ([]usage.Stall, error) { return nil, nil }
func (*groups) Present(string) (bool, error)   { return true, nil }

// TestStandIns: an earlier reading stands in for a pod that cannot exceed its request, as all that is charged to it is
// within it, and only where as much was charged then, and no pod within its request may go.
func TestStandIns(t *testing.T) {
	t.Parallel()
	const mebi, request = 1 << 20, 100 << 20
	node := pressure.Pressure{
		Threshold: pressure.Threshold{Signal: pressure.MemoryAvailable, Hard: true}, Line: 100, Observed: pressure.Observation{State: pressure.Known, Available: 90},
	}
	exhausted, pids := node, node
	exhausted.Observed.Available = 40
	pids.Threshold.Signal = pressure.PIDAvailable
	for name, test := range map[string]struct {
		before, now int64 // charged to the pod
		age         time.Duration
		pressure    pressure.Pressure
		kubelets    int64
		within      decide.WithinRequests
		stands      bool
	}{
		"as before":                    {50 * mebi, 50 * mebi, time.Second, node, 0, "", true},
		"a little more":                {50 * mebi, 51 * mebi, time.Second, node, 0, "", true},
		"a little less":                {50 * mebi, 49 * mebi, time.Second, node, 0, "", true},
		"more":                         {50 * mebi, 51*mebi + 1, time.Second, node, 0, "", false},
		"less":                         {50 * mebi, 49*mebi - 1, time.Second, node, 0, "", false},
		"its request":                  {request, request, time.Second, node, 0, "", true},
		"over its request":             {request + 1, request + 1, time.Second, node, 0, "", false},
		"long ago":                     {50 * mebi, 50 * mebi, decide.ReadingMaxAge + time.Second, node, 0, "", false},
		"near exhaustion":              {50 * mebi, 50 * mebi, time.Second, exhausted, 0, "", false},
		"below the kubelet's line":     {50 * mebi, 50 * mebi, time.Second, node, 95, "", false},
		"pods within their requests":   {50 * mebi, 50 * mebi, time.Second, node, 0, decide.WithinRequestsNever, false},
		"no pod within its request is": {50 * mebi, 50 * mebi, time.Second, node, 0, decide.WithinRequestsAlways, true},
		"PIDs":                         {50 * mebi, 50 * mebi, time.Second, pids, 0, "", false},
	} {
		of := &groups{map[string]int64{"uid": test.before, "unlisted": 7}, 1}
		m := New(Options{Cgroups: of, Fault: func(_ string, err error) { t.Error(err) }})
		at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
		m.collect(at, nil)
		of.charged["uid"], of.anonymous = test.now, 2
		s := &decide.Situation{
			Pressure: test.pressure, KubeletLine: test.kubelets, Policy: &decide.Policy{WithinRequests: test.within},
			Pods: []*nodepods.Pod{{Pod: rank.Pod{UID: "uid"}, CgroupUID: "uid", MemoryRequest: request}},
		}
		s.Pressure.SampleTime = at.Add(test.age)
		uses := m.cgroups(s)
		want := map[bool]int64{true: 1, false: 2}[test.stands]
		if got := uses.ByUID["uid"].Reclaim; got != want || uses.Unlisted["unlisted"].Reclaim != 2 {
			t.Errorf("%s: reading %d, want %d; the one that is not listed %d", name, got, want, uses.Unlisted["unlisted"].Reclaim)
		}
		s.Pressure.SampleTime = at.Add(max(test.age, decide.ReadingMaxAge))
		if got := m.cgroups(s).ByUID["uid"].Reclaim; got != 2 {
			t.Errorf("%s: a reading stands in for longer because it did before", name)
		}
	}
}

// TestRecent: what a decision has read is what the record has of it; a decision itself reads.
func TestRecent(t *testing.T) {
	t.Parallel()
	of := &groups{map[string]int64{"uid": 50}, 50}
	m := New(Options{Cgroups: of, Fault: func(_ string, err error) { t.Error(err) }})
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	decided := func() int64 {
		return m.cgroups(&decide.Situation{
			Policy: &decide.Policy{}, Pressure: pressure.Pressure{SampleTime: at},
			Pods: []*nodepods.Pod{{Pod: rank.Pod{UID: "uid"}, CgroupUID: "uid"}},
		}).ByUID["uid"].Reclaim
	}
	for i, step := range []struct {
		read func() int64
		want int64
	}{
		{decided, 50},
		{decided, 60},
		{func() int64 { read, _ := m.Recent(at.Add(time.Second), time.Second); return read[0].Used }, 60},
		{func() int64 { read, _ := m.Recent(at.Add(time.Second+1), time.Second); return read[0].Used }, 80},
		{func() int64 {
			held, _ := m.Held(at.Add(time.Second + 1))
			return held["uid"].At(pressure.MemoryAvailable)
		}, 90},
	} {
		if got := step.read(); got != step.want {
			t.Errorf("reading %d: %d, want %d", i, got, step.want)
		}
		of.charged["uid"], of.anonymous = of.charged["uid"]+10, of.anonymous+10
	}
}
