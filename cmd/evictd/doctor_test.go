package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evictd/evictd/internal/checks"
	"github.com/evictd/evictd/internal/testing/golden"
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

// Each fault alone gives the lines of its section in testdata/doctor.txt that are not ok, what is not checked then, and
// the exit code. All other lines stay ok, but for the wake-ups, which depend on the machine. What cannot be tried is unknown.
func TestDoctorOfABrokenNode(t *testing.T) {
	t.Parallel()
	const pod = "sys/fs/cgroup/kubepods.slice/kubepods-pod1.slice"
	api := func(change func(*doctorAPI)) func(*patient) { return func(p *patient) { change(p.api) } }
	puts := func(path, content string) func(*patient) { return func(p *patient) { p.put(path, content) } }
	removes := func(path string) func(*patient) { return func(p *patient) { p.remove(path) } }
	fails := func(path string, status int) func(*patient) { return func(p *patient) { p.api.fails(path, status) } }
	lacks := func(policy string) func(*patient) { return func(p *patient) { p.api.lackPolicy(policy) } }
	configures := func(extra string) func(*patient) { return func(p *patient) { p.configure(extra) } }
	faults := map[string]func(*patient){
		"cgroup v1":                     (*patient).cgroupV1,
		"no pids controller":            puts("sys/fs/cgroup/cgroup.controllers", "memory\n"),
		"no kubepods":                   removes("sys/fs/cgroup/kubepods.slice"),
		"an empty kubepods":             removes(pod),
		"a pod that cannot be read":     puts(pod+"/memory.stat", "x"),
		"no configuration":              func(p *patient) { p.config = "" },
		"configuration with two faults": configures("nonsense: 1\nlimits: {evictionsPerMinute: -1}\n"),
		"no MemAvailable":               puts("proc/meminfo", "MemTotal: 25165824 kB\n"),
		"no file of the kubelet":        removes("var/lib/kubelet/config.yaml"),
		"the kubelet's configuration in three places, of which one is none": func(p *patient) {
			p.put("/var/lib/rancher/k3s/agent/etc/kubelet.conf.d/00-k3s-defaults.conf", kubeletFile("1Gi"))
			p.put("/etc/kubernetes/kubelet.yaml", "[")
		},
		"the kubelet evicts first": func(p *patient) {
			p.put("var/lib/kubelet/config.yaml", kubeletFile("3Gi"))
			p.configure("memoryAvailable: workingSet\n")
			p.put("sys/fs/cgroup/memory.stat", "anon 1000\nfile 0\ninactive_file 0\nactive_file 0\nslab_reclaimable 0\nshmem 0\n")
		},
		"no state-dir":                          func(p *patient) { p.stateDir = "" },
		"a state-dir that cannot be written to": func(p *patient) { p.stateDir = filepath.Join(p.root, "absent") },
		"no answer about the account":           fails("/apis/authentication.k8s.io/v1/selfsubjectreviews", http.StatusServiceUnavailable),
		"an account of a user":                  api(func(a *doctorAPI) { a.account = "admin" }),
		"a node without a capacity":             api(func(a *doctorAPI) { a.memory = "0" }),
		"memory reserved a little, no fault":    api(func(a *doctorAPI) { a.memory = "24800000Ki" }),
		"another node's memory":                 api(func(a *doctorAPI) { a.memory = "1Gi" }),
		"no such node":                          fails("/api/v1/nodes/node-1", http.StatusNotFound),
		"a token of another node":               api(func(a *doctorAPI) { a.claim = []string{"node-2"} }),
		"a token of no node":                    api(func(a *doctorAPI) { a.claim = nil }),
		"no right to evict":                     api(func(a *doctorAPI) { a.lacks = "create pods/eviction" }),
		"no answer about rights":                fails("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", http.StatusInternalServerError),
		"an opt-in without its right":           func(p *patient) { p.configure("taintNode: true\n"); p.api.lacks = "patch nodes" },
		"an opt-in with its right, no fault":    configures("taintNode: true\n"),
		"Summary refused":                       api(func(a *doctorAPI) { a.kubeletStatus = http.StatusForbidden }),
		"one node":                              api(func(a *doctorAPI) { a.alone = true }),
		"no namespace":                          fails("/api/v1/namespaces/evictd/pods/evictd-doctor-no-pod/eviction", http.StatusNotFound),
		"the evictions of a check fail": func(p *patient) {
			p.api.policies = nil
			for _, path := range []string{
				"namespaces/evictd/pods/evictd-doctor-no-pod/eviction", "namespaces/shop/pods/theirs/eviction", "namespaces/evictd/events",
			} {
				p.api.fails("/api/v1/"+path, http.StatusServiceUnavailable)
			}
		},
		"pods' files that cannot be read":     configures("disk: {source: node}\n"),
		"no policy evictd-on-own-node":        lacks("evictd-on-own-node"),
		"no policy evictd-evicts-on-own-node": lacks("evictd-evicts-on-own-node"),
		"no policy evictd-events-of-own-node": lacks("evictd-events-of-own-node"),
		"no policy evictd-taints-own-node":    lacks("evictd-taints-own-node"),
		"no API server listens":               func(p *patient) { p.api.url = refusing() },
		"the credentials are old":             fails("/version", http.StatusUnauthorized),
		"something else answers":              func(p *patient) { p.api.url = serving(p.t, http.NotFoundHandler()) },
		"no credentials":                      func(p *patient) { p.flags = []string{"--kubeconfig="} },
	}
	golden.Sections(t, "testdata/doctor.txt", *update, "go test ./cmd/evictd -update", func(name, _ string) []string {
		p := newPatient(t)
		faults[name](p)
		delete(faults, name)
		return p.diagnosis()
	})
	for name := range faults {
		t.Errorf("testdata/doctor.txt has no section %q", name)
	}
}

