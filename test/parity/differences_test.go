package parity

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/evictd/evictd/pkg/pressure"
)

// pressed returns a node with one filesystem on which every resource is nearly used up.
func pressed(pods ...Pod) *State {
	return &State{
		Thresholds: Thresholds{Hard: map[string]string{}, Transition: time.Minute},
		Layout:     OneFS, Protect: unprotected(), Pods: pods,
		Readings: []Reading{reading(time.Second)},
	}
}

// reading is one with a tenth left of each signal, except for the given ones.
func reading(after time.Duration, without ...pressure.Signal) Reading {
	r := Reading{After: after, Figures: map[string]Figure{}}
	for _, signal := range pressure.Signals() {
		if !slices.Contains(without, signal) {
			r.Figures[signal.String()] = Figure{Available: 1000, Capacity: 10000}
		}
	}
	return r
}

// using returns a pod that uses n of everything and requests nothing.
func using(name string, n int64) Pod {
	return Pod{
		Name: name, Namespace: "shop", Kind: Replica, Memory: new(n), Tasks: new(n), Processes: new(n),
		Containers: []Container{{Requests: map[string]string{}, Rootfs: &Disk{Bytes: n, Inodes: n}, Logs: &Disk{}}},
	}
}

// with returns the pod after a change.
func with(p Pod, change func(*Pod)) Pod {
	change(&p)
	return p
}

// One pod of each state has the difference and is named "odd".
func TestDifferencesInTheOrder(t *testing.T) {
	t.Parallel()
	calm := using("calm", 100)
	odd := func(n int64, change func(*Pod)) []Pod { return []Pod{with(using("odd", n), change), calm} }
	tests := map[Difference]struct {
		signal          pressure.Signal
		pods            []Pod
		change          func(*State)
		evictd, kubelet string // the first pod
	}{
		NoSample:      {pods: odd(1, func(p *Pod) { p.Unsampled, p.Priority = true, new(int32(1000)) }), evictd: "calm", kubelet: "odd"},
		MissingFigure: {signal: pressure.NodeFSAvailable, pods: odd(200, func(p *Pod) { p.Containers[0].Logs = nil }), evictd: "calm", kubelet: "odd"},
		Terminating:   {pods: odd(200, func(p *Pod) { p.Terminating = true }), evictd: "calm", kubelet: "odd"},
		DaemonSetPod: {
			pods:   odd(200, func(p *Pod) { p.Kind = Daemon }),
			change: func(s *State) { s.Protect.DaemonSets = true }, evictd: "calm", kubelet: "odd",
		},
		BarePod: {
			pods:   odd(200, func(p *Pod) { p.Kind = Bare }),
			change: func(s *State) { s.Protect.BarePods = true }, evictd: "calm", kubelet: "odd",
		},
		ProtectedPriority: {
			pods: []Pod{
				with(using("odd", 200), func(p *Pod) { p.Priority = new(int32(1000)) }),
				with(using("calm", 100), func(p *Pod) { p.Priority = new(int32(999)); p.Containers[0].Requests["memory"] = "1k" }),
			},
			change: func(s *State) { s.Protect.PriorityAtLeast = 1000 }, evictd: "calm", kubelet: "odd",
		},
		ProtectedNamespace: {
			pods:   odd(200, func(p *Pod) { p.Namespace = "kube-system" }),
			change: func(s *State) { s.Protect.Namespaces = []string{"kube-system"} }, evictd: "calm", kubelet: "odd",
		},
		ProtectedSelector: {
			pods:   odd(200, func(p *Pod) { p.Label = map[string]string{"keep": "me"} }),
			change: func(s *State) { s.Protect.PodSelector.MatchLabels = map[string]string{"keep": "me"} }, evictd: "calm", kubelet: "odd",
		},
		EvictdItself: {
			pods:   odd(200, func(*Pod) {}),
			change: func(s *State) { s.Self = "odd" }, evictd: "calm", kubelet: "odd",
		},
		Ties: {pods: odd(100, func(p *Pod) { p.Age = 5 }), evictd: "calm", kubelet: "odd"},
		Tasks: {
			signal: pressure.PIDAvailable,
			pods:   odd(5, func(p *Pod) { p.Tasks = new(int64(500)) }), evictd: "odd", kubelet: "calm",
		},
		InodeRequest: {
			signal: pressure.NodeFSInodesFree,
			pods:   odd(200, func(p *Pod) { p.Containers[0].Requests["ephemeral-storage"] = "1Gi" }), evictd: "odd", kubelet: "calm",
		},
		FractionOfByte: {
			pods: []Pod{
				with(using("odd", 101), func(p *Pod) { p.Containers[0].Requests["memory"] = "900m" }),
				with(using("calm", 101), func(p *Pod) { p.Containers[0].Requests["memory"] = "1"; p.Age = -1 }),
			},
			evictd: "calm", kubelet: "odd",
		},
		HostPath: {
			signal: pressure.NodeFSAvailable,
			pods:   odd(1, func(p *Pod) { p.Volumes = []Volume{{Kind: "hostPath", Disk: &Disk{Bytes: 1000}}} }), evictd: "calm", kubelet: "odd",
		},
		MemoryMeasure: {pods: odd(200, func(p *Pod) { p.Cached = 150 }), evictd: "calm", kubelet: "odd"},
	}
	for d, test := range tests {
		t.Run(string(d), func(t *testing.T) {
			t.Parallel()
			state := pressed(test.pods...)
			state.Thresholds.Hard[test.signal.String()] = "50%"
			if test.change != nil {
				test.change(state)
			}
			namesAlone(t, state, d)
			thresholds, err := state.Thresholds.kubelet()
			must(t, err)
			if got := kubelet(t.Context(), state, thresholds, state.Pods)[0].Victim; got != test.kubelet {
				t.Errorf("the kubelet takes %q, want %q", got, test.kubelet)
			}
			if got := evictdsFirst(t, state, test.signal); got != test.evictd {
				t.Errorf("evictd takes %q, want %q", got, test.evictd)
			}
		})
	}
	for _, d := range Differences() {
		_, inOrder := tests[d]
		if _, inJudge := judged()[d]; inOrder == inJudge {
			t.Errorf("%s needs one test: in the order %t, of the judge %t", d, inOrder, inJudge)
		}
	}
}

