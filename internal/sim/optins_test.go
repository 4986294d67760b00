package sim

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evictd/evictd/internal/acting"
	"github.com/evictd/evictd/internal/agent"
	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/execute"
	"github.com/evictd/evictd/internal/taint"
	"github.com/evictd/evictd/pkg/evict"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/rank"
)

// fakeTaints stands in for the node's taints: it keeps what is wanted and the requests, in their order, and answers
// after a while.
type fakeTaints struct {
	takes time.Duration
	fails error
	then  func() // once the node has them; nil is nothing
	mu    sync.Mutex
	want  taint.Wanted // the last, in words
	last  string
	calls []string
}

func (f *fakeTaints) add(line string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, line)
}

func (f *fakeTaints) Want(w taint.Wanted) {
	text := "want " + strings.Join(w.Pressures.Keys(), " ")
	if w.Keep {
		text += " keep"
	}
	if w.DryRun {
		text += " dry run"
	}
	if text != f.last {
		f.add(text)
	}
	f.want, f.last = w, text
}

func (f *fakeTaints) Settled(ctx context.Context) error {
	select {
	case <-time.After(f.takes):
	case <-ctx.Done():
		return ctx.Err()
	}
	if f.add("settled"); f.then != nil {
		f.then()
	}
	return f.fails
}

// tainted has the agent taint the node by these.
func (n *world) tainted(taints *fakeTaints) {
	n.policy.TaintNode, n.policy.Transition = true, 20*time.Second
	n.option = func(o *agent.Options) { o.Taints = taints }
	n.reached = func(step string) {
		if step == "before the request is sent" {
			taints.add("evict")
		}
	}
}

// The node is tainted before the first eviction, and until the transition period has passed: from the soft line on the scheduler is asked to prefer other nodes; once the grace period is over, and before the first
// eviction, it is told to. Both taints go after a transition period.
func TestSoftTaintThenHardThenNone(t *testing.T) {
	story(t, func(n *world) {
		taints := &fakeTaints{takes: 300 * time.Millisecond}
		n.tainted(taints)
		n.policy.TaintSoft = true
		n.threshold(pressure.MemoryAvailable, pressure.Fraction(0.2), false, 10*time.Second)
		n.runs("greedy 500/100")
		n.After(30*time.Second, func() { n.host = 350 * Mebi })
		n.After(36*time.Second, func() { n.host = 0 }) // within the grace period
		n.After(70*time.Second, func() { n.host = 350 * Mebi })
		n.watch(2 * time.Minute)
		const soft = "evictd.dev/memory-pressure:PreferNoSchedule"
		same(t, "the order", []string{
			"want  keep", "want ", // watched for a transition period
			"want " + soft, "want ",
			"want " + soft, "want evictd.dev/memory-pressure " + soft, "settled", "evict", "want ",
		}, taints.calls)
		same(t, "notes where there is nothing to say", nil, n.last().Notes)
	})
}

func TestTaintThatFailsStopsNoEvictionAndIsOnRecord(t *testing.T) {
	stories(t, map[string]*fakeTaints{
		"refused":   {fails: errors.New("no right")},
		"no answer": {takes: time.Hour},
	}, func(n *world, _ string, taints *fakeTaints) {
		n.tainted(taints)
		n.runs("greedy 950/100")
		n.evicts(10*time.Second, "greedy")
		d := n.decisions[0]
		if len(d.Notes) != 1 || !strings.Contains(d.Notes[0], "may not carry evictd.dev/memory-pressure") {
			n.t.Errorf("notes %q", d.Notes)
		}
		if waited := d.Attempts[0].Result.Sent.Sub(d.Time); waited > execute.TaintTimeout+100*time.Millisecond {
			n.t.Errorf("the eviction waited %v", waited)
		}
	})
}

