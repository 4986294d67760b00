package kubeletconfig

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	kubelet "k8s.io/kubelet/config/v1beta1"

	"github.com/evictd/evictd/internal/config"
	"github.com/evictd/evictd/pkg/pressure"
)

// Configuration is what a kubelet's configuration file says of evictions, with the
// kubelet's defaults for what it leaves out. The kubelet's flags win over its file and are
// not in it.
type Configuration struct {
	// Files are the files that were read, drop-ins last.
	Files []string
	// Thresholds are hard before soft and without those that are switched off. No
	// threshold has a minimum reclaim here.
	Thresholds []pressure.Threshold
	// ImageGCHighPercent is the share of the image filesystem in use from which on the
	// kubelet deletes unused images; 100 is never, or not known.
	ImageGCHighPercent int
	// Unread has a sentence for each entry that could not be understood and is ignored here, and
	// for what else is there and was not read; the kubelet would not start with most of the first.
	Unread []string
}

// The kubelet's defaults (k8s.io/kubernetes pkg/kubelet/apis/config/v1beta1/defaults.go).
const (
	imageGCHigh  = 85
	imageGCNever = 100
)

// hardDefaults are the kubelet's (k8s.io/kubernetes pkg/kubelet/eviction/defaults_linux.go).
func hardDefaults() map[string]string {
	return map[string]string{
		"memory.available":   "100Mi",
		"nodefs.available":   "10%",
		"nodefs.inodesFree":  "5%",
		"imagefs.available":  "15%",
		"imagefs.inodesFree": "5%",
	}
}

// fillDefaults does what the kubelet does to its file before it merges the drop-ins into it
// (k8s.io/kubernetes cmd/kubelet/app/server.go, loadConfigFile): no map at all means the
// defaults, a map means itself alone unless it is to be merged with them.
func fillDefaults(c *kubelet.KubeletConfiguration) {
	switch {
	case c.EvictionHard == nil:
		c.EvictionHard = hardDefaults()
	case c.MergeDefaultEvictionSettings != nil && *c.MergeDefaultEvictionSettings:
		all := hardDefaults()
		maps.Copy(all, c.EvictionHard)
		c.EvictionHard = all
	}
}

// newConfiguration takes what matters of the kubelet's configuration.
func newConfiguration(c *kubelet.KubeletConfiguration, files []string) *Configuration {
	k := &Configuration{Files: files, ImageGCHighPercent: imageGCHigh}
	for _, name := range slices.Sorted(maps.Keys(c.EvictionHard)) {
		k.add("evictionHard", name, c.EvictionHard[name], "0s")
	}
	for _, name := range slices.Sorted(maps.Keys(c.EvictionSoft)) {
		k.add("evictionSoft", name, c.EvictionSoft[name], c.EvictionSoftGracePeriod[name])
	}
	if c.EnforceNodeAllocatable == nil || slices.Contains(c.EnforceNodeAllocatable, "pods") {
		k.addAllocatable()
	}
	slices.SortStableFunc(k.Thresholds, config.HardFirst)
	if high := c.ImageGCHighThresholdPercent; high != nil {
		k.ImageGCHighPercent = int(*high)
	}
	if k.ImageGCHighPercent < 0 || k.ImageGCHighPercent > imageGCNever {
		k.ImageGCHighPercent = imageGCNever
		k.Unread = append(k.Unread, "imageGCHighThresholdPercent is not a number from 0 to 100")
	}
	return k
}

// ImageCollection returns below which share of the image filesystem the kubelet collects
// unused images, which it looks at every five minutes; zero is never. It begins when the used
// share, rounded up to a whole percent, reaches the mark (k8s.io/kubernetes
// pkg/kubelet/images/image_gc_manager.go, GarbageCollect).
func (k *Configuration) ImageCollection() pressure.Quantity {
	if k.ImageGCHighPercent >= imageGCNever {
		return pressure.Quantity{}
	}
	return pressure.Fraction(float32(imageGCNever+1-k.ImageGCHighPercent) / imageGCNever)
}

// add takes one threshold, with the grace period as the file writes it.
func (k *Configuration) add(name, entry, text, grace string) {
	signal, err := pressure.ParseSignal(entry)
	if own, has := signal.Kubelets(); err != nil || !has || own != signal {
		err = errors.New("is no signal of the kubelet's")
	}
	var quantity pressure.Quantity
	if err == nil {
		quantity, err = config.ParseThreshold(text)
	}
	if err == nil && quantity.IsZero() {
		return
	}
	wait, bad := time.ParseDuration(grace)
	if err == nil && (bad != nil || wait < 0) {
		err = errors.New("its grace period is not a duration")
	}
	if err != nil {
		k.Unread = append(k.Unread, fmt.Sprintf("%s[%s]: %v", name, shown(entry), err))
		return
	}
	k.Thresholds = append(k.Thresholds, pressure.Threshold{Signal: signal, Quantity: quantity, Hard: wait == 0, Grace: wait})
}

// addAllocatable does what the kubelet does where the pods' cgroup has a limit: each hard
// threshold on memory.available is one on allocatableMemory.available too
// (ParseThresholdConfig, pkg/kubelet/eviction/helpers.go).
func (k *Configuration) addAllocatable() {
	for _, t := range k.Thresholds {
		if t.Signal == pressure.MemoryAvailable && t.Hard {
			t.Signal = pressure.AllocatableMemoryAvailable
			k.Thresholds = append(k.Thresholds, t)
		}
	}
}
