package cluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

func (c *Cluster) kubelet(options Options) (*component, error) {
	config := c.kubeletConfig()
	maps.Copy(config, options.Kubelet)
	content, err := yaml.Marshal(config)
	if err != nil {
		return nil, fmt.Errorf("encoding the kubelet's configuration: %w", err)
	}
	file := c.kubeletFile()
	if err := os.WriteFile(file, content, 0o600); err != nil {
		return nil, fmt.Errorf("writing the kubelet's configuration: %w", err)
	}
	return &component{
		name: kubeletName, inNode: true, probe: c.answers(c.url("http", kubeletzPort), "/healthz"),
		arguments: []string{
			"--config=" + file, "--kubeconfig=" + c.path("config", kubeletUser+".kubeconfig"),
			"--root-dir=" + kubeletRoot, "--hostname-override=" + NodeName,
			// With an external cloud provider the kubelet does not set the node's addresses:
			// it would refuse to report a loopback address itself.
			"--cloud-provider=external",
		},
	}, nil
}

func (c *Cluster) kubeletFile() string { return c.path("config", "kubelet.yaml") }

// SetKubelet replaces fields of the kubelet's configuration; one that is nil gets its default. It
// restarts the kubelet, but not its pods.
func (c *Cluster) SetKubelet(ctx context.Context, fields map[string]any) error {
	content, err := os.ReadFile(c.kubeletFile())
	if err != nil {
		return fmt.Errorf("reading the kubelet's configuration: %w", err)
	}
	config := map[string]any{}
	if err = yaml.Unmarshal(content, &config); err != nil {
		return fmt.Errorf("parsing the kubelet's configuration: %w", err)
	}
	maps.Copy(config, fields)
	if content, err = yaml.Marshal(config); err != nil {
		return fmt.Errorf("encoding the kubelet's configuration: %w", err)
	}
	if err = os.WriteFile(c.kubeletFile(), content, 0o600); err != nil {
		return fmt.Errorf("writing the kubelet's configuration: %w", err)
	}
	if err := c.StopProcess(ctx, kubeletName); err != nil {
		return err
	}
	return c.StartProcess(ctx, kubeletName)
}

func (c *Cluster) kubeletConfig() map[string]any {
	return map[string]any{
		"apiVersion": "kubelet.config.k8s.io/v1beta1",
		"kind":       "KubeletConfiguration",
		"address":    c.address(), "port": kubeletPort, "healthzBindAddress": c.address(), "healthzPort": kubeletzPort,
		"tlsCertFile": c.path("pki", localHost+".crt"), "tlsPrivateKeyFile": c.path("pki", localHost+".key"),
		"authentication": map[string]any{
			"anonymous": map[string]any{"enabled": false},
			// Short caches, so that a test that removes a right sees the effect.
			"webhook": map[string]any{"enabled": true, "cacheTTL": "1s"},
			"x509":    map[string]any{"clientCAFile": c.CA()},
		},
		"authorization": map[string]any{
			"mode":    "Webhook",
			"webhook": map[string]any{"cacheAuthorizedTTL": "1s", "cacheUnauthorizedTTL": "1s"},
		},
		"containerRuntimeEndpoint": "unix://" + containerdSocket,
		"cgroupDriver":             "cgroupfs", "cgroupRoot": c.node.cgroup, "failCgroupV1": false,
		"failSwapOn": false, "makeIPTablesUtilChains": false,
		"volumePluginDir": kubeletRoot + "/volume-plugins",
		"evictionHard":    map[string]string{"memory.available": "1Mi"},
		// At 100 the kubelet never deletes an image: there is no registry to pull it from.
		"imageGCHighThresholdPercent": 100, "imageGCLowThresholdPercent": 99, "imageMinimumGCAge": "24h",
	}
}

// join acts as a cloud provider: it reports the node's address and removes the taint that
// waits for that. Then it waits until the node is Ready and accepts pods.
func (c *Cluster) join(ctx context.Context) error {
	var last error
	err := pollFor(ctx, c.wait, func(ctx context.Context) (bool, error) {
		node, missing := c.client.CoreV1().Nodes().Get(ctx, NodeName, metav1.GetOptions{})
		if last = missing; last == nil {
			last = c.admit(ctx, node)
		}
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("waiting for the node to be ready: %w%s", errors.Join(err, last), c.tail(kubeletName))
	}
	say(c.options.Log, "Node %s is ready.", NodeName)
	return nil
}

const uninitializedTaint = "node.cloudprovider.kubernetes.io/uninitialized"

// admit takes the next step towards a node that accepts pods, and returns what is missing.
func (c *Cluster) admit(ctx context.Context, node *corev1.Node) error {
	addresses := []corev1.NodeAddress{
		{Type: corev1.NodeInternalIP, Address: c.address()},
		{Type: corev1.NodeHostName, Address: node.Name},
	}
	if len(node.Status.Addresses) != len(addresses) {
		node.Status.Addresses = addresses
		updated, err := c.client.CoreV1().Nodes().UpdateStatus(ctx, node, metav1.UpdateOptions{})
		if err != nil {
			return fmt.Errorf("reporting the node's address: %w", err)
		}
		node = updated
	}
	taints := len(node.Spec.Taints)
	node.Spec.Taints = slices.DeleteFunc(node.Spec.Taints, func(taint corev1.Taint) bool { return taint.Key == uninitializedTaint })
	if len(node.Spec.Taints) < taints {
		updated, err := c.client.CoreV1().Nodes().Update(ctx, node, metav1.UpdateOptions{})
		if err != nil {
			return fmt.Errorf("removing the node's taint: %w", err)
		}
		node = updated
	}
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady && condition.Status != corev1.ConditionTrue {
			return fmt.Errorf("node %s is not ready: %s", node.Name, condition.Message)
		}
	}
	if len(node.Spec.Taints) > 0 || len(node.Status.Conditions) == 0 {
		return fmt.Errorf("node %s still has taints: %v", node.Name, node.Spec.Taints)
	}
	return nil
}
