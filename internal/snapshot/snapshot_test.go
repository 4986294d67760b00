package snapshot_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evictd/evictd/internal/config"
	"github.com/evictd/evictd/internal/nodepods"
	"github.com/evictd/evictd/internal/snapshot"
	"github.com/evictd/evictd/pkg/evict"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/usage"
)

// smallest is a snapshot with one of everything, in YAML.
const smallest = `apiVersion: evictd.dev/v1alpha1
kind: NodeSnapshot
evictdVersion: v0.1.0
time: "2026-11-20T02:14:07Z"
nodeName: worker-1
configuration: {apiVersion: evictd.dev/v1alpha1, kind: EvictdConfiguration}
signals:
- {name: memory.available, state: Known, available: 5, capacity: 10}
pods:
- metadata: {namespace: shop, name: web, uid: u1}
  spec:
    nodeName: worker-1
    containers: [{name: c, resources: {requests: {memory: 1Gi}}}]
- metadata: {namespace: shop, name: db, uid: u2}
  spec: {nodeName: worker-1}
usage:
- {uid: u1, workingSet: 1, anonymous: 2, shared: 3, tasks: 4}
disk:
- {uid: u1, nodefs: {bytes: 5, inodes: 6}, imagefs: {}}
budgets:
- {uid: u1, outcome: BlockedByBudget, budget: web, message: refused}
...
`

