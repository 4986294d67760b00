package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/evictd/evictd/internal/wording"
	"github.com/evictd/evictd/pkg/pressure"
)

// ErrOtherKind is why a file is not a kubelet's configuration although it could be read:
// it says that it is something else.
var ErrOtherKind = errors.New("not a KubeletConfiguration")

// KubeletConfiguration is what a kubelet's configuration file says of evictions, with the
// kubelet's defaults for what it leaves out. The kubelet's flags win over its file and are
// not in it.
type KubeletConfiguration struct {
	// Files are the files that were read, drop-ins last.
	Files []string
	// Thresholds are hard before soft and without those that are switched off. No
	// threshold has a minimum reclaim here.
	Thresholds []pressure.Threshold
	// ImageGCHighPercent is the share of the image filesystem in use from which on the
	// kubelet deletes unused images; 100 is never, or not known.
	ImageGCHighPercent int
	// Unread has a sentence for each entry that could not be understood and counts for
	// nothing here; the kubelet would not start with most of them.
	Unread []string
}

// The kubelet's own names and defaults (k8s.io/kubernetes
// pkg/kubelet/apis/config/v1beta1/defaults.go; pkg/kubelet/eviction/defaults_linux.go).
const (
	kubeletGroup        = "kubelet.config.k8s.io/"
	kubeletKind         = "KubeletConfiguration"
	kubeletImageGCHigh  = 85
	kubeletImageGCNever = 100
	imageGCField        = "imageGCHighThresholdPercent"
	mergeField          = "mergeDefaultEvictionSettings"
	allocatableField    = "enforceNodeAllocatable"
)

func kubeletHardDefaults() map[string]any {
	return map[string]any{
		"memory.available":   "100Mi",
		"nodefs.available":   "10%",
		"nodefs.inodesFree":  "5%",
		"imagefs.available":  "15%",
		"imagefs.inodesFree": "5%",
	}
}

// ReadKubelet returns what the kubelet's configuration file at path says, and the drop-ins
// in the directory of the same name with .d at its end, where there is one. Unlike
// [Load] it passes over fields that it does not know: the file is the kubelet's. The error
// says that a file cannot be read or is no such configuration ([ErrOtherKind]); then
// nothing is known.
func ReadKubelet(path string) (*KubeletConfiguration, error) {
	tree, err := kubeletTree(path)
	if err != nil {
		return nil, err
	}
	fillDefaults(tree)
	read := &KubeletConfiguration{Files: []string{path}, ImageGCHighPercent: kubeletImageGCNever}
	dropIns, err := dropInsOf(path)
	if err != nil {
		return nil, err
	}
	for _, name := range dropIns {
		dropIn, err := kubeletTree(name)
		if err != nil {
			return nil, err
		}
		mergePatch(tree, dropIn)
		read.Files = append(read.Files, name)
	}
	read.take(tree)
	return read, nil
}

// DefaultKubelet returns what a kubelet does whose file writes nothing of evictions.
func DefaultKubelet() *KubeletConfiguration {
	tree := map[string]any{}
	fillDefaults(tree)
	k := &KubeletConfiguration{ImageGCHighPercent: kubeletImageGCNever}
	k.take(tree)
	return k
}

// ImageCollection returns below which share of the image filesystem the kubelet collects
// unused images, which it looks at every five minutes; zero is never. It begins when the used
// share, rounded up to a whole percent, reaches the mark (k8s.io/kubernetes
// pkg/kubelet/images/image_gc_manager.go, GarbageCollect).
func (k *KubeletConfiguration) ImageCollection() pressure.Quantity {
	if k.ImageGCHighPercent >= kubeletImageGCNever {
		return pressure.Quantity{}
	}
	return pressure.Fraction(float32(kubeletImageGCNever+1-k.ImageGCHighPercent) / kubeletImageGCNever)
}

// kubeletTree returns the file's values.
func kubeletTree(path string) (map[string]any, error) {
	tree, err := kubeletValues(path)
	if err != nil {
		return nil, fmt.Errorf("reading the kubelet's configuration %s: %w", path, err)
	}
	return tree, nil
}

func kubeletValues(path string) (map[string]any, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, errors.New("it is not a regular file")
	}
	data, err := read(path)
	if err != nil {
		return nil, err
	}
	return parseKubelet(data)
}

// parseKubelet returns the values of a kubelet's configuration, JSON or YAML.
func parseKubelet(data []byte) (map[string]any, error) {
	if err := checkText(data); err != nil {
		return nil, err
	}
	tree, err := valuesOf(data)
	switch {
	case errors.Is(err, errEmpty):
		return nil, errors.New("it is empty")
	case err != nil:
		return nil, err
	}
	version, kind := textOf(tree["apiVersion"]), textOf(tree["kind"])
	if kind != kubeletKind || !strings.HasPrefix(version, kubeletGroup) {
		return nil, fmt.Errorf("%w: it says apiVersion %q and kind %q", ErrOtherKind, shown(version), shown(kind))
	}
	return tree, nil
}

// shown is other people's text, on one line and not too long.
func shown(text string) string {
	return wording.OneLine(strings.ToValidUTF8(text[:min(len(text), longest)], ""))
}

// fillDefaults does what the kubelet does to its file before it merges the drop-ins into it
// (cmd/kubelet/app/server.go, loadConfigFile): no map at all means the defaults, a map means
// itself alone unless it is to be merged with them.
func fillDefaults(tree map[string]any) {
	defaults := kubeletHardDefaults()
	hard, given := tree[hardField].(map[string]any)
	merge, isBool := tree[mergeField].(bool)
	switch {
	case tree[hardField] == nil:
		tree[hardField] = defaults
	case given && isBool && merge:
		maps.Copy(defaults, hard)
		tree[hardField] = defaults
	}
}

