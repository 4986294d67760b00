//go:build e2e_all

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evictd/evictd/internal/checks"
	"github.com/evictd/evictd/test/internal/eventually"
	"github.com/evictd/evictd/test/internal/node"
)

// The running evictd's pod says that all is in order, and after each fault which thing is missing
// and with which exit code. Each fault is undone before the next.
func TestDoctorFindsFiveFaults(t *testing.T) {
	on(t, oneDisk)
	s := emptyScene(t)
	s.threshold(node.DiskSpace, 100, true, "")
	eventually.Undo(t, s.farFromAnyLine)
	writeKubeletsFile(s, "imageGCHighThresholdPercent: 100\nevictionHard: {memory.available: 1Mi}\n")
	s.elsewhere() // a pod that the policies refuse
	isSound(s)
	table, err := live.Kubectl(t.Context(), doctorCommand(s)...)
	s.must(err)
	t.Log("\n" + table)
	const missing, fault = checks.Missing, 1
	for _, f := range []struct {
		name   string
		breaks func(*scene)
		line   string
		state  checks.State
		found  string
		code   int
	}{
		{"no right to evict", func(s *scene) { withoutRight(s, "pods/eviction", "create") }, "right/create pods/eviction", missing, "lacks", fault},
		{"the kubelet's Summary API is forbidden", func(s *scene) { withoutRight(s, "nodes/stats", "get") }, "pod-disk/summary", missing, "403", fault},
		{"the state directory is read-only", func(s *scene) {
			s.withPatch(`{"spec":{"template":{"spec":{"containers":[{"name":"evictd","volumeMounts":[{"name":"state","mountPath":"/var/lib/evictd","readOnly":true}]}]}}}}`)
		}, "state-dir", missing, "read-only file system", fault},
		{"the kubelet's file is absent", func(s *scene) { writeKubeletsFile(s, "") }, "kubelet-config", "degraded", "none of", 0},
		{"the kubelet evicts first", func(s *scene) {
			writeKubeletsFile(s, "imageGCHighThresholdPercent: 100\nevictionHard: {nodefs.available: 99%}\n")
		}, "kubelet-thresholds/nodefs.available", missing, "the kubelet evicts below 99%", fault},
		{"the policy of other nodes is deleted", func(s *scene) { withoutPolicy(s, "evictd-evicts-on-own-node") }, "policy/evictd-evicts-on-own-node", missing, "not in force", fault},
		{"the policy of the own node is deleted", func(s *scene) { withoutPolicy(s, "evictd-on-own-node") }, "policy/evictd-on-own-node", missing, "not in force", fault},
	} {
		t.Run(f.name, func(t *testing.T) {
			broken := &scene{T: t, namespace: s.namespace}
			f.breaks(broken)
			var code int
			var line checks.Result
			// The API server and the kubelet need a moment to take an edit in.
			eventually.Until(t, fmt.Sprintf("the doctor finds %s %s: %s", f.line, f.state, f.found), func(ctx context.Context) bool {
				var lines map[string]checks.Result
				code, lines = runDoctor(ctx, broken)
				line = lines[f.line]
				return code == f.code && line.State == f.state && strings.Contains(line.Found, f.found)
			}, func() string { return fmt.Sprintf("exit code %d, want %d; %+v", code, f.code, line) })
		})
		isSound(s)
	}
}

// doctorCommand is the command of docs/cli.md, with the flags of the shipped DaemonSet.
func doctorCommand(s *scene, more ...string) []string {
	return append([]string{
		"-n", node.Namespace, "exec", "ds/evictd", "--", "/evictd", "doctor",
		"--config=/etc/evictd/evictd.yaml", "--host-root=/host", "--state-dir=/var/lib/evictd",
	}, more...)
}

