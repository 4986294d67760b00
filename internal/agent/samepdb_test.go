package agent

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/evictd/evictd/pkg/evict"
)

// alike gives a pod the labels of an application.
func alike(p *corev1.Pod) { p.Labels = map[string]string{"app": "web"} }

// crowd is a node that is short of memory with thirty ready pods of one application, of
// which a budget keeps each, and one small pod of another that it does not.
func manyOfOneBudget(change ...func(*corev1.Pod)) *fakeNode {
	n := newFakeNode(10000)
	for i := range 30 {
		n.run(fmt.Sprintf("web%02d", i), int64(299-i), 10, change...)
	}
	n.run("free", 200, 10)
	n.host = 9100*mebi - 30*285*mebi - 200*mebi
	n.answer = func(r evict.Request) evict.Result {
		if r.Name == "free" {
			return evict.Result{Outcome: evict.Evicted}
		}
		return evict.Result{Outcome: evict.BlockedByBudget, Budget: "web"}
	}
	return n
}

func TestOnePodIsTriedForAllThatABudgetBlocks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := manyOfOneBudget(alike)
		a := newAgent(t, n, hardPolicy())
		runFor(t, a, time.Second)
		n.wantVictims(t, "web00", "free")
		if notes, want := n.decisions[0].Notes, []string{"29 more that PodDisruptionBudget shop/web blocks were not tried"}; !slices.Equal(notes, want) {
			t.Errorf("notes %q, want %q", notes, want)
		}
		if blocked, _ := a.cooldown.Waiting(time.Now()); blocked != 30 {
			t.Errorf("%d pods are said to be blocked, want 30", blocked)
		}
	})
}

// TestBudgetsRefusalsAreRemembered: whatever their labels, the pods that the budget itself has
// refused are in back-off with it.
func TestBudgetsRefusalsAreRemembered(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := manyOfOneBudget()
		delete(n.pods, "uid-free")
		n.host += 200 * mebi
		a := newAgent(t, n, hardPolicy())
		runFor(t, a, 9*time.Second)
		if asked := len(n.victims()); asked != 30 {
			t.Fatalf("%d requests, want one for each pod that nothing is known of", asked)
		}
		for _, e := range n.last(t).Ranking.Protected {
			if want := "the last answer of PodDisruptionBudget web was BlockedByBudget"; e.Detail != want {
				t.Errorf("detail %q, want %q", e.Detail, want)
			}
		}
		runFor(t, a, time.Minute)
		if asked := n.victims()[30:]; !slices.Equal(asked, []string{"web00", "web00"}) {
			t.Errorf("evicted %v within the next minute, want one pod whenever the budget has rested", asked)
		}
	})
}

// TestPodsThatTheBudgetAllowsAreTried: pods that the budget allows to be evicted are tried: pods that are
// not ready, and pods that it does not select.
func TestPodsThatTheBudgetAllowsAreTried(t *testing.T) {
	t.Parallel()
	for name, other := range map[string]func(*corev1.Pod){
		"not ready": unready,
		"other labels, same controller": func(p *corev1.Pod) {
			p.Labels = map[string]string{"app": "web", "role": "replica"}
			p.OwnerReferences[0].UID = "rs-web00"
		},
		"another namespace": func(p *corev1.Pod) { p.Namespace = "office" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				n := manyOfOneBudget(alike)
				n.run("other", 250, 10, alike, other)
				n.host -= 250 * mebi
				base := n.answer
				n.answer = func(r evict.Request) evict.Result {
					if r.Name == "other" {
						return evict.Result{Outcome: evict.Evicted}
					}
					return base(r)
				}
				watch(t, n, hardPolicy(), time.Second)
				n.wantVictims(t, "web00", "other")
			})
		})
	}
}

// One pod whose requests are never answered, and the next.
func TestPodWithoutAnAnswerDoesNotStopTheOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(1000)
		n.run("odd", 500, 100)
		n.run("other", 450, 100)
		n.answer = func(r evict.Request) evict.Result {
			if r.Name == "odd" {
				return evict.Result{Outcome: evict.Unconfirmed, Stays: true}
			}
			return evict.Result{Outcome: evict.Evicted}
		}
		watch(t, n, hardPolicy(), 20*time.Second)
		n.wantVictims(t, "odd", "odd", "odd", "other")
	})
}

// TestSilentServerBlamesNoPod: a server that does not respond puts no pod in back-off.
func TestSilentServerBlamesNoPod(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(1000)
		n.run("greedy", 500, 100)
		n.run("other", 450, 100)
		n.unlooked = errPlanted()
		n.answer = func(evict.Request) evict.Result { return evict.Result{Outcome: evict.Unconfirmed, Stays: true} }
		n.after(time.Minute, func() { n.unlooked, n.answer = nil, nil })
		watch(t, n, hardPolicy(), 80*time.Second)
		n.wantVictims(t, "greedy", "greedy")
	})
}
