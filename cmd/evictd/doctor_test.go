package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evictd/evictd/internal/checks"
	"github.com/evictd/evictd/internal/testing/kernelfiletest"
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
	p.putPod("sys/fs/cgroup/kubepods.slice/kubepods-pod1.slice", "anon 5\nfile 0\ninactive_file 0\nactive_file 0\nslab_reclaimable 0\nshmem 0\n")
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
	kernelfiletest.Put(p.t, filepath.Join(p.root, path), content)
}

// remove removes a file of the node.
func (p *patient) remove(path string) {
	p.t.Helper()
	kernelfiletest.Remove(p.t, filepath.Join(p.root, path))
}

// configure writes evictd's configuration. The kubelet of the test has no certificate that could be
// verified.
func (p *patient) configure(extra string) {
	p.t.Helper()
	p.config = configFile(p.t, head+"dryRun: false\nkubelet: {insecureSkipTLSVerify: true}\n"+extra)
}

// cgroupV1 puts a hierarchy of version 1 in place of the node's.
func (p *patient) cgroupV1() {
	p.remove("sys/fs/cgroup")
	for path, content := range map[string]string{
		"memory.stat": "cache 0\nrss 0\ninactive_file 0\ntotal_inactive_file 0\n", "memory.usage_in_bytes": "0\n",
		"kubepods/memory.stat": "total_rss 0\ntotal_cache 0\ntotal_shmem 0\ntotal_inactive_file 0\ntotal_active_file 0\n", "kubepods/memory.usage_in_bytes": "1000\n",
		"kubepods/memory.kmem.usage_in_bytes": "0\n", "kubepods/memory.limit_in_bytes": "9223372036854771712\n",
	} {
		p.put("sys/fs/cgroup/memory/"+path, content)
	}
	p.putPod("sys/fs/cgroup/memory/kubepods/pod1", "total_rss 5\ntotal_cache 0\ntotal_shmem 0\ntotal_inactive_file 0\ntotal_active_file 0\n")
	p.put("sys/fs/cgroup/pids/tasks", "")
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
		"state-dir", "api-server", "node", "token", "right/list pods", "right/watch pods", "right/create pods/eviction",
		"right/get pods", "right/get nodes", "right/create events", "right/patch events",
		"right/list configmaps", "right/watch configmaps", "right/get nodes/stats",
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
	// By fault: how it is made, the lines that are not ok, with their states, of which "none" is a line that is not
	// there, and what one of them finds.
	type fault struct {
		breaks      func(*patient)
		want, found string
	}
	const pod = "sys/fs/cgroup/kubepods.slice/kubepods-pod1.slice"
	api := func(change func(*doctorAPI)) func(*patient) { return func(p *patient) { change(p.api) } }
	puts := func(path, content string) func(*patient) { return func(p *patient) { p.put(path, content) } }
	removes := func(path string) func(*patient) { return func(p *patient) { p.remove(path) } }
	fails := func(path string, status int) func(*patient) { return func(p *patient) { p.api.fails(path, status) } }
	configures := func(extra string) func(*patient) { return func(p *patient) { p.configure(extra) } }
	faults := map[string]fault{
		"cgroup v1":                     {(*patient).cgroupV1, "cgroups degraded", "version 1"},
		"no pids controller":            {puts("sys/fs/cgroup/cgroup.controllers", "memory\n"), "cgroups degraded", "without the pids controller"},
		"no kubepods":                   {removes("sys/fs/cgroup/kubepods.slice"), "kubepods missing", "no kubepods cgroup"},
		"an empty kubepods":             {removes(pod), "kubepods degraded", "pods: 0"},
		"a pod that cannot be read":     {puts(pod+"/memory.stat", "x"), "kubepods degraded", "pods: 0; "},
		"no configuration":              {func(p *patient) { p.config = "" }, "configuration degraded, pod-disk/summary missing", "no file"},
		"configuration with two faults": {configures("nonsense: 1\nlimits: {evictionsPerMinute: -1}\n"), "configuration missing, pod-disk/summary missing", "nonsense"},
		"no MemAvailable": {
			puts("proc/meminfo", "MemTotal: 25165824 kB\n"),
			"signal/memory.available missing, node unknown, kubelet-thresholds/memory.available none", "MemAvailable",
		},
		"no file of the kubelet": {
			removes("var/lib/kubelet/config.yaml"),
			"kubelet-config degraded, kubelet-thresholds/memory.available none, kubelet-thresholds/nodefs.available none, " +
				"kubelet-thresholds/nodefs.inodesFree none, kubelet-thresholds/imagefs.available none, kubelet-thresholds/imagefs.inodesFree none",
			"none of",
		},
		"the kubelet evicts first": {func(p *patient) {
			p.put("var/lib/kubelet/config.yaml", kubeletFile("3Gi"))
			p.configure("memoryAvailable: workingSet\n")
			p.put("sys/fs/cgroup/memory.stat", "anon 1000\nfile 0\ninactive_file 0\nactive_file 0\nslab_reclaimable 0\nshmem 0\n")
		}, "kubelet-thresholds/memory.available missing", "the kubelet evicts below 3.0Gi"},
		"no state-dir": {func(p *patient) { p.stateDir = "" }, "state-dir degraded", "no directory"},
		"a state-dir that cannot be written to": {
			func(p *patient) { p.stateDir = filepath.Join(p.root, "absent") }, "state-dir missing", "no such file",
		},
		"no answer about the account": {
			fails("/apis/authentication.k8s.io/v1/selfsubjectreviews", http.StatusServiceUnavailable),
			"token unknown, policy/evictd-evicts-on-own-node unknown, policy/evictd-on-own-node unknown, " +
				"policy/evictd-taints-own-node unknown, policy/evictd-events-of-own-node unknown",
			"asking whose credentials these are",
		},
		"a node without a capacity": {api(func(a *doctorAPI) { a.memory = "0" }), "node unknown", "no capacity"},
		"memory reserved a little":  {api(func(a *doctorAPI) { a.memory = "24800000Ki" }), "node ok", "reports this"},
		"another node's memory":     {api(func(a *doctorAPI) { a.memory = "1Gi" }), "node missing", "reports 1024 MiB"},
		"no such node": {
			fails("/api/v1/nodes/node-1", http.StatusNotFound),
			"node missing, pod-disk/summary missing, policy/evictd-taints-own-node unknown", "no such node",
		},
		"a token of another node": {api(func(a *doctorAPI) { a.claim = "node-2" }), "token missing", "names node node-2"},
		"a token of no node":      {api(func(a *doctorAPI) { a.claim = "" }), "token missing", "names no node"},
		"no right to evict":       {api(func(a *doctorAPI) { a.lacks = "create pods/eviction" }), "right/create pods/eviction missing", "lacks"},
		"no answer about rights": {
			fails("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", http.StatusInternalServerError),
			"right/list pods unknown, right/watch pods unknown, right/create pods/eviction unknown, right/get pods unknown, " +
				"right/get nodes unknown, right/get nodes/stats unknown, right/create events unknown, right/patch events unknown, " +
				"right/list configmaps unknown, right/watch configmaps unknown",
			"",
		},
		"an opt-in without its right": {
			func(p *patient) { p.configure("taintNode: true\n"); p.api.lacks = "patch nodes" },
			"right/patch nodes missing", "lacks the right to patch nodes",
		},
		"an opt-in with its right": {configures("taintNode: true\n"), "right/patch nodes ok", "granted"},
		"Summary refused":          {api(func(a *doctorAPI) { a.kubeletStatus = http.StatusForbidden }), "pod-disk/summary missing", "403"},
		"one node":                 {api(func(a *doctorAPI) { a.alone = true }), "policy/evictd-evicts-on-own-node degraded", "no pod is on another node"},
		"no namespace": {
			fails("/api/v1/namespaces/evictd/pods/evictd-doctor-no-pod/eviction", http.StatusNotFound), "policy/evictd-on-own-node unknown", "",
		},
		"the evictions of a check fail": {
			func(p *patient) {
				p.api.policies = nil
				for _, path := range []string{
					"namespaces/evictd/pods/evictd-doctor-no-pod/eviction", "namespaces/shop/pods/theirs/eviction", "namespaces/evictd/events",
				} {
					p.api.fails("/api/v1/"+path, http.StatusServiceUnavailable)
				}
			}, "policy/evictd-evicts-on-own-node unknown, policy/evictd-on-own-node unknown, policy/evictd-events-of-own-node unknown, policy/evictd-taints-own-node missing", "",
		},
		"pods' files that cannot be read": {
			configures("disk: {source: node}\n"), "pod-disk/node missing, pod-disk/summary none, right/get nodes/stats none", "",
		},
	}
	for _, policy := range []string{"evictd-on-own-node", "evictd-evicts-on-own-node", "evictd-events-of-own-node", "evictd-taints-own-node"} {
		faults["no policy "+policy] = fault{api(func(a *doctorAPI) { a.lackPolicy(policy) }), "policy/" + policy + " missing", "not in force"}
	}
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPatient(t)
			fault.breaks(p)
			code, findings, _ := p.doctor()
			if wrote := p.api.wrote(); len(wrote) > 0 {
				t.Errorf("requests that change something: %q", wrote)
			}
			if broken := strings.Contains(fault.want, " missing") || strings.Contains(fault.want, " unknown"); (code == exitFault) != broken {
				t.Errorf("exit code %d", code)
			}
			want, said := map[string]checks.State{}, false
			for line := range strings.SplitSeq(fault.want, ", ") {
				at := strings.LastIndex(line, " ")
				name := line[:at]
				want[name] = checks.State(strings.ReplaceAll(line[at+1:], "none", ""))
				said = said || strings.Contains(findings[name].Found, fault.found)
				if findings[name].State != want[name] {
					t.Errorf("%s: %+v, want %q", name, findings[name], want[name])
				}
			}
			if !said {
				t.Errorf("no line says %q: %+v", fault.found, findings)
			}
			for name, f := range findings {
				if _, expected := want[name]; !expected && f.State != checks.OK && !strings.HasPrefix(name, "wake-up/") {
					t.Errorf("%s is not ok beside this fault: %+v", name, f)
				}
			}
		})
	}
}

