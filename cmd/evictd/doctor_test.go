package main

import (
	"encoding/json"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/evictd/evictd/internal/checks"
)

// patient is a node, an API server and a kubelet in order, which a test breaks.
type patient struct {
	t        *testing.T
	root     string // --host-root
	stateDir string
	config   string
	api      *doctorAPI
	flags    []string // beside those of the node
}

func newPatient(t *testing.T) *patient {
	t.Helper()
	p := &patient{t: t, root: machine(t), stateDir: t.TempDir(), api: newDoctorAPI(t)}
	p.put("var/lib/kubelet/config.yaml", kubeletFile("100Mi"))
	p.put("var/lib/containerd/io", "")
	p.putPod("sys/fs/cgroup/kubepods.slice/kubepods-pod1.slice", "anon 5\nfile 0\ninactive_file 0\nshmem 0\n")
	p.configure("")
	return p
}

// putPod writes the cgroup of a pod.
func (p *patient) putPod(group, stat string) {
	p.t.Helper()
	for file, content := range map[string]string{"memory.stat": stat, "memory.current": "5\n", "memory.usage_in_bytes": "5\n", "pids.current": "1\n"} {
		p.put(group+"/"+file, content)
	}
}

func kubeletFile(memory string) string {
	return "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nevictionHard: {memory.available: " + memory + "}\n"
}

// put writes a file of the node.
func (p *patient) put(path, content string) {
	p.t.Helper()
	path = filepath.Join(p.root, path)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		p.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		p.t.Fatal(err)
	}
}

// remove removes a file of the node.
func (p *patient) remove(path string) {
	p.t.Helper()
	if err := os.RemoveAll(filepath.Join(p.root, path)); err != nil {
		p.t.Fatal(err)
	}
}

// configure writes evictd's configuration. The kubelet of the test has no certificate that could be
// verified.
func (p *patient) configure(extra string) {
	p.t.Helper()
	p.config = configFile(p.t, head+"dryRun: false\nkubelet: {insecureSkipTLSVerify: true}\n"+extra)
}

// doctor runs the command and returns its exit code and its findings by name.
func (p *patient) doctor() (code int, findings map[string]checks.Result, names []string) {
	p.t.Helper()
	code, stdout, stderr := call(p.t, p.args("-o", "json")...)
	var list []checks.Result
	if err := json.Unmarshal([]byte(stdout), &list); err != nil || stderr != "" {
		p.t.Fatalf("code %d: %v: %s%s", code, err, stdout, stderr)
	}
	findings = map[string]checks.Result{}
	for _, f := range list {
		if _, twice := findings[f.Name]; twice {
			p.t.Errorf("%s comes twice", f.Name)
		}
		findings[f.Name] = f
		names = append(names, f.Name)
	}
	return code, findings, names
}

func (p *patient) args(more ...string) []string {
	args := []string{
		"doctor", "--node-name=node-1", "--host-root", p.root, "--config", p.config, "--state-dir", p.stateDir,
		"--kubeconfig", kubeconfigFor(p.t, p.api.url),
	}
	return append(append(args, p.flags...), more...)
}

// sound are the lines of a node in order, but for the wake-ups, which depend on the machine.
func sound() []string {
	return []string{
		"configuration", "cgroups", "kubepods", "signal/memory.available", "signal/allocatableMemory.available",
		"signal/nodefs.available", "signal/nodefs.inodesFree",
		"signal/imagefs.available", "signal/imagefs.inodesFree", "wake-up/Node", "wake-up/Kubepods",
		"kubelet-config", "kubelet-thresholds/memory.available", "kubelet-thresholds/nodefs.available",
		"kubelet-thresholds/nodefs.inodesFree", "kubelet-thresholds/imagefs.available", "kubelet-thresholds/imagefs.inodesFree",
		"state-dir", "api-server", "clock", "node", "token", "right/list pods", "right/watch pods", "right/create pods/eviction",
		"right/get pods", "right/get nodes", "right/get nodes/stats", "right/create events", "right/patch events",
		"right/get configmaps", "right/list configmaps", "right/watch configmaps", "act/stop",
		"policy/evictd-evicts-on-own-node", "policy/evictd-on-own-node", "policy/evictd-taints-own-node", "policy/evictd-events-of-own-node",
		"pod-disk/summary",
	}
}