func TestTaintIsSaidInADryRunAndRemovedWhenItIsSwitchedOff(t *testing.T) {
	story(t, func(n *world) {
		taints := &fakeTaints{}
		n.tainted(taints)
		n.runs("greedy 950/100")
		n.policy.DryRun, n.policy.Transition = true, 0
		n.reloads(5*time.Second, func(p *agent.Policy) { p.TaintNode = false })
		n.watch(10 * time.Second)
		same(t, "the order", []string{"want evictd.dev/memory-pressure dry run", "settled", "evict"}, taints.calls[:3])
		if got := taints.calls[len(taints.calls)-1]; got != "want " {
			t.Errorf("at the end %q, want nothing wanted", got)
		}
		if notes := n.decisions[0].Notes; len(notes) != 1 || !strings.Contains(notes[0], "would taint") {
			t.Errorf("notes %q", notes)
		}
	})
}

// acts makes an agent one that acts, or not, as is said; at first so, and later otherwise.
func (n *world) acts(at acting.State, later map[time.Duration]acting.State) {
	changed := make(chan struct{}, 1)
	n.option = func(o *agent.Options) {
		o.Acting = changed
		o.Policy.Acting = func() acting.State {
			n.mu.Lock()
			defer n.mu.Unlock()
			return at
		}
	}
	for after, next := range later {
		n.After(after, func() {
			at = next
			changed <- struct{}{}
		})
	}
}

func stopped() acting.State { return acting.State{Reason: acting.Stopped, Why: "planted"} }

// A stopped agent decides and records, and evicts no pod; when the stop ends, it evicts the pod that it has named.
// Neither a stop nor its end begins the grace period of a soft threshold anew.
func TestStop(t *testing.T) {
	cases(t, nil, map[string]func(n *world){
		"keeps the evidence, and its end acts": func(n *world) {
			n.runs("greedy 950/100")
			n.acts(stopped(), map[time.Duration]acting.State{time.Minute: {}})
			n.evicts(59*time.Second, "greedy")
			n.really()
			if d := n.decisions[0]; d.DryRunWhy != "planted" || !d.DryRun {
				n.t.Errorf("stopped: %+v", d)
			}
			n.on(10 * time.Second)
			n.really("greedy")
			if d := n.last(); d.DryRun || d.DryRunWhy != "" {
				n.t.Errorf("the decision after the stop is a dry run, %q", d.DryRunWhy)
			}
		},
		// Also where no tick is due: the request that is under way gets its answer, and no other is sent.
		"cancels a plan": func(n *world) {
			n.runs("a 310/100", "b 310/100", "c 310/100")
			n.slow = 500 * time.Millisecond
			n.answers(outcomes{"": evict.Denied})
			n.policy.Pacing = pressure.Pacing{Min: 10 * time.Second, Max: 10 * time.Second}
			n.acts(acting.State{}, map[time.Duration]acting.State{700 * time.Millisecond: stopped()})
			n.watch(1200 * time.Millisecond)
			n.really("a", "b")
		},
		"keeps a grace period": func(n *world) {
			n.runs("greedy 950/100")
			n.policy.Thresholds = nil
			n.threshold(pressure.MemoryAvailable, pressure.Fraction(0.1), false, 30*time.Second)
			n.acts(acting.State{}, map[time.Duration]acting.State{10 * time.Second: stopped(), 20 * time.Second: {}})
			n.watch(33 * time.Second)
			n.really("greedy")
		},
		// Until it is known whether the agent acts, the taints stay that a process before has set.
		"that is not known keeps the taints": func(n *world) {
			taints := &fakeTaints{}
			n.policy.TaintNode = true
			unknown := acting.State{Reason: acting.StopUnknown, Why: "planted"}
			n.acts(unknown, map[time.Duration]acting.State{5 * time.Second: stopped()})
			n.start(func(o *agent.Options) { o.Taints = taints })
			if n.on(4 * time.Second); taints.want != (taint.Wanted{Keep: true}) {
				n.t.Errorf("%+v", taints.want)
			}
			if n.on(2 * time.Second); !taints.want.DryRun {
				n.t.Errorf("%+v", taints.want)
			}
		},
	})
}

