package cluster

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// The kubeconfigs and certificates of the cluster, by the names of their files.
const (
	adminUser      = "admin"
	kubeletUser    = "kubelet"
	controllerUser = "controller-manager"
	schedulerUser  = "scheduler"
	apiserverHost  = "apiserver"
	localHost      = "localhost"     // the serving certificate of whatever listens on loopback
	kubeletClient  = "kubelet-admin" // the API server as the kubelet's client
)

const privilegedGroup = "system:masters"

// auditPolicy logs every request once, at its response; evictions with their request body.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Request
  resources: [{group: "", resources: [pods/eviction]}]
- level: Metadata
`

// address is that of all servers of the cluster.
func (c *Cluster) address() string { return c.network + ".1" }

func (c *Cluster) apiPort() int {
	if c.options.Node {
		return httpsPort
	}
	return apiserverPort
}

// url returns that of a server of the cluster.
func (c *Cluster) url(scheme string, port int) string {
	return scheme + "://" + net.JoinHostPort(c.address(), strconv.Itoa(port))
}

func (c *Cluster) server() string { return c.url("https", c.apiPort()) }

// writeIdentities makes every key, certificate and kubeconfig of the cluster.
func (c *Cluster) writeIdentities() error {
	pki := c.path("pki")
	ca, err := NewAuthority(pki)
	if err != nil {
		return err
	}
	// The kubelet's certificate is signed by the same authority, so that a client that
	// trusts the cluster's authority can verify the kubelet, too.
	identities := map[string]Identity{
		apiserverHost: {User: "kube-apiserver", Hosts: []string{
			c.address(), loopback, "localhost",
			"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local",
		}},
		localHost:      {User: "localhost", Hosts: []string{c.address(), NodeName}},
		adminUser:      {User: "admin", Groups: []string{privilegedGroup}},
		kubeletClient:  {User: "kube-apiserver-kubelet-client", Groups: []string{privilegedGroup}},
		kubeletUser:    {User: "system:node:" + NodeName, Groups: []string{"system:nodes"}},
		controllerUser: {User: "system:kube-controller-manager"},
		schedulerUser:  {User: "system:kube-scheduler"},
	}
	for name, holder := range identities {
		if err := ca.Issue(name, holder); err != nil {
			return err
		}
	}
	if _, err := writeKey(filepath.Join(pki, "service-accounts.key")); err != nil {
		return err
	}
	for _, name := range []string{kubeletUser, controllerUser, schedulerUser} {
		if err := writeKubeconfig(c.path("config", name+".kubeconfig"), c.server(), pki, name); err != nil {
			return err
		}
	}
	return writeKubeconfig(c.Kubeconfig(), c.server(), pki, adminUser)
}

func (c *Cluster) etcd() *component {
	client, peer := c.url("http", etcdPort), c.url("http", etcdPeerPort)
	return &component{name: "etcd", probe: c.answers(client, "/health"), arguments: []string{
		"--name=evictd", "--data-dir=" + c.path("etcd"),
		"--listen-client-urls=" + client, "--advertise-client-urls=" + client,
		"--listen-peer-urls=" + peer, "--initial-advertise-peer-urls=" + peer, "--initial-cluster=evictd=" + peer,
		// A power failure may lose data that is discarded anyway.
		"--unsafe-no-fsync", "--log-level=warn",
	}}
}

func (c *Cluster) apiserver(options Options) (*component, error) {
	policy := c.path("config", "audit-policy.yaml")
	if err := os.WriteFile(policy, []byte(cmp.Or(options.AuditPolicy, auditPolicy)), 0o600); err != nil {
		return nil, fmt.Errorf("writing the audit policy: %w", err)
	}
	pki := func(name string) string { return c.path("pki", name) }
	return &component{name: "kube-apiserver", probe: c.answers(c.server(), "/readyz"), arguments: []string{
		"--etcd-servers=" + c.url("http", etcdPort),
		"--bind-address=" + c.address(), "--secure-port=" + strconv.Itoa(c.apiPort()), "--advertise-address=" + c.address(),
		// Endpoints must not be loopback addresses, and no traffic is routed to them here.
		"--endpoint-reconciler-type=none",
		"--service-cluster-ip-range=" + c.network + ".0/24",
		"--tls-cert-file=" + pki(apiserverHost+".crt"), "--tls-private-key-file=" + pki(apiserverHost+".key"),
		"--client-ca-file=" + pki("ca.crt"),
		"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
		"--service-account-key-file=" + pki("service-accounts.key"),
		"--service-account-signing-key-file=" + pki("service-accounts.key"),
		"--kubelet-certificate-authority=" + pki("ca.crt"), "--kubelet-preferred-address-types=InternalIP",
		"--kubelet-client-certificate=" + pki(kubeletClient+".crt"), "--kubelet-client-key=" + pki(kubeletClient+".key"),
		"--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction", "--allow-privileged=true",
		"--audit-policy-file=" + policy, "--audit-log-path=" + c.AuditLog(), "--audit-log-maxsize=1000",
	}}, nil
}

func (c *Cluster) controllerManager() *component {
	return &component{
		name: "kube-controller-manager", probe: c.answers(c.url("https", controllerPort), "/healthz"),
		arguments: append(c.behindLoopback(controllerUser, controllerPort),
			"--use-service-account-credentials=true",
			"--service-account-private-key-file="+c.path("pki", "service-accounts.key"),
			"--root-ca-file="+c.path("pki", "ca.crt"),
			"--kube-api-qps=500", "--kube-api-burst=1000",
			// Tests create nodes without a kubelet. After the default of a minute every pod
			// on them would be marked as not ready.
			"--node-startup-grace-period=1h",
		),
	}
}

func (c *Cluster) scheduler() *component {
	return &component{
		name: "kube-scheduler", probe: c.answers(c.url("https", schedulerPort), "/healthz"),
		arguments: c.behindLoopback(schedulerUser, schedulerPort),
	}
}

// behindLoopback holds the flags that the controller manager and the scheduler share.
func (c *Cluster) behindLoopback(user string, port int) []string {
	return []string{
		"--kubeconfig=" + c.path("config", user+".kubeconfig"), "--leader-elect=false",
		"--bind-address=" + c.address(), "--secure-port=" + strconv.Itoa(port),
		"--tls-cert-file=" + c.path("pki", localHost+".crt"), "--tls-private-key-file=" + c.path("pki", localHost+".key"),
	}
}

func (c *Cluster) startControlPlane(ctx context.Context, options Options) error {
	apiserver, err := c.apiserver(options)
	if err != nil {
		return err
	}
	// The controller manager exits when the API server is not ready yet.
	for _, each := range []*component{c.etcd(), apiserver, c.controllerManager()} {
		if err = c.startComponent(ctx, each); err != nil {
			return err
		}
	}
	if c.rest, err = clientcmd.BuildConfigFromFlags("", c.Kubeconfig()); err != nil {
		return fmt.Errorf("loading the kubeconfig: %w", err)
	}
	c.rest.QPS = -1 // tests make many requests
	if c.client, err = kubernetes.NewForConfig(c.rest); err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	return c.awaitDefaults(ctx)
}

// awaitDefaults waits for what every pod needs: the first service account and the
// authority's certificate for its volume, both created by controllers.
func (c *Cluster) awaitDefaults(ctx context.Context) error {
	err := pollFor(ctx, c.wait, func(ctx context.Context) (bool, error) {
		_, missingAccount := c.client.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{})
		_, missingCA := c.client.CoreV1().ConfigMaps(metav1.NamespaceDefault).Get(ctx, "kube-root-ca.crt", metav1.GetOptions{})
		return missingAccount == nil && missingCA == nil, nil
	})
	if err != nil {
		return fmt.Errorf("waiting for the default service account: %w%s", err, c.tail("kube-controller-manager"))
	}
	return nil
}