// runDoctor runs it in evictd's pod, and returns its exit code, -1 where it did not run, and its lines by
// name.
func runDoctor(ctx context.Context, s *scene) (code int, lines map[string]checks.Result) {
	s.Helper()
	text, err := live.Kubectl(ctx, doctorCommand(s, "-o=json")...)
	if ended, has := errors.AsType[*exec.ExitError](err); has {
		code = ended.ExitCode()
	} else if err != nil {
		return -1, nil
	}
	var list []checks.Result
	// After the lines there is kubectl's own complaint about the exit code.
	if err := json.NewDecoder(strings.NewReader(text)).Decode(&list); err != nil {
		s.Logf("evictd doctor: %v: %s", err, text)
		return -1, nil
	}
	lines = map[string]checks.Result{}
	for _, line := range list {
		lines[line.Name] = line
	}
	return code, lines
}

// isSound waits until every line is ok but for what this machine cannot have: the wake-ups of the
// pods need a component, and cgroup v1 lacks more.
func isSound(s *scene) {
	s.Helper()
	var not []checks.Result
	eventually.Until(s.T, "a node in order is sound", func(ctx context.Context) bool {
		code, lines := runDoctor(ctx, s)
		not = nil
		for _, line := range lines {
			machine := line.State == "degraded" && slices.Contains([]string{"cgroups", "wake-up/Node", "wake-up/Kubepods"}, line.Name)
			if line.State != "ok" && !machine {
				not = append(not, line)
			}
		}
		return code == 0 && len(lines) > 0 && len(not) == 0
	}, func() string { return fmt.Sprintf("not sound: %+v", not) })
}

// writeKubeletsFile writes what evictd reads as the kubelet's configuration, until the end of the test; ""
// removes it. The kubelet reads another file.
func writeKubeletsFile(s *scene, text string) {
	s.Helper()
	path := live.Cluster.InNode(kubeletFile)
	before, unread := os.ReadFile(path)
	s.Cleanup(func() {
		if unread != nil {
			_ = os.Remove(path)
			return
		}
		s.must(os.WriteFile(path, before, 0o644)) // evictd reads it without extra rights
	})
	if text == "" {
		s.must(os.Remove(path))
		return
	}
	text = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n" + text
	s.must(os.WriteFile(path, []byte(text), 0o644)) // as above
}

// withoutRight takes a verb from evictd's ClusterRole until the end of the test.
func withoutRight(s *scene, resource, verb string) {
	s.Helper()
	roles := live.Client.RbacV1().ClusterRoles()
	shipped, err := roles.Get(s.Context(), "evictd", metav1.GetOptions{})
	s.must(err)
	eventually.Undo(s, func(ctx context.Context) {
		again, gone := roles.Get(ctx, "evictd", metav1.GetOptions{})
		s.must(gone)
		again.Rules = shipped.Rules
		_, refused := roles.Update(ctx, again, metav1.UpdateOptions{})
		s.must(refused)
	})
	less := shipped.DeepCopy()
	less.Rules = nil
	for _, rule := range shipped.Rules {
		if slices.Contains(rule.Resources, resource) {
			rule.Verbs = slices.DeleteFunc(slices.Clone(rule.Verbs), func(v string) bool { return v == verb })
		}
		if len(rule.Verbs) > 0 {
			less.Rules = append(less.Rules, rule)
		}
	}
	_, err = roles.Update(s.Context(), less, metav1.UpdateOptions{})
	s.must(err)
}

// withoutPolicy deletes one of the shipped policies until the end of the test.
func withoutPolicy(s *scene, name string) {
	s.Helper()
	policies := live.Client.AdmissionregistrationV1().ValidatingAdmissionPolicies()
	shipped, err := policies.Get(s.Context(), name, metav1.GetOptions{})
	s.must(err)
	s.must(policies.Delete(s.Context(), name, metav1.DeleteOptions{}))
	eventually.Undo(s, func(ctx context.Context) {
		shipped.ResourceVersion, shipped.UID = "", ""
		_, err := policies.Create(ctx, shipped, metav1.CreateOptions{})
		s.must(err)
	})
}
