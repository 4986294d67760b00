package integration

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/evictd/evictd/test/internal/audit"
)

// own starts evictd on the near node with its shipped account's token, which is bound to a pod there.
func (f *fenced) own(t *testing.T) *daemon {
	t.Helper()
	token := filepath.Join(t.TempDir(), "token")
	f.must(os.WriteFile(token, []byte(f.here.BearerToken), 0o600))
	config := rest.CopyConfig(unlimited())
	return startDaemon(t, newHost(t), f.near, strings.TrimPrefix(config.Host, "https://"), config.CAData, token, usual)
}

// finds waits until evictd knows whether it is confined.
func (f *fenced) finds(d *daemon, want float64) {
	f.t.Helper()
	var got float64
	f.until("evictd_confined is known", func(context.Context) (known bool) {
		got, known = d.metric("evictd_confined") //nolint:contextcheck // it has a time limit of its own
		return known
	})
	if got != want {
		f.t.Errorf("evictd_confined is %v, want %v", got, want)
	}
}

// Evictd finds by its own token whether the shipped policies confine it.
func TestEvictdKnowsWhetherItIsConfined(t *testing.T) {
	f := newFenced(t) // not parallel: account, role and policies are the cluster's
	f.confine()
	const warning = `"level":"warn"`
	shipped := f.own(t)
	f.finds(shipped, 1)
	if log := shipped.log.String(); !strings.Contains(log, `"evictd is confined to its node"`) || strings.Contains(log, "not confined") {
		t.Errorf("with the shipped policies:\n%s", log)
	}
	if denied, _ := shipped.metric("evictd_api_errors_total", "request", "Eviction"); denied != 0 {
		t.Errorf("the policies' denials count as %v failed evictions", denied)
	}
	f.must(f.client.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings().Delete(t.Context(), "evictd-evicts-on-own-node", metav1.DeleteOptions{}))
	without := f.own(t)
	f.finds(without, 0)
	var warnings []string
	for line := range strings.Lines(without.log.String()) {
		if strings.Contains(line, "not confined") {
			warnings = append(warnings, line)
		}
	}
	if len(warnings) != 1 || !strings.Contains(warnings[0], warning) ||
		!strings.Contains(warnings[0], "evictd-evicts-on-own-node does not refuse what it must: evictd's token can evict the pods of every node") {
		t.Errorf("without a binding: %q", warnings)
	}
	f.stillThere()
}

// What the doctor and the check send, with the policies and without any. The API server asks the
// policies before it looks for the pod and its UID, so they refuse also what could not be evicted.
// Without them an eviction of another node's pod ends at the UID, with 409: the pod would stay even if
// the request were no dry run.
func TestTheCheckOfThePoliciesChangesNothing(t *testing.T) {
	f := newFenced(t) // not parallel: account, role and policies are the cluster's
	theirs := f.podOn(f.far, "theirs")
	e := f.doctor(t, newMachine(t), f.here)
	log := audit.Log{Path: shared.AuditLog()}
	for _, step := range []struct {
		name, state, found string
		codes              []int // of the evictions of another node's pod, and of no pod
	}{
		{"without the policies", "missing", "not in force", []int{http.StatusConflict, http.StatusNotFound}},
		{"with the policies", "ok", "in force", []int{http.StatusForbidden, http.StatusForbidden}},
	} {
		if step.state == "ok" {
			f.confine()
		}
		e.says(t, "policy/evictd-events-of-own-node", step.state, step.found) // the rights are in force
		f.must(log.Skip())
		lines := e.lines(t.Context())
		for _, name := range []string{"evictd-evicts-on-own-node", "evictd-on-own-node", "evictd-events-of-own-node"} {
			if line := lines["policy/"+name]; line.State != step.state || !strings.Contains(line.Found, step.found) {
				t.Errorf("%s: %+v", step.name, line)
			}
		}
		var codes []int
		f.until("the audit log has both evictions", func(context.Context) bool {
			events, err := log.Next()
			f.must(err)
			for i := range events {
				if !events[i].Evicts() || events[i].User.Username != accountUser {
					continue
				}
				codes = append(codes, events[i].Response.Code)
				if request := string(events[i].Request); !strings.Contains(request, `"dryRun":["All"]`) || !strings.Contains(request, `"uid":"evictd-doctor-no-pod"`) {
					t.Errorf("%s: no dry run, or the UID of a pod: %s", step.name, request)
				}
			}
			return len(codes) >= len(step.codes)
		})
		if !slices.Equal(codes, step.codes) {
			t.Errorf("%s: the evictions were answered by %v, want %v", step.name, codes, step.codes)
		}
	}
	now, err := f.client.CoreV1().Pods(f.namespace).Get(t.Context(), theirs.Name, metav1.GetOptions{})
	f.must(err)
	if now.UID != theirs.UID {
		t.Error("the pod was replaced")
	}
	f.stillThere(theirs.Name)
}
