package plugin

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// containerName and portName are those of the shipped manifest.
	containerName = "evictd"
	portName      = "metrics"
	// defaultPort is what `evictd run` listens on by default.
	defaultPort = 9464
	// defaultBinary is where the image has evictd.
	defaultBinary = "/evictd"
	// pageSize is how many pods one answer of the API server holds at most; kubectl's.
	pageSize = 500
)

// agent is the pod of evictd's on one node.
type agent struct {
	node      string // "" while it is on none
	namespace string
	pod       string
	container string
	port      int32    // of its HTTP server
	binary    string   // the path of evictd in the container
	args      []string // of its `evictd run`
	// stopped says why it does not run; "" where it does.
	stopped string
}

// name is the pod as messages name it.
func (a *agent) name() string { return a.namespace + "/" + a.pod }

// agents returns evictd's pods, one for each node and by the nodes' names. With a node it returns
// that node's alone.
func (c *cluster) agents(ctx context.Context, node string) ([]agent, error) {
	pods, err := c.listPods(ctx, c.access.namespace, c.access.selector, node)
	if err != nil {
		return nil, c.explain("looking for evictd's pods", err, right{"list", "pods", c.access.namespace})
	}
	pods = slices.DeleteFunc(pods, func(pod corev1.Pod) bool { return !ofDaemonSet(&pod) })
	slices.SortStableFunc(pods, func(a, b corev1.Pod) int {
		return cmp.Or(strings.Compare(nodeOf(&a), nodeOf(&b)), newerFirst(&a, &b))
	})
	var found []agent
	for i := range pods {
		one := newAgent(&pods[i])
		if last := len(found) - 1; one.node != "" && last >= 0 && found[last].node == one.node {
			continue // it makes way for the one before
		}
		found = append(found, one)
	}
	if len(found) == 0 {
		where := fmt.Sprintf("namespace %s has no pod of a DaemonSet with the labels %s", c.access.namespace, c.access.selector)
		if node != "" {
			where = fmt.Sprintf("node %s has no such pod, or there is no such node: %s there", node, where)
		}
		return nil, fmt.Errorf("looking for evictd's pods: %s; name evictd's namespace if it has another", where)
	}
	return found, nil
}

// agentOn returns the agent of a node, which runs.
func (c *cluster) agentOn(ctx context.Context, node string) (*agent, error) {
	found, err := c.agents(ctx, node)
	if err != nil {
		return nil, err
	}
	one := &found[0]
	if one.stopped != "" {
		return nil, fmt.Errorf("node %s: its pod %s does not run: %s", node, one.name(), one.stopped)
	}
	return one, nil
}

// nodeOfPod returns the node of any pod.
func (c *cluster) nodeOfPod(ctx context.Context, namespace, name string) (string, error) {
	pod := &corev1.Pod{}
	err := c.core.Get().Namespace(namespace).Resource("pods").Name(name).Do(ctx).Into(pod)
	if err != nil {
		return "", c.explain("looking for the pod", err, right{"get", "pods", namespace})
	}
	if pod.Spec.NodeName == "" {
		return "", fmt.Errorf("pod %s/%s is on no node yet", namespace, name)
	}
	return pod.Spec.NodeName, nil
}

// listPods lists the pods of a namespace; "" as selector or node selects all.
func (c *cluster) listPods(ctx context.Context, namespace, selector, node string) ([]corev1.Pod, error) {
	var pods []corev1.Pod
	for next := ""; ; {
		request := c.core.Get().Namespace(namespace).Resource("pods").Param("limit", strconv.Itoa(pageSize))
		for parameter, value := range map[string]string{"labelSelector": selector, "continue": next} {
			if value != "" {
				request.Param(parameter, value)
			}
		}
		if node != "" {
			request.Param("fieldSelector", "spec.nodeName="+node)
		}
		page := &corev1.PodList{}
		if err := request.Do(ctx).Into(page); err != nil {
			return nil, err
		}
		pods = append(pods, page.Items...)
		if next = page.Continue; next == "" {
			return pods, nil
		}
	}
}

// ofDaemonSet tells evictd's agents from other pods with the same labels, such as a Job's.
func ofDaemonSet(pod *corev1.Pod) bool {
	owner := metav1.GetControllerOf(pod)
	return owner != nil && owner.Kind == "DaemonSet"
}

// nodeOf returns the node that a pod is on, or will be on: the DaemonSet controller writes it into
// the pod's affinity.
func nodeOf(pod *corev1.Pod) string {
	affinity := pod.Spec.Affinity
	if pod.Spec.NodeName != "" || affinity == nil || affinity.NodeAffinity == nil ||
		affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return pod.Spec.NodeName
	}
	for _, term := range affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
		for _, field := range term.MatchFields {
			if field.Key == metav1.ObjectNameField && len(field.Values) == 1 {
				return field.Values[0]
			}
		}
	}
	return ""
}

// newerFirst orders the pods of one node: during a rollout one terminates and one starts.
func newerFirst(a, b *corev1.Pod) int {
	switch {
	case (a.DeletionTimestamp == nil) != (b.DeletionTimestamp == nil):
		if a.DeletionTimestamp == nil {
			return -1
		}
		return 1
	default:
		return b.CreationTimestamp.Compare(a.CreationTimestamp.Time)
	}
}

func newAgent(pod *corev1.Pod) agent {
	a := agent{
		node: nodeOf(pod), namespace: pod.Namespace, pod: pod.Name,
		container: containerName, port: defaultPort, binary: defaultBinary, stopped: stoppedBy(pod),
	}
	containers := pod.Spec.Containers
	i := slices.IndexFunc(containers, func(c corev1.Container) bool { return c.Name == containerName })
	if i < 0 {
		return a
	}
	c := &containers[i]
	a.args = c.Args
	if len(c.Command) > 0 {
		a.binary, a.args = c.Command[0], slices.Concat(c.Command[1:], c.Args)
	}
	for _, port := range c.Ports {
		if port.Name == portName {
			a.port = port.ContainerPort
		}
	}
	return a
}

// stoppedBy says why evictd does not run in its pod; "" where it does, as far as the API server
// knows.
func stoppedBy(pod *corev1.Pod) string {
	for i := range pod.Status.ContainerStatuses {
		status := &pod.Status.ContainerStatuses[i]
		switch state := status.State; {
		case status.Name != containerName:
		case state.Waiting != nil:
			return cmp.Or(state.Waiting.Reason, "its container waits")
		case state.Terminated != nil:
			return fmt.Sprintf("its container ended: %s, exit code %d", cmp.Or(state.Terminated.Reason, "no reason given"), state.Terminated.ExitCode)
		}
	}
	if pod.Status.Phase == corev1.PodRunning {
		return ""
	}
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return fmt.Sprintf("it is not scheduled: %s", cmp.Or(c.Message, c.Reason))
		}
	}
	return "it is " + cmp.Or(string(pod.Status.Phase), "in no phase")
}