// The end of a dry run ends what it simulated, whenever that is: before the answer, while the victim would be in
// flight, or after it would have ended. It counts against no limit, and the pod is evicted.
func TestEndOfTheDryRunForgetsWhatItSimulated(t *testing.T) {
	each(t, []time.Duration{time.Second, 5 * time.Second, 2 * time.Minute}, func(n *world, end time.Duration) {
		n.slow = 2 * time.Second
		n.runs("greedy 950/100")
		n.policy.DryRun, n.policy.Transition = true, time.Minute
		n.limit(1, 0)
		n.reloads(end, func(p *agent.Policy) { p.DryRun = false })
		n.evicts(end+4*time.Second, "greedy", "greedy")
		n.really("greedy")
		s := n.kept()
		if len(s.Cooldown.Accepted) != 1 || slices.ContainsFunc(n.inFlight(), func(v decide.Victim) bool { return v.DryRun }) ||
			len(s.Incidents) != 1 || len(s.Incidents[0].Victims) != 1 || s.Incidents[0].Victims[0].DryRun {
			n.t.Errorf("kept: %+v", s)
		}
	})
}

// annotated is a change of a pod that starts now.
func annotated(key, value string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Annotations, p.Status.StartTime = map[string]string{key: value}, new(metav1.Now())
	}
}

const doNotDisrupt = "karpenter.sh/do-not-disrupt"

// sparing has a soft threshold at 200 MiB and a hard one at 100 MiB, and spares what asks for it.
func (n *world) sparing() {
	n.softAndHard()
	n.policy.Rules.Annotated = true
}

// A pod that asks not to be disrupted is spared at the soft line, where another goes or none, and goes at the hard one.
// What spares a pod for a time ends with it, by the time of the sample.
func TestSparedPodGoesAtTheHardLineOrInTime(t *testing.T) {
	cases(t, (*world).sparing, map[string]func(n *world){
		"where none is left": func(n *world) {
			n.Run("job", 700, 100, annotated(doNotDisrupt, "true"))
			n.leaks("job", 0, 10*Mebi, time.Minute)
			n.evicts(18 * time.Second)
			d := n.says(decide.HoldNoCandidates, "all 1 pods that could be evicted are spared for a soft threshold", "a hard threshold makes them candidates")
			if p := d.Ranking.Protected; len(p) != 1 || p[0].Protection != rank.ProtectedAnnotation || p[0].Detail != "annotation "+doNotDisrupt {
				n.t.Errorf("protected: %+v", p)
			}
			n.goesOn(10*time.Second, "job")
		},
		"where another goes": func(n *world) {
			n.Run("job", 700, 100, annotated("cluster-autoscaler.kubernetes.io/safe-to-evict", "false"))
			n.runs("small 120/100")
			n.evicts(10*time.Second, "small")
			n.leaks("job", 0, 20*Mebi, 20*time.Second)
			n.goesOn(20*time.Second, "small", "job")
		},
		"where the others are within their requests": func(n *world) {
			n.policy.WithinRequests = decide.WithinRequestsUntilExhaustion
			n.Run("job", 750, 100, annotated("descheduler.alpha.kubernetes.io/prefer-no-eviction", ""))
			n.runs("quiet 80/100")
			n.evicts(10 * time.Second)
			n.says(decide.HoldNoCandidates, "all 1 pods")
		},
		"for a minute, by a duration": func(n *world) {
			n.Run("job", 850, 100, annotated(doNotDisrupt, "1m"))
			n.evicts(58 * time.Second)
			n.goesOn(5*time.Second, "job")
		},
		"for a minute, by its age": func(n *world) {
			n.policy.Rules.MinAge = time.Minute
			n.Run("young", 850, 100, func(p *corev1.Pod) { p.CreationTimestamp = metav1.Now() })
			n.evicts(58 * time.Second)
			d := n.says(decide.HoldNoCandidates)
			if p := d.Ranking.Protected; len(p) != 1 || p[0].Protection != rank.ProtectedTooYoung {
				n.t.Errorf("protected: %+v", p)
			}
			n.goesOn(5*time.Second, "young")
		},
	})
}
