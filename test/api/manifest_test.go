package api

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/evictd/evictd/test/internal/evictdtest"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// The rights are the minimum, all of them in one list. A change that widens them must change
// the list, which makes it visible.
func TestRightsAreThoseOfTheList(t *testing.T) {
	w := evictdtest.NewWorld(t) // not parallel: another test widens the account's rights for a while
	w.Ship(evictdtest.Rights())
	mayDo(w, "testdata/can-i.golden", "pods/eviction")
}

// mayDo compares the rights of evictd's account with a golden file, once the API server has
// read a role with that resource.
func mayDo(w *evictdtest.World, path, resource string) {
	t := w.T
	t.Helper()
	var want, got string
	text, unread := os.ReadFile(path)
	want = string(text)
	f := func(ctx context.Context) bool {
		got = ""
		for line := range strings.Lines(w.Kubectl(ctx, "", "auth", "can-i", "--list", "--as="+evictdtest.AccountUser, "--namespace="+w.Namespace)) {
			got += strings.TrimRight(line, " \n") + "\n"
		}
		// The API server needs a moment to read the role.
		return strings.Contains(got, resource) && (*update || got == want)
	}
	w.Until("kubectl auth can-i --list as evictd is what is in "+path+"; go test ./api -run "+t.Name()+" -update writes it", f,
		func() string { return fmt.Sprintf("file (%v):\n%s\nnow:\n%s", unread, want, got) })
	if *update {
		w.Must(os.WriteFile(path, []byte(got), 0o600))
	}
}

// overlays are the directories of deploy/overlays.
func overlays(tb testing.TB) []string {
	tb.Helper()
	entries, err := os.ReadDir("../../deploy/overlays")
	if err != nil {
		tb.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		if e.IsDir() {
			names = append(names, e.Name())
		}
	}
	return names
}

// overlay applies an overlay of the shipped manifest for the duration of the test.
func overlay(w *evictdtest.World, name string) {
	w.T.Helper()
	path := "../../deploy/overlays/" + name
	w.Kubectl(w.T.Context(), "", "apply", "-k", path)
	w.Undo(func(ctx context.Context) {
		w.Kubectl(ctx, "", "delete", "--ignore-not-found", "--wait=false", "-k", path)
	})
}

// The base is the one file of `kubectl apply`, and an overlay only adds to it: applying both
// gives the sum of both.
func TestOverlaysOnlyAddToTheBase(t *testing.T) {
	t.Parallel()
	w := evictdtest.NewWorld(t)
	text, err := os.ReadFile("../../deploy/daemonset.yaml")
	w.Must(err)
	base := identities(t, string(text))
	if built := identities(t, w.Kubectl(t.Context(), "", "kustomize", "../../deploy")); !slices.Equal(base, built) {
		t.Errorf("kustomize makes of deploy %v, want what is in daemonset.yaml: %v", built, base)
	}
	for _, name := range overlays(t) {
		added := identities(t, w.Kubectl(t.Context(), "", "kustomize", "../../deploy/overlays/"+name))
		if len(added) == 0 {
			t.Errorf("overlay %s adds nothing", name)
		}
		for _, one := range added {
			if slices.Contains(base, one) {
				t.Errorf("overlay %s has %s, which the base has", name, one)
			}
		}
	}
}

// identities returns kind and name of each document, in order.
func identities(tb testing.TB, text string) []string {
	tb.Helper()
	var all []string
	for documents := yaml.NewYAMLReader(bufio.NewReader(strings.NewReader(text))); ; {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return all
		}
		var object metav1.PartialObjectMetadata
		if err == nil {
			err = yaml.Unmarshal(document, &object)
		}
		if err != nil {
			tb.Fatal(err)
		}
		all = append(all, object.Kind+" "+object.Namespace+"/"+object.Name)
	}
}

// The patch that mounts the kubelet's configuration fits the shipped DaemonSet, and names
// the file by its mount path.
func TestKubeletConfigPatchFitsTheShippedDaemonSet(t *testing.T) {
	t.Parallel()
	w := &evictdtest.World{T: t}
	patched := w.Kubectl(t.Context(), evictdtest.ShippedPart(t, []string{"DaemonSet"}), "patch", "--local", "-f", "-", "-o", "yaml",
		"--type=json", "--patch-file=../../deploy/kubelet-config.patch.yaml")
	var set appsv1.DaemonSet
	w.Must(yaml.UnmarshalStrict([]byte(patched), &set))
	pod := &set.Spec.Template.Spec
	argument := pod.Containers[0].Args[len(pod.Containers[0].Args)-1]
	mount := pod.Containers[0].VolumeMounts[len(pod.Containers[0].VolumeMounts)-1]
	volume := pod.Volumes[len(pod.Volumes)-1]
	if argument != "--kubelet-config="+strings.TrimPrefix(mount.MountPath, "/host") || !mount.ReadOnly || mount.Name != volume.Name ||
		volume.HostPath == nil || *volume.HostPath.Type != corev1.HostPathFile {
		t.Errorf("argument %s, mount %+v, volume %+v", argument, mount, volume)
	}
}
