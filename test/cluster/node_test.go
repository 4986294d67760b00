package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
)

// nodeVariable enables the test of a whole node. It needs root and changes settings of the
// machine while it runs.
const nodeVariable = "EVICTD_CLUSTER_NODE"

const probeImage = "localhost/evictd/probe:test"

func TestNode(t *testing.T) {
	if os.Getenv(nodeVariable) == "" {
		t.Skipf("%s is not set; as root: %s=1 go test -run TestNode .", nodeVariable, nodeVariable)
	}
	bin := builtBinaries(t, true)
	before := traces(t)
	c, client := started(t, Options{Dir: filepath.Join(t.TempDir(), "cluster"), BinDir: bin, Node: true, Disk: &Disk{Size: nodeSize, Images: imagesSize}})
	testDisk(t, c)
	if during := traces(t); slices.Equal(during.cgroups, before.cgroups) || maps.Equal(during.sysctls, before.sysctls) {
		t.Error("no trace of the node is seen while it runs: the comparison at the end is worth nothing")
	}
	importProbe(t, c)

	t.Run("budget", func(t *testing.T) { testBudget(t, client) })
	t.Run("confined pod", func(t *testing.T) { testConfinedPod(t, c, client) })
	t.Run("restart", func(t *testing.T) { testNodeRestart(t, c, client) })

	// The worst case: no process is left to clean up.
	for _, name := range []string{containerdName, kubeletName, namespaceName} {
		if err := c.Signal(name, syscall.SIGKILL); err != nil {
			t.Error(err)
		}
	}
	for range 2 {
		if err := c.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	compareTraces(t, before, traces(t))
}

// The node's two filesystems, in bytes.
const nodeSize, imagesSize = 512 << 20, 256 << 20

// testDisk compares the node's directories with the sizes of its disks.
func testDisk(t *testing.T, c *Cluster) {
	t.Helper()
	for dir, most := range map[string]uint64{
		kubeletRoot: nodeSize, "/var/log/pods": nodeSize, c.DiskDir(): nodeSize, c.ImagesDir(): imagesSize,
	} {
		path, err := c.InNode(dir)
		if err != nil {
			t.Fatal(err)
		}
		var filesystem unix.Statfs_t
		if err := unix.Statfs(path, &filesystem); err != nil {
			t.Fatal(err)
		}
		if size := filesystem.Blocks * uint64(filesystem.Bsize); size <= most/2 || size > most {
			t.Errorf("%s is on a filesystem of %d bytes, want one of %d with its tables", dir, size, most)
		}
	}
}

// marks are what a node must not leave behind.
type marks struct {
	mounts  []string
	loops   []string
	cgroups []string
	sysctls map[string]string
	folders []string
}

func traces(t *testing.T) marks {
	t.Helper()
	var found marks
	mounts, err := readMounts()
	if err != nil {
		t.Fatal(err)
	}
	for _, each := range mounts {
		found.mounts = append(found.mounts, each.path)
	}
	found.loops = glob(t, "/sys/block/loop*/loop/backing_file")
	all, err := hierarchies()
	if err != nil {
		t.Fatal(err)
	}
	for _, each := range all {
		found.cgroups = append(found.cgroups, glob(t, filepath.Join(each.mount, cgroupRootPrefix+"*"))...)
	}
	if found.sysctls, err = readSysctls(); err != nil {
		t.Fatal(err)
	}
	for _, pattern := range []string{"/var/lib/*", "/run/*", "/var/log/*", "/opt/*", "/etc/*"} {
		found.folders = append(found.folders, glob(t, pattern)...)
	}
	return found
}

func glob(t *testing.T, pattern string) []string {
	t.Helper()
	found, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func compareTraces(t *testing.T, before, after marks) {
	t.Helper()
	if !slices.Equal(before.mounts, after.mounts) {
		t.Errorf("mounts before %v, after %v", before.mounts, after.mounts)
	}
	if !slices.Equal(before.loops, after.loops) {
		t.Errorf("loop devices before %v, after %v", before.loops, after.loops)
	}
	if !slices.Equal(before.cgroups, after.cgroups) {
		t.Errorf("cgroups before %v, after %v", before.cgroups, after.cgroups)
	}
	if !maps.Equal(before.sysctls, after.sysctls) {
		t.Errorf("settings before %v, after %v", before.sysctls, after.sysctls)
	}
	if !slices.Equal(before.folders, after.folders) {
		t.Errorf("folders before %v, after %v", before.folders, after.folders)
	}
}

func importProbe(t *testing.T, c *Cluster) {
	t.Helper()
	program := filepath.Join(t.TempDir(), "probe")
	source, err := sourceDir()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := goCommand(t.Context(), source, "build", "-trimpath", "-o", program, "./testdata/probe"); err != nil {
		t.Fatal(err)
	}
	tar := filepath.Join(t.TempDir(), "probe.tar")
	config := ImageConfig{Entrypoint: []string{"/probe"}, User: "65534:65534"}
	if err := WriteImage(tar, probeImage, map[string]string{"/probe": program}, config); err != nil {
		t.Fatal(err)
	}
	if err := c.ImportImage(t.Context(), tar); err != nil {
		t.Fatal(err)
	}
}

// hostNetworkPod is the smallest pod that runs on this node.
func hostNetworkPod(image string, arguments ...string) corev1.PodSpec {
	return corev1.PodSpec{
		HostNetwork: true,
		Containers:  []corev1.Container{{Name: "main", Image: image, ImagePullPolicy: corev1.PullNever, Args: arguments}},
	}
}

func testBudget(t *testing.T, client kubernetes.Interface) {
	t.Helper()
	labels := map[string]string{"app": "web"}
	deployment := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(2)), Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       hostNetworkPod(PauseImage, "--memory=20Mi", "--term-delay=500ms"),
			},
		},
	}
	if _, err := client.AppsV1().Deployments("default").Create(t.Context(), deployment, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	all := intstr.FromString("100%")
	budget := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec:       policyv1.PodDisruptionBudgetSpec{MinAvailable: &all, Selector: &metav1.LabelSelector{MatchLabels: labels}},
	}
	if _, err := client.PolicyV1().PodDisruptionBudgets("default").Create(t.Context(), budget, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the budget counts two healthy pods", func(ctx context.Context) bool {
		got, err := client.PolicyV1().PodDisruptionBudgets("default").Get(ctx, "web", metav1.GetOptions{})
		return err == nil && got.Status.CurrentHealthy == 2
	})
	pods, err := client.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{LabelSelector: "app=web"})
	if err != nil || len(pods.Items) != 2 {
		t.Fatalf("%d pods, error %v", len(pods.Items), err)
	}
	name := pods.Items[0].Name
	evict := func() error {
		return client.PolicyV1().Evictions("default").Evict(t.Context(), &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}})
	}
	if err := evict(); !apierrors.IsTooManyRequests(err) {
		t.Errorf("evicting against the budget: %v", err)
	}
	if err := client.PolicyV1().PodDisruptionBudgets("default").Delete(t.Context(), "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the eviction is allowed", func(context.Context) bool { return evict() == nil })
	begin := time.Now()
	eventually(t, "the pod is gone", func(ctx context.Context) bool {
		_, err := client.CoreV1().Pods("default").Get(ctx, name, metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
	t.Logf("the evicted pod was gone after %s", time.Since(begin).Round(time.Millisecond))
}

// findings is the output of testdata/probe.
type findings struct {
	Meminfo  string   `json:"meminfo"`
	Cgroups  []string `json:"cgroups"`
	Kubelet  []string `json:"kubelet"`
	RootFS   string   `json:"rootfs"`
	UID      int      `json:"uid"`
	Kubelets int      `json:"kubelets"`
	Review   struct {
		Status struct {
			UserInfo struct {
				Username string              `json:"username"`
				Extra    map[string][]string `json:"extra"`
			} `json:"userInfo"`
		} `json:"status"`
	} `json:"review"`
}

// testConfinedPod runs a pod with evictd's security context: it must see the node and reach
// both servers only with what every pod is given.
func testConfinedPod(t *testing.T, c *Cluster, client kubernetes.Interface) {
	t.Helper()
	allowStats(t, client)
	node, err := client.CoreV1().Nodes().Get(t.Context(), DefaultNodeName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	recorded, err := readState(c.Dir())
	if err != nil {
		t.Fatal(err)
	}
	spec := hostNetworkPod(probeImage)
	spec.SecurityContext = &corev1.PodSecurityContext{
		RunAsNonRoot: new(true), RunAsUser: new(int64(65534)),
		SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
	}
	spec.Containers[0].SecurityContext = &corev1.SecurityContext{
		ReadOnlyRootFilesystem: new(true), AllowPrivilegeEscalation: new(false),
		Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
	}
	spec.Containers[0].Env = []corev1.EnvVar{
		{Name: "CGROUP_ROOT", Value: recorded.CgroupRoot},
		{Name: "KUBELET_PORT", Value: strconv.Itoa(int(node.Status.DaemonEndpoints.KubeletEndpoint.Port))},
	}
	propagation := corev1.MountPropagationHostToContainer
	for name, path := range map[string]string{"proc": "/proc", "cgroup": "/sys/fs/cgroup", "kubelet": kubeletRoot, "containerd": containerdRoot} {
		spec.Volumes = append(spec.Volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: path}}})
		spec.Containers[0].VolumeMounts = append(spec.Containers[0].VolumeMounts, corev1.VolumeMount{
			Name: name, MountPath: "/host" + path, ReadOnly: true, MountPropagation: &propagation,
		})
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "probe"}, Spec: spec}
	if _, err := client.CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	checkFindings(t, awaitFindings(t, client))
}

