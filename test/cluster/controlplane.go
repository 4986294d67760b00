package cluster

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
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

// endpoints are the addresses of one cluster, chosen when it starts.
type endpoints struct {
	apiserver  string // the API server's address
	apiPort    int
	services   string // the network of the services' addresses
	serviceIP  string // the address of the service "kubernetes"
	etcdClient int
	etcdPeer   int
	controller int
	scheduler  int
	kubelet    int
	kubeletz   int // the kubelet's health
}

func (e endpoints) server() string {
	return "https://" + e.apiserver + ":" + strconv.Itoa(e.apiPort)
}

func (e endpoints) etcd() string {
	return "http://" + loopback + ":" + strconv.Itoa(e.etcdClient)
}

func chooseEndpoints(ctx context.Context, node bool) (endpoints, error) {
	var chosen endpoints
	wanted := []*int{
		&chosen.apiPort, &chosen.etcdClient, &chosen.etcdPeer,
		&chosen.controller, &chosen.scheduler, &chosen.kubelet, &chosen.kubeletz,
	}
	ports, err := freePorts(ctx, loopback, len(wanted))
	if err != nil {
		return chosen, err
	}
	for i, port := range ports {
		*wanted[i] = port
	}
	if !node {
		chosen.apiserver, chosen.services, chosen.serviceIP = loopback, "127.96.0.0/24", "127.96.0.1"
		return chosen, nil
	}
	chosen.services, chosen.serviceIP, err = freeServiceNetwork(ctx)
	chosen.apiserver, chosen.apiPort = chosen.serviceIP, httpsPort
	return chosen, err
}

// writeIdentities makes every key, certificate and kubeconfig of the cluster.
func (c *Cluster) writeIdentities(at endpoints) error {
	pki := c.path("pki")
	ca, err := NewAuthority(pki)
	if err != nil {
		return err
	}
	// The kubelet's certificate is signed by the same authority, so that a client that
	// trusts the cluster's authority can verify the kubelet, too.
	identities := map[string]Identity{
		apiserverHost: {User: "kube-apiserver", Hosts: []string{
			at.apiserver, at.serviceIP, loopback, "localhost",
			"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local",
		}},
		localHost:      {User: "localhost", Hosts: []string{loopback, "localhost", NodeName}},
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
		if err := writeKubeconfig(c.path("config", name+".kubeconfig"), at.server(), pki, name); err != nil {
			return err
		}
	}
	return writeKubeconfig(c.Kubeconfig(), at.server(), pki, adminUser)
}

func (c *Cluster) etcd(at endpoints) *component {
	peer := "http://" + loopback + ":" + strconv.Itoa(at.etcdPeer)
	return &component{name: "etcd", probe: at.etcd() + "/health", arguments: []string{
		"--name=evictd", "--data-dir=" + c.path("etcd"),
		"--listen-client-urls=" + at.etcd(), "--advertise-client-urls=" + at.etcd(),
		"--listen-peer-urls=" + peer, "--initial-advertise-peer-urls=" + peer, "--initial-cluster=evictd=" + peer,
		// A power failure may lose data that is discarded anyway.
		"--unsafe-no-fsync", "--log-level=warn",
	}}
}

func (c *Cluster) apiserver(at endpoints, options Options) (*component, error) {
	policy := c.path("config", "audit-policy.yaml")
	if err := os.WriteFile(policy, []byte(cmp.Or(options.AuditPolicy, auditPolicy)), 0o600); err != nil {
		return nil, fmt.Errorf("writing the audit policy: %w", err)
	}
	pki := func(name string) string { return c.path("pki", name) }
	return &component{name: "kube-apiserver", probe: at.server() + "/readyz", arguments: []string{
		"--etcd-servers=" + at.etcd(),
		"--bind-address=" + at.apiserver, "--secure-port=" + strconv.Itoa(at.apiPort), "--advertise-address=" + at.apiserver,
		// Endpoints must not be loopback addresses, and no traffic is routed to them here.
		"--endpoint-reconciler-type=none",
		"--service-cluster-ip-range=" + at.services,
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

func (c *Cluster) controllerManager(at endpoints) *component {
	return &component{
		name: "kube-controller-manager", probe: "https://" + loopback + ":" + strconv.Itoa(at.controller) + "/healthz",
		arguments: append(c.behindLoopback(controllerUser, at.controller),
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

func (c *Cluster) scheduler(at endpoints) *component {
	return &component{
		name: "kube-scheduler", probe: "https://" + loopback + ":" + strconv.Itoa(at.scheduler) + "/healthz",
		arguments: c.behindLoopback(schedulerUser, at.scheduler),
	}
}

// behindLoopback holds the flags that the controller manager and the scheduler share.
func (c *Cluster) behindLoopback(user string, port int) []string {
	return []string{
		"--kubeconfig=" + c.path("config", user+".kubeconfig"), "--leader-elect=false",
		"--bind-address=" + loopback, "--secure-port=" + strconv.Itoa(port),
		"--tls-cert-file=" + c.path("pki", localHost+".crt"), "--tls-private-key-file=" + c.path("pki", localHost+".key"),
	}
}

func (c *Cluster) startControlPlane(ctx context.Context, at endpoints, options Options) error {
	apiserver, err := c.apiserver(at, options)
	if err != nil {
		return err
	}
	// The controller manager exits when the API server is not ready yet.
	for _, each := range []*component{c.etcd(at), apiserver, c.controllerManager(at)} {
		if err = c.startComponent(ctx, each); err != nil {
			return err
		}
	}
	if c.rest, err = loadKubeconfig(c.Kubeconfig()); err != nil {
		return err
	}
	return c.awaitDefaults(ctx)
}

// awaitDefaults waits for what every pod needs: the first service account and the
// authority's certificate for its volume, both created by controllers.
func (c *Cluster) awaitDefaults(ctx context.Context) error {
	client, err := kubernetes.NewForConfig(c.rest)
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	err = pollFor(ctx, c.wait, func(ctx context.Context) (bool, error) {
		_, missingAccount := client.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{})
		_, missingCA := client.CoreV1().ConfigMaps(metav1.NamespaceDefault).Get(ctx, "kube-root-ca.crt", metav1.GetOptions{})
		return missingAccount == nil && missingCA == nil, nil
	})
	if err != nil {
		return fmt.Errorf("waiting for the default service account: %w%s", err, c.tail("kube-controller-manager"))
	}
	return nil
}