// What cannot be tried is unknown, and never ok.
func TestDoctorDoesNotGuessPolicies(t *testing.T) {
	t.Parallel()
	p := newPatient(t)
	p.api.account = "admin"
	code, findings, _ := p.doctor()
	f := findings["policy/evictd-on-own-node"]
	if code != exitFault || f.State != checks.Unknown || !strings.Contains(f.Found, "no service account") || findings["token"].State != checks.Degraded {
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
		"nothing listens":         {func(p *patient) { p.api.url = refusing() }, "connection refused"},
		"the credentials are old": {func(p *patient) { p.api.fails("/version", http.StatusUnauthorized) }, "has asked for the client to provide credentials"},
		"something else answers":  {func(p *patient) { p.api.url = serving(t, http.NotFoundHandler()) }, "the server could not find the requested resource"},
		"no credentials":          {func(p *patient) { p.flags = []string{"--kubeconfig="} }, "--kubeconfig and $KUBECONFIG name no file, there is no ~/.kube/config, and no service account of a pod"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPatient(t)
			c.breaks(p)
			code, findings, names := p.doctor()
			server := slices.Index(sound(), "api-server")
			if diff := cmp.Diff(sound()[:server+1], names); code != exitFault || diff != "" {
				t.Errorf("exit code %d, lines (-want +got):\n%s", code, diff)
			}
			for i, name := range names {
				f := findings[name]
				switch {
				case i < server && f.State != checks.OK && !strings.HasPrefix(name, "wake-up/"):
					t.Errorf("of the node: %+v", f)
				case i == server && (f.State != checks.Missing || !strings.Contains(f.Found, c.says)):
					t.Errorf("%+v, want %q", f, c.says)
				}
			}
		})
	}
}

