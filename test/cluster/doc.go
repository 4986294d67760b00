// Package cluster runs a real Kubernetes on one Linux machine for tests: etcd,
// kube-apiserver and kube-controller-manager without any right, and with [Options.Node] also
// kube-scheduler, containerd and a kubelet, which need root.
//
// build.sh compiles them from their Go modules, [Start] runs them below one directory,
// [Cluster.Stop] leaves nothing of them behind. The processes end with the program
// that started them; the cgroups of a node whose program was killed go at the start of the next one.
//
//	c, err := cluster.Start(ctx, cluster.Options{Dir: t.TempDir(), BinDir: binDir})
//	if err != nil { … }
//	defer c.Stop(context.Background())
//	pods, err := c.Client().CoreV1().Pods("default").List(ctx, metav1.ListOptions{})
//
// Limits: one node, pods with hostNetwork only, no DNS, no kube-proxy, images only from tar
// files (see [WriteImage]).
package cluster
