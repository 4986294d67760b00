package integration

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evictd/evictd/test/cluster"
)

// host is a node's files as evictd reads them: the API server is real in these tests, and
// the tests set the node's figures.
type host struct {
	t     testing.TB
	root  string
	state string // the state directory of agents that are killed; "" is none

	mu        sync.Mutex
	available int64 // MiB
}

const (
	mebibyte = 1 << 20
	totalMiB = 16 << 10
	kubepods = "sys/fs/cgroup/kubepods.slice"
)

func newHost(t *testing.T) *host {
	t.Helper()
	h := &host{t: t, root: t.TempDir()}
	h.write("sys/fs/cgroup/cgroup.controllers", "cpu memory pids\n")
	h.group(kubepods, 0)
	h.write(kubepods+"/memory.max", "max\n")
	h.write("var/lib/kubelet/pods", "")
	h.free(totalMiB / 2)
	return h
}

// write replaces a file's text in place, as the kernel does: evictd keeps its files open.
// All texts of one file have the same length, so that a read never returns a partial one.
func (h *host) write(name, text string) {
	h.t.Helper()
	path := filepath.Join(h.root, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		h.t.Fatal(err)
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		h.t.Fatal(err)
	}
	defer file.Close()
	if _, err = file.WriteAt([]byte(text), 0); err != nil {
		h.t.Fatal(err)
	}
}

// group creates a pod's cgroup, or its parent, with that memory usage in MiB.
func (h *host) group(name string, holds int64) {
	h.t.Helper()
	h.write(name+"/memory.current", fmt.Sprintf("%d\n", holds*mebibyte))
	h.write(name+"/memory.stat", fmt.Sprintf("anon %d\nfile 0\nshmem 0\ninactive_file 0\n", holds*mebibyte))
	h.write(name+"/pids.current", "1\n")
}

func groupOf(pod *corev1.Pod) string {
	return kubepods + "/kubepods-burstable.slice/kubepods-burstable-pod" + strings.ReplaceAll(string(pod.UID), "-", "_") + ".slice"
}

// free sets MemAvailable, in MiB.
func (h *host) free(available int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.available = available
	h.write("proc/meminfo", fmt.Sprintf("MemTotal: %12d kB\nMemFree: %12d kB\nMemAvailable: %12d kB\nCached: 0 kB\nSlab: 0 kB\n",
		int64(totalMiB<<10), available<<10, available<<10))
}

// now returns MemAvailable, in MiB.
func (h *host) now() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.available
}

// end reclaims a pod's memory and removes its cgroup, in the kernel's order. In the other
// order evictd would see the cgroup gone before its memory is free.
func (h *host) end(pod *corev1.Pod, held int64) {
	h.mu.Lock()
	available := h.available + held
	h.mu.Unlock()
	h.free(available)
	if err := os.RemoveAll(filepath.Join(h.root, groupOf(pod))); err != nil {
		h.t.Error(err)
	}
}

// built is evictd, built once for all tests.
var built = sync.OnceValues(func() (string, error) {
	path := filepath.Join(shared.Dir(), "evictd")
	text, err := exec.Command("go", "build", "-C", "../..", "-o", path, "./cmd/evictd").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("building evictd: %w: %s", err, text)
	}
	return path, nil
})

// daemon is a running evictd.
type daemon struct {
	t       testing.TB
	address string
	config  string // the path of its configuration
	command *exec.Cmd
	log     *text
	ended   sync.Once
}

// text is a log that grows while it is read.
type text struct {
	mu      sync.Mutex
	content bytes.Buffer
}

// Write adds to the log.
func (l *text) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.content.Write(p)
}

// String returns all of it.
func (l *text) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.content.String()
}

// lenient are the default settings of all tests: every pod may be evicted.
const lenient = "protect: {barePods: false, pinnedPods: false, withinRequests: never}\nlimits: {evictionsPerMinute: 60, perOwnerPerHour: 60}\n"

