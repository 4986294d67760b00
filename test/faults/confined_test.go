package faults

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evictd/evictd/test/internal/audit"
	"github.com/evictd/evictd/test/internal/evictdtest"
)

// own starts evictd on the near node with its shipped account's token, which is bound to a pod there.
func own(a *evictdtest.Account) *evictdtest.Evictd {
	a.T.Helper()
	token := filepath.Join(a.T.TempDir(), "token")
	a.Must(os.WriteFile(token, []byte(a.Here.BearerToken), 0o600))
	config := evictdtest.Unlimited()
	return evictdtest.Start(a.T, evictdtest.Options{
		Host: evictdtest.NewHost(a.T), Node: a.Near, Server: strings.TrimPrefix(config.Host, "https://"), CA: config.CAData, TokenFile: token,
		Settings: evictdtest.Thresholds + evictdtest.Lenient,
	})
}

// finds waits until evictd says whether it is confined.
func finds(a *evictdtest.Account, e *evictdtest.Evictd, want float64) {
	a.T.Helper()
	a.Until("evictd_confined is as it should be", func(ctx context.Context) bool {
		got, known := e.Metric(ctx, "evictd_confined")
		return known && got == want
	}, e.Log.String)
}

// watchesOfPods counts those that were opened with tokens of the near node.
func watchesOfPods(a *evictdtest.Account) (count int) {
	a.T.Helper()
	events, err := (&audit.Log{Path: evictdtest.Cluster().AuditLog()}).Next()
	a.Must(err)
	for i := range events {
		e := &events[i]
		here := slices.Contains(e.User.Extra["authentication.kubernetes.io/node-name"], a.Near)
		if here && e.Verb == "watch" && e.ObjectRef.Resource == "pods" && e.Stage == "ResponseStarted" {
			count++
		}
	}
	return count
}

// Evictd finds by its own token whether the shipped policies confine it.
func TestEvictdKnowsWhetherItIsConfined(t *testing.T) {
	a := evictdtest.NewAccount(t) // not parallel: account, role and policies are the cluster's
	a.Confine()
	shipped := own(a)
	finds(a, shipped, 1)
	if watches := watchesOfPods(a); watches != 1 {
		t.Errorf("%d watches of the node's pods were opened, want 1", watches)
	}
	if shipped.Log.Has(`"check":"policy/`) {
		t.Error("the log says that a policy is not as it should be")
	}
	if denied, _ := shipped.Metric(t.Context(), "evictd_evictions_total", "outcome", "Denied"); denied != 0 {
		t.Errorf("the policies' denials count as %v failed evictions", denied)
	}
	a.Must(a.Client.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings().Delete(t.Context(), "evictd-evicts-on-own-node", metav1.DeleteOptions{}))
	without := own(a)
	finds(a, without, 0)
	a.Until("the log says what follows", func(context.Context) bool {
		return without.Log.Has(`"check":"policy/evictd-evicts-on-own-node","state":"missing"`) &&
			without.Log.Has(`"follows":"evictd's token can evict the pods of every node"`)
	})
	if a.Terminating("probe") {
		t.Error("another node's pod is terminating")
	}
}
