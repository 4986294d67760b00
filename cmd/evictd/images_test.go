package main

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/evictd/evictd/internal/config"
	"github.com/evictd/evictd/internal/measure"
	"github.com/evictd/evictd/internal/nodepods"
)

func TestUnusedImagesOfTheNode(t *testing.T) {
	t.Parallel()
	pod := &corev1.Pod{Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Image: "docker.io/library/used:1"}}}}
	two := []object{
		{"names": []string{"docker.io/library/used:1"}, "sizeBytes": 100},
		{"names": []string{"docker.io/library/unused:1"}, "sizeBytes": 7},
	}
	for name, test := range map[string]struct {
		images    []object // nil: there is no such node
		dedicated bool
		fault     error
		want      measure.UnusedImages
		err       string
	}{
		"on nodefs":             {two, false, nil, measure.UnusedImages{Bytes: 7, OnNodeFS: true}, ""},
		"with a device":         {two, true, nil, measure.UnusedImages{Bytes: 7}, ""},
		"none is listed":        {[]object{}, true, nil, measure.UnusedImages{}, "the node's status lists no images"},
		"the device is unknown": {two, true, errors.New("planted"), measure.UnusedImages{}, "planted"},
		"there is no such node": {nil, true, nil, measure.UnusedImages{}, "no such node"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			api := newDoctorAPI(t)
			if api.images = test.images; api.images == nil {
				api.fails("/api/v1/nodes/node-1", http.StatusNotFound)
			}
			flags := &runFlags{nodeName: "node-1", kubeconfig: kubeconfigFor(t, api.url)}
			d := newDisk(clientsFor(t, flags), flags, config.Default)
			d.imageFS = func(string) (bool, error) { return test.dedicated, test.fault }
			got, err := d.Unused(t.Context(), []*nodepods.Pod{nodepods.FromAPI(pod)})
			if err == nil && got != test.want || (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
				t.Errorf("got %+v, %v; want %+v, %q", got, err, test.want, test.err)
			}
		})
	}
}