// usual is the default configuration of a daemon.
const usual = defaultSettings + lenient

// defaultSettings are its thresholds.
const defaultSettings = "evictionHard: {memory.available: 500Mi}\n"

// configured returns a configuration file with these settings and the common ones.
func configured(settings string) []byte { return written(settings + lenient) }

// written returns a configuration file.
func written(policy string) []byte {
	if !strings.Contains(policy, "dryRun:") {
		policy += "\ndryRun: false\n" // without this line the default evicts no pod
	}
	return []byte("apiVersion: evictd.dev/v1alpha1\nkind: EvictdConfiguration\n" + policy)
}

// startDaemon runs evictd for a node, with an API server at the address, the credentials in
// the files, and the world's namespace as its own, or that of the shipped manifest. It ends with the test, and must end
// without an error.
func startDaemon(tb testing.TB, h *host, nodeName, server string, ca []byte, tokenFile, policy string) *daemon {
	tb.Helper()
	binary, err := built()
	if err != nil {
		tb.Fatal(err)
	}
	dir := tb.TempDir()
	kubeconfig, config := filepath.Join(dir, "kubeconfig"), filepath.Join(dir, "evictd.yaml")
	for path, text := range map[string][]byte{
		kubeconfig: fmt.Appendf(nil, `apiVersion: v1
kind: Config
current-context: it
contexts: [{name: it, context: {cluster: it, user: it}}]
clusters: [{name: it, cluster: {server: "https://%s", certificate-authority-data: %s}}]
users: [{name: it, user: {tokenFile: %q}}]
`, server, base64.StdEncoding.EncodeToString(ca), tokenFile),
		config: written(policy),
	} {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			tb.Fatal(err)
		}
	}
	d := &daemon{t: tb, address: freeAddress(tb), log: &text{}, config: config}
	d.command = exec.Command(binary, "run", "--config="+config, "--node-name="+nodeName, "--kubeconfig="+kubeconfig,
		"--host-root="+h.root, "--http-bind-address="+d.address)
	d.command.Stderr = d.log
	own, isWorlds := strings.CutPrefix(nodeName, "node-")
	if !isWorlds {
		own = account
	}
	d.command.Env = append(os.Environ(), "POD_NAMESPACE="+own)
	if err := d.command.Start(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(d.stop)
	return d
}

func freeAddress(tb testing.TB) string {
	tb.Helper()
	address, err := cluster.FreeAddress(tb.Context())
	if err != nil {
		tb.Fatal(err)
	}
	return address
}

// kill ends evictd as kill -9 does.
func (d *daemon) kill() {
	d.ended.Do(func() {
		_ = d.command.Process.Kill()
		_ = d.command.Wait() // a killed process reports a fault
	})
}

func (d *daemon) stop() {
	d.ended.Do(func() {
		_ = d.command.Process.Signal(syscall.SIGTERM)
		if err := d.command.Wait(); err != nil {
			d.t.Errorf("evictd ended with a fault: %v", err)
		}
	})
	if d.t.Failed() {
		d.t.Logf("evictd's log:\n%s", d.log)
	}
}

// get returns a page's status and text; 0 when there is no response.
func (d *daemon) get(path string) (int, string) {
	ctx, cancel := context.WithTimeout(d.t.Context(), cluster.Patiently(recovery))
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+d.address+path, http.NoBody)
	if err != nil {
		d.t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err.Error()
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, err.Error()
	}
	return response.StatusCode, string(body)
}

// metric returns the sum of a metric's series with these labels, given as alternating names
// and values, and false when there is none.
func (d *daemon) metric(name string, labels ...string) (float64, bool) {
	_, page := d.get("/metrics")
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(page))
	if err != nil || families[name] == nil {
		return 0, false
	}
	sum, found := 0., false
	for _, series := range families[name].GetMetric() {
		if labelled(series, labels) {
			sum, found = sum+value(series), true
		}
	}
	return sum, found
}