func decoded(t *testing.T, text string) *snapshot.NodeSnapshot {
	t.Helper()
	s, err := snapshot.Decode([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// same fails when two snapshots differ, quantities by value.
func same(t *testing.T, want, got *snapshot.NodeSnapshot) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the snapshots differ (-want +got):\n%s", diff)
	}
}

func TestWhatIsWrittenIsReadBack(t *testing.T) {
	t.Parallel()
	s := decoded(t, smallest)
	// The API server has no upper bound of these, and a node keeps a pod that it had no room for.
	s.Pods[0].GraceSeconds, s.Pods[0].MemoryRequest, s.Pods[0].StorageRequest = math.MaxInt64, math.MaxInt64, math.MaxInt64
	text, err := s.Encode()
	if err != nil {
		t.Fatal(err)
	}
	same(t, s, decoded(t, string(text)))
	same(t, decoded(t, smallest), decoded(t, "\uFEFF"+smallest))
	if *s.Usage[0].Tasks != 4 || *s.Disk[0].NodeFS.Inodes != 6 || s.Disk[0].ImageFS.Bytes != nil || s.Budgets[0].Outcome != evict.BlockedByBudget {
		t.Errorf("%+v", s)
	}
}

// TestUnmeasuredDiskStaysUnmeasured: a measured disk that no pod uses is different from one that
// was not measured.
func TestUnmeasuredDiskStaysUnmeasured(t *testing.T) {
	t.Parallel()
	s := decoded(t, smallest)
	for _, disk := range [][]snapshot.Disk{nil, {}} {
		s.Disk = disk
		text, err := s.Encode()
		if err != nil {
			t.Fatal(err)
		}
		again := decoded(t, string(text))
		if (again.Disk == nil) != (disk == nil) {
			t.Errorf("%#v is read back as %#v", disk, again.Disk)
		}
		_, _, err = again.Rank(t.Context(), pressure.NodeFSAvailable)
		if unmeasured := err != nil && strings.Contains(err.Error(), "it was not measured when this was recorded"); unmeasured != (disk == nil) {
			t.Errorf("%#v is ranked with %v", disk, err)
		}
	}
}

// The library leaves null alone, and decodes names as they are written.
func TestNullIsUnknownAndLabelsHaveAnyName(t *testing.T) {
	t.Parallel()
	text := strings.NewReplacer("tasks: 4", "tasks: null", "inodes: 6", "inodes: null", "uid: u2}", "uid: u2, labels: {limits: tight, Limits: lax}}").Replace(smallest)
	s := decoded(t, text)
	if s.Usage[0].Tasks != nil || s.Disk[0].NodeFS.Inodes != nil {
		t.Errorf("null is read as %v and %v", s.Usage[0], s.Disk[0])
	}
	if labels := s.Pods[1].Labels; labels["limits"] != "tight" || labels["Limits"] != "lax" {
		t.Errorf("labels %v", labels)
	}
}

// What is recorded of a node is what there is: an orphaned cgroup is left out, and
// unknown figures stay unknown.
func TestRecording(t *testing.T) {
	t.Parallel()
	pod := func(name, uid, cgroup string) *nodepods.Pod {
		return &nodepods.Pod{Namespace: "n", Name: name, UID: uid, CgroupUID: cgroup}
	}
	var s snapshot.NodeSnapshot
	s.SetPods([]*nodepods.Pod{pod("b", "ub", "ub"), pod("static", "mirror", "hash"), pod("a", "ua", "ua")})
	if s.Pods[0].Name != "a" || s.Pods[2].Name != "static" {
		t.Errorf("pods in the order %s, %s, %s", s.Pods[0].Name, s.Pods[1].Name, s.Pods[2].Name)
	}
	s.SetUsage([]usage.Pod{{UID: "orphan", WorkingSet: 1}, {UID: "hash", WorkingSet: 2, Kernel: 4, KernelKnown: true, Tasks: 9}, {UID: "ua", WorkingSet: 3, Tasks: 7, TasksKnown: true}},
		errors.New("ub could not be read"))
	if diff := cmp.Diff([]snapshot.Usage{{UID: "hash", WorkingSet: 2, Kernel: new(int64(4))}, {UID: "ua", WorkingSet: 3, Tasks: new(int64(7))}}, s.Usage); diff != "" || s.UsageUnread != "ub could not be read" {
		t.Errorf("unread %q, usage (-want +got):\n%s", s.UsageUnread, diff)
	}
	s.SetDisk(map[string]usage.DiskUse{"ub": {NodeFS: usage.FSUse{Bytes: 5, BytesKnown: true, Inodes: 3}}, "orphan": {}}, nil)
	if diff := cmp.Diff([]snapshot.Disk{{UID: "ub", NodeFS: snapshot.Filesystem{Bytes: new(int64(5))}}}, s.Disk); diff != "" {
		t.Errorf("disk (-want +got):\n%s", diff)
	}
	s.SetDisk(nil, errors.New("the kubelet is away"))
	if s.Disk != nil || s.DiskUnmeasured != "the kubelet is away" {
		t.Errorf("disk %v, unmeasured %q", s.Disk, s.DiskUnmeasured)
	}
}

// Each fault is one sentence that says where it is.
func TestBadSnapshots(t *testing.T) {
	t.Parallel()
	change := func(from, to string) string { return strings.Replace(smallest, from, to, 1) }
	asJSON, err := decoded(t, smallest).Encode()
	if err != nil {
		t.Fatal(err)
	}
	inJSON := func(from, to string) string { return strings.Replace(string(asJSON), from, to, 1) }
	for name, test := range map[string]struct{ text, want string }{
		"empty":              {"\n", "the file is empty; name a file that evictd rank --save wrote"},
		"NUL":                {"a\x00", "a NUL byte at offset 1"},
		"no UTF-8":           {"a: \xff", "not UTF-8 text"},
		"too large":          {strings.Repeat("#\n", snapshot.MaxBytes/2+1), "larger than 64 MiB"},
		"a list":             {"- a\n...\n", "kind: must be NodeSnapshot, not missing; name a file that evictd rank --save wrote"},
		"not YAML":           {"a: [\n...\n", "not YAML: "},
		"YAML cut off":       {strings.TrimSuffix(smallest, "...\n"), "cut off: a snapshot in YAML ends with a line of three dots"},
		"JSON cut off":       {string(asJSON[:len(asJSON)-3]), fmt.Sprintf("not JSON at offset %d: unexpected end of JSON input; get the whole file", len(asJSON)-3)},
		"not JSON":           {"{apiVersion: x}", "not JSON at offset 2: "},
		"data after JSON":    {string(asJSON) + "{}", "invalid character '{' after top-level value"},
		"two documents":      {"a: b\n---\n" + smallest, "line 2 starts a second document; keep one"},
		"a configuration":    {change("kind: NodeSnapshot", "kind: EvictdConfiguration"), "kind: this is a configuration and no snapshot; pass it by --config"},
		"another kind":       {change("kind: NodeSnapshot", "kind: Pod"), `kind: must be NodeSnapshot, not "Pod"`},
		"no kind":            {change("kind: NodeSnapshot\n", ""), "kind: must be NodeSnapshot, not missing"},
		"another version":    {change("evictd.dev/v1alpha1", "evictd.dev/v9"), `apiVersion: must be evictd.dev/v1alpha1, not "evictd.dev/v9"; rank it by the evictd that wrote it (evictdVersion "v0.1.0")`},
		"unknown field":      {change("usage:", "colour: red\nusage:"), "colour: a snapshot has no such field; remove it"},
		"unknown below":      {change("workingSet: 1", "workingSet: 1, colour: red"), "usage[0].colour: a snapshot has no such field"},
		"unknown in a pod":   {change("spec: {nodeName", "spec: {colour: red, nodeName"), "pods[1].spec.colour: a snapshot has no such field"},
		"another case":       {change("nodeName: worker-1\nconf", "NodeName: worker-1\nconf"), "nodeName: is missing"},
		"twice in YAML":      {change("nodeName: worker-1\n", "nodeName: worker-1\nnodeName: worker-1\n"), "nodeName: is there twice, in lines 5 and 6; keep one"},
		"twice in JSON":      {strings.Replace(string(asJSON), `"workingSet": 1`, `"workingSet": 1, "workingSet": 2`, 1), "usage[0].workingSet: is there twice; keep one"},
		"alias":              {change("usage:", "x: &a 1\ny: *a\nusage:"), "y: is an alias; write the value out"},
		"NaN":                {change("workingSet: 1", "workingSet: .NaN"), "usage[0].workingSet: .NaN is no figure"},
		"infinite":           {change("capacity: 10", "capacity: -.inf"), "signals[0].capacity: -.inf is no figure"},
		"a fraction":         {change("workingSet: 1", "workingSet: 1.5"), "usage[0].workingSet: holds a number 1.5 where a int64 belongs"},
		"a text":             {change("workingSet: 1", `workingSet: "1"`), "usage[0].workingSet: holds a string where a int64 belongs"},
		"beyond int64":       {change("workingSet: 1", "workingSet: 99999999999999999999"), "usage[0].workingSet: holds a number"},
		"memory of no node":  {change("anonymous: 2, shared: 3", "anonymous: 9223372036854775807, shared: 9223372036854775807"), "usage[0].anonymous: 9223372036854775807 is more than the 1152921504606846976 that a pod of this node can use"},
		"disk of no node":    {change("bytes: 5", "bytes: 1152921504606846977"), "disk[0].nodefs.bytes: 1152921504606846977 is more than"},
		"too much of two":    {change("disk:\n", "- {uid: u2, workingSet: 1152921504606846976, anonymous: 2, shared: 3}\ndisk:\n"), "usage[1].workingSet: 1152921504606846976 is more than the 576460752303423488 that"},
		"negative kernel":    {change("shared: 3, tasks", "shared: 3, kernel: -1, tasks"), "usage[0].kernel: -1 is negative"},
		"negative usage":     {change("workingSet: 1", "workingSet: -1"), "usage[0].workingSet: -1 is negative"},
		"negative tasks":     {change("tasks: 4", "tasks: -4"), "usage[0].tasks: -4 is negative"},
		"negative disk":      {change("bytes: 5", "bytes: -5"), "disk[0].nodefs.bytes: -5 is negative"},
		"negative capacity":  {change("capacity: 10", "capacity: -10"), "signals[0].capacity: -10 is negative"},
		"negative request":   {change("1Gi", "-1Gi"), `pods[0].spec.containers[0].resources.requests.memory: "-1Gi" is negative`},
		"no amount":          {change("1Gi", "much"), `pods[0].spec.containers[0].resources.requests.memory: "much" is no amount`},
		"endless amount":     {change("1Gi", "1e999999999"), `pods[0].spec.containers[0].resources.requests.memory: "1e999999999" is no amount`},
		"endless size":       {change("spec: {nodeName: worker-1}", "spec: {nodeName: worker-1, volumes: [{name: a, emptyDir: {sizeLimit: '1e-999999999'}}]}"), `pods[1].spec.volumes[0].emptyDir.sizeLimit: "1e-999999999" is no amount`},
		"endless divisor":    {change("spec: {nodeName: worker-1}", "spec: {nodeName: worker-1, containers: [{name: a, env: [{name: b, valueFrom: {resourceFieldRef: {divisor: '1e-999999999'}}}]}]}"), `valueFrom.resourceFieldRef.divisor: "1e-999999999" is no amount`},
		"Divisor":            {change("spec: {nodeName: worker-1}", "spec: {nodeName: worker-1, containers: [{name: a, env: [{name: b, valueFrom: {resourceFieldRef: {Divisor: '1e-999999999'}}}]}]}"), `valueFrom.resourceFieldRef.Divisor: a snapshot has no such field`},
		"twice in a pod":     {strings.Replace(string(asJSON), `"memoryRequest": 1073741824`, `"memoryRequest": 1, "memoryRequest": 2`, 1), "pods[0].memoryRequest: is there twice; keep one"},
		"endless walk":       {change("EvictdConfiguration}", "EvictdConfiguration, disk: {cpu: '1e-999999999'}}"), "configuration: invalid configuration: disk.cpu"},
		"missing figure":     {change("workingSet: 1, ", ""), "usage[0].workingSet: is missing, and missing is not 0"},
		"null figure":        {change("workingSet: 1", "workingSet: null"), "usage[0].workingSet: is missing, and missing is not 0"},
		"null entry":         {change("- {uid: u1, workingSet: 1, anonymous: 2, shared: 3, tasks: 4}", "- null"), "usage[0]: holds no fields"},
		"null pod":           {change("- metadata: {namespace: shop, name: db, uid: u2}\n  spec: {nodeName: worker-1}", "- null"), "pods[1]: name, namespace and uid must be there"},
		"no pods":            {change("pods:\n", "pods: null\nx:\n"), "pods: is missing"},
		"no time":            {change(`time: "2026-11-20T02:14:07Z"`, "time: yesterday"), `time: "yesterday" is no time`},
		"configuration":      {change("EvictdConfiguration}", "EvictdConfiguration, evictionHard: {memory.available: 500%}}"), "configuration: invalid configuration: evictionHard[memory.available]"},
		"negative grace":     {change("- metadata: {namespace: shop, name: db, uid: u2}\n  spec: {nodeName: worker-1}", "- {namespace: shop, name: db, uid: u2, gracePeriodSeconds: -120}"), "pods[1].gracePeriodSeconds: -120 is negative"},
		"two pods, one UID":  {change("uid: u2", "uid: u1"), `pods[1].uid: "u1" is that of pods[0].uid too; keep one`},
		"two pods, a name":   {change("name: db", "name: web"), `pods[1].name: "shop/web" is that of pods[0].name too`},
		"another node's":     {change("spec: {nodeName: worker-1}", "spec: {nodeName: worker-2}"), `pods[1].spec.nodeName: is "worker-2", and the snapshot is of node "worker-1"`},
		"usage of no pod":    {change("{uid: u1, workingSet", "{uid: u9, workingSet"), `usage[0].uid: no pod of the snapshot has "u9"`},
		"disk of no pod":     {change("{uid: u1, nodefs", "{uid: u9, nodefs"), `disk[0].uid: no pod of the snapshot has "u9"`},
		"budget of no pod":   {change("{uid: u1, outcome", "{uid: u9, outcome"), `budgets[0].uid: no pod of the snapshot has "u9"`},
		"usage twice":        {change("disk:\n", "- {uid: u1, workingSet: 1, anonymous: 2, shared: 3}\ndisk:\n"), `usage[1].uid: "u1" is that of usage[0].uid too`},
		"no such signal":     {change("memory.available, state", "memory.free, state"), `signals[0].name: unknown signal "memory.free"`},
		"signal twice":       {change("pods:\n", "- {name: memory.available, state: Unknown}\npods:\n"), `signals[1].name: "memory.available" is that of signals[0].name too`},
		"no such state":      {change("state: Known", "state: fine"), `signals[0].state: "fine" is none of Known, Unknown and Absent`},
		"unknown figures":    {change("state: Known", "state: Unknown"), "signals[0]: is Unknown and has figures"},
		"known, no figures":  {change(", capacity: 10", ""), "signals[0]: is Known and lacks available or capacity"},
		"measured or not":    {change("budgets:", "diskUnmeasured: why\nbudgets:"), "diskUnmeasured: disk is there too; keep one"},
		"no dry run":         {change("BlockedByBudget", "Evicted"), `budgets[0].outcome: "Evicted" is no answer to a dry run`},
		"unknown in a value": {change("- metadata: {namespace: shop, name: db, uid: u2}\n  spec: {nodeName: worker-1}", "- {namespace: shop, name: db, uid: u2, colour: red}"), "pods[1].colour: a snapshot has no such field"},
		"case below":         {change("tasks: 4", "Tasks: 4"), "usage[0].Tasks: a snapshot has no such field"},
		"case in a pod":      {change("spec: {nodeName", "Spec: {nodeName"), "pods[1].Spec: a snapshot has no such field"},
		"twice in labels":    {inJSON(`"uid": "u1"`, `"uid": "u1", "labels": {"a": "b", "a": "c"}`), "pods[0].labels.a: is there twice; keep one"},
		"twice in settings":  {inJSON(`"dryRun": `, `"dryRun": true, "dryRun": `), "configuration.dryRun: is there twice; keep one"},
		"unknown setting":    {change("EvictdConfiguration}", "EvictdConfiguration, colour: red}"), "configuration: invalid configuration: colour"},
		"amounts twice":      {inJSON(`"pods": [`, `"pods": [{"metadata": {}, "spec": {"overhead": {"a": "1e-999999999"}, "overhead": {}}}, `), "pods[0].spec.overhead: is there twice; keep one"},
		"an amount in JSON":  {inJSON(`"pods": [`, `"pods": [{"metadata": {}, "spec": {"overhead": {"memory": 1e-999999999}}}, `), `pods[0].spec.overhead.memory: 1e-999999999 is no amount`},
		"an exponent":        {inJSON(`"workingSet": 1`, `"workingSet": 1e3`), "usage[0].workingSet: holds a number 1e3 where a int64 belongs"},
		"beyond float64":     {inJSON(`"workingSet": 1`, `"workingSet": 1e400`), "holds a number 1e400 where a float64 belongs"},
		"a number as name":   {change("nodeName: worker-1\n", "nodeName: 5\n"), "snapshot: nodeName: holds a number where a string belongs"},
		"no list":            {change("signals:\n- {name: memory.available, state: Known, available: 5, capacity: 10}", "signals: {}"), "signals: holds a object where a []json.RawMessage belongs"},
		"a pod's name":       {change("name: db", "name: [db]"), "pods[1].metadata.name: holds a array where a string belongs"},
		"a pod that is none": {change("- metadata: {namespace: shop, name: db, uid: u2}\n  spec: {nodeName: worker-1}", "- 5"), "pods[1]: holds a number where a nodepods.Pod belongs"},
		"null in place":      {change("nodefs: {bytes: 5, inodes: 6}", "nodefs: null"), "disk[0].nodefs: is missing, and missing is not 0"},
		"deep JSON":          {inJSON(`"signals": [`, `"signals": [`+strings.Repeat("[", 10001)), "exceeded max depth"},
		"deep YAML":          {change("usage:", "x: "+strings.Repeat("[", 10001)+"\nusage:"), "not YAML: "},
		"two spellings":      {change("usage:", "1: a\n\"1\": b\nusage:"), "1: is there twice, in lines"},
		"a key in two":       {change("usage:", "\"a\\nb\": 1\nusage:"), `a\nb: a snapshot has no such field`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := snapshot.Decode([]byte(test.text))
			if err == nil || !strings.HasPrefix(err.Error(), "reading the snapshot: ") || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%v, want one sentence with %q", err, test.want)
			}
		})
	}
}

