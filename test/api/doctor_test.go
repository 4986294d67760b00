package api

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evictd/evictd/test/internal/audit"
	"github.com/evictd/evictd/test/internal/evictdtest"
)

// Evictd's own token shows each right and each policy that is missing, although it may not read
// policies; nothing that the doctor tries has an effect.
func TestDoctorWithEvictdsToken(t *testing.T) {
	f := evictdtest.NewAccount(t) // not parallel: account, role and policies are the cluster's
	f.Confine()
	e := doctor(f, f.Here, "")
	mine := f.PodOn(f.Near, "mine")
	var lines map[string]examined
	e.Until("the rights are granted and the policies in force", func(ctx context.Context) bool {
		lines = e.lines(ctx)
		return !slices.ContainsFunc(slices.Collect(maps.Values(lines)), func(line examined) bool {
			return line.State != "ok" && (strings.HasPrefix(line.Name, "right/") || strings.HasPrefix(line.Name, "policy/"))
		})
	}, func() string { return fmt.Sprintf("%+v", lines) })
	for name, found := range map[string]string{
		"api-server": "answers, Kubernetes v", "clock": "within", "token": evictdtest.AccountUser + " on node " + f.Near,
		"policy/evictd-evicts-on-own-node": "in force", "policy/evictd-on-own-node": "in force", "policy/evictd-events-of-own-node": "in force",
		"policy/evictd-taints-own-node": "not needed",
	} {
		if line := lines[name]; line.State != "ok" || !strings.Contains(line.Found, found) {
			t.Errorf("%s: %+v, want ok and %q", name, line, found)
		}
	}
	rightLines := 0
	for name := range lines {
		if strings.HasPrefix(name, "right/") {
			rightLines++
		}
	}
	if rightLines != 11 {
		t.Errorf("%d rights, want the 11 of the shipped ClusterRole and Role", rightLines)
	}
	t.Run("a verb is missing", func(t *testing.T) { verbIsMissing(t, f, e) })
	t.Run("a policy is missing", func(t *testing.T) { policyIsMissing(t, f, e) })
	t.Run("a token without a node", func(t *testing.T) {
		doctor(f, f.Nowhere, "").says("missing", "names no node", "token")
	})
	t.Run("an opt-in", func(t *testing.T) { optInIsExamined(t, f) })
	stillThere(f, mine.Name)
}

func verbIsMissing(t *testing.T, f *evictdtest.Account, e *examination) {
	t.Helper()
	role, err := f.Client.RbacV1().ClusterRoles().Get(t.Context(), evictdtest.AccountName, metav1.GetOptions{})
	f.Must(err)
	f.Undo(func(ctx context.Context) {
		f.Kubectl(ctx, evictdtest.ShippedPart(t, evictdtest.Rights()), "apply", "-f", "-")
	})
	for i := range role.Rules {
		if slices.Contains(role.Rules[i].Resources, "pods/eviction") {
			role.Rules[i].Verbs = []string{"get"}
		}
	}
	_, err = f.Client.RbacV1().ClusterRoles().Update(t.Context(), role, metav1.UpdateOptions{})
	f.Must(err)
	e.says("missing", "lacks", "right/create pods/eviction")
	e.says("ok", "not needed", "policy/evictd-on-own-node") // RBAC comes before policies
	f.Ship(evictdtest.Rights())
	e.says("ok", "granted", "right/create pods/eviction")
}

func policyIsMissing(t *testing.T, f *evictdtest.Account, e *examination) {
	t.Helper()
	bindings := f.Client.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings()
	const first = "evictd-evicts-on-own-node"
	others := []string{"policy/evictd-on-own-node", "policy/evictd-events-of-own-node"}
	f.Must(bindings.Delete(t.Context(), first, metav1.DeleteOptions{}))
	e.says("missing", "not in force", "policy/"+first)
	e.says("ok", "in force", others...)
	for _, name := range others {
		f.Must(bindings.Delete(t.Context(), strings.TrimPrefix(name, "policy/"), metav1.DeleteOptions{}))
	}
	e.says("missing", "not in force", append(others, "policy/"+first)...)
	f.Ship(evictdtest.Policies())
	e.says("ok", "in force", append(others, "policy/"+first)...)
}

