package main

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	}{
		"it runs":                        {[]*corev1.Pod{pod(runs)}, ""},
		"evictd":                         {[]*corev1.Pod{pod(runs), pod(runs, evicted, deleted), pod(evicted, deleted, terminated("a", "Completed", 0))}, byEvictd},
		"the kubelet, by the condition":  {[]*corev1.Pod{pod(runs), pod(runs, byTheKubelet)}, byKubelet},
		"the kubelet, by the status":     {[]*corev1.Pod{pod(runs), pod(func(p *corev1.Pod) { p.Status.Reason = "Evicted" })}, byKubelet},
		"the kernel":                     {[]*corev1.Pod{pod(runs), pod(terminated("a", "OOMKilled", 137))}, byKernel},
		"the kernel, and it runs again":  {[]*corev1.Pod{pod(runs), pod(restarted)}, byKernel},
		"evictd, and then the kernel":    {[]*corev1.Pod{pod(runs, evicted, deleted), pod(evicted, deleted, terminated("a", "OOMKilled", 137))}, byEvictd},
		"the kernel, and then evictd":    {[]*corev1.Pod{pod(restarted), pod(restarted, evicted, deleted)}, byKernel},
		"deleted by another":             {[]*corev1.Pod{pod(runs), pod(runs, deleted)}, byOther},
		"itself, with an error":          {[]*corev1.Pod{pod(runs), pod(terminated("a", "Error", 1))}, byOther},
		"the kubelet did not admit it":   {[]*corev1.Pod{pod(rejected)}, ""},
		"a condition that does not hold": {[]*corev1.Pod{pod(runs, evicted, func(p *corev1.Pod) { p.Status.Conditions[0].Status = corev1.ConditionFalse })}, ""},
	} {
		l := newLife(c.seen[0], func(string) {})
		for i, p := range c.seen {
			l.see(p, at(i))
		}
		e, ended := endOf(l, "", at(0), at(10))
		if ended != (c.by != "") || (ended && e.By != c.by) {
			t.Errorf("%s: ended %v by %q, want %q", name, ended, e.By, c.by)
		}
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
	}{
		"all of it":                         {whole, true, clean, true},
		"without a hook":                    {"t term\nt exit\n", false, clean, true},
		"the last status was not seen":      {whole, true, runs, true},
		"the hook was cut":                  {"t prestop-start\nt term\nt exit\n", true, clean, false},
		"the hook was not run":              {"t term\nt exit\n", true, clean, false},
		"no SIGTERM":                        {"t start\n", false, killed, false},
		"SIGKILL while it handled SIGTERM":  {"t term\n", false, killed, false},
		"it was killed after its last word": {whole, true, killed, false},
		"another exit code":                 {"t term\nt exit\n", false, failed, false},
		"the kernel ended it meanwhile":     {whole, true, oom, false},
	} {
		l := newLife(pod(), func(string) {})
		l.preStop = c.hook
		l.see(pod(runs), at(0))
		l.see(pod(evicted, deleted, c.last), at(8))
		e, ended := endOf(l, c.journal, at(0), at(10))
		if !ended || e.Graceful != c.graceful {
			t.Errorf("%s: ended %v, graceful %v, want %v", name, ended, e.Graceful, c.graceful)
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

// The victims of a scenario are pods of it, and every pod that takes memory is bounded.
func TestCatalogue(t *testing.T) {
	for _, s := range catalogue() {
		known := map[string]bool{}
		for _, p := range append(common("127.0.0.1:1"), s.Pods...) {
			known[p.Name] = true
			if p.LimitMiB < max(p.UsesMiB, p.AsksMiB, 1) {
				t.Errorf("scenario %d: %s uses %d MiB and requests %d, its limit is %d", s.Number, p.Name, p.UsesMiB, p.AsksMiB, p.LimitMiB)
			}
		}
		for app := range s.Smallest {
			if !known[app] {
				t.Errorf("scenario %d: victim %s is not there", s.Number, app)
			}
		}
	}
}

func TestHowLateTheFirstEndIs(t *testing.T) {
	crossed := []Line{softLine: {}, hardLine: {First: 10, Below: 1}, kubeletLine: {}}
	for name, c := range map[string]struct {
		result Result
		want   []float64
	}{
		"after the line":  {Result{Memory: crossed, Ends: []End{{At: 12}, {At: 30}}}, []float64{2}},
		"before the line": {Result{Memory: crossed, Ends: []End{{At: 4}}}, []float64{-6}},
		"no end":          {Result{Memory: crossed}, nil},
		"above the line":  {Result{Memory: make([]Line, linesCount), Ends: []End{{At: 4}}}, nil},
	} {
		if got := c.result.late(); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// What happens again at once is told once.
func TestTimelineInOneLine(t *testing.T) {
	r := Result{Timeline: []Moment{{0, "begins"}, {1.26, "a new pod"}, {2, "a new pod"}, {3, "ended"}, {4, "a new pod"}}}
	if got, want := r.told(), "0.0 begins; 1.3 a new pod (2 times); 3.0 ended; 4.0 a new pod"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
