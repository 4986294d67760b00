//go:build e2e || e2e_all

package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/evictd/evictd/test/internal/eventually"
	"github.com/evictd/evictd/test/internal/node"
)

// What the pods of the disk tests write, in MiB, and how much may be written before the
// threshold is met. The modest pod could not cover the deficit; the greedy one can.
const (
	modestMiB, greedyMiB = 20, 160
	untilMetMiB          = 110
)

// The same, in files.
const (
	modestFiles, greedyFiles = 300, 6000
	untilMetFiles            = 4000
)

// longGrace is the grace period of a pod that ends at a barrier: longer than any wait.
const longGrace = time.Hour

// worker is a pod that uses memory or disk space when the test lets it. Its barriers and its log are
// files in a folder of the machine, which the pod has as a hostPath. The barrier of the start is
// the pod's own, so that its replacement does nothing; those of the end are the Deployment's.
type worker struct {
	corev1.Pod

	dir   string
	word  string // what it logs when it has done its work
	scene *scene
}

// The barriers of a pod's end, which are flags of the workload.
const (
	endsAtBarrier = "--term-file=/barriers/end"
	hookBarrier   = "--prestop-file=/barriers/hook"
	moreAtBarrier = "--memory-file=/barriers/more"
	logFlag       = "--log-file=/barriers/$POD_NAME.log"
)

// deployWorker makes a Deployment with one such pod, and waits until it runs.
func deployWorker(s *scene, workload node.Workload) *worker {
	s.Helper()
	w := newWorker(s, &workload)
	w.Pod = s.deploy(workload)
	return w
}

// writer makes such a pod without a controller, with a disk emptyDir at /data, and waits until it runs.
func writer(s *scene, name string, flags []string, change ...func(*corev1.PodSpec)) *worker {
	s.Helper()
	workload := node.Workload{Name: name, AsksMiB: 10, Flags: flags, Change: func(spec *corev1.PodSpec) {
		node.Mount(spec, "data", "/data", corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}})
		for _, c := range change {
			c(spec)
		}
	}}
	w := newWorker(s, &workload)
	s.must(workload.Bare(s.Context(), live, s.namespace))
	var err error
	w.Pod, err = live.Running(s.Context(), s.namespace, name)
	s.must(err)
	return w
}

func newWorker(s *scene, workload *node.Workload) *worker {
	s.Helper()
	w := &worker{dir: s.TempDir(), word: "memory", scene: s}
	for _, of := range []struct{ flag, word string }{
		{"--memory-first", "first"}, {"--write-bytes", "files"}, {"--files", "files"}, {"--output-bytes", "output"}, {"--grow-bytes", "grown"},
	} { // in the order in which the workload logs them
		if slices.ContainsFunc(workload.Flags, func(f string) bool { return strings.HasPrefix(f, of.flag) }) {
			w.word = of.word
		}
	}
	ends := slices.ContainsFunc(workload.Flags, func(f string) bool { return f == endsAtBarrier })
	workload.Flags = append([]string{"--start-file=/barriers/$POD_NAME.start", logFlag}, workload.Flags...)
	change := workload.Change
	workload.Change = func(spec *corev1.PodSpec) {
		if ends {
			spec.TerminationGracePeriodSeconds = new(int64(longGrace.Seconds()))
		}
		spec.Containers[0].Env = append(spec.Containers[0].Env, corev1.EnvVar{
			Name: "POD_NAME", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}},
		})
		node.Mount(spec, "barriers", "/barriers", corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: w.dir}})
		if change != nil {
			change(spec)
		}
	}
	s.workers = append(s.workers, w)
	return w
}

// replacement waits for the pod that replaces an evicted one.
func (w *worker) replacement() *worker {
	w.scene.Helper()
	pod, err := live.Running(w.scene.Context(), w.scene.namespace, w.Labels["app"])
	w.scene.must(err)
	return &worker{Pod: pod, dir: w.dir, word: w.word, scene: w.scene}
}

// start is the barrier that the pod's work waits for.
func (w *worker) start() eventually.Barrier {
	return eventually.Barrier(filepath.Join(w.dir, w.Name+".start"))
}

// end, hook and more are the barriers of endsAtBarrier, hookBarrier and moreAtBarrier.
func (w *worker) end() eventually.Barrier  { return eventually.Barrier(w.dir + "/end") }
func (w *worker) hook() eventually.Barrier { return eventually.Barrier(w.dir + "/hook") }
func (w *worker) more() eventually.Barrier { return eventually.Barrier(w.dir + "/more") }

// release opens the barriers of the end, for what is left of the pods after the test.
func (w *worker) release() {
	w.hook().Open(w.scene.T)
	w.end().Open(w.scene.T)
}

// works lets the pod work, and waits until it has, or is ending: where that takes long, evictd may
// evict it before.
func (w *worker) works() {
	w.scene.Helper()
	w.start().Open(w.scene.T)
	w.logs(w.word, "prestop-start", "term")
}

// logs waits until the pod has logged one of the words.
func (w *worker) logs(words ...string) {
	w.scene.Helper()
	w.scene.until(fmt.Sprintf("%s has logged one of %q", w.Name, words), func(context.Context) bool {
		return slices.ContainsFunc(w.steps(), func(step string) bool { return slices.Contains(words, step) })
	})
}

// steps returns the words that the pod has logged, in their order.
func (w *worker) steps() []string {
	text, _ := os.ReadFile(filepath.Join(w.dir, w.Name+".log")) // not there at first
	var words []string
	for line := range strings.Lines(string(text)) {
		if _, word, whole := strings.Cut(line, " "); whole && strings.HasSuffix(word, "\n") {
			words = append(words, strings.TrimSpace(word))
		}
	}
	return words
}

// modestWriter makes a pod that has written little.
func modestWriter(s *scene) *worker {
	s.Helper()
	return wrote(s, "modest", fileOf("/data/keep", modestMiB), []string{fmt.Sprintf("--files=%d", modestFiles)})
}

// wrote makes a pod that has written.
func wrote(s *scene, name string, what ...[]string) *worker {
	s.Helper()
	w := writer(s, name, slices.Concat(what...))
	w.works()
	return w
}

func fileOf(path string, mebibytes int64) []string {
	return []string{"--write=" + path, fmt.Sprintf("--write-bytes=%dMi", mebibytes)}
}
