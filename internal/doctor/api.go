package doctor

import (
	"context"
	"fmt"
	"time"

	"github.com/evictd/evictd/pkg/pressure"
)

// API is the API server, with the credentials of the running evictd or those of a kubeconfig.
type API struct {
	// NodeName is --node-name.
	NodeName string
	// Server sends one request. The error says why there is no answer, and what to check.
	Server func(context.Context) (Server, error)
	// Node compares the Node with this machine.
	Node func(context.Context) (Node, error)
	// Account returns whose credentials these are.
	Account func(context.Context) (Account, error)
	// Rights are those that evictd needs with every configuration.
	Rights []Right
	// OptIns are the fields that need more rights and are set.
	OptIns []OptIn
	// Policies are the admission policies that confine evictd.
	Policies []Policy
	// Stop reads the ConfigMap that stops all agents.
	Stop func(context.Context) (Stop, error)
	// Summary reads the kubelet's Summary API, and whether by it images are on a filesystem that
	// evictd does not see; nil where it is not the source of the pods' disk use.
	Summary func(context.Context) (unseen bool, err error)
}

// Server is the API server's answer.
type Server struct {
	// Host is its address, Version Kubernetes' version.
	Host, Version string
	// Date is its clock, to the second; zero where the answer has none. Now is this machine's
	// clock at the same time.
	Date, Now time.Time
}

// Node is the Node beside this machine.
type Node struct {
	// Read is the machine's memory as evictd reads it, Reported that of the Node, in bytes.
	Read, Reported int64
	// Differ says that this is not the same machine.
	Differ bool
	// Err is why the two could not be compared; otherwise nil.
	Err error
}

// Account is the account that the API server sees.
type Account struct {
	// Name is the user's name.
	Name string
	// Service says that it is a service account.
	Service bool
	// Node is the node's name in the token's claims; "" where there is none.
	Node string
}

// The names of findings that have one line.
const (
	serverName = "api-server"
	clockName  = "clock"
	nodeName   = "node"
	tokenName  = "token"
)

// skewMost is how far the clocks may be apart, beside the second to which the server's is known.
const skewMost = 5 * time.Second

// server asks the API server once: whether it answers, and what time it is there.
func server(ctx context.Context, api *API) []Finding {
	answer, err := api.Server(ctx)
	if err != nil {
		return append([]Finding{{
			serverName, Missing, oneLine(err), "no pod is evicted", "check that it runs, that this machine reaches it, and the credentials",
		}}, unasked([]string{clockName})...)
	}
	return []Finding{
		fine(serverName, fmt.Sprintf("%s answers, Kubernetes %s", answer.Host, answer.Version)),
		clock(&answer),
	}
}

func clock(answer *Server) Finding {
	if answer.Date.IsZero() {
		return Finding{
			clockName, Unknown, "the API server's answer has no date", "times of Events and tokens may be wrong",
			"compare the clocks of this node and of the control plane",
		}
	}
	skew := answer.Now.Sub(answer.Date)
	direction := "ahead of"
	if skew < 0 {
		skew, direction = -skew, "behind"
	}
	if skew > skewMost+time.Second {
		return Finding{
			clockName, Degraded, fmt.Sprintf("this node is %v %s the API server", skew.Round(time.Second), direction),
			"times in Events and in the log are wrong, and tokens and certificates may count as expired or as not yet valid",
			"have both set their clocks by NTP",
		}
	}
	return fine(clockName, fmt.Sprintf("within %v of the API server's", skewMost))
}

func node(ctx context.Context, look func(context.Context) (Node, error)) Finding {
	const mib = 1 << 20
	seen, err := look(ctx)
	switch {
	case err != nil:
		return Finding{nodeName, Missing, oneLine(err), "evictd does not know its node, and evicts no pod for disk", "check --node-name, and the right to get nodes"}
	case seen.Err != nil:
		return Finding{
			nodeName, Unknown, "the Node is there; its memory cannot be compared with this machine's: " + oneLine(seen.Err),
			"evictd may watch another machine than it evicts from", "see signal/" + pressure.MemoryAvailable.String(),
		}
	case seen.Differ:
		return Finding{
			nodeName, Missing, fmt.Sprintf("the memory that is read has %d MiB, and the Node reports %d MiB", seen.Read/mib, seen.Reported/mib),
			"evictd watches another machine than it evicts from", "check --host-root and --node-name",
		}
	default:
		return fine(nodeName, fmt.Sprintf("the Node is there and reports this machine's memory, %d MiB", seen.Reported/mib))
	}
}

func token(ctx context.Context, look func(context.Context) (Account, error), nodeName string) Finding {
	const do = "run evictd as the DaemonSet of deploy/daemonset.yaml, on Kubernetes 1.30 or later"
	who, err := look(ctx)
	switch {
	case err != nil:
		return Finding{tokenName, Unknown, oneLine(err), "the policies may refuse every eviction", "check that the API server serves SelfSubjectReview (Kubernetes 1.28)"}
	case !who.Service:
		return Finding{
			tokenName, Degraded, "the credentials are those of " + who.Name + ", which is no service account",
			"the lines below are about that user, and not about evictd's account", "run evictd doctor in evictd's pod, by kubectl exec",
		}
	case who.Node == "":
		return Finding{tokenName, Missing, "the token of " + who.Name + " names no node", "the policies refuse every eviction and every Event", do}
	case who.Node != nodeName:
		return Finding{
			tokenName, Missing, fmt.Sprintf("the token of %s names node %s, and --node-name is %s", who.Name, who.Node, nodeName),
			"the policies refuse every eviction", "set --node-name to the node that the pod runs on",
		}
	default:
		return fine(tokenName, fmt.Sprintf("%s on node %s", who.Name, who.Node))
	}
}
