package main

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// patched returns the shipped DaemonSet with a patch, merged as by kustomize and kubectl.
func patched(t *testing.T, path string) *appsv1.DaemonSet {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	patch, err := yaml.ToJSON(text)
	if err != nil {
		t.Fatal(err)
	}
	original, err := json.Marshal(readShipped(t).daemonSet)
	if err != nil {
		t.Fatal(err)
	}
	merged, err := strategicpatch.StrategicMergePatch(original, patch, appsv1.DaemonSet{})
	if err != nil {
		t.Fatal(err)
	}
	result := &appsv1.DaemonSet{}
	if err := json.Unmarshal(merged, result); err != nil {
		t.Fatal(err)
	}
	return result
}

// Each component makes evictd root with some capabilities, adds one volume, and changes nothing else. Everything is
// still read-only, recursively where root could do harm, but for the pressure of the pods' cgroup where that is asked
// for.
func TestComponents(t *testing.T) {
	t.Parallel()
	const pressure = "/sys/fs/cgroup/kubepods.slice/memory.pressure"
	for component, test := range map[string]struct {
		capabilities []corev1.Capability
		volume, path string
		kind         corev1.HostPathType
		writable     []string
		recursively  []string // the mounts below which nothing can be written to either
	}{
		"disk-node": {
			[]corev1.Capability{"DAC_READ_SEARCH", "SYS_PTRACE"},
			"logs", "/var/log/pods", corev1.HostPathDirectory,
			nil,
			[]string{"/host/proc", "/host/sys/fs/cgroup"},
		},
		"kubepods-trigger": {
			[]corev1.Capability{"SYS_RESOURCE"},
			"kubepods-pressure", pressure, corev1.HostPathFile,
			[]string{"/host" + pressure},
			[]string{"/host/"},
		},
	} {
		t.Run(component, func(t *testing.T) {
			t.Parallel()
			before, after := readShipped(t).daemonSet, patched(t, "../../deploy/components/"+component+"/daemonset.patch.yaml")
			container := &after.Spec.Template.Spec.Containers[0]
			security := container.SecurityContext
			if diff := cmp.Diff(&corev1.Capabilities{Drop: []corev1.Capability{"ALL"}, Add: test.capabilities}, security.Capabilities); diff != "" {
				t.Errorf("capabilities (-want +got):\n%s", diff)
			}
			if *security.RunAsUser != 0 || *security.RunAsNonRoot || *security.AllowPrivilegeEscalation || !*security.ReadOnlyRootFilesystem {
				t.Errorf("the security context is %+v", security)
			}
			var writable []string
			for _, m := range container.VolumeMounts {
				if !m.ReadOnly && m.Name != "state" { // evictd's own
					writable = append(writable, m.MountPath)
				}
				below := slices.ContainsFunc(test.recursively, func(path string) bool { return strings.HasPrefix(m.MountPath, path) })
				if m.ReadOnly && below && (m.RecursiveReadOnly == nil || *m.RecursiveReadOnly != corev1.RecursiveReadOnlyIfPossible) {
					t.Errorf("what is mounted below %s can be written to", m.MountPath)
				}
			}
			if !slices.Equal(writable, test.writable) {
				t.Errorf("these can be written to: %q", writable)
			}
			if !slices.ContainsFunc(container.VolumeMounts, func(m corev1.VolumeMount) bool { return m.MountPath == "/host"+test.path }) ||
				!slices.ContainsFunc(after.Spec.Template.Spec.Volumes, func(v corev1.Volume) bool {
					return v.HostPath != nil && v.HostPath.Path == test.path && *v.HostPath.Type == test.kind
				}) {
				t.Errorf("%s is not mounted", test.path)
			}
			sameOtherwise(t, &before, after, test.volume)
		})
	}
}

// sameOtherwise fails the test where a component changes more than the security context, the
// mounts and one volume.
func sameOtherwise(t *testing.T, before, after *appsv1.DaemonSet, volume string) {
	t.Helper()
	base, container := &before.Spec.Template.Spec.Containers[0], &after.Spec.Template.Spec.Containers[0]
	container.SecurityContext, container.VolumeMounts = base.SecurityContext, base.VolumeMounts
	after.Spec.Template.Spec.Volumes = slices.DeleteFunc(after.Spec.Template.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == volume })
	volumes := func(a, b corev1.Volume) int { return strings.Compare(a.Name, b.Name) } // the patch changes their order
	slices.SortFunc(after.Spec.Template.Spec.Volumes, volumes)
	slices.SortFunc(before.Spec.Template.Spec.Volumes, volumes)
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("the component changes more (-shipped +component):\n%s", diff)
	}
}
