package kubeletconfig

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubelet "k8s.io/kubelet/config/v1beta1"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

const (
	group = "kubelet.config.k8s.io/"
	kind  = "KubeletConfiguration"
	// maxFileBytes bounds the file: what is larger is some other file.
	maxFileBytes = 1 << 20
)

// Read returns what the kubelet's configuration file at path says, and the drop-ins in the
// directory of the same name with .d at its end, where there is one. Path may be a directory of
// drop-ins, as a kubelet has that gets --config-dir alone: then there are no defaults of
// thresholds, and with no drop-in in it nothing is known. Like the kubelet it
// passes over fields that it does not know, and understands nothing of a file in which a
// value has another type than its field. The error says that a file cannot be read or is no
// such configuration; then nothing is known. It is [fs.ErrNotExist] only where nothing has that name.
func Read(path string) (*Configuration, error) {
	base, files, dir := &kubelet.KubeletConfiguration{}, []string{path}, path+".d"
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		files, dir = nil, path
	} else if err := readFile(path, base); err != nil {
		return nil, err
	}
	dropIns, err := dropInsOf(dir)
	if err == nil && len(dropIns) > 0 {
		base, err = merge(base, dropIns)
	}
	if files = append(files, dropIns...); err == nil && len(files) == 0 {
		err = failed(path, errors.New("it is a directory without files that end with .conf"))
	}
	if err != nil {
		return nil, err
	}
	return newConfiguration(base, files), nil
}

// readFile reads the file that drop-ins are merged over.
func readFile(path string, into *kubelet.KubeletConfiguration) error {
	text, err := jsonOf(path)
	if err != nil {
		return err
	}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(text, into); err != nil {
		return failed(path, err)
	}
	fillDefaults(into)
	return nil
}

// Default returns what a kubelet does whose file writes nothing of evictions.
func Default() *Configuration {
	base := &kubelet.KubeletConfiguration{}
	fillDefaults(base)
	return newConfiguration(base, nil)
}

// jsonOf returns the file as JSON, by the conversion that the kubelet's loader uses.
func jsonOf(path string) ([]byte, error) {
	text, err := content(path)
	if err == nil {
		text, err = yaml.YAMLToJSON(text)
	}
	var head metav1.TypeMeta
	if err == nil {
		err = kjson.UnmarshalCaseSensitivePreserveInts(text, &head)
	}
	if err == nil && (head.Kind != kind || !strings.HasPrefix(head.APIVersion, group)) {
		err = fmt.Errorf("not a KubeletConfiguration: it says apiVersion %.32q and kind %.32q", head.APIVersion, head.Kind)
	}
	if err != nil {
		return nil, failed(path, err)
	}
	return text, nil
}

// content returns the file's content. A link without its target is there: the kubelet may see what it leads to.
func content(path string) ([]byte, error) {
	info, err := os.Stat(path)
	target, noLink := os.Readlink(path)
	switch {
	case noLink == nil && errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("it is a link to %q, which evictd does not find", target)
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, errors.New("it is not a regular file")
	case info.Size() > maxFileBytes:
		return nil, errors.New("it is larger than 1 MiB")
	}
	return os.ReadFile(filepath.Clean(path))
}

func failed(path string, err error) error {
	return fmt.Errorf("reading the kubelet's configuration %s: %w", path, err)
}

// dropInsOf returns the drop-ins in a directory in the order in which the kubelet merges them. It skips
// files with another ending, as the kubelet does.
func dropInsOf(dir string) (names []string, err error) {
	err = filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
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

// merge does what the kubelet does with its drop-ins (k8s.io/kubernetes
// cmd/kubelet/app/server.go, mergeKubeletConfigurations): each is a JSON merge patch of the
// configuration before it. It fills the defaults of everything but the thresholds once more.
func merge(base *kubelet.KubeletConfiguration, dropIns []string) (*kubelet.KubeletConfiguration, error) {
	merged, err := json.Marshal(base)
	if err != nil {
		return nil, err
	}
	for _, name := range dropIns {
		patch, err := jsonOf(name)
		if err != nil {
			return nil, err
		}
		if merged, err = jsonpatch.MergePatch(merged, patch); err != nil {
			return nil, failed(name, err)
		}
	}
	base = &kubelet.KubeletConfiguration{}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(merged, base); err != nil {
		return nil, failed(strings.Join(dropIns, ", "), err)
	}
	return base, nil
}