func TestDoctorOfAWorkingNode(t *testing.T) {
	t.Parallel()
	p := newPatient(t)
	code, findings, names := p.doctor()
	if code != exitFine {
		t.Errorf("exit code %d, want 0", code)
	}
	if diff := cmp.Diff(sound(), names); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
	for name, f := range findings {
		if f.State != checks.OK && !strings.HasPrefix(name, "wake-up/") {
			t.Errorf("%+v", f)
		}
	}
	if found := findings["signal/imagefs.available"].Found; !strings.Contains(found, filepath.Join(p.root, "var/lib/containerd")) {
		t.Errorf("the directory of the images' filesystem is not named: %s", found)
	}
	if wrote := p.api.wrote(); len(wrote) > 0 {
		t.Errorf("requests that change something: %q", wrote)
	}
}

// Each fault alone gives its own line, and the exit code. All other lines stay ok.
func TestDoctorOfABrokenNode(t *testing.T) {
	t.Parallel()
	const kubeletsOrder = "kubelet-thresholds/memory.available"
	for name, fault := range map[string]struct {
		breaks func(*patient)
		want   map[string]checks.State // by line; "" is a line that is not there
		found  string                  // in the first of them
		code   int
	}{
		"cgroup v1": {func(p *patient) {
			p.remove("sys/fs/cgroup")
			for path, content := range map[string]string{
				"memory.stat": "cache 0\nrss 0\ninactive_file 0\ntotal_inactive_file 0\n", "memory.usage_in_bytes": "0\n", "kubepods/memory.stat": "total_inactive_file 0\ntotal_active_file 0\n",
				"kubepods/memory.usage_in_bytes": "1000\n", "kubepods/memory.kmem.usage_in_bytes": "0\n", "kubepods/memory.limit_in_bytes": "9223372036854771712\n",
			} {
				p.put("sys/fs/cgroup/memory/"+path, content)
			}
			p.putPod("sys/fs/cgroup/memory/kubepods/pod1", "total_rss 5\ntotal_shmem 0\ntotal_inactive_file 0\n")
			p.put("sys/fs/cgroup/pids/tasks", "")
		}, map[string]checks.State{"cgroups": checks.Degraded}, "version 1", exitFine},
		"no pids controller": {
			func(p *patient) { p.put("sys/fs/cgroup/cgroup.controllers", "memory\n") },
			map[string]checks.State{"cgroups": checks.Degraded},
			"without the pids controller", exitFine,
		},
		"no kubepods": {
			func(p *patient) { p.remove("sys/fs/cgroup/kubepods.slice") },
			map[string]checks.State{"kubepods": checks.Missing},
			"no kubepods cgroup", exitFault,
		},
		"no MemAvailable": {
			func(p *patient) { p.put("proc/meminfo", "MemTotal: 25165824 kB\n") },
			map[string]checks.State{"signal/memory.available": checks.Missing, "node": checks.Unknown, kubeletsOrder: ""},
			"MemAvailable", exitFault,
		},
		"no configuration": {
			func(p *patient) { p.config = "" },
			map[string]checks.State{"configuration": checks.Degraded, "pod-disk/summary": checks.Missing},
			"no file", exitFault,
		},
		"configuration with two faults": {
			func(p *patient) { p.configure("nonsense: 1\nlimits: {evictionsPerMinute: -1}\n") },
			map[string]checks.State{"configuration": checks.Missing, "pod-disk/summary": checks.Missing},
			"nonsense", exitFault,
		},
		"no file of the kubelet": {
			func(p *patient) { p.remove("var/lib/kubelet/config.yaml") },
			map[string]checks.State{
				"kubelet-config": checks.Degraded, kubeletsOrder: "", "kubelet-thresholds/nodefs.available": "",
				"kubelet-thresholds/nodefs.inodesFree": "", "kubelet-thresholds/imagefs.available": "", "kubelet-thresholds/imagefs.inodesFree": "",
			},
			"none of", exitFine,
		},
		"the kubelet evicts first": {func(p *patient) {
			p.put("var/lib/kubelet/config.yaml", kubeletFile("3Gi"))
			p.configure("memoryAvailable: workingSet\n")
			p.put("sys/fs/cgroup/memory.stat", "anon 1000\nfile 0\ninactive_file 0\n")
		}, map[string]checks.State{kubeletsOrder: checks.Missing}, "the kubelet evicts below 3.0Gi", exitFault},
		"no state-dir": {func(p *patient) { p.stateDir = "" }, map[string]checks.State{"state-dir": checks.Degraded}, "no directory", exitFine},
		"a state-dir that cannot be written to": {
			func(p *patient) { p.stateDir = filepath.Join(p.root, "absent") },
			map[string]checks.State{"state-dir": checks.Missing},
			"no such file", exitFault,
		},
		"an empty kubepods": {
			func(p *patient) { p.remove("sys/fs/cgroup/kubepods.slice/kubepods-pod1.slice") },
			map[string]checks.State{"kubepods": checks.Degraded},
			"pods: 0", exitFine,
		},
		"a pod that cannot be read": {
			func(p *patient) { p.put("sys/fs/cgroup/kubepods.slice/kubepods-pod1.slice/memory.stat", "x") },
			map[string]checks.State{"kubepods": checks.Degraded},
			"pods: 0; ", exitFine,
		},
		"a clock behind": {func(p *patient) { p.api.clock = time.Hour }, map[string]checks.State{"clock": checks.Degraded}, "behind the API server", exitFine},
		"no date":        {func(p *patient) { p.api.dateless = true }, map[string]checks.State{"clock": checks.Unknown}, "no date", exitFault},
		"stopped": {
			func(p *patient) { p.api.stop = `{"reason": "bad\trules"}` },
			map[string]checks.State{"act/stop": checks.Degraded},
			`ConfigMap evictd/evictd-stop exists: bad\trules`, exitFine,
		},
		"stopped, perhaps": {
			func(p *patient) {
				p.api.fails("/api/v1/namespaces/evictd/configmaps/evictd-stop", http.StatusForbidden)
			},
			map[string]checks.State{"act/stop": checks.Unknown},
			"planted", exitFault,
		},
		"no answer about the account": {
			func(p *patient) {
				p.api.fails("/apis/authentication.k8s.io/v1/selfsubjectreviews", http.StatusServiceUnavailable)
			},
			map[string]checks.State{
				"token": checks.Unknown, "policy/evictd-evicts-on-own-node": checks.Unknown, "policy/evictd-on-own-node": checks.Unknown,
				"policy/evictd-taints-own-node": checks.Unknown, "policy/evictd-events-of-own-node": checks.Unknown,
			},
			"asking whose credentials these are", exitFault,
		},
		"a node without a capacity": {func(p *patient) { p.api.memory = "0" }, map[string]checks.State{"node": checks.Unknown}, "no capacity", exitFault},
		"memory reserved a little":  {func(p *patient) { p.api.memory = "24800000Ki" }, map[string]checks.State{"node": checks.OK}, "reports this", exitFine},
		"another clock":             {func(p *patient) { p.api.clock = -time.Hour }, map[string]checks.State{"clock": checks.Degraded}, "ahead of the API server", exitFine},
		"another node's memory":     {func(p *patient) { p.api.memory = "1Gi" }, map[string]checks.State{"node": checks.Missing}, "reports 1024 MiB", exitFault},
		"no such node": {
			func(p *patient) { p.api.fails("/api/v1/nodes/node-1", http.StatusNotFound) },
			map[string]checks.State{"node": checks.Missing, "pod-disk/summary": checks.Missing, "policy/evictd-taints-own-node": checks.Unknown},
			"no such node", exitFault,
		},
		"a token of another node": {func(p *patient) { p.api.claim = "node-2" }, map[string]checks.State{"token": checks.Missing}, "names node node-2", exitFault},
		"a token of no node":      {func(p *patient) { p.api.claim = "" }, map[string]checks.State{"token": checks.Missing}, "names no node", exitFault},
		"no right to evict": {
			func(p *patient) { p.api.lacks = "create pods/eviction" },
			map[string]checks.State{"right/create pods/eviction": checks.Missing},
			"lacks", exitFault,
		},
		"no answer about rights": {
			func(p *patient) {
				p.api.fails("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", http.StatusInternalServerError)
			},
			map[string]checks.State{
				"right/list pods": checks.Unknown, "right/watch pods": checks.Unknown, "right/create pods/eviction": checks.Unknown, "right/get pods": checks.Unknown,
				"right/get nodes": checks.Unknown, "right/get nodes/stats": checks.Unknown, "right/create events": checks.Unknown, "right/patch events": checks.Unknown,
				"right/get configmaps": checks.Unknown, "right/list configmaps": checks.Unknown, "right/watch configmaps": checks.Unknown,
			},
			"", exitFault,
		},
		"an opt-in without its right": {
			func(p *patient) { p.configure("taintNode: true\n"); p.api.lacks = "patch nodes" },
			map[string]checks.State{"opt-in/taintNode": checks.Missing},
			"lacks the right to patch nodes", exitFault,
		},
		"an opt-in with its right": {
			func(p *patient) { p.configure("taintNode: true\n") },
			map[string]checks.State{"opt-in/taintNode": checks.OK},
			"granted", exitFine,
		},
		"Summary refused": {
			func(p *patient) { p.api.kubeletStatus = http.StatusForbidden },
			map[string]checks.State{"pod-disk/summary": checks.Missing},
			"403", exitFault,
		},
		"no policy of evictions": {
			func(p *patient) { p.api.lackPolicy("evictd-on-own-node") },
			map[string]checks.State{"policy/evictd-on-own-node": checks.Missing},
			"not in force", exitFault,
		},
		"no policy of other nodes": {
			func(p *patient) { p.api.lackPolicy("evictd-evicts-on-own-node") },
			map[string]checks.State{"policy/evictd-evicts-on-own-node": checks.Missing},
			"not in force", exitFault,
		},
		"no policy of Events": {
			func(p *patient) { p.api.lackPolicy("evictd-events-of-own-node") },
			map[string]checks.State{"policy/evictd-events-of-own-node": checks.Missing},
			"not in force", exitFault,
		},
		"no policy of taints": {
			func(p *patient) { p.api.lackPolicy("evictd-taints-own-node") },
			map[string]checks.State{"policy/evictd-taints-own-node": checks.Missing},
			"not in force", exitFault,
		},
		"one node": {
			func(p *patient) { p.api.alone = true },
			map[string]checks.State{"policy/evictd-evicts-on-own-node": checks.Degraded},
			"no pod is on another node", exitFine,
		},
		"pods' files that cannot be read": {
			func(p *patient) { p.configure("disk: {source: node}\n") },
			map[string]checks.State{"pod-disk/node": checks.Missing, "pod-disk/summary": "", "right/get nodes/stats": ""},
			"", exitFault,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPatient(t)
			fault.breaks(p)
			code, findings, _ := p.doctor()
			if code != fault.code {
				t.Errorf("exit code %d, want %d", code, fault.code)
			}
			said := false
			for name, want := range fault.want {
				f := findings[name]
				if f.State != want {
					t.Errorf("%s: %+v, want %q", name, f, want)
				}
				said = said || strings.Contains(f.Found, fault.found)
			}
			if !said {
				t.Errorf("no line says %q: %+v", fault.found, findings)
			}
			for name, f := range findings {
				if _, expected := fault.want[name]; !expected && f.State != checks.OK && !strings.HasPrefix(name, "wake-up/") {
					t.Errorf("%s is not ok beside this fault: %+v", name, f)
				}
			}
			for _, name := range sound() {
				if _, there := findings[name]; !there && fault.want[name] != "" {
					t.Errorf("%s is not there", name)
				}
			}
		})
	}
}

