package kubeletconfig

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	kubelet "k8s.io/kubelet/config/v1beta1"
	"k8s.io/utils/ptr"

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
	// ImageCollection is the share of the image filesystem below which the kubelet deletes unused images,
	// which it looks at every five minutes; zero is never, or not known.
	ImageCollection pressure.Quantity
	// Unread has a sentence for each entry that could not be understood and is ignored here, with most of
	// which the kubelet would not start.
	Unread []string
}

// fillDefaults does what the kubelet does to its file before it merges the drop-ins into it
// (k8s.io/kubernetes cmd/kubelet/app/server.go, loadConfigFile): no map at all means the
// defaults (pkg/kubelet/eviction/defaults_linux.go), a map means itself alone unless it is to be merged with them.
func fillDefaults(c *kubelet.KubeletConfiguration) {
	if c.EvictionHard != nil && !ptr.Deref(c.MergeDefaultEvictionSettings, false) {
		return
	}
	all := map[string]string{
		"memory.available":   "100Mi",
		"nodefs.available":   "10%",
		"nodefs.inodesFree":  "5%",
		"imagefs.available":  "15%",
		"imagefs.inodesFree": "5%",
	}
	maps.Copy(all, c.EvictionHard)
	c.EvictionHard = all
}

// newConfiguration takes what matters of the kubelet's configuration.
func newConfiguration(c *kubelet.KubeletConfiguration, files []string) *Configuration {
	k := &Configuration{Files: files}
	k.addImageCollection(c.ImageGCHighThresholdPercent)
	for _, name := range slices.Sorted(maps.Keys(c.EvictionHard)) {
		k.add("evictionHard", name, c.EvictionHard[name], "0s")
	}
	for _, name := range slices.Sorted(maps.Keys(c.EvictionSoft)) {
		k.add("evictionSoft", name, c.EvictionSoft[name], c.EvictionSoftGracePeriod[name])
	}
	// Where the pods' cgroup has a limit, each hard threshold on memory.available is one on allocatableMemory.available
	// too (ParseThresholdConfig, pkg/kubelet/eviction/helpers.go).
	limited := c.EnforceNodeAllocatable == nil || slices.Contains(c.EnforceNodeAllocatable, "pods")
	for _, t := range k.Thresholds {
		if limited && t.Signal == pressure.MemoryAvailable && t.Hard {
			t.Signal = pressure.AllocatableMemoryAvailable
			k.Thresholds = append(k.Thresholds, t)
		}
	}
	slices.SortStableFunc(k.Thresholds, pressure.Threshold.Compare)
	return k
}

// addImageCollection takes the used share at which the collection of images begins; nil is the kubelet's default
// (pkg/kubelet/apis/config/v1beta1/defaults.go). The used share is rounded up to a whole percent before it is
// compared (k8s.io/kubernetes pkg/kubelet/images/image_gc_manager.go, GarbageCollect).
func (k *Configuration) addImageCollection(high *int32) {
	const whole, byDefault = 100, 85
	switch used := ptr.Deref(high, byDefault); {
	case used < 0 || used > whole:
		k.Unread = append(k.Unread, "imageGCHighThresholdPercent is not a number from 0 to 100")
	case used < whole:
		k.ImageCollection = pressure.Fraction(float32(whole+1-used) / whole)
	}
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
		k.Unread = append(k.Unread, fmt.Sprintf("%s[%.32q]: %v", name, entry, err))
		return
	}
	k.Thresholds = append(k.Thresholds, pressure.Threshold{Signal: signal, Quantity: quantity, Hard: wait == 0, Grace: wait})
}
