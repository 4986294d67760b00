package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/evictd/evictd/test/internal/audit"
	"github.com/evictd/evictd/test/internal/evictdtest"
)

// examined is a line of `evictd doctor`.
type examined struct {
	Name    string `json:"name"`
	State   string `json:"state"`
	Found   string `json:"found"`
	Follows string `json:"follows"`
	Do      string `json:"do"`
}

// examination is `evictd doctor` on the near node with one account.
type examination struct {
	*evictdtest.Account
	*command

	kubeconfig string
}

// doctor prepares the command with those credentials and settings.
func doctor(a *evictdtest.Account, as *rest.Config, settings string) *examination {
	a.T.Helper()
	config := clientcmdapi.NewConfig()
	config.Clusters["c"] = &clientcmdapi.Cluster{
		Server: as.Host, CertificateAuthorityData: as.CAData, CertificateAuthority: as.CAFile,
	}
	config.AuthInfos["u"] = &clientcmdapi.AuthInfo{Token: as.BearerToken}
	config.Contexts["x"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}
	config.CurrentContext = "x"
	path := filepath.Join(a.T.TempDir(), "kubeconfig")
	a.Must(clientcmd.WriteToFile(*config, path))
	return &examination{a, newCommand(a.T, settings), path}
}

// lines returns the findings by name.
func (e *examination) lines() map[string]examined {
	e.T.Helper()
	// No line of the node's files is at issue here, and they lack much: the exit code is 1.
	text, complaints := e.onNode("doctor", e.Near, e.kubeconfig, "-o", "json")
	var list []examined
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		e.T.Fatalf("%v: %s%s", err, text, complaints)
	}
	byName := map[string]examined{}
	for _, one := range list {
		byName[one.Name] = one
	}
	return byName
}

// says waits until a line has that state and text: what the API server knows of roles and policies
// is a moment old.
func (e *examination) says(t *testing.T, name, state, found string) {
	t.Helper()
	var last examined
	e.Until(name+" is "+state+", "+found, func(context.Context) bool {
		last = e.lines()[name]
		return last.State == state && strings.Contains(last.Found, found)
	}, func() string { return fmt.Sprintf("%+v", last) })
	t.Logf("%+v", last)
}

// Evictd's own token shows each right and each policy that is missing, although it may not read
// policies; nothing that the doctor tries has an effect.
func TestDoctorWithEvictdsToken(t *testing.T) {
	f := evictdtest.NewAccount(t) // not parallel: account, role and policies are the cluster's
	f.Confine()
	e := doctor(f, f.Here, "")
	mine := f.PodOn(f.Near, "mine")
	lines := e.lines()
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
	for name, line := range lines {
		if strings.HasPrefix(name, "right/") {
			rightLines++
			if line.State != "ok" {
				t.Errorf("%s: %+v", name, line)
			}
		}
	}
	if rightLines != 11 {
		t.Errorf("%d rights, want the 11 of the shipped ClusterRole and Role", rightLines)
	}
	t.Run("a verb is missing", func(t *testing.T) { verbIsMissing(t, f, e) })
	t.Run("a policy is missing", func(t *testing.T) { policyIsMissing(t, f, e) })
	t.Run("a token without a node", func(t *testing.T) {
		doctor(f, f.Nowhere, "").says(t, "token", "missing", "names no node")
	})
	t.Run("an opt-in", func(t *testing.T) { optInIsExamined(t, f, e) })
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
	e.says(t, "right/create pods/eviction", "missing", "lacks")
	e.says(t, "policy/evictd-on-own-node", "ok", "not needed") // RBAC comes before policies
	f.Ship(evictdtest.Rights())
	e.says(t, "right/create pods/eviction", "ok", "granted")
}

func policyIsMissing(t *testing.T, f *evictdtest.Account, e *examination) {
	t.Helper()
	bindings := f.Client.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings()
	for _, name := range []string{"evictd-evicts-on-own-node", "evictd-on-own-node", "evictd-events-of-own-node"} {
		f.Must(bindings.Delete(t.Context(), name, metav1.DeleteOptions{}))
		e.says(t, "policy/"+name, "missing", "not in force")
		f.Ship(evictdtest.Policies())
		e.says(t, "policy/"+name, "ok", "in force")
	}
}

// With the right to write to nodes the policy of taints is tried as well. With the right to read
// policies they are read, and a binding that only warns is found.
func optInIsExamined(t *testing.T, f *evictdtest.Account, e *examination) {
	t.Helper()
	e = doctor(f, f.Here, "taintNode: true\n")
	e.says(t, "opt-in/taintNode", "missing", "patch nodes")
	f.Allow(rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"patch"}})
	e.says(t, "opt-in/taintNode", "ok", "granted")
	e.says(t, "policy/evictd-taints-own-node", "ok", "in force")
	bindings := f.Client.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings()
	const taints = "evictd-taints-own-node"
	f.Must(bindings.Delete(t.Context(), taints, metav1.DeleteOptions{}))
	e.says(t, "policy/"+taints, "missing", "not in force")
	f.Ship(evictdtest.Policies())
	e.says(t, "policy/"+taints, "ok", "in force")
	node, err := f.Client.CoreV1().Nodes().Get(t.Context(), f.Near, metav1.GetOptions{})
	f.Must(err)
	if _, wrote := node.Annotations["evictd.dev/doctor"]; wrote {
		t.Error("the dry run wrote to the node")
	}
	administrator := &examination{e.Account, e.command, evictdtest.Cluster().Kubeconfig()}
	administrator.says(t, "token", "degraded", "no service account")
	administrator.says(t, "policy/"+taints, "ok", "binding denies")
	f.Kubectl(t.Context(), "", "patch", "validatingadmissionpolicybinding", taints, "--type=merge", "--patch", `{"spec":{"validationActions":["Warn"]}}`)
	administrator.says(t, "policy/"+taints, "missing", "validationActions are [Warn]")
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
		codes              []int // of the evictions of another node's pod, and of no pod
	}{
		{"without the policies", "missing", "not in force", []int{http.StatusConflict, http.StatusNotFound}},
		{"with the policies", "ok", "in force", []int{http.StatusForbidden, http.StatusForbidden}},
	} {
		if step.state == "ok" {
			f.Confine()
		}
		e.says(t, "policy/evictd-events-of-own-node", step.state, step.found) // the rights are in force
		f.Must(log.Skip())
		lines := e.lines()
		for _, name := range []string{"evictd-evicts-on-own-node", "evictd-on-own-node", "evictd-events-of-own-node"} {
			if line := lines["policy/"+name]; line.State != step.state || !strings.Contains(line.Found, step.found) {
				t.Errorf("%s: %+v", step.name, line)
			}
		}
		var codes []int
		f.Until("the audit log has both evictions", func(context.Context) bool {
			events, err := log.Next()
			f.Must(err)
			for i := range events {
				if !events[i].Evicts() || events[i].User.Username != evictdtest.AccountUser {
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
	now, err := f.Client.CoreV1().Pods(f.Namespace).Get(t.Context(), theirs.Name, metav1.GetOptions{})
	f.Must(err)
	if now.UID != theirs.UID {
		t.Error("the pod was replaced")
	}
	stillThere(f, theirs.Name)
}