// With the right to write to nodes the policy of taints is tried as well. With the right to read
// policies they are read, and a binding that only warns is found.
func optInIsExamined(t *testing.T, f *evictdtest.Account) {
	t.Helper()
	e := doctor(f, f.Here, "taintNode: true\n")
	e.says("missing", "patch nodes", "opt-in/taintNode")
	f.Allow(rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"patch"}})
	e.says("ok", "granted", "opt-in/taintNode")
	e.says("ok", "in force", "policy/evictd-taints-own-node")
	bindings := f.Client.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings()
	const taints = "evictd-taints-own-node"
	f.Must(bindings.Delete(t.Context(), taints, metav1.DeleteOptions{}))
	e.says("missing", "not in force", "policy/"+taints)
	f.Ship(evictdtest.Policies())
	e.says("ok", "in force", "policy/"+taints)
	node, err := f.Client.CoreV1().Nodes().Get(t.Context(), f.Near, metav1.GetOptions{})
	f.Must(err)
	if _, wrote := node.Annotations["evictd.dev/doctor"]; wrote {
		t.Error("the dry run wrote to the node")
	}
	administrator := &examination{e.Account, e.command, evictdtest.Cluster().Kubeconfig()}
	administrator.says("degraded", "no service account", "token")
	administrator.says("ok", "binding denies", "policy/"+taints)
	f.Kubectl(t.Context(), "", "patch", "validatingadmissionpolicybinding", taints, "--type=merge", "--patch", `{"spec":{"validationActions":["Warn"]}}`)
	administrator.says("missing", "validationActions are [Warn]", "policy/"+taints)
}

// stillThere fails the test where a pod of it, or of the far node, is terminating, or an Event of the
// doctor's was written.
func stillThere(f *evictdtest.Account, names ...string) {
	f.T.Helper()
	for _, name := range append(names, "probe") {
		if f.Terminating(name) {
			f.T.Errorf("%s is terminating", name)
		}
	}
	events, err := f.Client.CoreV1().Events("").List(f.T.Context(), metav1.ListOptions{})
	f.Must(err)
	for i := range events.Items {
		if strings.HasPrefix(events.Items[i].Name, "evictd-doctor-") {
			f.T.Errorf("the dry run wrote an Event: %+v", events.Items[i])
		}
	}
}

// What the doctor and the check send, with the policies and without any. The API server asks the
// policies before it looks for the pod and its UID, so they refuse also what could not be evicted.
// Without them an eviction of another node's pod ends at the UID, with 409: the pod would stay even if
// the request were no dry run.
func TestTheCheckOfThePoliciesChangesNothing(t *testing.T) {
	f := evictdtest.NewAccount(t) // not parallel: account, role and policies are the cluster's
	theirs := f.PodOn(f.Far, "theirs")
	e := doctor(f, f.Here, "")
	log := audit.Log{Path: evictdtest.Cluster().AuditLog()}
	for _, step := range []struct {
		name, state, found string
		codes              map[int]bool // of the evictions of another node's pod, and of no pod
	}{
		{"without the policies", "missing", "not in force", map[int]bool{http.StatusConflict: true, http.StatusNotFound: true}},
		{"with the policies", "ok", "in force", map[int]bool{http.StatusForbidden: true}},
	} {
		if step.state == "ok" {
			f.Confine()
		}
		e.says(step.state, step.found, "policy/evictd-evicts-on-own-node", "policy/evictd-on-own-node", "policy/evictd-events-of-own-node")
		f.Must(log.Skip())
		e.lines(t.Context())
		codes, count := map[int]bool{}, 0
		f.Until("the audit log has both evictions", func(context.Context) bool {
			events, err := log.Next()
			f.Must(err)
			for i := range events {
				if !events[i].Evicts() || events[i].User.Username != evictdtest.AccountUser {
					continue
				}
				codes[events[i].Response.Code] = true
				count++
				if request := string(events[i].Request); !strings.Contains(request, `"dryRun":["All"]`) || !strings.Contains(request, `"uid":"evictd-doctor-no-pod"`) {
					t.Errorf("%s: no dry run, or the UID of a pod: %s", step.name, request)
				}
			}
			return count >= 2
		})
		if !maps.Equal(codes, step.codes) {
			t.Errorf("%s: the evictions were answered by %v, want %v", step.name, codes, step.codes)
		}
	}
	now, err := f.Client.CoreV1().Pods(f.Namespace).Get(t.Context(), theirs.Name, metav1.GetOptions{})
	f.Must(err)
	if now.UID != theirs.UID {
		t.Error("the pod was replaced")
	}
	stillThere(f, theirs.Name)
}