// The table has a line for each check, and what follows and what to do below one that is not ok.
func TestDoctorsTable(t *testing.T) {
	t.Parallel()
	p := newPatient(t)
	p.api.claim = ""
	code, table, _ := call(t, p.args()...)
	if code != exitFault || !strings.HasPrefix(table, "CHECK ") || !strings.Contains(table, "\napi-server ") {
		t.Errorf("exit code %d:\n%s", code, table)
	}
	_, token, _ := strings.Cut(table, "\ntoken ")
	lines := strings.SplitN(token, "\n", 4)
	column := strings.Index(strings.SplitN(table, "\n", 2)[0], "FOUND")
	for i, beginning := range []string{"the token of ", "then: ", "do:   "} {
		if line := strings.Repeat(" ", len("token ")*(1-min(i, 1))) + lines[i]; !strings.HasPrefix(line[column:], beginning) {
			t.Errorf("line %d: %q, want %q in column %d", i, lines[i], beginning, column)
		}
	}
}

// Texts are wrapped at 120 columns, below where they begin.
func TestDoctorsTableFits(t *testing.T) {
	t.Parallel()
	var table bytes.Buffer
	long := strings.Repeat("as long as texts are ", 20)
	results := []checks.Result{
		{Name: "right/list pods", State: checks.OK, Found: long},
		{Name: "kubelet-thresholds/memory.available", State: checks.Missing, Found: long, Follows: long, Do: long},
	}
	if err := writeResults(&table, formatTable, results); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(table.String()) {
		if len(line) > 121 || line[45] != ' ' {
			t.Errorf("%q", line)
		}
	}
	if all := strings.Join(strings.Fields(table.String()), " "); strings.Count(all, strings.TrimSpace(long)) != 4 || !strings.Contains(all, "then: as") || !strings.Contains(all, "do: as") {
		t.Errorf("not all of it is there:\n%s", table.String())
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
