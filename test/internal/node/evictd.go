package node

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/test/internal/eventually"
	"github.com/evictd/evictd/test/internal/measure"
	"github.com/evictd/evictd/test/internal/pages"
)

// Renew replaces evictd's pod, so that the new one has no state of the previous one, and
// waits until the new one watches.
func (n *Node) Renew(ctx context.Context) error {
	if _, err := n.Kubectl(ctx, "-n", Namespace, "delete", "pods", "--all", "--wait"); err != nil {
		return err
	}
	err := eventually.Poll(ctx, func(ctx context.Context) bool {
		_, code, err := n.Get(ctx, "/readyz")
		return err == nil && code == http.StatusOK
	})
	if err != nil {
		return fmt.Errorf("waiting for a new evictd: %w", err)
	}
	return nil
}

// Get returns one of evictd's pages and its status code.
func (*Node) Get(ctx context.Context, path string) (string, int, error) {
	return pages.Get(ctx, http.DefaultClient, address+path)
}

// Metrics returns the metrics as a Prometheus would scrape them, through the real parser.
func (n *Node) Metrics(ctx context.Context) (pages.Metrics, error) {
	text, code, err := n.Get(ctx, "/metrics")
	if err != nil {
		return nil, err
	}
	if code != http.StatusOK {
		return nil, fmt.Errorf("reading /metrics: status %d", code)
	}
	return pages.ParseMetrics(text)
}

// Ticks returns how often evictd has decided since it started, for [eventually.Ticks].
func (n *Node) Ticks(ctx context.Context) (float64, error) {
	read, err := n.Metrics(ctx)
	if err != nil {
		return 0, err
	}
	return read.Ticks()
}

// Decision is one decision of /debug/status, with the fields that tests read.
type Decision struct {
	Verb     string    `json:"verb"`
	Signal   string    `json:"signal"`
	Attempts []Attempt `json:"attempts"`
	// Breakdown is what uses the signal, by part.
	Breakdown map[string]int64 `json:"breakdown"`
}

// Attempt is one request of a decision.
type Attempt struct {
	UID     string `json:"uid"`
	Outcome string `json:"outcome"`
	Budget  string `json:"budget"`
}

// Decisions returns the last decisions, the newest first.
func (n *Node) Decisions(ctx context.Context) (decisions []Decision, err error) {
	text, err := n.LastDecisions(ctx)
	if err == nil {
		err = json.Unmarshal(text, &decisions)
	}
	return decisions, err
}

// LastDecisions returns the last decisions as evictd writes them.
func (*Node) LastDecisions(ctx context.Context) (json.RawMessage, error) {
	text, _, err := pages.Get(ctx, http.DefaultClient, debugAddress+"/debug/status")
	if err != nil {
		return nil, err
	}
	page := struct {
		Decisions json.RawMessage `json:"decisions"`
	}{json.RawMessage("[]")}
	if err := json.Unmarshal([]byte(text), &page); err != nil {
		return nil, fmt.Errorf("parsing /debug/status: %w", err)
	}
	return page.Decisions, nil
}

// Log returns evictd's log.
func (n *Node) Log(ctx context.Context) (string, error) {
	return n.Kubectl(ctx, "-n", Namespace, "logs", "ds/evictd")
}

// The signals that the tests use.
const (
	// NodeMemory is the memory available on the whole node: the rest of the machine affects
	// it.
	NodeMemory = "memory.available"
	// PodMemory is the memory available to all pods together: only pods affect it.
	PodMemory = "allocatableMemory.available"
	// DiskSpace and DiskInodes are what is available on the node's own filesystem; the node
	// must have been started with one.
	DiskSpace  = "nodefs.available"
	DiskInodes = "nodefs.inodesFree"
	// ImageSpace is what is available on the filesystem of images and writable layers.
	ImageSpace = "imagefs.available"
)

// Policy is an administrator's configuration for a test.
type Policy struct {
	// Signal is one of the above; "" leaves the thresholds to the default configuration.
	Signal string
	// Line is its threshold in the signal's unit: a hard one, or with Soft one that is met as soon as
	// the reading is below it. Under a soft one evictd relies on a victim to the end of its grace
	// period, under a hard one for 75 s.
	Line int64
	Soft bool
	// Limits is the block of that name; "" allows 60 evictions per minute and 60 per owner
	// and hour, so that no test is delayed by earlier ones, and has no jitter.
	Limits string
	// Transition is how long a signal must be above its target before an incident ends; 0 is the default.
	Transition time.Duration
	// DryRun is the field of the file; Extra are further lines of it.
	DryRun bool
	Extra  string
}

func (p *Policy) kind() string {
	if p.Soft {
		return "Soft"
	}
	return "Hard"
}