func labelled(series *dto.Metric, labels []string) bool {
	has := map[string]string{}
	for _, label := range series.GetLabel() {
		has[label.GetName()] = label.GetValue()
	}
	for i := 0; i+1 < len(labels); i += 2 {
		if has[labels[i]] != labels[i+1] {
			return false
		}
	}
	return true
}

// series returns the sum of a metric's series with that value of a label.
func (d *daemon) series(name, label, of string) float64 {
	_, page := d.get("/metrics")
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(page))
	if err != nil || families[name] == nil {
		d.t.Errorf("there is no metric %s: %v", name, err)
	}
	sum := 0.
	for _, series := range families[name].GetMetric() {
		for _, pair := range series.GetLabel() {
			if pair.GetName() == label && pair.GetValue() == of {
				sum += value(series)
			}
		}
	}
	return sum
}

func value(m *dto.Metric) float64 {
	return m.GetGauge().GetValue() + m.GetCounter().GetValue() + m.GetUntyped().GetValue()
}

// hand acts as the node's kubelet: a terminating pod ends, and its memory is reclaimed.
type hand struct {
	w    *world
	host *host
	held map[string]int64 // MiB, by the pod's name

	mu      sync.Mutex
	ends    time.Duration
	victims []string

	graceless map[types.UID]*corev1.Pod // pods that were listed, with a grace period of 0; removed when they end
}

// takes sets how long a victim takes to end; without it, it ends at once.
func (k *hand) takes(d time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.ends = d
}

// holds sets how many MiB the end of a pod reclaims.
func (k *hand) holds(name string, mebibytes int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.held[name] = mebibytes
}

// watchOver ends terminating pods until the test is over.
func watchOver(w *world, h *host, held map[string]int64) *hand {
	one := &hand{w: w, host: h, held: held, graceless: map[types.UID]*corev1.Pod{}}
	ctx, cancel := context.WithCancel(w.t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		seen := map[string]time.Time{}
		for ctx.Err() == nil {
			one.look(ctx, seen)
			time.Sleep(50 * time.Millisecond)
		}
	}()
	w.t.Cleanup(func() { cancel(); <-ended })
	return one
}

// look ends the pods whose time has come. Seen is since when each is terminating.
func (k *hand) look(ctx context.Context, seen map[string]time.Time) {
	pods, err := k.w.client.CoreV1().Pods(k.w.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return // the fault is the test's own
	}
	forgotten := maps.Clone(k.graceless)
	for i := range pods.Items {
		pod := &pods.Items[i]
		delete(forgotten, pod.UID)
		if pod.DeletionTimestamp == nil {
			if *pod.Spec.TerminationGracePeriodSeconds == 0 {
				k.graceless[pod.UID] = pod
			}
			continue
		}
		// The API server writes a pod that it deletes with grace 0 once more before it
		// removes it.
		if grace := pod.DeletionGracePeriodSeconds; grace != nil && *grace == 0 {
			continue
		}
		if k.lives(pod, seen) {
			continue
		}
		now := int64(0)
		err := k.w.client.CoreV1().Pods(k.w.namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: &now})
		if err == nil {
			k.host.end(pod, k.held[pod.Name])
		}
	}
	for _, pod := range forgotten {
		if !k.lives(pod, seen) {
			delete(k.graceless, pod.UID)
			k.host.end(pod, k.held[pod.Name])
		}
	}
}

// lives records a terminating pod and reports whether it is still running.
func (k *hand) lives(pod *corev1.Pod, seen map[string]time.Time) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if seen[string(pod.UID)].IsZero() {
		seen[string(pod.UID)] = time.Now()
		k.victims = append(k.victims, pod.Name)
	}
	return time.Since(seen[string(pod.UID)]) < k.ends
}

// taken returns the names of the pods that were evicted, in their order.
func (k *hand) taken() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return append([]string(nil), k.victims...)
}
