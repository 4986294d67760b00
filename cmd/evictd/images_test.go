package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/evictd/evictd/internal/config"
	"github.com/evictd/evictd/internal/measure"
	"github.com/evictd/evictd/internal/nodepods"
	"github.com/evictd/evictd/internal/testing/kernelfiletest"
	"github.com/evictd/evictd/pkg/pressure"
)

func TestUnusedImagesOfTheNode(t *testing.T) {
	t.Parallel()
	node := func(images ...object) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(object{
				"apiVersion": "v1", "kind": "Node", "metadata": object{"name": "node-1"}, "status": object{"images": images},
			})
		}
	}
	pod := &corev1.Pod{Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Image: "docker.io/library/used:1"}}}}
	two := node(
		object{"names": []string{"docker.io/library/used:1"}, "sizeBytes": 100},
		object{"names": []string{"docker.io/library/unused:1"}, "sizeBytes": 7},
	)
	for name, test := range map[string]struct {
		node      http.HandlerFunc
		dedicated bool
		fault     error
		want      measure.UnusedImages
		err       string
	}{
		"on nodefs":             {two, false, nil, measure.UnusedImages{Bytes: 7, OnNodeFS: true}, ""},
		"with a device":         {two, true, nil, measure.UnusedImages{Bytes: 7}, ""},
		"none is listed":        {node(), true, nil, measure.UnusedImages{}, "the node's status lists no images"},
		"the device is unknown": {two, true, errors.New("planted"), measure.UnusedImages{}, "planted"},
		"there is no such node": {
			func(w http.ResponseWriter, _ *http.Request) {
				fail(w, apierrors.NewNotFound(schema.GroupResource{Resource: "nodes"}, "node-1"))
			}, true, nil, measure.UnusedImages{}, "no such node",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			flags := &runFlags{nodeName: "node-1", kubeconfig: kubeconfigFor(t, serving(t, test.node))}
			clients, err := newClients(flags, "")
			if err != nil {
				t.Fatal(err)
			}
			d := newDisk(clients, flags, config.Default)
			d.imageFS = func(string) (bool, error) { return test.dedicated, test.fault }
			got, err := d.Unused(t.Context(), []*nodepods.Pod{nodepods.FromAPI(pod)})
			if err == nil && got != test.want || (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
				t.Errorf("got %+v, %v; want %+v, %q", got, err, test.want, test.err)
			}
		})
	}
}

func TestWhenTheKubeletRemovesImages(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		file string
		want []string // its hard thresholds that count, and where its collection begins
	}{
		"not known, so the kubelet's defaults": {"", []string{"nodefs.available 10%", "imagefs.available 15%", "collection 16%"}},
		"what its file says": {
			kubeletFile("1Gi, nodefs.available: 5%") + "evictionSoft: {imagefs.available: 50%}\nevictionSoftGracePeriod: {imagefs.available: 1m}\nimageGCHighThresholdPercent: 75\n",
			[]string{"nodefs.available 5%", "collection 26%"},
		},
		"it removes none": {kubeletFile("1Gi") + "imageGCHighThresholdPercent: 100\n", []string{"collection 0%"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := t.TempDir()
			if test.file != "" {
				kernelfiletest.Put(t, filepath.Join(root, "var/lib/kubelet/config.yaml"), test.file)
			}
			policy := (&daemon{flags: &runFlags{hostRoot: root}}).policyOf(config.Default())
			percent := func(name string, q pressure.Quantity) string {
				return fmt.Sprintf("%s %d%%", name, (q.Of(100_000)+1)/1000)
			}
			var got []string
			for _, line := range policy.Kubelet.Thresholds {
				if line.Hard && line.Signal.OnDisk() && line.Signal.Kind() == pressure.SpaceKind {
					got = append(got, percent(line.Signal.String(), line.Quantity))
				}
			}
			got = append(got, percent("collection", policy.Kubelet.ImageCollection))
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if known := policy.KubeletHard != nil; known != (test.file != "") {
				t.Errorf("the kubelet's thresholds are known: %v", known)
			}
		})
	}
}
