package main

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evictd/evictd/test/internal/measure"
)

func at(seconds int) time.Time { return time.Unix(1_700_000_000+int64(seconds), 0) }

// pod is a pod whose status is changed step by step, as the watch tells it.
func pod(change ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "leak-1", Labels: map[string]string{"app": "leak"}}}
	for _, c := range change {
		c(p)
	}
	return p
}

func runs(p *corev1.Pod) {
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{
		Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(at(0))},
	}}}
}

func disrupted(reason string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: reason})
	}
}

func deleted(p *corev1.Pod) {
	now := metav1.NewTime(at(5))
	p.DeletionTimestamp = &now
}

func terminated(id, reason string, code int32) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
			ContainerID: id, Reason: reason, ExitCode: code, StartedAt: metav1.NewTime(at(0)), FinishedAt: metav1.NewTime(at(8)),
		}}}}
	}
}

// rejected is a pod that the kubelet does not admit while its node is under pressure.
func rejected(p *corev1.Pod) {
	p.Status.Phase, p.Status.Reason = corev1.PodFailed, "Evicted"
	p.Status.Message = "Pod was rejected: The node had condition: [DiskPressure]. "
}

// restarted is a container that runs again after the kernel has ended the one before.
func restarted(p *corev1.Pod) {
	runs(p)
	p.Status.ContainerStatuses[0].LastTerminationState.Terminated = &corev1.ContainerStateTerminated{
		ContainerID: "first", Reason: "OOMKilled", ExitCode: 137, StartedAt: metav1.NewTime(at(0)), FinishedAt: metav1.NewTime(at(3)),
	}
}

func TestWhatEndedAPod(t *testing.T) {
	evicted, byTheKubelet := disrupted("EvictionByEvictionAPI"), disrupted(corev1.PodReasonTerminationByKubelet)
	for name, c := range map[string]struct {
		seen []*corev1.Pod
		by   string // "" is none
		also []string
	}{
		"it runs":                        {[]*corev1.Pod{pod(runs)}, "", nil},
		"evictd":                         {[]*corev1.Pod{pod(runs), pod(runs, evicted, deleted), pod(evicted, deleted, terminated("a", "Completed", 0))}, byEvictd, nil},
		"the kubelet, by the condition":  {[]*corev1.Pod{pod(runs), pod(runs, byTheKubelet)}, byKubelet, nil},
		"the kubelet, by the status":     {[]*corev1.Pod{pod(runs), pod(func(p *corev1.Pod) { p.Status.Reason = "Evicted" })}, byKubelet, nil},
		"the kernel":                     {[]*corev1.Pod{pod(runs), pod(terminated("a", "OOMKilled", 137))}, byKernel, nil},
		"the kernel, and it runs again":  {[]*corev1.Pod{pod(runs), pod(restarted)}, byKernel, nil},
		"evictd, and then the kernel":    {[]*corev1.Pod{pod(runs, evicted, deleted), pod(evicted, deleted, terminated("a", "OOMKilled", 137))}, byEvictd, []string{byKernel}},
		"the kernel, and then evictd":    {[]*corev1.Pod{pod(restarted), pod(restarted, evicted, deleted)}, byKernel, []string{byEvictd}},
		"deleted by another":             {[]*corev1.Pod{pod(runs), pod(runs, deleted)}, byOther, nil},
		"itself, with an error":          {[]*corev1.Pod{pod(runs), pod(terminated("a", "Error", 1))}, byOther, nil},
		"the kubelet did not admit it":   {[]*corev1.Pod{pod(rejected)}, "", nil},
		"a condition that does not hold": {[]*corev1.Pod{pod(runs, evicted, func(p *corev1.Pod) { p.Status.Conditions[0].Status = corev1.ConditionFalse })}, "", nil},
	} {
		l := newLife(c.seen[0])
		for i, p := range c.seen {
			l.see(p, at(i))
		}
		e, ended := endOf(l, "", at(0), at(10))
		if ended != (c.by != "") || (ended && (e.By != c.by || !slices.Equal(e.Also, c.also))) {
			t.Errorf("%s: ended %v by %q, also %q, want %q, also %q", name, ended, e.By, e.Also, c.by, c.also)
		}
	}
}