// An account that may read the policies, as an administrator's, learns of a binding that only warns.
func TestDoctorReadsPoliciesWhereItMay(t *testing.T) {
	t.Parallel()
	for actions, want := range map[string]checks.State{`["Deny"]`: checks.OK, `["Warn"]`: checks.Missing} {
		p := newPatient(t)
		p.api.account, p.api.readable = "admin", actions
		_, findings, _ := p.doctor()
		for _, f := range findings {
			if strings.HasPrefix(f.Name, "policy/") && f.State != want {
				t.Errorf("%s: %+v, want %s", actions, f, want)
			}
		}
		if f := findings["token"]; f.State != checks.Degraded {
			t.Errorf("the administrator's token: %+v", f)
		}
	}
}

// What may be neither read nor tried is unknown, with both reasons, and never ok.
func TestDoctorDoesNotGuessPolicies(t *testing.T) {
	t.Parallel()
	p := newPatient(t)
	p.api.account = "someone"
	code, findings, _ := p.doctor()
	f := findings["policy/evictd-on-own-node"]
	if code != exitFault || f.State != checks.Unknown || !strings.Contains(f.Found, "forbidden") || !strings.Contains(f.Found, "no service account") {
		t.Errorf("exit code %d, %+v", code, f)
	}
}

// Without an API server the node is checked, and one sentence says what failed.
func TestDoctorWithoutAnAPIServer(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		breaks func(*patient)
		says   string
	}{
		"nothing listens":         {func(p *patient) { p.api.url = refusing() }, "no answer from the API server"},
		"the credentials are old": {func(p *patient) { p.api.fails("/version", http.StatusUnauthorized) }, "does not accept the credentials"},
		"something else answers":  {func(p *patient) { p.api.url = paging(t) }, "answers with a fault"},
		"no credentials":          {func(p *patient) { p.flags = []string{"--kubeconfig="} }, "evictd does not run in a pod here"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPatient(t)
			c.breaks(p)
			code, findings, names := p.doctor()
			if diff := cmp.Diff(sound(), names); code != exitFault || diff != "" {
				t.Errorf("exit code %d, lines (-want +got):\n%s", code, diff)
			}
			server := slices.Index(names, "api-server")
			for i, name := range names {
				f := findings[name]
				switch {
				case i < server && f.State != checks.OK && !strings.HasPrefix(name, "wake-up/"):
					t.Errorf("of the node: %+v", f)
				case i == server && (f.State != checks.Missing || !strings.Contains(f.Found, c.says)):
					t.Errorf("%+v, want %q", f, c.says)
				case i > server && f.State != checks.Unknown:
					t.Errorf("of the API server: %+v", f)
				}
			}
		})
	}
}

