package sim

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/pkg/rank"
)

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
func TestAnnotatedPodIsSparedAtTheSoftLineAlone(t *testing.T) {
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
	})
}

// What spares a pod for a time ends with it, by the time of the sample.
func TestSparedForAMinute(t *testing.T) {
	cases(t, (*world).sparing, map[string]func(n *world){
		"by a duration": func(n *world) {
			n.Run("job", 850, 100, annotated(doNotDisrupt, "1m"))
			n.evicts(58 * time.Second)
			n.goesOn(5*time.Second, "job")
		},
		"by its age": func(n *world) {
			n.policy.Rules.MinAge = time.Minute
			n.Run("young", 850, 100, func(p *corev1.Pod) { p.CreationTimestamp = metav1.Now() })
			n.evicts(58 * time.Second)
			d := n.says(decide.HoldNoCandidates)
			if p := d.Ranking.Protected; len(p) != 1 || p[0].Protection != rank.ProtectedTooYoung {
				n.t.Errorf("protected: %+v", p)
			}
			n.goesOn(5*time.Second, "young")
		},
		"not under the hard line": func(n *world) {
			n.policy.Rules.MinAge = time.Minute
			n.Run("young", 950, 100, func(p *corev1.Pod) { p.CreationTimestamp = metav1.Now() })
			n.evicts(5*time.Second, "young")
		},
		"not by what is ignored": func(n *world) {
			n.policy.Rules.Annotated = false
			n.Run("job", 850, 100, annotated(doNotDisrupt, "true"))
			n.evicts(5*time.Second, "job")
		},
	})
}
