package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/evictd/evictd/test/internal/memory"
	"github.com/evictd/evictd/test/internal/node"
)

// deploy makes the pods and budgets, and waits until all run and hold what they hold before the
// incident.
func (t *turn) deploy(ctx context.Context) error {
	for i := range t.pods {
		p := &t.pods[i]
		if err := t.workload(p).Deploy(ctx, t.Node, namespace); err != nil {
			return err
		}
	}
	err := node.Until(ctx, 2*time.Minute, func(context.Context) bool { return t.prepared() })
	if err != nil {
		described, _ := t.Node.Kubectl(context.WithoutCancel(ctx), "-n", namespace, "get", "pods", "-o", "wide")
		return fmt.Errorf("waiting for the pods of the scenario: %w\n%s", err, described)
	}
	for i := range t.pods {
		if p := &t.pods[i]; p.Keeps > 0 {
			if err := t.Node.Budget(ctx, namespace, p.Name, p.Keeps); err != nil {
				return err
			}
		}
	}
	return t.measured(ctx)
}

// workload is the Deployment of a pod.
func (t *turn) workload(p *Pod) node.Workload {
	w := p.Workload
	w.Flags = append([]string{"--log-file=/run-dir/journal/$POD_NAME"}, w.Flags...)
	if p.Waits {
		w.Flags = append(w.Flags, "--start-file=/run-dir/go/"+p.Name)
	}
	if p.FirstMiB > 0 {
		w.Flags = append(w.Flags, fmt.Sprintf("--memory-first=%dMi", p.FirstMiB))
	}
	if p.Rate > 0 {
		w.Flags = append(w.Flags, "--memory-rate="+strconv.FormatInt(p.Rate, 10))
	}
	if p.DropsMiB > 0 {
		w.Flags = append(w.Flags, fmt.Sprintf("--memory-drop=%dMi", p.DropsMiB))
	}
	if p.CacheMiB > 0 {
		w.Flags = append(w.Flags, "--cache=/data/cache", fmt.Sprintf("--cache-bytes=%dMi", p.CacheMiB))
	}
	if p.Grows != nil {
		w.Flags = append(w.Flags, t.growth(p.Grows)...)
	}
	w.Change = func(spec *corev1.PodSpec) { p.change(spec, t.dir) }
	return w
}

// growth returns the flags of a file that grows.
func (t *turn) growth(g *Growth) []string {
	size := g.MiB << 20
	if g.StopsAtPercent > 0 {
		size = t.fillTo(g.StopsAtPercent)
	}
	flags := []string{"--grow=" + g.Path, "--grow-bytes=" + strconv.FormatInt(size, 10), "--grow-rate=" + strconv.FormatInt(g.Rate, 10)}
	if g.Deleted {
		flags = append(flags, "--grow-deleted")
	}
	return flags
}

// change gives the pod the run's folder, an emptyDir and what else it needs.
func (p *Pod) change(spec *corev1.PodSpec, dir string) {
	c := &spec.Containers[0]
	node.Mount(spec, "run", "/run-dir", corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: dir}})
	node.Mount(spec, "data", "/data", corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}})
	c.Env = append(c.Env, corev1.EnvVar{Name: "POD_NAME", ValueFrom: &corev1.EnvVarSource{
		FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"},
	}})
	if p.CPU != "" {
		c.Resources.Requests[corev1.ResourceCPU] = resource.MustParse(p.CPU)
	}
	if p.Grace > 0 {
		spec.TerminationGracePeriodSeconds = new(int64(p.Grace / time.Second))
	}
	if p.PreStop > 0 {
		c.Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Exec: &corev1.ExecAction{
			Command: []string{"/workload", "--prestop-sleep=" + p.PreStop.String(), "--log-file=/run-dir/journal/$POD_NAME"},
		}}}
	}
	if p.Top {
		spec.PriorityClassName = topClass
	}
}

// prepared reports whether every pod has written that it holds what it holds at first.
func (t *turn) prepared() bool {
	for i := range t.pods {
		p := &t.pods[i]
		word := "memory"
		switch {
		case p.Waits:
			word = "start"
		case p.CacheMiB > 0:
			word = "cache"
		case p.Grows != nil:
			word = "grown"
		case p.UsesMiB == 0:
			word = "start"
		}
		if int64(t.said(p.Name, word)) < p.count() {
			return false
		}
	}
	return true
}

// said returns how many pods of the app have written the word into their journals.
func (t *turn) said(app, word string) int {
	names, _ := filepath.Glob(filepath.Join(t.dir, "journal", app+"-*")) // the pattern is well-formed
	n := 0
	for _, name := range names {
		text, err := os.ReadFile(name) //nolint:gosec // the run's own folder
		if err == nil && strings.Contains(string(text), " "+word+"\n") {
			n++
		}
	}
	return n
}

// safe makes sure that the machine keeps its floor even if every pod takes all that it may, and
// the limit of all pods together did not hold.
func (t *turn) safe() error {
	kernel, err := memory.Kernel()
	if err != nil {
		return err
	}
	for i := range t.pods {
		p := &t.pods[i]
		if p.LimitMiB == 0 {
			return fmt.Errorf("pod %s of scenario %d has no memory limit: it is not safe to run", p.Name, t.scenario.Number)
		}
		kernel -= p.LimitMiB << 20 * p.count()
	}
	if kernel < floor {
		return fmt.Errorf("scenario %d could leave the machine with %d MiB, %d must stay", t.scenario.Number, kernel>>20, int64(floor)>>20)
	}
	return nil
}

// begin lets the pods of the apps take and write, and waits until they do.
func (t *turn) begin(ctx context.Context, apps []string) error {
	for i := range t.pods {
		p := &t.pods[i]
		if !slices.Contains(apps, p.Name) {
			continue
		}
		file := filepath.Join(t.dir, "go", p.Name)
		if err := os.WriteFile(file, nil, 0o644); err != nil { //nolint:gosec // a container looks at it
			return fmt.Errorf("beginning: %w", err)
		}
		err := node.Until(ctx, 30*time.Second, func(context.Context) bool { return int64(t.said(p.Name, "begin")) >= p.count() })
		if err != nil {
			return fmt.Errorf("waiting for %s to begin: %w", p.Name, err)
		}
		if p.Again {
			continue
		}
		if err := os.Remove(file); err != nil {
			return fmt.Errorf("beginning: %w", err)
		}
	}
	return nil
}