func TestDoctorsTableFitsATerminal(t *testing.T) {
	t.Parallel()
	p := newPatient(t)
	p.configure("nonsense: " + strings.Repeat("x", 200) + "\n")
	p.api.claim, p.api.url = "", "http://"+net.JoinHostPort(strings.Repeat("a", 130)+".example", "1")
	code, table, _ := call(t, p.args()...)
	if code != exitFault {
		t.Errorf("exit code %d", code)
	}
	lines := strings.Split(strings.TrimSuffix(table, "\n"), "\n")
	if !strings.HasPrefix(lines[0], "CHECK ") || !strings.Contains(table, "\nclock ") || !strings.Contains(table, " do:   ") {
		t.Errorf("no table:\n%s", table)
	}
	for _, line := range lines {
		if utf8.RuneCountInString(line) > doctorWidth || strings.TrimRight(line, " ") != line {
			t.Errorf("%d columns: %q", utf8.RuneCountInString(line), line)
		}
	}
}

func TestWrongCallsOfDoctor(t *testing.T) {
	t.Setenv("NODE_NAME", "")
	for says, args := range map[string][]string{
		`--output "yaml": write table or json`:                  {"doctor", "--node-name=n", "-oyaml"},
		"--node-name is missing and $NODE_NAME is not set":      {"doctor"},
		`doctor takes no arguments and got "n"`:                 {"doctor", "n"},
		"unknown flag: --dry-run (see evictd doctor --help)":    {"doctor", "--dry-run"},
		"flag needs an argument: --state-dir (see evictd docto": {"doctor", "--state-dir"},
	} {
		if code, stdout, stderr := call(t, args...); code != exitUsage || stdout != "" || !strings.Contains(stderr, says) {
			t.Errorf("%q: exit code %d, %s%s", args, code, stdout, stderr)
		}
	}
}

// The doctor asks for each right of the shipped ClusterRole and Role and no other, and knows each policy.
func TestDoctorKnowsTheShippedManifest(t *testing.T) {
	t.Parallel()
	s := readShipped(t)
	var granted, asked, shippedPolicies, known []string
	for _, rule := range append(s.role.Rules, s.stop.Rules...) {
		for _, resource := range rule.Resources {
			for _, verb := range rule.Verbs {
				granted = append(granted, verb+" "+resource)
			}
		}
	}
	_, _, names := newPatient(t).doctor()
	for _, name := range names {
		if right, is := strings.CutPrefix(name, "right/"); is {
			asked = append(asked, right)
		}
		if policy, is := strings.CutPrefix(name, "policy/"); is {
			known = append(known, policy)
		}
	}
	for i := range s.policies {
		shippedPolicies = append(shippedPolicies, s.policies[i].Name)
	}
	slices.Sort(granted)
	slices.Sort(asked)
	if diff := cmp.Diff(granted, asked) + cmp.Diff(shippedPolicies, known); diff != "" {
		t.Errorf("the manifest and the doctor differ (-manifest +doctor):\n%s", diff)
	}
}