func allowStats(t *testing.T, client kubernetes.Interface) {
	t.Helper()
	role := &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "stats"},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"nodes/stats"}, Verbs: []string{"get"}}},
	}
	if _, err := client.RbacV1().ClusterRoles().Create(t.Context(), role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "stats"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "stats"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "default", Name: "default"}},
	}
	if _, err := client.RbacV1().ClusterRoleBindings().Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// awaitFindings reads the pod's log through the API server, which reads it from the kubelet.
func awaitFindings(t *testing.T, client kubernetes.Interface) findings {
	t.Helper()
	var found findings
	eventually(t, "the pod prints its findings", func(ctx context.Context) bool {
		log, err := client.CoreV1().Pods("default").GetLogs("probe", &corev1.PodLogOptions{}).DoRaw(ctx)
		if err != nil || !bytes.HasSuffix(log, []byte("\n")) {
			return false
		}
		if err := json.Unmarshal(log, &found); err != nil {
			t.Fatalf("%v in %s", err, log)
		}
		return true
	})
	return found
}

func checkFindings(t *testing.T, found findings) {
	t.Helper()
	if found.Meminfo != "MemTotal:" {
		t.Errorf("/proc/meminfo begins with %q", found.Meminfo)
	}
	if !slices.Contains(found.Kubelet, "pods") {
		t.Errorf("the kubelet's folder shows %v", found.Kubelet)
	}
	if !slices.Contains(found.Cgroups, "besteffort") {
		t.Errorf("the pods' cgroup shows %v", found.Cgroups)
	}
	if !strings.Contains(found.RootFS, "read-only") || found.UID != 65534 {
		t.Errorf("writing the root filesystem as %d: %q", found.UID, found.RootFS)
	}
	if found.Kubelets != 200 {
		t.Errorf("the kubelet's statistics: status %d", found.Kubelets)
	}
	user := found.Review.Status.UserInfo
	if node := user.Extra["authentication.kubernetes.io/node-name"]; user.Username != "system:serviceaccount:default:default" || !slices.Equal(node, []string{DefaultNodeName}) {
		t.Errorf("the API server takes the pod for %+v", user)
	}
}

// testNodeRestart checks that containers outlive the kubelet and containerd, and that a pod
// can be deleted afterwards.
func testNodeRestart(t *testing.T, c *Cluster, client kubernetes.Interface) {
	t.Helper()
	for _, name := range []string{kubeletName, containerdName, kubeletName} {
		if err := c.StopProcess(t.Context(), name); err != nil {
			t.Fatal(err)
		}
		if err := c.StartProcess(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
	pod, err := client.CoreV1().Pods("default").Get(t.Context(), "probe", metav1.GetOptions{})
	if err != nil || len(pod.Status.ContainerStatuses) != 1 || pod.Status.ContainerStatuses[0].RestartCount != 0 {
		t.Errorf("the pod after the restarts: %+v, error %v", pod.Status, err)
	}
	if err := client.CoreV1().Pods("default").Delete(t.Context(), "probe", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the pod is gone", func(ctx context.Context) bool {
		_, err := client.CoreV1().Pods("default").Get(ctx, "probe", metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
}

func eventually(t *testing.T, what string, done func(context.Context) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := poll(ctx, func() (bool, error) { return done(ctx), nil }); err != nil {
		t.Fatalf("waiting until %s: %v", what, err)
	}
}