// A file that was cut off anywhere is refused, in JSON and in YAML.
func TestEveryCutIsNoticed(t *testing.T) {
	t.Parallel()
	asJSON, err := decoded(t, smallest).Encode()
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"YAML": smallest, "JSON": string(asJSON)} {
		whole := strings.TrimRight(text, "\n")
		for n := range len(whole) {
			if _, err := snapshot.Decode([]byte(whole[:n])); err == nil {
				t.Errorf("%s cut off after %d of %d bytes is taken for whole:\n%s", name, n, len(whole), whole[max(0, n-40):n])
			}
		}
	}
}

func TestSave(t *testing.T) {
	t.Parallel()
	s, dir := decoded(t, smallest), t.TempDir()
	path := filepath.Join(dir, "node.json")
	if err := snapshot.CheckFree(path); err != nil {
		t.Errorf("a free name: %v", err)
	}
	if err := s.Save(path); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v; want mode 0600", info.Mode(), err)
	}
	again, err := snapshot.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	same(t, s, again)
	if err = os.WriteFile(path, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err = s.Save(path); !errors.Is(err, snapshot.ErrExists) {
		t.Errorf("over a file: %v", err)
	}
	if err = snapshot.CheckFree(path); !errors.Is(err, snapshot.ErrExists) {
		t.Errorf("a name that is taken: %v", err)
	}
	if text, _ := os.ReadFile(path); string(text) != "mine" {
		t.Errorf("the file that was there is %q now", text)
	}
	if err = s.Save(filepath.Join(dir, "none", "x.json")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("in no directory: %v", err)
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 1 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// marked is in every text of a pod that TestWhatASnapshotHolds makes.
const marked = "private"

// TestWhatASnapshotHolds fills every field that a pod can have, now and in a later
// Kubernetes, and lists where in the snapshot any of it is. A line that is new here
// needs one in docs/snapshot.md.
func TestWhatASnapshotHolds(t *testing.T) {
	t.Parallel()
	pod := &corev1.Pod{}
	fill(reflect.ValueOf(pod).Elem(), 0)
	pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: marked, VolumeSource: corev1.VolumeSource{
		EmptyDir: &corev1.EmptyDirVolumeSource{}, Secret: &corev1.SecretVolumeSource{SecretName: marked},
	}}, corev1.Volume{Name: marked, VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
		LocalObjectReference: corev1.LocalObjectReference{Name: marked},
	}}})
	pod.Status.Conditions[0].Type = corev1.DisruptionTarget
	s := &snapshot.NodeSnapshot{Configuration: config.Default(), Pods: []*nodepods.Pod{nodepods.FromAPI(pod)}}
	text, err := s.Encode()
	if err != nil {
		t.Fatal(err)
	}
	var tree struct {
		Pods []any `json:"pods"`
	}
	if err = json.Unmarshal(text, &tree); err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	markedIn("", tree.Pods[0], found)
	var held []string
	for path := range found {
		held = append(held, path)
	}
	slices.Sort(held)
	want := []string{
		".cgroupUID", ".diskVolumes[]", ".labels.private", ".name", ".namespace", ".owner", ".ownerAPIVersion", ".ownerUID", ".uid",
	}
	if diff := cmp.Diff(want, held); diff != "" {
		t.Errorf("what a snapshot holds of a pod (-want +got):\n%s", diff)
	}
	if !bytes.Contains(text, []byte(marked)) {
		t.Error("the test marks nothing")
	}
}

