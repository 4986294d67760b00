package cluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// state is what a later program must know to use or to remove the cluster. It is in
// Dir/state.json, is written before each step that leaves traces, and is read again for each
// use: several programs may use the same cluster.
type state struct {
	BootID     string            `json:"bootID"`  // a process of an earlier start of the machine is gone
	Starter    Process           `json:"starter"` // the program that is starting the cluster; zero once it has
	OwnsDir    bool              `json:"ownsDir"`
	KeepLogs   bool              `json:"keepLogs"`
	BinDir     string            `json:"binDir"`
	Node       bool              `json:"node"`
	NodeName   string            `json:"nodeName"`
	CgroupRoot string            `json:"cgroupRoot,omitempty"` // absolute, in every hierarchy
	Disks      []string          `json:"disks,omitempty"`      // directories on their own filesystems, the outer one first
	Enabled    []string          `json:"enabledControllers,omitempty"`
	Sysctls    map[string]string `json:"sysctls,omitempty"` // their values before the kubelet
	Components []component       `json:"components"`        // in the order of their start
}

// component is one process of the cluster, with all that its restart needs.
type component struct {
	Name      string   `json:"name"`
	Path      string   `json:"path"`
	Arguments []string `json:"arguments,omitempty"`
	Probe     string   `json:"probe"`  // URL that returns 200 once it is ready, or probeCtr, or nothing
	InNode    bool     `json:"inNode"` // lives in the node's private mount namespace
	Process   Process  `json:"process"`
}

const stateFile = "state.json"

// ErrNoCluster says that there is no cluster in the directory.
var ErrNoCluster = errors.New("no cluster was started here")

func readState(dir string) (*state, error) {
	content, err := os.ReadFile(filepath.Join(dir, stateFile)) //nolint:gosec // a path below the caller's folder
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("reading the state in %s: %w", dir, ErrNoCluster)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the state: %w", err)
	}
	read := &state{}
	if err := json.Unmarshal(content, read); err != nil {
		return nil, fmt.Errorf("reading the state in %s: %w", dir, err)
	}
	if current, err := bootID(); err != nil || current != read.BootID {
		read.forget()
		return read, err
	}
	return read, nil
}

// forget drops what did not survive the machine's restart.
func (s *state) forget() {
	s.Starter, s.Sysctls, s.Enabled = Process{}, nil, nil
	for i := range s.Components {
		s.Components[i].Process = Process{}
	}
}

// write replaces the file atomically, so that a crash leaves the old or the new state. A
// first write fails where another cluster's state exists.
func (s *state) write(dir string, first bool) error {
	content, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding the state: %w", err)
	}
	path := filepath.Join(dir, stateFile)
	fresh := fmt.Sprintf("%s.%d", path, os.Getpid())
	if err = os.WriteFile(fresh, content, 0o600); err != nil {
		return fmt.Errorf("writing the state: %w", err)
	}
	if !first {
		err = os.Rename(fresh, path)
	} else if err = os.Link(fresh, path); err == nil {
		err = os.Remove(fresh)
	} else {
		_ = os.Remove(fresh)
	}
	if err != nil {
		return fmt.Errorf("writing the state: %w", err)
	}
	return nil
}

func (s *state) component(name string) (*component, error) {
	at := slices.IndexFunc(s.Components, func(c component) bool { return c.Name == name })
	if at < 0 {
		return nil, fmt.Errorf("looking for process %q: the cluster has %s", name, strings.Join(s.names(), ", "))
	}
	return &s.Components[at], nil
}

func (s *state) names() []string {
	names := make([]string, 0, len(s.Components))
	for _, each := range s.Components {
		names = append(names, each.Name)
	}
	return names
}

func (s *state) running() []string {
	var names []string
	for _, each := range s.Components {
		if each.Process.Running() {
			names = append(names, each.Name)
		}
	}
	return names
}

func bootID() (string, error) {
	content, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("reading the machine's boot id: %w", err)
	}
	return strings.TrimSpace(string(content)), nil
}
