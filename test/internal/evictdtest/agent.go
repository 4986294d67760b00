package evictdtest

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evictd/evictd/test/internal/eventually"
)

// Agent is a node with evictd as a process: its files, its kubelet, and a connection to the real API
// server that the test breaks. The node has two pods over their requests, large and small.
type Agent struct {
	*World

	Host    *Host
	Kubelet *Kubelet
	Proxy   *Proxy
	Link    *Link // to the proxy
	Evictd  *Evictd
	// StateDir is [Options.StateDir].
	StateDir string

	token string // the path of the file
}

// NewAgent makes a node without pressure. Evictd is not started.
func NewAgent(t *testing.T) *Agent {
	t.Helper()
	a := &Agent{World: NewWorld(t), Host: NewHost(t), Proxy: NewProxy(t)}
	a.Link = a.Proxy.Link
	a.token = filepath.Join(t.TempDir(), "token")
	a.account()
	a.Renew()
	memory := map[string]int64{"large": 1024, "small": 700}
	a.Kubelet = StartKubelet(a.World, a.Host, memory)
	// A held victim has time: it must not be overdue on a slow machine.
	patient := func(pod *corev1.Pod) { pod.Spec.TerminationGracePeriodSeconds = new(int64(3600)) }
	for name, holds := range memory {
		a.Host.Group(groupOf(a.Pod(name, 100, patient)), holds*Mebibyte)
	}
	return a
}

// account creates evictd's service account.
func (a *Agent) account() {
	a.T.Helper()
	a.Kubectl(a.T.Context(), "", "-n", a.Namespace, "create", "serviceaccount", "evictd")
	a.Kubectl(a.T.Context(), "", "create", "clusterrolebinding", a.Namespace, "--clusterrole=cluster-admin", "--serviceaccount="+a.Namespace+":evictd")
	a.Undo(func(ctx context.Context) {
		_ = a.Client.RbacV1().ClusterRoleBindings().Delete(ctx, a.Namespace, metav1.DeleteOptions{})
	})
}

// Renew writes another token.
func (a *Agent) Renew() {
	a.T.Helper()
	token := strings.TrimSpace(a.Kubectl(a.T.Context(), "", "-n", a.Namespace, "create", "token", "evictd"))
	a.Must(os.WriteFile(a.token+".new", []byte(token), 0o600))
	a.Must(os.Rename(a.token+".new", a.token))
}

// Expire makes the API server refuse the present token, as one that it does not know.
func (a *Agent) Expire() {
	a.T.Helper()
	old, err := os.ReadFile(a.token)
	a.Must(err)
	a.Proxy.Instead(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Header.Get("Authorization") == "Bearer "+string(old) {
			r.Header.Set("Authorization", "Bearer expired")
		}
		return false
	})
}

// Start runs evictd with the tests' settings and these, and waits until it is ready.
func (a *Agent) Start(more ...string) {
	a.T.Helper()
	a.Launch(more...)
	a.Until("evictd is ready", a.Ready)
}

// Launch is [Agent.Start] without the wait.
func (a *Agent) Launch(more ...string) {
	a.T.Helper()
	a.Evictd = Start(a.T, Options{
		Host: a.Host, Node: a.Node, Namespace: a.Namespace, Server: a.Link.Address, CA: a.Proxy.CA, TokenFile: a.token,
		Settings: Thresholds + Lenient + strings.Join(more, "\n") + "\n", StateDir: a.StateDir,
	})
}

// Until is [World.Until] that prints evictd's last decisions and the victims on failure.
func (a *Agent) Until(what string, met func(context.Context) bool) {
	a.T.Helper()
	a.World.Until(what, met, a.states()...)
}

// Ticks waits until evictd has decided that many times more: what has not happened by then does not
// happen.
func (a *Agent) Ticks(count int) {
	a.T.Helper()
	eventually.Ticks(a.T, a.Evictd, count, a.states()...)
}

func (a *Agent) states() []func() string {
	return []func() string{
		func() string { return "victims: " + strings.Join(a.Kubelet.Victims(), ", ") },
		func() string {
			if a.Evictd == nil {
				return "evictd was not started"
			}
			return a.Evictd.Decisions()
		},
	}
}

// Ready reports whether evictd says that it is.
func (a *Agent) Ready(ctx context.Context) bool {
	status, _ := a.Evictd.Get(ctx, "/readyz")
	return status == http.StatusOK
}

// Press makes the node short of 200 MiB: one pod's worth, and either pod would suffice.
func (a *Agent) Press() { a.Host.Free(300) }

// AnyVictim waits for one.
func (a *Agent) AnyVictim() {
	a.T.Helper()
	a.Until("a pod was evicted", func(context.Context) bool { return len(a.Kubelet.Victims()) > 0 })
}

// ExpectVictims waits until evictd has seen the end of the pressure and of its victim, and for further
// decisions, and fails the test unless exactly these pods were evicted.
func (a *Agent) ExpectVictims(want ...string) {
	a.T.Helper()
	a.Until("the pressure is over and no pod is in flight", func(ctx context.Context) bool {
		m := a.Evictd.Metrics(ctx)
		pressed, told := m.Sum("evictd_pressure")
		leaving, counted := m.Sum("evictd_victims_in_flight")
		return told && counted && pressed == 0 && leaving == 0 && len(a.Kubelet.Victims()) > 0
	})
	a.Ticks(5)
	if got := a.Kubelet.Victims(); !slices.Equal(got, want) {
		a.T.Errorf("evicted %v, want %v", got, want)
	}
}

// Counted waits until a metric with these labels has that value at least.
func (a *Agent) Counted(least float64, name string, labels ...string) {
	a.T.Helper()
	a.Until(name+" counts "+strings.Join(labels, " "), func(ctx context.Context) bool {
		n, told := a.Evictd.Metric(ctx, name, labels...)
		return told && n >= least
	})
}

// Told waits for a warning on a pod of the namespace, by an Event.
func (a *Agent) Told(pod, reason string) {
	a.T.Helper()
	a.Until(pod+" has the Event "+reason, func(ctx context.Context) bool {
		events, err := a.Client.CoreV1().Events(a.Namespace).List(ctx, metav1.ListOptions{
			FieldSelector: "type=Warning,involvedObject.name=" + pod + ",reason=" + reason,
		})
		return err == nil && len(events.Items) > 0
	})
}

// LoseAnswers cuts the connection when the API server has carried out an eviction, or has answered a read
// of a pod, until [Proxy.After] ends it.
func (a *Agent) LoseAnswers() {
	a.Proxy.After(func(r *http.Request) {
		if IsEviction(r) || strings.HasPrefix(r.URL.Path, "/api/v1/namespaces/"+a.Namespace+"/pods/") {
			a.Link.Cut()
		}
	})
}

// Tainted reports whether the node carries evictd's taint of memory pressure.
func (a *Agent) Tainted(ctx context.Context) bool {
	node, err := a.Client.CoreV1().Nodes().Get(ctx, a.Node, metav1.GetOptions{})
	return err == nil && slices.ContainsFunc(node.Spec.Taints, func(taint corev1.Taint) bool {
		return taint.Key == "evictd.dev/memory-pressure" && taint.Effect == corev1.TaintEffectNoSchedule
	})
}
