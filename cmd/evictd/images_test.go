package main

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/evictd/evictd/internal/config"
	"github.com/evictd/evictd/internal/kubeletconfig"
	"github.com/evictd/evictd/internal/measure"
	"github.com/evictd/evictd/internal/nodepods"
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
	pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Image: "used:1"}}}}
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
			clients, err := newClients(flags, "", nil)
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
	const capacity = 100_000
	of := func(r measure.ImageReclaim) [3]int64 {
		return [3]int64{r.NodeFS.Of(capacity), r.ImageFS.Of(capacity), r.Collection.Of(capacity)}
	}
	hard := func(signal pressure.Signal, n int64) pressure.Threshold {
		return pressure.Threshold{Signal: signal, Quantity: pressure.Absolute(n), Hard: true}
	}
	for name, test := range map[string]struct {
		kubelet *kubeletconfig.Configuration
		want    [3]int64
	}{
		"not known, so the kubelet's defaults": {nil, [3]int64{10_000, 15_000, 16_000}},
		"what its file says": {&kubeletconfig.Configuration{
			Thresholds: []pressure.Threshold{
				hard(pressure.NodeFSAvailable, 5), hard(pressure.ImageFSAvailable, 6), hard(pressure.MemoryAvailable, 7),
				{Signal: pressure.ImageFSAvailable, Quantity: pressure.Absolute(50)}, // soft
			},
			ImageCollection: pressure.Fraction(.26),
		}, [3]int64{5, 6, 26_000}},
		"it removes none": {&kubeletconfig.Configuration{}, [3]int64{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := of(imageReclaimOf(test.kubelet))
			// A share is a float32 in the kubelet, and may differ by one byte.
			for i := range got {
				if got[i] == test.want[i]-1 {
					got[i]++
				}
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("nodefs, imagefs, collection (-want +got):\n%s", diff)
			}
		})
	}
}