// On a node whose writable layers are on nodefs and whose images are elsewhere, layers count
// to nodefs and not to imagefs, where the pod with the smaller request is evicted first.
func TestFaultSplitFilesystemIsRankedAsByTheKubelet(t *testing.T) {
	t.Parallel()
	pods := []Pod{
		with(using("layers", 1000), func(p *Pod) { p.Containers[0].Requests["ephemeral-storage"] = "10" }),
		with(using("logs", 1), func(p *Pod) { p.Containers[0].Logs = &Disk{Bytes: 100, Inodes: 100} }),
	}
	for signal, want := range map[pressure.Signal]string{
		pressure.NodeFSAvailable:  "layers",
		pressure.ImageFSAvailable: "logs",
	} {
		t.Run(signal.String(), func(t *testing.T) {
			t.Parallel()
			state := pressed(pods...)
			state.Layout, state.Thresholds.Hard[signal.String()] = SplitFS, "50%"
			report, err := Compare(t.Context(), state)
			must(t, err)
			if len(report.Unexplained) > 0 || len(report.Named) > 0 {
				t.Errorf("without a name: %q; named: %v", report.Unexplained, report.Named)
			}
			if got := evictdsFirst(t, state, signal); got != want {
				t.Errorf("evictd takes %q, want %q", got, want)
			}
		})
	}
}

// namesAlone checks that a state has this difference, named or unnamed, and no other.
func namesAlone(t *testing.T, state *State, d Difference) {
	t.Helper()
	report, err := Compare(t.Context(), state)
	must(t, err)
	for _, fault := range report.Unexplained {
		t.Errorf("without a name: %s", fault)
	}
	if diff := cmp.Diff(map[Difference]bool{d: true}, report.Named); diff != "" {
		t.Errorf("named (-want +got):\n%s", diff)
	}
}

func evictdsFirst(t *testing.T, state *State, signal pressure.Signal) string {
	t.Helper()
	n, err := newNode(state)
	must(t, err)
	return n.orderBy(signal, pressure.Kernel).Candidates[0].Pod.Name
}

