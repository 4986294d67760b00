package main

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// lxcfs, a wrong mount or a wrong --node-name: this machine is not the node.
func TestMemoryThatIsNotTheNodesIsSaid(t *testing.T) {
	t.Parallel()
	const differs = "the memory that is read is not the node's capacity: check --host-root and --node-name"
	const unchecked = "whether the memory that is read is the node's could not be checked"
	for _, test := range []struct{ memory, want string }{
		{"25165824Ki", ""}, // as in machine
		{"24800000Ki", ""}, // the kubelet may reserve a little
		{"24000000Ki", differs},
		{"64Gi", differs},
		{"0", unchecked},
	} {
		t.Run(test.memory, func(t *testing.T) {
			t.Parallel()
			log := newJournal()
			flags := &runFlags{
				whereFlags: whereFlags{
					config: configFile(t, memoryOnly), nodeName: "node-1", hostRoot: machine(t),
					kubeconfig: kubeconfigFor(t, refusing()),
				},
				address: "127.0.0.1:0",
			}
			d := builtDaemon(t, flags, log)
			d.compareCapacity(&corev1.Node{Status: corev1.NodeStatus{
				Capacity: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(test.memory)},
			}})
			for _, message := range []string{differs, unchecked} {
				if said := strings.Contains(log.String(), message); said != (message == test.want) {
					t.Errorf("said %q: %v; want %q:\n%s", message, said, test.want, log)
				}
			}
		})
	}
}