// A pod whose container's end the kubelet has lost has ended all the same.
func TestEndOfAnUnknownContainer(t *testing.T) {
	l := newLife(pod())
	l.see(pod(runs), at(1))
	l.see(pod(disrupted(corev1.PodReasonTerminationByKubelet), func(p *corev1.Pod) {
		p.Status.Phase = corev1.PodFailed
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{Reason: "ContainerStatusUnknown", ExitCode: 137},
		}}}
	}), at(4))
	if !l.finished.Equal(at(4)) {
		t.Errorf("it ended at %v, want %v", l.finished, at(4))
	}
}

// An OOM kill is told again with every status that follows: it counts once.
func TestAKillCountsOnce(t *testing.T) {
	l := newLife(pod())
	for range 3 {
		l.see(pod(restarted), at(4))
	}
	if len(l.killed) != 1 {
		t.Errorf("%d kills, want 1", len(l.killed))
	}
	l.see(pod(terminated("second", "OOMKilled", 137)), at(9))
	if len(l.killed) != 2 {
		t.Errorf("%d kills, want 2: another container was ended", len(l.killed))
	}
}

func TestGrace(t *testing.T) {
	const whole = "t prestop-start\nt prestop-end\nt term\nt exit\n"
	evicted := disrupted("EvictionByEvictionAPI")
	clean, killed, failed := terminated("a", "Completed", 0), terminated("a", "Error", 137), terminated("a", "Error", 1)
	oom := terminated("a", "OOMKilled", 137)
	for name, c := range map[string]struct {
		journal  string
		hook     bool
		last     func(*corev1.Pod)
		graceful bool
		preStop  string
	}{
		"all of it":                         {whole, true, clean, true, "finished"},
		"without a hook":                    {"t term\nt exit\n", false, clean, true, ""},
		"the last status was not seen":      {whole, true, runs, true, "finished"},
		"the hook was cut":                  {"t prestop-start\nt term\nt exit\n", true, clean, false, "cut"},
		"the hook was not run":              {"t term\nt exit\n", true, clean, false, "not run"},
		"no SIGTERM":                        {"t start\n", false, killed, false, ""},
		"SIGKILL while it handled SIGTERM":  {"t term\n", false, killed, false, ""},
		"it was killed after its last word": {whole, true, killed, false, "finished"},
		"another exit code":                 {"t term\nt exit\n", false, failed, false, ""},
		"the kernel ended it meanwhile":     {whole, true, oom, false, "finished"},
	} {
		l := newLife(pod())
		l.preStop = c.hook
		l.see(pod(runs), at(0))
		l.see(pod(evicted, deleted, c.last), at(8))
		e, ended := endOf(l, c.journal, at(0), at(10))
		if !ended || e.Graceful != c.graceful || e.PreStop != c.preStop {
			t.Errorf("%s: ended %v, graceful %v, preStop %q, want %v, %q", name, ended, e.Graceful, e.PreStop, c.graceful, c.preStop)
		}
	}
}