// judgement is a state in which the two judge or choose differently.
type judgement struct {
	change func(*State)
	// evictd and kubelet are the signals on which the two act at the last reading, "" for
	// none.
	evictd, kubelet string
}

func judged() map[Difference]judgement {
	memory := pressure.MemoryAvailable.String()
	soft := func(s *State, grace string) {
		s.Thresholds.Soft, s.Thresholds.Grace = map[string]string{memory: "50%"}, map[string]string{memory: grace}
	}
	return map[Difference]judgement{
		HardBeforeSoft: {
			change: func(s *State) {
				soft(s, "30s")
				s.Thresholds.Hard["pid.available"] = "50%"
				s.Readings = append(s.Readings, reading(31*time.Second))
			},
			evictd: "pids", kubelet: "memory",
		},
		MissedReading: {
			change: func(s *State) {
				soft(s, "30s")
				s.Readings = append(s.Readings, reading(20*time.Second, pressure.MemoryAvailable), reading(20*time.Second))
			},
			evictd: "memory", kubelet: "",
		},
		MinimumReclaim: {
			change: func(s *State) {
				s.Thresholds.Hard[memory], s.Thresholds.Reclaim = "50%", map[string]string{memory: "20%"}
				above := reading(time.Second)
				above.Figures[memory] = Figure{Available: 6000, Capacity: 10000}
				s.Readings = append(s.Readings, above)
			},
			// The judge holds the threshold until its target, and internal/decide evicts no pod.
			evictd: "memory", kubelet: "memory",
		},
		IncompleteReading: {
			change: func(s *State) {
				s.Thresholds.Hard[memory], s.Thresholds.Hard["allocatableMemory.available"] = "50%", "50%"
				s.Readings[0] = reading(time.Second, pressure.AllocatableMemoryAvailable)
			},
			// The judge holds the threshold, and internal/agent acts on no incomplete sample.
			evictd: "memory", kubelet: "memory",
		},
		UncountedInodes: {
			change: func(s *State) {
				s.Thresholds.Hard["nodefs.inodesFree"] = "100"
				s.Readings[0].Figures["nodefs.inodesFree"], s.Readings[0].Figures["imagefs.inodesFree"] = Figure{}, Figure{}
			},
			evictd: "", kubelet: "inodes",
		},
		RandomSignal: {
			change: func(s *State) {
				s.Thresholds.Hard["nodefs.available"], s.Thresholds.Hard["pid.available"] = "50%", "50%"
			},
			evictd: "ephemeral-storage", kubelet: "pids",
		},
	}
}

func TestDifferencesOfTheJudge(t *testing.T) {
	t.Parallel()
	for d, test := range judged() {
		t.Run(string(d), func(t *testing.T) {
			t.Parallel()
			state := pressed(using("only", 1))
			test.change(state)
			n, err := newNode(state)
			must(t, err)
			verdicts := n.judge(n.thresholds, nil)
			acts := ""
			if held := verdicts[len(verdicts)-1].Pressures; len(held) > 0 {
				acts = resourceOf(held[0].Threshold.Signal)
			}
			if acts != test.evictd {
				t.Errorf("evictd acts for %q, want %q", acts, test.evictd)
			}
			untilKubelet(t, state, test.kubelet)
			if d != RandomSignal {
				namesAlone(t, state, d)
				return
			}
			for range 200 {
				if report, err := Compare(t.Context(), state); err != nil || len(report.Unexplained) > 0 {
					t.Fatalf("%v, %v", err, report)
				} else if report.Named[RandomSignal] {
					return
				}
			}
			t.Error("the kubelet never chose otherwise")
		})
	}
}

// untilKubelet checks that the kubelet acts on a resource at the last reading. Its choice
// among several is random, so it has a few tries.
func untilKubelet(t *testing.T, state *State, want string) {
	t.Helper()
	got := ""
	for range 200 {
		thresholds, err := state.Thresholds.kubelet()
		must(t, err)
		cycles := kubelet(t.Context(), state, thresholds, state.Pods)
		if got = cycles[len(cycles)-1].Reclaims; got == want {
			return
		}
	}
	t.Errorf("the kubelet acts for %q, want %q", got, want)
}