// fill writes the mark into every text of a value, and one entry into every list and map.
func fill(v reflect.Value, depth int) {
	const deepest = 14
	if depth > deepest {
		return
	}
	switch v.Type() {
	case reflect.TypeFor[resource.Quantity]():
		v.Set(reflect.ValueOf(resource.MustParse("1")))
		return
	case reflect.TypeFor[metav1.Time]():
		v.Set(reflect.ValueOf(metav1.NewTime(time.Unix(1, 0))))
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(marked)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), depth+1)
	case reflect.Struct:
		for _, member := range v.Fields() {
			if member.CanSet() {
				fill(member, depth+1)
			}
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), depth+1)
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key, depth+1)
		fill(value, depth+1)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int32, reflect.Int64:
		v.SetInt(1)
	default:
	}
}

// markedIn notes the paths of what holds the mark, in keys and values.
func markedIn(path string, v any, found map[string]bool) {
	switch v := v.(type) {
	case map[string]any:
		for name, item := range v {
			if name == marked {
				found[path+"."+name] = true
			}
			markedIn(path+"."+name, item, found)
		}
	case []any:
		for _, item := range v {
			markedIn(path+"[]", item, found)
		}
	case string:
		if strings.Contains(v, marked) {
			found[path] = true
		}
	}
}

