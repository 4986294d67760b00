package cases

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// Case is one file of testdata.
type Case struct {
	// About says in one sentence what the case shows; Source is where it comes from.
	About  string `json:"about"`
	Source string `json:"source"`

	// Command is run, rank, doctor or "config validate"; Flags are added to those that name the node.
	// $HOST in a flag is the host root.
	Command string   `json:"command"`
	Flags   []string `json:"flags"`

	// Configuration is put over that of the harness where it is an object, and written as it is
	// where it is a text.
	Configuration any `json:"configuration"`

	Node Node  `json:"node"`
	Pods []Pod `json:"pods"`
	// Objects are further objects of the API server, as kubectl prints them.
	Objects []unstructured.Unstructured `json:"objects"`
	// Lacks are the rights that evictd's account lacks, as "create pods/eviction"; "policies" are those that
	// confine it.
	Lacks []string `json:"lacks"`

	// Then is what happens once evictd runs and knows the node's pods.
	Then []Step `json:"then"`
	Want Want   `json:"want"`
	// Ticks is how many ticks evictd has, at the end, to do what it should not.
	Ticks int `json:"ticks"`
}

// Node is the machine and the kubelet.
type Node struct {
	Memory  Memory  `json:"memory"`
	Cgroups Cgroups `json:"cgroups"`
	// Disk is the size of a filesystem of its own at /var/lib/kubelet.
	Disk *resource.Quantity `json:"disk"`
	// NodeFS and ImageFS are the capacities of both filesystems in the Summary, which lacks them
	// where ImageFS is left out.
	NodeFS  *resource.Quantity `json:"nodeFs"`
	ImageFS *resource.Quantity `json:"imageFs"`
	// Info is the Node's status.nodeInfo.
	Info corev1.NodeSystemInfo `json:"info"`
	// Files are texts by their path below the host root, Links targets of symbolic links.
	Files map[string]string `json:"files"`
	Links map[string]string `json:"links"`
	// OpenFiles is evictd's limit of open files.
	OpenFiles uint64 `json:"openFiles"`
}

// Memory is what /proc/meminfo says: 32Gi and 8Gi where it is left out.
type Memory struct {
	Total     *resource.Quantity `json:"total"`
	Available *resource.Quantity `json:"available"`
}

// Cgroups is where the pods' cgroups are: below Kubepods, kubepods.slice where it is left out. A path
// that does not end with .slice is one of the cgroupfs driver.
type Cgroups struct {
	Kubepods string             `json:"kubepods"`
	Limit    *resource.Quantity `json:"limit"`
	Used     *resource.Quantity `json:"used"`
}

// Pod is a running pod of the namespace apps with one container and a ReplicaSet, or Count of them.
type Pod struct {
	Name     string              `json:"name"`
	Count    int                 `json:"count"`
	Requests corev1.ResourceList `json:"requests"`
	// Object is put over the pod that is made of the other fields, for whatever they cannot say.
	Object map[string]any `json:"object"`

	// Memory is the anonymous memory in its cgroup, Layer and Logs are what the Summary says of its
	// container; NoLogs is a kubelet that has no figure of its logs.
	Memory *resource.Quantity `json:"memory"`
	Layer  *resource.Quantity `json:"layer"`
	Logs   *resource.Quantity `json:"logs"`
	NoLogs bool               `json:"noLogs"`

	// Answer is the API server's to an eviction of it: a Status, as of a webhook. Without one the pod
	// is terminating from then on, unless a PodDisruptionBudget among the objects forbids it.
	Answer *metav1.Status `json:"answer"`
}

