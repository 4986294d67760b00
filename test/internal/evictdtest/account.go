package evictdtest

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/evictd/evictd/pkg/evict"
	"github.com/evictd/evictd/test/cluster"
)

// AccountName is the name of evictd's account in the shipped manifest, and of its namespace.
const AccountName = "evictd"

// AccountUser is evictd's account as a user.
const AccountUser = "system:serviceaccount:" + AccountName + ":" + AccountName

// Account is evictd's shipped account, with a namespace and two nodes. Account, role and policies are
// the cluster's: a test of it is not parallel, and removes what it adds.
type Account struct {
	*World
	Near, Far string // the nodes
	// Here is evictd's token on the near node, Nowhere one that names no node.
	Here, Nowhere *rest.Config
}

// NewAccount applies the account and its role.
func NewAccount(tb testing.TB) *Account {
	tb.Helper()
	a := &Account{World: NewWorld(tb)}
	a.Near, a.Far = a.Node, a.Node+"-far"
	a.AddNode(a.Far)
	a.Ship(Rights())
	a.Here, a.Nowhere = a.Token(a.running(a.Near)), a.Token(nil)
	return a
}

// Again has the same nodes and tokens with another namespace.
func (a *Account) Again(t *testing.T) *Account {
	t.Helper()
	another := *a
	another.World = NewWorld(t)
	return &another
}

// As returns a client with those credentials.
func (a *Account) As(config *rest.Config) kubernetes.Interface {
	a.T.Helper()
	return Client(a.T, config)
}

// PodOn makes a pod on one of the two nodes.
func (a *Account) PodOn(node, name string) *corev1.Pod {
	a.T.Helper()
	on := *a.World
	on.Node = node
	return on.Pod(name, 10)
}

// Allow gives the account additional rights, as an overlay would, until the end of the test: verbs and resources, with
// commas between.
func (a *Account) Allow(verbs, resources string) {
	a.T.Helper()
	name, ctx := "overlay-"+a.Namespace, a.T.Context()
	a.Kubectl(ctx, "", "create", "clusterrole", name, "--verb="+verbs, "--resource="+resources)
	a.Kubectl(ctx, "", "create", "clusterrolebinding", name, "--clusterrole="+name, "--serviceaccount="+AccountName+":"+AccountName)
	a.Undo(func(ctx context.Context) { a.Kubectl(ctx, "", "delete", "clusterrole,clusterrolebinding", name) })
}

// Confine applies the shipped policies, until the end of the test, and waits until each of them is in
// effect, which takes a moment.
func (a *Account) Confine() {
	a.T.Helper()
	theirs := RequestFor(a.PodOn(a.Far, "probe"))
	theirs.DryRun = true
	a.Ship(Policies())
	a.Unship(Policies())
	for policy, probe := range map[string]func(context.Context) string{
		"evictd-evicts-on-own-node": func(ctx context.Context) string {
			return Evictor(a.T, a.Here).Evict(ctx, theirs).Message
		},
		// Without a pod of that name the other policy does not apply.
		"evictd-on-own-node": func(ctx context.Context) string {
			return Evictor(a.T, a.Nowhere).Evict(ctx, evict.Request{Namespace: a.Namespace, Name: "absent", UID: "x", DryRun: true}).Message
		},
		"evictd-events-of-own-node": func(ctx context.Context) string {
			return fmt.Sprint(a.WriteEvent(ctx, a.Nowhere, "probe", func(*corev1.Event) {}))
		},
		// The administrator impersonates evictd, with a token that names no node.
		"evictd-taints-own-node": func(ctx context.Context) string {
			inItsName := Unlimited()
			inItsName.Impersonate = rest.ImpersonationConfig{UserName: AccountUser, Groups: []string{"system:masters"}}
			_, err := a.As(inItsName).CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "probe"}},
				metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			return fmt.Sprint(err)
		},
	} {
		a.Until("the policy "+policy+" is in force", func(ctx context.Context) bool {
			return strings.Contains(probe(ctx), "'"+policy+"'")
		})
	}
}

// WriteEvent writes an Event of the near node's evictd, with the change, as a dry run where its name is
// "probe".
func (a *Account) WriteEvent(ctx context.Context, as *rest.Config, name string, change func(*corev1.Event)) error {
	a.T.Helper()
	made := &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Name: name, Namespace: a.Namespace},
		InvolvedObject: corev1.ObjectReference{Kind: "Pod", APIVersion: "v1", Namespace: a.Namespace, Name: "web"},
		Source:         corev1.EventSource{Component: "evictd", Host: a.Near},
		Reason:         "EvictionRequested", Message: "one", Type: corev1.EventTypeWarning,
		ReportingController: "evictd", ReportingInstance: a.Near,
	}
	change(made)
	options := metav1.CreateOptions{}
	if name == "probe" {
		options.DryRun = []string{metav1.DryRunAll}
	}
	_, err := a.As(as).CoreV1().Events(made.Namespace).Create(ctx, made, options)
	return err //nolint:wrapcheck // the tests read the API server's own words
}

// running creates a pod as the DaemonSet would on a node; its token names that node.
func (a *Account) running(node string) *corev1.Pod {
	a.T.Helper()
	pod, err := a.Client.CoreV1().Pods(AccountName).Create(a.T.Context(), OwnPod(node), metav1.CreateOptions{})
	a.Must(err)
	a.Undo(func(ctx context.Context) { _ = a.Client.CoreV1().Pods(AccountName).Delete(ctx, pod.Name, AtOnce()) })
	return pod
}

// OwnPod is a pod of evictd itself, to be created on a node.
func OwnPod(node string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "evictd-"},
		Spec: corev1.PodSpec{
			NodeName: node, ServiceAccountName: AccountName, AutomountServiceAccountToken: new(false),
			Containers: []corev1.Container{{Name: "evictd", Image: "none"}},
		},
	}
}

// Token requests a token of the account as the kubelet does, bound to a pod, or to nothing.
func (a *Account) Token(pod *corev1.Pod) *rest.Config {
	a.T.Helper()
	config := rest.AnonymousClientConfig(Unlimited())
	token, err := Token(a.T.Context(), shared, pod)
	a.Must(err)
	config.BearerToken = token
	return config
}

// Token is [Account.Token] without a test.
func Token(ctx context.Context, c *cluster.Cluster, pod *corev1.Pod) (string, error) {
	arguments := []string{"--namespace=" + AccountName, "create", "token", AccountName}
	if pod != nil {
		arguments = append(arguments, "--bound-object-kind=Pod", "--bound-object-name="+pod.Name, "--bound-object-uid="+string(pod.UID))
	}
	token, err := c.Kubectl(ctx, "", arguments...)
	return strings.TrimSpace(token), err
}

// Evictor returns an evictor with those credentials.
func Evictor(tb testing.TB, config *rest.Config) *evict.Evictor {
	tb.Helper()
	return evict.New(Client(tb, config).CoreV1().RESTClient(), time.Now)
}

// RequestFor is the request to evict a pod.
func RequestFor(pod *corev1.Pod) evict.Request {
	return evict.Request{Namespace: pod.Namespace, Name: pod.Name, UID: string(pod.UID)}
}
