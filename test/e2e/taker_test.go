//go:build e2e

package e2e

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/evictd/evictd/test/internal/node"
)

// taker is a pod of a Deployment that allocates its memory on the test's signal. Its
// replacement allocates none.
type taker struct {
	corev1.Pod

	control string
}

func (s *scene) taker(w node.Workload) *taker {
	s.Helper()
	control := s.TempDir()
	w.Flags = append([]string{"--start-file=/control/go", "--log-file=/control/lines"}, w.Flags...)
	change := w.Change
	w.Change = func(spec *corev1.PodSpec) {
		if change != nil {
			change(spec)
		}
		node.Mount(spec, "control", "/control", corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: control}})
	}
	return &taker{Pod: s.deploy(w), control: control}
}

// takes makes the pod allocate its memory, and returns when it has logged the word, or is
// ending.
func (s *scene) takes(t *taker, word string) {
	s.Helper()
	start := filepath.Join(t.control, "go")
	s.must(os.WriteFile(start, nil, 0o600))
	s.until(t.Name+" has taken memory", func(context.Context) bool {
		lines, err := os.ReadFile(filepath.Join(t.control, "lines"))
		return err == nil && (strings.Contains(string(lines), " "+word+"\n") || strings.Contains(string(lines), " term\n"))
	})
	s.must(os.Remove(start))
}