// LineBelow returns a threshold that is met when pods use headroom more MiB than now, or
// headroom MiB in all (PodMemory). DiskInodes counts inodes.
func (n *Node) LineBelow(ctx context.Context, signal string, headroom int64) (int64, error) {
	switch signal {
	case NodeMemory:
		available, err := measure.Bytes("/proc/meminfo", "MemAvailable")
		return available - headroom<<20, err
	case DiskSpace, ImageSpace:
		available, err := n.DiskAvailable(signal)
		return available - headroom<<20, err
	case DiskInodes:
		available, err := n.DiskAvailable(signal)
		return available - headroom, err
	}
	current, err := n.Client.CoreV1().Nodes().Get(ctx, n.Name(), metav1.GetOptions{})
	if err != nil {
		return 0, fmt.Errorf("reading the node's capacity: %w", err)
	}
	// Nothing is reserved on this node: the pods' cgroup may use all of it.
	return current.Status.Capacity.Memory().Value() - headroom<<20, nil
}

// Configure edits evictd's ConfigMap as an administrator would. It returns when the running
// evictd has applied the edit. The threshold differs by one byte from the previous edit to
// detect that; without a threshold of its own, the count of applied edits does. A policy that is in
// force already is not written again: that would take evictd some seconds.
func (n *Node) Configure(ctx context.Context, p Policy) error {
	if n.inForce != nil && *n.inForce == p {
		return nil
	}
	written := p
	n.ForgetPolicy()
	n.edits++
	p.Line -= n.edits
	before := 0.0
	if families, err := n.Metrics(ctx); err == nil {
		before = reloads(families)
	}
	if err := n.Edit(ctx, n.text(p)); err != nil {
		return err
	}
	err := eventually.Poll(ctx, func(ctx context.Context) bool {
		families, unread := n.Metrics(ctx)
		return unread == nil && p.inForce(families, before)
	})
	if err != nil {
		return fmt.Errorf("waiting for evictd to take the edit of its ConfigMap: %w", err)
	}
	n.inForce = &written
	return nil
}

// reloads returns how many edits of its configuration evictd has applied.
func reloads(page pages.Metrics) float64 {
	applied, _ := page.Sum("evictd_config_reloads_total", "result", "Success")
	return applied
}

// inForce reports whether evictd's metrics show the policy; before is how many edits it had applied.
func (p *Policy) inForce(families pages.Metrics, before float64) bool {
	if dry, _ := families.Sum("evictd_dry_run"); (dry == 1) != p.DryRun {
		return false
	}
	if p.Signal == "" {
		return reloads(families) > before
	}
	line, there := families.Sum("evictd_threshold_line_"+UnitOf(p.Signal), "signal", p.Signal, "kind", p.kind())
	return there && int64(line) == p.Line
}

// ForgetPolicy makes the next [Node.Configure] an edit whatever is in force: evictd reads the kubelet's
// file again with it.
func (n *Node) ForgetPolicy() { n.inForce = nil }

// text is the policy as an administrator writes it, different from all previous ones.
func (n *Node) text(p Policy) string {
	// The same policy in other words would not be applied again.
	transition := cmp.Or(p.Transition, 5*time.Minute) + time.Duration(n.edits)*time.Millisecond
	thresholds := fmt.Sprintf("evictionPressureTransitionPeriod: %v\n", transition)
	switch {
	case p.Signal != "" && p.Soft:
		thresholds += fmt.Sprintf("evictionHard: {}\nevictionSoft: {%s: \"%d\"}\n", p.Signal, p.Line) +
			fmt.Sprintf("evictionSoftGracePeriod: {%s: 1ms}\n", p.Signal)
	case p.Signal != "":
		thresholds += fmt.Sprintf("evictionHard: {%s: \"%d\"}\nevictionSoft: {}\n", p.Signal, p.Line)
	}
	return fmt.Sprintf(`apiVersion: evictd.dev/v1alpha1
kind: EvictdConfiguration
dryRun: %v
%slimits: %s
%s`, p.DryRun, thresholds, cmp.Or(p.Limits, "{evictionsPerMinute: 60, perOwnerPerHour: 60, softJitter: 0s}"), p.Extra)
}

// Edit writes evictd's configuration into its ConfigMap.
func (n *Node) Edit(ctx context.Context, text string) error {
	maps := n.Client.CoreV1().ConfigMaps(Namespace)
	current, err := maps.Get(ctx, "evictd", metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("reading evictd's ConfigMap: %w", err)
	}
	current.Data["evictd.yaml"] = text
	if _, err = maps.Update(ctx, current, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("editing evictd's ConfigMap: %w", err)
	}
	return nil
}

// UnitOf returns the unit that ends the names of a signal's metrics; not for memory.stall.
func UnitOf(signal string) string {
	s, _ := pressure.ParseSignal(signal) // the tests name those above
	return string(s.Unit())
}