func TestBeyondTheSmallestSet(t *testing.T) {
	ends := func(apps ...string) (list []End) {
		for _, app := range apps {
			list = append(list, End{App: app, By: byEvictd, Graceful: true})
		}
		return list
	}
	innocents := []string{"web", "greedy"}
	for name, c := range map[string]struct {
		ends           []End
		smallest       map[string]int
		more, innocent int
	}{
		"the smallest set":      {ends("leak"), map[string]int{"leak": 1}, 0, 0},
		"none":                  {nil, map[string]int{"leak": 1}, 0, 0},
		"its replacement, too":  {ends("leak", "leak"), map[string]int{"leak": 1}, 1, 0},
		"an innocent beside":    {ends("leak", "web"), map[string]int{"leak": 1}, 1, 1},
		"two innocents alone":   {ends("web", "greedy"), nil, 2, 2},
		"an innocent twice":     {ends("web", "web"), nil, 2, 2},
		"one that is not named": {ends("other"), nil, 1, 0},
		"any number":            {ends("leak", "leak", "leak"), map[string]int{"leak": Any}, 0, 0},
	} {
		want := tally{ended: len(c.ends), beyond: c.more, innocent: c.innocent, graceful: len(c.ends)}
		if got := count(c.ends, c.smallest, innocents, byEvictd); got != want {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
	}
}

// What the kubelet ends first takes a pod's place in the smallest set.
func TestCountOfEachCause(t *testing.T) {
	ends := []End{{App: "leak", By: byKubelet}, {App: "leak", By: byEvictd, Graceful: true}, {App: "web", By: byKubelet}, {App: "web", By: byKernel}}
	smallest, innocents := map[string]int{"leak": 1}, []string{"web"}
	for cause, want := range map[string]tally{
		byEvictd:  {ended: 1, beyond: 1, graceful: 1},
		byKubelet: {ended: 2, beyond: 1, innocent: 1},
		byKernel:  {ended: 1, beyond: 1, innocent: 1},
	} {
		if got := count(ends, smallest, innocents, cause); got != want {
			t.Errorf("%s: %+v, want %+v", cause, got, want)
		}
	}
	if got, want := count(ends, smallest, innocents, causes()...), (tally{ended: 4, beyond: 3, innocent: 2, graceful: 1}); got != want {
		t.Errorf("all: %+v, want %+v", got, want)
	}
}

func TestWorkLost(t *testing.T) {
	l := newLife(pod())
	l.request = 2 << 30
	l.see(pod(runs), at(0))
	l.see(pod(disrupted("EvictionByEvictionAPI"), deleted, terminated("a", "Completed", 0)), at(9))
	e, _ := endOf(l, "", at(1), at(100))
	if got := workLost([]End{e, {Ran: 10, Request: 1 << 29}}); math.Abs(got-(8*2+5)) > 1e-9 {
		t.Errorf("%v GiB·s, want 21: 8 s of 2 GiB and 10 s of half a GiB", got)
	}
}

func TestBudgetIsViolatedOnceUntilItIsMetAgain(t *testing.T) {
	var v violation
	for _, healthy := range []int32{3, 2, 1, 0, 1, 2, 3, 1} {
		v.see(healthy, 2)
	}
	if v.count != 2 {
		t.Errorf("%d violations, want 2", v.count)
	}
}

func TestLongestGap(t *testing.T) {
	beats := []time.Time{at(-1), at(1), at(2), at(6), at(7), at(30)}
	for to, want := range map[int]time.Duration{8: 4 * time.Second, 20: 13 * time.Second} {
		if got := longestGap(beats, at(0), at(to)); got != want {
			t.Errorf("until %d s: %v, want %v", to, got, want)
		}
	}
	if got := longestGap(nil, at(0), at(9)); got != 9*time.Second {
		t.Errorf("without a beat: %v, want all the time", got)
	}
}

func TestTimeBelowALine(t *testing.T) {
	l := Line{Bytes: 100}
	for i, figure := range []int64{120, 100, 99, 70, 101, 90, 130} {
		l.see(figure, float64(i), 1)
	}
	if l.Below != 3 || l.Depth != 30 || l.First != 2 || l.Last != 5 {
		t.Errorf("%+v, want 3 s, 30 deep, from 2 to 5: at the line is not below it", l)
	}
}

// What the rest of the machine uses is all that the pods and the bench's own processes do not
// account for.
func TestForeignUse(t *testing.T) {
	both := func(bytes int64) held { return held{bytes, bytes} }
	base := use{available: 1000, pods: both(100), host: 0}
	for name, c := range map[string]struct {
		now  use
		want int64
	}{
		"a pod takes memory":                        {use{700, both(400), 0}, 0},
		"a process of the bench takes it":           {use{700, both(100), 300}, 0},
		"a build takes it":                          {use{700, both(100), 0}, -300},
		"a build gives it back beside a leak":       {use{900, both(400), 0}, 200},
		"a pod takes memory, its kinds are late":    {use{700, held{100, 400}, 0}, 0},
		"a pod ends, its kinds are late":            {use{1100, held{100, 0}, 0}, 0},
		"a pod reads files, its page cache is late": {use{1000, held{100, 400}, 0}, 0},
		"a build beside a pod whose kinds are late": {use{600, held{100, 400}, 0}, -100},
	} {
		if got := base.foreign(c.now); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}

func TestLines(t *testing.T) {
	l := linesAt(20 * gibibyte)
	if l.End != 12*gibibyte || l.Hard-l.End != 307*mebibyte+209715 || l.Soft-l.End != 614*mebibyte+419430 || l.Kubelet != 100*mebibyte {
		t.Errorf("%+v", l)
	}
}

func TestCPU(t *testing.T) {
	// 150 ticks: 60 idle or waiting, 20 stolen.
	busy, steal := shares(measure.MachineCPU{Busy: 70, Idle: 60, Stolen: 20})
	if math.Abs(busy-60) > 1e-9 || math.Abs(steal-100.0*20/150) > 1e-9 {
		t.Errorf("busy %v %%, stolen %v %%", busy, steal)
	}
	if busy, steal := shares(measure.MachineCPU{}); busy != 0 || steal != 0 {
		t.Errorf("no time: busy %v %%, stolen %v %%", busy, steal)
	}
}

// Every pod that takes memory is bounded, and the numbers are those of the issue.
func TestCatalogue(t *testing.T) {
	const scenarios = 21
	if n := len(catalogue()); n != scenarios {
		t.Errorf("%d scenarios, want %d", n, scenarios)
	}
	seen := map[int]bool{}
	for _, s := range catalogue() {
		if s.onDisk() != (s.Number >= 10 && s.Number <= 15) || s.onDisk() && s.DiskAboveMiB == 0 {
			t.Errorf("scenario %d: its signal is %s, and its disk begins %d MiB above the line", s.Number, s.signal(), s.DiskAboveMiB)
		}
		if seen[s.Number] || s.Number < 1 || s.Number > scenarios || s.What == "" || s.Lasts == 0 || len(s.Steps) == 0 {
			t.Errorf("scenario %d: twice, or without a number, text, time or step", s.Number)
		}
		seen[s.Number] = true
		known := map[string]bool{}
		for _, p := range append(common("127.0.0.1:1"), s.Pods...) {
			known[p.Name] = true
			if g := p.Grows; g != nil && (g.MiB == 0) == (g.StopsAtPercent == 0) {
				t.Errorf("scenario %d: the file of %s has no size, or two", s.Number, p.Name)
			}
			if p.LimitMiB < max(p.UsesMiB, p.AsksMiB, 1) {
				t.Errorf("scenario %d: %s uses %d MiB and requests %d, its limit is %d", s.Number, p.Name, p.UsesMiB, p.AsksMiB, p.LimitMiB)
			}
		}
		for app := range s.Smallest {
			if !known[app] || slices.Contains(s.innocents(), app) {
				t.Errorf("scenario %d: victim %s is not there, or innocent", s.Number, app)
			}
		}
		for _, app := range s.innocents() {
			if !known[app] {
				t.Errorf("scenario %d: innocent %s is not there", s.Number, app)
			}
		}
		if len(s.Smallest) == 0 && !s.Whole {
			t.Errorf("scenario %d: no pod should end, and it is not watched for all of its time", s.Number)
		}
	}
}

// The table is made from the files, and says what is missing.
func TestReportFromFiles(t *testing.T) {
	dir := t.TempDir()
	r := Result{
		Scenario: 1, Name: "slow leak", Arm: evictdArm, Run: 1, Machine: "m", Kubernetes: "v1", Commit: "c",
		Ends:     []End{{App: "leak", By: byEvictd, Graceful: true}, {App: "web", By: byKubelet}},
		Smallest: map[string]int{"leak": 1}, Innocents: []string{"web"}, Memory: make([]Line, linesCount),
	}
	if err := r.write(dir); err != nil {
		t.Fatal(err)
	}
	results, err := readResults(dir)
	if err != nil || len(results) != 1 {
		t.Fatalf("%d results, %v", len(results), err)
	}
	var out strings.Builder
	if err := report(&out, results); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"1 / 1 / 0 / 0", "0 / 1 / 0 / 0", "1 of 2", "not run yet"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the report lacks %q:\n%s", want, out.String())
		}
	}
}

// A pod of the run before, which is still listed when the incident begins, is no end of this incident.
func TestEndBeforeTheIncidentDoesNotCount(t *testing.T) {
	l := &life{app: "web", finished: at(4), started: at(1), gone: true}
	if e, ended := endOf(l, "", at(5), at(10)); ended {
		t.Errorf("%+v", e)
	}
	if _, ended := endOf(l, "", at(3), at(10)); !ended {
		t.Error("an end within the incident is missing")
	}
}
