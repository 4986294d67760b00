package doctor

import (
	"strings"

	"github.com/evictd/evictd/internal/kubeletconfig"
	"github.com/evictd/evictd/pkg/pressure"
)

// Kubelet is the kubelet's configuration beside evictd's.
type Kubelet struct {
	// Named says that --kubelet-config names the file.
	Named bool
	// Err is why the configuration is not known; otherwise nil. Then nothing was compared.
	Err error
	// Files are the files that were read, Unread what of them is not understood.
	Files, Unread []string
	// Compared is the comparison of the thresholds.
	Compared kubeletconfig.Result
}

// kubelet returns one line for the file, and one for each signal that was compared.
func kubelet(look func() Kubelet) []Finding {
	k := look()
	findings := []Finding{kubeletFile(&k)}
	if k.Err != nil {
		return findings
	}
	for _, signal := range k.Compared.Compared {
		findings = append(findings, kubeletThresholds(signal, k.Compared.Findings))
	}
	return findings
}

func kubeletFile(k *Kubelet) Finding {
	const name = "kubelet-config"
	const follows = "whether the kubelet evicts before evictd is not known, and evictd does not know when it would"
	const do = "mount the kubelet's file, as deploy/kubelet-config.patch.yaml does, and name it by --kubelet-config"
	switch {
	case k.Err != nil && k.Named:
		return Finding{name, Missing, oneLine(k.Err), follows, do}
	case k.Err != nil:
		return Finding{name, Degraded, oneLine(k.Err), follows, do}
	case len(k.Unread) > 0:
		return Finding{
			name, Degraded, strings.Join(k.Files, ", ") + ": " + strings.Join(k.Unread, "; "),
			"that is left out of the comparison", "check whether the kubelet reads and understands it; --kubelet-config names one place",
		}
	default:
		return fine(name, strings.Join(k.Files, ", "))
	}
}

// kubeletThresholds says whether evictd acts first for one signal.
func kubeletThresholds(signal pressure.Signal, all []kubeletconfig.Finding) Finding {
	result := fine("kubelet-thresholds/"+signal.String(), "evictd acts before the kubelet")
	var details []string
	for i := range all {
		if all[i].Signal != signal {
			continue
		}
		details = append(details, all[i].Detail)
		state, follows := inWords(all[i].Kind)
		if result.State != Missing { // the worst one counts
			result.State, result.Follows = state, follows
		}
	}
	if len(details) > 0 {
		result.Found = strings.Join(details, "; ")
		result.Do = "write the threshold that is named; docs/runbook.md, \"Beside the kubelet\""
	}
	return result
}

func inWords(kind kubeletconfig.Kind) (state State, follows string) {
	switch kind {
	case kubeletconfig.KubeletFirst:
		return Missing, "the kubelet evicts pods before evictd does"
	case kubeletconfig.KubeletMaybeFirst:
		return Degraded, "the kubelet may evict pods before evictd does"
	default:
		return Degraded, "the node stays short of space until the kubelet removes unused images"
	}
}
