package integration

import (
	"context"
	"encoding/json"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// examined is a line of `evictd doctor`.
type examined struct {
	Name    string `json:"name"`
	State   string `json:"state"`
	Found   string `json:"found"`
	Follows string `json:"follows"`
	Do      string `json:"do"`
}

// examination is `evictd doctor` with one account.
type examination struct {
	*machine

	kubeconfig string
	configured string // beside what the machine has
}

// doctor runs the command on a recorded machine, as the near node, with those credentials.
func (f *fenced) doctor(t *testing.T, m *machine, as *rest.Config) *examination {
	t.Helper()
	m.world = f.world
	config := clientcmdapi.NewConfig()
	config.Clusters["c"] = &clientcmdapi.Cluster{
		Server: as.Host, CertificateAuthorityData: as.CAData, CertificateAuthority: as.CAFile,
	}
	config.AuthInfos["u"] = &clientcmdapi.AuthInfo{Token: as.BearerToken}
	config.Contexts["x"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}
	config.CurrentContext = "x"
	path := filepath.Join(t.TempDir(), "kubeconfig")
	f.must(clientcmd.WriteToFile(*config, path))
	return &examination{machine: m, kubeconfig: path}
}

// lines returns the findings by name.
func (e *examination) lines(ctx context.Context) map[string]examined {
	e.t.Helper()
	e.write("doctor.yaml", "apiVersion: evictd.dev/v1alpha1\nkind: EvictdConfiguration\n"+e.configured)
	command := exec.CommandContext(ctx, e.binary, "doctor", "-o", "json", "--node-name", e.node, "--kubeconfig", e.kubeconfig,
		"--host-root", e.root, "--config", filepath.Join(e.root, "doctor.yaml"))
	// No line of the machine is at issue here, and a recorded one lacks much: the exit code is 1.
	text, _ := command.Output()
	var list []examined
	e.must(json.Unmarshal(text, &list))
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
	e.until(name+" is "+state+", "+found, func(ctx context.Context) bool {
		last = e.lines(ctx)[name]
		return last.State == state && strings.Contains(last.Found, found)
	})
	t.Logf("%+v", last)
}

// Evictd's own token shows each right and each policy that is missing, although it may not read
// policies; nothing that the doctor tries has an effect.
func TestDoctorWithEvictdsToken(t *testing.T) {
	f := newFenced(t) // not parallel: account, role and policies are the cluster's
	f.confine()
	e := f.doctor(t, newMachine(t), f.here)
	mine := f.podOn(f.near, "mine")
	lines := e.lines(t.Context())
	for name, found := range map[string]string{
		"api-server": "answers, Kubernetes v", "clock": "within", "token": accountUser + " on node " + f.near,
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
		f.doctor(t, newMachine(t), f.nowhere).says(t, "token", "missing", "names no node")
	})
	t.Run("an opt-in", func(t *testing.T) { optInIsExamined(t, f, e) })
	f.stillThere(mine.Name)
}

func verbIsMissing(t *testing.T, f *fenced, e *examination) {
	t.Helper()
	role, err := f.client.RbacV1().ClusterRoles().Get(t.Context(), account, metav1.GetOptions{})
	f.must(err)
	t.Cleanup(func() { f.ship(rights()) })
	for i := range role.Rules {
		if slices.Contains(role.Rules[i].Resources, "pods/eviction") {
			role.Rules[i].Verbs = []string{"get"}
		}
	}
	_, err = f.client.RbacV1().ClusterRoles().Update(t.Context(), role, metav1.UpdateOptions{})
	f.must(err)
	e.says(t, "right/create pods/eviction", "missing", "lacks")
	e.says(t, "policy/evictd-on-own-node", "ok", "not needed") // RBAC comes before policies
	f.ship(rights())
	e.says(t, "right/create pods/eviction", "ok", "granted")
}

func policyIsMissing(t *testing.T, f *fenced, e *examination) {
	t.Helper()
	bindings := f.client.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings()
	for _, name := range []string{"evictd-evicts-on-own-node", "evictd-on-own-node", "evictd-events-of-own-node"} {
		f.must(bindings.Delete(t.Context(), name, metav1.DeleteOptions{}))
		e.says(t, "policy/"+name, "missing", "not in force")
		f.ship(policies())
		e.says(t, "policy/"+name, "ok", "in force")
	}
}

// With the right to write to nodes the policy of taints is tried as well. With the right to read
// policies they are read, and a binding that only warns is found.
func optInIsExamined(t *testing.T, f *fenced, e *examination) {
	t.Helper()
	e.configured = "taintNode: true\n"
	e.says(t, "opt-in/taintNode", "missing", "patch nodes")
	f.allow(rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"patch"}})
	e.says(t, "opt-in/taintNode", "ok", "granted")
	e.says(t, "policy/evictd-taints-own-node", "ok", "in force")
	bindings := f.client.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings()
	const taints = "evictd-taints-own-node"
	f.must(bindings.Delete(t.Context(), taints, metav1.DeleteOptions{}))
	e.says(t, "policy/"+taints, "missing", "not in force")
	f.ship(policies())
	e.says(t, "policy/"+taints, "ok", "in force")
	node, err := f.client.CoreV1().Nodes().Get(t.Context(), f.near, metav1.GetOptions{})
	f.must(err)
	if _, wrote := node.Annotations["evictd.dev/doctor"]; wrote {
		t.Error("the dry run wrote to the node")
	}
	administrator := &examination{machine: e.machine, kubeconfig: shared.Kubeconfig()}
	administrator.says(t, "token", "degraded", "no service account")
	administrator.says(t, "policy/"+taints, "ok", "binding denies")
	f.kubectl(t.Context(), "", "patch", "validatingadmissionpolicybinding", taints, "--type=merge", "--patch", `{"spec":{"validationActions":["Warn"]}}`)
	administrator.says(t, "policy/"+taints, "missing", "validationActions are [Warn]")
}

// stillThere fails the test where a pod of it, or of the far node, is terminating, or an Event of the
// doctor's was written.
func (f *fenced) stillThere(names ...string) {
	f.t.Helper()
	for _, name := range append(names, "probe") {
		if f.terminating(name) {
			f.t.Errorf("%s is terminating", name)
		}
	}
	events, err := f.client.CoreV1().Events("").List(f.t.Context(), metav1.ListOptions{})
	f.must(err)
	for i := range events.Items {
		if strings.HasPrefix(events.Items[i].Name, "evictd-doctor-") {
			f.t.Errorf("the dry run wrote an Event: %+v", events.Items[i])
		}
	}
}
