package main

import (
	"bufio"
	"errors"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/evictd/evictd/internal/acting"
	"github.com/evictd/evictd/internal/config"
	"github.com/evictd/evictd/internal/state"
)

// shipped is deploy/daemonset.yaml, decoded strictly.
type shipped struct {
	config    corev1.ConfigMap
	daemonSet appsv1.DaemonSet
	role      rbacv1.ClusterRole
	stop      rbacv1.Role
	account   corev1.ServiceAccount
	policies  []admissionregistrationv1.ValidatingAdmissionPolicy
	bindings  []admissionregistrationv1.ValidatingAdmissionPolicyBinding
	kinds     []string
}

func readShipped(t *testing.T) *shipped {
	t.Helper()
	return readManifest(t, "../../deploy/daemonset.yaml")
}

// readManifest decodes a file of deploy strictly.
func readManifest(t *testing.T, path string) *shipped {
	t.Helper()
	s := &shipped{}
	once := map[string]any{"ConfigMap": &s.config, "DaemonSet": &s.daemonSet, "ClusterRole": &s.role, "Role": &s.stop, "ServiceAccount": &s.account}
	decoder := yaml.NewYAMLReader(bufio.NewReader(strings.NewReader(readFile(t, path))))
	for {
		document, err := decoder.Read()
		if errors.Is(err, io.EOF) {
			return s
		}
		must(t, err)
		var kind struct{ Kind string }
		must(t, yaml.Unmarshal(document, &kind))
		s.kinds = append(s.kinds, kind.Kind)
		into := once[kind.Kind] // nil for a kind that no test uses
		switch kind.Kind {
		case "ValidatingAdmissionPolicy":
			s.policies = append(s.policies, admissionregistrationv1.ValidatingAdmissionPolicy{})
			into = &s.policies[len(s.policies)-1]
		case "ValidatingAdmissionPolicyBinding":
			s.bindings = append(s.bindings, admissionregistrationv1.ValidatingAdmissionPolicyBinding{})
			into = &s.bindings[len(s.bindings)-1]
		}
		if into == nil {
			continue
		}
		if err := yaml.UnmarshalStrict(document, into); err != nil {
			t.Fatalf("%s: %v", kind.Kind, err)
		}
	}
}

func TestShippedManifestConfigurationIsADryRunAndValid(t *testing.T) {
	t.Parallel()
	s := readShipped(t)
	c, err := config.Parse([]byte(s.config.Data["evictd.yaml"]))
	must(t, err)
	want := config.Default()
	want.DryRun = true
	if diff := cmp.Diff(want, c); diff != "" {
		t.Errorf("the shipped configuration differs from the defaults in more than dryRun (-want +got):\n%s", diff)
	}
}

// Each setting is there once, as a variable that `evictd run` and the other commands in the pod read.
func TestShippedManifestHandsItsSettingsOn(t *testing.T) {
	container := readShipped(t).daemonSet.Spec.Template.Spec.Containers[0]
	for _, v := range container.Env {
		if v.ValueFrom == nil {
			t.Setenv(v.Name, v.Value)
		}
	}
	run := newRunCommand(nil)
	if _, err := fromEnvironment(run.Flags()); err != nil || !slices.Equal(container.Args, []string{"run"}) {
		t.Errorf("arguments %q: %v", container.Args, err)
	}
	known := map[string]string{}
	run.Flags().VisitAll(func(f *pflag.Flag) {
		known["EVICTD_"+strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))] = f.Value.String()
	})
	for _, v := range container.Env {
		if strings.HasPrefix(v.Name, "EVICTD_") && known[v.Name] != v.Value {
			t.Errorf("%s is no flag of evictd run", v.Name)
		}
	}
	for name, mounted := range map[string]string{"EVICTD_CONFIG": "/etc/evictd", "EVICTD_HOST_ROOT": "/host/proc", "EVICTD_STATE_DIR": "/var/lib/evictd"} {
		if !slices.ContainsFunc(container.VolumeMounts, func(m corev1.VolumeMount) bool {
			return m.MountPath == mounted && (strings.HasPrefix(known[name], mounted) || known[name]+"/proc" == mounted)
		}) {
			t.Errorf("%s is %q, and %s is not mounted for it", name, known[name], mounted)
		}
	}
}