// Step is a change; the fields of one step are made at once.
type Step struct {
	// Evicted is a pod: the step waits until the API server was asked to evict it and accepted.
	Evicted string `json:"evicted"`
	// Said is a fragment, as of [Want.Says]: the step waits until it was said.
	Said string `json:"said"`
	// Available is MemAvailable.
	Available *resource.Quantity `json:"available"`
	// DiskLeft is what is left of the node's disk.
	DiskLeft *resource.Quantity `json:"diskLeft"`
	// Files are written as those of the node.
	Files map[string]string `json:"files"`
	// Pods are put over the objects of pods, by their names.
	Pods map[string]map[string]any `json:"pods"`
	// Deleted is a pod whose object goes, as by a delete by force; its cgroup stays.
	Deleted string `json:"deleted"`
	// Ends is a pod that ends: its cgroup and its object go.
	Ends string `json:"ends"`
	// Configuration replaces the configuration.
	Configuration any `json:"configuration"`
	// Ticks is how many ticks evictd has before the next step.
	Ticks int `json:"ticks"`
}

// The commands.
const (
	commandRun      = "run"
	commandRank     = "rank"
	commandDoctor   = "doctor"
	commandValidate = "config validate"
)

// load reads a case. An unknown key is an error.
func load(path string) (*Case, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading the case: %w", err)
	}
	c := &Case{Command: commandRun, Ticks: 10}
	if err = yaml.UnmarshalStrict(text, c); err == nil {
		err = c.check()
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Base(path), err)
	}
	return c, nil
}

// check refuses a case that shows nothing.
func (c *Case) check() error {
	run := c.Command == commandRun
	var faults []error
	refuse := func(is bool, fault string) {
		if is {
			faults = append(faults, errors.New(fault))
		}
	}
	refuse(c.About == "", "about: say in one sentence what the case shows")
	refuse(c.Want.isEmpty(), "want: say what evictd must do or say")
	refuse(!run && (len(c.Then) > 0 || c.Want.Evicts != nil || c.Want.Asks != nil || c.Want.Metrics != nil),
		"then, evicts, asks, metrics: only `command: run` goes on and evicts")
	refuse(c.Ticks < 1, "ticks: write 1 or more")
	for _, step := range c.Then {
		refuse(step.DiskLeft != nil && c.Node.Disk == nil, "then.diskLeft: the node has no disk")
	}
	return errors.Join(faults...)
}

// configured returns evictd's configuration file. Where the case does not say otherwise evictd acts, and
// its ticks are as short as the tests need; without thresholds there is one that does not depend on the
// disk of the machine that runs the test.
func configured(settings any) ([]byte, error) {
	if text, is := settings.(string); is {
		return []byte(text), nil
	}
	all := map[string]any{
		"apiVersion": "evictd.dev/v1alpha1", "kind": "EvictdConfiguration", "dryRun": false,
		"kubelet":  map[string]any{"insecureSkipTLSVerify": true},
		"limits":   map[string]any{"softJitter": "0s"},
		"sampling": map[string]any{"maxInterval": "100ms"},
	}
	over, is := settings.(map[string]any)
	if !is && settings != nil {
		return nil, fmt.Errorf("configuration: %T is neither an object nor a text", settings)
	}
	if _, has := over["evictionHard"]; !has {
		all["evictionHard"] = map[string]any{"memory.available": "1Gi"}
	}
	all, err := overlaid(all, over)
	if err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	text, err := yaml.Marshal(all)
	if err != nil {
		return nil, fmt.Errorf("writing the configuration: %w", err)
	}
	return text, nil
}

// overlaid returns an object with another one put over it, field by field.
func overlaid[T any](object T, over map[string]any) (merged T, err error) {
	text, err := json.Marshal(object)
	if err != nil {
		return merged, fmt.Errorf("writing an object: %w", err)
	}
	patch := []byte("{}")
	if over != nil {
		patch, err = json.Marshal(over)
	}
	if err == nil {
		text, err = jsonpatch.MergePatch(text, patch)
	}
	if err == nil {
		err = yaml.UnmarshalStrict(text, &merged)
	}
	if err != nil {
		return merged, fmt.Errorf("object: %w", err)
	}
	return merged, nil
}
