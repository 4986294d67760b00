//go:build e2e_all

package e2e

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/evictd/evictd/test/internal/node"
)

// The real kubectl finds the plugin, which asks the shipped DaemonSet by the real kubelet and containerd.
func TestKubectlPlugin(t *testing.T) {
	s := newSceneOf(t, node.DiskSpace, untilMetMiB, true, "")
	plugins, err := filepath.Abs("../../deploy/krew")
	s.must(err)
	kubectl := func(args ...string) *exec.Cmd {
		command := exec.CommandContext(t.Context(), filepath.Join(live.Files.ClusterBin, "kubectl"), append([]string{"evictd"}, args...)...)
		command.Env = append(os.Environ(), "PATH="+plugins+":"+live.Files.ClusterBin+":"+os.Getenv("PATH"), "KUBECONFIG="+live.Cluster.Kubeconfig())
		return command
	}
	pod, err := live.EvictdPod(t.Context())
	s.must(err)
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"nodes"}, `^NODE .*\n` + live.Name() + ` +(dry run|acts) .* ago +\S+\n$`},
		{[]string{"rank", live.Name()}, `(?s)evictd/` + pod.Name + ` .*protected: Self`},
		{[]string{"why", "-n", node.Namespace, pod.Name}, pod.Name},
		{[]string{"doctor", live.Name()}, `(?m)^kubepods +ok`},
	} {
		var out, errs bytes.Buffer
		command := kubectl(test.args...)
		command.Stdout, command.Stderr = &out, &errs
		if err = command.Run(); err != nil || errs.Len() > 0 || !regexp.MustCompile(test.want).MatchString(out.String()) {
			t.Errorf("kubectl evictd %q: %v, stderr %q, stdout\n%s\nwant %s", test.args, err, errs.String(), out.String(), test.want)
		}
	}
}