func TestShippedManifestRequestsTheLeast(t *testing.T) {
	t.Parallel()
	s := readShipped(t)
	pod := s.daemonSet.Spec.Template.Spec
	container := pod.Containers[0]
	// A CPU limit would throttle decisions. The priority class gives the OOM score of a Guaranteed pod.
	memory := corev1.ResourceList{corev1.ResourceMemory: container.Resources.Requests[corev1.ResourceMemory]}
	if diff := cmp.Diff(memory, container.Resources.Limits); diff != "" {
		t.Errorf("the limits are not the memory request alone:\n%s", diff)
	}
	if cpu := container.Resources.Requests.Cpu().MilliValue(); cpu != 100 || pod.PriorityClassName != "system-node-critical" {
		t.Errorf("a CPU request of %dm and the priority class %q, want 100m, as in docs/performance.md, and system-node-critical", cpu, pod.PriorityClassName)
	}
	context := container.SecurityContext
	if !*context.ReadOnlyRootFilesystem || *context.AllowPrivilegeEscalation || !*pod.SecurityContext.RunAsNonRoot ||
		!slices.Equal(context.Capabilities.Drop, []corev1.Capability{"ALL"}) || len(context.Capabilities.Add) != 0 ||
		pod.SecurityContext.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault || pod.HostPID {
		t.Errorf("the container may more than it needs: %+v, %+v", context, pod.SecurityContext)
	}
	for _, mount := range container.VolumeMounts {
		if !mount.ReadOnly && mount.Name != "state" && mount.Name != "record" {
			t.Errorf("%s is mounted writable", mount.Name)
		}
	}
	for _, volume := range pod.Volumes {
		if dir := volume.EmptyDir; dir != nil && volume.Name != "record" && (dir.Medium != corev1.StorageMediumMemory || dir.SizeLimit.Value() < 2*state.MaxSize) {
			t.Errorf("the volume %s is not in memory, or the state file and the one in its place do not fit: %+v", volume.Name, dir)
		}
	}
}

// One ConfigMap, by its name, in evictd's own namespace.
func TestShippedManifestLetsEvictdBeStopped(t *testing.T) {
	t.Parallel()
	role := readShipped(t).stop
	want := []rbacv1.PolicyRule{{
		APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: []string{acting.StopName}, Verbs: []string{"list", "watch"},
	}}
	if diff := cmp.Diff(want, role.Rules); diff != "" || role.Namespace != readShipped(t).account.Namespace {
		t.Errorf("the Role in %s (-want +got):\n%s", role.Namespace, diff)
	}
}

// Another test checks the expressions against a real API server. This one checks that a
// policy binds the account at all: its text contains the account's name, and a policy
// without a binding, or with one that only warns, has no effect. An overlay's policies bind the base's account too, and
// all precede the rights.
func TestShippedManifestsConfineTheAccount(t *testing.T) {
	t.Parallel()
	base := readShipped(t)
	paths, err := filepath.Glob("../../deploy/overlays/*/*.yaml")
	if err != nil || len(paths) == 0 || len(base.policies) != 4 {
		t.Fatalf("no overlays, or not 4 policies but %d: %v", len(base.policies), err)
	}
	base.confines(t, base.account)
	for _, path := range paths {
		if s := readManifest(t, path); len(s.policies) > 0 {
			s.confines(t, base.account)
		}
	}
}

// confines fails the test unless each policy binds the account, and all policies precede the
// rights.
func (s *shipped) confines(t *testing.T, sa corev1.ServiceAccount) {
	t.Helper()
	account := "request.userInfo.username == 'system:serviceaccount:" + sa.Namespace + ":" + sa.Name + "'"
	deny := []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny}
	bound := map[string]bool{}
	for i := range s.bindings {
		binding := &s.bindings[i].Spec
		bound[binding.PolicyName] = slices.Equal(binding.ValidationActions, deny) && binding.MatchResources == nil
	}
	for i := range s.policies {
		policy := &s.policies[i]
		if !slices.ContainsFunc(policy.Spec.MatchConditions, func(c admissionregistrationv1.MatchCondition) bool { return c.Expression == account }) {
			t.Errorf("policy %s does not name evictd's account: want the condition %s", policy.Name, account)
		}
		if *policy.Spec.FailurePolicy != admissionregistrationv1.Fail || !bound[policy.Name] {
			t.Errorf("policy %s lets through what it cannot judge, or is not bound", policy.Name)
		}
	}
	policy := func(kind string) bool { return strings.HasPrefix(kind, "ValidatingAdmissionPolicy") }
	if rights := slices.Index(s.kinds, "ClusterRoleBinding"); rights < 0 || slices.ContainsFunc(s.kinds[rights:], policy) {
		t.Errorf("not all policies are before the rights: %v", s.kinds)
	}
}