// diagnosis is what the doctor says about what is not as in [sound].
func (p *patient) diagnosis() []string {
	p.t.Helper()
	code, findings, names := p.doctor()
	if wrote := p.api.wrote(); len(wrote) > 0 {
		p.t.Errorf("requests that change something: %q", wrote)
	}
	said := []string{fmt.Sprintf("exit %d", code)}
	for _, name := range names {
		f := findings[name]
		if f.State == checks.OK && slices.Contains(sound(), name) || strings.HasPrefix(name, "wake-up/") {
			continue
		}
		said = append(said, name+" "+string(f.State)+": "+f.Found)
		if f.State != checks.OK {
			said = append(said, "  then: "+f.Follows, "  do: "+f.Do)
		}
	}
	for _, name := range sound() {
		if _, checked := findings[name]; !checked {
			said = append(said, name+" is not checked")
		}
	}
	config := filepath.Dir(p.config) + "/evictd.yaml" // found nowhere where there is none
	places := strings.NewReplacer(config, "$CONFIG", p.api.url, "$API", p.api.kubelet, "$KUBELET", p.root, "$ROOT")
	for i := range said {
		said[i] = places.Replace(said[i])
	}
	return said
}

// The table has a line for each check, and what follows and what to do below one that is not ok. Texts are wrapped
// at 120 columns, below where they begin.
func TestDoctorsTable(t *testing.T) {
	t.Parallel()
	var table bytes.Buffer
	long := strings.TrimSpace(strings.Repeat("as long as texts are ", 20))
	err := writeResults(&table, formatTable, []checks.Result{
		{Name: "right/list pods", State: checks.OK, Found: long},
		{Name: "kubelet-thresholds/memory.available", State: checks.Missing, Found: long, Follows: long, Do: long},
		{Name: "token", State: checks.Degraded, Found: "found", Follows: "follows", Do: "do"},
	})
	must(t, err)
	compare(t, "testdata/doctors-table.txt", table.String())
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