// dropInsOf returns the drop-ins beside a file in the order in which the kubelet merges
// them (mergeKubeletConfigurations, same file).
func dropInsOf(path string) ([]string, error) {
	var names []string
	err := filepath.WalkDir(path+".d", func(name string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && filepath.Ext(name) == ".conf" {
			names = append(names, name)
		}
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("looking for the kubelet's drop-ins: %w", err)
	}
	return names, nil
}

// mergePatch changes a tree by a patch (RFC 7386): null removes, objects are merged,
// everything else replaces.
func mergePatch(tree, patch map[string]any) {
	for name, change := range patch {
		inner, object := change.(map[string]any)
		before, was := tree[name].(map[string]any)
		switch {
		case change == nil:
			delete(tree, name)
		case object && was:
			mergePatch(before, inner)
		case object:
			fresh := map[string]any{}
			mergePatch(fresh, inner)
			tree[name] = fresh
		default:
			tree[name] = change
		}
	}
}

// take reads the fields that matter.
func (k *KubeletConfiguration) take(tree map[string]any) {
	hard := k.texts(tree, hardField)
	for _, name := range slices.Sorted(maps.Keys(hard)) {
		k.add(hardField, name, hard[name], "0s")
	}
	soft, graces := k.texts(tree, softField), k.texts(tree, graceField)
	for _, name := range slices.Sorted(maps.Keys(soft)) {
		k.add(softField, name, soft[name], graces[name])
	}
	if podsAreEnforced(tree) {
		k.addAllocatable()
	}
	slices.SortStableFunc(k.Thresholds, hardFirst)
	k.takeImageGC(tree[imageGCField])
}

func (k *KubeletConfiguration) takeImageGC(v any) {
	if v == nil {
		k.ImageGCHighPercent = kubeletImageGCHigh
		return
	}
	number, isNumber := v.(json.Number)
	percent, err := strconv.Atoi(number.String())
	if !isNumber || err != nil || percent < 0 || percent > kubeletImageGCNever {
		k.Unread = append(k.Unread, imageGCField+" is not a number from 0 to 100")
		return
	}
	k.ImageGCHighPercent = percent
}

// texts returns a map of texts; what in it is no text counts for nothing.
func (k *KubeletConfiguration) texts(tree map[string]any, name string) map[string]string {
	given, isMap := tree[name].(map[string]any)
	if !isMap {
		if tree[name] != nil {
			k.Unread = append(k.Unread, name+" does not hold names and values")
		}
		return nil
	}
	texts := make(map[string]string, len(given))
	for _, entry := range slices.Sorted(maps.Keys(given)) {
		text, isText := given[entry].(string)
		if !isText {
			k.Unread = append(k.Unread, fmt.Sprintf("%s[%s] is not a text", name, shown(entry)))
			continue
		}
		texts[entry] = text
	}
	return texts
}

// add takes one threshold, with the grace period as the file writes it.
func (k *KubeletConfiguration) add(name, entry, text, grace string) {
	threshold, on, err := kubeletThreshold(entry, text)
	if err == nil && on {
		threshold.Grace, err = time.ParseDuration(grace)
		if err != nil || threshold.Grace < 0 {
			err = errors.New("its grace period is not a duration")
		}
	}
	switch {
	case err != nil:
		k.Unread = append(k.Unread, fmt.Sprintf("%s[%s]: %v", name, shown(entry), err))
	case on:
		threshold.Hard = threshold.Grace == 0
		k.Thresholds = append(k.Thresholds, threshold)
	}
}

// kubeletThreshold reads a threshold by the kubelet's grammar (parseThresholdStatement and
// parsePercentage, pkg/kubelet/eviction/helpers.go), and whether it can be met at all.
func kubeletThreshold(entry, text string) (_ pressure.Threshold, on bool, err error) {
	signal, err := pressure.ParseSignal(entry)
	if err != nil || signal == pressure.MemoryStall {
		return pressure.Threshold{}, false, errors.New("is no signal of the kubelet's")
	}
	if !strings.HasSuffix(text, "%") {
		amount, fault := parseAmount(text)
		if fault == nil && amount.absolute == 0 {
			fault = errors.New("must be above 0")
		}
		return pressure.Threshold{Signal: signal, Quantity: amount.quantity()}, fault == nil, fault
	}
	if text == "0%" || text == "100%" {
		return pressure.Threshold{}, false, nil
	}
	percent, err := strconv.ParseFloat(strings.TrimRight(text, "%"), 32)
	share := float32(percent) / 100
	if err != nil || !(share >= 0 && share <= 1) { // NaN is neither
		return pressure.Threshold{}, false, errors.New("is not a percentage from 0% to 100%")
	}
	return pressure.Threshold{Signal: signal, Quantity: pressure.Fraction(share)}, share > 0, nil
}

// podsAreEnforced reports whether the pods' cgroup has the limit that node allocatable
// asks for; unset means that it has.
func podsAreEnforced(tree map[string]any) bool {
	given, set := tree[allocatableField].([]any)
	return !set || slices.Contains(given, any("pods"))
}

// addAllocatable does what the kubelet does where the pods' cgroup has a limit: each hard
// threshold on memory.available is one on allocatableMemory.available too
// (ParseThresholdConfig, pkg/kubelet/eviction/helpers.go).
func (k *KubeletConfiguration) addAllocatable() {
	for _, t := range k.Thresholds {
		if t.Signal == pressure.MemoryAvailable && t.Hard {
			t.Signal = pressure.AllocatableMemoryAvailable
			k.Thresholds = append(k.Thresholds, t)
		}
	}
}