// FuzzSnapshot: nothing panics or takes for ever, a fault is one line, and what is
// accepted can be ranked and is written and read back to the same.
func FuzzSnapshot(f *testing.F) {
	s, err := snapshot.Decode([]byte(smallest))
	if err != nil {
		f.Fatal(err)
	}
	asJSON, err := s.Encode()
	if err != nil {
		f.Fatal(err)
	}
	for _, seed := range []string{
		smallest, string(asJSON), "", "{}", "- a\n...", "a: &a [*a]\n...", "kind: NodeSnapshot\n...",
		strings.Replace(smallest, "1Gi", "1e-999999999", 1), strings.Replace(smallest, "tasks: 4", "tasks: .inf", 1),
		strings.Replace(smallest, "u1}", "u1, annotations: {kubernetes.io/config.mirror: x, kubernetes.io/config.hash: u2}}", 1),
		strings.Replace(smallest, "configuration: {", "configuration: {queues: [{name: a, namespaces: [shop], guaranteed: {memory: 1Gi}}], ", 1),
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := snapshot.Decode(data)
		if err != nil {
			if strings.ContainsAny(err.Error(), "\n\r\t\x1b") {
				t.Errorf("more than one line: %q", err)
			}
			return
		}
		want := ranking(t, s)
		text, err := s.Encode()
		if err != nil {
			t.Fatal(err)
		}
		again, err := snapshot.Decode(text)
		if err != nil {
			t.Fatalf("%v, reading back:\n%s", err, text)
		}
		if got := ranking(t, again); got != want {
			t.Errorf("ranked as %s, and read back as %s", want, got)
		}
	})
}

// ranking returns the names in the order for memory, protections included.
func ranking(t *testing.T, s *snapshot.NodeSnapshot) string {
	t.Helper()
	order, unread, err := s.Rank(t.Context(), pressure.MemoryAvailable)
	var b strings.Builder
	fmt.Fprintf(&b, "%v %v", unread, err)
	for i := range order.Candidates {
		fmt.Fprintf(&b, " %s %s", order.Candidates[i].Pod.UID, order.Candidates[i].Why())
	}
	for i := range order.Protected {
		fmt.Fprintf(&b, " %s %s", order.Protected[i].Pod.UID, order.Protected[i].Why())
	}
	return b.String()
}
