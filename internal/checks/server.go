package checks

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/evictd/evictd/pkg/evict"
	"github.com/evictd/evictd/pkg/pressure"
)

// server asks for the version, which every account may read.
func server(ctx context.Context, in *Inputs) Result {
	var answer struct {
		GitVersion string `json:"gitVersion"`
	}
	err := in.API.ask(ctx, request{http.MethodGet, "/version", ""}, &answer)
	if err == nil && answer.GitVersion == "" {
		err = fmt.Errorf("what answers at %s is not an API server: /version names no version", in.API.URL)
	}
	if err != nil {
		return missing(oneLine(err), "no pod is evicted", "check that it runs, that this machine reaches it, and the credentials")
	}
	return ok(fmt.Sprintf("%s answers, Kubernetes %s", in.API.URL, answer.GitVersion))
}

func node(ctx context.Context, in *Inputs) Result {
	const mib, tolerance = 1 << 20, 0.02 // the kubelet may reserve a little
	var node struct {
		Status struct{ Capacity map[string]resource.Quantity }
	}
	if err := in.API.ask(ctx, request{http.MethodGet, "/api/v1/nodes/" + in.NodeName, ""}, &node); err != nil {
		if evict.IsNotFound(err) {
			err = fmt.Errorf("the API server has no such node: %w", err)
		}
		return missing(oneLine(err), "evictd does not know its node, and evicts no pod for disk", "check --node-name, and the right to get nodes")
	}
	memory := node.Status.Capacity["memory"]
	seen, reported := in.Sample.Of(pressure.MemoryAvailable), memory.Value()
	err := seen.Err
	if err == nil && reported == 0 {
		err = errors.New("the node reports no capacity yet")
	}
	if err != nil {
		return unknown("the Node is there; its memory cannot be compared with this machine's: "+oneLine(err),
			"evictd may watch another machine than it evicts from", "see signal/"+pressure.MemoryAvailable.String())
	}
	if difference := float64(seen.Capacity-reported) / float64(reported); difference > tolerance || difference < -tolerance {
		return missing(fmt.Sprintf("the memory that is read has %d MiB, and the Node reports %d MiB", seen.Capacity/mib, reported/mib),
			"evictd watches another machine than it evicts from", "check --host-root and --node-name")
	}
	return ok(fmt.Sprintf("the Node is there and reports this machine's memory, %d MiB", reported/mib))
}

func token(ctx context.Context, in *Inputs) Result {
	const refuses = "the policies refuse every eviction"
	who, err := in.API.account(ctx)
	switch {
	case err != nil:
		return unknown(oneLine(err), "the policies may refuse every eviction", "check that the API server serves SelfSubjectReview (Kubernetes 1.28)")
	case !who.service():
		return degraded("the credentials are those of "+who.name+", which is no service account",
			"the lines below are about that user, and not about evictd's account", "run evictd doctor in evictd's pod, by kubectl exec")
	case who.node == "":
		return missing("the token of "+who.name+" names no node", refuses+" and every Event",
			"run evictd as the DaemonSet of deploy/daemonset.yaml, on Kubernetes 1.30 or later")
	case who.node != in.NodeName:
		return missing(fmt.Sprintf("the token of %s names node %s, and --node-name is %s", who.name, who.node, in.NodeName),
			refuses, "set --node-name to the node that the pod runs on")
	default:
		return ok(fmt.Sprintf("%s on node %s", who.name, who.node))
	}
}
